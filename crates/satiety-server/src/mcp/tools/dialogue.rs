//! Tools that decide when to stop: conversations, whole or round by round, and search loops.

use std::collections::BTreeMap;

use satiety::dialogue::{Round, Signal};
use satiety::research::{GateSettings, StopThreshold};
use satiety_engine::conversations::{AppendRoundsRequest, BeginConversationRequest};
use satiety_engine::dialogue::{Extract, ScoreRequest};
use satiety_engine::research::{GateRequest, SearchGateResponse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            Spec {
                name: "score_conversation",
                title: "Score a conversation",
                about: "Decide whether a whole conversation, yours or another, is still productive: CONTINUE, SHIP, STOP or ESCALATE, with reasons. Call it before you spend another round on it.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &["topic", "reasons", "hint", "warnings"],
            },
            |call: Call, asked: ScoreArgs| async move { score(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "append_round",
                title: "Append a round",
                about: "Append a round of a discussion, review or plan-and-criticize loop and learn whether another is worth it: CONTINUE, SHIP (act on the plan), STOP or ESCALATE. Call it after each round; without conversation_id it starts one.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &["reasons"],
            },
            |call: Call, asked: AppendArgs| async move { append(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "gate",
                title: "Search gate",
                about: "Decide whether another search of a loop is worth it. Call it with the results of all rounds so far; returns continue or stop after the last one, and the novelty of each round.",
                profile: Profile::Full,
                effect: Effect::Reads,
                data: &[],
            },
            |call: Call, asked: GateArgs| async move { gate(&call, asked).await },
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ScoreArgs {
    /// Messages with role and content, in order.
    #[serde(default)]
    messages: Vec<Message>,
    /// Or rounds with extracted claims, questions and actions.
    #[serde(default)]
    rounds: Vec<RoundArgs>,
    /// Topic of the conversation.
    topic: Option<String>,
    /// Store it, with its full report as a resource.
    #[serde(default)]
    record: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Message {
    role: String,
    content: String,
}

/// Round with its extracted statements.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RoundArgs {
    /// Name of the speaker.
    agent: Option<String>,
    /// Factual claims of the round.
    #[serde(default)]
    claims: Vec<String>,
    /// Decisions made in the round.
    #[serde(default)]
    decisions: Vec<String>,
    /// Questions without an answer.
    #[serde(default)]
    open_questions: Vec<String>,
    /// Actions to take next.
    #[serde(default)]
    next_actions: Vec<String>,
}

/// Result of scoring a conversation.
#[derive(Serialize, JsonSchema)]
struct ScoreView {
    /// Id of the conversation, if stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    /// Decision after the last round.
    signal: Signal,
    /// Decision explained in one sentence.
    hint: String,
    /// Most important reasons for the decision.
    reasons: Vec<String>,
    /// Repetition from 0 to 1: 1 minus the novelty rate.
    score: f64,
    /// Novelty of each round from 0 to 1; null if unknown.
    novelty_by_round: Vec<Option<f64>>,
    /// Number of the first round whose decision was not CONTINUE.
    first_stop_round: Option<u32>,
    /// Problems found in the input.
    warnings: Vec<String>,
    /// Resource address of the full report.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
}

async fn score(call: &Call, asked: ScoreArgs) -> Result<ScoreView, Problem> {
    let bytes = match (asked.messages.is_empty(), asked.rounds.is_empty()) {
        (false, true) => serde_json::to_vec(&serde_json::json!({"messages": asked.messages})),
        (true, false) => {
            let rounds = to_rounds(asked.rounds, 1)?;
            serde_json::to_vec(&serde_json::json!({"topic": asked.topic, "rounds": rounds}))
        }
        _ => {
            return Err(Problem::new(
                "exactly one of `messages` and `rounds` is required",
                "pass either `messages` or `rounds`",
            ));
        }
    };
    let request = ScoreRequest {
        name: "the conversation".into(),
        bytes: bytes.map_err(|error| Problem::bug(&error.to_string()))?,
        format: None,
        profile: call.context.dialogue_profile.clone(),
        extract: Extract::Rules,
        record: asked.record,
    };
    let scored = call.engine().dialogue().score(request).await?;
    let report = scored.report;
    let id = scored.conversation_id.filter(|_| asked.record);
    Ok(ScoreView {
        report: id.as_ref().map(|id| format!("satiety://conversations/{id}")),
        conversation_id: id,
        topic: scored.topic.or(asked.topic),
        signal: report.stop_recommendation.signal,
        hint: report.hint,
        reasons: report.reasons,
        score: report.score,
        novelty_by_round: report
            .novelty_by_round
            .iter()
            .map(|round| round.novelty)
            .collect(),
        first_stop_round: report.first_stop_round,
        warnings: report
            .warnings
            .into_iter()
            .map(|warning| warning.message)
            .collect(),
    })
}

/// Converts rounds to the library's type, numbered from `first`.
fn to_rounds(rounds: Vec<RoundArgs>, first: u32) -> Result<Vec<Round>, Problem> {
    let rounds = (first..).zip(rounds).map(|(number, round)| {
        let claims: Vec<Value> = round
            .claims
            .into_iter()
            .map(|claim| serde_json::json!({"text": claim}))
            .collect();
        serde_json::from_value(serde_json::json!({
            "round": number,
            "agent": round.agent,
            "outputs": {
                "claims": claims,
                "decisions": round.decisions,
                "open_questions": round.open_questions,
                "next_actions": round.next_actions,
            },
        }))
    });
    rounds
        .collect::<Result<_, serde_json::Error>>()
        .map_err(|error| Problem::bug(&error.to_string()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AppendArgs {
    /// Conversation to extend; omit to start one.
    conversation_id: Option<String>,
    /// Topic of a new conversation.
    topic: Option<String>,
    /// Round to append to it.
    round: RoundArgs,
}

/// Decision after an added round.
#[derive(Serialize, JsonSchema)]
struct AppendView {
    /// Id of the conversation.
    conversation_id: String,
    /// Number of rounds so far.
    rounds: usize,
    /// Decision after this round.
    signal: Signal,
    /// Most important reasons for the decision.
    reasons: Vec<String>,
    /// Novelty of the round from 0 to 1; null if unknown.
    novelty: Option<f64>,
    /// Readiness for action from 0 to 1.
    action_readiness: Option<f64>,
}

async fn append(call: &Call, asked: AppendArgs) -> Result<AppendView, Problem> {
    let engine = call.engine();
    let id = if let Some(id) = asked.conversation_id {
        id
    } else {
        let begun = engine
            .dialogue()
            .begin_conversation(BeginConversationRequest {
                topic: asked.topic,
                ..BeginConversationRequest::default()
            })
            .await?;
        begun.conversation_id
    };
    let appended = engine
        .dialogue()
        .append_rounds(AppendRoundsRequest {
            rounds: to_rounds(vec![asked.round], 1)?,
            conversation_id: id,
        })
        .await?;
    let last = appended.verdicts.last();
    Ok(AppendView {
        signal: appended.signal,
        rounds: appended.rounds,
        reasons: last.map(|verdict| verdict.reasons.clone()).unwrap_or_default(),
        novelty: last.and_then(|verdict| verdict.novelty.novelty),
        action_readiness: last.map(|verdict| verdict.readiness.action_readiness),
        conversation_id: appended.conversation_id,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GateArgs {
    /// Purpose of the search.
    task: String,
    /// Rounds so far, oldest first.
    rounds: Vec<GateRound>,
    /// Maximum number of rounds; default 5.
    max_rounds: Option<u32>,
    /// Stop below this share of new content; default 0.25.
    threshold: Option<f64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GateRound {
    /// Query of the round.
    #[serde(default)]
    query: String,
    /// Results of the query.
    results: Vec<GateHit>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct GateHit {
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    snippet: String,
}

/// Decision of the search gate.
#[derive(Serialize, JsonSchema)]
struct GateAnswer {
    /// Decision after the last round: continue or stop.
    decision: String,
    /// Explanation of the decision in words.
    why: String,
    /// Decision after each round.
    rounds: Vec<SearchGateResponse>,
}

async fn gate(call: &Call, asked: GateArgs) -> Result<GateAnswer, Problem> {
    if asked.rounds.is_empty() {
        return Err(Problem::new("`rounds` is empty", "pass at least one round"));
    }
    let standard = GateSettings::default();
    let settings = GateSettings {
        max_rounds: asked.max_rounds.unwrap_or(standard.max_rounds),
        threshold: asked.threshold.map_or(standard.threshold, StopThreshold::Share),
        // No exploration: a call with one more round must decide the earlier ones the same way.
        epsilon: 0.0,
        ..standard
    };
    let request = GateRequest {
        settings,
        task: asked.task,
        seed_by_run: false,
    };
    let lines = (1_u32..).zip(&asked.rounds).map(|(number, round)| {
        let hits: Vec<BTreeMap<&str, &str>> = round
            .results
            .iter()
            .map(|hit| {
                BTreeMap::from([
                    ("title", hit.title.as_str()),
                    ("url", hit.url.as_str()),
                    ("snippet", hit.snippet.as_str()),
                ])
            })
            .collect();
        serde_json::json!({"round": number, "query": round.query, "results": hits}).to_string()
    });
    let (rounds, _) = call
        .engine()
        .research()
        .gate_rounds(request, lines.collect())
        .await?;
    let last = rounds
        .last()
        .ok_or_else(|| Problem::bug("a gate without rounds"))?;
    let decision = serde_json::to_value(last.verdict.decision).ok();
    Ok(GateAnswer {
        decision: decision
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default(),
        why: last.words.clone(),
        rounds,
    })
}
