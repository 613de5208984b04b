//! Bounded pool in front of an embedder: limits concurrent and queued calls, and rejects the rest
//! immediately.
//!
//! Long lists are split into parts, and each part acquires its own permit. A short call therefore waits for
//! at most one part of a long one, and an abandoned call ends with its current part.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::{EmbedError, EmbedFuture, Embedder, EmbedderId};

/// Texts per permit.
const PART: usize = 128;

/// Concurrency and queue limits of an embedder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Maximum number of concurrent calls.
    pub running: usize,
    /// Maximum number of calls that wait for a permit; further calls get [`EmbedError::Busy`]. `None` is
    /// unlimited.
    pub waiting: Option<usize>,
}

/// Wraps an embedder and limits its concurrency.
#[derive(Debug)]
pub struct EmbedderPool {
    inner: Box<dyn Embedder>,
    permits: Semaphore,
    limits: PoolLimits,
    waiting: AtomicUsize,
}

impl EmbedderPool {
    pub fn new(inner: Box<dyn Embedder>, limits: PoolLimits) -> Self {
        Self {
            inner,
            permits: Semaphore::new(limits.running.max(1)),
            limits,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Counts a call as waiting while the guard lives; rejects it when the queue is full.
    fn wait(&self) -> Result<Waiting<'_>, EmbedError> {
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(&self.waiting);
        match self.limits.waiting {
            Some(most) if before >= most => Err(EmbedError::Busy { waiting: before }),
            _ => Ok(waiting),
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Embedder for EmbedderPool {
    fn id(&self) -> &EmbedderId {
        self.inner.id()
    }

    fn dimension(&self) -> usize {
        self.inner.dimension()
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        Box::pin(async move {
            let mut vectors = Vec::with_capacity(texts.len());
            for (number, part) in texts.chunks(PART).enumerate() {
                let permit = if let Ok(permit) = self.permits.try_acquire() {
                    Ok(permit)
                } else {
                    // Only a call that has not started is rejected; later parts go to the end of the queue.
                    let _waiting = if number == 0 { Some(self.wait()?) } else { None };
                    self.permits.acquire().await
                };
                // The semaphore is never closed; without a permit the call would still be correct, only not
                // bounded.
                let _permit = permit.ok();
                vectors.extend(self.inner.embed(part).await?);
            }
            Ok(vectors)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    /// Takes some time, and records how many calls ran concurrently.
    #[derive(Debug)]
    struct Slow {
        id: EmbedderId,
        now: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }

    impl Embedder for Slow {
        fn id(&self) -> &EmbedderId {
            &self.id
        }

        fn dimension(&self) -> usize {
            1
        }

        fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
            Box::pin(async move {
                let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.now.fetch_sub(1, Ordering::SeqCst);
                Ok(texts.iter().map(|text| vec![text.len() as f32]).collect())
            })
        }
    }

    fn pooled(running: usize, waiting: Option<usize>) -> (EmbedderPool, Arc<AtomicUsize>) {
        let most = Arc::new(AtomicUsize::new(0));
        let inner = Slow {
            id: EmbedderId::new("slow", &blake3::hash(b"slow"), "mean"),
            now: Arc::default(),
            most: Arc::clone(&most),
        };
        (
            EmbedderPool::new(Box::new(inner), PoolLimits { running, waiting }),
            most,
        )
    }

    #[tokio::test]
    async fn calls_beyond_the_queue_limit_are_rejected() {
        let (pool, most) = pooled(2, Some(3));
        let texts = ["a"];
        let calls: Vec<_> = (0..10).map(|_| pool.embed(&texts)).collect();
        let outcomes = futures_of(calls).await;
        let refused = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Err(EmbedError::Busy { waiting: 3 })))
            .count();
        assert_eq!(
            (refused, outcomes.iter().filter(|outcome| outcome.is_ok()).count()),
            (5, 5)
        );
        assert_eq!(most.load(Ordering::SeqCst), 2);
        assert_eq!(pool.waiting.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn long_lists_keep_their_order_and_interleave_with_short_ones() {
        let (pool, most) = pooled(1, Some(8));
        let words: Vec<String> = (0..1000).map(|number| "x".repeat(number % 7)).collect();
        let long: Vec<&str> = words.iter().map(String::as_str).collect();
        let short = ["abc"];
        let began = std::time::Instant::now();
        let brief = async {
            tokio::task::yield_now().await;
            let found = pool.embed(&short).await;
            (found, began.elapsed())
        };
        let (all, (found, took)) = tokio::join!(pool.embed(&long), brief);
        let wanted: Vec<Vec<f32>> = words.iter().map(|word| vec![word.len() as f32]).collect();
        assert_eq!(all.unwrap(), wanted);
        assert_eq!(found.unwrap(), [vec![3.0]]);
        assert!(
            took < Duration::from_millis(120),
            "the short call waited for the whole list: {took:?}"
        );
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn an_abandoned_call_frees_its_queue_slot() {
        let (pool, _) = pooled(1, Some(1));
        let texts = ["a"];
        let mut running = pool.embed(&texts);
        let mut waiting = pool.embed(&texts);
        let poll = |future: &mut EmbedFuture<'_>| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_pending());
        };
        poll(&mut running);
        poll(&mut waiting);
        assert!(matches!(pool.embed(&texts).await, Err(EmbedError::Busy { .. })));
        drop(waiting);
        drop(running);
        assert!(pool.embed(&texts).await.is_ok());
    }

    async fn futures_of(calls: Vec<EmbedFuture<'_>>) -> Vec<Result<Vec<Vec<f32>>, EmbedError>> {
        let mut calls: Vec<_> = calls.into_iter().map(|call| (call, None)).collect();
        std::future::poll_fn(|context| {
            let mut pending = false;
            for (call, outcome) in calls.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
                match call.as_mut().poll(context) {
                    std::task::Poll::Ready(done) => *outcome = Some(done),
                    std::task::Poll::Pending => pending = true,
                }
            }
            if pending {
                std::task::Poll::Pending
            } else {
                std::task::Poll::Ready(())
            }
        })
        .await;
        calls.into_iter().filter_map(|(_, outcome)| outcome).collect()
    }
}
