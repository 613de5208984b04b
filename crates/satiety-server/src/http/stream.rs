//! Server-sent events: progress of jobs and verdicts of conversations. Every event has a number, and a client
//! that reconnects with the last one it saw (`Last-Event-ID`) misses nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use satiety_engine::conversations::StoredRound;

use super::app::App;
use super::jobs::Job;
use super::problem::Problem;

/// Polling interval for rounds added through another server.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Keep-alive interval.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Reconnection delay sent to clients.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Number of the last event that the client has seen.
fn last_seen<T: std::str::FromStr + Default>(headers: &HeaderMap) -> Result<T, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(T::default());
    };
    value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Problem::bad_request("invalid header `Last-Event-ID` (expected an event number)"))
}

fn respond(events: impl stream::Stream<Item = Vec<Event>> + Send + 'static) -> Response {
    let begin = stream::once(async { vec![Event::default().retry(RECONNECT_DELAY).comment("hello")] });
    let events = begin
        .chain(events)
        .flat_map(stream::iter)
        .map(Ok::<_, Infallible>);
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
        .into_response()
}

/// Events of a job.
pub(crate) fn job_events(app: &Arc<App>, job: Arc<Job>, headers: &HeaderMap) -> Result<Response, Problem> {
    let seen: u64 = last_seen(headers)?;
    let ending = app.ending.clone();
    let watch = job.watch();
    let events = stream::unfold((job, watch, ending, seen, false), async |state| {
        let (job, mut watch, mut ending, seen, over) = state;
        if over {
            return None;
        }
        loop {
            watch.mark_unchanged();
            let is_finished = job.view().state.is_finished();
            let new = job.after(seen);
            if let Some(last) = new.last().map(|event| event.number) {
                let events = new.iter().map(|event| {
                    Event::default()
                        .id(event.number.to_string())
                        .event(event.name)
                        .data(event.data.to_string())
                });
                return Some((events.collect(), (job, watch, ending, last, is_finished)));
            }
            if is_finished {
                return None;
            }
            tokio::select! {
                changed = watch.changed() => changed.ok()?,
                _ = ending.wait_for(|ending| *ending) => return None,
            }
        }
    });
    Ok(respond(events))
}

/// Verdicts of a conversation: those after the last one seen, then new ones.
pub(crate) async fn conversation_events(
    app: Arc<App>,
    id: String,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let seen: i64 = last_seen(headers)?;
    // An unknown conversation is reported before the stream starts.
    let listener = app.live.listen();
    let first = app.engine.dialogue().conversation_rounds(&id, seen).await?;
    let ending = app.ending.clone();
    let state = (app, id, listener, ending, seen, Some(first));
    let events = stream::unfold(state, async |state| {
        let (app, id, mut listener, mut ending, seen, mut ready) = state;
        loop {
            let rounds = match ready.take() {
                Some(rounds) => rounds,
                // A store that fails now may recover; the client keeps its position.
                None => app.engine.dialogue().conversation_rounds(&id, seen).await.ok()?,
            };
            if let Some(last) = rounds.last().map(|round| round.position) {
                return Some((
                    rounds.iter().map(verdict).collect(),
                    (app, id, listener, ending, last, None),
                ));
            }
            let notify = async {
                while let Ok(other) = listener.recv().await {
                    if *other == *id {
                        break;
                    }
                }
            };
            tokio::select! {
                () = notify => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = ending.wait_for(|ending| *ending) => return None,
            }
        }
    });
    Ok(respond(events))
}

/// Steps of an agent's run: the number of messages, steps and the signal, whenever messages were added.
pub(crate) async fn agent_run_events(
    app: Arc<App>,
    id: String,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let seen: i64 = last_seen(headers)?;
    // An unknown run is reported before the stream starts.
    app.engine.progress().run_summary(&id).await?;
    let ending = app.ending.clone();
    let events = stream::unfold((app, id, ending, seen), async |state| {
        let (app, id, mut ending, seen) = state;
        loop {
            // A store that fails now may recover; the client keeps its position.
            let run = app.engine.progress().run_summary(&id).await.ok()?;
            if run.messages > seen {
                let data =
                    serde_json::json!({"messages": run.messages, "steps": run.steps, "signal": run.signal});
                let event = Event::default()
                    .id(run.messages.to_string())
                    .event("steps")
                    .data(data.to_string());
                return Some((vec![event], (app, id, ending, run.messages)));
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = ending.wait_for(|ending| *ending) => return None,
            }
        }
    });
    Ok(respond(events))
}

fn verdict(round: &StoredRound) -> Event {
    let data = serde_json::json!({"position": round.position, "agent": round.agent, "signal": round.signal,
        "novelty": round.novelty, "readiness": round.readiness});
    Event::default()
        .id(round.position.to_string())
        .event("verdict")
        .data(data.to_string())
}
