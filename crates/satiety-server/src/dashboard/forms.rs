//! Forms of the pages. A form calls the operation that clients call over HTTP, with its scope and its checks, and leads
//! back to a page. What needs a signature has no operation, so no form can do it.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use satiety_report::html::{Html, escape, joined};
use serde_json::Value;

use super::{ErrorPage, shell};
use crate::auth::{Caller, Scope, permit};
use crate::http::{App, Problem};

/// Who looks at a page.
#[derive(Debug, Clone)]
pub(super) struct Visitor(Option<Caller>);

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get().cloned()))
    }
}

impl Visitor {
    /// Whether the visitor has at least this scope; forms that need more are not shown.
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.0.as_ref().is_some_and(|caller| caller.scope >= scope)
    }

    /// Returns an error page unless the visitor has at least this scope.
    pub(super) fn require(&self, scope: Scope) -> Result<(), ErrorPage> {
        permit(self.0.as_ref(), scope)?;
        Ok(())
    }

    /// Whether the visitor may not see what the cases of a suite expect.
    pub(super) fn hides_expectations(&self, app: &Arc<App>, suite_id: &str) -> bool {
        app.call(self.0.as_ref()).hides_expectations(suite_id)
    }

    /// Calls an operation for the visitor.
    pub(super) async fn perform(
        &self,
        app: &Arc<App>,
        operation: &str,
        fields: Value,
    ) -> Result<Value, ErrorPage> {
        let operation = crate::http::operations::find(operation)
            .ok_or_else(|| Problem::internal(format!("operation {operation} is missing")))?;
        permit(self.0.as_ref(), operation.scope)?;
        let work = operation
            .start(app.call(self.0.as_ref()), &fields)
            .map_err(|error| app.redact(error))?;
        let _writing = app.writing();
        let bytes = work.await.map_err(|error| app.redact(error))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Problem::internal(format!("cannot read a response: {error}")).into())
    }
}

impl From<Problem> for ErrorPage {
    fn from(problem: Problem) -> Self {
        if let Some(internal) = &problem.internal {
            tracing::error!("{internal}");
        }
        Self {
            status: StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            words: problem.detail.into(),
            hint: problem.hint.map(Into::into),
        }
    }
}

/// Leads back to a page after a form was submitted, so that reloading does not submit it again.
pub(super) fn back_to(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// A form that changes something.
pub(super) struct Form<'a> {
    pub(super) action: String,
    /// Fields that are not shown.
    pub(super) hidden: Vec<(&'a str, String)>,
    pub(super) fields: Vec<Html>,
    pub(super) button: &'a str,
}

impl Form<'_> {
    pub(super) fn render(&self) -> Html {
        let hidden = self.hidden.iter().map(|(name, value)| hidden(name, value));
        Html(format!(
            "<form class=\"line\" method=\"post\" action=\"{}\">{}{}<button>{}</button></form>",
            escape(&self.action),
            joined(&hidden.collect::<Vec<_>>()),
            joined(&self.fields),
            escape(self.button)
        ))
    }
}

pub(super) fn hidden(name: &str, value: &str) -> Html {
    Html(format!(
        "<input type=\"hidden\" name=\"{}\" value=\"{}\">",
        escape(name),
        escape(value)
    ))
}

/// Field for the name of the person; the browser remembers it.
pub(super) fn name_field(name: &str) -> Html {
    Html(format!(
        "<label>Your name<input name=\"{}\" required maxlength=\"64\" size=\"12\" autocomplete=\"username\" \
         data-remember=\"name\"></label>",
        escape(name)
    ))
}

/// Field for a line of text.
pub(super) fn text_field(name: &str, label: &str, max: usize) -> Html {
    Html(format!(
        "<label class=\"grow\">{}<input name=\"{}\" required maxlength=\"{max}\"></label>",
        escape(label),
        escape(name)
    ))
}

/// Choice of one value, with the words for each.
pub(super) fn choice_field(name: &str, label: &str, options: &[(&str, &str)]) -> Html {
    let options = options
        .iter()
        .map(|(value, words)| format!("<option value=\"{}\">{}</option>", escape(value), escape(words)));
    Html(format!(
        "<label>{}<select name=\"{}\">{}</select></label>",
        escape(label),
        escape(name),
        options.collect::<String>()
    ))
}

/// Optional whole number from 1.
pub(super) fn count_field(name: &str, label: &str, max: usize) -> Html {
    Html(format!(
        "<label>{}<input type=\"number\" name=\"{}\" min=\"1\" max=\"{max}\"></label>",
        escape(label),
        escape(name)
    ))
}

/// Whole number of a form; an empty field is absent.
pub(super) fn optional_count(text: Option<&str>) -> Result<Option<u32>, ErrorPage> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let parsed = text.parse().map(Some);
    parsed
        .map_err(|_| ErrorPage::invalid_field(&format!("`{}` is not a whole number", shell::short_id(text))))
}
