//! Runs of agents in a Parquet export.

use std::path::Path;

use satiety::trajectory::{Feed, Log, LogFormat, Skipped};
use serde_json::Value;

use super::JudgedLog;
use crate::EngineError;
use crate::database::stored_export::{ExportedName, StoredExport, micros_of};
use crate::handles::ProgressOperations;

impl ProgressOperations<'_> {
    /// Judges a run of a Parquet export, named `DIRECTORY#ID`, or by its directory and `run`. Returns `None` if the
    /// name is not that of an export. A separate operation, because callers of a server must not read its files.
    pub async fn judge_exported(
        self,
        named: &str,
        run: Option<&str>,
        profile: Option<&Path>,
    ) -> Result<Option<JudgedLog>, EngineError> {
        let Some(name) = ExportedName::parse(named) else {
            return Ok(None);
        };
        let export = StoredExport::open(&name.directory)?;
        let id = name.id.as_deref().or(run);
        let missing = || export.not_found("agent_runs", "id", id);
        let wanted = id.ok_or_else(missing)?;
        let rows = export.rows_where("agent_runs", "id", wanted, None)?;
        let row = rows.first().ok_or_else(missing)?;
        let mut feed = Feed::new();
        let updated_at = micros_of(row, "updated_at");
        for message in export.rows_where("agent_messages", "run_id", wanted, updated_at)? {
            let body = message.get("body").and_then(Value::as_str).unwrap_or_default();
            feed.push(&serde_json::from_str(body)?);
        }
        let mut trajectory = feed.finish();
        trajectory.id = Some(wanted.to_owned());
        let log = Log {
            format: LogFormat::Chat,
            trajectories: vec![trajectory],
            skipped: Skipped::default(),
        };
        let judged = self.judge_runs(named, log, self.profile(profile)?).await?;
        Ok(Some(judged))
    }
}
