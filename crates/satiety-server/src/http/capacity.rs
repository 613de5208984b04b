//! What callers may hold open: connections, event streams, MCP sessions. Each is counted by caller, so that one caller cannot
//! shut out the others, and the health endpoints have capacity of their own.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::StreamExt as _;

use super::problem::Problem;

/// Things of one kind that are open, by who has opened them.
#[derive(Debug)]
pub(crate) struct Counter<K: Hash + Eq + Clone> {
    open: Arc<Mutex<Open<K>>>,
    most: usize,
    most_each: usize,
}

#[derive(Debug)]
struct Open<K> {
    all: usize,
    each: HashMap<K, usize>,
}

/// One open thing; it is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit<K: Hash + Eq + Clone> {
    open: Arc<Mutex<Open<K>>>,
    key: K,
}

impl<K: Hash + Eq + Clone> Counter<K> {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self {
            open: Arc::new(Mutex::new(Open {
                all: 0,
                each: HashMap::new(),
            })),
            most,
            most_each,
        }
    }

    /// Opens one, unless there are as many as there may be.
    pub(crate) fn open(&self, key: &K) -> Option<Permit<K>> {
        let mut open = lock(&self.open);
        let own = open.each.get(key).copied().unwrap_or_default();
        if open.all >= self.most || own >= self.most_each {
            return None;
        }
        open.all += 1;
        open.each.insert(key.clone(), own + 1);
        Some(Permit {
            open: Arc::clone(&self.open),
            key: key.clone(),
        })
    }

    /// How many of this caller are open.
    #[cfg(test)]
    fn of(&self, key: &K) -> usize {
        lock(&self.open).each.get(key).copied().unwrap_or_default()
    }
}

impl<K: Hash + Eq + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        open.all = open.all.saturating_sub(1);
        if let Some(own) = open.each.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                open.each.remove(&self.key);
            }
        }
    }
}

/// Event streams that are open.
pub(crate) type Streams = Counter<String>;
/// Connections by the address that they come from.
pub(crate) type Connections = Counter<IpAddr>;

impl Streams {
    /// Opens a stream for a caller, or tells it to close another first.
    pub(crate) fn admit(&self, caller: &str) -> Result<Permit<String>, Problem> {
        self.open(&caller.to_owned()).ok_or_else(|| {
            Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "too many event streams are open (this caller may have {})",
                    self.most_each
                ),
            )
            .hint(
                "close a stream that is no longer read, or follow several subjects over one connection each",
            )
            .retry_after(5)
        })
    }
}

/// The response with a permit that is held until its body has been sent or dropped.
pub(crate) fn hold(response: Response, permit: Permit<String>) -> Response {
    response.map(|body| {
        let stream = body.into_data_stream().map(move |part| {
            let _held = &permit;
            part
        });
        Body::from_stream(stream)
    })
}

/// MCP sessions by caller. The sessions themselves are the SDK's; they end there when they were idle for [`IDLE`].
#[derive(Debug)]
pub(crate) struct McpSessions {
    known: Mutex<HashMap<String, (String, Instant)>>,
    most: usize,
    most_each: usize,
}

/// After so long without a message a session has ended.
pub(crate) const IDLE: Duration = Duration::from_mins(5);

impl McpSessions {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self {
            known: Mutex::default(),
            most,
            most_each,
        }
    }

    /// Reserves a session for a caller under a name of the reservation's own.
    pub(crate) fn reserve(&self, caller: &str, reservation: &str) -> Result<(), Problem> {
        let mut known = lock(&self.known);
        let now = Instant::now();
        known.retain(|_, (_, used)| now.duration_since(*used) < IDLE);
        let own = known.values().filter(|(whose, _)| whose == caller).count();
        if own >= self.most_each || known.len() >= self.most {
            return Err(Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "too many MCP sessions are open (this caller may have {})",
                    self.most_each
                ),
            )
            .hint("end a session with DELETE /mcp and its `Mcp-Session-Id`; idle ones end after five minutes")
            .retry_after(30));
        }
        known.insert(reservation.to_owned(), (caller.to_owned(), now));
        Ok(())
    }

    /// The reservation became this session, or none.
    pub(crate) fn settle(&self, reservation: &str, session: Option<&str>) {
        let mut known = lock(&self.known);
        if let Some(entry) = known.remove(reservation)
            && let Some(session) = session
        {
            known.insert(session.to_owned(), entry);
        }
    }

    /// A message of this session came.
    pub(crate) fn touch(&self, session: &str) {
        if let Some((_, used)) = lock(&self.known).get_mut(session) {
            *used = Instant::now();
        }
    }

    /// The session has ended.
    pub(crate) fn end(&self, session: &str) {
        lock(&self.known).remove(session);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_a_share_and_all_together_have_a_limit() {
        let streams = Streams::new(5, 2);
        let held: Vec<_> = ["a", "a", "b", "b", "c"]
            .iter()
            .map(|caller| streams.admit(caller).unwrap())
            .collect();
        assert_eq!(streams.admit("c").unwrap_err().status, 429);
        drop(held);
        assert_eq!(streams.of(&"a".to_owned()), 0);
        let _first = streams.admit("a").unwrap();
        let _second = streams.admit("a").unwrap();
        assert!(streams.admit("a").is_err());
        assert!(streams.admit("b").is_ok());
        assert!(
            lock(&streams.open).each.len() <= 2,
            "callers without a stream are forgotten"
        );
    }

    #[test]
    fn a_session_counts_until_it_ends_and_a_failed_one_does_not() {
        let sessions = McpSessions::new(3, 2);
        sessions.reserve("a", "r1").unwrap();
        sessions.settle("r1", Some("s1"));
        sessions.reserve("a", "r2").unwrap();
        assert!(sessions.reserve("a", "r3").is_err());
        sessions.settle("r2", None);
        sessions.reserve("a", "r4").unwrap();
        sessions.reserve("b", "r5").unwrap();
        assert!(sessions.reserve("c", "r6").is_err(), "all together");
        sessions.end("s1");
        sessions.touch("s1");
        sessions.reserve("c", "r6").unwrap();
    }
}
