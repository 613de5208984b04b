//! Reads recorded runs of agents in their native formats and as lines of steps. Skipped where the recordings
//! are absent.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use satiety::trajectory::{Call, ReadOptions, Step, Trajectory, read};
use serde_json::Value;

fn directory() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/trajectories");
    directory.is_dir().then_some(directory)
}

fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

fn lines_of(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Whether a text is the recorded one, which is cut in the middle if it was long.
fn is_same(found: &str, recorded: &str) -> bool {
    match recorded.split_once("\n[…]\n") {
        Some((begin, end)) => found.trim().starts_with(begin.trim()) && found.trim().ends_with(end.trim()),
        None => found.trim() == recorded.trim(),
    }
}

fn is_same_call(call: &Call, recorded: &str) -> bool {
    let arguments = recorded
        .strip_prefix(call.tool.as_str())
        .and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'))
        .unwrap_or(recorded);
    match &call.arguments {
        Value::String(text) => is_same(text, recorded),
        found => serde_json::from_str::<Value>(arguments).is_ok_and(|recorded| recorded == *found),
    }
}

fn is_same_step(step: &Step, recorded: &Value) -> bool {
    let text = |key: &str| recorded[key].as_str().unwrap_or_default();
    is_same(&step.text, text("text"))
        && (text("action").is_empty() || step.calls.iter().any(|call| is_same_call(call, text("action"))))
}

fn is_same_run(run: &Trajectory, recorded: &Value) -> bool {
    recorded["steps"].as_array().is_some_and(|steps| {
        steps.len() == run.steps.len()
            && run
                .steps
                .iter()
                .zip(steps)
                .all(|(step, recorded)| is_same_step(step, recorded))
    })
}

#[test]
fn native_files_have_the_steps_of_the_recorded_lines() {
    let Some(directory) = directory() else { return };
    let recorded: Vec<Value> = files(&directory, ".jsonl.gz")
        .iter()
        .flat_map(|path| {
            let lines = lines_of(path);
            let runs: Vec<Value> = lines
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            runs
        })
        .collect();
    for path in files(&directory.join("native"), ".json") {
        let log = read::read(&fs::read(&path).unwrap(), ReadOptions::default()).unwrap();
        assert_eq!(log.skipped.count, 0, "{}: {:?}", path.display(), log.skipped);
        assert_eq!(log.trajectories.len(), 1, "{}", path.display());
        let run = &log.trajectories[0];
        assert!(!run.steps.is_empty(), "{}", path.display());
        assert!(
            recorded.iter().any(|recorded| is_same_run(run, recorded)),
            "{}: {:?} with {} steps is not among the recorded lines",
            path.display(),
            log.format,
            run.steps.len()
        );
    }
}

#[test]
fn recorded_lines_keep_their_steps() {
    let Some(directory) = directory() else { return };
    for path in files(&directory, ".jsonl.gz") {
        let lines = lines_of(&path);
        let log = read::read(lines.as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(log.skipped.count, 0, "{}: {:?}", path.display(), log.skipped);
        let counts: Vec<usize> = log.trajectories.iter().map(|run| run.steps.len()).collect();
        let recorded: Vec<usize> = lines
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["steps"]
                    .as_array()
                    .unwrap()
                    .len()
            })
            .collect();
        assert_eq!(counts, recorded, "{}", path.display());
    }
}
