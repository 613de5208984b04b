//! `satiety.bench`: the regression gate, the sequential test, power and saturation.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use satiety::bench::{
    self, BenchmarkResult, BenchmarkRun, Design, GatePolicy, ScoreChoice, Sequential as Test,
    SequentialSettings, Status, read_inspect_log, read_inspect_members,
};
use satiety::harness::measurement::{Matrix, MeasureSettings, measure, saturation_evidence};
use serde_json::json;

use crate::convert::{from_python, settings, to_python};
use crate::error::{Failure, compute};

type Output<'py> = PyResult<Bound<'py, PyAny>>;

/// One result: case, repeat, status, score and latency in milliseconds.
type Row = (String, u32, String, Option<f64>, Option<f64>);

/// Results of a run, from rows or from a log.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Results(BenchmarkRun);

#[pymethods]
impl Results {
    #[new]
    fn new(name: String, rows: Vec<Row>) -> PyResult<Self> {
        let mut results = Vec::with_capacity(rows.len());
        for (index, (case, repeat, status, score, latency_ms)) in rows.into_iter().enumerate() {
            let place = |field: &str| format!("{name}[{index}].{field}");
            let status = status_named(&status).ok_or_else(|| {
                Failure::new(format!(
                    "{} is `{status}` (expected one of: pass, fail, error, timeout, skipped, pending)",
                    place("passed")
                ))
                .at(place("passed"))
            })?;
            for (field, value) in [("score", score), ("latency_ms", latency_ms)] {
                if value.is_some_and(|value| !value.is_finite()) {
                    return Err(Failure::new(format!("{} must be a finite number", place(field)))
                        .at(place(field))
                        .into());
                }
            }
            let mut result = BenchmarkResult::new(case, repeat, status);
            // The gate compares the scores of judges.
            (result.score, result.llm_judge_score) = (score, score);
            result.latency_ms = latency_ms.unwrap_or_default();
            results.push(result);
        }
        Ok(Self(BenchmarkRun {
            run_id: name,
            suite_id: "python".to_owned(),
            suite_hash: None,
            target: String::new(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: BTreeMap::new(),
            results,
            summary: None,
        }))
    }

    /// Reads a run that `satiety` exported, or an Inspect log in JSON.
    #[staticmethod]
    fn from_json(
        py: Python<'_>,
        name: &str,
        text: &str,
        scorer: Option<String>,
        threshold: Option<f64>,
    ) -> PyResult<Self> {
        let choice = choice(scorer, threshold);
        compute(py, || {
            let own = serde_json::from_str::<BenchmarkRun>(text);
            let run = match own {
                Ok(run) => run,
                Err(own) => {
                    let log = read_inspect_log(name, text, &choice).map_err(|inspect| {
                        Failure::new(format!(
                            "cannot read {name}: not a run ({own}) and not an Inspect log ({inspect})"
                        ))
                        .at(name)
                    })?;
                    log.run
                }
            };
            Ok(Self(run))
        })
    }

    /// Reads the members of an Inspect `.eval` archive.
    #[staticmethod]
    fn from_inspect(
        py: Python<'_>,
        name: &str,
        header: &str,
        samples: Vec<String>,
        scorer: Option<String>,
        threshold: Option<f64>,
    ) -> PyResult<Self> {
        let choice = choice(scorer, threshold);
        compute(py, || {
            let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
            read_inspect_members(name, header, &samples, &choice)
                .map(|log| Self(log.run))
                .map_err(|error| Failure::new(error.to_string()).at(name))
        })
    }

    fn __len__(&self) -> usize {
        self.0.results.len()
    }
}

/// Choice of the score of an Inspect log that decides.
fn choice(scorer: Option<String>, threshold: Option<f64>) -> ScoreChoice {
    ScoreChoice {
        scorer,
        threshold,
        ..ScoreChoice::default()
    }
}

fn status_named(name: &str) -> Option<Status> {
    serde_json::from_value(serde_json::Value::from(name)).ok()
}

/// Regression gate over two runs.
#[pyfunction]
pub(crate) fn bench_compare<'py>(
    py: Python<'py>,
    before: &Bound<'py, Results>,
    after: &Bound<'py, Results>,
    policy: &Bound<'py, PyDict>,
) -> Output<'py> {
    let policy: GatePolicy = settings(policy, "policy")?;
    let (before, after) = (&before.get().0, &after.get().0);
    let report = compute(py, || Ok(bench::compare(before, after, &policy)?))?;
    to_python(py, &report)
}

/// What a design can detect.
#[pyfunction]
pub(crate) fn bench_power<'py>(py: Python<'py>, design: &Bound<'py, PyDict>) -> Output<'py> {
    let design: Design = crate::convert::overlay(&Design::new(1, 1), design, "design")?;
    let statement = bench::statement(design).map_err(Failure::from)?;
    to_python(py, &statement)
}

/// Whether a suite still discriminates, from its runs with the accepted one last.
#[pyfunction]
pub(crate) fn bench_saturation<'py>(
    py: Python<'py>,
    runs: Vec<Py<Results>>,
    options: &Bound<'py, PyDict>,
) -> Output<'py> {
    let options: MeasureSettings = settings(options, "options")?;
    let runs: Vec<&BenchmarkRun> = runs.iter().map(|run| &run.get().0).collect();
    let found = compute(py, || {
        let failed =
            |error: satiety::harness::measurement::MeasureError| Failure::new(error.to_string()).at("runs");
        let matrix = Matrix::from_runs(&runs, &BTreeMap::new()).map_err(failed)?;
        Ok(json!({
            "measured": measure(&matrix, &options).map_err(failed)?,
            "evidence": saturation_evidence(&matrix, &options).map_err(failed)?,
        }))
    })?;
    to_python(py, &found)
}

/// Sequential test that stops repeats as soon as the result is clear.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Sequential(Mutex<Test>);

#[pymethods]
impl Sequential {
    #[new]
    fn new(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options: SequentialSettings = from_python(options, "options")?;
        let test = Test::new(options).map_err(|error| Failure::new(error.to_string()).at("options"))?;
        Ok(Self(Mutex::new(test)))
    }

    fn observe<'py>(
        &self,
        py: Python<'py>,
        case: &str,
        repeat: u32,
        before: bool,
        after: bool,
    ) -> Output<'py> {
        let state = compute(py, || {
            let mut test = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            test.observe(case, repeat, before, after)
                .map_err(|error| Failure::new(error.to_string()).at("case"))?;
            Ok(state(&test))
        })?;
        to_python(py, &state)
    }

    fn state<'py>(&self, py: Python<'py>) -> Output<'py> {
        let state = py.detach(|| state(&self.0.lock().unwrap_or_else(PoisonError::into_inner)));
        to_python(py, &state)
    }
}

fn state(test: &Test) -> serde_json::Value {
    use satiety::bench::{Progress, Side};
    let outcome = match test.progress() {
        Progress::Continue => "continue",
        Progress::Decided(Side::Better) => "better",
        Progress::Decided(Side::Worse) => "worse",
        Progress::NoDifference => "no_difference",
        Progress::Exhausted => "exhausted",
    };
    json!({
        "outcome": outcome,
        "pairs": test.pairs(),
        "difference": test.difference(),
        "e_value": test.e_value(),
        "calls_saved": test.calls_saved(),
    })
}
