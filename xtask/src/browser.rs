//! Browser for the dashboard tests.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::postgres::install_package;

/// Executable names of Chromium.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Path of the browser, if installed.
pub fn find() -> Option<PathBuf> {
    let directories = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let directories = directories.unwrap_or_default();
    NAMES
        .iter()
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find(|program| program.is_file())
}

/// Installs the browser if a system package provides it.
pub fn install() -> Result<PathBuf> {
    if find().is_none() {
        install_package("chromium", "cargo xtask test --skip browser")?;
    }
    find().context("cannot find chromium after installing the package `chromium`")
}
