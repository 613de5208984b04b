//! Memory in the demo: notes, searches, and a search that is measured by the agent's feedback.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use satiety::memory::{Author, Scope, ValidPipeline};
use satiety::retrieval::HarvestSettings;
use satiety_engine::Engine;
use satiety_engine::bench::Stop;
use satiety_engine::experiment::{StartRequest, read_feature};
use satiety_engine::memory::{IndexRequest, MemorySearch, SearchRequest, ValidateRequest};
use satiety_engine::retrieval::{
    HarvestRequest, JudgeFeedbackRequest, ReplayRequest, ReplayResponse, SystemContext, SystemSpec,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;

/// Notes of a team.
const NOTES: [(&str, &str); 3] = [
    (
        "rules.md",
        include_str!("../../../../../examples/memory/rules.md"),
    ),
    (
        "pool.md",
        include_str!("../../../../../examples/memory/store/pool.md"),
    ),
    (
        "wal.md",
        include_str!("../../../../../examples/memory/store/wal.md"),
    ),
];

/// Questions of an agent; the first result of each helps.
const QUESTIONS: [&str; 3] = [
    "why is the database locked",
    "how many connections should a process open",
    "what to do before deleting production data",
];

/// A change to the search that every query is compared with.
const FEATURE: (&str, &str) = (
    "better.toml",
    include_str!("../../../../../examples/ab/better.toml"),
);

const SESSION: &str = "demo";

/// Indexes notes, searches them with an experiment in the background, and measures the search by the feedback.
pub(super) async fn remember(engine: &Engine, directory: &Path) -> Result<MemoryScene, Failure> {
    let notes = directory.join("notes");
    fs_err::create_dir_all(&notes)?;
    for (name, text) in NOTES {
        fs_err::write(notes.join(name), text)?;
    }
    // Global, so that they are found from every directory.
    let index = IndexRequest {
        folder: notes,
        keep_missing: false,
        scope: Some(Scope::Global),
        author: Author::Person,
    };
    engine.memory().index(&index).await?;
    let feature = read_feature(FEATURE.0, FEATURE.1).map_err(satiety_engine::EngineError::from)?;
    engine.experiments().start(StartRequest { feature }).await?;
    let mut searches = Vec::new();
    for question in QUESTIONS {
        let request = SearchRequest {
            query: question.into(),
            session: Some(SESSION.into()),
            scope: Some(Scope::Global),
            ..SearchRequest::default()
        };
        let found = engine.memory().search(request).await?;
        if let Some(best) = found.results.first() {
            let helped = ValidateRequest {
                id: best.id.clone(),
                useful: true,
                session: Some(SESSION.into()),
                scope: Some(Scope::Global),
            };
            engine.memory().validate(&helped).await?;
        }
        searches.push(found);
    }
    engine.experiments().drain_shadows(Duration::from_secs(10)).await;
    let harvest = HarvestRequest {
        settings: HarvestSettings::default(),
        dry_run: false,
    };
    engine.retrieval().harvest_queries(harvest).await?;
    let judge = JudgeFeedbackRequest {
        min_confidence: 0.0,
        ..JudgeFeedbackRequest::default()
    };
    engine.retrieval().judge_from_feedback(judge).await?;
    let system = SystemSpec::Memory {
        mode: None,
        token_budget: None,
        pipeline: Arc::clone(ValidPipeline::standard()),
    };
    let context = SystemContext {
        environment: std::iter::empty().collect(),
        scratch: directory.to_owned(),
        timeout: Duration::from_secs(30),
    };
    let replay = ReplayRequest::new(system, context);
    let measured = engine
        .retrieval()
        .replay_corpus(replay, &Stop::default(), |_| {})
        .await?;
    Ok(MemoryScene { searches, measured })
}

/// Results of the memory scene.
#[derive(Serialize, JsonSchema)]
pub(super) struct MemoryScene {
    /// Searches of the agent.
    searches: Vec<MemorySearch>,
    /// The same queries replayed and measured by the agent's feedback.
    measured: ReplayResponse,
}

impl MemoryScene {
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for search in &self.searches {
            lines.push(format!("{}?", search.query));
            let best = search.results.first();
            let words = best.map_or("nothing found", |best| best.title.as_str());
            lines.push(format!("  {words}"));
        }
        let metrics = self.measured.report.iter().flat_map(|report| &report.metrics.0);
        let ndcg = metrics.into_iter().find(|(name, _)| name == "ndcg@10");
        if let Some(ndcg) = ndcg.and_then(|(_, ndcg)| ndcg.mean) {
            lines.push(format!(
                "Every search and its use are logged, so that the search can be measured: nDCG@10 {ndcg:.2} on {} queries",
                self.measured.queries
            ));
        }
        lines
    }
}
