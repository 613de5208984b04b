//! JSON Schema validation of answers (cargo feature `json-schema`). Only this module depends on the
//! validator.

use serde_json::Value;

/// Checks that a value is a JSON Schema supported by this build.
#[cfg(feature = "json-schema")]
pub(super) fn check(schema: &Value) -> Result<(), String> {
    match jsonschema::validator_for(schema) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("is not a valid JSON Schema: {error}")),
    }
}

/// Validates an answer against a schema; the error names the first part that does not match.
#[cfg(feature = "json-schema")]
pub(super) fn validate(schema: &Value, answer: &Value) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    validator.validate(answer).map_err(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the answer" } else { &place };
        format!("{place}: {error}")
    })
}

#[cfg(not(feature = "json-schema"))]
const MISSING: &str =
    "requires JSON Schema matching, which is not in this build (cargo feature `json-schema`)";

#[cfg(not(feature = "json-schema"))]
pub(super) fn check(_: &Value) -> Result<(), String> {
    Err(MISSING.to_owned())
}

#[cfg(not(feature = "json-schema"))]
pub(super) fn validate(_: &Value, _: &Value) -> Result<(), String> {
    Err(MISSING.to_owned())
}
