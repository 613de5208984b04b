//! Request body parsing: JSON, and protobuf for exported spans, with limits of size and depth.

use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value};

use super::problem::Problem;

/// Maximum nesting depth of JSON, far above what any request needs.
const MAX_DEPTH: usize = 64;

/// Parses a body that must be a JSON object.
pub(crate) fn read_object(headers: &HeaderMap, bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    check_format(headers, bytes)?;
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Problem::unprocessable("the body must be a JSON object").at(".")),
        Err(error) => Err(Problem::bad_request(format!(
            "cannot parse the body as JSON: {error}"
        ))),
    }
}

/// Rejects bodies that are not declared as JSON or nested too deeply.
fn check_format(headers: &HeaderMap, bytes: &[u8]) -> Result<(), Problem> {
    // Also protects against forged requests: a foreign page cannot send this type without a CORS preflight.
    if !is_json(headers) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the content type must be application/json",
        )
        .hint("send the header `Content-Type: application/json`"));
    }
    if is_too_deep(bytes) {
        return Err(Problem::bad_request(format!(
            "the JSON is nested deeper than {MAX_DEPTH} levels"
        )));
    }
    Ok(())
}

/// Parses an OTLP export in protobuf into the fields of its JSON form.
#[cfg(feature = "otel")]
pub(crate) fn read_export(bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message as _;

    let export = ExportTraceServiceRequest::decode(bytes)
        .map_err(|error| Problem::bad_request(format!("cannot parse the body as an OTLP export: {error}")))?;
    match serde_json::to_value(export) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Problem::bad_request("the OTLP export has no JSON form")),
    }
}

/// Rejects protobuf in builds without OpenTelemetry.
#[cfg(not(feature = "otel"))]
pub(crate) fn read_export(_bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "this build of satiety receives spans as JSON only",
    )
    .hint("set the exporter's protocol to `http/json`, or build with the feature `otel`"))
}

pub(crate) fn is_protobuf(headers: &HeaderMap) -> bool {
    content_type(headers).eq_ignore_ascii_case("application/x-protobuf")
}

fn is_json(headers: &HeaderMap) -> bool {
    content_type(headers).eq_ignore_ascii_case("application/json")
}

/// The content type without its parameters.
fn content_type(headers: &HeaderMap) -> &str {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

/// Whether brackets outside of strings nest too deeply; one pass without allocation.
pub(crate) fn is_too_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(nested(64).as_bytes()));
        assert!(is_too_deep(nested(65).as_bytes()));
        assert!(!is_too_deep(format!("\"{}\"", "[".repeat(100)).as_bytes()));
        assert!(!is_too_deep(format!("\"\\\"{}\"", "[".repeat(100)).as_bytes()));
        assert!(!is_too_deep("[]".repeat(100).as_bytes()));
    }

    #[test]
    fn only_json_objects_with_a_json_content_type_are_accepted() {
        let mut headers = HeaderMap::new();
        let status = |headers: &HeaderMap, text: &str| {
            read_object(headers, text.as_bytes())
                .err()
                .map(|problem| problem.status)
        };
        assert_eq!(status(&headers, "{}"), Some(415));
        headers.insert(
            header::CONTENT_TYPE,
            axum::http::HeaderValue::from_static("application/json; charset=utf-8"),
        );
        assert_eq!(status(&headers, "{}"), None);
        assert_eq!(status(&headers, "[]"), Some(422));
        assert_eq!(status(&headers, "{} x"), Some(400));
        assert_eq!(status(&headers, "{"), Some(400));
    }
}
