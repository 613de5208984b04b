//! What a hook is told and what it decides, independent of the program that calls it.

use satiety::trajectory::CallResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mark at the beginning of text for an agent, which says where it comes from.
pub(super) const MARK: &str = "[satiety]";

/// Program that calls hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// Claude Code, and programs with its contract.
    Claude,
    Codex,
    Gemini,
    Copilot,
}

impl Host {
    /// All hosts, in the order of messages.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Copilot];

    /// Name as used on the command line and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
        }
    }

    /// Host with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }
}

/// Kind of an event, whatever its name is in a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A tool has finished.
    ToolFinished,
    /// A tool has failed, in hosts with a separate event for failures.
    ToolFailed,
    /// All tools of a turn have finished.
    ToolsFinished,
    /// The agent is about to stop.
    Stopping,
    /// A subagent is about to stop.
    SubagentStopping,
    /// The context is about to be compacted.
    CompactionStarting,
    /// The context has been compacted.
    CompactionFinished,
    /// A prompt has been submitted.
    PromptSubmitted,
    /// A session begins or is resumed.
    SessionStarted,
    SessionEnded,
}

/// What happened in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// One or more tools have finished or failed.
    Tools(Vec<FinishedCall>),
    /// The agent or a subagent is about to stop.
    Stopping {
        /// Text of its last message, if the host passes it.
        message: Option<String>,
        /// Whether a hook has already kept the agent from stopping in this turn.
        kept_working: bool,
        /// Whether work in the background will wake the agent later.
        waits: bool,
    },
    /// The context is about to be compacted.
    CompactionStarting {
        /// Who asked for it: `manual` or `auto`.
        trigger: String,
    },
    /// The context has been compacted.
    CompactionFinished {
        /// Summary that replaces the context, if the host passes it.
        summary: Option<String>,
    },
    /// A prompt has been submitted.
    Prompt {
        text: String,
        /// Whether a person wrote it; false for scheduled and generated prompts.
        by_person: bool,
    },
    /// A session begins or is resumed.
    SessionStarted {
        /// Reason: `startup`, `resume`, `clear`, `compact` and others.
        source: String,
        /// First prompt, if the host passes it.
        prompt: Option<String>,
    },
    SessionEnded,
}

/// A call that has a result.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    /// Id of the call; a call is judged once.
    pub id: Option<String>,
    pub tool: String,
    /// Arguments: an object, or JSON or other text in a string.
    pub arguments: serde_json::Value,
    pub result: CallResult,
}

/// A parsed call of a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    pub host: Host,
    pub kind: EventKind,
    /// Key of the session in the store; `None` if the host passes no id, so that nothing can be remembered.
    pub session: Option<String>,
    pub event: Event,
}

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Says nothing.
    Pass,
    /// Adds text to the context of the agent.
    AddContext(String),
    /// Ends the turn of the agent.
    EndTurn {
        /// Reason for the person.
        reason: String,
        /// Sentence for the agent, in hosts that cannot end the turn here.
        advice: String,
    },
    /// Keeps the agent from stopping.
    KeepWorking(String),
    /// Shows a message to the person.
    Notify(String),
    /// Tells the host what to keep when it compacts the context.
    Keep(String),
}

/// Decision with what is counted about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub decision: Decision,
    /// Short name for the counts, such as `nudge`.
    pub label: &'static str,
    /// Reason in one sentence, without text of the agent or its tools; may be empty.
    pub reason: String,
}

impl Judgement {
    pub(super) fn new(decision: Decision, label: &'static str, reason: impl Into<String>) -> Self {
        Self {
            decision,
            label,
            reason: reason.into(),
        }
    }

    pub(super) fn pass() -> Self {
        Self::new(Decision::Pass, "pass", "")
    }
}

/// What hooks may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookPolicy {
    /// Reaction to an agent that repeats itself.
    pub progress: ProgressReaction,
    /// Reaction to an agent that stops with something left open.
    pub finish: FinishReaction,
    /// Whether to record compactions and to restore open items after them.
    pub compaction: bool,
    /// Maximum number of tokens of memories to add to the context; 0 adds none.
    pub memory_tokens: usize,
}

impl Default for HookPolicy {
    fn default() -> Self {
        Self {
            progress: ProgressReaction::Stop,
            finish: FinishReaction::Report,
            compaction: true,
            memory_tokens: 600,
        }
    }
}

/// Reaction to an agent that repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgressReaction {
    /// Tool calls are not judged.
    Off,
    /// Verdicts are counted only.
    Report,
    /// A sentence is added to the context; the turn is never ended.
    Nudge,
    /// A sentence at first; the turn ends on STOP and ESCALATE.
    Stop,
}

/// Reaction to an agent that stops with something left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReaction {
    /// Open items are ignored.
    Off,
    /// The person sees what is open.
    Report,
    /// The agent is kept working, once per prompt.
    Block,
}
