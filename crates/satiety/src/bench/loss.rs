//! Parts of an imported file that the result does not have. An import is lossless or says what it lost, with
//! the place, so that a suite never checks less than its author believes.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A part of an imported file that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ImportLoss")]
pub struct Loss {
    /// Path in the file, such as `tests[3].options.transform`; `[]` stands for several entries.
    pub place: String,
    /// Why it was not taken over.
    pub reason: String,
    /// Whether verdicts may differ without it.
    pub decides: bool,
    /// Number of times that it occurs.
    pub count: u64,
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.reason)?;
        if self.count > 1 {
            write!(formatter, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// Collects losses; the same loss at the same place is counted, not repeated.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    found: BTreeMap<(String, String, bool), u64>,
}

impl Losses {
    /// Records a loss that cannot change a verdict.
    pub(super) fn push(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        *self
            .found
            .entry((place.into(), reason.into(), false))
            .or_default() += 1;
    }

    /// Records a loss that may change a verdict.
    pub(super) fn push_deciding(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        *self.found.entry((place.into(), reason.into(), true)).or_default() += 1;
    }

    /// Records every key that is not `known` and has a value.
    pub(super) fn unknown_keys(&mut self, prefix: &str, fields: &Map<String, Value>, known: &[&str]) {
        for (key, value) in fields {
            let is_empty = match value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            if !known.contains(&key.as_str()) && !is_empty {
                self.push(format!("{prefix}{key}"), "not imported");
            }
        }
    }

    /// All losses, those that decide first.
    pub(super) fn into_vec(self) -> Vec<Loss> {
        let mut list: Vec<Loss> = self
            .found
            .into_iter()
            .map(|((place, reason, decides), count)| Loss {
                place,
                reason,
                decides,
                count,
            })
            .collect();
        list.sort_by_key(|loss| !loss.decides);
        list
    }
}
