//! Every request field that could name a location on this machine or its network, found in the documents that the server
//! generates: the OpenAPI document, and the schemas of the tools at `/mcp`. The test fails for a new field that is not
//! listed here with its restriction.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use satiety_server::mcp::{Profile, Registry};
use serde_json::{Value, json};

use crate::support::{Options, Running, start_with};

/// Words in the name of a field that could be a location.
const SUSPICIOUS: [&str; 17] = [
    "url",
    "uri",
    "path",
    "folder",
    "file",
    "command",
    "source",
    "host",
    "address",
    "program",
    "suite",
    "root",
    "target",
    "record",
    "directory",
    "env",
    "webhook",
];

/// Restriction of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Held {
    /// Only paths below the root, or entries of a list of the server; everything else is refused.
    Refused,
    /// A label: it is stored and compared, and never opened.
    Label,
}

/// Fields of requests, with their restrictions.
const FIELDS: [(&str, &str, Held); 11] = [
    ("GET /v1/bench/runs", "suite", Held::Label),
    ("GET /v1/memories", "folder", Held::Label),
    ("PATCH /v1/memories/{id}", "folder", Held::Label),
    ("POST /v1/bench/runs", "suite", Held::Refused),
    ("POST /v1/conversations", "profile", Held::Refused),
    ("POST /v1/memories", "folder", Held::Label),
    ("POST /v1/memories/import", "folder", Held::Label),
    ("POST /v1/memories/import", "source", Held::Label),
    ("POST /v1/memory/index", "folder", Held::Refused),
    ("POST /v1/memory/search", "folder", Held::Label),
    ("POST /v1/score", "profile", Held::Refused),
];
/// Fields of research requests, which are restricted to listed names.
const NAMES: [(&str, &str, Held); 1] = [("POST /v1/research/runs", "source", Held::Refused)];

/// Arguments of tools at `/mcp`: a suite below the root and its label, labels of memories, addresses of results that are
/// assessed and not fetched, and whether a conversation is recorded.
const ARGUMENTS: [(&str, &str); 10] = [
    ("bench_run", "suite"),
    ("bench_status", "suite"),
    ("gate", "url"),
    ("memory_context", "folder"),
    ("memory_list", "folder"),
    ("memory_save", "folder"),
    ("memory_search", "folder"),
    ("memory_update", "folder"),
    ("score_conversation", "record"),
    ("task_preflight", "folder"),
];

fn is_suspicious(name: &str) -> bool {
    // The resource of OTLP is what produced a span; records of an import are its content, and a memory is recorded at
    // a time.
    let name = name
        .to_lowercase()
        .replace("resource", "")
        .replace("recorded_", "")
        .replace("records", "");
    SUSPICIOUS.iter().any(|word| name.contains(word))
}

/// Names of properties that could be locations, at any depth.
fn walk(schema: &Value, document: &Value, seen: &mut BTreeSet<String>, found: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        if seen.insert(reference.to_owned()) {
            let target = document.pointer(reference.trim_start_matches('#')).unwrap();
            walk(target, document, seen, found);
        }
        return;
    }
    match schema {
        Value::Object(parts) => {
            for (key, part) in parts {
                if key == "properties"
                    && let Some(properties) = part.as_object()
                {
                    found.extend(properties.keys().filter(|name| is_suspicious(name)).cloned());
                    properties
                        .values()
                        .for_each(|one| walk(one, document, seen, found));
                } else if !matches!(
                    key.as_str(),
                    "enum" | "const" | "default" | "examples" | "description"
                ) {
                    walk(part, document, seen, found);
                }
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| walk(part, document, seen, found)),
        _ => {}
    }
}

#[test]
fn every_field_that_could_name_a_location_is_listed() {
    let document = satiety_server::openapi::document();
    let mut found: BTreeSet<(String, String)> = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = format!("{} {path}", method.to_uppercase());
            let mut names = BTreeSet::new();
            for parameter in operation["parameters"].as_array().unwrap() {
                let parameter = parameter["name"].as_str().unwrap();
                if is_suspicious(parameter) {
                    names.insert(parameter.to_owned());
                }
            }
            walk(
                &operation["requestBody"],
                &document,
                &mut BTreeSet::new(),
                &mut names,
            );
            found.extend(names.into_iter().map(|field| (name.clone(), field)));
        }
    }
    let listed: BTreeSet<(String, String)> = FIELDS
        .iter()
        .chain(&NAMES)
        .map(|(operation, field, _)| ((*operation).to_owned(), (*field).to_owned()))
        .collect();
    assert_eq!(
        found, listed,
        "list new fields in this file with their restriction"
    );
}

#[test]
fn every_tool_argument_that_could_name_a_location_is_listed() {
    let registry = Registry::from_profile(Profile::Full).for_remote_callers();
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for tool in registry.tools() {
        let schema = Value::Object(tool.input_schema().clone());
        let mut names = BTreeSet::new();
        walk(&schema, &schema, &mut BTreeSet::new(), &mut names);
        if !names.is_empty() {
            found.insert(tool.name(), names);
        }
    }
    let mut listed: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (tool, argument) in ARGUMENTS {
        listed.entry(tool).or_default().insert(argument.to_owned());
    }
    assert_eq!(
        found, listed,
        "list new arguments in this file; remote callers may not name locations"
    );
}

/// Locations on this machine and its network; one of them reports visits.
fn places(canary: u16) -> Vec<String> {
    let mut places: Vec<String> = [
        "/etc/passwd",
        "../../../../etc/passwd",
        "file:///etc/passwd",
        "local:/etc",
        "replay:/etc/passwd",
        "mcp:/etc/passwd",
        "command:/bin/cat /etc/passwd",
        "http://169.254.169.254/latest/meta-data/",
        "\\\\127.0.0.1\\share",
        "/proc/self/environ",
    ]
    .map(str::to_owned)
    .to_vec();
    places.push(format!("http://127.0.0.1:{canary}/"));
    places.push(format!("searxng:http://127.0.0.1:{canary}/"));
    places
}

/// A complete request with a location in the field.
async fn send(server: &Running, memory: &str, operation: &str, field: &str, place: &str) -> (u16, String) {
    let (method, path) = operation.split_once(' ').unwrap();
    let path = path.replace("{id}", memory);
    let mut body = match operation {
        "POST /v1/memories" => json!({"title": "t", "content": "c"}),
        "POST /v1/memories/import" => json!({"source": "s", "records": [{"content": "c"}]}),
        "POST /v1/memory/search" => json!({"query": "c"}),
        "POST /v1/score" => json!({"conversation": {"rounds": [{"round": 1, "outputs": {"claims": ["x"]}}]}}),
        "POST /v1/research/runs" => json!({"task": "t"}),
        _ => json!({}),
    };
    let request = if method == "GET" {
        let encoded: Vec<String> = place.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let encoded = encoded.concat();
        server.request(reqwest::Method::GET, &format!("{path}?{field}={encoded}"))
    } else {
        body[field] = json!(place);
        server.request(method.parse().unwrap(), &path).json(&body)
    };
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_field_gives_access_to_a_location() {
    let root = tempfile::tempdir().unwrap();
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port();
    let server = start_with(Options {
        root: Some(root.path().to_path_buf()),
        research: "notes=local:/nowhere".into(),
        ..Options::default()
    })
    .await;
    let saved = server
        .post("/v1/memories", &json!({"title": "t", "content": "c"}))
        .await
        .json();
    let memory = saved["memory"]["id"].as_str().unwrap();
    for (operation, field, held) in FIELDS.iter().chain(&NAMES) {
        for place in places(port) {
            let (status, text) = send(&server, memory, operation, field, &place).await;
            let fine = match held {
                Held::Refused => (400..500).contains(&status),
                Held::Label => status < 500,
            };
            assert!(fine, "{operation} {field} {place:?}: {status} {text}");
            for sign in ["root:x:", "daemon:", "PATH="] {
                assert!(!text.contains(sign), "{operation} {field} {place:?}: {text}");
            }
        }
    }
    // Addresses inside of assessed data are data.
    let hits = json!([{"title": "t", "url": format!("http://127.0.0.1:{port}/"), "snippet": "s"}]);
    let body = json!({"task": "t", "rounds": [{"query": "q", "results": hits}]});
    assert_eq!(server.post("/v1/gate", &body).await.status, 200);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let visit = canary.accept();
    assert!(
        visit
            .as_ref()
            .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
        "the location was visited: {visit:?}"
    );
}
