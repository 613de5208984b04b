//! Attacks on the sandbox by a target: on the expected answers, on the runner and on later cases.
//!
//! Each runs the real command with an agent that wants to pass, as root (if tests run as root) and as an ordinary user, with
//! every backend that this machine offers. The agent prints what it found; a secret in the output is a leak.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Place;

/// Secret that must not appear in any output.
const SECRET: &str = "the-secret-answer";
const NOBODY: u32 = 65534;

/// User that starts the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Root,
    Ordinary,
}

fn everyone() -> Vec<Who> {
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs_err::metadata("/proc/self").unwrap()) == 0;
    if is_root {
        vec![Who::Root, Who::Ordinary]
    } else {
        vec![Who::Ordinary]
    }
}

/// Backends that keep the promises and work here. Missing ones are printed, so that a silent skip cannot pass for a test.
#[expect(clippy::print_stderr, reason = "reports skipped backends")]
fn isolations() -> Vec<&'static str> {
    let mut found = vec!["namespaces"];
    let bubblewrap = [
        "/usr/bin/bwrap",
        "/usr/local/bin/bwrap",
        "/bin/bwrap",
        "/run/current-system/sw/bin/bwrap",
    ];
    if bubblewrap.iter().any(|path| Path::new(path).exists()) {
        found.push("bubblewrap");
    } else {
        eprintln!("skipped: bubblewrap is not installed");
    }
    found
}

/// A suite with a secret answer, an agent next to it, a home with keys, and a database.
struct Attack {
    place: Place,
    program: PathBuf,
    who: Who,
    isolation: &'static str,
}

impl Attack {
    fn new(who: Who, isolation: &'static str, agent: &str) -> Self {
        let place = Place::new();
        place.write("suite/agent.py", &format!("#!/usr/bin/python3 -S\n{agent}"));
        place.write("home/.ssh/id_ed25519", SECRET);
        place.write("home/notes.txt", SECRET);
        place.write("suite/baseline.json.old", SECRET);
        place.write("suite/cases/more.json", &case("more", "q", &[]).to_string());
        let suite = json!({"suite_id": "attacked", "cases": [case("one", "q", &[]), case("two", "q", &[])]});
        place.write("suite/suite.json", &suite.to_string());
        place.write(
            "suite/target.toml",
            &format!("type = 'exec'\ncommand = './agent.py'\n[sandbox]\nbackend = '{isolation}'\n"),
        );
        let attack = Self {
            program: binary(),
            place,
            who,
            isolation,
        };
        fs_err::create_dir(attack.place.path("scratch")).unwrap();
        attack.open_up();
        attack
    }

    /// Gives everything to the user who starts the runner, so that only the sandbox keeps others out.
    fn open_up(&self) {
        let agent = self.place.path("suite/agent.py");
        if agent.exists() {
            fs_err::set_permissions(agent, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let owner = (self.who == Who::Ordinary && everyone().contains(&Who::Root)).then_some(NOBODY);
        let mut left = vec![self.place.folder.path().to_owned()];
        while let Some(path) = left.pop() {
            if owner.is_some() {
                std::os::unix::fs::lchown(&path, owner, owner).unwrap();
            }
            if fs_err::symlink_metadata(&path).unwrap().is_dir() {
                fs_err::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
                left.extend(
                    fs_err::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args([
                "--db",
                &format!("sqlite:{}", self.place.path("store.db").display()),
            ])
            .args(arguments)
            .current_dir(self.place.folder.path())
            .env_clear()
            .env("HOME", self.place.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", self.place.path("scratch"))
            .env("RUNNER_SECRET", SECRET)
            .stdin(Stdio::null());
        if self.who == Who::Ordinary && everyone().contains(&Who::Root) {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs the suite and returns the stored output of the agent.
    fn run(&self, arguments: &[&str]) -> Value {
        let mut all = vec!["bench", "run", "suite", "--format", "json"];
        all.extend(arguments);
        let output = self.command(&all).output().unwrap();
        let run: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            panic!(
                "{:?} {}: {}",
                self.who,
                self.isolation,
                String::from_utf8_lossy(&output.stderr)
            )
        });
        let report = self
            .command(&[
                "bench",
                "report",
                run["run_id"].as_str().unwrap(),
                "--format",
                "json",
            ])
            .output()
            .unwrap();
        serde_json::from_slice(&report.stdout).unwrap()
    }
}

/// A copy of the binary that every user can start, made once.
fn binary() -> PathBuf {
    use std::sync::OnceLock;
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let original = Path::new(env!("CARGO_BIN_EXE_satiety"));
        let readable = original
            .ancestors()
            .skip(1)
            .all(|above| fs_err::metadata(above).unwrap().permissions().mode() & 0o001 != 0);
        if readable {
            return original.to_owned();
        }
        let copy = std::env::temp_dir().join(format!("satiety-attacks-{}", std::process::id()));
        fs_err::copy(original, &copy).unwrap();
        fs_err::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
        copy
    })
    .clone()
}

fn case(id: &str, goal: &str, files: &[&str]) -> Value {
    json!({"case_id": id, "input": {"goal": goal, "files": files}, "expected": {"mode": "contains", "value": SECRET}})
}

fn outputs(run: &Value) -> Vec<String> {
    let results = run["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| match result["actual_output"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("no output: {} {}", result["status"], result["error"]),
        })
        .collect()
}

/// Runs the agent with every user and backend, and checks that it answered without the secret.
#[track_caller]
fn no_answer(agent: &str, arguments: &[&str], prepare: impl Fn(&Attack)) {
    for who in everyone() {
        for isolation in isolations() {
            let attack = Attack::new(who, isolation, agent);
            prepare(&attack);
            attack.open_up();
            let run = attack.run(arguments);
            assert_eq!(
                run["config_snapshot"]["sandbox"]["isolation"], isolation,
                "{who:?} {isolation}"
            );
            for printed in outputs(&run) {
                assert!(!printed.contains(SECRET), "{who:?} {isolation}: {printed}");
                assert!(
                    printed.contains("tried"),
                    "{who:?} {isolation}: the agent did not run: {printed}"
                );
            }
        }
    }
}

const READ: &str = r"
import os, sys, json
sys.stdin.read()
found = []
def read(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        found.append(os.read(fd, 1 << 20).decode('utf-8', 'replace'))
        os.close(fd)
    except OSError: pass
def walk(top, depth=6):
    try: names = os.listdir(top)
    except OSError: return
    for name in names:
        path = os.path.join(top, name)
        if os.path.isdir(path) and not os.path.islink(path):
            if depth and not path.startswith(('/usr', '/lib', '/bin', '/sbin', '/etc', '/sys')): walk(path, depth - 1)
        elif name != 'agent.py': read(path)
def done(): print('tried', *found)
base = os.path.dirname(os.path.abspath(__file__))
";

fn reader(body: &str) -> String {
    format!("{READ}{body}\ndone()\n")
}

#[test]
fn no_reachable_file_contains_the_answers() {
    // Reads every file next to the agent, above it, in the home, in the database and in other working directories.
    let agent = reader(
        "place = os.path.dirname(base)\nfor p in [base, place, place + '/home', place + '/scratch', os.path.expanduser('~'), '.', '..', '/tmp', '/home', '/root', '/var', '/opt', '/srv', '/mnt', '/dev/shm', '/run']: walk(p)\nfor n in ['suite.json', 'cases/more.json', 'target.toml', 'baseline.json.old']: read(base + '/' + n)\nread(place + '/store.db'); read(place + '/store.db-wal'); read(place + '/home/.ssh/id_ed25519')",
    );
    no_answer(&agent, &[], |_| {});
}

#[test]
fn proc_links_descriptors_and_environment_do_not_leak_the_answers() {
    let agent = reader(
        r"
suite = base + '/suite.json'
pids = [p for p in os.listdir('/proc') if p.isdigit()] + [str(os.getppid())] + [str(n) for n in range(1, 300)]
for p in set(pids):
    for f in ['environ', 'cwd/suite/suite.json', 'cwd/suite.json', 'root' + suite, 'task/' + p + '/environ']: read(f'/proc/{p}/{f}')
    if p != str(os.getpid()):
        try: names = os.listdir(f'/proc/{p}/fd')
        except OSError: names = []
        for n in names: read(f'/proc/{p}/fd/{n}')
for n in range(3, 300):
    try: found.append(os.pread(n, 1 << 16, 0).decode('utf-8', 'replace'))
    except OSError: pass
for name, make in [('l1', os.symlink), ('l2', os.link)]:
    try: make(suite, name)
    except OSError: pass
    read(name)
read('../../suite/suite.json'); read('../' * 20 + suite)
",
    );
    // A descriptor of the suite that the runner inherited is not passed on.
    for who in everyone() {
        for isolation in isolations() {
            let attack = Attack::new(who, isolation, &agent);
            let script = format!(
                "exec 7< suite/suite.json 8< suite/suite.json; exec {} --db sqlite:store.db bench run suite --format json",
                attack.program.display()
            );
            let mut command = attack.command(&[]);
            let mut shell = Command::new("/bin/bash");
            shell
                .args(["-c", &script])
                .current_dir(attack.place.folder.path())
                .env_clear()
                .envs(
                    command
                        .get_envs()
                        .filter_map(|(name, value)| Some((name, value?))),
                );
            if who == Who::Ordinary && everyone().contains(&Who::Root) {
                shell.uid(NOBODY).gid(NOBODY);
            }
            let output = shell.output().unwrap();
            let run: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
            command.args([
                "bench",
                "report",
                run["run_id"].as_str().unwrap(),
                "--format",
                "json",
            ]);
            let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
            for printed in outputs(&report) {
                assert!(printed.starts_with("tried"), "{who:?} {isolation}: {printed}");
                assert!(!printed.contains(SECRET), "{who:?} {isolation}: {printed}");
            }
        }
    }
}

#[test]
fn the_runner_cannot_be_killed_limited_reniced_or_traced() {
    let agent = reader(
        r"
import signal, resource, ctypes
libc = ctypes.CDLL(None, use_errno=True)
for p in sorted(set([os.getppid()] + [int(p) for p in os.listdir('/proc') if p.isdigit()] + list(range(1, 40000)))):
    if p in (os.getpid(), 0): continue
    try: resource.prlimit(p, resource.RLIMIT_NOFILE, (3, 3)); found.append(f'limited {p}')
    except (OSError, ValueError, PermissionError): pass
    try: os.setpriority(os.PRIO_PROCESS, p, 19); found.append(f'reniced {p}')
    except OSError: pass
    if p > 2 and libc.ptrace(0x4206, p, 0, 0) == 0: found.append(f'traced {p}')
    if p > 2:
        try: os.kill(p, signal.SIGTERM); found.append(f'signalled {p}')
        except OSError: pass
",
    );
    for who in everyone() {
        for isolation in isolations() {
            let attack = Attack::new(who, isolation, &agent);
            let mut bystander = {
                let mut command = Command::new("/bin/sleep");
                command.arg("600");
                if who == Who::Ordinary && everyone().contains(&Who::Root) {
                    command.uid(NOBODY).gid(NOBODY);
                }
                command.spawn().unwrap()
            };
            let limits = || fs_err::read_to_string(format!("/proc/{}/limits", bystander.id())).unwrap();
            let before = limits();
            let run = attack.run(&[]);
            let same = before == limits();
            let alive = bystander.try_wait().unwrap().is_none();
            bystander.kill().unwrap();
            bystander.wait().unwrap();
            assert!(same && alive, "{who:?} {isolation}");
            for printed in outputs(&run) {
                assert!(printed.starts_with("tried"), "{who:?} {isolation}: {printed}");
                // The agent sees only the first process of its own namespace.
                for word in ["traced", "signalled"] {
                    assert!(!printed.contains(word), "{who:?} {isolation}: {printed}");
                }
            }
        }
    }
}

#[test]
fn no_process_outlives_its_case() {
    let agent = reader(
        r"
def daemon(kind):
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    os.chdir('/')
    for fd in range(0, 64):
        try: os.close(fd)
        except OSError: pass
    if kind == 'double':
        if os.fork(): os._exit(0)
    os.execve('/bin/sleep', ['attack-left-over', '8642' + str(len(kind))], {})
daemon('plain'); daemon('double')
import subprocess
subprocess.Popen(['/usr/bin/setsid', '/usr/bin/env', '-i', '/usr/bin/nohup', '/bin/sleep', '86429'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
import time; time.sleep(0.3)
",
    );
    for who in everyone() {
        for arguments in [&["--sandbox"][..], &["--no-sandbox"][..]] {
            for isolation in isolations() {
                let attack = Attack::new(who, isolation, &agent);
                let run = attack.run(arguments);
                assert!(
                    outputs(&run).iter().all(|printed| printed.contains("tried")),
                    "{:?}",
                    outputs(&run)
                );
                std::thread::sleep(Duration::from_millis(50));
                assert_eq!(
                    running("8642"),
                    Vec::<String>::new(),
                    "{who:?} {isolation} {arguments:?}"
                );
            }
        }
    }
}

/// Processes with an argument that starts with this text.
fn running(mark: &str) -> Vec<String> {
    fs_err::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs_err::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.split(' ').any(|word| word.starts_with(mark)) && !line.contains("-c "))
        .collect()
}

#[test]
fn nothing_is_written_outside_and_no_capability_is_left() {
    let agent = reader(
        r"
import socket, ctypes
place = os.path.dirname(base)
# Below /tmp there may be directories in memory that only the target sees; outside is looked at afterwards.
for p in [base + '/planted', place + '/planted', place + '/home/planted', place + '/scratch/planted', '/usr/planted', '/planted', '/etc/planted', '/dev/planted', '/root/planted', base + '/agent.py']:
    try:
        open(p, 'a').write('x')
        if not p.endswith('planted') or not p.startswith('/tmp'): found.append('wrote ' + p)
    except OSError: pass
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == 0: found.append('mounted')
if libc.umount2(b'/proc', 2) == 0: found.append('unmounted')
if libc.unshare(0x10000000) == 0: found.append('unshared')
for call in (os.setuid, os.setgid):
    try: call(0); found.append('became root')
    except OSError: pass
try: os.mknod('node', 0o60600, os.makedev(8, 0)); found.append('made a node')
except OSError: pass
if libc.syscall(250, 0, -5, 0) > 0: found.append('keyring')
try: socket.sethostname('x'); found.append('renamed')
except OSError: pass
for line in open('/proc/self/status'):
    if line.startswith('Cap') and line.split()[1].strip('0'): found.append(line)
    if line.startswith('NoNewPrivs') and line.split()[1] != '1': found.append(line)
if os.getuid() == 0: found.append('is root')
try: s = socket.create_connection(('127.0.0.1', int(open('port').read())), 1); found.append('connected')
except OSError: pass
s = socket.socket(socket.AF_UNIX)
try: s.connect('\0satiety-attack-' + open('port').read()); found.append('connected to abstract')
except OSError: pass
",
    );
    for who in everyone() {
        for isolation in isolations() {
            let attack = Attack::new(who, isolation, &agent);
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port().to_string();
            let name = format!("satiety-attack-{port}");
            let address = <SocketAddr as SocketAddrExt>::from_abstract_name(&name).unwrap();
            let _abstract = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
            attack.place.write("suite/port", &port);
            let cases = [case("one", "q", &["port"])];
            attack.place.write(
                "suite/suite.json",
                &json!({"suite_id": "attacked", "cases": cases}).to_string(),
            );
            fs_err::remove_dir_all(attack.place.path("suite/cases")).unwrap();
            attack.open_up();
            let run = attack.run(&[]);
            assert_eq!(outputs(&run), ["tried"], "{who:?} {isolation}");
            for planted in ["suite/planted", "planted", "home/planted", "scratch/planted"] {
                assert!(
                    !attack.place.path(planted).exists(),
                    "{who:?} {isolation} {planted}"
                );
            }
            let agent = fs_err::read_to_string(attack.place.path("suite/agent.py")).unwrap();
            assert!(!agent.ends_with('x'), "{who:?} {isolation}");
        }
    }
}

#[test]
fn a_target_definition_cannot_name_protected_files() {
    let agent = reader("");
    for (text, reason) in [
        ("read = ['suite.json']", "hidden from targets"),
        ("read = ['.']", "contains"),
        ("read = ['..']", "contains"),
        ("read = ['/']", "root of the file system"),
        ("read = ['cases']", "hidden from targets"),
        ("read = ['../suite']", "hidden from targets"),
        ("read = ['cases/more.json']", "hidden from targets"),
        ("read = ['link']", "hidden from targets"),
        ("read = ['../store.db']", "hidden from targets"),
        ("read = ['../home']", "contains"),
        ("read = ['../home/.ssh']", "hidden from targets"),
        ("read = ['/proc']", "/proc"),
        ("read = ['none']", "does not exist"),
        ("args = ['{{base}}/suite.json']", "hidden from targets"),
        ("args = ['--x={{base}}/cases/more.json']", "hidden from targets"),
    ] {
        let attack = Attack::new(Who::Root, "namespaces", &agent);
        attack.place.write(
            "suite/target.toml",
            &format!("type = 'exec'\ncommand = './agent.py'\n{text}\n"),
        );
        attack.place.write("store.db", "");
        fs_err::remove_file(attack.place.path("store.db")).unwrap();
        std::os::unix::fs::symlink("suite.json", attack.place.path("suite/link")).unwrap();
        // The database must exist to be named.
        let list = attack.command(&["bench", "list", "--runs"]).output().unwrap();
        assert!(list.status.success());
        let output = attack
            .command(&["bench", "run", "suite", "--sandbox", "--format", "json"])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{text}");
        if attack.place.path("store.db").exists() || !text.contains("store.db") {
            assert!(words.contains(reason), "{text}: {words}");
        }
    }
}

#[test]
fn files_of_a_target_definition_cannot_be_the_answers() {
    for files in ["suite.json", "cases/more.json", "link"] {
        let attack = Attack::new(Who::Root, "namespaces", &reader("walk('.')"));
        std::os::unix::fs::symlink("suite.json", attack.place.path("suite/link")).unwrap();
        attack.place.write(
            "suite/target.toml",
            &format!("type = 'exec'\ncommand = './agent.py'\nfiles = ['{files}']\n"),
        );
        let output = attack
            .command(&[
                "bench",
                "run",
                "suite",
                "--sandbox",
                "--target",
                "suite/target.toml",
                "--format",
                "json",
            ])
            .output()
            .unwrap();
        let words = [output.stdout, output.stderr].concat();
        let words = String::from_utf8_lossy(&words);
        assert!(
            !words.contains("\"status\": \"pass\"") && words.contains("hidden from targets"),
            "{files}: {words}"
        );
    }
}

#[test]
fn copied_directories_omit_the_answers() {
    let agent = reader("walk('.')\nwalk(base)");
    no_answer(&agent, &[], |attack| {
        // A fixture directory with links to the answers, and the whole suite as a fixture.
        attack.place.write("suite/fixtures/a.txt", "harmless");
        std::os::unix::fs::symlink("../suite.json", attack.place.path("suite/fixtures/b.txt")).unwrap();
        std::os::unix::fs::symlink("../cases", attack.place.path("suite/fixtures/c")).unwrap();
        let cases = [case("one", "q", &["fixtures"]), case("two", "q", &["."])];
        attack.place.write(
            "suite/suite.json",
            &json!({"suite_id": "attacked", "cases": cases}).to_string(),
        );
        fs_err::remove_file(attack.place.path("suite/baseline.json.old")).unwrap();
    });
}

#[test]
fn a_target_cannot_disguise_its_failure_as_a_sandbox_error() {
    let agent = "import sys\nsys.stderr.write('satiety sandbox: it broke\\n')\nsys.exit(71)\n";
    for isolation in isolations() {
        let attack = Attack::new(Who::Root, isolation, agent);
        let run = attack.run(&[]);
        for result in run["results"].as_array().unwrap() {
            assert_eq!(result["error_owner"], "target", "{isolation}: {result}");
        }
    }
}

#[test]
fn links_made_by_a_persistent_target_are_not_followed() {
    // The target creates links where the runner will write the files of the next case.
    let agent = r"
import sys, json, os, threading, time
home = os.getcwd()
victim = os.path.join(os.path.dirname(os.path.dirname(home)), 'victim')
def spin():
    while True:
        for name in os.listdir(home):
            path = os.path.join(home, name)
            if os.path.isdir(path) and not os.path.islink(path):
                try: os.rename(path, path + '.moved'); os.symlink(victim, path)
                except OSError: pass
threading.Thread(target=spin, daemon=True).start()
for line in sys.stdin:
    time.sleep(0.05)
    print(json.dumps({'output': 'tried'}), flush=True)
";
    for who in everyone() {
        for isolation in isolations() {
            let attack = Attack::new(who, isolation, agent);
            attack.place.write("victim/in.txt", "before");
            attack.place.write("suite/in.txt", "after");
            let cases: Vec<Value> = (0..20)
                .map(|n| case(&format!("c{n}"), "q", &["in.txt"]))
                .collect();
            attack.place.write(
                "suite/suite.json",
                &json!({"suite_id": "attacked", "cases": cases}).to_string(),
            );
            fs_err::remove_dir_all(attack.place.path("suite/cases")).unwrap();
            attack.place.write(
                "suite/target.toml",
                &format!("type = 'worker'\ncommand = './agent.py'\n[sandbox]\nbackend = '{isolation}'\n"),
            );
            attack.open_up();
            let run = attack.run(&[]);
            assert!(
                outputs(&run).iter().all(|printed| printed == "tried"),
                "{:?}",
                outputs(&run)
            );
            let victim = attack.place.path("victim");
            assert_eq!(fs_err::read_to_string(victim.join("in.txt")).unwrap(), "before");
            let owner = std::os::unix::fs::MetadataExt::uid(&fs_err::metadata(&victim).unwrap());
            let runner =
                std::os::unix::fs::MetadataExt::uid(&fs_err::metadata(attack.place.path("suite")).unwrap());
            assert_eq!(owner, runner, "{who:?} {isolation}");
        }
    }
}

#[test]
fn a_gate_requires_the_sandbox_and_a_run_without_one_says_so() {
    let agent = reader("read(base + '/suite.json')");
    let attack = Attack::new(Who::Root, "namespaces", &agent);
    attack
        .place
        .write("suite/target.toml", "type = 'exec'\ncommand = './agent.py'\n");
    // Without a sandbox the agent knows the answer, and the run has a note about it.
    let run = attack.run(&["--no-sandbox"]);
    assert_eq!(run["config_snapshot"]["sandbox"]["isolation"], "none");
    assert_eq!(run["config_snapshot"]["sandbox"]["requirement"], "off");
    assert!(outputs(&run).iter().all(|printed| printed.contains(SECRET)));
    let human = attack
        .command(&["bench", "report", run["run_id"].as_str().unwrap()])
        .output()
        .unwrap();
    let human = String::from_utf8_lossy(&human.stdout);
    assert!(human.contains("sandbox: none"), "{human}");
    let accepted = attack
        .command(&[
            "bench",
            "baseline",
            run["run_id"].as_str().unwrap(),
            "--reason",
            "r",
            "--by",
            "b",
        ])
        .output()
        .unwrap();
    assert!(accepted.status.success());
    // A plain run follows the target definition and reports the sandbox; the flag, a gate and the setting require a sandbox.
    let run = attack.run(&[]);
    assert_eq!(run["config_snapshot"]["sandbox"]["isolation"], "none");
    let run = attack.run(&["--sandbox"]);
    assert_eq!(run["config_snapshot"]["sandbox"]["requirement"], "require");
    assert!(outputs(&run).iter().all(|printed| !printed.contains(SECRET)));
    let run = attack.run(&["--gate"]);
    assert_eq!(run["config_snapshot"]["sandbox"]["requirement"], "require");
    assert!(outputs(&run).iter().all(|printed| !printed.contains(SECRET)));
    // Answers cached without a sandbox are not used with one.
    let run = attack.run(&["--no-sandbox", "--cache"]);
    assert!(outputs(&run).iter().all(|printed| printed.contains(SECRET)));
    let run = attack.run(&["--gate", "--cache"]);
    assert!(outputs(&run).iter().all(|printed| !printed.contains(SECRET)));
    // A degraded sandbox is refused if a sandbox is required.
    attack.place.write(
        "suite/target.toml",
        "type = 'exec'\ncommand = './agent.py'\n[sandbox]\nbackend = 'landlock'\n",
    );
    let output = attack
        .command(&["bench", "run", "suite", "--gate"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("degraded"), "{words}");
    // A target can read the files that its definition names.
    attack
        .place
        .write("suite/helper.py", "answer = 'from the helper'");
    attack.place.write(
        "suite/target.toml",
        "type = 'exec'\ncommand = './agent.py'\nread = ['helper.py']\n",
    );
    attack.place.write(
        "suite/agent.py",
        "#!/usr/bin/python3\nimport sys\nsys.stdin.read()\nimport helper\nprint('tried', helper.answer)\n",
    );
    attack.open_up();
    let run = attack.run(&["--gate"]);
    assert!(
        outputs(&run)
            .iter()
            .all(|printed| printed == "tried from the helper"),
        "{:?}",
        outputs(&run)
    );
}

#[test]
fn all_doctor_probes_are_blocked_as_root_and_as_user() {
    for who in everyone() {
        let attack = Attack::new(who, "namespaces", "");
        let output = attack
            .command(&["doctor", "--sandbox", "--format", "json"])
            .output()
            .unwrap();
        let found: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{who:?}: {}", String::from_utf8_lossy(&output.stderr)));
        let leaks: Vec<&Value> = found["isolations"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|isolation| isolation["probes"].as_array().unwrap())
            .filter(|probe| probe["result"] != "blocked")
            .collect();
        assert!(leaks.is_empty(), "{who:?}: {leaks:?}");
        assert_eq!(output.status.code(), Some(0), "{who:?}");
        assert!(found["isolations"][0]["probes"].as_array().unwrap().len() > 30);
    }
}
