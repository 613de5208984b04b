//! State of the work queue for people and autoscalers: waiting and running cases, runs and workers.

use satiety::Hint;
use satiety::bench::Priority;
use schemars::JsonSchema;
use serde::Serialize;

use crate::EngineError;
use crate::handles::BenchOperations;
use crate::instances::WorkerInstance;

/// Maximum number of runs in a status.
const RUNS: u32 = 100;

/// State of the work queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct QueueStatus {
    /// Number of cases that wait for a worker.
    pub waiting: i64,
    /// Number of cases that workers run.
    pub in_progress: i64,
    /// Seconds since the oldest run with a waiting case was queued; null if no case waits.
    pub oldest_seconds: Option<f64>,
    /// Runs with remaining cases, the one that is served next first; at most 100.
    pub runs: Vec<QueuedRun>,
    /// Connected workers, latest start first.
    pub workers: Vec<WorkerInstance>,
}

/// Run with queued cases.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueuedRun {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Id of the suite.
    pub suite_id: String,
    /// Share of the workers next to other runs.
    pub priority: Priority,
    /// Number of cases that wait for a worker.
    pub waiting: i64,
    /// Number of cases that workers run.
    pub in_progress: i64,
    /// Seconds since the run was queued.
    pub age_seconds: f64,
}

/// Workers that were asked to drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DrainedWorkers {
    /// Name of the workers.
    pub name: String,
    /// Number of workers with this name.
    pub workers: u64,
}

impl BenchOperations<'_> {
    /// Returns the size and age of the work queue, without its runs and workers. The cost does not depend on
    /// the number of waiting cases.
    pub async fn queue_size(self) -> Result<QueueStatus, EngineError> {
        let store = self.engine.store().await?;
        let depth = store.bench().work_depth().await?;
        let oldest = store.bench().oldest_waiting().await?;
        Ok(QueueStatus {
            waiting: depth.waiting,
            in_progress: depth.taken,
            oldest_seconds: oldest.map(seconds),
            ..QueueStatus::default()
        })
    }

    /// Returns the state of the work queue, its runs and the connected workers.
    pub async fn queue(self) -> Result<QueueStatus, EngineError> {
        let rows = self.engine.store().await?.bench().queued_runs(RUNS).await?;
        let runs = rows.into_iter().map(|row| QueuedRun {
            run_id: row.run_id,
            suite_id: row.suite_id,
            priority: Priority::of_weight(row.weight),
            waiting: row.waiting,
            in_progress: row.taken,
            age_seconds: seconds(row.age),
        });
        Ok(QueueStatus {
            runs: runs.collect(),
            workers: self.engine.database().instances().await?.workers,
            ..self.queue_size().await?
        })
    }

    /// Asks the workers with this name to finish their cases and to exit.
    pub async fn drain_workers(self, name: &str) -> Result<DrainedWorkers, EngineError> {
        match self.engine.database().drain_workers(name).await? {
            0 => Err(EngineError::NotFound {
                what: format!("worker `{name}`"),
                hint: Hint::with_command("list the connected workers", "satiety worker status"),
            }),
            workers => Ok(DrainedWorkers {
                name: name.to_owned(),
                workers,
            }),
        }
    }
}

fn seconds(micros: i64) -> f64 {
    // The clocks of two machines may differ when a run is queued before a migration.
    micros.max(0) as f64 / 1e6
}
