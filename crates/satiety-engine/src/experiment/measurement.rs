//! Measurement of both pipelines on the stored corpus. The queries alternate between the pipelines, so that
//! other load on the machine affects both.

use crate::handles::ExperimentOperations;
use std::collections::BTreeMap;
use std::sync::Arc;

use satiety::experiment::{
    Bounds, CorpusEvidence, Feature, GraduationLimits, LatencyComparison, MeasuredChange, compare_latency,
};
use satiety::memory::{Intent, ValidPipeline, classify};
use satiety::retrieval::{
    ComparisonError, ComparisonSettings, Document, EvalQuery, EvaluationOptions, Facts, Measure,
    OrderOptions, Qrels, QrelsReader, RetrievalError, Run, RunReader, Tier, causal_chain, compare,
    constitutional_surfacing, evaluate, evaluate_with,
};
use satiety::stats::mean;
use satiety_store::evaluation::EvalResultRow;
use serde_json::{Value, json};

use super::assignment::apply_change;
use crate::EngineError;
use crate::memory::{MemorySearch, SearchRequest};

/// Repetitions of each query per pipeline.
const REPEATS: usize = 5;
/// Measures; the first decides, the others must not be worse.
const MEASURES: [&str; 3] = ["mrr@5", "ndcg@10", "recall@10"];
/// Further measures that are recorded, and the columns of all measures.
const COLUMNS: [(&str, &str); 7] = [
    ("mrr_at_5", "mrr@5"),
    ("mrr_at_10", "mrr@10"),
    ("ndcg_at_5", "ndcg@5"),
    ("ndcg_at_10", "ndcg@10"),
    ("ndcg_at_20", "ndcg@20"),
    ("recall_at_5", "recall@5"),
    ("recall_at_10", "recall@10"),
];
/// Measures that need facts about memories, with their columns.
const FACT_COLUMNS: [(&str, &str); 3] = [
    ("importance_weighted_recall", "importance_recall@10"),
    ("causal_chain_completeness", "chain@10"),
    ("result_diversity_score", "ils@10"),
];
/// Constitutional memories are expected within this many top results.
const SURFACING_DEPTH: usize = 5;

/// A pipeline's answers to the corpus.
#[derive(Default)]
struct Answers {
    lists: Vec<Vec<String>>,
    /// Latency of every repetition of each query, in milliseconds.
    times: Vec<Vec<f64>>,
    surfaced: Vec<f64>,
    /// Results by channel of each query.
    channels: Vec<BTreeMap<&'static str, usize>>,
}

/// Metrics of one pipeline for its row.
#[derive(Default)]
struct RecordedMetrics {
    figures: Vec<(String, f64)>,
    per_query: Value,
    channels: Value,
}

impl Answers {
    /// Records the first answer to a query.
    fn take(&mut self, found: MemorySearch, rules: &[String], time: f64) {
        let mut channels = BTreeMap::new();
        for channel in found.results.iter().flat_map(|result| result.channels.keys()) {
            *channels.entry(channel.name()).or_default() += 1;
        }
        self.channels.push(channels);
        let list: Vec<String> = found.results.into_iter().map(|result| result.id).collect();
        let ids: Vec<&str> = list.iter().map(String::as_str).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let surfaced = constitutional_surfacing(&ids, &rules, SURFACING_DEPTH);
        self.surfaced.extend(surfaced.map(|found| found.fraction));
        self.lists.push(list);
        self.times.push(vec![time]);
    }
}

impl ExperimentOperations<'_> {
    /// Measures both pipelines; returns `None` if no query of the corpus has a relevant memory.
    pub(super) async fn measure_corpus(
        self,
        feature: &Feature,
    ) -> Result<Option<CorpusEvidence>, EngineError> {
        let rows = self.engine.store().await?.experiments().list().await?;
        // The control is the pipeline without the feature, even if it has graduated meanwhile.
        let others: Vec<_> = rows
            .into_iter()
            .filter(|row| row.feature_id != feature.feature_id)
            .collect();
        let base = super::ActiveFeatures::of(&others).pipeline;
        let changed = Arc::new(apply_change(&base, &feature.feature_id, &feature.pipeline)?);
        let questions: Vec<(String, BTreeMap<String, i32>)> = self
            .corpus_questions()
            .await?
            .into_iter()
            .filter(|(question, grades)| {
                !question.trim().is_empty()
                    && grades
                        .values()
                        .any(|grade| *grade >= satiety::experiment::RELEVANT)
            })
            .collect();
        if questions.is_empty() {
            return Ok(None);
        }
        let rules = self.constitutional_memories().await?;
        let mut answers = [Answers::default(), Answers::default()];
        // Repeats the whole corpus, not each query: a busy moment of the machine then affects one repetition
        // of five.
        for repeat in 0..REPEATS {
            for (number, (question, _)) in questions.iter().enumerate() {
                self.query_both(question, number, repeat, [&base, &changed], &rules, &mut answers)
                    .await?;
            }
        }
        let [control, treatment] = &answers;
        let facts = self.corpus_facts(&questions).await?;
        let (evidence, metrics) = compare_runs(&questions, control, treatment, &facts)?;
        self.record_measured(feature, &evidence, metrics).await?;
        Ok(Some(evidence))
    }

    async fn query_both(
        self,
        question: &str,
        number: usize,
        repeat: usize,
        pipelines: [&Arc<ValidPipeline>; 2],
        rules: &[String],
        answers: &mut [Answers; 2],
    ) -> Result<(), EngineError> {
        let request = SearchRequest {
            query: question.into(),
            // The corpus covers the memories of all projects.
            scope: Some(satiety::memory::Scope::All),
            ..SearchRequest::default()
        };
        for turn in 0..2 {
            // Alternate, and reverse the order on the next repetition.
            let arm = (turn + repeat + number) % 2;
            let (Some(pipeline), Some(answers)) = (pipelines.get(arm), answers.get_mut(arm)) else {
                continue;
            };
            let found = self.engine.memory().search_with(pipeline, &request).await?;
            let time = found.telemetry.total_latency_ms;
            match answers.times.get_mut(number) {
                Some(times) => times.push(time),
                None => answers.take(found, rules, time),
            }
        }
        Ok(())
    }

    /// Returns the global constitutional memories, as a query without a folder gets them.
    async fn constitutional_memories(self) -> Result<Vec<String>, EngineError> {
        let store = self.engine.store().await?;
        let now = satiety_store::now_micros();
        let mut rules = Vec::new();
        let mut after = -1;
        loop {
            let page = store.memories().after(after, 500).await?;
            let Some(last) = page.last() else { break };
            after = last.change;
            let alive = page
                .into_iter()
                .filter(|row| row.expires_at.is_none_or(|at| at > now));
            rules.extend(
                alive
                    .filter(|row| row.tier == Tier::Constitutional.name())
                    .map(|row| row.memory_id),
            );
        }
        Ok(rules)
    }

    /// Returns tiers, folders and causal chains of memories and queries, for measures that need them.
    async fn corpus_facts(
        self,
        questions: &[(String, BTreeMap<String, i32>)],
    ) -> Result<CorpusFacts, EngineError> {
        let (documents, links) = self.engine.retrieval().memory_facts().await?;
        let relevant = |grades: &BTreeMap<String, i32>| -> Vec<String> {
            let all = grades.iter();
            all.filter(|(_, grade)| **grade >= satiety::experiment::RELEVANT)
                .map(|(id, _)| id.clone())
                .collect()
        };
        let chains = questions
            .iter()
            .map(|(question, grades)| {
                let decides = classify(question).intent == Some(Intent::FindDecision);
                if decides {
                    causal_chain(&relevant(grades), &links)
                } else {
                    Vec::new()
                }
            })
            .collect();
        Ok(CorpusFacts { documents, chains })
    }

    /// Stores the metrics of both pipelines as two measured runs.
    async fn record_measured(
        self,
        feature: &Feature,
        evidence: &CorpusEvidence,
        metrics: [RecordedMetrics; 2],
    ) -> Result<(), EngineError> {
        let store = self.engine.store().await?;
        let control_id = satiety::ids::prefixed("eval", uuid::Uuid::now_v7());
        let difference = |name: &str| {
            let found = evidence.measures.iter().find(|one| one.measure == name);
            found.map(|one| one.difference)
        };
        for (treatment, measured) in [false, true].into_iter().zip(metrics) {
            let mut figures = measured.figures;
            let mut put =
                |name: &str, value: Option<f64>| figures.extend(value.map(|value| (name.to_owned(), value)));
            let (surfacing, first) = if treatment {
                (evidence.treatment_surfacing, evidence.measures.first())
            } else {
                (evidence.control_surfacing, None)
            };
            put("constitutional_surfacing_rate", surfacing);
            put("mrr_delta", first.map(|one| one.difference));
            put("ndcg_delta", first.and_then(|_| difference("ndcg@10")));
            put("p_value", first.map(|one| one.p_value));
            put(
                "confidence_interval_lower",
                first.and_then(|one| Some(one.interval?.low)),
            );
            put(
                "confidence_interval_upper",
                first.and_then(|one| Some(one.interval?.high)),
            );
            let row = EvalResultRow {
                run_id: if treatment {
                    satiety::ids::prefixed("eval", uuid::Uuid::now_v7())
                } else {
                    control_id.clone()
                },
                run_type: "ab_test".into(),
                feature_id: Some(feature.feature_id.clone()),
                figures,
                channel_contribution: Some(measured.channels),
                query_count: i64::try_from(evidence.queries).unwrap_or(i64::MAX),
                control_run_id: treatment.then(|| control_id.clone()),
                is_significant: first.map(|one| one.p_value <= 0.05),
                per_query_results: measured.per_query,
                report: json!(evidence),
            };
            store.evaluation().put_result(&row).await?;
        }
        Ok(())
    }
}

/// Facts about memories and queries of the corpus.
struct CorpusFacts {
    documents: Vec<Document>,
    /// Causal chain of each query; empty if it does not ask for a decision.
    chains: Vec<Vec<String>>,
}

/// Metrics of one run for its row, under the names that the comparison gave to queries and memories.
fn recorded_metrics(
    qrels: &Qrels,
    run: &Run,
    answers: &Answers,
    questions: &[(String, BTreeMap<String, i32>)],
    facts: &Facts,
) -> Result<RecordedMetrics, EngineError> {
    let parse = |columns: &[(&'static str, &'static str)]| -> Vec<(&'static str, Measure)> {
        let all = columns.iter();
        all.filter_map(|(column, name)| Some((*column, name.parse().ok()?)))
            .collect()
    };
    let mut columns = parse(&COLUMNS);
    columns.extend(
        parse(&FACT_COLUMNS)
            .into_iter()
            .filter(|(_, measure)| facts.check(*measure).is_ok()),
    );
    let measures: Vec<Measure> = columns.iter().map(|(_, measure)| *measure).collect();
    let found =
        evaluate_with(qrels, run, &measures, &EvaluationOptions::default(), facts).map_err(refused)?;
    let mut figures = Vec::new();
    for (index, (column, _)) in columns.iter().enumerate() {
        let values: Vec<f64> = found.column(index).flatten().collect();
        figures.extend(mean(&values).ok().map(|mean| ((*column).to_owned(), mean)));
    }
    let times: Vec<f64> = answers.times.iter().flatten().copied().collect();
    figures.extend(mean(&times).ok().map(|mean| ("avg_latency_ms".to_owned(), mean)));
    let mut per_query = serde_json::Map::new();
    for (position, query) in found.queries().iter().enumerate() {
        let at = query
            .strip_prefix('q')
            .and_then(|number| number.parse::<usize>().ok());
        let Some((question, _)) = at.and_then(|at| questions.get(at)) else {
            continue;
        };
        let values = measures.iter().zip(found.row(position));
        let values: BTreeMap<String, f64> = values
            .filter_map(|(measure, value)| Some((measure.to_string(), (*value)?)))
            .collect();
        per_query.insert(question.clone(), json!(values));
    }
    let results: usize = answers.lists.iter().map(Vec::len).sum();
    let mut channels: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, count) in answers.channels.iter().flatten() {
        *channels.entry(name).or_default() += *count as f64 / results.max(1) as f64;
    }
    Ok(RecordedMetrics {
        figures,
        per_query: Value::Object(per_query),
        channels: json!(channels),
    })
}

fn refused(problem: RetrievalError) -> EngineError {
    EngineError::Ranking {
        name: "the corpus".into(),
        problem,
    }
}

/// Compares the two runs like run files. Queries and memories get short names: theirs may contain anything.
fn compare_runs(
    questions: &[(String, BTreeMap<String, i32>)],
    control: &Answers,
    treatment: &Answers,
    about: &CorpusFacts,
) -> Result<(CorpusEvidence, [RecordedMetrics; 2]), EngineError> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let judged = questions.iter().flat_map(|(_, grades)| grades.keys());
    let chained = about.chains.iter().flatten();
    for id in judged
        .chain(chained)
        .chain(control.lists.iter().flatten())
        .chain(treatment.lists.iter().flatten())
    {
        let next = names.len();
        names.entry(id).or_insert(next);
    }
    let number = |id: &str| names.get(id).copied().unwrap_or_default();
    let mut qrels = QrelsReader::trec();
    for (query, (_, grades)) in questions.iter().enumerate() {
        for (id, grade) in grades {
            let line = format!("q{query} 0 d{} {grade}\n", number(id));
            qrels.push(line.as_bytes()).map_err(refused)?;
        }
    }
    let qrels: Qrels = qrels.finish(OrderOptions::default()).map_err(refused)?;
    let run = |answers: &Answers| -> Result<Run, RetrievalError> {
        let mut run = RunReader::trec();
        for (query, list) in answers.lists.iter().enumerate() {
            for (rank, id) in list.iter().enumerate() {
                let line = format!(
                    "q{query} Q0 d{} {} {} ab\n",
                    number(id),
                    rank + 1,
                    list.len() - rank
                );
                run.push(line.as_bytes())?;
            }
        }
        run.finish(OrderOptions::default())
    };
    let measures: Vec<Measure> = MEASURES.iter().filter_map(|name| name.parse().ok()).collect();
    let (old, new) = (run(control).map_err(refused)?, run(treatment).map_err(refused)?);
    let options = EvaluationOptions::default();
    let measured = [&old, &new].map(|run| evaluate(&qrels, run, &measures, &options));
    let [before, after] = &measured;
    let found =
        compare((&old, before), (&new, after), &ComparisonSettings::default()).map_err(|problem| {
            match problem {
                ComparisonError::Retrieval(problem) => refused(problem),
                ComparisonError::Statistics(problem) => EngineError::Figures(problem),
                _ => EngineError::NothingToCompare,
            }
        })?;
    let measures = found
        .measures
        .iter()
        .map(|one| MeasuredChange {
            measure: one.measure.to_string(),
            control: one.control,
            treatment: one.treatment,
            difference: one.difference,
            interval: one.ci.map(|interval| Bounds {
                low: interval.low,
                high: interval.high,
            }),
            p_value: one.p_holm,
            verdict: one.verdict,
        })
        .collect();
    let mut facts = Facts::default();
    for document in &about.documents {
        // A memory that no list contains still counts if it is constitutional.
        if let Some(number) = names.get(document.id.as_str()) {
            facts.add_document(Document {
                id: format!("d{number}"),
                ..document.clone()
            });
        }
    }
    for (query, chain) in about
        .chains
        .iter()
        .enumerate()
        .filter(|(_, chain)| !chain.is_empty())
    {
        facts.add_query(&EvalQuery {
            query_id: format!("q{query}"),
            causal_chain: chain.iter().map(|id| format!("d{}", number(id))).collect(),
            ..EvalQuery::default()
        });
    }
    let metrics = [
        recorded_metrics(&qrels, &old, control, questions, &facts)?,
        recorded_metrics(&qrels, &new, treatment, questions, &facts)?,
    ];
    let limits = GraduationLimits::default();
    let latency = compare_latency(&control.times, &treatment.times, &limits);
    let p95 = |of: &dyn Fn(&LatencyComparison) -> f64| latency.as_ref().map_or(0.0, of);
    let evidence = CorpusEvidence {
        queries: found.queries,
        measures,
        control_surfacing: mean(&control.surfaced).ok(),
        treatment_surfacing: mean(&treatment.surfaced).ok(),
        control_p95_ms: p95(&|compared| compared.control_p95_ms),
        treatment_p95_ms: p95(&|compared| compared.treatment_p95_ms),
        slower_p_value: latency.as_ref().map_or(1.0, |compared| compared.slower_p_value),
        latency,
    };
    Ok((evidence, metrics))
}
