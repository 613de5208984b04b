//! The sentence model for an async program: work on a blocking thread, for so many callers at a time, given up when the
//! caller is.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use super::{MiniLm, processors};
use crate::embedder::{EmbedError, EmbedFuture, Embedder, EmbedderId};

/// Callers that are computed for at the same time. More would only share the processors, each with activations of its own.
pub(super) struct Callers(Arc<Semaphore>);

impl Default for Callers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(processors())))
    }
}

impl Embedder for MiniLm {
    fn id(&self) -> &EmbedderId {
        &self.model.id
    }

    fn dimension(&self) -> usize {
        self.model.weights.config.hidden_size
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        Box::pin(async move {
            let model = self.clone();
            let owned: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            // Goes with the work: who no longer waits for it does not make room before it ends.
            let place = self.model.callers.0.clone().acquire_owned().await;
            // Set when this future is dropped: nobody waits for the vectors any more, so the work ends with its batch.
            let cancelled = Arc::new(AtomicBool::new(false));
            let _cancel = CancelOnDrop(Arc::clone(&cancelled));
            let task = tokio::task::spawn_blocking(move || {
                let _place = place;
                let texts: Vec<&str> = owned.iter().map(String::as_str).collect();
                model.encode_until(&texts, processors(), &cancelled)
            });
            task.await.map_err(|error| EmbedError::Task(error.into()))
        })
    }
}

/// Sets a flag when it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
