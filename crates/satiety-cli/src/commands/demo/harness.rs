//! Harness in the demo: a suite that has become too easy.

use std::path::Path;

use satiety::harness::Action;
use satiety_engine::Engine;
use satiety_engine::bench::{RunBenchRequest, Stop};
use satiety_engine::harness::{ExpandRequest, ProposeExpansionResponse, RecordCycleRequest, RecordedCycle};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;

/// Files of the demo harness: a suite that its agent passes completely, and its thresholds.
const HARNESS: [(&str, &str); 5] = [
    (
        "harness.toml",
        include_str!("../../../../../examples/harness/harness.toml"),
    ),
    (
        "sums/suite.toml",
        include_str!("../../../../../examples/harness/sums/suite.toml"),
    ),
    (
        "sums/cases/plain.yaml",
        include_str!("../../../../../examples/harness/sums/cases/plain.yaml"),
    ),
    (
        "sums/target.toml",
        include_str!("../../../../../examples/harness/sums/target.toml"),
    ),
    (
        "sums/agent.sh",
        include_str!("../../../../../examples/harness/sums/agent.sh"),
    ),
];
/// Records cycles until saturation is detected, proposes an expansion, and tries to weaken the harness.
pub(super) async fn saturate(engine: &Engine, folder: &Path) -> Result<HarnessScene, Failure> {
    for (name, text) in HARNESS {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        fs_err::write(path, text)?;
    }
    let request = RunBenchRequest {
        suite: folder.join("sums"),
        ..RunBenchRequest::default()
    };
    let cycle = RecordCycleRequest {
        folder: folder.into(),
        ..RecordCycleRequest::default()
    };
    let cycle = loop {
        let plan = engine.bench().plan(request.clone()).await?;
        engine.bench().execute(plan, &Stop::default(), |_| {}).await?;
        let recorded = engine.harness().record(cycle.clone()).await?;
        if recorded.consistency.action != Action::Continue || recorded.history.len() == 20 {
            break recorded;
        }
    };
    let proposed = engine
        .harness()
        .expand(ExpandRequest {
            folder: folder.into(),
            by: "demo".into(),
            ..ExpandRequest::default()
        })
        .await?;
    let rules = folder.join("harness.toml");
    let text = fs_err::read_to_string(&rules)?;
    fs_err::write(&rules, text.replace("value = 0.8", "value = 0.5"))?;
    let plan = engine.bench().plan(request).await?;
    engine.bench().execute(plan, &Stop::default(), |_| {}).await?;
    let again = RecordCycleRequest {
        folder: folder.into(),
        ..RecordCycleRequest::default()
    };
    let refused = engine.harness().record(again).await.err();
    fs_err::write(&rules, text)?;
    Ok(HarnessScene {
        cycle,
        proposed,
        refused: refused.map(|error| error.to_string()),
    })
}

/// Results of the harness scene.
#[derive(Serialize, JsonSchema)]
pub(super) struct HarnessScene {
    /// Cycle that found the harness saturated.
    cycle: RecordedCycle,
    /// Proposed harder cases and thresholds.
    proposed: ProposeExpansionResponse,
    /// Error message for a lowered threshold.
    refused: Option<String>,
}

impl HarnessScene {
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = super::verdict_lines(&self.cycle.document());
        lines.push(format!(
            "  {} harder cases and thresholds are proposed; a person signs them",
            self.proposed.diff.changes.len()
        ));
        lines.push("Someone lowers a threshold in harness.toml:".to_owned());
        let refused = self.refused.as_deref().unwrap_or("not detected");
        lines.extend(refused.lines().map(|line| format!("  {line}")));
        lines
    }
}
