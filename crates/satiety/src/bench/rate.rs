//! Rate limit that several processes share: permits for calls, each valid for a short time.
//!
//! A permit is a time slot. Slots are spaced so that, wherever within its slot each call starts, no window of
//! a minute has more calls than the limit. A process takes the slots of the next moments only: those of a
//! process that dies pass unused, and nothing has to be returned.
//!
//! Times are microseconds of one clock, that of the database; this module never reads a clock.

/// Length of a window in microseconds.
const MINUTE: i64 = 60_000_000;
/// How long a permit is valid.
pub const VALIDITY: i64 = 2_000_000;
/// How far slots that no process took reach into the past: a burst after a pause.
const BURST: i64 = 1_000_000;
/// How far ahead slots are given out.
const HORIZON: i64 = 1_000_000;
/// Longest time that one call may reserve: a limit of one token a minute must not block a target permanently.
const LONGEST: i64 = 3_600_000_000;

/// Calls and tokens that may start in any minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Maximum number of requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Maximum number of input and output tokens per minute.
    pub tokens_per_minute: Option<u64>,
}

impl RateLimit {
    /// Whether calls need permits at all.
    pub fn is_limited(self) -> bool {
        self.requests_per_minute.is_some() || self.tokens_per_minute.is_some()
    }

    /// Time between two requests. A window of a minute overlaps the slots of a minute and a validity, so
    /// that the interval is a little longer than a minute divided by the limit.
    fn request_interval(self) -> i64 {
        self.requests_per_minute
            .map_or(0, |rate| (MINUTE + VALIDITY) / i64::from(rate.max(1)) + 1)
    }

    /// Time that the tokens of one call take.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "limited to an hour; a rate is far below 2^52"
    )]
    fn token_interval(self, tokens: f64) -> i64 {
        self.tokens_per_minute.map_or(0, |rate| {
            let interval = (MINUTE + VALIDITY) as f64 * tokens.max(0.0) / rate.max(1) as f64;
            (interval.min(LONGEST as f64)) as i64
        })
    }
}

/// Permission to start one call from `start` until `end`, exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// Earliest time of the call.
    pub start: i64,
    /// Time when the permit expires.
    pub end: i64,
}

/// State of a shared limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateBucket {
    /// Start of the next free slot for a request.
    pub requests_at: i64,
    /// Time when all reserved tokens are paid off.
    pub tokens_at: i64,
    /// No call starts before this time: the target asked for a pause.
    pub paused_until: i64,
}

/// Permits that were reserved; without any, the time to ask again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Permits, earliest first.
    pub permits: Vec<Permit>,
    /// Time from which another permit can be reserved.
    pub retry_at: i64,
}

impl RateBucket {
    /// Reserves up to `count` permits for calls of `tokens` each.
    ///
    /// ```
    /// use satiety::bench::rate::{RateBucket, RateLimit};
    /// let limit = RateLimit { requests_per_minute: Some(60), tokens_per_minute: None };
    /// let mut bucket = RateBucket::default();
    /// let first = bucket.reserve(limit, 10_000_000, 100, 0.0);
    /// assert_eq!(first.permits.len(), 2);
    /// assert!(bucket.reserve(limit, 10_000_000, 1, 0.0).permits.is_empty());
    /// ```
    pub fn reserve(&mut self, limit: RateLimit, now: i64, count: usize, tokens: f64) -> Reservation {
        let (request, token) = (limit.request_interval(), limit.token_interval(tokens));
        let mut permits = Vec::new();
        loop {
            let earliest = self.requests_at.max(self.tokens_at).max(now - BURST);
            // A pause ends a burst, too.
            let start = if self.paused_until > now {
                earliest.max(self.paused_until)
            } else {
                earliest
            };
            if permits.len() >= count || start > now + HORIZON {
                return Reservation {
                    permits,
                    retry_at: start - HORIZON,
                };
            }
            if limit.requests_per_minute.is_some() {
                self.requests_at = start + request;
            }
            if limit.tokens_per_minute.is_some() {
                self.tokens_at = start + token;
            }
            permits.push(Permit {
                start,
                end: start + VALIDITY,
            });
        }
    }

    /// Corrects the reserved tokens by the difference to what the calls used: positive if they used more.
    pub fn correct(&mut self, limit: RateLimit, tokens: f64) {
        let interval = limit.token_interval(tokens.abs());
        self.tokens_at += if tokens < 0.0 { -interval } else { interval };
    }

    /// Lets no call start before `until`.
    pub fn pause(&mut self, until: i64) {
        self.paused_until = self.paused_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn most_in_a_minute(mut calls: Vec<i64>) -> usize {
        calls.sort_unstable();
        let mut first = 0;
        let mut most = 0;
        for last in 0..calls.len() {
            while calls[last] - calls[first] >= MINUTE {
                first += 1;
            }
            most = most.max(last - first + 1);
        }
        most
    }

    proptest! {
        /// Workers reserve at any time, use their permits at any moment of their validity, or die with them;
        /// calls use more or fewer tokens than reserved, and the target asks for pauses.
        #[test]
        fn no_minute_has_more_calls_than_the_limit(
            rate in 1_u32..300,
            tokens in proptest::option::of(1_u64..10_000),
            steps in proptest::collection::vec(
                (0_i64..4_000_000, 1_usize..40, 0.0_f64..1.0, proptest::bool::weighted(0.1), -50.0_f64..50.0),
                1..400,
            ),
        ) {
            let limit = RateLimit { requests_per_minute: Some(rate), tokens_per_minute: tokens };
            let mut bucket = RateBucket::default();
            let (mut now, mut calls) = (1_000_000_000, Vec::new());
            for (gap, count, share, dies, correction) in steps {
                now += gap;
                let reserved = bucket.reserve(limit, now, count, 20.0);
                prop_assert!(reserved.permits.len() <= count);
                prop_assert!(!reserved.permits.is_empty() || reserved.retry_at > now);
                for permit in reserved.permits {
                    let first = permit.start.max(now);
                    prop_assert!(first < permit.end);
                    if !dies {
                        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "two seconds")]
                        calls.push(first + ((permit.end - 1 - first) as f64 * share) as i64);
                    }
                }
                bucket.correct(limit, correction);
                if dies {
                    bucket.pause(now + gap);
                }
            }
            prop_assert!(most_in_a_minute(calls) <= rate as usize);
        }

        #[test]
        fn a_busy_process_gets_nearly_the_whole_limit(rate in 30_u32..3000) {
            let limit = RateLimit { requests_per_minute: Some(rate), tokens_per_minute: None };
            let mut bucket = RateBucket::default();
            let (begin, mut calls) = (1_000_000_000, 0);
            let mut now = begin;
            while now < begin + 10 * MINUTE {
                let reserved = bucket.reserve(limit, now, 16, 0.0);
                calls += reserved.permits.len();
                now = reserved.retry_at.max(now + 1000);
            }
            prop_assert!(calls as f64 >= 0.95 * 10.0 * f64::from(rate), "{calls} of {}", 10 * rate);
        }
    }

    #[test]
    fn tokens_delay_the_next_call_and_are_corrected() {
        let limit = RateLimit {
            requests_per_minute: None,
            tokens_per_minute: Some(6200),
        };
        let mut bucket = RateBucket::default();
        let now = 100 * MINUTE;
        // 1000 tokens take ten seconds.
        assert_eq!(bucket.reserve(limit, now, 2, 1000.0).permits.len(), 1);
        assert_eq!(bucket.tokens_at, now - BURST + 10_000_000);
        bucket.correct(limit, -500.0);
        assert_eq!(bucket.tokens_at, now - BURST + 5_000_000);
        bucket.correct(limit, 1000.0);
        assert_eq!(bucket.tokens_at, now - BURST + 15_000_000);
        assert!(bucket.reserve(limit, now, 1, 1.0).permits.is_empty());
    }

    #[test]
    fn a_pause_stops_all_permits() {
        let limit = RateLimit {
            requests_per_minute: Some(600),
            tokens_per_minute: None,
        };
        let (mut bucket, now) = (RateBucket::default(), 100 * MINUTE);
        bucket.pause(now + 30_000_000);
        bucket.pause(now + 10_000_000);
        let reserved = bucket.reserve(limit, now, 5, 0.0);
        assert_eq!((reserved.permits.len(), reserved.retry_at), (0, now + 29_000_000));
        let later = bucket.reserve(limit, now + 29_500_000, 50, 0.0);
        assert!(!later.permits.is_empty());
        assert!(
            later
                .permits
                .iter()
                .all(|permit| permit.start >= now + 30_000_000)
        );
    }
}
