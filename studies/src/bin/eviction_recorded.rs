//! Eviction on recorded runs of coding agents: what it is billed, and whether learning helps.
//!
//! `cargo run --release --manifest-path studies/Cargo.toml --bin eviction_recorded -- [--splits=N] [--seed=N] [--every=N] FILE...`
//!
//! With prices alone, the policy drops nearly everything, because a file that is read again costs fewer tokens than
//! one that stays. `loss` of the items sets what a re-read is worth avoiding: the policy is compared with the others
//! for several values of it, each time at the same number of re-reads.
//!
//! A file has runs in any format that `satiety score` reads; `.gz` files are unpacked with `gzip`. Sessions are
//! grouped by repository, the part of a run's id before its last hyphen: scorers are fitted on half of the
//! repositories and judged on the rest, in 20 random splits (`--seed` is the seed of the first). The shipped scorer
//! must not have a higher log loss than the plainly rescaled one in any of them. The items of a session are labelled in
//! every third turn (`--every`). Tokens are a quarter of the characters.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::collections::BTreeSet;
use std::process::Command;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use satiety::eviction::calibration::{FitSettings, FittedModel, fit, rescale};
use satiety::eviction::features::Features;
use satiety::eviction::simulation::{Budget, Policy, ReplayOptions, Session, observed_needs, replay};
use satiety::eviction::{ConvertOptions, EvictionError, Weights, convert, score};
use satiety::stats::log_loss;
use satiety::trajectory::read::{ReadOptions, read};

const SPLITS: u64 = 20;
/// Values of `loss` for the policy with prices.
const LOSSES: [f64; 7] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];
/// Every how many turns the items of a session are labelled, if the caller does not say.
const EVERY: u64 = 3;
/// Smallest number of turns of a session.
const MIN_TURNS: usize = 10;
const SHARES: [f64; 10] = [0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0];
const RESAMPLES: usize = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sessions = Vec::new();
    let (mut seeds, mut every) = (0..SPLITS, EVERY);
    for file in std::env::args().skip(1) {
        if let Some(number) = file.strip_prefix("--splits=") {
            seeds.end = seeds.start + number.parse::<u64>()?;
            continue;
        }
        if let Some(number) = file.strip_prefix("--seed=") {
            let first: u64 = number.parse()?;
            seeds = first..first + (seeds.end - seeds.start);
            continue;
        }
        if let Some(number) = file.strip_prefix("--every=") {
            every = number.parse()?;
            continue;
        }
        sessions.extend(load(&file)?);
    }
    let strict: Vec<Session> = sessions.iter().filter(|s| s.turns.len() >= MIN_TURNS).cloned().collect();
    let broad: Vec<Session> = strict.iter().cloned().map(Session::with_broad_uses).collect();
    for (name, sessions) in [("strict", &strict), ("broad", &broad)] {
        let uses: usize = sessions.iter().flat_map(|s| &s.turns).map(|t| t.uses.len()).sum();
        let items: usize = sessions.iter().flat_map(|s| &s.turns).map(|t| t.add.len()).sum();
        println!(
            "\n# Uses by the {name} definition: {} sessions of {} repositories, {items} items, {uses} uses\n",
            sessions.len(),
            repositories(sessions).len()
        );
        let learned = learning(sessions, seeds.clone(), every)?;
        bills(&learned.1, &learned.0)?;
    }
    Ok(())
}

fn load(file: &str) -> Result<Vec<Session>, Box<dyn std::error::Error>> {
    let bytes = if file.ends_with(".gz") {
        Command::new("gzip").args(["-dc", file]).output()?.stdout
    } else {
        std::fs::read(file)?
    };
    let log = read(&bytes, ReadOptions::default())?;
    let mut sessions = Vec::new();
    for (number, run) in log.trajectories.iter().enumerate() {
        let options = ConvertOptions {
            session: run.id.clone().unwrap_or_else(|| format!("run-{number}")),
            ..ConvertOptions::default()
        };
        if let Ok(mut session) = convert(run, &options, &|text| (text.chars().count() as u64).div_ceil(4)) {
            // Ids of different files may be the same.
            session.id = format!("{}#{number}", session.id);
            sessions.push(session);
        }
    }
    Ok(sessions)
}

fn repository(session: &Session) -> &str {
    let id = session.id.split('#').next().unwrap_or_default();
    id.rsplit_once('-').map_or(id, |(repository, _)| repository)
}

fn repositories(sessions: &[Session]) -> Vec<&str> {
    let all: BTreeSet<&str> = sessions.iter().map(repository).collect();
    all.into_iter().collect()
}

/// Splits sessions by repository into two halves.
fn split(sessions: &[Session], seed: u64) -> (Vec<Session>, Vec<Session>) {
    let mut names = repositories(sessions);
    names.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let first: BTreeSet<&str> = names.iter().take(names.len() / 2).copied().collect();
    sessions.iter().cloned().partition(|session| first.contains(repository(session)))
}

/// What one split measured.
struct Measured {
    labels: usize,
    /// Log loss on unseen repositories: old score, rescaled, shipped.
    losses: [f64; 3],
    model: FittedModel,
    /// Gain by features on held-out sessions of the seen repositories, and the risk that it is none.
    held_out: (f64, f64),
    isotonic: bool,
    weights: Weights,
    test: Vec<Session>,
}

/// Fits on half of the repositories and measures on the rest.
fn measure(sessions: &[Session], seed: u64, every: u64) -> Result<Measured, EvictionError> {
    let heuristic = Weights::heuristic();
    let (train, test) = split(sessions, seed);
    let labels = observed_needs(&train, &heuristic, every)?;
    let unseen = observed_needs(&test, &heuristic, every)?;
    let outcomes: Vec<bool> = unseen.iter().map(|label| label.kept_back).collect();
    let loss = |weights: &Weights| {
        let predicted: Vec<f64> = unseen
            .iter()
            .map(|label| {
                let features = Features {
                    zone: label.zone.clone(),
                    kind: label.kind.clone(),
                    values: label.features,
                };
                score(weights, &features, 1.0, label.token_count).relevance_score
            })
            .collect();
        log_loss(&predicted, &outcomes)
    };
    let settings = FitSettings {
        seed,
        ..FitSettings::default()
    };
    let shipped = fit(&labels, &heuristic, "learned", &settings)?;
    let rescaled = rescale(&labels, &heuristic, "rescaled", &settings)?;
    Ok(Measured {
        labels: labels.len(),
        losses: [loss(&heuristic)?, loss(&rescaled)?, loss(&shipped.weights)?],
        model: shipped.model,
        held_out: (shipped.gain.log_loss.estimate, shipped.gain.risk),
        isotonic: shipped.weights.isotonic.is_some(),
        weights: shipped.weights,
        test,
    })
}

/// Measures every split, two at a time; returns the weights of the first split, and the sessions to judge them on.
fn learning(
    sessions: &[Session],
    seeds: std::ops::Range<u64>,
    every: u64,
) -> Result<(Weights, Vec<Session>), Box<dyn std::error::Error>> {
    println!("| split | labels | old score | rescaled | shipped | difference | model | held-out gain | risk |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let (mut worse, mut features, mut sums) = (0, 0, [0.0; 3]);
    let mut first = None;
    let splits = seeds.end - seeds.start;
    let numbers: Vec<u64> = seeds.collect();
    for pair in numbers.chunks(2) {
        let found: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = pair.iter().map(|&seed| scope.spawn(move || measure(sessions, seed, every))).collect();
            started.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for (seed, result) in pair.iter().zip(found) {
            let found = result.map_err(|_| "a thread panicked")??;
            let [old, scaled, new] = found.losses;
            worse += u32::from(new > scaled + 1e-12);
            features += u32::from(found.model == FittedModel::Features);
            for (sum, loss) in sums.iter_mut().zip(found.losses) {
                *sum += loss;
            }
            println!(
                "| {seed} | {} | {old:.5} | {scaled:.5} | {new:.5} | {:+.5} | {:?}{} | {:+.5} | {:.1e} |",
                found.labels,
                new - scaled,
                found.model,
                if found.isotonic { " and mapping" } else { "" },
                found.held_out.0,
                found.held_out.1,
            );
            if first.is_none() {
                first = Some((found.weights, found.test));
            }
        }
    }
    let [old, scaled, new] = sums.map(|sum| sum / splits as f64);
    println!(
        "\nMeans: old score {old:.4}, rescaled {scaled:.4}, shipped {new:.4}. The shipped scorer is worse than the \
         rescaled one in {worse} of {splits} splits (target: 0); features ship in {features}.\n"
    );
    first.ok_or_else(|| "no sessions".into())
}

/// Re-reads and bill of each session under one policy and budget.
type Point = Vec<(f64, f64, f64)>;

fn run(sessions: &[Session], policy: &Policy, share: f64) -> Result<Point, Box<dyn std::error::Error>> {
    let options = ReplayOptions {
        budget: Budget::Share(share),
        headroom: 0.3,
        ..ReplayOptions::default()
    };
    let mut point = Vec::new();
    for session in sessions {
        let found = replay(session, policy, &options)?;
        let hit_rate = if found.uses == 0 { 1.0 } else { found.hits as f64 / found.uses as f64 };
        point.push(((found.uses - found.hits) as f64, found.billed, hit_rate));
    }
    Ok(point)
}

/// Compares what policies are billed at equal numbers of re-reads, on sessions that the scorer has not seen.
fn bills(sessions: &[Session], learned: &Weights) -> Result<(), Box<dyn std::error::Error>> {
    let priced = Policy::Priced(Box::new(learned.clone()));
    let others = [Policy::Fifo, Policy::Lru, Policy::GreedyDual, Policy::Ours(Box::new(Weights::heuristic()))];
    let mut curves: Vec<Vec<Point>> = Vec::new();
    for policy in &others {
        curves.push(SHARES.iter().map(|share| run(sessions, policy, *share)).collect::<Result<_, _>>()?);
    }
    let none = run(sessions, &Policy::None, 1.0)?;
    println!(
        "{} unseen sessions at the prices of anthropic; billed tokens per session, \
         and the difference of `{}` to each policy at the same number of re-reads, with 95 % intervals over sessions\n",
        sessions.len(),
        priced.name()
    );
    println!("| loss | re-reads | hit rate | billed | minus no eviction | minus oldest first | minus LRU | minus GDSF | minus heuristic |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for loss in &LOSSES {
        let mut weighted = sessions.to_vec();
        for item in weighted.iter_mut().flat_map(|s| &mut s.turns).flat_map(|t| &mut t.add) {
            item.loss = *loss;
        }
        let ours = run(&weighted, &priced, 1.0)?;
        let mut row = format!(
            "| {loss} | {:.2} | {:.3} | {:.0} | {}",
            mean(ours.iter().map(|p| p.0)),
            mean(ours.iter().map(|p| p.2)),
            mean(ours.iter().map(|p| p.1)),
            interval(sessions.len(), |pick| bill(&ours, pick) - bill(&none, pick)),
        );
        for curve in &curves {
            let difference = interval(sessions.len(), |pick| bill(&ours, pick) - at_equal_rereads(curve, &ours, pick));
            row.push_str(&format!(" | {difference}"));
        }
        println!("{row} |");
    }
    println!("\n| policy | context | hit rate | minus heuristic | re-reads | billed |\n|---|---|---|---|---|---|");
    for share in [0.1, 0.25, 0.5] {
        let heuristic = run(sessions, &others[3], share)?;
        for policy in others.iter().chain([&Policy::Ours(Box::new(learned.clone()))]) {
            let point = run(sessions, policy, share)?;
            println!(
                "| {} | {:.0} % | {:.3} | {} | {:.2} | {:.0} |",
                policy.name(),
                100.0 * share,
                mean(point.iter().map(|p| p.2)),
                interval_of(sessions.len(), 3, |pick| mean(pick.iter().map(|&i| point[i].2 - heuristic[i].2))),
                mean(point.iter().map(|p| p.0)),
                mean(point.iter().map(|p| p.1))
            );
        }
    }
    Ok(())
}

fn bill(point: &Point, pick: &[usize]) -> f64 {
    mean(pick.iter().map(|&i| point[i].1))
}

fn rereads(point: &Point, pick: &[usize]) -> f64 {
    mean(pick.iter().map(|&i| point[i].0))
}

/// Bill of a policy at the budget at which it re-reads as often as `ours`, interpolated between budgets. With fewer
/// re-reads than at any budget, the bill of the largest one; with more, nothing is comparable.
fn at_equal_rereads(curve: &[Point], ours: &Point, pick: &[usize]) -> f64 {
    let wanted = rereads(ours, pick);
    let mut points: Vec<(f64, f64)> = curve.iter().map(|p| (rereads(p, pick), bill(p, pick))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        if (x0..=x1).contains(&wanted) && x1 > x0 {
            return y0 + (y1 - y0) * (wanted - x0) / (x1 - x0);
        }
    }
    let first = points.first().filter(|first| wanted <= first.0);
    first.map_or(f64::NAN, |point| point.1)
}

fn interval(count: usize, statistic: impl Fn(&[usize]) -> f64) -> String {
    interval_of(count, 0, statistic)
}

/// Estimate with a percentile interval over resampled sessions.
fn interval_of(count: usize, digits: usize, statistic: impl Fn(&[usize]) -> f64) -> String {
    let all: Vec<usize> = (0..count).collect();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut replicates: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let pick: Vec<usize> = (0..count).map(|_| random.random_range(0..count)).collect();
            statistic(&pick)
        })
        .filter(|value| value.is_finite())
        .collect();
    replicates.sort_by(f64::total_cmp);
    let estimate = statistic(&all);
    // Most samples must be comparable for an interval.
    if !estimate.is_finite() || replicates.len() < RESAMPLES / 2 {
        return "–".to_owned();
    }
    let tail = replicates.len() / 40;
    format!(
        "{estimate:+.digits$} ({:+.digits$} to {:+.digits$})",
        replicates[tail],
        replicates[replicates.len() - 1 - tail]
    )
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / f64::max(count, 1.0)
}
