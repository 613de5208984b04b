//! Harvest of logged queries into the evaluation corpus.

use crate::handles::RetrievalOperations;
use std::collections::{BTreeMap, BTreeSet};

use satiety::retrieval::{
    EvalQuery, Harvest, HarvestSettings, HarvestedQuery, LoggedQuery, SessionContext, harvest,
};
use satiety_store::evaluation::{EvalJudgmentRow, EvalQueryRow};
use satiety_store::golden::CorpusMark;
use satiety_store::journal::Event;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::golden_error::{GoldenError, share};
use crate::EngineError;

/// Queries per page when reading from the database.
const PAGE: u32 = 500;
/// Number of a query's results whose folders are considered.
const MAX_FOLDER_RESULTS: usize = 5;

/// Request to harvest queries.
#[derive(Debug, Clone)]
pub struct HarvestRequest {
    /// Settings of the selection.
    pub settings: HarvestSettings,
    /// Report only, without writing.
    pub dry_run: bool,
}

/// Result of harvesting queries.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HarvestResponse {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Number of logged queries outside the corpus.
    pub logged: usize,
    /// Number of queries in the corpus before the harvest.
    pub corpus_before: usize,
    /// Selected queries with the reasons.
    #[serde(flatten)]
    pub harvest: Harvest,
}

impl RetrievalOperations<'_> {
    /// Adds logged queries to the corpus: one per group of equivalent queries, up to a target per category.
    pub async fn harvest_queries(self, request: HarvestRequest) -> Result<HarvestResponse, EngineError> {
        let settings = request.settings;
        // More than the specification's targets is fine; a hundred times as many is a typo.
        if !(settings.share > 0.0 && settings.share <= 100.0) {
            return Err(GoldenError::OutOfRange {
                what: "share of the targets",
                least: 0.0,
                most: 100.0,
                value: settings.share,
            }
            .into());
        }
        share("share of common words", settings.near_duplicate)?;
        let store = self.engine.store().await?;
        let mut rows = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = store.evaluation().logged_queries(after.as_deref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.query_id.clone());
            rows.extend(page);
        }
        rows.sort_by(|(a, at), (b, other)| at.cmp(other).then_with(|| a.query_id.cmp(&b.query_id)));
        let log = self.described_log(&rows).await?;
        let found = super::blocking(move || Ok(harvest(&log, &settings).map_err(GoldenError::from)?)).await?;
        let before = rows.iter().filter(|(row, _)| row.is_eval_corpus).count();
        if !request.dry_run && !found.taken.is_empty() {
            store
                .evaluation()
                .mark_corpus(&marks(&rows, &found.taken)?)
                .await?;
            let body = json!({"taken": found.taken.len(), "settings": settings});
            store
                .journal()
                .append(Event::now("retrieval.harvested", "corpus", body))
                .await?;
        }
        Ok(HarvestResponse {
            dry_run: request.dry_run,
            logged: rows.len() - before,
            corpus_before: before,
            harvest: found,
        })
    }

    async fn described_log(self, rows: &[(EvalQueryRow, i64)]) -> Result<Vec<LoggedQuery>, EngineError> {
        let store = self.engine.store().await?;
        let ids: Vec<String> = rows.iter().map(|(row, _)| row.query_id.clone()).collect();
        let mut events: BTreeMap<String, usize> = BTreeMap::new();
        for event in store.evaluation().feedback_of_queries(&ids).await? {
            *events.entry(event.query_id.unwrap_or_default()).or_default() += 1;
        }
        let shown: BTreeSet<String> = rows
            .iter()
            .flat_map(|(row, _)| row.result_ids.iter().take(MAX_FOLDER_RESULTS).cloned())
            .collect();
        let shown: Vec<String> = shown.into_iter().collect();
        let mut folders: BTreeMap<String, String> = BTreeMap::new();
        for memory in store.memories().by_id(&shown).await? {
            folders.insert(memory.memory_id, memory.folder);
        }
        let mut sessions = BTreeSet::new();
        let described = rows.iter().map(|(row, _)| {
            let session = row.session_id.as_deref().filter(|session| !session.is_empty());
            let channels = row.channel_contributions.as_object().into_iter().flatten();
            let is_nonempty =
                |(_, ids): &(&String, &Value)| ids.as_array().is_some_and(|ids| !ids.is_empty());
            LoggedQuery {
                query_id: row.query_id.clone(),
                query: row.query.clone(),
                intent: row.intent.clone(),
                first_of_session: session.is_some_and(|session| sessions.insert(session.to_owned())),
                results: row.result_ids.len(),
                folders: row
                    .result_ids
                    .iter()
                    .take(MAX_FOLDER_RESULTS)
                    .filter_map(|id| folders.get(id).cloned())
                    .collect(),
                channels: channels
                    .filter(is_nonempty)
                    .map(|(name, _)| name.clone())
                    .collect(),
                events: events.get(&row.query_id).copied().unwrap_or(0),
                corpus_category: row.eval_category.clone(),
                in_corpus: row.is_eval_corpus,
            }
        });
        Ok(described.collect())
    }

    /// Loads the whole corpus with its judgments, ordered by id.
    pub(super) async fn whole_corpus(self) -> Result<Vec<(EvalQueryRow, Vec<EvalJudgmentRow>)>, EngineError> {
        let store = self.engine.store().await?;
        let mut corpus = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = store.evaluation().corpus(after.as_deref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.query_id.clone());
            corpus.extend(page);
        }
        if corpus.is_empty() {
            return Err(GoldenError::EmptyCorpus.into());
        }
        Ok(corpus)
    }
}

/// Builds the metadata of each selected query, in the form of an export.
fn marks(rows: &[(EvalQueryRow, i64)], taken: &[HarvestedQuery]) -> Result<Vec<CorpusMark>, EngineError> {
    let mut turns: BTreeMap<&str, u32> = BTreeMap::new();
    let mut wanted: BTreeMap<&str, &HarvestedQuery> = BTreeMap::new();
    for one in taken {
        wanted.insert(&one.query_id, one);
    }
    let mut marks = Vec::new();
    for (row, at) in rows {
        let turn = row.session_id.as_deref().map(|session| {
            let turn = turns.entry(session).or_default();
            *turn += 1;
            *turn
        });
        let Some(one) = wanted.get(row.query_id.as_str()) else {
            continue;
        };
        let other = json!({"because": one.because, "standsFor": one.stands_for, "logged": row.detail});
        let known = EvalQuery {
            query_id: row.query_id.clone(),
            session_context: row.session_id.as_ref().map(|session| SessionContext {
                session_id: Some(session.clone()),
                working_memory_ids: Vec::new(),
                turn_number: turn,
            }),
            harvested_at: jiff::Timestamp::from_microsecond(*at)
                .ok()
                .map(|at| at.to_string()),
            other: other.as_object().cloned().unwrap_or_default(),
            ..EvalQuery::default()
        };
        marks.push(CorpusMark {
            query_id: row.query_id.clone(),
            category: one.category.clone(),
            detail: serde_json::to_value(&known)?,
        });
    }
    Ok(marks)
}

/// Returns the queries that this one represents, as recorded by the harvest.
pub(super) fn stands_for(row: &EvalQueryRow) -> Vec<String> {
    let listed = row
        .detail
        .get("standsFor")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    listed.filter_map(|id| id.as_str().map(Into::into)).collect()
}
