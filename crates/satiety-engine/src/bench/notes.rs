//! What people decide about a stored run from another program: notes, and accepting it as the baseline of its suite.

use std::path::Path;

use satiety::ids;
use satiety_store::bench::NoteRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::baseline::{AcceptRequest, AcceptResponse, VerdictOverride};
use super::history::{RunSummary, time};
use super::import::ResultOptions;
use crate::EngineError;
use crate::handles::BenchOperations;
use crate::harness::HarnessError;

/// Maximum number of notes of a run that are listed.
const NOTES: u32 = 200;

/// Note of a person on a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunNote {
    /// Name of the person who wrote the note.
    pub author: String,
    /// Text of the note.
    pub note: String,
    /// Time when the note was written.
    pub created_at: jiff::Timestamp,
}

/// Note to add to a run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NoteBody")]
pub struct AddNoteRequest {
    /// Id of the benchmark run.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Name of the person who writes the note.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    pub author: String,
    /// Text of the note.
    #[schemars(length(min = 1, max = 4000), regex(pattern = r"\S"))]
    pub note: String,
}

/// Stored run to accept as the baseline of its suite.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AcceptBody")]
pub struct AcceptStoredRequest {
    /// Id of the benchmark run.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Name of the person who accepts the run.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    pub by: String,
    /// Why the run is the new baseline.
    #[schemars(length(min = 1, max = 1000), regex(pattern = r"\S"))]
    pub reason: String,
}

impl BenchOperations<'_> {
    /// Returns the runs among these that have results pending for a person or a judge, with their number.
    pub async fn pending_results(self, runs: &[RunSummary]) -> Result<Vec<(String, i64)>, EngineError> {
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        Ok(self.engine.store().await?.bench().pending_runs(&ids).await?)
    }

    /// Returns the notes on a run, oldest first.
    pub async fn notes(self, run_id: &str) -> Result<Vec<RunNote>, EngineError> {
        let rows = self.engine.store().await?.bench().notes(run_id, NOTES).await?;
        let note = |row: NoteRow| RunNote {
            author: row.author,
            note: row.note,
            created_at: time(row.created_at),
        };
        Ok(rows.into_iter().map(note).collect())
    }

    /// Adds a note to a stored run and returns all notes.
    pub async fn add_note(self, request: AddNoteRequest) -> Result<Vec<RunNote>, EngineError> {
        self.require_stored(&request.id).await?;
        let row = NoteRow {
            note_id: ids::prefixed("note", uuid::Uuid::now_v7()),
            run_id: request.id,
            author: request.author.trim().to_owned(),
            note: request.note.trim().to_owned(),
            created_at: now_micros(),
        };
        self.engine.store().await?.bench().put_note(&row).await?;
        self.notes(&row.run_id).await
    }

    /// Accepts a stored run as the baseline of its suite, in the database only. A suite of a locked harness is refused:
    /// its baseline is part of what the lock protects, and changing it needs a signature.
    pub async fn accept_stored(
        self,
        request: AcceptStoredRequest,
        harness: &Path,
    ) -> Result<AcceptResponse, EngineError> {
        self.require_stored(&request.id).await?;
        let run = self.run_head(&request.id).await?.run;
        if crate::harness::is_locked_suite(harness, &run.suite_id) {
            return Err(HarnessError::LockedBaseline {
                run: run.run_id,
                suite: run.suite_id,
            }
            .into());
        }
        self.accept(AcceptRequest {
            run: request.id,
            suite: None,
            accepted: VerdictOverride {
                by: request.by.trim().to_owned(),
                reason: request.reason.trim().to_owned(),
            },
            options: ResultOptions::default(),
        })
        .await
    }

    /// Returns an error unless the run is in the database: a remote name must never be opened as a file path.
    pub(crate) async fn require_stored(self, run_id: &str) -> Result<(), EngineError> {
        if self.is_stored(run_id).await? {
            return Ok(());
        }
        Err(EngineError::NotFound {
            what: format!("run `{run_id}`"),
            hint: "list the runs to see their ids".into(),
        })
    }
}
