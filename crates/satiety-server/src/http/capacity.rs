//! Limits of open connections, event streams and MCP sessions per caller, so that one caller cannot exhaust
//! them. The health endpoints have separate capacity.

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

/// Counts open resources of one kind per key, with a total and a per-key limit. Clones share the count.
#[derive(Debug, Clone)]
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

/// Permit for one open resource, released on drop.
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

    /// Opens one, or returns `None` at the limit.
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

    /// Number of open resources of a key.
    #[cfg(test)]
    fn open_count(&self, key: &K) -> usize {
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

/// Open event streams per caller.
pub(crate) type Streams = Counter<String>;
/// Open connections per address.
pub(crate) type Connections = Counter<IpAddr>;

impl Streams {
    /// Opens a stream for a caller, or fails at the limit.
    pub(crate) fn admit(&self, caller: &str) -> Result<Permit<String>, Problem> {
        self.open(&caller.to_owned()).ok_or_else(|| {
            Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "too many open event streams (limit per client: {})",
                    self.most_each
                ),
            )
            .hint("close streams that are no longer read")
            .retry_after(5)
        })
    }
}

/// Attaches a permit to a response, held until its body has been sent or dropped.
pub(crate) fn hold(response: Response, permit: Permit<String>) -> Response {
    response.map(|body| {
        let stream = body.into_data_stream().map(move |part| {
            let _held = &permit;
            part
        });
        Body::from_stream(stream)
    })
}

/// MCP sessions per caller. The SDK owns the sessions and ends them after [`IDLE`] without a message.
#[derive(Debug)]
pub(crate) struct McpSessions {
    known: Mutex<HashMap<String, (String, Instant)>>,
    most: usize,
    most_each: usize,
}

/// Idle timeout of a session.
pub(crate) const IDLE: Duration = Duration::from_mins(5);

impl McpSessions {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self {
            known: Mutex::default(),
            most,
            most_each,
        }
    }

    /// Reserves a session for a caller under a reservation id.
    pub(crate) fn reserve(&self, caller: &str, reservation: &str) -> Result<(), Problem> {
        let mut known = lock(&self.known);
        let now = Instant::now();
        known.retain(|_, (_, used)| now.duration_since(*used) < IDLE);
        let own = known.values().filter(|(whose, _)| whose == caller).count();
        if own >= self.most_each || known.len() >= self.most {
            return Err(Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "too many open MCP sessions (limit per client: {})",
                    self.most_each
                ),
            )
            .hint("end a session with DELETE /mcp and its `Mcp-Session-Id`; idle sessions end after five minutes")
            .retry_after(30));
        }
        known.insert(reservation.to_owned(), (caller.to_owned(), now));
        Ok(())
    }

    /// Replaces the reservation with the session it became, or releases it.
    pub(crate) fn settle(&self, reservation: &str, session: Option<&str>) {
        let mut known = lock(&self.known);
        if let Some(entry) = known.remove(reservation)
            && let Some(session) = session
        {
            known.insert(session.to_owned(), entry);
        }
    }

    /// Records a message of this session.
    pub(crate) fn touch(&self, session: &str) {
        if let Some((_, used)) = lock(&self.known).get_mut(session) {
            *used = Instant::now();
        }
    }

    /// Removes a session that has ended.
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
    fn callers_have_a_share_of_a_total_limit() {
        let streams = Streams::new(5, 2);
        let held: Vec<_> = ["a", "a", "b", "b", "c"]
            .iter()
            .map(|caller| streams.admit(caller).unwrap())
            .collect();
        assert_eq!(streams.admit("c").unwrap_err().status, 429);
        drop(held);
        assert_eq!(streams.open_count(&"a".to_owned()), 0);
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
    fn sessions_count_until_they_end() {
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
