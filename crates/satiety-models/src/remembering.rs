//! An embedder that remembers the vectors of texts it was asked about lately.
//!
//! A server sees the same claims again and again: a growing conversation is sent whole after each round, several agents
//! ask the same question. A vector does not depend on who asks, so a model need not compute it twice. Memory is bounded;
//! what is kept are hashes of texts and vectors, never the texts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::Instrument as _;

use crate::{EmbedFuture, Embedder, EmbedderId};

/// Vectors of half the capacity: about 12 MB at 384 components.
const GENERATION: usize = 8192;

/// Asks another embedder only about texts that it has not seen lately.
#[derive(Debug)]
pub struct Remembering {
    inner: Box<dyn Embedder>,
    seen: Mutex<Seen>,
}

impl Remembering {
    /// Remembers for this embedder.
    pub fn new(inner: Box<dyn Embedder>) -> Self {
        Self::with_generation(inner, GENERATION)
    }

    fn with_generation(inner: Box<dyn Embedder>, generation: usize) -> Self {
        let seen = Mutex::new(Seen::new(generation));
        Self { inner, seen }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Embedder for Remembering {
    fn id(&self) -> &EmbedderId {
        self.inner.id()
    }

    fn dimension(&self) -> usize {
        self.inner.dimension()
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        Box::pin(async move {
            let keys: Vec<blake3::Hash> = texts.iter().map(|text| blake3::hash(text.as_bytes())).collect();
            let mut found: Vec<Option<Arc<[f32]>>> = {
                let mut seen = self.seen();
                keys.iter().map(|key| seen.get(key)).collect()
            };
            // Each new text once, though it may stand in several places.
            let mut places: HashMap<blake3::Hash, usize> = HashMap::new();
            let (mut new, mut asked): (Vec<blake3::Hash>, Vec<&str>) = (Vec::new(), Vec::new());
            for ((key, text), _) in keys
                .iter()
                .zip(texts)
                .zip(&found)
                .filter(|(_, found)| found.is_none())
            {
                places.entry(*key).or_insert_with(|| {
                    new.push(*key);
                    asked.push(text);
                    asked.len() - 1
                });
            }
            if !asked.is_empty() {
                let span = tracing::info_span!("embed", texts = asked.len());
                let vectors = self.inner.embed(&asked).instrument(span).await?;
                let vectors: Vec<Arc<[f32]>> = vectors.into_iter().map(Arc::from).collect();
                let mut seen = self.seen();
                for (key, vector) in new.into_iter().zip(&vectors) {
                    seen.put(key, vector.clone());
                }
                drop(seen);
                for (key, slot) in keys.iter().zip(&mut found).filter(|(_, slot)| slot.is_none()) {
                    *slot = places.get(key).and_then(|place| vectors.get(*place)).cloned();
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

/// Two generations: what is asked for moves to the young one, and when that is full the old one is forgotten. So
/// whatever was used within the last `generation` new texts is still there, at the cost of two lookups.
#[derive(Debug)]
struct Seen {
    generation: usize,
    young: HashMap<blake3::Hash, Arc<[f32]>>,
    old: HashMap<blake3::Hash, Arc<[f32]>>,
}

impl Seen {
    fn new(generation: usize) -> Self {
        Self {
            generation: generation.max(1),
            young: HashMap::new(),
            old: HashMap::new(),
        }
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

    use super::*;
    use crate::EmbedError;

    /// Counts the texts it is asked about; a vector is the text's length and its first byte.
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

    fn remembering(generation: usize, fails: bool) -> (Remembering, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let inner = Counting {
            id: EmbedderId::new("counting", &blake3::hash(b"counting"), "mean"),
            asked: asked.clone(),
            fails,
        };
        (Remembering::with_generation(Box::new(inner), generation), asked)
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
    async fn memory_is_bounded_and_what_is_used_stays() {
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
    async fn a_failure_is_told_and_not_remembered() {
        let (embedder, asked) = remembering(10, true);
        assert!(embedder.embed(&["a"]).await.is_err());
        assert!(embedder.embed(&["a"]).await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
