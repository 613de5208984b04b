//! Conversations: begin, add rounds, and know after each what to do.

use axum::http::Method;
use satiety::dialogue::Round;
use satiety::dialogue::input::InputFormat;
use satiety_engine::conversations::{
    AppendRoundsRequest, AppendedRounds, BeginConversationRequest, KeptConversation,
    ListConversationsRequest, ListedConversation,
};
use satiety_engine::dialogue::{Extract, ScoreRequest, Scored};
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ById, no_cursor};
use crate::http::app::App;
use crate::http::body::{Json, NoBody};
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Parameters, Route, ask, change, get, raw};
use crate::http::stream;

pub(super) fn routes() -> Vec<Route> {
    vec![
        ask(
            "/v1/score",
            "score",
            "Scores a whole conversation and keeps nothing: CONTINUE, SHIP, STOP or ESCALATE, and why",
            score,
        ),
        get(
            "/v1/conversations",
            "list_conversations",
            "Conversations that are kept, the latest first",
            list,
        ),
        change(
            Method::POST,
            "/v1/conversations",
            "begin_conversation",
            "Begins a conversation that is kept",
            begin,
        )
        .status(201),
        get(
            "/v1/conversations/{id}",
            "get_conversation",
            "A conversation with its rounds and its report",
            show,
        ),
        change(
            Method::POST,
            "/v1/conversations/{id}/rounds",
            "append_rounds",
            "Adds a round, or several, and says what to do after each",
            append,
        )
        .status(201),
        raw(
            "/v1/conversations/{id}/events",
            "conversation_events",
            "Verdicts as they fall, as server-sent events; `Last-Event-ID` is the position of a round",
            "text/event-stream",
            async |app, path: ById, headers| stream::of_conversation(app, path.id, &headers).await,
        ),
    ]
}

/// The shapes of a conversation that are described here; traces and session logs are read as well.
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
    content: String,
}

/// A conversation to be scored.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScoreBody {
    /// The conversation: a transcript (`{"rounds": […]}`), or a list of messages with `role` and `content`.
    // As it came: it is read once, by what knows its shapes.
    #[schemars(with = "ConversationShape")]
    conversation: Box<RawValue>,
    /// `default` or `spec`.
    #[serde(default)]
    profile: Option<String>,
    /// Who sorts plain messages into claims, questions and actions; fixed rules where absent.
    #[serde(default)]
    extract: Option<Extract>,
}

async fn score(call: Call<Nothing, Nothing, Json<ScoreBody>>) -> Result<Scored, Problem> {
    let Json(body) = call.body;
    let profile = body.profile.unwrap_or_else(|| "default".into());
    built_in(&profile)?;
    let scored = call
        .app
        .engine
        .score(ScoreRequest {
            name: "conversation".into(),
            format: shape(&body.conversation),
            bytes: body.conversation.get().into(),
            profile,
            extract: body.extract.unwrap_or_default(),
            record: false,
        })
        .await?;
    call.app.metrics.verdict(scored.report.stop_recommendation.signal);
    Ok(scored)
}

/// The shape of a conversation where it is plain to see; finding it out otherwise means reading everything.
fn shape(conversation: &RawValue) -> Option<InputFormat> {
    #[derive(Deserialize)]
    struct Document {
        rounds: Option<IgnoredAny>,
    }
    if conversation.get().starts_with('[') {
        return Some(InputFormat::Chat);
    }
    let document: Document = serde_json::from_str(conversation.get()).ok()?;
    document.rounds.map(|_| InputFormat::Transcript)
}

/// A name from far away must not become the path of a file.
fn built_in(profile: &str) -> Result<(), Problem> {
    let names = satiety::dialogue::Profile::built_in_names();
    if names.contains(&profile) {
        return Ok(());
    }
    Err(
        Problem::unprocessable(format!("there is no built-in profile `{profile}`"))
            .hint(format!("use one of {}", names.join(", ")))
            .at("profile"),
    )
}

async fn begin(
    call: Call<Nothing, Nothing, Json<BeginConversationRequest>>,
) -> Result<AppendedRounds, Problem> {
    let Json(body) = call.body;
    let begun = call.app.engine.conversation_begin(body).await?;
    told(&call.app, &begun);
    Ok(begun)
}

/// One round, or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoundsBody {
    /// The rounds, in order.
    #[schemars(length(min = 1, max = 200))]
    rounds: Vec<Round>,
}

async fn append(call: Call<ById, Nothing, Json<RoundsBody>>) -> Result<AppendedRounds, Problem> {
    let Json(RoundsBody { rounds }) = call.body;
    if rounds.is_empty() {
        return Err(Problem::unprocessable("there is no round to add").at("rounds"));
    }
    let appended = call
        .app
        .engine
        .conversation_append(AppendRoundsRequest {
            conversation_id: call.path.id,
            rounds,
        })
        .await?;
    told(&call.app, &appended);
    Ok(appended)
}

fn told(app: &App, appended: &AppendedRounds) {
    for verdict in &appended.verdicts {
        app.metrics.verdict(verdict.signal);
    }
    app.live.grown(&appended.conversation_id);
}

async fn show(call: Call<ById, Nothing, NoBody>) -> Result<KeptConversation, Problem> {
    Ok(call.app.engine.conversation(&call.path.id).await?)
}

/// Conversations on a page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ConversationPage {
    /// The latest first.
    conversations: Vec<ListedConversation>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A page of conversations.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct ConversationQuery {
    /// Where the page begins: `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,18}\\.[A-Za-z0-9_.:-]{1,128}$"))]
    cursor: Option<String>,
    /// How many at most; 50 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

impl Parameters for ConversationQuery {}

async fn list(call: Call<Nothing, ConversationQuery, NoBody>) -> Result<ConversationPage, Problem> {
    let before = match &call.query.cursor {
        None => None,
        Some(cursor) => {
            let (at, id) = cursor.split_once('.').ok_or_else(no_cursor)?;
            Some((at.parse().map_err(|_| no_cursor())?, id.to_owned()))
        }
    };
    let request = ListConversationsRequest {
        before,
        limit: super::limit(call.query.limit)?,
    };
    let list = call.app.engine.conversations(&request).await?;
    Ok(ConversationPage {
        conversations: list.conversations,
        next_cursor: list.next.map(|(at, id)| format!("{at}.{id}")),
    })
}
