//! Contexts that outlive a call: proposals are answered once, no item is evicted twice, and no version is activated without
//! an ablation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use satiety::bench::{AblationSettings, BenchmarkResult, Margin, Status, ablation};
use satiety::eviction::ResolvedBy;
use satiety::eviction::calibration::{FitSettings, OnlineSettings};
use satiety_engine::eviction::{
    ActivateRequest, CalibrateRequest, CalibrateWith, ExportFeedbackRequest, Feedback, ProposeScopeRequest,
    RECENT_PROPOSALS, ResolveRequest, RollbackRequest, UpdateScopeRequest, VariantsRequest,
};
use satiety_engine::{Engine, Settings, StoreUrl};
use satiety_store::Store;
use satiety_store::bench::AblationRow;
use satiety_store::eviction::{ProposalRow, ScopeChange};
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

fn engine(folder: &Path, chat: Option<String>) -> Engine {
    Engine::new(Settings {
        store: StoreUrl::sqlite(folder.join("s.db")),
        archive_folder: folder.join("archive"),
        embedder: "none".into(),
        chat,
        api_key: None,
        anthropic_key: None,
    })
}

async fn fill(engine: &Engine, items: u32) {
    let add: Vec<Value> = (0..items)
        .map(|number| {
            let zone = ["chronicle", "memory", "workspace"][number as usize % 3];
            json!({"ctx_id": format!("i{number}"), "zone": zone, "token_count": 100})
        })
        .collect();
    let request = UpdateScopeRequest {
        scope_id: "s".into(),
        turn: Some(1),
        add,
        ..UpdateScopeRequest::default()
    };
    engine.eviction().update(request).await.unwrap();
}

fn asks(free: u64) -> ProposeScopeRequest {
    ProposeScopeRequest {
        scope_id: "s".into(),
        free_tokens: Some(free),
        timeout_ms: Some(60_000),
        exploration: Some(0.0),
        ..ProposeScopeRequest::default()
    }
}

fn answers(proposal_id: &str, keep: &[&str]) -> ResolveRequest {
    ResolveRequest {
        proposal_id: proposal_id.into(),
        resolved_by: None,
        exclude_ctx_ids: keep.iter().map(|id| (*id).to_owned()).collect(),
        exclude_reasons: BTreeMap::new(),
        quota: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_concurrent_callers_evict_nothing_twice_and_lose_no_feedback() {
    let folder = tempfile::tempdir().unwrap();
    // Two engines, as in two processes: each has its own memory.
    let engines = [
        Arc::new(engine(folder.path(), None)),
        Arc::new(engine(folder.path(), None)),
    ];
    fill(&engines[0], 120).await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let engine = engines[task % 2].clone();
            tokio::spawn(async move {
                let mut gone = Vec::new();
                for _ in 0..4 {
                    let proposed = engine.eviction().propose(asks(200)).await.unwrap();
                    let keep = proposed
                        .proposal
                        .candidates
                        .first()
                        .map(|candidate| candidate.ctx_id.clone())
                        .unwrap();
                    let feedback = engine
                        .eviction()
                        .resolve(answers(&proposed.proposal.proposal_id, &[&keep]))
                        .await
                        .unwrap();
                    gone.extend(feedback.evicted);
                    gone.extend(feedback.second_pass.into_iter().map(|item| item.ctx_id));
                }
                gone
            })
        })
        .collect();
    let mut gone: Vec<String> = Vec::new();
    for task in tasks {
        gone.extend(task.await.unwrap());
    }
    let distinct: BTreeSet<&String> = gone.iter().collect();
    assert_eq!(distinct.len(), gone.len(), "an item was evicted twice");
    let feedback = engines[0].eviction().feedback(None).await.unwrap();
    assert_eq!((feedback.answered, feedback.open, feedback.timed_out), (32, 0, 0));
    let listing = engines[1].eviction().list(Some("s")).await.unwrap();
    assert_eq!(listing.items.len() + gone.len(), 120);
    assert!(listing.items.iter().all(|item| !distinct.contains(&item.ctx_id)));
}

#[tokio::test]
async fn scopes_are_listed_in_pages_and_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), None);
    for name in ["c", "a", "b"] {
        let request = UpdateScopeRequest {
            scope_id: name.into(),
            turn: Some(1),
            add: vec![json!({"ctx_id": "i", "zone": "memory", "token_count": 100})],
            ..UpdateScopeRequest::default()
        };
        engine.eviction().update(request).await.unwrap();
    }
    let all = engine.eviction().list(None).await.unwrap().scopes;
    let names: Vec<&str> = all.iter().map(|scope| scope.scope_id.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(
        engine.eviction().list_scopes(Some("a"), 1).await.unwrap(),
        all[1..2]
    );
    let one = engine.eviction().list(Some("b")).await.unwrap();
    assert_eq!((&one.scopes[..], one.items.len()), (&all[1..2], 1));
    assert!(engine.eviction().list(Some("no")).await.is_err());
}

#[tokio::test]
async fn recent_feedback_ignores_older_proposals() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), None);
    fill(&engine, 9).await;
    // An item of the first proposal is excluded, none of the second.
    let mut proposal_id = String::new();
    for excluded in [1, 0] {
        let proposal = engine.eviction().propose(asks(300)).await.unwrap().proposal;
        let candidates = proposal.candidates.iter().take(excluded);
        let keep: Vec<&str> = candidates.map(|candidate| candidate.ctx_id.as_str()).collect();
        proposal_id.clone_from(&proposal.proposal_id);
        engine
            .eviction()
            .resolve(answers(&proposal_id, &keep))
            .await
            .unwrap();
    }
    let store = Store::open(&StoreUrl::sqlite(folder.path().join("s.db")))
        .await
        .unwrap();
    let accepted = store.eviction().proposal(&proposal_id).await.unwrap().unwrap();
    let copies: Vec<ProposalRow> = (1..RECENT_PROPOSALS)
        .map(|number| ProposalRow {
            proposal_id: format!("copy-{number}"),
            proposed_at: accepted.proposed_at + i64::from(number),
            ..accepted.clone()
        })
        .collect();
    let scope = store.eviction().scope("s").await.unwrap();
    let change = ScopeChange {
        scope_id: "s".into(),
        change_id: "copies".into(),
        seen: scope.revision,
        turn: scope.turn,
        propose: copies.clone(),
        resolve: copies,
        ..ScopeChange::default()
    };
    assert!(store.eviction().change_scope(&change).await.unwrap());
    let rate = |feedback: &Feedback| feedback.report.as_ref().unwrap().overall.rate;
    let all = engine.eviction().feedback(None).await.unwrap();
    assert_eq!(all.answered, RECENT_PROPOSALS as usize + 1);
    assert!(rate(&all) > 0.0);
    let recent = engine.eviction().recent_feedback().await.unwrap();
    assert_eq!(recent.answered, RECENT_PROPOSALS as usize);
    assert!(rate(&recent).abs() < 1e-12);
}

#[tokio::test]
async fn invalid_and_late_answers_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), None);
    fill(&engine, 9).await;
    assert!(
        engine
            .eviction()
            .propose(ProposeScopeRequest {
                scope_id: "no".into(),
                ..asks(1)
            })
            .await
            .is_err()
    );
    let proposed = engine.eviction().propose(asks(300)).await.unwrap();
    let id = proposed.proposal.proposal_id.clone();
    let first = proposed.view[0].ctx_id.clone();
    let other = engine.eviction().propose(asks(200)).await.unwrap();
    assert!(
        other
            .view
            .iter()
            .all(|candidate| proposed.view.iter().all(|held| held.ctx_id != candidate.ctx_id))
    );
    for (request, part) in [
        (answers("prop-unknown", &[]), "proposal `prop-unknown` not found"),
        (answers(&id, &["missing"]), "no candidate `missing`"),
        (answers(&id, &[&other.view[0].ctx_id]), "no candidate"),
        (answers(&id, &[&first, &first]), "duplicate ids"),
        (
            ResolveRequest {
                exclude_reasons: [("x".into(), "y".into())].into(),
                ..answers(&id, &[])
            },
            "no candidate `x`",
        ),
    ] {
        let error = engine.eviction().resolve(request).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(engine.eviction().list(Some("s")).await.unwrap().items.len(), 9);
    let feedback = engine.eviction().resolve(answers(&id, &[])).await.unwrap();
    assert_eq!(feedback.resolved_by, ResolvedBy::AutoAccepted);
    let again = engine
        .eviction()
        .resolve(answers(&id, &[]))
        .await
        .unwrap_err()
        .to_string();
    assert!(again.contains("already resolved by auto_accepted"), "{again}");
    let short = engine
        .eviction()
        .propose(ProposeScopeRequest {
            timeout_ms: Some(1),
            ..asks(100)
        })
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let late = engine
        .eviction()
        .resolve(answers(&short.proposal.proposal_id, &[]))
        .await
        .unwrap_err()
        .to_string();
    assert!(late.contains("timed out"), "{late}");
    let feedback = engine.eviction().feedback(Some("s")).await.unwrap();
    assert_eq!((feedback.answered, feedback.timed_out, feedback.open), (1, 1, 1));
    // A timed-out proposal gives no labels.
    assert_eq!(feedback.report.unwrap().labels, 3);
    let story = engine.eviction().timeline("s").await.unwrap();
    assert_eq!(story.rows.len(), 3);
}

#[tokio::test]
async fn a_restored_item_keeps_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), None);
    fill(&engine, 3).await;
    let uses = UpdateScopeRequest {
        scope_id: "s".into(),
        turn: Some(4),
        uses: vec!["i0".into()],
        ..UpdateScopeRequest::default()
    };
    engine.eviction().update(uses).await.unwrap();
    let proposed = engine.eviction().propose(asks(300)).await.unwrap();
    engine
        .eviction()
        .resolve(answers(&proposed.proposal.proposal_id, &[]))
        .await
        .unwrap();
    let back = UpdateScopeRequest {
        scope_id: "s".into(),
        turn: Some(9),
        add: vec![json!({"ctx_id": "i0", "zone": "chronicle", "content": "hello world"})],
        goal: Some("say hello".into()),
        ..UpdateScopeRequest::default()
    };
    let updated = engine.eviction().update(back).await.unwrap();
    assert_eq!((updated.items, updated.tokens), (1, 2), "counted");
    let item = &engine.eviction().list(Some("s")).await.unwrap().items[0];
    assert_eq!((item.reference_count, item.age_turns), (2, 0));
    let wrong = UpdateScopeRequest {
        scope_id: "s".into(),
        remove: vec!["i0".into(), "no".into()],
        ..UpdateScopeRequest::default()
    };
    assert!(engine.eviction().update(wrong).await.is_err());
    assert_eq!(
        engine.eviction().list(Some("s")).await.unwrap().items.len(),
        1,
        "nothing was removed"
    );
}

/// Answers many proposals: memory items are excluded, the others are not.
async fn teach(engine: &Engine) {
    for round in 0..12_u32 {
        let add: Vec<Value> = (0..6)
            .map(|number| {
                let zone = if number % 2 == 0 { "memory" } else { "chronicle" };
                json!({"ctx_id": format!("r{round}-{number}"), "zone": zone, "token_count": 50})
            })
            .collect();
        let update = UpdateScopeRequest {
            scope_id: "s".into(),
            turn: Some(round.into()),
            add,
            ..UpdateScopeRequest::default()
        };
        engine.eviction().update(update).await.unwrap();
        let proposed = engine.eviction().propose(asks(200)).await.unwrap();
        let keep: Vec<&str> = proposed
            .proposal
            .candidates
            .iter()
            .filter(|candidate| candidate.zone == "memory")
            .map(|candidate| candidate.ctx_id.as_str())
            .collect();
        engine
            .eviction()
            .resolve(answers(&proposed.proposal.proposal_id, &keep))
            .await
            .unwrap();
    }
}

fn study(version: &str, relevance: f64) -> Value {
    let results = |relevance: f64| -> Vec<BenchmarkResult> {
        (0..20)
            .map(|case| {
                let mut result = BenchmarkResult::new(format!("c{case}"), 0, Status::Pass);
                let value = relevance + f64::from(case % 5) * 0.001;
                result.metrics = [
                    ("retained_relevance".into(), value),
                    ("tokens_per_use".into(), 100.0),
                ]
                .into();
                result
            })
            .collect()
    };
    let metrics = ["retained_relevance", "tokens_per_use", "pass"]
        .map(|name| (name.to_owned(), Margin::Absolute(0.02)));
    let settings = AblationSettings {
        metrics: metrics.into(),
        ..AblationSettings::default()
    };
    let report = ablation(
        ("baseline", &results(0.8)),
        &[(version, &results(relevance))],
        &settings,
    )
    .unwrap();
    serde_json::to_value(report).unwrap()
}

#[tokio::test]
async fn activation_needs_a_harmless_ablation() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path(), None);
    teach(&engine).await;
    let exported = engine
        .eviction()
        .export(&ExportFeedbackRequest::default())
        .await
        .unwrap();
    assert!(exported.labels > 20 && !exported.text.contains("exclude_reason"));
    let with = CalibrateWith::Weights(FitSettings::default());
    let request = CalibrateRequest {
        scope_id: None,
        exported: Some(("f".into(), exported.text)),
        with,
    };
    let calibrated = engine.eviction().calibrate(request).await.unwrap();
    let version = calibrated.version.clone();
    let online = CalibrateRequest {
        scope_id: Some("s".into()),
        exported: None,
        with: CalibrateWith::Online(OnlineSettings::default()),
    };
    assert!(
        engine
            .eviction()
            .calibrate(online)
            .await
            .unwrap()
            .drift_alarms
            .is_some()
    );
    let store = Store::open(&StoreUrl::sqlite(folder.path().join("s.db")))
        .await
        .unwrap();
    for (id, report) in [
        ("good", study(&version, 0.8)),
        ("bad", study(&version, 0.7)),
        ("other", study("w", 0.8)),
    ] {
        let row = AblationRow {
            ablation_id: id.into(),
            tag: "eviction".into(),
            decided_at: 1,
            report,
        };
        store.bench().put_ablation(&row).await.unwrap();
    }
    let activate = |ablation: Option<&str>| ActivateRequest {
        version: version.clone(),
        ablation_id: ablation.map(str::to_owned),
        by: "me".into(),
        reason: "better".into(),
    };
    for (ablation, part) in [
        (None, "no ablation was given"),
        (Some("unknown"), "ablation `unknown` not found"),
        (Some("bad"), "retained relevance is not shown"),
        (Some("other"), "no variant"),
    ] {
        let error = engine
            .eviction()
            .activate(activate(ablation))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(engine.eviction().scorers().await.unwrap().in_force, "heuristic-1");
    engine.eviction().activate(activate(Some("good"))).await.unwrap();
    assert_eq!(
        engine
            .eviction()
            .propose(asks(50))
            .await
            .unwrap()
            .proposal
            .scorer_model,
        version
    );
    let back = RollbackRequest {
        by: "me".into(),
        reason: "worse after all".into(),
    };
    engine.eviction().rollback(back).await.unwrap();
    let scorers = engine.eviction().scorers().await.unwrap();
    assert_eq!((scorers.in_force.as_str(), scorers.log.len()), ("heuristic-1", 2));
    assert_eq!(scorers.versions.len(), 3);
    let asked = VariantsRequest { version, trace: None };
    let files = engine.eviction().variants(&asked, "satiety").await.unwrap();
    assert_eq!((files.control.as_str(), files.files.len()), ("baseline", 5));
}

#[tokio::test]
async fn scorer_answers_are_cached_and_failures_open_the_breaker() {
    let server = MockServer::start().await;
    let answer = json!({"model": "m", "message": {"role": "assistant", "content": "{\"relevance\": 0.9}"}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1});
    Mock::given(method("POST"))
        .and(path("/api/chat"))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .expect(2)
        .mount(&server)
        .await;
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path(), Some(format!("ollama:m@{}", server.uri())));
    let add = |id: &str, text: &str| json!({"ctx_id": id, "zone": "memory", "content": text});
    let update = |scope: &str, add: Vec<Value>| UpdateScopeRequest {
        scope_id: scope.into(),
        add,
        ..UpdateScopeRequest::default()
    };
    first
        .eviction()
        .update(update(
            "a",
            vec![add("x", "first words"), add("y", "second words")],
        ))
        .await
        .unwrap();
    let refreshed = first.eviction().refresh("a").await.unwrap();
    assert_eq!((refreshed.asked, refreshed.cached, refreshed.failed), (2, 0, 0));
    // The same text elsewhere is cached.
    first
        .eviction()
        .update(update("b", vec![add("z", "first words")]))
        .await
        .unwrap();
    let refreshed = first.eviction().refresh("b").await.unwrap();
    assert_eq!((refreshed.asked, refreshed.cached), (0, 1));
    let items = first.eviction().list(Some("b")).await.unwrap().items;
    assert!(
        items[0]
            .score
            .terms
            .iter()
            .any(|term| term.name == "model" && term.contribution > 0.0)
    );
    drop(server);
    // The endpoint is unreachable: after three failures it is not called again.
    let wrong = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(400))
        .expect(3)
        .mount(&wrong)
        .await;
    let second = engine(folder.path(), Some(format!("ollama:m@{}", wrong.uri())));
    let many: Vec<Value> = (0..6)
        .map(|number| add(&format!("m{number}"), &format!("text number {number}")))
        .collect();
    second.eviction().update(update("c", many)).await.unwrap();
    let refreshed = second.eviction().refresh("c").await.unwrap();
    assert_eq!(
        (refreshed.asked, refreshed.failed, refreshed.breaker_open),
        (3, 3, true)
    );
}
