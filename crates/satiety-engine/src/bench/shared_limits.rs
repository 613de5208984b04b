//! Rate limit of a target that all workers on a database share.
//!
//! A worker takes permits for the calls that wait, and for about half a second of calls ahead, in one
//! transaction. Permits are time slots of the database's clock: a permit is used only within its slot, so
//! that the sum over all workers stays below the limit in every minute, also if workers die with permits.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use satiety::bench::rate::RateLimit;
use satiety_store::Store;
use satiety_store::rates::{PermitRequest, TimedReservation};
use tokio::time::{Instant, sleep, sleep_until};

use super::attempts::mix;
use super::leases::WaitingSlot;
use super::limits::Limits;
use super::outage::answered;

/// How long a worker's calls are covered by the permits that it takes at once.
const AHEAD: Duration = Duration::from_millis(500);
/// Maximum number of permits that a worker takes at once.
const MOST: usize = 1000;
/// How long the database may take to reserve permits. A connection that was cut must not stop all calls.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Pause after an error of the database. Without a permit no call starts.
const OUTAGE_PAUSE: Duration = Duration::from_millis(500);
/// Longest jitter of a retry. Slots are given out a second ahead, so that it costs no slot.
const MAX_JITTER: Duration = Duration::from_millis(500);

/// Limit that is kept in the database.
#[derive(Debug)]
pub(super) struct SharedLimit {
    store: Store,
    /// Name of the limit, the same on all workers.
    name: String,
    limit: RateLimit,
    /// Differs between workers, so that their retries do.
    seed: u64,
    permits: tokio::sync::Mutex<Permits>,
    waiting: AtomicUsize,
    usage: Mutex<TokenUse>,
}

/// Permits that this worker holds.
#[derive(Debug, Default)]
struct Permits {
    ready: VecDeque<LocalPermit>,
    used: usize,
    fetched: Option<Instant>,
    retries: u64,
}

/// Permit in the time of this machine.
#[derive(Debug, Clone, Copy)]
struct LocalPermit {
    start: Instant,
    end: Instant,
    tokens: f64,
}

/// Tokens of past calls.
#[derive(Debug, Default)]
struct TokenUse {
    typical: Option<f64>,
    /// Tokens used beyond the reservations since the last transaction.
    owed: f64,
}

impl SharedLimit {
    pub(super) fn new(store: Store, name: String, limits: &Limits) -> Self {
        Self {
            store,
            name,
            limit: RateLimit {
                requests_per_minute: limits.requests_per_minute,
                tokens_per_minute: limits.tokens_per_minute,
            },
            seed: uuid::Uuid::now_v7().as_u64_pair().1,
            permits: tokio::sync::Mutex::default(),
            waiting: AtomicUsize::new(0),
            usage: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a permit and its slot; returns the tokens that are reserved for the call.
    pub(super) async fn enter(&self, expected_tokens: f64) -> f64 {
        if !self.limit.is_limited() {
            return 0.0;
        }
        let tokens = self.usage().typical.unwrap_or(expected_tokens);
        loop {
            let permit = self.next_permit(tokens).await;
            sleep_until(permit.start).await;
            // A permit whose slot has passed is lost: its place may have been counted in another minute.
            if Instant::now() < permit.end {
                return permit.tokens;
            }
        }
    }

    async fn next_permit(&self, tokens: f64) -> LocalPermit {
        let waiting = WaitingSlot::new(&self.waiting);
        let mut permits = self.permits.lock().await;
        let mut reported = false;
        loop {
            let now = Instant::now();
            permits.ready.retain(|permit| permit.end > now);
            if let Some(permit) = permits.ready.pop_front() {
                permits.used += 1;
                return permit;
            }
            let count = waiting.count().max(permits.expected(now)).min(MOST);
            let owed_tokens = std::mem::take(&mut self.usage().owed);
            let request = PermitRequest {
                name: &self.name,
                limit: self.limit,
                count,
                tokens,
                owed_tokens,
            };
            let reserving = self.store.rates().reserve(&request);
            match answered(&self.store, ANSWER_LIMIT, reserving).await {
                Ok(reserved) => {
                    let retry = permits.add(now, &reserved, tokens);
                    if permits.ready.is_empty() {
                        permits.retries += 1;
                        let wait = retry.saturating_duration_since(Instant::now());
                        sleep_until(retry + jitter(wait, mix(self.seed ^ permits.retries))).await;
                    }
                }
                Err(error) => {
                    self.usage().owed += owed_tokens;
                    if !std::mem::replace(&mut reported, true) {
                        tracing::warn!("cannot reserve calls of the target: {error}; retrying");
                    }
                    sleep(OUTAGE_PAUSE).await;
                }
            }
        }
    }

    /// Corrects the reserved tokens of a call; the next transaction writes the difference.
    pub(super) fn learn(&self, reserved: f64, used: f64) {
        if self.limit.tokens_per_minute.is_none() {
            return;
        }
        let mut usage = self.usage();
        usage.owed += used - reserved;
        usage.typical = Some(usage.typical.map_or(used, |typical| 0.8 * typical + 0.2 * used));
    }

    /// Writes the difference of the last calls, which no later transaction of this worker would.
    pub(super) async fn flush(&self) {
        let owed_tokens = std::mem::take(&mut self.usage().owed);
        if owed_tokens.abs() < 1.0 {
            return;
        }
        let request = PermitRequest {
            name: &self.name,
            limit: self.limit,
            count: 0,
            tokens: 0.0,
            owed_tokens,
        };
        let correcting = self.store.rates().reserve(&request);
        if let Err(error) = answered(&self.store, ANSWER_LIMIT, correcting).await {
            tracing::warn!("cannot record the tokens of the last calls: {error}");
        }
    }

    /// Lets all workers pause, in the background.
    pub(super) fn pause(&self, pause: Duration) {
        let (store, name) = (self.store.clone(), self.name.clone());
        tokio::spawn(async move {
            if let Err(error) = store.rates().pause(&name, pause).await {
                tracing::warn!("cannot pause the calls of other workers: {error}");
            }
        });
    }

    fn usage(&self) -> MutexGuard<'_, TokenUse> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permits {
    /// Calls to expect in [`AHEAD`], at the rate since the last transaction.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    fn expected(&self, now: Instant) -> usize {
        let Some(fetched) = self.fetched else { return 0 };
        let elapsed = now.duration_since(fetched).as_secs_f64().max(0.01);
        (self.used as f64 / elapsed * AHEAD.as_secs_f64()) as usize
    }

    /// Adds permits that were asked for at `sent`; returns when to ask again. The database read its clock
    /// after `sent` and before now: a slot starts no earlier and ends no later than there.
    fn add(&mut self, sent: Instant, reserved: &TimedReservation, tokens: f64) -> Instant {
        let received = Instant::now();
        let after = |from: Instant, time: i64| from + micros(time - reserved.now);
        self.ready
            .extend(reserved.reservation.permits.iter().map(|permit| LocalPermit {
                start: after(received, permit.start),
                end: after(sent, permit.end),
                tokens,
            }));
        (self.used, self.fetched) = (0, Some(sent));
        after(received, reserved.reservation.retry_at)
    }
}

fn micros(time: i64) -> Duration {
    Duration::from_micros(u64::try_from(time).unwrap_or(0))
}

/// Time to add to a wait: up to half of it. All workers without a permit are told the same time to retry at.
fn jitter(wait: Duration, random: u64) -> Duration {
    let most = (wait / 2).min(MAX_JITTER).as_micros();
    Duration::from_micros(random % (u64::try_from(most).unwrap_or(0) + 1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn retries_of_workers_are_spread_over_half_of_the_wait() {
        let millis = Duration::from_millis;
        for (wait, most) in [
            (millis(0), millis(0)),
            (millis(100), millis(50)),
            (millis(30_000), MAX_JITTER),
        ] {
            let spread: BTreeSet<Duration> = (0..100).map(|seed| jitter(wait, mix(seed ^ 1))).collect();
            assert!(spread.iter().all(|added| *added <= most), "{spread:?}");
            assert!(wait.is_zero() || spread.len() > 90, "{spread:?}");
            let halves = |added: &&Duration| **added > most / 2;
            let late = spread.iter().filter(halves).count();
            assert!(wait.is_zero() || (25..=75).contains(&late), "{late}");
        }
    }
}
