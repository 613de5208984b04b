//! Vectors in the background: a save stores text and words, which are searchable at once, and a worker of the
//! server adds the vectors. What still needs one is known from the index, so that the work survives a restart
//! and includes what other processes saved.

use crate::handles::MemoryOperations;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use satiety::memory::encode_vector;
use satiety_models::{EmbedError, Embedder};
use satiety_store::memory::VectorRow;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Notify;

use crate::EngineError;

/// Chunks per step of the worker: few, so that searches do not wait long for the model.
const STEP: usize = 32;
/// Chunks per step of the command, which has the model for itself.
const COMMAND_STEP: usize = 256;
/// Number of steps from whose chunks a step is chosen at random, so that two servers rarely want the same ones.
const SPREAD: usize = 8;
/// Time after which chunks that a process has claimed, and not embedded, are embedded by another one.
const CLAIM: Duration = Duration::from_mins(1);
/// Pause when all chunks that wait are claimed by other processes.
const CLAIMED_PAUSE: Duration = Duration::from_millis(250);
/// Pause between two looks for memories of other processes; own saves wake the worker.
const PAUSE: Duration = Duration::from_secs(15);
/// Pause while the tenant has no model tokens left.
const QUOTA_PAUSE: Duration = Duration::from_mins(1);
/// Pause after an error of the model or the database.
const ERROR_PAUSE: Duration = Duration::from_secs(10);

/// State of the background worker.
#[derive(Debug, Default)]
pub(super) struct EmbeddingQueue {
    active: AtomicBool,
    work: Notify,
    progress: Mutex<Progress>,
    /// Chunks whose text the model rejected; tried again by the next process.
    rejected: Mutex<HashSet<i64>>,
    /// Order in which this process takes waiting chunks.
    order: RandomState,
    holder: Holder,
}

/// Id of this process in claims.
#[derive(Debug)]
struct Holder(String);

impl Default for Holder {
    fn default() -> Self {
        Self(uuid::Uuid::now_v7().simple().to_string())
    }
}

#[derive(Debug, Default)]
struct Progress {
    done: u64,
    busy: Duration,
    problem: Option<String>,
    rejection: Option<String>,
}

/// Progress of vectors that are made in the background.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct EmbeddingProgress {
    /// Whether this process embeds in the background.
    pub active: bool,
    /// Number of chunks that wait for a vector.
    pub pending: usize,
    /// Number of chunks that this process has embedded in the background.
    pub done: u64,
    /// Estimated seconds until all chunks have a vector; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<f64>,
    /// Last error of the worker, which tries again, or the last text that the model rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Result of embedding everything that has no vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EmbedResponse {
    /// Number of chunks that got a vector.
    pub embedded: usize,
    /// Number of chunks that still have none, because the command was interrupted.
    pub pending: usize,
}

/// Outcome of a step.
enum Step {
    /// Number of chunks that were embedded; 0 if none wait.
    Embedded(usize),
    /// Chunks wait, and other processes embed them.
    ClaimedByOthers,
}

impl EmbeddingQueue {
    /// Whether saves leave their vectors to the worker.
    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// Wakes the worker after a save.
    pub(super) fn wake(&self) {
        self.work.notify_one();
    }

    pub(super) fn progress(&self, pending: usize) -> EmbeddingProgress {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let each = progress.busy.as_secs_f64() / progress.done.max(1) as f64;
        EmbeddingProgress {
            active: self.is_active(),
            pending,
            done: progress.done,
            seconds_left: (progress.done > 0).then_some(each * pending as f64),
            problem: progress.problem.clone().or_else(|| progress.rejection.clone()),
        }
    }

    /// Chunks to embed next: of the newest waiting ones, in the order of this process.
    fn choose(&self, waiting: Vec<(i64, String)>, most: usize) -> Vec<(i64, String)> {
        let rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting: Vec<(i64, String)> = waiting
            .into_iter()
            .filter(|(doc, _)| !rejected.contains(doc))
            .take(SPREAD * most)
            .collect();
        waiting.sort_by_key(|(doc, _)| self.order.hash_one(doc));
        waiting.truncate(most);
        waiting
    }

    fn rejected(&self) -> usize {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn reject(&self, docs: Vec<i64>, error: &EmbedError) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        rejected.extend(docs);
        let told = format!(
            "texts rejected by the model: {}; last error: {error}",
            rejected.len()
        );
        tracing::warn!("{told}");
        progress.rejection = Some(told);
    }

    fn note(&self, outcome: &Result<usize, EngineError>, took: Duration) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(0) => progress.problem = None,
            Ok(count) => {
                progress.done += *count as u64;
                progress.busy += took;
                progress.problem = None;
            }
            Err(error) => progress.problem = Some(error.to_string()),
        }
    }
}

impl MemoryOperations<'_> {
    /// Embeds in the background for as long as the future is polled: for servers. From then on saves do not
    /// wait for the sentence model. Chunks with a vector of another model are left alone, because another
    /// server may use that model.
    pub async fn run_embedding(self) {
        if self.engine.settings.embedder == "none" {
            return;
        }
        let queue = &self.engine.memory.embedding;
        queue.active.store(true, Ordering::SeqCst);
        loop {
            let began = Instant::now();
            let outcome = self.embed_if_needed().await;
            queue.note(&outcome, began.elapsed());
            let pause = match outcome {
                Ok(0) => PAUSE,
                Ok(_) => continue,
                Err(error @ EngineError::QuotaExceeded { .. }) => {
                    tracing::debug!("cannot embed memories: {error}");
                    QUOTA_PAUSE
                }
                Err(error) => {
                    tracing::warn!("cannot embed memories: {error}");
                    ERROR_PAUSE
                }
            };
            let _ = tokio::time::timeout(pause, queue.work.notified()).await;
        }
    }

    /// Embeds every chunk without a vector of the configured model, including those with a vector of another
    /// one. `progress` gets the numbers of embedded and of remaining chunks and returns false to stop; what is
    /// done is kept.
    pub async fn embed_all(
        self,
        mut progress: impl FnMut(usize, usize) -> bool,
    ) -> Result<EmbedResponse, EngineError> {
        let mut response = EmbedResponse::default();
        loop {
            response.pending = self.to_embed(true).await?;
            if response.pending == 0 || !progress(response.embedded, response.pending) {
                return Ok(response);
            }
            match self.embed_step(true, COMMAND_STEP).await? {
                Step::Embedded(0) => return Ok(response),
                Step::Embedded(done) => response.embedded += done,
                Step::ClaimedByOthers => tokio::time::sleep(CLAIMED_PAUSE).await,
            }
        }
    }

    /// Finishes what saves of this process left to the worker, before a short-lived server exits. What is not
    /// done in time is done by the next one.
    pub async fn drain_embedding(self, most: Duration) {
        if !self.engine.memory.embedding.is_active() {
            return;
        }
        let finish = async { while matches!(self.embed_if_needed().await, Ok(1..)) {} };
        let _ = tokio::time::timeout(most, finish).await;
    }

    /// One step of the worker: returns how many chunks it has embedded, 0 if there is nothing to do. The model is
    /// opened only if there is something to embed.
    async fn embed_if_needed(self) -> Result<usize, EngineError> {
        loop {
            let store = self.engine.store().await?;
            if !store.memories().has_chunk_without_vector().await? {
                return Ok(0);
            }
            self.engine.admit_model_work()?;
            match self.embed_step(false, STEP).await? {
                Step::Embedded(count) => return Ok(count),
                Step::ClaimedByOthers => tokio::time::sleep(CLAIMED_PAUSE).await,
            }
        }
    }

    /// Number of chunks that need a vector of the configured model.
    async fn to_embed(self, other_models: bool) -> Result<usize, EngineError> {
        let Some(embedder) = self.engine.embedder().await? else {
            return Ok(0);
        };
        let index = self.index_for(embedder).await?;
        let other = if other_models { index.other_vectors() } else { 0 };
        Ok(index.chunks_without_vector() + other)
    }

    /// Embeds up to `most` chunks, newest first. Chunks are claimed first, so that of several processes on a
    /// database one embeds each.
    async fn embed_step(self, other_models: bool, most: usize) -> Result<Step, EngineError> {
        let Some(embedder) = self.engine.embedder().await? else {
            return Ok(Step::Embedded(0));
        };
        let index = self.index_for(embedder).await?;
        let queue = &self.engine.memory.embedding;
        let waiting = index.chunks_to_embed(other_models, SPREAD * most + queue.rejected());
        let wanted = queue.choose(waiting, most);
        if wanted.is_empty() {
            return Ok(Step::Embedded(0));
        }
        let docs: Vec<i64> = wanted.iter().map(|(doc, _)| *doc).collect();
        let (model, holder) = (embedder.id().to_string(), &queue.holder.0);
        let memories = self.engine.store().await?.memories();
        let claimed: HashSet<i64> = memories
            .claim_chunks(&docs, &model, holder, CLAIM)
            .await?
            .into_iter()
            .collect();
        if claimed.is_empty() {
            return Ok(Step::ClaimedByOthers);
        }
        let wanted: Vec<(i64, String)> = wanted
            .into_iter()
            .filter(|(doc, _)| claimed.contains(doc))
            .collect();
        let outcome = self.embed_claimed(embedder, &wanted).await;
        let docs: Vec<i64> = wanted.iter().map(|(doc, _)| *doc).collect();
        // A claim that remains expires.
        let released = memories.release_chunks(&docs, &model, holder).await;
        outcome?;
        released?;
        Ok(Step::Embedded(wanted.len()))
    }

    /// Computes and stores the vectors of chunks.
    async fn embed_claimed(
        self,
        embedder: &dyn Embedder,
        wanted: &[(i64, String)],
    ) -> Result<(), EngineError> {
        let queue = &self.engine.memory.embedding;
        let store = self.engine.store().await?;
        let docs: Vec<i64> = wanted.iter().map(|(doc, _)| *doc).collect();
        let texts: HashMap<i64, String> = store
            .memories()
            .chunk_texts(&docs)
            .await?
            .into_iter()
            .map(|(doc, title, body)| (doc, embedded_text(&title, &body)))
            .collect();
        // Equal texts are embedded once.
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut distinct: Vec<&str> = Vec::new();
        for text in wanted.iter().filter_map(|(doc, _)| texts.get(doc)) {
            numbers.entry(text).or_insert_with(|| {
                distinct.push(text);
                distinct.len() - 1
            });
        }
        let (vectors, rejection) = embed_each(embedder, &distinct).await?;
        let vectors: Vec<Option<String>> = vectors
            .iter()
            .map(|vector| vector.as_deref().map(encode_vector))
            .collect();
        let rows: Vec<VectorRow> = wanted
            .iter()
            .filter_map(|(doc, memory_id)| {
                let number = numbers.get(texts.get(doc)?.as_str())?;
                Some(VectorRow {
                    doc: *doc,
                    memory_id: memory_id.clone(),
                    vector: vectors.get(*number)?.clone()?,
                })
            })
            .collect();
        store
            .memories()
            .put_vectors(&embedder.id().to_string(), &rows)
            .await?;
        if let Some(error) = rejection {
            let stored: HashSet<i64> = rows.iter().map(|row| row.doc).collect();
            let docs = texts.keys().filter(|doc| !stored.contains(*doc)).copied();
            queue.reject(docs.collect(), &error);
        }
        // A chunk that was deleted in the meantime is gone from the index, too, once it follows.
        Ok(())
    }

    async fn index_for(
        self,
        embedder: &dyn Embedder,
    ) -> Result<std::sync::Arc<satiety::memory::MemoryIndex>, EngineError> {
        let name = embedder.id().to_string();
        self.current_index(Some((&name, embedder.dimension()))).await
    }
}

/// Embeds texts. A text that the model rejects has no vector and does not block the others; returns the last error of
/// these.
async fn embed_each(
    embedder: &dyn Embedder,
    texts: &[&str],
) -> Result<(Vec<Option<Vec<f32>>>, Option<EmbedError>), EmbedError> {
    match embedder.embed(texts).await {
        Ok(vectors) => return Ok((vectors.into_iter().map(Some).collect(), None)),
        Err(error) if !error.is_rejection() => return Err(error),
        Err(_) => {}
    }
    let (mut vectors, mut rejection) = (Vec::with_capacity(texts.len()), None);
    for text in texts {
        match embedder.embed(&[*text]).await {
            Ok(one) => vectors.push(one.into_iter().next()),
            Err(error) if error.is_rejection() => {
                vectors.push(None);
                rejection = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((vectors, rejection))
}

/// Text of a chunk as the sentence model sees it.
pub(crate) fn embedded_text(title: &str, body: &str) -> String {
    format!("{title}\n{body}")
}

#[cfg(test)]
mod tests {
    use satiety_models::{EmbedFuture, EmbedderId};

    use super::*;

    /// Rejects every request with a long text, as a server with a token limit does.
    #[derive(Debug)]
    struct Limited(EmbedderId);

    impl Embedder for Limited {
        fn id(&self) -> &EmbedderId {
            &self.0
        }

        fn dimension(&self) -> usize {
            1
        }

        fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
            let rejection = |status| {
                EmbedError::Transport(satiety_models::http::TransportError::Status {
                    url: "http://localhost".into(),
                    status,
                    message: "too long".into(),
                    retry_after: None,
                })
            };
            Box::pin(async move {
                if texts.contains(&"down") {
                    Err(rejection(503))
                } else if texts.iter().any(|text| text.len() > 5) {
                    Err(rejection(400))
                } else {
                    Ok(texts.iter().map(|_| vec![1.0]).collect())
                }
            })
        }
    }

    #[tokio::test]
    async fn a_rejected_text_does_not_block_the_others_of_its_batch() {
        let model = Limited("limited:ab12cd34:mean".parse().unwrap());
        let (vectors, rejection) = embed_each(&model, &["a", "too long", "b"]).await.unwrap();
        assert_eq!(vectors, [Some(vec![1.0]), None, Some(vec![1.0])]);
        assert!(rejection.unwrap().to_string().contains("too long"));
        assert!(
            embed_each(&model, &["a", "down"]).await.is_err(),
            "an outage is retried"
        );
        assert_eq!(embed_each(&model, &["a", "b"]).await.unwrap().0.len(), 2);
    }

    #[test]
    fn rejected_chunks_are_not_chosen_again_and_processes_choose_in_different_orders() {
        let waiting: Vec<(i64, String)> = (0..1000).map(|doc| (doc, String::new())).collect();
        let (one, other) = (EmbeddingQueue::default(), EmbeddingQueue::default());
        one.reject(vec![0, 1, 2], &EmbedError::Busy { waiting: 1 });
        let chosen = |queue: &EmbeddingQueue| -> HashSet<i64> {
            let chosen = queue.choose(waiting.clone(), STEP).into_iter();
            chosen.map(|(doc, _)| doc).collect()
        };
        let (first, second) = (chosen(&one), chosen(&other));
        assert_eq!((first.len(), second.len()), (STEP, STEP));
        assert!(!first.iter().any(|doc| *doc < 3));
        assert!(first.intersection(&second).count() < STEP / 2);
        assert!(
            one.progress(3)
                .problem
                .unwrap()
                .contains("texts rejected by the model: 3")
        );
    }
}
