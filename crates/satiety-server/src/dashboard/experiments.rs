//! A/B tests of the search: features, the sequential test with its boundaries, shadow runs, the checklist.

use satiety_engine::experiment::{ExperimentList, ExperimentStatus};
use satiety_report::html::blocks;

use super::shell::{command, frame, nothing, segment};

/// All features.
pub(super) fn all(found: &ExperimentList) -> String {
    let body = if found.features.is_empty() {
        nothing(
            "No feature is under test.",
            "satiety ab start NAME --pipeline FILE",
        )
    } else {
        let address = |feature: &str| format!("/ab/{}", segment(feature));
        blocks(&found.document(Some(address)).blocks)
    };
    frame("/ab", "A/B tests", &[body])
}

/// One feature.
pub(super) fn one(found: &ExperimentStatus) -> String {
    let name = &found.feature.feature_id;
    let mut body = vec![blocks(&found.document().blocks)];
    if found.status == "running" {
        body.push(command(&format!("satiety ab graduate {name}")));
    }
    frame("/ab", &format!("Feature {name}"), &body)
}
