//! Where the harness stands, what happened to it, and what auditors said.

use crate::handles::HarnessOperations;
use std::path::Path;

use jiff::Timestamp;
use satiety::harness::cycles::RollingMetrics;
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
use super::directory::{Folder, shown};
use super::measurement::{self, SuiteState, ThresholdState, unknown_figures};
use crate::EngineError;

/// Where a harness stands.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HarnessStatus {
    /// The folder.
    pub folder: String,
    /// The version of the files.
    pub version: String,
    /// Whether that is the version that the log knows; absent before the first cycle.
    pub recorded: Option<bool>,
    /// How the files differ from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<RigorDiff>,
    /// What they ask less of than the version in force, in whatever phase an expansion is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<String>,
    /// Suites and cases.
    pub suites: Vec<SuiteState>,
    /// What was measured over all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Why nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
    /// The evidence over all versions that so few cases fail that no improvement could be shown; from 20 on it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<SaturationEvidence>,
    /// The five signals as they would be recorded now.
    pub metrics: SignalMetrics,
    /// Thresholds and whether they hold.
    pub thresholds: Vec<ThresholdState>,
    /// The window's figures.
    pub rolling_metrics: RollingMetrics,
    /// Cycles in the window.
    pub cycles_tracked: u32,
    /// Those of them that somebody stated without runs: they raise an alarm, and lower none.
    #[serde(skip_serializing_if = "is_zero")]
    pub unverified_cycles: usize,
    /// The scores of the window, oldest first.
    pub history: Vec<f64>,
    /// Which score the window follows.
    pub driver: Driver,
    /// What follows.
    #[serde(flatten)]
    pub consistency: Consistency,
    /// The expansion that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expansion: Option<OpenExpansion>,
    /// What to do next.
    pub next: String,
}

/// An expansion that is open.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OpenExpansion {
    /// Which.
    pub expansion_id: String,
    /// Where it stands.
    pub phase: Phase,
    /// Why it was opened.
    pub trigger_reason: String,
    /// What research is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct History {
    /// Events, oldest first.
    pub entries: Vec<Entry>,
}

/// An auditor's verdict.
#[derive(Debug, Clone)]
pub struct AuditRequest {
    /// The cycle; the newest where none is named.
    pub cycle_id: Option<String>,
    /// Who.
    pub auditor: String,
    /// Whether the auditor accepts.
    pub accepts: bool,
    /// Why.
    pub note: String,
}

impl HarnessOperations<'_> {
    /// Where the harness stands.
    pub async fn status(self, folder: &Path, driver: Driver) -> Result<HarnessStatus, EngineError> {
        let folder = Folder::read(folder)?;
        unknown_figures(&folder)?;
        let state = self.state(&folder.root).await?;
        let history = match state.check_history() {
            Ok(()) => state.check_identity(&folder).await,
            Err(problem) => Err(problem.into()),
        };
        let version = folder.manifest.version();
        let known = state.version().map(str::to_owned);
        let (drift, objections) = match &known {
            Some(known) => {
                let (diff, objections) = drift(&state, &folder, known).await?;
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
        let measurement = measurement::take(&state, &folder, since).await?;
        let open = match state.open_expansion(None).await {
            Ok(expansion) => Some(expansion),
            Err(EngineError::Harness(HarnessError::NoExpansion)) => None,
            Err(error) => return Err(error),
        };
        let consistency = aggregate.decide(&ConsistencyThresholds::default());
        let (measured, not_measured) = match measurement.whole {
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
            Err(EngineError::Harness(problem)) => {
                format!("{problem}: {}", problem.hint().unwrap_or_default())
            }
            Err(error) => return Err(error),
            Ok(()) if !objections.is_empty() => {
                let way = if expansion.is_some() {
                    "bring them back, or the archive with `satiety harness rollback`"
                } else {
                    "bring them back, or retire broken cases with `satiety harness propose`"
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
        Ok(HarnessStatus {
            folder: shown(&folder.root),
            recorded: known.map(|known| known == version),
            version,
            drift,
            objections,
            suites: measurement.suites,
            measured,
            not_measured,
            evidence: measurement.evidence,
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

    /// The proposal of the open expansion, where there is one.
    pub async fn open_proposal(self, folder: &Path) -> Result<Option<Proposal>, EngineError> {
        match self.state(folder).await?.open_expansion(None).await {
            Ok(expansion) => Ok(expansion.proposal),
            Err(EngineError::Harness(HarnessError::NoExpansion)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What happened, oldest first; the last `limit` events.
    pub async fn history(self, folder: &Path, limit: usize) -> Result<History, EngineError> {
        let mut entries = self.log(folder).await?.entries;
        entries.drain(..entries.len().saturating_sub(limit));
        Ok(History { entries })
    }

    /// A record of the harness by its key.
    pub async fn record_by_key(self, folder: &Path, key: &str) -> Result<Option<Value>, EngineError> {
        self.log(folder).await?.record(key).await
    }

    /// Keeps what an auditor said.
    pub async fn audit(self, folder: &Path, request: AuditRequest) -> Result<AuditRow, EngineError> {
        let state = self.state(folder).await?;
        let cycles = || state.entries.iter().filter(|entry| entry.kind == "cycle");
        let id_of = |entry: &Entry| entry.body["cycle_id"].as_str().map(str::to_owned);
        let cycle_id = match request.cycle_id {
            Some(id) if cycles().any(|entry| id_of(entry).as_ref() == Some(&id)) => id,
            Some(id) => {
                return Err(HarnessError::Phase {
                    id: "of this cycle".into(),
                    state: format!("cannot be audited: there is no cycle `{id}`"),
                    hint: "`satiety harness history` lists the cycles".into(),
                }
                .into());
            }
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

    /// What auditors said, newest first.
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
            "propose what to add: `satiety harness expand`, with --model MODEL, or `satiety harness propose FILE`"
        }
        (Some(Phase::AwaitingApproval), _) => {
            "a person looks at the proposal and signs it: `satiety harness approve --key FILE`"
        }
        (Some(_), _) => {
            "go on with `satiety harness apply`, or bring the archive back with `satiety harness rollback`"
        }
        (None, Some(_)) => {
            "the files are harder than the recorded harness: `satiety harness record` takes them over"
        }
        (None, None) if suites.iter().all(|suite| suite.versions == 0) => {
            "run the suites: `satiety bench run --all FOLDER`"
        }
        (None, None) if known.is_none() => {
            "register the harness with its first cycle: `satiety harness record`"
        }
        (None, None) => "record a cycle after each round of changes: `satiety harness record`",
    };
    next.to_owned()
}
