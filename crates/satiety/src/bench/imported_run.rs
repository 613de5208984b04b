//! Results of other tools as runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::Direction;
use super::loss::Loss;
use super::reader::SuiteError;
use super::run::{BenchmarkResult, BenchmarkRun, NamedScore};
use super::summary::score_summaries;

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
pub(super) fn imported_scores(
    results: &[BenchmarkResult],
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
    pub(super) fn choose(
        file: &str,
        position: &dyn Fn(&str) -> (usize, usize),
        headline: Option<&(Option<String>, Option<String>)>,
        samples: &[Vec<NamedScore>],
        options: &ScoreChoice,
    ) -> Result<Option<Self>, SuiteError> {
        let mut bounds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut names: Vec<&str> = Vec::new();
        for score in samples.iter().flatten() {
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

fn field_error(file: &str, field: &str, reason: &str) -> SuiteError {
    SuiteError::Field {
        file: file.to_owned(),
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}
