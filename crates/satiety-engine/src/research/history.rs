//! Stored research runs, for display only; see `run` for resuming them.

use crate::handles::ResearchOperations;
use jiff::Timestamp;
use satiety::research::{Report, RoundRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{EngineError, time};

/// Summary of a research run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ResearchSummary {
    /// Id of the research run.
    pub run_id: String,
    /// Research task in plain words.
    pub task: String,
    /// Source that was searched, such as `arxiv`.
    pub source: String,
    /// Number of rounds so far.
    pub rounds: i64,
    /// Reason why the run stopped; absent while it is running.
    pub stop_reason: Option<String>,
    /// Time when the run started.
    pub started_at: Timestamp,
    /// Time when the run ended; absent while it is running.
    pub completed_at: Option<Timestamp>,
}

/// A research run with its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoredResearch {
    /// Id of the research run.
    pub run_id: String,
    /// Research task in plain words.
    pub task: String,
    /// Source that was searched, such as `arxiv`.
    pub source: String,
    /// Time when the run started.
    pub started_at: Timestamp,
    /// Rounds so far, in order.
    pub rounds: Vec<RoundRecord>,
    /// Final report; absent while the run is in progress.
    pub report: Option<Report>,
}

impl ResearchOperations<'_> {
    /// Lists research runs, newest first.
    pub async fn stored_runs(self, limit: u32) -> Result<Vec<ResearchSummary>, EngineError> {
        let rows = self
            .engine
            .store()
            .await?
            .research()
            .runs(limit)
            .await?
            .into_iter();
        Ok(rows
            .map(|(row, rounds)| ResearchSummary {
                run_id: row.run_id,
                task: row.task,
                source: row.source,
                rounds,
                stop_reason: row.stop_reason,
                started_at: time(row.started_at),
                completed_at: row.completed_at.map(time),
            })
            .collect())
    }

    /// Returns a research run with its rounds.
    pub async fn stored_run(self, run_id: &str) -> Result<StoredResearch, EngineError> {
        let store = self.engine.store().await?;
        let row = store.research().run(run_id).await?;
        let row = row.ok_or_else(|| EngineError::NotFound {
            what: format!("research `{run_id}`"),
            hint: "list the runs to see their ids".into(),
        })?;
        let rounds = store.research().rounds(run_id).await?;
        let rounds = rounds.iter().map(|round| serde_json::from_str(&round.body));
        Ok(StoredResearch {
            run_id: row.run_id,
            task: row.task,
            source: row.source,
            started_at: time(row.started_at),
            rounds: rounds.collect::<Result<_, _>>()?,
            report: row.report.map(serde_json::from_value).transpose()?,
        })
    }
}
