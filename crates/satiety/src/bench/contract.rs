//! Protocol between the benchmark harness and the system under test: "satiety target v1".
//!
//! Each call exchanges one JSON request for one JSON response over any transport (process, worker, HTTP,
//! MCP). The request has no field for the expected answer, tags or difficulty, so no transport can leak them
//! to the system under test. This module is independent of transports; [`parse`] reads responses, [`spec`]
//! describes targets.

pub mod parse;
pub mod spec;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::spec::TargetSpec;

/// Protocol version that requests carry.
pub const VERSION: u32 = 1;

/// Exit code by which a process signals a transient failure (`EX_TEMPFAIL` of `sysexits.h`).
pub const EXIT_TRY_AGAIN: i32 = 75;

/// One request to the system under test.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Request {
    /// Protocol version, always [`VERSION`].
    pub v: u32,
    /// Id of the benchmark run.
    pub run_id: String,
    /// Id of the suite that contains the case.
    pub suite_id: String,
    /// Id of the benchmark case.
    pub case_id: String,
    /// Variant of the system, such as `control` or `with_skill`.
    pub variant: String,
    /// Number of this repeat of the case, from 0.
    pub repeat: u32,
    /// Number of this attempt at the repeat, from 0; later attempts follow retryable failures.
    pub attempt: u32,
    /// Random seed for the system; the same for the same case and repeat.
    pub seed: u64,
    /// Input of the benchmark case.
    pub input: Input,
    /// Directory of the skill under test, if any.
    #[serde(default)]
    pub skill_dir: Option<String>,
    /// Fresh working directory for this case and repeat, if the transport provides one.
    #[serde(default)]
    pub workdir: Option<String>,
    /// Timeout of the request in milliseconds.
    pub deadline_ms: u64,
}

/// Input of a case: the specification's `BenchmarkInput`, with messages and files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Goal or prompt in natural language.
    pub goal: String,
    /// Conversation that precedes the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Context items loaded before the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Value>,
    /// Configuration of the system that this case overrides.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config_overrides: Map<String, Value>,
    /// Arguments of the skill under test.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub skill_args: Map<String, Value>,
    /// Files in the working directory, relative to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Role of the author: `system`, `user` or `assistant`.
    pub role: String,
    /// Text of the message.
    pub content: String,
}

/// Serialized form of a request; borrows, so that a transport can set its directory without copying the case.
#[derive(Serialize, JsonSchema)]
struct Wire<'a> {
    v: u32,
    run_id: &'a str,
    suite_id: &'a str,
    case_id: &'a str,
    variant: &'a str,
    repeat: u32,
    attempt: u32,
    seed: u64,
    input: &'a Input,
    #[serde(skip_serializing_if = "Option::is_none")]
    skill_dir: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workdir: Option<&'a str>,
    deadline_ms: u64,
}

impl Request {
    fn wire<'a>(&'a self, workdir: Option<&'a str>) -> Wire<'a> {
        Wire {
            v: self.v,
            run_id: &self.run_id,
            suite_id: &self.suite_id,
            case_id: &self.case_id,
            variant: &self.variant,
            repeat: self.repeat,
            attempt: self.attempt,
            seed: self.seed,
            input: &self.input,
            skill_dir: self.skill_dir.as_deref(),
            workdir,
            deadline_ms: self.deadline_ms,
        }
    }

    /// Appends the request as one line of JSON. `workdir`, if given, replaces the request's own value.
    pub fn write_line(&self, workdir: Option<&str>, into: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        serde_json::to_writer(&mut *into, &self.wire(workdir.or(self.workdir.as_deref())))?;
        into.push(b'\n');
        Ok(())
    }
}

impl Serialize for Request {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.wire(self.workdir.as_deref()).serialize(serializer)
    }
}

/// Response of the system under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Response {
    /// Answer of the system: text or any JSON.
    pub output: Value,
    /// Token usage, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Cost in US dollars, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Additional metrics by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Tool calls in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Names of the skills that were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills_used: Vec<String>,
    /// Files that were written, relative to the working directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Latency in milliseconds as reported by the system; the harness measures its own in addition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_latency_ms: Option<f64>,
    /// Further information about the answer, which checks that are programs can use.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Response {
    /// Creates a response that consists of text only.
    pub fn text(output: impl Into<String>) -> Self {
        Self {
            output: Value::String(output.into()),
            ..Self::default()
        }
    }
}

/// Tokens and model requests used for a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Number of input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Number of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Number of input tokens that were read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Number of requests to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

impl Usage {
    /// Sum of input and output tokens; `None` when the system reported neither.
    pub fn total_tokens(&self) -> Option<u64> {
        match (self.input_tokens, self.output_tokens) {
            (None, None) => None,
            (read, written) => Some(read.unwrap_or(0).saturating_add(written.unwrap_or(0))),
        }
    }
}

/// A tool call made by the system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the tool call.
    #[serde(default)]
    pub args: Value,
}

/// Failure of a request to the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct TargetError {
    /// Category of the failure.
    pub kind: ErrorKind,
    /// Human-readable description of the failure.
    pub message: String,
    /// Minimum delay before a retry in milliseconds, as requested by the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl TargetError {
    /// Creates an error without a retry delay.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after_ms: None,
        }
    }
}

/// Error categories of a request. A target may report the first six; the harness detects the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Too many requests were sent (HTTP 429).
    RateLimit,
    /// The service is temporarily overloaded.
    Overloaded,
    /// The system did not answer within the timeout.
    Timeout,
    /// The system refused to answer.
    Refusal,
    /// A dependency of the system failed: network, server, or a full disk.
    Infra,
    /// The system itself failed.
    Target,
    /// The answer violates the protocol: not UTF-8, invalid JSON, or truncated.
    Protocol,
    /// The answer exceeds the size limit.
    TooLarge,
    /// The process was killed by a signal or exited with a failure code.
    Exit,
    /// The harness could not send the request: program not found, or a directory could not be created.
    Harness,
}

impl ErrorKind {
    /// Whether a retry may succeed for reasons unrelated to the system's quality. Timeouts are not retried: a
    /// retry costs the longest possible wait and hides a slow system.
    pub fn retryable(self) -> bool {
        matches!(self, Self::RateLimit | Self::Overloaded | Self::Infra)
    }

    /// Component that is responsible for the error.
    pub fn owner(self) -> Owner {
        match self {
            Self::RateLimit | Self::Overloaded | Self::Infra => Owner::Infra,
            Self::Timeout | Self::Refusal | Self::Target | Self::Protocol | Self::TooLarge | Self::Exit => {
                Owner::Target
            }
            Self::Harness => Owner::Harness,
        }
    }
}

/// Component that is responsible for an error. Only errors owned by the target say something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The system under test.
    Target,
    /// The model that judges answers.
    Judge,
    /// The benchmark harness, which is this program.
    Harness,
    /// Infrastructure between harness and target: network, providers, machines.
    Infra,
}

/// How a process terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Exited with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// Record of one attempt of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptRecord {
    /// Number of the attempt, from 0.
    pub attempt: u32,
    /// Time in milliseconds spent waiting for rate limits and retry delays before the attempt began.
    pub waited_ms: f64,
    /// Duration of the attempt in milliseconds, by a monotonic clock.
    pub latency_ms: f64,
    /// Error of the attempt; absent when it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TargetError>,
    /// How the process terminated, if the attempt had one that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Last part of the stderr output. Reported, never scored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            v: VERSION,
            run_id: "run-1".into(),
            suite_id: "suite".into(),
            case_id: "case".into(),
            variant: "control".into(),
            repeat: 2,
            seed: u64::MAX,
            input: Input {
                goal: "two\nlines".into(),
                ..Input::default()
            },
            deadline_ms: 120_000,
            ..Request::default()
        }
    }

    #[test]
    fn a_request_is_one_line_and_round_trips() {
        let mut line = Vec::new();
        request().write_line(Some("/w"), &mut line).unwrap();
        let text = String::from_utf8(line).unwrap();
        assert_eq!(
            text,
            "{\"v\":1,\"run_id\":\"run-1\",\"suite_id\":\"suite\",\"case_id\":\"case\",\"variant\":\"control\",\
             \"repeat\":2,\"attempt\":0,\"seed\":18446744073709551615,\"input\":{\"goal\":\"two\\nlines\"},\
             \"workdir\":\"/w\",\"deadline_ms\":120000}\n"
        );
        let back: Request = serde_json::from_str(&text).unwrap();
        let expected = Request {
            workdir: Some("/w".into()),
            ..request()
        };
        assert_eq!(back, expected);
        assert_eq!(serde_json::to_string(&expected).unwrap(), text.trim_end());
    }

    #[test]
    fn expectations_cannot_be_part_of_an_input() {
        for key in ["expected", "tags", "difficulty"] {
            let text = format!("{{\"goal\":\"g\",\"{key}\":\"x\"}}");
            assert!(serde_json::from_str::<Input>(&text).is_err(), "{key}");
        }
    }

    #[test]
    fn only_transient_errors_are_retryable() {
        use ErrorKind::{
            Exit, Harness, Infra, Overloaded, Protocol, RateLimit, Refusal, Target, Timeout, TooLarge,
        };
        for kind in [
            RateLimit, Overloaded, Timeout, Refusal, Infra, Target, Protocol, TooLarge, Exit, Harness,
        ] {
            assert_eq!(kind.retryable(), kind.owner() == Owner::Infra, "{kind:?}");
        }
    }
}
