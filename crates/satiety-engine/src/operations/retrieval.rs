//! Operations on rankings: evaluation and comparison of rankings in the request or of stored runs.

use satiety::retrieval::Measure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constraints::MEASURE;
use super::page::PageRequest;
use super::{Call, CallError, Effect, IdRequest, Operation};
use crate::EngineError;
use crate::retrieval::{InlineRankings, JudgeFeedbackRequest, MeasuredRun, RunChanges, UnfinishedRun};
use crate::tokens::Scope;

/// Maximum number of recent runs that a list covers.
const RUNS: u32 = 10_000;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "evaluate_retrieval",
            "Evaluate runs against judgments, with confidence intervals",
            Scope::Read,
            Effect::Compute,
            |call: Call, request: InlineRankings| async move {
                call.engine.retrieval().evaluate_inline(&request).await
            },
        ),
        Operation::new(
            "compare_retrieval",
            "Compare runs with the first one, with significance tests",
            Scope::Read,
            Effect::Compute,
            |call: Call, request: InlineRankings| async move {
                if request.runs.len() < 2 {
                    return Err(CallError::Invalid {
                        message: "`runs` must have at least 2 entries".into(),
                        place: "runs".into(),
                    }
                    .into());
                }
                call.engine.retrieval().compare_inline(&request).await
            },
        ),
        Operation::new(
            "judge_feedback",
            "Derive judgments of the corpus from agents' use of results; optionally replace earlier ones",
            Scope::Write,
            Effect::Write,
            |call: Call, request: JudgeFeedbackRequest| async move {
                call.engine.retrieval().judge_from_feedback(request).await
            },
        ),
        Operation::new(
            "list_retrieval_runs",
            "List measured runs, newest first, and interrupted runs",
            Scope::Read,
            Effect::Read,
            list,
        ),
        Operation::new(
            "get_retrieval_run",
            "Get a measured run: metrics with confidence intervals, and results per query",
            Scope::Read,
            Effect::Read,
            |call: Call, request: IdRequest| async move {
                call.engine.retrieval().measured_run(&request.id).await
            },
        ),
        Operation::new(
            "retrieval_run_changes",
            "Get the changes from another run to this one per query, largest loss first",
            Scope::Read,
            Effect::Read,
            changes,
        ),
    ]
}

/// Page of measured runs.
#[derive(Debug, Serialize, JsonSchema)]
struct MeasuredPage {
    /// Measured runs, newest first.
    runs: Vec<MeasuredRun>,
    /// Interrupted runs that can be resumed; only on the first page.
    unfinished: Vec<UnfinishedRun>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn list(call: Call, page: PageRequest) -> Result<MeasuredPage, EngineError> {
    let all = call.engine.retrieval().measured_runs(page.needed(RUNS)).await?;
    let unfinished = match page.cursor {
        Some(_) => Vec::new(),
        None => all.unfinished,
    };
    let (runs, next_cursor) = page.cut(all.runs, |run| &run.run_id)?;
    Ok(MeasuredPage {
        runs,
        unfinished,
        next_cursor,
    })
}

/// Two measured runs to compare.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChangesRequest {
    /// Id of the measured run.
    #[schemars(length(min = 1, max = 256))]
    id: String,
    /// Id of the run to compare with; by default its recorded baseline, otherwise the run before it.
    #[serde(default)]
    against: Option<String>,
    /// Retrieval metric, such as `mrr@10`; `ndcg@10` by default.
    #[serde(default)]
    #[schemars(regex(pattern = MEASURE))]
    measure: Option<String>,
}

async fn changes(call: Call, request: ChangesRequest) -> Result<RunChanges, EngineError> {
    if let Some(name) = &request.measure {
        name.parse::<Measure>().map_err(|error| CallError::Invalid {
            message: error.to_string(),
            place: "measure".into(),
        })?;
    }
    let (against, measure) = (request.against.as_deref(), request.measure.as_deref());
    call.engine
        .retrieval()
        .run_changes(&request.id, against, measure)
        .await
}
