//! Saturation gate: decides after each search whether to continue. [`decide`] decides one round from a share
//! and a random draw; [`Gate`] keeps the accepted results, for callers that run their own search loop.

use rand_chacha::rand_core::Rng;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assess::{ModelScore, Novelty, score};
use super::claims::{
    Claim, Judged, Ledger, Sentences, Standing, claims_in, extract_claims, sentences_of, source_of,
};
use super::compress;
use super::coverage::{Task, relevance};
use super::hit::Hit;
use super::literal;
use super::missed::{Discovery, DiscoveryCounts, Missed, missed};
use super::settings::{GateSettings, SettingsError, StopRule, StopThreshold};
use crate::stats::random::stream;

/// Decision of the saturation gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Another search is worth it.
    Continue,
    /// Results are saturated or a limit was reached.
    Stop,
}

/// Reason for the decision of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The first rounds are never gated.
    FirstRounds,
    /// Novelty is above the threshold.
    Novel,
    /// Novelty is below the threshold, and the epsilon draw accepted the round.
    PassedThrough,
    /// Novelty is below the threshold.
    Saturated,
    /// Novelty is above the threshold, but the next round is not expected to pay off.
    Outlook,
    /// The estimate of what is missed is at most `max_missed`.
    FewMissed,
    /// The estimate of what is missed is above `max_missed`.
    ManyMissed,
    /// The number of rounds is fixed and not reached.
    FixedRounds,
    /// The maximum number of rounds was reached.
    Cap,
    /// The search returned no results, which is not evidence of saturation.
    Empty,
    /// The search failed, which is not evidence of saturation.
    Failed,
}

/// Decision about one round and the values it is based on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SearchVerdict")]
pub struct Verdict {
    /// Number of the round, starting at 1.
    pub round: u32,
    /// Whether to continue searching or stop.
    pub decision: Decision,
    /// Whether the results of the round are kept.
    pub accepted: bool,
    /// Reason given by the gate.
    pub reason: Reason,
    /// Share of new content compared with the threshold; absent without results.
    pub novelty: Option<f64>,
    /// The same novelty as the specification's score from 0 to 10.
    pub score: Option<u8>,
    /// Threshold that the novelty was compared with.
    pub threshold: StopThreshold,
    /// Random number drawn from [0, 1); absent when no draw was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<f64>,
    /// Probability of the outcome: epsilon for a round accepted by the draw, 1 when no draw was needed.
    pub propensity: f64,
    /// Estimate of what is missed after this round; absent before the first results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
}

impl Verdict {
    /// Describes the verdict in one line; a stop also says how much is missed.
    pub fn words(&self) -> String {
        let words = self.reason_words();
        match self.missed {
            Some(missed) if self.decision == Decision::Stop && self.reason != Reason::FewMissed => {
                format!("{words}; {}", missed.words())
            }
            _ => words,
        }
    }

    fn reason_words(&self) -> String {
        let novelty = self
            .novelty
            .map_or_else(|| "-".into(), |share| format!("{:.0} %", 100.0 * share));
        let missed = self.missed.map(|missed| missed.words()).unwrap_or_default();
        match self.reason {
            Reason::FewMissed => format!("{missed}: stop"),
            Reason::ManyMissed => format!("{missed}: continue searching"),
            Reason::FixedRounds => format!("{novelty} new; the number of rounds is fixed"),
            Reason::FirstRounds => format!("{novelty} new; the first rounds are always kept"),
            Reason::Novel => format!("{novelty} new: continue searching"),
            Reason::PassedThrough => format!(
                "{novelty} new, below the threshold; kept at random ({:.0} % of such rounds are)",
                100.0 * self.propensity
            ),
            Reason::Saturated => format!("only {novelty} new: saturated"),
            Reason::Outlook => {
                format!("{novelty} new, but little of it relevant: another search is not expected to pay off")
            }
            Reason::Cap => format!("{novelty} new; maximum number of rounds reached"),
            Reason::Empty => "no results; not counted as saturation".into(),
            Reason::Failed => "search failed; not counted as saturation".into(),
        }
    }
}

/// Decides a round from its share of new content, or from the estimate of what is missed. `draw` is a uniform
/// random number from [0, 1).
pub fn decide(
    settings: &GateSettings,
    round: u32,
    share: f64,
    task_yield: Option<f64>,
    missed: Option<Missed>,
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
        missed,
    };
    if settings.stop != StopRule::Novelty {
        let few = missed.is_some_and(|missed| missed.share <= settings.max_missed);
        (verdict.decision, verdict.reason) = if round >= settings.max_rounds {
            (Decision::Stop, Reason::Cap)
        } else if settings.stop == StopRule::Fixed {
            (Decision::Continue, Reason::FixedRounds)
        } else if round < settings.min_rounds {
            (Decision::Continue, Reason::FirstRounds)
        } else if few {
            (Decision::Stop, Reason::FewMissed)
        } else {
            (Decision::Continue, Reason::ManyMissed)
        };
        return verdict;
    }
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

/// Verdict on a round without results: never counted as saturation, but the cap applies.
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
        missed: None,
    }
}

/// Deterministic uniform random number of a round, derived from the run's seed.
pub fn draw(seed: u64, round: u32) -> f64 {
    (stream(seed, u64::from(round)).next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Input of one round for the [`Gate`].
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundInput<'a> {
    /// Results that the search returned.
    pub results: &'a [Hit],
    /// Whether the search failed.
    pub failed: bool,
    /// The caller's summary before this round; without it the gate maintains one.
    pub summary: Option<&'a str>,
    /// Unit vectors of [`Gate::claims`] of these results.
    pub vectors: Option<&'a [Vec<f32>]>,
    /// Novelty score given by a chat model.
    pub model: Option<ModelScore>,
}

/// Saturation gate for callers that run their own search loop.
///
/// ```
/// use satiety::research::{Decision, Gate, GateSettings, Hit, RoundInput};
/// // Without the random draw, so that the example is deterministic.
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
    discovery: DiscoveryCounts,
    summary: String,
    /// For each term of the task, the number of accepted results that contain it.
    seen: Vec<usize>,
    results: usize,
    /// Largest relevance sum of an accepted round.
    best: f64,
    /// Results that a stop rejected; a caller that continues anyway has kept them.
    left_out: Option<Vec<Hit>>,
    /// Sentences of accepted texts, cached because searches return the same results repeatedly.
    read: FxHashMap<String, Sentences>,
}

impl Gate {
    /// Creates a gate for one run. With an empty task every result counts as relevant.
    pub fn new(settings: GateSettings, task: &str) -> Result<Self, SettingsError> {
        settings.check()?;
        let task = Task::new(task);
        Ok(Self {
            settings,
            seen: vec![0; task.terms.len()],
            task,
            round: 0,
            // The threshold is a constant within its range.
            ledger: Ledger::new().map_err(|error| SettingsError::OutOfRange {
                name: "word threshold",
                range: "above 0 and at most 1",
                value: error.0,
            })?,
            discovery: DiscoveryCounts::default(),
            summary: String::new(),
            results: 0,
            best: 0.0,
            left_out: None,
            read: FxHashMap::default(),
        })
    }

    /// Settings of this gate.
    pub fn settings(&self) -> &GateSettings {
        &self.settings
    }

    /// Number of rounds observed so far.
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// Summary kept by the gate: the specification's after the first round, extracted sentences later.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// How often each cluster of accepted claims was stated.
    pub(crate) fn abundances(&self) -> &[u64] {
        self.ledger.abundances()
    }

    /// Claims of results, to be embedded for [`RoundInput::vectors`].
    pub fn claims(results: &[Hit]) -> Vec<Claim> {
        extract_claims(results)
    }

    /// Scores how new results are without changing the gate.
    pub fn assess(&self, input: &RoundInput<'_>) -> Novelty {
        self.evaluate(input).novelty
    }

    /// Scores how new results are and returns the intermediate results.
    pub(super) fn evaluate(&self, input: &RoundInput<'_>) -> GateEvaluation {
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
            discovery: self.discovery.preview(input.results),
        }
    }

    /// Decides the next round and adds its results if it is accepted. A round after a stop means that the
    /// caller continued anyway, so the rejected results of that stop are added first.
    pub fn observe(&mut self, input: &RoundInput<'_>) -> (Verdict, Novelty) {
        if let Some(results) = self.left_out.take() {
            let evaluation = self.evaluate(&RoundInput {
                results: &results,
                ..RoundInput::default()
            });
            self.accept(&results, &evaluation, None, None);
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
        let evaluation = self.evaluate(input);
        let verdict = self.decide(&evaluation.novelty, &evaluation.discovery);
        if verdict.accepted {
            self.accept(input.results, &evaluation, input.vectors, input.summary);
        } else {
            self.left_out = Some(input.results.to_vec());
        }
        (verdict, evaluation.novelty)
    }

    /// Decides and counts the next round from its scores.
    pub(super) fn decide(&mut self, novelty: &Novelty, discovery: &Discovery) -> Verdict {
        self.round += 1;
        // Results without a claim contain nothing new.
        let share = novelty.by(self.settings.assessor).unwrap_or(0.0);
        decide(
            &self.settings,
            self.round,
            share,
            novelty.task_yield,
            missed(discovery),
            draw(self.settings.seed, self.round),
        )
    }

    /// Counts a round that was decided earlier, when a run is resumed.
    pub(super) fn skip_round(&mut self) {
        self.round += 1;
    }

    /// Adds evaluated results. `own` is the caller's summary, which the gate then does not maintain.
    pub(super) fn accept(
        &mut self,
        results: &[Hit],
        evaluation: &GateEvaluation,
        vectors: Option<&[Vec<f32>]>,
        own: Option<&str>,
    ) {
        self.discovery.add(results);
        self.ledger
            .accept(&evaluation.claims, &evaluation.judged, vectors);
        for (hit, sentences) in results.iter().zip(&evaluation.read) {
            self.read
                .entry(source_of(hit).to_owned())
                .or_insert_with(|| Sentences::clone(sentences));
        }
        for has in &evaluation.has {
            for (seen, has) in self.seen.iter_mut().zip(has) {
                *seen += usize::from(*has);
            }
        }
        self.results += results.len();
        let sum: f64 = relevance(&evaluation.has, &self.seen, self.results).iter().sum();
        self.best = self.best.max(sum);
        if own.is_none() {
            self.summary = if self.summary.is_empty() {
                literal::first_summary(results, literal::SUMMARY_CHARS)
            } else {
                let new = evaluation.claims.iter().map(|claim| claim.text.as_str());
                compress::extract(&self.task, &self.summary, new, literal::SUMMARY_CHARS)
            };
        }
    }

    /// New and relevant content relative to the best accepted round.
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

/// Evaluated results that are not accepted yet.
#[derive(Debug, Clone)]
pub(super) struct GateEvaluation {
    read: Vec<Sentences>,
    pub(super) claims: Vec<Claim>,
    judged: Judged,
    /// For each result, which terms of the task it contains.
    has: Vec<Vec<bool>>,
    pub(super) novelty: Novelty,
    /// Overlap of the results with those of earlier searches.
    pub(super) discovery: Discovery,
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
