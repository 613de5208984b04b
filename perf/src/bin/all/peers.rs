//! The Python peers: which of them an interpreter has, and their installation into a virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Directory of the virtual environment, unless another one is given.
pub(super) const DIRECTORY: &str = "target/perf-peers";

/// Packages of all peers but sentence-transformers, which brings a gigabyte and needs the f32 model.
const PACKAGES: [&str; 12] = [
    "datasketch",
    "pytrec_eval-terrier",
    "ir_measures",
    "ranx",
    "scipy",
    "numpy",
    "bm25s",
    "fastapi",
    "uvicorn",
    "pydantic-evals",
    "inspect-ai",
    "openai",
];

/// The interpreter to use: the given one, or that of the environment, which is created on request.
pub(super) fn interpreter(given: Option<&Path>, install: Option<&Path>) -> Result<Option<PathBuf>> {
    let directory = match install {
        Some(directory) if directory != Path::new(DIRECTORY) => directory.to_owned(),
        // Independent of the current directory.
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DIRECTORY),
    };
    let python = directory.join("bin/python");
    if install.is_some() {
        if !python.is_file() {
            execute(
                Command::new(given.unwrap_or(Path::new("python3")))
                    .args(["-m", "venv"])
                    .arg(&directory),
            )
            .context("cannot create a virtual environment\nhint: install the venv module of Python")?;
        }
        // One by one: a package without a build for this Python must not prevent the others.
        for package in PACKAGES {
            let pip = [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                package,
            ];
            if let Err(error) = execute(Command::new(&python).args(pip)) {
                super::warn(&format!("cannot install {package}: {error:#}"));
            }
        }
        return Ok(Some(python));
    }
    Ok(given
        .map(Path::to_owned)
        .or_else(|| python.is_file().then_some(python)))
}

/// The modules that the interpreter cannot import.
pub(super) fn missing<'a>(python: &Path, modules: &[&'a str]) -> Vec<&'a str> {
    let has = |module: &str| {
        let tried = Command::new(python)
            .args(["-c", &format!("import {module}")])
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    modules.iter().copied().filter(|module| !has(module)).collect()
}

fn execute(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot start it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}",
        said.lines().last().unwrap_or("no message")
    );
    Ok(())
}
