//! `satiety demo`: a tour of seven scenes on bundled examples, played by the real program.

mod eviction;
mod harness;
mod memory;
mod progress;
mod research;

use std::path::{Path, PathBuf};
use std::time::Instant;

use owo_colors::OwoColorize;
use satiety::bench::GatePolicy;
use satiety::retrieval::{ComparisonSettings, EvaluationOptions, OrderOptions, decisive_measures};
use satiety_engine::Engine;
use satiety_engine::bench::{
    AcceptRequest, ResultOptions, RunBenchRequest, RunBenchResponse, Stop, VerdictOverride,
};
use satiety_engine::database::Status;
use satiety_engine::dialogue::{Extract, ScoreRequest, ScoreResponse};
use satiety_engine::progress::StoredRun;
use satiety_engine::research::ResearchResponse;
use satiety_engine::retrieval::{CompareRequest, CompareResponse, FactFiles, Rankings};
use schemars::JsonSchema;
use serde::Serialize;

use satiety_report::{Block, Document, terminal};

use super::bench::init;
use super::block_on;
use crate::args::{DemoArgs, DemoScene};
use crate::commands::score::coloured;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;
use crate::table::sparkline;

/// Database of the demo, in its directory.
const DATABASE: &str = "demo.db";

/// Configuration file that selects the database and the harness of the demo, in its directory.
const CONFIG: &str = "satiety.toml";

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

pub(super) fn run(arguments: DemoArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let cannot =
        |error| Failure::environment(format!("cannot create the directory of the demo: {error}"), None);
    let temporary = tempfile::tempdir().map_err(cannot)?;
    let directory = match &arguments.keep {
        Some(directory) if directory.exists() => {
            return Err(Failure::bad_input(
                format!("{} already exists", directory.display()),
                "remove it, or choose another directory: `satiety demo --keep=DIR`",
            ));
        }
        Some(directory) => {
            fs_err::create_dir_all(directory).map_err(cannot)?;
            fs_err::canonicalize(directory).map_err(cannot)?
        }
        None => temporary.path().to_owned(),
    };
    let mut own = settings.for_engine();
    own.store = satiety_engine::StoreUrl::sqlite(directory.join(DATABASE));
    own.archive_folder = directory.join("archive");
    // The demo shows the defaults, whatever the configuration of this machine.
    own.embedder = "builtin".into();
    let mut played = block_on(async {
        let engine = Engine::new(own);
        let played = Box::pin(play(&engine, settings, &directory, &arguments)).await;
        engine.close().await;
        played
    })?;
    if arguments.keep.is_some() {
        write_config(&directory)?;
    }
    played.kept = arguments.keep;
    printer.answer(&played)?;
    Ok(Exit::Done)
}

/// Writes a configuration file with absolute paths, which works from any directory.
fn write_config(directory: &Path) -> Result<(), Failure> {
    let database = satiety_engine::StoreUrl::sqlite(directory.join(DATABASE)).to_string();
    let harness = directory.join("harness").display().to_string();
    let content = format!(
        "[store]\nurl = {}\n\n[harness]\nfolder = {}\n",
        toml::Value::from(database),
        toml::Value::from(harness)
    );
    Ok(fs_err::write(directory.join(CONFIG), content)?)
}

async fn play(
    engine: &Engine,
    settings: &Settings,
    directory: &Path,
    arguments: &DemoArgs,
) -> Result<Demo, Failure> {
    let started = Instant::now();
    let plays = |scene| arguments.scene.is_none_or(|chosen| chosen == scene);
    let mut demo = Demo::default();
    if plays(DemoScene::Dialogue) {
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
        demo.conversations = Some(conversations);
    }
    if plays(DemoScene::Progress) {
        demo.progress = Some(progress::report(engine).await?);
    }
    if plays(DemoScene::Bench) {
        demo.bench = Some(Box::pin(benchmark(engine, directory)).await?);
        demo.harness = Some(Box::pin(harness::saturate(engine, &directory.join("harness"))).await?);
    }
    if plays(DemoScene::Memory) {
        demo.memory = Some(Box::pin(memory::remember(engine, directory)).await?);
    }
    if plays(DemoScene::Retrieval) {
        demo.retrieval = Some(retrieval(engine, directory).await?);
    }
    if plays(DemoScene::Eviction) {
        demo.eviction = Some(Box::pin(eviction::evict(engine)).await?);
    }
    if plays(DemoScene::Research) {
        demo.research = Some(Box::pin(research::research(engine, settings, directory)).await?);
    }
    demo.store = Some(engine.database().status(true).await?);
    demo.seconds = started.elapsed().as_secs_f64();
    Ok(demo)
}

/// Compares two rankings of the bundled query set.
async fn retrieval(engine: &Engine, directory: &Path) -> Result<CompareResponse, Failure> {
    let mut compared = engine.retrieval().compare(rankings(directory)?).await?;
    // Temporary paths mean nothing to a reader.
    let [_, (control, _), (treatment, _)] = RANKINGS;
    compared.control = control.into();
    for comparison in &mut compared.comparisons {
        comparison.treatment = treatment.into();
    }
    Ok(compared)
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
    let accepted = VerdictOverride {
        by: "demo".into(),
        reason: "first run".into(),
    };
    let accept = AcceptRequest {
        run: good.run.run_id,
        suite: Some(suite.clone()),
        accepted,
        options: ResultOptions::default(),
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

/// Results of the scenes that were played.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Demo {
    /// Scene `eviction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction: Option<eviction::EvictionScene>,
    /// Scene `research`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ResearchResponse>")]
    research: Option<research::Found>,
    /// Scene `bench`: a gated run of a broken agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    bench: Option<RunBenchResponse>,
    /// Scene `bench`: a saturated harness.
    #[serde(skip_serializing_if = "Option::is_none")]
    harness: Option<harness::HarnessScene>,
    /// Scene `dialogue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversations: Option<Vec<ScoreResponse>>,
    /// Scene `progress`: a looping agent and a working one.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Vec<StoredRun>>,
    /// Scene `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<memory::MemoryScene>,
    /// Scene `retrieval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    retrieval: Option<CompareResponse>,
    /// Database of the demo.
    store: Option<Status>,
    /// Duration in seconds.
    seconds: f64,
    /// Directory with the results, if they were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<PathBuf>,
}

impl Render for Demo {
    fn human(&self) -> String {
        let mut scenes = Vec::new();
        if let Some(conversations) = &self.conversations {
            scenes.push(scene(
                "Dialogue: when should a conversation end?",
                "Agents keep talking after they agree, and stop before they are done.",
                &conversation_lines(conversations),
                "satiety score FILE",
            ));
        }
        if let Some(runs) = &self.progress {
            scenes.push(scene(
                "Progress: is an agent at work stuck?",
                "A stuck agent repeats its calls until the budget is gone, and says that it is nearly done.",
                &progress::lines(runs),
                "satiety progress LOG",
            ));
        }
        if let (Some(bench), Some(harness)) = (&self.bench, &self.harness) {
            let mut lines = vec!["A change breaks the agent:".to_owned()];
            lines.extend(verdict_lines(&bench.document()));
            lines.push("An agent passes every case, run after run:".to_owned());
            lines.extend(harness.lines());
            scenes.push(scene(
                "Bench: did a change break the agent, and are the evals still hard enough?",
                "Pass rates are noisy, and a suite that every version passes shows nothing.",
                &lines,
                "satiety bench init SUITE",
            ));
        }
        if let Some(memory) = &self.memory {
            scenes.push(scene(
                "Memory: what does the agent already know?",
                "Agents ask the same questions again in every session.",
                &memory.lines(),
                "satiety memory index DIR",
            ));
        }
        if let Some(retrieval) = &self.retrieval {
            scenes.push(scene(
                "Retrieval: is one memory search better than another?",
                "A better average over a few queries is often chance.",
                &verdict_lines(&retrieval.document()),
                "satiety retrieval compare --qrels FILE --run FILE --run FILE",
            ));
        }
        if let Some(eviction) = &self.eviction {
            scenes.push(scene(
                "Eviction: which context can be dropped?",
                "Every item that is dropped and needed again is read twice.",
                &eviction.lines(),
                "satiety evict simulate TRACE",
            ));
        }
        if let Some(research) = &self.research {
            scenes.push(scene(
                "Research: is another search worth it?",
                "Most search loops stop after a fixed number of rounds, too early or too late.",
                &research.lines(),
                "satiety research QUESTION --in DIRECTORY",
            ));
        }
        let end = match &self.kept {
            Some(directory) => format!(
                "Kept in {}. Look at it in a browser: satiety --config {} serve",
                directory.display(),
                directory.join(CONFIG).display()
            ),
            None => "Keep the results and look at them in a browser: satiety demo --keep".to_owned(),
        };
        scenes.push(format!("Finished in {:.1} s. {end}", self.seconds));
        scenes.join("\n\n")
    }
}

/// A scene: its question, why it matters, the result, and the command to continue with.
fn scene(question: &str, why: &str, lines: &[String], next: &str) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
    format!(
        "{}\n{why}\n\n{}\n\n  {} {next}",
        question.bold(),
        lines.join("\n"),
        "next:".dimmed()
    )
}

fn conversation_lines(conversations: &[ScoreResponse]) -> Vec<String> {
    let mut lines = Vec::new();
    for scored in conversations {
        let report = &scored.report;
        let curve: Vec<f64> = report
            .novelty_by_round
            .iter()
            .map(|round| round.novelty.unwrap_or(0.0))
            .collect();
        lines.push(scored.topic.clone().unwrap_or_default());
        lines.push(format!(
            "  {}  {}  {}",
            sparkline(&curve),
            coloured(report.stop_recommendation.signal),
            report.hint
        ));
    }
    lines
}

/// The verdict of a report, with its reasons.
fn verdict_lines(document: &Document) -> Vec<String> {
    fn find(blocks: &[Block]) -> Option<&Block> {
        blocks.iter().find_map(|block| match block {
            Block::Verdict { .. } => Some(block),
            Block::Section(_, inner) | Block::Only(_, inner) | Block::Details { blocks: inner, .. } => {
                find(inner)
            }
            _ => None,
        })
    }
    let verdict = find(&document.blocks).cloned().map(Document::from);
    let text = verdict.map_or_else(String::new, |verdict| terminal::render(&verdict));
    text.trim().lines().map(|line| format!("  {line}")).collect()
}
