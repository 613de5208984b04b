//! Imports from other tools: promptfoo configurations become suites, results of other tools become stored runs.

use crate::handles::BenchOperations;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use satiety::Hint;
use satiety::bench::promptfoo::{CodeCall, PROVIDERS};
use satiety::bench::{
    BenchmarkSuite, ColumnUse, ConfigFiles, ImportReport, ImportedScore, Loss, Named, PromptfooImport,
    ResultFile, RunImport, SandboxRequirement, SuiteError, check_suite, content_hash, import_promptfoo,
    summarize_run,
};
use satiety_store::bench::BenchRunRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::code_host::{CodeHosts, Returned, typescript_flags};
use super::executor::row;
use super::suites::display_path;
use crate::EngineError;
use crate::root_path::{self, OutsideRoot};

#[cfg(feature = "imports")]
mod archive;
#[cfg(feature = "imports")]
mod parquet_file;
pub(super) mod results;
#[cfg(feature = "imports")]
use archive::from_archive;
#[cfg(feature = "imports")]
use parquet_file::read_parquet;
use results::{Contents, read_contents, with_flag};
pub use satiety::bench::ResultOptions;

/// Size limit in bytes of one referenced file, and of all of them.
const MAX_REFERENCED: u64 = 16 << 20;
const MAX_ALL_REFERENCED: u64 = 256 << 20;

/// File of another tool to import.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Path of a promptfoo configuration, or of results of any known tool.
    pub file: PathBuf,
    /// Directory to write the suite to.
    pub output: Option<PathBuf>,
    /// Id of the suite, and how to read results.
    pub options: ResultOptions,
}

/// Result of an import.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ImportResponse {
    /// A suite was written to a directory.
    Suite(ImportedSuite),
    /// A run was stored in the database.
    Run(ImportedRun),
}

impl ImportResponse {
    /// Parts of the file that were not taken over.
    pub fn losses(&self) -> &[Loss] {
        match self {
            Self::Suite(suite) => &suite.report.losses,
            Self::Run(run) => &run.losses,
        }
    }
}

/// Suite that was written to disk.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ImportedSuite {
    /// Id of the suite.
    pub suite_id: String,
    /// Paths of the written files.
    pub files: Vec<String>,
    /// Report on the conversion of the configuration.
    #[serde(flatten)]
    pub report: ImportReport,
}

/// Imported run in the database.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ImportedRun {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Id of the suite: the name of the task, or of the file.
    pub suite_id: String,
    /// Name of the evaluated model.
    pub target: String,
    /// Number of stored results.
    pub results: usize,
    /// Share of cases that passed, from 0 to 1.
    pub pass_rate: Option<f64>,
    /// Number of samples without a score.
    pub skipped: u64,
    /// Whether the log was complete.
    pub complete: bool,
    /// All scores of the log, in its own order.
    pub scores: Vec<ImportedScore>,
    /// Columns of a table, with what they were taken for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnUse>,
    /// Parts of the log that the run does not have.
    pub losses: Vec<Loss>,
}

impl BenchOperations<'_> {
    /// Imports a file of another tool.
    pub async fn import(self, request: ImportRequest) -> Result<ImportResponse, EngineError> {
        let contents = read_contents(&request.file, &request.options).map_err(with_flag)?;
        match contents {
            Contents::Results(found) => self
                .keep_import(&request.file, *found)
                .await
                .map(ImportResponse::Run),
            Contents::Text(text) => to_suite(&request, &text).map(ImportResponse::Suite),
        }
    }

    pub(super) async fn keep_import(
        self,
        file: &Path,
        found: ResultFile,
    ) -> Result<ImportedRun, EngineError> {
        let RunImport { run, scores, losses } = found.import;
        if run.suite_id.trim().is_empty() {
            return Err(EngineError::Suite(SuiteError::Field {
                file: display_path(file),
                field: "eval.task".into(),
                reason: "is missing; runs are compared by their task name".into(),
            }));
        }
        let store = self.engine.store().await?;
        if store.bench().run(&run.run_id).await?.is_some() {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot import {}: run {} already exists",
                    file.display(),
                    run.run_id
                ),
                hint: Hint::with_command("read its report", format!("satiety bench report {}", run.run_id)),
            });
        }
        let rows = run.results.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        let cases: BTreeMap<&str, Option<&str>> = run
            .results
            .iter()
            .map(|result| (result.case_id.as_str(), result.case_hash.as_deref()))
            .collect();
        let mut snapshot = run.config_snapshot.clone();
        snapshot.insert("imported_from".into(), Value::String(found.tool.into()));
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
        store.bench().put_results(&run.run_id, &rows).await?;
        let summary = summarize_run(&run.results, &run.config_snapshot);
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
            scores,
            columns: found.columns,
            losses,
        })
    }
}

fn to_suite(request: &ImportRequest, text: &str) -> Result<ImportedSuite, EngineError> {
    let Some(folder) = &request.output else {
        return Err(EngineError::Invalid {
            message: format!(
                "cannot import {} as a suite: no output directory given",
                request.file.display()
            ),
            hint: Hint::with_command("name a directory; it is created", "--output DIR"),
        });
    };
    let suite_id = request.options.suite_id.clone().or_else(|| {
        let folder = std::path::absolute(folder).ok()?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    });
    let file = display_path(&request.file);
    let imported = read_config(&request.file, text, suite_id.as_deref().unwrap_or("imported"))?;
    let problems = check_suite(&imported.suite, &file, &[]);
    if !problems.is_empty() {
        return Err(SuiteError::Problems(problems).into());
    }
    let mut files = write_suite(folder, &imported.suite)?;
    let root = suite_root(config_folder(&request.file));
    files.extend(copy_checks(&root, folder, &imported.suite)?);
    Ok(ImportedSuite {
        suite_id: imported.suite.suite_id,
        files,
        report: imported.report,
    })
}

/// Reads a promptfoo configuration with the files that it refers to.
pub(super) fn read_config(path: &Path, text: &str, suite_id: &str) -> Result<PromptfooImport, EngineError> {
    let base = config_folder(path);
    let mut files = DirectoryFiles {
        base,
        root: suite_root(base),
        left: Cell::new(MAX_ALL_REFERENCED),
        refused: RefCell::default(),
        returned: BTreeMap::new(),
    };
    let file = display_path(path);
    let mut rounds = 0;
    let mut imported = loop {
        files.left.set(MAX_ALL_REFERENCED);
        let imported = import_promptfoo(Named { file: &file, text }, suite_id, &files)?;
        if imported.calls.is_empty() {
            break imported;
        }
        rounds += 1;
        let results = if rounds > MAX_ROUNDS {
            vec![Err("its arguments change with every call".to_owned()); imported.calls.len()]
        } else {
            make_calls(&imported.calls, &files.root)
        };
        let keys = imported.calls.iter().map(CodeCall::key);
        files.returned.extend(keys.zip(results));
    };
    for (name, reason) in files.refused.into_inner() {
        imported
            .report
            .warnings
            .push(format!("cannot read `file://{}`: {reason}", name.escape_debug()));
    }
    Ok(imported)
}

/// Files in the top directory of a project.
const PROJECT_FILES: [&str; 5] = [
    "package.json",
    "pyproject.toml",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
];

/// Directory that the files of a configuration may be in: the repository or project around it, or else its own
/// directory. The home directory and the temporary directory are never taken for a project.
pub(super) fn suite_root(base: &Path) -> PathBuf {
    let absolute = std::path::absolute(base).unwrap_or_else(|_| base.into());
    let repository = absolute.ancestors().find(|folder| folder.join(".git").exists());
    let shared = [std::env::home_dir(), Some(std::env::temp_dir())];
    let is_own = |folder: &&Path| !shared.iter().flatten().any(|shared| shared.starts_with(folder));
    let is_project = |folder: &&Path| PROJECT_FILES.iter().any(|name| folder.join(name).is_file());
    let project = || absolute.ancestors().take_while(is_own).find(is_project);
    repository
        .or_else(project)
        .map_or_else(|| base.to_path_buf(), Path::to_path_buf)
}

/// Whether a file is a promptfoo configuration rather than a suite.
pub(super) fn is_config(path: &Path, text: &str) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if name.starts_with("suite.") || name == "evals.json" {
        return false;
    }
    if name.starts_with("promptfooconfig.") {
        return true;
    }
    let file = display_path(path);
    let parsed = satiety::bench::reader::parse(Named { file: &file, text });
    parsed.is_ok_and(|value| {
        let has = |key: &str| value.get(key).is_some();
        let has_cases = has("prompts") || has("tests") || has("scenarios") || has("redteam");
        !has("suite_id") && has_cases && !has("cases")
    })
}

fn config_folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Maximum number of files that wildcards are matched with, and the depth of their search.
const MAX_LISTED: usize = 20_000;
const MAX_LISTED_DEPTH: usize = 8;

/// Maximum number of imports until all calls are made: tests, their variables, their prompts.
const MAX_ROUNDS: usize = 6;

/// Files of a configuration, and the results of the code in them.
struct DirectoryFiles<'a> {
    base: &'a Path,
    root: PathBuf,
    /// Bytes that may still be read.
    left: Cell<u64>,
    refused: RefCell<BTreeMap<String, String>>,
    /// Results of calls by their keys.
    returned: BTreeMap<String, Result<Value, String>>,
}

impl DirectoryFiles<'_> {
    /// Path of a referenced file relative to the root. It may leave the configuration's directory, but not the
    /// root; the result of one that does keeps its leading `..` and is refused.
    fn below_root(&self, name: &str) -> String {
        let absolute = std::path::absolute(self.base).unwrap_or_else(|_| self.base.into());
        let root = std::path::absolute(&self.root).unwrap_or_else(|_| self.root.clone());
        let inside = absolute.strip_prefix(&root).unwrap_or_else(|_| Path::new(""));
        let mut parts: Vec<String> = Vec::new();
        for part in inside.join(name).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir if parts.last().is_some_and(|last| last != "..") => {
                    parts.pop();
                }
                other => parts.push(other.as_os_str().to_string_lossy().into_owned()),
            }
        }
        parts.join("/")
    }
}

impl ConfigFiles for DirectoryFiles<'_> {
    fn read(&self, name: &str) -> Option<String> {
        match read_referenced(&self.root, &self.below_root(name), &self.left) {
            Ok(text) => text,
            Err(reason) => {
                self.refused.borrow_mut().insert(name.to_owned(), reason);
                None
            }
        }
    }

    fn list(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut todo = vec![(self.base.to_path_buf(), 0)];
        while let Some((folder, depth)) = todo.pop() {
            // An unreadable directory has no matching files.
            let Ok(entries) = fs_err::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let is_hidden = name.to_string_lossy().starts_with('.') || name == "node_modules";
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && !is_hidden && depth < MAX_LISTED_DEPTH => {
                        todo.push((path, depth + 1));
                    }
                    Ok(kind) if kind.is_file() => {
                        names.push(display_path(path.strip_prefix(self.base).unwrap_or(&path)));
                    }
                    _ => {}
                }
                if names.len() >= MAX_LISTED {
                    return names;
                }
            }
        }
        names
    }

    fn path(&self, name: &str) -> String {
        self.below_root(name)
    }

    fn returned(&self, call: &CodeCall) -> Option<Result<Value, String>> {
        self.returned.get(&call.key()).cloned()
    }

    fn runs_typescript(&self) -> bool {
        typescript_flags(search_path().as_deref()).is_some()
    }
}

/// Where interpreters are looked for: suites are loaded without a request that could name it.
fn search_path() -> Option<String> {
    std::env::var("PATH").ok()
}

/// Makes calls in sandboxed processes, on a thread of their own, because suites are loaded synchronously.
fn make_calls(calls: &[CodeCall], folder: &Path) -> Vec<Result<Value, String>> {
    let all = |problem: String| vec![Err(problem); calls.len()];
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(run_calls(calls, folder)),
            Err(error) => all(error.to_string()),
        }
    };
    std::thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|_| all("the code could not be run".to_owned()))
}

async fn run_calls(calls: &[CodeCall], folder: &Path) -> Vec<Result<Value, String>> {
    let mut languages = BTreeMap::new();
    for call in calls {
        *languages.entry(call.language).or_insert(false) |= call.file.is_some();
    }
    let search = search_path();
    let requirement = SandboxRequirement::Prefer;
    let hosts = match CodeHosts::for_languages(&languages, folder, None, requirement, search.as_deref()) {
        Ok(hosts) => hosts,
        Err(error) => return vec![Err(error.to_string()); calls.len()],
    };
    let results = calls.iter().map(|call| async {
        match hosts.call(call).await? {
            Returned::Value(value) => Ok(value),
            Returned::Thrown(message) => Err(format!("threw an exception: {message}")),
        }
    });
    let results = futures_util::future::join_all(results).await;
    hosts.close().await;
    results
}

/// Copies the programs that check answers next to the imported suite.
fn copy_checks(base: &Path, folder: &Path, suite: &BenchmarkSuite) -> Result<Vec<String>, EngineError> {
    let names: BTreeSet<String> = suite
        .cases
        .iter()
        .flat_map(|case| case.expected.check_files())
        .chain(provider_files(suite))
        .collect();
    let left = Cell::new(MAX_ALL_REFERENCED);
    let mut written = Vec::new();
    for name in names {
        let path = folder.join(&name);
        // The import has read the file before; a copy into its own directory changes nothing.
        let Ok(Some(text)) = read_referenced(base, &name, &left) else {
            continue;
        };
        if path.exists() {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent).map_err(|cause| EngineError::file("create", parent, cause))?;
        }
        fs_err::write(&path, text).map_err(|cause| EngineError::file("write", &path, cause))?;
        written.push(display_path(&path));
    }
    Ok(written)
}

/// Files of the providers that are scripts.
fn provider_files(suite: &BenchmarkSuite) -> Vec<String> {
    let providers = suite.metadata.get(PROVIDERS).and_then(Value::as_array);
    let ids = providers.into_iter().flatten().filter_map(|provider| {
        let file = provider.get("file")?.as_str()?;
        Some(file.rsplit_once(':').map_or(file, |(file, _)| file).to_owned())
    });
    ids.collect()
}

/// Reads a file that a configuration refers to; `None` if it does not exist. A downloaded configuration must
/// not read arbitrary files, so only regular files below its directory are allowed.
fn read_referenced(base: &Path, name: &str, left: &Cell<u64>) -> Result<Option<String>, String> {
    let path = match root_path::below(base, name) {
        Ok(path) => path,
        Err(OutsideRoot::Outside(_)) => return Err("it is outside the configuration's directory".into()),
        Err(OutsideRoot::Missing(_) | OutsideRoot::Root(_)) => return Ok(None),
    };
    if !path.is_file() {
        return Err("it is not a regular file".into());
    }
    let Ok(file) = fs_err::File::open(&path) else {
        return Ok(None);
    };
    let limit = MAX_REFERENCED.min(left.get());
    let mut text = String::new();
    if file.take(limit + 1).read_to_string(&mut text).is_err() {
        return Err("it is not UTF-8 text".into());
    }
    let length = text.len() as u64;
    if length > limit {
        return Err(format!(
            "it is larger than {} MB, or all files together exceed {} MB",
            MAX_REFERENCED >> 20,
            MAX_ALL_REFERENCED >> 20
        ));
    }
    left.set(left.get() - length);
    Ok(Some(text))
}

/// Writes `suite.json` and `cases/cases.json`; never overwrites a file.
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
            message: format!("cannot write {}: file exists", taken.display()),
            hint: Hint::with_command("nothing was written; name a new directory", "--output DIR"),
        });
    }
    for (path, value) in &files {
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent).map_err(|cause| EngineError::file("create", parent, cause))?;
        }
        fs_err::write(path, format!("{value:#}\n"))
            .map_err(|cause| EngineError::file("write", path, cause))?;
    }
    Ok(files.iter().map(|(path, _)| display_path(path)).collect())
}

#[cfg(not(feature = "imports"))]
fn from_archive(_: &Path, _: &satiety::bench::ScoreChoice) -> Result<RunImport, EngineError> {
    Err(EngineError::Invalid {
        message: crate::feature_disabled("packed Inspect logs", "imports"),
        hint: "convert the log to JSON with `inspect log convert`".into(),
    })
}

#[cfg(not(feature = "imports"))]
fn read_parquet(_: &Path) -> Result<satiety::bench::ResultTable, EngineError> {
    Err(EngineError::Invalid {
        message: crate::feature_disabled("Parquet files", "imports"),
        hint: "convert the file to CSV or JSON Lines".into(),
    })
}
