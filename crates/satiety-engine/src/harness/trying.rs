//! How the system does on a harness that is being changed: on one new case, and on everything that was there.

use std::collections::BTreeMap;

use satiety::bench::{BenchmarkResult, GatePolicy, GateVerdict, leading};
use satiety::harness::CaseRef;
use satiety::harness::thresholds::{Figure, figure};

use super::HarnessError;
use super::applying::ApplyRequest;
use super::folder::Folder;
use super::measuring::ThresholdState;
use crate::bench::suites::LoadedSuite;
use crate::bench::{Progress, RunBenchRequest, Stop};
use crate::{Engine, EngineError};

/// The target that was named, for a suite that does not describe its own.
fn target_for(request: &ApplyRequest, loaded: &LoadedSuite) -> Option<String> {
    request
        .options
        .target
        .clone()
        .filter(|_| !crate::bench::describes_target(loaded))
}

impl Engine {
    /// Whether the system passes a new case: more than half of its decided repeats. Absent when it was interrupted.
    pub(super) async fn try_case(
        &self,
        request: &ApplyRequest,
        case: &CaseRef,
        stop: &Stop,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Option<bool>, EngineError> {
        let folder = Folder::read(&request.folder)?;
        let Some(loaded) = folder.suite(&case.suite) else {
            return Err(HarnessError::NotWritable {
                suite: case.suite.clone(),
                reason: "it is gone".into(),
            }
            .into());
        };
        let plan = self
            .bench_plan(RunBenchRequest {
                suite: loaded.file.clone(),
                cases: vec![case.case_id.clone()],
                target: target_for(request, loaded),
                ..request.options.clone()
            })
            .await?;
        let ran = self.bench_run_plan(plan, stop, progress).await?;
        if ran.interrupted {
            return Ok(None);
        }
        let results = leading(&ran.run.results);
        let decided: Vec<bool> = results.iter().filter_map(|result| result.passed()).collect();
        // A system that never answers is more likely missing than failing; somebody should look before it counts.
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

    /// Runs every suite and holds it against its baseline and the tightened thresholds.
    pub(super) async fn verify_baseline(
        &self,
        request: &ApplyRequest,
        stop: &Stop,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Option<(bool, String)>, EngineError> {
        let folder = Folder::read(&request.folder)?;
        let mut found: BTreeMap<String, Vec<BenchmarkResult>> = BTreeMap::new();
        let (mut wrong, mut held, mut without) = (Vec::new(), 0, 0);
        for loaded in &folder.suites {
            let plan = self
                .bench_plan(RunBenchRequest {
                    suite: loaded.file.clone(),
                    target: target_for(request, loaded),
                    ..request.options.clone()
                })
                .await?;
            let ran = self.bench_run_plan(plan, stop, &mut *progress).await?;
            if ran.interrupted {
                return Ok(None);
            }
            let id = &loaded.suite.suite_id;
            let failed = leading(&ran.run.results)
                .into_iter()
                .find(|result| result.regression && result.passed() == Some(false));
            if let Some(failed) = failed {
                wrong.push(format!(
                    "{id}/{} is in the regression tier and fails",
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
            let figure = name
                .rsplit_once('/')
                .and_then(|(suite, metric)| {
                    Some(figure(&found.get(suite)?.iter().collect::<Vec<_>>(), metric))
                })
                .unwrap_or_else(Figure::default);
            let state = ThresholdState::of(name, *threshold, &figure);
            if state.met == Some(false) {
                let told = state
                    .found
                    .map_or_else(|| "not known".into(), |found| found.to_string());
                wrong.push(format!("{name} is {told}, not {}", threshold.value));
            }
        }
        if wrong.is_empty() {
            return Ok(Some((
                true,
                format!("{held} suite(s) as good as their baseline, {without} without one"),
            )));
        }
        Ok(Some((false, wrong.join("; "))))
    }
}
