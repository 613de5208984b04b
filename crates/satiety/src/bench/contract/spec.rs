//! How a target is described in TOML or JSON: `type` says which transport, the other keys are that transport's.
//!
//! ```toml
//! type = "exec"
//! command = "python3"
//! args = ["{{base}}/agent.py"]
//! env = ["OPENAI_API_KEY"]
//! ```
//!
//! Secrets are named, never written: a description may be hashed, stored and shown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Bytes of an answer that are taken where the description does not say.
pub(crate) const DEFAULT_MAX_OUTPUT: u64 = 10 << 20;

/// A target, by its transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TargetSpec {
    /// A process for each case: the request on stdin, the answer on stdout.
    Exec(ExecSpec),
    /// Long-lived processes that answer a line of JSON with a line of JSON.
    Worker(WorkerSpec),
    /// The request is posted to an address.
    Http(HttpSpec),
    /// A chat model is asked directly.
    Chat(ChatSpec),
    /// A tool of an MCP server is called.
    Mcp(McpSpec),
    /// Recorded answers.
    Replay(ReplaySpec),
    /// The goal comes back as the answer.
    Echo(EchoSpec),
}

impl TargetSpec {
    /// The transport's name, as `type` has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Worker(_) => "worker",
            Self::Http(_) => "http",
            Self::Chat(_) => "chat",
            Self::Mcp(_) => "mcp",
            Self::Replay(_) => "replay",
            Self::Echo(_) => "echo",
        }
    }

    /// Whether this target starts processes on the machine of the runner.
    pub fn starts_processes(&self) -> bool {
        match self {
            Self::Exec(_) | Self::Worker(_) => true,
            Self::Mcp(spec) => spec.command.is_some(),
            Self::Http(_) | Self::Chat(_) | Self::Replay(_) | Self::Echo(_) => false,
        }
    }

    /// The sandbox table of the description; `None` for a transport that starts no process here.
    pub fn sandbox_mut(&mut self) -> Option<&mut Option<SandboxSpec>> {
        match self {
            Self::Exec(spec) => Some(&mut spec.sandbox),
            Self::Worker(spec) => Some(&mut spec.sandbox),
            Self::Mcp(spec) if spec.command.is_some() => Some(&mut spec.sandbox),
            _ => None,
        }
    }
}

/// A process for each case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecSpec {
    /// The program: a name that is looked up in `PATH`, or a path; one with a slash that is not absolute is relative to
    /// the folder of the description.
    pub command: String,
    /// Its arguments. `{{base}}` is the folder of the description, `{{workdir}}` the working folder.
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of environment variables that are passed on. Besides these the process sees `PATH`, `LANG`, and `HOME` and
    /// `TMPDIR`, which are the working folder.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables with their values, for what is no secret.
    #[serde(default)]
    pub set_env: BTreeMap<String, String>,
    /// Files and folders, relative to the folder of the description, that are copied into each working folder.
    #[serde(default)]
    pub files: Vec<String>,
    /// Further files and directories that a sandboxed process may read, at the same path: absolute, or relative to the
    /// directory of the description. The suite's own files, the store and the home directory are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// How the request is given.
    #[serde(default)]
    pub request: RequestForm,
    /// The most that is read of an answer, in bytes.
    #[serde(default = "default_max_output")]
    pub max_output_bytes: u64,
    /// Fences around the process.
    #[serde(default)]
    pub sandbox: Option<SandboxSpec>,
}

/// How a process gets its request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestForm {
    /// The whole request as one JSON object on stdin.
    #[default]
    Json,
    /// The goal alone, as text on stdin.
    Goal,
    /// The goal as a last argument, as promptfoo's `exec:` has it. Fails for goals above 128 KiB.
    Argument,
}

/// Long-lived processes, each with one request in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerSpec {
    /// The program, as in [`ExecSpec::command`].
    pub command: String,
    /// Its arguments, as in [`ExecSpec::args`].
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of environment variables that are passed on.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables with their values, for what is no secret.
    #[serde(default)]
    pub set_env: BTreeMap<String, String>,
    /// Files and folders that are copied into each working folder.
    #[serde(default)]
    pub files: Vec<String>,
    /// Further files and directories that a sandboxed process may read, at the same path: absolute, or relative to the
    /// directory of the description. The suite's own files, the store and the home directory are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// How many processes at most.
    #[serde(default = "one")]
    pub workers: u32,
    /// Whether every case gets a fresh working folder. A case with files always gets one; for others making folders
    /// would cost more than the worker itself.
    #[serde(default)]
    pub fresh_workdir: bool,
    /// The longest line that is read, in bytes.
    #[serde(default = "default_max_output")]
    pub max_output_bytes: u64,
    /// Fences around the processes.
    #[serde(default)]
    pub sandbox: Option<SandboxSpec>,
}

/// An address that takes requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// `http://` or `https://`.
    pub url: String,
    /// Headers with their values, for what is no secret.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are in environment variables: header to variable. The value is sent as it is, so a bearer
    /// token's variable holds `Bearer …`.
    #[serde(default)]
    pub secret_headers: BTreeMap<String, String>,
    /// The body, with `{{goal}}` and the like; the contract's request where none is given.
    #[serde(default)]
    pub body: Option<Value>,
    /// Where the answer is in what comes back, as a JSON Pointer (`/choices/0/message/content`).
    #[serde(default)]
    pub output_pointer: Option<String>,
    /// Where the tokens are, as a JSON Pointer to an object in any spelling that is known.
    #[serde(default)]
    pub usage_pointer: Option<String>,
    /// The most that is read of an answer, in bytes.
    #[serde(default = "default_max_output")]
    pub max_output_bytes: u64,
}

/// A chat model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatSpec {
    /// `ollama:MODEL`, `openai:MODEL` or `anthropic:MODEL`, with `@URL` for another address.
    pub model: String,
    /// Instructions before the case's messages.
    #[serde(default)]
    pub system: Option<String>,
    /// 0 asks for the likeliest answer; left out, the provider's default.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The longest answer in tokens.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: u32,
    /// The environment variable that holds the key, where it is not the one of the settings.
    #[serde(default)]
    pub key_env: Option<String>,
}

/// A tool of an MCP server: `command` starts one that speaks over stdin and stdout, `url` is one that is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpSpec {
    /// The server's program, as in [`ExecSpec::command`].
    #[serde(default)]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of environment variables that are passed on.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables with their values, for what is no secret.
    #[serde(default)]
    pub set_env: BTreeMap<String, String>,
    /// Further files and directories that a sandboxed process may read, at the same path: absolute, or relative to the
    /// directory of the description. The suite's own files, the store and the home directory are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Limits and permissions of the server's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSpec>,
    /// The server's address (streamable HTTP).
    #[serde(default)]
    pub url: Option<String>,
    /// The environment variable with the bearer token, where the server wants one.
    #[serde(default)]
    pub token_env: Option<String>,
    /// Which tool.
    pub tool: String,
    /// The tool's arguments. In texts, `{{goal}}`, `{{case_id}}`, `{{repeat}}`, `{{seed}}`, `{{variant}}`, `{{workdir}}`
    /// and `{{input}}` or a path into it (`{{input.skill_args.depth}}`) are filled in; a text that is nothing but one of
    /// these becomes the value itself, with its type.
    #[serde(default = "goal_alone")]
    pub arguments: Map<String, Value>,
}

/// Recorded answers: JSON Lines of `{"case_id", "repeat"?, "variant"?, …the answer}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaySpec {
    /// The file, relative to the folder of the description.
    pub file: String,
}

/// The goal comes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EchoSpec {}

/// Fences around a process: its working folder is the only place it can write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSpec {
    /// Whether it may use the network.
    pub network: bool,
    /// The memory that each process may fill, in megabytes.
    pub memory_mb: u64,
    /// Processes and threads at once.
    pub processes: u64,
    /// Processor time of each process, in seconds; the deadline ends it in any case.
    pub cpu_seconds: Option<u64>,
    /// The largest file it may write, in megabytes.
    pub file_mb: u64,
    /// Which means to use.
    pub backend: SandboxBackend,
}

impl Default for SandboxSpec {
    fn default() -> Self {
        Self {
            network: false,
            memory_mb: 2048,
            processes: 128,
            cpu_seconds: None,
            file_mb: 1024,
            backend: SandboxBackend::Auto,
        }
    }
}

/// The means of fencing a process in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxBackend {
    /// Bubblewrap where it works, our own namespaces otherwise; Landlock only where a degraded sandbox is acceptable.
    #[default]
    Auto,
    /// `bwrap`: namespaces of its own for users, files, processes and network.
    Bubblewrap,
    /// The same namespaces, made by this program.
    Namespaces,
    /// Degraded: the kernel's Landlock for files and a system call filter, without namespaces.
    Landlock,
}

fn default_max_output() -> u64 {
    DEFAULT_MAX_OUTPUT
}

fn default_max_tokens() -> u32 {
    4096
}

fn one() -> u32 {
    1
}

fn goal_alone() -> Map<String, Value> {
    Map::from_iter([("goal".to_owned(), Value::String("{{goal}}".to_owned()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TargetSpec, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn each_transport_needs_little_and_survives_the_way_through_json_and_toml() {
        for (text, kind) in [
            ("type = 'exec'\ncommand = 'cat'", "exec"),
            (
                "type = 'worker'\ncommand = 'w'\nworkers = 4\n[sandbox]\nmemory_mb = 64",
                "worker",
            ),
            (
                "type = 'http'\nurl = 'http://h'\n[secret_headers]\nAuthorization = 'TOKEN'",
                "http",
            ),
            ("type = 'chat'\nmodel = 'ollama:m'\ntemperature = 0.5", "chat"),
            (
                "type = 'mcp'\ncommand = 's'\ntool = 't'\n[arguments]\nq = '{{goal}}'",
                "mcp",
            ),
            ("type = 'replay'\nfile = 'answers.jsonl'", "replay"),
            ("type = 'echo'", "echo"),
        ] {
            let spec = read(text).unwrap();
            assert_eq!(spec.kind(), kind);
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<TargetSpec>(&json).unwrap(), spec, "{json}");
            let written = toml::to_string(&spec).unwrap();
            assert_eq!(read(&written).unwrap(), spec, "{written}");
        }
    }

    #[test]
    fn what_is_mistyped_is_refused_by_name() {
        for (text, part) in [
            ("type = 'exec'\ncommand = 'c'\nenvironment = []", "environment"),
            ("type = 'echo'\nloud = true", "loud"),
            ("type = 'exec'", "command"),
            ("type = 'exe'\ncommand = 'c'", "exe"),
            ("type = 'worker'\ncommand = 'c'\n[sandbox]\nmemory = 1", "memory"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_sandbox_can_be_put_around_processes_only() {
        let mut exec = read("type = 'exec'\ncommand = 'c'").unwrap();
        *exec.sandbox_mut().unwrap() = Some(SandboxSpec::default());
        assert!(matches!(
            exec,
            TargetSpec::Exec(ExecSpec { sandbox: Some(_), .. })
        ));
        assert!(read("type = 'echo'").unwrap().sandbox_mut().is_none());
    }
}
