//! Replaying the evaluation corpus against a system: every answer is stored as it comes, then the run is measured, and
//! compared with an earlier one by the same judgments.

use crate::handles::RetrievalOperations;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use satiety::ids;
use satiety::retrieval::{
    Comparison, ComparisonSettings, Document, EvalQuery, EvaluationOptions, FileFormat, Gate, JudgmentSource,
    KnownTexts, Latency, Measure, OrderOptions, Qrels, QrelsReader, RunReader, TraceReader, Verdict, compare,
    evaluate_with, query_changes,
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

/// A replay.
#[derive(Debug, Clone)]
pub struct ReplayRequest {
    /// What is asked.
    pub system: SystemSpec,
    /// What it needs to know of the world.
    pub context: SystemContext,
    /// How many results are asked for and looked at.
    pub depth: usize,
    /// Which judgments count.
    pub judgments: JudgmentFilter,
    /// What documents say that are no memories of this store: results without a known id are told by it.
    pub documents: Option<PathBuf>,
    /// What to compute; nothing for the usual.
    pub measures: Vec<Measure>,
    /// What counts how much.
    pub options: EvaluationOptions,
    /// The intervals of the means.
    pub bootstrap: BootstrapSettings,
    /// Fields of queries to break the figures down by.
    pub by: Vec<String>,
    /// Whether to give the value of every query.
    pub per_query: bool,
    /// The run to compare with, or `last`.
    pub baseline: Option<String>,
    /// How to compare.
    pub comparison: ComparisonSettings,
    /// By what to compare.
    pub decisive: Vec<Measure>,
    /// How much worse than the baseline it may be, when there is a gate.
    pub fail_if_worse: Option<f64>,
    /// A run that was interrupted, to be taken up again.
    pub resume: Option<String>,
}

impl ReplayRequest {
    /// A replay as it usually is: twenty results, all judgments, the usual measures, nothing to compare with.
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

/// Which judgments count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JudgmentFilter {
    /// Where they may come from; nothing for anywhere.
    pub sources: Vec<JudgmentSource>,
    /// How sure they must be; those that do not say so are sure.
    pub min_confidence: f64,
}

impl JudgmentFilter {
    /// Whether a judgment counts.
    pub(super) fn takes(&self, judgment: &EvalJudgmentRow) -> bool {
        let source =
            self.sources.is_empty() || self.sources.iter().any(|source| source.name() == judgment.source);
        source && judgment.confidence.unwrap_or(1.0) >= self.min_confidence
    }
}

/// How far a replay is.
#[derive(Debug, Clone, Copy)]
pub struct ReplayProgress {
    /// Queries that were asked.
    pub done: usize,
    /// Queries of the corpus.
    pub planned: usize,
    /// Queries without an answer.
    pub failed: usize,
}

/// A replayed corpus.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReplayResponse {
    /// The run's id.
    pub run_id: String,
    /// What was asked.
    pub system: String,
    /// Queries of the corpus.
    pub queries: usize,
    /// Queries that were answered.
    pub answered: usize,
    /// Queries that were not, which are left out of every figure.
    pub failed: Vec<FailedQuery>,
    /// Answers in prose, whose results were told by what they say.
    pub prose: usize,
    /// Whether it was interrupted; then nothing is measured, and the answers are kept.
    pub interrupted: bool,
    /// How long answers took, by the clock.
    pub latency_ms: Option<Latency>,
    /// The figures; absent while nothing is judged.
    pub report: Option<RunReport>,
    /// The comparison with the baseline, when there is one.
    pub comparison: Option<CompareResponse>,
}

/// A query without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedQuery {
    /// The query.
    pub query_id: String,
    /// Why.
    pub error: String,
}

type Corpus = Vec<(EvalQueryRow, Vec<EvalJudgmentRow>)>;

impl RetrievalOperations<'_> {
    /// Asks a system every query of the corpus, keeps the answers, and measures them. Nothing of it is in the query log.
    pub async fn replay_corpus(
        self,
        request: ReplayRequest,
        stop: &Stop,
        seen: impl Fn(ReplayProgress),
    ) -> Result<ReplayResponse, EngineError> {
        share("the least confidence", request.judgments.min_confidence)?;
        let corpus = self.whole_corpus().await?;
        let baseline = match &request.baseline {
            Some(run) => Some(self.baseline_answers(run).await?),
            None => None,
        };
        let system = System::open(&request.system, request.depth, &request.context)?;
        let (run_id, mut answers) = self.begun(&request, &system.name).await?;
        let (known, facts) = self.known_documents(&request, &system).await?;
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
        let (report, comparison) =
            blocking(move || measured(&corpus, &rows, baseline.as_ref(), facts, &request, &run_id)).await?;
        replayed.latency_ms = report
            .as_ref()
            .and_then(|report| report.pipeline.as_ref()?.latency_ms.get("total").copied());
        replayed.comparison = comparison;
        if let Some(report) = report {
            self.record_replay(&mut replayed, report).await?;
        } else {
            // It has ended, and may be compared with once something is judged.
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

    /// The run that is begun, or taken up again with what it has.
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
        // What failed is asked again.
        let done = rows.into_iter().filter(|row| row.error.is_none());
        Ok((run.clone(), done.map(|row| (row.query_id.clone(), row)).collect()))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one loop")]
    async fn ask_all(
        self,
        system: &System,
        corpus: &Corpus,
        known: &KnownTexts,
        run_id: &str,
        answers: &mut BTreeMap<String, AnswerRow>,
        stop: &Stop,
        seen: &impl Fn(ReplayProgress),
    ) -> Result<usize, EngineError> {
        let store = self.engine.store().await?;
        let (mut prose, mut failed, mut warm) = (0, 0, false);
        let planned = corpus.len();
        for (row, _) in corpus {
            if stop.is_asked() {
                break;
            }
            if answers.contains_key(&row.query_id) {
                continue;
            }
            if !warm {
                // Starting a server and loading a model is not what a search costs.
                system.ask(self.engine, &row.query, known).await?;
                warm = true;
            }
            let answer = system.ask(self.engine, &row.query, known).await?;
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

    /// Documents by which results are told, and what measures need to know about them.
    async fn known_documents(
        self,
        request: &ReplayRequest,
        system: &System,
    ) -> Result<(KnownTexts, Vec<Document>), EngineError> {
        let mut texts = KnownTexts::default();
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
                    tier: satiety::memory::tier_named(&row.tier).ok(),
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

/// The ids of stored results, best first.
pub(super) fn ids_of(results: &Value) -> impl Iterator<Item = &str> {
    let list = results.as_array().into_iter().flatten();
    list.filter_map(|result| result.get("memoryId")?.as_str())
}

/// The figures of a run and its comparison; nothing where no answered query is judged.
fn measured(
    corpus: &Corpus,
    rows: &[AnswerRow],
    baseline: Option<&(String, Vec<AnswerRow>)>,
    documents: Vec<Document>,
    request: &ReplayRequest,
    run_id: &str,
) -> Result<(Option<RunReport>, Option<CompareResponse>), EngineError> {
    let mut known = QueryFacts::default();
    for document in documents {
        known.facts.add_document(document);
    }
    for (row, _) in corpus {
        let query = EvalQuery {
            judgments: Vec::new(),
            ..query_line(row.clone(), Vec::new())?
        };
        known.facts.add_query(&query);
        known.queries.insert(query.query_id.clone(), query);
    }
    known.check_fields(&request.by)?;
    let answered: BTreeSet<&str> = good(rows).map(|row| row.query_id.as_str()).collect();
    let Some(qrels) = judged(corpus, &answered, &request.judgments)? else {
        return Ok((None, None));
    };
    let answers = answers(rows)?;
    let measures = if request.measures.is_empty() {
        let mut usual = satiety::retrieval::default_measures();
        // What the specification wants of a memory, where there is something to measure it by.
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
            options: request.options,
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
    let comparison = match baseline {
        Some((control, control_rows)) => {
            let both: BTreeSet<&str> = good(control_rows)
                .map(|row| row.query_id.as_str())
                .filter(|query| answered.contains(query))
                .collect();
            let none = || GoldenError::NothingInCommon {
                run: run_id.to_owned(),
                baseline: control.clone(),
            };
            let shared = judged(corpus, &both, &request.judgments)?.ok_or_else(none)?;
            let before = self::answers(control_rows)?;
            Some(beside(
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

/// The same comparison as between files.
fn beside(
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
            &request.options,
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

fn good(rows: &[AnswerRow]) -> impl Iterator<Item = &AnswerRow> {
    rows.iter().filter(|row| row.error.is_none())
}

/// The judgments of queries that were answered, one a result, the most trusted; nothing when there are none.
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

fn answers(rows: &[AnswerRow]) -> Result<Answers, EngineError> {
    let mut run = RunReader::new(FileFormat::JsonLines);
    let mut traces = TraceReader::default();
    for row in good(rows) {
        let line = json!({"queryId": row.query_id, "results": row.results, "latencyMs": {"total": row.latency_ms.unwrap_or(0.0)}});
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
    super::wrong(Path::new("the store"), problem)
}
