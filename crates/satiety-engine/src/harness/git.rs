//! Harness of a git commit, read from git objects only.
//!
//! The working tree has no influence: no filters, attributes (`export-ignore`), index, replace objects, or
//! environment variables that redirect git. Symbolic links and submodules at or below the harness are
//! rejected, because their targets are not part of the commit.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::HarnessError;
use crate::EngineError;

/// Files next to or above the harness that also affect verdicts: trusted keys, and a target description one
/// level up.
const FILES_ABOVE: [&str; 5] = [
    "satiety.toml",
    "target.toml",
    "target.json",
    "target.yaml",
    "target.yml",
];
/// Maximum number of bytes below the harness in a commit.
const MAX_BYTES: u64 = 4 << 30;

/// Git repository.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    /// Top of the working tree, with symbolic links resolved.
    pub(super) top: PathBuf,
}

/// Files of a commit in a temporary directory.
#[derive(Debug)]
pub(super) struct Checkout {
    directory: tempfile::TempDir,
    relative: PathBuf,
}

impl Checkout {
    /// Directory that corresponds to the top of the repository.
    pub(super) fn top(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn harness(&self) -> PathBuf {
        self.directory.path().join(&self.relative)
    }
}

struct TreeEntry {
    mode: String,
    id: String,
    path: PathBuf,
}

impl Repository {
    /// Repository that contains a directory; `None` outside of one.
    pub(super) fn containing(directory: &Path) -> Result<Option<Self>, EngineError> {
        let output = git(directory)
            .args(["rev-parse", "--show-toplevel"])
            .output()
            .map_err(|error| failed("HEAD", format!("cannot start git: {error}")))?;
        if !output.status.success() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let top = Path::new(text.trim_end_matches(['\n', '\r']));
        let top = top
            .canonicalize()
            .map_err(|cause| EngineError::file("find", top, cause))?;
        refuse_shadowing(&top)?;
        Ok(Some(Self { top }))
    }

    /// Path of a directory in the working tree, relative to the top. Rejects paths through symbolic links:
    /// they would name one directory in the commit and another on disk.
    pub(super) fn relative(&self, directory: &Path) -> Result<PathBuf, EngineError> {
        let absolute =
            std::path::absolute(directory).map_err(|cause| EngineError::file("find", directory, cause))?;
        let normal = normalize(&absolute);
        // The part above the top may contain links, such as a linked temporary directory.
        let Some((above, relative)) = normal.ancestors().find_map(|ancestor| {
            let real = ancestor.canonicalize().ok()?;
            (real == self.top).then(|| {
                let relative = normal.strip_prefix(ancestor).unwrap_or(Path::new(""));
                (ancestor.to_path_buf(), relative.to_path_buf())
            })
        }) else {
            return Err(HarnessError::OutsideRepository {
                path: directory.display().to_string(),
                top: self.top.display().to_string(),
            }
            .into());
        };
        let mut current = above;
        for part in relative.components() {
            current.push(part);
            if current.is_symlink() {
                return Err(HarnessError::Link {
                    path: current.display().to_string(),
                }
                .into());
            }
        }
        Ok(relative)
    }

    /// Extracts the files of a commit at and below a path relative to the top.
    pub(super) fn checkout(&self, revision: &str, relative: &Path) -> Result<Checkout, EngineError> {
        let commit = self.resolve(revision)?;
        let relative = clean_relative(relative).ok_or_else(|| {
            failed(
                revision,
                format!(
                    "{} is not a path below the top of the repository",
                    relative.display()
                ),
            )
        })?;
        self.verify_objects(revision, &commit, &relative)?;
        let mut wanted = self.list(revision, &commit, &relative)?;
        if wanted.is_empty() {
            return Err(failed(
                revision,
                format!("the commit has no directory {}", shown_relative(&relative)),
            ));
        }
        for entry in &wanted {
            if entry.mode == "120000" || entry.mode == "160000" {
                return Err(HarnessError::Link {
                    path: format!("{revision}:{}", entry.path.display()),
                }
                .into());
            }
        }
        for above in relative.ancestors().skip(1) {
            for name in FILES_ABOVE {
                wanted.extend(
                    self.list(revision, &commit, &above.join(name))?
                        .into_iter()
                        .filter(|entry| entry.path == above.join(name) && entry.mode.starts_with("100")),
                );
            }
        }
        let directory = tempfile::tempdir()
            .map_err(|cause| EngineError::file("make", Path::new("a temporary directory"), cause))?;
        self.write(revision, &wanted, directory.path())?;
        Ok(Checkout { directory, relative })
    }

    /// Resolves a revision to a commit. An ambiguous name is rejected: git would prefer a tag over the
    /// intended branch.
    fn resolve(&self, revision: &str) -> Result<String, EngineError> {
        if revision.is_empty() || revision.starts_with('-') {
            return Err(failed(revision, "not a revision".into()));
        }
        let base: String = revision
            .chars()
            .take_while(|letter| !matches!(letter, '~' | '^' | '@' | ':'))
            .collect();
        let places = [
            format!("refs/{base}"),
            format!("refs/tags/{base}"),
            format!("refs/heads/{base}"),
            format!("refs/remotes/{base}"),
        ];
        let mut found: Vec<String> = Vec::new();
        for place in places.iter().filter(|_| !base.is_empty()) {
            let output = self.run(
                revision,
                &[
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    "--end-of-options",
                    &format!("{place}^{{commit}}"),
                ],
            );
            if let Ok(id) = output {
                found.push(format!("{place} {}", String::from_utf8_lossy(&id).trim()));
            }
        }
        let ids: std::collections::BTreeSet<&str> = found
            .iter()
            .filter_map(|line| line.split(' ').next_back())
            .collect();
        if ids.len() > 1 {
            return Err(failed(
                revision,
                format!(
                    "ambiguous reference ({}); use a full reference name",
                    found.join(", ")
                ),
            ));
        }
        let output = self.run(
            revision,
            &[
                "rev-parse",
                "--verify",
                "--end-of-options",
                &format!("{revision}^{{commit}}"),
            ],
        )?;
        let id = String::from_utf8_lossy(&output).trim().to_owned();
        let odd = |letter: char| !letter.is_ascii_hexdigit();
        // A file of that name in the git directory would take precedence over every reference.
        let other_than_found = ids.first().is_some_and(|first| *first != id) && base == revision;
        if id.is_empty() || id.contains(odd) || other_than_found {
            return Err(failed(revision, "ambiguous name; use the commit id".into()));
        }
        Ok(id)
    }

    /// Verifies that every object of the path matches its id; a modified object database is rejected.
    fn verify_objects(&self, revision: &str, commit: &str, relative: &Path) -> Result<(), EngineError> {
        let mut command = git(&self.top);
        command.args([
            "rev-list",
            "--objects",
            "--verify-objects",
            "--no-walk",
            commit,
            "--",
        ]);
        command.arg(literal(relative));
        let output = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| failed(revision, error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || said.contains("mismatch") || said.contains("corrupt") {
            return Err(failed(
                revision,
                format!("the objects of the repository are corrupt: {}", said.trim()),
            ));
        }
        Ok(())
    }

    fn list(&self, revision: &str, commit: &str, path: &Path) -> Result<Vec<TreeEntry>, EngineError> {
        let mut arguments = vec!["ls-tree", "-r", "-z", "--full-tree", commit];
        let path = path.to_str().ok_or_else(|| {
            failed(
                revision,
                format!("cannot read {}: its name is not UTF-8", path.display()),
            )
        })?;
        if !path.is_empty() {
            arguments.extend(["--", path]);
        }
        let output = self.run(revision, &arguments)?;
        let mut entries = Vec::new();
        for record in output
            .split(|byte| *byte == 0)
            .filter(|record| !record.is_empty())
        {
            let text = std::str::from_utf8(record)
                .map_err(|_| failed(revision, "a file name is not UTF-8".into()))?;
            let parsed = text.split_once('\t').and_then(|(meta, path)| {
                let mut words = meta.split(' ');
                let (mode, _kind, id) = (words.next()?, words.next()?, words.next()?);
                Some(TreeEntry {
                    mode: mode.to_owned(),
                    id: id.to_owned(),
                    path: clean_relative(Path::new(path))?,
                })
            });
            entries
                .push(parsed.ok_or_else(|| failed(revision, format!("unexpected output of git: {text:?}")))?);
        }
        Ok(entries)
    }

    fn write(&self, revision: &str, entries: &[TreeEntry], directory: &Path) -> Result<(), EngineError> {
        let mut objects = Objects::open(&self.top, revision)?;
        let mut left = MAX_BYTES;
        for entry in entries {
            let bytes = objects.read(&entry.id, revision, &mut left)?;
            let path = directory.join(&entry.path);
            let failed = |cause| EngineError::file("write", &path, cause);
            if let Some(parent) = path.parent() {
                fs_err::create_dir_all(parent).map_err(failed)?;
            }
            fs_err::write(&path, bytes).map_err(failed)?;
            #[cfg(unix)]
            if entry.mode == "100755" {
                use std::os::unix::fs::PermissionsExt as _;
                fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
            }
        }
        objects.close();
        Ok(())
    }

    fn run(&self, revision: &str, arguments: &[&str]) -> Result<Vec<u8>, EngineError> {
        let output = git(&self.top)
            .args(arguments)
            .output()
            .map_err(|error| failed(revision, format!("cannot start git: {error}")))?;
        if !output.status.success() {
            return Err(failed(
                revision,
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        Ok(output.stdout)
    }
}

/// Rejects a repository in a path that an outer repository tracks: a submodule, or a repository created to
/// impersonate the base.
fn refuse_shadowing(top: &Path) -> Result<(), EngineError> {
    let (Some(parent), Some(name)) = (top.parent(), top.file_name()) else {
        return Ok(());
    };
    for tracked in [
        &["ls-files", "--error-unmatch", "--"][..],
        &["ls-tree", "-r", "--name-only", "HEAD", "--"][..],
    ] {
        let output = git(parent)
            .args(tracked)
            .arg(name)
            .output()
            .map_err(|error| failed("HEAD", format!("cannot start git: {error}")))?;
        if output.status.success() && !output.stdout.is_empty() {
            return Err(HarnessError::Link {
                path: top.display().to_string(),
            }
            .into());
        }
    }
    Ok(())
}

/// `git cat-file --batch`, which answers requests one by one.
struct Objects {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Objects {
    fn open(top: &Path, revision: &str) -> Result<Self, EngineError> {
        let mut process = git(top)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(revision, format!("cannot start git: {error}")))?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(questions), Some(answers)) => Ok(Self {
                process,
                questions,
                answers: BufReader::new(answers),
            }),
            _ => Err(failed(revision, "git has no pipes".into())),
        }
    }

    fn read(&mut self, id: &str, revision: &str, left: &mut u64) -> Result<Vec<u8>, EngineError> {
        let broken = |error: std::io::Error| failed(revision, format!("cannot read object {id}: {error}"));
        writeln!(self.questions, "{id}")
            .and_then(|()| self.questions.flush())
            .map_err(broken)?;
        let mut header = String::new();
        self.answers.read_line(&mut header).map_err(broken)?;
        let mut words = header.trim().split(' ');
        let size = match (words.next(), words.next(), words.next()) {
            (Some(found), Some("blob"), Some(size)) if found == id => size.parse::<u64>().ok(),
            _ => None,
        };
        let size = size.ok_or_else(|| failed(revision, format!("object {id} is missing or not a file")))?;
        *left = left.checked_sub(size).ok_or_else(|| {
            failed(
                revision,
                format!("the harness is larger than {MAX_BYTES} bytes; keep large data elsewhere"),
            )
        })?;
        let mut bytes = Vec::new();
        // The newline after the object is read with it.
        (&mut self.answers)
            .take(size + 1)
            .read_to_end(&mut bytes)
            .map_err(broken)?;
        if bytes.pop() != Some(b'\n') || bytes.len() as u64 != size {
            return Err(failed(revision, format!("object {id} is truncated")));
        }
        Ok(bytes)
    }

    fn close(self) {
        let Self {
            mut process,
            questions,
            answers,
        } = self;
        drop((questions, answers));
        // It ends when its input is closed; its exit status is irrelevant.
        let _ = process.wait();
    }
}

/// Git command in a directory, without environment variables that could redirect it.
fn git(directory: &Path) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .env("LC_ALL", "C")
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .current_dir(directory);
    command
}

/// Path for a command that takes pathspecs; the top is `.`.
fn literal(relative: &Path) -> &Path {
    if relative.as_os_str().is_empty() {
        Path::new(".")
    } else {
        relative
    }
}

fn shown_relative(relative: &Path) -> String {
    literal(relative).display().to_string()
}

/// Path below the top, without `.` components; `None` if it leads outside.
fn clean_relative(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => clean.push(name),
            _ => return None,
        }
    }
    Some(clean)
}

/// Normalises `.` and `..` lexically, so that no link is followed.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

fn failed(revision: &str, reason: String) -> EngineError {
    HarnessError::Git {
        revision: revision.to_owned(),
        reason,
    }
    .into()
}
