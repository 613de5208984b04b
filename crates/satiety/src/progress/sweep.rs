//! Calibration on recorded runs with outcomes: how much waste would the judge have saved, and how many solved
//! runs would it have cut, over thresholds and compared with simple rules.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::profile::ProgressProfile;
use super::report::{ProgressSignal, judge};
use super::signature::Signature;
use crate::cancel::{Cancellation, Cancelled};
use crate::stats::{Interval, wilson};
use crate::trajectory::{CallKind, Trajectory};

/// A recorded run with what is known about it.
#[derive(Debug, Clone)]
pub struct LabelledRun {
    signatures: Vec<Signature>,
    trajectory: Trajectory,
    solved: bool,
    /// Step at which a person would have noticed the loop.
    loop_noticed_at: Option<usize>,
    /// The last step that changed something.
    last_edit: usize,
}

/// How a rule would have done on the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleResult {
    /// Name of the rule.
    pub rule: String,
    /// Share of the steps wasted in loops that stopping would have saved, from 0 to 1.
    pub waste_saved: Option<f64>,
    /// 95 % interval of that share, by linearization over runs.
    pub waste_saved_interval: Option<Interval>,
    /// Number of solved runs stopped before their last edit.
    pub solved_cut: usize,
    /// Share of solved runs stopped before their last edit, from 0 to 1.
    pub solved_cut_rate: Option<f64>,
    /// 95 % Wilson interval of that share.
    pub solved_cut_interval: Option<Interval>,
    /// Number of loops that were not stopped.
    pub loops_missed: usize,
    /// Median number of steps between the step where a person would have noticed the loop and the stop.
    pub median_delay: Option<f64>,
    /// Nudges per solved run.
    pub nudges_per_solved: Option<f64>,
}

/// The judge at one threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// Level from which the judge stops (`decision.stop`).
    pub stop: f64,
    /// Level from which the judge nudges (`decision.nudge`).
    pub nudge: f64,
    /// How the judge does with these levels.
    #[serde(flatten)]
    pub result: RuleResult,
}

/// Calibration report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkSweep {
    /// Number of runs with an outcome.
    pub runs: usize,
    /// Number of runs that solved their task.
    pub solved: usize,
    /// Number of unsolved runs with a loop.
    pub loops: usize,
    /// Steps after the point where a person would have noticed the loop, over all unsolved loops.
    pub wasted_steps: usize,
    /// The judge with the given profile.
    pub profile: SweepPoint,
    /// The judge over thresholds, from low to high.
    pub points: Vec<SweepPoint>,
    /// Simple rules for comparison.
    pub rules: Vec<RuleResult>,
    /// The threshold that saves most among those that cut at most 2 % of the solved runs.
    pub suggested_stop: Option<f64>,
}

impl LabelledRun {
    /// Prepares a run. `None` if the log does not say whether it was solved. Loops that are not labelled are
    /// recognized by repeats: in a window of eight steps, at least six repeat one of the six before them.
    pub fn new(trajectory: Trajectory) -> Option<Self> {
        let outcome = trajectory.outcome.as_ref()?;
        let solved = outcome.solved?;
        let labelled = outcome.loop_noticed_at;
        let signatures: Vec<Signature> = trajectory.steps.iter().map(Signature::new).collect();
        let loop_noticed_at = labelled.or_else(|| notice_loop(&signatures));
        let last_edit = signatures
            .iter()
            .rposition(Signature::is_successful_edit)
            .or_else(|| {
                signatures
                    .iter()
                    .rposition(|signature| signature.kind.is_some_and(|kind| kind != CallKind::Finish))
            })
            .map_or(0, |index| index + 1);
        Some(Self {
            signatures,
            trajectory,
            solved,
            loop_noticed_at,
            last_edit,
        })
    }
}

/// Measures the judge over thresholds and compares it with simple rules.
pub fn sweep_work(
    runs: &[LabelledRun],
    profile: &ProgressProfile,
    stops: &[f64],
    cancellation: &Cancellation,
) -> Result<WorkSweep, Cancelled> {
    let point = |stop: f64| -> Result<SweepPoint, Cancelled> {
        let mut profile = profile.clone();
        let scale = stop / profile.decision.stop;
        profile.decision.nudge *= scale;
        profile.decision.stop = stop;
        profile.decision.ceiling = profile.decision.ceiling.max(stop);
        let nudge = profile.decision.nudge;
        let profile = Arc::new(profile);
        let mut decisions = Vec::with_capacity(runs.len());
        for run in runs {
            cancellation.check()?;
            let report = judge(&run.trajectory, Arc::clone(&profile), |_| None::<Vec<f32>>);
            let nudges = report
                .signal_by_step
                .iter()
                .filter(|signal| **signal == ProgressSignal::Nudge)
                .count();
            decisions.push((report.first_stop_step, nudges));
        }
        Ok(SweepPoint {
            stop,
            nudge,
            result: measure("satiety", runs, &decisions),
        })
    };
    let current = point(profile.decision.stop)?;
    let points = stops
        .iter()
        .map(|stop| point(*stop))
        .collect::<Result<Vec<_>, _>>()?;
    let suggested_stop = points
        .iter()
        .filter(|point| point.result.solved_cut_rate.is_none_or(|rate| rate <= 0.02))
        .max_by(|left, right| {
            let saved = |point: &SweepPoint| point.result.waste_saved.unwrap_or(0.0);
            let distance = |point: &SweepPoint| (point.stop - profile.decision.stop).abs();
            saved(left)
                .total_cmp(&saved(right))
                .then_with(|| distance(right).total_cmp(&distance(left)))
        })
        .map(|point| point.stop);
    let loops: Vec<&LabelledRun> = runs.iter().filter(|run| run.is_wasteful()).collect();
    Ok(WorkSweep {
        runs: runs.len(),
        solved: runs.iter().filter(|run| run.solved).count(),
        loops: loops.len(),
        wasted_steps: loops.iter().map(|run| run.wasted()).sum(),
        profile: current,
        points,
        rules: baseline_rules(runs),
        suggested_stop,
    })
}

/// Simple rules that people use today, on the same runs.
pub fn baseline_rules(runs: &[LabelledRun]) -> Vec<RuleResult> {
    type Rule = fn(&[Signature]) -> Option<usize>;
    let rules: [(&str, Rule); 4] = [
        ("OpenHands stuck detector", openhands),
        ("same action three times", |steps| {
            first_where(steps, 3, |last| all_equal(last, |step| step.action.hash))
        }),
        ("5 of the last 10 steps seen before", seen_before),
        ("limit of 30 steps", |steps| (steps.len() > 30).then_some(30)),
    ];
    rules
        .iter()
        .map(|(name, rule)| {
            let decisions: Vec<_> = runs.iter().map(|run| (rule(&run.signatures), 0)).collect();
            let mut result = measure(name, runs, &decisions);
            result.nudges_per_solved = None;
            result
        })
        .collect()
}

impl LabelledRun {
    /// Whether the run is an unsolved loop.
    fn is_wasteful(&self) -> bool {
        !self.solved && self.loop_noticed_at.is_some()
    }

    /// Steps after the loop was noticeable.
    fn wasted(&self) -> usize {
        self.signatures
            .len()
            .saturating_sub(self.loop_noticed_at.unwrap_or(usize::MAX))
    }
}

fn measure(rule: &str, runs: &[LabelledRun], decisions: &[(Option<usize>, usize)]) -> RuleResult {
    let mut pairs = Vec::new();
    let mut delays = Vec::new();
    let (mut missed, mut cut, mut solved, mut nudges) = (0_usize, 0_usize, 0_usize, 0_usize);
    for (run, (stop, run_nudges)) in runs.iter().zip(decisions) {
        let length = run.signatures.len();
        if run.solved {
            solved += 1;
            nudges += run_nudges;
            cut += usize::from(stop.is_some_and(|stop| stop < run.last_edit));
        } else if let Some(noticed) = run.loop_noticed_at {
            let wasted = run.wasted();
            let saved = stop.map_or(0, |stop| length.saturating_sub(stop)).min(wasted);
            pairs.push((saved as f64, wasted as f64));
            missed += usize::from(stop.is_none());
            delays.push(stop.unwrap_or(length) as f64 - noticed as f64);
        }
    }
    let wasted: f64 = pairs.iter().map(|(_, wasted)| wasted).sum();
    let saved: f64 = pairs.iter().map(|(saved, _)| saved).sum();
    let waste_saved = (wasted > 0.0).then(|| saved / wasted);
    delays.sort_by(f64::total_cmp);
    RuleResult {
        rule: rule.to_owned(),
        waste_saved,
        waste_saved_interval: waste_saved.and_then(|ratio| ratio_interval(&pairs, ratio)),
        solved_cut: cut,
        solved_cut_rate: (solved > 0).then(|| cut as f64 / solved as f64),
        solved_cut_interval: wilson(cut as u64, solved as u64, 0.95).ok(),
        loops_missed: missed,
        median_delay: median(&delays),
        nudges_per_solved: (solved > 0).then(|| nudges as f64 / solved as f64),
    }
}

/// 95 % interval of a ratio of sums over independent runs, by linearization (delta method).
fn ratio_interval(pairs: &[(f64, f64)], ratio: f64) -> Option<Interval> {
    let count = pairs.len() as f64;
    if pairs.len() < 2 {
        return None;
    }
    let mean_wasted = pairs.iter().map(|(_, wasted)| wasted).sum::<f64>() / count;
    let variance = pairs
        .iter()
        .map(|(saved, wasted)| (saved - ratio * wasted).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    let error = (variance / count).sqrt() / mean_wasted;
    Some(Interval {
        low: (ratio - 1.959964 * error).max(0.0),
        high: (ratio + 1.959964 * error).min(1.0),
        confidence: 0.95,
    })
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        Some(upper)
    } else {
        Some(f64::midpoint(*sorted.get(middle - 1)?, upper))
    }
}

/// The third repeat in the first window of eight steps of which six repeat one of the six steps before them.
fn notice_loop(steps: &[Signature]) -> Option<usize> {
    let repeats: Vec<bool> = (0..steps.len())
        .map(|index| {
            steps[index.saturating_sub(6)..index].iter().any(|earlier| {
                steps[index].action.similarity(&earlier.action, 0.8).is_some()
                    && steps[index].outcome.similarity(&earlier.outcome, 0.8).is_some()
            })
        })
        .collect();
    let window = repeats
        .windows(8)
        .position(|window| window.iter().filter(|repeat| **repeat).count() >= 6)?;
    let third = repeats[window..]
        .iter()
        .enumerate()
        .filter(|(_, repeat)| **repeat)
        .nth(2)?;
    Some(window + third.0 + 1)
}

fn all_equal<K: PartialEq>(steps: &[Signature], key: impl Fn(&Signature) -> K) -> bool {
    steps.windows(2).all(|pair| key(&pair[0]) == key(&pair[1]))
}

/// The first step at which a condition holds for the last `count` steps.
fn first_where(steps: &[Signature], count: usize, condition: impl Fn(&[Signature]) -> bool) -> Option<usize> {
    steps
        .windows(count)
        .position(condition)
        .map(|index| index + count)
}

/// The published rules of OpenHands: four equal pairs of action and observation, three equal actions with
/// errors, three equal messages, six alternating pairs.
fn openhands(steps: &[Signature]) -> Option<usize> {
    let pair = |step: &Signature| (step.action.hash, step.outcome.hash);
    [
        first_where(steps, 4, |last| {
            last.iter().all(|step| step.kind.is_some()) && all_equal(last, pair)
        }),
        first_where(steps, 3, |last| {
            last.iter().all(|step| step.failed) && all_equal(last, |step| step.action.hash)
        }),
        first_where(steps, 3, |last| {
            last.iter().all(|step| step.kind.is_none() && !step.has_result())
                && all_equal(last, |step| step.action.hash)
        }),
        first_where(steps, 6, |last| {
            pair(&last[0]) != pair(&last[1])
                && (0..4).all(|index| pair(&last[index]) == pair(&last[index + 2]))
        }),
    ]
    .into_iter()
    .flatten()
    .min()
}

fn seen_before(steps: &[Signature]) -> Option<usize> {
    let mut known = FxHashSet::default();
    let mut repeats = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        repeats.push(!known.insert((step.action.hash, step.outcome.hash)));
        let last = &repeats[repeats.len().saturating_sub(10)..];
        if last.iter().filter(|repeat| **repeat).count() >= 5 {
            return Some(index + 1);
        }
    }
    None
}
