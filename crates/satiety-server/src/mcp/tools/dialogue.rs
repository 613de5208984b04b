//! Tools that say when to stop: a conversation, round by round or whole, and a search loop.

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
                about: "Whether a conversation still gets anywhere: CONTINUE, SHIP, STOP or ESCALATE, and why. Call it with a whole discussion, yours or somebody else's, before another round is spent on it.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &["topic", "reasons", "hint", "warnings"],
            },
            |call: Call, asked: ScoreArgs| async move { score(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "append_round",
                title: "Add a round",
                about: "Add a round to a conversation and hear whether to go on. Call it after each round of a discussion or a plan-and-criticise loop; the first call without conversation_id begins one.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &["reasons"],
            },
            |call: Call, asked: AppendArgs| async move { append(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "gate",
                title: "Is another search worth it?",
                about: "Whether another search of a loop is worth it. Call it with the results of all rounds so far; it says continue or stop after the last one, and how new each round was.",
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
    /// Or rounds whose claims, questions and actions are sorted already.
    #[serde(default)]
    rounds: Vec<RoundArgs>,
    /// What it is about.
    topic: Option<String>,
    /// Keep it, with its whole report as a resource.
    #[serde(default)]
    record: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Message {
    role: String,
    content: String,
}

/// A round, in the words of whoever sorted it.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RoundArgs {
    /// Who spoke.
    agent: Option<String>,
    /// What was said to be so.
    #[serde(default)]
    claims: Vec<String>,
    /// What was settled.
    #[serde(default)]
    decisions: Vec<String>,
    /// What nobody has answered.
    #[serde(default)]
    open_questions: Vec<String>,
    /// What is to be done.
    #[serde(default)]
    next_actions: Vec<String>,
}

/// A scored conversation, as an agent needs it.
#[derive(Serialize, JsonSchema)]
struct ScoreView {
    /// Its id, where it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    /// What to do.
    signal: Signal,
    /// The same in a sentence.
    hint: String,
    /// The most telling reasons.
    reasons: Vec<String>,
    /// How little is new: 1 minus the novelty rate.
    score: f64,
    /// How new each round was; absent where nothing could be said.
    novelty_by_round: Vec<Option<f64>>,
    /// Number of the first round after which the answer was not CONTINUE.
    first_stop_round: Option<u32>,
    /// What looks wrong.
    warnings: Vec<String>,
    /// Where the whole report is.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
}

async fn score(call: &Call, asked: ScoreArgs) -> Result<ScoreView, Problem> {
    let bytes = match (asked.messages.is_empty(), asked.rounds.is_empty()) {
        (false, true) => serde_json::to_vec(&serde_json::json!({"messages": asked.messages})),
        (true, false) => {
            let rounds = sorted(asked.rounds, 1)?;
            serde_json::to_vec(&serde_json::json!({"topic": asked.topic, "rounds": rounds}))
        }
        _ => {
            return Err(Problem::new(
                "there is nothing to score, or it is there twice",
                "give either `messages` or `rounds`",
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

/// Rounds as the library reads them, numbered from `first`.
fn sorted(rounds: Vec<RoundArgs>, first: u32) -> Result<Vec<Round>, Problem> {
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
    /// The conversation; absent to begin one.
    conversation_id: Option<String>,
    /// What a new one is about.
    topic: Option<String>,
    /// The round.
    round: RoundArgs,
}

/// What follows from a round.
#[derive(Serialize, JsonSchema)]
struct AppendView {
    /// The conversation.
    conversation_id: String,
    /// Rounds that it has now.
    rounds: usize,
    /// What to do now.
    signal: Signal,
    /// The most telling reasons.
    reasons: Vec<String>,
    /// How new the round was; absent where nothing could be said.
    novelty: Option<f64>,
    /// How ready for action it is.
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
            rounds: sorted(vec![asked.round], 1)?,
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
    /// What the search is for.
    task: String,
    /// The rounds so far, oldest first.
    rounds: Vec<GateRound>,
    /// Rounds at most; 5 where absent.
    max_rounds: Option<u32>,
    /// Stop when less than this share is new; 0.25 where absent.
    threshold: Option<f64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GateRound {
    /// What was asked.
    #[serde(default)]
    query: String,
    /// What came back.
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

/// What was decided.
#[derive(Serialize, JsonSchema)]
struct GateAnswer {
    /// continue or stop, after the last round.
    decision: String,
    /// Why, in words.
    why: String,
    /// Each round.
    rounds: Vec<SearchGateResponse>,
}

async fn gate(call: &Call, asked: GateArgs) -> Result<GateAnswer, Problem> {
    if asked.rounds.is_empty() {
        return Err(Problem::new(
            "there is no round to decide about",
            "give at least one in `rounds`",
        ));
    }
    let standard = GateSettings::default();
    let settings = GateSettings {
        max_rounds: asked.max_rounds.unwrap_or(standard.max_rounds),
        threshold: asked.threshold.map_or(standard.threshold, StopThreshold::Share),
        // Asked again with one round more, it must say the same about the earlier ones.
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
