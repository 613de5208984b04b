//! Suites on disk: a directory with `suite.json|yaml|toml` and `cases/`, a skill with `benchmarks/` or
//! `evals/evals.json`, or a promptfoo configuration.

use crate::handles::BenchOperations;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use satiety::bench::{
    BenchmarkSuite, Difficulty, Loss, Named, Problem, SuiteError, check_suite, read_skill_evals, read_suite,
    suite_hash,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::import::{is_config, read_config, suite_root};
use crate::EngineError;

/// File names of a suite, in order of precedence.
const SUITE_FILES: [&str; 4] = ["suite.json", "suite.yaml", "suite.yml", "suite.toml"];
/// Maximum depth of the search for suites.
const MAX_DEPTH: usize = 6;
/// Maximum number of files in a directory that a case refers to.
const MAX_FILES: usize = 100_000;

/// Suite and its location.
#[derive(Debug, Clone)]
pub struct LoadedSuite {
    pub suite: BenchmarkSuite,
    /// Path of the suite's file.
    pub file: PathBuf,
    /// Directory that the files of cases are relative to.
    pub folder: PathBuf,
    /// Directory of the skill under test, if any.
    pub skill: Option<PathBuf>,
    /// Hashes of the files that cases refer to.
    pub files: BTreeMap<String, String>,
    pub warnings: Vec<String>,
    /// Whether the suite decides less than the file it was imported from.
    pub loses_verdicts: bool,
}

impl LoadedSuite {
    /// Hash of the inputs and expectations.
    pub fn hash(&self) -> String {
        suite_hash(&self.suite, &self.files)
    }

    /// Finds the fixtures of a skill's cases, which are relative to the skill or to its `evals` directory. A
    /// case without its fixture is skipped; the others run.
    fn skip_without_fixtures(&mut self) {
        for case in &mut self.suite.cases {
            let mut missing = None;
            for name in &mut case.input.files {
                if self.folder.join(&*name).exists() {
                    continue;
                }
                let below = format!("evals/{name}");
                if self.folder.join(&below).exists() {
                    *name = below;
                } else {
                    missing.get_or_insert_with(|| name.clone());
                }
            }
            if let Some(name) = missing {
                self.warnings
                    .push(format!("{}: skipped, file `{name}` not found", case.case_id));
                case.skip.get_or_insert(format!("file `{name}` not found"));
                // A hash needs every file, and the case does not run.
                case.input.files.retain(|name| self.folder.join(name).exists());
            }
        }
    }
}

/// Suites found below a directory.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SuiteList {
    /// Suites, sorted by file.
    pub suites: Vec<SuiteSummary>,
    /// Paths of skills without benchmarks; informational only.
    pub skills_without_benchmarks: Vec<String>,
}

/// Suite found on disk.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SuiteSummary {
    /// Path of the suite's file.
    pub file: String,
    /// Id of the suite; absent if the file cannot be read.
    pub suite_id: Option<String>,
    /// Version given in the suite.
    pub version: Option<String>,
    /// System under test, as named in the suite.
    pub target: Option<String>,
    /// Number of cases in the suite.
    pub cases: usize,
    /// Number of hard or adversarial cases.
    pub hard: usize,
    /// Content hash of the suite.
    pub hash: Option<String>,
    /// Errors found in the suite.
    pub problems: Vec<Problem>,
    /// Warnings about the suite.
    pub warnings: Vec<String>,
}

impl BenchOperations<'_> {
    /// Finds and checks all suites below a directory.
    pub fn list(self, root: &Path) -> Result<SuiteList, EngineError> {
        let found = find(root)?;
        let suites = found.suites.iter().map(|path| listed(path)).collect();
        Ok(SuiteList {
            suites,
            skills_without_benchmarks: found.bare_skills.iter().map(|path| display_path(path)).collect(),
        })
    }
}

/// Paths of the suites at or below a directory, sorted.
pub(crate) fn below(root: &Path) -> Result<Vec<PathBuf>, EngineError> {
    Ok(find(root)?.suites)
}

fn find(root: &Path) -> Result<Found, EngineError> {
    let mut found = Found::default();
    if root.is_file() || suite_file(root).is_some() {
        found.suites.push(root.into());
    } else {
        look(root, MAX_DEPTH, &mut found)?;
    }
    Ok(found)
}

/// Loads a suite from a file or directory.
pub fn load(path: &Path) -> Result<LoadedSuite, EngineError> {
    let file = suite_file(path).ok_or_else(|| EngineError::NoSuite {
        path: display_path(path),
    })?;
    let folder = file.parent().map_or_else(PathBuf::new, Into::into);
    let text = read(&file)?;
    let name = display_path(&file);
    if file.file_name().is_some_and(|name| name == "evals.json") {
        let skill = folder.parent().map_or_else(PathBuf::new, Into::into);
        let called = skill
            .canonicalize()
            .ok()
            .and_then(|skill| Some(skill.file_name()?.to_string_lossy().into_owned()));
        let evals = read_skill_evals(
            Named {
                file: &name,
                text: &text,
            },
            called.as_deref().unwrap_or("skill"),
            1.0,
        )?;
        let mut loaded = LoadedSuite {
            files: BTreeMap::new(),
            suite: evals.suite,
            file,
            folder: skill.clone(),
            skill: Some(skill),
            warnings: evals.warnings,
            loses_verdicts: evals.losses.iter().any(|loss| loss.decides),
        };
        loaded.warnings.extend(evals.losses.iter().map(Loss::to_string));
        loaded.skip_without_fixtures();
        loaded.files = file_hashes(&loaded.suite, &loaded.folder)?;
        return Ok(loaded);
    }
    if is_config(&file, &text) {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let imported = read_config(&file, &text, stem.as_deref().unwrap_or("promptfoo"))?;
        let problems = check_suite(&imported.suite, &name, &[]);
        if !problems.is_empty() {
            return Err(SuiteError::Problems(problems).into());
        }
        let report = imported.report;
        let mut warnings = report.warnings;
        warnings.extend(report.losses.iter().map(Loss::to_string));
        let root = suite_root(if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &folder
        });
        return Ok(LoadedSuite {
            files: file_hashes(&imported.suite, &root)?,
            suite: imported.suite,
            file,
            folder: root,
            skill: None,
            warnings,
            loses_verdicts: report.losses.iter().any(|loss| loss.decides),
        });
    }
    let mut cases = Vec::new();
    for path in case_files(&folder.join("cases"))? {
        cases.push((display_path(&path), read(&path)?));
    }
    let cases: Vec<Named<'_>> = cases.iter().map(|(file, text)| Named { file, text }).collect();
    let suite = read_suite(
        Named {
            file: &name,
            text: &text,
        },
        &cases,
    )?;
    let is_skill = |folder: &Path| folder.join("SKILL.md").is_file();
    let skill = folder
        .parent()
        .map(|parent| {
            if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            }
        })
        .filter(|parent| is_skill(parent))
        .map(Into::into);
    Ok(LoadedSuite {
        files: file_hashes(&suite, &folder)?,
        suite,
        file,
        folder,
        skill,
        warnings: Vec::new(),
        loses_verdicts: false,
    })
}

/// Hashes the files that cases refer to; a missing file is reported before anything runs.
pub(crate) fn file_hashes(
    suite: &BenchmarkSuite,
    folder: &Path,
) -> Result<BTreeMap<String, String>, EngineError> {
    let mut hashes = BTreeMap::new();
    let names = suite.cases.iter().flat_map(|case| {
        case.input
            .files
            .iter()
            .cloned()
            .chain(case.expected.check_files())
    });
    for name in names {
        if hashes.contains_key(&name) {
            continue;
        }
        let path = folder.join(&name);
        let hash = if path.is_dir() {
            tree_hash(&path)?
        } else {
            file_hash(&path)?
        };
        hashes.insert(name, hash);
    }
    Ok(hashes)
}

fn file_hash(path: &Path) -> Result<String, EngineError> {
    let failed = |cause| EngineError::file("read", path, cause);
    let mut hasher = blake3::Hasher::new();
    let file = fs_err::File::open(path).map_err(failed)?;
    hasher.update_reader(file).map_err(failed)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Hash of a directory: every file below it with its relative name, executable bit and content. Symbolic
/// links are hashed by their target path, special files are rejected. Empty directories are ignored, as in
/// git.
fn tree_hash(root: &Path) -> Result<String, EngineError> {
    let mut entries: BTreeMap<String, (bool, String)> = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(directory) = todo.pop() {
        let failed = |cause| EngineError::file("read", &directory, cause);
        for entry in fs_err::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_file() {
                let executable = is_executable(&path)?;
                let name = display_path(path.strip_prefix(root).unwrap_or(&path));
                entries.insert(name, (executable, file_hash(&path)?));
            } else if kind.is_symlink() {
                // The content of the link's target is not part of the directory; `harness check` rejects
                // links altogether.
                let to = fs_err::read_link(&path).map_err(failed)?;
                let name = display_path(path.strip_prefix(root).unwrap_or(&path));
                entries.insert(name, (false, format!("link:{}", display_path(&to))));
            } else {
                return Err(crate::harness::HarnessError::Link {
                    path: display_path(&path),
                }
                .into());
            }
            if entries.len() + todo.len() > MAX_FILES {
                return Err(EngineError::Invalid {
                    message: format!("{} has more than {MAX_FILES} files", root.display()),
                    hint: "use a smaller directory, or an archive".into(),
                });
            }
        }
    }
    Ok(satiety::harness::manifest::tree_hash(&entries))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> Result<bool, EngineError> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = fs_err::metadata(path).map_err(|cause| EngineError::file("read", path, cause))?;
    Ok(metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_path: &Path) -> Result<bool, EngineError> {
    Ok(false)
}

/// Finds the suite's file: the path itself, in the directory, or in the locations that skills use.
pub(super) fn suite_file(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.into());
    }
    let own = SUITE_FILES.iter().map(|name| path.join(name));
    let of_skill = SUITE_FILES.iter().map(|name| path.join("benchmarks").join(name));
    own.chain(of_skill)
        .chain([path.join("evals/evals.json"), path.join("evals.json")])
        .find(|file| file.is_file())
}

/// Files of cases, sorted by name.
pub(crate) fn case_files(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |cause| EngineError::file("read", folder, cause);
    let mut files = Vec::new();
    for entry in fs_err::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("json" | "yaml" | "yml" | "toml")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[derive(Default)]
struct Found {
    suites: Vec<PathBuf>,
    bare_skills: Vec<PathBuf>,
}

fn look(folder: &Path, depth: usize, found: &mut Found) -> Result<(), EngineError> {
    if let Some(file) = suite_file(folder) {
        found.suites.push(file);
        return Ok(());
    }
    if folder.join("SKILL.md").is_file() {
        found.bare_skills.push(folder.into());
    }
    if depth == 0 {
        return Ok(());
    }
    let failed = |cause| EngineError::file("read", folder, cause);
    let mut folders = Vec::new();
    for entry in fs_err::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        // Symbolic links are not followed, to avoid cycles.
        if !hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    for folder in folders {
        look(&folder, depth - 1, found)?;
    }
    Ok(())
}

fn listed(path: &Path) -> SuiteSummary {
    let mut listed = SuiteSummary {
        file: display_path(&suite_file(path).unwrap_or_else(|| path.into())),
        suite_id: None,
        version: None,
        target: None,
        cases: 0,
        hard: 0,
        hash: None,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    match load(path) {
        Ok(loaded) => {
            let hard = |difficulty| matches!(difficulty, Difficulty::Hard | Difficulty::Adversarial);
            listed.hash = Some(loaded.hash());
            listed.cases = loaded.suite.cases.len();
            listed.hard = loaded
                .suite
                .cases
                .iter()
                .filter(|case| hard(case.difficulty))
                .count();
            listed.suite_id = Some(loaded.suite.suite_id);
            listed.version = Some(loaded.suite.version);
            listed.target = Some(loaded.suite.target);
            listed.warnings = loaded.warnings;
            if listed.cases == 0 {
                listed.problems.push(Problem {
                    file: listed.file.clone(),
                    field: "cases".into(),
                    reason: "is empty: a suite needs at least one case".into(),
                });
            }
        }
        Err(EngineError::Suite(SuiteError::Problems(problems))) => listed.problems = problems,
        Err(EngineError::Suite(SuiteError::Field { file, field, reason })) => {
            listed.problems.push(Problem { file, field, reason });
        }
        Err(problem) => listed.problems.push(Problem {
            file: listed.file.clone(),
            field: "the file".into(),
            reason: problem.to_string(),
        }),
    }
    listed
}

pub(crate) fn read(path: &Path) -> Result<String, EngineError> {
    let unreadable = |cause: std::io::Error| {
        if cause.kind() == std::io::ErrorKind::InvalidData {
            return EngineError::Suite(SuiteError::Syntax {
                file: display_path(path),
                reason: "not UTF-8 text".into(),
            });
        }
        EngineError::file("read", path, cause)
    };
    let file = fs_err::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(EngineError::Suite(SuiteError::Syntax {
            file: display_path(path),
            reason: format!("larger than {} MB", MAX_FILE_BYTES >> 20),
        }));
    }
    Ok(text)
}

/// Size limit in bytes of a suite, a case file or a log; also bounds pipes and devices.
const MAX_FILE_BYTES: u64 = 1 << 30;

pub(super) fn display_path(path: &Path) -> String {
    path.display().to_string()
}
