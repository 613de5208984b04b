//! Simulates false alarms and power of the sequential tests when they are evaluated after every observation. The bound is
//! alpha plus three standard errors of the simulation. `cargo test -p satiety --test it -- --nocapture` prints the
//! table, with a t-test that is evaluated after every observation for comparison.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use satiety::stats::{
    Alternative, BettingSettings, BettingTest, Moments, NormalSprt, SprtDecision, SprtSettings, SprtSigma,
    discordant_evidence, one_sample_t, sign_test,
};

const ALPHA: f64 = 0.05;

fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

/// Shapes of paired differences, each with mean `mean` and inside [−1, 1] where it matters.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Normal(f64),
    /// Differences of reciprocal ranks: two thirds are exactly zero, the others are coarse.
    ReciprocalRanks,
    /// Rare large losses, frequent small wins: skewed as badly as bounds allow.
    Skewed,
}

impl Shape {
    fn draw(self, mean: f64, random: &mut ChaCha8Rng) -> f64 {
        match self {
            Self::Normal(sigma) => (mean + sigma * normal(random)).clamp(-1.0, 1.0),
            Self::ReciprocalRanks => {
                // One pair in three differs; shifting those pairs by three times the mean shifts all by the mean.
                if uniform(random) < 2.0 / 3.0 {
                    return 0.0;
                }
                let rank = |random: &mut ChaCha8Rng| 1.0 / (1.0 + (uniform(random) * 8.0).floor());
                let difference = rank(random) - rank(random);
                let shift = if uniform(random) < 3.0 * mean.abs() {
                    mean.signum()
                } else {
                    0.0
                };
                if shift == 0.0 {
                    difference
                } else {
                    shift * difference.abs().max(1.0)
                }
            }
            Self::Skewed => {
                let loss = 0.05 / 1.05 - mean / 1.05;
                if uniform(random) < loss { -1.0 } else { 0.05 }
            }
        }
    }
}

/// Share of trials in which `stops` returns true, with a separate generator for each trial.
fn share(trials: u64, seed: u64, stops: impl Fn(&mut ChaCha8Rng) -> bool) -> f64 {
    let hits = (0..trials)
        .filter(|&trial| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(trial);
            stops(&mut random)
        })
        .count();
    hits as f64 / trials as f64
}

fn most(trials: u64) -> f64 {
    ALPHA + 3.0 * (ALPHA * (1.0 - ALPHA) / trials as f64).sqrt()
}

#[expect(
    clippy::unwrap_used,
    reason = "the settings are valid and the draws are finite"
)]
fn sprt_accepts(sigma: SprtSigma, mean: f64, shape: Shape, random: &mut ChaCha8Rng) -> (bool, u64) {
    let settings = SprtSettings {
        effect: 0.05,
        alpha: ALPHA,
        beta: 0.2,
        sigma,
        minimum_samples: 10,
    };
    let mut test = NormalSprt::new(settings).unwrap();
    for _ in 0..2000 {
        match test.observe(shape.draw(mean, random)).unwrap() {
            SprtDecision::Continue => {}
            decision => return (decision == SprtDecision::AcceptEffect, test.samples()),
        }
    }
    (false, test.samples())
}

#[test]
fn sprt_keeps_its_error_rates() {
    const TRIALS: u64 = 2000;
    for sigma in [0.15, 0.3] {
        let shape = Shape::Normal(sigma);
        for (name, source) in [
            ("known", SprtSigma::Known(sigma)),
            ("burn-in 20", SprtSigma::BurnIn(20)),
            ("burn-in 50", SprtSigma::BurnIn(50)),
        ] {
            let false_accepts = share(TRIALS, 1, |random| sprt_accepts(source, 0.0, shape, random).0);
            let power = share(TRIALS, 2, |random| sprt_accepts(source, 0.05, shape, random).0);
            let samples: u64 = (0..200)
                .map(|trial| {
                    let mut random = ChaCha8Rng::seed_from_u64(3);
                    random.set_stream(trial);
                    sprt_accepts(source, 0.05, shape, &mut random).1
                })
                .sum();
            println!(
                "SPRT sigma {sigma} {name}: false accepts {false_accepts:.3}, power {power:.3}, mean samples {}",
                samples / 200
            );
            assert!(false_accepts <= most(TRIALS), "{name} {sigma}: {false_accepts}");
            assert!(power >= 0.8 - 0.03, "{name} {sigma}: {power}");
        }
    }
}

#[test]
fn sprt_without_the_variance_would_not() {
    // Shows what goes wrong if the update is Σ (x − δ²/2) with Wald's boundaries: the reason for the division by σ².
    let naive = share(1000, 4, |random| {
        let mut ratio = 0.0;
        for _ in 0..2000 {
            ratio += 0.15 * normal(random) - 0.5 * 0.05 * 0.05;
            if ratio >= 16f64.ln() {
                return true;
            }
            if ratio <= (0.2f64 / 0.95).ln() {
                return false;
            }
        }
        false
    });
    println!("update without variance: false accepts {naive:.3}");
    assert!(naive > 0.2);
}

#[expect(
    clippy::unwrap_used,
    reason = "the settings are valid and the draws are within the bounds"
)]
fn betting_rejects(mean: f64, shape: Shape, horizon: u64, random: &mut ChaCha8Rng) -> Option<u64> {
    // Only the null's wealth matters here, so the grid is as coarse as possible.
    let mut test = BettingTest::new(BettingSettings {
        grid: 10,
        ..Default::default()
    })
    .unwrap();
    for _ in 0..horizon {
        test.observe(shape.draw(mean, random)).unwrap();
        if test.evidence(Alternative::Greater).rejects(ALPHA) {
            return Some(test.samples());
        }
    }
    None
}

#[test]
fn betting_keeps_alpha_at_any_stopping_time() {
    const TRIALS: u64 = 400;
    const HORIZON: u64 = 400;
    for (shape, effect) in [
        (Shape::Normal(0.15), 0.05),
        (Shape::Normal(0.4), 0.05),
        (Shape::ReciprocalRanks, 0.05),
        (Shape::Skewed, 0.03),
    ] {
        let false_alarms = share(TRIALS, 5, |random| {
            betting_rejects(0.0, shape, HORIZON, random).is_some()
        });
        let power = share(TRIALS, 6, |random| {
            betting_rejects(effect, shape, HORIZON, random).is_some()
        });
        let fixed = share(TRIALS, 6, |random| {
            let sample: Vec<f64> = (0..HORIZON).map(|_| shape.draw(effect, random)).collect();
            // A constant sample is not evidence.
            one_sample_t(&sample, Alternative::Greater, 0.95).is_ok_and(|test| test.p_value <= ALPHA)
        });
        let peeked = share(TRIALS, 5, |random| {
            let mut moments = Moments::new();
            for n in 1..=HORIZON {
                moments.push(shape.draw(0.0, random)).unwrap();
                let (mean, deviation) = (
                    moments.mean().unwrap(),
                    moments.standard_deviation().unwrap_or(f64::INFINITY),
                );
                // 1.645 is the one-sided quantile; from the thirtieth observation t is close to normal.
                if n >= 30 && mean > 1.645 * deviation / (n as f64).sqrt() {
                    return true;
                }
            }
            false
        });
        println!(
            "betting {shape:?}: false alarms {false_alarms:.3} (peeked t {peeked:.3}), power at +{effect} within {HORIZON} \
             {power:.3} (one t-test at the end {fixed:.3})"
        );
        assert!(false_alarms <= most(TRIALS), "{shape:?}: {false_alarms}");
        assert!(power > 0.3, "{shape:?}: {power}");
    }
}

#[test]
fn the_confidence_sequence_covers_at_all_times() {
    const TRIALS: u64 = 100;
    for (shape, mean) in [(Shape::Normal(0.3), 0.1), (Shape::Skewed, 0.0)] {
        let missed = share(TRIALS, 7, |random| {
            let mut test = BettingTest::new(BettingSettings {
                grid: 100,
                ..Default::default()
            })
            .unwrap();
            (0..150).any(|_| {
                test.observe(shape.draw(mean, random)).unwrap();
                !test.interval().contains(mean)
            })
        });
        println!("confidence sequence {shape:?}: missed the mean at some time in {missed:.3}");
        assert!(missed <= most(TRIALS), "{shape:?}: {missed}");
    }
}

#[test]
fn discordant_pairs_keep_alpha_at_any_stopping_time() {
    const TRIALS: u64 = 1000;
    const PAIRS: u64 = 250;
    let run = |win: f64, loss: f64, random: &mut ChaCha8Rng| {
        let (mut wins, mut losses) = (0, 0);
        let mut anytime = false;
        let mut peeked = false;
        for _ in 0..PAIRS {
            let u = uniform(random);
            if u < win {
                wins += 1;
            } else if u < win + loss {
                losses += 1;
            } else {
                continue;
            }
            anytime |= discordant_evidence(wins, losses, Alternative::TwoSided).rejects(ALPHA);
            peeked |= sign_test(wins, losses, Alternative::TwoSided) <= ALPHA;
        }
        (
            anytime,
            peeked,
            sign_test(wins, losses, Alternative::TwoSided) <= ALPHA,
        )
    };
    let false_alarms = share(TRIALS, 8, |random| run(0.15, 0.15, random).0);
    let peeked = share(TRIALS, 8, |random| run(0.15, 0.15, random).1);
    let power = share(200, 9, |random| run(0.2, 0.1, random).0);
    let fixed = share(200, 9, |random| run(0.2, 0.1, random).2);
    println!(
        "discordant: false alarms {false_alarms:.3} (peeked McNemar {peeked:.3}), power at +10 points within {PAIRS} \
         pairs {power:.3} (one McNemar test at the end {fixed:.3})"
    );
    assert!(false_alarms <= most(TRIALS));
    assert!(peeked > 0.1, "peeking without correction must raise false alarms");
}
