//! Collectors for metrics that come from the store, run on scrape and cached briefly.

use std::time::Instant;

use super::{ByQueue, BySuite, REFRESH_INTERVAL};
use crate::http::App;

/// Number of runs searched for the newest run of each suite.
const RUNS: u32 = 200;

/// Refreshes the store metrics unless they are recent.
pub(crate) async fn refresh(app: &App) {
    let metrics = &app.metrics;
    let (waiting, running) = app.jobs.depth();
    let queue = |name, depth: usize| {
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        metrics.queues.get_or_create(&ByQueue { queue: name }).set(depth);
    };
    queue("jobs_waiting", waiting);
    queue("jobs_running", running);
    queue("room_for_requests", app.room.available_permits());
    {
        let mut last = metrics
            .gathered
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < REFRESH_INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
    }
    let started = Instant::now();
    let up = app.engine.database().ping().await.is_ok();
    metrics.store("probe", started.elapsed());
    metrics.store_up.set(i64::from(up));
    if !up {
        return;
    }
    if let Ok(work) = app.engine.bench().queue_size().await {
        queue("work_waiting", usize::try_from(work.waiting).unwrap_or(0));
        queue("work_taken", usize::try_from(work.in_progress).unwrap_or(0));
        metrics.queue_in_progress.set(work.in_progress);
        metrics.queue_oldest.set(work.oldest_seconds.unwrap_or(0.0));
    }
    if let Ok(telemetry) = app.engine.database().store_telemetry().await {
        metrics.telemetry(&telemetry);
    }
    // Metrics that cannot be read keep their last value: a scrape must not fail.
    if let Ok(runs) = app.engine.bench().runs(None, RUNS).await {
        metrics.pass_rate.clear();
        for run in runs.into_iter().rev() {
            if let (Some(rate), Some(_)) = (run.pass_rate, run.completed_at) {
                metrics
                    .pass_rate
                    .get_or_create(&BySuite { suite: run.suite_id })
                    .set(rate);
            }
        }
    }
    if let Ok(Some(record)) = app
        .engine
        .harness()
        .record_by_key(&app.folders.harness, "eval-harness/saturation/aggregate")
        .await
        && let Some(score) = record["history"]
            .as_array()
            .and_then(|all| all.last()?["score"].as_f64())
    {
        metrics.saturation.set(score);
    }
    if let Ok(feedback) = app.engine.eviction().recent_feedback().await
        && let Some(rate) = feedback.report.map(|report| report.overall.rate)
    {
        metrics.exclusion.set(rate);
    }
}
