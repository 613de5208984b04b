//! Applies partial overrides to a configuration. An unknown key is an error that lists the known ones, so no
//! override is silently ignored.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reason why an override cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// The key does not exist.
    #[error("unknown pipeline key `{knob}` (expected one of: {known})")]
    Unknown {
        /// Key that was given.
        knob: String,
        /// Keys that exist, comma-separated.
        known: String,
    },
    /// The value is not valid for its key.
    #[error("cannot set `{knob}`: {reason}")]
    Value {
        /// Path of the key.
        knob: String,
        /// Reason why the value is invalid.
        reason: String,
    },
}

/// Returns `base` with all overrides of `change` applied. Objects are merged recursively as long as the
/// change names only existing keys; an object with another key (another variant of an enum) replaces the
/// existing value.
pub fn overridden<T: Serialize + DeserializeOwned>(
    base: &T,
    change: &Map<String, Value>,
) -> Result<T, OverrideError> {
    let value_error = |knob: &str, reason: String| OverrideError::Value {
        knob: knob.into(),
        reason,
    };
    let base_value =
        serde_json::to_value(base).map_err(|error| value_error("pipeline", error.to_string()))?;
    let Value::Object(mut merged) = base_value else {
        return Err(value_error(
            "pipeline",
            "the configuration is not an object".into(),
        ));
    };
    for (knob, value) in change {
        let known = merged.keys().cloned().collect::<Vec<_>>().join(", ");
        let Some(place) = merged.get_mut(knob) else {
            return Err(OverrideError::Unknown {
                knob: knob.clone(),
                known,
            });
        };
        merge_override(place, value);
    }
    let built: T = serde_path_to_error::deserialize(Value::Object(merged)).map_err(|error| {
        let path = error.path().to_string();
        value_error(&path, error.into_inner().to_string())
    })?;
    // The result must contain every requested value: a field that is skipped or rounded would be ignored
    // silently.
    let read = serde_json::to_value(&built).map_err(|error| value_error("pipeline", error.to_string()))?;
    let requested = Value::Object(change.clone());
    match find_lost(&requested, &read, "") {
        Some(knob) => Err(value_error(&knob, "the value was not accepted".into())),
        None => Ok(built),
    }
}

fn merge_override(place: &mut Value, change: &Value) {
    match (place, change) {
        (Value::Object(old), Value::Object(new)) if new.keys().all(|key| old.contains_key(key)) => {
            for (key, value) in new {
                if let Some(inner) = old.get_mut(key) {
                    merge_override(inner, value);
                }
            }
        }
        (place, change) => *place = change.clone(),
    }
}

/// Returns the first path of `requested` whose value `read` does not have.
fn find_lost(requested: &Value, read: &Value, path: &str) -> Option<String> {
    let missing = || Some(path.to_owned());
    match (requested, read) {
        (Value::Object(requested), Value::Object(read)) => requested.iter().find_map(|(key, value)| {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            match read.get(key) {
                Some(found) => find_lost(value, found, &path),
                None => Some(path),
            }
        }),
        (Value::Number(requested), Value::Number(read)) => {
            // 1 equals 1.0, and a 32-bit float keeps seven digits.
            let same = requested
                .as_f64()
                .zip(read.as_f64())
                .is_some_and(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()));
            if same { None } else { missing() }
        }
        (requested, read) if requested == read => None,
        _ => missing(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        Plain,
        Ranked { k: u32 },
        Mixed { k: u32, share: f64 },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Inner {
        lambda: f64,
        floor: f32,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Whole {
        choice: Choice,
        inner: Inner,
        limit: Option<usize>,
    }

    fn base() -> Whole {
        Whole {
            choice: Choice::Mixed { k: 1, share: 0.5 },
            inner: Inner {
                lambda: 0.7,
                floor: 0.85,
            },
            limit: None,
        }
    }

    fn with(change: Value) -> Result<Whole, OverrideError> {
        let Value::Object(change) = change else {
            panic!("an object")
        };
        overridden(&base(), &change)
    }

    #[test]
    fn unnamed_keys_keep_their_values() {
        assert_eq!(with(json!({})).unwrap(), base());
        let found = with(json!({"inner": {"floor": 0.3}, "limit": 7})).unwrap();
        assert_eq!(
            found,
            Whole {
                inner: Inner {
                    lambda: 0.7,
                    floor: 0.3
                },
                limit: Some(7),
                ..base()
            }
        );
        assert_eq!(with(json!({"choice": "plain"})).unwrap().choice, Choice::Plain);
        // Within the active variant partial overrides suffice; another variant must be complete.
        assert_eq!(
            with(json!({"choice": {"mixed": {"k": 9}}})).unwrap().choice,
            Choice::Mixed { k: 9, share: 0.5 }
        );
        assert_eq!(
            with(json!({"choice": {"ranked": {"k": 60}}})).unwrap().choice,
            Choice::Ranked { k: 60 }
        );
    }

    #[test]
    fn unknown_keys_and_values_are_errors() {
        for (change, expected) in [
            (
                json!({"lambda": 1}),
                "unknown pipeline key `lambda` (expected one of: choice, inner, limit)",
            ),
            (
                json!({"inner": {"lamda": 1}}),
                "cannot set `inner`: missing field",
            ),
            (
                json!({"inner": {"lambda": 1, "floor": 1, "more": 2}}),
                "cannot set `inner.more`: the value was not accepted",
            ),
            (
                json!({"inner": {"lambda": "much"}}),
                "cannot set `inner.lambda`: invalid type",
            ),
            (json!({"choice": "other"}), "cannot set `choice`: unknown variant"),
            (json!({"limit": -1}), "cannot set `limit`: invalid value"),
        ] {
            let message = with(change.clone()).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{change}: {message}");
        }
    }
}
