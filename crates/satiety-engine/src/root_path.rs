//! Paths confined to a root directory, for names from remote callers or from database rows.

use std::path::{Component, Path, PathBuf};

/// JSON Schema pattern for the names that [`below`] accepts: relative, without `..`.
pub const BELOW_ROOT: &str = "^(?:[^/\\u0000.][^/\\u0000]*|\\.(?:[^/\\u0000.][^/\\u0000]*)?|\\.\\.[^/\\u0000]+)(?:/+(?:[^/\\u0000.][^/\\u0000]*|\\.(?:[^/\\u0000.][^/\\u0000]*)?|\\.\\.[^/\\u0000]+))*/*$";

/// Reason why a name is not a path below the root directory.
#[derive(Debug, thiserror::Error)]
pub enum OutsideRoot {
    /// The name is absolute, contains `..`, or leads out through a symbolic link.
    #[error("`{}` is not a path below the root", .0.escape_debug())]
    Outside(String),
    /// The path does not exist.
    #[error("path `{}` not found below the root", .0.escape_debug())]
    Missing(String),
    /// The root directory itself is not accessible.
    #[error("cannot access the root: {0}")]
    Root(std::io::Error),
}

/// Resolves a name below a root directory; refuses symbolic links that lead out of it.
pub fn below(root: &Path, named: &str) -> Result<PathBuf, OutsideRoot> {
    let path = Path::new(named);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if named.is_empty() || named.contains('\0') || !path.components().all(plain) {
        return Err(OutsideRoot::Outside(named.into()));
    }
    let root = root.canonicalize().map_err(OutsideRoot::Root)?;
    match root.join(path).canonicalize() {
        Ok(found) if found.starts_with(&root) => Ok(found),
        Ok(_) => Err(OutsideRoot::Outside(named.into())),
        Err(_) => Err(OutsideRoot::Missing(named.into())),
    }
}

/// Returns the path of `place` relative to a root directory above it, in the form that [`below`] accepts.
pub fn relative_name(root: &Path, place: &Path) -> Result<String, OutsideRoot> {
    let shown = place.display().to_string();
    let root = root.canonicalize().map_err(OutsideRoot::Root)?;
    let found = place
        .canonicalize()
        .map_err(|_| OutsideRoot::Missing(shown.clone()))?;
    let inside = found
        .strip_prefix(&root)
        .ok()
        .and_then(Path::to_str)
        .ok_or(OutsideRoot::Outside(shown))?;
    Ok(if inside.is_empty() { "." } else { inside }.to_owned())
}

/// Removes the path of the root directory from a text: a remote caller need not learn where it is.
pub fn hide_root(root: &Path, text: &str) -> String {
    let mut text = text.to_owned();
    for root in [root.to_path_buf(), root.canonicalize().unwrap_or_default()] {
        let place = root.display().to_string();
        if !place.is_empty() {
            text = text.replace(&format!("{place}/"), "").replace(&place, ".");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_the_root_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs_err::create_dir_all(root.join("suites/a")).unwrap();
        fs_err::write(folder.path().join("secret"), "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.path().join("secret"), root.join("link")).unwrap();
        assert!(below(&root, "suites/a").is_ok());
        assert!(below(&root, "./suites/./a").is_ok());
        for bad in [
            "../secret",
            "suites/../../secret",
            "/etc/passwd",
            "",
            "link",
            "a\0b",
        ] {
            assert!(
                matches!(below(&root, bad), Err(OutsideRoot::Outside(_))),
                "{bad:?}"
            );
        }
        assert!(matches!(below(&root, "nowhere"), Err(OutsideRoot::Missing(_))));
        assert!(matches!(
            below(&root.join("none"), "a"),
            Err(OutsideRoot::Root(_))
        ));
    }

    #[test]
    fn relative_names_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs_err::create_dir_all(root.join("suites/a")).unwrap();
        let name = relative_name(&root, &root.join("suites/../suites/a")).unwrap();
        assert_eq!(name, "suites/a");
        assert_eq!(
            below(&root, &name).unwrap(),
            root.join("suites/a").canonicalize().unwrap()
        );
        let here = relative_name(&root, &root).unwrap();
        assert_eq!(below(&root, &here).unwrap(), root.canonicalize().unwrap());
        assert!(matches!(
            relative_name(&root, folder.path()),
            Err(OutsideRoot::Outside(_))
        ));
        assert!(matches!(
            relative_name(&root, &root.join("none")),
            Err(OutsideRoot::Missing(_))
        ));
    }
}
