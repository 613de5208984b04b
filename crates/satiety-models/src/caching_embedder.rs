//! Embedder with a cache of recent vectors.
//!
//! A server sees the same claims repeatedly: a growing conversation is sent in full after each round, and
//! several agents ask the same question, often concurrently. A vector depends on the text alone, so each one
//! is computed once. Memory is bounded; the cache holds vectors and hashes of texts, never the texts.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tracing::Instrument as _;

use crate::{EmbedError, EmbedFuture, Embedder, EmbedderId};

/// Vectors per generation, half of the capacity: about 12 MB at 384 components.
const GENERATION: usize = 8192;

/// Wraps an embedder and calls it only for texts that are not cached.
#[derive(Debug)]
pub struct CachingEmbedder {
    inner: Box<dyn Embedder>,
    seen: Mutex<Seen>,
    /// Notified whenever texts are no longer being computed.
    arrived: Notify,
}

impl CachingEmbedder {
    pub fn new(inner: Box<dyn Embedder>) -> Self {
        Self::with_generation(inner, GENERATION)
    }

    fn with_generation(inner: Box<dyn Embedder>, generation: usize) -> Self {
        Self {
            inner,
            seen: Mutex::new(Seen::new(generation)),
            arrived: Notify::new(),
        }
    }

    /// Computes and caches the vectors of these texts; concurrent calls for the same texts wait for it.
    async fn compute(&self, new: &[(blake3::Hash, &str)]) -> Result<Vec<Arc<[f32]>>, EmbedError> {
        let _under_way = UnderWay { of: self, new };
        let asked: Vec<&str> = new.iter().map(|(_, text)| *text).collect();
        let span = tracing::info_span!("embed", texts = asked.len());
        let vectors = self.inner.embed(&asked).instrument(span).await?;
        let vectors: Vec<Arc<[f32]>> = vectors.into_iter().map(Arc::from).collect();
        let mut seen = self.seen();
        for ((key, _), vector) in new.iter().zip(&vectors) {
            seen.put(*key, vector.clone());
        }
        Ok(vectors)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Embedder for CachingEmbedder {
    fn id(&self) -> &EmbedderId {
        self.inner.id()
    }

    fn dimension(&self) -> usize {
        self.inner.dimension()
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        Box::pin(async move {
            let keys: Vec<blake3::Hash> = texts.iter().map(|text| blake3::hash(text.as_bytes())).collect();
            let mut found: Vec<Option<Arc<[f32]>>> = vec![None; keys.len()];
            // A caller that has waited once and still misses a vector computes it, because the other call
            // failed or was cancelled.
            for may_wait in [true, false] {
                let mut arrived = pin!(self.arrived.notified());
                // Enabled before the lookup, so that a notification between lookup and wait is not lost.
                arrived.as_mut().enable();
                let (new, others) = self.seen().claim(&keys, texts, &mut found, may_wait);
                if !new.is_empty() {
                    let vectors = self.compute(&new).await?;
                    // A new text is computed once even if it occurs several times.
                    let vectors: HashMap<_, _> = new.iter().map(|(key, _)| *key).zip(vectors).collect();
                    for (key, slot) in keys.iter().zip(&mut found).filter(|(_, slot)| slot.is_none()) {
                        *slot = vectors.get(key).cloned();
                    }
                }
                if others.is_empty() {
                    break;
                }
                while self.seen().has_under_way(&others) {
                    arrived.as_mut().await;
                    arrived.set(self.arrived.notified());
                    arrived.as_mut().enable();
                }
            }
            Ok(found
                .into_iter()
                .flatten()
                .map(|vector| vector.to_vec())
                .collect())
        })
    }
}

/// Texts that are being computed; dropping it unmarks them, whether the computation succeeded or not.
struct UnderWay<'a> {
    of: &'a CachingEmbedder,
    new: &'a [(blake3::Hash, &'a str)],
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut seen = self.of.seen();
        for (key, _) in self.new {
            seen.under_way.remove(key);
        }
        drop(seen);
        self.of.arrived.notify_waiters();
    }
}

/// Two generations: a hit moves an entry to the young one, and when that is full the old one is discarded.
/// Everything used within the last `generation` new texts is therefore still cached, at the cost of two
/// lookups.
#[derive(Debug)]
struct Seen {
    generation: usize,
    young: HashMap<blake3::Hash, Arc<[f32]>>,
    old: HashMap<blake3::Hash, Arc<[f32]>>,
    under_way: HashSet<blake3::Hash>,
}

impl Seen {
    fn new(generation: usize) -> Self {
        Self {
            generation: generation.max(1),
            young: HashMap::new(),
            old: HashMap::new(),
            under_way: HashSet::new(),
        }
    }

    /// Fills in cached vectors and splits the missing texts into those that the caller has to compute, which
    /// are marked as being computed, and those that other calls compute. If the caller must not wait, it
    /// computes all of them.
    fn claim<'t>(
        &mut self,
        keys: &[blake3::Hash],
        texts: &[&'t str],
        found: &mut [Option<Arc<[f32]>>],
        may_wait: bool,
    ) -> (Vec<(blake3::Hash, &'t str)>, Vec<blake3::Hash>) {
        let (mut new, mut others) = (Vec::new(), Vec::new());
        let mut own = HashSet::new();
        for ((key, text), slot) in keys.iter().zip(texts).zip(found) {
            if slot.is_none() {
                *slot = self.get(key);
            }
            if slot.is_some() || own.contains(key) {
                continue;
            }
            if may_wait && self.under_way.contains(key) {
                others.push(*key);
            } else {
                own.insert(*key);
                new.push((*key, *text));
            }
        }
        self.under_way.extend(own);
        (new, others)
    }

    fn has_under_way(&self, keys: &[blake3::Hash]) -> bool {
        keys.iter().any(|key| self.under_way.contains(key))
    }

    fn get(&mut self, key: &blake3::Hash) -> Option<Arc<[f32]>> {
        if let Some(vector) = self.young.get(key) {
            return Some(vector.clone());
        }
        let vector = self.old.remove(key)?;
        self.put(*key, vector.clone());
        Some(vector)
    }

    fn put(&mut self, key: blake3::Hash, vector: Arc<[f32]>) {
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, vector);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use super::*;

    /// Counts the texts it receives; a vector is the text's length and its first byte.
    #[derive(Debug)]
    struct Counting {
        id: EmbedderId,
        asked: Arc<AtomicUsize>,
        fails: bool,
    }

    impl Embedder for Counting {
        fn id(&self) -> &EmbedderId {
            &self.id
        }

        fn dimension(&self) -> usize {
            2
        }

        fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
            self.asked.fetch_add(texts.len(), Ordering::SeqCst);
            let fails = self.fails;
            Box::pin(async move {
                tokio::task::yield_now().await;
                if fails {
                    return Err(EmbedError::Read(std::io::Error::other("away")));
                }
                Ok(texts.iter().map(|text| vector(text)).collect())
            })
        }
    }

    fn vector(text: &str) -> Vec<f32> {
        vec![
            text.len() as f32,
            f32::from(text.as_bytes().first().copied().unwrap_or(0)),
        ]
    }

    fn remembering(generation: usize, fails: bool) -> (CachingEmbedder, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let inner = Counting {
            id: EmbedderId::new("counting", &blake3::hash(b"counting"), "mean"),
            asked: asked.clone(),
            fails,
        };
        (
            CachingEmbedder::with_generation(Box::new(inner), generation),
            asked,
        )
    }

    #[tokio::test]
    async fn a_text_is_computed_once_and_answers_keep_their_order() {
        let (embedder, asked) = remembering(100, false);
        for (texts, computed) in [
            (&["a", "bb", "a", ""][..], 3),
            (&["bb", "ccc", "a"], 4),
            (&["ccc", "ccc"], 4),
            (&[], 4),
        ] {
            let wanted: Vec<Vec<f32>> = texts.iter().map(|text| vector(text)).collect();
            assert_eq!(embedder.embed(texts).await.unwrap(), wanted);
            assert_eq!(asked.load(Ordering::SeqCst), computed, "{texts:?}");
        }
    }

    #[tokio::test]
    async fn memory_is_bounded_and_recently_used_vectors_stay() {
        let (embedder, asked) = remembering(10, false);
        for number in 0..1000 {
            let text = format!("text {number}");
            embedder.embed(&["often", &text]).await.unwrap();
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1001);
        let seen = embedder.seen();
        assert!(seen.young.len() + seen.old.len() <= 20);
    }

    #[tokio::test]
    async fn concurrent_calls_wait_for_the_same_computation() {
        let (embedder, asked) = remembering(100, false);
        let (first, second, third) = tokio::join!(
            embedder.embed(&["a", "bb"]),
            embedder.embed(&["bb", "ccc", "bb"]),
            embedder.embed(&["ccc", "a"]),
        );
        assert_eq!(first.unwrap(), [vector("a"), vector("bb")]);
        assert_eq!(second.unwrap(), [vector("bb"), vector("ccc"), vector("bb")]);
        assert_eq!(third.unwrap(), [vector("ccc"), vector("a")]);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        assert!(embedder.seen().under_way.is_empty());
    }

    #[tokio::test]
    async fn a_waiter_computes_after_the_other_call_fails() {
        let (embedder, asked) = remembering(100, true);
        let (first, second) = tokio::join!(embedder.embed(&["a"]), embedder.embed(&["a"]));
        assert!(first.is_err() && second.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 2);

        let (embedder, asked) = remembering(100, false);
        let mut given_up = Box::pin(embedder.embed(&["a"]));
        let waiting = embedder.embed(&["a"]);
        let begun = std::future::poll_fn(|context| Poll::Ready(given_up.as_mut().poll(context).is_pending()));
        assert!(begun.await);
        let give_up = async {
            tokio::task::yield_now().await;
            drop(given_up);
        };
        let (found, ()) = tokio::join!(waiting, give_up);
        assert_eq!(found.unwrap(), [vector("a")]);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_failure_is_returned_and_not_cached() {
        let (embedder, asked) = remembering(10, true);
        assert!(embedder.embed(&["a"]).await.is_err());
        assert!(embedder.embed(&["a"]).await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
