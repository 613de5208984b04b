//! The official TypeScript client of MCP, for the test that drives `/mcp` with it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::install_package;
use crate::test::root;

/// What is installed, and with which versions.
const LISTS: [&str; 2] = ["package.json", "package-lock.json"];

/// The folder with the client, where it is installed.
pub fn find() -> Option<PathBuf> {
    let folder = folder();
    folder
        .join("node_modules/@modelcontextprotocol/sdk")
        .is_dir()
        .then_some(folder)
}

/// Installs it into `target/node`, unless it is there as the list asks for.
pub fn install() -> Result<()> {
    let (lists, folder) = (root().join("tests/node"), folder());
    let same = |name: &str| {
        let text = |path: PathBuf| fs_err::read_to_string(path).ok();
        text(lists.join(name)) == text(folder.join(name))
    };
    if find().is_some() && LISTS.iter().all(|name| same(name)) {
        return Ok(());
    }
    if Command::new("npm").arg("--version").output().is_err() {
        install_package("npm", "cargo xtask test --skip node")?;
    }
    fs_err::create_dir_all(&folder)?;
    for name in LISTS {
        fs_err::copy(lists.join(name), folder.join(name))?;
    }
    // Nothing of the packages is run while they are installed.
    let status = Command::new("npm")
        .args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ])
        .current_dir(&folder)
        .status()
        .context("npm cannot be started")?;
    if !status.success() {
        // A half-made folder must not be taken for a whole one.
        let _ = fs_err::remove_file(folder.join("package.json"));
        bail!(
            "cannot install the packages of tests/node/package-lock.json ({status})\nhint: give npm access to a package \
             registry, or leave this test out: `cargo xtask test --skip node`"
        );
    }
    Ok(())
}

fn folder() -> PathBuf {
    root().join("target/node")
}
