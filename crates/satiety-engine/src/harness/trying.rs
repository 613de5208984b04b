//! How the system does on a harness that is being changed: on one new case, and on everything that was there.

use std::collections::BTreeMap;

use satiety::bench::{GatePolicy, GateVerdict, leading, summarize};
use satiety::harness::CaseRef;
use satiety::harness::rules::figure;

use super::HarnessError;
use super::applying::ApplyRequest;
use super::folder::Folder;
use super::measuring::ThresholdState;
use crate::bench::{Progress, RunBenchRequest, Stop};
use crate::{Engine, EngineError};

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
                ..request.options.clone()
            })
            .await?;
        let ran = self.bench_run_plan(plan, stop, progress).await?;
        if ran.interrupted {
            return Ok(None);
        }
        let results = leading(&ran.run.results);
        let decided: Vec<bool> = results.iter().filter_map(|result| result.decided()).collect();
        if decided.is_empty() {
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
        let mut summaries = BTreeMap::new();
        let (mut wrong, mut held, mut without) = (Vec::new(), 0, 0);
        for loaded in &folder.suites {
            let plan = self
                .bench_plan(RunBenchRequest {
                    suite: loaded.file.clone(),
                    ..request.options.clone()
                })
                .await?;
            let ran = self.bench_run_plan(plan, stop, &mut *progress).await?;
            if ran.interrupted {
                return Ok(None);
            }
            let id = &loaded.suite.suite_id;
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
            summaries.insert(id.clone(), summarize(leading(&ran.run.results)));
        }
        for (name, threshold) in &folder.rules.thresholds {
            let found = name
                .rsplit_once('/')
                .and_then(|(suite, metric)| figure(summaries.get(suite)?, metric));
            if ThresholdState::of(name, *threshold, found).met == Some(false) {
                wrong.push(format!(
                    "{name} is {}, not {}",
                    found.unwrap_or_default(),
                    threshold.value
                ));
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
