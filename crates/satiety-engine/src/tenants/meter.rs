//! Meter of a tenant: counts what this process does for it, and compares it with the quotas. Counting costs a lock and no
//! write; a server sends the counts to the registry every few seconds.

use std::sync::{Mutex, MutexGuard, PoisonError};

use satiety::quota::{Counts, Exceeded, Quotas, Usage, day_start};
use satiety_store::tenants::TenantRow;

use crate::EngineError;

/// Quotas and usage of one tenant in this process.
#[derive(Debug)]
pub struct TenantMeter {
    /// Registration that the engine of the tenant was made from.
    row: TenantRow,
    state: Mutex<(Quotas, Usage)>,
    /// Held while counts are sent, so that two synchronizations do not send the same ones.
    sending: tokio::sync::Mutex<()>,
}

impl TenantMeter {
    pub(crate) fn new(row: &TenantRow) -> Self {
        Self {
            row: row.clone(),
            state: Mutex::new((quotas(row), Usage::default())),
            sending: tokio::sync::Mutex::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.row.name
    }

    /// Whether a row is the registration of this tenant: not that of a later one with the same name.
    pub(crate) fn is_of(&self, row: &TenantRow) -> bool {
        (&self.row.name, self.row.created_at) == (&row.name, row.created_at)
    }

    /// Whether the tenant still has the store and the directory that it was opened with.
    pub(crate) fn is_in_place(&self, row: &TenantRow) -> bool {
        (&self.row.store_url, &self.row.root) == (&row.store_url, &row.root)
    }

    /// Waits until no other synchronization sends the counts.
    pub(crate) async fn sending(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.sending.lock().await
    }

    fn state(&self) -> MutexGuard<'_, (Quotas, Usage)> {
        // No code under this lock can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, or refuses it.
    pub fn admit_request(&self) -> Result<(), EngineError> {
        let (quotas, usage) = &mut *self.state();
        let admitted = usage.admit_request(quotas, now());
        admitted.map_err(|exceeded| self.refuse(exceeded))
    }

    pub(crate) fn admit_model_work(&self) -> Result<(), EngineError> {
        let (quotas, usage) = &*self.state();
        let admitted = usage.admit_model_work(quotas, now());
        admitted.map_err(|exceeded| self.refuse(exceeded))
    }

    pub(crate) fn add_tokens(&self, tokens: u64) {
        self.state().1.add_tokens(tokens, now());
    }

    pub(crate) fn admit_storage(&self) -> Result<(), EngineError> {
        let (quotas, usage) = &*self.state();
        let admitted = usage.admit_storage(quotas);
        admitted.map_err(|exceeded| self.refuse(exceeded))
    }

    pub(crate) fn set_storage(&self, bytes: u64) {
        self.state().1.set_storage(bytes);
    }

    pub(crate) fn set_quotas(&self, row: &TenantRow) {
        self.state().0 = quotas(row);
    }

    /// Quotas, today's counts, and the size of the store if it was measured.
    pub fn snapshot(&self) -> (Quotas, Counts, Option<u64>) {
        let (quotas, usage) = &*self.state();
        (*quotas, usage.today(now()), usage.storage_bytes())
    }

    pub(crate) fn unsent(&self) -> Vec<(i64, Counts)> {
        self.state().1.unsent()
    }

    /// Notes that a part was added to the total of its day.
    pub(crate) fn settle(&self, day: i64, sent: Counts) {
        self.state().1.settle(day, sent);
    }

    /// Takes over the total of a day.
    pub(crate) fn set_total(&self, day: i64, total: Counts) {
        self.state().1.set_total(day, total, now());
    }

    fn refuse(&self, exceeded: Exceeded) -> EngineError {
        EngineError::QuotaExceeded {
            tenant: self.row.name.clone(),
            exceeded,
        }
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Start of the current day in seconds.
pub(super) fn today() -> i64 {
    day_start(now())
}

/// Start of the current day in microseconds.
pub(super) fn today_micros() -> i64 {
    day_micros(today())
}

pub(super) fn day_micros(day: i64) -> i64 {
    day.saturating_mul(1_000_000)
}

/// Quotas of a row; the table holds no negative numbers that this program wrote.
pub(super) fn quotas(row: &TenantRow) -> Quotas {
    let limit = |value: Option<i64>| value.map(|value| u64::try_from(value).unwrap_or(0));
    Quotas {
        requests_per_minute: limit(row.requests_per_minute),
        requests_per_day: limit(row.requests_per_day),
        model_tokens_per_day: limit(row.model_tokens_per_day),
        storage_bytes: limit(row.storage_bytes),
    }
}
