//! Sandbox for the processes of a target: hides secrets from them and protects the runner.
//!
//! | isolation | files | network | processes |
//! |---|---|---|---|
//! | bubblewrap, own namespaces | separate root: the allow-list, read-only, and the working directory | separate network, loopback only | pid namespace, ends with its first process |
//! | Landlock (degraded) | the kernel denies access elsewhere | no socket can be created | orphans are adopted and killed |
//!
//! The allow-list is in [`layout`]. This program, started again as `satiety __sandbox`, is the supervisor
//! (`supervise`): it creates the namespaces, builds the root (`mounts`), drops all privileges (`confine`,
//! `filter`) and waits for the target. So no code has to run between fork and exec in the runner, which has
//! many threads. If the runner is root, the target runs as a user that owns only its working directory,
//! without capabilities.

#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod filter;
pub mod helper;
#[cfg(target_os = "linux")]
mod landlock;
pub mod layout;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
pub mod probes;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod supervise;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use satiety::bench::contract::spec::{SandboxBackend, SandboxSpec};
use satiety::bench::{SandboxIsolation, SandboxRequirement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::layout::{Layout, Named, Protected};
use super::target::OpenError;

/// First argument of the supervisor command.
pub const HELPER_COMMAND: &str = "__sandbox";
/// First argument of the helper inside bubblewrap.
const INNER_COMMAND: &str = "__sandbox-inner";
/// First argument of a probe, which attempts to break out.
const PROBE_COMMAND: &str = "__sandbox-probe";

/// User ids that systemd reserves for transient services; nothing else owns files or processes there.
const TRANSIENT_USERS: std::ops::Range<u32> = 61184..65520;

/// Locations of bubblewrap. The target's `PATH` is not searched: the target must not provide its own sandbox.
const BUBBLEWRAP: [&str; 4] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];
/// Path of this program inside bubblewrap.
const BUBBLEWRAP_HELPER: &str = "/.sandbox-helper";

/// Sandbox capabilities of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Probe {
    /// Version of bubblewrap, or the reason why it cannot be used.
    pub bubblewrap: Result<String, String>,
    /// Namespaces that this program can create itself, or the reason why it cannot.
    pub namespaces: Result<String, String>,
    /// Landlock version of the kernel, or the reason why it cannot be used.
    pub landlock: Result<String, String>,
}

impl Probe {
    /// Isolation that `auto` selects for a requirement, or the reasons why none qualifies.
    pub fn chosen(&self, requirement: SandboxRequirement) -> Result<SandboxIsolation, String> {
        choose(SandboxBackend::Auto, requirement, self)
    }
}

/// Tries every kind of isolation, once per process.
pub fn probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(|| Probe {
        bubblewrap: probe_bubblewrap(),
        namespaces: probe_namespaces(),
        landlock: probe_landlock(),
    })
}

/// Isolation for a description under a requirement, or the reasons why none qualifies.
pub fn isolation(spec: &SandboxSpec, requirement: SandboxRequirement) -> Result<SandboxIsolation, String> {
    if requirement == SandboxRequirement::Off {
        return Ok(SandboxIsolation::None);
    }
    choose(spec.backend, requirement, probe())
}

fn choose(
    wanted: SandboxBackend,
    requirement: SandboxRequirement,
    probe: &Probe,
) -> Result<SandboxIsolation, String> {
    use SandboxIsolation::{Bubblewrap, Landlock, Namespaces};
    let all = [
        (SandboxBackend::Bubblewrap, Bubblewrap, &probe.bubblewrap),
        (SandboxBackend::Namespaces, Namespaces, &probe.namespaces),
        (SandboxBackend::Landlock, Landlock, &probe.landlock),
    ];
    let mut reasons = Vec::new();
    for (backend, isolation, state) in all {
        if wanted != SandboxBackend::Auto && wanted != backend {
            continue;
        }
        match state {
            Ok(_) if isolation.is_full() || requirement < SandboxRequirement::Require => {
                return Ok(isolation);
            }
            Ok(_) => reasons.push(format!("{isolation}: degraded sandbox without namespaces")),
            Err(reason) => reasons.push(format!("{isolation}: {reason}")),
        }
    }
    if requirement < SandboxRequirement::Require && wanted == SandboxBackend::Auto {
        return Ok(SandboxIsolation::None);
    }
    Err(reasons.join("; "))
}

/// Mount in the root of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mount {
    /// A read-only file or directory.
    Read {
        from: PathBuf,
        to: PathBuf,
    },
    Link {
        target: PathBuf,
        at: PathBuf,
    },
    /// A protected path, hidden.
    Hide {
        at: PathBuf,
    },
    /// An empty writable directory in memory.
    Memory {
        at: PathBuf,
    },
    /// An empty directory for paths that pass through it.
    Directory {
        at: PathBuf,
    },
    /// A writable directory.
    Write {
        path: PathBuf,
    },
}

impl Mount {
    /// Path inside the sandbox.
    fn place(&self) -> &Path {
        match self {
            Self::Read { to, .. } => to,
            Self::Link { at, .. } | Self::Hide { at } | Self::Memory { at } | Self::Directory { at } => at,
            Self::Write { path } => path,
        }
    }
}

/// Directories in memory that only lead to mounts: those above a mount and below a directory that is writable
/// for the target. The target gets no write access to them.
fn intermediate_directories(mounts: &[Mount]) -> BTreeSet<&Path> {
    let memory = |path: &Path| {
        mounts
            .iter()
            .any(|mount| matches!(mount, Mount::Memory { at } if path.starts_with(at) && path != at))
    };
    let is_mount = |path: &Path| {
        mounts
            .iter()
            .any(|mount| !matches!(mount, Mount::Directory { .. }) && mount.place() == path)
    };
    let below = |path: &Path| {
        mounts
            .iter()
            .any(|mount| matches!(mount, Mount::Read { to, .. } if path.starts_with(to)))
    };
    let directories = mounts.iter().filter_map(|mount| match mount {
        Mount::Directory { at } => Some(at.as_path()),
        _ => None,
    });
    mounts
        .iter()
        .flat_map(|mount| mount.place().ancestors().skip(1))
        .chain(directories)
        .filter(|path| memory(path) && !is_mount(path) && !below(path))
        .collect()
}

/// Plan that the supervisor receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Confinement {
    isolation: SandboxIsolation,
    /// Process that must outlive the target; 0 for any.
    runner: u32,
    workdir: PathBuf,
    /// An empty directory to mount the root on.
    root: PathBuf,
    mounts: Vec<Mount>,
    /// File for the error of a failed sandbox.
    report: Option<PathBuf>,
    /// Path of this program.
    helper: PathBuf,
    network: bool,
    memory_bytes: u64,
    file_bytes: u64,
    processes: u64,
    cpu_seconds: Option<u64>,
    /// User to run the target as.
    user: Option<u32>,
}

/// Context of a target's sandbox.
#[derive(Debug, Clone, Default)]
pub struct SandboxContext {
    /// Whether a degraded sandbox, or none, is acceptable.
    pub requirement: SandboxRequirement,
    /// Paths hidden from the target.
    pub protected: Protected,
    /// Skill under test, which the target may read without its benchmarks.
    pub skill: Option<PathBuf>,
}

/// Sandbox for any number of processes of one target.
#[derive(Debug)]
pub(super) struct Sandbox {
    helper: PathBuf,
    isolation: SandboxIsolation,
    spec: SandboxSpec,
    layout: Layout,
    is_root: bool,
    /// Directory of copied files, the mount point of the root, and reports.
    directory: PathBuf,
    count: AtomicU64,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Failure to remove the directory leaves litter, but must not lose a result.
        let _ = fs_err::remove_dir_all(&self.directory);
    }
}

/// Command ready to start in a sandbox.
#[derive(Debug)]
pub(super) struct SandboxedCommand {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// File for the supervisor's error.
    pub(super) report: PathBuf,
}

impl Sandbox {
    /// Creates the sandbox of a description, or returns the reason why it cannot. Without a sandbox in the
    /// description, processes are only supervised, so that none is left behind.
    pub(super) fn new(
        spec: Option<&SandboxSpec>,
        context: &SandboxContext,
        helper: &Path,
        scratch: &Path,
        named: &Named<'_>,
    ) -> Result<Self, OpenError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let isolation = match spec {
            Some(spec) => choose(spec.backend, context.requirement, probe()).map_err(OpenError::sandbox)?,
            None => SandboxIsolation::None,
        };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = scratch.join(format!("satiety-sandbox-{}-{count}", std::process::id()));
        let spec = spec.cloned().unwrap_or_default();
        let copies = directory.join("files");
        fs_err::create_dir_all(directory.join("root"))
            .map_err(|error| OpenError::sandbox(error.to_string()))?;
        let layout = if isolation == SandboxIsolation::None {
            Layout::default()
        } else {
            Layout::new(named, &context.protected, &copies, spec.network)?
        };
        Ok(Self {
            helper: helper.to_owned(),
            isolation,
            spec,
            layout,
            is_root: rustix::process::geteuid().is_root(),
            directory,
            count: AtomicU64::new(0),
        })
    }

    /// User for the next process; `None` to keep the current one.
    pub(super) fn next_user(&self) -> Option<u32> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !self.is_root || self.isolation == SandboxIsolation::None {
            return None;
        }
        let span = TRANSIENT_USERS.end - TRANSIENT_USERS.start;
        // Concurrent runs start at different offsets, because process limits count per user.
        let offset = NEXT
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(std::process::id().wrapping_mul(97))
            % span;
        Some(TRANSIENT_USERS.start + offset)
    }

    /// Program and arguments that run `program` inside the sandbox.
    pub(super) fn wrap(
        &self,
        program: &OsStr,
        args: Vec<OsString>,
        workdir: &Path,
        user: Option<u32>,
    ) -> Result<SandboxedCommand, String> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let report = self.directory.join(format!("failed-{count}"));
        let plan = Confinement {
            isolation: self.isolation,
            runner: std::process::id(),
            workdir: workdir.to_owned(),
            root: self.directory.join("root"),
            mounts: if self.isolation == SandboxIsolation::None {
                Vec::new()
            } else {
                self.layout.mounts(workdir)
            },
            report: Some(report.clone()),
            helper: self.helper.clone(),
            network: self.spec.network,
            memory_bytes: self.spec.memory_mb.saturating_mul(1 << 20),
            file_bytes: self.spec.file_mb.saturating_mul(1 << 20),
            processes: if user.is_some() || (self.isolation.is_full() && counts_by_namespace()) {
                self.spec.processes
            } else {
                // The kernel counts all processes of a user, so existing ones are added.
                self.spec.processes.saturating_add(own_tasks())
            },
            cpu_seconds: self.spec.cpu_seconds,
            user,
        };
        let plan =
            serde_json::to_string(&plan).map_err(|error| format!("cannot write the policy: {error}"))?;
        let mut wrapped: Vec<OsString> = vec![HELPER_COMMAND.into(), plan.into(), program.to_owned()];
        wrapped.extend(args);
        Ok(SandboxedCommand {
            program: self.helper.clone().into(),
            args: wrapped,
            report,
        })
    }
}

/// Changes the owner of a directory and everything in it.
pub(super) fn give(folder: &Path, user: u32) -> std::io::Result<()> {
    std::os::unix::fs::lchown(folder, Some(user), Some(user))?;
    if fs_err::symlink_metadata(folder)?.is_dir() {
        for entry in fs_err::read_dir(folder)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

fn bubblewrap_args(plan: &Confinement) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    let mut add = |words: &[&OsStr]| args.extend(words.iter().map(|word| (*word).to_owned()));
    let word = OsStr::new;
    let size = word("67108864");
    // Paths that can be made read-only only after everything is mounted.
    let mut closed: Vec<&Path> = Vec::new();
    let mut made: BTreeSet<&Path> = BTreeSet::new();
    let closed_directories = intermediate_directories(&plan.mounts);
    for mount in &plan.mounts {
        // Bubblewrap creates the directories above a mount with access for its own user only.
        let mut above: Vec<&Path> = mount.place().ancestors().skip(1).collect();
        above.reverse();
        for directory in above.into_iter().skip(1) {
            if made.insert(directory) {
                let mode = if closed_directories.contains(directory) {
                    "0555"
                } else {
                    "0755"
                };
                add(&[word("--perms"), word(mode), word("--dir"), directory.as_os_str()]);
            }
        }
        match mount {
            Mount::Read { from, to } => add(&[word("--ro-bind"), from.as_os_str(), to.as_os_str()]),
            Mount::Link { target, at } => add(&[word("--symlink"), target.as_os_str(), at.as_os_str()]),
            Mount::Hide { at } if at.is_dir() => {
                add(&[word("--tmpfs"), at.as_os_str()]);
                closed.push(at);
            }
            Mount::Hide { at } => add(&[word("--ro-bind"), word("/dev/null"), at.as_os_str()]),
            Mount::Memory { at } => {
                add(&[
                    word("--perms"),
                    word("1777"),
                    word("--size"),
                    size,
                    word("--tmpfs"),
                    at.as_os_str(),
                ]);
            }
            Mount::Directory { at } => {
                let mode = if closed_directories.contains(at.as_path()) {
                    "0555"
                } else {
                    "0755"
                };
                add(&[word("--perms"), word(mode), word("--dir"), at.as_os_str()]);
            }
            Mount::Write { path } => add(&[word("--bind"), path.as_os_str(), path.as_os_str()]),
        }
    }
    add(&[word("--dev"), word("/dev"), word("--proc"), word("/proc")]);
    add(&[
        word("--perms"),
        word("1777"),
        word("--size"),
        size,
        word("--tmpfs"),
        word("/dev/shm"),
    ]);
    add(&[
        word("--ro-bind"),
        plan.helper.as_os_str(),
        word(BUBBLEWRAP_HELPER),
    ]);
    for path in closed {
        add(&[word("--remount-ro"), path.as_os_str()]);
    }
    add(&[
        word("--remount-ro"),
        word("/dev"),
        word("--remount-ro"),
        word("/"),
    ]);
    add(&[word("--chdir"), plan.workdir.as_os_str()]);
    for flag in [
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
    ] {
        add(&[word(flag)]);
    }
    add(&[word("--hostname"), word("sandbox")]);
    if !plan.network {
        add(&[word("--unshare-net")]);
    }
    args
}

fn bubblewrap_program() -> Option<&'static str> {
    BUBBLEWRAP.into_iter().find(|path| Path::new(path).exists())
}

/// Plan that only starts `true`, to test whether the isolation works.
fn trial(isolation: SandboxIsolation, directory: &Path, helper: &Path) -> Confinement {
    let user = rustix::process::geteuid()
        .is_root()
        .then_some(TRANSIENT_USERS.start);
    Confinement {
        isolation,
        runner: 0,
        workdir: directory.join("work"),
        root: directory.join("root"),
        mounts: Layout::default().mounts(&directory.join("work")),
        report: None,
        helper: helper.to_owned(),
        network: false,
        memory_bytes: 1 << 30,
        file_bytes: 1 << 20,
        processes: 1 << 20,
        cpu_seconds: None,
        user,
    }
}

/// Starts `true` in a sandbox of this kind. Containers and hardened kernels may deny namespaces; only an
/// attempt shows.
fn attempt(isolation: SandboxIsolation) -> Result<(), String> {
    let helper = helper::own_path().ok_or("this program cannot be used as the sandbox helper")?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    for name in ["root", "work"] {
        fs_err::create_dir(directory.path().join(name)).map_err(|error| error.to_string())?;
    }
    let plan = trial(isolation, directory.path(), &helper);
    if let Some(user) = plan.user {
        give(&plan.workdir, user).map_err(|error| error.to_string())?;
    }
    let plan = serde_json::to_string(&plan).map_err(|error| error.to_string())?;
    let tried = std::process::Command::new(&helper)
        .args([HELPER_COMMAND, plan.as_str(), "/bin/true"])
        .env_clear()
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if tried.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&tried.stderr);
    let words = words.trim().replace('\n', "; ");
    Err(format!(
        "not usable on this machine ({})",
        words.trim_start_matches("satiety sandbox: ")
    ))
}

fn probe_bubblewrap() -> Result<String, String> {
    let program = bubblewrap_program().ok_or("`bwrap` is not installed")?;
    let version = std::process::Command::new(program)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    attempt(SandboxIsolation::Bubblewrap)?;
    Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}

#[cfg(target_os = "linux")]
fn probe_namespaces() -> Result<String, String> {
    attempt(SandboxIsolation::Namespaces)
        .map(|()| "user, pid, mount, IPC, UTS and network namespaces".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn probe_namespaces() -> Result<String, String> {
    Err("only available on Linux".to_owned())
}

#[cfg(target_os = "linux")]
fn probe_landlock() -> Result<String, String> {
    landlock::probe()
}

#[cfg(not(target_os = "linux"))]
fn probe_landlock() -> Result<String, String> {
    Err("only available on Linux".to_owned())
}

/// Whether the kernel counts the processes of a user namespace separately (Linux 5.14).
fn counts_by_namespace() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 14)
}

/// Number of processes and threads of this user, as the kernel's limit counts them.
fn own_tasks() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::getuid().as_raw();
    let processes = fs_err::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    processes
        .filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == own))
        .filter_map(|entry| Some(fs_err::read_dir(entry.path().join("task")).ok()?.count() as u64))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_selected_or_refused_with_all_reasons() {
        use SandboxBackend::{Auto, Bubblewrap, Landlock, Namespaces};
        use SandboxRequirement::{Prefer, Require};
        let probe = |works: &str| {
            let state = |letter: char, reason: &str| {
                works
                    .contains(letter)
                    .then(String::new)
                    .ok_or_else(|| reason.to_owned())
            };
            Probe {
                bubblewrap: state('b', "not installed"),
                namespaces: state('n', "refused"),
                landlock: state('l', "old kernel"),
            }
        };
        for (wanted, requirement, works, expected) in [
            (Auto, Require, "bnl", Ok(SandboxIsolation::Bubblewrap)),
            (Auto, Require, "nl", Ok(SandboxIsolation::Namespaces)),
            (Namespaces, Require, "bnl", Ok(SandboxIsolation::Namespaces)),
            (Auto, Prefer, "l", Ok(SandboxIsolation::Landlock)),
            (Auto, Prefer, "", Ok(SandboxIsolation::None)),
            (Landlock, Prefer, "bnl", Ok(SandboxIsolation::Landlock)),
            (
                Auto,
                Require,
                "l",
                Err(
                    "bubblewrap: not installed; namespaces: refused; landlock: degraded sandbox without namespaces",
                ),
            ),
            (
                Landlock,
                Require,
                "bnl",
                Err("landlock: degraded sandbox without namespaces"),
            ),
            (Landlock, Prefer, "bn", Err("landlock: old kernel")),
            (Bubblewrap, Prefer, "nl", Err("bubblewrap: not installed")),
        ] {
            let chosen = choose(wanted, requirement, &probe(works));
            assert_eq!(
                chosen,
                expected.map_err(str::to_owned),
                "{wanted:?} {requirement} {works}"
            );
        }
    }
}
