//! Calls every tool from a client in the same process and validates the result against its output schema.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod http;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult, ReadResourceRequestParams};
use rmcp::service::{RoleClient, RunningService};
use satiety_engine::{Engine, Settings};
use satiety_server::mcp::{Context, Handler, Profile, Registry};
use serde_json::{Value, json};

/// Maximum tokens that the default tools may cost a model in every request.
const CORE_TOKENS: u64 = 1831;

struct Place {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    client: RunningService<RoleClient, ()>,
    registry: Registry,
    called: BTreeSet<String>,
}

/// An engine with a separate database and without a sentence model.
fn engine(folder: &Path) -> Arc<Engine> {
    let engine = Engine::new(Settings {
        store: format!("sqlite:{}", folder.join("t.db").display())
            .parse()
            .unwrap(),
        archive_folder: folder.join("archive"),
        embedder: "none".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    });
    // The test binary cannot act as the supervisor of a sandbox; the tests of the command cover it.
    Arc::new(engine.with_sandbox(satiety::bench::SandboxRequirement::Off))
}

impl Place {
    async fn new(registry: Registry) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        let mut context = Context::new(engine(&path));
        context.harness_folder = path.join("harness");
        context.environment = std::env::vars().collect();
        let handler = Handler::new(Arc::new(context), Arc::new(registry.clone()), Some("s1".into()));
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            let serving = Box::pin(rmcp::serve_server(handler, theirs)).await.unwrap();
            serving.waiting().await.unwrap();
        });
        let client = rmcp::serve_client((), ours).await.unwrap();
        Self {
            _folder: folder,
            path,
            client,
            registry,
            called: BTreeSet::new(),
        }
    }

    async fn call(&self, tool: &str, arguments: &Value) -> CallToolResult {
        let arguments = arguments.as_object().unwrap().clone();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.client.call_tool(request).await.unwrap()
    }

    /// Calls a tool that must succeed and validates its result against its schema.
    async fn fine(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, &arguments).await;
        let answer = result.structured_content.clone();
        assert_eq!(result.is_error, Some(false), "{tool}: {result:?}");
        let answer = answer.unwrap();
        let schema = Value::Object(self.registry.get(tool).unwrap().output_schema().clone());
        let validator = jsonschema::validator_for(&schema).unwrap();
        let wrong: Vec<String> = validator
            .iter_errors(&answer)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{tool}: {wrong:?}\n{answer:#}");
        self.called.insert(tool.to_owned());
        answer
    }

    async fn wrong(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, &arguments).await;
        assert_eq!(result.is_error, Some(true), "{tool} {arguments}");
        result.content[0].as_text().unwrap().text.clone()
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }
}

const SUITE: &str = r#"
suite_id = "greeter"
name = "Greets"
target = "greeter"
version = "1.0.0"
[[cases]]
case_id = "ada"
input.goal = "Greet Ada."
expected = { mode = "contains", value = "hello" }
tags = ["smoke"]
difficulty = "easy"
source = "synthetic"
"#;

const PROPOSALS: &str = "
expansion_proposals:
  new_edge_cases:
    - category: ambiguity
      description: two people of one name
      expected_failure_mode: picks the first
      suite: greeter
      case: {case_id: two-adas, input: {goal: Greet Ada.}, expected: {mode: contains, value: Which Ada}}
";

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_result_matches_its_schema() {
    let mut place = Place::new(Registry::from_profile(Profile::Full)).await;
    memory(&mut place).await;
    conversations(&mut place).await;
    eviction(&mut place).await;
    benchmarks(&mut place).await;
    let all: BTreeSet<String> = place
        .registry
        .tools()
        .iter()
        .map(|tool| tool.name().to_owned())
        .collect();
    let missing: Vec<&String> = all.difference(&place.called).collect();
    assert!(missing.is_empty(), "tools without a call: {missing:?}");
}

async fn memory(place: &mut Place) {
    let text = "Readers never wait for the writer, because the log is separate from the file.";
    let wal = place
        .fine(
            "memory_save",
            json!({"title": "Use WAL", "content": text, "triggers": ["sqlite locked"]}),
        )
        .await["memory"]["id"]
        .clone();
    let rule = json!({"title": "Rule", "content": "Never force push.", "tier": "constitutional"});
    let refused = place.wrong("memory_save", rule).await;
    assert!(
        refused.contains("only a person may make a memory constitutional"),
        "{refused}"
    );
    let rule = json!({"title": "Rule", "content": "Never force push.", "tier": "critical"});
    let rule = place.fine("memory_save", rule).await["memory"]["id"].clone();
    let begun = place
        .fine(
            "task_preflight",
            json!({"task": "mend the locks", "knowledge_score": 10}),
        )
        .await;
    assert_eq!(begun["session_id"], "s1");
    let found = place
        .fine(
            "memory_search",
            json!({"query": "do readers wait", "explain": true}),
        )
        .await;
    assert_eq!(found["results"][0]["id"], wal);
    assert!(
        found["data_fields"]
            .as_array()
            .unwrap()
            .contains(&json!("results[].excerpt"))
    );
    place
        .fine(
            "memory_context",
            json!({"query": "do readers wait", "token_usage": 0.9}),
        )
        .await;
    let read = place.fine("memory_read", json!({"id": wal})).await;
    assert_eq!(
        (&read["rank_in_results"], &read["content"]),
        (&json!(1), &json!(text))
    );
    place
        .fine("memory_update", json!({"id": wal, "kind": "decision"}))
        .await;
    place
        .fine("memory_validate", json!({"id": wal, "useful": true}))
        .await;
    place
        .fine("memory_match_triggers", json!({"text": "sqlite locked"}))
        .await;
    place
        .fine(
            "memory_causal_link",
            json!({"from": wal, "kind": "supports", "to": rule}),
        )
        .await;
    let page = place.fine("memory_list", json!({"limit": 1})).await;
    let rest = place
        .fine("memory_list", json!({"limit": 1, "cursor": page["next_cursor"]}))
        .await;
    assert_ne!(page["memories"], rest["memories"]);
    let done = json!({"outcome": "success", "knowledge_score": 30, "text": format!("Note: {text}"), "useful": [rule]});
    let closed = place.fine("task_postflight", done).await;
    assert_eq!(
        (&closed["referenced"], &closed["deltas"]["learning_index"]),
        (&json!([wal]), &json!(20.0))
    );
    place.fine("memory_health", json!({})).await;
    let session = place
        .client
        .read_resource(ReadResourceRequestParams::new("satiety://sessions/s1"))
        .await
        .unwrap();
    let shown = serde_json::to_value(&session).unwrap().to_string();
    assert!(shown.contains("selected_ids"), "{shown}");
    place.fine("memory_delete", json!({"ids": [rule]})).await;
    let text = place.wrong("memory_read", json!({"id": rule})).await;
    assert!(
        text.starts_with("error: memory `") && text.contains("\nhint: "),
        "{text}"
    );
}

async fn conversations(place: &mut Place) {
    let step =
        json!({"run_id": "r", "tool": "bash", "arguments": {"command": "make"}, "result": "error: no rule"});
    for _ in 0..5 {
        place.fine("report_step", step.clone()).await;
    }
    assert_eq!(place.fine("report_step", step).await["signal"], "ESCALATE");
    let messages = json!([
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "a b"},
    ]);
    let appended = place
        .fine("append_messages", json!({"run_id": "m", "messages": messages}))
        .await;
    assert_eq!(
        (&appended["signal"], &appended["steps"]),
        (&json!("CONTINUE"), &json!(1))
    );
    let round = json!({"claims": ["Use a queue"], "next_actions": ["Write the worker"]});
    let begun = place
        .fine("append_round", json!({"round": round, "topic": "queue"}))
        .await;
    let again = json!({"round": round, "conversation_id": begun["conversation_id"]});
    assert_eq!(place.fine("append_round", again).await["rounds"], 2);
    let scored = place
        .fine(
            "score_conversation",
            json!({"rounds": [round, round, round], "record": true}),
        )
        .await;
    assert!(
        scored["report"]
            .as_str()
            .unwrap()
            .starts_with("satiety://conversations/")
    );
    let messages =
        json!([{"role": "user", "content": "Which queue?"}, {"role": "assistant", "content": "Use Redis."}]);
    place
        .fine("score_conversation", json!({"messages": messages}))
        .await;
    let hit =
        json!({"title": "Queues", "url": "https://a.example/1", "snippet": "Redis streams keep messages."});
    let same = json!({"query": "queue", "results": [hit]});
    let gated = place
        .fine("gate", json!({"task": "queue", "rounds": [same, same, same]}))
        .await;
    assert_eq!(gated["decision"], "stop", "{gated:#}");
}

async fn eviction(place: &mut Place) {
    let item = |id: &str| json!({"ctx_id": id, "content": format!("what {id} printed ").repeat(40)});
    let asked = json!({"scope_id": "c", "turn": 1, "free_tokens": 50, "timeout_ms": 60000,
        "items": [item("a"), item("b"), item("c")]});
    let proposed = place.fine("evict_propose", asked).await;
    let keep = json!([{"ctx_id": proposed["candidates"][0]["ctx_id"], "reason": "needed"}]);
    let answer = json!({"proposal_id": proposed["proposal_id"], "keep": keep});
    place.fine("evict_resolve", answer).await;
    let timeline = place.fine("evict_timeline", json!({"id": "c"})).await;
    assert_eq!(timeline["rows"].as_array().map(Vec::len), Some(1), "{timeline}");
    let made = place
        .fine("evict_calibrate", json!({"prompt": "Answer with JSON."}))
        .await;
    let files = place
        .fine("evict_variants", json!({"version": made["version"]}))
        .await;
    assert!(
        files["files"].as_array().is_some_and(|files| files.len() >= 5),
        "{files}"
    );
}

async fn benchmarks(place: &mut Place) {
    place.write("harness/harness.toml", "sandbox = \"off\"\n");
    place.write("harness/greeter/suite.toml", SUITE);
    place.write("harness/greeter/agent.sh", "cat > /dev/null\necho hello\n");
    let target = "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"{{base}}/agent.sh\"]\n";
    place.write("harness/greeter/target.toml", target);
    let suite = place.path.join("harness/greeter");
    let run = place
        .fine("bench_run", json!({"suite": suite, "repeats": 2}))
        .await;
    // The sandbox is the satiety program itself, which this is not; the test with the real client passes.
    assert_eq!(run["summary"]["cases"], 1, "{run:#}");
    let listed = place.fine("bench_status", json!({"run": run["run_id"]})).await;
    assert_eq!(listed["summary"]["cases"], 1);
    let same = json!({"baseline": run["run_id"], "candidate": run["run_id"]});
    place.fine("bench_compare", same).await;
    place.fine("harness_status", json!({})).await;
    place.fine("harness_record", json!({})).await;
    let proposed = place
        .fine("harness_propose", json!({"proposals": PROPOSALS}))
        .await;
    assert!(proposed["proposal_hash"].is_string(), "{proposed:#}");
    // It is recorded as an agent's proposal, and it needs a person like every other.
    let kept = engine(&place.path)
        .harness()
        .open_proposal(&place.path.join("harness"))
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(&kept.author, satiety::harness::Author::Agent(name) if !name.is_empty()),
        "{:?}",
        kept.author
    );
    let status = place.fine("harness_status", json!({})).await;
    assert_eq!(status["expansion"]["phase"], "awaiting_approval", "{status:#}");
}

#[tokio::test]
async fn invalid_calls_get_an_error_and_a_hint() {
    let place = Place::new(Registry::from_profile(Profile::Memory)).await;
    for (tool, arguments, expected) in [
        ("memory_search", json!({}), "missing field `query`"),
        (
            "memory_search",
            json!({"query": 7}),
            "where: arguments of memory_search, query",
        ),
        (
            "memory_search",
            json!({"query": " "}),
            "`query` must not be blank",
        ),
        (
            "memory_save",
            json!({"title": "x", "content": "y", "tier": "vital"}),
            "unknown variant `vital`",
        ),
        (
            "memory_list",
            json!({"limit": 0}),
            "`limit` must be from 1 to 500",
        ),
        ("memory_delete", json!({"ids": []}), "`ids` must not be empty"),
        (
            "task_postflight",
            json!({"outcome": "success", "task_id": "t"}),
            "task `t` not found",
        ),
    ] {
        let text = place.wrong(tool, arguments.clone()).await;
        assert!(
            text.contains(expected) && text.contains("\nhint: "),
            "{tool} {arguments}: {text}"
        );
    }
    let stranger = CallToolRequestParams::new("memory_forget");
    let error = place.client.call_tool(stranger).await.unwrap_err().to_string();
    assert!(error.contains("unknown tool `memory_forget`"), "{error}");
}

#[test]
fn profiles_are_small_and_contain_no_approval() {
    let sizes = Profile::ALL.map(|profile| Registry::from_profile(profile).tools().len());
    assert!(
        sizes[0] <= 9 && sizes[0] < sizes[1] && sizes[1] < sizes[2],
        "{sizes:?}"
    );
    let cost = Registry::from_profile(Profile::Core).cost();
    assert!(
        cost.tokens <= CORE_TOKENS,
        "{} tokens: {:#?}",
        cost.tokens,
        cost.tools
    );
    let names: Vec<&str> = cost.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names[..3],
        ["report_step", "score_conversation", "append_round"],
        "the default profile says when to stop"
    );
    for tool in Registry::from_profile(Profile::Full).tools() {
        let about = format!("{} {:?}", tool.name(), tool.input_schema());
        for word in [
            "approve",
            "reject",
            "apply",
            "rollback",
            "keygen",
            "sign_",
            "signature",
            "passphrase",
        ] {
            assert!(!about.contains(word), "{} offers to {word}", tool.name());
        }
    }
    let error = Registry::from_names(["search"]).unwrap_err().to_string();
    assert!(error.contains("did you mean `memory_search`?"), "{error}");
}
