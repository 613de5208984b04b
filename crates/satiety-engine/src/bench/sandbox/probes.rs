//! Escape attempts against the sandbox: each is made by a sandboxed process and verified from outside.
//!
//! `satiety doctor --sandbox` prints them as a table. The results do not rely on how the sandbox is built: a
//! secret was read or not, a process was killed or not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit};
use satiety::bench::contract::{Input, Request, TargetSpec, VERSION};
use satiety::bench::{SandboxIsolation, SandboxRequirement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::layout::Protected;
use super::{PROBE_COMMAND, SandboxContext, helper, probe, raw};
use crate::bench::target::{Target, TargetContext};

/// Time limit of all attempts together, in milliseconds.
const LIMIT: u64 = 60_000;
/// Connection timeout of an attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Results of the escape attempts against one isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbedIsolation {
    /// Isolation of the probed process.
    pub isolation: SandboxIsolation,
    /// Whether the runner was root.
    pub as_root: bool,
    /// Result of each escape attempt.
    pub probes: Vec<EscapeAttempt>,
}

/// Single attempt to escape from the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EscapeAttempt {
    /// Description of the attempt.
    pub probe: String,
    /// Result of the attempt.
    pub result: ProbeResult,
    /// Mechanism that is meant to stop it.
    pub mechanism: String,
}

/// Result of an escape attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeResult {
    /// The sandbox blocked the attempt.
    Blocked,
    /// The attempt succeeded: a leak.
    Leak,
}

/// All escape attempts made on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxExamination {
    /// Results by isolation that works on this machine.
    pub isolations: Vec<ProbedIsolation>,
    /// Isolations that do not work on this machine, with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// Number of attempts that succeeded.
    pub leaks: usize,
}

/// Attempts for a sandboxed process to make.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    /// Files with the secret, by the name of the attempt.
    files: BTreeMap<String, PathBuf>,
    /// Process ids outside: the runner and a bystander.
    processes: Vec<i32>,
    abstract_name: String,
    port: u16,
    socket: PathBuf,
    /// Paths that must not be writable.
    outside: Vec<PathBuf>,
    /// Number that identifies a left-over process.
    mark: String,
}

/// Attempts and the mechanisms that are meant to stop them.
const ATTEMPTS: &[(&str, &str)] = &[
    ("read the suite file", "mount namespace"),
    ("read a case file", "mount namespace"),
    ("read the store", "mount namespace"),
    ("read a file in the home directory", "mount namespace"),
    ("read ~/.ssh", "mount namespace"),
    ("read another case's working directory", "mount namespace"),
    ("read /tmp of the machine", "mount namespace"),
    ("read /dev/shm of the machine", "mount namespace"),
    ("read through a symbolic link", "mount namespace"),
    ("read through a hard link", "mount namespace"),
    ("read through ..", "mount namespace"),
    ("read through /proc/PID/cwd and root", "pid namespace"),
    ("read through /proc/PID/fd", "pid namespace"),
    ("read /proc/*/environ", "pid namespace"),
    ("read /proc/*/cmdline", "pid namespace"),
    ("read inherited descriptors", "descriptors closed"),
    ("connect to an abstract socket", "network namespace"),
    ("connect to a socket file", "mount namespace"),
    ("connect to the machine's network", "network namespace"),
    ("write outside the working directory", "read-only mounts"),
    ("kill a process outside", "pid namespace"),
    ("limit a process outside (prlimit)", "pid namespace"),
    ("renice a process outside", "pid namespace"),
    ("trace a process outside (ptrace)", "pid namespace"),
    ("leave a daemon behind", "pid namespace"),
    ("mount and unmount", "no capabilities, system call filter"),
    ("become root", "no new privileges, user namespace"),
    ("make a device node", "no capabilities"),
    ("open a disk", "minimal /dev"),
    ("have capabilities", "capabilities dropped"),
    ("make a user namespace", "system call filter"),
    ("share the host name", "UTS namespace"),
    ("share IPC", "IPC namespace"),
    ("reach the user's keyring", "system call filter"),
];

/// Makes every attempt against every isolation that this machine supports; the degraded one only if there is
/// no other.
pub async fn examine() -> Result<SandboxExamination, String> {
    let state = probe();
    let mut unavailable = BTreeMap::new();
    let mut isolations = Vec::new();
    for (isolation, state) in [
        (SandboxIsolation::Bubblewrap, &state.bubblewrap),
        (SandboxIsolation::Namespaces, &state.namespaces),
        (SandboxIsolation::Landlock, &state.landlock),
    ] {
        match state {
            Err(reason) => {
                unavailable.insert(isolation.name().to_owned(), reason.clone());
            }
            Ok(_) if !isolation.is_full() && !isolations.is_empty() => {}
            Ok(_) => isolations.push(examine_one(isolation).await?),
        }
    }
    let leaks = isolations
        .iter()
        .flat_map(|found: &ProbedIsolation| &found.probes)
        .filter(|probed| probed.result == ProbeResult::Leak)
        .count();
    Ok(SandboxExamination {
        isolations,
        unavailable,
        leaks,
    })
}

/// Test environment around a probed sandbox; removed on drop.
struct Arena {
    directory: tempfile::TempDir,
    bystander: Child,
    shared: Option<PathBuf>,
    secret: String,
    task: Task,
    /// Leaks into child processes unless the sandbox closes it.
    _leaky: fs_err::File,
}

impl Drop for Arena {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
        if let Some(path) = &self.shared {
            let _ = fs_err::remove_file(path);
        }
    }
}

impl Arena {
    fn new() -> std::io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        let id = uuid::Uuid::now_v7().simple().to_string();
        let secret = format!("satiety-secret-{id}");
        let mut files = BTreeMap::new();
        for (name, path) in [
            ("read the suite file", "suite/suite.json"),
            ("read a case file", "suite/cases/one.json"),
            ("read the store", "store.db"),
            ("read a file in the home directory", "home/notes.txt"),
            ("read ~/.ssh", "home/.ssh/id_ed25519"),
            (
                "read another case's working directory",
                "scratch/other-r0-a0-1-1/output.txt",
            ),
            ("read /tmp of the machine", "note.txt"),
        ] {
            let path = at(path);
            if let Some(parent) = path.parent() {
                fs_err::create_dir_all(parent)?;
            }
            fs_err::write(&path, &secret)?;
            files.insert(name.to_owned(), path);
        }
        let shared = Path::new("/dev/shm").join(format!("satiety-probe-{id}"));
        let shared = fs_err::write(&shared, &secret).ok().map(|()| shared);
        if let Some(path) = &shared {
            files.insert("read /dev/shm of the machine".to_owned(), path.clone());
        }
        let leaky = fs_err::File::open(at("suite/suite.json"))?;
        rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty())?;
        let bystander = Command::new("/bin/sh")
            .args(["-c", "read line", secret.as_str()])
            .env_clear()
            .env("SECRET", &secret)
            .current_dir(at("suite"))
            .stdin(Stdio::piped())
            .spawn()?;
        let number = i32::try_from(bystander.id()).unwrap_or(0);
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let tcp = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = tcp.local_addr()?.port();
        serve(secret.clone(), move || Ok(tcp.accept()?.0));
        let abstract_name = format!("satiety-probe-{id}");
        let unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?;
        serve(secret.clone(), move || Ok(unix.accept()?.0));
        let socket = at("socket");
        let unix = UnixListener::bind(&socket)?;
        serve(secret.clone(), move || Ok(unix.accept()?.0));
        let outside = vec![
            at("suite/planted"),
            at("planted"),
            Path::new("/usr").join(format!("satiety-{id}")),
        ];
        let digits: String = id.chars().filter(char::is_ascii_digit).take(6).collect();
        let task = Task {
            files,
            processes: vec![number, own],
            abstract_name,
            port,
            socket,
            outside,
            mark: format!("4{digits}"),
        };
        Ok(Self {
            directory,
            bystander,
            shared,
            secret,
            task,
            _leaky: leaky,
        })
    }
}

/// Sends the secret to every client that connects, for the lifetime of the process.
fn serve<S: std::io::Write>(secret: String, accept: impl Fn() -> std::io::Result<S> + Send + 'static) {
    std::thread::spawn(move || {
        while let Ok(mut stream) = accept() {
            let _ = stream.write_all(secret.as_bytes());
        }
    });
}

async fn examine_one(isolation: SandboxIsolation) -> Result<ProbedIsolation, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot probe {isolation}: {error}");
    let mut arena = Arena::new().map_err(|error| failed(&error))?;
    let helper =
        helper::own_path().ok_or_else(|| failed(&"this program cannot be used as the sandbox helper"))?;
    let at = |name: &str| arena.directory.path().join(name);
    let task = serde_json::to_string(&arena.task).map_err(|error| failed(&error))?;
    let spec: TargetSpec = serde_json::from_value(json!({
        "type": "exec",
        "command": helper,
        "args": [PROBE_COMMAND, task],
        "request": "goal",
        "sandbox": {"backend": isolation},
    }))
    .map_err(|error| failed(&error))?;
    let context = TargetContext {
        base: at("suite"),
        suite: at("suite"),
        scratch: at("scratch"),
        keep_workdirs: false,
        helper: Some(helper),
        sandbox: SandboxContext {
            requirement: SandboxRequirement::Prefer,
            protected: Protected {
                trees: vec![
                    at("suite/suite.json"),
                    at("suite/cases"),
                    at("store.db"),
                    at("home/.ssh"),
                ],
                wholes: vec![at("suite"), at("home"), at("scratch")],
                within: None,
            },
            skill: None,
        },
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())]
            .into_iter()
            .collect(),
        api_key: None,
        anthropic_key: None,
    };
    let before = state_of(arena.bystander.id());
    let target = Target::open(&spec, &context).map_err(|error| failed(&error))?;
    let request = Request {
        v: VERSION,
        case_id: "probe".into(),
        input: Input {
            goal: "probe".into(),
            ..Input::default()
        },
        deadline_ms: LIMIT,
        ..Request::default()
    };
    let attempt = target.call(&request).await;
    let said = match &attempt.outcome {
        Ok(response) => response.output.as_str().unwrap_or_default().to_owned(),
        Err(error) => return Err(failed(&format!("{error} {}", attempt.stderr))),
    };
    let mut reports: BTreeMap<&str, &str> = BTreeMap::new();
    for line in said.lines() {
        if let Some((name, text)) = line.split_once('\t') {
            reports.insert(name, text);
        }
    }
    let alive = arena.bystander.try_wait().is_ok_and(|ended| ended.is_none());
    let after = state_of(arena.bystander.id());
    let planted = arena.task.outside.iter().any(|path| path.exists());
    let daemon = is_running(&arena.task.mark);
    let probes = ATTEMPTS.iter().map(|(name, mechanism)| {
        let text = reports.get(name).copied();
        let leaked = match *name {
            "write outside the working directory" => planted,
            "kill a process outside" => !alive,
            "limit a process outside (prlimit)" => before.0 != after.0,
            "renice a process outside" => before.1 != after.1,
            "leave a daemon behind" => daemon,
            "share the host name" | "share IPC" => {
                let kind = if name.ends_with("IPC") { "ipc" } else { "uts" };
                let own = fs_err::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
                text.is_none_or(|text| Path::new(text) == own)
            }
            // Attempts that report themselves whether they succeeded.
            _ => text.is_none_or(|text| text.contains(&arena.secret) || text == "succeeded"),
        };
        EscapeAttempt {
            probe: (*name).to_owned(),
            result: if leaked {
                ProbeResult::Leak
            } else {
                ProbeResult::Blocked
            },
            mechanism: match isolation {
                SandboxIsolation::Landlock => "Landlock, system call filter, supervisor".to_owned(),
                _ => (*mechanism).to_owned(),
            },
        }
    });
    Ok(ProbedIsolation {
        isolation,
        as_root: rustix::process::geteuid().is_root(),
        probes: probes.collect(),
    })
}

fn state_of(process: u32) -> (String, String) {
    let limits = fs_err::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let stat = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let nice = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(16))
        .unwrap_or_default()
        .to_owned();
    (limits, nice)
}

/// Whether a process with this argument is running.
fn is_running(mark: &str) -> bool {
    let processes = fs_err::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    processes
        .filter_map(|entry| fs_err::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()))
}

/// Inside the sandbox: makes every attempt and prints the results.
pub(super) fn attempt(args: &[OsString]) -> Result<u8, String> {
    let task: Task = args
        .first()
        .and_then(|text| text.to_str())
        .and_then(|text| serde_json::from_str(text).ok())
        .ok_or("missing task; this command is for internal use")?;
    // Printed at the end: an attempt to read the descriptors of other processes may read, and drain, our own
    // output.
    let mut out = String::new();
    let mut say = |name: &str, text: String| {
        let text = text.replace(['\n', '\t'], " ");
        out.extend([name, "\t", text.as_str(), "\n"]);
    };
    for (name, path) in &task.files {
        say(name, read(path));
    }
    let suite = task.files.get("read the suite file").cloned().unwrap_or_default();
    let link = Path::new("probe-link");
    let _ = std::os::unix::fs::symlink(&suite, link);
    say("read through a symbolic link", read(link));
    let hard = Path::new("probe-hard");
    let _ = fs_err::hard_link(&suite, hard);
    say("read through a hard link", read(hard));
    let up = "../".repeat(12);
    say(
        "read through ..",
        [
            "../../suite/suite.json".to_owned(),
            format!("{up}{}", suite.strip_prefix("/").unwrap_or(&suite).display()),
        ]
        .iter()
        .map(|path| read(Path::new(path)))
        .collect(),
    );
    attempt_processes(&task, &suite, &mut say);
    attempt_sockets(&task, &mut say);
    for path in &task.outside {
        let _ = fs_err::write(path, "planted");
    }
    say("write outside the working directory", String::new());
    let daemon = format!(
        "(setsid env -i /bin/sleep {} </dev/null >/dev/null 2>&1 &)",
        task.mark
    );
    let _ = Command::new("/bin/sh").args(["-c", daemon.as_str()]).status();
    say("leave a daemon behind", String::new());
    attempt_privileges(&mut say);
    std::io::stdout()
        .write_all(out.as_bytes())
        .map_err(|error| format!("cannot print the results: {error}"))?;
    Ok(0)
}

fn read(path: &Path) -> String {
    let mut text = Vec::new();
    // Do not block on devices and pipes.
    let opened = rustix::fs::open(
        path,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    if let Ok(opened) = opened {
        let _ = std::fs::File::from(opened).take(1 << 16).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// All visible processes except this one, which knows the secret's location.
fn others() -> Vec<PathBuf> {
    let own = std::process::id().to_string();
    fs_err::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.bytes().all(|byte| byte.is_ascii_digit()) && name != own
        })
        .collect()
}

fn attempt_processes(task: &Task, suite: &Path, say: &mut impl FnMut(&str, String)) {
    let ids = || task.processes.iter().filter_map(|id| Pid::from_raw(*id));
    let mut places: Vec<PathBuf> = task
        .processes
        .iter()
        .map(|id| PathBuf::from(format!("/proc/{id}")))
        .collect();
    places.extend(others());
    let inner = suite.strip_prefix("/").unwrap_or(suite);
    let through = |parts: &[PathBuf]| -> String {
        places
            .iter()
            .flat_map(|place| parts.iter().map(|part| read(&place.join(part))))
            .collect()
    };
    say(
        "read through /proc/PID/cwd and root",
        through(&["cwd/suite.json".into(), Path::new("root").join(inner)]),
    );
    let descriptors: String = places
        .iter()
        .flat_map(|place| fs_err::read_dir(place.join("fd")).into_iter().flatten())
        .filter_map(|entry| Some(read(&entry.ok()?.path())))
        .collect();
    say("read through /proc/PID/fd", descriptors);
    say("read /proc/*/environ", through(&["environ".into()]));
    // The supervisor's arguments contain those of this task, which are not a secret of a run.
    let lines: String = task
        .processes
        .iter()
        .map(|id| read(Path::new(&format!("/proc/{id}/cmdline"))))
        .collect();
    say("read /proc/*/cmdline", lines);
    let inherited: String = (3..256)
        .map(|descriptor| read(Path::new(&format!("/proc/self/fd/{descriptor}"))))
        .collect();
    say("read inherited descriptors", inherited);
    for id in ids() {
        let limit = Rlimit {
            current: Some(7),
            maximum: Some(7),
        };
        let _ = rustix::process::prlimit(Some(id), Resource::Core, limit);
        let _ = rustix::process::setpriority_process(Some(id), 19);
    }
    say("limit a process outside (prlimit)", String::new());
    say("renice a process outside", String::new());
    let traced = ids().any(raw::trace);
    say("trace a process outside (ptrace)", verdict(traced));
    // Only the bystander: the runner still has to report.
    if let Some(id) = ids().next() {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
    }
    say("kill a process outside", String::new());
}

fn attempt_sockets(task: &Task, say: &mut impl FnMut(&str, String)) {
    let listen = |stream: std::io::Result<UnixStream>| -> String {
        let mut text = String::new();
        if let Ok(stream) = stream {
            let _ = stream.set_read_timeout(Some(CONNECT_TIMEOUT));
            let _ = stream.take(1 << 12).read_to_string(&mut text);
        }
        text
    };
    let address = SocketAddr::from_abstract_name(&task.abstract_name);
    say(
        "connect to an abstract socket",
        listen(address.and_then(|address| UnixStream::connect_addr(&address))),
    );
    say(
        "connect to a socket file",
        listen(UnixStream::connect(&task.socket)),
    );
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], task.port));
    let mut text = String::new();
    if let Ok(stream) = std::net::TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
        let _ = stream.set_read_timeout(Some(CONNECT_TIMEOUT));
        let _ = std::io::BufReader::new(stream).read_line(&mut text);
    }
    say("connect to the machine's network", text);
}

fn attempt_privileges(say: &mut impl FnMut(&str, String)) {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let mounted = mount("tmpfs", "/tmp", "tmpfs", MountFlags::empty(), None).is_ok()
        || unmount("/proc", UnmountFlags::DETACH).is_ok()
        || unmount("/tmp", UnmountFlags::DETACH).is_ok();
    say("mount and unmount", verdict(mounted));
    let root = rustix::process::Uid::ROOT;
    say(
        "become root",
        verdict(rustix::thread::set_thread_res_uid(root, root, root).is_ok()),
    );
    let node = rustix::fs::mknodat(
        rustix::fs::CWD,
        "probe-device",
        rustix::fs::FileType::BlockDevice,
        rustix::fs::Mode::RUSR,
        rustix::fs::makedev(8, 0),
    );
    say("make a device node", verdict(node.is_ok()));
    let disk = fs_err::read_dir("/dev").into_iter().flatten().any(|entry| {
        use std::os::unix::fs::FileTypeExt as _;
        entry.is_ok_and(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_block_device())
                && fs_err::File::open(entry.path()).is_ok()
        })
    });
    say("open a disk", verdict(disk));
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let has = status.lines().any(|line| {
        line.split_once(':').is_some_and(|(key, value)| {
            let set = value.trim().bytes().any(|digit| digit != b'0');
            // The bounding set only matters if a program could gain privileges, which is denied.
            matches!(key, "CapInh" | "CapPrm" | "CapEff" | "CapBnd" | "CapAmb") && set
        })
    }) || !status.contains("NoNewPrivs:\t1");
    say("have capabilities", verdict(has));
    for (name, kind) in [("share the host name", "uts"), ("share IPC", "ipc")] {
        let own = fs_err::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        say(name, own.display().to_string());
    }
    say("reach the user's keyring", verdict(raw::reach_keyring()));
    // Last, since it changes this process.
    let nested = raw::unshare(rustix::thread::UnshareFlags::NEWUSER).is_ok();
    say("make a user namespace", verdict(nested));
}

fn verdict(succeeded: bool) -> String {
    if succeeded { "succeeded" } else { "failed" }.to_owned()
}
