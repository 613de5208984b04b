//! A story of ten interleaved tasks with the built-in model: an agent asks about all of them, then reads and validates the
//! answers in another order. Each use must be credited to the question it answers, and nothing wrong may be learnt.
//!
//! `cargo test -p satiety-engine --test it memory_story -- --nocapture` prints the table of docs/measurements.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use satiety::memory::{AttributionRule, Pipeline, ValidPipeline};
use satiety_engine::memory::{MemorySettings, ReadRequest, SaveRequest, SearchRequest, ValidateRequest};
use satiety_engine::retrieval::{HarvestRequest, JudgeFeedbackRequest};
use satiety_engine::{Engine, Settings, StoreUrl};
use satiety_store::Store;
use serde_json::json;

/// Every query lists almost all memories, so that the attribution has to choose.
fn without_floor() -> Arc<ValidPipeline> {
    let none = json!({"floor": 0.0});
    let changes = json!({"relevance": {"fused": none, "vector": none, "lexical": none}});
    Arc::new(Pipeline::with(&changes).unwrap())
}

/// A task: title and text of the memory that answers it, and what the agent asks, first and later in other words.
struct Task {
    title: &'static str,
    content: &'static str,
    asks: &'static str,
    asks_again: &'static str,
}

const TASKS: [Task; 10] = [
    Task {
        title: "Busy timeout of the store",
        content: "SQLite reported that the database is locked because two processes wrote at once. We set busy_timeout to five seconds and keep one writer.",
        asks: "why do writes fail with database is locked",
        asks_again: "two processes writing to sqlite at the same time",
    },
    Task {
        title: "Release train",
        content: "Releases leave on Tuesday mornings. A change that misses the train waits a week; hotfixes need the approval of the person on call.",
        asks: "when do we ship a new version",
        asks_again: "which weekday are releases made",
    },
    Task {
        title: "Session tokens expire early",
        content: "Login tokens expired after minutes because the clock of one gateway was ahead. The gateways now synchronise their clocks with NTP every hour.",
        asks: "users are logged out after a few minutes",
        asks_again: "login session expires too soon",
    },
    Task {
        title: "Invoice rounding",
        content: "Amounts of an invoice are rounded per line, half to even, and the total is the sum of the rounded lines, as the tax office requires.",
        asks: "how are amounts rounded on a bill",
        asks_again: "rounding rule for the total of an invoice",
    },
    Task {
        title: "Image resizing service",
        content: "Thumbnails are made by the media worker with libvips, not by the web server, because decoding large photos used up the memory of the web pods.",
        asks: "where are thumbnails generated",
        asks_again: "which service resizes uploaded photos",
    },
    Task {
        title: "Search ranking experiment",
        content: "Boosting recent products by 20 percent raised clicks but lowered sales, so the recency boost was removed from the product search.",
        asks: "did boosting newer products help",
        asks_again: "result of the recency experiment in product search",
    },
    Task {
        title: "Backup restore drill",
        content: "The nightly backup is restored on the first of each month into the staging cluster; the last drill took forty minutes.",
        asks: "how long does it take to restore from backup",
        asks_again: "when was disaster recovery tested",
    },
    Task {
        title: "Email sending limits",
        content: "The mail provider accepts fourteen messages a second; newsletters are queued and throttled, while password resets bypass the queue.",
        asks: "why are newsletters sent slowly",
        asks_again: "rate limit of outgoing email",
    },
    Task {
        title: "Feature flags",
        content: "Flags live in the table feature_flags and are cached for thirty seconds per process, so switching one off needs at most half a minute.",
        asks: "how fast does turning off a feature flag take effect",
        asks_again: "where are the feature switches stored",
    },
    Task {
        title: "Logging of personal data",
        content: "Names, addresses and card numbers are masked before a line reaches the log collector, because logs are kept for a year.",
        asks: "may we write customer addresses to the logs",
        asks_again: "masking of personal data in log lines",
    },
];

/// The order in which the agent uses the answers.
const USED: [usize; 10] = [6, 0, 9, 3, 5, 1, 8, 2, 7, 4];

fn engine(directory: &std::path::Path, attribution: AttributionRule) -> Engine {
    Engine::new(Settings {
        store: StoreUrl::sqlite(directory.join("s.db")),
        archive_folder: directory.join("archive"),
        embedder: "builtin".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    })
    .with_memory(MemorySettings {
        attribution,
        ..MemorySettings::default()
    })
}

struct Told {
    /// Uses that were credited to a question of their own task, and to one of another task.
    right: usize,
    wrong: usize,
    none: usize,
    /// Judgments by side of the relevance threshold.
    right_grades: usize,
    wrong_grades: usize,
    /// Learned phrases from questions of other tasks.
    wrong_phrases: Vec<String>,
    phrases: usize,
}

/// Tells the story and returns what the memory made of it.
async fn tell(rule: AttributionRule) -> Told {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), rule);
    let mut ids = Vec::new();
    for task in &TASKS {
        let request = SaveRequest {
            title: task.title.into(),
            content: task.content.into(),
            ..SaveRequest::default()
        };
        let saved = engine.memory().save(request).await.unwrap();
        assert!(
            saved.duplicates.is_empty() && saved.conflicts.is_empty(),
            "{saved:?}"
        );
        ids.push(saved.memory.id);
    }
    // Questions of all tasks, interleaved; some are asked again in other words, among those of other tasks.
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..2 {
        for (at, task) in TASKS.iter().enumerate() {
            if round == 1 && at % 2 == 1 {
                continue;
            }
            let found = engine
                .memory()
                .search(SearchRequest {
                    query: if round == 0 { task.asks } else { task.asks_again }.into(),
                    session: Some("story".into()),
                    pipeline: without_floor(),
                    ..SearchRequest::default()
                })
                .await
                .unwrap();
            assert!(found.results.len() > 5, "a small memory lists almost everything");
            asked.insert(found.query_id, at);
        }
    }
    let (mut right, mut wrong, mut none) = (0, 0, 0);
    let mut count = |query: Option<String>, task: usize| match query {
        None => none += 1,
        Some(query) if asked[&query] == task => right += 1,
        Some(_) => wrong += 1,
    };
    for task in USED {
        let read = ReadRequest {
            id: ids[task].clone(),
            session: Some("story".into()),
            scope: None,
        };
        count(engine.memory().read(&read).await.unwrap().query_id, task);
        let validated = ValidateRequest {
            id: ids[task].clone(),
            useful: true,
            session: Some("story".into()),
            scope: None,
        };
        count(engine.memory().validate(&validated).await.unwrap().query_id, task);
    }
    let mut wrong_phrases = Vec::new();
    let mut phrases = 0;
    for (task, id) in ids.iter().enumerate() {
        let own = &TASKS[task];
        let own = format!("{} {}", own.asks, own.asks_again);
        for phrase in engine.memory().get(id, None).await.unwrap().learnt_triggers {
            phrases += 1;
            if !phrase.split(' ').all(|word| own.contains(word)) {
                wrong_phrases.push(phrase);
            }
        }
    }
    let harvest = HarvestRequest {
        settings: satiety::retrieval::HarvestSettings {
            share: 1.0,
            ..satiety::retrieval::HarvestSettings::default()
        },
        dry_run: false,
    };
    engine.retrieval().harvest_queries(harvest).await.unwrap();
    let judge = JudgeFeedbackRequest::default();
    let judged = engine.retrieval().judge_from_feedback(judge).await.unwrap();
    let (mut right_grades, mut wrong_grades) = (0, 0);
    for one in judged.judgments.iter().filter(|one| one.judged.confidence >= 0.6) {
        let task = asked[&one.query_id];
        if (one.judged.grade >= 2) == (one.memory_id == ids[task]) {
            right_grades += 1;
        } else {
            wrong_grades += 1;
        }
    }
    Told {
        right,
        wrong,
        none,
        right_grades,
        wrong_grades,
        wrong_phrases,
        phrases,
    }
}

#[tokio::test]
async fn ten_interleaved_tasks_are_credited_and_graded_right() {
    println!(
        "| rule | right query | wrong query | none | right grades | wrong grades | phrases | wrong phrases |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut told = Vec::new();
    for (name, rule) in [
        ("latest query", AttributionRule::Latest),
        ("fit", AttributionRule::Fit),
    ] {
        let one = tell(rule).await;
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            one.right,
            one.wrong,
            one.none,
            one.right_grades,
            one.wrong_grades,
            one.phrases,
            one.wrong_phrases.len()
        );
        told.push(one);
    }
    let [latest, fit] = &told[..] else { panic!() };
    assert!(
        latest.wrong > 10,
        "the latest query is almost always that of another task"
    );
    assert_eq!((fit.right + fit.none, fit.wrong), (20, 0));
    assert!(fit.right >= 19, "{} of 20", fit.right);
    assert!(fit.wrong_phrases.is_empty(), "{:?}", fit.wrong_phrases);
    assert!(fit.phrases > 0);
    let grades = fit.right_grades as f64 / (fit.right_grades + fit.wrong_grades).max(1) as f64;
    assert!(fit.right_grades >= 10 && grades >= 0.95, "{grades}");
}

/// Judgments from before, when the latest query got the credit, are replaced.
#[tokio::test]
async fn judgments_are_derived_again() {
    let directory = tempfile::tempdir().unwrap();
    let old = engine(directory.path(), AttributionRule::Latest);
    let mut ids = Vec::new();
    for task in &TASKS[..3] {
        let request = SaveRequest {
            title: task.title.into(),
            content: task.content.into(),
            ..SaveRequest::default()
        };
        ids.push(old.memory().save(request).await.unwrap().memory.id);
    }
    let mut queries = Vec::new();
    for task in &TASKS[..3] {
        let request = SearchRequest {
            query: task.asks.into(),
            session: Some("s".into()),
            pipeline: without_floor(),
            ..SearchRequest::default()
        };
        queries.push(old.memory().search(request).await.unwrap().query_id);
    }
    let useful = ValidateRequest {
        id: ids[0].clone(),
        useful: true,
        session: Some("s".into()),
        scope: None,
    };
    assert_eq!(
        old.memory().validate(&useful).await.unwrap().query_id.as_ref(),
        Some(&queries[2])
    );
    let harvest = HarvestRequest {
        settings: satiety::retrieval::HarvestSettings {
            share: 1.0,
            ..satiety::retrieval::HarvestSettings::default()
        },
        dry_run: false,
    };
    old.retrieval().harvest_queries(harvest).await.unwrap();
    old.retrieval()
        .judge_from_feedback(JudgeFeedbackRequest {
            min_confidence: 0.6,
            ..JudgeFeedbackRequest::default()
        })
        .await
        .unwrap();
    let store = Store::open(&StoreUrl::sqlite(directory.path().join("s.db")))
        .await
        .unwrap();
    let relevant = || async {
        let found = store.evaluation().relevant_memories(&queries).await.unwrap();
        found.into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(
        relevant().await,
        BTreeSet::from([(queries[2].clone(), ids[0].clone())])
    );
    let new = engine(directory.path(), AttributionRule::Fit);
    let request = JudgeFeedbackRequest {
        min_confidence: 0.6,
        rederive: true,
        ..JudgeFeedbackRequest::default()
    };
    let dry = JudgeFeedbackRequest {
        dry_run: true,
        ..request
    };
    new.retrieval().judge_from_feedback(dry).await.unwrap();
    assert_eq!(
        relevant().await,
        BTreeSet::from([(queries[2].clone(), ids[0].clone())])
    );
    new.retrieval().judge_from_feedback(request).await.unwrap();
    assert_eq!(
        relevant().await,
        BTreeSet::from([(queries[0].clone(), ids[0].clone())])
    );
}
