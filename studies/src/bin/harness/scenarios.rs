//! Many simulated projects: how soon a saturating suite is detected, and how often a healthy suite triggers.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use satiety::harness::measurement::Verdict;
use satiety::stats::BetaPosterior;

use super::histories::{RULES, run};

/// With fewer failing cases no improvement can be shown at 5 %.
const NEEDED: f64 = 5.0;

/// Pass rates of cases with difficulties for one ability (two-parameter logistic model, slope 2).
fn logistic(difficulties: &[f64], ability: f64) -> Vec<f64> {
    difficulties
        .iter()
        .map(|difficulty| 1.0 / (1.0 + (2.0 * (difficulty - ability)).exp()))
        .collect()
}

fn difficulties(cases: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..cases).map(|_| random.random_range(-2.0..2.0)).collect()
}

pub(crate) fn print_detection(histories: u64) -> anyhow::Result<()> {
    println!("## A suite that saturates\n");
    println!(
        "{histories} histories of 80 cycles per row; delay in cycles since fewer than five failures are expected\n"
    );
    println!(
        "| cases | ability per cycle | rule | median | 95th percentile | more than 5 early | never | last verdict SATURATED |"
    );
    println!("|--:|--:|---|--:|--:|--:|--:|--:|");
    for (cases, step) in [(100, 0.12), (100, 0.06), (100, 0.24), (400, 0.12)] {
        let mut delays: [Vec<i64>; 4] = Default::default();
        let mut saturated = 0_u64;
        for seed in 0..histories {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let difficulties = difficulties(cases, &mut random);
            let rates: Vec<Vec<f64>> = (0..80)
                .map(|cycle| logistic(&difficulties, f64::from(cycle) * step))
                .collect();
            let expected = |rates: &[f64]| rates.iter().map(|rate| 1.0 - rate).sum::<f64>();
            let Some(point) = rates.iter().position(|rates| expected(rates) < NEEDED) else {
                anyhow::bail!("history {seed} of {cases} cases never saturates");
            };
            let found = run(&rates, 1, seed, &mut random)?;
            saturated += u64::from(found.verdict == Verdict::Saturated);
            for (delays, first) in delays.iter_mut().zip(found.first) {
                if let Some(first) = first {
                    delays.push(i64::try_from(first)? - i64::try_from(point)?);
                }
            }
        }
        for (rule, delays) in RULES.iter().zip(&mut delays) {
            delays.sort_unstable();
            let count = delays.len();
            let at = |share: usize| {
                delays
                    .get((count * share / 100).min(count.saturating_sub(1)))
                    .map_or_else(|| "-".to_owned(), ToString::to_string)
            };
            let early = delays.iter().filter(|delay| **delay < -5).count();
            println!(
                "| {cases} | {step} | {rule} | {} | {} | {:.1} % | {:.1} % | {:.1} % |",
                at(50),
                at(95),
                100.0 * early as f64 / histories as f64,
                100.0 * (histories - count as u64) as f64 / histories as f64,
                100.0 * saturated as f64 / histories as f64
            );
        }
    }
    println!();
    Ok(())
}

/// Behavior of suites that are not saturated.
#[derive(Clone, Copy)]
enum World {
    /// This share of the cases always passes, the others never pass.
    Fixed(f64),
    /// Every case passes at this rate.
    Flaky(f64),
    /// These shares of the cases always and never pass, the others pass half of the time.
    Mixed(f64, f64),
    /// A logistic model whose ability changes from the first to the second value in 40 cycles, with noise in each.
    Model(f64, f64, f64),
}

impl World {
    fn rates(self, cases: usize, cycles: u32, random: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
        let share = |case: usize| (case as f64 + 0.5) / cases as f64;
        match self {
            Self::Fixed(passing) => {
                let rates = (0..cases)
                    .map(|case| f64::from(u8::from(share(case) < passing)))
                    .collect();
                vec![rates; cycles as usize]
            }
            Self::Flaky(rate) => vec![vec![rate; cases]; cycles as usize],
            Self::Mixed(always, never) => {
                let rates = (0..cases)
                    .map(|case| match share(case) {
                        share if share < always => 1.0,
                        share if share > 1.0 - never => 0.0,
                        _ => 0.5,
                    })
                    .collect();
                vec![rates; cycles as usize]
            }
            Self::Model(from, to, noise) => {
                let difficulties = difficulties(cases, random);
                (0..cycles)
                    .map(|cycle| {
                        let ability = from + (to - from) * f64::from(cycle) / f64::from(cycles.max(2) - 1);
                        let wobble = if noise > 0.0 {
                            random.random_range(-noise..noise)
                        } else {
                            0.0
                        };
                        logistic(&difficulties, ability + wobble)
                    })
                    .collect()
            }
        }
    }
}

pub(crate) fn print_false_triggers(histories: u64) -> anyhow::Result<()> {
    println!("## A suite that still discriminates\n");
    println!(
        "Histories of 40 cycles per row that ever trigger, with the exact (Clopper-Pearson) 95 % interval of the share\n"
    );
    println!("| suite | cases x repeats | measured | 95 % interval | signals | literal | e-value |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let mut all = [0_u64; 2];
    for (name, world, cases, repeats, discriminates) in [
        (
            "plateau at 80 %, always the same cases fail",
            World::Fixed(0.8),
            100,
            1,
            true,
        ),
        (
            "plateau at 80 %, every case flaky",
            World::Flaky(0.8),
            100,
            1,
            true,
        ),
        (
            "plateau at 80 %, every case flaky",
            World::Flaky(0.8),
            100,
            5,
            true,
        ),
        (
            "70 % always, 10 % never, the rest flaky",
            World::Mixed(0.7, 0.1),
            100,
            1,
            true,
        ),
        (
            "plateau at 90 %, always the same cases fail",
            World::Fixed(0.9),
            100,
            1,
            true,
        ),
        (
            "plateau at 90 %, every case flaky",
            World::Flaky(0.9),
            100,
            1,
            true,
        ),
        ("small, at 60 %, flaky", World::Flaky(0.6), 20, 1, true),
        ("small, at 60 %, always the same", World::Fixed(0.6), 20, 1, true),
        ("small, at 70 %, flaky", World::Flaky(0.7), 40, 1, true),
        (
            "improves from 27 % to 73 %",
            World::Model(-1.0, 1.0, 0.0),
            100,
            1,
            true,
        ),
        (
            "stands at 50 %, ability wobbles",
            World::Model(0.0, 0.0, 0.5),
            40,
            1,
            true,
        ),
        (
            "gets worse from 73 % to 27 %",
            World::Model(1.0, -1.0, 0.2),
            60,
            1,
            true,
        ),
        (
            "large, at 95 %, always the same cases fail",
            World::Fixed(0.95),
            1_000,
            1,
            true,
        ),
        (
            "large, at 97 %, every case flaky",
            World::Flaky(0.97),
            1_000,
            1,
            true,
        ),
        (
            "not healthy: 20 cases at 90 % (too few)",
            World::Flaky(0.9),
            20,
            1,
            false,
        ),
        (
            "not healthy: 100 cases at 99 % (too easy)",
            World::Flaky(0.99),
            100,
            1,
            false,
        ),
    ] {
        let mut counts = [0_u64; 4];
        for seed in 0..histories {
            let mut random = ChaCha8Rng::seed_from_u64(1_000_000 + seed);
            let rates = world.rates(cases, 40, &mut random);
            let found = run(&rates, repeats, seed, &mut random)?;
            for (count, first) in counts.iter_mut().zip(found.first) {
                *count += u64::from(first.is_some());
            }
        }
        if discriminates {
            all[0] += counts[0];
            all[1] += histories;
        }
        let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / histories as f64);
        println!(
            "| {name} | {cases} x {repeats} | {} | {} | {} | {} | {} |",
            share(counts[0]),
            exact(counts[0], histories)?,
            share(counts[1]),
            share(counts[2]),
            share(counts[3])
        );
    }
    println!(
        "\nall healthy rows together: {} of {} trigger by the measured rule, {}\n",
        all[0],
        all[1],
        exact(all[0], all[1])?
    );
    Ok(())
}

/// Exact interval of a share (Clopper-Pearson).
fn exact(hits: u64, of: u64) -> anyhow::Result<String> {
    let (k, rest) = (hits as f64, (of - hits) as f64);
    let low = if hits == 0 {
        0.0
    } else {
        BetaPosterior::new(k, rest + 1.0)?.credible_interval(0.95)?.low
    };
    let high = if hits == of {
        1.0
    } else {
        BetaPosterior::new(k + 1.0, rest)?.credible_interval(0.95)?.high
    };
    Ok(format!("{:.2} to {:.2} %", 100.0 * low, 100.0 * high))
}
