//! Simulates sequential tests of search features: how often equal arms are called different when the test is evaluated after
//! every query, and how soon a real difference is detected. Compared with a t-test with a fixed number of queries, a t-test
//! with peeking, and the specification's ratio without a variance. Also measures what shadow runs cost live searches.
//!
//! ```text
//! cargo run --release --manifest-path studies/Cargo.toml --bin ab [RUNS]         tests; RUNS runs of up to 1,000 queries [default: 2,000]
//! cargo run --release --manifest-path studies/Cargo.toml --bin ab latency        searches with and without shadow runs
//! ```

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use satiety::experiment::{Decision, Feature, Method, Observation, Outcome, Trial, TrialSettings};
use satiety::memory::Draft;
use satiety::retrieval::Tier;
use satiety::stats::{
    Alternative, BettingSettings, BettingTest, NormalSprt, SprtDecision, SprtSettings, SprtSigma, median,
    one_sample_t, quantile,
};
use satiety_engine::experiment::StartRequest;
use satiety_engine::memory::{SaveRequest, SearchRequest};
use satiety_engine::{Engine, Settings};

/// Maximum number of queries per run.
const HORIZON: usize = 1000;
/// Number of queries of the fixed-size test: the size of the specification's corpus.
const FIXED: usize = 280;

/// Number of runs in which [`Trial`] must agree with the short implementations here.
const COMPARED: u64 = 5;

/// Distribution of the reciprocal ranks.
#[derive(Clone, Copy)]
enum World {
    /// Both arms find the answer independently, with these probabilities, at a rank from 1 to 5.
    Independent(f64, f64),
    /// Most queries have equal results. In the first share one list ranks the answer higher, and in the second share of
    /// those it is the treatment's list.
    Paired(f64, f64),
}

impl World {
    fn draw(self, random: &mut ChaCha8Rng) -> (f64, f64) {
        let rank = |random: &mut ChaCha8Rng| 1.0 / f64::from(random.random_range(1..=5u32));
        match self {
            Self::Independent(control, treatment) => {
                let mut one = |found: f64| {
                    if random.random_bool(found) {
                        rank(random)
                    } else {
                        0.0
                    }
                };
                (one(control), one(treatment))
            }
            Self::Paired(changed, better) => {
                let (a, b) = (rank(random), rank(random));
                let (low, high) = (a.min(b), a.max(b));
                if !random.random_bool(changed) {
                    (low, low)
                } else if random.random_bool(better) {
                    (low, high)
                } else {
                    (high, low)
                }
            }
        }
    }

    /// True mean difference, estimated from many draws.
    fn effect(self) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let draws = 200_000;
        let total: f64 = (0..draws)
            .map(|_| self.draw(&mut random))
            .map(|(a, b)| b - a)
            .sum();
        total / f64::from(draws)
    }
}

/// Decision of a test on a run, and the number of queries it needed.
type TestResult = (Decision, usize);

/// Runs the library's own test.
fn by_trial(method: Method, pairs: &[(f64, f64)]) -> Result<TestResult> {
    let mut trial = Trial::new(TrialSettings {
        method,
        min_samples: 1,
        ..TrialSettings::default()
    })?;
    let outcome = |mrr| Outcome { mrr, ndcg: mrr };
    for (index, (control, treatment)) in pairs.iter().enumerate() {
        trial.observe(Observation {
            control: outcome(*control),
            treatment: outcome(*treatment),
        })?;
        if trial.decision() != Decision::Continue {
            return Ok((trial.decision(), index + 1));
        }
    }
    Ok((Decision::Continue, pairs.len()))
}

/// The same decisions without the interval, whose grid takes nearly all of the time; compared with [`Trial`] in the first
/// runs of every distribution.
fn betting(pairs: &[(f64, f64)]) -> Result<TestResult> {
    let settings = BettingSettings {
        grid: 10,
        ..BettingSettings::default()
    };
    let mut test = BettingTest::new(settings)?;
    let bound = (2.0 / settings.alpha).ln();
    for (index, (control, treatment)) in pairs.iter().enumerate() {
        test.observe(treatment - control)?;
        for (side, decision) in [
            (Alternative::Greater, Decision::AcceptTreatment),
            (Alternative::Less, Decision::AcceptControl),
        ] {
            if test.evidence(side).ln_e >= bound {
                return Ok((decision, index + 1));
            }
        }
    }
    Ok((Decision::Continue, pairs.len()))
}

fn sprt(pairs: &[(f64, f64)]) -> Result<TestResult> {
    let settings = TrialSettings::default();
    let mut test = NormalSprt::new(SprtSettings {
        effect: settings.effect,
        alpha: settings.alpha,
        beta: settings.beta,
        sigma: SprtSigma::BurnIn(20),
        minimum_samples: 1,
    })?;
    for (index, (control, treatment)) in pairs.iter().enumerate() {
        let decision = match test.observe(treatment - control)? {
            SprtDecision::Continue => continue,
            SprtDecision::AcceptEffect => Decision::AcceptTreatment,
            SprtDecision::AcceptNull => Decision::AcceptControl,
        };
        return Ok((decision, index + 1));
    }
    Ok((Decision::Continue, pairs.len()))
}

/// The specification's update: the difference minus half of the squared effect, without a variance.
fn as_specified(pairs: &[(f64, f64)]) -> TestResult {
    let (alpha, beta, effect): (f64, f64, f64) = (0.05, 0.2, 0.05);
    let (upper, lower) = (((1.0 - beta) / alpha).ln(), (beta / (1.0 - alpha)).ln());
    let mut ratio = 0.0;
    for (index, (control, treatment)) in pairs.iter().enumerate() {
        ratio += (treatment - control) - 0.5 * effect * effect;
        if ratio >= upper {
            return (Decision::AcceptTreatment, index + 1);
        }
        if ratio <= lower {
            return (Decision::AcceptControl, index + 1);
        }
    }
    (Decision::Continue, pairs.len())
}

fn t_test(differences: &[f64]) -> Decision {
    match one_sample_t(differences, Alternative::TwoSided, 0.95) {
        Ok(found) if found.p_value <= 0.05 && found.t > 0.0 => Decision::AcceptTreatment,
        Ok(found) if found.p_value <= 0.05 => Decision::AcceptControl,
        // Constant differences have no t statistic.
        _ => Decision::Continue,
    }
}

/// A t-test after every tenth query, starting with the thirtieth, as people look at dashboards.
fn peeked(pairs: &[(f64, f64)]) -> TestResult {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    for count in (30..=differences.len()).step_by(10) {
        let decision = t_test(&differences[..count]);
        if decision != Decision::Continue {
            return (decision, count);
        }
    }
    (Decision::Continue, differences.len())
}

fn fixed(pairs: &[(f64, f64)]) -> TestResult {
    let differences: Vec<f64> = pairs.iter().take(FIXED).map(|(a, b)| b - a).collect();
    (t_test(&differences), FIXED)
}

fn tests(runs: u64) -> Result<()> {
    let worlds = [
        ("equal arms, independent lists", World::Independent(0.8, 0.8)),
        ("equal arms, three lists in ten differ", World::Paired(0.3, 0.5)),
        ("the same list twice", World::Paired(0.0, 0.5)),
        ("small improvement", World::Paired(0.3, 0.7)),
        ("clear improvement", World::Paired(0.4, 0.8)),
        ("large improvement", World::Independent(0.6, 0.9)),
        ("clear loss", World::Paired(0.4, 0.2)),
    ];
    println!(
        "{runs} runs of up to {HORIZON} queries, alpha 0.05, evaluated after every query; share of runs in %"
    );
    for (name, world) in worlds {
        println!("\n{name} (true difference {:+.3})", world.effect());
        println!(
            "{:<42}{:>10}{:>10}{:>14}",
            "", "treatment", "control", "median queries"
        );
        let mut said: [Vec<TestResult>; 5] = Default::default();
        for run in 0..runs {
            let mut random = ChaCha8Rng::seed_from_u64(run);
            let pairs: Vec<(f64, f64)> = (0..HORIZON).map(|_| world.draw(&mut random)).collect();
            let found = [
                betting(&pairs)?,
                sprt(&pairs)?,
                fixed(&pairs),
                peeked(&pairs),
                as_specified(&pairs),
            ];
            if run < COMPARED {
                let own = [
                    by_trial(Method::Betting, &pairs)?,
                    by_trial(Method::Sprt, &pairs)?,
                ];
                ensure!(
                    found[..2] == own,
                    "run {run}: {:?} and {own:?} differ",
                    &found[..2]
                );
            }
            for (list, one) in said.iter_mut().zip(found) {
                list.push(one);
            }
        }
        let names = [
            "betting (default)".to_owned(),
            "sprt, spread from a burn-in".to_owned(),
            format!("t-test, {FIXED} queries"),
            "t-test, peeking at every tenth query".to_owned(),
            "ratio without variance, as specified".to_owned(),
        ];
        for (name, list) in names.iter().zip(&said) {
            let share =
                |wanted| 100.0 * list.iter().filter(|(said, _)| *said == wanted).count() as f64 / runs as f64;
            let decided: Vec<f64> = list
                .iter()
                .filter(|(said, _)| *said != Decision::Continue)
                .map(|(_, count)| *count as f64)
                .collect();
            let middle = median(&decided).map_or_else(|_| "-".to_owned(), |count| format!("{count:.0}"));
            println!(
                "{name:<42}{:>10.2}{:>10.2}{middle:>14}",
                share(Decision::AcceptTreatment),
                share(Decision::AcceptControl)
            );
        }
    }
    Ok(())
}

/// Searches at a steady rate, in alternating blocks with and without shadow runs.
async fn latency() -> Result<()> {
    const MEMORIES: usize = 2000;
    const BLOCK: usize = 300;
    const EVERY: Duration = Duration::from_millis(20);
    let folder = tempfile::tempdir()?;
    let engine = Arc::new(Engine::new(Settings {
        store: format!("sqlite:{}", folder.path().join("ab.db").display()).parse()?,
        archive_folder: folder.path().to_path_buf(),
        embedder: "none".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    }));
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut words = |count: usize| {
        let words: Vec<String> = (0..count)
            .map(|_| format!("word{}", random.random_range(0..3000u32)))
            .collect();
        words.join(" ")
    };
    for number in 0..MEMORIES {
        let draft = Draft {
            title: format!("note {number} {}", words(4)),
            content: words(60),
            tier: Tier::Normal,
            triggers: Vec::new(),
            folder: String::new(),
            kind: "note".into(),
        };
        engine
            .memory()
            .save(SaveRequest {
                author: satiety::memory::Author::Person,
                ..draft.into()
            })
            .await?;
    }
    let change = StartRequest::change(r#"{"fusion": {"reciprocal_rank": {"k": 60}}}"#)?;
    engine
        .experiments()
        .start(StartRequest {
            feature: Feature::new("rrf", change),
        })
        .await?;
    let shadows = tokio::spawn({
        let engine = engine.clone();
        async move { engine.experiments().run_shadows().await }
    });
    let mut times: [Vec<f64>; 3] = Default::default();
    let shares = [0.0, 10.0, 100.0];
    for block in 0..12 {
        let at = block % shares.len();
        let share = shares.get(at).copied().context("three shares")?;
        engine.experiments().rollout("rrf", None, Some(share)).await?;
        for query in 0..BLOCK {
            let request = SearchRequest {
                query: words(4),
                ..SearchRequest::default()
            };
            let began = Instant::now();
            engine.memory().search(request).await?;
            // The first search of a block follows the change of the feature.
            if query > 0
                && let Some(times) = times.get_mut(at)
            {
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            tokio::time::sleep(EVERY.saturating_sub(began.elapsed())).await;
        }
    }
    println!(
        "{MEMORIES} memories, words only, a search every {} ms, {} searches each",
        EVERY.as_millis(),
        times[0].len()
    );
    println!(
        "{:<24}{:>10}{:>10}{:>10}",
        "shadow runs", "p50 ms", "p95 ms", "p99 ms"
    );
    for (share, times) in shares.iter().zip(&times) {
        let at = |p| quantile(times, p);
        println!(
            "{:<24}{:>10.3}{:>10.3}{:>10.3}",
            format!("{share} %"),
            at(0.5)?,
            at(0.95)?,
            at(0.99)?
        );
    }
    println!("{:?}", engine.experiments().shadow_tally());
    shadows.abort();
    engine.close().await;
    Ok(())
}

fn main() -> Result<()> {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("latency") {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(latency());
    }
    let runs = argument
        .map_or(Ok(2000), |runs| runs.parse())
        .context("give a number of runs, or `latency`")?;
    tests(runs)
}
