//! A tenant calls every operation, page and tool with the ids of another tenant's rows. What may be called comes from
//! the OpenAPI document, the links of the pages and the list of tools, so that what is added later is covered, too: an
//! operation with an id that the owner cannot reach with the generated requests fails the test until
//! `requests.json` has a request for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use reqwest::Method;
use satiety_engine::tenants::CreateTenantRequest;
use satiety_engine::tokens::Scope;
use serde_json::{Map, Value, json};

use super::seed::{seed, write_suite};
use super::{guarded, postgres};
use crate::support::{Options, Running, start_with};

/// Words of the owner's rows and of the main store's rows.
const OWNER: &str = "OSPREYWORD";
const MAIN: &str = "MAGNOLIAWORD";

/// Requests that cannot be generated: the body, or the reason why the owner cannot reach the operation.
fn table() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tenants/requests.json");
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

/// An operation of the OpenAPI document.
struct Called {
    id: String,
    method: Method,
    path: String,
    query: Vec<String>,
    body: Option<Value>,
    is_stream: bool,
}

fn operations() -> Vec<Called> {
    let document = satiety_server::openapi::document();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let query = parameters
                .filter(|parameter| parameter["in"] == "query" && names_a_row(&parameter["name"]))
                .map(|parameter| parameter["name"].as_str().unwrap().to_owned());
            let content = &operation["requestBody"]["content"]["application/json"]["schema"];
            let responses = operation["responses"].as_object().unwrap();
            all.push(Called {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                query: query.collect(),
                body: (!content.is_null()).then(|| example(&document, content, 0)),
                is_stream: responses
                    .values()
                    .any(|response| response["content"].get("text/event-stream").is_some()),
            });
        }
    }
    // Reads first: a write with the same id makes a row of the caller's own.
    all.sort_by_key(|operation| operation.method != Method::GET);
    all
}

/// Whether a parameter takes an id or a position in a list.
fn names_a_row(name: &Value) -> bool {
    let name = name.as_str().unwrap();
    name.ends_with("id") || ["cursor", "against", "session", "suite", "project", "tenant"].contains(&name)
}

impl Called {
    /// Whether the request has a place for an id.
    fn takes_id(&self, table: &Value) -> bool {
        let texts = [
            json!(self.path),
            json!(self.body),
            table[&self.id]["bodies"].clone(),
        ];
        !self.query.is_empty()
            || texts
                .iter()
                .any(|text| text.to_string().contains("$ID") || text.to_string().contains("{id}"))
    }
}

/// A value of a schema: required fields only, with `$ID` for every text.
fn example(document: &Value, schema: &Value, depth: usize) -> Value {
    if depth > 6 {
        return Value::Null;
    }
    if let Some(target) = schema["$ref"].as_str() {
        return example(
            document,
            document.pointer(target.trim_start_matches('#')).unwrap(),
            depth + 1,
        );
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[choice].as_array().and_then(|all| all.first()) {
            return example(document, first, depth + 1);
        }
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "string" => json!("$ID"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "array" => json!([example(document, &schema["items"], depth + 1)]),
        _ => {
            let mut object = Map::new();
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                let field = &schema["properties"][name];
                object.insert(name.to_owned(), example(document, field, depth + 1));
            }
            Value::Object(object)
        }
    }
}

fn with_id(value: &Value, id: &str) -> Value {
    let text = value.to_string().replace("$ID", id);
    serde_json::from_str(&text).unwrap()
}

/// Sends an operation with an id in every place that takes one; returns the statuses and the bodies.
async fn call(
    server: &Running,
    token: &str,
    operation: &Called,
    id: &str,
    table: &Value,
) -> Vec<(u16, String)> {
    let path = operation.path.replace("{id}", id);
    let mut paths = vec![path.clone()];
    for name in &operation.query {
        paths.push(format!("{path}?{name}={id}"));
    }
    let mut bodies = vec![operation.body.as_ref().map(|body| with_id(body, id))];
    for body in table[&operation.id]["bodies"].as_array().into_iter().flatten() {
        bodies.push(Some(with_id(body, id)));
    }
    let mut answers = Vec::new();
    for path in &paths {
        for body in &bodies {
            let mut request = server.request(operation.method.clone(), path).bearer_auth(token);
            if let Some(body) = body {
                request = request.json(body);
            }
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            // A stream does not end; its status tells whether it was opened.
            let text = if operation.is_stream && status == 200 {
                String::new()
            } else {
                response.text().await.unwrap()
            };
            answers.push((status, text));
        }
    }
    answers
}

/// All rows of a store except those that requests of others may add: tokens and their use, usage, and the journal.
async fn rows(engine: &satiety_engine::Engine) -> BTreeSet<String> {
    let mut export = Vec::new();
    engine.database().export(&mut export).await.unwrap();
    let text = String::from_utf8(export).unwrap();
    let lines = text.lines().map(str::to_owned);
    lines
        .filter(|line| {
            ![
                "api_tokens",
                "tenant_usage",
                "journal",
                "notices",
                "chores",
                "\"exported_at\"",
            ]
            .iter()
            .any(|table| line.contains(table))
        })
        .collect()
}

/// As [`rows`], once the query log, which is written asynchronously, has the search that `seed` made with a word.
async fn settled_rows(engine: &satiety_engine::Engine, word: &str) -> BTreeSet<String> {
    let searched = format!("what is {word}");
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut last = BTreeSet::new();
    loop {
        let now = rows(engine).await;
        if now == last && now.iter().any(|line| line.contains(&searched)) {
            return now;
        }
        assert!(Instant::now() < deadline, "the rows of {word} do not settle");
        last = now;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

struct Setting {
    server: Running,
    _roots: tempfile::TempDir,
    /// Admin tokens of the owner and of the other tenant.
    owner: String,
    other: String,
    /// Ids of the owner's rows, then those of the main store.
    ids: Vec<String>,
    /// Number of the owner's ids.
    own: usize,
}

async fn setting(store: Option<String>) -> Setting {
    let server = start_with(Options { store, ..guarded() }).await;
    let roots = tempfile::tempdir().unwrap();
    for (name, word) in [("osprey", OWNER), ("heron", "HERONWORD")] {
        let root = roots.path().join(name);
        write_suite(&root, word);
        server
            .create_tenant(CreateTenantRequest {
                name: name.into(),
                root: Some(root),
                ..CreateTenantRequest::default()
            })
            .await;
    }
    let main = server.token(Scope::Admin).await;
    let owner = server.tenant_token("osprey", Scope::Admin).await;
    let other = server.tenant_token("heron", Scope::Admin).await;
    let mut ids = seed(&server, &owner, OWNER, true).await;
    ids.push("osprey".into());
    let own = ids.len();
    // A few of the main store's.
    ids.extend(seed(&server, &main, MAIN, false).await.into_iter().take(4));
    Setting {
        server,
        _roots: roots,
        owner,
        other,
        ids,
        own,
    }
}

fn assert_clean(text: &str, what: &str) {
    for word in [OWNER, MAIN] {
        assert!(!text.contains(word), "{what} shows the rows of another:\n{text}");
    }
}

async fn every_operation(store: Option<String>) {
    let Setting {
        server,
        _roots,
        owner,
        other,
        ids,
        own,
    } = setting(store).await;
    let table = table();
    let operations = operations();
    assert!(operations.len() > 90, "{}", operations.len());
    let of_owner = server.engine.tenant("osprey").await.unwrap();
    let before = settled_rows(&of_owner, OWNER).await;
    let main_before = settled_rows(&server.engine, MAIN).await;
    assert!(before.iter().filter(|line| line.contains(OWNER)).count() > 10);
    for operation in &operations {
        // Without a place for an id, one call is like another.
        let count = if operation.takes_id(&table) { ids.len() } else { 1 };
        for id in ids.iter().take(count) {
            let what = format!("{} {} with {id}", operation.method, operation.path);
            for (status, text) in call(&server, &other, operation, id, &table).await {
                assert_clean(&text, &what);
                assert!(status < 500, "{what}: {status} {text}");
                if operation.is_stream {
                    assert_ne!(status, 200, "{what} opens a stream");
                }
            }
        }
    }
    assert_eq!(rows(&of_owner).await, before, "nothing of the owner has changed");
    assert_eq!(
        rows(&server.engine).await,
        main_before,
        "nothing of the main store has changed"
    );
    // The requests are not refused because they are wrong: with them, the owner reaches its rows.
    let mut reached: BTreeMap<&str, Vec<(u16, String)>> = BTreeMap::new();
    for operation in &operations {
        let tried = ids.iter().take(if operation.takes_id(&table) { own } else { 1 });
        for id in tried {
            let answers = call(&server, &owner, operation, id, &table).await;
            let is_reached = answers.iter().any(|(status, _)| (200..300).contains(status));
            reached.entry(&operation.id).or_default().extend(answers);
            if is_reached {
                break;
            }
        }
    }
    let missed: Vec<String> = reached
        .iter()
        .filter(|(id, answers)| {
            !answers.iter().any(|(status, _)| (200..300).contains(status))
                && table[**id]["unreachable"].as_str().is_none()
        })
        .map(|(id, answers)| {
            let best = answers.iter().min_by_key(|(status, _)| (*status == 404, *status));
            format!("{id}: {best:?}")
        })
        .collect();
    assert!(
        missed.is_empty(),
        "the owner reaches no row with these operations; add a request to requests.json:\n{}",
        missed.join("\n")
    );
    of_owner.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operation_reaches_another_tenant() {
    every_operation(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operation_reaches_another_tenant_on_postgres() {
    if let Some(store) = postgres().await {
        every_operation(Some(store)).await;
    }
}

/// A tenant's users write its suites: they can name other files, or link to them.
#[tokio::test(flavor = "multi_thread")]
async fn no_run_reads_the_files_of_another_tenant() {
    const OUTSIDE: &str = "outside of the tenant's directory";
    let Setting {
        server,
        _roots: roots,
        owner,
        other,
        ..
    } = setting(None).await;
    let own = roots.path().join("heron");
    let foreign = roots.path().join("osprey/echo");
    let run = async |body: Value| server.post_as(&other, "/v1/bench/runs", &body).await;
    for (name, file) in [
        ("cases", "cases/a.json"),
        ("target", "target.toml"),
        ("suite", "suite.json"),
    ] {
        write_suite(&own, "HERONWORD");
        fs_err::rename(own.join("echo"), own.join(name)).unwrap();
        let link = own.join(name).join(file);
        fs_err::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = fs_err::remove_file(&link);
        let aim = foreign.join(if name == "target" {
            "target.toml"
        } else {
            "suite.json"
        });
        std::os::unix::fs::symlink(aim, &link).unwrap();
        let refused = run(json!({"suite": name})).await;
        assert_eq!(refused.status, 422, "{name}: {}", refused.text);
        assert_clean(&refused.text, name);
        assert!(refused.text.contains(OUTSIDE), "{name}: {}", refused.text);
    }
    write_suite(&own, "HERONWORD");
    let target = foreign.join("target.toml").display().to_string();
    // Only the suite names a target.
    let refused = run(json!({"suite": "echo", "target": target})).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_clean(&refused.text, "target");
    run(json!({"suite": "echo"})).await.ok(202);
    let own_run = json!({"suite": "echo"});
    server.post_as(&owner, "/v1/bench/runs", &own_run).await.ok(202);
}

/// Addresses on a page.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in ["href=\"", "action=\"", "data-events=\""] {
        for part in page.split(attribute).skip(1) {
            let link = part.split('"').next().unwrap_or_default().replace("&amp;", "&");
            if link.starts_with('/') && !link.starts_with("//") {
                found.push(link.split('#').next().unwrap_or_default().to_owned());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_shows_another_tenant() {
    const MOST: usize = 400;
    let Setting {
        server,
        _roots,
        owner,
        other,
        ids,
        own: _,
    } = setting(None).await;
    let mut known: BTreeSet<String> = BTreeSet::from(["/".to_owned()]);
    let mut queue: VecDeque<String> = known.iter().cloned().collect();
    let mut owned = 0;
    while let Some(link) = queue.pop_front() {
        if known.len() > MOST || link.contains("/events") {
            continue;
        }
        let own = server.get_as(&owner, &link).await;
        owned += usize::from(own.status == 200 && own.text.contains(OWNER));
        assert!(!own.text.contains(MAIN), "{link}");
        let foreign = server.get_as(&other, &link).await;
        assert_clean(&foreign.text, &link);
        assert!(foreign.status < 500, "{link}: {}", foreign.status);
        for next in links(&own.text) {
            if known.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
    assert!(owned >= 8, "{owned} pages with rows of the owner among {known:?}");
    // Forms of the pages, with the ids of the owner.
    for id in &ids {
        for form in [
            format!("/conversations/{id}/labels"),
            format!("/progress/{id}/labels"),
            format!("/bench/runs/{id}/notes"),
            format!("/bench/runs/{id}/labels"),
            "/retrieval/annotate".to_owned(),
        ] {
            let body = json!({"id": id, "run": id, "query_id": id});
            let answer = server.post_as(&other, &form, &body).await;
            assert_clean(&answer.text, &form);
        }
    }
}

/// Calls a method of the Model Context Protocol; returns the result or the error.
async fn mcp(server: &Running, token: &str, session: &str, method: &str, params: Value) -> (String, String) {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let mut request = server
        .request(Method::POST, "/mcp")
        .bearer_auth(token)
        .header("accept", "application/json, text/event-stream")
        .json(&message);
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    let response = request.send().await.unwrap();
    let opened = response.headers().get("mcp-session-id");
    let opened = opened.map_or_else(String::new, |id| id.to_str().unwrap().to_owned());
    (opened, response.text().await.unwrap())
}

async fn session(server: &Running, token: &str) -> String {
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"}});
    let (session, text) = mcp(server, token, "", "initialize", hello).await;
    assert!(!session.is_empty(), "{text}");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    server
        .request(Method::POST, "/mcp")
        .bearer_auth(token)
        .header("mcp-session-id", &session)
        .header("accept", "application/json, text/event-stream")
        .json(&ready)
        .send()
        .await
        .unwrap();
    session
}

fn result(text: &str) -> Value {
    let line = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let mut found = line.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
    found
        .rfind(|value| value.get("result").is_some() || value.get("error").is_some())
        .unwrap_or_else(|| panic!("no result in {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_reaches_another_tenant() {
    let Setting {
        server,
        _roots,
        owner,
        other,
        ids,
        own: _,
    } = setting(None).await;
    let (of_owner, of_other) = (session(&server, &owner).await, session(&server, &other).await);
    let (_, listed) = mcp(&server, &other, &of_other, "tools/list", json!({})).await;
    let listed = result(&listed);
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.len() > 10, "{listed}");
    let mut reached = 0;
    for tool in tools {
        let schema = &tool["inputSchema"];
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let document = json!({"$defs": schema["$defs"]});
        let takes_id = schema["properties"].to_string().contains("id");
        for id in ids.iter().take(if takes_id { ids.len() } else { 1 }) {
            let mut arguments = Map::new();
            for (name, field) in &properties {
                let is_required = schema["required"].to_string().contains(&format!("\"{name}\""));
                if is_required || name == "id" || name.ends_with("_id") || name == "query" {
                    let value = example(&document, field, 0);
                    arguments.insert(name.clone(), with_id(&value, id));
                }
            }
            let params = json!({"name": tool["name"], "arguments": arguments});
            let (_, text) = mcp(&server, &other, &of_other, "tools/call", params.clone()).await;
            assert_clean(&text, &format!("{} with {id}", tool["name"]));
            if tool["annotations"]["readOnlyHint"] == json!(true) {
                let (_, own) = mcp(&server, &owner, &of_owner, "tools/call", params).await;
                reached += usize::from(own.contains(OWNER));
            }
        }
    }
    assert!(reached > 0, "the owner's tools show its rows");
    for id in &ids {
        for kind in ["memory", "sessions", "conversations", "bench", "research"] {
            let uri = json!({"uri": format!("satiety://{kind}/{id}")});
            let (_, text) = mcp(&server, &other, &of_other, "resources/read", uri).await;
            assert_clean(&text, &format!("satiety://{kind}/{id}"));
        }
    }
    let (_, text) = mcp(&server, &other, &of_other, "resources/list", json!({})).await;
    assert_clean(&text, "resources/list");
    // A session belongs to the tenant that opened it.
    let (_, text) = mcp(&server, &other, &of_owner, "tools/list", json!({})).await;
    assert!(!text.contains("inputSchema"), "{text}");
}
