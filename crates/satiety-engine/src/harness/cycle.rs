//! Records a cycle: measures the runs, updates the window over the cycles so far, and derives the action.
//! Before anything is recorded, the files are compared with the recorded harness: weaker ones are rejected.

use crate::handles::HarnessOperations;
use std::path::PathBuf;

use jiff::Timestamp;
use satiety::Hint;
use satiety::bench::content_hash;
use satiety::harness::brief::{SuiteEvidence, brief, threshold_increases};
use satiety::harness::cycles::{MeasuredSaturation, RollingMetrics, SCHEMA_VERSION};
use satiety::harness::expansion::{Context, Event, Justification};
use satiety::harness::{
    Action, Aggregate, Consistency, ConsistencyThresholds, CycleSnapshot, Driver, Expansion, KeyRing, Level,
    Lock, Measured, Observation, RigorDiff, SignalMetrics, SignalScore, SignalSettings, compare, score,
};
use satiety::ids;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::HarnessError;
use super::approval::same_keys;
use super::check::{adoption, objections};
use super::directory::{HarnessDirectory, display_path};
use super::evidence::{failing_regressions, weigh_graduations};
use super::identity::{HISTORY_BEGUN, place_of};
use super::keys::ring_of;
use super::measurement::{self, Measurement, SuiteState, ThresholdState, unknown_metrics};
use super::state::{State, Writing, retry_conflicts, short};
use super::tree::HarnessTree;
use crate::EngineError;

/// Cycle to record.
#[derive(Debug, Clone, Default)]
pub struct RecordCycleRequest {
    pub folder: PathBuf,
    /// File with metrics in the specification's format, used instead of stored runs.
    pub metrics: Option<PathBuf>,
    /// Id of the cycle; generated if `None`.
    pub cycle_id: Option<String>,
    /// Score that the window follows.
    pub driver: Driver,
    /// Starts a branch of the history in a database without it: by whom, and why.
    pub new_history: Option<Justification>,
}

/// Recorded harness cycle and its evaluation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RecordedCycle {
    /// Recorded snapshot of the cycle.
    pub snapshot: CycleSnapshot,
    /// Saturation score of the specification, by signal.
    pub signals: SignalScore,
    /// Measurement over all suites; absent with metrics from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// State of each suite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<SuiteState>,
    /// Thresholds, and whether they are met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdState>,
    /// Metrics of the rolling window.
    pub rolling_metrics: RollingMetrics,
    /// Scores in the window, oldest first.
    pub history: Vec<f64>,
    /// Action that follows from the window.
    #[serde(flatten)]
    pub consistency: Consistency,
    /// Id of the open expansion, opened by this cycle or earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expansion_id: Option<String>,
    /// Changes of the harness since the previous cycle, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted: Option<RigorDiff>,
    /// Measurements that are missing, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Errors of hooks that failed.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl RecordedCycle {
    /// Logs the errors of hooks, for a remote caller.
    pub fn log_warnings(&self) {
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
    }
}

/// Metrics file: the specification's snapshot, or the metrics alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CycleFile {
    #[serde(default)]
    cycle_id: Option<String>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    metrics: SignalMetrics,
    // Ignored: the score is recomputed rather than trusted.
    #[serde(default, rename = "saturation_score")]
    _score: Option<f64>,
    #[serde(default, rename = "saturation_level")]
    _level: Option<Level>,
    #[serde(default, rename = "harness_version")]
    _version: Option<String>,
    #[serde(default, rename = "x-schema-version")]
    _schema: Option<String>,
}

impl HarnessOperations<'_> {
    /// Records a cycle, and alerts if it needs attention.
    pub async fn record(self, request: RecordCycleRequest) -> Result<RecordedCycle, EngineError> {
        let folder = HarnessDirectory::read(&request.folder)?;
        unknown_metrics(&folder)?;
        let (_, keys) = ring_of(&folder.root)?;
        let given = request.metrics.as_deref().map(read_metrics).transpose()?;
        let mut recorded =
            retry_conflicts(|| self.record_once(&request, &folder, &keys, given.as_ref())).await?;
        recorded.warnings = self.alert_cycle(&recorded).await;
        Ok(recorded)
    }

    async fn alert_cycle(self, recorded: &RecordedCycle) -> Vec<String> {
        if recorded.consistency.action == Action::Continue {
            return Vec::new();
        }
        let body = json!({
            "event": "harness_saturation",
            "action": recorded.consistency.action,
            "urgency": recorded.consistency.urgency,
            "reason": recorded.consistency.reason,
            "cycle_id": recorded.snapshot.cycle_id,
            "harness_version": recorded.snapshot.harness_version,
            "expansion_id": recorded.expansion_id,
        });
        self.engine.hooks.harness.send("harness.notify", &body).await
    }

    async fn record_once(
        self,
        request: &RecordCycleRequest,
        folder: &HarnessDirectory,
        keys: &KeyRing,
        given: Option<&CycleFile>,
    ) -> Result<RecordedCycle, EngineError> {
        let mut state = match &request.new_history {
            None => self.history_of(folder).await?,
            Some(_) => self.state(&folder.root).await?,
        };
        let begun = match &request.new_history {
            None => Writing::default(),
            Some(ending) => begin_history(&state, folder, ending)?,
        };
        let adopts = state.version() != Some(folder.manifest.version().as_str());
        let (writing, adopted) = adopt(&state, folder, keys, begun).await?;
        // A harness whose own tests fail is broken, and a broken system must not appear less saturated.
        let failing = failing_regressions(state.store(), folder).await?;
        if !failing.is_empty() {
            return Err(HarnessError::RegressionTier { cases: failing }.into());
        }
        let version = folder.manifest.version();
        let before = state.aggregate().await?;
        if given.is_some()
            && adopted.is_some()
            && before.as_ref().is_some_and(|window| window.cycles_tracked > 0)
        {
            return Err(HarnessError::UnverifiedVersion.into());
        }
        let mut aggregate = before
            .clone()
            .filter(|aggregate| aggregate.harness_version == version)
            .unwrap_or_else(|| Aggregate::new(&version, request.driver));
        aggregate.driver = request.driver;
        let since = aggregate.evidence_until().map(Timestamp::as_microsecond);
        let mut measurement = match given {
            None => Some(measurement::take(&state, folder, since).await?),
            Some(_) => None,
        };
        // Evaluating the same runs again is not evidence of consistency, under any cycle id.
        let is_recorded = |id: &String| aggregate.history.iter().any(|entry| entry.cycle_id == *id);
        if let (Some(measurement), Some(since)) = (&measurement, since)
            && !measurement.newer_than(since)
            && !request.cycle_id.as_ref().is_some_and(is_recorded)
        {
            return Err(HarnessError::NothingNew {
                cycle_id: aggregate.newest_cycle.clone().unwrap_or_default(),
            }
            .into());
        }
        if let Some(measurement) = &mut measurement {
            keep_audits(&state, &aggregate, &mut measurement.metrics).await?;
        }
        let metrics = match (given, &measurement) {
            (Some(given), _) => given.metrics,
            (None, Some(measurement)) => measurement.metrics,
            (None, None) => SignalMetrics::default(),
        };
        if metrics == SignalMetrics::default() {
            let why = measurement.and_then(|measurement| measurement.overall.err());
            return Err(HarnessError::NoEvidence {
                why: why.unwrap_or_else(|| "the metrics are empty".into()),
            }
            .into());
        }
        let mut deltas = aggregate.deltas();
        deltas.extend(metrics.improvement_delta);
        let signals = score(&metrics, &deltas, &SignalSettings::default()).map_err(HarnessError::from)?;
        let measured = measurement
            .as_ref()
            .and_then(|measurement| measurement.overall.as_ref().ok());
        let snapshot = CycleSnapshot {
            cycle_id: request
                .cycle_id
                .clone()
                .or_else(|| given?.cycle_id.clone())
                .unwrap_or_else(|| ids::prefixed("cycle", uuid::Uuid::now_v7())),
            timestamp: given
                .and_then(|given| given.timestamp)
                .unwrap_or_else(|| state.now()),
            unverified: given.is_some(),
            harness_version: version.clone(),
            metrics,
            saturation_score: signals.score,
            saturation_level: signals.level,
            measured: measured.map(mark),
            schema_version: SCHEMA_VERSION.to_owned(),
        };
        let known = aggregate
            .history
            .iter()
            .any(|entry| entry.cycle_id == snapshot.cycle_id);
        aggregate.record(&snapshot).map_err(HarnessError::from)?;
        let thresholds = ConsistencyThresholds::default();
        let consistency = aggregate.decide(&thresholds);
        let opened = if consistency.action == Action::TriggerExpansionResearch && !known {
            Some(open(
                &state,
                folder,
                &aggregate,
                &consistency,
                measurement.as_ref(),
            )?)
        } else {
            None
        };
        if let Some((expansion, _)) = &opened {
            aggregate
                .latch(&expansion.expansion_id)
                .map_err(HarnessError::from)?;
        }
        // Recording the same cycle again is not an event.
        if !known {
            let mut event = json!({
                "cycle_id": snapshot.cycle_id,
                "version": version,
                "snapshot": content_hash(&snapshot),
                "score": snapshot.driving(request.driver).0,
                "level": snapshot.driving(request.driver).1,
                "action": consistency.action,
                "unverified": snapshot.unverified,
            });
            // Which runs were measured, so that a cycle can be looked into after further runs.
            if let Some(measurement) = &measurement {
                event["runs"] = json!(measurement.runs);
            }
            let mut writing = writing.event("cycle", event);
            writing = writing.record(snapshot.record().map_err(HarnessError::from)?);
            if let Some((expansion, events)) = &opened {
                for event in events {
                    writing = writing.expansion(event.clone(), expansion)?;
                }
            }
            state.identify(folder).await?;
            state.write(writing.aggregate(&aggregate)).await?;
            if adopts || state.marks.anchor.is_none() {
                state.write_anchor(folder)?;
            }
        }
        let mut notes = Vec::new();
        let (suites, thresholds) = match &measurement {
            Some(measurement) => {
                notes.extend(measurement.overall.as_ref().err().cloned());
                (measurement.suites.clone(), measurement.thresholds.clone())
            }
            None => (Vec::new(), Vec::new()),
        };
        Ok(RecordedCycle {
            measured: measured.cloned(),
            suites,
            thresholds,
            rolling_metrics: aggregate.rolling_metrics.clone(),
            history: aggregate.history.iter().map(|entry| entry.score).collect(),
            consistency,
            expansion_id: aggregate.open_expansion.clone(),
            adopted,
            notes,
            warnings: Vec::new(),
            snapshot,
            signals,
        })
    }
}

/// Compares the files with the recorded harness. Files that are at least as rigorous become the recorded
/// harness with this write.
pub(super) async fn adopt(
    state: &State,
    folder: &HarnessDirectory,
    keys: &KeyRing,
    begun: Writing,
) -> Result<(Writing, Option<RigorDiff>), EngineError> {
    let version = folder.manifest.version();
    let mut writing = begun;
    // Trust on first use: from now on a change of keys requires a signature by a known key.
    if state.known_keys().is_none() && !keys.approvers.is_empty() {
        writing = writing.event("keys", json!({"keys": keys, "by": "first use"}));
    }
    let tree = HarnessTree::from_directory(folder.clone(), None)?;
    let Some(known) = state.version() else {
        let event = json!({
            "version": version,
            "why": "first seen",
            "lock": tree.lock.hash(),
            "place": place_of(&folder.root),
        });
        return Ok((
            writing
                .event("adopted", event)
                .version(&folder.manifest, None)?
                .lock(&tree.lock)?,
            None,
        ));
    };
    let recorded = state.lock(known, &tree.lock).await?;
    if known == version && recorded == tree.lock {
        return Ok((writing, None));
    }
    // Report weaker files first, whatever the phase of an expansion.
    let diff = may_follow(state, &recorded, &tree).await?;
    if known != version
        && let Ok(expansion) = state.open_expansion(None).await
        && (expansion.phase.is_applying() || expansion.phase == satiety::harness::Phase::RollingBack)
    {
        return Err(HarnessError::Phase {
            id: expansion.expansion_id,
            state: "is being applied, and the suites are in an intermediate state".into(),
            hint: Hint::with_command(
                "restore the archive (rollback), or finish it",
                "satiety harness apply",
            ),
        }
        .into());
    }
    if known == version {
        let event = json!({"version": version, "lock": tree.lock.hash(), "changes": diff.changes.len()});
        return Ok((writing.event("locked", event).lock(&tree.lock)?, None));
    }
    let event = json!({
        "version": version,
        "from": known,
        "why": "at least as rigorous",
        "changes": diff.changes.len(),
        "lock": tree.lock.hash(),
        "place": place_of(&folder.root),
    });
    Ok((
        writing
            .event("adopted", event)
            .version(&folder.manifest, None)?
            .lock(&tree.lock)?,
        Some(diff),
    ))
}

/// Differences of the files from a recorded version, and the weakenings among them, in any phase of an
/// expansion.
pub(super) async fn drift(
    state: &State,
    folder: &HarnessDirectory,
    version: &str,
) -> Result<(RigorDiff, Vec<String>), EngineError> {
    let tree = HarnessTree::from_directory(folder.clone(), None)?;
    let recorded = state.lock(version, &tree.lock).await?;
    match may_follow(state, &recorded, &tree).await {
        Ok(diff) => Ok((diff, Vec::new())),
        Err(EngineError::Harness(HarnessError::Weaker { objections })) => {
            let now = if recorded.manifest.format == 1 {
                folder.legacy_manifest()
            } else {
                folder.manifest.clone()
            };
            let diff = compare(&recorded.manifest, &now).map_err(HarnessError::from)?;
            Ok((diff, objections))
        }
        Err(other) => Err(other),
    }
}

/// First event of a branch: a database without the history starts with exactly the version that the
/// repository's anchor names.
fn begin_history(
    state: &State,
    folder: &HarnessDirectory,
    ending: &Justification,
) -> Result<Writing, EngineError> {
    let refuse = |why: &str| Err(HarnessError::NewHistory { why: why.to_owned() }.into());
    let (Some(id), Some(anchor)) = (&state.marks.id, &state.marks.anchor) else {
        return refuse("the repository has no anchor, so there is no history to branch from");
    };
    if !state.entries.is_empty() {
        return refuse("this database already has a history of this harness");
    }
    if ending.by.trim().is_empty() || ending.why.trim().is_empty() {
        return refuse("a name and a reason are required");
    }
    let version = folder.manifest.version();
    if state.marks.version.as_ref() != Some(&version) {
        return refuse(&format!(
            "the files are version {}, but the anchor names version {}; check out that version, start with it, and record the change afterwards",
            short(&version),
            state.marks.version.as_deref().map_or("none", short)
        ));
    }
    let body =
        json!({"harness_id": id, "anchor": anchor, "version": version, "by": ending.by, "why": ending.why});
    Ok(Writing::default().event(HISTORY_BEGUN, body))
}

/// Compares a tree with the recorded lock; returns the differences if the tree may replace it.
pub(super) async fn may_follow(
    state: &State,
    recorded: &Lock,
    tree: &HarnessTree,
) -> Result<RigorDiff, EngineError> {
    let known = state.known_keys();
    // A change of keys that was signed with a known key is in the log.
    let signed = known
        .as_ref()
        .is_some_and(|known| same_keys(known, &tree.lock.keys));
    let graduations = weigh_graduations(state.store(), &recorded.manifest, &tree.folder).await?;
    let mut justified = graduations.proven;
    if signed {
        let approvers = recorded.keys.approvers.iter().chain(&tree.lock.keys.approvers);
        justified.extend(approvers.map(|key| format!("keys.approvers.{}", key.name)));
    }
    let goal = if recorded.manifest.format == 1 {
        Lock {
            manifest: tree.folder.legacy_manifest(),
            ..tree.lock.clone()
        }
    } else {
        tree.lock.clone()
    };
    let keys = known.unwrap_or_else(|| recorded.keys.clone());
    let step = adoption(recorded, &goal, &tree.steps, &keys, &justified, state.now())?;
    if step.allowed {
        return Ok(step.diff);
    }
    let mut objections = objections(&step.diff, &justified);
    objections.extend(graduations.objections);
    Err(HarnessError::Weaker { objections }.into())
}

/// Audit verdicts are stated, not measured: later ones may raise what was recorded for this version, never
/// lower it.
async fn keep_audits(
    state: &State,
    aggregate: &Aggregate,
    metrics: &mut SignalMetrics,
) -> Result<(), EngineError> {
    let Some(newest) = aggregate.history.iter().rev().find(|entry| !entry.unverified) else {
        return Ok(());
    };
    let Some(record) = state.cycle(&newest.cycle_id).await? else {
        return Ok(());
    };
    if let Some(before) = record.metrics.auditor_unanimous_rate {
        let now = metrics.auditor_unanimous_rate.unwrap_or(0.0);
        metrics.auditor_unanimous_rate = Some(now.max(before));
    }
    Ok(())
}

/// Creates an expansion with its brief, and the events that open it.
pub(super) fn open(
    state: &State,
    folder: &HarnessDirectory,
    aggregate: &Aggregate,
    trigger: &Consistency,
    measurement: Option<&Measurement>,
) -> Result<(Expansion, Vec<Event>), EngineError> {
    let rolling = &aggregate.rolling_metrics;
    let mut expansion = Expansion::triggered(
        ids::prefixed("exp", uuid::Uuid::now_v7()),
        folder.manifest.version(),
        trigger,
        rolling.avg_saturation_score,
        state.now(),
    );
    let mut events = vec![Event {
        kind: "triggered".into(),
        body: json!({
            "expansion_id": expansion.expansion_id,
            "detail": {"reason": expansion.trigger_reason, "urgency": expansion.urgency, "version": short(&expansion.from_version)},
        }),
    }];
    let findings = findings(folder, &expansion.trigger_reason, rolling, measurement);
    let context = Context {
        keys: &KeyRing::default(),
        spent: &state.spent(),
        now: state.now(),
    };
    events.push(
        expansion
            .observe(Observation::Found(findings), &context)
            .map_err(HarnessError::from)?,
    );
    Ok((expansion, events))
}

/// Research brief, as far as there are runs.
pub(super) fn findings(
    folder: &HarnessDirectory,
    reason: &str,
    rolling: &RollingMetrics,
    measurement: Option<&Measurement>,
) -> Value {
    let Some(measurement) = measurement else {
        return json!({"note": "the cycles came from files; there are no runs to take a brief from"});
    };
    let evidence: Vec<SuiteEvidence<'_>> = measurement
        .suites
        .iter()
        .filter_map(|state| {
            Some(SuiteEvidence {
                suite: &folder.suite(&state.suite_id)?.suite,
                run: measurement.newest.get(&state.suite_id)?,
                measured: state.measured.as_ref()?,
            })
        })
        .collect();
    let increases = threshold_increases(&folder.manifest, &measurement.metric_values);
    let brief = brief(reason, rolling, &evidence, increases);
    json!({"brief": brief, "prompt": brief.prompt()})
}

fn mark(measured: &Measured) -> MeasuredSaturation {
    let probability = measured.headroom.saturation;
    MeasuredSaturation {
        probability,
        verdict: measured.verdict,
        level: Level::of(probability, SignalSettings::default().levels),
    }
}

fn read_metrics(path: &std::path::Path) -> Result<CycleFile, EngineError> {
    let bad = |reason: String| {
        EngineError::from(HarnessError::BadFile {
            file: display_path(path),
            reason,
        })
    };
    let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let value = if value.get("metrics").is_some() {
        value
    } else {
        json!({"metrics": value})
    };
    let given: CycleFile = serde_path_to_error::deserialize(value)
        .map_err(|error| bad(format!("{}: {}", error.path(), error.inner())))?;
    // Every later cycle would be older than this one.
    if let Some(at) = given.timestamp.filter(|at| *at > Timestamp::now()) {
        return Err(bad(format!("timestamp: {at} is in the future")));
    }
    Ok(given)
}
