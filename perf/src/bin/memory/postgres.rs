//! The same searches on SQLite and on a private PostgreSQL server, alternating, in one run.

use anyhow::{Context, Result};
use satiety::memory::Mode;
use satiety_engine::StoreUrl;
use xtask::postgres::{Cluster, Options};

use crate::corpus::{Corpus, fill};
use crate::speed::{model_of, search};
use crate::{Times, engine_on};

pub(crate) async fn measure(size: usize, searches: usize) -> Result<()> {
    let corpus = Corpus::new(size, searches)?;
    let cluster = match Cluster::start(Options::default()) {
        Ok(cluster) => cluster,
        Err(error) => {
            println!("skipped PostgreSQL: {error:#}\n");
            return Ok(());
        }
    };
    let directory = tempfile::tempdir()?;
    let urls: [StoreUrl; 2] = [
        StoreUrl::sqlite(directory.path().join("s.db")),
        cluster.url("postgres").parse().context("URL of the server")?,
    ];
    let names = ["SQLite", "PostgreSQL"];
    let mut engines = Vec::new();
    for url in urls {
        fill(&corpus, &url, &model_of()?).await?;
        let engine = engine_on(url, "builtin");
        search(&engine, &corpus.questions[0], Mode::Focused).await?;
        engines.push(engine);
    }
    println!(
        "engines at {size} memories, {searches} searches each, alternating, ms; without embedding the question"
    );
    println!("  {:<34} {:>8} {:>8} {:>8} {:>8}", "", "p50", "p95", "p99", "CPU");
    for mode in [Mode::Quick, Mode::Focused] {
        let mut times = [Times::default(), Times::default()];
        let mut cpu = times.clone();
        for question in &corpus.questions {
            for (at, engine) in engines.iter().enumerate() {
                let found = search(engine, question, mode).await?;
                times[at].0.push(found.wall);
                cpu[at].0.push(found.cpu);
            }
        }
        for (at, name) in names.iter().enumerate() {
            println!(
                "  {:<34} {} {:>8.2}",
                format!("{}, {name}", mode.name()),
                times[at].line(),
                cpu[at].at(0.5)
            );
        }
        println!(
            "  {:<34} {:>8.2}",
            "PostgreSQL to SQLite, p50",
            times[1].at(0.5) / times[0].at(0.5)
        );
    }
    for engine in &engines {
        engine.close().await;
    }
    println!();
    Ok(())
}
