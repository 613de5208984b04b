//! Attribution of uses to the queries of a session: reads what the library's decision needs. Vectors come from
//! the log and from the chunks of the memories, so neither the index nor the model is loaded.

use crate::handles::MemoryOperations;
use std::collections::BTreeMap;

use satiety::memory::{
    Attribution, PastQuery, UsedMemory, attribute, attribution_settings, encode_vector, read_vector,
};
use satiety_store::SessionQueryRow;
use satiety_store::memory::MemoryRow;
use serde_json::{Value, json};

use crate::EngineError;

/// Number of a session's queries that a use can be attributed to.
pub(super) const MAX_QUERIES: u32 = 50;

impl MemoryOperations<'_> {
    /// Returns the latest queries of a session, newest first.
    pub(super) async fn past_queries(self, session: &str, limit: u32) -> Result<Vec<PastQuery>, EngineError> {
        let store = self.engine.store().await?;
        let rows = store.query_log().queries_of_session(session, limit).await?;
        Ok(rows.into_iter().map(past_query).collect())
    }

    /// Describes memories for the attribution, by id.
    pub(crate) async fn used_memories(
        self,
        rows: &[MemoryRow],
    ) -> Result<BTreeMap<String, UsedMemory>, EngineError> {
        let ids: Vec<String> = rows.iter().map(|row| row.memory_id.clone()).collect();
        let chunks = self
            .engine
            .store()
            .await?
            .memories()
            .chunks_of(&ids, true)
            .await?;
        let mut vectors: BTreeMap<String, Vec<(String, Vec<f32>)>> = BTreeMap::new();
        for chunk in chunks {
            if let Some((model, text)) = chunk.vector
                && let Some(vector) = read_vector(&text)
            {
                vectors.entry(chunk.memory_id).or_default().push((model, vector));
            }
        }
        let used = rows.iter().map(|row| {
            let own = vectors.remove(&row.memory_id).unwrap_or_default();
            let used = UsedMemory::new(&row.memory_id, &row.title, &row.content, own);
            (row.memory_id.clone(), used)
        });
        Ok(used.collect())
    }

    /// Attributes the use of each memory at a time to one of the queries.
    pub(super) async fn attribute_uses(
        self,
        queries: &[PastQuery],
        memories: &[String],
        now: i64,
    ) -> Result<BTreeMap<String, Attribution>, EngineError> {
        let listed: Vec<String> = memories
            .iter()
            .filter(|id| queries.iter().any(|query| query.results.contains(id)))
            .cloned()
            .collect();
        if listed.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = self.engine.store().await?.memories().by_id(&listed).await?;
        let rule = self.engine.memory_settings.attribution;
        let used = self.used_memories(&rows).await?.into_iter();
        let attributed =
            used.map(|(id, memory)| (id, attribute(&memory, queries, now, rule, attribution_settings())));
        Ok(attributed.collect())
    }
}

/// Metadata of a feedback event: how probable it is that it belongs to its query, and why.
pub(super) fn attribution_metadata(attribution: &Attribution, mut metadata: Value) -> Value {
    let best = attribution.credited.as_ref().or_else(|| {
        let candidates = attribution.candidates.iter();
        candidates.max_by(|a, b| a.probability.total_cmp(&b.probability))
    });
    if let (Some(object), Some(credit)) = (metadata.as_object_mut(), best) {
        let round = |value: f64| (value * 10_000.0).round() / 10_000.0;
        let evidence = json!({
            "query_id": credit.query_id, "probability": round(credit.probability),
            "words": credit.words.map(round), "meaning": credit.meaning.map(round),
            "rank": credit.rank, "minutes": round(credit.minutes), "queries": attribution.candidates.len(),
        });
        object.insert("attribution".into(), evidence);
    }
    metadata
}

/// Probability that a feedback event belongs to its query; 1 for events from before it was recorded.
pub(crate) fn attributed_probability(metadata: &Value) -> f64 {
    let known = metadata
        .pointer("/attribution/probability")
        .and_then(Value::as_f64);
    known.unwrap_or(1.0)
}

/// A logged query, with the vector that the search recorded.
pub(crate) fn past_query(row: SessionQueryRow) -> PastQuery {
    // A harvested query keeps what was logged below `logged`.
    let logged = row.detail.get("vector");
    let logged = logged.or_else(|| row.detail.pointer("/logged/vector"));
    let vector = logged.and_then(|vector| {
        let model = vector.get("model")?.as_str()?.to_owned();
        Some((model, read_vector(vector.get("values")?.as_str()?)?))
    });
    PastQuery {
        id: row.query_id,
        text: row.query,
        results: row.result_ids,
        at: row.created_at,
        vector,
    }
}

/// Vector of a query as it is logged.
pub(super) fn logged_vector(vector: &(String, Vec<f32>)) -> Value {
    json!({"model": vector.0, "values": encode_vector(&vector.1)})
}
