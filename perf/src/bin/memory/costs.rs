//! Cost of the query log per search, and cost of a save.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use cpu_time::ProcessTime;
use satiety::memory::Mode;
use satiety_engine::memory::{SaveRequest, SearchRequest};

use crate::corpus::{Corpus, stored};
use crate::speed::model_of;
use crate::{Times, engine};

/// Alternates searches with and without the log, in quick mode, where the relative cost of the log is
/// largest.
pub(crate) async fn log(size: usize, searches: usize, directory: &Path) -> Result<()> {
    let corpus = Corpus::new(size, searches)?;
    let path = stored(&corpus, directory, &model_of()?).await?;
    let engine = engine(&path, "none");
    let request = |question: &String| SearchRequest {
        query: question.clone(),
        mode: Some(Mode::Quick),
        session: Some("perf".into()),
        ..SearchRequest::default()
    };
    if let Some(first) = corpus.questions.first() {
        engine.memory().search(request(first)).await?;
    }
    let (mut without, mut with, mut handing) = (Times::default(), Times::default(), Times::default());
    for question in &corpus.questions {
        let request = request(question);
        let began = Instant::now();
        engine.memory().search_with(&request.pipeline, &request).await?;
        without.0.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        let answer = engine.memory().search(request).await?;
        let all = began.elapsed().as_secs_f64() * 1e3;
        with.0.push(all);
        handing.0.push(all - answer.telemetry.total_latency_ms);
    }
    let health = engine.memory().health().await?;
    engine.close().await;
    println!("log at {size} memories, {searches} searches of one session each way, quick mode, ms");
    println!("  {:<34} {:>8} {:>8} {:>8}", "", "p50", "p95", "p99");
    println!("  {:<34} {}", "without the log", without.line());
    println!("  {:<34} {}", "with the log", with.line());
    println!("  {:<34} {}", "of that, enqueueing", handing.line());
    println!(
        "  p99 with the log is {:+.2} ms; {} written, {} waiting, {} lost\n",
        with.at(0.99) - without.at(0.99),
        health.log.written,
        health.log.waiting,
        health.log.lost
    );
    Ok(())
}

/// Saves without a model: one durable commit each.
pub(crate) async fn save(size: usize, directory: &Path) -> Result<()> {
    let corpus = Corpus::new(size, 1)?;
    let path = stored(&corpus, directory, &model_of()?).await?;
    let engine = engine(&path, "none");
    let mut times = Times::default();
    let mut ids = Vec::new();
    let cpu = ProcessTime::now();
    for number in 0..200 {
        let (title, content) = &corpus.texts[number % corpus.texts.len()];
        let request = SaveRequest {
            title: format!("{title} {number}"),
            content: content.clone(),
            author: satiety::memory::Author::Person,
            ..SaveRequest::default()
        };
        let began = Instant::now();
        let saved = engine.memory().save(request).await?;
        times.0.push(began.elapsed().as_secs_f64() * 1e3);
        ids.push(saved.memory.id);
    }
    let cpu = cpu.elapsed().as_secs_f64() * 1e3 / 200.0;
    // Restores the size of the store for the next measurement.
    engine
        .memory()
        .delete(&ids, None, satiety::memory::Author::Person)
        .await?;
    engine.close().await;
    println!("save at {size} memories, without embedding, 200 durable saves one after the other, ms");
    println!("  {:<34} {:>8} {:>8} {:>8} {:>8}", "", "p50", "p95", "p99", "CPU");
    println!("  {:<34} {} {cpu:>8.2}\n", "save", times.line());
    Ok(())
}
