//! Node packages in `target`, each set installed from a lock file.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::install_package;
use crate::test::root;

/// Packages and their locked versions.
const LISTS: [&str; 2] = ["package.json", "package-lock.json"];

/// A directory with the packages of a lock file.
pub struct Environment {
    directory: &'static str,
    lists: &'static str,
    /// A package of the set, whose presence shows that it is installed.
    marker: &'static str,
    /// Arguments of `npm ci` that only this set needs.
    options: &'static [&'static str],
}

/// The official TypeScript client of MCP, and programs that call our hooks.
pub const CLIENTS: Environment = Environment {
    directory: "target/node",
    lists: "tests/node",
    marker: "@modelcontextprotocol/sdk",
    // Programs of hundreds of megabytes, of which the tests need only the types.
    options: &["--omit=optional"],
};

/// Compiler and frameworks of the npm packages.
pub const FRAMEWORKS: Environment = Environment {
    directory: "target/npm",
    lists: "npm",
    marker: "typescript",
    options: &[],
};

/// Whether npm can be run.
pub fn has_npm() -> bool {
    Command::new("npm").arg("--version").output().is_ok()
}

impl Environment {
    /// The directory, if the packages are installed.
    pub fn find(&self) -> Option<PathBuf> {
        let directory = self.directory();
        directory
            .join("node_modules")
            .join(self.marker)
            .is_dir()
            .then_some(directory)
    }

    /// Installs the packages, unless the locked versions are already there.
    pub fn install(&self) -> Result<()> {
        let (lists, directory) = (root().join(self.lists), self.directory());
        let same = |name: &str| {
            let text = |path: PathBuf| fs_err::read_to_string(path).ok();
            text(lists.join(name)) == text(directory.join(name))
        };
        if self.find().is_some() && LISTS.iter().all(|name| same(name)) {
            return Ok(());
        }
        if !has_npm() {
            install_package("npm", "cargo xtask test --skip node")?;
        }
        fs_err::create_dir_all(&directory)?;
        for name in LISTS {
            fs_err::copy(lists.join(name), directory.join(name))?;
        }
        // Installation scripts of packages are not run.
        let status = Command::new("npm")
            .args([
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
            ])
            .args(self.options)
            .current_dir(&directory)
            .status()
            .context("cannot run npm")?;
        if !status.success() {
            // An incomplete directory must not count as installed.
            let _ = fs_err::remove_file(directory.join("package.json"));
            bail!(
                "cannot install the packages of {}/package-lock.json ({status})\nhint: give npm access to a package \
                 registry, or skip this test: `cargo xtask test --skip node`",
                self.lists
            );
        }
        Ok(())
    }

    fn directory(&self) -> PathBuf {
        root().join(self.directory)
    }
}
