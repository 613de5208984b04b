//! Planning of a run: its target, its cases and their order.

use std::path::{Path, PathBuf};

use satiety::Hint;
use satiety::bench::contract::TargetSpec;
use satiety::bench::contract::spec::{ChatSpec, EchoSpec, HttpSpec, SandboxSpec, WorkerSpec};
use satiety::bench::reader::parse;
use satiety::bench::{BenchmarkSuite, Named, SandboxIsolation, SandboxPolicy, SandboxRequirement};
use serde_json::json;

use super::executor::Job;
use super::sandbox;
use super::suites::LoadedSuite;
use super::target::OpenError;
use crate::EngineError;

/// Target and the directory that its description's paths are relative to.
#[derive(Debug, Clone)]
pub(super) struct LocatedTarget {
    pub(super) spec: TargetSpec,
    pub(super) base: PathBuf,
    pub(super) name: String,
}

/// File names of a target description in a suite's directory.
const TARGET_FILES: [&str; 4] = ["target.toml", "target.json", "target.yaml", "target.yml"];

/// Resolves the named target, or the one described in the suite's directory.
pub(super) fn target(named: Option<&str>, suite: &LoadedSuite) -> Result<LocatedTarget, EngineError> {
    chosen_target(named, suite)?.ok_or_else(|| no_target(suite, &[]))
}

/// As [`target`]; `None` if nothing names a target.
pub(super) fn chosen_target(
    named: Option<&str>,
    suite: &LoadedSuite,
) -> Result<Option<LocatedTarget>, EngineError> {
    match (named, target_file(suite)) {
        (Some(text), _) => named_target_in(text).map(Some),
        (None, Some(path)) => read(&path).map(Some),
        (None, None) => Ok(None),
    }
}

/// Error for a suite without a target; `reasons` say why its providers have no counterpart.
pub(super) fn no_target(suite: &LoadedSuite, reasons: &[String]) -> EngineError {
    let message = format!("no target for {}", suite.file.display());
    let parts: Vec<&str> = std::iter::once(message.as_str())
        .chain(reasons.iter().map(String::as_str))
        .collect();
    EngineError::Invalid {
        message: parts.join("; "),
        hint: Hint::with_command(
            "put target.toml next to the suite, or name a target, such as `echo`, which returns the goal",
            "--target TARGET",
        ),
    }
}

/// Finds the target description of a suite, in its directory or the parent directory.
pub(crate) fn target_file(suite: &LoadedSuite) -> Option<PathBuf> {
    let folders = [
        Some(suite.folder.as_path()),
        suite.file.parent(),
        suite.folder.parent(),
    ];
    folders
        .into_iter()
        .flatten()
        .flat_map(|folder| TARGET_FILES.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// Reads the target description of a suite, if there is one and the file is below `top`.
pub(crate) fn described_target(
    suite: &LoadedSuite,
    top: Option<&Path>,
) -> Result<Option<TargetSpec>, EngineError> {
    let Some(path) = target_file(suite) else {
        return Ok(None);
    };
    let is_below = |top: &Path| match (path.canonicalize(), top.canonicalize()) {
        (Ok(path), Ok(top)) => path.starts_with(top),
        _ => false,
    };
    if top.is_some_and(|top| !is_below(top)) {
        return Ok(None);
    }
    read(&path).map(|described| Some(described.spec))
}

/// Whether the suite's directory describes a target.
pub(crate) fn describes_target(suite: &LoadedSuite) -> bool {
    target(None, suite).is_ok()
}

/// Parses a target as typed by a user: a file, or a short form.
pub fn named_target(text: &str) -> Result<TargetSpec, EngineError> {
    Ok(named_target_in(text)?.spec)
}

fn named_target_in(text: &str) -> Result<LocatedTarget, EngineError> {
    let path = Path::new(text);
    if path.is_file() {
        return read(path);
    }
    let wrong = |reason: &str| EngineError::TargetText {
        place: text.into(),
        reason: reason.into(),
    };
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let decode =
        |value: serde_json::Value| serde_json::from_value(value).map_err(|error| wrong(&error.to_string()));
    let spec = match text.split_once(':') {
        None if text == "echo" => TargetSpec::Echo(EchoSpec {}),
        Some((kind @ ("exec" | "worker"), command)) => {
            let mut words = words(command).into_iter();
            let command = words
                .next()
                .ok_or_else(|| wrong("missing command after the colon"))?;
            let args: Vec<String> = words.collect();
            let value = json!({"command": command, "args": args});
            if kind == "exec" {
                TargetSpec::Exec(decode(value)?)
            } else {
                let spec: WorkerSpec =
                    serde_json::from_value(value).map_err(|error| wrong(&error.to_string()))?;
                TargetSpec::Worker(spec)
            }
        }
        Some(("chat", model)) => {
            let spec: ChatSpec =
                serde_json::from_value(json!({"model": model})).map_err(|error| wrong(&error.to_string()))?;
            TargetSpec::Chat(spec)
        }
        Some(("http" | "https", _)) => {
            let spec: HttpSpec =
                serde_json::from_value(json!({"url": text})).map_err(|error| wrong(&error.to_string()))?;
            TargetSpec::Http(spec)
        }
        _ => {
            return Err(wrong("file not found, and not a short form of a target"));
        }
    };
    // Typed paths are relative to the current directory.
    Ok(LocatedTarget {
        spec,
        base: PathBuf::from("."),
        name: text.into(),
    })
}

/// Line of the key that an error is about: an unknown one that the message quotes, or the last one of the path.
fn key_line(text: &str, path: &str, message: &str) -> Option<usize> {
    let unknown = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split('`').next());
    let key = unknown
        .or(path.rsplit('.').next())
        .filter(|key| !key.is_empty())?;
    let starts = |line: &str| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start_matches('"').trim_start().starts_with(['=', ':']))
    };
    text.lines().position(starts).map(|index| index + 1)
}

fn read(path: &Path) -> Result<LocatedTarget, EngineError> {
    let name = path.display().to_string();
    let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
    let value = parse(Named {
        file: &name,
        text: &text,
    })?;
    let spec = serde_path_to_error::deserialize(value).map_err(|error| {
        let line = key_line(&text, &error.path().to_string(), &error.inner().to_string());
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        EngineError::TargetText {
            place: format!("{name}{line}: {}", error.path()),
            reason: error.inner().to_string(),
        }
    })?;
    let base = path.parent().map_or_else(PathBuf::new, Into::into);
    let base = if base.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        base
    };
    Ok(LocatedTarget { spec, base, name })
}

/// Applies a sandbox requirement to a target description and returns the resulting policy. Without a
/// requirement the description's own table applies.
pub(super) fn confine(described: &mut LocatedTarget, required: Option<SandboxRequirement>) -> SandboxPolicy {
    let own = described
        .spec
        .sandbox_mut()
        .is_some_and(|sandbox| sandbox.is_some());
    let requirement = required.unwrap_or(if own {
        SandboxRequirement::Require
    } else {
        SandboxRequirement::Off
    });
    let policy = SandboxPolicy::of(&described.spec, requirement);
    if let Some(sandbox) = described.spec.sandbox_mut() {
        match requirement {
            SandboxRequirement::Off => *sandbox = None,
            SandboxRequirement::Prefer | SandboxRequirement::Require => {
                sandbox.get_or_insert_with(SandboxSpec::default);
            }
        }
    }
    policy
}

/// Determines the isolation of a target's processes on this machine; an error if it is weaker than required,
/// before anything runs.
pub(super) fn isolation(
    described: &mut LocatedTarget,
    policy: &SandboxPolicy,
) -> Result<SandboxIsolation, EngineError> {
    match described.spec.sandbox_mut() {
        None => Ok(SandboxIsolation::NotApplicable),
        Some(None) => Ok(SandboxIsolation::None),
        Some(Some(spec)) => sandbox::isolation(spec, policy.requirement)
            .map_err(|reason| EngineError::from(OpenError::sandbox(reason))),
    }
}

/// Filter of the cases to run.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    pub(super) cases: Vec<String>,
    pub(super) tags: Vec<String>,
}

impl Selection {
    /// Keeps the selected cases; all if the selection is empty.
    pub(super) fn apply(&self, suite: &mut BenchmarkSuite) -> Result<(), EngineError> {
        for wanted in &self.cases {
            if !suite.cases.iter().any(|case| case.case_id == *wanted) {
                return Err(EngineError::Invalid {
                    message: format!("case `{wanted}` not found in {}", suite.suite_id),
                    hint: Hint::with_command(
                        "list the cases of the suite",
                        "satiety bench check SUITE --format json",
                    ),
                });
            }
        }
        suite.cases.retain(|case| {
            let by_id = self.cases.is_empty() || self.cases.contains(&case.case_id);
            let by_tag = self.tags.is_empty() || case.tags.iter().any(|tag| self.tags.contains(tag));
            by_id && by_tag
        });
        if suite.cases.is_empty() {
            return Err(EngineError::Invalid {
                message: format!("no case of {} matches the selection", suite.suite_id),
                hint: "check the tags and ids of its cases".into(),
            });
        }
        Ok(())
    }
}

/// Creates all jobs: one repeat of every case before the next repeat, with variants interleaved, so that
/// drift over time affects all of them equally and a run that is stopped early has covered every case.
pub(super) fn jobs(suite: &BenchmarkSuite, repeats: Option<u32>, variants: usize) -> Vec<Job> {
    let repeats_of = |case: usize| {
        let case = &suite.cases[case];
        repeats.unwrap_or_else(|| suite.repeats_of(case)).max(1)
    };
    let most = (0..suite.cases.len()).map(repeats_of).max().unwrap_or(0);
    let mut jobs = Vec::new();
    for repeat in 0..most {
        for case in (0..suite.cases.len()).filter(|case| repeat < repeats_of(*case)) {
            // The order of variants rotates from case to case.
            jobs.extend((0..variants).map(|variant| Job {
                case,
                variant: (variant + case + repeat as usize) % variants,
                repeat,
            }));
        }
    }
    jobs
}
