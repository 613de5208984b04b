//! What is started for a target: the program, its arguments and the few variables it sees.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use satiety::bench::contract::spec::SandboxSpec;
use satiety::bench::contract::{ErrorKind, Exit, TargetError};
use tokio::process::Command;

use super::super::sandbox::helper::{EXIT_NO_FENCE, WORDS};
use super::super::sandbox::{self, Sandbox};
use super::process::Process;
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
    sandbox: Option<Sandbox>,
    /// Whether it could be started before: from then on, what cannot be started was removed.
    started: AtomicBool,
}

/// A program about to start.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) command: Command,
    /// The user that it will be, where that is not us.
    pub(super) user: Option<u32>,
}

/// The keys of a description that say what to start.
#[derive(Debug)]
pub(super) struct Described<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a [String],
    pub(super) set_env: &'a BTreeMap<String, String>,
    pub(super) sandbox: Option<&'a SandboxSpec>,
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
        let sandbox = described
            .sandbox
            .map(|spec| Sandbox::new(spec, surroundings.helper.as_deref()))
            .transpose()
            .map_err(|reason| OpenError::Sandbox { reason })?;
        Ok(Self {
            path,
            args: described.args.to_vec(),
            base,
            env: variables(described, &surroundings.environment),
            sandbox,
            started: AtomicBool::new(false),
        })
    }

    /// The program ready to start with `workdir` as its folder, home and place for temporary files. `extra` comes after
    /// the arguments of the description.
    pub(super) fn ready(&self, workdir: &Path, extra: Option<&str>) -> Result<Ready, TargetError> {
        let mut args: Vec<OsString> = self.args.iter().map(|arg| self.filled(arg, workdir)).collect();
        args.extend(extra.map(OsString::from));
        let mut program = self.path.clone().into_os_string();
        let mut user = None;
        if let Some(sandbox) = &self.sandbox {
            user = sandbox.next_user();
            give(workdir, user)?;
            (program, args) = sandbox
                .wrap(&program, args, workdir, user)
                .map_err(|reason| TargetError::new(ErrorKind::Harness, reason))?;
        }
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("HOME", workdir)
            .env("TMPDIR", workdir)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(workdir);
        Ok(Ready { command, user })
    }

    /// Starts the program. A program that could be started before and cannot be now is gone by the target's own doing.
    pub(super) fn start(&self, command: Command) -> Result<Process, TargetError> {
        match Process::start(command) {
            Ok(process) => {
                self.started.store(true, Ordering::SeqCst);
                Ok(process)
            }
            Err(error) if self.started.load(Ordering::SeqCst) && error.kind == ErrorKind::Harness => {
                Err(TargetError::new(ErrorKind::Target, error.message))
            }
            Err(error) => Err(error),
        }
    }

    /// The helper's words in place of an outcome that is about the fence and not about the target.
    pub(super) fn fence_failed(&self, exit: Option<Exit>, stderr: &str) -> Option<TargetError> {
        let failed = self.sandbox.is_some() && exit == Some(Exit::Code(EXIT_NO_FENCE.into()));
        let words = stderr
            .lines()
            .find_map(|line| line.strip_prefix(WORDS))
            .filter(|_| failed)?;
        Some(TargetError::new(
            ErrorKind::Harness,
            format!("the sandbox failed: {words}"),
        ))
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

/// Hands a folder over to the user that will work in it.
pub(super) fn give(folder: &Path, user: Option<u32>) -> Result<(), TargetError> {
    let Some(user) = user else { return Ok(()) };
    sandbox::give(folder, user).map_err(|error| {
        TargetError::new(
            ErrorKind::Harness,
            format!("cannot give the working folder to user {user}: {error}"),
        )
    })
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
