//! Process groups that leave nothing behind.
//!
//! Each process starts its own process group, and the group is ended as a whole: SIGTERM first, SIGKILL two
//! seconds later. Its first process is the supervisor of the sandbox, which ends everything below it,
//! including daemons. Without a supervisor, processes that leave the group are adopted by this process when
//! their parent ends, as far as the kernel allows, found by a mark in their environment, and ended too.

use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use satiety::bench::contract::{ErrorKind, Exit, TargetError};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// Time for a process to exit gracefully.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// Time for the kernel to carry out a kill.
const KILL_TIME: Duration = Duration::from_secs(5);
/// Environment variable that identifies the attempt of a process.
const MARK: &str = "SATIETY_TARGET_MARK";

/// A running process and its group. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    group: Group,
}

#[derive(Debug)]
struct Group {
    id: Option<Pid>,
    mark: String,
    /// Whether the first process is a supervisor, which kills everything else on request.
    is_supervised: bool,
}

impl Process {
    /// Starts the command in a new group with all three streams as pipes.
    pub(super) fn start(mut command: Command, is_supervised: bool) -> Result<Self, TargetError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        orphans::adopt();
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let child = command
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            // A killed supervisor cannot end the processes that left its group.
            .kill_on_drop(!is_supervised)
            .spawn()
            .map_err(|error| {
                let program = command.as_std().get_program().to_string_lossy().into_owned();
                let hint = match error.kind() {
                    std::io::ErrorKind::NotFound => " (is it installed, and in PATH?)",
                    std::io::ErrorKind::ArgumentListTooLong => " (pass the request on stdin instead)",
                    _ => "",
                };
                TargetError::new(
                    ErrorKind::Harness,
                    format!("cannot start {program}: {error}{hint}"),
                )
            })?;
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self {
            child,
            group: Group {
                id,
                mark,
                is_supervised,
            },
        })
    }

    /// Ends leftover processes, after the process itself has exited.
    pub(super) async fn end_leftovers(&mut self) {
        self.group.end(GRACE).await;
    }

    /// Ends the process and its group: SIGTERM, [`GRACE`], SIGKILL. Returns its exit status.
    pub(super) async fn end(&mut self) -> Option<Exit> {
        let until = Instant::now() + GRACE;
        self.group.signal(Signal::TERM);
        let mut ended = timeout(GRACE, self.child.wait()).await;
        if ended.is_err() {
            self.group.signal(Signal::KILL);
            ended = timeout(KILL_TIME, self.child.wait()).await;
        }
        // Even SIGKILL does not end a process in uninterruptible sleep.
        let status = ended.ok()?;
        self.group
            .end(until.saturating_duration_since(Instant::now()))
            .await;
        status.ok().map(exit)
    }
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may have ended already.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Only after the first process of the group was waited for: its status must not be reaped here.
    async fn end(&mut self, grace: Duration) {
        if let Some(id) = self.id {
            if is_alive(id) {
                self.signal(Signal::TERM);
                if !gone_within(id, grace).await {
                    self.signal(Signal::KILL);
                    gone_within(id, KILL_TIME).await;
                }
            }
            self.id = None;
        }
        orphans::end(&self.mark).await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(if self.is_supervised {
            // Kill everything at once, and exit.
            Signal::QUIT
        } else {
            Signal::KILL
        });
    }
}

/// Whether a group has a running process. Reaps adopted processes that have exited.
fn is_alive(group: Pid) -> bool {
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    test_kill_process_group(group).is_ok()
}

/// The kernel does not notify when a group becomes empty, so this polls with growing pauses.
async fn gone_within(group: Pid, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    while is_alive(group) {
        if Instant::now() >= until {
            return false;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    true
}

/// Converts an exit status to the contract's type.
pub(super) fn exit(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}

#[cfg(target_os = "linux")]
mod orphans {
    //! Processes that left their group.

    use std::sync::Once;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

    use super::MARK;

    /// Maximum number of generations to follow of a daemon that forks while it is being ended.
    const GENERATIONS: usize = 50;
    /// Maximum number of checks of a killed process.
    const MAX_CHECKS: usize = 500;

    /// From now on orphans are reparented to this process instead of init.
    pub(super) fn adopt() {
        static ONCE: Once = Once::new();
        // If the kernel denies it, groups are ended as before and only daemons escape.
        ONCE.call_once(|| {
            let _ = set_child_subreaper(Some(getpid()));
        });
    }

    /// Ends every adopted process that carries the mark.
    pub(super) async fn end(mark: &str) {
        let wanted = format!("{MARK}={mark}");
        for _ in 0..GENERATIONS {
            let found = marked(wanted.as_bytes());
            if found.is_empty() {
                return;
            }
            for pid in &found {
                let _ = kill_process(*pid, Signal::KILL);
            }
            for pid in found {
                cleared(pid).await;
            }
        }
    }

    /// Waits until a killed process is gone: only then are its children ours, to be found in the next round.
    async fn cleared(pid: Pid) {
        for _ in 0..MAX_CHECKS {
            match waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) => tokio::time::sleep(Duration::from_millis(2)).await,
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }

    /// Adopted processes belong to the main thread, whose id is that of the process.
    fn marked(wanted: &[u8]) -> Vec<Pid> {
        let id = std::process::id();
        let Ok(children) = fs_err::read_to_string(format!("/proc/{id}/task/{id}/children")) else {
            return Vec::new();
        };
        children
            .split_ascii_whitespace()
            .filter(|child| {
                fs_err::read(format!("/proc/{child}/environ")).is_ok_and(|environment| {
                    environment.split(|byte| *byte == 0).any(|entry| entry == wanted)
                })
            })
            .filter_map(|child| Pid::from_raw(child.parse().ok()?))
            .collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod orphans {
    //! Other systems cannot adopt processes that left their group.

    pub(super) fn adopt() {}

    pub(super) async fn end(_mark: &str) {}
}
