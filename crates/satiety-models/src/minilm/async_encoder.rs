//! Async wrapper of the sentence model: runs on a blocking thread, limits concurrency, and cancels the work
//! when the caller is dropped.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use super::{MiniLm, processors};
use crate::embedder::{EmbedError, EmbedFuture, Embedder, EmbedderId};

/// Limits concurrent computations. More would share the same cores, each with its own activations.
pub(super) struct Callers(Arc<Semaphore>);

impl Default for Callers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(processors())))
    }
}

impl Embedder for MiniLm {
    fn id(&self) -> &EmbedderId {
        Self::id(self)
    }

    fn dimension(&self) -> usize {
        Self::dimension(self)
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        Box::pin(async move {
            let model = self.clone();
            let owned: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            // Held by the work itself, so that an abandoned call does not release its permit before it ends.
            let permit = self.model.callers.0.clone().acquire_owned().await;
            // Set when this future is dropped, so that abandoned work ends with its batch.
            let cancelled = Arc::new(AtomicBool::new(false));
            let _cancel = CancelOnDrop(Arc::clone(&cancelled));
            let task = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                let texts: Vec<&str> = owned.iter().map(String::as_str).collect();
                model.encode_until(&texts, processors(), &cancelled)
            });
            task.await.map_err(|error| EmbedError::Task(error.into()))
        })
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
