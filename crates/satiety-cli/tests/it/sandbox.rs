//! Attempts to escape from the sandbox of a target, with each backend that this machine offers.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use satiety::bench::SandboxRequirement;
use satiety::bench::contract::{ErrorKind, Input, Request, TargetSpec, VERSION};
use satiety_engine::bench::sandbox::helper::use_program;
use satiety_engine::bench::sandbox::{SandboxContext, probe};
use satiety_engine::bench::target::{Attempt, Target, TargetContext};
use serde_json::{Value, json};

const SATIETY: &str = env!("CARGO_BIN_EXE_satiety");

/// Backends that work here. Missing ones are printed, so that a silent skip cannot pass for a test.
#[expect(clippy::print_stderr, reason = "reports skipped backends")]
pub(crate) fn means() -> Vec<&'static str> {
    use_program(Path::new(SATIETY));
    let probe = probe();
    let mut found = Vec::new();
    for (name, state) in [
        ("bubblewrap", &probe.bubblewrap),
        ("namespaces", &probe.namespaces),
        ("landlock", &probe.landlock),
    ] {
        match state {
            Ok(_) => found.push(name),
            Err(reason) => eprintln!("skipped: {name}: {reason}"),
        }
    }
    found
}

fn context(folder: &Path) -> TargetContext {
    TargetContext {
        base: folder.to_owned(),
        suite: folder.to_owned(),
        scratch: folder.join("scratch"),
        keep_workdirs: false,
        helper: Some(SATIETY.into()),
        sandbox: SandboxContext {
            // The degraded backend is tested, too.
            requirement: SandboxRequirement::Prefer,
            ..SandboxContext::default()
        },
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())]
            .into_iter()
            .collect(),
        api_key: None,
        anthropic_key: None,
    }
}

fn request(goal: &str, deadline_ms: u64) -> Request {
    Request {
        v: VERSION,
        case_id: "escape".into(),
        input: Input {
            goal: goal.into(),
            ..Input::default()
        },
        deadline_ms,
        ..Request::default()
    }
}

async fn run(folder: &Path, command: &[&str], sandbox: Value, deadline_ms: u64) -> Attempt {
    let spec: TargetSpec = serde_json::from_value(json!({
        "type": "exec", "command": command[0], "args": command[1..], "sandbox": sandbox
    }))
    .unwrap();
    let target = Target::open(&spec, &context(folder)).unwrap();
    target.call(&request("g", deadline_ms)).await
}

async fn sh(folder: &Path, script: &str, sandbox: Value) -> String {
    words(run(folder, &["sh", "-c", script], sandbox, 20_000).await)
}

async fn python(folder: &Path, script: &str, sandbox: Value) -> String {
    words(run(folder, &["python3", "-S", "-c", script], sandbox, 20_000).await)
}

#[track_caller]
fn words(attempt: Attempt) -> String {
    match attempt.outcome {
        Ok(response) => response.output.as_str().unwrap().to_owned(),
        Err(error) => panic!("{error:?}\n{}", attempt.stderr),
    }
}

/// A directory with full permissions for everyone, so that only the sandbox can deny access.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs_err::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let file = folder.path().join("file");
    fs_err::write(&file, "before").unwrap();
    fs_err::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    folder
}

#[tokio::test]
async fn only_allowed_files_are_readable_and_only_the_working_directory_is_writable() {
    for backend in means() {
        let folder = open_folder();
        let file = folder.path().join("file").display().to_string();
        let dir = folder.path().display();
        let script = format!(
            "cat {file}; ls {dir}; cat /usr/bin/env > /dev/null && echo system; \
             touch inside && mkdir sub && echo x > sub/y && chmod 600 inside; cat sub/y; \
             echo after > {file}; echo after >> {file}; touch {dir}/new; rm {file}; mv {file} {dir}/moved; \
             chmod 000 {file}; truncate -s 0 {file}; ln inside {dir}/link; ln -s inside {dir}/symlink; mkdir {dir}/made; \
             cp inside /usr/bin/x; touch /tmp/satiety-escape; touch ~/.profile; ls ~/.profile; \
             mount -o remount,rw / 2>/dev/null; echo after > {file}; echo sunk > /dev/null && echo end"
        );
        let printed = sh(folder.path(), &script, json!({"backend": backend})).await;
        assert!(printed.contains("system\nx\n"), "{backend}: {printed}");
        assert!(!printed.contains("before"), "{backend}: {printed}");
        assert!(printed.ends_with("/.profile\nend"), "{backend}: {printed}");
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "before", "{backend}");
        let mode = fs_err::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "{backend}");
        let mut names: Vec<_> = fs_err::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "scratch"], "{backend}");
        assert!(!Path::new("/usr/bin/x").exists() && !Path::new("/tmp/satiety-escape").exists());
    }
}

#[tokio::test]
async fn the_network_is_unreachable_unless_allowed() {
    let script = "import socket, sys\n\
                  out = []\n\
                  for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n\
                  \x20try:\n\
                  \x20\x20s = socket.socket(socket.AF_INET, kind); s.settimeout(2)\n\
                  \x20\x20s.connect(('127.0.0.1', PORT)); s.send(b'hello'); out.append('sent')\n\
                  \x20except OSError as e: out.append('refused')\n\
                  print(*out)";
    for backend in means() {
        let folder = open_folder();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let datagrams = std::net::UdpSocket::bind(listener.local_addr().unwrap()).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let script = script.replace("PORT", &listener.local_addr().unwrap().port().to_string());
        let printed = python(folder.path(), &script, json!({"backend": backend})).await;
        assert!(printed.starts_with("refused"), "{backend}: {printed}");
        assert!(listener.accept().is_err(), "{backend}");
        assert!(datagrams.recv(&mut [0; 16]).is_err(), "{backend}");
        let printed = python(
            folder.path(),
            &script,
            json!({"backend": backend, "network": true}),
        )
        .await;
        assert_eq!(printed, "sent sent", "{backend}");
        assert!(
            listener.accept().is_ok() && datagrams.recv(&mut [0; 16]).is_ok(),
            "{backend}"
        );
    }
}

#[tokio::test]
async fn a_fork_bomb_is_limited_and_leaves_no_process() {
    let script = "import os, time\n\
                  n = 0\n\
                  while n < 500:\n\
                  \x20try: pid = os.fork()\n\
                  \x20except OSError: break\n\
                  \x20if pid == 0: time.sleep(60); os._exit(0)\n\
                  \x20n += 1\n\
                  print(n)";
    for backend in means() {
        let folder = open_folder();
        let printed = python(
            folder.path(),
            script,
            json!({"backend": backend, "processes": 20}),
        )
        .await;
        let forked: u32 = printed.parse().unwrap();
        // For ordinary users the limit counts all processes of the user, so other processes may end meanwhile.
        assert!((1..100).contains(&forked), "{backend}: {forked}");
        assert!(left(folder.path()).is_empty(), "{backend}");
    }
}

#[tokio::test]
async fn memory_files_and_cpu_time_are_limited() {
    for backend in means() {
        let folder = open_folder();
        let hog = "try: b = bytearray(512 << 20); print(len(b))\nexcept MemoryError: print('no memory')";
        let limited = json!({"backend": backend, "memory_mb": 128});
        assert_eq!(
            python(folder.path(), hog, limited).await,
            "no memory",
            "{backend}"
        );
        let free = json!({"backend": backend, "memory_mb": 2048});
        assert_eq!(
            python(folder.path(), hog, free).await,
            (512_u32 << 20).to_string(),
            "{backend}"
        );

        let limited = json!({"backend": backend, "file_mb": 1});
        let script = "trap '' XFSZ; head -c 3000000 /dev/zero > big 2> /dev/null; stat -c %s big";
        assert_eq!(sh(folder.path(), script, limited).await, "1048576", "{backend}");

        let limited = json!({"backend": backend, "cpu_seconds": 1});
        let attempt = run(
            folder.path(),
            &["sh", "-c", "while :; do :; done"],
            limited,
            20_000,
        )
        .await;
        assert_eq!(attempt.outcome.unwrap_err().kind, ErrorKind::Exit, "{backend}");
        assert!(attempt.latency < Duration::from_secs(15), "{backend}");
    }
}

#[tokio::test]
async fn other_processes_are_protected_and_the_target_is_not_root() {
    for backend in means() {
        let folder = open_folder();
        let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
        let id = bystander.id();
        let script = format!(
            "kill -9 {id} 2> /dev/null; cat /proc/{id}/mem > /dev/null 2>&1 && echo seen; \
             grep -E '^(Uid|NoNewPrivs|CapEff):' /proc/self/status | tr '\\n' ' '"
        );
        let printed = sh(folder.path(), &script, json!({"backend": backend})).await;
        std::thread::sleep(Duration::from_millis(100));
        let lives = bystander.try_wait().unwrap().is_none();
        let _ = bystander.kill();
        let _ = bystander.wait();
        assert!(lives, "{backend}");
        assert!(
            !printed.contains("seen") && !printed.contains("Uid:\t0\t"),
            "{backend}: {printed}"
        );
        assert!(printed.contains("NoNewPrivs:\t1"), "{backend}: {printed}");
        let rights = printed
            .split("CapEff:\t")
            .nth(1)
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap();
        assert_eq!(rights, "0000000000000000", "{backend}: {printed}");
    }
}

#[tokio::test]
async fn a_hanging_sandboxed_target_is_killed_with_its_children() {
    for backend in means() {
        let folder = open_folder();
        let script = "trap '' TERM; setsid sleep 61 & sleep 62 & sleep 63";
        let attempt = run(
            folder.path(),
            &["sh", "-c", script],
            json!({"backend": backend}),
            500,
        )
        .await;
        assert_eq!(attempt.outcome.unwrap_err().kind, ErrorKind::Timeout, "{backend}");
        assert_eq!(left(folder.path()), Vec::<String>::new(), "{backend}");
    }
}

#[tokio::test]
async fn a_sandboxed_persistent_target_gets_the_files_of_its_cases() {
    for backend in means() {
        let folder = open_folder();
        fs_err::write(folder.path().join("in.txt"), "text").unwrap();
        let script = "import sys, json, os\nfor line in sys.stdin:\n r = json.loads(line)\n os.chdir(r['workdir'])\n open('out.txt', 'w').write(open('in.txt').read())\n try: open(r['input']['goal'], 'w'); o = 'out'\n except OSError: o = 'kept in'\n print(json.dumps({'output': o}), flush=True)";
        let spec: TargetSpec = serde_json::from_value(json!({
            "type": "worker", "command": "python3", "args": ["-S", "-c", script], "sandbox": {"backend": backend}
        }))
        .unwrap();
        let target = Target::open(&spec, &context(folder.path())).unwrap();
        for _ in 0..3 {
            let outside = folder.path().join("file");
            let mut asked = request(outside.to_str().unwrap(), 20_000);
            asked.input.files = vec!["in.txt".into()];
            let attempt = target.call(&asked).await;
            let workdir = attempt.workdir.as_ref().unwrap().path().to_owned();
            assert_eq!(
                fs_err::read_to_string(workdir.join("out.txt")).unwrap(),
                "text",
                "{backend}"
            );
            assert_eq!(words(attempt), "kept in", "{backend}");
            assert_eq!(fs_err::read_to_string(outside).unwrap(), "before", "{backend}");
        }
        target.close().await;
        assert!(left(folder.path()).is_empty(), "{backend}");
    }
}

#[tokio::test]
async fn a_failing_sandbox_is_a_harness_error_and_a_missing_one_is_refused() {
    for backend in means() {
        let folder = open_folder();
        let attempt = run(
            folder.path(),
            &["satiety-no-such-program"],
            json!({"backend": backend}),
            5000,
        )
        .await;
        let error = attempt.outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Harness, "{backend}: {error}");
        assert!(error.message.contains("satiety-no-such-program"), "{error}");
    }
    let folder = open_folder();
    let spec: TargetSpec =
        serde_json::from_value(json!({"type": "exec", "command": "true", "sandbox": {}})).unwrap();
    let nowhere = TargetContext {
        helper: None,
        ..context(folder.path())
    };
    let refused = Target::open(&spec, &nowhere).unwrap_err();
    assert!(
        refused.to_string().starts_with("cannot sandbox the target"),
        "{refused}"
    );
    let output = Command::new(SATIETY)
        .args(["__sandbox", "nonsense", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(71));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("satiety sandbox: cannot read the policy"));
}

/// Processes with a working directory inside.
fn left(folder: &Path) -> Vec<String> {
    let processes = fs_err::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|entry| {
            let cwd = fs_err::read_link(entry.path().join("cwd")).ok()?;
            cwd.starts_with(folder)
                .then(|| fs_err::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
        })
        .collect()
}
