//! Looks into a recorded cycle: which runs of each suite were measured, so that its cases can be followed to the versions
//! that passed them.

use std::path::Path;

use jiff::Timestamp;
use satiety::harness::{CycleSnapshot, Entry};
use satiety_store::harness::AuditRow;

use super::HarnessError;
use super::directory::HarnessDirectory;
use super::measurement::{RECENT_VERDICTS, VERSIONS, counted_rows};
use crate::EngineError;
use crate::bench::described_target;
use crate::handles::HarnessOperations;

/// A recorded cycle in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct CycleHead {
    pub cycle_id: String,
    /// Time at which the cycle was recorded.
    pub at: Timestamp,
    /// Version hash of the harness.
    pub version: String,
    /// Score that the window follows, from 0 to 1.
    pub score: Option<f64>,
    /// Saturation level, such as `HIGH`.
    pub level: String,
    /// Action that followed, such as `CONTINUE`.
    pub action: String,
    /// Whether the metrics came from a file.
    pub is_unverified: bool,
}

/// A recorded cycle with the runs that it measured.
#[derive(Debug, Clone)]
pub struct CycleDetail {
    pub head: CycleHead,
    /// The record of the cycle, while it is retained.
    pub snapshot: Option<CycleSnapshot>,
    /// Verdicts of auditors on the cycle.
    pub audits: Vec<AuditRow>,
    pub suites: Vec<CycleSuite>,
    /// Id of the cycle before.
    pub previous: Option<String>,
    /// Id of the cycle after.
    pub next: Option<String>,
}

/// A suite with the runs that a cycle measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CycleSuite {
    pub suite_id: String,
    /// Ids of the measured runs, oldest first.
    pub runs: Vec<String>,
    /// Whether the cycle recorded its runs. Earlier versions did not: then they are derived from their times.
    pub is_recorded: bool,
}

impl CycleHead {
    /// Reads an entry of the log; `None` for other events.
    pub fn from_entry(entry: &Entry) -> Option<Self> {
        if entry.kind != "cycle" {
            return None;
        }
        let text = |name: &str| entry.body[name].as_str().unwrap_or_default().to_owned();
        Some(Self {
            cycle_id: entry.body["cycle_id"].as_str()?.to_owned(),
            at: entry.at,
            version: text("version"),
            score: entry.body["score"].as_f64(),
            level: text("level"),
            action: text("action"),
            is_unverified: entry.body["unverified"] == true,
        })
    }
}

impl HarnessOperations<'_> {
    /// Returns a recorded cycle with the runs that it measured.
    pub async fn cycle_detail(self, folder: &Path, cycle_id: &str) -> Result<CycleDetail, EngineError> {
        let state = self.state(folder).await?;
        let cycles: Vec<(&Entry, CycleHead)> = state
            .entries
            .iter()
            .filter_map(|entry| Some((entry, CycleHead::from_entry(entry)?)))
            .collect();
        let place = cycles.iter().position(|(_, head)| head.cycle_id == cycle_id);
        let no_cycle = || HarnessError::NoSuchCycle(cycle_id.to_owned());
        let place = place.ok_or_else(no_cycle)?;
        let (entry, head) = cycles.get(place).ok_or_else(no_cycle)?;
        let id_at = |place: Option<usize>| Some(cycles.get(place?)?.1.cycle_id.clone());
        let audits = state
            .store()
            .harness()
            .audits(&state.harness_id, 10 * RECENT_VERDICTS)
            .await?;
        Ok(CycleDetail {
            snapshot: state.cycle(cycle_id).await?,
            audits: audits
                .into_iter()
                .filter(|audit| audit.cycle_id == cycle_id)
                .collect(),
            suites: match recorded_runs(entry) {
                Some(suites) => suites,
                // Metrics from a file have no runs.
                None if head.is_unverified => Vec::new(),
                None => {
                    self.versions_until(folder, Some(head.at.as_microsecond()))
                        .await?
                }
            },
            previous: id_at(place.checked_sub(1)),
            next: id_at(Some(place + 1)),
            head: head.clone(),
        })
    }

    /// Runs of each suite that count as evidence now, or did at a time in microseconds.
    pub async fn versions_until(
        self,
        folder: &Path,
        until: Option<i64>,
    ) -> Result<Vec<CycleSuite>, EngineError> {
        let directory = HarnessDirectory::read(folder)?;
        let store = self.engine.store().await?;
        let mut suites = Vec::new();
        for loaded in &directory.suites {
            let rows = counted_rows(store, &directory, loaded, VERSIONS, until).await?;
            let newest = rows.into_iter().take(VERSIONS as usize).map(|row| row.run_id);
            let mut runs: Vec<String> = newest.collect();
            runs.reverse();
            suites.push(CycleSuite {
                suite_id: loaded.suite.suite_id.clone(),
                runs,
                is_recorded: false,
            });
        }
        Ok(suites)
    }

    /// Identifies what [`status`](Self::status) depends on: the files, the log, and the newest runs, baselines, gate
    /// verdicts and audits. A label that leaves the pass rate of a run as it is does not change it.
    pub async fn status_key(self, folder: &Path) -> Result<String, EngineError> {
        let directory = HarnessDirectory::read(folder)?;
        // A modified log or window is an error, as for `status`.
        let state = self.state(folder).await?;
        state.aggregate().await?;
        let store = state.store();
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: &str| {
            hasher.update(text.as_bytes());
            hasher.update(&[0]);
        };
        add(&directory.manifest.version());
        add(state.entries.last().map_or("", |entry| &entry.hash));
        for loaded in &directory.suites {
            add(&format!("{:?}", described_target(loaded, None)?));
            for row in counted_rows(store, &directory, loaded, VERSIONS, None).await? {
                add(&format!(
                    "{} {:?} {:?}",
                    row.run_id, row.completed_at, row.pass_rate
                ));
            }
            for row in store.bench().baselines(&loaded.suite.suite_id, 2).await? {
                add(&format!("{} {}", row.run_id, row.accepted_at));
            }
        }
        for row in store.bench().gates(None, RECENT_VERDICTS).await? {
            add(&row.gate_id);
        }
        for row in store
            .harness()
            .audits(&state.harness_id, 10 * RECENT_VERDICTS)
            .await?
        {
            add(&row.audit_id);
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}

/// Runs that the event of a cycle names, by suite.
fn recorded_runs(entry: &Entry) -> Option<Vec<CycleSuite>> {
    let suites = entry.body["runs"].as_object()?;
    let suite = |(suite_id, runs): (&String, &serde_json::Value)| CycleSuite {
        suite_id: suite_id.clone(),
        runs: runs
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|id| id.as_str().map(str::to_owned))
            .collect(),
        is_recorded: true,
    };
    Some(suites.iter().map(suite).collect())
}
