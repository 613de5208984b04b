//! Recorded searches: lists, scores, reasons, JSON keys and logged rows of a varied set of searches do not change.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use satiety::experiment::Feature;
use satiety::memory::{Author, LinkKind, Mode, Pipeline, Project, Scope};
use satiety::retrieval::Tier;
use satiety_engine::experiment::StartRequest;
use satiety_engine::memory::{
    LinkRequest, MemorySettings, ReadRequest, SaveRequest, SearchRequest, ValidateRequest,
};
use satiety_engine::{Engine, Settings, StoreUrl};
use satiety_store::Store;
use serde_json::{Value, json};

/// Title, content, tier, folder, scope and triggers of a memory.
type Written<'a> = (&'a str, String, Tier, &'a str, Option<Scope>, Vec<&'a str>);

/// Engine, titles of memories by id, numbers of queries by id, and the transcript.
struct Recorder {
    engine: Engine,
    url: StoreUrl,
    titles: HashMap<String, String>,
    queries: HashMap<String, String>,
    transcript: String,
}

impl Recorder {
    fn new(directory: &Path, embedder: &str) -> Self {
        let url = StoreUrl::sqlite(directory.join("s.db"));
        let engine = Engine::new(Settings {
            store: url.clone(),
            archive_folder: directory.join("archive"),
            embedder: embedder.into(),
            chat: None,
            api_key: None,
            anthropic_key: None,
        })
        .with_memory(MemorySettings {
            project: Some(shop()),
            ..MemorySettings::default()
        });
        Self {
            engine,
            url,
            titles: HashMap::new(),
            queries: HashMap::new(),
            transcript: String::new(),
        }
    }

    async fn save(&mut self, title: &str, content: &str, tier: Tier, at: (&str, Option<Scope>, &[&str])) {
        let (folder, scope, triggers) = at;
        let request = SaveRequest {
            title: title.into(),
            content: content.into(),
            tier: Some(tier),
            triggers: triggers.iter().map(ToString::to_string).collect(),
            folder: folder.into(),
            kind: Some(if folder.is_empty() { "note" } else { "decision" }.into()),
            scope,
            author: Author::Person,
            ..SaveRequest::default()
        };
        let id = self.engine.memory().save(request).await.unwrap().memory.id;
        self.titles.insert(id, title.to_owned());
    }

    fn id(&self, title: &str) -> String {
        let found = self.titles.iter().find(|(_, other)| *other == title);
        found.unwrap().0.clone()
    }

    async fn link(&self, from: &str, kind: LinkKind, to: &str) {
        let request = LinkRequest {
            from: self.id(from),
            kind,
            to: self.id(to),
            remove: false,
            scope: Some(Scope::All),
        };
        self.engine.memory().link(request).await.unwrap();
    }

    /// Memories of two projects and of none, in several folders, of every tier, with one and with several chunks.
    async fn fill(&mut self) {
        let long =
            "# Cold start\n\nThe cache was cold after the deploy and every query went to the database.\n\n"
                .repeat(25)
                + "# Expired\n\nThe login token expired because the clock of the server was wrong.\n";
        let here = None;
        let other = Some(Scope::Project(Project::named("warehouse").unwrap()));
        let everywhere = Some(Scope::Global);
        let mut memories: Vec<Written<'_>> = vec![
            (
                "Locks",
                "SQLite said that the database is locked: two writers at once. Use one writer and a busy timeout."
                    .into(),
                Tier::Important,
                "store/sqlite",
                here.clone(),
                vec!["database is locked", "busy timeout"],
            ),
            (
                "Long note",
                long,
                Tier::Normal,
                "web/login",
                here.clone(),
                vec!["token expired"],
            ),
            (
                "Migrations",
                "Schema changes run in a transaction; a failed migration leaves the database as it was.".into(),
                Tier::Normal,
                "store",
                here.clone(),
                vec![],
            ),
            (
                "Rollback",
                "We decided to roll back by redeploying the last image, because a rollback of the schema lost rows."
                    .into(),
                Tier::Critical,
                "deploy",
                here.clone(),
                vec!["roll back"],
            ),
            (
                "No secrets in logs",
                "Never write a token or a password to the log.".into(),
                Tier::Constitutional,
                "",
                everywhere.clone(),
                vec![],
            ),
            (
                "Ask before deleting rows",
                "Deleting rows of production needs a person.".into(),
                Tier::Constitutional,
                "store",
                here.clone(),
                vec!["delete rows"],
            ),
            (
                "Freeze on Fridays",
                "No deploy on Fridays.".into(),
                Tier::Constitutional,
                "deploy/production",
                here.clone(),
                vec![],
            ),
            (
                "Try later",
                "Look at the flaky login test again.".into(),
                Tier::Temporary,
                "web",
                here.clone(),
                vec![],
            ),
            (
                "Warehouse locks",
                "The warehouse database is locked at night while stock is counted.".into(),
                Tier::Normal,
                "store",
                other.clone(),
                vec!["database is locked"],
            ),
            (
                "Warehouse rule",
                "Stock is never negative.".into(),
                Tier::Constitutional,
                "",
                other,
                vec![],
            ),
            (
                "Retries",
                "A request that timed out is retried with backoff and jitter; a refused one is not.".into(),
                Tier::Normal,
                "web",
                everywhere,
                vec!["retry"],
            ),
        ];
        for number in 0..6 {
            memories.push((
                ["Cache 0", "Cache 1", "Cache 2", "Cache 3", "Cache 4", "Cache 5"][number],
                format!("The query cache keeps answers for {number} minutes; after a deploy it is cold."),
                Tier::Normal,
                "store/cache",
                here.clone(),
                vec![],
            ));
        }
        for (title, content, tier, folder, scope, triggers) in memories {
            self.save(title, &content, tier, (folder, scope, &triggers)).await;
        }
        self.save(
            "Old",
            "The database is locked by an old process.",
            Tier::Normal,
            ("store", here, &[]),
        )
        .await;
        self.link("Locks", LinkKind::Caused, "Migrations").await;
        self.link("Migrations", LinkKind::Caused, "Rollback").await;
        self.link("Rollback", LinkKind::Caused, "Warehouse locks").await;
        self.link("Warehouse locks", LinkKind::Caused, "Retries").await;
        self.link("Cache 3", LinkKind::Caused, "Try later").await;
        // Lets this memory expire.
        let store = Store::open(&self.url).await.unwrap();
        let mut rows = store.memories().by_id(&[self.id("Old")]).await.unwrap();
        rows[0].expires_at = Some(1);
        store.memories().put(&rows[0], None).await.unwrap();
        store.close().await;
    }

    /// Removes ids, times and digits that depend on the processor.
    fn normal(&self, value: Value) -> Value {
        match value {
            Value::String(text) => {
                let known = self.titles.get(&text).or_else(|| self.queries.get(&text));
                let text = known.map_or(text, |name| format!("<{name}>"));
                let long = text.chars().count() > 40;
                json!(if long {
                    format!(
                        "{}… {} bytes",
                        text.chars().take(20).collect::<String>(),
                        text.len()
                    )
                } else {
                    text
                })
            }
            Value::Number(number) => number
                .as_f64()
                .filter(|_| number.is_f64())
                .map_or(Value::Number(number), |number| {
                    json!((number * 1e5).round() / 1e5)
                }),
            Value::Array(all) => all.into_iter().map(|one| self.normal(one)).collect(),
            Value::Object(all) => Value::Object(
                all.into_iter()
                    .map(|(key, value)| {
                        let varies = key.ends_with("_ms")
                            || matches!(
                                key.as_str(),
                                "trace_id" | "quality_proxy_score" | "created_at" | "run_id"
                            );
                        let value = if varies && !value.is_null() {
                            json!("…")
                        } else {
                            self.normal(value)
                        };
                        (key, value)
                    })
                    .collect(),
            ),
            other => other,
        }
    }

    /// The first response completely, with every key; of the others the ranking.
    fn write(&mut self, what: &str, value: Value) {
        let mut value = self.normal(value);
        let whole = self.transcript.is_empty();
        writeln!(self.transcript, "== {what}").unwrap();
        for list in [
            "results",
            "below_floor",
            "already_shown",
            "over_budget",
            "telemetry",
        ] {
            let inner = value.as_object_mut().and_then(|all| all.remove(list));
            for mut one in inner.into_iter().flat_map(|inner| match inner {
                Value::Array(all) => all,
                one => vec![one],
            }) {
                if let Some(fields) = one.as_object_mut().filter(|_| !whole) {
                    fields.retain(|key, value| {
                        let given = ["title", "tier", "folder", "kind", "project", "rank", "trace_id"];
                        !given.contains(&key.as_str()) && !key.ends_with("_ms") && *value != json!(false)
                    });
                    if let Some(Value::Array(stages)) = fields.remove("stages") {
                        let count =
                            |stage: &Value| format!("{}-{}", stage["input_count"], stage["output_count"]);
                        fields.insert(
                            "stages".into(),
                            json!(stages.iter().map(count).collect::<Vec<_>>().join(" ")),
                        );
                    }
                    if let Some(Value::Object(channels)) = fields.remove("channels") {
                        let place =
                            |(name, at): (&String, &Value)| format!("{name} {} {}", at["rank"], at["score"]);
                        fields.insert(
                            "channels".into(),
                            json!(channels.iter().map(place).collect::<Vec<_>>().join(", ")),
                        );
                    }
                }
                writeln!(self.transcript, "{list}: {one}").unwrap();
            }
        }
        writeln!(self.transcript, "{value}").unwrap();
    }

    async fn search(&mut self, what: &str, request: SearchRequest) {
        let found = self.engine.memory().search(request).await.unwrap();
        let name = format!("query {}", self.queries.len());
        self.queries.insert(found.query_id.clone(), name);
        self.write(what, serde_json::to_value(&found).unwrap());
    }

    async fn tried(&mut self, what: &str, changes: Value, request: SearchRequest) {
        let pipeline = Arc::new(Pipeline::with(&changes).unwrap());
        let mut found = self
            .engine
            .memory()
            .search_with(&pipeline, &request)
            .await
            .unwrap();
        found.query_id = String::new();
        self.write(what, serde_json::to_value(&found).unwrap());
    }

    /// Logged queries and results of shadow runs.
    async fn rows(&mut self, feature: Option<&str>) {
        self.engine.close().await;
        let store = Store::open(&self.url).await.unwrap();
        for (row, _) in store.evaluation().logged_queries(None, 500).await.unwrap() {
            let fields = json!({
                "query_id": row.query_id, "query": row.query, "intent": row.intent, "mode": row.mode,
                "session_id": row.session_id, "tool_name": row.tool_name, "result_ids": row.result_ids,
                "channel_contributions": row.channel_contributions, "fusion_weights": row.fusion_weights,
                "detail": without_vector(row.detail),
            });
            self.write("logged", fields);
        }
        if let Some(feature) = feature {
            let mut rows = store.experiments().shadow_runs(feature, 500).await.unwrap();
            rows.sort_by(|a, b| a.query_id.cmp(&b.query_id));
            for row in rows {
                let fields = json!({
                    "query_id": row.query_id, "shown": row.shown, "outcome": row.outcome, "failure": row.failure,
                    "control_result_ids": row.control_result_ids, "treatment_result_ids": row.treatment_result_ids,
                    "rank_correlation": row.rank_correlation, "set_overlap": row.set_overlap,
                    "top_result_changed": row.top_result_changed, "order_differences": row.order_differences,
                    "difference": row.difference,
                });
                self.write("shadow", fields);
            }
        }
    }
}

fn shop() -> Project {
    Project::named("shop").unwrap()
}

fn ask(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.into(),
        ..SearchRequest::default()
    }
}

const QUESTIONS: [&str; 6] = [
    "Why is the database is locked error coming back?",
    "fix the bug: login token expired",
    "what did we decide about rollback",
    "cold query cache after a deploy",
    "retry",
    "zebra",
];

async fn many(recorder: &mut Recorder) {
    for query in QUESTIONS {
        for mode in [None, Some(Mode::Quick), Some(Mode::Focused), Some(Mode::Deep)] {
            recorder
                .search(&format!("{query} {mode:?}"), SearchRequest { mode, ..ask(query) })
                .await;
        }
    }
    for folder in ["store", "deploy/production/eu", "/web/", "elsewhere"] {
        let request = SearchRequest {
            folder: Some(folder.into()),
            ..ask("database deploy login")
        };
        recorder.search(folder, request).await;
    }
    for scope in [
        Scope::All,
        Scope::Global,
        Scope::Project(Project::named("warehouse").unwrap()),
    ] {
        let request = SearchRequest {
            scope: Some(scope.clone()),
            mode: Some(Mode::Deep),
            ..ask("the database is locked")
        };
        recorder.search(&format!("{scope:?}"), request).await;
    }
    for usage in [0.1, 0.7, 0.95] {
        let request = SearchRequest {
            token_usage: Some(usage),
            ..ask("understand how the cache works after a deploy")
        };
        recorder.search(&format!("usage {usage}"), request).await;
    }
    for (limit, token_budget) in [
        (Some(1), None),
        (Some(3), Some(60)),
        (Some(200), Some(1)),
        (None, Some(90)),
    ] {
        let request = SearchRequest {
            limit,
            token_budget,
            ..ask("cold query cache after a deploy")
        };
        recorder
            .search(&format!("limit {limit:?} budget {token_budget:?}"), request)
            .await;
    }
}

async fn session(recorder: &mut Recorder) {
    let request = |query: &str, skip_shown: bool| SearchRequest {
        session: Some("s".into()),
        skip_shown,
        ..ask(query)
    };
    recorder
        .search("first of the session", request(QUESTIONS[0], false))
        .await;
    let read = ReadRequest {
        id: recorder.id("Locks"),
        session: Some("s".into()),
        scope: None,
    };
    recorder.engine.memory().read(&read).await.unwrap();
    let judged = ValidateRequest {
        id: recorder.id("Migrations"),
        useful: true,
        session: Some("s".into()),
        scope: None,
    };
    recorder.engine.memory().validate(&judged).await.unwrap();
    recorder.search("asked again", request(QUESTIONS[0], false)).await;
    recorder
        .search("without what was shown", request(QUESTIONS[0], true))
        .await;
    recorder
        .search("another question", request(QUESTIONS[3], true))
        .await;
    recorder
        .search("a long question", request(&"database locks ".repeat(60), false))
        .await;
}

async fn changed(recorder: &mut Recorder) {
    for changes in [
        json!({"fusion": {"reciprocal_rank": {"k": 60}}}),
        json!({"channels": {"lexical": false}}),
        json!({"channels": {"vector": false}}),
        json!({"channels": {"trigger": false, "graph": false}}),
        json!({"channels": {"lexical": false, "vector": false}}),
        json!({"links": {"share": 0.9, "seeds": 1}, "modes": {"focused": {"hops": 4}}}),
        json!({"modes": {"focused": {"candidates": 2}}, "candidates_over": 1}),
        json!({"rerank": {"per_result": 1, "least": 1}, "modes": {"focused": {"limit": 2}}}),
        json!({"constitutional_within": 0}),
        json!({"diversity": {"lambda": 0.2, "floor": 0.3, "word_floor": 0.1}}),
        json!({"tiers": {"critical": 5.0}, "confidence": {"lowest": 0.0}}),
    ] {
        for query in [QUESTIONS[0], QUESTIONS[3]] {
            recorder
                .tried(&format!("{changes} {query}"), changes.clone(), ask(query))
                .await;
        }
    }
    let own = SearchRequest {
        pipeline: Arc::new(Pipeline::with(&json!({"fusion": {"reciprocal_rank": {"k": 5}}})).unwrap()),
        ..ask(QUESTIONS[0])
    };
    recorder.search("a pipeline of its own", own).await;
}

async fn experiment(recorder: &mut Recorder) {
    for (name, rollout_percent, change) in [
        ("critical-first", 50.0, json!({"tiers": {"critical": 10.0}})),
        ("few", 40.0, json!({"modes": {"focused": {"limit": 2}}})),
    ] {
        let Value::Object(change) = change else {
            panic!("an object")
        };
        let feature = Feature {
            shadow_percent: 100.0,
            rollout_percent,
            ..Feature::new(name, change)
        };
        recorder
            .engine
            .experiments()
            .start(StartRequest { feature })
            .await
            .unwrap();
    }
    for query in QUESTIONS {
        recorder.search(&format!("dealt: {query}"), ask(query)).await;
    }
    let tally = recorder
        .engine
        .experiments()
        .drain_shadows(Duration::from_mins(1))
        .await;
    assert_eq!((tally.dropped, tally.lost), (0, 0));
}

/// A vector is recorded by its model only: its last digits depend on the instructions of the machine.
fn without_vector(mut detail: Value) -> Value {
    // The responses have the scores and ranks of the results.
    if let Some(fields) = detail.as_object_mut() {
        fields.remove("found");
    }
    if let Some(vector) = detail.get_mut("vector") {
        *vector = vector["model"].take();
    }
    detail
}

#[tokio::test]
async fn lexical_searches_match_the_recording() {
    let directory = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(directory.path(), "none");
    recorder.fill().await;
    many(&mut recorder).await;
    session(&mut recorder).await;
    changed(&mut recorder).await;
    experiment(&mut recorder).await;
    recorder.rows(Some("critical-first")).await;
    insta::assert_snapshot!("memory_words", recorder.transcript);
}

#[tokio::test]
async fn vector_searches_match_the_recording() {
    let directory = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::new(directory.path(), "builtin");
    recorder.fill().await;
    many(&mut recorder).await;
    session(&mut recorder).await;
    changed(&mut recorder).await;
    experiment(&mut recorder).await;
    recorder.rows(Some("few")).await;
    insta::assert_snapshot!("memory_meaning", recorder.transcript);
}
