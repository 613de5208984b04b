//! Workers as jobs: `--once` and its exit codes, priorities of runs, graceful drain, and the state of the queue.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::get;
use crate::support::until;
use crate::workers::{Cluster, body_of, both, copy, results};

/// Answers at once, after seconds, or after a minute.
const PAUSES: &str = r#"
text="$(cat)"
case "$text" in
  *'goal":"short"'*) sleep 2 ;;
  *'goal":"medium"'*) sleep 8 ;;
  *'goal":"slow"'*) sleep 60 ;;
esac
printf ok
"#;

impl Cluster {
    /// Cases with these goals; those named `short`, `medium` and `slow` take 2, 8 and 60 seconds.
    fn pausing_suite(&self, goals: &[&str]) {
        self.shell_suite(goals);
        self.place.write("repo/suite/agent.sh", PAUSES);
    }

    /// A suite in its own directory whose cases the echo target answers.
    fn echo_suite(&self, name: &str, cases: usize) {
        let cases: Vec<Value> = (0..cases)
            .map(|number| {
                json!({"case_id": format!("c{number:03}"), "input": {"goal": "hi"},
                       "expected": {"mode": "exact", "value": "hi"}})
            })
            .collect();
        let suite = json!({"suite_id": name, "target": "agent", "cases": cases});
        self.place
            .write(&format!("repo/{name}/suite.json"), &suite.to_string());
        self.place
            .write(&format!("repo/{name}/target.toml"), "type = 'echo'\n");
    }

    fn queue(&self, suite: &str, priority: &str) -> String {
        let queued = self.json(&[
            "bench",
            "run",
            suite,
            "--distributed",
            "--detach",
            "--priority",
            priority,
            "--format",
            "json",
        ]);
        queued["runs"][0]["run_id"].as_str().unwrap().to_owned()
    }

    fn status(&self) -> Value {
        self.json(&["worker", "status", "--format", "json"])
    }
}

#[test]
fn once_takes_what_waits_and_exits_with_documented_codes() {
    for cluster in both() {
        let (status, out, stderr) = cluster.worker(&["--once"]).ended();
        assert!(
            status.code() == Some(0) && stderr.contains("no case is waiting"),
            "{stderr}"
        );
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["kept"], 0);

        cluster.echo_suite("a", 10);
        cluster.echo_suite("b", 3);
        let (first, second) = (cluster.queue("a", "normal"), cluster.queue("b", "normal"));
        let kept = |arguments: &[&str]| {
            let (status, out, stderr) = cluster.worker(arguments).ended();
            assert_eq!(status.code(), Some(0), "{stderr}");
            serde_json::from_str::<Value>(&out).unwrap()["kept"].clone()
        };
        assert_eq!(
            kept(&["--once", "--run", &first, "--max-cases", "4", "-j", "8"]),
            4
        );
        assert_eq!(kept(&["--once", "--run", &first]), 6);
        assert!(
            !cluster.report(&first)["completed_at"].is_null(),
            "the last worker completes the run"
        );
        assert_eq!(kept(&["--once", "--run", &first]), 0);
        assert_eq!(cluster.left().len(), 3, "cases of the other run are not taken");

        // A run that does not exist, and a checkout that does not match.
        let (status, _, stderr) = cluster.worker(&["--once", "--run", "none"]).ended();
        assert!(
            status.code() == Some(2) && stderr.contains("run `none`"),
            "{stderr}"
        );
        let other = cluster.place.path("other");
        copy(&cluster.place.path("repo"), &other);
        fs_err::write(other.join("b/target.toml"), "type = 'exec'\ncommand = 'true'\n").unwrap();
        let root = other.display().to_string();
        let (status, _, stderr) = cluster
            .worker(&["--once", "--run", &second, "--root", &root])
            .ended();
        assert!(
            status.code() == Some(2) && stderr.contains("the target of b/suite.json differs"),
            "{stderr}"
        );
        assert_eq!(kept(&["--max-cases", "3"]), 3);
        assert_eq!(results(&cluster.report(&second)).len(), 3);
    }
}

#[test]
fn once_leaves_the_cases_of_others_and_wait_does_not() {
    let cluster = Cluster::sqlite();
    cluster.pausing_suite(&["medium", "a"]);
    let run = cluster.detach(&[]);
    let other = cluster.worker(&["-j", "1", "--once", "--max-cases", "1"]);
    until("a taken case", Duration::from_secs(20), || {
        cluster.left().get("medium").is_some_and(|left| left.1)
    });
    let (status, _, stderr) = cluster.worker(&["--once"]).ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!(cluster.left().keys().collect::<Vec<_>>(), ["medium"]);
    let (status, _, stderr) = cluster.worker(&["--once", "--wait"]).ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(cluster.left().is_empty());
    assert_eq!(other.ended().0.code(), Some(0));
    assert_eq!(cluster.report(&run)["summary"]["counts"]["pass"], 2);
}

#[test]
fn runs_share_the_workers_by_priority() {
    for cluster in both() {
        let names = ["low", "normal", "high"];
        let runs = names.map(|name| {
            cluster.echo_suite(name, 40);
            cluster.queue(name, name)
        });
        // 1 : 4 : 16 for 42 cases, taken one at a time.
        let (status, _, stderr) = cluster
            .worker(&["-j", "1", "--once", "--max-cases", "42"])
            .ended();
        assert_eq!(status.code(), Some(0), "{stderr}");
        let status = cluster.status();
        let left = |run: &String| {
            let all = status["runs"].as_array().unwrap();
            let found = all
                .iter()
                .find(|queued| queued["run_id"] == run.as_str())
                .unwrap();
            (found["priority"].clone(), found["waiting"].as_i64().unwrap())
        };
        let left = runs.each_ref().map(left);
        assert_eq!(
            left,
            [(json!("low"), 38), (json!("normal"), 32), (json!("high"), 8)]
        );
        assert_eq!(
            (&status["waiting"], &status["in_progress"]),
            (&json!(78), &json!(0))
        );
        assert!(status["oldest_seconds"].as_f64().unwrap() > 0.0);

        let server = cluster.server();
        let metrics = get(&server.address, "/metrics", None);
        for line in [
            "satiety_queue_depth{queue=\"work_waiting\"} 78",
            "satiety_queue_in_progress 0",
            "satiety_queue_oldest_seconds ",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        let queue = body_of(&get(&server.address, "/v1/bench/queue", None));
        assert_eq!(queue["runs"], status_runs(&cluster.status(), &queue));
        // Several workers at once finish all runs, each case once.
        let workers: Vec<_> = (0..3).map(|_| cluster.worker(&["--until-idle"])).collect();
        for worker in workers {
            let (status, _, stderr) = worker.ended();
            assert_eq!(status.code(), Some(0), "{stderr}");
        }
        for run in &runs {
            assert_eq!(results(&cluster.report(run)).len(), 40);
        }
        let empty = cluster.status();
        assert_eq!(
            (&empty["waiting"], &empty["oldest_seconds"]),
            (&json!(0), &Value::Null)
        );
    }
    let cluster = Cluster::sqlite();
    cluster.echo_suite("a", 1);
    let output = cluster.output(&["bench", "run", "a", "--priority", "high"]);
    assert_eq!(output.status.code(), Some(2), "a priority needs --distributed");
}

/// Runs of the command with the ages of the server, which are read at another moment.
fn status_runs(status: &Value, queue: &Value) -> Value {
    let mut runs = status["runs"].clone();
    for (run, other) in runs
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip(queue["runs"].as_array().unwrap())
    {
        run["age_seconds"] = other["age_seconds"].clone();
    }
    runs
}

#[test]
fn a_draining_worker_finishes_its_cases_within_the_grace_period() {
    for cluster in both() {
        cluster.pausing_suite(&["short", "slow", "a", "b"]);
        let run = cluster.detach(&[]);
        let worker = cluster.worker(&["-j", "2", "--lease", "3600", "--grace", "5", "--name", "w1"]);
        until("two taken cases", Duration::from_secs(20), || {
            let left = cluster.left();
            left["short"].1 && left["slow"].1
        });
        assert_eq!(
            cluster.status()["workers"],
            json!([{"name": "w1", "draining": false}])
        );
        let began = Instant::now();
        worker.signal("-TERM");
        until("draining", Duration::from_secs(4), || {
            cluster.status()["workers"] == json!([{"name": "w1", "draining": true}])
        });
        let (status, out, stderr) = worker.ended();
        let took = began.elapsed();
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(
            (Duration::from_secs(4)..Duration::from_secs(10)).contains(&took),
            "{took:?}"
        );
        let summary: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&summary["kept"], &summary["given_back"]), (&json!(1), &json!(1)));
        let left = cluster.left();
        assert_eq!(left.keys().collect::<Vec<_>>(), ["a", "b", "slow"]);
        assert!(left.values().all(|left| *left == (0, false)));

        // A second signal returns the cases at once; a job that was stopped is not done.
        let worker = cluster.worker(&["-j", "3", "--lease", "3600", "--grace", "60", "--once"]);
        until("the slow case", Duration::from_secs(20), || {
            cluster.left()["slow"].1
        });
        let began = Instant::now();
        worker.signal("-TERM");
        std::thread::sleep(Duration::from_millis(500));
        worker.signal("-TERM");
        let (status, _, stderr) = worker.ended();
        assert_eq!(status.code(), Some(130), "{stderr}");
        assert!(began.elapsed() < Duration::from_secs(8));
        assert_eq!(cluster.left()["slow"], (0, false));
        cluster.json(&["bench", "cancel", &run, "--format", "json"]);
    }
}

#[test]
fn a_worker_drains_when_it_is_asked_through_the_database() {
    let cluster = Cluster::sqlite();
    cluster.pausing_suite(&["short"]);
    let run = cluster.detach(&[]);
    let worker = cluster.worker(&["--name", "gpu-7"]);
    until("a taken case", Duration::from_secs(20), || {
        cluster.left().get("short").is_some_and(|left| left.1)
    });
    let drained = cluster.json(&["worker", "drain", "gpu-7", "--format", "json"]);
    assert_eq!(drained, json!({"name": "gpu-7", "workers": 1}));
    let (status, _, stderr) = worker.ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    let report = cluster.report(&run);
    assert!(
        !report["completed_at"].is_null(),
        "the case ended and the run is complete: {stderr}"
    );
    let output = cluster.output(&["worker", "drain", "gpu-7"]);
    assert_eq!(output.status.code(), Some(2));
}
