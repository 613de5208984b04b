//! Measurement of both pipelines on the stored corpus. The queries alternate between the pipelines, so that
//! other load on the machine affects both.

use crate::handles::ExperimentOperations;
use std::collections::BTreeMap;
use std::sync::Arc;

use satiety::experiment::{Bounds, CorpusEvidence, Feature, MeasuredChange};
use satiety::memory::ValidPipeline;
use satiety::retrieval::{
    ComparisonError, ComparisonSettings, EvaluationOptions, Measure, OrderOptions, Qrels, QrelsReader,
    RetrievalError, Run, RunReader, Tier, compare, constitutional_surfacing, evaluate,
};
use satiety::stats::{Alternative, mean, quantile, sign_flip};
use satiety_store::evaluation::EvalResultRow;
use serde_json::json;

use super::assignment::apply_change;
use crate::EngineError;
use crate::memory::{MemorySearch, SearchRequest};

/// Repetitions of each query per pipeline. The fastest counts, because other load on the machine can only add
/// to it.
const REPEATS: usize = 5;
/// Measures; the first decides, the others must not be worse.
const MEASURES: [&str; 3] = ["mrr@5", "ndcg@10", "recall@10"];
/// Random sign patterns, if there are too many to enumerate.
const PERMUTATIONS: u64 = 9_999;
/// Constitutional memories are expected within this many top results.
const SURFACING_DEPTH: usize = 5;

/// A pipeline's answers to the corpus.
#[derive(Default)]
struct Answers {
    lists: Vec<Vec<String>>,
    times: Vec<f64>,
    surfaced: Vec<f64>,
}

impl Answers {
    /// Records the first answer to a query.
    fn take(&mut self, found: MemorySearch, rules: &[String], time: f64) {
        let list: Vec<String> = found.results.into_iter().map(|result| result.id).collect();
        let ids: Vec<&str> = list.iter().map(String::as_str).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let surfaced = constitutional_surfacing(&ids, &rules, SURFACING_DEPTH);
        self.surfaced.extend(surfaced.map(|found| found.fraction));
        self.lists.push(list);
        self.times.push(time);
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
        let evidence = compare_runs(&questions, control, treatment)?;
        self.record_measured(feature, &evidence).await?;
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
                Some(best) => *best = best.min(time),
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

    /// Stores the metrics of both pipelines as two measured runs.
    async fn record_measured(self, feature: &Feature, evidence: &CorpusEvidence) -> Result<(), EngineError> {
        let store = self.engine.store().await?;
        let control_id = satiety::ids::prefixed("eval", uuid::Uuid::now_v7());
        let value = |name: &str, treatment: bool| {
            let found = evidence.measures.iter().find(|one| one.measure == name);
            found.map(|one| if treatment { one.treatment } else { one.control })
        };
        for treatment in [false, true] {
            let mut figures: Vec<(String, f64)> = Vec::new();
            let mut put =
                |name: &str, value: Option<f64>| figures.extend(value.map(|value| (name.to_owned(), value)));
            put("mrr_at_5", value("mrr@5", treatment));
            put("ndcg_at_10", value("ndcg@10", treatment));
            put("recall_at_10", value("recall@10", treatment));
            let (surfacing, first) = if treatment {
                (evidence.treatment_surfacing, evidence.measures.first())
            } else {
                (evidence.control_surfacing, None)
            };
            put("constitutional_surfacing_rate", surfacing);
            put("mrr_delta", first.map(|one| one.difference));
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
                query_count: i64::try_from(evidence.queries).unwrap_or(i64::MAX),
                control_run_id: treatment.then(|| control_id.clone()),
                is_significant: first.map(|one| one.p_value <= 0.05),
                report: json!(evidence),
                ..EvalResultRow::default()
            };
            store.evaluation().put_result(&row).await?;
        }
        Ok(())
    }
}

/// Compares the two runs like run files. Queries and memories get short names: theirs may contain anything.
fn compare_runs(
    questions: &[(String, BTreeMap<String, i32>)],
    control: &Answers,
    treatment: &Answers,
) -> Result<CorpusEvidence, EngineError> {
    let refused = |problem: RetrievalError| EngineError::Ranking {
        name: "the corpus".into(),
        problem,
    };
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let judged = questions.iter().flat_map(|(_, grades)| grades.keys());
    for id in judged
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
    let p95 = |answers: &Answers| quantile(&answers.times, 0.95).map_err(EngineError::Figures);
    Ok(CorpusEvidence {
        queries: found.queries,
        measures,
        control_surfacing: mean(&control.surfaced).ok(),
        treatment_surfacing: mean(&treatment.surfaced).ok(),
        control_p95_ms: p95(control)?,
        treatment_p95_ms: p95(treatment)?,
        slower_p_value: slowdown_p_value(control, treatment)?,
    })
}

/// Returns the p-value of the slowdown under the null hypothesis of equal latency: a randomisation test of
/// the latency ratios.
fn slowdown_p_value(control: &Answers, treatment: &Answers) -> Result<f64, EngineError> {
    let pairs = control.times.iter().zip(&treatment.times);
    let ratios: Vec<f64> = pairs
        .map(|(before, after)| (after.max(1e-6) / before.max(1e-6)).ln())
        .collect();
    let found = sign_flip(&ratios, Alternative::Greater, PERMUTATIONS, 1).map_err(EngineError::Figures)?;
    Ok(found.p_value)
}
