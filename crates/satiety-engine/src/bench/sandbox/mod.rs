//! Fences around the processes of a target: no network, no writing outside the working folder, bounded memory, files,
//! processes and time.
//!
//! | means | files | network | processes |
//! |---|---|---|---|
//! | bubblewrap | the whole tree read-only, the working folder on top | a network of its own, loopback only | a process space of its own, gone with its first process |
//! | Landlock | the kernel refuses writing elsewhere | no socket can be made | the process group |
//!
//! Under both, limits on memory, file size, processes and processor time are set by a helper: this program, started
//! again as `satiety __sandbox`, which fences itself in and then becomes the target (see [`helper`]). So nothing has to
//! run between fork and exec, and no `unsafe` is needed. Started as root, the target runs as a user that owns nothing
//! but its working folder, with root's right to read.

pub mod helper;
#[cfg(target_os = "linux")]
mod landlock;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use satiety::bench::contract::spec::{SandboxBackend, SandboxSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The first argument by which the helper is known.
pub const HELPER_COMMAND: &str = "__sandbox";

/// The users that systemd keeps free for services of the moment; nobody else owns files or processes there.
const TRANSIENT_USERS: std::ops::Range<u32> = 61184..65520;

/// Where bubblewrap is looked for. Not in the target's `PATH`: what puts up the fence must not be what is fenced in.
const BUBBLEWRAP: [&str; 4] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// What this machine can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Probe {
    /// Bubblewrap's version, or why it cannot be used.
    pub bubblewrap: Result<String, String>,
    /// Landlock's version in the kernel, or why it cannot be used.
    pub landlock: Result<String, String>,
}

impl Probe {
    /// What `auto` would use, or why it would refuse.
    pub fn chosen(&self) -> Result<SandboxBackend, String> {
        choose(SandboxBackend::Auto, self)
    }
}

/// Finds out, once in the life of the process, by trying.
pub fn probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(|| Probe {
        bubblewrap: probe_bubblewrap(),
        landlock: probe_landlock(),
    })
}

/// The means to use, or why none can be.
fn choose(wanted: SandboxBackend, probe: &Probe) -> Result<SandboxBackend, String> {
    let (bubblewrap, landlock) = (&probe.bubblewrap, &probe.landlock);
    match (wanted, bubblewrap, landlock) {
        (SandboxBackend::Bubblewrap | SandboxBackend::Auto, Ok(_), _) => Ok(SandboxBackend::Bubblewrap),
        (SandboxBackend::Landlock | SandboxBackend::Auto, _, Ok(_)) => Ok(SandboxBackend::Landlock),
        (SandboxBackend::Bubblewrap, Err(reason), _) => Err(format!("bubblewrap: {reason}")),
        (SandboxBackend::Landlock, _, Err(reason)) => Err(format!("Landlock: {reason}")),
        (SandboxBackend::Auto, Err(bubblewrap), Err(landlock)) => Err(format!(
            "neither means works here: bubblewrap: {bubblewrap}; Landlock: {landlock}"
        )),
    }
}

/// What the helper is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Policy {
    pub(super) workdir: PathBuf,
    /// Whether the helper fences files and network with Landlock and a filter, or was put into a fence already.
    pub(super) landlock: bool,
    pub(super) network: bool,
    pub(super) memory_bytes: u64,
    pub(super) file_bytes: u64,
    pub(super) processes: u64,
    pub(super) cpu_seconds: Option<u64>,
    /// Whom to become.
    pub(super) user: Option<u32>,
}

/// A fence that can be put around any number of processes.
#[derive(Debug)]
pub(super) struct Sandbox {
    helper: PathBuf,
    bubblewrap: bool,
    spec: SandboxSpec,
    is_root: bool,
}

impl Sandbox {
    /// The fence that a description asks for, or why there is none.
    pub(super) fn new(spec: &SandboxSpec, helper: Option<&Path>) -> Result<Self, String> {
        let Some(helper) = helper else {
            return Err("a sandbox needs the program's own path, and this surface gives none".to_owned());
        };
        let bubblewrap = choose(spec.backend, probe())? == SandboxBackend::Bubblewrap;
        Ok(Self {
            helper: helper.to_owned(),
            bubblewrap,
            spec: spec.clone(),
            is_root: rustix::process::geteuid().is_root(),
        })
    }

    /// The user that the next process will be, where it must not be us.
    pub(super) fn next_user(&self) -> Option<u32> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let span = TRANSIENT_USERS.end - TRANSIENT_USERS.start;
        // Runs at the same time start at different places, as their limits on processes count by user.
        let offset = NEXT
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(std::process::id().wrapping_mul(97))
            % span;
        self.is_root.then_some(TRANSIENT_USERS.start + offset)
    }

    /// The program and arguments that run `program` inside the fence.
    pub(super) fn wrap(
        &self,
        program: &OsStr,
        args: Vec<OsString>,
        workdir: &Path,
        user: Option<u32>,
    ) -> Result<(OsString, Vec<OsString>), String> {
        let policy = Policy {
            workdir: workdir.to_owned(),
            landlock: !self.bubblewrap,
            network: self.spec.network,
            memory_bytes: self.spec.memory_mb.saturating_mul(1 << 20),
            file_bytes: self.spec.file_mb.saturating_mul(1 << 20),
            processes: match user {
                Some(_) => self.spec.processes,
                // The kernel counts all of a user's processes, so those that are there already come on top.
                None => self.spec.processes.saturating_add(own_tasks()),
            },
            cpu_seconds: self.spec.cpu_seconds,
            user,
        };
        let policy =
            serde_json::to_string(&policy).map_err(|error| format!("cannot write the policy: {error}"))?;
        let mut helped: Vec<OsString> = vec![HELPER_COMMAND.into(), policy.into(), program.to_owned()];
        helped.extend(args);
        if !self.bubblewrap {
            return Ok((self.helper.clone().into(), helped));
        }
        let mut wrapped = bubblewrap_args(workdir, self.spec.network);
        wrapped.push("--".into());
        wrapped.push(self.helper.clone().into());
        wrapped.extend(helped);
        let program = bubblewrap().ok_or("`bwrap` has gone")?;
        Ok((program.into(), wrapped))
    }
}

/// Gives a folder and everything in it to the user that the process will be.
pub(super) fn give(folder: &Path, user: u32) -> std::io::Result<()> {
    std::os::unix::fs::lchown(folder, Some(user), Some(user))?;
    if fs_err::symlink_metadata(folder)?.is_dir() {
        for entry in fs_err::read_dir(folder)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

fn bubblewrap_args(workdir: &Path, network: bool) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
    ]
    .map(OsString::from)
    .to_vec();
    args.extend([workdir.into(), workdir.into(), "--chdir".into(), workdir.into()]);
    args.extend(
        [
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--die-with-parent",
        ]
        .map(OsString::from),
    );
    if !network {
        args.push("--unshare-net".into());
    }
    args
}

fn bubblewrap() -> Option<&'static str> {
    BUBBLEWRAP.into_iter().find(|path| Path::new(path).exists())
}

fn probe_bubblewrap() -> Result<String, String> {
    let program = bubblewrap().ok_or("`bwrap` is not installed")?;
    let run = |args: &[OsString]| {
        std::process::Command::new(program)
            .args(args)
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|error| format!("{program} does not start: {error}"))
    };
    let version = run(&["--version".into()])?;
    // Containers and hardened kernels refuse namespaces; only an attempt tells.
    let mut args = bubblewrap_args(Path::new("/tmp"), false);
    args.extend(["--".into(), "true".into()]);
    let tried = run(&args)?;
    if !tried.status.success() {
        let words = String::from_utf8_lossy(&tried.stderr);
        return Err(format!("it does not work here ({})", words.trim()));
    }
    Ok(String::from_utf8_lossy(&version.stdout).trim().to_owned())
}

#[cfg(target_os = "linux")]
fn probe_landlock() -> Result<String, String> {
    landlock::probe()
}

#[cfg(not(target_os = "linux"))]
fn probe_landlock() -> Result<String, String> {
    Err("Linux alone has it".to_owned())
}

/// Processes and threads of this user, as the kernel's limit counts them.
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
    fn a_means_is_chosen_or_refused_with_every_reason() {
        use SandboxBackend::{Auto, Bubblewrap, Landlock};
        let probe = |bubblewrap: bool, landlock: bool| Probe {
            bubblewrap: bubblewrap.then(String::new).ok_or("not installed".to_owned()),
            landlock: landlock.then(String::new).ok_or("old kernel".to_owned()),
        };
        for (wanted, bubblewrap, landlock, expected) in [
            (Auto, true, true, Ok(Bubblewrap)),
            (Auto, false, true, Ok(Landlock)),
            (Auto, true, false, Ok(Bubblewrap)),
            (
                Auto,
                false,
                false,
                Err("neither means works here: bubblewrap: not installed; Landlock: old kernel"),
            ),
            (Landlock, true, true, Ok(Landlock)),
            (Landlock, true, false, Err("Landlock: old kernel")),
            (Bubblewrap, false, true, Err("bubblewrap: not installed")),
        ] {
            let chosen = choose(wanted, &probe(bubblewrap, landlock));
            assert_eq!(
                chosen,
                expected.map_err(str::to_owned),
                "{wanted:?} {bubblewrap} {landlock}"
            );
        }
    }

    #[test]
    fn users_are_of_the_free_range_and_follow_each_other() {
        let sandbox = Sandbox {
            helper: PathBuf::new(),
            bubblewrap: false,
            spec: SandboxSpec::default(),
            is_root: true,
        };
        let users: Vec<u32> = (0..5000).filter_map(|_| sandbox.next_user()).collect();
        assert!(users.iter().all(|user| TRANSIENT_USERS.contains(user)));
        assert_ne!(users.first(), users.get(1));
    }
}
