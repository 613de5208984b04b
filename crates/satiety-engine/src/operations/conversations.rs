//! Operations on conversations and search loops: whether another round is worthwhile.

use satiety::dialogue::input::InputFormat;
use satiety::dialogue::{Profile, Round};
use satiety::research::GateSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::page::no_cursor;
use super::{Call, CallError, Effect, IdRequest, Operation};
use crate::EngineError;
use crate::annotations::LabelConversationRequest;
use crate::conversations::{
    AppendRoundsRequest, AppendedRounds, BeginConversationRequest, ConversationSummary,
    ListConversationsRequest,
};
use crate::dialogue::{Extract, ScoreRequest, ScoreResponse};
use crate::research::{GateRequest, GateSummary, SearchGateResponse};
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "score",
            "Score a complete conversation without storing it: CONTINUE, SHIP, STOP or ESCALATE, with reasons",
            Scope::Read,
            Effect::Compute,
            score,
        ),
        Operation::new(
            "list_conversations",
            "List stored conversations, latest first",
            Scope::Read,
            Effect::Read,
            list,
        ),
        Operation::new(
            "begin_conversation",
            "Begin a stored conversation",
            Scope::Write,
            Effect::Write,
            |call: Call, request: BeginConversationRequest| async move {
                let begun = call.engine.dialogue().begin_conversation(request).await?;
                Ok(notify_appended(&call, begun))
            },
        ),
        Operation::new(
            "get_conversation",
            "Get a conversation with its rounds and report",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.dialogue().conversation(&request.id).await },
        ),
        Operation::new(
            "append_rounds",
            "Append one or more rounds and return a verdict for each",
            Scope::Write,
            Effect::Write,
            |call: Call, request: AppendRoundsRequest| async move {
                let appended = call.engine.dialogue().append_rounds(request).await?;
                Ok(notify_appended(&call, appended))
            },
        ),
        Operation::new(
            "list_conversation_labels",
            "List the labels of people on a conversation, and how often signals agree with people",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move {
                call.engine.dialogue().conversation_labels(&request.id).await
            },
        ),
        Operation::new(
            "label_conversation",
            "Label a conversation with the signal that would have been right, or remove the label",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: LabelConversationRequest| async move {
                call.engine.dialogue().label_conversation(request).await
            },
        ),
        Operation::new(
            "gate",
            "Decide for each round of a search loop: accept and continue, or saturated",
            Scope::Read,
            Effect::Compute,
            gate,
        ),
    ]
}

fn notify_appended(call: &Call, appended: AppendedRounds) -> AppendedRounds {
    if let Some(observer) = &call.observer {
        observer.appended(&appended);
    }
    appended
}

/// Documented formats of a conversation; traces and session logs are accepted as well.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ConversationShape {
    /// Transcript with structured rounds.
    Transcript {
        /// Rounds in chronological order.
        #[schemars(length(min = 1))]
        rounds: Vec<Round>,
    },
    /// Chat messages in chronological order.
    Messages(#[schemars(length(min = 1))] Vec<MessageShape>),
}

/// Message of a chat log.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct MessageShape {
    /// Speaker, such as `user` or `assistant`.
    role: String,
    /// Text of the message.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    content: String,
}

/// Conversation to score without storing it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScoreBody")]
struct ScoreConversationRequest {
    /// Conversation to score: a transcript (`{"rounds": […]}`), or a list of messages with `role` and
    /// `content`.
    #[schemars(with = "ConversationShape")]
    conversation: Value,
    /// Built-in profile: `default` or `spec`.
    #[serde(default)]
    #[schemars(extend("enum" = ["default", "spec", null]))]
    profile: Option<String>,
    /// Extraction of claims, questions and actions from plain messages; fixed rules by default.
    #[serde(default)]
    extract: Option<Extract>,
}

async fn score(call: Call, request: ScoreConversationRequest) -> Result<ScoreResponse, EngineError> {
    let profile = request.profile.unwrap_or_else(|| "default".into());
    // A remote name must never be opened as a file path.
    let names = Profile::built_in_names();
    if !names.contains(&profile.as_str()) {
        return Err(CallError::Invalid {
            message: format!(
                "unknown profile `{profile}` (expected one of: {})",
                names.join(", ")
            ),
            place: "profile".into(),
        }
        .into());
    }
    // Set the format when it is obvious; detection would parse the whole input.
    let format = match &request.conversation {
        Value::Array(_) => Some(InputFormat::Chat),
        Value::Object(fields) => fields.get("rounds").map(|_| InputFormat::Transcript),
        _ => None,
    };
    let dialogue = call.engine.dialogue();
    let read = match format {
        Some(InputFormat::Transcript) => dialogue.score_value(&request.conversation, &profile).await?,
        _ => None,
    };
    let scored = if let Some(scored) = read {
        scored
    } else {
        let request = ScoreRequest {
            name: "conversation".into(),
            format,
            bytes: request.conversation.to_string().into_bytes(),
            profile,
            extract: request.extract.unwrap_or_default(),
            record: false,
        };
        dialogue.score(request).await?
    };
    if let Some(observer) = &call.observer {
        observer.decided(scored.report.stop_recommendation.signal);
    }
    Ok(scored)
}

/// Page of a list of conversations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConversationPageRequest {
    /// `next_cursor` of the previous page.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,18}\\.[A-Za-z0-9_.:-]{1,128}$"))]
    cursor: Option<String>,
    /// Maximum number of conversations per page; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

/// Page of stored conversations.
#[derive(Debug, Serialize, JsonSchema)]
struct ConversationPage {
    /// Stored conversations, latest first.
    conversations: Vec<ConversationSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn list(call: Call, request: ConversationPageRequest) -> Result<ConversationPage, EngineError> {
    let before = match &request.cursor {
        None => None,
        Some(cursor) => {
            let (at, id) = cursor.split_once('.').ok_or_else(no_cursor)?;
            Some((at.parse().map_err(|_| no_cursor())?, id.to_owned()))
        }
    };
    let limit = request.limit.unwrap_or(50);
    let list = call
        .engine
        .dialogue()
        .conversations(&ListConversationsRequest { before, limit })
        .await?;
    Ok(ConversationPage {
        conversations: list.conversations,
        next_cursor: list.next.map(|(at, id)| format!("{at}.{id}")),
    })
}

/// Rounds to decide on; each is compared with all earlier rounds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GateBody")]
struct GateRoundsRequest {
    /// Task of rounds that do not name one.
    #[serde(default)]
    task: String,
    /// Settings of the search gate; defaults apply when absent.
    #[serde(default)]
    settings: Option<GateSettings>,
    /// Rounds in order: each an object with `query`, and `results` (objects with `title`, `url`, `snippet`)
    /// or `error`.
    rounds: Vec<Value>,
}

/// Decisions of the search gate.
#[derive(Debug, Serialize, JsonSchema)]
struct GateAnswer {
    /// Decision for each round, in order.
    decisions: Vec<SearchGateResponse>,
    /// Summary over all rounds.
    summary: GateSummary,
}

async fn gate(call: Call, request: GateRoundsRequest) -> Result<GateAnswer, EngineError> {
    const MAX_ROUNDS: usize = 500;
    if request.rounds.len() > MAX_ROUNDS {
        return Err(CallError::Invalid {
            message: format!("`rounds` must have at most {MAX_ROUNDS} entries"),
            place: "rounds".into(),
        }
        .into());
    }
    let mut settings = request.settings.unwrap_or_default();
    // The number of ungated rounds cannot exceed the maximum number of rounds.
    settings.min_rounds = settings.min_rounds.min(settings.max_rounds);
    let rounds = request.rounds.iter().map(ToString::to_string).collect();
    let request = GateRequest {
        settings,
        task: request.task,
        seed_by_run: false,
    };
    let (decisions, summary) = call.engine.research().gate_rounds(request, rounds).await?;
    Ok(GateAnswer { decisions, summary })
}
