//! Operations on conversations and search loops: whether the next round is still worth it.

use satiety::dialogue::input::InputFormat;
use satiety::dialogue::{Profile, Round};
use satiety::research::GateSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::page::no_cursor;
use super::{Call, CallError, Effect, IdRequest, Operation};
use crate::EngineError;
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
            "Score a whole conversation without storing it: CONTINUE, SHIP, STOP or ESCALATE, and why",
            Scope::Read,
            Effect::Compute,
            score,
        ),
        Operation::new(
            "list_conversations",
            "List stored conversations, the latest first",
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
                Ok(told(&call, begun))
            },
        ),
        Operation::new(
            "get_conversation",
            "Get a conversation with its rounds and its report",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move { call.engine.dialogue().conversation(&request.id).await },
        ),
        Operation::new(
            "append_rounds",
            "Add one round or several, and return a verdict for each",
            Scope::Write,
            Effect::Write,
            |call: Call, request: AppendRoundsRequest| async move {
                let appended = call.engine.dialogue().append_rounds(request).await?;
                Ok(told(&call, appended))
            },
        ),
        Operation::new(
            "gate",
            "Decide about the rounds of a search loop: accept and continue, or saturated",
            Scope::Read,
            Effect::Compute,
            gate,
        ),
    ]
}

fn told(call: &Call, appended: AppendedRounds) -> AppendedRounds {
    if let Some(observer) = &call.observer {
        observer.appended(&appended);
    }
    appended
}

/// A shape of a conversation that is documented; traces and session logs are read as well.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ConversationShape {
    /// A transcript.
    Transcript {
        /// Its rounds, in order.
        #[schemars(length(min = 1))]
        rounds: Vec<Round>,
    },
    /// Messages, in order.
    Messages(#[schemars(length(min = 1))] Vec<MessageShape>),
}

/// A message of a chat.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct MessageShape {
    /// Who speaks.
    role: String,
    /// What is said.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    content: String,
}

/// A conversation to score.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScoreBody")]
struct ScoreConversationRequest {
    /// The conversation: a transcript (`{"rounds": […]}`), or a list of messages with `role` and `content`.
    #[schemars(with = "ConversationShape")]
    conversation: Value,
    /// `default` or `spec`.
    #[serde(default)]
    #[schemars(extend("enum" = ["default", "spec", null]))]
    profile: Option<String>,
    /// Who sorts plain messages into claims, questions and actions; fixed rules by default.
    #[serde(default)]
    extract: Option<Extract>,
}

async fn score(call: Call, request: ScoreConversationRequest) -> Result<ScoreResponse, EngineError> {
    let profile = request.profile.unwrap_or_else(|| "default".into());
    // A name from elsewhere must not become the path of a file.
    let names = Profile::built_in_names();
    if !names.contains(&profile.as_str()) {
        return Err(CallError::Invalid {
            message: format!(
                "there is no built-in profile `{profile}`; use one of {}",
                names.join(", ")
            ),
            place: "profile".into(),
        }
        .into());
    }
    // The format where it is plain to see; detecting it otherwise means reading everything.
    let format = match &request.conversation {
        Value::Array(_) => Some(InputFormat::Chat),
        Value::Object(fields) => fields.get("rounds").map(|_| InputFormat::Transcript),
        _ => None,
    };
    let scored = call
        .engine
        .dialogue()
        .score(ScoreRequest {
            name: "conversation".into(),
            format,
            bytes: request.conversation.to_string().into_bytes(),
            profile,
            extract: request.extract.unwrap_or_default(),
            record: false,
        })
        .await?;
    if let Some(observer) = &call.observer {
        observer.decided(scored.report.stop_recommendation.signal);
    }
    Ok(scored)
}

/// A page of conversations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConversationPageRequest {
    /// `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,18}\\.[A-Za-z0-9_.:-]{1,128}$"))]
    cursor: Option<String>,
    /// Conversations on a page; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

/// Conversations on a page.
#[derive(Debug, Serialize, JsonSchema)]
struct ConversationPage {
    /// The latest first.
    conversations: Vec<ConversationSummary>,
    /// Where the next page begins; absent on the last one.
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

/// Rounds to decide about; each is compared with all before it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GateBody")]
struct GateRoundsRequest {
    /// The task, for rounds that do not name one.
    #[serde(default)]
    task: String,
    /// The gate; default settings where absent.
    #[serde(default)]
    settings: Option<GateSettings>,
    /// The rounds, in order: each an object with `query`, and `results` (objects with `title`, `url`, `snippet`) or `error`.
    rounds: Vec<Value>,
}

/// What was decided.
#[derive(Debug, Serialize, JsonSchema)]
struct GateAnswer {
    /// Round by round.
    decisions: Vec<SearchGateResponse>,
    /// All together.
    summary: GateSummary,
}

async fn gate(call: Call, request: GateRoundsRequest) -> Result<GateAnswer, EngineError> {
    const MOST_ROUNDS: usize = 500;
    if request.rounds.len() > MOST_ROUNDS {
        return Err(CallError::Invalid {
            message: format!("more than {MOST_ROUNDS} rounds at once"),
            place: "rounds".into(),
        }
        .into());
    }
    let mut settings = request.settings.unwrap_or_default();
    // Rounds that are never gated cannot be more than there may be.
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
