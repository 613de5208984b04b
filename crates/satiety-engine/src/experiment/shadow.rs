//! Shadow runs: both pipelines on one query, one after the other, in the background. They log and learn
//! nothing; errors are recorded, not returned.
//!
//! Both pipelines are run here, although one list was already shown: the session knows that answer by now, so
//! only two runs at the same moment differ in the pipeline alone, both in results and in latency.

use crate::handles::ExperimentOperations;
use std::time::{Duration, Instant};

use satiety::experiment::{Arm, Listed, bucket, compare_lists};
use satiety::text::normalize;
use satiety_store::experiment::ShadowRunRow;
use satiety_store::now_micros;
use serde_json::json;

use super::queue::{Job, ShadowTally};
use crate::EngineError;
use crate::memory::MemorySearch;

/// Number of runs between two checks for the use of results.
const USE_CHECK_INTERVAL: u64 = 32;

impl ExperimentOperations<'_> {
    /// Executes queued shadow runs, one after the other, for as long as it is polled: a server spawns it once
    /// as a background task.
    pub async fn run_shadows(self) {
        loop {
            let job = self.engine.ab.queue.next().await;
            Box::pin(self.run_shadow(job)).await;
        }
    }

    /// Executes all queued shadow runs for at most `limit` and drops the rest. A command does this after it
    /// has printed its answer.
    pub async fn drain_shadows(self, limit: Duration) -> ShadowTally {
        let all = async {
            while let Some(job) = self.engine.ab.queue.pop() {
                Box::pin(self.run_shadow(job)).await;
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            while self.engine.ab.queue.pop().is_some() {}
        }
        self.shadow_tally()
    }

    /// Returns the counters of this process's shadow runs.
    pub fn shadow_tally(self) -> ShadowTally {
        self.engine.ab.queue.tally()
    }

    /// Executes one run and records its outcome, including failures; then counts the observations known by
    /// now.
    async fn run_shadow(self, job: Job) {
        let limit = self.engine.ab.settings.time_limit;
        let start = Instant::now();
        let lists = tokio::time::timeout(limit, Box::pin(self.both_lists(&job))).await;
        let row = match lists {
            // A run that never waits is not interrupted, but it is late all the same.
            Ok(Ok((control, treatment))) if start.elapsed() <= limit => {
                compared_run(&job, &control, &treatment)
            }
            Ok(Err(error)) => failed_run(&job, error.to_string()),
            Ok(Ok(_)) | Err(_) => failed_run(&job, format!("no answer within {limit:?}")),
        };
        let outcome = async {
            self.engine
                .store()
                .await?
                .experiments()
                .put_shadow_run(&row)
                .await?;
            // Judged queries count at once; the use of results is checked only now and then.
            let judged = self
                .corpus_grades()
                .await?
                .contains_key(&normalize(&job.request.query));
            if judged || self.shadow_tally().recorded.is_multiple_of(USE_CHECK_INTERVAL) {
                self.count_observations(&job.feature_id).await?;
            }
            Ok::<(), EngineError>(())
        };
        match outcome.await {
            Ok(()) => self.engine.ab.queue.recorded(),
            Err(error) => {
                tracing::warn!(feature = job.feature_id, %error, "cannot record a shadow run");
                self.engine.ab.queue.lost();
            }
        }
    }

    /// Runs both pipelines. The query decides which goes first, so that warming caches favours neither.
    async fn both_lists(self, job: &Job) -> Result<(MemorySearch, MemorySearch), EngineError> {
        let control = self.engine.memory().search_with(&job.control, &job.request);
        let treatment = self.engine.memory().search_with(&job.treatment, &job.request);
        if bucket("order", &job.feature_id, &job.query_id) < 50.0 {
            let control = control.await?;
            Ok((control, treatment.await?))
        } else {
            let treatment = treatment.await?;
            Ok((control.await?, treatment))
        }
    }
}

pub(super) fn result_list(answer: &MemorySearch) -> Vec<Listed> {
    let results = answer.results.iter();
    results
        .map(|result| Listed {
            id: result.id.clone(),
            score: result.score,
        })
        .collect()
}

fn new_run(job: &Job) -> ShadowRunRow {
    ShadowRunRow {
        run_id: satiety::ids::prefixed("shadow", uuid::Uuid::now_v7()),
        query_id: job.query_id.clone(),
        feature_id: job.feature_id.clone(),
        shown: job.shown.name().into(),
        control_result_ids: Vec::new(),
        treatment_result_ids: Vec::new(),
        rank_correlation: None,
        set_overlap: None,
        top_result_changed: None,
        order_differences: None,
        mrr_delta: None,
        ndcg_delta: None,
        control_latency_ms: None,
        treatment_latency_ms: None,
        outcome: "open".into(),
        graded_by: None,
        failure: None,
        difference: json!({"query": job.request.query}),
        created_at: now_micros(),
    }
}

fn failed_run(job: &Job, reason: String) -> ShadowRunRow {
    ShadowRunRow {
        outcome: "failed".into(),
        failure: Some(reason),
        ..new_run(job)
    }
}

fn compared_run(job: &Job, control: &MemorySearch, treatment: &MemorySearch) -> ShadowRunRow {
    let (old, new) = (result_list(control), result_list(treatment));
    let found = compare_lists(&old, &new, None);
    let ids = |list: &[Listed]| list.iter().map(|one| one.id.clone()).collect();
    ShadowRunRow {
        control_result_ids: ids(&old),
        treatment_result_ids: ids(&new),
        rank_correlation: found.rank_correlation,
        set_overlap: Some(found.set_overlap),
        top_result_changed: Some(found.top_result_changed),
        order_differences: i64::try_from(found.order_differences).ok(),
        control_latency_ms: Some(control.telemetry.total_latency_ms),
        treatment_latency_ms: Some(treatment.telemetry.total_latency_ms),
        difference: json!({
            "query": job.request.query,
            "intent": control.intent.intent,
            "session_id": job.request.session,
            "shown": job.shown == Arm::Treatment,
            "difference": found,
        }),
        ..new_run(job)
    }
}
