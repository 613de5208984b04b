//! Targets behind HTTP, chat protocols and MCP, and recorded answers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use satiety::bench::contract::{ErrorKind, Owner, Response, TargetSpec};
use satiety_engine::bench::attempts::{Cached, TargetReply, ask};
use satiety_engine::bench::cache::{CacheFuture, ResponseCache};
use satiety_engine::bench::limits::{Limits, RateLimiter};
use satiety_engine::bench::target::Target;
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request as Received, ResponseTemplate};

use crate::targets::{Place, kind, nothing_left, output, request};

async fn server(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

fn hurried() -> Limits {
    Limits {
        max_retries: 3,
        first_pause_ms: 10,
        longest_pause_ms: 2000,
        ..Limits::default()
    }
}

async fn ask_plainly(target: &Target, limits: &Limits) -> TargetReply {
    let gate = RateLimiter::new(limits);
    ask(target, &mut request("the goal", 5000), &gate, limits, None).await
}

#[tokio::test]
async fn http_posts_the_request_with_headers_and_reads_the_contract() {
    let server = MockServer::start().await;
    Mock::given(path("/ask"))
        .and(header("authorization", "Bearer t0ken"))
        .and(header("x-team", "evals"))
        .respond_with(|received: &Received| {
            let asked: Value = received.body_json().unwrap();
            assert!(asked.get("expected").is_none());
            ResponseTemplate::new(200)
                .set_body_json(json!({"output": asked["input"]["goal"], "cost_usd": 0.25}))
        })
        .mount(&server)
        .await;
    let place = Place::new();
    let target = place.open(json!({
        "type": "http", "url": format!("{}/ask", server.uri()), "headers": {"x-team": "evals"},
        "secret_headers": {"Authorization": "TOKEN"}
    }));
    assert!(!format!("{target:?}").contains("t0ken"));
    let attempt = target.call(&request("the goal", 5000)).await;
    assert_eq!(output(&attempt), "the goal");
    assert_eq!(attempt.outcome.unwrap().cost_usd, Some(0.25));
}

#[tokio::test]
async fn http_body_templates_and_answer_pointers_work() {
    let answer = json!({"choices": [{"message": {"content": "hi"}}], "meta": {"t": {"prompt_tokens": 3}}});
    let server = server(ResponseTemplate::new(200).set_body_json(answer)).await;
    let place = Place::new();
    let target = place.open(json!({
        "type": "http", "url": server.uri(), "body": {"q": "{{goal}}", "n": "{{repeat}}"},
        "output_pointer": "/choices/0/message/content", "usage_pointer": "/meta/t"
    }));
    let attempt = target.call(&request("the goal", 5000)).await;
    assert_eq!(output(&attempt), "hi");
    assert_eq!(attempt.outcome.unwrap().usage.unwrap().input_tokens, Some(3));
    let received = server.received_requests().await.unwrap();
    assert_eq!(
        received[0].body_json::<Value>().unwrap(),
        json!({"q": "the goal", "n": 0})
    );
    let target = place.open(json!({"type": "http", "url": server.uri(), "output_pointer": "/nowhere"}));
    assert_eq!(kind(&target.call(&request("g", 5000)).await), ErrorKind::Protocol);
}

#[tokio::test]
async fn each_http_failure_has_its_kind() {
    let place = Place::new();
    for (status, expected) in [
        (429, ErrorKind::RateLimit),
        (503, ErrorKind::Overloaded),
        (502, ErrorKind::Infra),
        (500, ErrorKind::Target),
        (404, ErrorKind::Target),
        (401, ErrorKind::Target),
        (302, ErrorKind::Target),
    ] {
        let server = server(ResponseTemplate::new(status).set_body_string("words")).await;
        let target = place.open(json!({"type": "http", "url": server.uri()}));
        let attempt = target.call(&request("g", 5000)).await;
        assert_eq!(kind(&attempt), expected, "{status}");
    }
    let slow = server(ResponseTemplate::new(200).set_delay(Duration::from_secs(20))).await;
    let target = place.open(json!({"type": "http", "url": slow.uri()}));
    assert_eq!(kind(&target.call(&request("g", 100)).await), ErrorKind::Timeout);
    let large = server(ResponseTemplate::new(200).set_body_string("x".repeat(2000))).await;
    let target = place.open(json!({"type": "http", "url": large.uri(), "max_output_bytes": 1000}));
    assert_eq!(kind(&target.call(&request("g", 5000)).await), ErrorKind::TooLarge);
    let target = place.open(json!({"type": "http", "url": "http://127.0.0.1:9/"}));
    assert_eq!(kind(&target.call(&request("g", 5000)).await), ErrorKind::Infra);
}

#[tokio::test]
async fn permanent_429_responses_are_not_a_target_failure() {
    let server = server(ResponseTemplate::new(429).insert_header("retry-after", "0")).await;
    let place = Place::new();
    let target = place.open(json!({"type": "http", "url": server.uri()}));
    let asked = ask_plainly(&target, &hurried()).await;
    let error = asked.outcome.as_ref().unwrap_err();
    assert_eq!(
        (error.kind, error.kind.owner()),
        (ErrorKind::RateLimit, Owner::Infra)
    );
    assert_eq!((asked.attempts.len(), asked.retries()), (4, 3));
    assert_eq!(
        asked.attempts.iter().map(|a| a.attempt).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    assert_eq!(server.received_requests().await.unwrap().len(), 4);
}

#[tokio::test]
async fn transient_failures_are_retried_after_retry_after() {
    let server = MockServer::start().await;
    let busy = ResponseTemplate::new(429).insert_header("retry-after", "1");
    Mock::given(method("POST"))
        .respond_with(busy)
        .up_to_n_times(1)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200).set_body_string("ok"))
        .mount(&server)
        .await;
    let place = Place::new();
    let target = place.open(json!({"type": "http", "url": server.uri()}));
    let asked = ask_plainly(&target, &hurried()).await;
    assert_eq!(asked.outcome.unwrap(), Response::text("ok"));
    assert_eq!(asked.attempts.len(), 2);
    assert!(
        asked.attempts[1].waited_ms >= 990.0,
        "{}",
        asked.attempts[1].waited_ms
    );
    assert!(asked.attempts[1].error.is_none());
}

#[tokio::test]
async fn target_failures_are_not_retried() {
    let server = server(ResponseTemplate::new(500)).await;
    let place = Place::new();
    let target = place.open(json!({"type": "http", "url": server.uri()}));
    assert_eq!(ask_plainly(&target, &hurried()).await.attempts.len(), 1);
    let exec = place.open(json!({"type": "exec", "command": "sh", "args": ["-c", "exit 75"]}));
    assert_eq!(ask_plainly(&exec, &hurried()).await.attempts.len(), 4);
}

/// Caches answers in memory.
#[derive(Debug, Default)]
struct Memory(Mutex<BTreeMap<String, Response>>);

impl ResponseCache for Memory {
    fn get<'a>(&'a self, key: &'a str) -> CacheFuture<'a, Option<Response>> {
        Box::pin(async move { self.0.lock().unwrap().get(key).cloned() })
    }

    fn put<'a>(&'a self, key: &'a str, response: &'a Response) -> CacheFuture<'a, ()> {
        Box::pin(async move {
            self.0.lock().unwrap().insert(key.to_owned(), response.clone());
        })
    }
}

#[tokio::test]
async fn answers_are_cached_and_failures_are_not() {
    let place = Place::new();
    let target =
        place.open(json!({"type": "exec", "command": "sh", "args": ["-c", "cat > /dev/null; echo $$"]}));
    let broken = place.open(json!({"type": "exec", "command": "false"}));
    let limits = hurried();
    let gate = RateLimiter::new(&limits);
    let cache = Memory::default();
    let mut asked = request("g", 5000);
    let failed = ask(
        &broken,
        &mut asked,
        &gate,
        &limits,
        Some(Cached {
            cache: &cache,
            key: "k",
        }),
    )
    .await;
    assert!(failed.outcome.is_err() && !failed.cached);
    let mut outputs = Vec::new();
    for key in ["k", "k", "other repeat"] {
        let cached = Some(Cached { cache: &cache, key });
        let answer = ask(&target, &mut asked, &gate, &limits, cached).await;
        outputs.push((answer.cached, answer.outcome.unwrap().output));
    }
    assert_eq!(
        outputs.iter().map(|(cached, _)| *cached).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(outputs[0].1, outputs[1].1);
    assert_ne!(outputs[0].1, outputs[2].1);
}

#[tokio::test]
async fn chat_requests_have_instructions_context_and_goal() {
    let answer = json!({
        "choices": [{"message": {"content": "four"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 2}
    });
    let server = server(ResponseTemplate::new(200).set_body_json(answer)).await;
    let place = Place::new();
    let target = place.open(json!({
        "type": "chat", "model": format!("openai:m@{}/v1", server.uri()), "system": "Be brief.", "temperature": 0.0
    }));
    let mut asked = request("2 + 2?", 5000);
    asked.input.context = vec![json!("one"), json!({"two": 2})];
    let attempt = target.call(&asked).await;
    assert_eq!(output(&attempt), "four");
    let usage = attempt.outcome.unwrap().usage.unwrap();
    assert_eq!((usage.total_tokens(), usage.requests), (Some(13), Some(1)));
    let sent: Value = server.received_requests().await.unwrap()[0].body_json().unwrap();
    assert_eq!(
        sent["messages"],
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Context:\none\n\n{\"two\":2}\n\n2 + 2?"}
        ])
    );
}

#[tokio::test]
async fn chat_targets_do_not_retry() {
    let server = server(ResponseTemplate::new(429).insert_header("retry-after", "0")).await;
    let place = Place::new();
    let target = place.open(json!({"type": "chat", "model": format!("openai:m@{}/v1", server.uri())}));
    let attempt = target.call(&request("g", 5000)).await;
    assert_eq!(kind(&attempt), ErrorKind::RateLimit);
    assert_eq!(attempt.outcome.unwrap_err().retry_after_ms, Some(0));
    assert_eq!(
        server.received_requests().await.unwrap().len(),
        1,
        "the target must not retry"
    );
}

const MCP: &str = r#"
import sys, json, os, time
open(os.environ["GROUP"], "w").write(str(os.getpid()))
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    else:
        a = m["params"]["arguments"]
        if a["q"] == "hang": time.sleep(60)
        if a["q"] == "die": print("oh", file=sys.stderr, flush=True); os._exit(3)
        if a["q"] == "fail": r = {"content": [{"type": "text", "text": "bad"}], "isError": True}
        elif a["q"] == "json": r = {"content": [], "structuredContent": {"n": a["n"]}}
        else: r = {"content": [{"type": "text", "text": "you said"}, {"type": "text", "text": a["q"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"#;

#[tokio::test]
async fn a_tool_of_an_mcp_server_is_called_over_pipes() {
    let place = Place::new();
    place.write("server.py", MCP);
    let group = place.path().join("group");
    let target = place.open(json!({
        "type": "mcp", "command": "python3", "args": ["-S", "{{base}}/server.py"], "tool": "ask",
        "set_env": {"GROUP": group}, "arguments": {"q": "{{goal}}", "n": "{{repeat}}"}
    }));
    assert_eq!(
        output(&target.call(&request("hello", 10_000)).await),
        "you said\nhello"
    );
    assert_eq!(
        output(&target.call(&request("json", 10_000)).await),
        &json!({"n": 0})
    );
    assert_eq!(
        kind(&target.call(&request("fail", 10_000)).await),
        ErrorKind::Target
    );
    let before = fs_err::read_to_string(&group).unwrap();
    for (goal, expected) in [("hang", ErrorKind::Timeout), ("die", ErrorKind::Infra)] {
        let attempt = target.call(&request(goal, 1500)).await;
        assert_eq!(kind(&attempt), expected, "{goal}");
        nothing_left(&place, "group");
        assert_eq!(
            output(&target.call(&request("again", 10_000)).await),
            "you said\nagain"
        );
    }
    assert_ne!(fs_err::read_to_string(&group).unwrap(), before);
    target.close().await;
    nothing_left(&place, "group");
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_is_called_over_http() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(header("authorization", "Bearer t0ken"))
        .respond_with(|received: &Received| {
            let message: Value = received.body_json().unwrap();
            let Some(id) = message.get("id") else {
                return ResponseTemplate::new(202);
            };
            let result = if message["method"] == "initialize" {
                json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                       "serverInfo": {"name": "t", "version": "1"}})
            } else {
                json!({"content": [{"type": "text", "text": message["params"]["arguments"]["goal"]}]})
            };
            ResponseTemplate::new(200).set_body_json(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        })
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .respond_with(ResponseTemplate::new(405))
        .mount(&server)
        .await;
    let place = Place::new();
    let mut context = place.context();
    context.environment = [("MCP_TOKEN".to_owned(), "t0ken".to_owned())]
        .into_iter()
        .collect();
    let spec: TargetSpec = serde_json::from_value(json!({
        "type": "mcp", "url": server.uri(), "tool": "ask", "token_env": "MCP_TOKEN"
    }))
    .unwrap();
    let target = Target::open(&spec, &context).unwrap();
    assert!(!format!("{target:?}").contains("t0ken"));
    assert_eq!(output(&target.call(&request("hello", 10_000)).await), "hello");
    target.close().await;
    let gone = place.open(json!({"type": "mcp", "url": "http://127.0.0.1:9/", "tool": "ask"}));
    assert_eq!(kind(&gone.call(&request("g", 10_000)).await), ErrorKind::Infra);
}

#[tokio::test]
async fn recorded_answers_match_case_repeat_and_variant() {
    let place = Place::new();
    place.write(
        "answers.jsonl",
        "{\"case_id\":\"case/1\",\"output\":\"first\",\"latency_ms\":12}\n\n\
         {\"case_id\":\"case/1\",\"repeat\":1,\"output\":\"any\"}\n\
         {\"case_id\":\"case/1\",\"repeat\":1,\"variant\":\"control\",\"output\":\"mine\"}\n\
         {\"case_id\":\"other\",\"error\":{\"kind\":\"refusal\",\"message\":\"no\"}}\n",
    );
    let target = place.open(json!({"type": "replay", "file": "answers.jsonl"}));
    let mut asked = request("g", 1);
    let attempt = target.call(&asked).await;
    assert_eq!(output(&attempt), "first");
    assert_eq!(attempt.latency, Duration::from_millis(12));
    asked.repeat = 1;
    assert_eq!(output(&target.call(&asked).await), "mine");
    asked.variant = "b".into();
    assert_eq!(output(&target.call(&asked).await), "any");
    asked.repeat = 2;
    assert_eq!(
        kind(&target.call(&asked).await),
        ErrorKind::Target,
        "repeats must be matched exactly"
    );
    asked.case_id = "other".into();
    asked.repeat = 0;
    assert_eq!(kind(&target.call(&asked).await), ErrorKind::Refusal);
}

#[test]
fn invalid_target_definitions_name_the_key() {
    let place = Place::new();
    place.write(
        "twice.jsonl",
        "{\"case_id\":\"a\",\"output\":1}\n{\"case_id\":\"a\",\"output\":2}\n",
    );
    for (spec, part) in [
        (json!({"type": "exec", "command": " "}), "`command`"),
        (
            json!({"type": "worker", "command": "w", "workers": 0}),
            "`workers`",
        ),
        (json!({"type": "http", "url": "ftp://x"}), "`url`"),
        (
            json!({"type": "http", "url": "http://x", "secret_headers": {"a": "NOT_SET"}}),
            "NOT_SET",
        ),
        (
            json!({"type": "http", "url": "http://x", "output_pointer": "a/b"}),
            "`output_pointer`",
        ),
        (json!({"type": "chat", "model": "gpt"}), "`model`"),
        (
            json!({"type": "chat", "model": "openai:x", "key_env": "NOT_SET"}),
            "NOT_SET",
        ),
        (json!({"type": "mcp", "tool": "t"}), "`command` or `url`"),
        (json!({"type": "replay", "file": "missing"}), "missing"),
        (json!({"type": "replay", "file": "twice.jsonl"}), "twice.jsonl:2"),
    ] {
        let parsed: TargetSpec = serde_json::from_value(spec.clone()).unwrap();
        let message = Target::open(&parsed, &place.context()).unwrap_err().to_string();
        assert!(message.contains(part), "{spec}: {message}");
    }
}
