//! One simulated project: in each cycle a version is run, measured and recorded, and each rule is evaluated.

use jiff::Timestamp;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use satiety::bench::gate::Tally;
use satiety::harness::cycles::{
    Action, Aggregate, ConsistencyThresholds, CycleSnapshot, Driver, MeasuredSaturation, SCHEMA_VERSION,
};
use satiety::harness::literal::{literal_counts, literal_score};
use satiety::harness::measurement::{
    CaseHistory, Matrix, MeasureSettings, Verdict, measure, saturation_evidence,
};
use satiety::harness::signals::{Level, SignalMetrics, SignalSettings, score};

/// The compared rules, in the order of [`History::first`].
pub(crate) const RULES: [&str; 4] = ["measured", "signals", "literal", "e-value"];

/// Cycles in which the rules triggered.
pub(crate) struct History {
    /// First cycle in which each of [`RULES`] triggered.
    pub(crate) first: [Option<usize>; 4],
    /// Verdict of the last cycle.
    pub(crate) verdict: Verdict,
}

/// Simulates a project. `rates` has the pass rate of every case in every cycle.
pub(crate) fn run(
    rates: &[Vec<f64>],
    repeats: u64,
    seed: u64,
    random: &mut ChaCha8Rng,
) -> anyhow::Result<History> {
    let levels_at = SignalSettings::default().levels;
    let settings = MeasureSettings {
        resamples: 200,
        seed,
        ..MeasureSettings::default()
    };
    let thresholds = ConsistencyThresholds::default();
    let mut windows = [Driver::Measured, Driver::Signals].map(|driver| Aggregate::new("v", driver));
    let mut history = History {
        first: [None; 4],
        verdict: Verdict::Discriminates,
    };
    let (mut versions, mut scores, mut levels): (Vec<Vec<Tally>>, Vec<f64>, Vec<Level>) =
        (Vec::new(), Vec::new(), Vec::new());
    for (cycle, rates) in rates.iter().enumerate() {
        let tallies: Vec<Tally> = rates
            .iter()
            .map(|rate| Tally {
                passes: (0..repeats).filter(|_| random.random_bool(*rate)).count() as u64,
                tries: repeats,
            })
            .collect();
        let passes: u64 = tallies.iter().map(|tally| tally.passes).sum();
        scores.push(passes as f64 / (repeats * tallies.len() as u64) as f64);
        versions.push(tallies);
        let recent = matrix(versions.get(versions.len().saturating_sub(settings.window)..));
        let found = measure(&recent, &settings)?;
        history.verdict = found.verdict;
        let snapshot = snapshot(cycle, &scores, found.headroom.saturation, found.verdict)?;
        let mut triggered = [false; 4];
        for (window, triggered) in windows.iter_mut().zip(&mut triggered) {
            window.record(&snapshot)?;
            *triggered = window.decide(&thresholds).action == Action::TriggerExpansionResearch;
        }
        levels.push(Level::of(
            literal_score(&snapshot.metrics, &deltas(&scores))?,
            levels_at,
        ));
        let (high, critical) = literal_counts(levels.get(levels.len().saturating_sub(20)..).unwrap_or(&[]));
        triggered[2] = levels.len() >= 10 && (high >= 10 || critical >= 5);
        triggered[3] =
            saturation_evidence(&recent, &settings)?.is_some_and(|evidence| evidence.shown_after.is_some());
        for (first, triggered) in history.first.iter_mut().zip(triggered) {
            if triggered {
                *first = first.or(Some(cycle));
            }
        }
    }
    Ok(history)
}

/// A mature project: proposals pass, auditors agree, regression tests pass.
fn snapshot(
    cycle: usize,
    scores: &[f64],
    probability: f64,
    verdict: Verdict,
) -> anyhow::Result<CycleSnapshot> {
    let deltas = deltas(scores);
    let settings = SignalSettings::default();
    let metrics = SignalMetrics {
        benchmark_ceiling_rate: scores.last().map(|score| f64::from(u8::from(*score > 0.95))),
        regression_pass_rate: Some(1.0),
        improvement_delta: deltas.last().copied(),
        proposal_pass_rate: Some(0.9),
        auditor_unanimous_rate: Some(0.95),
    };
    let signal = score(&metrics, &deltas, &settings)?;
    Ok(CycleSnapshot {
        unverified: false,
        cycle_id: format!("cycle-{cycle}"),
        timestamp: Timestamp::from_second(i64::try_from(cycle)?)?,
        harness_version: "v".to_owned(),
        metrics,
        saturation_score: signal.score,
        saturation_level: signal.level,
        measured: Some(MeasuredSaturation {
            probability,
            verdict,
            level: Level::of(probability, settings.levels),
        }),
        schema_version: SCHEMA_VERSION.to_owned(),
    })
}

/// Gains of the last 20 versions.
fn deltas(scores: &[f64]) -> Vec<f64> {
    let recent = scores.get(scores.len().saturating_sub(21)..).unwrap_or(&[]);
    recent
        .iter()
        .zip(recent.iter().skip(1))
        .map(|(before, now)| now - before)
        .collect()
}

fn matrix(versions: Option<&[Vec<Tally>]>) -> Matrix {
    let versions = versions.unwrap_or(&[]);
    let cases = versions.first().map_or(0, Vec::len);
    Matrix {
        versions: versions.len(),
        cases: (0..cases)
            .map(|case| CaseHistory {
                case_id: case.to_string(),
                cluster: None,
                tallies: versions
                    .iter()
                    .map(|version| version.get(case).copied())
                    .collect(),
            })
            .collect(),
    }
}
