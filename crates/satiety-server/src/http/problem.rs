//! Errors as RFC 9457 `application/problem+json`: error, location, hint. Internal details stay in the log,
//! under the request id that the response contains.

use std::num::NonZeroU32;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use satiety_engine::operations::CallError;
use satiety_engine::{EngineError, ErrorCategory};
use schemars::JsonSchema;
use serde::Serialize;

/// Estimated cost of a request and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cost {
    /// Estimated cost of the request, in units of about a millisecond of one processor.
    pub estimated: u64,
    /// Limit of one request, or the remaining budget of the caller.
    pub limit: u64,
}

// Texts are boxed to keep every `Result` of this crate small.
/// Error response in the problem details format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Kind of problem: `urn:satiety:problem:` and a word.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Short title of the kind of problem.
    pub title: &'static str,
    /// HTTP status of the response.
    pub status: u16,
    /// Description of what is wrong with this request.
    pub detail: Box<str>,
    /// Suggested action to fix the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Box<str>>,
    /// JSON path of the error in the request body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Box<str>>,
    /// Cost of a request that was too expensive.
    #[serde(flatten)]
    pub cost: Option<Box<Cost>>,
    /// Id of the request, also in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Box<str>>,
    /// Seconds to wait before the next attempt.
    #[serde(skip)]
    pub retry_after: Option<NonZeroU32>,
    /// Internal detail, logged and never sent.
    #[serde(skip)]
    pub internal: Option<Box<String>>,
}

impl Problem {
    /// Creates a problem with this status.
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
            internal: None,
        }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the seconds to wait before a retry.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = NonZeroU32::new(u32::try_from(seconds).unwrap_or(u32::MAX).max(1));
        self
    }

    /// Adds the location in the request body.
    pub fn at(mut self, place: impl Into<Box<str>>) -> Self {
        self.at = Some(place.into());
        self
    }

    /// Internal error, whose detail is only logged.
    pub fn internal(what: impl Into<String>) -> Self {
        let mut problem = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal server error; see the server's log for this request id",
        );
        problem.internal = Some(Box::new(what.into()));
        problem
    }

    /// Not found (404).
    pub fn not_found(what: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, what)
    }

    /// Malformed request (400).
    pub fn bad_request(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Well-formed but invalid request (422).
    pub fn unprocessable(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// Forbidden (403).
    pub fn forbidden(detail: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// Serialized body of the response.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Serializing texts and numbers cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Status, type and title of every kind of problem.
pub fn problem_types() -> impl Iterator<Item = (u16, &'static str, &'static str)> {
    let statuses = [
        400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429, 500, 503, 507,
    ];
    statuses.into_iter().filter_map(|status| {
        let (kind, title) = kind(StatusCode::from_u16(status).ok()?);
        Some((status, kind, title))
    })
}

/// Kind and title of a status. Statuses that an operation can return have the title of its category.
fn kind(status: StatusCode) -> (&'static str, &'static str) {
    let (kind, category) = match status.as_u16() {
        400 => return ("urn:satiety:problem:malformed", "Bad request"),
        401 => return ("urn:satiety:problem:unauthenticated", "Unauthorized"),
        405 => return ("urn:satiety:problem:method", "Method not allowed"),
        408 => return ("urn:satiety:problem:slow_request", "Request timeout"),
        415 => return ("urn:satiety:problem:media_type", "Unsupported media type"),
        421 => return ("urn:satiety:problem:misdirected", "Misdirected request"),
        403 => ("urn:satiety:problem:forbidden", ErrorCategory::Forbidden),
        404 => ("urn:satiety:problem:not_there", ErrorCategory::NotFound),
        409 => ("urn:satiety:problem:conflict", ErrorCategory::Conflict),
        413 => ("urn:satiety:problem:too_large", ErrorCategory::TooLarge),
        422 => ("urn:satiety:problem:unacceptable", ErrorCategory::Invalid),
        429 => ("urn:satiety:problem:too_many", ErrorCategory::RateLimited),
        503 => ("urn:satiety:problem:unavailable", ErrorCategory::Unavailable),
        507 => ("urn:satiety:problem:out_of_storage", ErrorCategory::OutOfStorage),
        _ => ("urn:satiety:problem:internal", ErrorCategory::Internal),
    };
    (kind, category.title())
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let error = match error {
            EngineError::Call(CallError::Host(problem)) => {
                return match problem.downcast::<Self>() {
                    Ok(problem) => *problem,
                    Err(other) => Self::internal(other.to_string()),
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
        let category = error.category();
        let retry_after = match &error {
            EngineError::BudgetSpent { retry_after, .. } => Some(*retry_after),
            EngineError::QuotaExceeded { exceeded, .. } => exceeded.retry_after,
            EngineError::Cancelled => Some(5),
            _ => category.is_retryable().then_some(1),
        };
        match (category, &error) {
            (ErrorCategory::Internal, _) => return Self::internal(said),
            // These messages have no internal details.
            (_, EngineError::Overloaded | EngineError::Cancelled) => {}
            (ErrorCategory::Unavailable, _) => {
                let mut problem = Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the store or a model is unavailable; the request was not acknowledged",
                )
                .retry_after(1);
                problem.internal = Some(Box::new(said));
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
        match error.hint() {
            Some(hint) => problem.hint(hint.action()),
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
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.get()));
        }
        if self.status == 401 {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"satiety\""),
            );
        }
        // The guard knows the request id: it finds the problem here, adds the id and logs it.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_errors_are_not_exposed() {
        let problem = Problem::internal("postgres://me@host/db: password wrong");
        let text = serde_json::to_string(&problem).unwrap_or_default();
        assert!(!text.contains("postgres"), "{text}");
        assert!(text.contains("urn:satiety:problem:internal"), "{text}");
    }

    #[test]
    fn client_errors_have_a_hint() {
        let error = EngineError::NotFound {
            what: "conversation `x`".into(),
            hint: "begin it".into(),
        };
        let problem = Problem::from(error);
        assert_eq!((problem.status, problem.hint.as_deref()), (404, Some("begin it")));
        assert_eq!(&*problem.detail, "conversation `x` not found");
    }
}
