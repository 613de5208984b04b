//! Conversations as they grow.

use crate::http::route::{Route, raw};
use crate::http::stream;

pub(super) fn routes() -> Vec<Route> {
    vec![raw(
        "/v1/conversations/{id}/events",
        "conversation_events",
        "Verdicts as they fall, as server-sent events; `Last-Event-ID` is the position of a round",
        "text/event-stream",
        |app, id, headers| Box::pin(async move { stream::of_conversation(app, id, &headers).await }),
    )]
}
