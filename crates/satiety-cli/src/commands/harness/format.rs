//! Formatting helpers.

use satiety::harness::Phase;

/// Characters of a hash that are displayed.
const SHORT: usize = 12;

pub(super) fn phase(phase: Phase) -> String {
    // Same as its serde form in records and JSON.
    serde_json::to_value(phase)
        .ok()
        .and_then(|value| value.as_str().map(|word| word.replace('_', " ")))
        .unwrap_or_default()
}

pub(super) fn short(hash: &str) -> &str {
    hash.get(..SHORT).unwrap_or(hash)
}
