//! A part of a configuration laid over the whole of it, so that nothing in the part can be ignored: a knob that does not
//! exist is an error that names those that do.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Why a part does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// A knob that does not exist.
    #[error("`{knob}` is no knob of the pipeline; there are {known}")]
    Unknown {
        /// What was named.
        knob: String,
        /// What could have been.
        known: String,
    },
    /// A value that its knob cannot have.
    #[error("`{knob}` cannot be set so: {reason}")]
    Value {
        /// The knob.
        knob: String,
        /// Why.
        reason: String,
    },
}

/// `base` with everything that `change` names set so. Objects are gone into as long as the change names only what is
/// there; one that names something else (another variant of a choice) takes the place of what was there.
pub fn overridden<T: Serialize + DeserializeOwned>(
    base: &T,
    change: &Map<String, Value>,
) -> Result<T, OverrideError> {
    let wrong = |knob: &str, reason: String| OverrideError::Value {
        knob: knob.into(),
        reason,
    };
    let whole = serde_json::to_value(base).map_err(|error| wrong("pipeline", error.to_string()))?;
    let Value::Object(mut merged) = whole else {
        return Err(wrong("pipeline", "it has no knobs".into()));
    };
    for (knob, value) in change {
        let known = merged.keys().cloned().collect::<Vec<_>>().join(", ");
        let Some(place) = merged.get_mut(knob) else {
            return Err(OverrideError::Unknown {
                knob: knob.clone(),
                known,
            });
        };
        lay_over(place, value);
    }
    let built: T = serde_path_to_error::deserialize(Value::Object(merged)).map_err(|error| {
        let path = error.path().to_string();
        wrong(&path, error.into_inner().to_string())
    })?;
    // What was read must say what was asked: a field that is skipped or rounded away would be a silent lie.
    let read = serde_json::to_value(&built).map_err(|error| wrong("pipeline", error.to_string()))?;
    let asked = Value::Object(change.clone());
    match lost(&asked, &read, "") {
        Some(knob) => Err(wrong(&knob, "it was not understood".into())),
        None => Ok(built),
    }
}

fn lay_over(place: &mut Value, change: &Value) {
    match (place, change) {
        (Value::Object(old), Value::Object(new)) if new.keys().all(|key| old.contains_key(key)) => {
            for (key, value) in new {
                if let Some(inner) = old.get_mut(key) {
                    lay_over(inner, value);
                }
            }
        }
        (place, change) => *place = change.clone(),
    }
}

/// The first path of `asked` that `read` does not have.
fn lost(asked: &Value, read: &Value, path: &str) -> Option<String> {
    let missing = || Some(path.to_owned());
    match (asked, read) {
        (Value::Object(asked), Value::Object(read)) => asked.iter().find_map(|(key, value)| {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            match read.get(key) {
                Some(found) => lost(value, found, &path),
                None => Some(path),
            }
        }),
        (Value::Number(asked), Value::Number(read)) => {
            // 1 and 1.0 are the same, and a float of 32 bits keeps seven digits.
            let same = asked
                .as_f64()
                .zip(read.as_f64())
                .is_some_and(|(a, b)| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()));
            if same { None } else { missing() }
        }
        (asked, read) if asked == read => None,
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
    fn what_is_not_named_stays() {
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
        // Within the variant in force a part is enough; another one must be whole.
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
    fn nothing_is_ignored() {
        for (change, expected) in [
            (
                json!({"lambda": 1}),
                "`lambda` is no knob of the pipeline; there are choice, inner, limit",
            ),
            (
                json!({"inner": {"lamda": 1}}),
                "`inner` cannot be set so: missing field",
            ),
            (
                json!({"inner": {"lambda": 1, "floor": 1, "more": 2}}),
                "`inner.more` cannot be set so: it was not understood",
            ),
            (
                json!({"inner": {"lambda": "much"}}),
                "`inner.lambda` cannot be set so: invalid type",
            ),
            (
                json!({"choice": "other"}),
                "`choice` cannot be set so: unknown variant",
            ),
            (json!({"limit": -1}), "`limit` cannot be set so: invalid value"),
        ] {
            let message = with(change.clone()).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{change}: {message}");
        }
    }
}
