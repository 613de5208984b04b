//! Plain messages: the common representation of all logs before extraction of rounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Messages of one conversation in chronological order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageLog {
    /// Id of the conversation, if the log has one.
    pub conversation_id: Option<String>,
    /// Topic of the conversation, if the log has one.
    pub topic: Option<String>,
    /// Messages in chronological order.
    pub messages: Vec<Message>,
}

/// One message of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Role of the speaker.
    pub role: Role,
    /// Name of the speaker, if the log has one.
    pub name: Option<String>,
    /// Text of the message, without hidden reasoning and tool results.
    pub text: String,
    /// Items of a plan or to-do list created by the message.
    pub plan: Vec<PlanItem>,
    /// Names of the tools called by the message.
    pub tool_calls: Vec<String>,
    /// Timestamp in the format of the log.
    pub timestamp: Option<String>,
}

/// An item of a plan or to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanItem {
    /// Text of the item.
    pub text: String,
    /// Whether the item is completed.
    pub done: bool,
}

/// Role of the speaker of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The person or program that sends requests.
    User,
    /// The model or agent that responds.
    #[default]
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// Maps a role name of common formats; unknown names are treated as assistants.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "system" | "developer" => Self::System,
            "user" | "human" => Self::User,
            "tool" | "function" | "ipython" => Self::Tool,
            _ => Self::Assistant,
        }
    }
}
