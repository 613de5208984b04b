//! Operations on the eval harness. Approval is not one of them: it requires a person with a key at a
//! terminal.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Call, Effect, Operation};
use crate::EngineError;
use crate::harness::{HarnessStatus, History, RecordCycleRequest, RecordedCycle};
use crate::tokens::Scope;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            "harness_status",
            "Get the state of the eval harness",
            Scope::Read,
            Effect::Read,
            status,
        ),
        Operation::new(
            "harness_history",
            "Get the history of the eval harness, oldest first",
            Scope::Read,
            Effect::Read,
            history,
        ),
        Operation::new(
            "record_cycle",
            "Record a cycle from the stored runs; weakened files are rejected",
            Scope::Admin,
            Effect::Write,
            record,
        ),
    ]
}

/// Harness whose status to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusRequest {
    /// Directory of the harness on this machine; the configured one when absent.
    #[serde(default)]
    folder: Option<PathBuf>,
}

async fn status(call: Call, request: StatusRequest) -> Result<HarnessStatus, EngineError> {
    let folder = request.folder.unwrap_or_else(|| call.harness.folder.clone());
    let mut status = call.engine.harness().status(&folder, call.harness.driver).await?;
    if call.is_remote() {
        // The location is only of interest to the operator of the server.
        status.folder = "harness".into();
    }
    Ok(status)
}

/// Extent of the harness history to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryRequest {
    /// Maximum number of entries; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

async fn history(call: Call, request: HistoryRequest) -> Result<History, EngineError> {
    let limit = request.limit.unwrap_or(50) as usize;
    call.engine.harness().history(&call.harness.folder, limit).await
}

/// Harness cycle to record.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CycleBody")]
struct CycleRequest {
    /// Directory of the harness on this machine; the configured one when absent.
    #[serde(default)]
    folder: Option<PathBuf>,
    /// Name for the cycle, chosen by the caller.
    #[serde(default)]
    cycle_id: Option<String>,
}

async fn record(call: Call, request: CycleRequest) -> Result<RecordedCycle, EngineError> {
    let request = RecordCycleRequest {
        folder: request.folder.unwrap_or_else(|| call.harness.folder.clone()),
        cycle_id: request.cycle_id,
        driver: call.harness.driver,
        ..RecordCycleRequest::default()
    };
    let recorded = call.engine.harness().record(request).await?;
    recorded.log_warnings();
    Ok(recorded)
}
