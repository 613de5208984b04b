//! Runs programs of suites, in one persistent process per language. The processes are sandboxed like targets:
//! no network, and of the suite they can read only the directory of their files.
//!
//! Programs that wait at the same time are sent together: a message to a process costs more than most programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use satiety::bench::code_check::{Transform, language, parse_check, parse_outcome};
use satiety::bench::contract::spec::{SandboxSpec, WorkerSpec};
use satiety::bench::contract::{Input, Request, TargetSpec, VERSION};
use satiety::bench::promptfoo::CodeCall;
use satiety::bench::{BenchmarkExpected, BenchmarkSuite, CheckOutcome, Language, SandboxRequirement};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::outline::absolute;
use super::run::RunBenchRequest;
use super::sandbox::layout::{Protected, find_program};
use super::sandbox::{SandboxContext, helper};
use super::target::program::PATH;
use super::target::{Environment, Target, TargetContext};
use crate::EngineError;

/// Maximum duration of a message, in milliseconds. If a list of programs takes longer, each gets its own.
const TIMEOUT_MS: u64 = 10_000;
/// Size limit in megabytes of a process; engines reserve address space far beyond what they use.
const MEMORY_MB: u64 = 64 * 1024;
/// Size limit in bytes of the results of a message.
const MAX_OUTPUT: u64 = 64 << 20;
/// First version of Node.js that removes the types of TypeScript, with a flag.
const STRIPS_TYPES: (u32, u32) = (22, 6);
/// First version that also translates enumerations and other parts that are more than types, with a flag.
const TRANSFORMS_TYPES: (u32, u32) = (22, 7);
/// First version that needs no flag and no longer knows the one for translation.
const TYPES_BY_DEFAULT: (u32, u32) = (26, 0);

/// Processes for the languages that a suite uses.
#[derive(Debug, Default)]
pub(super) struct CodeHosts {
    hosts: BTreeMap<Language, Host>,
    /// Directory that the files of programs are relative to.
    folder: PathBuf,
}

/// Result of a program.
pub(super) enum Returned {
    Value(Value),
    /// The program threw an exception.
    Thrown(String),
}

/// Process of a language.
#[derive(Debug)]
struct Host {
    target: Target,
    waiting: Mutex<Vec<Waiting>>,
    /// Held while a message is under way.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    job: Value,
    reply: oneshot::Sender<Result<Value, String>>,
}

impl CodeHosts {
    /// Prepares the processes for the programs of a suite; the first program starts them. `within` is the directory
    /// of a tenant.
    pub(super) fn open(
        suite: &BenchmarkSuite,
        transforms: &[Transform],
        folder: &Path,
        within: Option<&Path>,
        request: &RunBenchRequest,
    ) -> Result<Self, EngineError> {
        let mut languages: BTreeMap<Language, bool> = BTreeMap::new();
        let mut use_transform = |transform: &Transform| {
            *languages.entry(transform.language).or_default() |= transform.file.is_some();
        };
        transforms.iter().for_each(&mut use_transform);
        for case in suite.cases.iter().filter(|case| case.skip.is_none()) {
            case.expected.walk(&mut |part| {
                part.transforms
                    .iter()
                    .chain(&part.scorer)
                    .for_each(&mut use_transform);
            });
        }
        for case in suite.cases.iter().filter(|case| case.skip.is_none()) {
            case.expected.walk(&mut |part| {
                if let Some((language, check)) = language(part.mode).zip(parse_check(part).ok()) {
                    *languages.entry(language).or_default() |= check.file.is_some();
                }
            });
        }
        let requirement = request.sandbox.unwrap_or(SandboxRequirement::Prefer);
        let search = request.environment.get("PATH").map(String::as_str);
        Self::for_languages(&languages, folder, within, requirement, search)
    }

    /// Prepares processes for languages, each with whether its programs are in files.
    pub(super) fn for_languages(
        languages: &BTreeMap<Language, bool>,
        folder: &Path,
        within: Option<&Path>,
        requirement: SandboxRequirement,
        search: Option<&str>,
    ) -> Result<Self, EngineError> {
        let folder = PathBuf::from(absolute(folder)?);
        let mut hosts = BTreeMap::new();
        for (language, has_files) in languages {
            let target = open_host(*language, *has_files, &folder, within, requirement, search)?;
            let host = Host {
                target,
                waiting: Mutex::default(),
                turn: tokio::sync::Mutex::default(),
            };
            hosts.insert(*language, host);
        }
        Ok(Self { hosts, folder })
    }

    /// Runs the program of an expectation. An error means that there is no verdict, which is not a failure of
    /// the target.
    pub(super) async fn check(
        &self,
        expected: &BenchmarkExpected,
        output: &Value,
        mut context: Value,
    ) -> Result<CheckOutcome, String> {
        let check = parse_check(expected)?;
        let language = language(expected.mode).ok_or("the expectation is not a program")?;
        if let (Some(fields), Some(config)) = (context.as_object_mut(), check.config) {
            fields.insert("config".into(), config);
        }
        let function = check
            .function
            .or_else(|| default_function(language, "get_assert"));
        let job = self.job(
            "check",
            check.code,
            check.file.as_deref(),
            function,
            json!([output, context]),
        );
        Ok(match self.run(language, job).await? {
            Returned::Value(value) => parse_outcome(&value, language, expected.threshold, expected.negate),
            Returned::Thrown(message) => {
                CheckOutcome::failed(format!("the check threw an exception: {message}"))
            }
        })
    }

    /// Runs a transform; the inner error says why there is no answer.
    pub(super) async fn transform(
        &self,
        transform: &Transform,
        output: &Value,
        context: &Value,
    ) -> Result<Result<Value, String>, String> {
        let returned = self
            .program(transform, "get_transform", json!([output, context]))
            .await?;
        Ok(match returned {
            Returned::Value(Value::Null) => Err("the transform returned nothing".to_owned()),
            Returned::Value(value) => Ok(value),
            Returned::Thrown(message) => Err(format!("the transform threw an exception: {message}")),
        })
    }

    /// Runs a function with these arguments.
    pub(super) async fn program(
        &self,
        program: &Transform,
        default: &str,
        arguments: Value,
    ) -> Result<Returned, String> {
        let function = program.function.clone();
        let function = function.or_else(|| default_function(program.language, default));
        let job = self.job(
            "transform",
            program.code.clone(),
            program.file.as_deref(),
            function,
            arguments,
        );
        self.run(program.language, job).await
    }

    /// Makes a call that an import needs.
    pub(super) async fn call(&self, call: &CodeCall) -> Result<Returned, String> {
        let function = call.function.clone().filter(|name| !name.is_empty());
        let job = self.job(
            "call",
            call.code.clone(),
            call.file.as_deref(),
            function,
            json!(call.arguments),
        );
        self.run(call.language, job).await
    }

    fn job(
        &self,
        kind: &str,
        code: Option<String>,
        file: Option<&str>,
        function: Option<String>,
        arguments: Value,
    ) -> Value {
        let mut fields = Map::new();
        fields.insert("kind".into(), kind.into());
        fields.insert("arguments".into(), arguments);
        fields.extend(code.map(|code| ("code".to_owned(), Value::String(code))));
        // Inline code has no function to choose.
        if let Some(file) = file {
            let path = self.folder.join(file).display().to_string();
            fields.insert("file".into(), Value::String(path));
            fields.extend(function.map(|name| ("function".to_owned(), Value::String(name))));
        }
        Value::Object(fields)
    }

    async fn run(&self, language: Language, job: Value) -> Result<Returned, String> {
        let Some(host) = self.hosts.get(&language) else {
            return Err("no process for the language of the program".into());
        };
        let Value::Object(mut result) = host.submit(job).await? else {
            return Err("the process returned no result".into());
        };
        if let Some(returned) = result.remove("returned") {
            return Ok(Returned::Value(returned));
        }
        let text = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
        match (text("thrown"), text("invalid")) {
            (Some(message), _) => Ok(Returned::Thrown(message)),
            (None, message) => Err(message.unwrap_or_else(|| "the process returned no result".into())),
        }
    }

    pub(super) async fn close(&self) {
        for host in self.hosts.values() {
            host.target.close().await;
        }
    }
}

impl Host {
    /// Queues a job. The caller that gets the turn sends everything that waits.
    async fn submit(&self, job: Value) -> Result<Value, String> {
        let (reply, mut answer) = oneshot::channel();
        self.waiting().push(Waiting { job, reply });
        let _turn = self.turn.lock().await;
        if let Ok(result) = answer.try_recv() {
            return result;
        }
        let waiting = std::mem::take(&mut *self.waiting());
        let (jobs, replies): (Vec<Value>, Vec<_>) =
            waiting.into_iter().map(|one| (one.job, one.reply)).unzip();
        let several = (jobs.len() > 1).then(|| jobs.clone());
        match (self.send(jobs).await, several) {
            (Ok(results), _) => {
                for (reply, result) in replies.into_iter().zip(results) {
                    // A receiver that is gone belongs to a run that was stopped.
                    let _ = reply.send(Ok(result));
                }
            }
            // One program may have ended the process: each runs alone, so that only its own case is affected.
            (Err(_), Some(jobs)) => {
                for (reply, job) in replies.into_iter().zip(jobs) {
                    let result = self.send(vec![job]).await;
                    let _ = reply.send(result.map(|mut results| results.pop().unwrap_or_default()));
                }
            }
            (Err(problem), None) => {
                for reply in replies {
                    let _ = reply.send(Err(problem.clone()));
                }
            }
        }
        answer
            .try_recv()
            .unwrap_or_else(|_| Err("the process returned no result".into()))
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, jobs: Vec<Value>) -> Result<Vec<Value>, String> {
        let count = jobs.len();
        let request = Request {
            v: VERSION,
            input: Input {
                config_overrides: Map::from_iter([("jobs".to_owned(), Value::Array(jobs))]),
                ..Input::default()
            },
            deadline_ms: TIMEOUT_MS,
            ..Request::default()
        };
        let attempt = self.target.call(&request).await;
        let response = attempt
            .outcome
            .map_err(|error| format!("{} {}", error.message, attempt.stderr).trim().to_owned())?;
        match response.output {
            Value::Array(results) if results.len() == count => Ok(results),
            _ => Err("the process returned another number of results".into()),
        }
    }
}

/// Python has no default export.
fn default_function(language: Language, name: &str) -> Option<String> {
    (language == Language::Python).then(|| name.to_owned())
}

/// Command of the process for a language; its last argument are the settings.
pub(super) fn command(language: Language, settings: &Value) -> (&'static str, Vec<String>) {
    let (command, flag, source) = match language {
        Language::Javascript => ("node", "-e", include_str!("code_host/host.js")),
        Language::Python => ("python3", "-c", include_str!("code_host/host.py")),
    };
    (command, vec![flag.into(), source.into(), settings.to_string()])
}

/// Flags that let Node.js run TypeScript; `None` if this version cannot.
pub(super) fn typescript_flags(search: Option<&str>) -> Option<Vec<String>> {
    static VERSION: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let version = *VERSION.get_or_init(|| {
        let node = find_program("node", search.unwrap_or(PATH))?;
        let printed = std::process::Command::new(node).arg("--version").output().ok()?;
        let text = String::from_utf8(printed.stdout).ok()?;
        let mut parts = text.trim().trim_start_matches('v').split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    let flag = match version? {
        version if version >= TYPES_BY_DEFAULT => None,
        version if version >= TRANSFORMS_TYPES => Some("--experimental-transform-types"),
        version if version >= STRIPS_TYPES => Some("--experimental-strip-types"),
        _ => return None,
    };
    let flags = flag.into_iter().chain(["--no-warnings"]);
    Some(flags.map(str::to_owned).collect())
}

/// Returns an error if the interpreter of a language is not installed.
pub(super) fn require_interpreter(language: Language, search: Option<&str>) -> Result<(), EngineError> {
    let (command, install) = match language {
        Language::Javascript => ("node", "install Node.js 20 or later"),
        Language::Python => ("python3", "install Python 3.9 or later"),
    };
    if find_program(command, search.unwrap_or(PATH)).is_some() {
        return Ok(());
    }
    Err(EngineError::Invalid {
        message: format!("cannot run the checks of the suite: `{command}` not found in PATH"),
        hint: install.into(),
    })
}

fn open_host(
    language: Language,
    has_files: bool,
    folder: &Path,
    within: Option<&Path>,
    requirement: SandboxRequirement,
    search: Option<&str>,
) -> Result<Target, EngineError> {
    require_interpreter(language, search)?;
    let root = has_files.then(|| folder.display().to_string());
    let (command, mut args) = command(language, &json!({"root": root}));
    if language == Language::Javascript {
        args.splice(0..0, typescript_flags(search).unwrap_or_default());
    }
    let spec = WorkerSpec {
        command: command.into(),
        args,
        env: Vec::new(),
        set_env: BTreeMap::new(),
        files: Vec::new(),
        read: root.into_iter().collect(),
        workers: 1,
        fresh_workdir: false,
        max_output_bytes: MAX_OUTPUT,
        sandbox: (requirement != SandboxRequirement::Off).then(|| SandboxSpec {
            memory_mb: MEMORY_MB,
            ..SandboxSpec::default()
        }),
    };
    let path = search.map(|path| ("PATH".to_owned(), path.to_owned()));
    let context = TargetContext {
        // Files below the base are copied into the sandbox. A repository is too large for that, and its code
        // belongs to the checks: it is mounted instead.
        base: Path::new("/usr").into(),
        suite: folder.into(),
        scratch: std::env::temp_dir(),
        keep_workdirs: false,
        environment: path.into_iter().collect::<Environment>(),
        api_key: None,
        anthropic_key: None,
        helper: helper::own_path(),
        sandbox: SandboxContext {
            requirement,
            // A check may see the expected answers: it is part of them.
            protected: Protected {
                trees: Vec::new(),
                wholes: Vec::new(),
                within: within.map(Path::to_owned),
            },
            skill: None,
        },
    };
    Ok(Target::open(&TargetSpec::Worker(spec), &context)?)
}
