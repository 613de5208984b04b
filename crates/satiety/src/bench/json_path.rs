//! JSON Path queries (RFC 9535) on answers (cargo feature `json-path`). Only this module depends on the JSON
//! Path library.

use serde_json::Value;

/// Checks that a string is a JSON Path supported by this build.
#[cfg(feature = "json-path")]
pub(super) fn check(path: &str) -> Result<(), String> {
    match serde_json_path::JsonPath::parse(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("is not a valid JSON Path: {error}")),
    }
}

/// Selects nodes of an answer.
#[cfg(feature = "json-path")]
pub(super) fn select<'a>(path: &str, answer: &'a Value) -> Result<Vec<&'a Value>, String> {
    let parsed = serde_json_path::JsonPath::parse(path).map_err(|error| error.to_string())?;
    Ok(parsed.query(answer).all())
}

#[cfg(not(feature = "json-path"))]
const MISSING: &str = "requires JSON Path matching, which is not in this build (cargo feature `json-path`)";

#[cfg(not(feature = "json-path"))]
pub(super) fn check(_: &str) -> Result<(), String> {
    Err(MISSING.to_owned())
}

#[cfg(not(feature = "json-path"))]
pub(super) fn select<'a>(_: &str, _: &'a Value) -> Result<Vec<&'a Value>, String> {
    Err(MISSING.to_owned())
}
