//! Command of a target: the program, its arguments and its environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use satiety::bench::contract::spec::SandboxSpec;
use satiety::bench::contract::{ErrorKind, TargetError};
use tokio::process::Command;

use super::super::sandbox::layout::{Named, find_program};
use super::super::sandbox::{self, Sandbox};
use super::process::Process;
use super::{Environment, OpenError, TargetContext};

/// Search path if the environment has no `PATH`.
pub(in super::super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Program that can be started any number of times.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    args: Vec<String>,
    base: PathBuf,
    env: Vec<(String, OsString)>,
    /// Search path for programs.
    search: String,
    /// Supervisor and confinement of the processes.
    sandbox: Option<Box<Sandbox>>,
    /// Whether it has been started before: a later failure to start means that it was removed.
    started: AtomicBool,
}

/// Command that is ready to start.
#[derive(Debug)]
pub(super) struct ReadyCommand {
    pub(super) command: Command,
    /// User to run it as, if not the current one.
    pub(super) user: Option<u32>,
    /// File for the supervisor's error.
    pub(super) report: Option<PathBuf>,
}

/// Keys of a description that define the command.
#[derive(Debug)]
pub(super) struct CommandSpec<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a [String],
    pub(super) set_env: &'a BTreeMap<String, String>,
    pub(super) read: &'a [String],
    pub(super) sandbox: Option<&'a SandboxSpec>,
}

impl Program {
    pub(super) fn new(described: &CommandSpec<'_>, context: &TargetContext) -> Result<Self, OpenError> {
        let command = described.command.trim();
        if command.is_empty() {
            return Err(OpenError::description("command", "is empty; specify a program"));
        }
        let base = std::path::absolute(&context.base).map_err(|error| {
            OpenError::description("command", format!("cannot resolve its directory: {error}"))
        })?;
        let path = if command.contains('/') {
            base.join(command)
        } else {
            PathBuf::from(command)
        };
        let env = variables(described, &context.environment);
        let search = env
            .iter()
            .rev()
            .find(|(name, _)| name == "PATH")
            .map_or(PATH.into(), |(_, value)| value.to_string_lossy().into_owned());
        let sandbox = match &context.helper {
            Some(helper) => {
                let program = find_program(&path.to_string_lossy(), &search);
                let named = Named {
                    program: program.as_deref(),
                    search: &search,
                    args: described
                        .args
                        .iter()
                        .map(|arg| arg.replace("{{base}}", &base.to_string_lossy()))
                        .collect(),
                    base: &base,
                    read: described.read,
                    skill: context.sandbox.skill.as_deref(),
                };
                let scratch = std::path::absolute(&context.scratch)
                    .map_err(|error| OpenError::sandbox(error.to_string()))?;
                let sandbox = Sandbox::new(described.sandbox, &context.sandbox, helper, &scratch, &named)?;
                Some(Box::new(sandbox))
            }
            None if described.sandbox.is_some() => {
                return Err(OpenError::sandbox("the sandbox helper is not available"));
            }
            None => None,
        };
        Ok(Self {
            path,
            args: described.args.to_vec(),
            base,
            env,
            search,
            sandbox,
            started: AtomicBool::new(false),
        })
    }

    /// Prepares the command with `workdir` as its working, home and temporary directory. `extra` is appended
    /// to the arguments of the description.
    pub(super) fn ready(&self, workdir: &Path, extra: &[String]) -> Result<ReadyCommand, TargetError> {
        let mut args: Vec<OsString> = self
            .args
            .iter()
            .map(|arg| self.fill_placeholders(arg, workdir))
            .collect();
        args.extend(extra.iter().map(OsString::from));
        let mut program = self.path.clone().into_os_string();
        let (mut user, mut report) = (None, None);
        if let Some(sandbox) = &self.sandbox {
            let found = find_program(&self.path.to_string_lossy(), &self.search).ok_or_else(|| {
                let reason = if self.path.exists() {
                    "not executable"
                } else {
                    "No such file or directory (is it installed, and in PATH?)"
                };
                let message = format!("cannot start {}: {reason}", self.path.display());
                TargetError::new(ErrorKind::Harness, message)
            })?;
            user = sandbox.next_user();
            give(workdir, user)?;
            let wrapped = sandbox
                .wrap(found.as_os_str(), args, workdir, user)
                .map_err(|reason| TargetError::new(ErrorKind::Harness, reason))?;
            (program, args, report) = (wrapped.program, wrapped.args, Some(wrapped.report));
        }
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("HOME", workdir)
            .env("TMPDIR", workdir)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(workdir);
        Ok(ReadyCommand {
            command,
            user,
            report,
        })
    }

    /// Starts the program. If it could be started before and no longer can, the target itself removed it.
    pub(super) fn start(&self, command: Command, is_supervised: bool) -> Result<Process, TargetError> {
        match Process::start(command, is_supervised) {
            Ok(process) => {
                self.started.store(true, Ordering::SeqCst);
                Ok(process)
            }
            Err(error)
                if self.started.load(Ordering::SeqCst)
                    && error.kind == ErrorKind::Harness
                    && find_program(&self.path.to_string_lossy(), &self.search).is_none() =>
            {
                Err(TargetError::new(ErrorKind::Target, error.message))
            }
            Err(error) => Err(error),
        }
    }

    fn fill_placeholders(&self, arg: &str, workdir: &Path) -> OsString {
        if !arg.contains("{{") {
            return arg.into();
        }
        arg.replace("{{base}}", &self.base.to_string_lossy())
            .replace("{{workdir}}", &workdir.to_string_lossy())
            .into()
    }
}

/// Error of the sandbox, which replaces the target's outcome. It is read from a file that no target can
/// write: anything that a target prints or exits with is its own failure.
pub(super) fn sandbox_failure(report: Option<&Path>) -> Option<TargetError> {
    let report = report?;
    let reason = fs_err::read_to_string(report).ok()?;
    let _ = fs_err::remove_file(report);
    if reason.is_empty() {
        return None;
    }
    Some(TargetError::new(
        ErrorKind::Harness,
        format!("cannot set up the sandbox: {reason}"),
    ))
}

/// Changes the owner of a directory to the user that will work in it.
pub(super) fn give(folder: &Path, user: Option<u32>) -> Result<(), TargetError> {
    let Some(user) = user else { return Ok(()) };
    sandbox::give(folder, user).map_err(|error| {
        TargetError::new(
            ErrorKind::Harness,
            format!("cannot change the owner of the working directory to user {user}: {error}"),
        )
    })
}

/// Allow-list of environment variables.
fn variables(described: &CommandSpec<'_>, environment: &Environment) -> Vec<(String, OsString)> {
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
