//! Circuit breaker: opens for five minutes after three failures within five minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of failures that open the breaker.
const MAX_FAILURES: usize = 3;
/// Window in which failures are counted, and how long the breaker stays open.
const WINDOW: Duration = Duration::from_mins(5);

/// Tracks failures. The caller passes the current time.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: VecDeque<Instant>,
}

impl Breaker {
    /// Returns true if calls are allowed now.
    pub fn is_closed(&mut self, now: Instant) -> bool {
        self.drop_expired(now);
        self.failures.len() < MAX_FAILURES
    }

    /// Records a failure.
    pub fn failed(&mut self, now: Instant) {
        self.drop_expired(now);
        self.failures.push_back(now);
    }

    /// Records a success, which resets the failures.
    pub fn succeeded(&mut self) {
        self.failures.clear();
    }

    fn drop_expired(&mut self, now: Instant) {
        while self
            .failures
            .front()
            .is_some_and(|at| now.duration_since(*at) >= WINDOW)
        {
            self.failures.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_five_minutes_open_the_breaker() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut breaker = Breaker::default();
        breaker.failed(after(0));
        breaker.failed(after(200));
        assert!(breaker.is_closed(after(200)));
        // The first failure has left the window by then.
        breaker.failed(after(301));
        assert!(breaker.is_closed(after(301)));
        breaker.failed(after(302));
        assert!(!breaker.is_closed(after(302)) && !breaker.is_closed(after(499)));
        assert!(breaker.is_closed(after(500)));
        breaker.failed(after(501));
        assert!(!breaker.is_closed(after(501)));
        breaker.succeeded();
        assert!(breaker.is_closed(after(501)));
    }
}
