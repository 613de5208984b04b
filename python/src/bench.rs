//! `satiety.bench`: the regression gate, the sequential test, power and saturation.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use satiety::bench::result_file::{FilePlace, read_result_file, read_table};
use satiety::bench::{
    self, BenchmarkResult, BenchmarkRun, Design, GatePolicy, ResultOptions, ResultTable, ScoreChoice,
    Sequential as Test, SequentialSettings, Status, SuiteError, read_inspect_members,
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

    /// Reads a result file of any known tool. `beside` has the texts of files in the same directory; `rows` says
    /// that the text is a JSON list of the rows of a table in a binary format.
    #[staticmethod]
    #[pyo3(signature = (path, folder, changed_at, text, beside, options, rows=false))]
    #[expect(
        clippy::too_many_arguments,
        reason = "called from one place, which names them"
    )]
    fn from_file(
        py: Python<'_>,
        path: &str,
        folder: &str,
        changed_at: f64,
        text: &str,
        beside: BTreeMap<String, String>,
        options: FileOptions,
        rows: bool,
    ) -> PyResult<Self> {
        let options = result_options(options)?;
        compute(py, || {
            let place = FilePlace {
                path,
                folder,
                changed_at: timestamp(changed_at),
                beside: &|name| Some((name.to_owned(), beside.get(name)?.clone())),
            };
            let found = if rows {
                let rows: Vec<serde_json::Map<String, serde_json::Value>> =
                    serde_json::from_str(text).map_err(|error| Failure::new(error.to_string()).at(path))?;
                let places = (0..).map(|index| format!("[{index}]"));
                let table = ResultTable::from_objects(places.zip(rows));
                read_table(&place, "parquet", &table, &options)
                    .and_then(|found| found.checked(path, &options))
                    .map(Some)
            } else {
                read_result_file(&place, text, &options)
            };
            match found.map_err(|error| file_failure(&error).at(path))? {
                Some(found) => Ok(Self(found.import.run)),
                None => Err(
                    Failure::new(format!("cannot read {path}: it has no results of a known tool"))
                        .hint("see which files are read: `satiety bench import --help`")
                        .at(path),
                ),
            }
        })
    }

    /// Reads the members of an Inspect `.eval` archive.
    #[staticmethod]
    fn from_inspect(
        py: Python<'_>,
        name: &str,
        header: &str,
        samples: Vec<String>,
        options: FileOptions,
    ) -> PyResult<Self> {
        let options = result_options(options)?;
        compute(py, || {
            let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
            read_inspect_members(name, header, &samples, &options.choice)
                .map(|log| Self(log.run))
                .map_err(|error| file_failure(&error).at(name))
        })
    }

    fn __len__(&self) -> usize {
        self.0.results.len()
    }
}

/// Deciding score, its threshold, its range, whether lower is better, and columns as `ROLE=COLUMN`.
type FileOptions = (Option<String>, Option<f64>, Option<(f64, f64)>, bool, Vec<String>);

fn result_options(options: FileOptions) -> PyResult<ResultOptions> {
    let (scorer, threshold, range, lower_is_better, columns) = options;
    let columns = columns.iter().map(|text| {
        text.parse()
            .map_err(|error: String| Failure::new(error).at("columns"))
    });
    Ok(ResultOptions {
        choice: ScoreChoice {
            scorer,
            threshold,
            range,
            lower_is_better,
        },
        columns: columns.collect::<Result<_, _>>()?,
        suite_id: None,
    })
}

/// Error of a result file, with the argument that makes the choice which it leaves open.
fn file_failure(error: &SuiteError) -> Failure {
    let field = match error {
        SuiteError::Field { field, .. } => field.as_str(),
        _ => "",
    };
    let failure = Failure::new(error.to_string());
    match field {
        "scorer" => failure.hint("name the scorer that decides: scorer=..."),
        "threshold" => {
            failure.hint("say from which value a sample passes: threshold=..., or range=(low, high)")
        }
        "range" => failure.hint("give the scale of the scorer: range=(low, high)"),
        "columns" => failure.hint("say what the columns mean: columns={\"case\": ..., \"passed\": ...}"),
        _ => failure,
    }
}

fn timestamp(seconds: f64) -> jiff::Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "float-to-int casts saturate")]
    let micros = (seconds * 1e6) as i64;
    jiff::Timestamp::from_microsecond(micros).unwrap_or_default()
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
