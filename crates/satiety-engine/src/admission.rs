//! Admission control and cancellation for work that runs on behalf of a remote caller.
//!
//! A surface that serves others (HTTP, MCP over HTTP) runs each request inside [`Admission::scope`]. Use
//! cases estimate their cost from the size of the input and call `admit` before they start: a request that is
//! too expensive, or whose caller has spent its budget, is refused before it costs anything. Without a scope
//! (the command line) nothing is refused.
//!
//! CPU-bound work runs in `Engine::compute`: on a separate thread, with bounded concurrency and a
//! cancellation flag that is set as soon as the caller no longer waits for the response. The work checks the
//! flag between steps, so it stops consuming CPU when the request ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use satiety::admission::{Budget, BudgetRule, ModelCost, Workload};
use satiety::cancel::Cancellation;
use satiety_models::{EmbedError, EmbedFuture, Embedder, EmbedderId};
use tokio::sync::Semaphore;

use crate::{Engine, EngineError};

/// Callers whose budgets are tracked before those with a full budget are dropped.
const MAX_CALLERS: usize = 10_000;
/// Work cheaper than this runs inline: handing it to another thread would take longer.
const INLINE_UNITS: u64 = 8;

/// How long work outside a request waits before it retries a busy model.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

tokio::task_local! {
    static CURRENT: Option<Arc<Admission>>;
}

/// Cost limits of requests, in units of about one millisecond of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdmissionSettings {
    /// Units that one request may cost; `None` for no limit.
    pub request_units: Option<u64>,
    /// Units that one caller may spend per minute; `None` for no limit.
    pub caller_units_per_minute: Option<u64>,
}

/// Budgets of all callers.
#[derive(Debug)]
pub struct Admissions {
    settings: AdmissionSettings,
    budgets: Mutex<HashMap<String, Budget>>,
    began: Instant,
}

impl Admissions {
    /// Starts with a full budget for every caller.
    pub fn new(settings: AdmissionSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            budgets: Mutex::default(),
            began: Instant::now(),
        })
    }

    /// Starts a request of this caller; its computations must finish before `deadline`.
    pub fn request(self: &Arc<Self>, caller: impl Into<String>, deadline: Option<Instant>) -> Admission {
        Admission {
            of: Arc::clone(self),
            caller: caller.into(),
            deadline,
            reserved: AtomicU64::new(0),
            used_micros: AtomicU64::new(0),
            is_prepaid: AtomicBool::new(false),
        }
    }

    fn rule(&self) -> Option<BudgetRule> {
        self.settings
            .caller_units_per_minute
            .filter(|units| *units > 0)
            .map(|units| BudgetRule {
                units_per_minute: units as f64,
            })
    }

    fn with_budget<T>(
        &self,
        caller: &str,
        change: impl FnOnce(&mut Budget, BudgetRule, f64) -> T,
    ) -> Option<T> {
        let rule = self.rule()?;
        let now = self.began.elapsed().as_secs_f64();
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        if budgets.len() >= MAX_CALLERS {
            budgets.retain(|_, budget| !budget.is_full(rule, now));
        }
        let budget = budgets
            .entry(caller.to_owned())
            .or_insert_with(|| Budget::full(rule, now));
        Some(change(budget, rule, now))
    }
}

/// One request: its caller, its deadline, and the units it has reserved and used.
#[derive(Debug)]
pub struct Admission {
    of: Arc<Admissions>,
    caller: String,
    deadline: Option<Instant>,
    reserved: AtomicU64,
    used_micros: AtomicU64,
    /// Whether the use case has paid for its embeddings together with everything else.
    is_prepaid: AtomicBool,
}

impl Admission {
    /// Runs `work` as this request. Units that were reserved but not used are refunded to the caller at the
    /// end.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(Some(Arc::new(self)), work).await
    }

    fn reserve(&self, what: &'static str, units: u64) -> Result<(), EngineError> {
        if let Some(limit) = self.of.settings.request_units
            && self.reserved.load(Ordering::Relaxed).saturating_add(units) > limit
        {
            return Err(EngineError::TooCostly {
                what,
                estimated: units,
                limit,
            });
        }
        let taken = self.of.with_budget(&self.caller, |budget, rule, now| {
            budget.take(rule, units as f64, now)
        });
        if let Some(Err(over)) = taken {
            return Err(EngineError::BudgetSpent {
                estimated: units,
                left: floor(over.left),
                retry_after: floor(over.wait_seconds.ceil()).max(1),
            });
        }
        self.reserved.fetch_add(units, Ordering::Relaxed);
        Ok(())
    }

    fn note_use(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.used_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let reserved = *self.reserved.get_mut() as f64;
        let used = *self.used_micros.get_mut() as f64 / 1000.0;
        let unused = reserved - used;
        self.of.with_budget(&self.caller, |budget, rule, now| {
            budget.refund(rule, unused, now);
        });
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a float that is too large becomes the largest integer"
)]
fn floor(value: f64) -> u64 {
    value.max(0.0) as u64
}

fn current() -> Option<Arc<Admission>> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Runs work that is shared by all callers, such as embedding the prototypes of a profile; it is not charged
/// to a caller.
pub(crate) async fn unmetered<F: Future>(work: F) -> F::Output {
    CURRENT.scope(None, work).await
}

/// Reserves the cost of `work` for the current request, or refuses it. Outside a request all work is
/// admitted.
pub(crate) fn admit(what: &'static str, work: &Workload, model: ModelCost) -> Result<(), EngineError> {
    let Some(current) = current() else {
        return Ok(());
    };
    current.reserve(what, work.units(model))?;
    // The estimate includes the texts; do not charge for them again when they are embedded.
    current.is_prepaid.store(true, Ordering::Relaxed);
    Ok(())
}

/// Threads that compute for requests, with a bounded queue.
#[derive(Debug)]
pub(crate) struct ComputePool {
    permits: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    max_queued: usize,
}

/// Maximum number of requests that wait for a compute thread.
const MAX_QUEUED: usize = 128;

impl Default for ComputePool {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            permits: Arc::new(Semaphore::new(processors)),
            waiting: Arc::default(),
            max_queued: MAX_QUEUED,
        }
    }
}

struct QueueSlot(Arc<AtomicUsize>);

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Engine {
    /// Runs work that costs `units` of CPU time, on a separate thread unless it is small. The flag passed to
    /// the work is set when the future is dropped or the request's deadline passes; the work must check it
    /// between steps. When the queue is full, a request is refused; callers outside a request wait.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        units: u64,
        work: impl FnOnce(&Cancellation) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        if units < INLINE_UNITS {
            let began = Instant::now();
            let outcome = work(&Cancellation::default());
            if let Some(current) = current() {
                current.note_use(began.elapsed());
            }
            return outcome;
        }
        self.compute_on_thread(work).await
    }

    /// Like `compute`, but always on a separate thread.
    pub(crate) async fn compute_on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancellation) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let current = current();
        let pool = &self.compute;
        let before = pool.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = QueueSlot(Arc::clone(&pool.waiting));
        if current.is_some() && before >= pool.max_queued {
            return Err(EngineError::Overloaded);
        }
        let deadline = current.as_ref().and_then(|current| current.deadline);
        let cancellation = Cancellation::default();
        let _cancel = cancellation.on_drop();
        let computing = async {
            // The work itself holds the permit: it may need a moment to stop after the caller is gone.
            let permit = Arc::clone(&pool.permits).acquire_owned().await;
            drop(waiting);
            let flag = cancellation.clone();
            let span = tracing::Span::current();
            let task = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                let _span = span.entered();
                let began = Instant::now();
                let outcome = if flag.is_cancelled() {
                    Err(EngineError::Cancelled)
                } else {
                    work(&flag)
                };
                if let Some(current) = current {
                    current.note_use(began.elapsed());
                }
                outcome
            });
            match task.await {
                Ok(outcome) => outcome,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(EngineError::Cancelled),
                },
            }
        };
        match deadline {
            None => computing.await,
            Some(deadline) => tokio::time::timeout_at(deadline.into(), computing)
                .await
                .unwrap_or(Err(EngineError::Cancelled)),
        }
    }

    /// CPU cost of the configured sentence model.
    pub(crate) fn model_cost(&self) -> ModelCost {
        match self.settings.embedder.split(':').next() {
            Some("none") => ModelCost::None,
            Some("builtin" | "dir") => ModelCost::Local,
            _ => ModelCost::Remote,
        }
    }
}

/// Embedder that charges texts to the current request and observes its deadline.
#[derive(Debug)]
pub(crate) struct MeteredEmbedder {
    inner: Box<dyn Embedder>,
    cost: ModelCost,
}

impl MeteredEmbedder {
    pub(crate) fn new(inner: Box<dyn Embedder>, cost: ModelCost) -> Self {
        Self { inner, cost }
    }
}

impl Embedder for MeteredEmbedder {
    fn id(&self) -> &EmbedderId {
        self.inner.id()
    }

    fn dimension(&self) -> usize {
        self.inner.dimension()
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        let Some(current) = current() else {
            // Jobs and commands are not subject to admission; they wait for a permit.
            return Box::pin(async move {
                loop {
                    match self.inner.embed(texts).await {
                        Err(EmbedError::Busy { .. }) => tokio::time::sleep(RETRY_PAUSE).await,
                        outcome => return outcome,
                    }
                }
            });
        };
        Box::pin(async move {
            let units = Workload::for_texts(texts.iter().copied()).units(self.cost);
            if !current.is_prepaid.load(Ordering::Relaxed) {
                current
                    .reserve("texts to embed", units)
                    .map_err(|error| EmbedError::Refused(Box::new(error)))?;
            }
            let began = Instant::now();
            let embedding = self.inner.embed(texts);
            let outcome = match current.deadline {
                None => embedding.await,
                Some(deadline) => tokio::time::timeout_at(deadline.into(), embedding)
                    .await
                    .unwrap_or(Err(EmbedError::Refused(Box::new(EngineError::Cancelled)))),
            };
            // Texts of several requests are computed together, and each of them waits for the others: time beyond
            // the estimate is not its own.
            if self.cost == ModelCost::Local {
                current.note_use(began.elapsed().min(Duration::from_millis(units)));
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admissions(request: u64, caller: u64) -> Arc<Admissions> {
        Admissions::new(AdmissionSettings {
            request_units: Some(request),
            caller_units_per_minute: Some(caller),
        })
    }

    fn work(steps: u64) -> Workload {
        Workload {
            steps: steps * 20_000,
            ..Workload::default()
        }
    }

    #[tokio::test]
    async fn too_large_requests_are_refused_before_any_work() {
        let all = admissions(100, 1000);
        let refused = all
            .request("a", None)
            .scope(async { admit("rounds", &work(500), ModelCost::None) })
            .await;
        assert!(matches!(
            refused,
            Err(EngineError::TooCostly {
                estimated: 501,
                limit: 100,
                ..
            })
        ));
        // Parts of one request add up.
        let outcome = all
            .request("a", None)
            .scope(async {
                admit("rounds", &work(60), ModelCost::None)?;
                admit("rounds", &work(60), ModelCost::None)
            })
            .await;
        assert!(matches!(outcome, Err(EngineError::TooCostly { .. })));
        assert!(
            admit("rounds", &work(500), ModelCost::None).is_ok(),
            "work outside a request is admitted"
        );
    }

    #[tokio::test]
    async fn an_exhausted_budget_does_not_affect_other_callers() {
        let all = admissions(1000, 1000);
        let first = all.request("a", None);
        assert!(first.reserve("x", 900).is_ok());
        let refused = all.request("a", None).reserve("x", 200);
        assert!(matches!(
            refused,
            Err(EngineError::BudgetSpent { retry_after: 1.., .. })
        ));
        assert!(all.request("b", None).reserve("x", 200).is_ok());
        // Unused units are refunded.
        drop(first);
        assert!(all.request("a", None).reserve("x", 900).is_ok());
    }

    /// Takes as long as a busy model, and computes nothing.
    #[derive(Debug)]
    struct Busy(EmbedderId);

    impl Embedder for Busy {
        fn id(&self) -> &EmbedderId {
            &self.0
        }

        fn dimension(&self) -> usize {
            1
        }

        fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(vec![vec![1.0]; texts.len()])
            })
        }
    }

    #[tokio::test]
    async fn waiting_for_the_texts_of_other_requests_is_not_charged() {
        let all = admissions(1000, 1000);
        let busy = Busy(EmbedderId::new("busy", &blake3::hash(b"busy"), "mean"));
        let model = MeteredEmbedder::new(Box::new(busy), ModelCost::Local);
        let calls = (0..20).map(|_| all.request("a", None).scope(model.embed(&["a text"])));
        for outcome in futures_util::future::join_all(calls).await {
            assert!(outcome.is_ok());
        }
        // 20 x 300 ms would have spent the budget six times.
        assert!(all.request("a", None).reserve("x", 900).is_ok());
    }

    #[tokio::test]
    async fn usage_beyond_the_estimate_is_charged() {
        let all = admissions(10_000, 1000);
        let first = all.request("a", None);
        assert!(first.reserve("x", 1).is_ok());
        first.note_use(Duration::from_secs(5));
        drop(first);
        assert!(all.request("a", None).reserve("x", 1).is_err());
    }
}
