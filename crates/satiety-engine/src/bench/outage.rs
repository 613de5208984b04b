//! A store that went away for a moment: who works for hours waits for it instead of giving up.

use std::time::Duration;

use satiety_store::StoreError;

use super::executor::Stop;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Setbacks in a row.
#[derive(Debug, Default)]
pub(super) struct Outage {
    told: bool,
}

impl Outage {
    /// Waits a moment after an error that may pass; gives it back where it will not, or where somebody wants to end.
    pub(super) async fn outlast(&mut self, error: StoreError, stop: &Stop) -> Result<(), StoreError> {
        let passes = matches!(error, StoreError::Unreachable { .. } | StoreError::Busy { .. });
        if !passes || stop.is_asked() {
            return Err(error);
        }
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!("{error}; waiting until it is back");
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.asked() => {}
        }
        Ok(())
    }
}
