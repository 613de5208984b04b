//! What people have from other tools: promptfoo configurations become suites, logs of Inspect become runs of the store.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use satiety::bench::{
    BenchmarkRun, BenchmarkSuite, ImportReport, InspectOptions, Named, SuiteError, check_suite, content_hash,
    import_promptfoo, leading, read_inspect_log, read_inspect_members, summarize,
};
use satiety_store::bench::BenchRunRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use zip::ZipArchive;

use super::runner::row;
use super::suites::{read, shown};
use crate::rooted::{self, NotBelow};
use crate::{Engine, EngineError};

/// What a log may unpack to, all its members together: a small file must not fill the memory.
const UNPACKED: u64 = 1 << 30;
/// How many times its own size a log may unpack to, unless that is little.
const RATIO: u64 = 200;
/// What any log may unpack to, however small it is.
const LITTLE: u64 = 64 << 20;
/// Members of a log.
const MEMBERS: usize = 200_000;
/// Bytes of one file that a configuration refers to, and of all of them.
const REFERRED: u64 = 16 << 20;
const ALL_REFERRED: u64 = 256 << 20;

/// A file of another tool.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// A promptfoo configuration, or a log of Inspect.
    pub file: PathBuf,
    /// The folder that a suite is written to.
    pub output: Option<PathBuf>,
    /// The suite's id; the name of the folder where absent.
    pub suite_id: Option<String>,
    /// Which scorer of a log decides, and from where on.
    pub inspect: InspectOptions,
}

/// What an import made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Imported {
    /// A suite in a folder.
    Suite(ImportedSuite),
    /// A run in the store.
    Run(ImportedRun),
}

/// A suite that was written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ImportedSuite {
    /// The suite.
    pub suite_id: String,
    /// What was written.
    pub files: Vec<String>,
    /// What became of the configuration.
    #[serde(flatten)]
    pub report: ImportReport,
}

/// A run that was stored.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ImportedRun {
    /// The run.
    pub run_id: String,
    /// The suite: the task's name.
    pub suite_id: String,
    /// The model.
    pub target: String,
    /// Results that were stored.
    pub results: usize,
    /// The share of passes.
    pub pass_rate: Option<f64>,
    /// Samples that nobody scored.
    pub skipped: u64,
    /// Whether the log was written to its end.
    pub complete: bool,
}

impl Engine {
    /// Imports a file of another tool.
    pub async fn bench_import(&self, request: ImportRequest) -> Result<Imported, EngineError> {
        let ending = request.file.extension().and_then(|ending| ending.to_str());
        if ending == Some("eval") {
            let run = from_archive(&request.file, &request.inspect)?;
            return self.keep_import(&request.file, run).await.map(Imported::Run);
        }
        let text = read(&request.file)?;
        if ending == Some("json") && is_log(&text) {
            let run = read_inspect_log(&shown(&request.file), &text, &request.inspect)?;
            return self.keep_import(&request.file, run).await.map(Imported::Run);
        }
        to_suite(&request, &text).map(Imported::Suite)
    }

    async fn keep_import(&self, file: &Path, run: BenchmarkRun) -> Result<ImportedRun, EngineError> {
        if run.suite_id.trim().is_empty() {
            return Err(EngineError::Suite(SuiteError::Field {
                file: shown(file),
                field: "eval.task".into(),
                reason: "is missing; runs are compared by the name of their task".into(),
            }));
        }
        let store = self.store().await?;
        if store.bench().run(&run.run_id).await?.is_some() {
            return Err(EngineError::Invalid {
                message: format!("{}: run {} is in the store already", file.display(), run.run_id),
                hint: format!("`satiety bench report {}` shows it", run.run_id),
            });
        }
        let mut rows = BTreeMap::new();
        for (index, result) in run.results.iter().enumerate() {
            let row = row(result)?;
            if rows.insert(row.key.clone(), row).is_some() {
                return Err(EngineError::Suite(SuiteError::Field {
                    file: shown(file),
                    field: format!("samples[{index}].id"),
                    reason: format!(
                        "`{}` is there twice with epoch {}; every sample and epoch is one result",
                        result.case_id,
                        result.repeat + 1
                    ),
                }));
            }
        }
        let cases: BTreeMap<&str, Option<&str>> = run
            .results
            .iter()
            .map(|result| (result.case_id.as_str(), result.case_hash.as_deref()))
            .collect();
        let mut snapshot = run.config_snapshot.clone();
        snapshot.insert("imported_from".into(), Value::String("inspect".into()));
        store
            .bench()
            .begin_run(&BenchRunRow {
                run_id: run.run_id.clone(),
                suite_id: run.suite_id.clone(),
                suite_hash: content_hash(&cases),
                target: run.target.clone(),
                started_at: run.started_at.as_microsecond(),
                completed_at: None,
                config_snapshot: serde_json::to_value(&snapshot)?,
                summary: None,
                pass_rate: None,
            })
            .await?;
        let rows: Vec<_> = rows.into_values().collect();
        store.bench().put_results(&run.run_id, &rows).await?;
        let summary = summarize(leading(&run.results));
        if let Some(ended) = run.completed_at {
            let value = serde_json::to_value(&summary)?;
            store
                .bench()
                .complete_run(&run.run_id, ended.as_microsecond(), &value, summary.pass_rate)
                .await?;
        }
        Ok(ImportedRun {
            run_id: run.run_id,
            suite_id: run.suite_id,
            target: run.target,
            results: rows.len(),
            pass_rate: summary.pass_rate,
            skipped: summary.counts.skipped,
            complete: run.completed_at.is_some(),
        })
    }
}

/// A log of Inspect says what was evaluated; a promptfoo configuration has no such key.
#[expect(
    clippy::zero_sized_map_values,
    reason = "the keys tell; the values of a large log are passed over"
)]
fn is_log(text: &str) -> bool {
    let keys = serde_json::from_str::<BTreeMap<String, serde::de::IgnoredAny>>(text);
    // What cannot be read as strict JSON is a log with numbers that are none, or nothing: both are told by the reader.
    keys.map_or_else(
        |_| text.contains("\"eval\""),
        |keys| keys.contains_key("eval") || keys.contains_key("samples"),
    )
}

fn to_suite(request: &ImportRequest, text: &str) -> Result<ImportedSuite, EngineError> {
    let Some(folder) = &request.output else {
        return Err(EngineError::Invalid {
            message: format!(
                "{} becomes a suite, and no folder is named",
                request.file.display()
            ),
            hint: "name one with --output; it is made".into(),
        });
    };
    let suite_id = request.suite_id.clone().or_else(|| {
        let folder = std::path::absolute(folder).ok()?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    });
    let base = match request.file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let refused = RefCell::new(BTreeMap::new());
    let left = Cell::new(ALL_REFERRED);
    let lookup = |name: &str| match referred(&base, name, &left) {
        Ok(text) => text,
        Err(reason) => {
            refused.borrow_mut().insert(name.to_owned(), reason);
            None
        }
    };
    let file = shown(&request.file);
    let mut imported = import_promptfoo(
        Named { file: &file, text },
        suite_id.as_deref().unwrap_or("imported"),
        &lookup,
    )?;
    for (name, reason) in refused.into_inner() {
        imported
            .report
            .warnings
            .push(format!("`file://{}` was not read: {reason}", name.escape_debug()));
    }
    let problems = check_suite(&imported.suite, &file, &[]);
    if !problems.is_empty() {
        return Err(SuiteError::Problems(problems).into());
    }
    let files = write_suite(folder, &imported.suite)?;
    Ok(ImportedSuite {
        suite_id: imported.suite.suite_id,
        files,
        report: imported.report,
    })
}

/// The text of a file that a configuration refers to; none where there is no such file, and why where it is not read. A
/// configuration that was downloaded must not read what is beside it, so only regular files below its directory are.
fn referred(base: &Path, name: &str, left: &Cell<u64>) -> Result<Option<String>, String> {
    let path = match rooted::below(base, name) {
        Ok(path) => path,
        Err(NotBelow::Outside(_)) => return Err("it is outside of the configuration's directory".into()),
        Err(NotBelow::Missing(_) | NotBelow::Root(_)) => return Ok(None),
    };
    if !path.is_file() {
        return Err("it is not a regular file".into());
    }
    let Ok(file) = fs_err::File::open(&path) else {
        return Ok(None);
    };
    let limit = REFERRED.min(left.get());
    let mut text = String::new();
    if file.take(limit + 1).read_to_string(&mut text).is_err() {
        return Err("it is not UTF-8 text".into());
    }
    let length = text.len() as u64;
    if length > limit {
        return Err(format!(
            "it is larger than {} MB, or all files together are larger than {} MB",
            REFERRED >> 20,
            ALL_REFERRED >> 20
        ));
    }
    left.set(left.get() - length);
    Ok(Some(text))
}

/// Writes `suite.json` and `cases/cases.json`; what is there stays.
fn write_suite(folder: &Path, suite: &BenchmarkSuite) -> Result<Vec<String>, EngineError> {
    let own = BenchmarkSuite {
        cases: Vec::new(),
        ..suite.clone()
    };
    let mut head = serde_json::to_value(&own)?;
    if let Some(fields) = head.as_object_mut() {
        fields.remove("cases");
    }
    let cases = serde_json::to_value(&suite.cases)?;
    let files = [
        (folder.join("suite.json"), head),
        (folder.join("cases").join("cases.json"), cases),
    ];
    if let Some((taken, _)) = files.iter().find(|(path, _)| path.exists()) {
        return Err(EngineError::Invalid {
            message: format!("{} is there already", taken.display()),
            hint: "name a new folder with --output; nothing was written".into(),
        });
    }
    for (path, value) in &files {
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent).map_err(|cause| EngineError::file("make", parent, cause))?;
        }
        fs_err::write(path, format!("{value:#}\n"))
            .map_err(|cause| EngineError::file("write", path, cause))?;
    }
    Ok(files.iter().map(|(path, _)| shown(path)).collect())
}

/// The header and the samples' summaries of an `.eval` file; after a crash only the journal has them.
fn from_archive(path: &Path, options: &InspectOptions) -> Result<BenchmarkRun, EngineError> {
    let file = fs_err::File::open(path).map_err(|cause| EngineError::file("read", path, cause))?;
    let size = file
        .metadata()
        .map_err(|cause| EngineError::file("read", path, cause))?
        .len();
    let mut left = UNPACKED.min(size.saturating_mul(RATIO).max(LITTLE));
    let damaged = |cause: zip::result::ZipError| EngineError::Packed {
        path: shown(path),
        cause: std::io::Error::other(cause),
    };
    let mut archive = ZipArchive::new(std::io::BufReader::new(file)).map_err(damaged)?;
    if archive.len() > MEMBERS {
        return Err(EngineError::Invalid {
            message: format!("{} has more than {MEMBERS} members", path.display()),
            hint: "export the log without its samples".into(),
        });
    }
    let mut names: Vec<String> = Vec::new();
    for name in archive.file_names() {
        names.push(name.map_err(damaged)?.into_owned());
    }
    let numbered = |name: &String| {
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        (digits.parse::<u64>().unwrap_or(0), name.clone())
    };
    let below = |folder: &str| -> Vec<String> {
        let mut found: Vec<String> = names
            .iter()
            .filter(|name| name.starts_with(folder) && !name.ends_with('/'))
            .cloned()
            .collect();
        found.sort_by_key(numbered);
        found
    };
    let header = ["header.json", "_journal/start.json"]
        .into_iter()
        .find(|name| names.iter().any(|known| known == name))
        .ok_or_else(|| {
            EngineError::Suite(SuiteError::Field {
                file: shown(path),
                field: "header.json".into(),
                reason: "is missing, and so is the journal; this is no log of Inspect".into(),
            })
        })?;
    let members = if names.iter().any(|name| name == "summaries.json") {
        vec!["summaries.json".to_owned()]
    } else {
        let journal = below("_journal/summaries/");
        // The samples themselves are large; they are looked at last.
        if journal.is_empty() {
            below("samples/")
        } else {
            journal
        }
    };
    let header_text = member(&mut archive, path, header, &mut left)?;
    let texts: Vec<String> = members
        .iter()
        .map(|name| member(&mut archive, path, name, &mut left))
        .collect::<Result<_, _>>()?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Ok(read_inspect_members(&shown(path), &header_text, &texts, options)?)
}

/// The text of a member, whichever way it is packed, where it fits into what is `left` for all of them. What a member says
/// about its own size does not count.
fn member<R: Read + std::io::Seek>(
    archive: &mut ZipArchive<R>,
    path: &Path,
    name: &str,
    left: &mut u64,
) -> Result<String, EngineError> {
    let place = || format!("{}: {name}", path.display());
    let packed = |cause: std::io::Error| EngineError::Packed { path: place(), cause };
    let other = |cause: zip::result::ZipError| packed(std::io::Error::other(cause));
    let mut bytes = Vec::new();
    let plain = archive.by_name(name).map_err(other)?;
    plain.take(*left + 1).read_to_end(&mut bytes).map_err(packed)?;
    let length = bytes.len() as u64;
    if length > *left {
        return Err(EngineError::Invalid {
            message: format!(
                "{} unpacks to too much: a log may unpack to {RATIO} times its size and {} MB, all members together",
                place(),
                UNPACKED >> 20
            ),
            hint: "export the log without its events".into(),
        });
    }
    *left -= length;
    String::from_utf8(bytes).map_err(|_| {
        EngineError::Suite(SuiteError::Syntax {
            file: place(),
            reason: "not UTF-8 text".into(),
        })
    })
}
