//! Cooperative cancellation: a flag that the caller sets and long computations look at between steps.
//!
//! A computation that was cancelled has no answer, so cancellation never changes a verdict: it only withholds one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks a computation to end. Clones share the flag.
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

/// The computation was cancelled before it had an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the computation was cancelled")]
pub struct Cancelled;

impl Cancellation {
    /// Asks every computation that holds this flag to end. It cannot be taken back.
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

    /// A guard that sets the flag when it is dropped: work on another thread ends with the future that waits for it.
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
