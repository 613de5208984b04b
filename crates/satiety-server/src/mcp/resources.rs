//! MCP resources: memories, sessions, conversations, benchmark runs and research, as Markdown reports or
//! JSON. Memory texts are marked as data.

use std::fmt::Write as _;

use rmcp::ErrorData;
use rmcp::model::{
    ListResourcesResult, MetaObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use satiety_engine::EngineError;
use satiety_engine::memory::{ListRequest, ReadMemory, ReadRequest};
use satiety_engine::research::StoredResearch;
use satiety_engine::research::sources::AllowedSources;
use satiety_report::documents::bench;
use serde::Serialize;

use super::call::{Call, Problem};

/// Resources per page.
const PAGE: usize = 100;
/// Research runs on the first page.
const RESEARCH: u32 = 20;
const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";
/// Annotation that marks a text as untrusted data.
const DATA_MARK: &str = "satiety/data";

/// Supported URI templates with descriptions.
const TEMPLATES: &[(&str, &str, &str, &str)] = &[
    ("satiety://memory/{id}", "memory", "A memory in full", MARKDOWN),
    (
        "satiety://sessions/{id}",
        "session",
        "A session: its searches, used results and task outcomes",
        JSON,
    ),
    (
        "satiety://conversations/{id}",
        "conversation",
        "A scored conversation, with the verdict after each round",
        JSON,
    ),
    (
        "satiety://bench/{run_id}",
        "benchmark run",
        "A benchmark run: metrics and failures",
        MARKDOWN,
    ),
    (
        "satiety://research/{id}",
        "research",
        "A research run: findings with sources, and the novelty of each round",
        MARKDOWN,
    ),
];

pub(super) fn templates() -> Vec<ResourceTemplate> {
    TEMPLATES
        .iter()
        .map(|(uri, name, about, kind)| {
            ResourceTemplate::new(*uri, *name)
                .with_description(*about)
                .with_mime_type(*kind)
        })
        .collect()
}

/// Lists the memory health and the latest research, then memories page by page.
pub(super) async fn list(call: &Call, page: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    if let Some(page) = page.filter(|page| page.parse::<u64>().is_err()) {
        return Err(ErrorData::invalid_params(
            format!("invalid cursor `{page}`"),
            None,
        ));
    }
    let request = ListRequest {
        cursor: page.map(str::to_owned),
        limit: Some(PAGE),
        ..ListRequest::default()
    };
    let engine = call.engine();
    let failed = |error: EngineError| failed(call, &error);
    let found = engine.memory().list(&request).await.map_err(failed)?;
    let mut resources = Vec::new();
    if page.is_none() {
        resources.push(
            Resource::new("satiety://health", "health of the memory")
                .with_description("Counts, vectors, unavailable search channels and task outcomes")
                .with_mime_type(JSON),
        );
        // No tool lists research runs, so the latest are listed here.
        let runs = engine.research().stored_runs(RESEARCH).await.map_err(failed)?;
        resources.extend(runs.into_iter().map(|run| {
            Resource::new(format!("satiety://research/{}", run.run_id), run.run_id)
                .with_title(run.task)
                .with_description("research")
                .with_mime_type(MARKDOWN)
        }));
    }
    resources.extend(found.memories.into_iter().map(|memory| {
        let about = format!("{} {} in /{}", memory.tier.name(), memory.kind, memory.folder);
        Resource::new(format!("satiety://memory/{}", memory.id), memory.id)
            .with_title(memory.title)
            .with_description(about)
            .with_mime_type(MARKDOWN)
    }));
    let mut listed = ListResourcesResult::with_all_items(resources);
    listed.next_cursor = found.next.map(|next| next.to_string());
    Ok(listed)
}

/// Reads a resource.
pub(super) async fn read(call: &Call, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || {
        let known: Vec<&str> = TEMPLATES.iter().map(|(uri, ..)| *uri).collect();
        ErrorData::resource_not_found(
            format!(
                "unknown resource `{uri}` (expected satiety://health, {})",
                known.join(", ")
            ),
            None,
        )
    };
    let path = uri.strip_prefix("satiety://").ok_or_else(unknown)?;
    let engine = call.engine();
    let failed = |error: EngineError| failed(call, &error);
    let content = match path.split_once('/') {
        None if path == "health" => {
            let mut health = engine.memory().health().await.map_err(failed)?;
            if call.is_remote() {
                // As over HTTP: the location of the database is only of interest to the operator.
                health.store = engine.settings().store.engine().into();
            }
            json(uri, &health)?
        }
        Some(("memory", id)) => {
            let request = ReadRequest {
                id: id.to_owned(),
                session: call.session.clone(),
                scope: None,
            };
            let memory = engine.memory().read(&request).await.map_err(failed)?;
            text(uri, memory_markdown(&memory), MARKDOWN)
        }
        Some(("sessions", id)) => json(uri, &engine.memory().session_summary(id).await.map_err(failed)?)?,
        Some(("conversations", id)) => json(uri, &engine.dialogue().conversation(id).await.map_err(failed)?)?,
        Some(("bench", id)) if !id.contains('/') => {
            // A run can also be a file; here only stored runs are allowed.
            if !engine.bench().is_stored(id).await.map_err(failed)? {
                return Err(unknown());
            }
            let mut run = engine.bench().run(id).await.map_err(failed)?;
            if engine
                .harness()
                .is_locked_suite(&call.context.harness_folder, &run.suite_id)
            {
                // The caller is an agent, perhaps the evaluated one: reasons tell what a locked suite expects.
                for result in &mut run.results {
                    result.reasons.clear();
                    result.judges.clear();
                    result.scores.iter_mut().for_each(|score| score.reason = None);
                }
            }
            let report = bench::runs(vec![bench::RunReport::new(&run)]);
            text(uri, satiety_report::markdown::render(&report), MARKDOWN)
        }
        Some(("research", id)) => {
            let run = engine.research().stored_run(id).await.map_err(failed)?;
            text(uri, research_markdown(run), MARKDOWN)
        }
        _ => return Err(unknown()),
    };
    Ok(ReadResourceResult::new(vec![content]))
}

/// Report of a research run, or its rounds while there is none.
fn research_markdown(run: StoredResearch) -> String {
    // The searched directory or address is not shown to readers of the findings.
    let source = AllowedSources::default().shown(&run.source);
    if let Some(mut report) = run.report {
        report.source = source;
        return satiety_report::markdown::render(&satiety_report::documents::research::report(&report));
    }
    let mut page = format!(
        "# {}\n\nIn progress or interrupted. Source: {source}.\n\n",
        run.task
    );
    for round in &run.rounds {
        let novelty = round
            .verdict
            .novelty
            .map_or_else(|| "-".into(), |share| format!("{share:.2}"));
        let _ = writeln!(
            page,
            "{}. {} ({} results, novelty {novelty}: {})",
            round.round,
            round.query,
            round.results.len(),
            round.verdict.words()
        );
    }
    page
}

/// Memory as a Markdown file with front matter, as `satiety memory index` reads it.
fn memory_markdown(read: &ReadMemory) -> String {
    let memory = &read.memory;
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut page = format!(
        "---\nid: {}\ntitle: {}\ntier: {}\nkind: {}\nfolder: {}\nconfidence: {:.2}\n",
        memory.id,
        quoted(&memory.title),
        memory.tier.name(),
        quoted(&memory.kind),
        quoted(&memory.folder),
        memory.confidence
    );
    for link in &read.links {
        let _ = writeln!(page, "# {} {} {}", link.from, link.kind, link.to);
    }
    let _ = write!(page, "---\n{}\n", memory.content);
    page
}

fn json(uri: &str, answer: &impl Serialize) -> Result<ResourceContents, ErrorData> {
    let page = serde_json::to_string_pretty(answer)
        .map_err(|error| ErrorData::internal_error(Problem::bug(&error.to_string()).to_string(), None))?;
    Ok(text(uri, page, JSON))
}

fn text(uri: &str, page: String, kind: &str) -> ResourceContents {
    let mut meta = MetaObject::default();
    meta.0.insert(DATA_MARK.into(), true.into());
    ResourceContents::text(page, uri)
        .with_mime_type(kind)
        .with_meta(meta)
}

fn failed(call: &Call, error: &EngineError) -> ErrorData {
    if let Some(message) = call.generic_message(error) {
        return ErrorData::internal_error(message, None);
    }
    let hint = error
        .hint()
        .map_or_else(String::new, |hint| format!("\nhint: {}", hint.action()));
    let message = format!("{error}{hint}");
    match error.category().exit_code() {
        1 | 2 => ErrorData::resource_not_found(message, None),
        _ => ErrorData::internal_error(message, None),
    }
}
