//! Measures the decisions of the dialogue scorer: signals and stop rounds of labelled conversations, and how
//! its graded novelty correlates with the share of new information reported by research loops; by profile,
//! with and without embeddings.
//!
//! `cargo run --release -p perf --bin dialogue -- [--data DIR]... [--sweep] [--verbose]`

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use satiety::dialogue::{
    Conversation, Grid, Labelled, Profile, Round, RoundNovelty, RoundVectors, Signal, SweepReport,
    Transcript, prototype_texts, sweep, texts_to_embed,
};
use satiety::stats::spearman;
use satiety_models::minilm::MiniLm;
use serde_json::Value;

fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    let embedder = Meaning::new()?;
    for directory in &arguments.directories {
        println!("{}", directory.display());
        let files = read(directory)?;
        for name in Profile::built_in_names() {
            let profile = Profile::built_in(name)?;
            for meaning in [true, false] {
                measure(&files, &profile, meaning.then_some(&embedder), &arguments)?;
            }
        }
    }
    Ok(())
}

struct Arguments {
    directories: Vec<PathBuf>,
    sweep: bool,
    verbose: bool,
}

impl Arguments {
    fn parse() -> Result<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/calibration");
        let mut arguments = Self {
            directories: vec![own],
            sweep: false,
            verbose: false,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--data" => arguments
                    .directories
                    .push(words.next().context("--data needs a directory")?.into()),
                "--sweep" => arguments.sweep = true,
                "--verbose" => arguments.verbose = true,
                other => bail!("unknown argument {other}"),
            }
        }
        Ok(arguments)
    }
}

struct File {
    name: String,
    transcript: Transcript,
    expected: Option<Signal>,
    stop_round: Option<u32>,
    /// Share of new information reported by the loop, by round.
    reported: Option<Vec<f64>>,
}

fn read(directory: &Path) -> Result<Vec<File>> {
    let mut paths: Vec<PathBuf> = fs_err::read_dir(directory)
        .with_context(|| directory.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    paths
        .iter()
        .map(|path| read_file(path).with_context(|| path.display().to_string()))
        .collect()
}

fn read_file(path: &Path) -> Result<File> {
    let transcript: Transcript = serde_json::from_str(&fs_err::read_to_string(path)?)?;
    let expected = transcript.extra.get("_expected");
    let field = |key: &str| {
        expected
            .and_then(|labels| labels.get(key))
            .filter(|value| !value.is_null())
    };
    let reported = transcript
        .extra
        .get("_upstream")
        .and_then(|upstream| upstream.get("newInfoRatio"));
    Ok(File {
        name: path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        expected: field("stop_recommendation")
            .or_else(|| field("stop_signal"))
            .map(|value| serde_json::from_value(value.clone()))
            .transpose()?,
        stop_round: field("stop_round")
            .map(|value| serde_json::from_value(value.clone()))
            .transpose()?,
        reported: reported
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_f64).collect()),
        transcript,
    })
}

fn measure(
    files: &[File],
    profile: &Profile,
    embedder: Option<&Meaning>,
    arguments: &Arguments,
) -> Result<()> {
    let title = format!(
        "{:8} {}",
        profile.name,
        if embedder.is_some() {
            "L0 L1 L2"
        } else {
            "L0 L1   "
        }
    );
    let prototypes = embedder.map(|embedder| embedder.embed(&prototype_texts(profile)));
    let mut correlations: Correlations = BTreeMap::new();
    let mut labelled = label(files, embedder)?;
    for (file, loops) in files.iter().zip(&labelled) {
        let Some(reported) = &file.reported else { continue };
        let rounds = rounds_of(&loops.rounds, profile)?;
        for (metric, value) in METRICS {
            let values: Vec<f64> = rounds.iter().map(|round| value(round).unwrap_or(0.0)).collect();
            // Without variation on one side the correlation is undefined.
            if let Ok(rho) = spearman(&values, reported) {
                correlations
                    .entry(metric)
                    .or_default()
                    .insert(file.name.clone(), rho);
            }
        }
    }
    labelled.retain(|conversation| conversation.expected.is_some() || conversation.stop_round.is_some());
    let grid = if arguments.sweep {
        Grid {
            k: vec![1, 2, 3],
            semantic_threshold: vec![0.65, 0.7, 0.75, 0.8, 0.85],
            ..Grid::default()
        }
    } else {
        Grid::default()
    };
    let report = sweep(&labelled, profile, prototypes.as_deref(), &grid)?;
    print_report(&title, &report, &correlations, arguments);
    Ok(())
}

/// Conversations with their labels and, given a model, their vectors.
fn label(files: &[File], meaning: Option<&Meaning>) -> Result<Vec<Labelled>> {
    let embed = |round: &Round| {
        let vectors =
            |meaning: &Meaning| RoundVectors::new(meaning.id(), round, meaning.embed(&texts_to_embed(round)));
        anyhow::Ok((round.clone(), meaning.map(vectors).transpose()?))
    };
    let label = |file: &File| {
        Ok(Labelled {
            name: file.name.clone(),
            expected: file.expected,
            stop_round: file.stop_round,
            rounds: file.transcript.rounds.iter().map(embed).collect::<Result<_>>()?,
        })
    };
    files.iter().map(label).collect()
}

/// Spearman correlations by metric and loop.
type Correlations = BTreeMap<&'static str, BTreeMap<String, f64>>;

/// Metric of a round; `None` if the round does not have it.
type Metric = fn(&RoundNovelty) -> Option<f64>;

/// Metrics compared with a loop's own report: novelty, its two factors, and the seed's rate.
const METRICS: [(&str, Metric); 4] = [
    ("novelty", |round| round.novelty),
    ("terms alone", |round| round.term_novelty),
    ("distance alone", |round| {
        round.semantic_similarity.map(|cosine| 1.0 - cosine)
    }),
    ("novelty_rate", |round| Some(round.novelty_rate)),
];

fn rounds_of(rounds: &[(Round, Option<RoundVectors>)], profile: &Profile) -> Result<Vec<RoundNovelty>> {
    let mut conversation = Conversation::new(profile.clone())?;
    for (round, vectors) in rounds {
        conversation.observe(round, vectors.as_ref())?;
    }
    Ok(conversation.report()?.novelty_by_round)
}

fn print_report(title: &str, report: &SweepReport, correlations: &Correlations, arguments: &Arguments) {
    let base = &report.base;
    print!(
        "  {title}  signals {:2} of {:2}",
        base.signals_right, base.signals_labelled
    );
    print!(
        "  stop rounds {:2} of {:2} (early {}, late {})",
        base.stop_rounds_right, base.stop_rounds_labelled, base.stop_rounds_early, base.stop_rounds_late
    );
    println!();
    for (metric, loops) in correlations {
        if let Some(median) = median(loops.values().copied().collect()) {
            println!(
                "      Spearman of {metric} over {} loops: median {median:.3}",
                loops.len()
            );
        }
    }
    for outcome in &report.outcomes {
        let wrong_signal = outcome
            .expected
            .is_some_and(|expected| expected != outcome.signal);
        let wrong_round = outcome.stop_round.is_some() && outcome.stop_round != outcome.first_stop_round;
        if arguments.verbose || wrong_signal || wrong_round {
            println!(
                "      {:36} expected {:8} got {:8} stop round {:4} got {:4}{}",
                outcome.name,
                outcome.expected.map_or("-", Signal::as_str),
                outcome.signal,
                outcome
                    .stop_round
                    .map_or("-".to_owned(), |round| round.to_string()),
                outcome
                    .first_stop_round
                    .map_or("-".to_owned(), |round| round.to_string()),
                if wrong_signal || wrong_round { "  <-" } else { "" }
            );
        }
    }
    for (name, rho) in correlations.get("novelty").into_iter().flatten() {
        println!("      {name:36} Spearman {rho:.2}");
    }
    for cell in report.cells.iter().filter(|_| arguments.sweep) {
        println!(
            "      k {} L2 {:.2}: signals {} of {}, stop rounds {} of {}",
            cell.k,
            cell.semantic_threshold,
            cell.signals_right,
            cell.signals_labelled,
            cell.stop_rounds_right,
            cell.stop_rounds_labelled
        );
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (
        values.get(values.len().checked_sub(1)? / 2)?,
        values.get(values.len() / 2)?,
    );
    Some(f64::midpoint(*low, *high))
}

/// Built-in model with a cache, because the same texts are embedded once per profile.
struct Meaning {
    model: MiniLm,
    known: RefCell<BTreeMap<String, Vec<f32>>>,
}

impl Meaning {
    fn new() -> Result<Self> {
        Ok(Self {
            model: MiniLm::builtin()?,
            known: RefCell::default(),
        })
    }

    fn id(&self) -> String {
        self.model.id().to_string()
    }

    fn embed(&self, texts: &[String]) -> Vec<Vec<f32>> {
        let mut known = self.known.borrow_mut();
        let fresh: Vec<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| !known.contains_key(*text))
            .collect();
        let vectors = self.model.encode(&fresh);
        known.extend(fresh.into_iter().map(str::to_owned).zip(vectors));
        texts.iter().filter_map(|text| known.get(text).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conversations and their decisions by the default profile with embeddings.
    fn decided(directory: &Path) -> Result<(Vec<File>, SweepReport)> {
        let (profile, meaning) = (Profile::default(), Meaning::new()?);
        let mut files = read(directory)?;
        files.retain(|file| file.reported.is_none());
        let labelled = label(&files, Some(&meaning))?;
        let prototypes = meaning.embed(&prototype_texts(&profile));
        let report = sweep(&labelled, &profile, Some(&prototypes), &Grid::default())?;
        Ok((files, report))
    }

    #[test]
    fn default_profile_matches_every_calibration_label() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/calibration");
        let (files, report) = decided(&directory).expect("the calibration set can be read and embedded");
        assert!(files.len() >= 20, "{} conversations", files.len());
        for (file, outcome) in files.iter().zip(&report.outcomes) {
            assert_eq!(Some(outcome.signal), file.expected, "{}", file.name);
            // A conversation labelled CONTINUE without a stop round must never have been stopped.
            if file.stop_round.is_some() || file.expected == Some(Signal::Continue) {
                assert_eq!(outcome.first_stop_round, file.stop_round, "{}", file.name);
            }
        }
    }

    #[test]
    fn labelled_warnings_are_raised() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/calibration");
        let (profile, meaning) = (Profile::default(), Meaning::new().expect("the built-in model"));
        let prototypes = meaning.embed(&prototype_texts(&profile));
        for file in read(&directory).expect("the calibration set") {
            let expected = file.transcript.extra["_expected"]
                .get("warnings")
                .cloned()
                .unwrap_or_default();
            let mut conversation = Conversation::new(profile.clone())
                .expect("a built-in profile")
                .with_blocker_prototypes(prototypes.clone())
                .expect("one vector a prototype");
            for round in &file.transcript.rounds {
                let vectors = RoundVectors::new(meaning.id(), round, meaning.embed(&texts_to_embed(round)));
                conversation
                    .observe(round, Some(&vectors.expect("vectors")))
                    .expect("a verdict");
            }
            let raised =
                serde_json::to_value(conversation.report().expect("a report").warnings).expect("JSON");
            for kind in expected.as_array().into_iter().flatten() {
                let found = raised
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|warning| warning["kind"] == *kind);
                assert!(found, "{}: {kind} is not raised", file.name);
            }
        }
    }

    #[test]
    fn default_profile_matches_external_labels_if_available() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/dialogue");
        if !directory.is_dir() {
            return;
        }
        let (_, report) = decided(&directory).expect("the shared conversations can be read and embedded");
        assert_eq!(
            report.base.signals_right, report.base.signals_labelled,
            "{:#?}",
            report.outcomes
        );
    }
}
