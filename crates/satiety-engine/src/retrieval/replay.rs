//! Replays the evaluation corpus against a system: stores every answer as it arrives, measures the run, and
//! compares it with an earlier one by the same judgments.

use crate::handles::RetrievalOperations;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use satiety::ids;
use satiety::memory::{FeedbackKind, Intent, Link, PastQuery, SessionHistory};
use satiety::retrieval::{
    Comparison, ComparisonSettings, Document, DocumentMatcher, EvalQuery, EvaluationOptions, FileFormat,
    Gate, JudgmentSource, Latency, Measure, MissingQueries, OrderOptions, Qrels, QrelsReader, RunReader,
    TraceReader, Verdict, causal_chain, compare, evaluate_with, query_changes,
};
use satiety::stats::BootstrapSettings;
use satiety_store::evaluation::{EvalJudgmentRow, EvalQueryRow, EvalResultRow};
use satiety_store::golden::AnswerRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::files::Answers;
use super::golden_error::{GoldenError, share};
use super::history::{query_line, result_row, trusted};
use super::query_facts::{QueryFacts, each_document};
use super::systems::{System, SystemContext, SystemSpec};
use super::{
    CompareResponse, EvaluateRequest, FactFiles, JudgedShare, Rankings, RunComparison, RunReport, blocking,
    changed, judged_share, report,
};
use crate::EngineError;
use crate::bench::Stop;

/// Maximum number of queries and events of a session that are read to repeat one of its searches.
const MAX_SESSION_QUERIES: u32 = 1000;

/// Request to replay the corpus.
#[derive(Debug, Clone)]
pub struct ReplayRequest {
    /// System to query.
    pub system: SystemSpec,
    /// Environment of the system.
    pub context: SystemContext,
    /// Number of results requested and evaluated.
    pub depth: usize,
    /// Judgments to use.
    pub judgments: JudgmentFilter,
    /// File with the text of documents that are not memories in this database, to identify results without a
    /// known id.
    pub documents: Option<PathBuf>,
    /// Measures to compute; empty for the defaults.
    pub measures: Vec<Measure>,
    /// Evaluation options, such as the relevance threshold.
    pub options: EvaluationOptions,
    /// Bootstrap of the confidence intervals.
    pub bootstrap: BootstrapSettings,
    /// Fields of queries to break the metrics down by.
    pub by: Vec<String>,
    /// Whether to return the value of every query.
    pub per_query: bool,
    /// Id of the run to compare with, or `last`.
    pub baseline: Option<String>,
    pub comparison: ComparisonSettings,
    /// Measures of the comparison.
    pub decisive: Vec<Measure>,
    /// Accepted loss against the baseline, if there is a gate.
    pub fail_if_worse: Option<f64>,
    /// Id of an interrupted run to resume.
    pub resume: Option<String>,
}

impl ReplayRequest {
    /// Creates a request with defaults: twenty results, all judgments, the default measures, no baseline.
    pub fn new(system: SystemSpec, context: SystemContext) -> Self {
        Self {
            system,
            context,
            depth: 20,
            judgments: JudgmentFilter::default(),
            documents: None,
            measures: Vec::new(),
            options: EvaluationOptions::default(),
            bootstrap: BootstrapSettings::default(),
            by: Vec::new(),
            per_query: false,
            baseline: None,
            comparison: ComparisonSettings::default(),
            decisive: satiety::retrieval::decisive_measures(),
            fail_if_worse: None,
            resume: None,
        }
    }
}

/// Selection of judgments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JudgmentFilter {
    /// Allowed sources; empty for any.
    pub sources: Vec<JudgmentSource>,
    /// Minimum confidence; judgments without one always count.
    pub min_confidence: f64,
}

impl JudgmentFilter {
    /// Returns true if a judgment is selected.
    pub(super) fn takes(&self, judgment: &EvalJudgmentRow) -> bool {
        let source =
            self.sources.is_empty() || self.sources.iter().any(|source| source.name() == judgment.source);
        source && judgment.confidence.unwrap_or(1.0) >= self.min_confidence
    }
}

/// Progress of a replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplayProgress {
    /// Number of queries sent.
    pub done: usize,
    /// Number of queries in the corpus.
    pub planned: usize,
    /// Number of failed queries.
    pub failed: usize,
}

/// Result of replaying the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReplayResponse {
    /// Id of the measured run.
    pub run_id: String,
    /// Name of the system that was queried.
    pub system: String,
    /// Number of queries in the corpus.
    pub queries: usize,
    /// Number of queries that were answered.
    pub answered: usize,
    /// Failed queries, which are excluded from all metrics.
    pub failed: Vec<FailedQuery>,
    /// Answers in prose, whose results were identified by their text.
    pub prose: usize,
    /// Whether the replay was interrupted; if so, answers are stored but not measured.
    pub interrupted: bool,
    /// Latency of the answers in milliseconds, by wall clock.
    pub latency_ms: Option<Latency>,
    /// Metrics of the run; absent without judgments.
    pub report: Option<RunReport>,
    /// Comparison with the baseline, if there is one.
    pub comparison: Option<CompareResponse>,
}

/// A query that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedQuery {
    /// Id of the query.
    pub query_id: String,
    /// Error message of the failure.
    pub error: String,
}

type Corpus = Vec<(EvalQueryRow, Vec<EvalJudgmentRow>)>;

impl RetrievalOperations<'_> {
    /// Sends every query of the corpus to a system, stores the answers, and measures them. The query log is
    /// not affected.
    pub async fn replay_corpus(
        self,
        request: ReplayRequest,
        stop: &Stop,
        seen: impl Fn(ReplayProgress),
    ) -> Result<ReplayResponse, EngineError> {
        share("minimum confidence", request.judgments.min_confidence)?;
        let corpus = self.whole_corpus().await?;
        let baseline = match &request.baseline {
            Some(run) => Some(self.baseline_answers(run).await?),
            None => None,
        };
        let system = System::open(&request.system, request.depth, &request.context)?;
        let (run_id, mut answers) = self.begun(&request, &system.name).await?;
        let (known, facts) = self.known_documents(&request, &system).await?;
        let links = self.memory_links().await?;
        let asked = self
            .ask_all(&system, &corpus, &known, &run_id, &mut answers, stop, &seen)
            .await;
        system.close().await;
        let prose = asked?;
        let rows: Vec<AnswerRow> = answers.into_values().collect();
        let failed: Vec<FailedQuery> = rows
            .iter()
            .filter_map(|row| {
                let error = row.error.clone()?;
                let query_id = row.query_id.clone();
                Some(FailedQuery { query_id, error })
            })
            .collect();
        let mut replayed = ReplayResponse {
            system: system.name.clone(),
            queries: corpus.len(),
            answered: rows.len() - failed.len(),
            failed,
            prose,
            interrupted: rows.len() < corpus.len(),
            latency_ms: None,
            report: None,
            comparison: None,
            run_id,
        };
        if let (0, Some(first)) = (replayed.answered, replayed.failed.first()) {
            return Err(GoldenError::AllFailed {
                queries: replayed.failed.len(),
                first: first.error.clone(),
            }
            .into());
        }
        if replayed.interrupted {
            return Ok(replayed);
        }
        let (run_id, per_query) = (replayed.run_id.clone(), request.per_query);
        let (report, comparison) = blocking(move || {
            measured(
                &corpus,
                &rows,
                baseline.as_ref(),
                (facts, links),
                &request,
                &run_id,
            )
        })
        .await?;
        replayed.latency_ms = report
            .as_ref()
            .and_then(|report| report.pipeline.as_ref()?.latency_ms.get("total").copied());
        replayed.comparison = comparison;
        if let Some(report) = report {
            self.record_replay(&mut replayed, report).await?;
        } else {
            // The run is complete and can serve as a baseline once there are judgments.
            let row = EvalResultRow {
                run_id: replayed.run_id.clone(),
                run_type: "full".into(),
                report: json!({"system": replayed.system, "failed": replayed.failed.len()}),
                ..EvalResultRow::default()
            };
            self.engine.store().await?.evaluation().put_result(&row).await?;
        }
        if let (false, Some(report)) = (per_query, &mut replayed.report) {
            report.per_query = None;
        }
        Ok(replayed)
    }

    /// Starts a run, or resumes one with its answers.
    async fn begun(
        self,
        request: &ReplayRequest,
        system: &str,
    ) -> Result<(String, BTreeMap<String, AnswerRow>), EngineError> {
        let store = self.engine.store().await?;
        let Some(run) = &request.resume else {
            let run_id = ids::prefixed("eval", uuid::Uuid::now_v7());
            return Ok((run_id, BTreeMap::new()));
        };
        if store.evaluation().result(run).await?.is_some() {
            return Err(GoldenError::RunEnded(run.clone()).into());
        }
        let rows = store.evaluation().answers(run).await?;
        let Some(first) = rows.first() else {
            return Err(GoldenError::NoRun(run.clone()).into());
        };
        if first.system != system {
            return Err(GoldenError::OtherSystem {
                run: run.clone(),
                before: first.system.clone(),
                now: system.into(),
            }
            .into());
        }
        // Failed queries are sent again.
        let done = rows.into_iter().filter(|row| row.error.is_none());
        Ok((run.clone(), done.map(|row| (row.query_id.clone(), row)).collect()))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one loop")]
    async fn ask_all(
        self,
        system: &System,
        corpus: &Corpus,
        known: &DocumentMatcher,
        run_id: &str,
        answers: &mut BTreeMap<String, AnswerRow>,
        stop: &Stop,
        seen: &impl Fn(ReplayProgress),
    ) -> Result<usize, EngineError> {
        let store = self.engine.store().await?;
        let (mut prose, mut failed, mut warm) = (0, 0, false);
        let planned = corpus.len();
        for (row, _) in corpus {
            if stop.is_requested() {
                break;
            }
            if answers.contains_key(&row.query_id) {
                continue;
            }
            if !warm {
                // A warm-up query: starting a server and loading a model is not part of the search latency.
                system.ask(self.engine, &row.query, known, None).await?;
                warm = true;
            }
            let history = if system.is_memory() {
                self.session_before(row).await?
            } else {
                None
            };
            let answer = system.ask(self.engine, &row.query, known, history).await?;
            prose += usize::from(answer.prose);
            failed += usize::from(answer.results.is_err());
            let (results, error) = match answer.results {
                Ok(results) => (results, None),
                Err(error) => (Vec::new(), Some(error)),
            };
            let results: Vec<Value> = results
                .iter()
                .map(|(id, channels)| json!({"memoryId": id, "channels": channels}))
                .collect();
            let answer = AnswerRow {
                run_id: run_id.to_owned(),
                query_id: row.query_id.clone(),
                system: system.name.clone(),
                results: results.into(),
                latency_ms: error.is_none().then_some(answer.latency.as_secs_f64() * 1000.0),
                error,
                created_at: now_micros(),
                detail: answer.session.map(|session| session.trace()),
            };
            store.evaluation().put_answer(&answer).await?;
            answers.insert(row.query_id.clone(), answer);
            seen(ReplayProgress {
                done: answers.len(),
                planned,
                failed,
            });
        }
        Ok(prose)
    }

    /// Returns what the session of a query had seen and used before it; `None` for a query without a session.
    async fn session_before(self, row: &EvalQueryRow) -> Result<Option<SessionHistory>, EngineError> {
        let line = query_line(row.clone(), Vec::new())?;
        let context = line.session_context.unwrap_or_default();
        let session = row.session_id.clone().or(context.session_id);
        let settings = satiety::memory::Pipeline::default().session;
        let asked = PastQuery {
            text: row.query.clone(),
            ..PastQuery::default()
        };
        let (mut earlier, mut events) = (Vec::new(), Vec::new());
        if let Some(session) = &session {
            let store = self.engine.store().await?;
            let queries = store
                .query_log()
                .queries_of_session(session, MAX_SESSION_QUERIES)
                .await?;
            let at = queries.iter().find(|query| query.query_id == row.query_id);
            if let Some(at) = at.map(|query| query.created_at) {
                let before = queries.into_iter().filter(|query| query.created_at < at);
                earlier = before.map(crate::memory::past_query).collect();
                earlier.truncate(settings.look_back as usize);
                events = store
                    .memories()
                    .feedback_of_session(session, MAX_SESSION_QUERIES)
                    .await?;
                events.retain(|event| event.created_at < at);
            }
        }
        if earlier.is_empty() && context.working_memory_ids.is_empty() {
            return Ok(None);
        }
        let used = events.iter().filter(|event| {
            let kind = FeedbackKind::named(&event.event_type);
            kind.is_some_and(FeedbackKind::is_use)
        });
        let used = used.filter_map(|event| Some((event.memory_id.as_deref()?, event.query_id.as_deref())));
        let working = context.working_memory_ids.iter().map(|id| (id.as_str(), None));
        let history = SessionHistory::new(&asked, &earlier, used.chain(working), settings);
        Ok(Some(history))
    }

    /// Returns all links between memories.
    async fn memory_links(self) -> Result<Vec<Link>, EngineError> {
        let store = self.engine.store().await?;
        let (mut links, mut last) = (Vec::new(), None);
        loop {
            let page = store.memories().links_after(last.as_ref(), 5000).await?;
            let Some(end) = page.last().cloned() else { break };
            last = Some(end);
            links.extend(page.into_iter().filter_map(crate::memory::link_of));
        }
        Ok(links)
    }

    /// Returns tier and folder of every memory, and all links between them.
    pub(crate) async fn memory_facts(self) -> Result<(Vec<Document>, Vec<Link>), EngineError> {
        let mut documents = Vec::new();
        let mut after = 0;
        loop {
            let rows = self
                .engine
                .store()
                .await?
                .memories()
                .headers_after(after, 5000)
                .await?;
            let Some(last) = rows.last() else { break };
            after = last.change;
            documents.extend(rows.into_iter().map(|row| Document {
                id: row.memory_id,
                tier: satiety::memory::parse_tier(&row.tier).ok(),
                folder: Some(row.folder),
                ..Document::default()
            }));
        }
        Ok((documents, self.memory_links().await?))
    }

    /// Loads documents to identify results by, and the facts that measures need.
    async fn known_documents(
        self,
        request: &ReplayRequest,
        system: &System,
    ) -> Result<(DocumentMatcher, Vec<Document>), EngineError> {
        let mut texts = DocumentMatcher::default();
        let mut documents = Vec::new();
        let mut after = 0;
        loop {
            let rows = self.engine.store().await?.memories().after(after, 500).await?;
            let Some(last) = rows.last() else { break };
            after = last.change;
            for row in rows {
                if !system.is_memory() {
                    texts.add(&row.memory_id, &format!("{}\n{}", row.title, row.content));
                }
                documents.push(Document {
                    id: row.memory_id,
                    tier: satiety::memory::parse_tier(&row.tier).ok(),
                    folder: Some(row.folder),
                    ..Document::default()
                });
            }
        }
        if let Some(path) = request.documents.clone() {
            let (read, more) = blocking(move || {
                let mut more = Vec::new();
                each_document(&path, |document| {
                    let text = [&document.title, &document.text].into_iter().flatten();
                    texts.add(&document.id, &text.cloned().collect::<Vec<_>>().join("\n"));
                    more.push(document);
                })?;
                Ok((texts, more))
            })
            .await?;
            texts = read;
            documents.extend(more);
        }
        Ok((texts, documents))
    }

    async fn baseline_answers(self, run: &str) -> Result<(String, Vec<AnswerRow>), EngineError> {
        let store = self.engine.store().await?;
        let run = if run == "last" {
            let runs = store.evaluation().runs_with_answers(100).await?;
            let last = runs.into_iter().find(|(_, _, _, measured)| *measured);
            last.map(|(run, ..)| run)
                .ok_or_else(|| GoldenError::NoRun(run.into()))?
        } else {
            run.to_owned()
        };
        let rows = store.evaluation().answers(&run).await?;
        if rows.is_empty() {
            return Err(GoldenError::NoRun(run).into());
        }
        Ok((run, rows))
    }

    async fn record_replay(
        self,
        replayed: &mut ReplayResponse,
        mut report: RunReport,
    ) -> Result<(), EngineError> {
        report.run_id = Some(replayed.run_id.clone());
        let mut row = result_row(replayed.run_id.clone(), &report)?;
        if let Some(compared) = &replayed.comparison
            && let Some(found) = compared.comparisons.first()
        {
            row.run_type = "regression".into();
            row.control_run_id = Some(compared.control.clone());
            row.is_significant = Some(found.comparison.verdict != Verdict::NoEvidence);
            let of = |name: &str| {
                found
                    .comparison
                    .measures
                    .iter()
                    .find(|one| one.measure.to_string() == name)
            };
            for (column, measure) in [("mrr_delta", "mrr@10"), ("ndcg_delta", "ndcg@10")] {
                row.figures
                    .extend(of(measure).map(|one| (column.to_owned(), one.difference)));
            }
            let first = found.comparison.measures.first();
            row.figures
                .extend(first.map(|one| ("p_value".to_owned(), one.p_holm)));
        }
        if let Some(whole) = row.report.as_object_mut() {
            whole.insert("system".into(), json!(replayed.system));
            whole.insert("failed".into(), json!(replayed.failed.len()));
        }
        self.engine.store().await?.evaluation().put_result(&row).await?;
        replayed.report = Some(report);
        Ok(())
    }
}

/// Returns the ids of stored results, best first.
pub(super) fn ids_of(results: &Value) -> impl Iterator<Item = &str> {
    let list = results.as_array().into_iter().flatten();
    list.filter_map(|result| result.get("memoryId")?.as_str())
}

/// Returns the metrics of a run and its comparison; `None` if no answered query is judged.
fn measured(
    corpus: &Corpus,
    rows: &[AnswerRow],
    baseline: Option<&(String, Vec<AnswerRow>)>,
    (documents, links): (Vec<Document>, Vec<Link>),
    request: &ReplayRequest,
    run_id: &str,
) -> Result<(Option<RunReport>, Option<CompareResponse>), EngineError> {
    let mut known = QueryFacts::default();
    for document in documents {
        known.facts.add_document(document);
    }
    for (row, judgments) in corpus {
        let mut query = EvalQuery {
            judgments: Vec::new(),
            ..query_line(row.clone(), Vec::new())?
        };
        if query.causal_chain.is_empty() && asks_for_decision(row) {
            let threshold = i64::from(request.options.relevance_threshold);
            let counted = judgments
                .iter()
                .filter(|one| request.judgments.takes(one))
                .cloned();
            let counted: Vec<EvalJudgmentRow> = counted.collect();
            let relevant = trusted(&counted).filter(|one| one.relevance >= threshold);
            let relevant: Vec<String> = relevant.map(|one| one.memory_id.clone()).collect();
            query.causal_chain = causal_chain(&relevant, &links);
        }
        known.facts.add_query(&query);
        known.queries.insert(query.query_id.clone(), query);
    }
    known.check_fields(&request.by)?;
    let answered: BTreeSet<&str> = successful(rows).map(|row| row.query_id.as_str()).collect();
    let Some(qrels) = judged(corpus, &answered, &request.judgments)? else {
        return Ok((None, None));
    };
    let answers = answers(rows)?;
    let measures = if request.measures.is_empty() {
        let mut usual = satiety::retrieval::default_measures();
        // Measures that the specification requires of a memory, if the data supports them.
        let more = ["constitutional@5", "importance_recall@10", "chain@10", "ils@10"];
        usual.extend(
            more.iter()
                .filter_map(|name| name.parse().ok())
                .filter(|one| known.facts.check(*one).is_ok()),
        );
        usual
    } else {
        request.measures.clone()
    };
    let evaluate = EvaluateRequest {
        rankings: Rankings {
            qrels: PathBuf::new(),
            runs: Vec::new(),
            order: OrderOptions::default(),
            options: answered_options(request),
            measures,
            known: FactFiles::default(),
            by: request.by.clone(),
        },
        bootstrap: request.bootstrap,
        per_query: true,
        depth: request.depth.min(10),
        record: false,
    };
    let mut found = report(Path::new(run_id), &qrels, &answers, &known, &evaluate)?;
    run_id.clone_into(&mut found.run);
    found.unjudged_queries -= usize::from(found_nothing(rows)).min(found.unjudged_queries);
    let comparison = match baseline {
        Some((control, control_rows)) => {
            let both: BTreeSet<&str> = successful(control_rows)
                .map(|row| row.query_id.as_str())
                .filter(|query| answered.contains(query))
                .collect();
            let none = || GoldenError::NothingInCommon {
                run: run_id.to_owned(),
                baseline: control.clone(),
            };
            let shared = judged(corpus, &both, &request.judgments)?.ok_or_else(none)?;
            let before = self::answers(control_rows)?;
            Some(compare_runs(
                &shared,
                (control, &before),
                (run_id, &answers),
                &known,
                request,
            )?)
        }
        None => None,
    };
    Ok((Some(found), comparison))
}

/// Compares two runs as files are compared.
fn compare_runs(
    qrels: &Qrels,
    control: (&str, &Answers),
    treatment: (&str, &Answers),
    known: &QueryFacts,
    request: &ReplayRequest,
) -> Result<CompareResponse, EngineError> {
    let settings = request.comparison;
    let measure = |answers: &Answers, name: &str| {
        evaluate_with(
            qrels,
            &answers.run,
            &request.decisive,
            &answered_options(request),
            &known.facts,
        )
        .map_err(|problem| super::wrong(Path::new(name), problem))
    };
    let (old, new) = (measure(control.1, control.0)?, measure(treatment.1, treatment.0)?);
    let (old_run, new_run) = (&control.1.run, &treatment.1.run);
    let comparison: Comparison = compare((old_run, &old), (new_run, &new), &settings)
        .map_err(|problem| super::refused(Path::new(treatment.0), problem))?;
    let depth = settings.thresholds.depth;
    let gate: Option<Gate> = request.fail_if_worse.map(|margin| comparison.gate(margin));
    Ok(CompareResponse {
        control: control.0.to_owned(),
        comparisons: vec![RunComparison {
            treatment: treatment.0.to_owned(),
            gate,
            comparison,
            judged: JudgedShare {
                depth,
                control: judged_share(qrels, old_run, depth, request.options)?,
                treatment: judged_share(qrels, new_run, depth, request.options)?,
            },
            by: BTreeMap::new(),
            per_query: request
                .per_query
                .then(|| changed(&query_changes(&old, &new), known, &request.by)),
        }],
        fail_if_worse: request.fail_if_worse,
        options: request.options,
        settings,
    })
}

/// Options for answered queries: one that found nothing counts as zero.
fn answered_options(request: &ReplayRequest) -> EvaluationOptions {
    EvaluationOptions {
        missing: MissingQueries::Zero,
        ..request.options
    }
}

/// Whether a query asks why something was decided, so that its causal chain matters.
fn asks_for_decision(row: &EvalQueryRow) -> bool {
    row.intent.as_deref() == Some(Intent::FindDecision.name())
        || row.eval_category.as_deref() == Some("causal-query")
}

fn successful(rows: &[AnswerRow]) -> impl Iterator<Item = &AnswerRow> {
    rows.iter().filter(|row| row.error.is_none())
}

/// Returns the judgments of answered queries, the most trusted one per result; `None` if there are none.
fn judged(
    corpus: &Corpus,
    answered: &BTreeSet<&str>,
    filter: &JudgmentFilter,
) -> Result<Option<Qrels>, EngineError> {
    let mut reader = QrelsReader::new(FileFormat::JsonLines);
    let mut any = false;
    for (row, judgments) in corpus {
        let counted: Vec<EvalJudgmentRow> = judgments
            .iter()
            .filter(|one| filter.takes(one))
            .cloned()
            .collect();
        if counted.is_empty() || !answered.contains(row.query_id.as_str()) {
            continue;
        }
        any = true;
        let grades: Vec<Value> = trusted(&counted)
            .map(|one| json!({"memoryId": one.memory_id, "relevance": one.relevance}))
            .collect();
        let line = format!("{}\n", json!({"queryId": row.query_id, "judgments": grades}));
        reader.push(line.as_bytes()).map_err(stored_wrong)?;
    }
    if !any {
        return Ok(None);
    }
    reader
        .finish(OrderOptions::default())
        .map(Some)
        .map_err(stored_wrong)
}

/// Whether all answers are empty.
fn found_nothing(rows: &[AnswerRow]) -> bool {
    successful(rows).all(|row| ids_of(&row.results).next().is_none())
}

/// Line of a run for a query outside of the query set.
const NO_RESULTS: &str = "{\"queryId\": \"no results\", \"results\": [\"none\"]}\n";

fn answers(rows: &[AnswerRow]) -> Result<Answers, EngineError> {
    let mut run = RunReader::new(FileFormat::JsonLines);
    let mut traces = TraceReader::default();
    if found_nothing(rows) {
        // A run must not be empty; a query without judgments does not affect any metric.
        run.push(NO_RESULTS.as_bytes()).map_err(stored_wrong)?;
    }
    for row in successful(rows) {
        let mut line = json!({"queryId": row.query_id, "results": row.results, "latencyMs": {"total": row.latency_ms.unwrap_or(0.0)}});
        if let (Some(line), Some(Value::Object(trace))) = (line.as_object_mut(), &row.detail) {
            line.extend(trace.clone());
        }
        let line = format!("{line}\n");
        run.push(line.as_bytes()).map_err(stored_wrong)?;
        traces.push(line.as_bytes()).map_err(stored_wrong)?;
    }
    Ok(Answers {
        run: run.finish(OrderOptions::default()).map_err(stored_wrong)?,
        traces: traces.finish().map_err(stored_wrong)?,
    })
}

fn stored_wrong(problem: satiety::retrieval::RetrievalError) -> EngineError {
    super::wrong(Path::new("the database"), problem)
}
