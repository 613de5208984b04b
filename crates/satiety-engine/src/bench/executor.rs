//! Executes jobs: calls targets, checks responses against expectations, and stores each result before it
//! counts.
//!
//! Concurrent slots take the next job, from a list in this process or from a queue shared through the
//! database ([`Work`]), and pass results to a single writer, which stores each batch in one transaction. So a
//! run that is killed loses at most the jobs in flight, and never repeats a stored result.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use satiety::bench::contract::{ErrorKind, Input, Message, Owner, Request, Response, TargetError, VERSION};
use satiety::bench::judge::criterion_scores;
use satiety::bench::{
    Answers, Attempt, BenchmarkCase, BenchmarkInput, BenchmarkResult, BenchmarkSuite, ErrorOwner, Observed,
    Status, Transform, assess, case_hash,
};
use satiety::harness::sources::is_regression;
use satiety_store::Store;
use satiety_store::bench::{BenchResultRow, ResultKey};
use serde_json::Value;
use tokio::sync::mpsc;

use super::attempts::{Cached, TargetReply, ask};
use super::cache::{ResponseCache, cache_key};
use super::code_host::CodeHosts;
use super::computed::{Computation, SentenceModel, check_context};
use super::history::trim;
use super::limits::{Limits, RateLimiter};
use super::llm_judge::Judges;
use super::suites::LoadedSuite;
use super::target::Target;
use crate::EngineError;

/// Maximum number of results waiting to be written.
const QUEUE: usize = 4000;
/// Maximum number of results per transaction: the next batch is collected while one is written, so that fast
/// targets do not wait for the disk and slow ones lose nothing.
const BATCH: usize = 2000;
/// Default timeout of a response, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;

/// Reserved metric names; values that a target reports under them are ignored.
const RESERVED_METRICS: [&str; 10] = [
    "latency_ms",
    "cost_usd",
    "cost",
    "token_cost",
    "tokens",
    "tokens_in",
    "tokens_out",
    "score",
    "pass",
    "llm_judge_score",
];

/// One case, repeat and variant to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) case: usize,
    pub(super) variant: usize,
    pub(super) repeat: u32,
}

/// System under test.
#[derive(Debug)]
pub(super) struct Variant {
    /// Name of the variant; empty if there is only one.
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) target_hash: String,
    pub(super) skill_dir: Option<String>,
    /// Programs that change each answer before it is checked.
    pub(super) transforms: Vec<Transform>,
    /// Provider of a promptfoo configuration that the target stands for. Such a target gets the variables of
    /// the case.
    pub(super) provider: Option<Value>,
}

/// State shared by the jobs of a run.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) run_id: String,
    pub(super) suite: BenchmarkSuite,
    pub(super) folder: PathBuf,
    pub(super) hashes: Vec<String>,
    /// Index of each case in the suite, by case id.
    pub(super) places: HashMap<String, usize>,
    pub(super) variants: Vec<Variant>,
    pub(super) limits: Limits,
    pub(super) gate: RateLimiter,
    pub(super) judges: Judges,
    /// Processes of the checks that are programs.
    pub(super) checks: CodeHosts,
    /// Model that compares meanings.
    pub(super) sentence_model: SentenceModel,
    pub(super) cache: Option<Box<dyn ResponseCache>>,
    pub(super) seed: u64,
    pub(super) timeout_ms: Option<u64>,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Stored results, including those from before a resume.
    pub done: usize,
    /// Total number of results when complete.
    pub planned: usize,
    pub passed: usize,
    /// Results that failed or timed out.
    pub failed: usize,
    /// Results without a verdict.
    pub undecided: usize,
}

/// Handle that stops a run early; stored results are kept.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<StopInner>);

#[derive(Debug, Default)]
struct StopInner {
    asked: AtomicBool,
    wake: tokio::sync::Notify,
}

impl Stop {
    pub fn stop(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.0.wake.notify_waiters();
    }

    /// Whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Completes once a stop is requested.
    pub(super) async fn asked(&self) {
        let waiting = self.0.wake.notified();
        tokio::pin!(waiting);
        // Register for notification before checking the flag, so that a stop in between is not missed.
        waiting.as_mut().enable();
        if !self.is_requested() {
            waiting.await;
        }
    }
}

/// Source of jobs and sink of their results.
pub(super) trait Work: Send + Sync + 'static {
    /// Identifies an attempt at a job.
    type Ticket: Send + Sync;

    /// Returns the next job; `None` when no more will come.
    fn next(&self) -> impl Future<Output = Option<Task<Self::Ticket>>> + Send;

    /// Stores results atomically and returns those that count.
    fn keep(
        &self,
        done: Vec<Done<Self::Ticket>>,
    ) -> impl Future<Output = Result<Vec<BenchmarkResult>, EngineError>> + Send;
}

/// Job with the state it needs.
#[derive(Debug)]
pub(super) struct Task<T> {
    pub(super) runner: Arc<Runner>,
    pub(super) job: Job,
    pub(super) ticket: T,
    /// Reason why the job is no longer tried.
    pub(super) given_up: Option<String>,
}

/// How far calls may run ahead of the results that `each` has seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// As far as memory allows: the database never slows down the calls.
    Wide,
    /// About as far as the concurrency: `each` may stop the run, and a call made after that is wasted.
    Narrow,
}

/// Runs jobs with a concurrency of `at_a_time` until none is left or `stop` is requested. `each` gets every
/// result once it is stored, trimmed, and returns whether to continue.
pub(super) async fn run<W: Work>(
    work: Arc<W>,
    at_a_time: usize,
    lead: Lead,
    stop: &Stop,
    mut each: impl FnMut(BenchmarkResult) -> bool,
) -> Result<(), EngineError> {
    let enough = Arc::new(AtomicBool::new(false));
    let (sender, mut results) = mpsc::channel::<Done<W::Ticket>>(match lead {
        Lead::Wide => QUEUE,
        Lead::Narrow => 1,
    });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..at_a_time.max(1) {
        let (work, enough, sender, stop) = (work.clone(), enough.clone(), sender.clone(), stop.clone());
        tasks.spawn(async move {
            while !enough.load(Ordering::SeqCst) && !stop.is_requested() {
                let next = tokio::select! {
                    biased;
                    next = work.next() => next,
                    () = stop.asked() => None,
                };
                let Some(task) = next else { break };
                let result = tokio::select! {
                    biased;
                    result = task.perform() => result,
                    // Dropping the future ends the processes that were started for the call.
                    () = stop.asked() => break,
                };
                if sender.send(Done::new(result, task.ticket)).await.is_err() {
                    break;
                }
            }
        });
    }
    drop(sender);
    let mut batch = Vec::new();
    while results.recv_many(&mut batch, BATCH).await > 0 {
        for result in work.keep(std::mem::take(&mut batch)).await? {
            if !each(result) {
                enough.store(true, Ordering::SeqCst);
            }
        }
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    Ok(())
}

/// Jobs that only this process works on: a list and a counter.
pub(super) struct LocalJobs {
    runner: Arc<Runner>,
    jobs: Vec<Job>,
    next: AtomicUsize,
    store: Store,
}

impl LocalJobs {
    pub(super) fn new(runner: Arc<Runner>, jobs: Vec<Job>, store: Store) -> Arc<Self> {
        Arc::new(Self {
            runner,
            jobs,
            next: AtomicUsize::new(0),
            store,
        })
    }

    /// Concurrency: the configured limit, but not more than the number of jobs.
    pub(super) fn at_a_time(&self) -> usize {
        (self.runner.limits.concurrency.max(1) as usize).min(self.jobs.len().max(1))
    }
}

impl Work for LocalJobs {
    type Ticket = ();

    async fn next(&self) -> Option<Task<()>> {
        let job = self.jobs.get(self.next.fetch_add(1, Ordering::SeqCst))?;
        Some(Task {
            runner: self.runner.clone(),
            job: *job,
            ticket: (),
            given_up: None,
        })
    }

    async fn keep(&self, done: Vec<Done<()>>) -> Result<Vec<BenchmarkResult>, EngineError> {
        let (mut rows, mut seen) = (Vec::with_capacity(done.len()), Vec::with_capacity(done.len()));
        for done in done {
            rows.push(done.row?);
            seen.push(done.result);
        }
        self.store.bench().put_results(&self.runner.run_id, &rows).await?;
        Ok(seen)
    }
}

/// Result on its way to the store: serialised for storage, and trimmed for the caller.
pub(super) struct Done<T> {
    pub(super) row: Result<BenchResultRow, EngineError>,
    pub(super) result: BenchmarkResult,
    pub(super) ticket: T,
}

impl<T> Done<T> {
    /// Serialised in the calling slot: the single writer is the bottleneck.
    fn new(mut result: BenchmarkResult, ticket: T) -> Self {
        let row = row(&result);
        trim(&mut result);
        Self { row, result, ticket }
    }
}

impl<T> Task<T> {
    async fn perform(&self) -> BenchmarkResult {
        match &self.given_up {
            // On the heap: the future of a case is large.
            None => Box::pin(self.runner.perform(self.job)).await,
            Some(reason) => self.runner.given_up(self.job, reason),
        }
    }
}

impl Runner {
    /// Ends the processes of targets and checks, and records what the last calls used.
    pub(super) async fn close(&self) {
        self.gate.flush().await;
        for variant in &self.variants {
            variant.target.close().await;
        }
        self.checks.close().await;
    }

    /// Finds the job of a result; `None` if it belongs to another run.
    pub(super) fn job_of(&self, key: &ResultKey) -> Option<Job> {
        Some(Job {
            case: *self.places.get(&key.case_id)?,
            variant: self
                .variants
                .iter()
                .position(|variant| variant.name == key.variant)?,
            repeat: u32::try_from(key.repeat).ok()?,
        })
    }

    /// Creates a result without outcome.
    fn blank(&self, case: &BenchmarkCase, variant: &Variant, job: Job) -> BenchmarkResult {
        let mut result = BenchmarkResult::new(case.case_id.as_str(), job.repeat, Status::Skipped);
        result.case_hash = self.hashes.get(job.case).cloned();
        result.variant = Some(variant.name.clone()).filter(|name| !name.is_empty());
        result.deterministic = self.suite.is_deterministic(case);
        result.regression = is_regression(&self.suite, case);
        result
    }

    /// Result of a job that no worker could finish. The cause is unknown, so it does not count as a failure
    /// of the target.
    fn given_up(&self, job: Job, reason: &str) -> BenchmarkResult {
        let Some((case, variant)) = self.suite.cases.get(job.case).zip(self.variants.get(job.variant)) else {
            // Jobs are created from the same lists, so this cannot happen.
            return BenchmarkResult::new("", job.repeat, Status::Skipped);
        };
        let mut result = self.blank(case, variant, job);
        result.status = Status::Error;
        result.error = Some(reason.to_owned());
        result.error_kind = Some("abandoned".into());
        result.error_owner = Some(ErrorOwner::Infra);
        result
    }

    async fn perform(&self, job: Job) -> BenchmarkResult {
        let Some((case, variant)) = self.suite.cases.get(job.case).zip(self.variants.get(job.variant)) else {
            // Jobs are created from the same lists, so this cannot happen.
            return BenchmarkResult::new("", job.repeat, Status::Skipped);
        };
        let mut result = self.blank(case, variant, job);
        let cannot = case.skip.clone().or_else(|| case.expected.unsupported_reason());
        if let Some(reason) = cannot {
            result.reasons.push(reason);
            return result;
        }
        let mut request = self.request(case, variant, job.repeat);
        let key = self
            .cache
            .as_ref()
            .map(|_| cache_key(&variant.target_hash, &request, &self.folder));
        let cached = self
            .cache
            .as_deref()
            .zip(key.as_deref())
            .map(|(cache, key)| Cached { cache, key });
        let asked = ask(&variant.target, &mut request, &self.gate, &self.limits, cached).await;
        self.decide(case, variant, &asked, &mut result).await;
        result.cached = asked.cached;
        let unanswered = matches!(result.status, Status::Error | Status::Timeout);
        result.deadline_ms = (unanswered || result.cached).then_some(request.deadline_ms);
        // A response that never reaches the judge must not raise the mean score of those that do.
        if !self.judges.is_empty()
            && case.expected.needs_judge()
            && result.llm_judge_score.is_none()
            && result.passed() == Some(false)
        {
            result.llm_judge_score = Some(0.0);
        }
        result
    }

    fn request(&self, case: &BenchmarkCase, variant: &Variant, repeat: u32) -> Request {
        let mut input = input(&case.input);
        if let (Some(_), Some(vars)) = (&variant.provider, case.metadata.get("vars")) {
            input.config_overrides.insert("vars".into(), vars.clone());
        }
        Request {
            v: VERSION,
            run_id: self.run_id.clone(),
            suite_id: self.suite.suite_id.clone(),
            case_id: case.case_id.clone(),
            variant: variant.name.clone(),
            repeat,
            attempt: 0,
            seed: case_seed(self.seed, &case.case_id, repeat),
            input,
            skill_dir: variant.skill_dir.clone(),
            workdir: None,
            deadline_ms: case
                .timeout_ms
                .or(self.timeout_ms)
                .or(self.suite.timeout_ms)
                .unwrap_or(DEFAULT_TIMEOUT_MS),
        }
    }

    async fn decide(
        &self,
        case: &BenchmarkCase,
        variant: &Variant,
        asked: &TargetReply,
        result: &mut BenchmarkResult,
    ) {
        result.latency_ms = asked
            .latency
            .map_or(0.0, |latency| latency.as_secs_f64() * 1000.0);
        result.retries = u32::try_from(asked.retries()).unwrap_or(u32::MAX);
        result.attempts = asked
            .attempts
            .iter()
            .map(|attempt| Attempt {
                latency_ms: attempt.latency_ms,
                error: attempt
                    .error
                    .as_ref()
                    .map(|error| with_stderr(error, &attempt.stderr)),
                error_kind: attempt.error.as_ref().map(|error| enum_name(&error.kind)),
                waited_ms: Some(attempt.waited_ms).filter(|waited| *waited > 0.0),
            })
            .collect();
        match &asked.outcome {
            Err(error) => {
                result.status = if error.kind == ErrorKind::Timeout {
                    Status::Timeout
                } else {
                    Status::Error
                };
                let stderr = asked
                    .attempts
                    .last()
                    .map_or("", |attempt| attempt.stderr.as_str());
                result.error = Some(with_stderr(error, stderr));
                result.error_kind = Some(enum_name(&error.kind));
                result.error_owner = Some(owner_after_retries(error.kind));
            }
            Ok(response) => self.assess(case, variant, response, result).await,
        }
    }

    async fn assess(
        &self,
        case: &BenchmarkCase,
        variant: &Variant,
        response: &Response,
        result: &mut BenchmarkResult,
    ) {
        let usage = response.usage.unwrap_or_default();
        result.tokens_in = usage.input_tokens;
        result.tokens_out = usage.output_tokens;
        result.token_cost = usage.total_tokens().unwrap_or(0);
        result.cost_usd = response.cost_usd;
        result.metrics = response.metrics.clone();
        let context = check_context(case, response, variant.provider.as_ref());
        let computation = Computation {
            hosts: &self.checks,
            model: &self.sentence_model,
            context: &context,
        };
        let failed = |result: &mut BenchmarkResult, output: &Value, problem: String| {
            result.status = Status::Error;
            result.error = Some(format!("cannot run the check: {problem}"));
            result.error_kind = Some("check".into());
            result.error_owner = Some(ErrorOwner::Harness);
            result.actual_output = Some(text(output));
        };
        let changed = match computation.transform(&variant.transforms, &response.output).await {
            Ok(Ok(changed)) => changed,
            // The answer has a form that its transform does not understand.
            Ok(Err(reason)) => {
                result.status = Status::Fail;
                result.score = Some(0.0);
                result.reasons.push(reason);
                result.actual_output = Some(text(&response.output));
                return;
            }
            Err(problem) => return failed(result, &response.output, problem),
        };
        let observed = Observed {
            output: changed,
            metrics: threshold_metrics(result),
        };
        let output = text(&observed.output);
        // Programs first: they are cheap, and may decide without a judge.
        let computed = computation
            .compute(&case.expected, String::new(), &observed.output)
            .await;
        let mut answers = match computed {
            Ok(answers) => answers,
            Err(problem) => return failed(result, &observed.output, problem),
        };
        let mut found = assess(&case.expected, &observed, &answers);
        if !found.pending.is_empty() && !self.judges.is_empty() {
            let mut scores = Vec::new();
            for pending in &found.pending {
                let Some(rubric) = &pending.rubric else { continue };
                let output = text(observed_by(&answers, &pending.place, &observed.output));
                let secret = format!(
                    "{}/{}/{}/{}",
                    self.run_id, case.case_id, result.repeat, pending.place
                );
                match self.judges.ask(&case.input.goal, &output, rubric, &secret).await {
                    Ok((score, opinions)) => {
                        answers.judged.insert(pending.place.clone(), score);
                        scores.push(score);
                        result.scores.extend(criterion_scores(&opinions));
                        result.judges.extend(opinions);
                    }
                    Err(problem) => {
                        result.status = Status::Error;
                        result.error = Some(format!("cannot call the judge: {problem}"));
                        result.error_kind = Some("judge".into());
                        result.error_owner = Some(ErrorOwner::Judge);
                        result.actual_output = Some(output);
                        return;
                    }
                }
            }
            result.llm_judge_score = satiety::stats::mean(&scores).ok();
            found = assess(&case.expected, &observed, &answers);
        }
        let waits_for_judge = found.pending.iter().any(|pending| pending.rubric.is_some());
        if case.expected.scorer.is_some() && !waits_for_judge {
            if let Err(problem) = computation.score(&case.expected, &observed, &mut answers).await {
                return failed(result, &observed.output, problem);
            }
            found = assess(&case.expected, &observed, &answers);
        }
        result.status = found.status;
        result.score = found.score;
        result.reasons = found.reasons;
        // Named parts come before the criteria of judges.
        result.scores.splice(0..0, found.scores);
        // A judge's verdict in words: the criteria that the answer does not meet.
        if found.status == Status::Fail {
            let criteria = result.judges.iter().flat_map(|opinion| &opinion.criteria);
            let unmet = criteria.filter(|criterion| !criterion.met);
            let mut words: Vec<String> = unmet
                .map(|criterion| match criterion.reason.as_str() {
                    "" => format!("not met: {}", criterion.criterion),
                    reason => format!("not met: {} ({reason})", criterion.criterion),
                })
                .collect();
            words.dedup();
            result.reasons.extend(words);
        }
        if found.status == Status::Pending {
            let judged = found.pending.iter().any(|pending| pending.rubric.is_some());
            let waits = if judged {
                "pending: pass a judge with --judge"
            } else {
                "pending: add a label with satiety bench label"
            };
            result.reasons.push(waits.into());
        }
        result.actual_output = Some(output);
    }
}

/// The answer as a part sees it: after the transforms of the part, or of the closest one around it.
fn observed_by<'a>(answers: &'a Answers, place: &str, output: &'a Value) -> &'a Value {
    let mut place = Some(place);
    while let Some(here) = place {
        if let Some(Ok(changed)) = answers.transformed.get(here) {
            return changed;
        }
        place = match here.rsplit_once('.') {
            Some((around, _)) => Some(around),
            None => (!here.is_empty()).then_some(""),
        };
    }
    output
}

/// Metrics that thresholds can refer to.
pub(super) fn threshold_metrics(result: &BenchmarkResult) -> BTreeMap<String, f64> {
    let mut metrics = result.metrics.clone();
    // A target's own metric must not replace a built-in one.
    metrics.retain(|name, _| !RESERVED_METRICS.contains(&name.as_str()));
    metrics.insert("latency_ms".into(), result.latency_ms);
    if let Some(cost) = result.cost_usd {
        metrics.insert("cost_usd".into(), cost);
    }
    if result.tokens_in.is_some() || result.tokens_out.is_some() {
        metrics.insert("token_cost".into(), result.token_cost as f64);
        metrics.insert("tokens".into(), result.token_cost as f64);
    }
    metrics.extend(
        result
            .tokens_in
            .map(|tokens| ("tokens_in".to_owned(), tokens as f64)),
    );
    metrics.extend(
        result
            .tokens_out
            .map(|tokens| ("tokens_out".to_owned(), tokens as f64)),
    );
    metrics
}

fn input(input: &BenchmarkInput) -> Input {
    let message = |value: &Value| {
        let part = |key: &str| value.get(key).map(text).unwrap_or_default();
        Message {
            role: part("role"),
            content: part("content"),
        }
    };
    Input {
        goal: input.goal.clone(),
        messages: input.messages.iter().flatten().map(message).collect(),
        context: input
            .context
            .iter()
            .flatten()
            .cloned()
            .map(Value::Object)
            .collect(),
        config_overrides: input.config_overrides.clone().unwrap_or_default(),
        skill_args: input.skill_args.clone().unwrap_or_default(),
        files: input.files.clone(),
    }
}

/// Seed of a case and repeat, derived from the run's seed; the same for all variants.
fn case_seed(seed: u64, case: &str, repeat: u32) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(case.as_bytes());
    hasher.update(&repeat.to_le_bytes());
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Hash of every case, to distinguish a changed case from a changed system.
pub(super) fn hashes(loaded: &LoadedSuite) -> Vec<String> {
    let cases = loaded.suite.cases.iter();
    cases.map(|case| case_hash(case, &loaded.files)).collect()
}

/// Index of each case in the suite, by case id.
pub(super) fn places(suite: &BenchmarkSuite) -> HashMap<String, usize> {
    let cases = suite.cases.iter().enumerate();
    cases.map(|(place, case)| (case.case_id.clone(), place)).collect()
}

/// Converts a result to its database row.
pub(super) fn row(result: &BenchmarkResult) -> Result<BenchResultRow, EngineError> {
    Ok(BenchResultRow {
        key: ResultKey {
            case_id: result.case_id.clone(),
            variant: result.variant.clone().unwrap_or_default(),
            repeat: i64::from(result.repeat),
        },
        status: enum_name(&result.status),
        score: result.score,
        latency_ms: result.latency_ms,
        token_cost: i64::try_from(result.token_cost).unwrap_or(i64::MAX),
        human_label: result.human_label.clone(),
        body: serde_json::to_string(result)?,
    })
}

/// Serialised name of an enum value.
pub(super) fn enum_name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(Into::into))
        .unwrap_or_default()
}

/// Owner of a failure after the last attempt. Rate limits, outages and dropped connections are reported by
/// the target, which could claim them for cases that it would fail, so they count against it. Only errors of
/// satiety itself do not.
fn owner_after_retries(kind: ErrorKind) -> ErrorOwner {
    match kind.owner() {
        Owner::Target | Owner::Infra => ErrorOwner::Target,
        Owner::Judge => ErrorOwner::Judge,
        Owner::Harness => ErrorOwner::Harness,
    }
}

fn with_stderr(error: &TargetError, stderr: &str) -> String {
    let last: Vec<&str> = stderr.lines().rev().take(5).collect();
    if last.is_empty() {
        return error.message.clone();
    }
    let last: Vec<&str> = last.into_iter().rev().collect();
    format!("{}\n{}", error.message, last.join("\n"))
}

/// Text of a value: a string as it is, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
