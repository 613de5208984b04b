//! Cases from life: a failed record of production becomes a regression case, records of real sessions are scrubbed
//! before anybody else sees them. What is there is never written over.

use crate::handles::BenchOperations;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use satiety::bench::{Mode, ScrubReport, Scrubber, case_from_failure, check_case};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::suites::{load, read, shown};
use crate::EngineError;

/// A failed record that becomes a case.
#[derive(Debug, Clone)]
pub struct FromFailureRequest {
    /// The record: a JSON object.
    pub record: PathBuf,
    /// The suite that the case is added to.
    pub suite: PathBuf,
}

/// A case that was made from a failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailureCase {
    /// The case.
    pub case_id: String,
    /// Where it was written.
    pub file: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether the record does not say what would have been right, so that a person decides.
    pub needs_expectation: bool,
    /// What was taken out.
    pub scrubbed: ScrubReport,
}

/// Records of real sessions to be scrubbed.
#[derive(Debug, Clone)]
pub struct ScrubFilesRequest {
    /// JSON Lines: objects with `goal` and `outcome`.
    pub files: Vec<PathBuf>,
    /// Where the scrubbed records go.
    pub output: PathBuf,
    /// Whether whoever asks has the consent of those whose sessions these are.
    pub consent: bool,
}

/// Records that were scrubbed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScrubResponse {
    /// How many.
    pub records: usize,
    /// How many of them something was taken out of.
    pub changed: usize,
    /// Where they are.
    pub output: String,
    /// What was taken out.
    #[serde(flatten)]
    pub report: ScrubReport,
}

impl BenchOperations<'_> {
    /// Makes a case of a failed record and adds it to a suite.
    pub fn from_failure(self, request: &FromFailureRequest) -> Result<FailureCase, EngineError> {
        let loaded = load(&request.suite)?;
        if loaded.file.file_name().is_some_and(|name| name == "evals.json") {
            return Err(EngineError::Invalid {
                message: format!(
                    "{} belongs to the skill; cases are not added to it",
                    loaded.file.display()
                ),
                hint: "put a suite into benchmarks/ beside SKILL.md and name that".into(),
            });
        }
        let name = shown(&request.record);
        let record: Value =
            serde_json::from_str(&read(&request.record)?).map_err(|error| EngineError::Invalid {
                message: format!("{name}: {error}"),
                hint: "a record is one JSON object with what was asked; nothing was written".into(),
            })?;
        let (case, scrubbed) = case_from_failure(&record).map_err(|problem| EngineError::Invalid {
            message: format!("{name}: {problem}"),
            hint: "add `expected` where it is known what would have been right; nothing was written".into(),
        })?;
        let problems = check_case(&case, &name, "");
        if !problems.is_empty() {
            return Err(satiety::bench::SuiteError::Problems(problems).into());
        }
        let path = loaded.folder.join("cases").join(format!("{}.json", case.case_id));
        let taken = |what: String| EngineError::Invalid {
            message: what,
            hint: "the same failure makes the same case; nothing was written".into(),
        };
        if loaded
            .suite
            .cases
            .iter()
            .any(|known| known.case_id == case.case_id)
        {
            return Err(taken(format!(
                "case {} is in {} already",
                case.case_id, loaded.suite.suite_id
            )));
        }
        if path.exists() {
            return Err(taken(format!("{} is there already", path.display())));
        }
        write_new(&path, &format!("{:#}\n", serde_json::to_value(&case)?))?;
        Ok(FailureCase {
            case_id: case.case_id,
            file: shown(&path),
            tags: case.tags,
            needs_expectation: case.expected.mode == Mode::Human,
            scrubbed,
        })
    }

    /// Takes personal data out of records of real sessions.
    pub fn scrub(self, request: &ScrubFilesRequest) -> Result<ScrubResponse, EngineError> {
        if !request.consent {
            return Err(EngineError::Invalid {
                message: "records of real sessions are only used with the consent of the people in them"
                    .into(),
                hint: "say so with --i-have-consent; nothing was read".into(),
            });
        }
        if request.output.exists() {
            return Err(EngineError::Invalid {
                message: format!("{} is there already", request.output.display()),
                hint: "name a new file with --output; nothing was written".into(),
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
                // Each record by itself: that one person is in two of them is personal, too.
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
            output: shown(&request.output),
            report,
        })
    }
}

/// A goal and what came of it.
fn pair(line: &str) -> Result<Value, String> {
    let record: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Value::Object(fields) = &record else {
        return Err("must be an object".into());
    };
    match fields.get("goal").and_then(Value::as_str) {
        Some(goal) if !goal.trim().is_empty() => {}
        Some(_) => return Err("goal: is empty".into()),
        None => return Err("goal: must be a text".into()),
    }
    if !fields.contains_key("outcome") {
        return Err("outcome: is missing".into());
    }
    Ok(record)
}

/// Writes a file that is whole or not there; one that is there stays.
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
