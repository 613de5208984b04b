//! Result files of other tools: which tool wrote a file, judged by its extension and keys, and the run that it
//! describes. All surfaces read files through this module; the caller reads the bytes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::deepeval::read_deepeval;
use super::helm::{HelmFiles, read_helm};
use super::imported_run::{ResultOrigin, RunImport, ScoreChoice, field_error};
use super::inspect_log::read_inspect_log;
use super::lm_eval::{is_lm_eval_samples, read_lm_eval_samples};
use super::promptfoo::read_promptfoo_results;
use super::pytest::{is_pytest_log, read_pytest_log, read_pytest_report};
use super::reader::{Named, SuiteError};
use super::run::BenchmarkRun;
use super::table::{ColumnChoice, ColumnUse, ResultTable, read_result_table};

/// Name of the files that `bench report --format json` writes, as the tool of a [`ResultFile`].
pub const OWN_FORMAT: &str = "satiety";

/// File of a HELM run directory that has the metrics.
pub const HELM_STATS: &str = "per_instance_stats.json";

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
pub struct ResultFile {
    /// The run, its scores, and what was lost.
    pub import: RunImport,
    /// Name of the tool or format.
    pub tool: &'static str,
    /// Whether the file itself says which suite it is about.
    pub names_suite: bool,
    /// Meaning of the columns of a table.
    pub columns: Vec<ColumnUse>,
}

impl ResultFile {
    /// Results of a tool whose files name their suite or task.
    pub fn named(tool: &'static str, import: RunImport) -> Self {
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

    /// Applies the choice of a suite, and rejects a run with two results for the same case, variant and repeat.
    pub fn checked(mut self, file: &str, options: &ResultOptions) -> Result<Self, SuiteError> {
        if let Some(suite_id) = &options.suite_id {
            self.import.run.suite_id.clone_from(suite_id);
            self.names_suite = true;
        }
        let mut seen = BTreeSet::new();
        for (index, result) in self.import.run.results.iter().enumerate() {
            if !seen.insert((&result.case_id, &result.variant, result.repeat)) {
                let reason = format!(
                    "duplicate sample `{}` with epoch {}",
                    result.case_id,
                    result.repeat + 1
                );
                return Err(field_error(file, &format!("samples[{index}].id"), &reason));
            }
        }
        Ok(self)
    }
}

/// Place of a result file: what is known about it besides its text.
pub struct FilePlace<'a> {
    /// Path as messages show it. Its extension selects the format, its name is the fallback for the suite.
    pub path: &'a str,
    /// Name of the directory that contains the file.
    pub folder: &'a str,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// Reads a file of the same directory; the result has the path and the text.
    pub beside: &'a dyn Fn(&str) -> Option<(String, String)>,
}

impl FilePlace<'_> {
    fn name(&self) -> &str {
        self.path.rsplit(['/', '\\']).next().unwrap_or(self.path)
    }

    fn extension(&self) -> String {
        let name = self.name();
        name.rsplit_once('.')
            .map_or(String::new(), |(_, extension)| extension.to_ascii_lowercase())
    }

    /// Names and time for a file whose contents do not state them.
    fn origin(&self) -> ResultOrigin {
        let name = self.name();
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        ResultOrigin {
            suite_id: stem.to_owned(),
            target: name.to_owned(),
            recorded_at: self.changed_at,
        }
    }

    /// Task, model and time of a file `MODEL/samples_TASK_TIME.jsonl`; the time of the file if its name has none.
    fn samples_origin(&self) -> ResultOrigin {
        let mut origin = self.origin();
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
        self.folder.clone_into(&mut origin.target);
        origin
    }
}

/// Reads a result file; `None` if it is not one of a known tool, such as a suite.
pub fn read_result_file(
    place: &FilePlace<'_>,
    text: &str,
    options: &ResultOptions,
) -> Result<Option<ResultFile>, SuiteError> {
    let file = Named {
        file: place.path,
        text,
    };
    let choice = &options.choice;
    let found = match place.extension().as_str() {
        "xml" => ResultFile::unnamed("junit", read_xml(file, place.origin())?),
        "csv" => read_table(
            place,
            "csv",
            &ResultTable::from_csv(place.path, text, b',')?,
            options,
        )?,
        "tsv" => read_table(
            place,
            "tsv",
            &ResultTable::from_csv(place.path, text, b'\t')?,
            options,
        )?,
        "jsonl" | "ndjson" if is_lm_eval_samples(text) => {
            let samples = read_lm_eval_samples(place.path, text, place.samples_origin(), choice)?;
            ResultFile::named("lm-eval", samples)
        }
        "jsonl" | "ndjson" if is_pytest_log(text) => {
            ResultFile::unnamed("pytest", read_pytest_log(file, place.origin())?)
        }
        "jsonl" | "ndjson" => {
            let rows = ResultTable::from_json_lines(place.path, text)?;
            read_table(place, "jsonl", &rows, options)?
        }
        "json" => match read_json(place, text, options)? {
            Some(found) => found,
            None => return Ok(None),
        },
        "yaml" | "yml" if is_promptfoo_yaml(file) => {
            ResultFile::named("promptfoo", read_promptfoo_results(file)?)
        }
        _ => return Ok(None),
    };
    found.checked(place.path, options).map(Some)
}

/// Reads the rows of a table in any format.
pub fn read_table(
    place: &FilePlace<'_>,
    format: &'static str,
    rows: &ResultTable,
    options: &ResultOptions,
) -> Result<ResultFile, SuiteError> {
    let found = read_result_table(
        place.path,
        rows,
        place.origin(),
        &options.columns,
        &options.choice,
    )?;
    Ok(ResultFile {
        columns: found.columns,
        ..ResultFile::unnamed(format, found.import)
    })
}

fn read_json(
    place: &FilePlace<'_>,
    text: &str,
    options: &ResultOptions,
) -> Result<Option<ResultFile>, SuiteError> {
    let file = Named {
        file: place.path,
        text,
    };
    let choice = &options.choice;
    Ok(Some(match JsonShape::of(text) {
        JsonShape::Run => ResultFile::named(OWN_FORMAT, parse_run(place.path, text)?.into()),
        JsonShape::InspectLog => ResultFile::named("inspect", read_inspect_log(place.path, text, choice)?),
        JsonShape::PromptfooResults => ResultFile::named("promptfoo", read_promptfoo_results(file)?),
        JsonShape::PytestReport => ResultFile::unnamed("pytest", read_pytest_report(file, place.origin())?),
        JsonShape::DeepEval => ResultFile::unnamed("deepeval", read_deepeval(file, place.origin(), choice)?),
        JsonShape::Helm => read_helm_run(place, text, options)?,
        JsonShape::Rows(rows) => {
            let places = (0..).map(|index| format!("[{index}]"));
            let rows = ResultTable::from_objects(places.zip(rows));
            read_table(place, "json", &rows, options)?
        }
        JsonShape::Other => return Ok(None),
    }))
}

/// Parses a run in the format of `bench report --format json`.
pub fn parse_run(file: &str, text: &str) -> Result<BenchmarkRun, SuiteError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        field_error(file, &path, &error.inner().to_string())
    })
}

/// Reads the statistics of a HELM run with the files next to them.
fn read_helm_run(
    place: &FilePlace<'_>,
    stats: &str,
    options: &ResultOptions,
) -> Result<ResultFile, SuiteError> {
    let (state, spec) = (
        (place.beside)("scenario_state.json"),
        (place.beside)("run_spec.json"),
    );
    let files = HelmFiles {
        stats: Named {
            file: place.path,
            text: stats,
        },
        scenario_state: state.as_ref().map(|(file, text)| Named { file, text }),
        run_spec: spec.as_ref().map(|(file, text)| Named { file, text }),
    };
    let run = read_helm(files, place.origin(), &options.choice)?;
    Ok(ResultFile {
        names_suite: spec.is_some(),
        ..ResultFile::unnamed("helm", run)
    })
}

#[cfg(feature = "imports")]
fn read_xml(file: Named<'_>, origin: ResultOrigin) -> Result<RunImport, SuiteError> {
    super::junit::read_junit(file, origin)
}

#[cfg(not(feature = "imports"))]
fn read_xml(file: Named<'_>, _: ResultOrigin) -> Result<RunImport, SuiteError> {
    let reason = "cannot read JUnit XML: not in this build (cargo feature `imports`)";
    Err(field_error(file.file, "top level", reason))
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
    let parsed = super::reader::parse(file);
    parsed.is_ok_and(|value| {
        let results = value.get("results");
        results.is_some_and(|results| results.is_array() || results.get("results").is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, text: &str) -> Result<Option<ResultFile>, SuiteError> {
        let place = FilePlace {
            path,
            folder: "some-model",
            changed_at: Timestamp::UNIX_EPOCH,
            beside: &|_| None,
        };
        read_result_file(&place, text, &ResultOptions::default())
    }

    #[test]
    fn files_are_recognized_by_extension_and_keys() {
        let sample = r#"{"doc_id": 0, "doc": {}, "target": "a", "arguments": {}, "resps": [["a"]], "filtered_resps": ["a"], "acc": 1.0}"#;
        for (path, text, tool) in [
            (
                "a/junit.xml",
                r#"<testsuite><testcase name="t"/></testsuite>"#,
                "junit",
            ),
            ("r.csv", "case,passed\na,true\n", "csv"),
            ("r.tsv", "case\tpassed\na\ttrue\n", "tsv"),
            ("r.jsonl", r#"{"case": "a", "passed": true}"#, "jsonl"),
            ("samples_arc_2024-11-01T10-00-00.5.jsonl", sample, "lm-eval"),
            ("r.json", r#"[{"case": "a", "passed": true}]"#, "json"),
            (
                "out.json",
                r#"{"results": {"timestamp": "2026-08-01T10:00:00Z", "results": [{"success": true, "testIdx": 0}]}}"#,
                "promptfoo",
            ),
            (
                "run.json",
                r#"{"run_id": "r", "suite_id": "s", "started_at": "2026-08-01T10:00:00Z", "results": []}"#,
                OWN_FORMAT,
            ),
        ] {
            let found = read(path, text).unwrap().unwrap();
            assert_eq!(found.tool, tool, "{path}");
        }
        assert!(
            read("suite.json", r#"{"suite_id": "x", "cases": []}"#)
                .unwrap()
                .is_none()
        );
        assert!(read("notes.txt", "hi").unwrap().is_none());
    }

    #[test]
    fn names_and_times_come_from_the_place_of_the_file() {
        let sample = r#"{"doc_id": 0, "doc": {}, "target": "a", "arguments": {}, "resps": [["a"]], "filtered_resps": ["a"], "acc": 1.0}"#;
        let run = read("out/samples_arc_easy_2024-11-01T10-00-00.5.jsonl", sample)
            .unwrap()
            .unwrap()
            .import
            .run;
        assert_eq!(
            (run.suite_id.as_str(), run.target.as_str()),
            ("arc_easy", "some-model")
        );
        assert_eq!(run.started_at.to_string(), "2024-11-01T10:00:00.5Z");
        let run = read("dir/before.csv", "case,passed\na,true\n")
            .unwrap()
            .unwrap()
            .import
            .run;
        assert_eq!(
            (run.suite_id.as_str(), run.target.as_str()),
            ("before", "before.csv")
        );
    }

    #[test]
    fn damaged_runs_name_the_place_of_the_fault() {
        let text = r#"{"run_id": "r", "suite_id": "s", "started_at": "2026-08-01T10:00:00Z", "results": [{"case_id": 7}]}"#;
        let message = read("run.json", text).unwrap_err().to_string();
        assert!(message.contains("results[0].case_id"), "{message}");
        let result = r#"{"case_id": "a", "status": "pass"}"#;
        let twice = text.replace(r#"{"case_id": 7}"#, &format!("{result}, {result}"));
        let message = read("run.json", &twice).unwrap_err().to_string();
        assert!(
            message.contains("samples[1].id: duplicate sample `a`"),
            "{message}"
        );
    }
}
