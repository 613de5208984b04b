//! A folder for each case and repeat, with the files the case brings.

use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use satiety::bench::contract::{ErrorKind, Request, TargetError};

use super::super::sandbox::layout::{Protected, canonical};
use super::TargetContext;
use super::program::give;

/// A folder that goes when this is dropped, unless it is to be kept.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
    /// A directory around it that belongs to the runner, so that the target cannot write beside its own.
    around: Option<PathBuf>,
    keep: bool,
}

impl Workdir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        if !self.keep {
            // A folder that cannot be removed is litter, and no reason to lose a result.
            let _ = fs_err::remove_dir_all(&self.path);
            if let Some(around) = &self.around {
                let _ = fs_err::remove_dir(around);
            }
        }
    }
}

/// Makes working folders.
#[derive(Debug)]
pub(super) struct Workdirs {
    base: PathBuf,
    suite: PathBuf,
    scratch: PathBuf,
    keep: bool,
    /// Files of the target that every folder gets.
    files: Vec<String>,
    /// What must not come along when a directory is copied.
    protected: Protected,
}

impl Workdirs {
    pub(super) fn new(context: &TargetContext, files: &[String]) -> Self {
        Self {
            base: context.base.clone(),
            suite: context.suite.clone(),
            // The process has another folder of its own, from which a relative path would lead elsewhere.
            scratch: std::path::absolute(&context.scratch).unwrap_or_else(|_| context.scratch.clone()),
            keep: context.keep_workdirs,
            files: files.to_vec(),
            protected: context.sandbox.protected.resolved(),
        }
    }

    /// Whether a case needs a folder even where folders are not made for all.
    pub(super) fn are_needed(&self, request: &Request) -> bool {
        !self.files.is_empty() || !request.input.files.is_empty()
    }

    /// A folder for something that outlives a case.
    pub(super) fn shared(&self, name: &str) -> Result<Workdir, TargetError> {
        self.make(name)
    }

    /// A fresh directory with the target's files and the case's.
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
        Ok(folder)
    }

    /// The same, given to a user and moved into the directory of a process that runs. It is filled and given away before that
    /// process can reach it: links that it puts in the way are never followed.
    pub(super) fn fresh_inside(
        &self,
        request: &Request,
        parent: &Path,
        user: Option<u32>,
    ) -> Result<Workdir, TargetError> {
        let mut folder = self.fresh(request)?;
        give(&folder.path, user)?;
        let around = folder.around.take().unwrap_or_else(|| folder.path.clone());
        let path = parent.join(around.file_name().unwrap_or_default());
        fs_err::rename(&folder.path, &path)
            .map_err(|error| harness(format!("cannot move the working folder: {error}")))?;
        folder.path = path;
        // Empty now; one that stays is litter.
        let _ = fs_err::remove_dir(around);
        Ok(folder)
    }

    fn make(&self, name: &str) -> Result<Workdir, TargetError> {
        // One count for the whole process: variants may share a scratch folder.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let around = self
            .scratch
            .join(format!("{name}-{}-{count}", std::process::id()));
        let path = around.join("work");
        let create = |path: &Path, mode: u32| {
            use std::os::unix::fs::DirBuilderExt as _;
            std::fs::DirBuilder::new().mode(mode).create(path)
        };
        match create(&around, 0o711) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs_err::create_dir_all(&self.scratch).and_then(|()| create(&around, 0o711))
            }
            made => made,
        }
        // Nobody else's business, whoever else works in the scratch directory.
        .and_then(|()| create(&path, 0o700))
        .map_err(|error| {
            harness(format!(
                "cannot make the working folder {}: {error}",
                path.display()
            ))
        })?;
        Ok(Workdir {
            path,
            around: Some(around),
            keep: self.keep,
        })
    }
}

/// The letters of a name that no file system objects to.
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
            "the file `{file}` must be named relative to its folder and lie inside it"
        )));
    }
    if protected.covers(&canonical(&from.join(relative))) {
        return Err(harness(format!("`{file}` is a file that a target must not see")));
    }
    copy_tree(&from.join(relative), &into.join(relative), protected)
        .map_err(|error| harness(format!("cannot copy `{file}` into the working folder: {error}")))
}

/// Copies a file, or a directory without what is protected inside: suites name fixtures, never their own answers.
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
