//! JSON Path queries (RFC 9535) on answers: the only place that knows the library (cargo feature `json-path`).

use serde_json::Value;

/// Checks that a text is a JSON Path that this build can apply.
#[cfg(feature = "json-path")]
pub(super) fn check(path: &str) -> Result<(), String> {
    match serde_json_path::JsonPath::parse(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("is no JSON path: {error}")),
    }
}

/// Selects the nodes of an answer.
#[cfg(feature = "json-path")]
pub(super) fn select<'a>(path: &str, answer: &'a Value) -> Result<Vec<&'a Value>, String> {
    let parsed = serde_json_path::JsonPath::parse(path).map_err(|error| error.to_string())?;
    Ok(parsed.query(answer).all())
}

#[cfg(not(feature = "json-path"))]
const MISSING: &str = "needs JSON Path matching, which this build leaves out (cargo feature `json-path`)";

#[cfg(not(feature = "json-path"))]
pub(super) fn check(_: &str) -> Result<(), String> {
    Err(MISSING.to_owned())
}

#[cfg(not(feature = "json-path"))]
pub(super) fn select<'a>(_: &str, _: &'a Value) -> Result<Vec<&'a Value>, String> {
    Err(MISSING.to_owned())
}
