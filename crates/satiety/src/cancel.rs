//! Cooperative cancellation: a flag that the caller sets and long computations check between steps.
//!
//! A cancelled computation returns no result, so cancellation never changes a verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cancellation flag of a computation. Clones share the flag.
///
/// ```
/// use satiety::cancel::Cancellation;
/// let cancellation = Cancellation::default();
/// assert!(cancellation.check().is_ok());
/// cancellation.clone().cancel();
/// assert!(cancellation.check().is_err());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

/// Error of a computation that was cancelled before it had a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("computation cancelled")]
pub struct Cancelled;

impl Cancellation {
    /// Asks every computation that shares this flag to end. A cancellation cannot be undone.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called on this flag or a clone of it.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns [`Cancelled`] once the flag is set; long loops call it with `?` between steps.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }

    /// Returns a guard that sets the flag when dropped, so that work on another thread ends with the future
    /// that waits for it.
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// Sets a [`Cancellation`] when it is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard cancels at once"]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
