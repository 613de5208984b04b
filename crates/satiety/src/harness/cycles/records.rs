//! Records in the specification's namespaces: keys, tags and retention. Nothing here stores them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Aggregate, CycleError, CycleSnapshot, json};

/// Key of the rolling window.
pub const AGGREGATE_KEY: &str = "eval-harness/saturation/aggregate";

const CYCLES: &str = "eval-harness/saturation/cycles/";
const EXPANSIONS: &str = "eval-harness/saturation/expansions/";

/// Value to be stored under a key, with the specification's tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Key of the record.
    pub key: String,
    /// Content of the record.
    pub value: Value,
    /// Tags of the record, such as `x-intent` and `x-namespace`.
    pub tags: BTreeMap<String, String>,
}

/// Returns the key of a cycle; fails if the id is invalid.
pub fn cycle_key(cycle_id: &str) -> Result<String, CycleError> {
    check_id(cycle_id).map(|()| format!("{CYCLES}{cycle_id}"))
}

/// Returns the key of an expansion; fails if the id is invalid.
pub fn expansion_key(expansion_id: &str) -> Result<String, CycleError> {
    check_id(expansion_id).map(|()| format!("{EXPANSIONS}{expansion_id}"))
}

/// Returns the retention of a record in days; `None` means permanently.
pub fn retention_days(key: &str) -> Option<u32> {
    key.starts_with(CYCLES).then_some(90)
}

/// Checks that an id is a single segment of a key.
pub(super) fn check_id(id: &str) -> Result<(), CycleError> {
    let fits = !id.is_empty()
        && id.len() <= 128
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    if fits {
        Ok(())
    } else {
        Err(CycleError::BadId { id: id.to_owned() })
    }
}

impl Record {
    pub(super) fn cycle(snapshot: &CycleSnapshot) -> Result<Self, CycleError> {
        let key = cycle_key(&snapshot.cycle_id)?;
        Ok(Self::new(key, json(snapshot), "saturation_tracking")
            .tagged("x-level", snapshot.saturation_level.as_str()))
    }

    /// Creates the record of the rolling window.
    pub fn aggregate(aggregate: &Aggregate) -> Self {
        Self::new(AGGREGATE_KEY.to_owned(), json(aggregate), "saturation_aggregate")
    }

    /// Creates a record with its intent and namespace.
    pub fn new(key: String, value: Value, intent: &str) -> Self {
        let tags = BTreeMap::from([
            ("x-intent".to_owned(), intent.to_owned()),
            ("x-namespace".to_owned(), key.clone()),
        ]);
        Self { key, value, tags }
    }

    /// Adds a tag to the record.
    pub(crate) fn tagged(mut self, name: &str, value: impl Into<String>) -> Self {
        self.tags.insert(name.to_owned(), value.into());
        self
    }
}
