//! Node packages of the tests: the official TypeScript client of MCP, and programs that call our hooks.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::install_package;
use crate::test::root;

/// Packages and their locked versions.
const LISTS: [&str; 2] = ["package.json", "package-lock.json"];

/// Directory of the client, if installed.
pub fn find() -> Option<PathBuf> {
    let directory = directory();
    directory
        .join("node_modules/@modelcontextprotocol/sdk")
        .is_dir()
        .then_some(directory)
}

/// Installs the packages into `target/node`, unless the locked versions are already there.
pub fn install() -> Result<()> {
    let (lists, directory) = (root().join("tests/node"), directory());
    let same = |name: &str| {
        let text = |path: PathBuf| fs_err::read_to_string(path).ok();
        text(lists.join(name)) == text(directory.join(name))
    };
    if find().is_some() && LISTS.iter().all(|name| same(name)) {
        return Ok(());
    }
    if Command::new("npm").arg("--version").output().is_err() {
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
            // Programs of hundreds of megabytes, of which the tests need only the types.
            "--omit=optional",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ])
        .current_dir(&directory)
        .status()
        .context("cannot run npm")?;
    if !status.success() {
        // An incomplete directory must not count as installed.
        let _ = fs_err::remove_file(directory.join("package.json"));
        bail!(
            "cannot install the packages of tests/node/package-lock.json ({status})\nhint: give npm access to a package \
             registry, or skip this test: `cargo xtask test --skip node`"
        );
    }
    Ok(())
}

fn directory() -> PathBuf {
    root().join("target/node")
}
