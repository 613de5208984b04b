//! Rate limiter for calls to a target: concurrency, requests and tokens per minute, with backoff when the
//! target reports a rate limit.
//!
//! There is no polling: a call waits for a permit, then sleeps until its reserved slot. The arithmetic is in
//! `Lane` and `Window`, which take the time as an argument. The calls of workers are limited together
//! (`SharedLimit`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use satiety::bench::contract::{ErrorKind, TargetError, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

use super::shared_limits::SharedLimit;

/// Rate limits and retries for calls to a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum number of concurrent calls.
    pub concurrency: u32,
    /// Maximum number of requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Maximum number of input and output tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Maximum number of retries after a transient failure.
    pub max_retries: u32,
    /// Pause before the first retry, in milliseconds; it doubles each time.
    pub first_pause_ms: u64,
    /// Longest pause, in milliseconds. A target that asks for a longer one is not retried.
    pub longest_pause_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrency: 4,
            requests_per_minute: None,
            tokens_per_minute: None,
            max_retries: 3,
            first_pause_ms: 500,
            longest_pause_ms: 60_000,
        }
    }
}

/// Rate limiter for all calls to one target.
#[derive(Debug)]
pub struct RateLimiter {
    permits: Semaphore,
    state: Mutex<State>,
    begun: Instant,
    longest_pause_ms: u64,
    /// Limit of all workers, instead of the lanes of this process.
    shared: Option<SharedLimit>,
}

#[derive(Debug)]
struct State {
    window: Window,
    requests: Option<Lane>,
    tokens: Option<TokenLane>,
    /// No call starts before this time.
    resume_at: Duration,
    /// Permits in use that will be removed on return.
    debt: usize,
}

/// Permission for one call. Return it with [`RateLimiter::settle`]; dropping it returns the permit without
/// reporting an outcome.
#[derive(Debug)]
pub struct Pass<'a> {
    gate: &'a RateLimiter,
    permit: Option<SemaphorePermit<'a>>,
    issued: Duration,
    tokens: f64,
}

impl RateLimiter {
    /// Creates a limiter; a concurrency of 0 counts as 1.
    pub fn new(limits: &Limits) -> Self {
        let concurrency = limits.concurrency.max(1);
        Self {
            permits: Semaphore::new(concurrency as usize),
            state: Mutex::new(State {
                window: Window::new(f64::from(concurrency)),
                requests: limits
                    .requests_per_minute
                    .map(|rate| Lane::new(f64::from(rate.max(1)))),
                tokens: limits.tokens_per_minute.map(|rate| TokenLane {
                    lane: Lane::new(rate.max(1) as f64),
                    typical: None,
                }),
                resume_at: Duration::ZERO,
                debt: 0,
            }),
            begun: Instant::now(),
            longest_pause_ms: limits.longest_pause_ms,
            shared: None,
        }
    }

    /// Creates a limiter whose requests and tokens per minute count for all workers together.
    pub(super) fn shared(limits: &Limits, shared: SharedLimit) -> Self {
        let own = Limits {
            requests_per_minute: None,
            tokens_per_minute: None,
            ..limits.clone()
        };
        Self {
            shared: Some(shared),
            ..Self::new(&own)
        }
    }

    /// Name of the limit that all workers share; `None` for a limit of this process.
    pub(super) fn shared_name(&self) -> Option<&str> {
        self.shared.as_ref().map(SharedLimit::name)
    }

    /// Lets no call start for this time: the target asked another worker for a pause.
    pub(super) fn pause(&self, pause: Duration) {
        let until = self.begun.elapsed() + pause;
        let mut state = self.state();
        state.resume_at = state.resume_at.max(until);
    }

    /// Records the tokens of the last calls in the limit that all workers share.
    pub(super) async fn flush(&self) {
        if let Some(shared) = &self.shared {
            shared.flush().await;
        }
    }

    /// Waits until a call may be made. `expected_tokens` is a guess for the first calls; later the target's
    /// mean is used.
    pub async fn enter(&self, expected_tokens: f64) -> Pass<'_> {
        // The semaphore is never closed, so `acquire` cannot fail; if it did, the call would proceed without
        // a permit.
        let permit = self.permits.acquire().await.ok();
        let mut tokens = 0.0;
        let mut wait = self.reserve(expected_tokens, &mut tokens);
        if let Some(shared) = &self.shared {
            loop {
                // The pause first: a permit is valid for a short time only.
                sleep(wait).await;
                tokens = shared.enter(expected_tokens).await;
                wait = self.state().resume_at.saturating_sub(self.begun.elapsed());
                if wait.is_zero() {
                    break;
                }
            }
        } else if !wait.is_zero() {
            sleep(wait).await;
        }
        Pass {
            gate: self,
            permit,
            issued: self.begun.elapsed(),
            tokens,
        }
    }

    /// Reserves a slot in the lanes of this process; returns the time until then.
    fn reserve(&self, expected_tokens: f64, tokens: &mut f64) -> Duration {
        let now = self.begun.elapsed();
        let mut state = self.state();
        *tokens = state
            .tokens
            .as_ref()
            .map_or(0.0, |lane| lane.typical.unwrap_or(expected_tokens));
        let mut at = state.resume_at.max(now);
        if let Some(lane) = &mut state.requests {
            at = at.max(lane.reserve(now, 1.0));
        }
        if let Some(lane) = &mut state.tokens {
            at = at.max(lane.lane.reserve(now, *tokens));
        }
        at.saturating_sub(now)
    }

    /// Records the outcome of a call and returns the permit.
    pub fn settle(&self, pass: Pass<'_>, outcome: Result<Option<Usage>, &TargetError>) {
        let now = self.begun.elapsed();
        let mut state = self.state();
        match outcome {
            Ok(usage) => {
                let before = state.window.size();
                state.window.grow();
                let more = state.window.size().saturating_sub(before);
                let forgiven = more.min(state.debt);
                state.debt -= forgiven;
                self.permits.add_permits(more - forgiven);
                if let Some(used) = usage.and_then(|usage| usage.total_tokens()) {
                    if let Some(lane) = &mut state.tokens {
                        lane.learn(pass.tokens, used as f64);
                    }
                    if let Some(shared) = &self.shared {
                        shared.learn(pass.tokens, used as f64);
                    }
                }
            }
            Err(error) if matches!(error.kind, ErrorKind::RateLimit | ErrorKind::Overloaded) => {
                // A pause longer than the limit must not block all other calls either: one response could
                // stall the run.
                if let Some(pause) = error
                    .retry_after_ms
                    .filter(|pause| *pause <= self.longest_pause_ms)
                {
                    let pause = Duration::from_millis(pause);
                    state.resume_at = state.resume_at.max(now + pause);
                    if let Some(shared) = &self.shared {
                        shared.pause(pause);
                    }
                }
                let before = state.window.size();
                state.window.cut(now, pass.issued);
                let fewer = before.saturating_sub(state.window.size());
                let gone = self.permits.forget_permits(fewer);
                state.debt += fewer - gone;
            }
            Err(_) => {}
        }
        drop(state);
        drop(pass);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if state.debt > 0
            && let Some(permit) = self.permit.take()
        {
            state.debt -= 1;
            permit.forget();
        }
    }
}

/// Adaptive concurrency: grows by one per round of successes, halves when the target reports a rate limit
/// (additive increase, multiplicative decrease).
#[derive(Debug, Clone, PartialEq)]
struct Window {
    allowed: f64,
    most: f64,
    last_cut: Option<Duration>,
}

impl Window {
    fn new(most: f64) -> Self {
        Self {
            allowed: most,
            most,
            last_cut: None,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and a u32"
    )]
    fn size(&self) -> usize {
        self.allowed as usize
    }

    fn grow(&mut self) {
        self.allowed = (self.allowed + 1.0 / self.allowed).min(self.most);
    }

    /// Calls that were in flight when the window shrank do not count against the smaller one.
    fn cut(&mut self, now: Duration, issued: Duration) {
        if self.last_cut.is_none_or(|cut| issued > cut) {
            self.allowed = (self.allowed / 2.0).max(1.0);
            self.last_cut = Some(now);
        }
    }
}

/// Rate as a queue of slots (the generic cell rate algorithm), with bursts of up to two seconds' worth.
#[derive(Debug, Clone, PartialEq)]
struct Lane {
    /// Seconds per unit.
    unit: f64,
    /// Time, in seconds since the start, when all admitted units are paid off.
    paid: f64,
    burst: f64,
}

impl Lane {
    const BURST_SECONDS: f64 = 2.0;

    fn new(per_minute: f64) -> Self {
        let unit = 60.0 / per_minute;
        Self {
            unit,
            paid: 0.0,
            burst: Self::BURST_SECONDS,
        }
    }

    /// Reserves `cost` units and returns when they may proceed.
    fn reserve(&mut self, now: Duration, cost: f64) -> Duration {
        let now = now.as_secs_f64();
        let start = self.paid.max(now);
        self.paid = start + cost * self.unit;
        // A single call may exceed the burst, otherwise it could never proceed.
        Duration::try_from_secs_f64((self.paid - self.burst.max(cost * self.unit)).max(now))
            .unwrap_or_default()
    }
}

/// Token usage is known only after a call: it reserves the mean, and the difference is settled afterwards.
#[derive(Debug)]
struct TokenLane {
    lane: Lane,
    typical: Option<f64>,
}

impl TokenLane {
    fn learn(&mut self, reserved: f64, used: f64) {
        self.lane.paid += (used - reserved) * self.lane.unit;
        self.typical = Some(self.typical.map_or(used, |typical| 0.8 * typical + 0.2 * used));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lane_allows_a_burst_and_then_limits_the_rate() {
        let mut lane = Lane::new(60.0);
        let at: Vec<f64> = (0..5)
            .map(|_| lane.reserve(Duration::ZERO, 1.0).as_secs_f64())
            .collect();
        assert_eq!(at, [0.0, 0.0, 1.0, 2.0, 3.0]);
        // After a pause the full burst is available again.
        let later = Duration::from_secs(100);
        assert_eq!(lane.reserve(later, 1.0), later);
        assert_eq!(lane.reserve(later, 1.0), later);
        assert_eq!(lane.reserve(later, 1.0), later + Duration::from_secs(1));
        // A call larger than any burst proceeds, and the next one waits for it.
        let mut lane = Lane::new(60.0);
        assert_eq!(lane.reserve(Duration::ZERO, 30.0), Duration::ZERO);
        assert_eq!(lane.reserve(Duration::ZERO, 1.0), Duration::from_secs(29));
    }

    proptest! {
        #[test]
        fn no_minute_exceeds_the_rate_plus_a_burst(
            rate in 1_u32..600, gaps in proptest::collection::vec(0_u64..2000, 1..200)
        ) {
            let mut lane = Lane::new(f64::from(rate));
            let mut now = 0;
            let mut slots = Vec::new();
            for gap in gaps {
                now += gap;
                slots.push(lane.reserve(Duration::from_millis(now), 1.0).as_secs_f64());
            }
            let burst = (Lane::BURST_SECONDS * f64::from(rate) / 60.0).max(1.0);
            for (i, start) in slots.iter().enumerate() {
                let within = slots.iter().skip(i).filter(|slot| **slot < start + 60.0).count();
                prop_assert!(within as f64 <= f64::from(rate) + burst + 1.0);
            }
        }
    }

    #[test]
    fn a_window_halves_once_per_wave_and_grows_by_one_per_round() {
        let seconds = Duration::from_secs;
        let mut window = Window::new(16.0);
        window.cut(seconds(1), seconds(0));
        window.cut(seconds(1), seconds(0));
        assert_eq!(
            window.size(),
            8,
            "a second failure of the same wave does not count"
        );
        window.cut(seconds(3), seconds(2));
        assert_eq!(window.size(), 4);
        for _ in 0..5 {
            window.grow();
        }
        assert_eq!(window.size(), 5);
        for n in 4..20 {
            window.cut(seconds(n), seconds(n));
        }
        assert_eq!(window.size(), 1);
        for _ in 0..1000 {
            window.grow();
        }
        assert_eq!(window.size(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limit_errors_reduce_concurrency_and_delay_requests() {
        let gate = RateLimiter::new(&Limits {
            concurrency: 4,
            ..Limits::default()
        });
        let mut passes = Vec::new();
        for _ in 0..4 {
            passes.push(gate.enter(0.0).await);
        }
        assert!(gate.permits.try_acquire().is_err());
        let busy = TargetError {
            retry_after_ms: Some(5000),
            ..TargetError::new(ErrorKind::RateLimit, "slow down")
        };
        for pass in passes.drain(..) {
            gate.settle(pass, Err(&busy));
        }
        assert_eq!(
            (gate.state().window.size(), gate.permits.available_permits()),
            (2, 2)
        );
        let before = Instant::now();
        for _ in 0..20 {
            let pass = gate.enter(0.0).await;
            gate.settle(pass, Ok(None));
        }
        assert!(
            before.elapsed() >= Duration::from_secs(4),
            "Retry-After must delay all callers"
        );
        assert_eq!(
            (gate.state().window.size(), gate.permits.available_permits()),
            (4, 4)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn token_use_is_corrected_when_known() {
        let gate = RateLimiter::new(&Limits {
            tokens_per_minute: Some(6000),
            ..Limits::default()
        });
        let used = |tokens| Usage {
            output_tokens: Some(tokens),
            ..Usage::default()
        };
        let before = Instant::now();
        for _ in 0..5 {
            let pass = gate.enter(100.0).await;
            gate.settle(pass, Ok(Some(used(1000))));
        }
        // 5 x 1000 tokens at 100 per second, less the burst and the last call, which nothing waits for.
        let waited = before.elapsed().as_secs_f64();
        assert!((30.0..=50.0).contains(&waited), "{waited}");
    }
}
