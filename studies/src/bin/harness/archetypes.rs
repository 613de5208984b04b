//! Suites whose state is known, with the verdict of each score.

use satiety::bench::gate::Tally;
use satiety::harness::literal::literal_score;
use satiety::harness::measurement::{
    CaseHistory, Matrix, MeasureSettings, Verdict, measure, saturation_evidence,
};
use satiety::harness::signals::{Level, SignalMetrics, SignalSettings, score};

struct Archetype {
    name: &'static str,
    /// Ceiling, regression, proposals, auditors.
    rates: [f64; 4],
    deltas: Vec<f64>,
    matrix: Matrix,
    expected: Verdict,
}

/// Cases by versions: in version v the first `passing[v]` cases pass, rotated by `turn` cases per version so that different
/// cases fail.
fn matrix(cases: usize, passing: &[usize], turn: usize) -> Matrix {
    Matrix {
        versions: passing.len(),
        cases: (0..cases)
            .map(|case| CaseHistory {
                case_id: format!("case-{case:04}"),
                cluster: None,
                tallies: passing
                    .iter()
                    .enumerate()
                    .map(|(version, &passing)| {
                        Some(Tally {
                            passes: u64::from((case + version * turn) % cases < passing),
                            tries: 1,
                        })
                    })
                    .collect(),
            })
            .collect(),
    }
}

fn all() -> Vec<Archetype> {
    use Verdict::{Discriminates, Saturated, Underpowered};
    let falling = |from: f64, cycles: u32| -> Vec<f64> {
        (0..cycles)
            .map(|cycle| from * f64::from(cycles - 1 - cycle) / f64::from(cycles - 1))
            .collect()
    };
    let of = |name, rates, deltas, matrix, expected| Archetype {
        name,
        rates,
        deltas,
        matrix,
        expected,
    };
    vec![
        of(
            "fresh hard suite",
            [0.0, 1.0, 1.0, 1.0],
            vec![0.05; 6],
            matrix(100, &[30, 35, 40, 45, 50, 55], 0),
            Discriminates,
        ),
        of(
            "fully saturated, flat deltas",
            [1.0; 4],
            vec![0.0; 20],
            matrix(100, &[100; 20], 0),
            Saturated,
        ),
        of(
            "saturated, deltas .03 to 0 in 20 cycles",
            [1.0; 4],
            falling(0.03, 20),
            matrix(100, &[96, 98, 99, 99, 100, 100, 100, 100], 0),
            Saturated,
        ),
        of(
            "all zero",
            [0.0; 4],
            vec![],
            matrix(100, &[0; 5], 0),
            Discriminates,
        ),
        of(
            "half of the regression tests fail",
            [0.0, 0.5, 1.0, 1.0],
            vec![],
            matrix(100, &[50; 5], 0),
            Discriminates,
        ),
        of(
            "0 % at the ceiling, deltas .5 to 0 in 6 cycles",
            [0.0, 1.0, 1.0, 1.0],
            falling(0.5, 6),
            matrix(50, &[5, 20, 30, 35, 40, 40], 0),
            Discriminates,
        ),
        of(
            "auditors unanimous in rejecting everything",
            [0.0, 1.0, 0.0, 1.0],
            vec![],
            matrix(100, &[60; 5], 0),
            Discriminates,
        ),
        of(
            "20 cases at 90 %",
            [0.0, 1.0, 0.9, 0.9],
            vec![0.0; 5],
            matrix(20, &[18; 5], 4),
            Underpowered,
        ),
        of(
            "1,000 cases, 5 fail",
            [1.0, 1.0, 0.9, 0.9],
            vec![0.0; 5],
            matrix(1_000, &[993, 994, 994, 995, 995], 0),
            Saturated,
        ),
        of(
            "200 cases, 50 % to 75 % in 8 versions",
            [0.0, 1.0, 0.8, 0.9],
            vec![0.036; 7],
            matrix(200, &[100, 107, 114, 121, 128, 135, 143, 150], 3),
            Discriminates,
        ),
    ]
}

/// Scores of the five signals: the literal one and ours.
fn signals(archetype: &Archetype) -> anyhow::Result<[f64; 2]> {
    let [ceiling, regression, proposals, auditors] = archetype.rates;
    let metrics = SignalMetrics {
        benchmark_ceiling_rate: Some(ceiling),
        regression_pass_rate: Some(regression),
        improvement_delta: None,
        proposal_pass_rate: Some(proposals),
        auditor_unanimous_rate: Some(auditors),
    };
    Ok([
        literal_score(&metrics, &archetype.deltas)?,
        score(&metrics, &archetype.deltas, &SignalSettings::default())?.score,
    ])
}

/// A saturated suite should be CRITICAL and one that discriminates below HIGH. The signals cannot detect that a suite is
/// too small.
fn fits(level: Level, expected: Verdict) -> Option<bool> {
    match expected {
        Verdict::Saturated => Some(level == Level::Critical),
        Verdict::Discriminates => Some(level < Level::High),
        Verdict::Underpowered => None,
    }
}

pub(crate) fn print() -> anyhow::Result<()> {
    println!("## Archetypes\n");
    println!(
        "| suite | specification, literal | ours, by signals | measured saturation | e-value | verdict | expected | right |"
    );
    println!("|---|--:|--:|--:|--:|---|---|---|");
    let settings = MeasureSettings::default();
    let (mut right, mut by_signals, mut judged) = (0, [0, 0], 0);
    let archetypes = all();
    for archetype in &archetypes {
        let scores = signals(archetype)?;
        let levels = scores.map(|score| Level::of(score, SignalSettings::default().levels));
        for (count, level) in by_signals.iter_mut().zip(levels) {
            *count += u32::from(fits(level, archetype.expected) == Some(true));
        }
        judged += u32::from(archetype.expected != Verdict::Underpowered);
        let found = measure(&archetype.matrix, &settings)?;
        let evidence = saturation_evidence(&archetype.matrix, &settings)?;
        right += u32::from(found.verdict == archetype.expected);
        println!(
            "| {} | {:.3} {} | {:.3} {} | {:.3} | {} | {} | {} | {} |",
            archetype.name,
            scores[0],
            levels[0],
            scores[1],
            levels[1],
            found.headroom.saturation,
            evidence.map_or_else(
                || "-".to_owned(),
                |evidence| format!("{:.2e}", evidence.strongest.e_value())
            ),
            found.verdict,
            archetype.expected,
            if found.verdict == archetype.expected {
                "yes"
            } else {
                "NO"
            }
        );
    }
    println!(
        "\nverdicts right: {right} of {}; levels right: literal {} of {judged}, ours by signals {} of {judged}\n",
        archetypes.len(),
        by_signals[0],
        by_signals[1]
    );
    Ok(())
}
