//! Assesses an answer against its expectation: a score between 0 and 1, whether it passes, and the reasons.
//! Parts that require a judge or a person are returned as pending; call again with their answers. Parts that
//! can no longer change the outcome are not requested, so a judge is never paid for an answer that already
//! failed.
//!
//! Pure functions: the caller runs the judge and measures metrics.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::code_check::{CheckOutcome, CodeCheck, Language, language, parse_check};
use super::compare_values::{as_json, as_text, number_in, same_json, shorten};
use super::expected::{BenchmarkExpected, Direction, Mode};
use super::rubric::{Rubric, parse_rubric};
use super::run::{NamedScore, Status};

/// Scores are sums of products, so they are compared with a threshold within this tolerance.
const TOLERANCE: f64 = 1e-9;

/// Output and metrics of a target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Answer of the target: text or any JSON.
    pub output: Value,
    /// Measured and reported metrics by name: `latency_ms`, `token_cost`, `cost_usd`.
    pub metrics: BTreeMap<String, f64>,
}

/// Answers of judges and people for pending parts, by path of the part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// Judge score between 0 and 1, by path of the part.
    pub judged: BTreeMap<String, f64>,
    /// Outcome of a program or of a comparison of meaning, by path of the part.
    pub checked: BTreeMap<String, CheckOutcome>,
    /// Answer after the transforms of a part, by path of the part; the error is the reason why there is none.
    pub transformed: BTreeMap<String, Result<Value, String>>,
    /// Whether a person accepted the answer, by path of the part. A label with the path "" applies to every
    /// part that requires a person.
    pub labelled: BTreeMap<String, bool>,
}

impl Answers {
    /// Restores the outcomes of programs from the scores of an earlier assessment.
    pub fn restore_checks(&mut self, expected: &BenchmarkExpected, scores: &[NamedScore]) {
        self.restore_part(expected, "", scores);
    }

    fn restore_part(&mut self, expected: &BenchmarkExpected, place: &str, scores: &[NamedScore]) {
        if is_computed(expected) {
            let name = part_name(expected, place);
            let known = scores.iter().find(|score| score.name == name);
            if let Some((score, (passed, value))) =
                known.and_then(|score| Some((score, score.passed.zip(score.value)?)))
            {
                let outcome = CheckOutcome {
                    passed,
                    score: value,
                    reason: score.reason.clone(),
                    named: BTreeMap::new(),
                };
                self.checked.insert(place.to_owned(), outcome);
            }
        }
        for (index, part) in expected.parts.iter().enumerate() {
            self.restore_part(part, &place_below(place, index), scores);
        }
    }
}

/// Result of assessing an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Assessment {
    /// Pass, fail, pending, or skipped when a part cannot be checked.
    pub status: Status,
    /// Score between 0 and 1; absent when pending or skipped.
    pub score: Option<f64>,
    /// Reasons why the answer does not pass, most important first; empty for a pass.
    pub reasons: Vec<String>,
    /// Parts that await a program, a judge or a person.
    pub pending: Vec<Pending>,
    /// Scores of the parts that have a name, and of all programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<NamedScore>,
}

/// A part that awaits a program, a judge or a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// Path of the part: "" for the root, "1" for the second part, "1.0" for the first part of that.
    pub place: String,
    /// Rubric for the judge; absent when a program or a person decides.
    pub rubric: Option<Rubric>,
    /// Program that decides, with its language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<(Language, CodeCheck)>,
    /// Minimum judge score for the part to pass.
    pub threshold: f64,
}

/// Assesses an answer against its expectation.
pub fn assess(expected: &BenchmarkExpected, observed: &Observed, answers: &Answers) -> Assessment {
    // An unsupported check must not be hidden by a failing one: the case is skipped either way, so that it
    // shows as skipped for as long as it cannot be checked.
    if let Some(reason) = expected.unsupported_reason() {
        return skipped(reason);
    }
    let mut context = Context::new(observed, answers);
    let outcome = context.part(expected, "");
    let status = match outcome.passes {
        Some(true) => Status::Pass,
        Some(false) => Status::Fail,
        None => Status::Pending,
    };
    Assessment {
        status,
        // Programs may return scores on any scale.
        score: (outcome.low == outcome.high).then(|| outcome.low.clamp(0.0, 1.0)),
        reasons: if status == Status::Fail {
            context.reasons
        } else {
            Vec::new()
        },
        pending: if status == Status::Pending {
            context.pending
        } else {
            Vec::new()
        },
        scores: context.scores,
    }
}

/// Scores of the direct parts of an expectation that are decided, as its scorer gets them.
pub fn part_scores(expected: &BenchmarkExpected, observed: &Observed, answers: &Answers) -> Vec<NamedScore> {
    let mut context = Context::new(observed, answers);
    let output = context.output_of(expected, "").ok().flatten();
    context.output = output.unwrap_or(context.output);
    let parts = expected.parts.iter().enumerate();
    parts
        .filter_map(|(index, part)| {
            let (place, reasons) = (index.to_string(), context.reasons.len());
            let outcome = context.part(part, &place);
            Some(NamedScore {
                passed: Some(outcome.passes?),
                decides: part.weight > 0.0,
                reason: context.reasons.get(reasons).cloned(),
                ..NamedScore::new(part.name.clone().unwrap_or_default(), Some(outcome.low))
            })
        })
        .collect()
}

/// Whether the outcome of a part comes from the caller: from programs or from vectors.
fn is_computed(expected: &BenchmarkExpected) -> bool {
    language(expected.mode).is_some()
        || expected.mode == Mode::Similar
        || expected.scorer.is_some()
        || !expected.transforms.is_empty()
}

/// Default direction of a metric, by name: lower is better for latency, cost, tokens and duration, higher for
/// all others.
pub(crate) fn default_direction(metric: &str) -> Direction {
    let name = metric.to_ascii_lowercase();
    let lower = ["latency", "cost", "token", "duration"]
        .iter()
        .any(|word| name.contains(word))
        || ["_ms", "_seconds", "_usd"]
            .iter()
            .any(|ending| name.ends_with(ending));
    if lower {
        Direction::Lower
    } else {
        Direction::Higher
    }
}

fn skipped(reason: String) -> Assessment {
    Assessment {
        status: Status::Skipped,
        score: None,
        reasons: vec![reason],
        pending: Vec::new(),
        scores: Vec::new(),
    }
}

/// Bounds of the score of a part, and whether it passes, if known.
#[derive(Clone, Copy)]
struct Outcome {
    low: f64,
    high: f64,
    passes: Option<bool>,
}

impl Outcome {
    fn known(passes: bool) -> Self {
        Self::scored(f64::from(u8::from(passes)), passes)
    }

    fn scored(score: f64, passes: bool) -> Self {
        Self {
            low: score,
            high: score,
            passes: Some(passes),
        }
    }

    const OPEN: Self = Self {
        low: 0.0,
        high: 1.0,
        passes: None,
    };

    /// Programs return scores on any scale.
    const UNBOUNDED: Self = Self {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        passes: None,
    };

    fn negated(self) -> Self {
        Self {
            low: 1.0 - self.high,
            high: 1.0 - self.low,
            passes: self.passes.map(|passes| !passes),
        }
    }
}

struct Context<'a> {
    observed: &'a Observed,
    /// Answer as the current part sees it, after transforms.
    output: &'a Value,
    answers: &'a Answers,
    reasons: Vec<String>,
    pending: Vec<Pending>,
    scores: Vec<NamedScore>,
}

/// Path of a part of a group.
fn place_below(place: &str, index: usize) -> String {
    if place.is_empty() {
        index.to_string()
    } else {
        format!("{place}.{index}")
    }
}

/// Name of the score of a part.
fn part_name(expected: &BenchmarkExpected, place: &str) -> String {
    let mode = || format!("{:?} {place}", expected.mode).trim_end().to_lowercase();
    expected.name.clone().unwrap_or_else(mode)
}

impl<'a> Context<'a> {
    fn new(observed: &'a Observed, answers: &'a Answers) -> Self {
        Self {
            observed,
            output: &observed.output,
            answers,
            reasons: Vec::new(),
            pending: Vec::new(),
            scores: Vec::new(),
        }
    }

    /// The answer after the transforms of a part; `None` if they have not run, the error says why they failed.
    fn output_of(&self, expected: &BenchmarkExpected, place: &str) -> Result<Option<&'a Value>, &'a str> {
        if expected.transforms.is_empty() {
            return Ok(Some(self.output));
        }
        match self.answers.transformed.get(place) {
            None => Ok(None),
            Some(Ok(output)) => Ok(Some(output)),
            Some(Err(reason)) => Err(reason),
        }
    }

    fn part(&mut self, expected: &BenchmarkExpected, place: &str) -> Outcome {
        let (reasons, pending) = (self.reasons.len(), self.pending.len());
        let before = self.output;
        let outcome = match self.output_of(expected, place) {
            Ok(Some(output)) => {
                self.output = output;
                let outcome = self.known_answer(expected, place);
                if outcome.passes.is_some() {
                    self.pending.truncate(pending);
                }
                outcome
            }
            Ok(None) => self.computed(expected, place),
            // Without an answer nothing holds, not even a negated check.
            Err(reason) => {
                self.reasons.push(reason.to_owned());
                Outcome::known(false)
            }
        };
        self.output = before;
        if outcome.passes.is_some() && (expected.name.is_some() || is_computed(expected)) {
            self.scores.push(NamedScore {
                passed: outcome.passes,
                decides: expected.weight > 0.0,
                weight: Some(expected.weight).filter(|weight| *weight != 1.0),
                reason: self.reasons.get(reasons).cloned(),
                ..NamedScore::new(part_name(expected, place), Some(outcome.low))
            });
        }
        outcome
    }

    /// Assesses the answer that transforms have left.
    fn known_answer(&mut self, expected: &BenchmarkExpected, place: &str) -> Outcome {
        let reasons = self.reasons.len();
        let outcome = match expected.mode {
            Mode::All | Mode::Any if expected.scorer.is_none() => self.group(expected, place),
            Mode::All | Mode::Any => {
                self.group(expected, place);
                self.reasons.truncate(reasons);
                self.computed(expected, place)
            }
            Mode::LlmJudge => self.judged(expected, place),
            Mode::Human => self.labelled(place),
            // Negation is part of their outcome.
            Mode::Javascript | Mode::Python | Mode::Similar => return self.computed(expected, place),
            _ => self.leaf(expected),
        };
        if !expected.negate {
            return outcome;
        }
        // The reasons for the inner failure do not apply to the negated part.
        self.reasons.truncate(reasons);
        if outcome.passes == Some(true) {
            self.reasons
                .push(format!("{} matches but must not", describe(expected)));
        }
        outcome.negated()
    }

    fn group(&mut self, expected: &BenchmarkExpected, place: &str) -> Outcome {
        let outcomes: Vec<(Outcome, f64)> = expected
            .parts
            .iter()
            .enumerate()
            .map(|(index, part)| {
                let place = place_below(place, index);
                (self.part(part, &place), part.weight)
            })
            .collect();
        // A part of weight zero is evaluated but not scored.
        let counting = || outcomes.iter().filter(|(_, weight)| *weight > 0.0);
        let all_weight: f64 = counting().map(|(_, weight)| weight).sum();
        let weighted = |side: fn(&Outcome) -> f64| {
            counting()
                .map(|(outcome, weight)| side(outcome) * weight)
                .sum::<f64>()
                / all_weight.max(f64::MIN_POSITIVE)
        };
        let any = expected.mode == Mode::Any;
        let (low, high) = if any && expected.threshold.is_none() {
            let best =
                |side: fn(&Outcome) -> f64| counting().map(|(outcome, _)| side(outcome)).fold(0.0, f64::max);
            (best(|outcome| outcome.low), best(|outcome| outcome.high))
        } else {
            (weighted(|outcome| outcome.low), weighted(|outcome| outcome.high))
        };
        let passes = match expected.threshold {
            Some(threshold) if low >= threshold - TOLERANCE => Some(true),
            Some(threshold) if high < threshold - TOLERANCE => Some(false),
            Some(_) => None,
            None => {
                // The value that settles the group: a pass for `any`, a failure for `all`.
                let settles = |outcome: &Outcome| outcome.passes == Some(any);
                if counting().any(|(outcome, _)| settles(outcome)) {
                    Some(any)
                } else if counting().any(|(outcome, _)| outcome.passes.is_none()) {
                    None
                } else {
                    Some(!any)
                }
            }
        };
        Outcome { low, high, passes }
    }

    fn judged(&mut self, expected: &BenchmarkExpected, place: &str) -> Outcome {
        let rubric = parse_rubric(expected);
        let threshold = expected
            .threshold
            .unwrap_or_else(|| rubric.as_ref().map_or(1.0, Rubric::default_threshold));
        let Some(&score) = self.answers.judged.get(place) else {
            self.pending.push(Pending {
                place: place.to_owned(),
                rubric,
                check: None,
                threshold,
            });
            return Outcome::OPEN;
        };
        let score = if score.is_finite() {
            score.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let passes = score >= threshold - TOLERANCE;
        if !passes {
            self.reasons.push(format!(
                "judge score {score:.2} is below the threshold {threshold:.2}"
            ));
        }
        Outcome::scored(score, passes)
    }

    /// Outcome that the caller computes with programs or vectors.
    fn computed(&mut self, expected: &BenchmarkExpected, place: &str) -> Outcome {
        let Some(outcome) = self.answers.checked.get(place) else {
            let check = language(expected.mode).zip(parse_check(expected).ok());
            if check.is_none() && language(expected.mode).is_some() {
                self.reasons
                    .push("the program of the expectation is invalid".to_owned());
                return Outcome::known(false);
            }
            self.pending.push(Pending {
                place: place.to_owned(),
                rubric: None,
                check,
                threshold: expected.threshold.unwrap_or(0.0),
            });
            return Outcome::UNBOUNDED;
        };
        if !outcome.passed {
            self.reasons.extend(outcome.reason.clone());
        }
        let named = outcome.named.iter();
        self.scores
            .extend(named.map(|(name, value)| NamedScore::new(name.as_str(), Some(*value))));
        Outcome::scored(outcome.score, outcome.passed)
    }

    fn labelled(&mut self, place: &str) -> Outcome {
        let label = self
            .answers
            .labelled
            .get(place)
            .or_else(|| self.answers.labelled.get(""));
        let Some(&right) = label else {
            self.pending.push(Pending {
                place: place.to_owned(),
                rubric: None,
                check: None,
                threshold: 1.0,
            });
            return Outcome::OPEN;
        };
        if !right {
            self.reasons.push("a person found it wrong".to_owned());
        }
        Outcome::known(right)
    }

    fn leaf(&mut self, expected: &BenchmarkExpected) -> Outcome {
        if expected.mode == Mode::MetricThreshold {
            return self.metrics(expected);
        }
        let why = check_output(expected, self.output).err();
        let passes = why.is_none();
        self.reasons.extend(why);
        Outcome::known(passes)
    }

    /// The score is the fraction of thresholds that are met.
    fn metrics(&mut self, expected: &BenchmarkExpected) -> Outcome {
        let bounds: Vec<(&String, f64)> = expected
            .metric_thresholds
            .iter()
            .flatten()
            .map(|(name, &bound)| (name, bound))
            .collect();
        let mut met = 0_usize;
        for &(name, bound) in &bounds {
            let Some(&value) = self.observed.metrics.get(name).filter(|value| value.is_finite()) else {
                // An unreported metric counts as failed; otherwise a target could evade its threshold.
                self.reasons
                    .push(format!("`{name}` was not reported; its threshold is {bound}"));
                continue;
            };
            let direction = expected
                .directions
                .get(name)
                .copied()
                .unwrap_or_else(|| default_direction(name));
            let (within, relation) = match direction {
                Direction::Lower => (value <= bound, "above"),
                Direction::Higher => (value >= bound, "below"),
            };
            if within {
                met += 1;
            } else {
                self.reasons
                    .push(format!("{name} is {value}, {relation} the threshold {bound}"));
            }
        }
        let passes = met == bounds.len();
        Outcome::scored(
            if bounds.is_empty() {
                1.0
            } else {
                met as f64 / bounds.len() as f64
            },
            passes,
        )
    }
}

/// Checks the answer alone; the error is the reason. Values that [`super::check`] rejects fail here with a
/// reason.
pub(super) fn check_output(expected: &BenchmarkExpected, output: &Value) -> Result<(), String> {
    let null = Value::Null;
    let value = expected.value.as_ref().unwrap_or(&null);
    let fold = |text: &str| {
        let text = if expected.keep_whitespace {
            text
        } else {
            text.trim()
        };
        if expected.ignore_case {
            text.to_lowercase()
        } else {
            text.to_owned()
        }
    };
    match expected.mode {
        Mode::Exact => {
            let same = match value {
                Value::String(text) => fold(&as_text(output)) == fold(text),
                json => as_json(output).is_some_and(|output| same_json(&output, json)),
            };
            ensure(same, || {
                format!(
                    "got {}, expected {}",
                    shorten(&as_text(output)),
                    shorten(&as_text(value))
                )
            })
        }
        Mode::Contains => {
            let output = fold(&as_text(output));
            let wanted = super::check::texts(value).ok_or("the expected value is not a string")?;
            match wanted.iter().find(|text| !output.contains(&fold(text))) {
                None => Ok(()),
                Some(missing) => Err(format!("the answer does not contain {}", shorten(missing))),
            }
        }
        Mode::Regex => {
            let pattern = value
                .as_str()
                .ok_or("the expected value is not a regular expression")?;
            let regex = regex::RegexBuilder::new(pattern)
                .case_insensitive(expected.ignore_case)
                .build()
                .map_err(|error| error.to_string())?;
            ensure(regex.is_match(&as_text(output)), || {
                format!("the answer does not match {}", shorten(pattern))
            })
        }
        Mode::JsonPath => {
            let path = expected.path.as_deref().ok_or("`path` is missing")?;
            let json = as_json(output).ok_or("the answer is not valid JSON")?;
            let found = super::json_path::select(path, &json)?;
            match &expected.value {
                None => ensure(!found.is_empty(), || format!("{path} selects nothing")),
                Some(value) => {
                    let selected = Value::Array(found.iter().map(|&node| node.clone()).collect());
                    let same = found.iter().any(|node| same_json(node, value)) || same_json(&selected, value);
                    ensure(same, || {
                        let selected = if found.is_empty() {
                            "nothing".to_owned()
                        } else {
                            selected.to_string()
                        };
                        format!(
                            "{path} selects {}, expected {}",
                            shorten(&selected),
                            shorten(&value.to_string())
                        )
                    })
                }
            }
        }
        Mode::Numeric => {
            let wanted = value.as_f64().ok_or("the expected value is not a number")?;
            let found = number_in(output).ok_or("the answer contains no number")?;
            let allowed = expected
                .tolerance
                .unwrap_or(0.0)
                .max(expected.relative_tolerance.unwrap_or(0.0) * wanted.abs());
            // A tolerance of .1 must allow 1.1 for 1, although 1.1 − 1 slightly exceeds .1 in floating point.
            let slack = 4.0 * f64::EPSILON * wanted.abs().max(found.abs());
            ensure((found - wanted).abs() <= allowed + slack, || {
                format!("got {found}, expected {wanted} within {allowed}")
            })
        }
        Mode::JsonSchema => {
            let json = as_json(output).ok_or("the answer is not valid JSON")?;
            super::json_schema::validate(value, &json)
        }
        mode => Err(format!("mode {mode:?} does not apply to the answer")),
    }
}

fn ensure(condition: bool, why_not: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(why_not()) }
}

fn describe(expected: &BenchmarkExpected) -> String {
    match (expected.mode, &expected.value) {
        (Mode::Contains | Mode::Regex | Mode::Exact, Some(value)) => {
            format!("{:?} {}", expected.mode, shorten(&as_text(value))).to_lowercase()
        }
        (mode, _) => format!("{mode:?}").to_lowercase(),
    }
}
