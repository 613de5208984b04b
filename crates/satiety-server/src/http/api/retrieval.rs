//! Measuring and comparing rankings that come with the request.

use satiety_engine::retrieval::{Compared, Evaluated, InlineRankings};

use crate::http::body::Json;
use crate::http::problem::Problem;
use crate::http::route::{Call, Nothing, Route, ask};

/// Runs in one request.
const RUNS: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    vec![
        ask(
            "/v1/retrieval/evaluate",
            "evaluate_retrieval",
            "Measures runs against judgments, with intervals",
            evaluate,
        ),
        ask(
            "/v1/retrieval/compare",
            "compare_retrieval",
            "Says whether runs are really better or worse than the first of them",
            compare,
        ),
    ]
}

fn check(request: &InlineRankings) -> Result<(), Problem> {
    if request.runs.is_empty() || request.runs.len() > RUNS {
        return Err(Problem::unprocessable(format!("there must be 1 to {RUNS} runs")).at("runs"));
    }
    Ok(())
}

async fn evaluate(call: Call<Nothing, Nothing, Json<InlineRankings>>) -> Result<Evaluated, Problem> {
    let Json(body) = call.body;
    check(&body)?;
    Ok(call.app.engine.evaluate_inline(&body).await?)
}

async fn compare(call: Call<Nothing, Nothing, Json<InlineRankings>>) -> Result<Compared, Problem> {
    let Json(body) = call.body;
    check(&body)?;
    Ok(call.app.engine.compare_inline(&body).await?)
}
