//! Event streams of conversations and agents' runs.

use crate::http::route::{Route, raw};
use crate::http::stream;

pub(super) fn routes() -> Vec<Route> {
    vec![
        raw(
            "/v1/conversations/{id}/events",
            "conversation_events",
            "Stream the verdicts of a conversation (server-sent events); `Last-Event-ID` is a round's position",
            "text/event-stream",
            |app, id, headers| Box::pin(async move { stream::conversation_events(app, id, &headers).await }),
        ),
        raw(
            "/v1/progress/{id}/events",
            "agent_run_events",
            "Stream the growth of an agent's run (server-sent events); `Last-Event-ID` is a number of messages",
            "text/event-stream",
            |app, id, headers| Box::pin(async move { stream::agent_run_events(app, id, &headers).await }),
        ),
    ]
}
