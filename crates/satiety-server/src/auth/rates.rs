//! Rate limits per token, or per address without one, and limits for invalid tokens.

use std::net::IpAddr;
use std::num::NonZeroU32;

use axum::http::StatusCode;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Caller;
use crate::http::Problem;

/// Invalid tokens per address and minute.
const MAX_FAILURES: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// Number of tracked callers above which idle ones are dropped.
const MAX_TRACKED_CALLERS: usize = 10_000;

/// Rate limits of one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSettings {
    /// Requests per second; `None` for no limit.
    pub per_second: Option<NonZeroU32>,
    /// Burst size in requests.
    pub burst: NonZeroU32,
}

/// Rate limiter with one bucket per caller.
#[derive(Debug)]
pub(crate) struct Rates {
    requests: Option<DefaultKeyedRateLimiter<String>>,
    failures: DefaultKeyedRateLimiter<IpAddr>,
    clock: DefaultClock,
}

impl Rates {
    pub(crate) fn new(settings: RateSettings) -> Self {
        Self {
            requests: settings
                .per_second
                .map(|rate| RateLimiter::keyed(Quota::per_second(rate).allow_burst(settings.burst))),
            failures: RateLimiter::keyed(Quota::per_minute(MAX_FAILURES)),
            clock: DefaultClock::default(),
        }
    }

    pub(crate) fn request(&self, caller: Option<&Caller>, address: IpAddr) -> Result<(), Problem> {
        let Some(limiter) = &self.requests else {
            return Ok(());
        };
        if limiter.len() > MAX_TRACKED_CALLERS {
            limiter.retain_recent();
        }
        let key = match caller {
            Some(caller) => caller.key(),
            None => address.to_string(),
        };
        limiter
            .check_key(&key)
            .map_err(|early| too_many(early.wait_time_from(self.clock.now())))
    }

    /// Counts an invalid token; fails if there are too many from one address.
    pub(crate) fn failed(&self, address: IpAddr) -> Result<(), Problem> {
        if self.failures.len() > MAX_TRACKED_CALLERS {
            self.failures.retain_recent();
        }
        self.failures
            .check_key(&address)
            .map_err(|early| too_many(early.wait_time_from(self.clock.now())))
    }
}

fn too_many(wait: std::time::Duration) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate limit exceeded").retry_after(wait.as_secs() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_own_rate() {
        let two = NonZeroU32::new(2).unwrap();
        let rates = Rates::new(RateSettings {
            per_second: NonZeroU32::new(1),
            burst: two,
        });
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert!(rates.request(None, here).is_ok());
        assert!(rates.request(None, here).is_ok());
        let problem = rates.request(None, here).unwrap_err();
        assert_eq!(
            (problem.status, problem.retry_after.map(u32::from)),
            (429, Some(1))
        );
        assert!(rates.request(None, there).is_ok());
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let rates = Rates::new(RateSettings {
            per_second: None,
            burst: NonZeroU32::MIN,
        });
        for _ in 0..1000 {
            assert!(rates.request(None, IpAddr::from([10, 0, 0, 1])).is_ok());
        }
    }
}
