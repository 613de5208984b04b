//! Targets that work, and every kind of misbehavior: each has its defined outcome and leaves no process behind.

use std::path::Path;
use std::time::{Duration, Instant};

use satiety::bench::contract::{ErrorKind, Exit, Input, Owner, Request, TargetSpec, VERSION};
use satiety_engine::bench::sandbox::SandboxContext;
use satiety_engine::bench::target::{Attempt, Target, TargetContext};
use serde_json::{Value, json};

/// A directory for everything a test writes.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs_err::write(self.path().join(name), text).unwrap();
    }

    pub(crate) fn context(&self) -> TargetContext {
        TargetContext {
            base: self.path().to_owned(),
            suite: self.path().to_owned(),
            scratch: self.path().join("scratch"),
            keep_workdirs: false,
            helper: None,
            sandbox: SandboxContext::default(),
            environment: [
                ("PATH", "/usr/bin:/bin"),
                ("ALLOWED", "yes"),
                ("SECRET", "no"),
                ("TOKEN", "Bearer t0ken"),
            ]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
            api_key: None,
            anthropic_key: None,
        }
    }

    pub(crate) fn open(&self, spec: Value) -> Target {
        let spec: TargetSpec = serde_json::from_value(spec).unwrap();
        Target::open(&spec, &self.context()).unwrap()
    }

    /// Calls a shell script that is started for the case.
    async fn sh(&self, script: &str, deadline_ms: u64) -> Attempt {
        let target = self.open(json!({"type": "exec", "command": "sh", "args": ["-c", script]}));
        target.call(&request("the goal", deadline_ms)).await
    }

    /// A shell script that answers lines.
    fn worker(&self, script: &str) -> Target {
        self.open(json!({"type": "worker", "command": "sh", "args": ["-c", script]}))
    }
}

pub(crate) fn request(goal: &str, deadline_ms: u64) -> Request {
    Request {
        v: VERSION,
        run_id: "run-1".into(),
        suite_id: "suite".into(),
        case_id: "case/1".into(),
        variant: "control".into(),
        seed: 7,
        input: Input {
            goal: goal.into(),
            ..Input::default()
        },
        deadline_ms,
        ..Request::default()
    }
}

pub(crate) fn kind(attempt: &Attempt) -> ErrorKind {
    match &attempt.outcome {
        Ok(response) => panic!("an answer: {:?}", response.output),
        Err(error) => error.kind,
    }
}

pub(crate) fn output(attempt: &Attempt) -> &Value {
    match &attempt.outcome {
        Ok(response) => &response.output,
        Err(error) => panic!("{error:?}, stderr: {}", attempt.stderr),
    }
}

/// Processes that match, by a field of `/proc/PID/stat` (counted after the name): 2 is the group.
fn members(field: usize, wanted: &str) -> Vec<String> {
    let processes = fs_err::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|entry| {
            let stat = fs_err::read_to_string(entry.path().join("stat")).ok()?;
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
            // Zombies do not count.
            let found = fields.get(field) == Some(&wanted) && fields.first() != Some(&"Z");
            found.then(|| entry.file_name().to_string_lossy().into_owned())
        })
        .collect()
}

#[track_caller]
pub(crate) fn nothing_left(place: &Place, file: &str) {
    let group = fs_err::read_to_string(place.path().join(file)).unwrap();
    assert_eq!(members(2, group.trim()), Vec::<String>::new(), "group {group}");
}

#[tokio::test]
async fn exec_targets_get_a_fresh_directory_and_few_variables() {
    let place = Place::new();
    place.write("notes.txt", "notes");
    fs_err::create_dir(place.path().join("data")).unwrap();
    place.write("data/table.csv", "1,2");
    let script = "cat > request.json; cat notes.txt data/table.csv >&2; ls >&2; \
                  printf '{\"output\": {\"env\": \"%s\", \"home\": \"%s\", \"arg\": \"%s\"}, \"tokenUsage\": {\"prompt\": 3}}' \
                  \"$(env | cut -d= -f1 | sort | tr '\\n' ' ')\" \"$HOME\" \"$1\"; pwd >&2";
    let target = place.open(json!({
        "type": "exec", "command": "sh", "args": ["-c", script, "sh", "{{base}}"], "env": ["ALLOWED", "MISSING"],
        "set_env": {"PLAIN": "1"}, "files": ["notes.txt"]
    }));
    let mut asked = request("the goal", 10_000);
    asked.input.files = vec!["data".into()];
    let attempt = target.call(&asked).await;
    let answer = output(&attempt);
    assert_eq!(
        answer["env"],
        "ALLOWED HOME LANG PATH PLAIN PWD SATIETY_TARGET_MARK TMPDIR "
    );
    assert_eq!(answer["arg"], place.path().to_str().unwrap());
    assert_eq!(
        attempt.outcome.as_ref().unwrap().usage.unwrap().input_tokens,
        Some(3)
    );
    assert_eq!(attempt.exit, Some(Exit::Code(0)));
    assert!(attempt.stderr.starts_with("notes1,2"), "{}", attempt.stderr);
    let folder = attempt.workdir.as_ref().unwrap().path().to_owned();
    assert_eq!(answer["home"], folder.to_str().unwrap());
    let seen: Request = serde_json::from_slice(&fs_err::read(folder.join("request.json")).unwrap()).unwrap();
    assert_eq!(seen.workdir.as_deref(), folder.to_str());
    assert_eq!(seen.input, asked.input);
    drop(attempt);
    assert!(!folder.exists());
    let mut second = request("the goal", 10_000);
    second.input.files = vec!["data".into()];
    second.repeat = 1;
    assert_ne!(target.call(&second).await.workdir.unwrap().path(), folder);
}

#[tokio::test]
async fn outside_and_missing_files_are_harness_errors() {
    let place = Place::new();
    let target = place.open(json!({"type": "exec", "command": "cat"}));
    for file in ["../x", "/etc/passwd", "", "missing"] {
        let mut asked = request("g", 5000);
        asked.input.files = vec![file.into()];
        assert_eq!(kind(&target.call(&asked).await), ErrorKind::Harness, "{file}");
    }
}

#[tokio::test]
async fn goals_can_be_sent_as_plain_text_and_can_be_large() {
    let place = Place::new();
    let goal = "g".repeat(300_000);
    let target = place.open(json!({"type": "exec", "command": "cat", "request": "goal"}));
    assert_eq!(output(&target.call(&request(&goal, 10_000)).await), goal.as_str());
    // A program does not have to read its input.
    let target =
        place.open(json!({"type": "exec", "command": "echo", "args": ["-n"], "request": "argument"}));
    assert_eq!(output(&target.call(&request("a b", 10_000)).await), "a b");
    let attempt = target.call(&request(&goal, 10_000)).await;
    assert_eq!(kind(&attempt), ErrorKind::Harness);
    assert!(attempt.outcome.unwrap_err().message.contains("stdin"));
}

#[tokio::test]
async fn a_missing_program_is_a_harness_error() {
    let place = Place::new();
    let target = place.open(json!({"type": "exec", "command": "satiety-no-such-program"}));
    let attempt = target.call(&request("g", 5000)).await;
    let error = attempt.outcome.unwrap_err();
    assert_eq!(
        (error.kind, error.kind.owner()),
        (ErrorKind::Harness, Owner::Harness)
    );
    assert!(error.message.contains("satiety-no-such-program"), "{error}");
}

#[tokio::test]
async fn a_hanging_target_is_killed_with_its_children() {
    let place = Place::new();
    let file = place.path().join("group");
    // Ignores SIGTERM, as do its children.
    let script = format!("trap '' TERM; echo $$ > {}; sleep 60 & sleep 60", file.display());
    let started = Instant::now();
    let attempt = place.sh(&script, 300).await;
    assert_eq!(kind(&attempt), ErrorKind::Timeout);
    assert_eq!(attempt.exit, Some(Exit::Signal(9)));
    assert!(
        attempt.latency < Duration::from_millis(1500),
        "{:?}",
        attempt.latency
    );
    assert!(started.elapsed() < Duration::from_secs(6));
    nothing_left(&place, "group");
}

#[tokio::test]
async fn a_hanging_target_that_handles_sigterm_ends_at_once() {
    let place = Place::new();
    let started = Instant::now();
    let attempt = place.sh("sleep 60", 200).await;
    assert_eq!(kind(&attempt), ErrorKind::Timeout);
    assert_eq!(attempt.exit, Some(Exit::Signal(15)));
    assert!(started.elapsed() < Duration::from_millis(1900));
}

#[tokio::test]
async fn children_that_outlive_their_parent_do_not_outlive_the_case() {
    let place = Place::new();
    let file = place.path().join("group");
    let script = format!("echo $$ > {}; sleep 60 & echo done", file.display());
    let started = Instant::now();
    let attempt = place.sh(&script, 30_000).await;
    assert_eq!(output(&attempt), "done");
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "the call waited for the pipe"
    );
    nothing_left(&place, "group");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_that_leaves_its_process_group_is_killed() {
    let place = Place::new();
    let file = place.path().join("daemon");
    let script = format!(
        "setsid sh -c 'echo $$ > {}; sleep 60 & sleep 61' & sleep 0.3; echo done",
        file.display()
    );
    let attempt = place.sh(&script, 30_000).await;
    assert_eq!(output(&attempt), "done");
    nothing_left(&place, "daemon");
}

#[tokio::test]
async fn large_output_is_truncated_with_bounded_memory() {
    let place = Place::new();
    let file = place.path().join("group");
    let script = format!(
        "echo $$ > {}; head -c 1000000000 /dev/zero | tr '\\0' x",
        file.display()
    );
    let before = resident();
    let attempt = place.sh(&script, 60_000).await;
    assert_eq!(kind(&attempt), ErrorKind::TooLarge);
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes");
    nothing_left(&place, "group");
    // The same on stderr is not a failure: its end is kept.
    let attempt = place
        .sh(
            "head -c 30000000 /dev/zero | tr '\\0' y >&2; echo end >&2; echo ok",
            60_000,
        )
        .await;
    assert_eq!(output(&attempt), "ok");
    assert!(attempt.stderr.len() <= 64 << 10 && attempt.stderr.ends_with("y\u{65}nd\n"));
}

fn resident() -> usize {
    let statm = fs_err::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).map_or(0, |pages| pages.parse().unwrap());
    pages * 4096
}

#[tokio::test]
async fn each_abnormal_exit_has_its_status() {
    let place = Place::new();
    for (script, expected, exit, part) in [
        (r"printf 'a\377b'", ErrorKind::Protocol, Exit::Code(0), "UTF-8"),
        ("kill -SEGV $$", ErrorKind::Exit, Exit::Signal(11), "signal 11"),
        ("kill -KILL $$", ErrorKind::Exit, Exit::Signal(9), "signal 9"),
        ("echo 42; exit 3", ErrorKind::Exit, Exit::Code(3), "code 3"),
        ("exit 75", ErrorKind::Infra, Exit::Code(75), "retry requested"),
        (
            r#"echo '{"error": {"kind": "overloaded", "message": "busy"}}'; exit 1"#,
            ErrorKind::Overloaded,
            Exit::Code(1),
            "busy",
        ),
        (
            r#"echo '{"error": {"kind": "refusal", "message": "no"}}'"#,
            ErrorKind::Refusal,
            Exit::Code(0),
            "no",
        ),
    ] {
        let attempt = place.sh(script, 10_000).await;
        assert_eq!(kind(&attempt), expected, "{script}");
        assert_eq!(attempt.exit, Some(exit), "{script}");
        let message = attempt.outcome.unwrap_err().message;
        assert!(message.contains(part), "{message}");
    }
    // Malformed JSON is text.
    assert_eq!(
        output(&place.sh(r#"echo '{"output": '"#, 10_000).await),
        "{\"output\": "
    );
}

#[tokio::test]
async fn an_abandoned_call_leaves_no_process() {
    let place = Place::new();
    let file = place.path().join("group");
    let script = format!("echo $$ > {}; sleep 60 & sleep 60", file.display());
    let call = place.sh(&script, 60_000);
    assert!(
        tokio::time::timeout(Duration::from_millis(500), call)
            .await
            .is_err()
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    nothing_left(&place, "group");
}

const ECHO: &str = r#"n=0; while read -r line; do n=$((n+1)); echo "{\"output\": $n}"; done"#;

#[tokio::test]
async fn a_persistent_target_answers_many_requests_and_ends_when_closed() {
    let place = Place::new();
    let file = place.path().join("group");
    let target = place.worker(&format!("echo $$ > {}; sleep 60 & {ECHO}", file.display()));
    for n in 1..=20 {
        assert_eq!(output(&target.call(&request("g", 5000)).await), &json!(n));
    }
    let group = fs_err::read_to_string(&file).unwrap();
    assert_eq!(members(2, group.trim()).len(), 2);
    target.close().await;
    nothing_left(&place, "group");
}

#[tokio::test]
async fn each_persistent_process_has_one_request_in_flight() {
    let place = Place::new();
    let script = r#"while read -r line; do sleep 0.2; echo "{\"output\": $$}"; done"#;
    let target = place.open(json!({"type": "worker", "command": "sh", "args": ["-c", script], "workers": 3}));
    let asked = request("g", 10_000);
    let started = Instant::now();
    let attempts = futures_util::future::join_all((0..6).map(|_| target.call(&asked))).await;
    let mut workers: Vec<String> = attempts
        .iter()
        .map(|attempt| output(attempt).to_string())
        .collect();
    workers.sort();
    workers.dedup();
    assert_eq!(workers.len(), 3);
    assert!(started.elapsed() >= Duration::from_millis(400));
    // Waiting for a process is not part of the target's latency.
    for attempt in &attempts {
        assert!(
            attempt.latency < Duration::from_millis(390),
            "{:?}",
            attempt.latency
        );
    }
    target.close().await;
}

#[tokio::test]
async fn a_process_that_breaks_the_protocol_is_replaced() {
    let place = Place::new();
    for (misbehaviour, expected) in [
        ("printf '{\"outp'; kill -9 $$", ErrorKind::Exit),
        ("printf '{\"outp'; exit 0", ErrorKind::Protocol),
        ("exit 0", ErrorKind::Exit),
        ("exit 75", ErrorKind::Infra),
        ("exec 1>&-; sleep 60", ErrorKind::Exit),
        ("sleep 60", ErrorKind::Timeout),
        ("echo loading", ErrorKind::Protocol),
        ("printf 'a\\377\\n'", ErrorKind::Protocol),
        ("head -c 20000000 /dev/zero", ErrorKind::TooLarge),
    ] {
        let file = place.path().join("group");
        // Misbehaves on its first line if requested.
        let script = format!(
            "echo $$ > {}; while read -r line; do case \"$line\" in *bad*) echo oh >&2; {misbehaviour};; \
             *) echo '{{\"output\": \"fine\"}}';; esac; done",
            file.display()
        );
        let target = place.worker(&script);
        assert_eq!(
            output(&target.call(&request("good", 5000)).await),
            "fine",
            "{misbehaviour}"
        );
        let attempt = target.call(&request("bad", 700)).await;
        assert_eq!(kind(&attempt), expected, "{misbehaviour}");
        assert_eq!(attempt.stderr, "oh\n", "{misbehaviour}");
        nothing_left(&place, "group");
        assert_eq!(
            output(&target.call(&request("good", 5000)).await),
            "fine",
            "{misbehaviour}"
        );
        target.close().await;
        nothing_left(&place, "group");
    }
}

#[tokio::test]
async fn a_persistent_target_gets_a_directory_for_cases_with_files() {
    let place = Place::new();
    place.write("in.txt", "text");
    let script = "import sys, json\nfor line in sys.stdin:\n r = json.loads(line)\n try: t = open(r['workdir'] + '/in.txt').read()\n except OSError: t = None\n print(json.dumps({'output': t}), flush=True)";
    let target = place.open(json!({"type": "worker", "command": "python3", "args": ["-S", "-c", script]}));
    let mut asked = request("g", 10_000);
    assert_eq!(output(&target.call(&asked).await), &Value::Null);
    asked.input.files = vec!["in.txt".into()];
    let attempt = target.call(&asked).await;
    assert_eq!(output(&attempt), "text");
    let folder = attempt.workdir.as_ref().unwrap().path().to_owned();
    drop(attempt);
    assert!(!folder.exists());
    target.close().await;
    drop(target);
    assert_eq!(fs_err::read_dir(place.path().join("scratch")).unwrap().count(), 0);
}

#[tokio::test]
async fn the_echo_target_returns_the_goal() {
    let place = Place::new();
    let target = place.open(json!({"type": "echo"}));
    assert_eq!(output(&target.call(&request("the goal", 1)).await), "the goal");
}
