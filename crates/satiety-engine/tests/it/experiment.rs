//! Features of the search: assigned by hash, compared in the background, counted once.

use std::sync::Arc;
use std::time::Duration;

use satiety::experiment::{Decision, Feature, GraduationVerdict, ProposalVerdict};
use satiety::memory::{Draft, Pipeline, ValidPipeline};
use satiety::retrieval::Tier;
use satiety_engine::experiment::{ExperimentError, ExperimentSettings, ProposeRequest, StartRequest};
use satiety_engine::memory::{SaveRequest, SearchRequest, ValidateRequest};
use satiety_engine::{Engine, EngineError, Settings};
use satiety_store::evaluation::{EvalJudgmentRow, EvalQueryRow};
use satiety_store::{Store, StoreUrl};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn url(&self) -> StoreUrl {
        format!("sqlite:{}", self.folder.path().join("store.db").display())
            .parse()
            .unwrap()
    }

    fn engine(&self, settings: ExperimentSettings) -> Engine {
        self.engine_with("none", settings)
    }

    fn engine_with(&self, embedder: &str, settings: ExperimentSettings) -> Engine {
        Engine::new(Settings {
            store: self.url(),
            archive_folder: self.folder.path().join("archive"),
            embedder: embedder.into(),
            chat: None,
            api_key: None,
            anthropic_key: None,
        })
        .with_experiments(settings)
    }

    /// Number of rows of a table.
    async fn rows(&self, table: &str) -> u64 {
        let status = Store::open(&self.url()).await.unwrap().status().await.unwrap();
        let found = serde_json::to_value(&status.tables).unwrap();
        let tables = found.as_array().unwrap();
        tables.iter().find(|one| one["name"] == table).unwrap()["rows"]
            .as_u64()
            .unwrap()
    }
}

fn at_once() -> ExperimentSettings {
    ExperimentSettings {
        settle: Duration::ZERO,
        ..ExperimentSettings::default()
    }
}

fn feature(name: &str, pipeline: Value) -> StartRequest {
    let Value::Object(pipeline) = pipeline else {
        panic!("an object")
    };
    let feature = Feature {
        shadow_percent: 100.0,
        min_samples: 15,
        ..Feature::new(name, pipeline)
    };
    StartRequest { feature }
}

fn better() -> Value {
    json!({"tiers": {"critical": 10.0}})
}

fn one_result() -> Value {
    json!({"modes": {"focused": {"limit": 1}}})
}

/// For each topic two notes that mention it often, and a critical one that mentions it once.
async fn fill(engine: &Engine, topics: usize) -> Vec<String> {
    let mut answers = Vec::new();
    for topic in 0..topics {
        let name = format!("falcon{topic}");
        let filler = |word: &str, count: usize| {
            let words: Vec<String> = (0..count).map(|at| format!("{word}{topic}x{at}")).collect();
            words.join(" ")
        };
        for (title, word) in [("meeting", "minutes"), ("newsletter", "gossip")] {
            let content = format!("{name} {name} {name} {}", filler(word, 6));
            save(engine, format!("{name} {title}"), content, Tier::Normal).await;
        }
        let content = format!("{} {name} {}", filler("truth", 30), filler("fact", 30));
        answers.push(save(engine, format!("The answer {topic}"), content, Tier::Critical).await);
    }
    answers
}

async fn save(engine: &Engine, title: String, content: String, tier: Tier) -> String {
    let draft = Draft {
        title,
        content,
        tier,
        triggers: Vec::new(),
        folder: String::new(),
        kind: "note".into(),
    };
    let request = SaveRequest {
        author: satiety::memory::Author::Person,
        ..draft.into()
    };
    engine.memory().save(request).await.unwrap().memory.id
}

async fn judge(bench: &Bench, answers: &[String]) {
    judge_queries(bench, answers, |topic| format!(" Falcon{topic}?")).await;
}

async fn judge_queries(bench: &Bench, answers: &[String], query: impl Fn(usize) -> String) {
    let store = Store::open(&bench.url()).await.unwrap();
    let queries: Vec<EvalQueryRow> = (0..answers.len())
        .map(|topic| EvalQueryRow {
            query_id: format!("golden-{topic:03}"),
            query: query(topic),
            intent: None,
            mode: None,
            session_id: None,
            tool_name: "import".into(),
            result_ids: Vec::new(),
            channel_contributions: json!({}),
            total_latency_ms: None,
            fusion_weights: None,
            quality_proxy_score: None,
            trace_id: None,
            is_eval_corpus: true,
            eval_category: None,
            detail: json!({}),
        })
        .collect();
    let judgments: Vec<EvalJudgmentRow> = answers
        .iter()
        .enumerate()
        .map(|(topic, id)| EvalJudgmentRow {
            query_id: format!("golden-{topic:03}"),
            memory_id: id.clone(),
            source: "manual".into(),
            relevance: 3,
            annotator: None,
            confidence: None,
        })
        .collect();
    store.evaluation().put_corpus(&queries, &judgments).await.unwrap();
}

fn ask(topic: usize) -> SearchRequest {
    SearchRequest {
        query: format!("falcon{topic}"),
        ..SearchRequest::default()
    }
}

#[tokio::test]
async fn a_shadow_run_writes_only_its_own_row() {
    let bench = Bench::new();
    let engine = bench.engine(at_once());
    fill(&engine, 3).await;
    engine
        .experiments()
        .start(feature("critical-first", better()))
        .await
        .unwrap();
    let plain = engine
        .memory()
        .search_with(ValidPipeline::standard(), &ask(1))
        .await
        .unwrap();
    let answer = engine.memory().search(ask(1)).await.unwrap();
    // The caller gets the results of the active pipeline, to the last digit.
    assert_eq!(answer.results, plain.results);
    // The log may be written asynchronously.
    for _ in 0..500 {
        if bench.rows("eval_queries").await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = (
        bench.rows("eval_queries").await,
        bench.rows("eval_feedback").await,
        bench.rows("memories").await,
    );
    assert_eq!(before.0, 1);
    let tally = engine.experiments().drain_shadows(LIMIT).await;
    assert_eq!(
        (tally.queued, tally.recorded, tally.dropped, tally.lost),
        (1, 1, 0, 0)
    );
    let after = (
        bench.rows("eval_queries").await,
        bench.rows("eval_feedback").await,
        bench.rows("memories").await,
    );
    assert_eq!(before, after);
    let store = Store::open(&bench.url()).await.unwrap();
    let [run] = &store
        .experiments()
        .shadow_runs("critical-first", 10)
        .await
        .unwrap()[..]
    else {
        panic!("one run")
    };
    assert_eq!(
        (run.query_id.as_str(), run.shown.as_str(), run.outcome.as_str()),
        (answer.query_id.as_str(), "control", "open")
    );
    let ids: Vec<&str> = answer.results.iter().map(|result| result.id.as_str()).collect();
    assert_eq!(run.control_result_ids, ids);
    assert_ne!(run.treatment_result_ids, ids);
    assert_eq!(run.top_result_changed, Some(true));
    assert!(run.control_latency_ms.unwrap() > 0.0 && run.treatment_latency_ms.unwrap() > 0.0);
}

#[tokio::test]
async fn shadow_failures_are_recorded_and_not_returned() {
    let bench = Bench::new();
    let engine = bench.engine(ExperimentSettings {
        time_limit: Duration::ZERO,
        ..at_once()
    });
    fill(&engine, 1).await;
    engine
        .experiments()
        .start(feature("slow", better()))
        .await
        .unwrap();
    engine.memory().search(ask(0)).await.unwrap();
    engine.experiments().drain_shadows(LIMIT).await;
    let status = engine.experiments().status("slow").await.unwrap();
    assert_eq!(
        (
            status.shadow.counts.runs,
            status.shadow.counts.failed,
            status.test.samples
        ),
        (1, 1, 0)
    );
    assert!(status.shadow.last_failure.unwrap().contains("no answer within"));
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_without_affecting_the_caller() {
    let bench = Bench::new();
    let engine = bench.engine(ExperimentSettings {
        queue: 2,
        ..at_once()
    });
    fill(&engine, 1).await;
    engine.experiments().start(feature("f", better())).await.unwrap();
    for _ in 0..5 {
        engine.memory().search(ask(0)).await.unwrap();
    }
    let tally = engine.experiments().drain_shadows(LIMIT).await;
    assert_eq!((tally.queued, tally.dropped, tally.recorded), (2, 3, 2));
}

/// The answer is third and is marked useful; the change would rank it first: 1 − 1/3.
#[tokio::test]
async fn outcomes_are_counted_once() {
    let bench = Bench::new();
    let engine = bench.engine(at_once());
    let answers = fill(&engine, 2).await;
    engine
        .experiments()
        .start(feature("critical-first", better()))
        .await
        .unwrap();
    let request = SearchRequest {
        session: Some("s".into()),
        ..ask(0)
    };
    let found = engine.memory().search(request).await.unwrap();
    let rank = found
        .results
        .iter()
        .find(|result| result.id == answers[0])
        .unwrap()
        .rank;
    assert!(rank > 1, "the answer must not be first without the change");
    engine.experiments().drain_shadows(LIMIT).await;
    assert_eq!(
        engine
            .experiments()
            .status("critical-first")
            .await
            .unwrap()
            .test
            .samples,
        0
    );
    let request = ValidateRequest {
        id: answers[0].clone(),
        useful: true,
        session: Some("s".into()),
        scope: None,
    };
    engine.memory().validate(&request).await.unwrap();
    for _ in 0..3 {
        let test = engine.experiments().status("critical-first").await.unwrap().test;
        assert_eq!(test.samples, 1);
        assert!(
            (test.mrr_delta.unwrap() - (1.0 - 1.0 / rank as f64)).abs() < 1e-12,
            "{test:?}"
        );
    }
    // A recent use may be followed by another: it waits.
    let patient = bench.engine(ExperimentSettings::default());
    let request = SearchRequest {
        session: Some("t".into()),
        ..ask(1)
    };
    patient.memory().search(request).await.unwrap();
    patient.experiments().drain_shadows(LIMIT).await;
    let request = ValidateRequest {
        id: answers[1].clone(),
        useful: true,
        session: Some("t".into()),
        scope: None,
    };
    patient.memory().validate(&request).await.unwrap();
    assert_eq!(
        patient
            .experiments()
            .status("critical-first")
            .await
            .unwrap()
            .test
            .samples,
        1
    );
    assert_eq!(
        engine
            .experiments()
            .status("critical-first")
            .await
            .unwrap()
            .test
            .samples,
        2
    );
}

#[tokio::test]
async fn a_rollout_reaches_its_share_and_skips_explicit_pipelines() {
    let bench = Bench::new();
    let engine = bench.engine(at_once());
    fill(&engine, 2).await;
    let mut start = feature("one-result", one_result());
    start.feature.rollout_percent = 30.0;
    engine.experiments().start(start).await.unwrap();
    let mut lengths = Vec::new();
    for session in 0..60 {
        let request = || SearchRequest {
            session: Some(format!("s{session}")),
            ..ask(0)
        };
        let first = engine.memory().search(request()).await.unwrap().results.len();
        assert_eq!(
            engine.memory().search(request()).await.unwrap().results.len(),
            first,
            "a session changed its arm"
        );
        lengths.push(first);
    }
    let treated = lengths.iter().filter(|length| **length == 1).count();
    assert!((8..=30).contains(&treated), "{treated} of 60");
    engine
        .experiments()
        .rollout("one-result", Some(100.0), None)
        .await
        .unwrap();
    let found = engine.memory().search(ask(0)).await.unwrap();
    assert_eq!(found.results.len(), 1);
    let mut own = Pipeline::default();
    own.modes.focused.limit = 2;
    let request = SearchRequest {
        pipeline: Arc::new(own.validate().unwrap()),
        ..ask(0)
    };
    assert_eq!(engine.memory().search(request).await.unwrap().results.len(), 2);
    // The shadow of a search with the change is the pipeline without it.
    while engine.experiments().drain_shadows(LIMIT).await.recorded == 0 {}
    let store = Store::open(&bench.url()).await.unwrap();
    let runs = store.experiments().shadow_runs("one-result", 1000).await.unwrap();
    for run in &runs {
        assert!(
            run.control_result_ids.len() > 1 && run.treatment_result_ids.len() == 1,
            "{run:?}"
        );
    }
    assert!(runs.iter().any(|run| run.shown == "treatment") && runs.iter().any(|run| run.shown == "control"));
}

#[tokio::test]
async fn a_better_pipeline_graduates_and_can_be_reverted() {
    let bench = Bench::new();
    let engine = bench.engine(at_once());
    let answers = fill(&engine, 12).await;
    judge(&bench, &answers).await;
    engine
        .experiments()
        .start(feature("critical-first", better()))
        .await
        .unwrap();
    let early = engine
        .experiments()
        .graduate("critical-first", None)
        .await
        .unwrap();
    assert_eq!(
        (early.verdict, early.graduated),
        (GraduationVerdict::Undecided, false)
    );
    for round in 0..24 {
        engine.memory().search(ask(round % 12)).await.unwrap();
        engine.experiments().drain_shadows(LIMIT).await;
    }
    let status = engine.experiments().status("critical-first").await.unwrap();
    assert_eq!(
        status.test.decision,
        Decision::AcceptTreatment,
        "{:?}",
        status.test
    );
    let reason = || Some("it is better".to_owned());
    let mut done = engine
        .experiments()
        .graduate("critical-first", reason())
        .await
        .unwrap();
    for _ in 0..3 {
        // On a busy machine latencies may be too noisy for a decision; measure again.
        if done.verdict == GraduationVerdict::Undecided {
            done = engine
                .experiments()
                .graduate("critical-first", reason())
                .await
                .unwrap();
        }
    }
    assert_eq!(
        (done.verdict, done.graduated),
        (GraduationVerdict::Graduate, true),
        "{:?}",
        done.status.checklist
    );
    assert_eq!(
        engine.memory().search(ask(3)).await.unwrap().results[0].id,
        answers[3]
    );
    // Another process sees it, at once if it is new.
    let other = bench.engine(at_once());
    assert_eq!(
        other.memory().search(ask(4)).await.unwrap().results[0].id,
        answers[4]
    );
    assert!(bench.rows("eval_results").await >= 4);
    engine
        .experiments()
        .rollback("critical-first", Some("on second thoughts".into()))
        .await
        .unwrap();
    assert_ne!(
        engine.memory().search(ask(3)).await.unwrap().results[0].id,
        answers[3]
    );
    let error = engine
        .experiments()
        .rollback("critical-first", None)
        .await
        .unwrap_err();
    assert!(
        matches!(error, EngineError::Ab(ExperimentError::Status { .. })),
        "{error}"
    );
}

#[tokio::test]
async fn automatic_graduation_is_opt_in() {
    for auto_graduate in [false, true] {
        let bench = Bench::new();
        let engine = bench.engine(ExperimentSettings {
            auto_graduate,
            ..at_once()
        });
        let answers = fill(&engine, 10).await;
        judge(&bench, &answers).await;
        engine
            .experiments()
            .start(feature("critical-first", better()))
            .await
            .unwrap();
        for round in 0..30 {
            engine.memory().search(ask(round % 10)).await.unwrap();
            engine.experiments().drain_shadows(LIMIT).await;
        }
        let status = engine.experiments().status("critical-first").await.unwrap();
        let expected = if auto_graduate { "graduated" } else { "running" };
        assert_eq!(
            (status.status.as_str(), status.test.decision),
            (expected, Decision::AcceptTreatment)
        );
    }
}

#[tokio::test]
async fn equal_pipelines_stay_undecided_and_a_bad_one_is_rejected() {
    let bench = Bench::new();
    let engine = bench.engine(at_once());
    let answers = fill(&engine, 10).await;
    judge(&bench, &answers).await;
    engine
        .experiments()
        .start(feature("same", json!({"session": {"boost": 0.2}})))
        .await
        .unwrap();
    engine
        .experiments()
        .start(feature("one-result", one_result()))
        .await
        .unwrap();
    for round in 0..40 {
        engine.memory().search(ask(round % 10)).await.unwrap();
        engine.experiments().drain_shadows(LIMIT).await;
    }
    let same = engine.experiments().graduate("same", None).await.unwrap();
    assert_eq!(
        (same.verdict, same.status.test.samples),
        (GraduationVerdict::Undecided, 40)
    );
    assert_eq!(same.status.test.decision, Decision::Continue);
    let shadow = &same.status.shadow;
    assert!(shadow.mean_rank_correlation.unwrap() > 1.0 - 1e-9);
    assert_eq!(shadow.top_result_agreement, Some(1.0));
    let bad = engine.experiments().graduate("one-result", None).await.unwrap();
    assert_eq!((bad.verdict, bad.graduated), (GraduationVerdict::Refuse, false));
    assert_eq!(bad.status.test.decision, Decision::AcceptControl);
    // Decided: later observations do not count.
    let samples = bad.status.test.samples;
    engine.memory().search(ask(0)).await.unwrap();
    engine.experiments().drain_shadows(LIMIT).await;
    assert_eq!(
        engine
            .experiments()
            .status("one-result")
            .await
            .unwrap()
            .test
            .samples,
        samples
    );
}

/// Two engines on one database search and count concurrently: every run counts, none twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_count_every_run_once() {
    let bench = Bench::new();
    let first = Arc::new(bench.engine(at_once()));
    let answers = fill(&first, 5).await;
    judge(&bench, &answers).await;
    // So that nothing is decided before the end.
    let mut start = feature("critical-first", better());
    start.feature.min_samples = 1000;
    first.experiments().start(start).await.unwrap();
    let second = Arc::new(bench.engine(at_once()));
    let workers: Vec<_> = [first.clone(), second, first.clone()]
        .into_iter()
        .map(|engine| {
            tokio::spawn(async move {
                for round in 0..20 {
                    engine.memory().search(ask(round % 5)).await.unwrap();
                    engine.experiments().drain_shadows(LIMIT).await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let status = first.experiments().status("critical-first").await.unwrap();
    assert_eq!(
        (
            status.test.samples,
            status.shadow.counted,
            status.shadow.counts.failed
        ),
        (60, 60, 0)
    );
    let store = Store::open(&bench.url()).await.unwrap();
    let total: f64 = store
        .experiments()
        .shadow_runs("critical-first", 100)
        .await
        .unwrap()
        .iter()
        .filter_map(|run| run.mrr_delta)
        .sum();
    let row = store.experiments().get("critical-first").await.unwrap().unwrap();
    assert!((row.treatment_mrr_sum - row.control_mrr_sum - total).abs() < 1e-9);
}

#[tokio::test]
async fn invalid_requests_are_reported_and_change_nothing() {
    let bench = Bench::new();
    let engine = bench.engine(at_once());
    engine
        .experiments()
        .start(feature("good", better()))
        .await
        .unwrap();
    for (request, expected) in [
        (feature("good", better()), "feature `good` already exists"),
        (feature("a b", better()), "invalid feature id `a b`"),
        (
            feature("x", json!({"fussion": "score"})),
            "unknown pipeline key `fussion` (expected one of: ",
        ),
        (
            feature("x", json!({"tiers": {"critical": -1}})),
            "must be from 0 to 100, got -1",
        ),
        (
            feature(
                "x",
                json!({"channels": {"lexical": false, "vector": false, "trigger": false}}),
            ),
            "at least one of the channels",
        ),
    ] {
        let error = engine.experiments().start(request).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.hint().is_some());
    }
    for outcome in [
        engine.experiments().status("none").await.err(),
        engine.experiments().graduate("none", None).await.err(),
    ] {
        assert_eq!(outcome.unwrap().to_string(), "feature `none` not found");
    }
    engine
        .experiments()
        .pause("good", Some("a break".into()))
        .await
        .unwrap();
    assert!(engine.experiments().pause("good", None).await.is_err());
    fill(&engine, 1).await;
    engine.memory().search(ask(0)).await.unwrap();
    assert_eq!(engine.experiments().shadow_tally().queued, 0);
    engine.experiments().resume("good", None).await.unwrap();
    engine.memory().search(ask(0)).await.unwrap();
    assert_eq!(engine.experiments().shadow_tally().queued, 1);
    engine
        .experiments()
        .reject("good", Some("enough".into()))
        .await
        .unwrap();
    assert!(engine.experiments().resume("good", None).await.is_err());
    let list = engine.experiments().list().await.unwrap();
    assert_eq!(
        (list.features.len(), list.features[0].status.as_str()),
        (1, "rejected")
    );
    assert_eq!(list.pipeline, Pipeline::default());
}

/// The answer to "What does the code falconN mean?" contains the code and is about something else; other notes are about
/// codes. Words know the answer, meaning does not.
#[tokio::test]
async fn weights_are_proposed_from_judged_queries_and_started_as_a_feature() {
    let bench = Bench::new();
    let engine = bench.engine_with("builtin", at_once());
    let propose = async |start: Option<&str>| {
        let request = ProposeRequest {
            start: start.map(str::to_owned),
        };
        engine.experiments().propose(request).await.unwrap()
    };
    let nothing = propose(Some("too-early")).await;
    assert_eq!(nothing.proposed.verdict, ProposalVerdict::NotEnoughEvidence);
    assert_eq!((nothing.feature, nothing.started), (None, None));
    for about in [
        "zip", "dress", "morse", "source", "bar", "error", "secret", "area",
    ] {
        let content = format!("How to read a {about} code.");
        save(&engine, format!("{about} explained"), content, Tier::Normal).await;
    }
    let mut answers = Vec::new();
    for topic in 0..32 {
        let content = format!(
            "Water the tomatoes in bed {topic} every morning, shade the lettuce, falcon{topic}, and mulch."
        );
        answers.push(save(&engine, format!("Garden plan {topic}"), content, Tier::Normal).await);
    }
    judge_queries(&bench, &answers, |topic| {
        format!("What does the code falcon{topic} mean?")
    })
    .await;
    let proposal = propose(None).await;
    assert_eq!(
        proposal.proposed.verdict,
        ProposalVerdict::Propose,
        "{proposal:?}"
    );
    assert!(proposal.proposed.ratio > 1.0 && proposal.proposed.gain.unwrap() > 0.0);
    assert!(proposal.started.is_none() && engine.experiments().list().await.unwrap().features.is_empty());
    let started = propose(Some("learnt")).await.started.unwrap();
    assert_eq!(
        (started.status.as_str(), started.feature.rollout_percent),
        ("running", 0.0)
    );
    // Searches keep their weights until the feature graduates.
    let active = engine.experiments().list().await.unwrap().pipeline;
    assert_eq!(active.weights, Pipeline::default().weights);
}
