//! What is started for a target: the program, its arguments and the few variables it sees.

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

/// Where programs are looked for when the environment has no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that can be started any number of times.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    args: Vec<String>,
    base: PathBuf,
    env: Vec<(String, OsString)>,
    /// Where programs are looked for.
    search: String,
    /// The supervisor of the processes, and what confines them.
    sandbox: Option<Box<Sandbox>>,
    /// Whether it could be started before: from then on, what cannot be started was removed.
    started: AtomicBool,
}

/// A program about to start.
#[derive(Debug)]
pub(super) struct AvailableRuns {
    pub(super) command: Command,
    /// The user that it will be, where that is not us.
    pub(super) user: Option<u32>,
    /// Where the supervisor writes why it failed.
    pub(super) report: Option<PathBuf>,
}

/// The keys of a description that say what to start.
#[derive(Debug)]
pub(super) struct LocatedTarget<'a> {
    pub(super) command: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a [String],
    pub(super) set_env: &'a BTreeMap<String, String>,
    pub(super) read: &'a [String],
    pub(super) sandbox: Option<&'a SandboxSpec>,
}

impl Program {
    pub(super) fn new(described: &LocatedTarget<'_>, context: &TargetContext) -> Result<Self, OpenError> {
        let command = described.command.trim();
        if command.is_empty() {
            return Err(OpenError::description("command", "is empty; name a program"));
        }
        let base = std::path::absolute(&context.base)
            .map_err(|error| OpenError::description("command", format!("its folder: {error}")))?;
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
                return Err(OpenError::sandbox(
                    "a sandbox needs the program's own path, and this surface gives none",
                ));
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

    /// The program ready to start with `workdir` as its folder, home and place for temporary files. `extra` comes after
    /// the arguments of the description.
    pub(super) fn ready(&self, workdir: &Path, extra: Option<&str>) -> Result<AvailableRuns, TargetError> {
        let mut args: Vec<OsString> = self.args.iter().map(|arg| self.filled(arg, workdir)).collect();
        args.extend(extra.map(OsString::from));
        let mut program = self.path.clone().into_os_string();
        let (mut user, mut report) = (None, None);
        if let Some(sandbox) = &self.sandbox {
            let found = find_program(&self.path.to_string_lossy(), &self.search).ok_or_else(|| {
                let reason = if self.path.exists() {
                    "it is not a program (is it executable?)"
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
        Ok(AvailableRuns {
            command,
            user,
            report,
        })
    }

    /// Starts the program. A program that could be started before and cannot be now is gone by the target's own doing.
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

    fn filled(&self, arg: &str, workdir: &Path) -> OsString {
        if !arg.contains("{{") {
            return arg.into();
        }
        arg.replace("{{base}}", &self.base.to_string_lossy())
            .replace("{{workdir}}", &workdir.to_string_lossy())
            .into()
    }
}

/// Why the sandbox failed, in place of an outcome that is about it and not about the target. The reason comes from a file that
/// no target can write: whatever a target prints or exits with is its own failure.
pub(super) fn sandbox_failure(report: Option<&Path>) -> Option<TargetError> {
    let report = report?;
    let reason = fs_err::read_to_string(report).ok()?;
    let _ = fs_err::remove_file(report);
    if reason.is_empty() {
        return None;
    }
    Some(TargetError::new(
        ErrorKind::Harness,
        format!("the sandbox failed: {reason}"),
    ))
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
fn variables(described: &LocatedTarget<'_>, environment: &Environment) -> Vec<(String, OsString)> {
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
