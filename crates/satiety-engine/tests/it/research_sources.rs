//! Every search engine's interface, spoken by a local server: successes, refusals and truncated responses.

use std::time::{Duration, Instant};

use satiety_engine::research::sources::{
    HttpPolicy, IndexOptions, SearchError, Source, SourceSettings, search_policy,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wiremock::matchers::{body_partial_json, header, method, path, query_param};
use wiremock::{Mock, MockBuilder, MockServer, ResponseTemplate};

fn settings(base: &str) -> SourceSettings {
    SourceSettings {
        environment: [
            ("BRAVE_API_KEY".to_owned(), "brave-secret".to_owned()),
            ("TAVILY_API_KEY".to_owned(), "tavily-secret".to_owned()),
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ]
        .into_iter()
        .collect(),
        api: HttpPolicy {
            timeout: Some(Duration::from_millis(400)),
            retries: 2,
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_secs(2),
            ..search_policy()
        },
        scratch: std::env::temp_dir(),
        base_url: Some(base.to_owned()),
    }
}

/// The engines, each with the address for this test.
const ENGINES: [&str; 5] = ["searxng", "brave", "tavily", "wikipedia", "arxiv"];

/// Opens a source without a sentence model.
async fn open(spec: &str, settings: &SourceSettings) -> Result<Box<dyn Source>, SearchError> {
    satiety_engine::research::sources::open(spec, settings, IndexOptions::default()).await
}

async fn engine(name: &str, base: &str) -> Box<dyn Source> {
    let spec = match name {
        "searxng" => format!("searxng:{base}"),
        other => other.to_owned(),
    };
    open(&spec, &settings(base)).await.unwrap()
}

/// The documented request of the engine.
fn documented(name: &str) -> MockBuilder {
    match name {
        "searxng" => Mock::given(method("GET"))
            .and(path("/search"))
            .and(query_param("q", "heated wings"))
            .and(query_param("format", "json")),
        "brave" => Mock::given(method("GET"))
            .and(path("/res/v1/web/search"))
            .and(query_param("q", "heated wings"))
            .and(query_param("count", "3"))
            .and(header("X-Subscription-Token", "brave-secret")),
        "tavily" => Mock::given(method("POST"))
            .and(path("/search"))
            .and(header("authorization", "Bearer tavily-secret"))
            .and(body_partial_json(
                json!({"query": "heated wings", "max_results": 3}),
            )),
        "wikipedia" => Mock::given(method("GET"))
            .and(path("/w/api.php"))
            .and(query_param("gsrsearch", "heated wings"))
            .and(query_param("generator", "search"))
            .and(query_param("explaintext", "1")),
        _ => Mock::given(method("GET"))
            .and(path("/api/query"))
            .and(query_param("search_query", "all:heat OR all:wing"))
            .and(query_param("max_results", "3")),
    }
}

/// A response with two results.
fn answer(name: &str) -> ResponseTemplate {
    let json: Value = match name {
        "searxng" => json!({"query": "x", "results": [
            {"url": "https://a.example/1", "title": "One", "content": "Wings bend.", "engine": "e", "score": 1.5},
            {"url": "https://a.example/2", "title": "Two", "content": null}]}),
        "brave" => json!({"type": "search", "web": {"results": [
            {"url": "https://a.example/1", "title": "One", "description": "<strong>Wings</strong> bend.", "age": "2 days ago"},
            {"url": "https://a.example/2", "title": "Two", "description": ""}]}}),
        "tavily" => json!({"results": [
            {"url": "https://a.example/1", "title": "One", "content": "Wings bend.", "score": 0.9},
            {"url": "https://a.example/2", "title": "Two", "content": "", "raw_content": null}]}),
        "wikipedia" => json!({"batchcomplete": true, "query": {"pages": [
            {"pageid": 9, "title": "Two", "index": 2, "extract": "", "fullurl": "https://a.example/2"},
            {"pageid": 1, "title": "One", "index": 1, "extract": "Wings bend.", "fullurl": "https://a.example/1"}]}}),
        _ => {
            return ResponseTemplate::new(200).set_body_string(
                "<?xml version='1.0'?><feed><entry><id>https://a.example/1</id><title>One</title>\
                 <summary>Wings bend.</summary></entry><entry><id>https://a.example/2</id><title>Two</title>\
                 <summary> </summary></entry></feed>",
            );
        }
    };
    ResponseTemplate::new(200).set_body_json(json)
}

/// A response without results.
fn nothing(name: &str) -> ResponseTemplate {
    match name {
        "searxng" | "tavily" => ResponseTemplate::new(200).set_body_json(json!({"results": []})),
        "brave" => ResponseTemplate::new(200).set_body_json(json!({"type": "search"})),
        "wikipedia" => ResponseTemplate::new(200).set_body_json(json!({"batchcomplete": true})),
        _ => ResponseTemplate::new(200).set_body_string("<feed></feed>"),
    }
}

async fn ask(name: &str, server: &MockServer) -> Result<Vec<satiety::research::Hit>, SearchError> {
    engine(name, &server.uri()).await.search("heated wings", 3).await
}

#[tokio::test]
async fn every_engine_gets_its_documented_request() {
    for name in ENGINES {
        let server = MockServer::start().await;
        documented(name)
            .respond_with(answer(name))
            .expect(1)
            .mount(&server)
            .await;
        let hits = ask(name, &server)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let shown: Vec<(&str, &str, &str)> = hits
            .iter()
            .map(|hit| (hit.title.as_str(), hit.url.as_str(), hit.snippet.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("One", "https://a.example/1", "Wings bend."),
                ("Two", "https://a.example/2", "")
            ],
            "{name}"
        );
    }
}

#[tokio::test]
async fn no_results_are_not_an_error() {
    for name in ENGINES {
        let server = MockServer::start().await;
        documented(name).respond_with(nothing(name)).mount(&server).await;
        assert!(ask(name, &server).await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn retry_after_is_respected() {
    for name in ENGINES {
        let server = MockServer::start().await;
        let busy = ResponseTemplate::new(429).insert_header("Retry-After", "1");
        documented(name)
            .respond_with(busy)
            .up_to_n_times(1)
            .mount(&server)
            .await;
        documented(name).respond_with(answer(name)).mount(&server).await;
        let started = Instant::now();
        assert_eq!(ask(name, &server).await.unwrap().len(), 2, "{name}");
        assert!(
            started.elapsed() >= Duration::from_secs(1),
            "{name}: {:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn a_too_long_retry_after_is_an_error() {
    for name in ENGINES {
        let server = MockServer::start().await;
        let busy = ResponseTemplate::new(429).insert_header("Retry-After", "3600");
        documented(name).respond_with(busy).expect(1).mount(&server).await;
        let error = ask(name, &server).await.unwrap_err();
        assert!(
            matches!(error, SearchError::Status { status: 429, .. }),
            "{name}: {error}"
        );
        assert!(error.hint().unwrap().action().contains("3600 seconds"), "{name}");
    }
}

#[tokio::test]
async fn server_errors_are_retried_three_times() {
    for name in ENGINES {
        let server = MockServer::start().await;
        let broken = ResponseTemplate::new(500).set_body_string("oh no");
        documented(name)
            .respond_with(broken)
            .expect(3)
            .mount(&server)
            .await;
        let error = ask(name, &server).await.unwrap_err();
        assert!(error.to_string().contains("500: oh no"), "{name}: {error}");
        assert!(!error.to_string().contains("secret"), "{name}: {error}");
        assert!(
            !error.to_string().contains("heated"),
            "errors must not contain parameters: {error}"
        );
    }
}

#[tokio::test]
async fn refusals_are_not_retried() {
    for name in ENGINES {
        let server = MockServer::start().await;
        documented(name)
            .respond_with(ResponseTemplate::new(403))
            .expect(1)
            .mount(&server)
            .await;
        let error = ask(name, &server).await.unwrap_err();
        assert!(error.hint().is_some(), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_slow_server_times_out() {
    for name in ENGINES {
        let server = MockServer::start().await;
        let slow = answer(name).set_delay(Duration::from_secs(5));
        documented(name).respond_with(slow).mount(&server).await;
        let started = Instant::now();
        let error = ask(name, &server).await.unwrap_err();
        assert!(matches!(error, SearchError::Timeout { .. }), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_secs(4), "{name}");
    }
}

#[tokio::test]
async fn unexpected_answers_are_rejected_with_an_excerpt() {
    for name in ENGINES {
        for body in [
            "{\"results\": [",
            "<html>login</html>",
            "",
            "[]",
            "{\"results\": 7, \"web\": 7, \"query\": 7}",
        ] {
            let server = MockServer::start().await;
            let odd = ResponseTemplate::new(200).set_body_string(body);
            documented(name).respond_with(odd).mount(&server).await;
            let error = ask(name, &server).await.expect_err(&format!("{name} {body}"));
            assert!(
                matches!(error, SearchError::BadAnswer { .. }),
                "{name} {body}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_truncated_body_is_an_error() {
    for name in ENGINES {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else {
                    return;
                };
                let mut request = [0_u8; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{\"results\": [{\"url\": \"https://a")
                    .await;
            }
        });
        let error = engine(name, &base)
            .await
            .search("heated wings", 3)
            .await
            .unwrap_err();
        assert!(
            matches!(error, SearchError::Unreachable { .. }),
            "{name}: {error}"
        );
        serving.abort();
    }
}

#[tokio::test]
async fn searxng_without_engines_is_an_error() {
    let server = MockServer::start().await;
    let answer = json!({"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]});
    documented("searxng")
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .mount(&server)
        .await;
    let error = ask("searxng", &server).await.unwrap_err().to_string();
    assert!(error.contains("CAPTCHA"), "{error}");
}

#[tokio::test]
async fn wikipedia_errors_with_status_200_are_detected() {
    let server = MockServer::start().await;
    let answer = json!({"error": {"code": "maxlag", "info": "Waiting for a database"}});
    documented("wikipedia")
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .mount(&server)
        .await;
    let error = ask("wikipedia", &server).await.unwrap_err().to_string();
    assert!(error.contains("maxlag: Waiting for a database"), "{error}");
}

#[tokio::test]
async fn unavailable_sources_have_a_hint() {
    let mut settings = settings("http://127.0.0.1:9");
    settings.environment = std::iter::empty().collect();
    for (spec, part, hint) in [
        ("brave", "BRAVE_API_KEY is not set", "set BRAVE_API_KEY"),
        ("tavily", "TAVILY_API_KEY is not set", "set TAVILY_API_KEY"),
        ("searxng:", "missing URL", "searxng:URL"),
        ("google", "no directory and no engine", "use a directory"),
        (
            "wikipedia:../x",
            "a language code has letters only",
            "wikipedia[:LANGUAGE]",
        ),
        ("mcp:nowhere.toml", "type = \"mcp\"", "mcp:FILE"),
        ("replay:nowhere.jsonl", "cannot read nowhere.jsonl", "directory"),
        (
            "local:/nowhere/at/all",
            "cannot read /nowhere/at/all",
            "directory",
        ),
        ("command:", "missing command", "command:PROGRAM"),
    ] {
        let error = open(spec, &settings).await.expect_err(spec);
        assert!(error.to_string().contains(part), "{spec}: {error}");
        assert!(
            error.hint().unwrap().action().contains(hint),
            "{spec}: {:?}",
            error.hint()
        );
        assert_eq!(error.category(), satiety_engine::ErrorCategory::Invalid, "{spec}");
    }
}

#[tokio::test]
async fn a_program_can_be_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("search.sh");
    fs_err::write(
        &script,
        "read query\necho \"{\\\"title\\\": \\\"$query\\\", \\\"url\\\": \\\"u\\\", \\\"snippet\\\": \\\"s\\\"}\"\n",
    )
    .unwrap();
    let settings = settings("http://127.0.0.1:9");
    let source = open(&format!("command:sh {}", script.display()), &settings)
        .await
        .unwrap();
    let hits = source.search("heated wings", 3).await.unwrap();
    assert_eq!((hits[0].title.as_str(), hits.len()), ("heated wings", 1));
    let broken = open("command:false", &settings).await.unwrap();
    let error = broken.search("x", 3).await.unwrap_err().to_string();
    assert!(error.starts_with("command:false failed: "), "{error}");
    let chatty = open("command:echo hello", &settings).await.unwrap();
    let error = chatty.search("x", 3).await.unwrap_err().to_string();
    assert!(error.contains("`hello` is not"), "{error}");
}

/// A search tool of an MCP server over pipes: results as structured content, as text, an error, and no answer.
const MCP: &str = r#"
import sys, json, time
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    else:
        query = m["params"]["arguments"]["query"]
        hit = {"title": "T", "url": "https://example.org/a", "snippet": "about " + query}
        if query == "hang": time.sleep(60)
        if query == "fail": r = {"content": [{"type": "text", "text": "quota is used up"}], "isError": True}
        elif query == "text": r = {"content": [{"type": "text", "text": json.dumps([hit, hit])}]}
        else: r = {"content": [], "structuredContent": {"results": [hit, dict(hit, url="https://example.org/b"), hit]}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"#;

#[tokio::test]
async fn an_mcp_tool_can_be_a_source() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("server.py"), MCP).unwrap();
    let target =
        "type = \"mcp\"\ncommand = \"python3\"\nargs = [\"-S\", \"{{base}}/server.py\"]\ntool = \"search\"\n";
    let file = folder.path().join("search.toml");
    fs_err::write(&file, target).unwrap();
    let mut settings = settings("http://127.0.0.1:9");
    settings.environment = std::env::vars().filter(|(name, _)| name == "PATH").collect();
    settings.api.timeout = Some(Duration::from_secs(10));
    let source = open(&format!("mcp:{}", file.display()), &settings).await.unwrap();
    let found = source.search("heated wings", 2).await.unwrap();
    assert_eq!(found.len(), 2, "at most the requested number");
    assert_eq!(
        (found[0].url.as_str(), found[0].snippet.as_str()),
        ("https://example.org/a", "about heated wings")
    );
    assert_eq!(source.search("text", 5).await.unwrap().len(), 2);
    let error = source.search("fail", 5).await.unwrap_err();
    assert!(error.to_string().contains("quota is used up"), "{error}");
    source.close().await;
    settings.api.timeout = Some(Duration::from_millis(1500));
    let source = open(&format!("mcp:{}", file.display()), &settings).await.unwrap();
    let started = Instant::now();
    assert!(source.search("hang", 5).await.is_err());
    assert!(started.elapsed() < Duration::from_secs(20));
    source.close().await;
}

/// Keys of search engines do not follow a redirect to another server.
#[tokio::test]
async fn a_redirect_to_another_server_is_not_followed() {
    for name in ENGINES {
        let other = MockServer::start().await;
        Mock::given(wiremock::matchers::any())
            .respond_with(ResponseTemplate::new(200))
            .mount(&other)
            .await;
        let first = MockServer::start().await;
        let moved =
            ResponseTemplate::new(307).insert_header("location", format!("{}/search", other.uri()).as_str());
        Mock::given(wiremock::matchers::any())
            .respond_with(moved)
            .mount(&first)
            .await;
        let error = engine(name, &first.uri())
            .await
            .search("heated wings", 3)
            .await
            .unwrap_err();
        assert!(
            matches!(error, SearchError::Status { status: 307, .. }),
            "{name}: {error}"
        );
        assert_eq!(other.received_requests().await.unwrap().len(), 0, "{name}");
    }
}
