//! Cost of measuring, comparing and verifying, at three sizes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use perf::measure::cpu_time;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use satiety::bench::expected::{BenchmarkExpected, Mode};
use satiety::bench::gate::Tally;
use satiety::bench::suite::{BenchmarkCase, BenchmarkSuite};
use satiety::harness::ledger::{Entry, append, verify_anchored};
use satiety::harness::manifest::{Manifest, compare};
use satiety::harness::measurement::{CaseHistory, Matrix, MeasureSettings, measure};
use serde_json::json;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// 20 versions with pass rates from 50 % to 90 %.
fn matrix(cases: usize) -> Matrix {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    Matrix {
        versions: 20,
        cases: (0..cases)
            .map(|case| CaseHistory {
                case_id: format!("case-{case:06}"),
                cluster: None,
                tallies: (0..20)
                    .map(|version| {
                        let rate = 0.5 + 0.4 * f64::from(version) / 19.0;
                        Some(Tally {
                            passes: u64::from(random.random_bool(rate)),
                            tries: 1,
                        })
                    })
                    .collect(),
            })
            .collect(),
    }
}

/// A harness, and the same with one case in ten stricter, one in a hundred renamed, and a tenth more cases.
fn manifests(cases: usize) -> anyhow::Result<(Manifest, Manifest)> {
    let case = |id: String, words: Vec<&str>| {
        BenchmarkCase::new(
            id.clone(),
            format!("task of {id}"),
            BenchmarkExpected::with_value(Mode::Contains, json!(words)),
        )
    };
    let suite = |cases: Vec<BenchmarkCase>| {
        let mut suite = BenchmarkSuite::new("suite");
        suite.cases = cases;
        Manifest::from_suites(&[suite], &BTreeMap::new())
    };
    let old = suite((0..cases).map(|i| case(format!("c{i:06}"), vec!["a"])).collect())?;
    let mut new = suite(
        (0..cases + cases / 10)
            .map(|i| {
                let words = if i % 10 == 0 { vec!["a", "b"] } else { vec!["a"] };
                case(format!("c{i:06}"), words)
            })
            .collect(),
    )?;
    if let Some(cases) = new.suites.get_mut("suite") {
        let all = std::mem::take(cases);
        *cases = all
            .into_iter()
            .enumerate()
            .map(|(i, (id, case))| (if i % 100 == 7 { format!("renamed-{id}") } else { id }, case))
            .collect();
    }
    Ok((old, new))
}

fn ledger(events: usize) -> anyhow::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::with_capacity(events);
    for event in 0..events {
        let at = Timestamp::from_second(1_767_000_000 + i64::try_from(event)?)?;
        let body = json!({"cycle_id": format!("cycle-{event}"), "score": 0.82, "level": "HIGH", "by": "Ada"});
        entries.push(append(entries.last(), at, "cycle", body));
    }
    Ok(entries)
}

/// Median of five runs.
fn median(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let (done, time) = cpu_time(&mut work);
        done?;
        times.push(time);
    }
    times.sort_unstable();
    Ok(times.get(2).copied().unwrap_or_default())
}

pub(crate) fn print() -> anyhow::Result<()> {
    println!("## Time\n\nCPU milliseconds, median of five\n");
    println!("| | 1,000 | 10,000 | 100,000 | growth |");
    println!("|---|--:|--:|--:|--:|");
    let mut rows: [(&str, Vec<Duration>); 3] = [
        ("measure 20 versions x n cases, 2,000 resamples", Vec::new()),
        (
            "compare a harness of n cases with one that grew by a tenth",
            Vec::new(),
        ),
        ("verify a ledger of n events with its anchor", Vec::new()),
    ];
    for size in SIZES {
        let matrix = matrix(size);
        rows[0].1.push(median(|| {
            anyhow::ensure!(measure(&matrix, &MeasureSettings::default())?.headroom.cases > 0);
            Ok(())
        })?);
        drop(matrix);
        let (old, new) = manifests(size)?;
        rows[1].1.push(median(|| {
            anyhow::ensure!(compare(&old, &new)?.admissible);
            Ok(())
        })?);
        let entries = ledger(size)?;
        let Some(anchor) = entries.last().map(Entry::anchor) else {
            anyhow::bail!("an empty ledger");
        };
        rows[2]
            .1
            .push(median(|| Ok(verify_anchored(&entries, &anchor)?))?);
    }
    for (name, times) in rows {
        let cells: Vec<String> = times
            .iter()
            .map(|time| format!("{:.1}", 1e3 * time.as_secs_f64()))
            .collect();
        let growth: Vec<String> = times
            .iter()
            .zip(times.iter().skip(1))
            .map(|(before, now)| format!("{:.1}", now.as_secs_f64() / before.as_secs_f64()))
            .collect();
        println!("| {name} | {} | {} |", cells.join(" | "), growth.join(", "));
    }
    Ok(())
}
