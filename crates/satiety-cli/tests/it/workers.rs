//! Distributed runs: if workers or servers die, every case still has exactly one result, and the run ends.

#![expect(clippy::print_stdout, reason = "prints skips and times")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench_kill::{Chance, nothing_lives};
use crate::serve::{Server, get, start};
use crate::support::{Place, until};

const WORKERS: usize = 4;

/// Answers every tenth question wrong, slowly.
const AGENT: &str = r#"
import json, sys, time
while line := sys.stdin.readline():
    request = json.loads(line)
    time.sleep(0.1)
    goal = request["input"]["goal"]
    right = int(goal.split()[-1]) % 10 != 0
    print(json.dumps({"output": goal if right else "?"}), flush=True)
"#;

/// Answers at once, except: `kill` kills its worker, `slow` takes half a minute.
const SHELL: &str = r#"
text="$(cat)"
case "$text" in
  # The parent is the supervisor, and the worker is its parent.
  *'goal":"kill"'*) kill -9 "$(cut -d' ' -f4 "/proc/$PPID/stat")" ;;
  *'goal":"slow"'*) sleep 30 ;;
esac
printf ok
"#;

/// A database, and a directory that is the checkout of all processes.
pub(crate) struct Cluster {
    pub(crate) place: Place,
    pub(crate) url: String,
    /// Value of `bench.sandbox` for all processes.
    sandbox: &'static str,
}

impl Cluster {
    fn on(url: impl FnOnce(&Place) -> String) -> Self {
        let place = Place::new();
        let url = url(&place);
        fs_err::create_dir_all(place.path("repo")).unwrap();
        fs_err::create_dir(place.path("scratch")).unwrap();
        Self {
            place,
            url,
            sandbox: "auto",
        }
    }

    pub(crate) fn sqlite() -> Self {
        Self::on(|place| format!("sqlite:{}", place.path("store.db").display()))
    }

    /// A new database on the server that `cargo xtask test` started; `None` without it.
    pub(crate) fn postgres() -> Option<Self> {
        let Ok(server) = std::env::var("SATIETY_TEST_POSTGRES") else {
            println!(
                "skipped on PostgreSQL: SATIETY_TEST_POSTGRES is not set; `cargo xtask test` starts a server"
            );
            return None;
        };
        let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let name = format!("workers{}_{nanos}", std::process::id());
        sql(&server, &format!("CREATE DATABASE {name}"));
        let (base, _) = server.rsplit_once('/').unwrap();
        Some(Self::on(|_| format!("{base}/{name}")))
    }

    pub(crate) fn suite(&self, cases: &[(String, String)], target: &str) {
        let cases: Vec<Value> = cases
            .iter()
            .map(|(goal, expected)| {
                json!({"case_id": goal.replace(' ', "-"), "input": {"goal": goal},
                       "expected": {"mode": "exact", "value": expected}})
            })
            .collect();
        let suite = json!({"suite_id": "spread", "target": "agent", "cases": cases});
        self.place.write("repo/suite/suite.json", &suite.to_string());
        self.place.write("repo/suite/target.toml", target);
    }

    /// Cases with these goals, which the shell answers.
    pub(crate) fn shell_suite(&self, goals: &[&str]) {
        let cases: Vec<(String, String)> = goals
            .iter()
            .map(|goal| ((*goal).to_owned(), "ok".to_owned()))
            .collect();
        self.place.write("repo/suite/agent.sh", SHELL);
        self.suite(
            &cases,
            "type = 'exec'\ncommand = 'sh'\nargs = ['{{base}}/agent.sh']\n",
        );
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(&["--db", &self.url]);
        command
            .args(arguments)
            .current_dir(self.place.path("repo"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TMPDIR", self.place.path("scratch"))
            .env("SATIETY_BENCH_SANDBOX", self.sandbox);
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.output(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn worker(&self, arguments: &[&str]) -> Worker {
        let mut command = self.command(&["worker", "--format", "json"]);
        let child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Worker(child)
    }

    pub(crate) fn server(&self) -> Server {
        let repo = self.place.path("repo").display().to_string();
        start(&self.place, &["--db", &self.url, "--root", &repo])
    }

    /// Starts a distributed run and returns its id.
    pub(crate) fn detach(&self, more: &[&str]) -> String {
        let arguments = [
            &[
                "bench",
                "run",
                "suite",
                "--distributed",
                "--detach",
                "--format",
                "json",
            ][..],
            more,
        ]
        .concat();
        let detached = self.json(&arguments);
        detached["runs"][0]["run_id"].as_str().unwrap().to_owned()
    }

    /// Open cases: by case, the number of attempts and whether it is leased.
    pub(crate) fn left(&self) -> BTreeMap<String, (i64, bool)> {
        rows(
            &self.url,
            "SELECT case_id, takes, CASE WHEN holder IS NULL THEN 0 ELSE 1 END FROM bench_work",
        )
    }

    pub(crate) fn report(&self, run: &str) -> Value {
        self.json(&["bench", "report", run, "--format", "json"])
    }
}

/// A worker that is killed on drop.
pub(crate) struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Worker {
    pub(crate) fn ended(mut self) -> (std::process::ExitStatus, String, String) {
        let (mut out, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.0.wait().unwrap(), out, stderr)
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// Runs SQL directly.
fn sql(url: &str, text: &str) {
    let text = sqlx::AssertSqlSafe(text.to_owned());
    block_on(async {
        if url.starts_with("sqlite:") {
            let pool = sqlx::SqlitePool::connect(url).await.unwrap();
            sqlx::query(text).execute(&pool).await.unwrap();
            pool.close().await;
        } else {
            let pool = sqlx::PgPool::connect(url).await.unwrap();
            sqlx::query(text).execute(&pool).await.unwrap();
            pool.close().await;
        }
    });
}

fn rows(url: &str, text: &str) -> BTreeMap<String, (i64, bool)> {
    let text = sqlx::AssertSqlSafe(text.to_owned());
    let found: Vec<(String, i64, i32)> = block_on(async {
        if url.starts_with("sqlite:") {
            let pool = sqlx::SqlitePool::connect(url).await.unwrap();
            sqlx::query_as(text).fetch_all(&pool).await.unwrap()
        } else {
            let pool = sqlx::PgPool::connect(url).await.unwrap();
            sqlx::query_as(text).fetch_all(&pool).await.unwrap()
        }
    });
    found
        .into_iter()
        .map(|(case, takes, held)| (case, (takes, held == 1)))
        .collect()
}

fn post(address: &str, path: &str, body: &Value) -> Value {
    let (mut stream, body) = (TcpStream::connect(address).unwrap(), body.to_string());
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    body_of(&answer)
}

pub(crate) fn body_of(answer: &str) -> Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// Stored results by case; duplicates are an error.
pub(crate) fn results(run: &Value) -> BTreeMap<String, (Value, Value)> {
    let mut found = BTreeMap::new();
    for result in run["results"].as_array().unwrap() {
        let case = result["case_id"].as_str().unwrap().to_owned();
        let answer = (result["status"].clone(), result["actual_output"].clone());
        assert!(found.insert(case.clone(), answer).is_none(), "{case}");
    }
    found
}

fn job_is_over(server: &Server, job: &Value) -> bool {
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    let job = body_of(&get(&server.address, &path, None));
    assert_ne!(job["state"], "failed", "{job}");
    job["state"] == "done"
}

/// Two servers and four workers: workers are killed and replaced one after the other, and so is the server whose job waits.
fn disturbed(cluster: &Cluster, cases: usize, kills: usize) {
    let questions: Vec<(String, String)> = (0..cases)
        .map(|number| (format!("question {number:04}"), format!("question {number:04}")))
        .collect();
    cluster.place.write("repo/suite/agent.py", AGENT);
    cluster.suite(
        &questions,
        "type = 'worker'\ncommand = 'python3'\nargs = ['-S', '{{base}}/agent.py']\nworkers = 2\n",
    );
    let work = || cluster.worker(&["-j", "2", "--lease", "1"]);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| work()).collect();
    let (first, second) = (cluster.server(), cluster.server());
    // A different seed, so that no answer comes from the cache.
    let asked = |seed: u32| json!({"suite": "suite", "distributed": true, "seed": seed});
    // One case first, so that neither time includes the start of the workers.
    let warm = json!({"suite": "suite", "distributed": true, "cases": ["question-0000"]});
    let job = post(&second.address, "/v1/bench/runs", &warm);
    until("an end", Duration::from_mins(3), || job_is_over(&second, &job));

    let began = Instant::now();
    let job = post(&second.address, "/v1/bench/runs", &asked(1));
    until("an end", Duration::from_mins(3), || job_is_over(&second, &job));
    let quiet_took = began.elapsed();
    let quiet = cluster.report(job["run_id"].as_str().unwrap());

    let (began, mut chance, mut first) = (Instant::now(), Chance(11), Some(first));
    let job = post(&first.as_ref().unwrap().address, "/v1/bench/runs", &asked(2));
    let run = job["run_id"].as_str().unwrap().to_owned();
    let is_open = || {
        let shown = body_of(&get(&second.address, "/v1/bench/runs?limit=1", None));
        assert_eq!(shown["runs"][0]["run_id"], run.as_str());
        shown["runs"][0]["completed_at"].is_null()
    };
    let mut in_mid_run = 0;
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(50 + chance.below(200)));
        in_mid_run += usize::from(is_open());
        let victim = usize::try_from(chance.below(WORKERS as u64)).unwrap();
        // SIGKILL: no lease is returned.
        drop(std::mem::replace(&mut workers[victim], work()));
        if kill == kills / 3 {
            drop(first.take());
        }
    }
    assert!(
        in_mid_run * 10 >= kills * 9,
        "{in_mid_run} of {kills} kills hit the run"
    );
    // Another server resumes the waiting job.
    let asked = json!({"suite": "suite", "distributed": true, "seed": 2, "resume": run});
    let job = post(&second.address, "/v1/bench/runs", &asked);
    until("an end", Duration::from_mins(3), || job_is_over(&second, &job));
    println!(
        "{}: {cases} cases took {:.1} s, and {:.1} s with {kills} workers and a server killed",
        cluster.url.split(':').next().unwrap(),
        quiet_took.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );

    let found = cluster.report(&run);
    assert!(!found["completed_at"].is_null());
    assert_eq!(results(&found).len(), cases);
    assert_eq!(results(&found), results(&quiet));
    for metric in ["counts", "pass_rate", "failure_categories", "reliability"] {
        assert_eq!(found["summary"][metric], quiet["summary"][metric], "{metric}");
    }
    assert_eq!(found["summary"]["counts"]["fail"], cases.div_ceil(10));
    assert!(cluster.left().is_empty());
    let metrics = get(&second.address, "/metrics", None);
    for queue in ["work_waiting", "work_taken"] {
        assert!(
            metrics.contains(&format!("satiety_queue_depth{{queue=\"{queue}\"}} 0")),
            "{metrics}"
        );
    }
    for worker in workers {
        worker.signal("-TERM");
        let (status, _, stderr) = worker.ended();
        assert_eq!(status.code(), Some(0), "{stderr}");
    }
    nothing_lives(&cluster.place.path("scratch"));
}

/// More cases and kills with `SATIETY_FAULT_SCALE=5`.
fn scale() -> usize {
    let asked = std::env::var("SATIETY_FAULT_SCALE").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn twenty_kills_of_workers_and_one_of_a_server_lose_nothing_on_postgres() {
    if let Some(cluster) = Cluster::postgres() {
        disturbed(&cluster, 800 * scale(), 20 * scale());
    }
}

#[test]
fn kills_of_workers_and_of_a_server_lose_nothing_on_sqlite() {
    disturbed(&Cluster::sqlite(), 200 * scale(), 6 * scale());
}

pub(crate) fn both() -> Vec<Cluster> {
    [Some(Cluster::sqlite()), Cluster::postgres()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn a_stopping_worker_returns_its_cases_at_once() {
    for cluster in both() {
        cluster.shell_suite(&["slow", "a", "b"]);
        let run = cluster.detach(&[]);
        // The lease would last for an hour.
        let worker = cluster.worker(&["-j", "1", "--lease", "3600", "--grace", "0"]);
        until("a taken case", Duration::from_secs(20), || {
            cluster.left()["slow"].1
        });
        let began = Instant::now();
        worker.signal("-TERM");
        let (status, out, stderr) = worker.ended();
        assert!(
            status.code() == Some(0) && began.elapsed() < Duration::from_secs(10),
            "{stderr}"
        );
        let summary: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&summary["kept"], &summary["given_back"]), (&json!(0), &json!(1)));
        assert!(cluster.left().values().all(|left| *left == (0, false)));
        nothing_lives(&cluster.place.path("scratch"));
        // The waiting command is not the run: the run can be cancelled, and open cases are not run.
        let cancelled = cluster.json(&["bench", "cancel", &run, "--format", "json"]);
        assert_eq!(cancelled["dropped"], 3);
        let waited = cluster.output(&["bench", "run", "suite", "--distributed", "--resume", "none"]);
        assert_eq!(waited.status.code(), Some(2));
    }
}

#[test]
fn a_case_that_kills_its_worker_becomes_an_error() {
    for mut cluster in both() {
        // A case can kill its worker only without a sandbox.
        cluster.sandbox = "off";
        cluster.shell_suite(&["a", "kill", "b", "c"]);
        let run = cluster.detach(&[]);
        let mut deaths = 0;
        // Restarts it when it dies, as a supervisor would.
        loop {
            let (status, _, stderr) = cluster
                .worker(&["-j", "1", "--lease", "0.4", "--until-idle"])
                .ended();
            if status.success() {
                break;
            }
            deaths += 1;
            assert!(deaths < 10, "the case is retried forever: {stderr}");
        }
        assert_eq!(deaths, 5);
        let report = cluster.report(&run);
        assert!(!report["completed_at"].is_null());
        assert_eq!(report["summary"]["counts"]["pass"], 3, "{report}");
        let results = report["results"].as_array().unwrap();
        let killer = results.iter().find(|result| result["case_id"] == "kill").unwrap();
        assert_eq!(killer["status"], "error");
        assert_eq!(
            (&killer["error_kind"], &killer["error_owner"]),
            (&json!("abandoned"), &json!("infra"))
        );
        assert!(
            killer["error"].as_str().unwrap().contains("5 attempts"),
            "{killer}"
        );
    }
}

#[test]
fn a_worker_with_different_files_skips_the_run() {
    let cluster = Cluster::sqlite();
    cluster.shell_suite(&["a", "b"]);
    let run = cluster.detach(&[]);
    let other = cluster.place.path("other");
    for (file, content, what) in [
        ("suite/suite.json", "", "not found below the root"),
        (
            "suite/agent.sh",
            "printf no",
            "the target of suite/suite.json differs",
        ),
        (
            "suite/suite.json",
            "\"extra\"",
            "the suite of suite/suite.json differs",
        ),
    ] {
        let _ = fs_err::remove_dir_all(&other);
        if content.is_empty() {
            fs_err::create_dir_all(&other).unwrap();
        } else {
            copy(&cluster.place.path("repo"), &other);
            let before = fs_err::read_to_string(other.join(file)).unwrap();
            let changed = match file {
                "suite/suite.json" => before.replace("\"b\"", content),
                _ => content.to_owned(),
            };
            fs_err::write(other.join(file), changed).unwrap();
        }
        let root = other.display().to_string();
        let (status, _, stderr) = cluster.worker(&["--root", &root, "--until-idle"]).ended();
        assert!(status.success(), "{stderr}");
        assert!(
            stderr.contains(&run) && stderr.contains(what) && stderr.matches("skipping run").count() == 1,
            "{stderr}"
        );
        assert_eq!(cluster.left().len(), 2);
    }
    assert!(cluster.worker(&["--until-idle"]).ended().0.success());
    assert_eq!(cluster.report(&run)["summary"]["counts"]["pass"], 2);
}

pub(crate) fn copy(from: &Path, to: &Path) {
    assert!(
        Command::new("cp")
            .arg("-r")
            .args([from, to])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn plans_with_outside_paths_or_commands_are_refused() {
    let cluster = Cluster::sqlite();
    cluster.shell_suite(&["a"]);
    cluster.place.write(
        "outside/suite.json",
        "{\"suite_id\": \"x\", \"target\": \"x\", \"cases\": []}",
    );
    let touched = cluster.place.path("touched").display().to_string();
    let command = format!("exec:touch {touched}");
    for (arguments, what) in [
        (
            &["suite", "--distributed", "--target", &command][..],
            "workers do not accept commands or addresses",
        ),
        (&["suite", "--distributed", "--root", "suite/cases"], "the root"),
        (
            &["suite", "--distributed", "--root", "../scratch"],
            "not a path below the root",
        ),
        (&["suite", "--distributed", "--sequential"], "--sequential"),
        (&["suite", "--detach"], "--distributed"),
    ] {
        let output = cluster.output(&[&["bench", "run"], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && stderr.contains(what),
            "{arguments:?}: {stderr}"
        );
    }
    // An edited database cannot make a worker run files elsewhere, or a command.
    let run = cluster.detach(&[]);
    for (from, to, what) in [
        (
            "\"suite\":\"suite/suite.json\"",
            "\"suite\":\"../outside/suite.json\"",
            "not a path below the root",
        ),
        (
            "\"suite\":\"../outside/suite.json\"",
            "\"suite\":\"/etc/passwd\"",
            "not a path below the root",
        ),
        (
            "\"suite\":\"/etc/passwd\"",
            "\"suite\":\"suite\"",
            "the suite of suite",
        ),
        (
            "\"target\":null",
            &format!("\"target\":\"{command}\""),
            "not found below the root",
        ),
    ] {
        sql(
            &cluster.url,
            &format!("UPDATE bench_plans SET plan = replace(plan, '{from}', '{to}')"),
        );
        if what.starts_with("the suite") {
            sql(
                &cluster.url,
                "UPDATE bench_plans SET plan = replace(plan, '\"suite_hash\":\"', '\"suite_hash\":\"0')",
            );
        }
        let (status, _, stderr) = cluster.worker(&["--until-idle"]).ended();
        assert!(
            status.success() && stderr.contains(&run) && stderr.contains(what),
            "{to}: {stderr}"
        );
        assert_eq!(cluster.left().len(), 1);
    }
    assert!(!cluster.place.path("touched").exists());
}

#[test]
fn a_detached_gated_run_is_decided_and_alerts_once() {
    for cluster in both() {
        cluster.shell_suite(&["a", "b", "c", "d", "e", "f"]);
        let repeats = ["--repeats", "3"];
        assert!(
            cluster
                .output(&[&["bench", "run", "suite"][..], &repeats].concat())
                .status
                .success()
        );
        cluster.json(&[
            "bench", "baseline", "latest", "--suite", "suite", "--reason", "first", "--by", "me", "--format",
            "json",
        ]);
        cluster
            .place
            .write("repo/suite/agent.sh", "cat > /dev/null; printf no");
        let summary = cluster.place.path("told");
        let hook = format!("cat >> {0}; echo >> {0}", summary.display());
        let run = cluster.detach(&[&["--gate"][..], &repeats].concat());
        let children: Vec<Worker> = (0..3)
            .map(|_| {
                let mut command = cluster.command(&["worker", "-j", "2", "--until-idle"]);
                command.env("SATIETY_BENCH_ALERT_COMMAND", &hook);
                Worker(
                    command
                        .stdout(Stdio::piped())
                        .stderr(Stdio::piped())
                        .spawn()
                        .unwrap(),
                )
            })
            .collect();
        for child in children {
            let (status, _, stderr) = child.ended();
            assert!(status.success(), "{stderr}");
        }
        // Later callers get the same verdict, and no second alert is sent.
        let arguments = [
            &[
                "bench",
                "run",
                "suite",
                "--distributed",
                "--resume",
                &run,
                "--gate",
                "--format",
                "json",
            ][..],
            &repeats,
        ]
        .concat();
        let mut late = cluster.command(&arguments);
        let late = late.env("SATIETY_BENCH_ALERT_COMMAND", &hook).output().unwrap();
        assert_eq!(
            late.status.code(),
            Some(1),
            "{}",
            String::from_utf8_lossy(&late.stderr)
        );
        let late: Value = serde_json::from_slice(&late.stdout).unwrap();
        assert_eq!(
            (&late["gate"]["verdict"], &late["run_id"]),
            (&json!("regression"), &json!(run))
        );
        let summary = fs_err::read_to_string(&summary).unwrap();
        assert_eq!(summary.lines().count(), 1, "{summary}");
        let kept = rows(
            &cluster.url,
            "SELECT gate_id, CAST(1 AS BIGINT), CASE WHEN verdict = 'regression' THEN 1 ELSE 0 END FROM bench_gates",
        );
        assert_eq!(kept.into_values().collect::<Vec<_>>(), [(1, true)]);
    }
}

#[test]
fn waiting_returns_the_same_result_as_a_local_run() {
    let cluster = Cluster::sqlite();
    cluster.shell_suite(&["a", "b", "c"]);
    let here = cluster.json(&["bench", "run", "suite", "--format", "json"]);
    let worker = cluster.worker(&["-j", "1"]);
    let there = cluster.json(&["bench", "run", "suite", "--distributed", "--format", "json"]);
    drop(worker);
    for metric in ["counts", "pass_rate"] {
        assert_eq!(here["summary"][metric], there["summary"][metric], "{metric}");
    }
    let keys = |run: &Value| run.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&here), keys(&there));
    let listed = cluster.json(&["bench", "list", "--runs", "--format", "json"]);
    assert_eq!(listed["runs"][0]["distributed"], true);
    assert!(listed["runs"][1]["distributed"].is_null());
}

#[test]
fn servers_apply_retention_automatically() {
    for cluster in both() {
        let (_one, _two) = (cluster.server(), cluster.server());
        let done = || {
            rows(
                &cluster.url,
                "SELECT name, COALESCE(done_at, 0), CASE WHEN holder IS NULL THEN 0 ELSE 1 END FROM chores",
            )
        };
        until("retention", Duration::from_secs(20), || {
            done().get("retention").is_some_and(|(at, held)| *at > 0 && !held)
        });
        let first = done();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(done(), first, "retention ran again within the hour");
    }
}

#[test]
fn partitions_are_made_ahead_while_a_server_runs_without_retention() {
    let Some(cluster) = Cluster::postgres() else {
        return;
    };
    let url: satiety_engine::StoreUrl = cluster.url.parse().unwrap();
    let archive = cluster.place.path("archive");
    let (ready, opened) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let upkeep = std::thread::spawn(move || {
        block_on(async move {
            let engine = satiety_engine::Engine::new(satiety_engine::Settings {
                store: url,
                archive_folder: archive,
                embedder: "none".into(),
                chat: None,
                api_key: None,
                anthropic_key: None,
            });
            engine.database().ping().await.unwrap();
            ready.send(()).unwrap();
            tokio::select! {
                () = engine.database().keep_partitions_ahead(Duration::from_millis(100)) => {}
                _ = stopped => {}
            }
            engine.close().await;
        });
    });
    opened.recv_timeout(Duration::from_mins(1)).unwrap();
    let list = || {
        rows(
            &cluster.url,
            "SELECT c.relname::text, CAST(0 AS BIGINT), 0 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
             WHERE i.inhparent = 'eval_queries'::regclass AND c.relname LIKE '%\\_p2%'",
        )
    };
    let before = list().len();
    assert!(before > 6, "{before} partitions");
    // As if time had passed, at once: a part of them could be made again before the others are gone.
    let last: Vec<String> = list().into_keys().rev().take(6).collect();
    sql(&cluster.url, &format!("DROP TABLE {}", last.join(", ")));
    until("partitions", Duration::from_secs(30), || list().len() >= before);
    drop(stop);
    upkeep.join().unwrap();
}

#[test]
fn an_idle_worker_drains_while_the_database_is_down() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let server = xtask::postgres::Cluster::start(xtask::postgres::Options::default()).unwrap();
    let cluster = Cluster::on(|_| server.create_database("drain").unwrap());
    let worker = cluster.worker(&["--name", "idle", "--lease", "3", "--grace", "1"]);
    until("a worker", Duration::from_secs(30), || {
        let status = cluster.json(&["worker", "status", "--format", "json"]);
        status["workers"] == json!([{"name": "idle", "draining": false}])
    });
    server.stop_immediately().unwrap();
    worker.signal("-TERM");
    let (status, out, stderr) = worker.ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&summary["kept"], &summary["given_back"]), (&json!(0), &json!(0)));
}
