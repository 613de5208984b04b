//! Server-sent events: the course of a job, verdicts as they fall. Every event has a number, and who comes back with the last
//! one that it has seen (`Last-Event-ID`) misses nothing.

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

/// How often to look for rounds that came through another server.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A comment now and then tells that the connection lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// What a client is told to wait before it comes back.
const COME_BACK: Duration = Duration::from_secs(1);

/// The number of the last event that the client has seen.
fn last_seen<T: std::str::FromStr + Default>(headers: &HeaderMap) -> Result<T, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(T::default());
    };
    value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Problem::bad_request("the header `Last-Event-ID` is not the number of an event"))
}

fn respond(events: impl stream::Stream<Item = Vec<Event>> + Send + 'static) -> Response {
    let begin = stream::once(async { vec![Event::default().retry(COME_BACK).comment("hello")] });
    let events = begin
        .chain(events)
        .flat_map(stream::iter)
        .map(Ok::<_, Infallible>);
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(ALIVE_EVERY))
        .into_response()
}

/// The course of a job.
pub(crate) fn of_job(app: &Arc<App>, job: Arc<Job>, headers: &HeaderMap) -> Result<Response, Problem> {
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
            let is_over = job.view().state.is_over();
            let new = job.after(seen);
            if let Some(last) = new.last().map(|event| event.number) {
                let events = new.iter().map(|event| {
                    Event::default()
                        .id(event.number.to_string())
                        .event(event.name)
                        .data(event.data.to_string())
                });
                return Some((events.collect(), (job, watch, ending, last, is_over)));
            }
            if is_over {
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

/// Verdicts of a conversation: those that have fallen behind the last one seen, then those to come.
pub(crate) async fn of_conversation(
    app: Arc<App>,
    id: String,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let seen: i64 = last_seen(headers)?;
    // Somebody who asks for what is not there is told before the stream begins.
    let listener = app.live.listen();
    let first = app.engine.dialogue().conversation_rounds(&id, seen).await?;
    let ending = app.ending.clone();
    let state = (app, id, listener, ending, seen, Some(first));
    let events = stream::unfold(state, async |state| {
        let (app, id, mut listener, mut ending, seen, mut ready) = state;
        loop {
            let rounds = match ready.take() {
                Some(rounds) => rounds,
                // A store that does not answer now may do so soon; the client has its place either way.
                None => app.engine.dialogue().conversation_rounds(&id, seen).await.ok()?,
            };
            if let Some(last) = rounds.last().map(|round| round.position) {
                return Some((
                    rounds.iter().map(verdict).collect(),
                    (app, id, listener, ending, last, None),
                ));
            }
            let grown = async {
                while let Ok(other) = listener.recv().await {
                    if *other == *id {
                        break;
                    }
                }
            };
            tokio::select! {
                () = grown => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
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
