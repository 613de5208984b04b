//! What is started for a target: the program, its arguments and the few variables it sees.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{Environment, OpenError, Surroundings};

/// Where programs are looked for when the environment has no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that can be started any number of times.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    args: Vec<String>,
    base: PathBuf,
    env: Vec<(String, OsString)>,
}

/// The keys of a description that say what to start.
#[derive(Debug)]
pub(super) struct Described<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a [String],
    pub(super) set_env: &'a std::collections::BTreeMap<String, String>,
}

impl Program {
    pub(super) fn new(described: &Described<'_>, surroundings: &Surroundings) -> Result<Self, OpenError> {
        let command = described.command.trim();
        if command.is_empty() {
            return Err(OpenError::description("command", "is empty; name a program"));
        }
        let base = std::path::absolute(&surroundings.base)
            .map_err(|error| OpenError::description("command", format!("its folder: {error}")))?;
        let path = if command.contains('/') {
            base.join(command)
        } else {
            PathBuf::from(command)
        };
        Ok(Self {
            path,
            args: described.args.to_vec(),
            base,
            env: variables(described, &surroundings.environment),
        })
    }

    /// The program ready to start with `workdir` as its folder, home and place for temporary files.
    pub(super) fn command(&self, workdir: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.args.iter().map(|arg| self.filled(arg, workdir)));
        command
            .env_clear()
            .env("HOME", workdir)
            .env("TMPDIR", workdir)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(workdir);
        command
    }

    fn filled(&self, arg: &str, workdir: &Path) -> OsString {
        if !arg.contains("{{") {
            return arg.into();
        }
        arg.replace("{{base}}", &self.base.to_string_lossy())
            .replace("{{workdir}}", &workdir.to_string_lossy())
            .into()
    }
}

/// The allow-list: what is not here is not seen.
fn variables(described: &Described<'_>, environment: &Environment) -> Vec<(String, OsString)> {
    let mut found = vec![
        ("PATH".to_owned(), environment.get("PATH").unwrap_or(PATH).into()),
        (
            "LANG".to_owned(),
            environment.get("LANG").unwrap_or("C.UTF-8").into(),
        ),
    ];
    for name in described.env {
        if let Some(value) = environment.get(name) {
            found.push((name.clone(), value.into()));
        }
    }
    for (name, value) in described.set_env {
        found.push((name.clone(), value.into()));
    }
    found
}
