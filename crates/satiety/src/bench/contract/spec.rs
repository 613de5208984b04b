//! Target definitions in TOML or JSON: `type` selects the transport, the other keys configure it.
//!
//! ```toml
//! type = "exec"
//! command = "python3"
//! args = ["{{base}}/agent.py"]
//! env = ["OPENAI_API_KEY"]
//! ```
//!
//! Secrets are referenced by name and never included, so a definition can be hashed, stored and shown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Default limit of the response size in bytes.
pub const DEFAULT_MAX_OUTPUT: u64 = 10 << 20;

/// Definition of a target, by transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TargetSpec {
    /// Runs one process per case: the request on stdin, the answer on stdout.
    Exec(ExecSpec),
    /// Keeps processes running that answer one line of JSON with one line of JSON.
    Worker(WorkerSpec),
    /// Sends the request to a URL as HTTP POST.
    Http(HttpSpec),
    /// Calls a chat model directly.
    Chat(ChatSpec),
    /// Calls a tool of an MCP server.
    Mcp(McpSpec),
    /// Replays recorded answers from a file.
    Replay(ReplaySpec),
    /// Returns the goal as the answer.
    Echo(EchoSpec),
}

impl TargetSpec {
    /// Name of the transport, as in `type`.
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

    /// Whether this target starts processes on the machine of the harness.
    pub fn starts_processes(&self) -> bool {
        match self {
            Self::Exec(_) | Self::Worker(_) => true,
            Self::Mcp(spec) => spec.command.is_some(),
            Self::Http(_) | Self::Chat(_) | Self::Replay(_) | Self::Echo(_) => false,
        }
    }

    /// Sandbox table of the definition; `None` for a transport that starts no local process.
    pub fn sandbox_mut(&mut self) -> Option<&mut Option<SandboxSpec>> {
        match self {
            Self::Exec(spec) => Some(&mut spec.sandbox),
            Self::Worker(spec) => Some(&mut spec.sandbox),
            Self::Mcp(spec) if spec.command.is_some() => Some(&mut spec.sandbox),
            _ => None,
        }
    }
}

/// Target that runs one process per case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecSpec {
    /// Program to run: a name that is looked up in `PATH`, or a path. A relative path with a slash is
    /// relative to the directory of the definition.
    pub command: String,
    /// Arguments of the program. `{{base}}` is the directory of the definition, `{{workdir}}` the working
    /// directory.
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of environment variables to pass on. Other than these, the process sees `PATH`, `LANG`, and
    /// `HOME` and `TMPDIR`, which are the working directory.
    #[serde(default)]
    pub env: Vec<String>,
    /// Environment variables with their values; do not use for secrets.
    #[serde(default)]
    pub set_env: BTreeMap<String, String>,
    /// Files and directories to copy into each working directory, relative to the directory of the
    /// definition.
    #[serde(default)]
    pub files: Vec<String>,
    /// Directory below the working directory that gets a copy of the skill under test, such as `.claude/skills`,
    /// where a command-line agent looks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<String>,
    /// Additional files and directories that a sandboxed process may read, at the same path: absolute, or
    /// relative to the directory of the definition. The suite's own files, the database and the home
    /// directory are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// How the process receives the request.
    #[serde(default)]
    pub request: RequestForm,
    /// Maximum size of an answer in bytes.
    #[serde(default = "default_max_output")]
    pub max_output_bytes: u64,
    /// Sandbox limits and permissions of the process.
    #[serde(default)]
    pub sandbox: Option<SandboxSpec>,
}

/// How a process receives its request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestForm {
    /// The full request as one JSON object on stdin.
    #[default]
    Json,
    /// Only the goal, as text on stdin.
    Goal,
    /// The goal as last argument. Fails for goals above 128 KiB.
    Argument,
    /// The goal, the options and the context as last arguments, as for providers `exec:` of promptfoo; the
    /// whole output is the answer.
    Promptfoo,
}

/// Target with long-lived processes, each with one request in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerSpec {
    /// Program to run, as in [`ExecSpec::command`].
    pub command: String,
    /// Arguments of the program, as in [`ExecSpec::args`].
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of environment variables to pass on.
    #[serde(default)]
    pub env: Vec<String>,
    /// Environment variables with their values; do not use for secrets.
    #[serde(default)]
    pub set_env: BTreeMap<String, String>,
    /// Files and directories to copy into each working directory.
    #[serde(default)]
    pub files: Vec<String>,
    /// Additional files and directories that a sandboxed process may read, at the same path: absolute, or
    /// relative to the directory of the definition. The suite's own files, the database and the home
    /// directory are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Maximum number of worker processes.
    #[serde(default = "default_workers")]
    pub workers: u32,
    /// Whether every case gets a fresh working directory. Cases with files always get one; for others,
    /// creating directories would cost more than the worker itself.
    #[serde(default)]
    pub fresh_workdir: bool,
    /// Maximum length of a line in bytes.
    #[serde(default = "default_max_output")]
    pub max_output_bytes: u64,
    /// Sandbox limits and permissions of the processes.
    #[serde(default)]
    pub sandbox: Option<SandboxSpec>,
}

/// Target that receives requests over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// URL of the target, with `http://` or `https://`.
    pub url: String,
    /// Headers with their values; do not use for secrets.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values come from environment variables: header name to variable name, or to a text with
    /// variable names in braces (`Bearer {{API_TOKEN}}`).
    #[serde(default)]
    pub secret_headers: BTreeMap<String, String>,
    /// Request body, with placeholders such as `{{goal}}`; defaults to the protocol's request.
    #[serde(default)]
    pub body: Option<Value>,
    /// JSON Pointer to the answer in the response (`/choices/0/message/content`).
    #[serde(default)]
    pub output_pointer: Option<String>,
    /// JSON Pointer to the token usage in the response, an object in any known format.
    #[serde(default)]
    pub usage_pointer: Option<String>,
    /// Maximum size of an answer in bytes.
    #[serde(default = "default_max_output")]
    pub max_output_bytes: u64,
}

/// Target that calls a chat model directly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatSpec {
    /// Model as `ollama:MODEL`, `openai:MODEL` or `anthropic:MODEL`, optionally with `@URL` for a custom
    /// endpoint.
    pub model: String,
    /// System prompt before the messages of the case.
    #[serde(default)]
    pub system: Option<String>,
    /// Sampling temperature; 0 requests the most likely answer, absent means the provider's default.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Maximum length of the answer in tokens.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: u32,
    /// Environment variable that holds the API key; defaults to the one in the settings.
    #[serde(default)]
    pub key_env: Option<String>,
}

/// Target that calls a tool of an MCP server. `command` starts a server on stdio, `url` connects to a running
/// one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpSpec {
    /// Program of the server, as in [`ExecSpec::command`].
    #[serde(default)]
    pub command: Option<String>,
    /// Arguments of the server program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Names of environment variables to pass on.
    #[serde(default)]
    pub env: Vec<String>,
    /// Environment variables with their values; do not use for secrets.
    #[serde(default)]
    pub set_env: BTreeMap<String, String>,
    /// Additional files and directories that a sandboxed process may read, at the same path: absolute, or
    /// relative to the directory of the definition. The suite's own files, the database and the home
    /// directory are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Sandbox limits and permissions of the server processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSpec>,
    /// URL of the server (streamable HTTP).
    #[serde(default)]
    pub url: Option<String>,
    /// Environment variable that holds the bearer token, if the server requires one.
    #[serde(default)]
    pub token_env: Option<String>,
    /// Name of the tool to call.
    pub tool: String,
    /// Arguments of the tool. In strings, `{{goal}}`, `{{case_id}}`, `{{repeat}}`, `{{seed}}`, `{{variant}}`,
    /// `{{workdir}}` and `{{input}}` or a path into it (`{{input.skill_args.depth}}`) are substituted. A
    /// string that consists of a single placeholder becomes the value itself, with its type.
    #[serde(default = "goal_only")]
    pub arguments: Map<String, Value>,
}

/// Target that replays recorded answers: JSON Lines of `{"case_id", "repeat"?, "variant"?, …the answer}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaySpec {
    /// File with the answers, relative to the directory of the definition.
    pub file: String,
}

/// Target that returns the goal as the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EchoSpec {}

/// Sandbox of a process, which can write only to its working directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSpec {
    /// Whether the process may use the network.
    pub network: bool,
    /// Memory limit of each process, in megabytes.
    pub memory_mb: u64,
    /// Maximum number of concurrent processes and threads.
    pub processes: u64,
    /// CPU time limit of each process, in seconds; the request timeout applies in any case.
    pub cpu_seconds: Option<u64>,
    /// Maximum size of a file it writes, in megabytes.
    pub file_mb: u64,
    /// Sandbox implementation to use.
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

/// Sandbox implementation of a target process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxBackend {
    /// Bubblewrap if it works, otherwise built-in namespaces; Landlock only when a degraded sandbox is
    /// acceptable.
    #[default]
    Auto,
    /// `bwrap`: separate user, mount, process and network namespaces.
    Bubblewrap,
    /// The same namespaces, created by this program.
    Namespaces,
    /// Degraded: Landlock for files and a system call filter, without namespaces.
    Landlock,
}

fn default_max_output() -> u64 {
    DEFAULT_MAX_OUTPUT
}

fn default_max_tokens() -> u32 {
    4096
}

fn default_workers() -> u32 {
    1
}

fn goal_only() -> Map<String, Value> {
    Map::from_iter([("goal".to_owned(), Value::String("{{goal}}".to_owned()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TargetSpec, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn minimal_definitions_round_trip_through_json_and_toml() {
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
    fn unknown_keys_are_rejected_by_name() {
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
    fn only_process_targets_have_a_sandbox() {
        let mut exec = read("type = 'exec'\ncommand = 'c'").unwrap();
        *exec.sandbox_mut().unwrap() = Some(SandboxSpec::default());
        assert!(matches!(
            exec,
            TargetSpec::Exec(ExecSpec { sandbox: Some(_), .. })
        ));
        assert!(read("type = 'echo'").unwrap().sandbox_mut().is_none());
    }
}
