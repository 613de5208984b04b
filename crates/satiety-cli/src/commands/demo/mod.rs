//! `satiety demo`: runs the bundled examples for real, on a temporary store.

mod eviction;
mod harness;
mod research;

use std::path::Path;
use std::time::Instant;

use owo_colors::OwoColorize;
use satiety::bench::GatePolicy;
use satiety::retrieval::{
    ComparisonSettings, EvaluationOptions, JudgmentSource, OrderOptions, decisive_measures,
};
use satiety_engine::Engine;
use satiety_engine::bench::{AcceptRequest, Override, RunBenchRequest, RunBenchResponse, Stop};
use satiety_engine::database::Status;
use satiety_engine::dialogue::{Extract, ScoreRequest, ScoreResponse};
use satiety_engine::retrieval::{CompareRequest, CompareResponse, FactFiles, ImportCorpusRequest, Rankings};
use serde::Serialize;

use super::bench::init;
use super::block_on;
use crate::commands::score::coloured;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;
use crate::table::{sparkline, table};

/// Demo conversations, one per signal.
const CONVERSATIONS: &[(&str, &str)] = &[
    (
        "two-agents-converge",
        include_str!("../../../../../examples/calibration/two-agents-converge.json"),
    ),
    (
        "paraphrase-rounds",
        include_str!("../../../../../examples/calibration/paraphrase-rounds.json"),
    ),
    (
        "high-novelty-low-readiness",
        include_str!("../../../../../examples/calibration/high-novelty-low-readiness.json"),
    ),
    (
        "nothing-to-execute",
        include_str!("../../../../../examples/calibration/nothing-to-execute.json"),
    ),
    (
        "hidden-blocker",
        include_str!("../../../../../examples/calibration/hidden-blocker.json"),
    ),
];

/// Demo rankings: judgments with query fields, and two runs.
const RANKINGS: [(&str, &str); 3] = [
    (
        "corpus.jsonl",
        include_str!("../../../../../examples/retrieval/corpus.jsonl"),
    ),
    (
        "bm25.txt",
        include_str!("../../../../../examples/retrieval/bm25.txt"),
    ),
    (
        "fusion.txt",
        include_str!("../../../../../examples/retrieval/fusion.txt"),
    ),
];

pub(super) fn run(settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let folder = tempfile::tempdir().map_err(|error| {
        Failure::environment(format!("cannot create a temporary directory: {error}"), None)
    })?;
    let mut own = settings.for_engine();
    own.store = satiety_engine::StoreUrl::sqlite(folder.path().join("demo.db"));
    own.archive_folder = folder.path().join("archive");
    // The demo uses the defaults, whatever is configured here.
    own.embedder = "builtin".into();
    let played = block_on(async {
        let engine = Engine::new(own);
        let played = Box::pin(play(&engine, settings, folder.path())).await;
        engine.close().await;
        played
    })?;
    printer.answer(&played)?;
    Ok(Exit::Done)
}

async fn play(engine: &Engine, settings: &Settings, folder: &Path) -> Result<DemoScene, Failure> {
    let started = Instant::now();
    let mut conversations = Vec::new();
    for (name, text) in CONVERSATIONS {
        let request = ScoreRequest {
            name: (*name).into(),
            bytes: text.as_bytes().to_vec(),
            format: None,
            profile: "default".into(),
            extract: Extract::Rules,
            record: true,
        };
        conversations.push(engine.dialogue().score(request).await?);
    }
    let mut retrieval = engine.retrieval().compare(rankings(folder)?).await?;
    // The temporary paths are irrelevant to the reader.
    let [(corpus, _), (control, _), (treatment, _)] = RANKINGS;
    retrieval.control = control.into();
    for comparison in &mut retrieval.comparisons {
        comparison.treatment = treatment.into();
    }
    let import = ImportCorpusRequest {
        corpus: folder.join(corpus),
        queries: None,
        source: JudgmentSource::Manual,
    };
    engine.retrieval().import_corpus(import).await?;
    let bench = benchmark(engine, folder).await?;
    let harness = Box::pin(harness::saturate(engine, &folder.join("harness"))).await?;
    let eviction = Box::pin(eviction::evict(engine)).await?;
    let research = Box::pin(research::research(engine, settings, folder)).await?;
    let store = engine.database().status(true).await?;
    Ok(DemoScene {
        eviction,
        research,
        bench,
        harness,
        conversations,
        retrieval,
        store,
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn rankings(folder: &Path) -> Result<CompareRequest, Failure> {
    for (name, text) in RANKINGS {
        fs_err::write(folder.join(name), text)?;
    }
    let [qrels, runs @ ..] = RANKINGS.map(|(name, _)| folder.join(name));
    Ok(CompareRequest {
        rankings: Rankings {
            qrels,
            runs: runs.to_vec(),
            order: OrderOptions::default(),
            options: EvaluationOptions::default(),
            measures: decisive_measures(),
            known: FactFiles::default(),
            by: vec!["category".into()],
        },
        settings: ComparisonSettings::default(),
        fail_if_worse: Some(0.01),
        per_query: false,
    })
}

/// Runs a suite, accepts the run, and gates a broken agent.
async fn benchmark(engine: &Engine, folder: &Path) -> Result<RunBenchResponse, Failure> {
    let suite = folder.join("greeter");
    init::write(&suite)?;
    let request = RunBenchRequest {
        suite: suite.clone(),
        repeats: Some(5),
        gate: None,
        ..RunBenchRequest::default()
    };
    let stop = Stop::default();
    let plan = engine.bench().plan(request.clone()).await?;
    let good = engine.bench().execute(plan, &stop, |_| {}).await?;
    let accepted = Override {
        by: "demo".into(),
        reason: "first run".into(),
    };
    let accept = AcceptRequest {
        run: good.run.run_id,
        suite: Some(suite.clone()),
        accepted,
    };
    engine.bench().accept(accept).await?;
    fs_err::write(suite.join("agent.sh"), "echo 'What do you want?'\n")?;
    let gated = RunBenchRequest {
        gate: Some(GatePolicy::default()),
        ..request
    };
    let plan = engine.bench().plan(gated).await?;
    let mut ran = engine.bench().execute(plan, &stop, |_| {}).await?;
    ran.run.target = "a broken agent".into();
    Ok(ran)
}

#[derive(Serialize)]
struct DemoScene {
    eviction: eviction::Evicted,
    research: research::Found,
    bench: RunBenchResponse,
    harness: harness::Saturated,
    conversations: Vec<ScoreResponse>,
    retrieval: CompareResponse,
    store: Status,
    seconds: f64,
}

impl Render for DemoScene {
    fn human(&self) -> String {
        let mut parts = vec![format!(
            "{}\nIs the conversation still productive, and what should happen next?",
            "Dialogue".bold().underline()
        )];
        for scored in &self.conversations {
            let report = &scored.report;
            let curve: Vec<f64> = report
                .novelty_by_round
                .iter()
                .map(|round| round.novelty.unwrap_or(0.0))
                .collect();
            let mut lines = vec![
                scored.topic.clone().unwrap_or_default().bold().to_string(),
                format!(
                    "  novelty {}  {}  {}",
                    sparkline(&curve),
                    coloured(report.stop_recommendation.signal),
                    report.hint
                ),
            ];
            lines.extend(report.reasons.iter().map(|reason| format!("  - {reason}")));
            let last = report.signal_by_round.last().map(|round| round.round);
            lines.extend(
                report
                    .warnings
                    .iter()
                    .filter(|warning| Some(warning.round) == last)
                    .take(1)
                    .map(|warning| format!("  {} {}", "warning:".yellow(), warning.message)),
            );
            parts.push(lines.join("\n"));
        }
        parts.push(format!(
            "{}\nIs one search really better than another?\n\n{}",
            "Retrieval".bold().underline(),
            self.retrieval.human()
        ));
        parts.push(format!(
            "{}\nIs the agent still as good as its baseline?\n\n{}",
            "Bench".bold().underline(),
            self.bench.human()
        ));
        parts.push(self.harness.human());
        parts.push(self.eviction.human());
        parts.push(self.research.human());
        let model = self
            .conversations
            .first()
            .and_then(|scored| scored.report.embedder.clone())
            .unwrap_or_default();
        let rows = self
            .store
            .tables
            .iter()
            .map(|table| vec![table.name.clone(), table.rows.to_string()]);
        parts.push(format!(
            "{}\nEverything above is in a temporary store, which is deleted when the demo ends.\n\n{}",
            "Store".bold().underline(),
            table(&["table", "rows"], &[1], rows)
        ));
        parts.push(format!(
            "Finished in {:.1} s with the built-in sentence model ({model}).\n\
             Next: run `satiety score FILE` on your own transcript, chat log or agent session log.",
            self.seconds
        ));
        parts.join("\n\n")
    }
}
