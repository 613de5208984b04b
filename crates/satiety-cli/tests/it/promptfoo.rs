//! promptfoo configurations, run in place: the same verdicts as promptfoo, and nothing lost silently.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::sandbox::means;
use crate::support::{Place, json_of};

/// Cases that are skipped, with an entry in the loss report, because they cannot be checked here.
const NOT_CHECKED: [&str; 2] = ["sql", "not sql"];

/// Statuses of the results by description and provider. Several prompts and lists of variables give several.
fn statuses(run: &Value) -> BTreeMap<String, Vec<(String, String)>> {
    let mut found: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for result in run["results"].as_array().unwrap() {
        let id = result["case_id"].as_str().unwrap();
        let id = id.split(" / prompt ").next().unwrap();
        let id = match id.rsplit_once(" (") {
            Some((before, number)) if number.trim_end_matches(')').parse::<u32>().is_ok() => before,
            _ => id,
        };
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        found
            .entry(id.to_owned())
            .or_default()
            .push((text("variant"), text("status")));
    }
    found
}

#[test]
fn verdicts_are_those_of_promptfoo() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promptfoo");
    let recorded = fs_err::read_to_string(folder.join("verdicts.json")).unwrap();
    let recorded: BTreeMap<String, BTreeMap<String, Vec<(String, bool)>>> =
        serde_json::from_str(&recorded).unwrap();
    assert!(recorded.len() >= 25);
    for (name, wanted) in recorded {
        let place = Place::new();
        let config =
            ["promptfooconfig.yaml", "promptfooconfig.json"].map(|file| folder.join(&name).join(file));
        let config = config.iter().find(|config| config.exists()).unwrap();
        let config = config.to_str().unwrap();
        let printed = place
            .command(&["bench", "run", config, "--format", "json"])
            .output()
            .unwrap();
        let run: Value = serde_json::from_slice(&printed.stdout)
            .unwrap_or_else(|_| panic!("{name}: {}", String::from_utf8_lossy(&printed.stderr)));
        let mut found = statuses(&run);
        for (description, wanted) in wanted {
            let mut rows = found
                .remove(&description)
                .unwrap_or_else(|| panic!("{name}: {description} is missing"));
            if NOT_CHECKED.contains(&description.as_str()) {
                assert!(
                    rows.iter().all(|(_, status)| status == "skipped"),
                    "{name}: {description}"
                );
                assert_eq!(printed.status.code(), Some(3), "{name}");
                continue;
            }
            rows.sort();
            // A run with a single provider has no variants.
            let unnamed = |(_, passed): &(String, bool)| *passed;
            let mut expected: Vec<bool> = wanted.iter().map(unnamed).collect();
            let mut passed: Vec<bool> = rows.iter().map(|(_, status)| status == "pass").collect();
            expected.sort_unstable();
            passed.sort_unstable();
            assert_eq!(passed, expected, "{name}: {description}: {rows:?}: {run:#}");
            let providers: Vec<&str> = wanted.iter().map(|(provider, _)| provider.as_str()).collect();
            if rows
                .iter()
                .all(|(variant, _)| providers.contains(&variant.as_str()))
            {
                let rows: Vec<(String, bool)> = rows
                    .into_iter()
                    .map(|(variant, status)| (variant, status == "pass"))
                    .collect();
                let mut sorted = rows.clone();
                sorted.sort();
                assert_eq!(sorted, wanted, "{name}: {description}");
            }
        }
        assert_eq!(found, BTreeMap::new(), "{name}");
    }
}

fn result<'a>(run: &'a Value, case: &str) -> &'a Value {
    let results = run["results"].as_array().unwrap();
    results.iter().find(|result| result["case_id"] == case).unwrap()
}

#[test]
fn similar_answers_are_found_with_the_built_in_model() {
    let place = Place::new();
    let config = json!({"prompts": ["{{text}}"], "providers": ["echo"], "tests": [
        {"description": "close", "vars": {"text": "The meeting starts at noon."},
         "assert": [{"type": "similar", "value": "The meeting begins at midday.", "threshold": 0.6, "metric": "meaning"}]},
        {"description": "one of several", "vars": {"text": "The meeting starts at noon."},
         "assert": [{"type": "similar:cosine", "value": ["I like cheese.", "The meeting begins at midday."], "threshold": 0.6}]},
        {"description": "far", "vars": {"text": "The meeting starts at noon."},
         "assert": [{"type": "similar", "value": "Penguins live in Antarctica."}]},
        {"description": "negated", "vars": {"text": "The meeting starts at noon."},
         "assert": [{"type": "not-similar", "value": "Penguins live in Antarctica."}]},
    ]});
    place.write("promptfooconfig.yaml", &config.to_string());
    let run = json_of(
        &place,
        &["bench", "run", "promptfooconfig.yaml", "--format", "json"],
    );
    for (case, status) in [
        ("close", "pass"),
        ("one of several", "pass"),
        ("far", "fail"),
        ("negated", "pass"),
    ] {
        assert_eq!(result(&run, case)["status"], status, "{run:#}");
    }
    assert_eq!(result(&run, "close")["scores"][0]["name"], "meaning");
    let reason = result(&run, "far")["reasons"][0].as_str().unwrap();
    assert!(reason.contains("is below the threshold 0.75"), "{reason}");
}

#[test]
fn python_code_of_a_configuration_reads_nothing_outside_of_its_directory() {
    if means().is_empty() {
        return;
    }
    let place = Place::new();
    let secret = place.write("secret.txt", "s3cret");
    place.write(
        "pf/steal.py",
        &format!(
            "def get_assert(output, context):\n    return open('{}').read() == 's3cret'\n",
            secret.display()
        ),
    );
    place.write(
        "pf/connect.py",
        "import socket\n\n\ndef get_assert(output, context):\n    socket.create_connection(('127.0.0.1', 9), timeout=1)\n    return True\n",
    );
    place.write(
        "pf/prompt.py",
        &format!(
            "def make(context):\n    return open('{}').read()\n",
            secret.display()
        ),
    );
    let config = json!({"prompts": [{"raw": "say", "label": "text"}, {"id": "file://prompt.py:make", "label": "code"}],
        "providers": ["echo"], "tests": [
        {"description": "steal", "prompts": ["text"], "assert": [{"type": "python", "value": "file://steal.py"}]},
        {"description": "connect", "prompts": ["text"], "assert": [{"type": "python", "value": "file://connect.py"}]},
        {"description": "prompt", "prompts": ["code"], "assert": [{"type": "contains", "value": "s3cret"}]}
    ]});
    place.write("pf/promptfooconfig.yaml", &config.to_string());
    let run = ["bench", "run", "pf/promptfooconfig.yaml", "--format", "json"];
    let printed = place.command(&run).output().unwrap();
    // The prompt could not be generated, so a verdict is lost.
    assert_eq!(printed.status.code(), Some(3));
    let confined: Value = serde_json::from_slice(&printed.stdout).unwrap();
    for (case, error) in [("steal", "FileNotFoundError"), ("connect", "Error")] {
        let found = result(&confined, &format!("{case} / prompt 1"));
        assert_eq!(found["status"], "fail", "{confined:#}");
        assert!(found["reasons"][0].as_str().unwrap().contains(error), "{found}");
    }
    assert_eq!(result(&confined, "prompt / prompt 2")["status"], "skipped");
    let open = place
        .command(&[&run[..], &["--no-sandbox"]].concat())
        .output()
        .unwrap();
    let open: Value = serde_json::from_slice(&open.stdout).unwrap();
    assert_eq!(result(&open, "steal / prompt 1")["status"], "pass", "{open:#}");
}

#[test]
fn files_of_the_repository_around_a_configuration_are_found() {
    let place = Place::new();
    fs_err::create_dir_all(place.path("repo/.git")).unwrap();
    place.write("outside.txt", "outside");
    place.write("repo/prompts/ask.txt", "Ask {{q}}");
    place.write(
        "repo/lib/check.js",
        "module.exports = (output) => output.startsWith('Ask');\n",
    );
    let config = json!({"prompts": ["file://../prompts/ask.txt"], "providers": ["echo"], "tests": [
        {"description": "inside", "vars": {"q": "why"}, "assert": [{"type": "javascript", "value": "file://../lib/check.js"}]},
        {"description": "outside", "vars": {"q": "file://../../outside.txt"}, "assert": [{"type": "contains", "value": "outside"}]}
    ]});
    place.write("repo/evals/promptfooconfig.yaml", &config.to_string());
    let shown = place.run(&[
        "bench",
        "run",
        "repo/evals/promptfooconfig.yaml",
        "--format",
        "json",
    ]);
    assert!(shown.starts_with("exit 3"), "{shown}");
    assert!(
        shown.contains("it is outside the configuration's directory"),
        "{shown}"
    );
    assert!(shown.contains(r#""pass": 1"#), "{shown}");
}

#[test]
fn http_providers_get_the_prompt_and_their_responses_are_transformed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&request).contains("French") {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&buffer[..read]);
        }
        let body = r#"{"choices": [{"text": "Bonjour"}]}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    let place = Place::new();
    let config = json!({
        "prompts": ["Translate {{word}}"],
        "providers": [{"id": "http", "label": "service", "config": {
            "url": format!("http://{address}/answer"), "method": "POST", "headers": {"x-kind": "test"},
            "body": {"question": "{{prompt}}", "language": "{{language}}"},
            "transformResponse": "json.choices[0].text"}}],
        "tests": [{"description": "asks", "vars": {"word": "Hello", "language": "French"},
            "assert": [{"type": "equals", "value": "Bonjour"}]}]
    });
    place.write("promptfooconfig.yaml", &config.to_string());
    let run = json_of(
        &place,
        &["bench", "run", "promptfooconfig.yaml", "--format", "json"],
    );
    assert_eq!(result(&run, "asks")["status"], "pass", "{run:#}");
    let request = server.join().unwrap();
    assert!(
        request.starts_with("POST /answer") && request.contains("x-kind: test"),
        "{request}"
    );
    assert!(request.contains(r#""question":"Translate Hello""#), "{request}");
}

#[test]
fn judged_assertions_wait_for_a_judge() {
    let place = Place::new();
    let kinds = [
        "llm-rubric",
        "factuality",
        "model-graded-closedqa",
        "g-eval",
        "answer-relevance",
    ];
    let tests: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"description": kind, "assert": [{"type": kind, "value": "is polite"}, {"type": "contains", "value": "hi"}]}))
        .collect();
    let config = json!({"prompts": ["hi"], "providers": ["echo"], "tests": tests});
    place.write("promptfooconfig.yaml", &config.to_string());
    let printed = place
        .command(&["bench", "run", "promptfooconfig.yaml", "--format", "json"])
        .output()
        .unwrap();
    // Nothing is decided, which is not a success.
    assert_eq!(printed.status.code(), Some(3));
    let run: Value = serde_json::from_slice(&printed.stdout).unwrap();
    for kind in kinds {
        let found = result(&run, kind);
        assert_eq!(found["status"], "pending", "{found}");
        assert_eq!(found["reasons"], json!(["pending: pass a judge with --judge"]));
    }
}

#[test]
fn what_cannot_be_checked_is_listed_with_its_place() {
    let place = Place::new();
    let config = json!({
        "prompts": ["hi"], "providers": ["echo", "google:gemini-pro"], "redteam": {"plugins": ["pii"]},
        "passRateThreshold": 0.5,
        "tests": [
            {"description": "best", "assert": [{"type": "select-best", "value": "shortest"}]},
            {"description": "ok", "assert": [{"type": "contains", "value": "hi", "surprise": 1}], "options": {"storeOutputAs": "x"}}
        ]
    });
    place.write("promptfooconfig.yaml", &config.to_string());
    let shown = place.run(&["bench", "run", "promptfooconfig.yaml"]);
    assert!(shown.starts_with("exit 3"), "{shown}");
    for part in [
        "redteam: changes verdicts and is not supported",
        "passRateThreshold: not imported",
        "tests[0].assert[0]: select-best: compares the answers",
        "tests[1].assert[0].surprise: not imported",
        "tests[1].options.storeOutputAs: changes verdicts",
        "provider `google:gemini-pro`: has no counterpart here",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let missing = place.run(&["bench", "run", "nosuch.yaml"]);
    assert!(
        missing.starts_with("exit 2") && missing.contains("promptfoo configuration"),
        "{missing}"
    );
}
