//! Transient database outages: long-running processes wait for the database instead of failing.

use std::time::Duration;

use satiety_store::{Store, StoreError};

use super::executor::Stop;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits for the database for a limited time. A connection that was cut answers only when TCP gives up, much later than
/// a lease expires; another connection may work long before.
pub(super) async fn answered<T, E: From<StoreError>>(
    store: &Store,
    limit: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Unreachable {
            place: store.place().into(),
            detail: format!("no answer within {} s", limit.as_secs_f64()),
        }
        .into()),
    }
}

/// Consecutive failures of the database.
#[derive(Debug, Default)]
pub(super) struct Outage {
    reported: bool,
}

impl Outage {
    /// Waits after a transient error; returns the error if it is permanent or a stop was requested.
    pub(super) async fn outlast(&mut self, error: StoreError, stop: &Stop) -> Result<(), StoreError> {
        let passes = matches!(error, StoreError::Unreachable { .. } | StoreError::Busy { .. });
        if !passes || stop.is_requested() {
            return Err(error);
        }
        if !std::mem::replace(&mut self.reported, true) {
            tracing::warn!("{error}; retrying until the database is available");
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.asked() => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineError;

    #[tokio::test]
    async fn a_call_without_an_answer_is_an_outage() {
        let folder = tempfile::tempdir().unwrap();
        let url = satiety_store::StoreUrl::sqlite(folder.path().join("s.db"));
        let store = Store::open(&url).await.unwrap();
        let limit = Duration::from_millis(20);
        let silent = std::future::pending::<Result<(), EngineError>>();
        let error = answered(&store, limit, silent).await.unwrap_err();
        assert!(error.to_string().contains("no answer within 0.02 s"), "{error}");
        match error {
            // A worker tries again.
            EngineError::Store(error) => Outage::default().outlast(error, &Stop::default()).await.unwrap(),
            other => panic!("{other}"),
        }
        store.close().await;
    }
}
