//! The types of a trajectory: steps, calls, results, edits and plans.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One recorded run of an agent, in the order in which it happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trajectory {
    /// Id of the run, if the log has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The task that the agent was given: the first message of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Turns of the agent or agents in chronological order.
    pub steps: Vec<Step>,
    /// How the run ended, where the log says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
}

/// How a run ended, as recorded by the program that ran it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunOutcome {
    /// Whether the task was solved, by the benchmark's own measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solved: Option<bool>,
    /// Exit status in the words of the log, such as `submitted` or `exit_context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// Step (from 1) at which a person would have stopped the run, if it was labelled as a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_noticed_at: Option<usize>,
    /// Step (from 1) at which a labelled loop starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_starts_at: Option<usize>,
}

/// One turn of an agent with everything that followed from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Name of the agent, where a log has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the agent wrote in this turn, without hidden reasoning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Tools that the agent called in this turn, with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Messages that users or other programs sent before the next turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replies: Vec<Reply>,
    /// The plan or to-do list after this turn, if the turn changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<PlanItem>>,
    /// Tokens and cost of the turn, where known.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// When the turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub time: Option<Timestamp>,
    /// Whether the context of the agent was compacted before this turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compacted: bool,
    /// Whether the agent ends the run with this turn: a finish or submit call, or a final answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finish: bool,
}

/// One tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Id that connects the call with its result, if the log has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the tool, such as `bash` or `search`.
    #[serde(default)]
    pub tool: String,
    /// Arguments of the call: an object, or a string for tools that take one text.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// Result of the call; absent while it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// Changes of files that the call asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
}

/// Result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallResult {
    /// Output of the tool as text.
    #[serde(default)]
    pub content: String,
    /// Whether the tool reported an error; absent if the log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<bool>,
    /// Exit code of a command, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

/// A change of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edit {
    /// Path of the file as the agent wrote it; empty if it could not be determined.
    pub path: String,
    /// Number of lines that the edit adds.
    #[serde(default)]
    pub added: u32,
    /// Number of lines that the edit removes.
    #[serde(default)]
    pub removed: u32,
}

/// A message to the agent between two of its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// Name of the sender, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Text of the message.
    pub text: String,
}

/// An item of a plan or to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanItem {
    /// Text of the item.
    pub text: String,
    /// Whether the item is completed.
    pub done: bool,
}

/// Tokens and cost of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Input and output tokens of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost of the turn in the currency of the log, usually US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Usage {
    fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }
}

impl Step {
    /// Whether the turn called a tool.
    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether every call of the turn has a result.
    pub fn is_complete(&self) -> bool {
        self.calls.iter().all(|call| call.result.is_some())
    }
}

impl Call {
    /// Creates a call with a tool and its arguments.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            ..Self::default()
        }
    }

    /// Sets the output of the call.
    #[must_use]
    pub fn with_result(mut self, content: impl Into<String>) -> Self {
        self.result = Some(CallResult {
            content: content.into(),
            ..CallResult::default()
        });
        self
    }

    /// The command line or text that the call runs, for tools that take one: a string argument, or the only
    /// text among the usual argument names.
    pub fn command(&self) -> Option<&str> {
        if let Value::String(text) = &self.arguments {
            return Some(text);
        }
        ["command", "commands", "cmd", "code", "script", "input"]
            .iter()
            .find_map(|key| self.arguments.get(key)?.as_str())
    }
}
