//! A run that is killed at any moment and resumed loses nothing, repeats no stored result, and ends with the metrics of an
//! uninterrupted run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Place;

const CASES: usize = 1000;
/// Number of cases; each runs twice.
const TWICE: usize = 100;
const KILLS: usize = 30;

/// Answers a tenth of the questions wrong, by their seed, and appends each question to a file.
const AGENT: &str = r#"
import json, os, sys, time
heard = os.open(os.environ["HEARD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while line := sys.stdin.readline():
    request = json.loads(line)
    os.write(heard, b".")
    time.sleep(0.003)
    right = request["seed"] % 10 != 0
    print(json.dumps({"output": request["input"]["goal"] if right else "?"}), flush=True)
"#;

/// Deterministic random numbers (`SplitMix64`).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % limit
    }
}

/// Processes with a working directory in or below `folder`: the targets that were started for it.
pub(crate) fn living(folder: &Path) -> Vec<String> {
    let processes = fs_err::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|entry| {
            let cwd = fs_err::read_link(entry.path().join("cwd")).ok()?;
            // The kernel appends a note to the name of a deleted directory.
            cwd.starts_with(folder)
                .then(|| fs_err::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
        })
        .collect()
}

/// Fails if a process still runs in the directory after some seconds.
#[track_caller]
pub(crate) fn nothing_lives(folder: &Path) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let left = living(folder);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Bench {
    place: Place,
    heard: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let place = Place::new();
        let cases: Vec<Value> = (0..CASES)
            .map(|number| {
                let repeats = if number < TWICE { 2 } else { 1 };
                let goal = format!("question {number}");
                json!({"case_id": format!("case-{number:04}"), "input": {"goal": goal}, "repeats": repeats,
                       "expected": {"mode": "exact", "value": goal}})
            })
            .collect();
        let suite = json!({"suite_id": "killed", "target": "agent", "cases": cases});
        place.write("suite/suite.json", &suite.to_string());
        let agent = place.write("suite/agent.py", AGENT);
        let heard = place.path("heard");
        place.write("heard", "");
        let target = format!(
            "type = 'worker'\ncommand = 'python3'\nargs = ['-S', '{}']\nworkers = 2\nset_env.HEARD = '{}'\n",
            agent.display(),
            heard.display()
        );
        place.write("suite/target.toml", &target);
        fs_err::create_dir(place.path("scratch")).unwrap();
        Self { place, heard }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(&["bench"]);
        command
            .args(arguments)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            // Working directories are below this one, so processes in them belong to this test.
            .env("TMPDIR", self.place.path("scratch"));
        command
    }

    fn asked(&self) -> u64 {
        fs_err::metadata(&self.heard).unwrap().len()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts or resumes the run and kills it after this many more questions and this much time.
    fn kill_after(&self, resume: bool, questions: u64, pause: Duration) {
        let before = self.asked();
        let mut arguments = vec!["run", "suite"];
        if resume {
            arguments.push("--resume");
        }
        let stderr = self.place.path("stderr");
        let mut command = self.command(&arguments);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(fs_err::File::create(&stderr).unwrap().into_parts().0)
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while self.asked() < before + questions {
            if let Some(status) = child.try_wait().unwrap() {
                let stderr = fs_err::read_to_string(&stderr).unwrap();
                panic!(
                    "the run ended by itself after {} questions: {status}\n{stderr}",
                    self.asked()
                );
            }
            assert!(Instant::now() < until, "the run asks no question");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(pause);
        // SIGKILL: no handler runs, nothing is flushed.
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None);
    }
}

/// Stored results by case and repeat; duplicate keys are an error.
fn results(run: &Value) -> BTreeMap<(String, u64), Value> {
    let mut found = BTreeMap::new();
    for result in run["results"].as_array().unwrap() {
        let key = (
            result["case_id"].as_str().unwrap().to_owned(),
            result["repeat"].as_u64().unwrap(),
        );
        assert!(found.insert(key.clone(), result.clone()).is_none(), "{key:?}");
    }
    found
}

#[test]
fn thirty_kills_lose_and_change_no_result() {
    let (disturbed, quiet) = (Bench::new(), Bench::new());
    let report = ["report", "latest:killed", "--format", "json"];
    let mut chance = Chance(7);
    let mut halfway = BTreeMap::new();
    for kill in 0..KILLS {
        // Every sixth kill hits during startup; the first must hit a started run, or there would be nothing to resume.
        let questions = match kill {
            0 => 1,
            _ if kill % 6 == 0 => 0,
            _ => 1 + chance.below(25),
        };
        let longest = if questions == 0 { 150_000 } else { 5_000 };
        disturbed.kill_after(kill > 0, questions, Duration::from_micros(chance.below(longest)));
        if kill == KILLS / 2 {
            halfway = results(&disturbed.json(&report));
        }
    }
    assert!(!halfway.is_empty());
    disturbed.json(&["run", "suite", "--resume", "--format", "json"]);
    let run = disturbed.json(&report);
    let found = results(&run);

    quiet.json(&["run", "suite", "--format", "json"]);
    let undisturbed = quiet.json(&report);
    let expected = results(&undisturbed);
    assert_eq!(quiet.asked(), (CASES + TWICE) as u64);

    // One result for each case and repeat, none lost, none of another run.
    assert_eq!(found.len(), CASES + TWICE);
    assert!(found.keys().eq(expected.keys()));
    let answer = |result: &Value| (result["status"].clone(), result["actual_output"].clone());
    for (key, result) in &found {
        assert_eq!(answer(result), answer(&expected[key]), "{key:?}");
    }
    // Stored results were not requested again: their latency would differ.
    for (key, result) in &halfway {
        assert_eq!(&found[key], result, "{key:?}");
    }
    for metric in [
        "counts",
        "pass_rate",
        "flaky",
        "failure_categories",
        "reliability",
    ] {
        assert_eq!(run["summary"][metric], undisturbed["summary"][metric], "{metric}");
    }
    assert!(undisturbed["summary"]["counts"]["fail"].as_u64().unwrap() > 50);
    let runs = disturbed.json(&["list", "--runs", "--format", "json"]);
    assert_eq!(
        runs["runs"].as_array().unwrap().len(),
        1,
        "all kills must belong to one run"
    );
    nothing_lives(disturbed.place.folder.path());
}
