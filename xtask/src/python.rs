//! Python environments in `target`, each installed from a list of requirements.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::test::root;

/// A virtual environment with the packages of a list.
pub struct Environment {
    directory: &'static str,
    requirements: &'static str,
}

/// Clients that the tests of the command and the server use.
pub const CLIENTS: Environment = Environment {
    directory: "target/python",
    requirements: "tests/python/requirements.txt",
};

/// Builder, checks and tests of the Python package.
pub const WHEEL: Environment = Environment {
    directory: "target/wheel",
    requirements: "python/requirements.txt",
};

impl Environment {
    /// Creates the environment, unless it matches its requirements already.
    pub fn install(&self) -> Result<()> {
        let list = root().join(self.requirements);
        let wanted = fs_err::read_to_string(&list)?;
        let made = self.directory().join("requirements.txt");
        if self.python().is_file() && fs_err::read_to_string(&made).is_ok_and(|have| have == wanted) {
            return Ok(());
        }
        run(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(self.directory()),
            "create a Python environment",
        )?;
        run(
            self.pip().arg("-r").arg(&list),
            &format!("install the packages of {}", self.requirements),
        )?;
        fs_err::write(&made, wanted)?;
        Ok(())
    }

    /// `pip install` into this environment.
    pub fn pip(&self) -> Command {
        let mut command = Command::new(self.python());
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command
    }

    /// The interpreter of the environment.
    pub fn python(&self) -> PathBuf {
        self.program("python")
    }

    /// A program that a package of the environment installed.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory().join("bin").join(name)
    }

    /// Directory of the environment.
    pub fn directory(&self) -> PathBuf {
        root().join(self.directory)
    }
}

/// Runs a command of an environment; `what` completes "cannot …".
pub fn run(command: &mut Command, what: &str) -> Result<()> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        outcome => bail!(
            "cannot {what} ({})\nhint: install Python 3.10 or newer with venv and pip, give it access to a package \
             index, or skip these tests: `cargo xtask test --skip python`",
            outcome.map_or_else(|error| error.to_string(), |status| status.to_string())
        ),
    }
}

/// Copies an executable without its symbols, if the tool for that is installed.
pub fn copy_stripped(from: &Path, to: &Path) -> Result<()> {
    let stripped = Command::new("strip").arg("-o").arg(to).arg(from).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs_err::copy(from, to)?;
    }
    Ok(())
}
