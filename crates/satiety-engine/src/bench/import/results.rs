//! Result files of other tools: which tool wrote a file, and the run that it describes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use satiety::Hint;
use satiety::bench::{
    BenchmarkRun, ColumnChoice, ColumnUse, HelmFiles, Named, ResultOrigin, ResultTable, RunImport,
    ScoreChoice, SuiteError, is_lm_eval_samples, is_pytest_log, read_deepeval, read_helm, read_inspect_log,
    read_lm_eval_samples, read_promptfoo_results, read_pytest_log, read_pytest_report, read_result_table,
};
use serde_json::{Map, Value};

use super::{from_archive, read_junit, read_parquet};
use crate::EngineError;
use crate::bench::history::parse_run;
use crate::bench::suites::{display_path, read};

/// File with the metrics of a HELM run.
const HELM_STATS: &str = "per_instance_stats.json";

/// Format of `bench report --format json`.
pub(in crate::bench) const SATIETY: &str = "satiety";

/// How to read a result file where it leaves a choice.
#[derive(Debug, Clone, Default)]
pub struct ResultOptions {
    /// Score that decides, and its threshold.
    pub choice: ScoreChoice,
    /// Meaning of columns of a table; all others are guessed.
    pub columns: Vec<ColumnChoice>,
    /// Id of the suite; the one of the file if `None`.
    pub suite_id: Option<String>,
}

/// Results of another tool as a run.
#[derive(Debug)]
pub(in crate::bench) struct ResultFile {
    pub(in crate::bench) import: RunImport,
    /// Name of the tool or format.
    pub(in crate::bench) tool: &'static str,
    /// Whether the file itself says which suite it is about.
    pub(in crate::bench) names_suite: bool,
    /// Meaning of the columns of a table.
    pub(in crate::bench) columns: Vec<ColumnUse>,
}

impl ResultFile {
    /// Results of a tool whose files name their suite or task.
    fn named(tool: &'static str, import: RunImport) -> Self {
        Self {
            names_suite: true,
            ..Self::unnamed(tool, import)
        }
    }

    /// Results whose suite is known by the name of the file, or by a name that differs between runs.
    fn unnamed(tool: &'static str, import: RunImport) -> Self {
        Self {
            import,
            tool,
            names_suite: false,
            columns: Vec::new(),
        }
    }
}

/// Contents of a file to import.
pub(in crate::bench) enum Contents {
    /// Results of a known tool.
    Results(Box<ResultFile>),
    /// Text of anything else, such as a suite.
    Text(String),
}

/// Whether a path is a run directory of HELM.
pub(in crate::bench) fn is_helm_directory(path: &Path) -> bool {
    path.join(HELM_STATS).is_file()
}

/// Reads a file or a run directory of HELM, and recognizes results by extension and keys.
pub(in crate::bench) fn read_contents(path: &Path, options: &ResultOptions) -> Result<Contents, EngineError> {
    let name = display_path(path);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    let mut found = if is_helm_directory(path) {
        helm(&path.join(HELM_STATS), None, options)?
    } else if extension == "eval" {
        ResultFile::named("inspect", from_archive(path, &options.choice)?)
    } else if extension == "parquet" {
        table(path, "parquet", &read_parquet(path)?, options)?
    } else {
        let text = read(path)?;
        match from_text(path, &extension, &text, options)? {
            Some(found) => found,
            None => return Ok(Contents::Text(text)),
        }
    };
    if let Some(suite_id) = &options.suite_id {
        found.import.run.suite_id.clone_from(suite_id);
        found.names_suite = true;
    }
    check_keys(&name, &found.import.run)?;
    Ok(Contents::Results(Box::new(found)))
}

fn from_text(
    path: &Path,
    extension: &str,
    text: &str,
    options: &ResultOptions,
) -> Result<Option<ResultFile>, EngineError> {
    let name = &*display_path(path);
    let file = Named { file: name, text };
    let choice = &options.choice;
    Ok(Some(match extension {
        "xml" => ResultFile::unnamed("junit", read_junit(file, file_origin(path)?)?),
        "csv" => {
            let rows = ResultTable::from_csv(name, text, b',')?;
            table(path, "csv", &rows, options)?
        }
        "tsv" => {
            let rows = ResultTable::from_csv(name, text, b'\t')?;
            table(path, "tsv", &rows, options)?
        }
        "jsonl" | "ndjson" if is_lm_eval_samples(text) => {
            let samples = read_lm_eval_samples(name, text, samples_origin(path)?, choice)?;
            ResultFile::named("lm-eval", samples)
        }
        "jsonl" | "ndjson" if is_pytest_log(text) => {
            ResultFile::unnamed("pytest", read_pytest_log(file, file_origin(path)?)?)
        }
        "jsonl" | "ndjson" => {
            let rows = ResultTable::from_json_lines(name, text)?;
            table(path, "jsonl", &rows, options)?
        }
        "json" => match JsonShape::of(text) {
            JsonShape::Run => ResultFile::named(SATIETY, own_run(path, text)?),
            JsonShape::InspectLog => ResultFile::named("inspect", read_inspect_log(name, text, choice)?),
            JsonShape::PromptfooResults => ResultFile::named("promptfoo", read_promptfoo_results(file)?),
            JsonShape::PytestReport => {
                ResultFile::unnamed("pytest", read_pytest_report(file, file_origin(path)?)?)
            }
            JsonShape::DeepEval => {
                ResultFile::unnamed("deepeval", read_deepeval(file, file_origin(path)?, choice)?)
            }
            JsonShape::Helm => helm(path, Some(text), options)?,
            JsonShape::Rows(rows) => {
                let places = (0..).map(|index| format!("[{index}]"));
                let rows = ResultTable::from_objects(places.zip(rows));
                table(path, "json", &rows, options)?
            }
            JsonShape::Other => return Ok(None),
        },
        "yaml" | "yml" if is_promptfoo_yaml(file) => {
            ResultFile::named("promptfoo", read_promptfoo_results(file)?)
        }
        _ => return Ok(None),
    }))
}

/// Reads the rows of a table.
fn table(
    path: &Path,
    format: &'static str,
    rows: &ResultTable,
    options: &ResultOptions,
) -> Result<ResultFile, EngineError> {
    let name = display_path(path);
    let origin = file_origin(path)?;
    let found = read_result_table(&name, rows, origin, &options.columns, &options.choice)?;
    Ok(ResultFile {
        columns: found.columns,
        ..ResultFile::unnamed(format, found.import)
    })
}

/// Reads the statistics of a HELM run with the files next to them.
fn helm(path: &Path, text: Option<&str>, options: &ResultOptions) -> Result<ResultFile, EngineError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| -> Result<Option<(String, String)>, EngineError> {
        let path = folder.join(name);
        if !path.is_file() {
            return Ok(None);
        }
        Ok(Some((display_path(&path), read(&path)?)))
    };
    let (state, spec) = (beside("scenario_state.json")?, beside("run_spec.json")?);
    let stats = match text {
        Some(text) => text.to_owned(),
        None => read(path)?,
    };
    let files = HelmFiles {
        stats: Named {
            file: &display_path(path),
            text: &stats,
        },
        scenario_state: state.as_ref().map(|(file, text)| Named { file, text }),
        run_spec: spec.as_ref().map(|(file, text)| Named { file, text }),
    };
    let run = read_helm(files, file_origin(path)?, &options.choice)?;
    Ok(ResultFile {
        names_suite: spec.is_some(),
        ..ResultFile::unnamed("helm", run)
    })
}

/// What a JSON file is, judged by its keys.
enum JsonShape {
    Run,
    InspectLog,
    PromptfooResults,
    PytestReport,
    DeepEval,
    Helm,
    Rows(Vec<Map<String, Value>>),
    Other,
}

impl JsonShape {
    #[expect(
        clippy::zero_sized_map_values,
        reason = "only the keys are needed; the values of a large log are skipped"
    )]
    fn of(text: &str) -> Self {
        if let Ok(rows) = serde_json::from_str::<Vec<Map<String, Value>>>(text) {
            return match rows.first() {
                Some(first) if first.contains_key("instance_id") && first.contains_key("stats") => Self::Helm,
                Some(_) => Self::Rows(rows),
                None => Self::Other,
            };
        }
        let keys = serde_json::from_str::<BTreeMap<String, serde::de::IgnoredAny>>(text);
        let Ok(keys) = keys else {
            // Text that is not strict JSON is either a log with NaN or infinite numbers, or invalid; the log
            // reader reports which.
            return if text.contains("\"eval\"") {
                Self::InspectLog
            } else {
                Self::Other
            };
        };
        let has = |key: &str| keys.contains_key(key);
        if has("run_id") && has("suite_id") && has("results") {
            Self::Run
        } else if has("eval") || has("samples") {
            Self::InspectLog
        } else if has("testCases") || has("testRunData") || has("conversationalTestCases") {
            Self::DeepEval
        } else if has("tests") && has("exitcode") {
            Self::PytestReport
        } else if has("results") {
            // Configurations do not have the key.
            Self::PromptfooResults
        } else {
            Self::Other
        }
    }
}

fn is_promptfoo_yaml(file: Named<'_>) -> bool {
    let parsed = satiety::bench::reader::parse(file);
    parsed.is_ok_and(|value| {
        let results = value.get("results");
        results.is_some_and(|results| results.is_array() || results.get("results").is_some())
    })
}

/// A run that Satiety itself exported.
fn own_run(path: &Path, text: &str) -> Result<RunImport, EngineError> {
    parse_run(path, text).map(RunImport::from)
}

/// Rejects a run with two results for the same case, variant and repeat.
fn check_keys(file: &str, run: &BenchmarkRun) -> Result<(), SuiteError> {
    let mut seen = BTreeSet::new();
    for (index, result) in run.results.iter().enumerate() {
        if !seen.insert((&result.case_id, &result.variant, result.repeat)) {
            return Err(SuiteError::Field {
                file: file.to_owned(),
                field: format!("samples[{index}].id"),
                reason: format!(
                    "duplicate sample `{}` with epoch {}",
                    result.case_id,
                    result.repeat + 1
                ),
            });
        }
    }
    Ok(())
}

/// Name and time of a file whose contents do not state them.
fn file_origin(path: &Path) -> Result<ResultOrigin, EngineError> {
    let changed = fs_err::metadata(path)
        .and_then(|file| file.modified())
        .map_err(|cause| EngineError::file("read", path, cause))?;
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    Ok(ResultOrigin {
        suite_id: text(path.file_stem()),
        target: text(path.file_name()),
        recorded_at: jiff::Timestamp::try_from(changed).unwrap_or_default(),
    })
}

/// Task, model and time of a file `MODEL/samples_TASK_TIME.jsonl`; the time of the file if its name has none.
fn samples_origin(path: &Path) -> Result<ResultOrigin, EngineError> {
    let mut origin = file_origin(path)?;
    let stem = std::mem::take(&mut origin.suite_id);
    let name = stem.strip_prefix("samples_").unwrap_or(&stem);
    let (task, time) = name.rsplit_once('_').unwrap_or((name, ""));
    // Colons are not allowed in file names everywhere, so times are written with hyphens.
    let written = time
        .split_once('T')
        .and_then(|(day, hour)| format!("{day}T{}Z", hour.replace('-', ":")).parse().ok());
    let suite = if written.is_some() { task } else { name };
    suite.clone_into(&mut origin.suite_id);
    origin.recorded_at = written.unwrap_or(origin.recorded_at);
    let folder = std::path::absolute(path).ok();
    let model = folder.as_deref().and_then(|path| path.parent()?.file_name());
    origin.target = model.map_or_else(String::new, |model| model.to_string_lossy().into_owned());
    Ok(origin)
}

/// Adds a hint about result files: the flag that makes the choice which a file leaves open, or the formats.
pub(in crate::bench) fn with_flag(error: EngineError) -> EngineError {
    let EngineError::Suite(cause) = &error else {
        return error;
    };
    let field = match cause {
        SuiteError::Field { field, .. } => field.as_str(),
        _ => "",
    };
    let hint = match field {
        "scorer" => Hint::with_command("name the scorer that decides", "--scorer NAME"),
        "threshold" => Hint::with_command(
            "say from which value a sample passes, or give the scale",
            "--threshold VALUE, --range MIN..MAX",
        ),
        "range" => Hint::with_command("give the scale of the scorer", "--range MIN..MAX"),
        "columns" => Hint::with_command(
            "say what the columns mean",
            "--map case=COLUMN,passed=COLUMN,score:NAME=COLUMN",
        ),
        _ => Hint::with_command("see which files are read", "satiety bench import --help"),
    };
    EngineError::Invalid {
        message: error.to_string(),
        hint,
    }
}
