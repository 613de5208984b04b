//! Stopping rules of a search loop, compared on recorded searches with known relevant documents.
//!
//! `cargo run --release --manifest-path studies/Cargo.toml --bin stopping -- --data DIR --conversations examples/conversations`
//!
//! Every question is searched for ten rounds, without a model or a network. Rules are then replayed on the recorded
//! rounds. Recall is the share of the relevant documents of ten rounds, or of all judged ones. Estimates of what is
//! missed are cross-fitted: the model that decides a question was fitted on other questions. Intervals are 95 % over
//! questions.
#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use satiety::research::gate::{Decision, decide, draw};
use satiety::research::missed::{Discovery, DiscoveryCounts, MissedModel};
use satiety::research::settings::LookAhead;
use satiety::research::{
    Assessor, GateSettings, Hit, Missed, Novelty, Research, ResearchSettings, RoundOutcome, Spent, Step,
    StopRule, StopThreshold,
};
use satiety::stats::wilson;
use satiety::text::{LexicalIndex, StopWords};
use serde_json::Value;

const ROUNDS: usize = 10;
const FOLDS: usize = 8;
const RESAMPLES: usize = 1000;

/// Stopping rules of a search loop on recorded searches.
#[derive(Parser)]
struct Arguments {
    /// Directory of collections (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv` in each)
    #[arg(long)]
    data: PathBuf,
    /// Directory of conversations with questions
    #[arg(long)]
    conversations: Option<PathBuf>,
    /// Number of results per search in collections; conversations use half of it
    #[arg(long, default_value_t = 20)]
    results: u32,
}

/// A round as recorded.
struct Round {
    /// Share of new claims.
    claims: f64,
    /// Share of new words, as the specification counts them.
    seed: f64,
    task_yield: Option<f64>,
    discovery: Discovery,
    /// Estimate of a model that was fitted on other questions.
    missed: Option<Missed>,
}

struct Question {
    /// Number of judged relevant documents.
    judged: f64,
    /// Number of relevant documents found after 0, 1, … rounds.
    found: Vec<f64>,
    rounds: Vec<Round>,
}

impl Question {
    fn recall(&self, rounds: usize) -> f64 {
        self.found[rounds.min(self.found.len() - 1)] / self.found[self.found.len() - 1]
    }

    fn missed(&self, rounds: usize) -> f64 {
        1.0 - self.recall(rounds)
    }
}

struct Collection {
    name: String,
    questions: Vec<Question>,
}

/// A question and the numbers of its relevant documents.
type Task = (String, BTreeSet<usize>);

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut collections = Vec::new();
    let mut folders: Vec<PathBuf> = fs_err::read_dir(&arguments.data)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("corpus.jsonl").is_file())
        .collect();
    folders.sort();
    for folder in &folders {
        let (hits, tasks) = read_collection(folder)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        collections.push(record(&name, &hits, &tasks, arguments.results)?);
    }
    if let Some(folder) = &arguments.conversations {
        let (hits, tasks) = read_conversations(folder)?;
        collections.push(record(
            "conversations",
            &hits,
            &tasks,
            (arguments.results / 2).max(1),
        )?);
    }
    if collections.is_empty() {
        bail!("{} has no collection", arguments.data.display());
    }
    let whole = fit(&examples(&collections, |_, _| true));
    println!("Coefficients fitted on all questions: {whole:.3?}");
    println!(
        "Built-in coefficients:                {:.3?}",
        MissedModel::BUILT_IN
    );
    cross_fit(&mut collections);
    for collection in &collections {
        rules(collection);
    }
    calibration(&collections)?;
    for collection in &collections {
        predictability(collection);
    }
    Ok(())
}

/// Searches every question for ten rounds. Questions for which ten rounds find nothing relevant are left out.
fn record(name: &str, hits: &[Hit], tasks: &[Task], results: u32) -> Result<Collection> {
    let mut index = LexicalIndex::new(StopWords::Research);
    for (number, hit) in (0..).zip(hits) {
        index.put(number, [("", hit.whole().as_str())]);
    }
    let mut questions = Vec::new();
    for (task, relevant) in tasks {
        let (found, mut rounds) = play(&index, hits, task, relevant, results, Assessor::Claims)?;
        // The summary that words are compared with depends on the assessor.
        let (_, literal) = play(&index, hits, task, relevant, results, Assessor::Seed)?;
        for (round, literal) in rounds.iter_mut().zip(&literal) {
            round.seed = literal.seed;
        }
        if found[found.len() - 1] > 0.0 {
            questions.push(Question {
                judged: relevant.len() as f64,
                found,
                rounds,
            });
        }
    }
    println!(
        "{name}: {} documents, {results} results per search; ten rounds find something relevant for {} of {} questions",
        hits.len(),
        questions.len(),
        tasks.len()
    );
    Ok(Collection {
        name: name.to_owned(),
        questions,
    })
}

fn play(
    index: &LexicalIndex,
    hits: &[Hit],
    task: &str,
    relevant: &BTreeSet<usize>,
    results: u32,
    assessor: Assessor,
) -> Result<(Vec<f64>, Vec<Round>)> {
    let settings = ResearchSettings {
        gate: GateSettings {
            stop: StopRule::Fixed,
            max_rounds: ROUNDS as u32,
            assessor,
            ..GateSettings::default()
        },
        results_per_search: results,
        ..ResearchSettings::default()
    };
    let mut research = Research::new(task, Vec::new(), settings)?;
    let mut counts = DiscoveryCounts::default();
    let mut seen = BTreeSet::new();
    let (mut found, mut rounds) = (vec![0.0], Vec::new());
    while let Step::Search { query, planned, .. } = research.next(&Spent::default()) {
        let returned = index.search(&query, results as usize);
        let list: Vec<Hit> = returned
            .iter()
            .filter_map(|(at, _)| hits.get(*at as usize).cloned())
            .collect();
        seen.extend(
            returned
                .iter()
                .map(|(at, _)| *at as usize)
                .filter(|at| relevant.contains(at)),
        );
        found.push(seen.len() as f64);
        counts.add(&list);
        let discovery = counts.current();
        let (verdict, novelty, outcome, summary) = if list.is_empty() {
            let outcome = RoundOutcome::Empty;
            (
                research.decide_without_results(&outcome),
                Novelty::default(),
                outcome,
                None,
            )
        } else {
            let assessment = research.assess(&list, None);
            let (verdict, novelty) = research.decide(assessment, None);
            let summary = research.extracted_summary(&list);
            (verdict, novelty, RoundOutcome::Found, Some(summary))
        };
        rounds.push(Round {
            claims: novelty.claims.unwrap_or(0.0),
            seed: novelty.seed.unwrap_or(0.0),
            task_yield: novelty.task_yield,
            discovery,
            missed: None,
        });
        let record = research.record(query, planned, outcome, list, verdict, novelty, summary);
        research.apply(record, None, true);
    }
    Ok((found, rounds))
}

/// An observation for the model: overlap after a round, missed share, weight.
type Example = (Discovery, f64, f64);

/// Observations of the selected questions; every collection has the same weight.
fn examples(collections: &[Collection], take: impl Fn(usize, usize) -> bool) -> Vec<Example> {
    let mut examples = Vec::new();
    for (at, collection) in collections.iter().enumerate() {
        let chosen: Vec<&Question> = (0..)
            .zip(&collection.questions)
            .filter(|(number, _)| take(at, *number))
            .map(|(_, question)| question)
            .collect();
        let weight = 1.0 / chosen.len().max(1) as f64;
        for question in chosen {
            // After the last round nothing is missed by definition.
            for (number, round) in (1..ROUNDS).zip(&question.rounds) {
                examples.push((round.discovery, question.missed(number), weight));
            }
        }
    }
    examples
}

fn features(discovery: &Discovery) -> [f64; 3] {
    [
        f64::from(discovery.searches.max(1)).ln(),
        discovery.once_share,
        discovery.new_share,
    ]
}

/// Fits the proportional odds model by Newton's method on the sum of the ten logistic likelihoods.
fn fit(examples: &[Example]) -> MissedModel {
    const CUTS: usize = 10;
    const SIZE: usize = CUTS + 3;
    let total: f64 = examples.iter().map(|(_, _, weight)| weight).sum();
    let mut parameters = [0.0; SIZE];
    for _ in 0..50 {
        let mut gradient = vec![0.0; SIZE];
        let mut hessian = vec![vec![0.0; SIZE]; SIZE];
        for (discovery, missed, weight) in examples {
            let x = features(discovery);
            let shift: f64 = (0..3).map(|at| parameters[at] * x[at]).sum();
            for cut in 0..CUTS {
                let p = 1.0 / (1.0 + (-(parameters[3 + cut] + shift)).exp());
                let above = f64::from(u8::from(*missed > cut as f64 / CUTS as f64));
                let (g, h) = (weight * (p - above) / total, weight * p * (1.0 - p) / total);
                for a in 0..3 {
                    gradient[a] += g * x[a];
                    hessian[a][3 + cut] += h * x[a];
                    hessian[3 + cut][a] += h * x[a];
                    for b in 0..3 {
                        hessian[a][b] += h * x[a] * x[b];
                    }
                }
                gradient[3 + cut] += g;
                hessian[3 + cut][3 + cut] += h;
            }
        }
        for (at, row) in hessian.iter_mut().enumerate() {
            // A small ridge keeps slopes of features that barely vary finite.
            if at < 3 {
                gradient[at] += 1e-3 * parameters[at];
                row[at] += 1e-3;
            } else {
                row[at] += 1e-9;
            }
        }
        let step = solve(hessian, gradient);
        for (parameter, step) in parameters.iter_mut().zip(&step) {
            *parameter -= step.clamp(-2.0, 2.0);
        }
        if step.iter().all(|step| step.abs() < 1e-8) {
            break;
        }
    }
    let mut cuts = [0.0; CUTS];
    cuts.copy_from_slice(&parameters[3..]);
    MissedModel {
        cuts,
        log_searches: parameters[0],
        once_share: parameters[1],
        new_share: parameters[2],
    }
}

/// Solves a linear system by elimination with pivots.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for at in 0..size {
        let pivot = (at..size)
            .max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))
            .unwrap_or(at);
        matrix.swap(at, pivot);
        right.swap(at, pivot);
        for row in at + 1..size {
            let factor = matrix[row][at] / matrix[at][at];
            for column in at..size {
                matrix[row][column] -= factor * matrix[at][column];
            }
            right[row] -= factor * right[at];
        }
    }
    for at in (0..size).rev() {
        for column in at + 1..size {
            right[at] -= matrix[at][column] * right[column];
        }
        right[at] /= matrix[at][at];
    }
    right
}

/// Assigns each of `count` questions to a fold.
fn folds(count: usize) -> Vec<usize> {
    let mut folds: Vec<usize> = (0..count).map(|number| number % FOLDS).collect();
    folds.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    folds
}

/// Estimates what is missed for each question with a model of the other questions.
fn cross_fit(collections: &mut [Collection]) {
    for at in 0..collections.len() {
        let folds = folds(collections[at].questions.len());
        for fold in 0..FOLDS {
            let model = fit(&examples(collections, |other, number| {
                other != at || folds[number] != fold
            }));
            for (question, own) in collections[at].questions.iter_mut().zip(&folds) {
                if *own == fold {
                    for round in &mut question.rounds {
                        round.missed = model.estimate(&round.discovery);
                    }
                }
            }
        }
    }
}

/// By question: number of searches and of rounds whose results are kept.
type Outcome = Vec<(usize, usize)>;

fn replay(collection: &Collection, settings: &GateSettings) -> Outcome {
    let mut outcome = Vec::new();
    for (number, question) in (0_u64..).zip(&collection.questions) {
        let mut end = (question.rounds.len(), question.rounds.len());
        for (round, recorded) in (1_u32..).zip(&question.rounds) {
            let share = match settings.assessor {
                Assessor::Seed => recorded.seed,
                _ => recorded.claims,
            };
            let chance = draw(number, round);
            let verdict = decide(
                settings,
                round,
                share,
                recorded.task_yield,
                recorded.missed,
                chance,
            );
            if verdict.decision == Decision::Stop {
                // The literal rules discard the round that they reject.
                let kept = verdict.accepted || settings.assessor != Assessor::Seed;
                end = (round as usize, round as usize - usize::from(!kept));
                break;
            }
        }
        outcome.push(end);
    }
    outcome
}

/// Rules of one kind, from few to many searches.
struct Family {
    name: &'static str,
    members: Vec<(String, Outcome)>,
}

fn families(collection: &Collection) -> Vec<Family> {
    let ten = GateSettings {
        max_rounds: ROUNDS as u32,
        ..GateSettings::default()
    };
    let family = |name, members: Vec<(String, GateSettings)>| Family {
        name,
        members: members
            .into_iter()
            .map(|(label, settings)| (label, replay(collection, &settings)))
            .collect(),
    };
    let fixed = (1..=ROUNDS as u32).map(|rounds| {
        let settings = GateSettings {
            stop: StopRule::Fixed,
            min_rounds: 1,
            max_rounds: rounds,
            ..ten
        };
        (format!("{rounds}"), settings)
    });
    let seed = [3, 4, 5, 6, 7, 8, 9, 10].map(|score| {
        let settings = GateSettings {
            threshold: StopThreshold::Score(score),
            max_rounds: ROUNDS as u32,
            ..GateSettings::literal()
        };
        (format!("threshold {score}"), settings)
    });
    let mut today = vec![("default, at most 5".to_owned(), GateSettings::default())];
    today.extend(
        [0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05].map(|yield_below| {
            let look_ahead = Some(LookAhead {
                yield_below,
                from_round: 2,
            });
            (format!("yield {yield_below}"), GateSettings { look_ahead, ..ten })
        }),
    );
    let missed = [
        0.5, 0.25, 0.22, 0.2, 0.18, 0.16, 0.14, 0.12, 0.1, 0.09, 0.08, 0.07, 0.06, 0.05, 0.04, 0.0,
    ]
    .map(|max_missed| {
        let settings = GateSettings {
            stop: StopRule::Missed,
            min_rounds: 1,
            max_missed,
            ..ten
        };
        (format!("at most {max_missed}"), settings)
    });
    vec![
        family("fixed number", fixed.collect()),
        family("specification", seed.into()),
        family("novelty", today),
        family("missed", missed.into()),
    ]
}

/// Mean searches and recall of an outcome over a sample of questions.
fn point(collection: &Collection, outcome: &Outcome, pick: &[usize], judged: bool) -> (f64, f64) {
    let (mut searches, mut recall) = (0.0, 0.0);
    for at in pick {
        let (question, (made, kept)) = (&collection.questions[*at], outcome[*at]);
        searches += made as f64;
        recall += if judged {
            question.found[kept] / question.judged
        } else {
            question.recall(kept)
        };
    }
    (searches / pick.len() as f64, recall / pick.len() as f64)
}

fn curve(collection: &Collection, family: &Family, pick: &[usize]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = family
        .members
        .iter()
        .map(|(_, outcome)| point(collection, outcome, pick, false))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Recall of a family at a number of searches, interpolated between its rules; `None` outside of its range.
fn recall_at(points: &[(f64, f64)], searches: f64) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let inside = (x0..=x1).contains(&searches) && x1 > x0;
        inside.then(|| y0 + (y1 - y0) * (searches - x0) / (x1 - x0))
    })
}

/// Fewest searches with which a family reaches a recall, interpolated between its rules.
fn searches_for(points: &[(f64, f64)], recall: f64) -> Option<f64> {
    points
        .windows(2)
        .filter_map(|pair| {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            if y0 >= recall {
                Some(x0)
            } else if y1 >= recall {
                Some(x0 + (x1 - x0) * (recall - y0) / (y1 - y0))
            } else {
                None
            }
        })
        .min_by(f64::total_cmp)
}

/// Estimate over all questions and percentile interval over resampled ones.
fn interval(count: usize, statistic: impl Fn(&[usize]) -> Option<f64>) -> Option<(f64, f64, f64)> {
    let all: Vec<usize> = (0..count).collect();
    let estimate = statistic(&all)?;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut values: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let pick: Vec<usize> = (0..count).map(|_| random.random_range(0..count)).collect();
            statistic(&pick)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let low = values.get(values.len() / 40)?;
    let high = values.get(values.len() - 1 - values.len() / 40)?;
    Some((estimate, *low, *high))
}

fn shown(interval: Option<(f64, f64, f64)>, scale: f64, digits: usize) -> String {
    interval.map_or_else(
        || "–".into(),
        |(estimate, low, high)| {
            format!(
                "{:.digits$} ({:.digits$} to {:.digits$})",
                estimate * scale,
                low * scale,
                high * scale
            )
        },
    )
}

fn rules(collection: &Collection) {
    let families = families(collection);
    let count = collection.questions.len();
    println!(
        "\n# {}\n\n| rule | searches | recall of ten rounds, % | recall of judged, % | minus the best other rule at as many searches, points |\n|---|--:|---|---|---|",
        collection.name
    );
    for family in &families {
        for (label, outcome) in &family.members {
            let of = |judged| interval(count, |pick| Some(point(collection, outcome, pick, judged).1));
            let above = if family.name == "missed" {
                interval(count, |pick| {
                    let (searches, recall) = point(collection, outcome, pick, false);
                    let others = families.iter().filter(|other| other.name != "missed");
                    let best = others
                        .filter_map(|other| recall_at(&curve(collection, other, pick), searches))
                        .max_by(f64::total_cmp)?;
                    Some(recall - best)
                })
            } else {
                None
            };
            let all: Vec<usize> = (0..count).collect();
            println!(
                "| {} {label} | {:.2} | {} | {} | {} |",
                family.name,
                point(collection, outcome, &all, false).0,
                shown(of(false), 100.0, 1),
                shown(of(true), 100.0, 1),
                shown(above, 100.0, 1)
            );
        }
    }
    println!(
        "\n| searches minus those of the fixed number with the same recall, % | 2 | 3 | 4 | 5 | 6 |\n|---|---|---|---|---|---|"
    );
    for family in families.iter().skip(2) {
        let cells = [2_usize, 3, 4, 5, 6].map(|rounds| {
            let difference = interval(count, |pick| {
                let fixed = point(collection, &families[0].members[rounds - 1].1, pick, false);
                let needed = searches_for(&curve(collection, family, pick), fixed.1)?;
                Some(needed / fixed.0 - 1.0)
            });
            shown(difference, 100.0, 0)
        });
        println!("| {} | {} |", family.name, cells.join(" | "));
    }
}

/// Claimed and actual missed shares, for questions and for collections that were not used for fitting.
fn calibration(collections: &[Collection]) -> Result<()> {
    println!(
        "\n# Calibration of the missed share\n\n| fitted on | tested on | rounds | claimed mean, % | actual mean, % | above the bound, % (target: 10; 95 % interval) | mean bound, % |\n|---|---|--:|--:|--:|--:|--:|"
    );
    for (at, collection) in collections.iter().enumerate() {
        let others = fit(&examples(collections, |other, _| other != at));
        for (label, model) in [("other questions", None), ("other collections", Some(&others))] {
            for rounds in [2, 3, 4, 5] {
                let (mut claimed, mut actual, mut above, mut bound, mut count) = (0.0, 0.0, 0.0, 0.0, 0.0);
                for question in &collection.questions {
                    let Some(round) = question.rounds.get(rounds - 1) else {
                        continue;
                    };
                    let estimate = model.map_or(round.missed, |model| model.estimate(&round.discovery));
                    let Some(estimate) = estimate else { continue };
                    claimed += estimate.share;
                    bound += estimate.bound;
                    actual += question.missed(rounds);
                    above += f64::from(u8::from(question.missed(rounds) > estimate.bound + 1e-9));
                    count += 1.0;
                }
                let percent = |value: f64| 100.0 * value / f64::max(count, 1.0);
                let exact = wilson(above as u64, count as u64, 0.95)?;
                println!(
                    "| {label} | {} | {rounds} | {:.1} | {:.1} | {:.1} ({:.1} to {:.1}) | {:.0} |",
                    collection.name,
                    percent(claimed),
                    percent(actual),
                    percent(above),
                    100.0 * exact.low,
                    100.0 * exact.high,
                    percent(bound)
                );
            }
        }
    }
    println!(
        "\n| estimate, % (cross-fitted, all rounds and collections) | mean claim, % | actual, % | states |\n|---|--:|--:|--:|"
    );
    let mut bins: BTreeMap<usize, (f64, f64, f64)> = BTreeMap::new();
    for question in collections.iter().flat_map(|collection| &collection.questions) {
        for (number, round) in (1..ROUNDS).zip(&question.rounds) {
            if let Some(estimate) = round.missed {
                let bin = bins.entry(((estimate.share * 20.0) as usize).min(6)).or_default();
                *bin = (
                    bin.0 + estimate.share,
                    bin.1 + question.missed(number),
                    bin.2 + 1.0,
                );
            }
        }
    }
    for (bin, (claimed, actual, count)) in bins {
        println!(
            "| {} to {} | {:.1} | {:.1} | {count} |",
            5 * bin,
            if bin == 6 { 100 } else { 5 * bin + 5 },
            100.0 * claimed / count,
            100.0 * actual / count
        );
    }
    Ok(())
}

/// How much of the variation between questions a rule could use: an oracle, and a regression of the gain of the next
/// round on everything the gate sees, on questions that were not used for fitting.
fn predictability(collection: &Collection) {
    let questions = &collection.questions;
    println!(
        "\n# {}: what can be predicted\n\n| after round | mean gain of the next, points | questions without gain, % | variance explained, % |\n|---|--:|--:|--:|",
        collection.name
    );
    let folds = folds(questions.len());
    for round in 1..=6_usize {
        let rows: Vec<(Vec<f64>, f64, usize)> = questions
            .iter()
            .zip(&folds)
            .filter_map(|(question, fold)| {
                let recorded = question.rounds.get(round - 1)?;
                let x = vec![
                    1.0,
                    recorded.claims,
                    recorded.task_yield.unwrap_or(0.0),
                    recorded.discovery.once_share,
                    recorded.discovery.new_share,
                ];
                Some((x, question.recall(round + 1) - question.recall(round), *fold))
            })
            .collect();
        let (mut residual, mut total) = (0.0, 0.0);
        for fold in 0..FOLDS {
            let train: Vec<_> = rows.iter().filter(|row| row.2 != fold).collect();
            let size = rows[0].0.len();
            let mut matrix = vec![vec![0.0; size]; size];
            let mut right = vec![0.0; size];
            for (x, y, _) in &train {
                for a in 0..size {
                    right[a] += x[a] * y;
                    for b in 0..size {
                        matrix[a][b] += x[a] * x[b];
                    }
                }
            }
            for (at, row) in matrix.iter_mut().enumerate().skip(1) {
                row[at] += 0.05 * train.len() as f64;
            }
            let weights = solve(matrix, right);
            let mean = train.iter().map(|row| row.1).sum::<f64>() / train.len() as f64;
            for (x, y, _) in rows.iter().filter(|row| row.2 == fold) {
                let predicted: f64 = x.iter().zip(&weights).map(|(x, weight)| x * weight).sum();
                residual += (y - predicted).powi(2);
                total += (y - mean).powi(2);
            }
        }
        let count = rows.len() as f64;
        println!(
            "| {round} | {:.1} | {:.0} | {:.1} |",
            100.0 * rows.iter().map(|row| row.1).sum::<f64>() / count,
            100.0 * rows.iter().filter(|row| row.1 <= 0.0).count() as f64 / count,
            100.0 * (1.0 - residual / f64::max(total, 1e-12))
        );
    }
    // With hindsight: the fewest rounds after which a question gains less than a price per round.
    let hindsight: Vec<(f64, f64)> = (0..200)
        .map(|step| {
            let price = f64::from(step) / 400.0;
            let (mut searches, mut recall) = (0.0, 0.0);
            for question in questions {
                let value = |rounds: &usize| question.recall(*rounds) - price * *rounds as f64;
                let best = (1..=ROUNDS)
                    .max_by(|a, b| value(a).total_cmp(&value(b)).then(b.cmp(a)))
                    .unwrap_or(1);
                searches += best as f64;
                recall += question.recall(best);
            }
            (searches / questions.len() as f64, recall / questions.len() as f64)
        })
        .collect();
    let four = questions.iter().map(|question| question.recall(4)).sum::<f64>() / questions.len() as f64;
    let mut sorted = hindsight;
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!(
        "\nWith hindsight, the recall of four rounds ({:.1} %) takes {:.2} searches.",
        100.0 * four,
        searches_for(&sorted, four).unwrap_or(f64::NAN)
    );
}

fn read_collection(folder: &Path) -> Result<(Vec<Hit>, Vec<Task>)> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let documents = lines(&folder.join("corpus.jsonl"))?;
    let numbers: BTreeMap<String, usize> = documents.iter().map(|row| text(row, "id")).zip(0..).collect();
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
    let hits = documents
        .iter()
        .map(|row| Hit::new(text(row, "title"), text(row, "id"), text(row, "text")))
        .collect();
    let tasks = lines(&folder.join("queries.jsonl"))?
        .iter()
        .filter_map(|row| Some((text(row, "text"), relevant.remove(&text(row, "id"))?)))
        .collect();
    Ok((hits, tasks))
}

/// Turns of all conversations as documents, and the questions that have evidence.
fn read_conversations(folder: &Path) -> Result<(Vec<Hit>, Vec<Task>)> {
    let mut files: Vec<PathBuf> = fs_err::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let (mut hits, mut tasks) = (Vec::new(), Vec::new());
    for file in &files {
        let conversation: Value = serde_json::from_str(&fs_err::read_to_string(file)?)
            .with_context(|| file.display().to_string())?;
        let id = conversation["id"].as_str().unwrap_or_default();
        let mut numbers = BTreeMap::new();
        for (session, number) in conversation["sessions"].as_array().into_iter().flatten().zip(1..) {
            for (turn, place) in session["turns"].as_array().into_iter().flatten().zip(1..) {
                let said = format!(
                    "{}: {}",
                    turn["speaker"].as_str().unwrap_or_default(),
                    turn["text"].as_str().unwrap_or_default()
                );
                numbers.insert(format!("{number}:{place}"), hits.len());
                hits.push(Hit::new("", format!("{id}:{number}:{place}"), said));
            }
        }
        for question in conversation["questions"].as_array().into_iter().flatten() {
            let evidence = question["evidence"].as_array().into_iter().flatten();
            let relevant: BTreeSet<usize> = evidence
                .filter_map(|turn| numbers.get(turn.as_str()?).copied())
                .collect();
            if !relevant.is_empty() {
                tasks.push((
                    question["question"].as_str().unwrap_or_default().to_owned(),
                    relevant,
                ));
            }
        }
    }
    Ok((hits, tasks))
}

fn lines(path: &Path) -> Result<Vec<Value>> {
    fs_err::read_to_string(path)?
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
        .map(|(line, number)| {
            serde_json::from_str(line).with_context(|| format!("{}:{number}", path.display()))
        })
        .collect()
}
