//! Words for people.

use satiety::harness::Phase;

/// Letters of a hash that people are shown.
const SHORT: usize = 12;

pub(super) fn phase(phase: Phase) -> String {
    // Its serde form is the one in records and JSON.
    serde_json::to_value(phase)
        .ok()
        .and_then(|value| value.as_str().map(|word| word.replace('_', " ")))
        .unwrap_or_default()
}

pub(super) fn short(hash: &str) -> &str {
    hash.get(..SHORT).unwrap_or(hash)
}
