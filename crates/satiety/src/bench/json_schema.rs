//! JSON Schema matching of answers: the only place that knows the validator (cargo feature `json-schema`).

use serde_json::Value;

/// Checks that a value is a JSON Schema that this build can apply.
#[cfg(feature = "json-schema")]
pub(super) fn check(schema: &Value) -> Result<(), String> {
    match jsonschema::validator_for(schema) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("is no JSON Schema: {error}")),
    }
}

/// Holds an answer against a schema; the error names the first part that differs.
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
const MISSING: &str = "needs JSON Schema matching, which this build leaves out (cargo feature `json-schema`)";

#[cfg(not(feature = "json-schema"))]
pub(super) fn check(_: &Value) -> Result<(), String> {
    Err(MISSING.to_owned())
}

#[cfg(not(feature = "json-schema"))]
pub(super) fn validate(_: &Value, _: &Value) -> Result<(), String> {
    Err(MISSING.to_owned())
}
