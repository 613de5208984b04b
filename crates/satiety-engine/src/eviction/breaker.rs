//! A circuit breaker: after three failures within five minutes nobody asks for a while.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Failures that open it.
const FAILURES: usize = 3;
/// Within which time, and how long it stays open.
const WINDOW: Duration = Duration::from_mins(5);

/// Remembers failures. Time comes in as an argument.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: VecDeque<Instant>,
}

impl Breaker {
    /// Whether it may be asked now.
    pub fn is_closed(&mut self, now: Instant) -> bool {
        self.forget(now);
        self.failures.len() < FAILURES
    }

    /// Notes a failure.
    pub fn failed(&mut self, now: Instant) {
        self.forget(now);
        self.failures.push_back(now);
    }

    /// Notes a success: what failed before counts no more.
    pub fn succeeded(&mut self) {
        self.failures.clear();
    }

    fn forget(&mut self, now: Instant) {
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
    fn three_failures_in_five_minutes_open_it() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut breaker = Breaker::default();
        breaker.failed(after(0));
        breaker.failed(after(200));
        assert!(breaker.is_closed(after(200)));
        // The first is forgotten by then.
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
