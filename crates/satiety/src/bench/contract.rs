//! What a benchmark says to the system under test, and what it hears back: "satiety target v1".
//!
//! One JSON object goes in and one comes out, whatever carries them (a process, a worker, HTTP, MCP). The request has
//! no place for the expected answer, tags or difficulty, so no transport can leak them to the system that is judged.
//! Nothing here knows how a target is reached; reading answers is in [`parse`], describing targets in [`spec`].

pub mod parse;
pub mod spec;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::spec::TargetSpec;

/// The version of the contract that requests carry.
pub const VERSION: u32 = 1;

/// The exit code with which a process says that trying again may help (`EX_TEMPFAIL` of `sysexits.h`).
pub const EXIT_TRY_AGAIN: i32 = 75;

/// One question to the system under test.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Request {
    /// The contract's version, [`VERSION`].
    pub v: u32,
    /// The run that asks.
    pub run_id: String,
    /// The suite the case is of.
    pub suite_id: String,
    /// The case.
    pub case_id: String,
    /// Which variant of the system is asked: `control`, `with_skill`.
    pub variant: String,
    /// Which repeat of the case this is, from 0.
    pub repeat: u32,
    /// Which attempt at this repeat, from 0; later ones follow a failure that was worth another try.
    pub attempt: u32,
    /// What a system that draws chance should seed it with: the same for the same case and repeat.
    pub seed: u64,
    /// What is asked.
    pub input: Input,
    /// The folder of the skill under test, if one is.
    #[serde(default)]
    pub skill_dir: Option<String>,
    /// A fresh folder for this case and repeat, where the transport gives one.
    #[serde(default)]
    pub workdir: Option<String>,
    /// How long the answer may take.
    pub deadline_ms: u64,
}

/// What is asked: the specification's `BenchmarkInput`, with messages and files beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The goal or prompt in plain words.
    pub goal: String,
    /// A conversation that comes before the goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Context that is loaded beforehand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Value>,
    /// Settings of the system that this case changes.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config_overrides: Map<String, Value>,
    /// Arguments of the skill under test.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub skill_args: Map<String, Value>,
    /// Files that lie in the working folder, relative to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The words.
    pub content: String,
}

/// The request as it is written; borrowed, so that a transport adds its folder without copying the case.
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

    /// Appends the request as one line of JSON, with `workdir` in place of its own where one is given.
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

/// What the system answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Response {
    /// The answer: text, or any JSON.
    pub output: Value,
    /// Tokens, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Further figures by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Tools that were used, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Skills that were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills_used: Vec<String>,
    /// Files that were written, relative to the working folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// The system's own word on how long it took; ours is measured beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_latency_ms: Option<f64>,
}

impl Response {
    /// An answer that is nothing but text.
    pub fn text(output: impl Into<String>) -> Self {
        Self {
            output: Value::String(output.into()),
            ..Self::default()
        }
    }
}

/// Tokens and requests that an answer took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Of those read, how many came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Requests to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

impl Usage {
    /// Tokens read and written, or none where the system told neither.
    pub fn total_tokens(&self) -> Option<u64> {
        match (self.input_tokens, self.output_tokens) {
            (None, None) => None,
            (read, written) => Some(read.unwrap_or(0).saturating_add(written.unwrap_or(0))),
        }
    }
}

/// A tool that the system used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// What it was called with.
    #[serde(default)]
    pub args: Value,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct TargetError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// What happened, in words.
    pub message: String,
    /// How long the system asks to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl TargetError {
    /// A failure without a wish for a pause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after_ms: None,
        }
    }
}

/// Kinds of failure. A target may name the first six; the others are found out by the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Too many requests.
    RateLimit,
    /// The service is too busy.
    Overloaded,
    /// No answer in time.
    Timeout,
    /// The system would not answer.
    Refusal,
    /// Something around the system failed: network, a server, a full disk.
    Infra,
    /// The system failed.
    Target,
    /// The answer breaks the contract: not UTF-8, not JSON where JSON is due, cut off.
    Protocol,
    /// The answer is larger than is taken.
    TooLarge,
    /// The system was ended by a signal or exited with a code that means failure.
    Exit,
    /// The harness could not ask: no such program, a folder that cannot be made.
    Harness,
}

impl ErrorKind {
    /// Whether another attempt may end differently for reasons that say nothing about the system. A timeout is an
    /// answer of its kind: repeating it would cost the longest wait there is and hide a slow system.
    pub fn retryable(self) -> bool {
        matches!(self, Self::RateLimit | Self::Overloaded | Self::Infra)
    }

    /// Whose failure it is.
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

/// Who answers for an error. Errors of anyone but the target say nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The system under test.
    Target,
    /// The model that judges.
    Judge,
    /// This program.
    Harness,
    /// What lies between: network, providers, machines.
    Infra,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What is kept of one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptRecord {
    /// Which one, from 0.
    pub attempt: u32,
    /// How long it was held back by limits and pauses before it began.
    pub waited_ms: f64,
    /// How long it took, by a monotonic clock.
    pub latency_ms: f64,
    /// Why it failed; absent where it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TargetError>,
    /// How the process ended, where there was one and it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The end of what it wrote to stderr. Shown, never scored.
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
    fn a_request_is_one_line_and_reads_back() {
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
    fn what_belongs_to_the_judge_has_no_place_in_an_input() {
        for key in ["expected", "tags", "difficulty"] {
            let text = format!("{{\"goal\":\"g\",\"{key}\":\"x\"}}");
            assert!(serde_json::from_str::<Input>(&text).is_err(), "{key}");
        }
    }

    #[test]
    fn only_what_lies_between_is_worth_another_try() {
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
