//! Recommends a stop rule from recorded search loops whose useful results are known.
//!
//! Every rule is replayed on the recorded rounds. A rule that looks at results is recommended only if it finds more
//! than fixed numbers of searches at the same mean cost, beyond chance; otherwise a fixed number is. The report says
//! why: how many searches hindsight would need, and how much of the next search's gain the loop could have foreseen.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::address::canonical_url;
use super::gate::{Decision, Gate, RoundInput, decide};
use super::hit::Hit;
use super::missed::{Discovery, DiscoveryCounts, missed};
use super::settings::{GateSettings, SettingsError, StopRule};
use crate::stats::logistic::solve_cholesky;
use crate::stats::{BootstrapSettings, Interval, bootstrap_mean};

/// Loops below which no rule is compared.
pub const MIN_LOOPS: usize = 20;
/// Missed shares that rule `missed` is tried with.
const MAX_MISSED: [f64; 6] = [0.25, 0.2, 0.15, 0.12, 0.1, 0.08];
/// Error probability of recommending a rule that is not better than fixed numbers, over all rules.
const ERROR: f64 = 0.05;
/// Resamples of an interval for all rules together, which reads off a far tail.
const RESAMPLES: u64 = 10_000;
/// Groups of loops; each is predicted from the others.
const FOLDS: usize = 8;
/// Weight of the penalty on coefficients, relative to the number of loops.
const RIDGE: f64 = 0.05;

/// A recorded search loop.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedLoop {
    /// Task of the loop; may be empty.
    pub task: String,
    /// Results of each round; empty for a round that failed or found nothing.
    pub rounds: Vec<Vec<Hit>>,
    /// Addresses of the results that turned out to be useful.
    pub relevant: Vec<String>,
}

/// Result of a rule on the recorded loops.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StopRuleResult {
    /// Options that select the rule.
    pub options: String,
    /// Mean number of searches.
    pub searches: f64,
    /// Mean share of the useful results of all recorded rounds that was found.
    pub recall: f64,
    /// Interval of `recall` over loops, 95 %.
    pub recall_interval: Interval,
    /// Recall minus that of fixed numbers of searches with the same mean cost; absent for fixed numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_fixed: Option<f64>,
    /// Interval of `above_fixed`, 95 % for all rules together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_fixed_interval: Option<Interval>,
}

/// What the next search brought, and whether it could be foreseen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct NextGain {
    /// Number of searches made.
    pub after: usize,
    /// Mean gain of recall by the next search.
    pub mean: f64,
    /// Share of loops in which the next search found nothing useful.
    pub without: f64,
    /// Share of the variance of the gain that novelty and overlap explain, on loops that were not used for fitting.
    pub explained: f64,
}

/// Recommendation of a stop rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "StopRuleRecommendation")]
pub struct Recommendation {
    /// Options of the recommended rule.
    pub options: String,
    /// Reason for the recommendation.
    pub reason: String,
    /// Number of loops that were compared.
    pub loops: usize,
    /// Number of loops that were left out because none of their results was useful.
    pub left_out: usize,
    /// Number of rounds that are compared.
    pub rounds: usize,
    /// Rules, from few to many searches; fixed numbers first.
    pub rules: Vec<StopRuleResult>,
    /// Mean number of searches that reach the recall of the recommended number with hindsight.
    pub hindsight_searches: f64,
    /// Gain of each further search.
    pub gains: Vec<NextGain>,
}

/// A loop with the scores of its rounds.
struct ScoredLoop {
    /// Share of the useful results found after 0, 1, … rounds.
    recall: Vec<f64>,
    rounds: Vec<ScoredRound>,
}

struct ScoredRound {
    novelty: f64,
    task_yield: Option<f64>,
    discovery: Discovery,
    /// Whether the search returned results.
    found: bool,
}

/// Compares stop rules on recorded loops. `max_missed` is the share of the useful results that may be missed.
pub fn recommend(loops: &[RecordedLoop], max_missed: f64) -> Result<Recommendation, SettingsError> {
    let rounds = loops.iter().map(|one| one.rounds.len()).max().unwrap_or(0);
    let mut scored = Vec::new();
    for one in loops {
        scored.extend(score(one, rounds)?);
    }
    let left_out = loops.len() - scored.len();
    let fixed: Vec<StopRuleResult> = (1..=rounds)
        .map(|number| {
            let stops = vec![number; scored.len()];
            let options = format!("--stop fixed --max-rounds {number}");
            result(options, &scored, &stops, None)
        })
        .collect();
    let enough = fixed
        .iter()
        .position(|rule| rule.recall >= 1.0 - max_missed - 1e-9);
    let number = enough.map_or(rounds, |at| at + 1);
    let mut found = Recommendation {
        options: format!("--stop fixed --max-rounds {}", number.max(1)),
        reason: String::new(),
        loops: scored.len(),
        left_out,
        rounds,
        hindsight_searches: hindsight(&scored, number),
        gains: (1..rounds)
            .filter_map(|after| next_gain(&scored, after))
            .collect(),
        rules: fixed,
    };
    if scored.len() < MIN_LOOPS {
        found.options = "--stop fixed --max-rounds 3".into();
        found.reason = format!(
            "{} loops with useful results are too few to compare rules (at least {MIN_LOOPS}); three searches are as good as any rule on the measured collections",
            scored.len()
        );
        return Ok(found);
    }
    let adaptive = adaptive(rounds);
    let confidence = 1.0 - ERROR / adaptive.len() as f64;
    for (options, settings) in &adaptive {
        let stops: Vec<usize> = scored.iter().map(|one| replay(one, settings)).collect();
        found
            .rules
            .push(result(options.clone(), &scored, &stops, Some(confidence)));
    }
    let good = found.rules.iter().filter(|rule| {
        let is_better = rule
            .above_fixed_interval
            .is_some_and(|interval| interval.low > 1e-9);
        is_better && rule.recall >= 1.0 - max_missed - 1e-9
    });
    let best = good.min_by(|a, b| a.searches.total_cmp(&b.searches));
    let explained = found.gains.iter().map(|gain| gain.explained).fold(0.0, f64::max);
    (found.options, found.reason) = match best {
        Some(rule) => (
            rule.options.clone(),
            format!(
                "it finds {:.1} points more than fixed numbers of searches at the same cost",
                100.0 * rule.above_fixed.unwrap_or(0.0)
            ),
        ),
        None => (
            found.options.clone(),
            format!(
                "no rule finds more than fixed numbers of searches at the same cost: what the loop sees explains at most {:.1} % of the variance of the next gain{}",
                100.0 * explained,
                if enough.is_some() {
                    ""
                } else {
                    "; no number of recorded searches reaches the wanted recall"
                }
            ),
        ),
    };
    Ok(found)
}

/// Rules that look at the results, with their options.
fn adaptive(rounds: usize) -> Vec<(String, GateSettings)> {
    let base = GateSettings {
        max_rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
        epsilon: 0.0,
        ..GateSettings::default()
    };
    let limit = format!("--max-rounds {rounds} --epsilon 0");
    let missed = MAX_MISSED.map(|max_missed| {
        let settings = GateSettings {
            stop: StopRule::Missed,
            min_rounds: 1,
            max_missed,
            ..base
        };
        let options = format!("--stop missed --max-missed {max_missed} --min-rounds 1 {limit}");
        (options, settings)
    });
    let mut rules = vec![(format!("--stop novelty {limit}"), base)];
    rules.extend(missed);
    rules
}

/// Scores the rounds of a loop; `None` if none of its results was useful. A loop that ended early found nothing in
/// the rounds that it did not make.
fn score(one: &RecordedLoop, rounds: usize) -> Result<Option<ScoredLoop>, SettingsError> {
    let relevant: BTreeSet<String> = one.relevant.iter().map(|url| canonical_url(url)).collect();
    let settings = GateSettings {
        stop: StopRule::Fixed,
        max_rounds: u32::try_from(rounds).unwrap_or(u32::MAX).max(1),
        min_rounds: 1,
        epsilon: 0.0,
        ..GateSettings::default()
    };
    let mut gate = Gate::new(settings, &one.task)?;
    let mut counts = DiscoveryCounts::default();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let (mut found, mut scored) = (vec![0.0], Vec::new());
    for results in &one.rounds {
        let (_, novelty) = gate.observe(&RoundInput {
            results,
            ..RoundInput::default()
        });
        counts.add(results);
        let addresses = results.iter().map(|hit| canonical_url(&hit.url));
        seen.extend(addresses.filter(|url| relevant.contains(url)));
        found.push(seen.len() as f64);
        scored.push(ScoredRound {
            novelty: novelty.by(settings.assessor).unwrap_or(0.0),
            task_yield: novelty.task_yield,
            discovery: counts.current(),
            found: !results.is_empty(),
        });
    }
    let all = seen.len() as f64;
    found.resize(rounds + 1, all);
    Ok((all > 0.0).then(|| ScoredLoop {
        recall: found.into_iter().map(|found| found / all).collect(),
        rounds: scored,
    }))
}

/// Number of searches that a rule makes.
fn replay(one: &ScoredLoop, settings: &GateSettings) -> usize {
    for (number, round) in (1_u32..).zip(&one.rounds).filter(|(_, round)| round.found) {
        let verdict = decide(
            settings,
            number,
            round.novelty,
            round.task_yield,
            missed(&round.discovery),
            1.0,
        );
        if verdict.decision == Decision::Stop {
            return number as usize;
        }
    }
    one.rounds.len()
}

/// Cost and recall of a rule, and the difference to fixed numbers if `confidence` is given.
fn result(options: String, loops: &[ScoredLoop], stops: &[usize], confidence: Option<f64>) -> StopRuleResult {
    let made: Vec<f64> = loops
        .iter()
        .zip(stops)
        .map(|(one, stop)| (*stop).min(one.rounds.len()) as f64)
        .collect();
    let recall: Vec<f64> = loops
        .iter()
        .zip(stops)
        .map(|(one, stop)| one.recall[(*stop).min(one.recall.len() - 1)])
        .collect();
    let searches = mean(&made);
    let above = confidence.map(|confidence| {
        let differences = above_fixed(loops, &made, &recall);
        (mean(&differences), interval(&differences, confidence))
    });
    StopRuleResult {
        options,
        searches,
        recall: mean(&recall),
        recall_interval: interval(&recall, 0.95),
        above_fixed: above.map(|(estimate, _)| estimate),
        above_fixed_interval: above.map(|(_, interval)| interval),
    }
}

/// By loop, the recall of a rule minus that of a mix of two fixed numbers with the same mean cost. Loops in which the
/// rule makes more searches than on average pay for them at the rate of the mix, so that the spread of the values
/// includes that of the cost.
fn above_fixed(loops: &[ScoredLoop], made: &[f64], recall: &[f64]) -> Vec<f64> {
    let rounds = loops.first().map_or(0, |one| one.recall.len() - 1);
    let cost = |number: usize| {
        let made: Vec<f64> = loops
            .iter()
            .map(|one| number.min(one.rounds.len()) as f64)
            .collect();
        mean(&made)
    };
    let searches = mean(made);
    let lower = (0..rounds)
        .rev()
        .find(|number| cost(*number) <= searches)
        .unwrap_or(0);
    let upper = (lower + 1).min(rounds);
    let (low, high) = (cost(lower), cost(upper));
    let share = if high > low {
        (searches - low) / (high - low)
    } else {
        0.0
    };
    let gain = |one: &ScoredLoop| one.recall[upper] - one.recall[lower];
    let gains: Vec<f64> = loops.iter().map(gain).collect();
    let rate = if high > low {
        mean(&gains) / (high - low)
    } else {
        0.0
    };
    loops
        .iter()
        .zip(made.iter().zip(recall))
        .map(|(one, (made, recall))| {
            let mix = one.recall[lower] + share * gain(one);
            let own = |number: usize| number.min(one.rounds.len()) as f64;
            let paid = own(lower) + share * (own(upper) - own(lower));
            recall - mix - rate * (made - paid)
        })
        .collect()
}

/// Mean number of searches after which each loop has the recall that `number` searches give it.
fn hindsight(loops: &[ScoredLoop], number: usize) -> f64 {
    let needed: Vec<f64> = loops
        .iter()
        .map(|one| {
            let wanted = one.recall[number.min(one.recall.len() - 1)];
            let first = one.recall.iter().position(|recall| *recall >= wanted - 1e-12);
            first.unwrap_or(number).max(1) as f64
        })
        .collect();
    mean(&needed)
}

/// Gain of the search after `after` ones; `None` if too few loops made it.
fn next_gain(loops: &[ScoredLoop], after: usize) -> Option<NextGain> {
    let rows: Vec<([f64; 5], f64)> = loops
        .iter()
        .filter(|one| one.rounds.len() > after)
        .map(|one| {
            let round = &one.rounds[after - 1];
            let features = [
                1.0,
                round.novelty,
                round.task_yield.unwrap_or(0.0),
                round.discovery.once_share,
                round.discovery.new_share,
            ];
            (features, one.recall[after + 1] - one.recall[after])
        })
        .collect();
    if rows.len() < MIN_LOOPS {
        return None;
    }
    let gains: Vec<f64> = rows.iter().map(|(_, gain)| *gain).collect();
    Some(NextGain {
        after,
        mean: mean(&gains),
        without: gains.iter().filter(|gain| **gain <= 0.0).count() as f64 / gains.len() as f64,
        explained: explained(&rows).max(0.0),
    })
}

/// Share of the variance that a ridge regression explains on rows that were not used for fitting it.
fn explained<const N: usize>(rows: &[([f64; N], f64)]) -> f64 {
    let (mut residual, mut total) = (0.0, 0.0);
    for fold in 0..FOLDS {
        let (mut matrix, mut right) = (vec![0.0; N * N], [0.0; N]);
        let (mut sum, mut count) = (0.0, 0.0);
        for (_, (x, y)) in rows.iter().enumerate().filter(|(at, _)| at % FOLDS != fold) {
            for a in 0..N {
                right[a] += x[a] * y;
                for b in 0..N {
                    matrix[a * N + b] += x[a] * x[b];
                }
            }
            (sum, count) = (sum + y, count + 1.0);
        }
        for at in 1..N {
            matrix[at * N + at] += RIDGE * count;
        }
        let weights = solve_cholesky(&mut matrix, &right, N).unwrap_or_else(|_| vec![0.0; N]);
        let mean = sum / f64::max(count, 1.0);
        for (_, (x, y)) in rows.iter().enumerate().filter(|(at, _)| at % FOLDS == fold) {
            let predicted: f64 = x.iter().zip(&weights).map(|(x, weight)| x * weight).sum();
            residual += (y - predicted).powi(2);
            total += (y - mean).powi(2);
        }
    }
    if total > 1e-9 { 1.0 - residual / total } else { 0.0 }
}

fn interval(values: &[f64], confidence: f64) -> Interval {
    let mut settings = BootstrapSettings {
        confidence,
        ..BootstrapSettings::default()
    };
    if confidence > 1.0 - ERROR {
        settings.resamples = RESAMPLES;
    }
    let value = mean(values);
    bootstrap_mean(values, &settings).map_or(
        Interval {
            low: value,
            high: value,
            confidence,
        },
        |found| found.interval,
    )
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(ids: &[usize]) -> Vec<Hit> {
        let hit = |id: &usize| {
            Hit::new(
                "",
                format!("https://example.org/{id}"),
                format!("Fact {id} is number {id}."),
            )
        };
        ids.iter().map(hit).collect()
    }

    /// Loops of six rounds. Loop `n` finds its useful results in the rounds of `useful`; a round repeats the first
    /// results unless it finds something.
    fn loops(count: usize, useful: impl Fn(usize) -> Vec<usize>) -> Vec<RecordedLoop> {
        (0..count)
            .map(|number| {
                let useful = useful(number);
                let base = number * 100;
                let round = |at: usize| {
                    if useful.contains(&at) {
                        hits(&[base + 10 * at, base + 10 * at + 1])
                    } else {
                        hits(&[base + 10 * useful[0], base + 10 * useful[0] + 1])
                    }
                };
                RecordedLoop {
                    task: "facts".into(),
                    rounds: (1..=6).map(round).collect(),
                    relevant: useful
                        .iter()
                        .map(|at| format!("https://example.org/{}", base + 10 * at))
                        .collect(),
                }
            })
            .collect()
    }

    /// Nothing distinguishes the loops: a number is recommended, and the report says why.
    #[test]
    fn a_fixed_number_is_recommended_if_loops_do_not_differ() {
        let found = recommend(&loops(40, |_| vec![1, 2, 3]), 0.1).unwrap();
        assert_eq!(found.options, "--stop fixed --max-rounds 3", "{found:?}");
        assert!(found.reason.contains("at most 0.0 %"), "{}", found.reason);
        assert_eq!((found.loops, found.left_out, found.rounds), (40, 0, 6));
        assert!((found.hindsight_searches - 3.0).abs() < 1e-12);
        assert!((found.rules[1].recall - 2.0 / 3.0).abs() < 1e-12);
    }

    /// In half of the loops every search repeats the first one, which the overlap of the results shows.
    #[test]
    fn a_rule_is_recommended_if_overlap_shows_which_loops_are_done() {
        let found = recommend(
            &loops(60, |number| {
                if number % 2 == 0 {
                    vec![1]
                } else {
                    (1..=6).collect()
                }
            }),
            0.1,
        )
        .unwrap();
        assert!(
            found.options.starts_with("--stop missed") || found.options.starts_with("--stop novelty"),
            "{found:?}"
        );
        let rule = found
            .rules
            .iter()
            .find(|rule| rule.options == found.options)
            .unwrap();
        assert!(rule.above_fixed_interval.unwrap().low > 0.0);
        assert!(found.gains[1].explained > 0.5, "{:?}", found.gains);
    }

    #[test]
    fn few_loops_and_loops_without_useful_results_are_reported() {
        let mut few = loops(5, |_| vec![1]);
        few[0].relevant.clear();
        let found = recommend(&few, 0.1).unwrap();
        assert_eq!((found.loops, found.left_out), (4, 1));
        assert!(found.reason.contains("too few"), "{}", found.reason);
        let none = recommend(&[], 0.1).unwrap();
        assert_eq!((none.loops, none.rounds), (0, 0));
        let ragged = RecordedLoop {
            rounds: vec![hits(&[1]), Vec::new()],
            relevant: vec!["https://example.org/1".into()],
            task: String::new(),
        };
        let mut all = vec![ragged; 30];
        all.extend(loops(10, |_| vec![1, 5]));
        let found = recommend(&all, 0.0).unwrap();
        assert_eq!(found.options, "--stop fixed --max-rounds 5", "{found:?}");
    }
}
