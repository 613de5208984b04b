//! `cargo xtask docs`: the documentation as a site with offline search, built by mdBook into `target/book`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::test::root;

/// The version that the pages are written for.
const VERSION: &str = "0.5.4";

/// Builds the site; installs mdBook into `target/tools` when the machine does not have that version.
pub fn build() -> Result<PathBuf> {
    let program = match installed("mdbook".into()) {
        Some(program) => program,
        None => install()?,
    };
    let status = Command::new(&program)
        .args(["build", "--dest-dir", "target/book"])
        .current_dir(root())
        .status()
        .context("cannot start mdbook")?;
    if !status.success() {
        bail!("mdbook failed ({status})");
    }
    Ok(root().join("target/book/index.html"))
}

fn installed(program: PathBuf) -> Option<PathBuf> {
    let output = Command::new(&program).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .ends_with(VERSION)
        .then_some(program)
}

fn install() -> Result<PathBuf> {
    let tools = root().join("target/tools");
    if let Some(program) = installed(tools.join("bin/mdbook")) {
        return Ok(program);
    }
    let status = Command::new("cargo")
        .args(["install", "mdbook", "--version", VERSION, "--locked"])
        .args(["--no-default-features", "--features", "search", "--root"])
        .arg(&tools)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!(
            "cannot install mdbook {VERSION} ({status})\nhint: install it yourself: cargo install mdbook --version {VERSION}"
        );
    }
    Ok(tools.join("bin/mdbook"))
}
