//! A real browser for the tests of the dashboard.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::postgres::install_package;

/// The names that Chromium goes by.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser, where there is one.
pub fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let folders = folders.unwrap_or_default();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

/// Installs it where that is one package away.
pub fn install() -> Result<PathBuf> {
    if find().is_none() {
        install_package("chromium", "cargo xtask test --skip browser")?;
    }
    find().context("the package `chromium` was installed, and there is still no such program")
}
