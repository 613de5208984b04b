//! Trial runs on a harness that is being changed: a single new case, and all existing suites.

use crate::handles::HarnessOperations;
use std::collections::BTreeMap;

use satiety::bench::{BenchmarkResult, GatePolicy, GateVerdict, leading};
use satiety::harness::manifest::CaseEntry;
use satiety::harness::thresholds::{MetricValue, metric_value};
use satiety::harness::{CaseRef, Manifest};

use super::HarnessError;
use super::apply::ApplyRequest;
use super::directory::HarnessDirectory;
use super::measurement::ThresholdState;
use crate::EngineError;
use crate::bench::suites::LoadedSuite;
use crate::bench::{Progress, RunBenchRequest, Stop};

/// The named target, for a suite that does not describe its own.
fn target_for(request: &ApplyRequest, loaded: &LoadedSuite) -> Option<String> {
    request
        .options
        .target
        .clone()
        .filter(|_| !crate::bench::describes_target(loaded))
}

/// Checks that the files are the signed harness.
fn same_harness(folder: &HarnessDirectory, expected: &Manifest) -> Result<(), EngineError> {
    if folder.manifest == *expected {
        return Ok(());
    }
    let diff = satiety::harness::compare(expected, &folder.manifest).map_err(HarnessError::from)?;
    let what: Vec<String> = diff
        .changes
        .iter()
        .map(|change| format!("{}: {}", change.place, change.reason))
        .collect();
    Err(HarnessError::Changed {
        what: what.join("; "),
    }
    .into())
}

/// Checks that a suite has the signed cases before it is run; a single one, or all.
fn same_cases(loaded: &LoadedSuite, expected: &Manifest, only: Option<&str>) -> Result<(), EngineError> {
    let suite = &loaded.suite;
    let found: BTreeMap<&str, CaseEntry> = suite
        .cases
        .iter()
        .map(|case| (case.case_id.as_str(), CaseEntry::of(suite, case, &loaded.files)))
        .collect();
    let signed = expected.suites.get(&suite.suite_id);
    let wanted = signed
        .into_iter()
        .flatten()
        .filter(|(id, _)| only.is_none_or(|only| only == **id));
    let mut count = 0;
    for (id, entry) in wanted {
        count += 1;
        if found.get(id.as_str()) != Some(entry) {
            return Err(HarnessError::Changed {
                what: format!("suites.{}.{id}", suite.suite_id),
            }
            .into());
        }
    }
    if count == found.len() {
        return Ok(());
    }
    Err(HarnessError::Changed {
        what: format!("suites.{} has other cases", suite.suite_id),
    }
    .into())
}

impl HarnessOperations<'_> {
    /// Whether the system passes a new case: more than half of its decided repeats. `None` if interrupted.
    pub(super) async fn try_case(
        self,
        request: &ApplyRequest,
        expected: &Manifest,
        case: &CaseRef,
        stop: &Stop,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Option<bool>, EngineError> {
        let folder = HarnessDirectory::read(&request.folder)?;
        let Some(loaded) = folder.suite(&case.suite) else {
            return Err(HarnessError::NotWritable {
                suite: case.suite.clone(),
                reason: "it is missing".into(),
            }
            .into());
        };
        let plan = self
            .engine
            .bench()
            .plan(RunBenchRequest {
                suite: loaded.file.clone(),
                cases: vec![case.case_id.clone()],
                target: target_for(request, loaded),
                ..request.options.clone()
            })
            .await?;
        // Only signed content is run, even if the files changed after they were read.
        same_cases(plan.suite(), expected, Some(&case.case_id))?;
        let ran = self.engine.bench().execute(plan, stop, progress).await?;
        if ran.interrupted {
            return Ok(None);
        }
        let results = leading(&ran.run.results);
        let decided: Vec<bool> = results.iter().filter_map(|result| result.passed()).collect();
        // A system that never responds is more likely unavailable than failing; a person should check before
        // it counts.
        if results.iter().all(|result| result.decided().is_none()) {
            let first = results.first();
            let reason =
                first.and_then(|result| result.error.clone().or_else(|| result.reasons.first().cloned()));
            return Err(HarnessError::Undecided {
                case: format!("{}/{}", case.suite, case.case_id),
                reason: reason.unwrap_or_else(|| "no reason was given".into()),
            }
            .into());
        }
        let passes = decided.iter().filter(|passed| **passed).count();
        Ok(Some(2 * passes > decided.len()))
    }

    /// Runs every suite and compares it with its baseline and the tightened thresholds.
    pub(super) async fn verify_baseline(
        self,
        request: &ApplyRequest,
        expected: &Manifest,
        stop: &Stop,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Option<(bool, String)>, EngineError> {
        let folder = HarnessDirectory::read(&request.folder)?;
        same_harness(&folder, expected)?;
        let mut found: BTreeMap<String, Vec<BenchmarkResult>> = BTreeMap::new();
        let (mut wrong, mut held, mut without) = (Vec::new(), 0, 0);
        for loaded in &folder.suites {
            let plan = self
                .engine
                .bench()
                .plan(RunBenchRequest {
                    suite: loaded.file.clone(),
                    target: target_for(request, loaded),
                    ..request.options.clone()
                })
                .await?;
            same_cases(plan.suite(), expected, None)?;
            let ran = self.engine.bench().execute(plan, stop, &mut *progress).await?;
            if ran.interrupted {
                return Ok(None);
            }
            let id = &loaded.suite.suite_id;
            let failed = leading(&ran.run.results)
                .into_iter()
                .find(|result| result.regression && result.passed() == Some(false));
            if let Some(failed) = failed {
                wrong.push(format!(
                    "{id}/{} is in the regression tier and failed",
                    failed.case_id
                ));
            }
            match &ran.baseline {
                None => without += 1,
                Some(baseline) => {
                    let policy = folder
                        .rules
                        .gates
                        .get(id)
                        .cloned()
                        .unwrap_or_else(GatePolicy::default);
                    let report = crate::bench::judge(baseline, &ran.run, &policy)?;
                    if report.verdict == GateVerdict::Regression {
                        let why = report.reasons.first().cloned().unwrap_or_default();
                        wrong.push(format!("{id} is worse than its baseline ({why})"));
                    } else {
                        held += 1;
                    }
                }
            }
            found.insert(
                id.clone(),
                leading(&ran.run.results).into_iter().cloned().collect(),
            );
        }
        for (name, threshold) in &folder.rules.thresholds {
            let value = name
                .rsplit_once('/')
                .and_then(|(suite, metric)| {
                    Some(metric_value(
                        &found.get(suite)?.iter().collect::<Vec<_>>(),
                        metric,
                    ))
                })
                .unwrap_or_else(MetricValue::default);
            let state = ThresholdState::new(name, *threshold, &value);
            if state.met == Some(false) {
                let actual = state
                    .found
                    .map_or_else(|| "unknown".into(), |found| found.to_string());
                wrong.push(format!("{name} is {actual}, expected {}", threshold.value));
            }
        }
        same_harness(&HarnessDirectory::read(&request.folder)?, expected)?;
        if wrong.is_empty() {
            return Ok(Some((
                true,
                format!("{held} suite(s) as good as their baseline, {without} without one"),
            )));
        }
        Ok(Some((false, wrong.join("; "))))
    }
}
