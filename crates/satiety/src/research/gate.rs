//! Go on or stop? [`decide`] answers for one round from a share and a draw; [`Gate`] keeps what was accepted, for loops
//! that search by themselves and only want the answer.

use rand_chacha::rand_core::Rng;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assess::{ModelScore, Novelty, score};
use super::claims::{
    Claim, Judged, Ledger, Sentences, Standing, claims_in, claims_of, sentences_of, source_of,
};
use super::compress;
use super::coverage::{Task, relevance};
use super::hit::Hit;
use super::literal;
use super::settings::{GateSettings, SettingsError, StopThreshold};
use crate::stats::random::stream;

/// Go on or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Search again.
    Continue,
    /// Search no more.
    Stop,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
pub(crate) fn without_results(settings: &GateSettings, round: u32, reason: Reason) -> Verdict {
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
/// // Without chance, so that the example always ends alike.
/// let settings = GateSettings { epsilon: 0.0, ..GateSettings::default() };
/// let mut gate = Gate::new(settings, "how do heated wings bend")?;
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
    seen: Vec<usize>,
    results: usize,
    /// The largest sum of relevance of an accepted round.
    best: f64,
    /// What a stop left out; a loop that goes on all the same has evidently kept it.
    left_out: Option<Vec<Hit>>,
    /// Accepted texts, cut into sentences: searches bring the same results again and again.
    read: FxHashMap<String, Sentences>,
}

impl Gate {
    /// A gate for one run. The task may be empty; then everything counts as on it.
    pub fn new(settings: GateSettings, task: &str) -> Result<Self, SettingsError> {
        settings.check()?;
        let task = Task::new(task);
        Ok(Self {
            settings,
            seen: vec![0; task.terms.len()],
            task,
            round: 0,
            // The threshold is a constant of ours, within its range.
            ledger: Ledger::new().map_err(|error| SettingsError::OutOfRange {
                name: "the word threshold",
                range: "above 0 and at most 1",
                value: error.0,
            })?,
            summary: String::new(),
            results: 0,
            best: 0.0,
            left_out: None,
            read: FxHashMap::default(),
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
    pub(crate) fn abundances(&self) -> &[u64] {
        self.ledger.abundances()
    }

    /// The claims of results, whose texts are to be embedded for [`RoundInput::vectors`].
    pub fn claims(results: &[Hit]) -> Vec<Claim> {
        claims_of(results)
    }

    /// How new results are; changes nothing.
    pub fn assess(&self, input: &RoundInput<'_>) -> Novelty {
        self.look(input).novelty
    }

    /// How new results are, with what was found on the way.
    pub(super) fn look(&self, input: &RoundInput<'_>) -> GateEvaluation {
        let read: Vec<Sentences> = input
            .results
            .iter()
            .map(source_of)
            .map(|source| {
                self.read
                    .get(source)
                    .cloned()
                    .unwrap_or_else(|| sentences_of(source))
            })
            .collect();
        let claims = claims_in(&read);
        let judged = self.ledger.judge(&claims, input.vectors);
        let has: Vec<Vec<bool>> = input.results.iter().map(|hit| self.task.terms_in(hit)).collect();
        let summary = input.summary.unwrap_or(&self.summary);
        let mut novelty = Novelty::of(&judged, literal::novel_fraction(input.results, summary));
        novelty.task_yield = self.task_yield(&has, &claims, &judged);
        if let Some(score) = input.model {
            novelty = novelty.with_model(score);
        }
        GateEvaluation {
            read,
            claims,
            judged,
            has,
            novelty,
        }
    }

    /// Decides about the next round and, if it is accepted, takes its results in. A round after a stop means that the
    /// caller went on all the same, so what the stop had left out is taken in first.
    pub fn observe(&mut self, input: &RoundInput<'_>) -> (Verdict, Novelty) {
        if let Some(results) = self.left_out.take() {
            let looked = self.look(&RoundInput {
                results: &results,
                ..RoundInput::default()
            });
            self.accept(&results, &looked, None, None);
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
        let looked = self.look(input);
        let verdict = self.decide(&looked.novelty);
        if verdict.accepted {
            self.accept(input.results, &looked, input.vectors, input.summary);
        } else {
            self.left_out = Some(input.results.to_vec());
        }
        (verdict, looked.novelty)
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

    /// Takes accepted results in that were looked at. `own` is the caller's own summary, which then is its to keep.
    pub(super) fn accept(
        &mut self,
        results: &[Hit],
        looked: &GateEvaluation,
        vectors: Option<&[Vec<f32>]>,
        own: Option<&str>,
    ) {
        self.ledger.accept(&looked.claims, &looked.judged, vectors);
        for (hit, sentences) in results.iter().zip(&looked.read) {
            self.read
                .entry(source_of(hit).to_owned())
                .or_insert_with(|| Sentences::clone(sentences));
        }
        for has in &looked.has {
            for (seen, has) in self.seen.iter_mut().zip(has) {
                *seen += usize::from(*has);
            }
        }
        self.results += results.len();
        let sum: f64 = relevance(&looked.has, &self.seen, self.results).iter().sum();
        self.best = self.best.max(sum);
        if own.is_none() {
            self.summary = if self.summary.is_empty() {
                literal::first_summary(results, literal::SUMMARY_CHARS)
            } else {
                let new = looked.claims.iter().map(|claim| claim.text.as_str());
                compress::extract(&self.task, &self.summary, new, literal::SUMMARY_CHARS)
            };
        }
    }

    /// New and on the task, over the best accepted round's.
    fn task_yield(&self, has: &[Vec<bool>], claims: &[Claim], judged: &Judged) -> Option<f64> {
        if has.is_empty() {
            return None;
        }
        let mut seen = self.seen.clone();
        for has in has {
            for (seen, has) in seen.iter_mut().zip(has) {
                *seen += usize::from(*has);
            }
        }
        let weights = relevance(has, &seen, self.results + has.len());
        let mut counts = vec![(0_u32, 0_u32); has.len()];
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

/// Results that were looked at.
#[derive(Debug, Clone)]
pub(super) struct GateEvaluation {
    read: Vec<Sentences>,
    pub(super) claims: Vec<Claim>,
    judged: Judged,
    /// By result: which terms of the task it has.
    has: Vec<Vec<bool>>,
    pub(super) novelty: Novelty,
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
