//! `cargo xtask wheel`: the Python package with the extension module and the `satiety` command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::python::{WHEEL, copy_stripped, run};
use crate::test::{cargo, root};

/// Directory that maturin copies into the wheel, named after the extension module.
const DATA: &str = "satiety._satiety.data";

/// Cargo feature of the module and the command that makes them read [`WEIGHTS`] from a file.
const FEATURE: &str = "external-weights";

/// Weights of the sentence model, which the wheel has once for the module and the command.
const WEIGHTS: &str = "minilm-l6-v2-int8.weights";

/// Builds the wheel for users into `target/wheel/dist`, with these variables set, and returns its path.
pub fn build_release(environment: &[(String, String)]) -> Result<PathBuf> {
    WHEEL.install()?;
    let status = Command::new(cargo())
        .args([
            "build",
            "--profile",
            "dist",
            "--package",
            "satiety-cli",
            "--features",
            FEATURE,
        ])
        .envs(environment.iter().cloned())
        .current_dir(root())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cannot build the command ({status})");
    }
    build("dist", &root().join("target/dist/satiety"), environment)
}

/// Builds a wheel in the profile of the tests from the command that the tests were built with, and installs it
/// into the environment of the package.
pub fn install_for_tests() -> Result<()> {
    WHEEL.install()?;
    let command = root().join("target/debug/satiety");
    if !command.is_file() {
        bail!(
            "{} not found\nhint: build it first: `cargo build`",
            command.display()
        );
    }
    let wheel = build("dev", &command, &[])?;
    run(
        WHEEL.pip().args(["--force-reinstall", "--no-deps"]).arg(&wheel),
        "install the wheel",
    )?;
    fs_err::remove_file(&wheel)?;
    run(
        Command::new(WHEEL.python()).args(["-m", "pip", "check"]),
        "resolve the dependencies of the wheel",
    )
}

/// Checks of the package: formatting, lints and types.
pub fn check() -> Result<()> {
    let package = root().join("python");
    let run_in_package = |program: &str, arguments: &[&str]| {
        run(
            Command::new(WHEEL.program(program))
                .args(arguments)
                .current_dir(&package),
            &format!("pass `{program} {}` in python/", arguments.join(" ")),
        )
    };
    run_in_package("ruff", &["check", "--quiet"])?;
    run_in_package("ruff", &["format", "--check", "--quiet"])?;
    run_in_package("mypy", &["--no-error-summary"])
}

/// The tests of the package, run against the installed wheel.
pub fn test_command() -> Command {
    let mut command = Command::new(WHEEL.python());
    command
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .current_dir(root().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SATIETY_TEST_COMMAND", WHEEL.program("satiety"));
    command
}

/// Runs maturin. The command becomes a script of the wheel and the weights are installed below its prefix,
/// because maturin copies the directory [`DATA`].
fn build(profile: &str, command: &Path, environment: &[(String, String)]) -> Result<PathBuf> {
    let package = root().join("python");
    let scripts = package.join(DATA).join("scripts");
    fs_err::create_dir_all(&scripts)?;
    copy_stripped(command, &scripts.join("satiety"))?;
    let share = package.join(DATA).join("data/share/satiety");
    fs_err::create_dir_all(&share)?;
    let assets = root().join("crates/satiety-models/assets");
    fs_err::copy(assets.join(WEIGHTS), share.join(WEIGHTS))?;
    let out = WHEEL.directory().join(profile);
    if out.is_dir() {
        fs_err::remove_dir_all(&out)?;
    }
    let mut maturin = Command::new(WHEEL.program("maturin"));
    maturin
        .args([
            "build",
            "--locked",
            "--quiet",
            "--profile",
            profile,
            "--strip",
            "--features",
            FEATURE,
            "--out",
        ])
        .arg(&out)
        .args(["--interpreter".as_ref(), WHEEL.python().as_os_str()])
        .envs(environment.iter().cloned())
        .current_dir(&package);
    if profile == "dev" {
        maturin.args(["--compression-method", "stored", "--auditwheel", "skip"]);
    } else {
        maturin.args(["--compression-level", "9"]);
    }
    let built = run(&mut maturin, "build the wheel");
    fs_err::remove_dir_all(package.join(DATA))?;
    built?;
    let wheel = fs_err::read_dir(&out)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    wheel.with_context(|| format!("{} contains no wheel", out.display()))
}
