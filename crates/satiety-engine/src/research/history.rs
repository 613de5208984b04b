//! Research that the store keeps: to be looked at, not to be gone on with.

use crate::handles::ResearchOperations;
use jiff::Timestamp;
use satiety::research::{Report, RoundRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{EngineError, time};

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ResearchSummary {
    /// Its id.
    pub run_id: String,
    /// What is looked for.
    pub task: String,
    /// Where.
    pub source: String,
    /// Rounds so far.
    pub rounds: i64,
    /// Why it stopped; absent while it goes on.
    pub stop_reason: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; absent while it goes on.
    pub completed_at: Option<Timestamp>,
}

/// A run with its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StoredResearch {
    /// Its id.
    pub run_id: String,
    /// What is looked for.
    pub task: String,
    /// Where.
    pub source: String,
    /// When it began.
    pub started_at: Timestamp,
    /// The rounds so far.
    pub rounds: Vec<RoundRecord>,
    /// What came of it, once it has ended.
    pub report: Option<Report>,
}

impl ResearchOperations<'_> {
    /// Research runs, newest first.
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

    /// A research run with its rounds.
    pub async fn stored_run(self, run_id: &str) -> Result<StoredResearch, EngineError> {
        let store = self.engine.store().await?;
        let row = store.research().run(run_id).await?;
        let row = row.ok_or_else(|| EngineError::NotThere {
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
