//! Experiment pages: features, sequential test with its boundaries, shadow runs, checklist.

use satiety::experiment::GraduationVerdict;
use satiety_engine::experiment::{ExperimentList, ExperimentStatus};
use satiety_report::html::blocks;

use super::shell::{command, empty_state, frame, segment};

pub(super) fn list_page(found: &ExperimentList) -> String {
    let body = if found.features.is_empty() {
        empty_state(
            "No experiments yet. Start one with a change to the memory search:",
            "satiety ab start critical-first --pipeline '{\"tiers\": {\"critical\": 10.0}}'",
        )
    } else {
        let address = |feature: &str| format!("/ab/{}", segment(feature));
        blocks(&found.document(Some(address)).blocks)
    };
    frame("/ab", "Experiments", &[body])
}

pub(super) fn detail_page(found: &ExperimentStatus) -> String {
    let name = &found.feature.feature_id;
    let mut body = vec![blocks(&found.document().blocks)];
    if found.status == "running" {
        let next = match found.checklist.verdict {
            GraduationVerdict::Graduate => "graduate",
            GraduationVerdict::Refuse => "reject",
            // Measures both pipelines on the judged query set.
            GraduationVerdict::Undecided => "check",
        };
        body.push(command(&format!("satiety ab {next} {name}")));
    }
    frame("/ab", &format!("Experiment {name}"), &body)
}
