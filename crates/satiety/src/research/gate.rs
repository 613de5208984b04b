//! Go on or stop? [`decide`] answers for one round from a share and a draw; [`Gate`] keeps what was accepted, for loops
//! that search by themselves and only want the answer.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::assess::{ModelScore, Novelty, score};
use super::claims::{Claim, Judged, Ledger, Standing, claims_of};
use super::compress;
use super::coverage::{Task, relevance, term_set};
use super::hit::Hit;
use super::literal;
use super::settings::{GateSettings, SettingsError, StopThreshold};
use crate::stats::random::stream;

/// Go on or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Search again.
    Continue,
    /// Search no more.
    Stop,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The first rounds are never gated.
    FirstRounds,
    /// New enough.
    Novel,
    /// Not new enough, and chance let it pass.
    PassedThrough,
    /// Not new enough.
    Saturated,
    /// New enough, and the next round is not expected to be.
    Outlook,
    /// The last round there is.
    Cap,
    /// The search found nothing, which says nothing about novelty.
    Empty,
    /// The search failed, which says nothing about novelty.
    Failed,
}

/// What was decided about one round, with everything it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which round, from 1.
    pub round: u32,
    /// Go on or stop.
    pub decision: Decision,
    /// Whether the round's results are kept.
    pub accepted: bool,
    /// Why.
    pub reason: Reason,
    /// The share that was compared; absent where nothing came back.
    pub novelty: Option<f64>,
    /// The same as the specification's score from 0 to 10.
    pub score: Option<u8>,
    /// What it was compared with.
    pub threshold: StopThreshold,
    /// The number that was drawn, where chance had a say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<f64>,
    /// How likely what happened was: epsilon for a round that chance let pass, 1 where chance had no say.
    pub propensity: f64,
}

impl Verdict {
    /// The verdict in a sentence.
    pub fn words(&self) -> String {
        let novelty = self
            .novelty
            .map_or_else(|| "-".into(), |share| format!("{:.0} %", 100.0 * share));
        match self.reason {
            Reason::FirstRounds => format!("{novelty} new; the first rounds are always kept"),
            Reason::Novel => format!("{novelty} new: keep searching"),
            Reason::PassedThrough => format!(
                "{novelty} new, below the threshold; kept by chance ({:.0} %)",
                100.0 * self.propensity
            ),
            Reason::Saturated => format!("only {novelty} new: saturated"),
            Reason::Outlook => {
                format!("{novelty} new, and little of it on the task: another search is not expected to pay")
            }
            Reason::Cap => format!("{novelty} new; the last round allowed"),
            Reason::Empty => "the search found nothing; that is no sign of saturation".into(),
            Reason::Failed => "the search failed; that is no sign of saturation".into(),
        }
    }
}

/// Decides about a round whose results were assessed. `draw` is a uniform number from [0, 1).
pub fn decide(
    settings: &GateSettings,
    round: u32,
    share: f64,
    task_yield: Option<f64>,
    draw: f64,
) -> Verdict {
    let mut verdict = Verdict {
        round,
        decision: Decision::Continue,
        accepted: true,
        reason: Reason::Novel,
        novelty: Some(share),
        score: Some(score(share)),
        threshold: settings.threshold,
        draw: None,
        propensity: 1.0,
    };
    if round <= settings.min_rounds {
        verdict.reason = Reason::FirstRounds;
    } else if settings.threshold.is_above(share) {
        verdict.draw = Some(draw);
        if draw < settings.epsilon {
            verdict.reason = Reason::PassedThrough;
            verdict.propensity = settings.epsilon;
        } else {
            verdict.reason = Reason::Saturated;
            verdict.propensity = 1.0 - settings.epsilon;
            verdict.accepted = false;
            verdict.decision = Decision::Stop;
            return verdict;
        }
    }
    if round >= settings.max_rounds {
        verdict.decision = Decision::Stop;
        verdict.reason = match verdict.reason {
            Reason::PassedThrough => Reason::PassedThrough,
            _ => Reason::Cap,
        };
    } else if let (Some(ahead), Some(task_yield)) = (settings.look_ahead, task_yield)
        && round >= ahead.from_round
        && verdict.reason != Reason::PassedThrough
        && task_yield < ahead.yield_below
    {
        verdict.decision = Decision::Stop;
        verdict.reason = Reason::Outlook;
    }
    verdict
}

/// The verdict about a round without results: never a sign of saturation, though the cap holds.
pub fn without_results(settings: &GateSettings, round: u32, reason: Reason) -> Verdict {
    Verdict {
        round,
        decision: if round >= settings.max_rounds {
            Decision::Stop
        } else {
            Decision::Continue
        },
        accepted: false,
        reason,
        novelty: None,
        score: None,
        threshold: settings.threshold,
        draw: None,
        propensity: 1.0,
    }
}

/// The uniform number that belongs to a round of a run.
pub fn draw(seed: u64, round: u32) -> f64 {
    (stream(seed, u64::from(round)).next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// What a round brought, for the [`Gate`].
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundInput<'a> {
    /// What came back.
    pub results: &'a [Hit],
    /// The search failed.
    pub failed: bool,
    /// The caller's own summary before this round; without it the gate keeps one.
    pub summary: Option<&'a str>,
    /// Vectors of [`Gate::claims`] of these results, of length one.
    pub vectors: Option<&'a [Vec<f32>]>,
    /// A model's score.
    pub model: Option<ModelScore>,
}

/// The gate on its own.
///
/// ```
/// use satiety::research::{Decision, Gate, GateSettings, Hit, RoundInput};
/// let mut gate = Gate::new(GateSettings::default(), "how do heated wings bend")?;
/// let results = [Hit::new("Wings", "https://example.org/1", "Heated wings bend upwards. Ribs carry the load.")];
/// let round = RoundInput { results: &results, ..RoundInput::default() };
/// assert_eq!(gate.observe(&round).0.decision, Decision::Continue);
/// assert_eq!(gate.observe(&round).0.decision, Decision::Continue, "the first two rounds are never gated");
/// assert_eq!(gate.observe(&round).0.decision, Decision::Stop, "nothing new");
/// # Ok::<(), satiety::research::SettingsError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gate {
    settings: GateSettings,
    task: Task,
    round: u32,
    ledger: Ledger,
    summary: String,
    /// By term of the task: accepted results that have it.
    seen: BTreeMap<String, usize>,
    results: usize,
    /// The largest sum of relevance of an accepted round.
    best: f64,
    /// What a stop left out; a loop that goes on all the same has evidently kept it.
    left_out: Option<Vec<Hit>>,
}

impl Gate {
    /// A gate for one run. The task may be empty; then everything counts as on it.
    pub fn new(settings: GateSettings, task: &str) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            settings,
            task: Task::new(task),
            round: 0,
            // The threshold is a constant of ours, within its range.
            ledger: Ledger::new().map_err(|error| SettingsError::OutOfRange {
                name: "the word threshold",
                range: "above 0 and at most 1",
                value: error.0,
            })?,
            summary: String::new(),
            seen: BTreeMap::new(),
            results: 0,
            best: 0.0,
            left_out: None,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &GateSettings {
        &self.settings
    }

    /// Rounds seen.
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// The summary that the gate keeps: the specification's for the first round, extracted sentences after it.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// How often each cluster of accepted claims was met.
    pub fn abundances(&self) -> &[u64] {
        self.ledger.abundances()
    }

    /// The claims of results, whose texts are to be embedded for [`RoundInput::vectors`].
    pub fn claims(results: &[Hit]) -> Vec<Claim> {
        claims_of(results)
    }

    /// How new results are; changes nothing.
    pub fn assess(&self, input: &RoundInput<'_>) -> Novelty {
        let claims = claims_of(input.results);
        let judged = self.ledger.judge(&claims, input.vectors);
        let summary = input.summary.unwrap_or(&self.summary);
        let mut novelty = Novelty::of(&judged, literal::novel_fraction(input.results, summary));
        novelty.task_yield = self.task_yield(input.results, &claims, &judged);
        match input.model {
            Some(score) => novelty.with_model(score),
            None => novelty,
        }
    }

    /// Decides about the next round and, if it is accepted, takes its results in. A round after a stop means that the
    /// caller went on all the same, so what the stop had left out is taken in first.
    pub fn observe(&mut self, input: &RoundInput<'_>) -> (Verdict, Novelty) {
        if let Some(results) = self.left_out.take() {
            self.accept(&results, None, None);
        }
        if input.failed || input.results.iter().all(Hit::is_blank) {
            let reason = if input.failed {
                Reason::Failed
            } else {
                Reason::Empty
            };
            self.round += 1;
            return (
                without_results(&self.settings, self.round, reason),
                Novelty::default(),
            );
        }
        let novelty = self.assess(input);
        let verdict = self.decide(&novelty);
        if verdict.accepted {
            self.accept(input.results, input.vectors, input.summary);
        } else {
            self.left_out = Some(input.results.to_vec());
        }
        (verdict, novelty)
    }

    /// Decides about the next round from what was assessed, and counts it.
    pub(super) fn decide(&mut self, novelty: &Novelty) -> Verdict {
        self.round += 1;
        // Results without a single claim have nothing new in them.
        let share = novelty.by(self.settings.assessor).unwrap_or(0.0);
        decide(
            &self.settings,
            self.round,
            share,
            novelty.task_yield,
            draw(self.settings.seed, self.round),
        )
    }

    /// Counts a round that was decided before, when a run is taken up again.
    pub(super) fn skip_round(&mut self) {
        self.round += 1;
    }

    /// Takes accepted results in. `own` is the caller's own summary, which then is its business to keep.
    pub(super) fn accept(&mut self, results: &[Hit], vectors: Option<&[Vec<f32>]>, own: Option<&str>) {
        let claims = claims_of(results);
        self.ledger.accept(&claims, vectors);
        let sets: Vec<BTreeSet<String>> = results.iter().map(term_set).collect();
        for (_, term) in &self.task.terms {
            let with = sets.iter().filter(|set| set.contains(term)).count();
            *self.seen.entry(term.clone()).or_default() += with;
        }
        self.results += results.len();
        let sum: f64 = relevance(&self.task, &sets, &self.seen, self.results)
            .iter()
            .sum();
        self.best = self.best.max(sum);
        if own.is_none() {
            self.summary = if self.summary.is_empty() {
                literal::first_summary(results, literal::SUMMARY_CHARS)
            } else {
                compress::extract(&self.task, &self.summary, results, literal::SUMMARY_CHARS)
            };
        }
    }

    /// New and on the task, over the best accepted round's.
    fn task_yield(&self, results: &[Hit], claims: &[Claim], judged: &Judged) -> Option<f64> {
        if results.is_empty() {
            return None;
        }
        let sets: Vec<BTreeSet<String>> = results.iter().map(term_set).collect();
        let mut seen = self.seen.clone();
        for (_, term) in &self.task.terms {
            *seen.entry(term.clone()).or_default() += sets.iter().filter(|set| set.contains(term)).count();
        }
        let weights = relevance(&self.task, &sets, &seen, self.results + results.len());
        let mut counts = vec![(0_u32, 0_u32); results.len()];
        for (claim, standing) in claims.iter().zip(&judged.standing) {
            if let Some((new, all)) = counts.get_mut(claim.hit) {
                *new += u32::from(*standing == Standing::New);
                *all += 1;
            }
        }
        let new: f64 = weights
            .iter()
            .zip(&counts)
            .map(|(weight, (new, all))| weight * f64::from(*new) / f64::from((*all).max(1)))
            .sum();
        let best = self.best.max(weights.iter().sum());
        Some(if best > 0.0 { new / best } else { 0.0 })
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
