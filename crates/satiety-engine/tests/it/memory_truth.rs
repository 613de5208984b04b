//! What the memory holds to be true: successors, contradictions, validity, filters, duplicates and conflicts, through the
//! engine and with the built-in model.

use std::path::Path;

use satiety::memory::{
    Author, DuplicateKind, LinkKind, MemoryFilter, OnDuplicate, Project, Scope, TimePoint, Validity,
};
use satiety_engine::memory::{
    LinkRequest, ListRequest, MemoryResult, SaveAction, SaveRequest, SaveResponse, SearchRequest,
    UpdateRequest,
};
use satiety_engine::{Engine, Settings, StoreUrl};

fn engine(directory: &Path, embedder: &str) -> Engine {
    Engine::new(Settings {
        store: StoreUrl::sqlite(directory.join("s.db")),
        archive_folder: directory.join("archive"),
        embedder: embedder.into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    })
}

fn note(title: &str, content: &str) -> SaveRequest {
    SaveRequest {
        title: title.into(),
        content: content.into(),
        ..SaveRequest::default()
    }
}

async fn save(engine: &Engine, request: SaveRequest) -> SaveResponse {
    engine.memory().save(request).await.unwrap()
}

async fn search(engine: &Engine, request: SearchRequest) -> Vec<MemoryResult> {
    engine.memory().search(request).await.unwrap().results
}

fn query(text: &str) -> SearchRequest {
    SearchRequest {
        query: text.into(),
        ..SearchRequest::default()
    }
}

fn time(text: &str) -> TimePoint {
    text.parse().unwrap()
}

async fn link(engine: &Engine, from: &str, kind: LinkKind, to: &str) {
    let request = LinkRequest {
        from: from.into(),
        kind,
        to: to.into(),
        remove: false,
        scope: None,
    };
    engine.memory().link(request).await.unwrap();
}

/// Facts that changed, with questions about them: old, new, question. The new text shares few words with the question.
const CHANGED: [(&str, &str, &str); 12] = [
    (
        "The office of the company is in Berlin.",
        "We moved to Hamburg in spring; the old rooms are given up.",
        "where is the office of the company",
    ),
    (
        "The primary database is MySQL.",
        "Everything was migrated to Postgres last year.",
        "which primary database do we use",
    ),
    (
        "The deploy day is Monday.",
        "Shipping now happens on Thursdays.",
        "what is the deploy day",
    ),
    (
        "The retry limit of the client is three.",
        "Requests are attempted five times since version 2.",
        "retry limit of the client",
    ),
    (
        "Alice is the maintainer of the parser.",
        "Bob took over after Alice left.",
        "who is the maintainer of the parser",
    ),
    (
        "The API is served by Flask.",
        "The service was rewritten in Rust with axum.",
        "what serves the API",
    ),
    (
        "Builds run on Jenkins.",
        "CI is on GitHub Actions now.",
        "where do builds run",
    ),
    (
        "The color of the logo is blue.",
        "Since the rebranding it is orange.",
        "color of the logo",
    ),
    (
        "Support answers within two days.",
        "The promise is four hours now.",
        "how fast does support answer",
    ),
    (
        "The staging server is called falcon.",
        "falcon was replaced; the new machine is named heron.",
        "name of the staging server",
    ),
    (
        "Passwords need eight characters.",
        "The minimum is twelve letters since the audit.",
        "how long must passwords be",
    ),
    (
        "Invoices are sent by post.",
        "Customers get a PDF by email instead.",
        "how are invoices sent",
    ),
];

#[tokio::test]
async fn the_successor_of_a_superseded_fact_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), "builtin");
    let mut successors = Vec::new();
    for (number, (old, new, _)) in CHANGED.iter().enumerate() {
        let old = save(&engine, note(&format!("Fact {number}"), old))
            .await
            .memory
            .id;
        let new = save(&engine, note(&format!("Change {number}"), new))
            .await
            .memory
            .id;
        link(&engine, &new, LinkKind::Supersedes, &old).await;
        successors.push((old, new));
    }
    for mode in satiety::memory::Mode::ALL {
        let mut sum = 0.0;
        for ((_, _, question), (old, new)) in CHANGED.iter().zip(&successors) {
            let request = SearchRequest {
                mode: Some(mode),
                ..query(question)
            };
            let found = search(&engine, request).await;
            let place = |id: &String| found.iter().position(|result| result.id == *id);
            sum += place(new).map_or(0.0, |at| 1.0 / (at + 1) as f64);
            if let Some(old) = place(old) {
                assert_eq!(found[old].superseded_by.as_ref(), Some(new), "{question}");
                assert!(place(new).is_some_and(|new| new < old), "{question}");
            }
        }
        let mrr = sum / CHANGED.len() as f64;
        println!("| {mode} | {mrr:.3} |");
        assert!(mrr >= 0.95, "{mode}: MRR of the successors is {mrr:.3}");
    }
}

#[tokio::test]
async fn contradictions_and_validity_are_marked() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), "none");
    let one = save(&engine, note("Cache", "The cache is shared by all workers."))
        .await
        .memory
        .id;
    let other = save(&engine, note("Zebra", "Each process has its own."))
        .await
        .memory
        .id;
    link(&engine, &other, LinkKind::Contradicts, &one).await;
    let found = search(&engine, query("cache shared workers")).await;
    assert_eq!(found[0].contradicts, std::slice::from_ref(&other));
    assert_eq!((&found[1].id, &found[1].contradicts), (&other, &vec![one]));

    let summer = SaveRequest {
        valid_until: Some(time("2026-09-01")),
        ..note("Opening hours in summer", "The shop opens at ten.")
    };
    save(&engine, summer).await;
    let winter = SaveRequest {
        valid_from: Some(time("2026-09-01")),
        observed_at: Some(time("2026-08-20T08:00:00+02:00")),
        ..note("Opening hours in winter", "The shop opens at nine.")
    };
    let winter = save(&engine, winter).await.memory;
    let winter = engine.memory().get(&winter.id, None).await.unwrap();
    assert_eq!(winter.observed_at.as_deref(), Some("2026-08-20T06:00:00Z"));
    for (as_of, expected, other) in [
        ("2026-12-24", "Opening hours in winter", Validity::Past),
        (
            "2026-08-31T23:59:59Z",
            "Opening hours in summer",
            Validity::Future,
        ),
    ] {
        let request = SearchRequest {
            as_of: Some(time(as_of)),
            ..query("when does the shop open, opening hours")
        };
        let found = search(&engine, request).await;
        assert_eq!(
            (found[0].title.as_str(), found[1].validity),
            (expected, Some(other)),
            "{as_of}"
        );
    }
    let empty = UpdateRequest {
        id: winter.id,
        valid_until: Some(time("2026-08-01")),
        ..UpdateRequest::default()
    };
    let error = engine.memory().update(empty).await.unwrap_err().to_string();
    assert!(
        error.contains("`valid_until` must be after `valid_from`"),
        "{error}"
    );
}

#[tokio::test]
async fn filters_apply_to_searches_and_lists_within_the_scope() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), "none");
    for number in 0..60 {
        let request = SaveRequest {
            tags: if number % 20 == 3 {
                vec!["billing".into()]
            } else {
                Vec::new()
            },
            written_by: Some(if number % 2 == 0 { "Ada" } else { "Bo" }.into()),
            kind: Some(if number % 3 == 0 { "decision" } else { "note" }.into()),
            observed_at: Some(time(&format!("2026-01-{:02}", number % 28 + 1))),
            scope: (number == 23).then(|| Scope::Project(Project::named("secret").unwrap())),
            ..note(
                &format!("Cache {number}"),
                &format!("cache lock timeout number {number}"),
            )
        };
        save(&engine, request).await;
    }
    let titles = |filter: MemoryFilter, scope: Option<Scope>| {
        let engine = &engine;
        async move {
            let request = SearchRequest {
                filter,
                scope,
                limit: Some(10),
                ..query("cache lock timeout")
            };
            let mut titles: Vec<String> = search(engine, request)
                .await
                .into_iter()
                .map(|one| one.title)
                .collect();
            titles.sort();
            titles
        }
    };
    let billing = MemoryFilter {
        tags: vec!["Billing".into()],
        ..MemoryFilter::default()
    };
    assert_eq!(
        titles(billing.clone(), Some(Scope::All)).await,
        ["Cache 23", "Cache 3", "Cache 43"]
    );
    // A filter does not widen the scope.
    assert_eq!(
        titles(billing.clone(), Some(Scope::Global)).await,
        ["Cache 3", "Cache 43"]
    );
    let narrow = MemoryFilter {
        authors: vec!["bo".into()],
        kinds: vec!["decision".into()],
        observed_from: Some(time("2026-01-04")),
        observed_until: Some(time("2026-01-05")),
        ..MemoryFilter::default()
    };
    assert_eq!(titles(narrow, Some(Scope::All)).await, ["Cache 3"]);
    let recorded = MemoryFilter {
        recorded_until: Some(time("2026-01-01")),
        ..MemoryFilter::default()
    };
    assert!(titles(recorded, Some(Scope::All)).await.is_empty());
    let listed = ListRequest {
        tag: Some("billing".into()),
        written_by: Some("Bo".into()),
        scope: Some(Scope::Global),
        ..ListRequest::default()
    };
    assert_eq!(engine.memory().list(&listed).await.unwrap().memories.len(), 2);
    let claimed = SaveRequest {
        written_by: Some("Person".into()),
        ..note("x", "y")
    };
    assert!(
        engine.memory().save(claimed).await.is_err(),
        "an agent is not a person"
    );
}

#[tokio::test]
async fn duplicates_and_conflicts_are_reported_on_save() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), "builtin");
    let text = "The upload limit of the gateway is 20 megabytes for each file.";
    let first = save(&engine, note("Upload limit", text)).await;
    assert!(first.duplicates.is_empty() && first.conflicts.is_empty());
    let id = first.memory.id;
    // Identical memories are reported, and kept unless the caller says otherwise.
    let again = save(&engine, note("Upload limit", text)).await;
    assert_eq!(again.action, SaveAction::Saved);
    assert_eq!(again.duplicates[0].id, id);
    assert_eq!(
        (again.duplicates[0].kind, again.duplicates[0].similarity),
        (DuplicateKind::Identical, 1.0)
    );
    engine
        .memory()
        .delete(&[again.memory.id], None, Author::Agent)
        .await
        .unwrap();
    let with = |on_duplicate, content: &str| SaveRequest {
        on_duplicate,
        ..note("Upload limit", content)
    };
    let error = engine
        .memory()
        .save(with(OnDuplicate::Reject, text))
        .await
        .unwrap_err();
    assert!(error.to_string().contains(&id), "{error}");
    let longer = format!("{text} Larger files are refused with status 413.");
    let updated = save(&engine, with(OnDuplicate::Update, &longer)).await;
    assert_eq!((updated.action, &updated.memory.id), (SaveAction::Updated, &id));
    let merged = save(&engine, with(OnDuplicate::Merge, text)).await;
    let stored = engine.memory().get(&merged.memory.id, None).await.unwrap();
    assert_eq!(
        (merged.action, stored.content.as_str()),
        (SaveAction::Merged, longer.as_str())
    );
    assert_eq!(
        engine
            .memory()
            .list(&ListRequest::default())
            .await
            .unwrap()
            .memories
            .len(),
        1
    );
    // A changed number is a conflict, never a duplicate: it is saved even if duplicates are rejected.
    let changed = text.replace("20", "50");
    let conflict = save(&engine, with(OnDuplicate::Reject, &changed)).await;
    assert!(conflict.duplicates.is_empty());
    assert_eq!(conflict.conflicts[0].id, id);
    assert_eq!(conflict.conflicts[0].suggested_link, LinkKind::Supersedes);
    assert!(
        conflict.conflicts[0].reasons[0].starts_with("number:"),
        "{:?}",
        conflict.conflicts
    );
    // An unrelated memory of another project is neither.
    let elsewhere = SaveRequest {
        scope: Some(Scope::Project(Project::named("other").unwrap())),
        ..note("Upload limit", text)
    };
    let other = save(&engine, elsewhere).await;
    assert!(
        other.duplicates.iter().all(|one| one.id == id),
        "a project sees itself and global memories"
    );
    let third = SaveRequest {
        scope: Some(Scope::Project(Project::named("third").unwrap())),
        ..note("Upload limit", text)
    };
    let third = save(&engine, third).await;
    assert!(
        third.duplicates.iter().all(|one| one.id != other.memory.id),
        "but no other project"
    );
}

#[tokio::test]
async fn a_changed_time_of_observation_resolves_relative_dates_again() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path(), "none");
    let meeting = SaveRequest {
        observed_at: Some(time("2026-05-20")),
        ..note("Meeting", "We agreed on the price last Friday.")
    };
    let id = save(&engine, meeting).await.memory.id;
    let found = async |text: &str| !search(&engine, query(text)).await.is_empty();
    assert!(found("15 May 2026").await && !found("September").await);
    let later = UpdateRequest {
        id,
        observed_at: Some(time("2026-09-16")),
        ..UpdateRequest::default()
    };
    engine.memory().update(later).await.unwrap();
    assert!(found("September").await && !found("May").await);
}
