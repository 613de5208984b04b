//! Judges what agents do: logs read from files, and runs that are reported message by message.

mod context_events;
mod exported;
mod runs;
mod traces;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use satiety::cancel::Cancellation;
use satiety::progress::{
    self, LabelledRun, ProgressProfile, ProgressReport, WorkSweep, sweep_work, texts_to_embed,
};
use satiety::trajectory::{Log, LogFormat, ReadError, ReadOptions, Skipped, Step, Trajectory, read};
use schemars::JsonSchema;
use serde::Serialize;

use crate::EngineError;
use crate::embedding_cache::EmbeddingCache;
use crate::handles::ProgressOperations;
#[cfg(feature = "imports")]
use crate::zip_log::ZipLog;

pub use context_events::{ContextChange, ContextEvent};
pub use runs::{AppendMessagesRequest, AppendedMessages, RunList, RunSummary, StoredRun};
pub(crate) use runs::{RunCache, agent_run_summary};
pub(crate) use traces::TraceConversations;
pub use traces::{PartialSuccess, ReceiveTracesRequest, ReceivedTraces};

/// Bytes of a log that are read and judged in about a millisecond.
const READ_PER_UNIT: u64 = 16 << 10;

/// Request to judge the runs of a log.
#[derive(Debug, Clone)]
pub struct JudgeLogRequest {
    /// Name used in error messages: a path, or `-`.
    pub name: String,
    pub bytes: Vec<u8>,
    /// Format of the log; detected if `None`.
    pub format: Option<LogFormat>,
    /// Path of a profile file; the built-in profile if `None`.
    pub profile: Option<PathBuf>,
}

/// Judgement of the runs of a log.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JudgedLog {
    /// Format that the log was read as.
    pub format: LogFormat,
    /// Records that were not understood.
    pub skipped: Skipped,
    /// Judgement of each run, in the order of the log.
    pub runs: Vec<ProgressReport>,
    /// The steps of each run, for reports that show them.
    #[serde(skip)]
    pub trajectories: Vec<Trajectory>,
}

/// Request to calibrate the judge on recorded runs.
#[derive(Debug, Clone)]
pub struct SweepWorkRequest {
    /// File or directory with logs; outcomes must be part of the logs. `None` takes the labelled runs of the database.
    pub path: Option<PathBuf>,
    /// Path of a profile file; the built-in profile if `None`.
    pub profile: Option<PathBuf>,
    /// Levels at which to stop that are tried.
    pub stops: Vec<f64>,
}

/// Result of calibrating the judge on recorded runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SweptWork {
    /// Name of the profile.
    #[serde(rename = "profile_name")]
    pub profile: String,
    /// Number of files that were read.
    pub files: usize,
    /// Runs without an outcome, which were left out.
    pub without_outcome: usize,
    /// Records that were not understood.
    pub skipped: usize,
    /// Metrics of the profile, of other thresholds and of simple rules.
    #[serde(flatten)]
    pub sweep: WorkSweep,
}

impl ProgressOperations<'_> {
    /// Judges every run of a log.
    #[tracing::instrument(name = "judge progress", skip_all)]
    pub async fn judge_log(self, request: JudgeLogRequest) -> Result<JudgedLog, EngineError> {
        let profile = self.profile(request.profile.as_deref())?;
        let options = ReadOptions {
            format: request.format,
        };
        let (log, _) = self.read_log(&request.name, request.bytes, options).await?;
        let log = log.map_err(|problem| EngineError::Log {
            name: request.name.clone(),
            problem,
        })?;
        self.judge_runs(&request.name, log, profile).await
    }

    /// Reads a log and returns its bytes, too.
    pub(crate) async fn read_log(
        self,
        name: &str,
        bytes: Vec<u8>,
        options: ReadOptions,
    ) -> Result<(Result<Log, ReadError>, Vec<u8>), EngineError> {
        let units = bytes.len() as u64 / READ_PER_UNIT;
        let name = name.to_owned();
        let reading = move |_: &Cancellation| {
            let bytes = unpack(&name, bytes)?;
            Ok((read::read(&bytes, options), bytes))
        };
        self.engine.compute(units, reading).await
    }

    /// Judges every run of a log that was read.
    pub(crate) async fn judge_runs(
        self,
        name: &str,
        log: Log,
        profile: Arc<ProgressProfile>,
    ) -> Result<JudgedLog, EngineError> {
        if log.trajectories.is_empty() {
            return Err(EngineError::Invalid {
                message: format!("{name}: the log has no turn of an agent"),
                hint: "give the whole log: results of tools are judged together with their calls".into(),
            });
        }
        let mut runs = Vec::with_capacity(log.trajectories.len());
        for trajectory in &log.trajectories {
            runs.push(self.judge_trajectory(trajectory, Arc::clone(&profile)).await?);
        }
        Ok(JudgedLog {
            format: log.format,
            skipped: log.skipped,
            runs,
            trajectories: log.trajectories,
        })
    }

    /// Judges one run, with the sentence model if there is one.
    pub async fn judge_trajectory(
        self,
        trajectory: &Trajectory,
        profile: Arc<ProgressProfile>,
    ) -> Result<ProgressReport, EngineError> {
        let mut embeddings = self.engine.embedder().await?.map(EmbeddingCache::new);
        if let Some(embeddings) = &mut embeddings {
            let texts: Vec<String> = trajectory.steps.iter().filter_map(texts_to_embed).collect();
            embeddings.embed_texts(&texts).await?;
        }
        let vector_of = |step: &Step| {
            let text = texts_to_embed(step)?;
            embeddings.as_ref()?.vector(&text).map(<[f32]>::to_vec)
        };
        Ok(progress::judge(trajectory, profile, vector_of))
    }

    /// Loads a profile from a file, or the built-in one.
    #[expect(clippy::unused_self, reason = "called like the other operations")]
    pub fn profile(self, path: Option<&Path>) -> Result<Arc<ProgressProfile>, EngineError> {
        let Some(path) = path else {
            return Ok(ProgressProfile::built_in());
        };
        let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
        let profile = ProgressProfile::parse(&text).map_err(|problem| EngineError::ProgressProfile {
            path: path.display().to_string(),
            problem,
        })?;
        Ok(Arc::new(profile))
    }

    /// Calibrates the judge on recorded runs with outcomes.
    pub async fn sweep(self, request: &SweepWorkRequest) -> Result<SweptWork, EngineError> {
        let profile = self.profile(request.profile.as_deref())?;
        let (files, stored, folder) = match &request.path {
            Some(path) => (log_files(path)?, Vec::new(), path.display().to_string()),
            None => (
                Vec::new(),
                self.labelled_trajectories().await?,
                "the database".to_owned(),
            ),
        };
        let stops = request.stops.clone();
        let name = profile.name.clone();
        let count = files.len();
        let work = move |cancellation: &Cancellation| {
            let mut runs: Vec<LabelledRun> = stored.into_iter().filter_map(LabelledRun::new).collect();
            let (mut without_outcome, mut skipped) = (0, 0);
            for path in files {
                cancellation.check()?;
                let bytes = fs_err::read(&path).map_err(|cause| EngineError::file("read", &path, cause))?;
                let name = path.display().to_string();
                let read = unpack(&name, bytes).map(|bytes| read::read(&bytes, ReadOptions::default()));
                let Ok(Ok(log)) = read else {
                    skipped += 1;
                    continue;
                };
                skipped += log.skipped.count;
                for trajectory in log.trajectories {
                    match LabelledRun::new(trajectory) {
                        Some(run) => runs.push(run),
                        None => without_outcome += 1,
                    }
                }
            }
            if runs.is_empty() {
                return Err(EngineError::NoLabels { folder });
            }
            let sweep = sweep_work(&runs, &profile, &stops, cancellation)?;
            Ok((sweep, without_outcome, skipped))
        };
        let (sweep, without_outcome, skipped) = self.engine.compute(0, work).await?;
        Ok(SweptWork {
            profile: name,
            files: count,
            without_outcome,
            skipped,
            sweep,
        })
    }
}

/// The samples of a packed Inspect log, one in a line; other logs as they are.
#[cfg(feature = "imports")]
pub(crate) fn unpack(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, EngineError> {
    if !bytes.starts_with(b"PK\x03\x04") {
        return Ok(bytes);
    }
    let size = bytes.len() as u64;
    let mut log = ZipLog::open(name.to_owned(), std::io::Cursor::new(bytes), size)?;
    let mut lines = Vec::new();
    for member in log.below("samples/") {
        // Line ends in JSON separate tokens; in texts they are escaped.
        lines.extend(log.read(&member)?.replace(['\n', '\r'], " ").into_bytes());
        lines.push(b'\n');
    }
    Ok(lines)
}

#[cfg(not(feature = "imports"))]
#[expect(clippy::unnecessary_wraps, reason = "unpacking can fail")]
pub(crate) fn unpack(_: &str, bytes: Vec<u8>) -> Result<Vec<u8>, EngineError> {
    Ok(bytes)
}

/// The log files at a path: the file itself, or the JSON files below a directory, in order.
pub(crate) fn log_files(path: &Path) -> Result<Vec<PathBuf>, EngineError> {
    const DEEPEST: usize = 8;
    let failed = |cause| EngineError::file("read", path, cause);
    if !fs_err::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut pending = vec![(path.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        for entry in fs_err::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            // Links are not followed: a directory of strangers' logs may point anywhere.
            let kind = entry.file_type().map_err(failed)?;
            let is_log = path
                .extension()
                .and_then(|extension| extension.to_str())
                .is_some_and(|extension| matches!(extension, "eval" | "json" | "jsonl" | "traj" | "ndjson"));
            if kind.is_dir() && depth < DEEPEST {
                pending.push((path, depth + 1));
            } else if kind.is_file() && is_log {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
