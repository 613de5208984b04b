//! The gate for search loops of others: rounds in, a decision for each out.

use satiety::research::GateSettings;
use satiety_engine::research::{GateRequest, GateSummary, Gated};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::body::Json;
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Route, ask};

/// Rounds in one request: each is compared with all before it.
const ROUNDS: usize = 500;

pub(super) fn routes() -> Vec<Route> {
    vec![ask(
        "/v1/gate",
        "gate",
        "Decides about the rounds of a search loop: accept and go on, or saturated",
        gate,
    )]
}

/// Rounds to decide about.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateBody {
    /// The task, for rounds that do not name one.
    #[serde(default)]
    task: String,
    /// The gate; usual settings where absent.
    #[serde(default)]
    settings: Option<GateSettings>,
    /// The rounds, in order: each an object with `query`, and `results` (objects with `title`, `url`, `snippet`) or `error`.
    rounds: Vec<Value>,
}

/// What was decided.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GateAnswer {
    /// Round by round.
    decisions: Vec<Gated>,
    /// All together.
    summary: GateSummary,
}

/// Settings as they came. Rounds that are never gated cannot be more than there may be.
fn settings(asked: Option<GateSettings>) -> GateSettings {
    let mut settings = asked.unwrap_or_default();
    settings.min_rounds = settings.min_rounds.min(settings.max_rounds);
    settings
}

async fn gate(call: Call<Nothing, Nothing, Json<GateBody>>) -> Result<GateAnswer, Problem> {
    let Json(body) = call.body;
    if body.rounds.len() > ROUNDS {
        return Err(Problem::unprocessable(format!("more than {ROUNDS} rounds at once")).at("rounds"));
    }
    let request = GateRequest {
        settings: settings(body.settings),
        task: body.task,
        seed_by_run: false,
    };
    let rounds = body.rounds.iter().map(ToString::to_string).collect();
    let (decisions, summary) = call.app.engine.gate_rounds(request, rounds).await?;
    Ok(GateAnswer { decisions, summary })
}
