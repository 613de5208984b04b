//! Memory search: constitutional memories always surface, cached indexes match the database after changes by any process,
//! and a tried pipeline leaves no trace.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use satiety::memory::{Fusion, Mode, Pipeline, in_folder};
use satiety::retrieval::Tier;
use satiety_engine::memory::{
    LinkRequest, MemorySearch, PreflightRequest, SaveRequest, SearchOutcome, SearchRequest, UpdateRequest,
    ValidateRequest,
};
use satiety_engine::{Engine, Settings, StoreUrl};
use satiety_store::Store;

const WORDS: [&str; 12] = [
    "database", "locked", "cache", "login", "deploy", "rollback", "index", "query", "token", "secret",
    "timeout", "retry",
];
const FOLDERS: [&str; 5] = ["", "store", "store/sqlite", "web", "web/login"];

fn engine(folder: &Path, embedder: &str) -> Engine {
    Engine::new(Settings {
        store: StoreUrl::sqlite(folder.join("s.db")),
        archive_folder: folder.join("archive"),
        embedder: embedder.into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    })
}

async fn save(
    engine: &Engine,
    title: &str,
    content: &str,
    tier: Tier,
    folder: &str,
    trigger: Option<&str>,
) -> String {
    let request = SaveRequest {
        title: title.into(),
        content: content.into(),
        tier: Some(tier),
        triggers: trigger.into_iter().map(str::to_owned).collect(),
        folder: folder.into(),
        author: satiety::memory::Author::Person,
        ..SaveRequest::default()
    };
    engine.memory().save(request).await.unwrap().memory.id
}

fn text(words: &[usize]) -> String {
    words
        .iter()
        .map(|word| WORDS[*word % WORDS.len()])
        .collect::<Vec<_>>()
        .join(" ")
}

fn words() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..WORDS.len(), 1..12)
}

#[derive(Debug, Clone)]
struct Asked {
    words: Vec<usize>,
    mode: usize,
    folder: usize,
    limit: usize,
    budget: usize,
    session: bool,
    skip_shown: bool,
    ranks: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    (
        words(),
        0..4usize,
        0..FOLDERS.len(),
        5..20usize,
        1..4000usize,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(words, mode, folder, limit, budget, session, skip_shown, ranks)| Asked {
                words,
                mode,
                folder,
                limit,
                budget,
                session,
                skip_shown,
                ranks,
            },
        )
}

fn request(asked: &Asked) -> SearchRequest {
    let pipeline = Pipeline {
        fusion: if asked.ranks {
            Fusion::ReciprocalRank { k: 60 }
        } else {
            Fusion::ZScore
        },
        ..Pipeline::default()
    };
    SearchRequest {
        query: text(&asked.words),
        mode: Mode::ALL.get(asked.mode).copied(),
        limit: Some(asked.limit),
        token_budget: Some(asked.budget),
        folder: Some(FOLDERS[asked.folder].into()),
        session: asked.session.then(|| "s".into()),
        skip_shown: asked.skip_shown,
        pipeline: Arc::new(pipeline.validate().unwrap()),
        ..SearchRequest::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Promise of the specification: all of up to five constitutional memories that apply to a folder are among the first
    /// five results, for any query, any budget, and any earlier results of the session.
    #[test]
    fn constitutional_memories_always_surface(
        others in proptest::collection::vec((words(), 0..FOLDERS.len(), 0..4usize), 0..25),
        rules in proptest::collection::vec((words(), 0..FOLDERS.len(), 1..60usize), 0..=5),
        questions in proptest::collection::vec(asked(), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome: Result<(), TestCaseError> = runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let engine = engine(folder.path(), "none");
            for (words, at, tier) in &others {
                let tier = [Tier::Temporary, Tier::Normal, Tier::Important, Tier::Critical][*tier];
                save(&engine, "note", &text(words), tier, FOLDERS[*at], Some("database locked")).await;
            }
            let mut kept = Vec::new();
            for (words, at, long) in &rules {
                // Some rules exceed every budget.
                let id = save(&engine, "rule", &text(words).repeat(*long), Tier::Constitutional, FOLDERS[*at], None).await;
                kept.push((id, FOLDERS[*at]));
            }
            for question in &questions {
                let asked = FOLDERS[question.folder];
                let found = engine.memory().search(request(question)).await.unwrap();
                let first: Vec<&str> = found.results.iter().take(5).map(|result| result.id.as_str()).collect();
                for (id, own) in &kept {
                    if in_folder(own, asked) || in_folder(asked, own) {
                        prop_assert!(first.contains(&id.as_str()), "{id} of `{own}` is not in {first:?} of {question:?}");
                    }
                }
            }
            engine.close().await;
            Ok(())
        });
        outcome?;
    }
}

/// Results of a search, without run-specific parts.
fn summarize(found: &MemorySearch) -> Vec<String> {
    let results = found.results.iter();
    results
        .map(|one| {
            format!(
                "{} {} {} {:.9} {:?} {}",
                one.id, one.title, one.excerpt, one.score, one.channels, one.folder
            )
        })
        .collect()
}

/// Two engines on one database are two processes: one writes and searches, the other only reads, and at every step both
/// return the results of an engine that has just loaded everything.
#[tokio::test]
async fn cached_indexes_follow_changes_of_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, looker) = (engine(folder.path(), "builtin"), engine(folder.path(), "builtin"));
    let long = "# One\n\nThe cache was cold.\n\n".repeat(60) + "# Two\n\nThe login token expired.\n";
    let mut ids = Vec::new();
    for step in 0..12_usize {
        match step {
            0..=3 => {
                let words: Vec<usize> = (step..step + 4).collect();
                ids.push(
                    save(
                        &writer,
                        WORDS[step],
                        &text(&words),
                        Tier::Normal,
                        FOLDERS[step],
                        Some("retry now"),
                    )
                    .await,
                );
            }
            4 => ids.push(save(&writer, "long", &long, Tier::Constitutional, "store", None).await),
            5 | 6 => {
                let update = UpdateRequest {
                    id: ids[step - 5].clone(),
                    content: Some("the rollback of the query cache".into()),
                    folder: Some("web".into()),
                    ..UpdateRequest::default()
                };
                writer.memory().update(update).await.unwrap();
            }
            7 => {
                let update = UpdateRequest {
                    id: ids[4].clone(),
                    content: Some("short now".into()),
                    tier: Some(Tier::Normal),
                    author: satiety::memory::Author::Person,
                    ..UpdateRequest::default()
                };
                writer.memory().update(update).await.unwrap();
            }
            8 => {
                writer
                    .memory()
                    .delete(&[ids[1].clone()], None, satiety::memory::Author::Person)
                    .await
                    .unwrap();
            }
            9 => {
                let request = ValidateRequest {
                    id: ids[0].clone(),
                    useful: true,
                    session: Some("s".into()),
                    scope: None,
                };
                writer.memory().validate(&request).await.unwrap();
            }
            10 => ids.push(
                save(
                    &looker,
                    "other",
                    "a secret of the other process",
                    Tier::Normal,
                    "",
                    None,
                )
                .await,
            ),
            _ => {
                looker
                    .memory()
                    .delete(
                        &[ids[2].clone(), ids[5].clone()],
                        None,
                        satiety::memory::Author::Person,
                    )
                    .await
                    .unwrap();
            }
        }
        for query in ["query cache rollback", "retry now", "login token", "a secret"] {
            for (mode, folder_asked) in [
                (Mode::Focused, None),
                (Mode::Quick, Some("web")),
                (Mode::Deep, Some("store")),
            ] {
                let request = SearchRequest {
                    query: query.into(),
                    mode: Some(mode),
                    folder: folder_asked.map(str::to_owned),
                    ..SearchRequest::default()
                };
                let fresh = engine(folder.path(), "builtin");
                let expected = summarize(
                    &fresh
                        .memory()
                        .search_with(&request.pipeline, &request)
                        .await
                        .unwrap(),
                );
                fresh.close().await;
                for engine in [&writer, &looker] {
                    let found = engine
                        .memory()
                        .search_with(&request.pipeline, &request)
                        .await
                        .unwrap();
                    assert_eq!(summarize(&found), expected, "step {step}, {query}, {mode}");
                }
            }
        }
    }
}

/// With the built-in model: a query without an answer says so, lists what it found only on request, and neither counts as
/// shown. What a session received before is part of the context of a task again.
#[tokio::test]
async fn nothing_relevant_is_an_answer_and_a_task_withholds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "builtin");
    let locks = save(
        &engine,
        "Locks",
        "The database was locked by two writers.",
        Tier::Normal,
        "",
        None,
    )
    .await;
    save(
        &engine,
        "Caches",
        "The cache was cold after the deploy.",
        Tier::Normal,
        "",
        None,
    )
    .await;
    let rule = save(
        &engine,
        "Rule",
        "Never log secrets.",
        Tier::Constitutional,
        "",
        None,
    )
    .await;
    let ask = |query: &str, below_floor: bool| SearchRequest {
        query: query.into(),
        session: Some("s".into()),
        below_floor,
        ..SearchRequest::default()
    };
    let found = engine
        .memory()
        .search(ask("recipe for vegetable lasagna", false))
        .await
        .unwrap();
    assert_eq!(found.outcome, SearchOutcome::NothingRelevant);
    let ids: Vec<&str> = found.results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, [rule.as_str()], "rules apply to every task");
    assert!(
        found
            .below_floor
            .iter()
            .any(|weak| weak.id == locks && weak.confidence < 0.055)
    );
    let listed = engine
        .memory()
        .search(ask("recipe for vegetable lasagna", true))
        .await
        .unwrap();
    assert_eq!(listed.outcome, SearchOutcome::NothingRelevant);
    assert!(
        listed
            .results
            .iter()
            .any(|result| result.id == locks && !result.relevant)
    );
    let answered = engine
        .memory()
        .search(ask("why is the database locked", false))
        .await
        .unwrap();
    assert_eq!(
        (answered.outcome, &answered.results[0].id),
        (SearchOutcome::Relevant, &locks)
    );
    assert!(answered.results[0].relevant && answered.results[0].confidence > 0.3);
    let preflight = PreflightRequest {
        task: "find out why the database is locked".into(),
        session: Some("s".into()),
        ..PreflightRequest::default()
    };
    let context = engine.memory().task_preflight(preflight).await.unwrap().context;
    assert!(context.results.iter().any(|result| result.id == locks));
    engine.close().await;
    let store = Store::open(&StoreUrl::sqlite(folder.path().join("s.db")))
        .await
        .unwrap();
    let logged = store.evaluation().logged_queries(None, 10).await.unwrap();
    let shown = |query: &str| {
        let row = logged.iter().rev().find(|(row, _)| row.query == query).unwrap();
        row.0.result_ids.clone()
    };
    assert_eq!(shown("recipe for vegetable lasagna"), std::slice::from_ref(&rule));
    assert!(shown("why is the database locked").contains(&locks));
    store.close().await;
}

#[tokio::test]
async fn searches_are_logged_once_and_feedback_finds_them_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), "none");
    let id = save(
        &engine,
        "Locks",
        "the database was locked",
        Tier::Normal,
        "",
        None,
    )
    .await;
    let other = save(&engine, "Caches", "the cache was cold", Tier::Normal, "", None).await;
    let link = LinkRequest {
        from: id.clone(),
        kind: satiety::memory::LinkKind::Caused,
        to: other.clone(),
        remove: false,
        scope: None,
    };
    engine.memory().link(link).await.unwrap();
    let request = SearchRequest {
        query: "why was the database locked".into(),
        session: Some("s".into()),
        ..SearchRequest::default()
    };
    let found = engine.memory().search(request.clone()).await.unwrap();
    let ids: Vec<&str> = found.results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(ids, [id.as_str(), other.as_str()]);
    let alone = Pipeline::with(&serde_json::json!({"channels": {"graph": false}})).unwrap();
    let alone = Arc::new(alone);
    let tried = engine.memory().search_with(&alone, &request).await.unwrap();
    assert_eq!(tried.results.len(), 1);
    // The log is written asynchronously, and the validation still finds its query.
    let useful = ValidateRequest {
        id: id.clone(),
        useful: true,
        session: Some("s".into()),
        scope: None,
    };
    let validated = engine.memory().validate(&useful).await.unwrap();
    assert_eq!(
        (validated.query_id.as_deref(), validated.rank_in_results),
        (Some(found.query_id.as_str()), Some(1))
    );
    let again = engine.memory().search(request).await.unwrap();
    assert_eq!(
        again.telemetry.re_search_of.as_deref(),
        Some(found.query_id.as_str())
    );
    let health = engine.memory().health().await.unwrap();
    assert_eq!(health.log.written + health.log.waiting, 2);
    engine.close().await;
    let store = Store::open(&StoreUrl::sqlite(folder.path().join("s.db")))
        .await
        .unwrap();
    let written = store.query_log().queries_of_session("s", 10).await.unwrap();
    assert_eq!(
        written.iter().map(|row| &row.query_id).collect::<Vec<_>>(),
        [&again.query_id, &found.query_id]
    );
    let events = store.memories().feedback_of_session("s", 10).await.unwrap();
    assert!(
        events
            .iter()
            .any(|event| event.event_type == "re_search" && event.query_id.as_ref() == Some(&found.query_id))
    );
}
