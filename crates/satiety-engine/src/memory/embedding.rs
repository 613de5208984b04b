//! Vectors in the background: a save stores text and words, which are searchable at once, and a worker of the
//! server adds the vectors. What still needs one is known from the index, so that the work survives a restart
//! and includes what other processes saved.

use crate::handles::MemoryOperations;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use satiety::memory::encode_vector;
use satiety_models::Embedder;
use satiety_store::memory::VectorRow;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Notify;

use crate::EngineError;

/// Chunks per step of the worker: few, so that searches do not wait long for the model.
const STEP: usize = 32;
/// Chunks per step of the command, which has the model for itself.
const COMMAND_STEP: usize = 256;
/// Pause between two looks for memories of other processes; own saves wake the worker.
const PAUSE: Duration = Duration::from_secs(15);
/// Pause after an error of the model or the database.
const ERROR_PAUSE: Duration = Duration::from_secs(10);

/// State of the background worker.
#[derive(Debug, Default)]
pub(super) struct EmbeddingQueue {
    active: AtomicBool,
    work: Notify,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    done: u64,
    busy: Duration,
    problem: Option<String>,
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
    /// Last error of the worker; it tries again.
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
            problem: progress.problem.clone(),
        }
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
            let done = self.embed_step(true, COMMAND_STEP).await?;
            if done == 0 {
                return Ok(response);
            }
            response.embedded += done;
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

    /// One step of the worker. The model is opened only if there is something to embed.
    async fn embed_if_needed(self) -> Result<usize, EngineError> {
        if !self
            .engine
            .store()
            .await?
            .memories()
            .has_chunk_without_vector()
            .await?
        {
            return Ok(0);
        }
        self.embed_step(false, STEP).await
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

    /// Embeds up to `most` chunks, newest first; returns how many.
    async fn embed_step(self, other_models: bool, most: usize) -> Result<usize, EngineError> {
        let Some(embedder) = self.engine.embedder().await? else {
            return Ok(0);
        };
        let index = self.index_for(embedder).await?;
        let wanted = index.chunks_to_embed(other_models, most);
        if wanted.is_empty() {
            return Ok(0);
        }
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
        let vectors = embedder.embed(&distinct).await?;
        let vectors: Vec<String> = vectors.iter().map(|vector| encode_vector(vector)).collect();
        let rows: Vec<VectorRow> = wanted
            .iter()
            .filter_map(|(doc, memory_id)| {
                let number = numbers.get(texts.get(doc)?.as_str())?;
                Some(VectorRow {
                    doc: *doc,
                    memory_id: memory_id.clone(),
                    vector: vectors.get(*number)?.clone(),
                })
            })
            .collect();
        store
            .memories()
            .put_vectors(&embedder.id().to_string(), &rows)
            .await?;
        // A chunk that was deleted in the meantime is gone from the index, too, once it follows.
        Ok(wanted.len())
    }

    async fn index_for(
        self,
        embedder: &dyn Embedder,
    ) -> Result<std::sync::Arc<satiety::memory::MemoryIndex>, EngineError> {
        let name = embedder.id().to_string();
        self.current_index(Some((&name, embedder.dimension()))).await
    }
}

/// Text of a chunk as the sentence model sees it.
pub(crate) fn embedded_text(title: &str, body: &str) -> String {
    format!("{title}\n{body}")
}
