//! Detects the project of a command: the repository of the working directory, or that directory itself.

use std::path::{Path, PathBuf};

use satiety::memory::{Project, Scope};

use crate::failure::Failure;

pub(crate) fn current_project() -> Project {
    let here = std::env::current_dir().unwrap_or_else(|_| Path::new(".").to_path_buf());
    project_of(&here)
}

/// Project of a directory: the nearest ancestor with `.git` (a directory, or a file in worktrees and
/// submodules), else the directory itself. Symbolic links are resolved, so that one location is one project.
pub(crate) fn project_of(directory: &Path) -> Project {
    Project::at(&root_of(directory).to_string_lossy())
}

/// Directory of the project that a directory belongs to.
pub(crate) fn root_of(directory: &Path) -> PathBuf {
    let directory = fs_err::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let root = directory
        .ancestors()
        .find(|ancestor| fs_err::symlink_metadata(ancestor.join(".git")).is_ok());
    root.unwrap_or(&directory).to_path_buf()
}

/// Parses `--project`: a directory, `all`, `global`, or the name or id of a project.
pub(crate) fn scope_named(text: &str) -> Result<Scope, Failure> {
    let path = Path::new(text);
    // A bare name is a project name even if a directory with that name exists.
    let is_path = text.contains('/') || text == "." || text == "..";
    if is_path && path.is_dir() {
        return Ok(Scope::Project(project_of(path)));
    }
    Scope::parse(text).map_err(|error| {
        Failure::bad_input(
            format!("--project: {error}"),
            "give a directory such as ./shop, a project name or id, or `all`",
        )
    })
}
