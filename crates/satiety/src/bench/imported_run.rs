//! Results of other tools as runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::Direction;
use super::hash::content_hash;
use super::loss::{Loss, Losses};
use super::reader::SuiteError;
use super::run::{BenchmarkResult, BenchmarkRun, NamedScore, Status};
use super::summary::{leading, score_summaries, summarize};

/// Tolerance for comparing a score with a threshold or a range.
const TOLERANCE: f64 = 1e-9;

/// Choice of the score that decides whether an imported result passes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoreChoice {
    /// Name of the score that decides; required if several could and the file does not say which.
    pub scorer: Option<String>,
    /// Value from which a result passes, on the scorer's own scale. Defaults to the best value of `range`, or
    /// of [0, 1] if all values lie there; required otherwise.
    pub threshold: Option<f64>,
    /// Smallest and largest possible value of the deciding score, to normalize it to [0, 1].
    pub range: Option<(f64, f64)>,
    /// Whether lower values of the deciding score are better.
    pub lower_is_better: bool,
}

/// What a result file need not say itself: the fallback for its names and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultOrigin {
    /// Name of the suite or task.
    pub suite_id: String,
    /// Name of the evaluated system or model.
    pub target: String,
    /// Time of the evaluation.
    pub recorded_at: Timestamp,
}

/// Results of another tool as a run, with a report of what was read.
#[derive(Debug, Clone, PartialEq)]
pub struct RunImport {
    /// The run, with one result per case, variant and repeat.
    pub run: BenchmarkRun,
    /// All scores of the file, in its own order.
    pub scores: Vec<ImportedScore>,
    /// Parts of the file that the run does not have.
    pub losses: Vec<Loss>,
}

impl From<BenchmarkRun> for RunImport {
    /// Takes over a run that has all of its scores already.
    fn from(run: BenchmarkRun) -> Self {
        Self {
            scores: imported_scores(leading(&run.results), |_| None),
            losses: Vec::new(),
            run,
        }
    }
}

/// A named score of an imported run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedScore {
    /// Name of the score: the scorer, or `SCORER/KEY` for a scorer that returns several values.
    pub name: String,
    /// Whether this score decides which results pass.
    pub decides: bool,
    /// Mean over cases of the mean over repeats; absent without numeric values.
    pub mean: Option<f64>,
    /// Mean or accuracy that the file itself states, if any.
    pub log_mean: Option<f64>,
    /// Smallest numeric value.
    pub min: Option<f64>,
    /// Largest numeric value.
    pub max: Option<f64>,
    /// Number of results with a numeric value.
    pub scored: u64,
    /// Number of results whose value is missing or not a number.
    pub unscored: u64,
}

/// Summarizes the scores of imported results; `stated` gives the mean that the file itself states.
pub(super) fn imported_scores<'a>(
    results: impl IntoIterator<Item = &'a BenchmarkResult>,
    stated: impl Fn(&str) -> Option<f64>,
) -> Vec<ImportedScore> {
    score_summaries(results)
        .into_iter()
        .map(|summary| ImportedScore {
            log_mean: stated(&summary.name),
            decides: summary.decides,
            mean: summary.mean,
            min: summary.min,
            max: summary.max,
            scored: summary.scored,
            unscored: summary.unscored,
            name: summary.name,
        })
        .collect()
}

/// Decides the results that are pending by their scores. A result without a value of the deciding score is
/// skipped, because nothing is known about it.
pub(super) fn decide_by_scores(
    file: &str,
    results: &mut [BenchmarkResult],
    choice: &ScoreChoice,
) -> Result<Option<Decision>, SuiteError> {
    let scores = results.iter().flat_map(|result| &result.scores);
    let decision = Decision::choose(file, &|_| (0, 0), None, scores, choice)?;
    for result in results
        .iter_mut()
        .filter(|result| result.status == Status::Pending)
    {
        let found = decision
            .as_ref()
            .and_then(|decision| decision.apply(&mut result.scores));
        result.score = found.and_then(|(_, score)| score);
        result.status = match found {
            Some((true, _)) => Status::Pass,
            Some((false, _)) => Status::Fail,
            None => {
                result.reasons.push("the deciding score has no value".to_owned());
                Status::Skipped
            }
        };
    }
    Ok(decision)
}

/// A run from a file that has no id of its own: the same content of the same time is the same run. Two runs may
/// have equal verdicts, and some files have nothing else.
pub(super) fn run_of_content(
    tool: &str,
    content: &impl Serialize,
    origin: ResultOrigin,
    results: Vec<BenchmarkResult>,
    decision: Option<&Decision>,
    losses: Losses,
) -> RunImport {
    let hash = content_hash(&(content, origin.recorded_at));
    RunImport {
        scores: imported_scores(leading(&results), |_| None),
        losses: losses.into_vec(),
        run: BenchmarkRun {
            run_id: format!("{tool}-{}", hash.get(..16).unwrap_or_default()),
            suite_id: origin.suite_id,
            suite_hash: None,
            target: origin.target,
            started_at: origin.recorded_at,
            completed_at: Some(origin.recorded_at),
            config_snapshot: decision
                .map(|decision| ("deciding_score".to_owned(), decision.describe()))
                .into_iter()
                .collect(),
            summary: Some(summarize(leading(&results))),
            results,
        },
    }
}

/// Numbers results of the same case as repeats, in the order of the file.
#[derive(Default)]
pub(super) struct RepeatCounter {
    seen: BTreeMap<String, u32>,
}

impl RepeatCounter {
    /// The repeat of the next result of a case, from 0.
    pub(super) fn next(&mut self, case_id: &str) -> u32 {
        let count = self.seen.entry(case_id.to_owned()).or_default();
        let repeat = *count;
        *count = count.saturating_add(1);
        repeat
    }

    /// Reports cases that occur several times.
    pub(super) fn report(&self, place: &str, losses: &mut Losses) {
        for (case_id, count) in self.seen.iter().filter(|(_, count)| **count > 1) {
            losses.push(
                place,
                format!("`{case_id}` occurs {count} times: taken as repeats of one case"),
            );
        }
    }
}

/// Records a property of a test: tokens and cost as such, other numbers as metrics. Returns whether it is a
/// number.
pub(super) fn record_property(result: &mut BenchmarkResult, name: &str, value: &Value) -> bool {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    let Some(number) = number.filter(|number: &f64| number.is_finite()) else {
        return false;
    };
    match name {
        "tokens" | "token_cost" | "total_tokens" => {
            result.token_cost = whole_count(number).unwrap_or(result.token_cost);
        }
        "cost" | "cost_usd" => result.cost_usd = Some(number),
        _ => {
            result.metrics.insert(name.to_owned(), number);
        }
    }
    true
}

/// A count that was stored as a floating-point number; `None` if it is negative or not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is not negative, and a cast saturates"
)]
pub(super) fn whole_count(number: f64) -> Option<u64> {
    (number >= 0.0).then_some(number as u64)
}

/// The score that decides, and how.
pub(super) struct Decision {
    name: String,
    threshold: f64,
    range: (f64, f64),
    lower_is_better: bool,
    /// Whether the values can be normalized to [0, 1].
    has_scale: bool,
}

impl Decision {
    /// Chooses the deciding score; `None` when no result has a number. `position` gives the order of the
    /// file, `headline` the scorer and score that it declares.
    pub(super) fn choose<'a>(
        file: &str,
        position: &dyn Fn(&str) -> (usize, usize),
        headline: Option<&(Option<String>, Option<String>)>,
        scores: impl Iterator<Item = &'a NamedScore>,
        options: &ScoreChoice,
    ) -> Result<Option<Self>, SuiteError> {
        let mut bounds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut names: Vec<&str> = Vec::new();
        for score in scores {
            if !names.contains(&score.name.as_str()) {
                names.push(&score.name);
            }
            if let Some(value) = score.value {
                let (low, high) = bounds.entry(&score.name).or_insert((value, value));
                (*low, *high) = (low.min(value), high.max(value));
            }
        }
        names.sort_by_cached_key(|name| position(name));
        let list = |names: &[&str]| {
            let described = names.iter().map(|name| match bounds.get(name) {
                Some((low, high)) => format!("{name} ({low} to {high})"),
                None => format!("{name} (no numbers)"),
            });
            described.collect::<Vec<_>>().join(", ")
        };
        let numeric: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| bounds.contains_key(name))
            .collect();
        let headline = headline.and_then(|(scorer, score)| {
            match declared(scorer.as_deref(), score.as_deref(), &numeric).as_slice() {
                [name] => Some(*name),
                _ => None,
            }
        });
        let name = match (&options.scorer, headline, numeric.as_slice()) {
            (Some(wanted), _, _) => match matching(wanted, &names).as_slice() {
                [name] if bounds.contains_key(name) => *name,
                [name] => {
                    let reason = format!("`{name}` has no numeric value, so it cannot decide");
                    return Err(field_error(file, "scorer", &reason));
                }
                [] if names.is_empty() => {
                    let reason = format!("unknown scorer `{wanted}`: the file has no scores");
                    return Err(field_error(file, "scorer", &reason));
                }
                [] => {
                    let reason = format!("unknown scorer `{wanted}` (expected one of: {})", list(&names));
                    return Err(field_error(file, "scorer", &reason));
                }
                several => {
                    let reason = format!("`{wanted}` is ambiguous (expected one of: {})", list(several));
                    return Err(field_error(file, "scorer", &reason));
                }
            },
            (None, Some(name), _) => name,
            (None, _, []) => return Ok(None),
            (None, _, [only]) => only,
            (None, _, several) => {
                let reason = format!(
                    "must be chosen: the file has {} scorers and does not say which decides (expected one of: {})",
                    several.len(),
                    list(several)
                );
                return Err(field_error(file, "scorer", &reason));
            }
        };
        let (low, high) = bounds.get(name).copied().unwrap_or((0.0, 1.0));
        let fits = |range: (f64, f64)| low >= range.0 - TOLERANCE && high <= range.1 + TOLERANCE;
        let range = match options.range {
            Some((low, high)) if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) => {
                return Err(field_error(
                    file,
                    "range",
                    "must have a minimum below its maximum",
                ));
            }
            Some(range) if !fits(range) => {
                let reason = format!(
                    "the values of `{name}` are {low} to {high}, outside of {} to {}",
                    range.0, range.1
                );
                return Err(field_error(file, "range", &reason));
            }
            Some(range) => Some(range),
            None => Some((0.0, 1.0)).filter(|range| fits(*range)),
        };
        let best = |range: (f64, f64)| if options.lower_is_better { range.0 } else { range.1 };
        let Some(threshold) = options.threshold.or(range.map(best)) else {
            let reason = format!(
                "is required: the values of `{name}` are {low} to {high}, so 1 is not the best possible value"
            );
            return Err(field_error(file, "threshold", &reason));
        };
        Ok(Some(Self {
            name: name.to_owned(),
            threshold,
            range: range.unwrap_or((low, high)),
            lower_is_better: options.lower_is_better,
            has_scale: range.is_some(),
        }))
    }

    fn passes(&self, value: f64) -> bool {
        if self.lower_is_better {
            value <= self.threshold + TOLERANCE
        } else {
            value >= self.threshold - TOLERANCE
        }
    }

    /// The value on a scale from 0 (worst) to 1 (best), if the scale is known.
    fn normalized(&self, value: f64) -> Option<f64> {
        let share = (value - self.range.0) / (self.range.1 - self.range.0);
        let share = if self.lower_is_better { 1.0 - share } else { share };
        self.has_scale.then_some(share.clamp(0.0, 1.0))
    }

    /// Marks the deciding score of a result. Returns whether it passes, and its value on a scale from 0 to 1 if
    /// the scale is known; `None` when it has no value.
    pub(super) fn apply(&self, scores: &mut [NamedScore]) -> Option<(bool, Option<f64>)> {
        let score = scores.iter_mut().find(|score| score.name == self.name)?;
        score.decides = true;
        score.direction = Some(self.direction());
        if self.has_scale {
            score.range = Some([self.range.0, self.range.1]);
        }
        let value = score.value?;
        score.passed = Some(self.passes(value));
        Some((self.passes(value), self.normalized(value)))
    }

    fn direction(&self) -> Direction {
        if self.lower_is_better {
            Direction::Lower
        } else {
            Direction::Higher
        }
    }

    pub(super) fn describe(&self) -> Value {
        let range = self.has_scale.then_some([self.range.0, self.range.1]);
        serde_json::json!({"name": self.name, "threshold": self.threshold, "range": range, "direction": self.direction()})
    }
}

/// Names that a user's choice matches: exactly, or the scorer or the key of `SCORER/KEY`.
fn matching<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    if let Some(exact) = names.iter().find(|name| **name == wanted) {
        return vec![exact];
    }
    let part = |name: &&&str| {
        name.split_once('/')
            .is_some_and(|(scorer, key)| scorer == wanted || key == wanted)
    };
    names.iter().filter(part).copied().collect()
}

/// Names that a declared headline matches.
fn declared<'a>(scorer: Option<&str>, score: Option<&str>, names: &[&'a str]) -> Vec<&'a str> {
    let fits = |name: &&&str| {
        let (own_scorer, own_score) = name.split_once('/').unwrap_or((name, name));
        scorer.is_none_or(|scorer| scorer == own_scorer) && score.is_none_or(|score| score == own_score)
    };
    names.iter().filter(fits).copied().collect()
}

pub(super) fn field_error(file: &str, field: &str, reason: &str) -> SuiteError {
    SuiteError::Field {
        file: file.to_owned(),
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}
