//! Compares stopping rules of a search loop on collections with known relevant documents. Runs the complete loop without
//! a model or a network. Reports the number of searches of each rule, and its share of the documents found in five rounds.
//!
//! `--data DIR` is a collection (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`) or a directory of collections. Documents with
//! a grade of at least 1 are relevant. Intervals are 95 % bootstrap intervals over queries. Also measures the time of a
//! round of 50 results without the search itself.
#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use cpu_time::ProcessTime;
use satiety::research::{
    Assessor, GateSettings, Hit, Novelty, Reason, Research, ResearchSettings, RoundOutcome, Spent, Step,
};
use satiety::stats::{BootstrapMethod, BootstrapSettings, bootstrap_mean, quantile};
use satiety::text::{LexicalIndex, StopWords};
use serde::Deserialize;

/// Stopping rules of a search loop on collections with known relevant documents.
#[derive(Parser)]
struct Arguments {
    /// Collection, or directory of collections
    #[arg(long)]
    data: PathBuf,
    /// Number of results per search; can be repeated
    #[arg(long, default_values_t = [10, 20, 50])]
    results: Vec<u32>,
    /// Print every query for which the gate finds fewer documents than the maximum of rounds
    #[arg(long)]
    missed: bool,
}

#[derive(Deserialize)]
struct Document {
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    id: String,
    text: String,
}

struct Collection {
    name: String,
    hits: Vec<Hit>,
    index: LexicalIndex,
    /// Query and the indices of its relevant documents.
    questions: Vec<(String, BTreeSet<usize>)>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let collections = collections(&arguments.data)?;
    for results in &arguments.results {
        let mut all: BTreeMap<&str, RuleStats> = BTreeMap::new();
        for collection in &collections {
            compare(collection, *results, arguments.missed, &mut all)?;
        }
        println!("\nall questions together, {results} results per search");
        for (name, _) in rules().into_iter().skip(1) {
            if let Some(stats) = all.get(name) {
                let (shares, saved) = (interval(&stats.shares)?, interval(&stats.saved)?);
                println!("  {name:<32} finds {shares:<26} saves {saved}");
            }
        }
    }
    overhead(&collections)
}

/// By query: share of the documents that the maximum of rounds finds, and share of searches saved.
#[derive(Default)]
struct RuleStats {
    shares: Vec<f64>,
    saved: Vec<f64>,
}

/// Result of one query under one rule.
struct Outcome {
    searches: usize,
    accepted: usize,
    found: BTreeSet<usize>,
}

fn rules() -> Vec<(&'static str, GateSettings)> {
    let fixed = |rounds| GateSettings {
        min_rounds: rounds,
        max_rounds: rounds,
        look_ahead: None,
        ..GateSettings::default()
    };
    vec![
        ("five rounds (the cap)", fixed(5)),
        ("two rounds", fixed(2)),
        ("three rounds", fixed(3)),
        ("the gate", GateSettings::default()),
        (
            "the gate without chance",
            GateSettings {
                epsilon: 0.0,
                ..GateSettings::default()
            },
        ),
        (
            "the gate without look-ahead",
            GateSettings {
                look_ahead: None,
                ..GateSettings::default()
            },
        ),
        (
            "the specification, literal",
            GateSettings {
                assessor: Assessor::Seed,
                look_ahead: None,
                ..GateSettings::default()
            },
        ),
    ]
}

fn compare(
    collection: &Collection,
    results: u32,
    missed: bool,
    all: &mut BTreeMap<&'static str, RuleStats>,
) -> Result<()> {
    println!(
        "\n{}: {} documents, {} questions, {results} results per search",
        collection.name,
        collection.hits.len(),
        collection.questions.len()
    );
    println!(
        "  {:<32} {:>8} {:>8} {:>8}   {:<26} {:<26}",
        "", "searches", "kept", "recall", "of what the cap finds", "searches saved"
    );
    let mut cap: Vec<Outcome> = Vec::new();
    for (name, gate) in rules() {
        let outcomes: Vec<Outcome> = collection
            .questions
            .iter()
            .enumerate()
            .map(|(number, (task, _))| {
                // The random seed differs between queries and is the same in every run.
                let gate = GateSettings {
                    seed: number as u64,
                    ..gate
                };
                research(collection, task, results, gate)
            })
            .collect::<Result<_>>()?;
        if cap.is_empty() {
            cap = outcomes;
            print_rule(name, collection, &cap, &cap)?;
            continue;
        }
        let stats = print_rule(name, collection, &outcomes, &cap)?;
        let together = all.entry(name).or_default();
        together.shares.extend(stats.shares);
        together.saved.extend(stats.saved);
        if missed && name == "the gate" {
            for ((task, relevant), (outcome, cap)) in
                collection.questions.iter().zip(outcomes.iter().zip(&cap))
            {
                let lost = cap
                    .found
                    .difference(&outcome.found)
                    .filter(|found| relevant.contains(found))
                    .count();
                if lost > 0 {
                    println!("    {lost} missed after {} searches: {task}", outcome.searches);
                }
            }
        }
    }
    Ok(())
}

fn print_rule(
    name: &str,
    collection: &Collection,
    outcomes: &[Outcome],
    cap: &[Outcome],
) -> Result<RuleStats> {
    let mut shares = Vec::new();
    let mut saved = Vec::new();
    let (mut searches, mut kept, mut recall) = (0.0, 0.0, 0.0);
    for (((_, relevant), outcome), cap) in collection.questions.iter().zip(outcomes).zip(cap) {
        let found = outcome.found.intersection(relevant).count() as f64;
        let possible = cap.found.intersection(relevant).count() as f64;
        // Queries for which the maximum of rounds finds nothing are excluded.
        if possible > 0.0 {
            shares.push(found / possible);
        }
        saved.push(1.0 - outcome.searches as f64 / cap.searches.max(1) as f64);
        searches += outcome.searches as f64;
        kept += outcome.accepted as f64;
        recall += found / relevant.len() as f64;
    }
    let questions = outcomes.len() as f64;
    println!(
        "  {name:<32} {:>8.2} {:>8.2} {:>8.3}   {:<26} {:<26}",
        searches / questions,
        kept / questions,
        recall / questions,
        interval(&shares)?,
        interval(&saved)?
    );
    Ok(RuleStats { shares, saved })
}

fn interval(values: &[f64]) -> Result<String> {
    let settings = BootstrapSettings {
        method: BootstrapMethod::Percentile,
        ..BootstrapSettings::default()
    };
    let estimate = bootstrap_mean(values, &settings)?;
    Ok(format!(
        "{:.1} % ({:.1} to {:.1})",
        100.0 * estimate.estimate,
        100.0 * estimate.interval.low,
        100.0 * estimate.interval.high
    ))
}

/// Runs the loop for a query.
fn research(collection: &Collection, task: &str, results: u32, gate: GateSettings) -> Result<Outcome> {
    let settings = ResearchSettings {
        gate,
        results_per_search: results,
        ..ResearchSettings::default()
    };
    let mut research = Research::new(task, Vec::new(), settings)?;
    let mut outcome = Outcome {
        searches: 0,
        accepted: 0,
        found: BTreeSet::new(),
    };
    loop {
        let Step::Search { query, planned, .. } = research.next(&Spent::default()) else {
            return Ok(outcome);
        };
        let found = collection.index.search(&query, results as usize);
        let hits: Vec<Hit> = found
            .iter()
            .filter_map(|(at, _)| collection.hits.get(*at as usize).cloned())
            .collect();
        outcome.searches += 1;
        let (accepted, kept) = round(&mut research, query, planned, hits);
        outcome.accepted += usize::from(accepted);
        if kept {
            outcome.found.extend(found.iter().map(|(at, _)| *at as usize));
        }
    }
}

/// Runs one round without its search; returns whether it was accepted and whether its pages are in the report.
fn round(research: &mut Research, query: String, planned: bool, hits: Vec<Hit>) -> (bool, bool) {
    let (verdict, novelty, outcome, summary) = if hits.is_empty() {
        let outcome = RoundOutcome::Empty;
        (
            research.decide_without_results(&outcome),
            Novelty::default(),
            outcome,
            None,
        )
    } else {
        let assessment = research.assess(&hits, None);
        let (verdict, novelty) = research.decide(assessment, None);
        let summary = verdict.accepted.then(|| research.extracted_summary(&hits));
        (verdict, novelty, RoundOutcome::Found, summary)
    };
    let accepted = verdict.accepted;
    let salvaged = verdict.reason == Reason::Saturated && research.settings().gate.assessor != Assessor::Seed;
    let record = research.record(query, planned, outcome, hits, verdict, novelty, summary);
    research.apply(record, None, true);
    (accepted, accepted || salvaged)
}

/// Time of a round with 50 results without the search: query, assessment, decision, merging, summary.
fn overhead(collections: &[Collection]) -> Result<()> {
    const RESULTS: usize = 50;
    /// Snippet length that search engines return.
    const SNIPPET: usize = 300;
    let mut times = Vec::new();
    for collection in collections {
        for (task, _) in &collection.questions {
            let settings = ResearchSettings {
                gate: GateSettings {
                    min_rounds: 5,
                    look_ahead: None,
                    ..GateSettings::default()
                },
                ..ResearchSettings::default()
            };
            let mut research = Research::new(task, Vec::new(), settings)?;
            loop {
                let started = ProcessTime::now();
                let step = research.next(&Spent::default());
                let planning = started.elapsed();
                let Step::Search { query, planned, .. } = step else {
                    break;
                };
                let hits: Vec<Hit> = collection
                    .index
                    .search(&query, RESULTS)
                    .into_iter()
                    .filter_map(|(at, _)| collection.hits.get(at as usize).cloned())
                    .map(|mut hit| {
                        hit.snippet = hit.snippet.chars().take(SNIPPET).collect();
                        hit
                    })
                    .collect();
                let full = hits.len() == RESULTS;
                let started = ProcessTime::now();
                round(&mut research, query, planned, hits);
                if full {
                    times.push((planning + started.elapsed()).as_secs_f64() * 1e3);
                }
            }
        }
    }
    println!(
        "\na round of {RESULTS} results of {SNIPPET} characters, without searching: median {:.2} ms, 95th percentile {:.2} ms of CPU \
         ({} rounds)",
        quantile(&times, 0.5)?,
        quantile(&times, 0.95)?,
        times.len()
    );
    Ok(())
}

fn collections(folder: &Path) -> Result<Vec<Collection>> {
    let mut folders: Vec<PathBuf> = if folder.join("corpus.jsonl").is_file() {
        vec![folder.to_owned()]
    } else {
        fs_err::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("corpus.jsonl").is_file())
            .collect()
    };
    folders.sort();
    if folders.is_empty() {
        bail!("{} has no corpus.jsonl, nor has a folder in it", folder.display());
    }
    folders.iter().map(|folder| read(folder)).collect()
}

fn read(folder: &Path) -> Result<Collection> {
    let documents: Vec<Document> = lines(&folder.join("corpus.jsonl"))?;
    let questions: Vec<Question> = lines(&folder.join("queries.jsonl"))?;
    let numbers: BTreeMap<&str, usize> = documents
        .iter()
        .map(|document| document.id.as_str())
        .zip(0..)
        .collect();
    let mut relevant: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for line in fs_err::read_to_string(folder.join("qrels.tsv"))?.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [question, _, document, grade] = fields[..] else {
            bail!("qrels.tsv: `{line}` has not four fields");
        };
        if grade.parse::<i64>()? >= 1
            && let Some(number) = numbers.get(document)
        {
            relevant.entry(question.to_owned()).or_default().insert(*number);
        }
    }
    let hits: Vec<Hit> = documents
        .iter()
        .map(|document| Hit::new(document.title.clone(), document.id.clone(), document.text.clone()))
        .collect();
    let mut index = LexicalIndex::new(StopWords::Research);
    for (number, hit) in (0..).zip(&hits) {
        index.put(number, [("", hit.whole().as_str())]);
    }
    Ok(Collection {
        name: folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        index,
        hits,
        questions: questions
            .into_iter()
            .filter_map(|question| Some((question.text, relevant.remove(&question.id)?)))
            .collect(),
    })
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    fs_err::read_to_string(path)?
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
        .map(|(line, number)| {
            serde_json::from_str(line).with_context(|| format!("{}:{number}", path.display()))
        })
        .collect()
}
