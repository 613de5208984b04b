//! `cargo xtask gen`: reference pages, man pages and the README's picture, written by the binary itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Writes `docs/reference`, or with `--check` fails when what is committed differs.
pub fn run(arguments: &[String]) -> Result<()> {
    let check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!("usage: cargo xtask gen [--check]"),
    };
    let committed = crate::test::root().join("docs/reference");
    if !check {
        return write_to(&committed);
    }
    let fresh = tempfile::tempdir()?;
    write_to(fresh.path())?;
    let status = Command::new("diff")
        .arg("--recursive")
        .arg("--brief")
        .arg(&committed)
        .arg(fresh.path())
        .status()?;
    ensure!(
        status.success(),
        "docs/reference is out of date\nhint: run `cargo xtask gen` and commit the result"
    );
    Ok(())
}

fn write_to(folder: &Path) -> Result<()> {
    let root = crate::test::root();
    let built = Command::new(crate::test::cargo())
        .args(crate::test::TEST_BUILD)
        .args(["--no-run", "--quiet"])
        .current_dir(&root)
        .status()
        .context("cannot run cargo")?;
    ensure!(built.success(), "the build failed");
    if folder.exists() {
        fs_err::remove_dir_all(folder)?;
    }
    fs_err::create_dir_all(folder)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), std::path::PathBuf::from);
    let program = target.join("debug/satiety");
    let status = Command::new(&program)
        .arg("reference")
        .arg(folder)
        .current_dir(&root)
        .status()
        .context("cannot run the binary that the tests built")?;
    ensure!(status.success(), "`satiety reference` failed");
    for (name, picture) in crate::picture::pictures(&program, &root)? {
        fs_err::write(folder.join(name), picture)?;
    }
    Ok(())
}
