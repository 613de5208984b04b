//! Records in the specification's namespaces: which key, which tags, kept for how long. Nothing here stores them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Aggregate, CycleError, CycleSnapshot, json};

/// The key of the rolling window.
pub const AGGREGATE_KEY: &str = "eval-harness/saturation/aggregate";

const CYCLES: &str = "eval-harness/saturation/cycles/";
const EXPANSIONS: &str = "eval-harness/saturation/expansions/";

/// A value to be stored under a key, with the specification's tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Where.
    pub key: String,
    /// What.
    pub value: Value,
    /// `x-intent`, `x-namespace` and what else finds it.
    pub tags: BTreeMap<String, String>,
}

/// The key of a cycle.
pub fn cycle_key(cycle_id: &str) -> Result<String, CycleError> {
    check_id(cycle_id).map(|()| format!("{CYCLES}{cycle_id}"))
}

/// The key of an expansion.
pub fn expansion_key(expansion_id: &str) -> Result<String, CycleError> {
    check_id(expansion_id).map(|()| format!("{EXPANSIONS}{expansion_id}"))
}

/// For how many days a record is kept; absent means for good.
pub fn retention_days(key: &str) -> Option<u32> {
    key.starts_with(CYCLES).then_some(90)
}

/// An id is one segment of a key, whoever made it.
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

    /// The rolling window.
    pub fn aggregate(aggregate: &Aggregate) -> Self {
        Self::new(AGGREGATE_KEY.to_owned(), json(aggregate), "saturation_aggregate")
    }

    /// A record with its intent and namespace.
    pub fn new(key: String, value: Value, intent: &str) -> Self {
        let tags = BTreeMap::from([
            ("x-intent".to_owned(), intent.to_owned()),
            ("x-namespace".to_owned(), key.clone()),
        ]);
        Self { key, value, tags }
    }

    /// Adds a tag.
    pub fn tagged(mut self, name: &str, value: impl Into<String>) -> Self {
        self.tags.insert(name.to_owned(), value.into());
        self
    }
}
