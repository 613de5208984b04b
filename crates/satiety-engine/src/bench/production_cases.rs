//! Production cases: turns a failed production record into a regression case, and scrubs personal data from
//! session records. Existing files are never overwritten.

use crate::handles::BenchOperations;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use satiety::Hint;
use satiety::bench::{Mode, ScrubReport, Scrubber, case_from_failure, check_case};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::suites::{display_path, load, read};
use crate::EngineError;

/// Failed production record to turn into a case.
#[derive(Debug, Clone)]
pub struct FromFailureRequest {
    /// Path of the record, a JSON object.
    pub record: PathBuf,
    /// Suite to add the case to.
    pub suite: PathBuf,
}

/// Case created from a failed production record.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailureCase {
    /// Id of the new case.
    pub case_id: String,
    /// Path of the written file.
    pub file: String,
    /// Tags of the new case.
    pub tags: Vec<String>,
    /// Whether the record has no expected outcome, so that a person decides.
    pub needs_expectation: bool,
    /// Counts of removed personal data.
    pub scrubbed: ScrubReport,
}

/// Session records to scrub.
#[derive(Debug, Clone)]
pub struct ScrubFilesRequest {
    /// JSON Lines files of objects with `goal` and `outcome`.
    pub files: Vec<PathBuf>,
    /// Path of the output file.
    pub output: PathBuf,
    /// Whether the caller confirms the consent of the people in the sessions.
    pub consent: bool,
}

/// Result of scrubbing session records.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScrubResponse {
    /// Number of records read.
    pub records: usize,
    /// Number of records with removed data.
    pub changed: usize,
    /// Path of the output file.
    pub output: String,
    /// Counts of removed personal data.
    #[serde(flatten)]
    pub report: ScrubReport,
}

impl BenchOperations<'_> {
    /// Creates a case from a failed record and adds it to a suite.
    pub fn from_failure(self, request: &FromFailureRequest) -> Result<FailureCase, EngineError> {
        let loaded = load(&request.suite)?;
        if loaded.file.file_name().is_some_and(|name| name == "evals.json") {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot add a case to {}: the file belongs to the skill",
                    loaded.file.display()
                ),
                hint: "create a suite in benchmarks/ next to SKILL.md and pass that".into(),
            });
        }
        let name = display_path(&request.record);
        let record: Value =
            serde_json::from_str(&read(&request.record)?).map_err(|error| EngineError::Invalid {
                message: format!("{name}: {error}"),
                hint: "a record is one JSON object with the request; nothing was written".into(),
            })?;
        let (case, scrubbed) = case_from_failure(&record).map_err(|problem| EngineError::Invalid {
            message: format!("{name}: {problem}"),
            hint: "add `expected` if the correct outcome is known; nothing was written".into(),
        })?;
        let problems = check_case(&case, &name, "");
        if !problems.is_empty() {
            return Err(satiety::bench::SuiteError::Problems(problems).into());
        }
        let path = loaded.folder.join("cases").join(format!("{}.json", case.case_id));
        let taken = |what: String| EngineError::Invalid {
            message: what,
            hint: "the same failure always creates the same case; nothing was written".into(),
        };
        if loaded
            .suite
            .cases
            .iter()
            .any(|known| known.case_id == case.case_id)
        {
            return Err(taken(format!(
                "case {} already exists in {}",
                case.case_id, loaded.suite.suite_id
            )));
        }
        if path.exists() {
            return Err(taken(format!("{} already exists", path.display())));
        }
        write_new(&path, &format!("{:#}\n", serde_json::to_value(&case)?))?;
        Ok(FailureCase {
            case_id: case.case_id,
            file: display_path(&path),
            tags: case.tags,
            needs_expectation: case.expected.mode == Mode::Human,
            scrubbed,
        })
    }

    /// Removes personal data from session records.
    pub fn scrub(self, request: &ScrubFilesRequest) -> Result<ScrubResponse, EngineError> {
        if !request.consent {
            return Err(EngineError::Invalid {
                message: "cannot scrub session records without the consent of the people in them".into(),
                hint: Hint::with_command("nothing was read; confirm the consent", "--i-have-consent"),
            });
        }
        if request.output.exists() {
            return Err(EngineError::Invalid {
                message: format!("{} already exists", request.output.display()),
                hint: Hint::with_command("nothing was written; name a new file", "--output FILE"),
            });
        }
        let (mut records, mut changed) = (0, 0);
        let mut report = ScrubReport::default();
        let mut text = String::new();
        for path in &request.files {
            for (index, line) in read(path)?.lines().enumerate() {
                if line.trim().is_empty() {
                    continue;
                }
                let record = pair(line).map_err(|reason| EngineError::Invalid {
                    message: format!("{}:{}: {reason}", path.display(), index + 1),
                    hint: "a line is {\"goal\": \"…\", \"outcome\": …}; nothing was written".into(),
                })?;
                // Each record separately: that a person appears in two of them is personal data, too.
                let mut scrubber = Scrubber::new();
                text.push_str(&scrubber.value(&record).to_string());
                text.push('\n');
                let found = scrubber.report();
                changed += usize::from(found.total() > 0);
                for (kind, count) in &found.replaced {
                    *report.replaced.entry(*kind).or_default() += count;
                }
                for (kind, count) in &found.distinct {
                    *report.distinct.entry(*kind).or_default() += count;
                }
                records += 1;
            }
        }
        write_new(&request.output, &text)?;
        Ok(ScrubResponse {
            records,
            changed,
            output: display_path(&request.output),
            report,
        })
    }
}

/// Parses a line with a goal and its outcome.
fn pair(line: &str) -> Result<Value, String> {
    let record: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Value::Object(fields) = &record else {
        return Err("must be an object".into());
    };
    match fields.get("goal").and_then(Value::as_str) {
        Some(goal) if !goal.trim().is_empty() => {}
        Some(_) => return Err("goal: is empty".into()),
        None => return Err("goal: must be a string".into()),
    }
    if !fields.contains_key("outcome") {
        return Err("outcome: is missing".into());
    }
    Ok(record)
}

/// Writes a file atomically; never overwrites an existing one.
fn write_new(path: &Path, text: &str) -> Result<(), EngineError> {
    let failed = |cause| EngineError::file("write", path, cause);
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent).map_err(failed)?;
    }
    let partial = path.with_added_extension("partial");
    let mut file = fs_err::File::create(&partial).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs_err::rename(&partial, path).map_err(failed)
}
