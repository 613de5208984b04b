//! Errors as RFC 9457 `application/problem+json`: what, where, what to do. Nothing of the inside gets out: what the asker
//! can do nothing about is in the log, under the id that the answer names.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use satiety_engine::operations::CallError;
use satiety_engine::{EngineError, ErrorCategory};
use schemars::JsonSchema;
use serde::Serialize;

/// What a request would cost, and what it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cost {
    /// What the request was estimated to cost, in units of about a millisecond of one processor.
    pub estimated: u64,
    /// What it may cost: the limit of one request, or what the caller has left.
    pub limit: u64,
}

// Its texts are boxed, because every `Result` of this crate has room for one.
/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// What kind of problem it is: `urn:satiety:problem:` and a word.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The kind, for people.
    pub title: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// What is wrong with this request.
    pub detail: Box<str>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Box<str>>,
    /// Where in the request body: a JSON path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Box<str>>,
    /// What the request would cost, where it would cost too much.
    #[serde(flatten)]
    pub cost: Option<Box<Cost>>,
    /// What tells this request from others, also in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Box<str>>,
    /// Seconds to wait before another attempt makes sense.
    #[serde(skip)]
    pub retry_after: Option<u16>,
    /// What is said to the log and to nobody else.
    #[serde(skip)]
    pub inside: Option<Box<String>>,
}

impl Problem {
    /// A problem of this status.
    pub fn new(status: StatusCode, detail: impl Into<Box<str>>) -> Self {
        let (kind, title) = kind(status);
        Self {
            kind,
            title,
            status: status.as_u16(),
            detail: detail.into(),
            hint: None,
            at: None,
            cost: None,
            request_id: None,
            retry_after: None,
            inside: None,
        }
    }

    /// With what to do about it.
    pub fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the seconds after which to try again.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(u16::try_from(seconds).unwrap_or(u16::MAX));
        self
    }

    /// With the place in the request.
    pub fn at(mut self, place: impl Into<Box<str>>) -> Self {
        self.at = Some(place.into());
        self
    }

    /// Something that went wrong inside.
    pub fn inside(what: impl Into<String>) -> Self {
        let mut problem = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "something went wrong inside the server; its log says what, under this request's id",
        );
        problem.inside = Some(Box::new(what.into()));
        problem
    }

    /// There is no such thing.
    pub fn not_found(what: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    /// A request that cannot be understood.
    pub fn bad_request(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// A request that was understood and makes no sense.
    pub fn unprocessable(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// A request that is not allowed.
    pub fn forbidden(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// As it is sent.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // A few texts and numbers can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// The kind and the title of a status.
fn kind(status: StatusCode) -> (&'static str, &'static str) {
    match status.as_u16() {
        400 => ("urn:satiety:problem:malformed", "The request cannot be read"),
        401 => ("urn:satiety:problem:unauthenticated", "A valid token is needed"),
        403 => ("urn:satiety:problem:forbidden", "This is not allowed"),
        404 => ("urn:satiety:problem:not_there", "There is no such thing"),
        405 => ("urn:satiety:problem:method", "This method does nothing here"),
        408 => (
            "urn:satiety:problem:slow_request",
            "The request took too long to arrive",
        ),
        409 => (
            "urn:satiety:problem:conflict",
            "This does not fit with what is there",
        ),
        413 => ("urn:satiety:problem:too_large", "The request is too large"),
        415 => ("urn:satiety:problem:media_type", "The request must be JSON"),
        421 => (
            "urn:satiety:problem:misdirected",
            "This server does not answer to that name",
        ),
        422 => ("urn:satiety:problem:unacceptable", "The request makes no sense"),
        429 => ("urn:satiety:problem:too_many", "Too many requests"),
        503 => ("urn:satiety:problem:unavailable", "This cannot be done just now"),
        _ => ("urn:satiety:problem:internal", "Something went wrong inside"),
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let error = match error {
            EngineError::Call(CallError::Host(problem)) => {
                return match problem.downcast::<Self>() {
                    Ok(problem) => *problem,
                    Err(other) => Self::inside(other.to_string()),
                };
            }
            error => error,
        };
        let said = error.to_string();
        let cost = match &error {
            EngineError::TooCostly { estimated, limit, .. } => Some((*estimated, *limit)),
            EngineError::BudgetSpent { estimated, left, .. } => Some((*estimated, *left)),
            _ => None,
        };
        let retry_after = match &error {
            EngineError::BudgetSpent { retry_after, .. } => Some(*retry_after),
            EngineError::Overloaded => Some(1),
            EngineError::Cancelled => Some(5),
            _ => None,
        };
        let category = error.category();
        match category {
            ErrorCategory::Internal => return Self::inside(said),
            ErrorCategory::Unavailable if retry_after.is_none() => {
                let mut problem = Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the store or a model does not answer; nothing was acknowledged",
                )
                .retry_after(1);
                problem.inside = Some(Box::new(said));
                return problem;
            }
            _ => {}
        }
        let status = StatusCode::from_u16(category.http_status());
        let mut problem = Self::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), said);
        problem.cost = cost.map(|(estimated, limit)| Box::new(Cost { estimated, limit }));
        if let Some(seconds) = retry_after {
            problem = problem.retry_after(seconds);
        }
        if let EngineError::Call(CallError::Invalid { place, .. }) = &error {
            problem = problem.at(place.as_str());
        }
        match error.hint_without_flags() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        Self::from(EngineError::from(error))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == 401 {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"satiety\""),
            );
        }
        // The guard, which knows the request's id, finds it here, writes it again and tells the log.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_inside_stays_inside() {
        let problem = Problem::inside("postgres://me@host/db: password wrong");
        let text = serde_json::to_string(&problem).unwrap_or_default();
        assert!(!text.contains("postgres"), "{text}");
        assert!(text.contains("urn:satiety:problem:internal"), "{text}");
    }

    #[test]
    fn the_asker_is_told_what_to_do() {
        let error = EngineError::NotThere {
            what: "conversation `x`".into(),
            hint: "begin it".into(),
        };
        let problem = Problem::from(error);
        assert_eq!((problem.status, problem.hint.as_deref()), (404, Some("begin it")));
        assert_eq!(&*problem.detail, "not found: conversation `x`");
    }
}
