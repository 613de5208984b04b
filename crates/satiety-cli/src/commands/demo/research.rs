//! Research in the demo: a directory, searched until results are no longer new.

use std::path::Path;

use satiety::research::{GateSettings, ResearchSettings};
use satiety_engine::Engine;
use satiety_engine::bench::Stop;
use satiety_engine::research::fetch::FetchSettings;
use satiety_engine::research::{Prices, ResearchRequest, ResearchResponse};
use serde::Serialize;

use crate::failure::Failure;
use crate::settings::Settings;

/// Demo documents.
const DOCUMENTS: [(&str, &str); 8] = [
    (
        "01-how-they-work.md",
        include_str!("../../../../../examples/research/heat-pumps/01-how-they-work.md"),
    ),
    (
        "02-cold-climates.md",
        include_str!("../../../../../examples/research/heat-pumps/02-cold-climates.md"),
    ),
    (
        "03-running-costs.md",
        include_str!("../../../../../examples/research/heat-pumps/03-running-costs.md"),
    ),
    (
        "04-ground-source.md",
        include_str!("../../../../../examples/research/heat-pumps/04-ground-source.md"),
    ),
    (
        "05-radiators.html",
        include_str!("../../../../../examples/research/heat-pumps/05-radiators.html"),
    ),
    (
        "06-field-trial.txt",
        include_str!("../../../../../examples/research/heat-pumps/06-field-trial.txt"),
    ),
    (
        "07-noise-and-place.md",
        include_str!("../../../../../examples/research/heat-pumps/07-noise-and-place.md"),
    ),
    (
        "08-refrigerants.md",
        include_str!("../../../../../examples/research/heat-pumps/08-refrigerants.md"),
    ),
];

/// Searches a directory until results are no longer new.
pub(super) async fn research(engine: &Engine, settings: &Settings, folder: &Path) -> Result<Found, Failure> {
    let documents = folder.join("heat-pumps");
    fs_err::create_dir_all(&documents)?;
    for (name, text) in DOCUMENTS {
        fs_err::write(documents.join(name), text)?;
    }
    let request = ResearchRequest {
        task: "how do heat pumps cope with cold climates".into(),
        planned: Vec::new(),
        source: format!("local:{}", documents.display()),
        settings: ResearchSettings {
            gate: GateSettings {
                epsilon: 0.0,
                ..GateSettings::default()
            },
            // Few results per search, so that a second search finds more.
            results_per_search: 3,
            ..ResearchSettings::default()
        },
        use_model: false,
        prices: Prices::default(),
        record: None,
        remember: None,
        resume: None,
        reach: crate::commands::research::reach(settings),
        fetch: FetchSettings::default(),
    };
    let mut researched = engine.research().run(request, &Stop::default(), |_| {}).await?;
    researched.report.source = "eight documents about heat pumps".into();
    Ok(Found(researched))
}

/// Results of the research scene.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Found(ResearchResponse);

impl Found {
    pub(super) fn lines(&self) -> Vec<String> {
        let report = &self.0.report;
        let mut lines = vec![format!("{}?", report.task)];
        let findings = report.answers.iter().flat_map(|answer| &answer.findings);
        lines.extend(findings.take(3).map(|finding| format!("  - {}", finding.text)));
        lines.push(format!(
            "  stopped after {} searches: {}",
            report.searches, report.stop_words
        ));
        lines
    }
}
