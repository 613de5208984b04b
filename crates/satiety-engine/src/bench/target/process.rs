//! Processes that leave nothing behind.
//!
//! Each starts a process group of its own, and the group is ended as a whole: asked first, killed two seconds later. Its
//! first process is the supervisor of the sandbox, which ends everything below it, daemons included. Where there is no
//! supervisor, what leaves its group is handed to this process when its parent ends, as far as the kernel allows, found by a
//! mark in its environment, and ended too.

use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use satiety::bench::contract::{ErrorKind, Exit, TargetError};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// How long a process may take to end in good order.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How long the kernel gets to carry out a kill before we go on without it.
const KILL_TIME: Duration = Duration::from_secs(5);
/// Names the attempt that a process belongs to.
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
    /// Whether the first process is a supervisor, which kills everything else when it is told to.
    is_supervised: bool,
}

impl Process {
    /// Starts the command in a group of its own with all three streams as pipes.
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
            // A supervisor that is killed cannot end what left its group.
            .kill_on_drop(!is_supervised)
            .spawn()
            .map_err(|error| {
                let program = command.as_std().get_program().to_string_lossy().into_owned();
                let hint = match error.kind() {
                    std::io::ErrorKind::NotFound => " (is it installed, and in PATH?)",
                    std::io::ErrorKind::ArgumentListTooLong => " (give the request on stdin instead)",
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

    /// Ends what the process left running, after it has ended by itself.
    pub(super) async fn end_leftovers(&mut self) {
        self.group.end(GRACE).await;
    }

    /// Ends the process and its group: asks, waits for [`GRACE`], kills. Gives how it ended.
    pub(super) async fn end(&mut self) -> Option<Exit> {
        let until = Instant::now() + GRACE;
        self.group.signal(Signal::TERM);
        let mut ended = timeout(GRACE, self.child.wait()).await;
        if ended.is_err() {
            self.group.signal(Signal::KILL);
            ended = timeout(KILL_TIME, self.child.wait()).await;
        }
        // Not even a kill ends a process that waits for a broken disk.
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
            // A group that has gone needs no signal.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Only after the first process of the group was waited for: its status must not be taken from the one who waits.
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
            // Kill everything at once, and end.
            Signal::QUIT
        } else {
            Signal::KILL
        });
    }
}

/// Whether a group has a process that runs. Those that have ended and were handed to us are cleared away first.
fn is_alive(group: Pid) -> bool {
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    test_kill_process_group(group).is_ok()
}

/// The kernel tells nobody when a group becomes empty, so this looks again, each time after a longer pause.
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

/// How a process ended, in the contract's words.
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

    /// A daemon may fork while it is being ended; this many generations are followed.
    const GENERATIONS: usize = 50;
    /// How often a killed process is looked at before it is given up.
    const PATIENCE: usize = 500;

    /// From now on processes whose parents have ended are ours, not the first process's of the system.
    pub(super) fn adopt() {
        static ONCE: Once = Once::new();
        // Where the kernel refuses, groups are ended as before and only daemons escape.
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

    /// Waits until a killed process has gone: only then are its children ours, to be found in the next round.
    async fn cleared(pid: Pid) {
        for _ in 0..PATIENCE {
            match waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) => tokio::time::sleep(Duration::from_millis(2)).await,
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }

    /// Adopted processes belong to the first thread, whose id is the process's.
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
    //! Other systems have no way to be handed processes that left their group.

    pub(super) fn adopt() {}

    pub(super) async fn end(_mark: &str) {}
}
