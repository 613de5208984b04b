//! Audit log: one entry per write, over HTTP or MCP, without the written content.

use axum::http::{Extensions, StatusCode};
use jiff::Timestamp;
use satiety_engine::Engine;
use satiety_engine::tokens::AuditEntry;

use super::Caller;
use crate::http::RequestId;

/// Entry for a write that is about to be made, with the caller and request id from the request's extensions.
pub(crate) fn entry(method: &str, path: &str, request: &Extensions) -> AuditEntry {
    let caller = request.get::<Caller>();
    AuditEntry {
        at: Timestamp::now(),
        who: caller.map_or_else(|| "nobody".into(), |caller| caller.who.clone()),
        address: caller.map_or_else(String::new, |caller| caller.address.to_string()),
        method: method.to_owned(),
        path: path.to_owned(),
        status: 0,
        request_id: request
            .get::<RequestId>()
            .map_or_else(String::new, |id| id.0.clone()),
    }
}

/// Records the outcome of a write.
pub(crate) async fn note(engine: &Engine, mut entry: AuditEntry, status: StatusCode) {
    entry.status = status.as_u16();
    if let Err(error) = engine.tokens().audit(&entry).await {
        tracing::error!(%error, who = entry.who, path = entry.path, "cannot write the audit log entry");
    }
}
