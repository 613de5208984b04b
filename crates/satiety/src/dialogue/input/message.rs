//! Plain messages: what every log has in common, before anything is sorted into rounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The messages of one conversation, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageLog {
    /// The writer's id of the conversation.
    pub conversation_id: Option<String>,
    /// What it is about, where the log says so.
    pub topic: Option<String>,
    /// The messages.
    pub messages: Vec<Message>,
}

/// One thing said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// In which function it was said.
    pub role: Role,
    /// Who said it, where the log has a name.
    pub name: Option<String>,
    /// The words, without reasoning that was hidden and without results of tools.
    pub text: String,
    /// Entries of a plan or to-do list that the message set up.
    pub plan: Vec<PlanItem>,
    /// Names of the tools that were called.
    pub tool_calls: Vec<String>,
    /// When, as the log writes it.
    pub timestamp: Option<String>,
}

/// An entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanItem {
    /// What is to be done.
    pub text: String,
    /// Whether it is done.
    pub done: bool,
}

/// In which function something is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// Whoever asks.
    User,
    /// A model or agent.
    #[default]
    Assistant,
    /// What a tool gave back.
    Tool,
}

impl Role {
    /// The role by its name in the usual formats; unknown names speak for themselves, like an assistant.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "system" | "developer" => Self::System,
            "user" | "human" => Self::User,
            "tool" | "function" | "ipython" => Self::Tool,
            _ => Self::Assistant,
        }
    }
}
