//! Status, history and audits of the harness.

use crate::handles::HarnessOperations;
use std::path::Path;

use jiff::Timestamp;
use satiety::harness::cycles::RollingMetrics;
use satiety::harness::literal::literal_score;
use satiety::harness::measurement::SaturationEvidence;
use satiety::harness::{
    Aggregate, Consistency, ConsistencyThresholds, Driver, Entry, Measured, Phase, Proposal, RigorDiff,
    SignalMetrics,
};
use satiety_store::harness::AuditRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::HarnessError;
use super::cycle::drift;
use super::directory::{HarnessDirectory, display_path};
use super::measurement::{self, SuiteState, ThresholdState, unknown_metrics};
use super::state::retry_conflicts;
use crate::EngineError;

/// Status of an eval harness.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HarnessStatus {
    /// Directory of the harness.
    pub folder: String,
    /// Version hash of the files on disk.
    pub version: String,
    /// Whether that is the recorded version; absent before the first cycle.
    pub recorded: Option<bool>,
    /// Differences between the files and the recorded version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<RigorDiff>,
    /// Weakenings of the files compared with the active version, in any phase of an expansion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<String>,
    /// State of each suite.
    pub suites: Vec<SuiteState>,
    /// Saturation measurement over all suites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Reason why the harness was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
    /// Evidence over all versions that so few cases fail that no improvement could be detected; significant
    /// from 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<SaturationEvidence>,
    /// The five signals, as they would be recorded now.
    pub metrics: SignalMetrics,
    /// Saturation score of these signals by the literal formula of the specification, for comparison with `history`
    /// and `metrics`; no decision depends on it. Absent if a signal is out of range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal_score: Option<f64>,
    /// Thresholds, and whether they are met.
    pub thresholds: Vec<ThresholdState>,
    /// Metrics of the rolling window.
    pub rolling_metrics: RollingMetrics,
    /// Number of cycles in the window.
    pub cycles_tracked: u32,
    /// Number of cycles with metrics from a file: they can raise an alarm, never lower one.
    #[serde(skip_serializing_if = "is_zero")]
    pub unverified_cycles: usize,
    /// Scores in the window, oldest first.
    pub history: Vec<f64>,
    /// Score that the window follows.
    pub driver: Driver,
    /// Action that follows from the window.
    #[serde(flatten)]
    pub consistency: Consistency,
    /// The open expansion, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expansion: Option<OpenExpansion>,
    /// Recommended next step, in words.
    pub next: String,
}

/// Expansion that is open.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OpenExpansion {
    /// Id of the expansion.
    pub expansion_id: String,
    /// Current phase of the expansion.
    pub phase: Phase,
    /// Reason why the expansion was opened.
    pub trigger_reason: String,
    /// Research brief as a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Events of an eval harness.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct History {
    /// Log entries, oldest first.
    pub entries: Vec<Entry>,
}

/// Verdict of an auditor.
#[derive(Debug, Clone)]
pub struct AuditRequest {
    /// Id of the cycle; the newest if `None`.
    pub cycle_id: Option<String>,
    pub auditor: String,
    pub accepts: bool,
    pub note: String,
}

impl HarnessOperations<'_> {
    /// Returns the status of a harness.
    pub async fn status(self, folder: &Path, driver: Driver) -> Result<HarnessStatus, EngineError> {
        let folder = HarnessDirectory::read(folder)?;
        unknown_metrics(&folder)?;
        retry_conflicts(|| self.status_once(&folder, driver)).await
    }

    async fn status_once(
        self,
        folder: &HarnessDirectory,
        driver: Driver,
    ) -> Result<HarnessStatus, EngineError> {
        let state = self.state(&folder.root).await?;
        let history = match state.check_history() {
            Ok(()) => state.check_identity(folder).await,
            Err(problem) => Err(problem.into()),
        };
        let version = folder.manifest.version();
        let known = state.version().map(str::to_owned);
        let (drift, objections) = match &known {
            Some(known) => {
                let (diff, objections) = drift(&state, folder, known).await?;
                (Some(diff).filter(|_| *known != version), objections)
            }
            None => (None, Vec::new()),
        };
        // Cycles of another version say nothing about this one.
        let aggregate = state
            .aggregate()
            .await?
            .filter(|aggregate| aggregate.harness_version == version)
            .unwrap_or_else(|| Aggregate::new(&version, driver));
        let since = aggregate.evidence_until().map(Timestamp::as_microsecond);
        let measurement = measurement::take(&state, folder, since).await?;
        let open = match state.open_expansion(None).await {
            Ok(expansion) => Some(expansion),
            Err(EngineError::Harness(HarnessError::NoExpansion)) => None,
            Err(error) => return Err(error),
        };
        let consistency = aggregate.decide(&ConsistencyThresholds::default());
        let (measured, not_measured) = match measurement.overall {
            Ok(measured) => (Some(measured), None),
            Err(why) => (None, Some(why)),
        };
        let expansion = open.map(|open| OpenExpansion {
            prompt: open
                .findings
                .as_ref()
                .and_then(|found| found["prompt"].as_str())
                .map(str::to_owned),
            expansion_id: open.expansion_id,
            phase: open.phase,
            trigger_reason: open.trigger_reason,
        });
        let next = match history {
            Err(EngineError::Harness(problem)) if !matches!(problem, HarnessError::Conflict) => {
                match problem.hint() {
                    Some(hint) => format!("{problem}: {hint}"),
                    None => problem.to_string(),
                }
            }
            Err(error) => return Err(error),
            Ok(()) if !objections.is_empty() => {
                let way = if expansion.is_some() {
                    "restore them, or the archive with `satiety harness rollback`"
                } else {
                    "restore them, or retire broken cases with `satiety harness propose`"
                };
                format!("the files are weaker than the recorded harness: {way}")
            }
            Ok(()) => next_step(
                known.as_deref(),
                drift.as_ref(),
                expansion.as_ref(),
                &measurement.suites,
            ),
        };
        let mut deltas = aggregate.deltas();
        deltas.extend(measurement.metrics.improvement_delta);
        Ok(HarnessStatus {
            folder: display_path(&folder.root),
            recorded: known.map(|known| known == version),
            version,
            drift,
            objections,
            suites: measurement.suites,
            measured,
            not_measured,
            evidence: measurement.evidence,
            literal_score: literal_score(&measurement.metrics, &deltas).ok(),
            metrics: measurement.metrics,
            thresholds: measurement.thresholds,
            rolling_metrics: aggregate.rolling_metrics.clone(),
            cycles_tracked: aggregate.cycles_tracked,
            unverified_cycles: aggregate.history.iter().filter(|entry| entry.unverified).count(),
            history: aggregate.history.iter().map(|entry| entry.score).collect(),
            driver: aggregate.driver,
            consistency,
            expansion,
            next,
        })
    }

    /// Returns the proposal of the open expansion, if any.
    pub async fn open_proposal(self, folder: &Path) -> Result<Option<Proposal>, EngineError> {
        match self.state(folder).await?.open_expansion(None).await {
            Ok(expansion) => Ok(expansion.proposal),
            Err(EngineError::Harness(HarnessError::NoExpansion)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the last `limit` events, oldest first.
    pub async fn history(self, folder: &Path, limit: usize) -> Result<History, EngineError> {
        let mut entries = self.log(folder).await?.entries;
        entries.drain(..entries.len().saturating_sub(limit));
        Ok(History { entries })
    }

    /// Returns a record of the harness by its key.
    pub async fn record_by_key(self, folder: &Path, key: &str) -> Result<Option<Value>, EngineError> {
        self.log(folder).await?.record(key).await
    }

    /// Stores the verdict of an auditor.
    pub async fn audit(self, folder: &Path, request: AuditRequest) -> Result<AuditRow, EngineError> {
        let state = self.state(folder).await?;
        let cycles = || state.entries.iter().filter(|entry| entry.kind == "cycle");
        let id_of = |entry: &Entry| entry.body["cycle_id"].as_str().map(str::to_owned);
        let cycle_id = match request.cycle_id {
            Some(id) if cycles().any(|entry| id_of(entry).as_ref() == Some(&id)) => id,
            Some(id) => return Err(HarnessError::NoSuchCycle(id).into()),
            None => cycles()
                .next_back()
                .and_then(id_of)
                .ok_or(HarnessError::Unknown)?,
        };
        let row = AuditRow {
            audit_id: satiety::ids::prefixed("audit", uuid::Uuid::now_v7()),
            harness_id: state.harness_id.clone(),
            cycle_id,
            auditor: request.auditor,
            accepts: request.accepts,
            note: request.note,
            at: now_micros(),
        };
        self.engine.store().await?.harness().put_audit(&row).await?;
        Ok(row)
    }

    /// Lists audit verdicts, newest first.
    pub async fn audits(self, folder: &Path, limit: u32) -> Result<Vec<AuditRow>, EngineError> {
        let state = self.log(folder).await?;
        Ok(state.store().harness().audits(&state.harness_id, limit).await?)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn next_step(
    known: Option<&str>,
    drift: Option<&RigorDiff>,
    open: Option<&OpenExpansion>,
    suites: &[SuiteState],
) -> String {
    let next = match (open.map(|open| open.phase), drift) {
        (Some(Phase::Research), _) => {
            "propose additions: `satiety harness expand`, with --model MODEL, or `satiety harness propose FILE`"
        }
        (Some(Phase::AwaitingApproval), _) => {
            "a person must review and sign the proposal: `satiety harness approve --key FILE`"
        }
        (Some(_), _) => {
            "resume with `satiety harness apply`, or restore the archive with `satiety harness rollback`"
        }
        (None, Some(_)) => {
            "the files are harder than the recorded harness: adopt them with `satiety harness record`"
        }
        (None, None) if suites.iter().all(|suite| suite.versions == 0) => {
            "run the suites: `satiety bench run --all DIR`"
        }
        (None, None) if known.is_none() => {
            "register the harness with its first cycle: `satiety harness record`"
        }
        (None, None) => "record a cycle after each round of changes: `satiety harness record`",
    };
    next.to_owned()
}
