//! Working directory for each case and repeat, with the files of the case.

use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use satiety::bench::contract::{ErrorKind, Request, TargetError};

use super::super::sandbox::layout::{Protected, canonical};
use super::program::give;
use super::{OpenError, TargetContext};

/// Directory that is deleted on drop, unless it is to be kept.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
    /// Parent directory owned by the runner, so that the target cannot write next to its own.
    enclosing: Option<PathBuf>,
    keep: bool,
}

impl Workdir {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        if !self.keep {
            // Failure to remove the directory leaves litter, but must not lose a result.
            let _ = fs_err::remove_dir_all(&self.path);
            if let Some(enclosing) = &self.enclosing {
                let _ = fs_err::remove_dir(enclosing);
            }
        }
    }
}

/// Creates working directories.
#[derive(Debug)]
pub(super) struct Workdirs {
    base: PathBuf,
    suite: PathBuf,
    scratch: PathBuf,
    keep: bool,
    /// Files of the target to copy into every directory.
    files: Vec<String>,
    /// Directory below each of them that gets a copy of the skill under test.
    skills: Option<PathBuf>,
    /// Files to leave out when a directory is copied.
    protected: Protected,
}

impl Workdirs {
    pub(super) fn new(context: &TargetContext, files: &[String]) -> Self {
        Self {
            base: context.base.clone(),
            suite: context.suite.clone(),
            // The process has another working directory, from which a relative path would resolve
            // differently.
            scratch: std::path::absolute(&context.scratch).unwrap_or_else(|_| context.scratch.clone()),
            keep: context.keep_workdirs,
            files: files.to_vec(),
            skills: None,
            protected: context.sandbox.protected.resolved(),
        }
    }

    /// Copies the skill under test into each directory, below this path, where a command-line agent looks for it.
    pub(super) fn with_skills(self, path: Option<&str>) -> Self {
        Self {
            skills: path.map(PathBuf::from),
            ..self
        }
    }

    /// Whether a case needs a directory even if directories are not created for all.
    pub(super) fn are_needed(&self, request: &Request) -> bool {
        !self.files.is_empty() || !request.input.files.is_empty()
    }

    /// Creates a directory for a process that outlives a case.
    pub(super) fn shared(&self, name: &str) -> Result<Workdir, TargetError> {
        self.make(name)
    }

    /// Creates a directory with the files of the target and the case.
    pub(super) fn fresh(&self, request: &Request) -> Result<Workdir, TargetError> {
        let name = format!(
            "{}-r{}-a{}",
            plain(&request.case_id),
            request.repeat,
            request.attempt
        );
        let folder = self.make(&name)?;
        for (from, files) in [(&self.base, &self.files), (&self.suite, &request.input.files)] {
            for file in files {
                copy(from, file, &folder.path, &self.protected)?;
            }
        }
        if let (Some(place), Some(skill)) = (&self.skills, &request.skill_dir) {
            let is_inside = place
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            if !is_inside {
                return Err(harness(format!(
                    "`skills` must be a path below the working directory, not {}",
                    place.display()
                )));
            }
            self.copy_skill(&folder.path.join(place), Path::new(skill))?;
        }
        Ok(folder)
    }

    fn copy_skill(&self, skills: &Path, skill: &Path) -> Result<(), TargetError> {
        let copy = skills.join(skill.file_name().unwrap_or_default());
        fs_err::create_dir_all(skills)
            .and_then(|()| copy_tree(skill, &copy, &self.protected))
            .map_err(|error| harness(format!("cannot copy the skill {}: {error}", skill.display())))
    }

    /// Same, with another owner, moved into the directory of a running process. It is filled and given its
    /// owner before that process can reach it, so that links which the process creates are never followed.
    pub(super) fn fresh_inside(
        &self,
        request: &Request,
        parent: &Path,
        user: Option<u32>,
    ) -> Result<Workdir, TargetError> {
        let mut folder = self.fresh(request)?;
        give(&folder.path, user)?;
        let enclosing = folder.enclosing.take().unwrap_or_else(|| folder.path.clone());
        let path = parent.join(enclosing.file_name().unwrap_or_default());
        fs_err::rename(&folder.path, &path)
            .map_err(|error| harness(format!("cannot move the working directory: {error}")))?;
        folder.path = path;
        // Empty now; failing to remove it leaves litter.
        let _ = fs_err::remove_dir(enclosing);
        Ok(folder)
    }

    fn make(&self, name: &str) -> Result<Workdir, TargetError> {
        // One counter per process: variants may share a scratch directory.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let next = || {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{name}-{}-{count}", std::process::id());
            self.scratch.join(name)
        };
        // A killed process leaves its directories behind, and process ids are used again.
        let mut enclosing = next();
        while enclosing.symlink_metadata().is_ok() {
            enclosing = next();
        }
        let path = enclosing.join("work");
        let create = |path: &Path, mode: u32| {
            use std::os::unix::fs::DirBuilderExt as _;
            std::fs::DirBuilder::new().mode(mode).create(path)
        };
        match create(&enclosing, 0o711) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs_err::create_dir_all(&self.scratch).and_then(|()| create(&enclosing, 0o711))
            }
            made => made,
        }
        // Not accessible to other users of the scratch directory.
        .and_then(|()| create(&path, 0o700))
        .map_err(|error| {
            harness(format!(
                "cannot create the working directory {}: {error}",
                path.display()
            ))
        })?;
        Ok(Workdir {
            path,
            enclosing: Some(enclosing),
            keep: self.keep,
        })
    }
}

/// Replaces characters that are not safe in file names.
fn plain(name: &str) -> String {
    name.chars()
        .take(60)
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn copy(from: &Path, file: &str, into: &Path, protected: &Protected) -> Result<(), TargetError> {
    let relative = Path::new(file);
    let inside = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside || file.is_empty() {
        return Err(harness(format!(
            "file `{file}` must be a relative path inside its directory"
        )));
    }
    let real = canonical(&from.join(relative));
    if protected.is_outside(&real) {
        return Err(harness(OpenError::outside(relative).to_string()));
    }
    if protected.covers(&real) {
        return Err(harness(format!("file `{file}` is hidden from targets")));
    }
    copy_tree(&from.join(relative), &into.join(relative), protected).map_err(|error| {
        harness(format!(
            "cannot copy `{file}` into the working directory: {error}"
        ))
    })
}

/// Copies a file, or a directory without its protected files: suites refer to fixtures, never to their own
/// answers.
fn copy_tree(from: &Path, to: &Path, protected: &Protected) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        fs_err::create_dir_all(parent)?;
    }
    if !fs_err::metadata(from)?.is_dir() {
        return fs_err::copy(from, to).map(|_| ());
    }
    fs_err::create_dir_all(to)?;
    for entry in fs_err::read_dir(from)? {
        let entry = entry?;
        if !protected.covers(&canonical(&entry.path())) {
            copy_tree(&entry.path(), &to.join(entry.file_name()), protected)?;
        }
    }
    Ok(())
}

fn harness(message: String) -> TargetError {
    TargetError::new(ErrorKind::Harness, message)
}
