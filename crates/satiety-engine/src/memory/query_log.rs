//! Session history, and the asynchronous query log.

use crate::handles::MemoryOperations;
use std::collections::BTreeMap;

use satiety::memory::{
    MemoryResult, MemorySearch, PastQuery, Scope, SearchOutcome, SessionHistory, SessionSettings,
    truncate_query,
};
use satiety::retrieval::Tier;
use satiety_store::LoggedQuery;
use satiety_store::evaluation::EvalQueryRow;
use satiety_store::memory::FeedbackRow;
use satiety_store::now_micros;
use serde_json::{Value, json};
use uuid::Uuid;

use super::attribution::{logged_vector, past_query};
use super::search::{QueryVector, SearchRequest};
use crate::EngineError;

impl MemoryOperations<'_> {
    /// Returns the history of the request's session.
    pub(super) async fn session_history(
        self,
        request: &SearchRequest,
        vector: Option<&QueryVector>,
        settings: SessionSettings,
    ) -> Result<SessionHistory, EngineError> {
        let Some(name) = &request.session else {
            return Ok(SessionHistory::default());
        };
        let store = self.engine.store().await?;
        let (queries, events) = tokio::try_join!(
            store.query_log().queries_of_session(name, settings.look_back),
            store.memories().feedback_of_session(name, settings.look_back)
        )?;
        let used = events.iter().filter(|event| {
            matches!(
                event.event_type.as_str(),
                "read_after_search" | "reference" | "validate_useful"
            )
        });
        let used = used.filter_map(|event| Some((event.memory_id.as_deref()?, event.query_id.as_deref())));
        let asked = PastQuery {
            text: truncate_query(&request.query).into_owned(),
            vector: vector.cloned(),
            ..PastQuery::default()
        };
        let queries: Vec<PastQuery> = queries.into_iter().map(past_query).collect();
        Ok(SessionHistory::new(&asked, &queries, used, settings))
    }

    /// Enqueues a search for the query log, which writes it asynchronously.
    pub(super) async fn log_search(
        self,
        request: &SearchRequest,
        answer: &MemorySearch,
        vector: Option<&QueryVector>,
    ) -> Result<(), EngineError> {
        // A result below the relevance floor was not an answer: it neither counts as shown nor as passed over.
        // Constitutional memories are always shown.
        let counts = |result: &&MemoryResult| result.relevant || result.tier == Tier::Constitutional;
        let shown: Vec<&MemoryResult> = answer.results.iter().filter(counts).collect();
        let mut contributions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for result in &shown {
            for channel in result.channels.keys() {
                contributions.entry(channel.name()).or_default().push(&result.id);
            }
        }
        let logged = truncate_query(&request.query).into_owned();
        let project = match self.scope(request.scope.as_ref()) {
            Scope::Project(project) => Some(project.id),
            Scope::Global => Some("global".to_owned()),
            Scope::All => None,
        };
        let mut detail = json!({"degraded": answer.degraded, "folder": request.folder, "project": project});
        // Why each result was found, in the order of the results, for people who look into a search.
        detail["found"] = shown.iter().map(|result| why_found(result)).collect();
        // Later uses and queries of the session are compared with it.
        if let Some(vector) = vector.filter(|_| request.session.is_some()) {
            detail["vector"] = logged_vector(vector);
        }
        if request.skip_shown {
            let tokens: usize = answer.already_shown.iter().map(|result| result.tokens).sum();
            detail["already_shown"] = json!({"results": answer.already_shown.len(), "tokens": tokens});
        }
        if !request.filter.is_empty() {
            detail["filter"] = json!(request.filter);
        }
        if let Some(time) = request.as_of {
            detail["as_of"] = json!(time);
        }
        if answer.outcome == SearchOutcome::NothingRelevant {
            detail["outcome"] = json!(answer.outcome);
        }
        if logged != request.query {
            detail["query_bytes"] = request.query.len().into();
            detail["query_blake3"] = blake3::hash(request.query.as_bytes()).to_hex()[..32].into();
        }
        let row = EvalQueryRow {
            query_id: answer.query_id.clone(),
            query: logged,
            intent: answer.intent.intent.map(|intent| intent.name().to_owned()),
            mode: Some(answer.mode.selected_mode.name().into()),
            session_id: request.session.clone(),
            tool_name: request.tool.into(),
            result_ids: shown.iter().map(|result| result.id.clone()).collect(),
            channel_contributions: json!(contributions),
            total_latency_ms: Some(answer.telemetry.total_latency_ms),
            fusion_weights: Some(json!(answer.telemetry.weights)),
            quality_proxy_score: Some(answer.telemetry.quality_proxy_score),
            trace_id: Some(answer.telemetry.trace_id.clone()),
            is_eval_corpus: false,
            eval_category: None,
            detail,
        };
        let at = now_micros();
        let mut events = Vec::new();
        if let (Some(session), Some(earlier)) = (&request.session, &answer.telemetry.re_search_of) {
            events.push(FeedbackRow {
                feedback_id: satiety::ids::prefixed("fb", Uuid::now_v7()),
                event_type: "re_search".into(),
                session_id: session.clone(),
                query_id: Some(earlier.clone()),
                memory_id: None,
                rank_in_results: None,
                metadata: json!({"asked_again_as": answer.query_id}),
                created_at: at,
            });
        }
        self.engine
            .store()
            .await?
            .query_log()
            .append(LoggedQuery { row, at, events })
            .await;
        Ok(())
    }
}

/// Score, confidence and ranks by channel of a result, rounded: the log has a row for every search.
fn why_found(result: &MemoryResult) -> Value {
    let rounded = |value: f64| (value * 1e4).round() / 1e4;
    let ranks: BTreeMap<&str, u32> = result
        .channels
        .iter()
        .map(|(channel, found)| (channel.name(), found.rank))
        .collect();
    json!({"score": rounded(result.score), "confidence": rounded(result.confidence), "ranks": ranks})
}
