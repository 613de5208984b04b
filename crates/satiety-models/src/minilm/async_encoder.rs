//! Async side of the sentence model: a queue of the texts of all callers, computed by at most one thread for
//! each core.
//!
//! A thread takes about one batch of texts at a time, from several calls if they are short, and a long call goes
//! to the end of the queue after each batch. So concurrent calls are computed together without waiting for
//! each other: the time window in which they are collected is the time that the batch before takes, and it is
//! zero while a core is free. A long call uses all cores, and a short one waits for a batch, not for a call.
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::{BATCH_TOKENS, MiniLm, processors};
use crate::embedder::{EmbedError, EmbedFuture, Embedder, EmbedderId};

/// Calls with texts that no thread has taken yet.
#[derive(Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Call>>,
    /// Threads that take texts from the queue, at most one for each core.
    threads: usize,
}

struct Call {
    texts: Vec<String>,
    /// Set when the caller is dropped, so that abandoned work ends with its batch.
    cancelled: Arc<AtomicBool>,
    progress: Mutex<Progress>,
}

struct Progress {
    /// Number of texts that threads have taken.
    taken: usize,
    /// Number of texts that have a vector.
    finished: usize,
    /// One for each text, empty until it is computed.
    vectors: Vec<Vec<f32>>,
    answer: Option<oneshot::Sender<Vec<Vec<f32>>>>,
}

/// Texts of one call that belong to a batch.
struct Part {
    call: Arc<Call>,
    texts: Range<usize>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a call. Returns how many threads to start for it.
    fn push(&self, call: Arc<Call>, limit: usize) -> usize {
        let batches = (0..call.texts.len())
            .map(|text| call.cost(text))
            .sum::<usize>()
            .div_ceil(BATCH_TOKENS);
        let mut state = self.state();
        state.waiting.push_back(call);
        let start = batches.min(limit.saturating_sub(state.threads));
        state.threads += start;
        start
    }

    /// Takes texts for about one batch. Returns `None` if there are none; then the calling thread does not
    /// count any more.
    fn take(&self) -> Option<Vec<Part>> {
        let mut state = self.state();
        let mut parts = Vec::new();
        let mut capacity = BATCH_TOKENS;
        while capacity > 0
            && let Some(call) = state.waiting.pop_front()
        {
            if call.cancelled.load(Ordering::Relaxed) {
                continue;
            }
            let (texts, cost) = call.take(capacity, parts.is_empty());
            let is_left = texts.end < call.texts.len();
            capacity = if is_left { 0 } else { capacity.saturating_sub(cost) };
            match (is_left, texts.is_empty()) {
                // The batch has no capacity for its next text: it stays first.
                (true, true) => state.waiting.push_front(Arc::clone(&call)),
                (true, false) => state.waiting.push_back(Arc::clone(&call)),
                (false, _) => {}
            }
            if !texts.is_empty() {
                parts.push(Part { call, texts });
            }
        }
        if parts.is_empty() {
            state.threads -= 1;
            return None;
        }
        Some(parts)
    }
}

impl Call {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Estimate of the tokens of a text. English has about four bytes for each.
    fn cost(&self, text: usize) -> usize {
        (self.texts[text].len() / 4 + 2).min(256)
    }

    /// Takes the next texts up to this estimate; at least one if `first`.
    fn take(&self, capacity: usize, first: bool) -> (Range<usize>, usize) {
        let mut progress = self.progress();
        let start = progress.taken;
        let mut cost = 0;
        while progress.taken < self.texts.len() {
            let next = self.cost(progress.taken);
            if cost + next > capacity && !(first && progress.taken == start) {
                break;
            }
            cost += next;
            progress.taken += 1;
        }
        (start..progress.taken, cost)
    }

    /// Stores the vectors of some texts, and answers if they were the last ones.
    fn put(&self, texts: Range<usize>, vectors: impl Iterator<Item = Vec<f32>>) {
        let mut progress = self.progress();
        progress.finished += texts.len();
        for (slot, vector) in progress.vectors[texts].iter_mut().zip(vectors) {
            *slot = vector;
        }
        if progress.finished == self.texts.len()
            && let Some(answer) = progress.answer.take()
        {
            // The caller may be gone.
            let _ = answer.send(std::mem::take(&mut progress.vectors));
        }
    }
}

/// Computes batches until the queue is empty.
fn work(model: &MiniLm) {
    let queue = &model.model.queue;
    // A panic must not count as a thread that still works. The calls of its batch get an error, because their
    // answers are dropped.
    let mut counted = CountedThread(Some(queue));
    while let Some(parts) = queue.take() {
        let texts: Vec<&str> = parts
            .iter()
            .flat_map(|part| &part.call.texts[part.texts.clone()])
            .map(String::as_str)
            .collect();
        let mut vectors = model.encode_on(&texts, 1).into_iter();
        for part in parts {
            let vectors = vectors.by_ref().take(part.texts.len());
            part.call.put(part.texts, vectors);
        }
    }
    counted.0 = None;
}

struct CountedThread<'a>(Option<&'a Queue>);

impl Drop for CountedThread<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            queue.state().threads -= 1;
        }
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
            if texts.is_empty() {
                return Ok(Vec::new());
            }
            let (answer, vectors) = oneshot::channel();
            let cancelled = Arc::new(AtomicBool::new(false));
            let _cancel = CancelOnDrop(Arc::clone(&cancelled));
            let call = Call {
                texts: texts.iter().map(|text| (*text).to_owned()).collect(),
                cancelled,
                progress: Mutex::new(Progress {
                    taken: 0,
                    finished: 0,
                    vectors: vec![Vec::new(); texts.len()],
                    answer: Some(answer),
                }),
            };
            for _ in 0..self.model.queue.push(Arc::new(call), processors()) {
                let model = self.clone();
                tokio::task::spawn_blocking(move || work(&model));
            }
            vectors.await.map_err(|error| EmbedError::Task(error.into()))
        })
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(texts: &[&str]) -> (Arc<Call>, oneshot::Receiver<Vec<Vec<f32>>>) {
        let (answer, vectors) = oneshot::channel();
        let call = Call {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            cancelled: Arc::default(),
            progress: Mutex::new(Progress {
                taken: 0,
                finished: 0,
                vectors: vec![Vec::new(); texts.len()],
                answer: Some(answer),
            }),
        };
        (Arc::new(call), vectors)
    }

    /// The texts of a batch by call, as `number of the call: range`.
    fn taken(queue: &Queue, calls: &[&Arc<Call>]) -> Option<Vec<(usize, Range<usize>)>> {
        let number = |part: &Part| {
            calls
                .iter()
                .position(|call| Arc::ptr_eq(call, &part.call))
                .unwrap()
        };
        let parts = queue.take()?;
        Some(
            parts
                .iter()
                .map(|part| (number(part), part.texts.clone()))
                .collect(),
        )
    }

    #[test]
    fn short_calls_share_a_batch_and_a_long_one_takes_turns() {
        let queue = Queue::default();
        // An estimate of 52 tokens each: two in a batch of 128.
        let long = "word ".repeat(40);
        let (long, _) = call(&[long.as_str(); 5]);
        let (first, _) = call(&["short"]);
        let (second, _) = call(&["also short", "and another"]);
        let calls = [&long, &first, &second];
        assert_eq!(queue.push(Arc::clone(&long), 2), 2);
        assert_eq!(queue.push(Arc::clone(&first), 2), 0, "no more threads than cores");
        assert_eq!(queue.push(Arc::clone(&second), 2), 0);
        assert_eq!(taken(&queue, &calls).unwrap(), [(0, 0..2)]);
        assert_eq!(taken(&queue, &calls).unwrap(), [(1, 0..1), (2, 0..2), (0, 2..4)]);
        assert_eq!(taken(&queue, &calls).unwrap(), [(0, 4..5)]);
        assert!(taken(&queue, &calls).is_none());
        assert!(taken(&queue, &calls).is_none());
        assert_eq!(queue.state().threads, 0);
    }

    #[test]
    fn a_text_that_is_longer_than_a_batch_is_taken_alone() {
        let queue = Queue::default();
        let text = "word ".repeat(1000);
        let (huge, _) = call(&[text.as_str(); 2]);
        let (short, _) = call(&["short"]);
        assert_eq!(queue.push(Arc::clone(&huge), 1), 1);
        queue.push(Arc::clone(&short), 1);
        let calls = [&huge, &short];
        assert_eq!(taken(&queue, &calls).unwrap(), [(0, 0..1)]);
        assert_eq!(taken(&queue, &calls).unwrap(), [(1, 0..1)]);
        assert_eq!(taken(&queue, &calls).unwrap(), [(0, 1..2)]);
        assert!(taken(&queue, &calls).is_none());
    }

    #[test]
    fn an_abandoned_call_is_not_computed() {
        let queue = Queue::default();
        let (abandoned, _) = call(&["a"]);
        assert_eq!(queue.push(Arc::clone(&abandoned), 8), 1);
        drop(CancelOnDrop(Arc::clone(&abandoned.cancelled)));
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_panic_leaves_the_count_of_threads_right_and_fails_the_call() {
        let queue = Queue::default();
        let (failing, mut vectors) = call(&["a"]);
        queue.push(failing, 1);
        let thread = CountedThread(Some(&queue));
        drop(queue.take());
        drop(thread);
        assert_eq!(queue.state().threads, 0);
        assert!(matches!(
            vectors.try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        ));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_calls_get_their_own_vectors() {
        let model = MiniLm::builtin().unwrap();
        let texts: Vec<String> = (0..60)
            .map(|number| format!("claim {number} of an agent"))
            .collect();
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let expected = model.encode(&all);
        let tasks: Vec<_> = (0..30)
            .map(|first| {
                let (model, texts) = (model.clone(), texts.clone());
                tokio::spawn(async move {
                    let own: Vec<&str> = texts[first..first * 2].iter().map(String::as_str).collect();
                    (first, model.embed(&own).await.unwrap())
                })
            })
            .collect();
        for task in tasks {
            let (first, vectors) = task.await.unwrap();
            assert_eq!(vectors, expected[first..first * 2]);
        }
    }
}
