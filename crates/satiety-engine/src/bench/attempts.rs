//! Calls a target with caching, rate limiting and retries, and records every attempt.

use std::time::Duration;

use satiety::bench::contract::{AttemptRecord, Request, Response, TargetError};
use tokio::time::{Instant, sleep};

use super::cache::ResponseCache;
use super::limits::{Limits, RateLimiter};
use super::target::{Attempt, Target, Workdir};

/// Outcome of one case and repeat.
#[derive(Debug)]
pub struct TargetReply {
    /// The response, or the error of the last attempt.
    pub outcome: Result<Response, TargetError>,
    /// Duration of the last attempt; `None` for a cached response.
    pub latency: Option<Duration>,
    /// All attempts in order; empty for a cached response.
    pub attempts: Vec<AttemptRecord>,
    pub cached: bool,
    /// Working directory of the last attempt; deleted on drop.
    pub workdir: Option<Workdir>,
}

impl TargetReply {
    /// Number of attempts after the first.
    pub fn retries(&self) -> usize {
        self.attempts.len().saturating_sub(1)
    }
}

/// Response cache and the key to look up.
#[derive(Debug, Clone, Copy)]
pub struct Cached<'a> {
    pub cache: &'a dyn ResponseCache,
    /// Key from [`super::cache::cache_key`].
    pub key: &'a str,
}

/// Calls the target, with retries for transient errors. Sets `attempt` of the request for each attempt.
pub async fn ask(
    target: &Target,
    request: &mut Request,
    gate: &RateLimiter,
    limits: &Limits,
    cached: Option<Cached<'_>>,
) -> TargetReply {
    if let Some(cached) = cached
        && let Some(response) = cached.cache.get(cached.key).await
    {
        return TargetReply {
            outcome: Ok(response),
            latency: None,
            attempts: Vec::new(),
            cached: true,
            workdir: None,
        };
    }
    let mut attempts = Vec::with_capacity(1);
    let mut wait_from = Instant::now();
    loop {
        request.attempt = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        let pass = gate.enter(expected_tokens(request)).await;
        let waited = wait_from.elapsed();
        let mut attempt = target.call(request).await;
        let heard = match &attempt.outcome {
            Ok(response) => Ok(response.usage),
            Err(error) => Err(error),
        };
        gate.settle(pass, heard);
        let pause = attempt
            .outcome
            .as_ref()
            .err()
            .and_then(|error| pause_before_next(error, request, limits));
        attempts.push(record(&mut attempt, request.attempt, waited));
        if let Some(pause) = pause {
            // Delete the working directory of a failed attempt before the pause.
            drop(attempt);
            wait_from = Instant::now();
            sleep(pause).await;
            continue;
        }
        if let (Some(cached), Ok(response)) = (cached, &attempt.outcome) {
            cached.cache.put(cached.key, response).await;
        }
        return TargetReply {
            outcome: attempt.outcome,
            latency: Some(attempt.latency),
            attempts,
            cached: false,
            workdir: attempt.workdir,
        };
    }
}

/// Backoff before the next attempt; `None` if the error is permanent or no attempt is left.
fn pause_before_next(error: &TargetError, request: &Request, limits: &Limits) -> Option<Duration> {
    if !error.kind.retryable() || request.attempt >= limits.max_retries {
        return None;
    }
    let longest = limits.longest_pause_ms;
    let asked = error.retry_after_ms.unwrap_or(0);
    if asked > longest {
        return None;
    }
    let doubled = limits
        .first_pause_ms
        .saturating_mul(1 << request.attempt.min(20))
        .min(longest);
    // Jitter half of the pause with a deterministic value per case, so that calls that failed together do not
    // retry together and runs with the same seed pause alike.
    let spread = mix(request.seed ^ (u64::from(request.attempt) << 32) ^ u64::from(request.repeat));
    let half = doubled / 2;
    let own = half + spread % (half + 1);
    Some(Duration::from_millis(own.max(asked)))
}

/// The finaliser of `SplitMix64`: neighbouring seeds give dissimilar values.
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Four bytes per token and as much again for the response: a guess until the target reports its usage.
fn expected_tokens(request: &Request) -> f64 {
    let input = &request.input;
    let bytes = input.goal.len()
        + input
            .messages
            .iter()
            .map(|message| message.content.len())
            .sum::<usize>();
    bytes as f64 / 2.0
}

fn record(attempt: &mut Attempt, number: u32, waited: Duration) -> AttemptRecord {
    AttemptRecord {
        attempt: number,
        waited_ms: waited.as_secs_f64() * 1000.0,
        latency_ms: attempt.latency.as_secs_f64() * 1000.0,
        error: attempt.outcome.as_ref().err().cloned(),
        exit: attempt.exit,
        stderr: std::mem::take(&mut attempt.stderr),
    }
}

#[cfg(test)]
mod tests {
    use satiety::bench::contract::ErrorKind;

    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_respect_retry_after() {
        let limits = Limits {
            max_retries: 10,
            first_pause_ms: 100,
            longest_pause_ms: 1000,
            ..Limits::default()
        };
        let busy = TargetError::new(ErrorKind::RateLimit, "");
        for (attempt, low, high) in [
            (0, 50, 100),
            (1, 100, 200),
            (2, 200, 400),
            (3, 400, 800),
            (9, 500, 1000),
        ] {
            for seed in 0..50 {
                let request = Request {
                    attempt,
                    seed,
                    ..Request::default()
                };
                let pause = pause_before_next(&busy, &request, &limits).unwrap().as_millis();
                assert!((low..=high).contains(&pause), "attempt {attempt}: {pause}");
            }
        }
        let at = |attempt, kind, retry_after_ms| {
            let request = Request {
                attempt,
                ..Request::default()
            };
            let error = TargetError {
                retry_after_ms,
                ..TargetError::new(kind, "")
            };
            pause_before_next(&error, &request, &limits)
        };
        assert_eq!(
            at(0, ErrorKind::RateLimit, Some(900)),
            Some(Duration::from_millis(900))
        );
        assert_eq!(
            at(0, ErrorKind::RateLimit, Some(1001)),
            None,
            "longer than the longest pause"
        );
        assert_eq!(at(10, ErrorKind::Infra, None), None, "no attempt left");
        for kind in [
            ErrorKind::Timeout,
            ErrorKind::Target,
            ErrorKind::Refusal,
            ErrorKind::Harness,
        ] {
            assert_eq!(at(0, kind, None), None, "{kind:?}");
        }
    }
}
