//! Supervisor of a target: creates its namespaces, waits for it, and ends everything that it started.
//!
//! ```text
//! runner ── supervisor ── init (pid 1 of the namespace) ── target
//! ```
//!
//! The supervisor and the target share no namespace: the target can neither see, signal, limit nor trace it
//! or the runner. When the target's first process ends, init ends, and the kernel kills everything else in
//! the pid namespace, however it was started. When the supervisor is killed, so is init; when the runner
//! ends, the supervisor kills init. Without namespaces the supervisor adopts every orphan of the target and
//! kills it by its pid.

use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    kill_process_group, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, setsid, wait, waitpid,
};
use rustix::thread::UnshareFlags;
use satiety::bench::SandboxIsolation;

use super::confine::{confine, map_user};
use super::helper::EXIT_NO_SANDBOX;
use super::{Confinement, INNER_COMMAND, mounts, raw};

/// Time between SIGTERM and SIGKILL: shorter than the runner waits for the supervisor.
const GRACE: Duration = Duration::from_millis(1500);
/// Time limit for killing processes that keep starting others.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(5);
/// Polling interval for the runner on kernels without pidfd.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Message of the helper inside bubblewrap before it executes the target.
pub(super) const CONFINED: &[u8] = b"C";

enum Outcome {
    Code(i32),
    Signal(i32),
    /// The target was never started.
    Failed(String),
}

/// Runs the program and returns the exit code; a failure of the sandbox itself is written to the plan's
/// report.
pub(super) fn run(plan: &Confinement, program: &OsStr, args: &[OsString]) -> Result<u8, String> {
    match supervise(plan, program, args)? {
        Outcome::Code(code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        Outcome::Signal(signal) => {
            // The runner should see the signal that ended the target.
            let _ = rustix::process::setrlimit(
                rustix::process::Resource::Core,
                rustix::process::Rlimit {
                    current: Some(0),
                    maximum: Some(0),
                },
            );
            raw::die_by(signal);
            Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        Outcome::Failed(reason) => Err(reason),
    }
}

fn supervise(plan: &Confinement, program: &OsStr, args: &[OsString]) -> Result<Outcome, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
    raw::close_on_exec_from(3).map_err(|error| failed("close inherited descriptors", &error))?;
    // Before anything is started, so that no signal is missed.
    let signals = raw::signal_descriptor(&[
        libc::SIGCHLD,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
    ])
    .map_err(|error| failed("wait for signals", &error))?;
    let runner = Runner::watch(plan.runner)?;
    // Pipe from the children: the reason why the target could not be started, or how it ended.
    let (from, to) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)
            .map_err(|error| failed("create a pipe", &error))?;
    let to = std::fs::File::from(to);
    let child = match plan.isolation {
        SandboxIsolation::Namespaces => {
            enter_namespaces(plan)?;
            match raw::fork().map_err(|error| failed("start the first process", &error))? {
                Some(child) => child,
                None => init(plan, program, args, &signals, to),
            }
        }
        SandboxIsolation::Bubblewrap => {
            // Bubblewrap ends with the target, slightly before its namespace does: adopt the remaining
            // processes.
            let _ = set_child_subreaper(Some(getpid()));
            start_bubblewrap(plan, program, args, &to)?
        }
        SandboxIsolation::None | SandboxIsolation::Landlock | SandboxIsolation::NotApplicable => {
            // Adopt the target's orphans. If the kernel denies it, only the process group is killed.
            let _ = set_child_subreaper(Some(getpid()));
            match raw::fork().map_err(|error| failed("start the target", &error))? {
                Some(child) => child,
                None => become_target(plan, program, args, to),
            }
        }
    };
    drop(to);
    // From here on the streams belong to the target: no other process may hold them open.
    detach_streams();
    let status = wait_for(plan, child, &signals, &runner);
    // Our own init ends only when its namespace does.
    if plan.isolation != SandboxIsolation::Namespaces {
        clear_orphans();
    }
    let mut said = Vec::new();
    // Everything is already written; do not wait for processes that still hold the other end.
    let _ = std::fs::File::from(from).read_to_end(&mut said);
    Ok(outcome(plan, &said, status))
}

/// Derives the outcome from the children's message and the exit status of the first of them.
fn outcome(plan: &Confinement, said: &[u8], status: Option<WaitStatus>) -> Outcome {
    // The first byte decides: a target may find a way to write, but only after its sandbox was complete.
    if let Some(reason) = said.strip_prefix(b"E") {
        return Outcome::Failed(String::from_utf8_lossy(reason).into_owned());
    }
    if let Some(raw) = said.strip_prefix(b"X").and_then(|raw| raw.first_chunk()) {
        let raw = i32::from_le_bytes(*raw);
        return if libc::WIFSIGNALED(raw) {
            Outcome::Signal(libc::WTERMSIG(raw))
        } else {
            Outcome::Code(libc::WEXITSTATUS(raw))
        };
    }
    if plan.isolation == SandboxIsolation::Bubblewrap && !said.starts_with(CONFINED) {
        return Outcome::Failed(
            "bubblewrap failed before the target was started; see its message on stderr".to_owned(),
        );
    }
    match status.map(|status| (status.exit_status(), status.terminating_signal())) {
        Some((Some(code), _)) => Outcome::Code(code),
        Some((None, Some(signal))) => Outcome::Signal(signal),
        _ => Outcome::Signal(libc::SIGKILL),
    }
}

/// The process that started the supervisor.
struct Runner {
    id: Option<Pid>,
    descriptor: Option<OwnedFd>,
}

impl Runner {
    fn watch(expected: u32) -> Result<Self, String> {
        let id = getppid();
        let descriptor = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        // If it ended before it could be watched, our parent has changed.
        let raw = |id: Option<Pid>| id.map(|id| id.as_raw_nonzero().get().unsigned_abs());
        if expected != 0 && raw(getppid()) != Some(expected) {
            return Err("the runner has ended".to_owned());
        }
        Ok(Self { id, descriptor })
    }

    fn has_ended(&self) -> bool {
        getppid() != self.id
    }
}

fn enter_namespaces(plan: &Confinement) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot create namespaces: {error}");
    let (user, group) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !plan.network {
        flags |= UnshareFlags::NEWNET;
    }
    // Root creates the mounts itself and gives the target another user and a user namespace; other users need
    // the user namespace first to be allowed the others.
    if plan.user.is_none() {
        flags |= UnshareFlags::NEWUSER;
    }
    raw::unshare(flags).map_err(|error| failed(&error))?;
    if plan.user.is_none() {
        map_user(user, group).map_err(|error| failed(&error))?;
    }
    // Not supported by every kernel, and nothing depends on it.
    let _ = raw::unshare(UnshareFlags::NEWCGROUP);
    let _ = rustix::system::sethostname(b"sandbox");
    if !plan.network {
        let _ = raw::loopback_up();
    }
    Ok(())
}

/// First process of the pid namespace: builds the root, starts the target, and ends with it.
#[expect(
    clippy::exit,
    reason = "a forked process must not return into the supervisor's code"
)]
fn init(
    plan: &Confinement,
    program: &OsStr,
    args: &[OsString],
    signals: &OwnedFd,
    mut to: std::fs::File,
) -> ! {
    let prepared = (|| {
        let failed = |error: &dyn std::fmt::Display| format!("cannot prepare the first process: {error}");
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed(&error))?;
        // A supervisor that ended before that has closed its end.
        let mut ends = [PollFd::new(&to, PollFlags::OUT)];
        poll(&mut ends, Some(&Timespec::default())).map_err(|error| failed(&error))?;
        if ends[0].revents().contains(PollFlags::ERR) {
            return Err("the supervisor has ended".to_owned());
        }
        // The target may have the same user: it must not be able to inspect this process.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| failed(&error))?;
        setsid().map_err(|error| failed(&error))?;
        mounts::enter(plan)?;
        raw::fork().map_err(|error| format!("cannot start the target: {error}"))
    })();
    let target = match prepared {
        Ok(Some(target)) => target,
        Ok(None) => become_target(plan, program, args, to),
        Err(reason) => {
            let _ = write!(to, "E{reason}");
            std::process::exit(i32::from(EXIT_NO_SANDBOX));
        }
    };
    detach_streams();
    loop {
        for signal in pending(signals, None) {
            if signal != libc::SIGCHLD {
                // The group of pid 1 addresses all other processes of the namespace.
                let _ = kill_process_group(Pid::INIT, Signal::TERM);
            }
        }
        while let Ok(Some((id, status))) = wait(WaitOptions::NOHANG) {
            if id == target {
                let _ = to.write_all(&[&b"X"[..], &status.as_raw().to_le_bytes()].concat());
                // The kernel now kills everything else in the namespace.
                std::process::exit(0);
            }
        }
    }
}

/// Confines this process and executes the target.
#[expect(
    clippy::exit,
    reason = "a forked process must not return into the supervisor's code"
)]
fn become_target(plan: &Confinement, program: &OsStr, args: &[OsString], mut to: std::fs::File) -> ! {
    // A new session: no terminal is reachable. Without namespaces the runner signals the group.
    if plan.isolation.is_full() {
        let _ = setsid();
    }
    let reason = match confine(plan) {
        Ok(()) => execute(program, args),
        Err(reason) => reason,
    };
    let _ = write!(to, "E{reason}");
    std::process::exit(i32::from(EXIT_NO_SANDBOX));
}

/// Executes the target; returns only on failure, with the reason.
pub(super) fn execute(program: &OsStr, args: &[OsString]) -> String {
    let error = Command::new(program).args(args).exec();
    format!("cannot start {}: {error}", program.to_string_lossy())
}

fn start_bubblewrap(
    plan: &Confinement,
    program: &OsStr,
    args: &[OsString],
    to: &std::fs::File,
) -> Result<Pid, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot start bubblewrap: {error}");
    let bubblewrap = super::bubblewrap_program().ok_or_else(|| failed(&"`bwrap` not found"))?;
    // Inherited by bubblewrap and by the helper inside, which closes it when it executes the target.
    let inherited = rustix::io::dup(to).map_err(|error| failed(&error))?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&inherited);
    let inner = Confinement {
        report: None,
        mounts: Vec::new(),
        ..plan.clone()
    };
    let inner = serde_json::to_string(&inner).map_err(|error| failed(&error))?;
    if let Some(child) = raw::fork().map_err(|error| failed(&error))? {
        return Ok(child);
    }
    let _ = setsid();
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let error = Command::new(bubblewrap)
        .args(super::bubblewrap_args(plan))
        .arg("--")
        .arg(super::BUBBLEWRAP_HELPER)
        .arg(INNER_COMMAND)
        .arg(inner)
        .arg(descriptor.to_string())
        .arg(program)
        .args(args)
        .exec();
    let _ = write!(&mut &*to, "E{}", failed(&error));
    #[expect(
        clippy::exit,
        reason = "a forked process must not return into the supervisor's code"
    )]
    std::process::exit(i32::from(EXIT_NO_SANDBOX));
}

/// Redirects the three streams to the null device, so that only the target holds the runner's pipes.
fn detach_streams() {
    let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    else {
        return;
    };
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}

/// Waits for the child, forwards termination requests, and kills it when they time out or the runner has
/// ended.
fn wait_for(plan: &Confinement, child: Pid, signals: &OwnedFd, runner: &Runner) -> Option<WaitStatus> {
    let mut kill_at: Option<Instant> = None;
    loop {
        while let Ok(Some((id, status))) = wait(WaitOptions::NOHANG) {
            if id == child {
                return Some(status);
            }
        }
        if runner.has_ended() || kill_at.is_some_and(|at| Instant::now() >= at) {
            kill_all(plan, child);
            return waitpid(Some(child), WaitOptions::empty())
                .ok()
                .flatten()
                .map(|(_, status)| status);
        }
        let until = kill_at.map(|at| at.saturating_duration_since(Instant::now()));
        for signal in pending_or_ended(signals, runner, until) {
            if signal == libc::SIGQUIT {
                // The runner has ended and no longer needs the result.
                kill_at = Some(Instant::now());
            } else if signal != libc::SIGCHLD {
                ask_to_end(plan, child);
                kill_at.get_or_insert_with(|| Instant::now() + GRACE);
            }
        }
    }
}

/// Sends SIGTERM to the processes of the target.
fn ask_to_end(plan: &Confinement, child: Pid) {
    match plan.isolation {
        // Init forwards it to all processes.
        SandboxIsolation::Namespaces => {
            let _ = kill_process(child, Signal::TERM);
        }
        // Bubblewrap and its own first process would end at once, and everything else with them.
        SandboxIsolation::Bubblewrap => {
            for id in descendants(child) {
                let is_bubblewrap = fs_err::read_to_string(format!("/proc/{}/comm", id.as_raw_nonzero()))
                    .is_ok_and(|name| name.trim() == "bwrap");
                if !is_bubblewrap {
                    let _ = kill_process(id, Signal::TERM);
                }
            }
        }
        // The runner signalled the whole group, which includes the target.
        SandboxIsolation::None | SandboxIsolation::Landlock | SandboxIsolation::NotApplicable => {}
    }
}

fn kill_all(plan: &Confinement, child: Pid) {
    if plan.isolation == SandboxIsolation::Bubblewrap {
        // The first process of the namespace belongs to bubblewrap; killing it ends all others.
        for id in descendants(child) {
            let _ = kill_process(id, Signal::KILL);
        }
    }
    let _ = kill_process(child, Signal::KILL);
}

/// All descendants of a process, from the kernel's lists of children.
fn descendants(of: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut left = vec![of];
    while let Some(id) = left.pop() {
        for child in children(id) {
            found.push(child);
            left.push(child);
        }
    }
    found
}

fn children(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_nonzero();
    let mut found = Vec::new();
    // Children are listed per thread that started them.
    let threads = std::fs::read_dir(format!("/proc/{of}/task"))
        .into_iter()
        .flatten();
    for thread in threads.filter_map(Result::ok) {
        let list = fs_err::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(
            list.split_ascii_whitespace()
                .filter_map(|child| Pid::from_raw(child.parse().ok()?)),
        );
    }
    found
}

/// Kills the orphans of the target: they are our children, and theirs become ours when they are killed.
fn clear_orphans() {
    let until = Instant::now() + CLEAR_TIMEOUT;
    loop {
        for id in descendants(getpid()) {
            let _ = kill_process(id, Signal::KILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // No children are left.
                Err(_) => return,
            }
        }
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for a signal, the end of the runner, or the timeout.
fn pending_or_ended(signals: &OwnedFd, runner: &Runner, limit: Option<Duration>) -> Vec<i32> {
    let limit = match (&runner.descriptor, limit) {
        (None, limit) => Some(limit.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)),
        (Some(_), limit) => limit,
    };
    let mut sources = vec![PollFd::new(signals, PollFlags::IN)];
    sources.extend(
        runner
            .descriptor
            .as_ref()
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)),
    );
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let _ = poll(&mut sources, limit.as_ref());
    read_signals(signals)
}

fn pending(signals: &OwnedFd, limit: Option<Duration>) -> Vec<i32> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], limit.as_ref());
    read_signals(signals)
}

fn read_signals(signals: &OwnedFd) -> Vec<i32> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut found = Vec::new();
    let mut buffer = [0; SIZE];
    while let Ok(SIZE) = rustix::io::read(signals, &mut buffer) {
        // The signal number comes first.
        if let Some(number) = buffer.first_chunk() {
            found.extend(i32::try_from(u32::from_ne_bytes(*number)));
        }
    }
    found
}
