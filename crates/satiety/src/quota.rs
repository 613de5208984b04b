//! Quotas of a tenant: how many requests, tokens of model work and bytes it may use, and what it has used.
//!
//! Several servers count for the same tenant. Each knows exactly what it admitted itself, and what all of them admitted
//! as of its last synchronization with the database. A quota is therefore exceeded at most by what the other servers
//! admit between two synchronizations, plus, for tokens, by the calls that are in progress when the limit is crossed.
//! Time is an argument, so that the same sequence of calls always has the same outcome.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds of a day; days start at midnight UTC.
pub const DAY_SECONDS: i64 = 24 * 60 * 60;
/// Length of the sliding window of requests, in seconds.
const WINDOW: usize = 60;
/// [`WINDOW`] as a time.
const WINDOW_SECONDS: i64 = 60;

/// Limits of a tenant; an absent one does not limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TenantQuotas")]
pub struct Quotas {
    /// Maximum number of requests in any 60 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub requests_per_minute: Option<u64>,
    /// Maximum number of requests per day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub requests_per_day: Option<u64>,
    /// Maximum number of tokens that models may process per day (UTC): embedded texts, and prompts and answers of chat
    /// models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub model_tokens_per_day: Option<u64>,
    /// Maximum size of the tenant's database in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub storage_bytes: Option<u64>,
}

/// Kind of quota, as messages and responses name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// The quota of requests in 60 seconds.
    RequestsPerMinute,
    /// The quota of requests per day.
    RequestsPerDay,
    /// The quota of tokens that models process per day.
    ModelTokensPerDay,
    /// The quota of bytes in the database.
    StorageBytes,
}

impl Quota {
    /// Returns the serialized name of the quota.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestsPerMinute => "requests_per_minute",
            Self::RequestsPerDay => "requests_per_day",
            Self::ModelTokensPerDay => "model_tokens_per_day",
            Self::StorageBytes => "storage_bytes",
        }
    }
}

/// A quota that does not allow any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The exhausted quota.
    pub quota: Quota,
    /// Limit of the quota.
    pub limit: u64,
    /// Usage that reached the limit.
    pub used: u64,
    /// Seconds until the same request can succeed; `None` if time alone does not help.
    pub retry_after: Option<u64>,
}

/// What a tenant used on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of admitted requests.
    pub requests: u64,
    /// Number of tokens that models processed.
    pub tokens: u64,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// Usage of one tenant as one process knows it. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Totals of a day as of the last synchronization.
    known: Option<(i64, Counts)>,
    /// Counted here and not yet part of a total, by day.
    unsent: BTreeMap<i64, Counts>,
    window: Window,
    /// Size of the database when it was last measured.
    storage_bytes: Option<u64>,
}

/// Requests of the last 60 seconds, in buckets of one second.
#[derive(Debug, Clone, Default)]
struct Window {
    /// Second and number of requests, oldest first; at most [`WINDOW`] entries.
    buckets: std::collections::VecDeque<(i64, u64)>,
}

impl Window {
    fn add(&mut self, count: u64, now: i64) {
        self.expire(now);
        match self.buckets.back_mut() {
            // A clock that was set back counts into the latest second.
            Some((second, requests)) if *second >= now => *requests = requests.saturating_add(count),
            _ => self.buckets.push_back((now, count)),
        }
        while self.buckets.len() > WINDOW {
            self.buckets.pop_front();
        }
    }

    fn expire(&mut self, now: i64) {
        while let Some((second, _)) = self.buckets.front()
            && *second <= now - WINDOW_SECONDS
        {
            self.buckets.pop_front();
        }
    }

    fn total(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum: u64, (_, requests)| sum.saturating_add(*requests))
    }

    /// Seconds until the number of requests is below `limit`.
    fn wait(&self, limit: u64, now: i64) -> u64 {
        let mut left = self.total();
        for (second, requests) in &self.buckets {
            left = left.saturating_sub(*requests);
            if left < limit {
                return u64::try_from(second + WINDOW_SECONDS - now).unwrap_or(1).max(1);
            }
        }
        WINDOW as u64
    }
}

/// Returns the day of a time, as the second at which it starts.
pub fn day_start(now: i64) -> i64 {
    now - now.rem_euclid(DAY_SECONDS)
}

impl Usage {
    /// Counts a request, unless a quota of requests is exhausted. A refused request is not counted.
    pub fn admit_request(&mut self, quotas: &Quotas, now: i64) -> Result<(), Exceeded> {
        self.window.expire(now);
        let exceeded = |quota, limit, used, wait| {
            Err(Exceeded {
                quota,
                limit,
                used,
                retry_after: Some(wait),
            })
        };
        let today = self.today(now).requests;
        if let Some(limit) = quotas.requests_per_day.filter(|limit| today >= *limit) {
            return exceeded(Quota::RequestsPerDay, limit, today, until_tomorrow(now));
        }
        let recent = self.window.total();
        if let Some(limit) = quotas.requests_per_minute.filter(|limit| recent >= *limit) {
            let wait = self.window.wait(limit, now);
            return exceeded(Quota::RequestsPerMinute, limit, recent, wait);
        }
        self.window.add(1, now);
        self.count(
            now,
            Counts {
                requests: 1,
                tokens: 0,
            },
        );
        Ok(())
    }

    /// Checks that models may still work for the tenant. Calls in progress when the limit is crossed are completed.
    pub fn admit_model_work(&self, quotas: &Quotas, now: i64) -> Result<(), Exceeded> {
        let used = self.today(now).tokens;
        match quotas.model_tokens_per_day {
            Some(limit) if used >= limit => Err(Exceeded {
                quota: Quota::ModelTokensPerDay,
                limit,
                used,
                retry_after: Some(until_tomorrow(now)),
            }),
            _ => Ok(()),
        }
    }

    /// Counts tokens that a model processed.
    pub fn add_tokens(&mut self, tokens: u64, now: i64) {
        self.count(now, Counts { requests: 0, tokens });
    }

    /// Checks that the tenant may store more. A size that is not known yet does not limit.
    pub fn admit_storage(&self, quotas: &Quotas) -> Result<(), Exceeded> {
        match (quotas.storage_bytes, self.storage_bytes) {
            (Some(limit), Some(used)) if used >= limit => Err(Exceeded {
                quota: Quota::StorageBytes,
                limit,
                used,
                retry_after: None,
            }),
            _ => Ok(()),
        }
    }

    /// Sets the measured size of the database.
    pub fn set_storage(&mut self, bytes: u64) {
        self.storage_bytes = Some(bytes);
    }

    /// Returns the measured size of the database.
    pub fn storage_bytes(&self) -> Option<u64> {
        self.storage_bytes
    }

    /// Returns today's usage: the known total, and what was counted here since.
    pub fn today(&self, now: i64) -> Counts {
        let day = day_start(now);
        let known = self.known.filter(|(known, _)| *known == day);
        let known = known.map_or_else(Counts::default, |(_, counts)| counts);
        known.plus(self.unsent.get(&day).copied().unwrap_or_default())
    }

    /// Returns the number of requests in the last 60 seconds.
    pub fn last_minute(&mut self, now: i64) -> u64 {
        self.window.expire(now);
        self.window.total()
    }

    /// Returns what is not part of a total yet, by day. It stays counted until [`Usage::settle`].
    pub fn unsent(&self) -> Vec<(i64, Counts)> {
        self.unsent.iter().map(|(day, counts)| (*day, *counts)).collect()
    }

    /// Notes that this part of [`Usage::unsent`] was added to the total of its day.
    pub fn settle(&mut self, day: i64, sent: Counts) {
        if let Some(unsent) = self.unsent.get_mut(&day) {
            unsent.requests = unsent.requests.saturating_sub(sent.requests);
            unsent.tokens = unsent.tokens.saturating_sub(sent.tokens);
        }
        self.unsent.retain(|_, counts| !counts.is_zero());
        self.known = match self.known {
            Some((known, total)) if known == day => Some((day, total.plus(sent))),
            // The total of a later day is already known.
            Some((known, total)) if known > day => Some((known, total)),
            _ => Some((day, sent)),
        };
    }

    /// Takes over the total of a day. Requests that other servers have added since the last time count for the current
    /// minute.
    pub fn set_total(&mut self, day: i64, total: Counts, now: i64) {
        // Without an earlier total it is not known when the others sent their requests.
        if let Some((_, before)) = self.known.filter(|(known, _)| *known == day) {
            let others = total.requests.saturating_sub(before.requests);
            if others > 0 {
                self.window.add(others, now);
            }
        }
        self.known = Some((day, total));
    }

    fn count(&mut self, now: i64, counts: Counts) {
        let today = self.unsent.entry(day_start(now)).or_default();
        *today = today.plus(counts);
    }
}

fn until_tomorrow(now: i64) -> u64 {
    u64::try_from(day_start(now) + DAY_SECONDS - now).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_700_006_400 - 1_700_006_400 % DAY_SECONDS + DAY_SECONDS / 2;

    fn quotas(minute: u64, day: u64, tokens: u64) -> Quotas {
        Quotas {
            requests_per_minute: Some(minute),
            requests_per_day: Some(day),
            model_tokens_per_day: Some(tokens),
            storage_bytes: Some(1000),
        }
    }

    #[test]
    fn the_minute_slides() {
        let quotas = quotas(2, 100, 1);
        let mut usage = Usage::default();
        assert!(usage.admit_request(&quotas, NOON).is_ok());
        assert!(usage.admit_request(&quotas, NOON + 30).is_ok());
        let refused = usage.admit_request(&quotas, NOON + 59).unwrap_err();
        assert_eq!(refused.quota, Quota::RequestsPerMinute);
        assert_eq!((refused.used, refused.retry_after), (2, Some(1)));
        assert!(usage.admit_request(&quotas, NOON + 60).is_ok());
        assert_eq!(
            usage.admit_request(&quotas, NOON + 60).unwrap_err().retry_after,
            Some(30)
        );
        assert_eq!(
            usage.today(NOON + 60).requests,
            3,
            "refused requests are not counted"
        );
    }

    #[test]
    fn the_day_ends_at_midnight() {
        let quotas = quotas(100, 2, 10);
        let mut usage = Usage::default();
        for _ in 0..2 {
            usage.admit_request(&quotas, NOON).unwrap();
        }
        let refused = usage.admit_request(&quotas, NOON).unwrap_err();
        assert_eq!(refused.quota, Quota::RequestsPerDay);
        assert_eq!(refused.retry_after, Some(43_200));
        usage.add_tokens(10, NOON);
        assert_eq!(
            usage.admit_model_work(&quotas, NOON).unwrap_err().quota,
            Quota::ModelTokensPerDay
        );
        let tomorrow = NOON + DAY_SECONDS / 2;
        assert!(usage.admit_request(&quotas, tomorrow).is_ok());
        assert!(usage.admit_model_work(&quotas, tomorrow).is_ok());
        assert_eq!(usage.unsent().len(), 2, "yesterday is still to be sent");
    }

    #[test]
    fn servers_add_up_after_a_synchronization() {
        let quotas = quotas(100, 5, 1000);
        let day = day_start(NOON);
        let (mut first, mut second) = (Usage::default(), Usage::default());
        let mut total = Counts::default();
        let synchronize = |usage: &mut Usage, total: &mut Counts| {
            for (day, part) in usage.unsent() {
                *total = total.plus(part);
                usage.settle(day, part);
            }
            usage.set_total(day, *total, NOON);
        };
        synchronize(&mut first, &mut total);
        synchronize(&mut second, &mut total);
        for _ in 0..3 {
            first.admit_request(&quotas, NOON).unwrap();
        }
        synchronize(&mut first, &mut total);
        synchronize(&mut second, &mut total);
        for _ in 0..2 {
            second.admit_request(&quotas, NOON).unwrap();
        }
        assert!(
            second.admit_request(&quotas, NOON).is_err(),
            "three there, two here"
        );
        synchronize(&mut second, &mut total);
        synchronize(&mut first, &mut total);
        assert_eq!(first.today(NOON).requests, 5);
        assert!(first.admit_request(&quotas, NOON).is_err());
        assert_eq!(
            first.last_minute(NOON),
            5,
            "the other server's two are in the minute"
        );
        assert!(first.unsent().is_empty() && second.unsent().is_empty());
    }

    #[test]
    fn what_is_counted_during_a_synchronization_is_kept() {
        let quotas = Quotas::default();
        let mut usage = Usage::default();
        usage.admit_request(&quotas, NOON).unwrap();
        let sent = usage.unsent();
        usage.admit_request(&quotas, NOON).unwrap();
        for (day, part) in sent {
            usage.settle(day, part);
        }
        assert_eq!(usage.today(NOON).requests, 2);
        assert_eq!(
            usage.unsent(),
            [(
                day_start(NOON),
                Counts {
                    requests: 1,
                    tokens: 0
                }
            )]
        );
    }

    #[test]
    fn storage_limits_only_when_it_is_known() {
        let quotas = quotas(1, 1, 1);
        let mut usage = Usage::default();
        assert!(usage.admit_storage(&quotas).is_ok());
        usage.set_storage(999);
        assert!(usage.admit_storage(&quotas).is_ok());
        usage.set_storage(1000);
        assert_eq!(usage.admit_storage(&quotas).unwrap_err().retry_after, None);
        assert!(usage.admit_storage(&Quotas::default()).is_ok());
    }

    #[test]
    fn a_clock_set_back_does_not_free_the_minute() {
        let quotas = quotas(2, 100, 1);
        let mut usage = Usage::default();
        usage.admit_request(&quotas, NOON + 10).unwrap();
        usage.admit_request(&quotas, NOON).unwrap();
        assert!(usage.admit_request(&quotas, NOON + 5).is_err());
    }
}
