//! Annotation: people judge results one by one. Returns the next question, stores and undoes answers, and
//! reports progress and agreement. No state is kept between calls, so a terminal and a web page can be used
//! in turn.

use crate::handles::RetrievalOperations;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use satiety::retrieval::{
    Agreement, AnnotationProgress, AnnotationSettings, JudgmentSource, PoolEntry, Rating, Said, agreement,
    annotation_progress, consensus, next_annotation,
};
use satiety_store::evaluation::{EvalJudgmentRow, EvalQueryRow};
use satiety_store::golden::AnnotationRow;
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;

use super::golden_error::{GoldenError, share};
use super::query_facts::each_document;
use super::replay::ids_of;
use crate::EngineError;

/// Annotator of judgments that were imported without a name.
const UNNAMED: &str = "unnamed";

/// Request of an annotator.
#[derive(Debug, Clone)]
pub struct AnnotateRequest {
    /// Annotator, and the share of double judgments.
    pub settings: AnnotationSettings,
    /// Number of results judged per query, of the log and of each run.
    pub depth: usize,
    /// Number of latest runs considered.
    pub runs: u32,
    /// File with the text of documents that are not memories in this database.
    pub documents: Option<PathBuf>,
}

impl AnnotateRequest {
    /// Default request: twenty results of the log and of each of the ten latest runs.
    pub fn of(annotator: &str) -> Self {
        Self {
            settings: AnnotationSettings {
                annotator: annotator.to_owned(),
                double: 0.0,
                seed: 0,
            },
            depth: 20,
            runs: 10,
            documents: None,
        }
    }
}

/// Next annotation question and progress.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AnnotationStep {
    /// Next question; absent when nothing is pending.
    pub next: Option<AnnotationQuestion>,
    /// Progress of the annotator so far.
    pub progress: AnnotationProgress,
    /// Query and result of the answer that was undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone: Option<(String, String)>,
}

/// A query and one of its results, without ranks or systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnnotationQuestion {
    /// Id of the query.
    pub query_id: String,
    /// Text of the query.
    pub query: String,
    /// Id of the result to judge.
    pub memory_id: String,
    /// Title of the result, if known.
    pub title: Option<String>,
    /// Text of the result; absent if unknown.
    pub text: Option<String>,
    /// Position among the query's results, from 1.
    pub position: usize,
    /// Number of results of the query.
    pub of: usize,
}

/// Judgment of a result by an annotator.
#[derive(Debug, Clone)]
pub struct AnnotationVerdict {
    pub query_id: String,
    pub memory_id: String,
    /// Grade from 0 to 3; `None` if the annotator cannot decide.
    pub grade: Option<i32>,
}

/// The corpus as annotators see it.
struct AnnotationSheet {
    queries: BTreeMap<String, EvalQueryRow>,
    pools: Vec<PoolEntry>,
    said: Vec<Said>,
    annotations: Vec<AnnotationRow>,
    /// Manual judgments without an annotation.
    imported: BTreeMap<(String, String), EvalJudgmentRow>,
}

impl RetrievalOperations<'_> {
    /// Returns the next question of an annotator.
    pub async fn next_annotation(self, request: &AnnotateRequest) -> Result<AnnotationStep, EngineError> {
        check(request)?;
        let sheet = self.annotation_sheet(request).await?;
        self.annotation_step(request, &sheet, None).await
    }

    /// Stores a judgment immediately, and returns the next question.
    pub async fn annotate(
        self,
        request: &AnnotateRequest,
        verdict: &AnnotationVerdict,
    ) -> Result<AnnotationStep, EngineError> {
        check(request)?;
        if let Some(grade) = verdict.grade.filter(|grade| !(0..=3).contains(grade)) {
            return Err(GoldenError::Grade(grade).into());
        }
        let mut sheet = self.annotation_sheet(request).await?;
        if !sheet.queries.contains_key(&verdict.query_id) {
            return Err(GoldenError::NoQuery(verdict.query_id.clone()).into());
        }
        let store = self.engine.store().await?;
        let me = &request.settings.annotator;
        let pair = (verdict.query_id.clone(), verdict.memory_id.clone());
        // An imported judgment becomes an annotation, so that another annotator does not overwrite it.
        if let Some(judgment) = sheet.imported.get(&pair) {
            let who = judgment.annotator.clone().unwrap_or_else(|| UNNAMED.into());
            if who != *me {
                let row = AnnotationRow {
                    query_id: pair.0.clone(),
                    memory_id: pair.1.clone(),
                    annotator: who,
                    relevance: Some(judgment.relevance),
                    created_at: now_micros(),
                };
                store.evaluation().put_annotation(&row, Some(judgment)).await?;
            }
        }
        sheet.forget(&pair, me);
        sheet.said.push(Said {
            query_id: pair.0.clone(),
            memory_id: pair.1.clone(),
            annotator: me.clone(),
            grade: verdict.grade,
        });
        let row = AnnotationRow {
            query_id: pair.0.clone(),
            memory_id: pair.1.clone(),
            annotator: me.clone(),
            relevance: verdict.grade.map(i64::from),
            created_at: now_micros(),
        };
        store
            .evaluation()
            .put_annotation(&row, sheet.judgment(&pair).as_ref())
            .await?;
        self.annotation_step(request, &sheet, None).await
    }

    /// Undoes the last judgment of an annotator.
    pub async fn undo_annotation(self, request: &AnnotateRequest) -> Result<AnnotationStep, EngineError> {
        check(request)?;
        let mut sheet = self.annotation_sheet(request).await?;
        let me = &request.settings.annotator;
        let last = sheet
            .annotations
            .iter()
            .rev()
            .find(|row| row.annotator == *me)
            .cloned();
        let Some(row) = last else {
            return self.annotation_step(request, &sheet, None).await;
        };
        let pair = (row.query_id.clone(), row.memory_id.clone());
        sheet.forget(&pair, me);
        let store = self.engine.store().await?;
        store
            .evaluation()
            .remove_annotation(&row, sheet.judgment(&pair).as_ref())
            .await?;
        self.annotation_step(request, &sheet, Some(pair)).await
    }

    /// Computes the agreement of annotators on results that several of them judged.
    pub async fn annotation_agreement(
        self,
        resamples: u64,
        seed: u64,
        shown: usize,
    ) -> Result<Agreement, EngineError> {
        let rows = self.engine.store().await?.evaluation().annotations().await?;
        let ratings: Vec<Rating> = rows
            .into_iter()
            .filter_map(|row| {
                Some(Rating {
                    unit: (row.query_id, row.memory_id),
                    annotator: row.annotator,
                    grade: i32::try_from(row.relevance?).ok()?,
                })
            })
            .collect();
        super::blocking(move || Ok(agreement(&ratings, resamples, seed, shown))).await
    }

    async fn annotation_step(
        self,
        request: &AnnotateRequest,
        sheet: &AnnotationSheet,
        undone: Option<(String, String)>,
    ) -> Result<AnnotationStep, EngineError> {
        let progress = annotation_progress(&sheet.pools, &sheet.said, &request.settings);
        let mut next = None;
        if let Some(item) = next_annotation(&sheet.pools, &sheet.said, &request.settings) {
            let (title, text) = self.words_of(&item.memory_id, request).await?;
            let query = sheet.queries.get(&item.query_id).map(|row| row.query.clone());
            next = Some(AnnotationQuestion {
                query: query.unwrap_or_default(),
                query_id: item.query_id,
                memory_id: item.memory_id,
                title,
                text,
                position: item.position,
                of: item.of,
            });
        }
        Ok(AnnotationStep {
            next,
            progress,
            undone,
        })
    }

    async fn words_of(
        self,
        id: &str,
        request: &AnnotateRequest,
    ) -> Result<(Option<String>, Option<String>), EngineError> {
        let rows = self
            .engine
            .store()
            .await?
            .memories()
            .by_id(&[id.to_owned()])
            .await?;
        if let Some(row) = rows.into_iter().next() {
            return Ok((Some(row.title), Some(row.content)));
        }
        let Some(path) = request.documents.clone() else {
            return Ok((None, None));
        };
        let wanted = id.to_owned();
        super::blocking(move || {
            let mut found = (None, None);
            each_document(&path, |document| {
                if document.id == wanted {
                    found = (document.title, document.text);
                }
            })?;
            Ok(found)
        })
        .await
    }

    async fn annotation_sheet(self, request: &AnnotateRequest) -> Result<AnnotationSheet, EngineError> {
        let corpus = self.whole_corpus().await?;
        let store = self.engine.store().await?;
        let mut pooled: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (run, _, _, _) in store.evaluation().runs_with_answers(request.runs).await? {
            for answer in store.evaluation().answers(&run).await? {
                let ids = ids_of(&answer.results).take(request.depth);
                pooled
                    .entry(answer.query_id)
                    .or_default()
                    .extend(ids.map(Into::into));
            }
        }
        let annotations = store.evaluation().annotations().await?;
        let mut said: Vec<Said> = annotations
            .iter()
            .map(|row| Said {
                query_id: row.query_id.clone(),
                memory_id: row.memory_id.clone(),
                annotator: row.annotator.clone(),
                grade: row.relevance.and_then(|grade| i32::try_from(grade).ok()),
            })
            .collect();
        let annotated: BTreeSet<(String, String)> = annotations
            .iter()
            .map(|row| (row.query_id.clone(), row.memory_id.clone()))
            .collect();
        let mut imported = BTreeMap::new();
        let mut pools = Vec::with_capacity(corpus.len());
        let mut queries = BTreeMap::new();
        for (row, judgments) in corpus {
            let mut ids = pooled.remove(&row.query_id).unwrap_or_default();
            ids.extend(row.result_ids.iter().take(request.depth).cloned());
            for judgment in judgments {
                ids.insert(judgment.memory_id.clone());
                let pair = (judgment.query_id.clone(), judgment.memory_id.clone());
                if judgment.source == JudgmentSource::Manual.name() && !annotated.contains(&pair) {
                    said.push(Said {
                        query_id: pair.0.clone(),
                        memory_id: pair.1.clone(),
                        annotator: judgment.annotator.clone().unwrap_or_else(|| UNNAMED.into()),
                        grade: i32::try_from(judgment.relevance).ok(),
                    });
                    imported.insert(pair, judgment);
                }
            }
            pools.push(PoolEntry {
                query_id: row.query_id.clone(),
                memory_ids: ids,
            });
            queries.insert(row.query_id.clone(), row);
        }
        Ok(AnnotationSheet {
            queries,
            pools,
            said,
            annotations,
            imported,
        })
    }
}

impl AnnotationSheet {
    fn forget(&mut self, pair: &(String, String), annotator: &str) {
        self.said
            .retain(|one| one.annotator != annotator || one.query_id != pair.0 || one.memory_id != pair.1);
    }

    /// Derives the manual judgment of a result from all its annotations.
    fn judgment(&self, pair: &(String, String)) -> Option<EvalJudgmentRow> {
        let about = self
            .said
            .iter()
            .filter(|one| one.query_id == pair.0 && one.memory_id == pair.1);
        let graded: Vec<(&str, i32)> = about
            .filter_map(|one| Some((one.annotator.as_str(), one.grade?)))
            .collect();
        let grades: Vec<i32> = graded.iter().map(|(_, grade)| *grade).collect();
        let together = consensus(&grades)?;
        let mut names: Vec<&str> = graded.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        Some(EvalJudgmentRow {
            query_id: pair.0.clone(),
            memory_id: pair.1.clone(),
            source: JudgmentSource::Manual.name().into(),
            relevance: together.grade.into(),
            annotator: Some(names.join("+")),
            confidence: Some(together.confidence),
        })
    }
}

fn check(request: &AnnotateRequest) -> Result<(), GoldenError> {
    share("share of double judgments", request.settings.double)?;
    if request.settings.annotator.trim().is_empty() {
        return Err(GoldenError::NoAnnotator);
    }
    Ok(())
}
