//! Runs checks that are programs, in one persistent process per language. The processes are sandboxed like
//! targets: no network, and of the suite they can read only the directory of their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::bench::code_check::{language, parse_check, parse_outcome};
use satiety::bench::contract::spec::{SandboxSpec, WorkerSpec};
use satiety::bench::contract::{Input, Request, TargetSpec, VERSION};
use satiety::bench::{BenchmarkCase, BenchmarkSuite, CheckOutcome, CodeCheck, Language, SandboxRequirement};
use serde_json::{Map, Value, json};

use super::outline::absolute;
use super::run::RunBenchRequest;
use super::sandbox::layout::{Protected, find_program};
use super::sandbox::{SandboxContext, helper};
use super::target::program::PATH;
use super::target::{Environment, Target, TargetContext};
use crate::EngineError;

/// Maximum duration of a check, in milliseconds.
const TIMEOUT_MS: u64 = 10_000;
/// Size limit in megabytes of a process; engines reserve address space far beyond what they use.
const MEMORY_MB: u64 = 64 * 1024;

/// Processes for the languages that a suite uses.
#[derive(Debug, Default)]
pub(super) struct CodeHosts {
    hosts: BTreeMap<Language, Target>,
    /// Directory that the files of checks are relative to.
    folder: PathBuf,
}

impl CodeHosts {
    /// Prepares the processes; the first check starts them.
    pub(super) fn open(
        suite: &BenchmarkSuite,
        folder: &Path,
        request: &RunBenchRequest,
    ) -> Result<Self, EngineError> {
        let mut languages: BTreeMap<Language, bool> = BTreeMap::new();
        for case in suite.cases.iter().filter(|case| case.skip.is_none()) {
            case.expected.walk(&mut |part| {
                if let Some((language, check)) = language(part.mode).zip(parse_check(part).ok()) {
                    *languages.entry(language).or_default() |= check.file.is_some();
                }
            });
        }
        let folder = PathBuf::from(absolute(folder)?);
        let mut hosts = BTreeMap::new();
        for (language, has_files) in languages {
            hosts.insert(language, open_host(language, has_files, &folder, request)?);
        }
        Ok(Self { hosts, folder })
    }

    /// Runs a check. An error means that there is no verdict, which is not a failure of the target.
    pub(super) async fn run(
        &self,
        (language, check): &(Language, CodeCheck),
        case: &BenchmarkCase,
        output: &Value,
        threshold: Option<f64>,
    ) -> Result<CheckOutcome, String> {
        let Some(host) = self.hosts.get(language) else {
            return Err("no process for the language of the check".into());
        };
        let vars = case.metadata.get("vars").cloned().unwrap_or_else(|| json!({}));
        let mut context = json!({
            "prompt": case.input.goal,
            "vars": vars,
            "test": {"description": case.case_id, "vars": vars, "metadata": case.metadata},
            "providerResponse": {"output": output},
        });
        if let (Some(fields), Some(config)) = (context.as_object_mut(), &check.config) {
            fields.insert("config".into(), config.clone());
        }
        let mut fields = Map::new();
        fields.insert("output".into(), output.clone());
        fields.insert("context".into(), context);
        fields.insert("transforms".into(), json!(check.transforms));
        if let Some(code) = &check.code {
            fields.insert("code".into(), json!(code));
        }
        if let Some(file) = &check.file {
            fields.insert("file".into(), json!(self.folder.join(file)));
            fields.insert("function".into(), json!(check.function));
        }
        let request = Request {
            v: VERSION,
            run_id: String::new(),
            suite_id: String::new(),
            case_id: case.case_id.clone(),
            variant: String::new(),
            repeat: 0,
            attempt: 0,
            seed: 0,
            input: Input {
                goal: String::new(),
                messages: Vec::new(),
                context: Vec::new(),
                config_overrides: fields,
                skill_args: Map::new(),
                files: Vec::new(),
            },
            skill_dir: None,
            workdir: None,
            deadline_ms: TIMEOUT_MS,
        };
        let attempt = host.call(&request).await;
        let response = attempt
            .outcome
            .map_err(|error| format!("{} {}", error.message, attempt.stderr).trim().to_owned())?;
        let text = |key: &str| response.output.get(key).and_then(Value::as_str);
        match (response.output.get("returned"), text("thrown"), text("invalid")) {
            (Some(returned), _, _) => parse_outcome(returned, threshold),
            (None, Some(message), _) => Ok(CheckOutcome::thrown(message)),
            (None, None, message) => Err(message.unwrap_or("the process returned no verdict").to_owned()),
        }
    }

    pub(super) async fn close(&self) {
        for host in self.hosts.values() {
            host.close().await;
        }
    }
}

fn open_host(
    language: Language,
    has_files: bool,
    folder: &Path,
    request: &RunBenchRequest,
) -> Result<Target, EngineError> {
    let (command, args, install) = match language {
        Language::Javascript => (
            "node",
            vec!["-e", include_str!("code_host/host.js")],
            "install Node.js 20 or later",
        ),
        Language::Python => (
            "python3",
            vec!["-c", include_str!("code_host/host.py")],
            "install Python 3.9 or later",
        ),
    };
    let environment: Environment = request.environment.clone().into_iter().collect();
    let search = environment.get("PATH").unwrap_or(PATH);
    if find_program(command, search).is_none() {
        return Err(EngineError::Invalid {
            message: format!("cannot run the checks of the suite: `{command}` not found in PATH"),
            hint: install.into(),
        });
    }
    let requirement = request.sandbox.unwrap_or(SandboxRequirement::Prefer);
    let spec = WorkerSpec {
        command: command.into(),
        args: args.into_iter().map(String::from).collect(),
        env: Vec::new(),
        set_env: BTreeMap::new(),
        files: Vec::new(),
        read: has_files
            .then(|| folder.display().to_string())
            .into_iter()
            .collect(),
        workers: 1,
        fresh_workdir: false,
        max_output_bytes: 1 << 20,
        sandbox: (requirement != SandboxRequirement::Off).then(|| SandboxSpec {
            memory_mb: MEMORY_MB,
            ..SandboxSpec::default()
        }),
    };
    let context = TargetContext {
        base: folder.into(),
        suite: folder.into(),
        scratch: std::env::temp_dir(),
        keep_workdirs: false,
        environment,
        api_key: None,
        anthropic_key: None,
        helper: helper::own_path(),
        sandbox: SandboxContext {
            requirement,
            // A check may see the expected answers: it is part of them.
            protected: Protected {
                trees: Vec::new(),
                wholes: Vec::new(),
            },
            skill: None,
        },
    };
    Ok(Target::open(&TargetSpec::Worker(spec), &context)?)
}
