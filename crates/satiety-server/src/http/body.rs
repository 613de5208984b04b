//! Reading what is sent: JSON alone, not too large, not too deep, with the place of what is wrong.

use axum::http::{HeaderMap, StatusCode, header};
use satiety_engine::operations::whole_numbers;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::Problem;

/// How deep JSON may be: no request of ours comes near it.
const DEEPEST: usize = 64;

/// What a route takes as its body.
pub(crate) trait FromBody: Sized + Send {
    /// Its schema; none where there is no body.
    fn schema(generator: &mut SchemaGenerator) -> Option<Schema>;
    /// Reads it.
    fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Self, Problem>;
}

/// No body.
pub(crate) struct NoBody;

impl FromBody for NoBody {
    fn schema(_: &mut SchemaGenerator) -> Option<Schema> {
        None
    }

    fn read(_: &HeaderMap, _: &[u8]) -> Result<Self, Problem> {
        Ok(Self)
    }
}

/// A body of JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema + Send> FromBody for Json<T> {
    fn schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }

    fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Self, Problem> {
        check_format(headers, bytes)?;
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let value = serde_path_to_error::deserialize(&mut deserializer);
        // JSON has one kind of number, and `3.0` is the whole number 3 to everybody but the types.
        if let Err(error) = &value
            && error.inner().is_data()
            && error.inner().to_string().contains("floating point")
            && let Ok(mut whole) = serde_json::from_slice::<Value>(bytes)
        {
            whole_numbers(&mut whole);
            if let Ok(value) = serde_json::from_value(whole) {
                return Ok(Self(value));
            }
        }
        let value = value.map_err(|error| {
            let place = error.path().to_string();
            let inner = error.into_inner();
            let problem = if inner.is_data() {
                Problem::unprocessable(inner.to_string())
            } else {
                Problem::bad_request(format!("the body is not JSON: {inner}"))
            };
            problem.at(place)
        })?;
        deserializer
            .end()
            .map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?;
        Ok(Self(value))
    }
}

/// Reads a body that is a JSON object.
pub(crate) fn read_object(headers: &HeaderMap, bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    check_format(headers, bytes)?;
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Problem::unprocessable("the body must be a JSON object").at(".")),
        Err(error) => Err(Problem::bad_request(format!("the body is not JSON: {error}"))),
    }
}

/// Refuses what is not marked as JSON or is nested too deep.
fn check_format(headers: &HeaderMap, bytes: &[u8]) -> Result<(), Problem> {
    // Also a guard: a page elsewhere cannot send this type without asking the browser, which asks us.
    if !is_json(headers) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body is not marked as application/json",
        )
        .hint("send it with the header `Content-Type: application/json`"));
    }
    if is_too_deep(bytes) {
        return Err(Problem::bad_request(format!(
            "the JSON is nested deeper than {DEEPEST} levels"
        )));
    }
    Ok(())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// Whether brackets outside of strings nest too deeply; looks at the bytes once and allocates nothing.
pub(crate) fn is_too_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > DEEPEST {
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
    fn the_place_of_what_is_wrong_is_named() {
        #[derive(Debug, serde::Deserialize, JsonSchema)]
        struct Inner {
            #[expect(dead_code, reason = "only read")]
            count: u32,
        }
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            axum::http::HeaderValue::from_static("application/json; charset=utf-8"),
        );
        let read = |text: &str| Json::<Vec<Inner>>::read(&headers, text.as_bytes()).err();
        let problem = read("[{\"count\": 1}, {\"count\": -1}]").map(|problem| (problem.status, problem.at));
        assert_eq!(problem, Some((422, Some("[1].count".into()))));
        assert_eq!(
            read("[{\"count\": 1}] x").map(|problem| problem.status),
            Some(400)
        );
        assert_eq!(read("[").map(|problem| problem.status), Some(400));
        assert_eq!(read("[]").map(|problem| problem.status), None);
    }
}
