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
        "prompts": ["hi"], "providers": ["echo", "bedrock:m", "google:gemini-pro"], "redteam": {"plugins": ["pii"]},
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
        "provider `bedrock:m`: has no counterpart here",
        "provider `google:gemini-pro`: needs the environment variable GEMINI_API_KEY",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let missing = place.run(&["bench", "run", "nosuch.yaml"]);
    assert!(
        missing.starts_with("exit 2") && missing.contains("promptfoo configuration"),
        "{missing}"
    );
}

/// Directory of a Node.js that runs TypeScript: of `SATIETY_TEST_NODE`, or in `PATH`.
fn typescript_node() -> Option<String> {
    let named = std::env::var("SATIETY_TEST_NODE").ok();
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = named.iter().map(String::as_str).chain(path.split(':'));
    for folder in folders {
        let node = Path::new(folder).join("node");
        let Ok(printed) = std::process::Command::new(node).arg("--version").output() else {
            continue;
        };
        let text = String::from_utf8_lossy(&printed.stdout)
            .trim()
            .trim_start_matches('v')
            .to_owned();
        let mut parts = text.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        if (parts.next(), parts.next()) >= (Some(22), Some(7)) {
            return Some(folder.to_owned());
        }
    }
    None
}

/// A configuration whose prompt, tests, provider and checks are TypeScript.
fn write_typescript(place: &Place) {
    place.write(
        "pf/types.ts",
        "export enum Tone { Polite = 'polite', Rude = 'rude' }\nexport interface Verdict { pass: boolean; score: number; reason: string }\n",
    );
    place.write(
        "pf/checks.ts",
        "import { Tone, type Verdict } from './types';\n\
         export function isPolite(output: string): Verdict {\n  const pass = output.includes(Tone.Polite);\n  return { pass, score: pass ? 1 : 0, reason: `tone of ${output}` };\n}\n\
         export default (output: string, context: { vars: Record<string, string> }): boolean => output.endsWith(context.vars.name);\n",
    );
    place.write(
        "pf/prompt.ts",
        "export default ({ vars }: { vars: { tone: string; name: string } }): string => `${vars.tone} ${vars.name}`;\n",
    );
    place.write(
        "pf/tests.ts",
        "const names: string[] = ['Ann', 'Bo'];\nexport default () => names.map((name) => ({ description: `generated ${name}`, vars: { name, tone: 'polite' } }));\n",
    );
    place.write(
        "pf/provider.ts",
        "export default class Bot {\n  constructor(private readonly options: { config: { prefix: string } }) {}\n  id(): string { return 'bot'; }\n  async callApi(prompt: string): Promise<{ output: string }> { return { output: this.options.config.prefix + prompt }; }\n}\n",
    );
    let config = json!({
        "prompts": ["file://prompt.ts"],
        "providers": [{"id": "file://provider.ts", "config": {"prefix": "Hi "}}],
        "defaultTest": {"assert": [
            {"type": "javascript", "value": "file://checks.ts:isPolite", "metric": "tone"},
            {"type": "javascript", "value": "file://checks.ts"},
        ]},
        "tests": ["file://tests.ts", {"path": "file://more.yaml"}],
    });
    place.write("pf/promptfooconfig.yaml", &config.to_string());
    place.write(
        "pf/more.yaml",
        "- {description: rude, vars: {name: Cy, tone: rude}}\n",
    );
}

#[test]
fn typescript_runs_where_node_supports_it() {
    let Some(folder) = typescript_node() else {
        eprintln!("skipped: no Node.js 22.7 or later in PATH or SATIETY_TEST_NODE");
        return;
    };
    let place = Place::new();
    write_typescript(&place);
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let printed = place
        .command(&["bench", "run", "pf/promptfooconfig.yaml", "--format", "json"])
        .env("PATH", path)
        .output()
        .unwrap();
    let run: Value = serde_json::from_slice(&printed.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&printed.stderr)));
    for (case, status) in [
        ("generated Ann", "pass"),
        ("generated Bo", "pass"),
        ("rude", "fail"),
    ] {
        assert_eq!(result(&run, case)["status"], status, "{run:#}");
    }
    assert_eq!(result(&run, "generated Ann")["actual_output"], Value::Null);
    assert_eq!(result(&run, "rude")["reasons"][0], "tone of Hi rude Cy");
}

#[test]
fn typescript_without_support_says_what_to_install() {
    let place = Place::new();
    write_typescript(&place);
    // A Node.js that is too old, whatever is installed.
    let node = place.write("old/node", "#!/bin/sh\necho v20.11.0\n");
    let mut mode = fs_err::metadata(&node).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs_err::set_permissions(&node, mode).unwrap();
    let path = format!(
        "{}:{}",
        node.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let printed = place
        .command(&["bench", "run", "pf/promptfooconfig.yaml"])
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&printed.stderr);
    assert_eq!(printed.status.code(), Some(2), "{said}");
    assert!(said.contains("needs Node.js 22.6 or later"), "{said}");
}

/// Recorded with promptfoo 0.121.20 (`prompts[].metrics.namedScores` of its results): name, prompt, value.
const DERIVED: [(&str, u64, f64); 6] = [
    ("mean_length", 1, 3.0),
    ("mean_length", 2, 7.0),
    ("f1", 1, 1.263_157_894_736_842),
    ("f1", 2, 4.0),
    ("scaled", 1, 126.315_789_473_684_2),
    ("scaled", 2, 400.0),
];

#[test]
fn derived_metrics_are_those_of_promptfoo() {
    let place = Place::new();
    let check = |value: &str, metric: &str, weight: f64| json!({"type": "javascript", "value": value, "metric": metric, "weight": weight});
    let config = json!({
        "prompts": ["{{a}}", "say {{a}}"],
        "providers": [{"id": "echo", "label": "one"}, {"id": "echo", "label": "two"}],
        "derivedMetrics": [
            {"name": "mean_length", "value": "length / __count"},
            {"name": "f1", "value": "2 * precision * recall / (precision + recall)"},
            {"name": "scaled", "value": "f1 * 100"},
            {"name": "unknown", "value": "nothing + 1"},
            {"name": "assigned", "value": "x = 3"},
        ],
        "defaultTest": {"assert": [
            check("output.length", "length", 1.0),
            check("output.includes('a') ? 1 : 0.5", "precision", 2.0),
            check("output.startsWith('say') ? 1 : 0.25", "recall", 1.0),
        ]},
        "tests": [{"vars": {"a": "abc"}}, {"vars": {"a": "de"}}, {"vars": {"a": "fghi"}}],
    });
    place.write("promptfooconfig.yaml", &config.to_string());
    let args = ["bench", "run", "promptfooconfig.yaml", "--format", "json"];
    let printed = place.command(&args).output().unwrap();
    let run: Value = serde_json::from_slice(&printed.stdout).unwrap();
    for variant in ["one", "two"] {
        let derived = &run["variants"][variant]["derived"];
        let value = |name: &str, prompt: u64| {
            let list = derived.as_array().unwrap();
            let found = list
                .iter()
                .find(|metric| metric["name"] == name && metric["prompt"] == prompt);
            found.unwrap_or_else(|| panic!("{derived:#}"))["value"].as_f64()
        };
        for (name, prompt, wanted) in DERIVED {
            let found = value(name, prompt).unwrap();
            assert!(
                (found - wanted).abs() < 1e-9,
                "{variant} {name} {prompt}: {found}"
            );
        }
        assert_eq!(value("unknown", 1), None);
    }
    let said = String::from_utf8_lossy(&printed.stderr).into_owned() + &run.to_string();
    assert!(said.contains("derivedMetrics[4].value"), "{said}");
    place.write("out.md", "");
    let shown = place
        .command(&["bench", "run", "promptfooconfig.yaml", "--markdown", "out.md"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let markdown = fs_err::read_to_string(place.path("out.md")).unwrap();
    for text in [text, markdown] {
        assert!(text.contains("mean_length (prompt 2)"), "{text}");
        assert!(
            text.contains("not computed: no score is named `nothing`"),
            "{text}"
        );
    }
}

#[test]
fn each_provider_is_gated() {
    let place = Place::new();
    let tests: Vec<Value> = (0..20)
        .map(|index| {
            json!({"description": format!("case {index}"), "vars": {"word": format!("word {index}")},
                   "assert": [{"type": "contains", "value": "word"}]})
        })
        .collect();
    let config = json!({
        "prompts": ["{{word}}"],
        "providers": [{"id": "echo", "label": "steady"}, {"id": "file://bot.cjs", "label": "unsteady"}],
        "evaluateOptions": {"repeat": 5},
        "tests": tests,
    });
    place.write("promptfooconfig.json", &config.to_string());
    place.write(
        "bot.cjs",
        "module.exports = async (prompt) => ({ output: prompt });\n",
    );
    let gate = |place: &Place, more: &[&str]| {
        let args = [
            &[
                "bench",
                "run",
                "promptfooconfig.json",
                "--format",
                "json",
                "--no-sandbox",
            ],
            more,
        ]
        .concat();
        let printed = place.command(&args).output().unwrap();
        let said = String::from_utf8_lossy(&printed.stderr).into_owned();
        let run = serde_json::from_slice::<Value>(&printed.stdout).unwrap_or_default();
        (run, printed.status.code(), said)
    };
    let (run, code, said) = gate(&place, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(run["variants"]["unsteady"]["pass_rate"], 1.0);
    let accept = ["bench", "baseline", "latest", "--reason", "first", "--by", "ann"];
    assert!(place.command(&accept).status().unwrap().success());
    // The second provider gets worse; by name it is the last.
    place.write(
        "bot.cjs",
        "module.exports = async (prompt) => ({ output: Number(prompt.slice(5)) < 8 ? 'no' : prompt });\n",
    );
    let (run, code, said) = gate(&place, &["--gate"]);
    assert_eq!(code, Some(1), "{said}");
    let verdicts: Vec<(&str, &str)> = run["gate"]["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variant| {
            (
                variant["variant"].as_str().unwrap(),
                variant["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(verdicts, [("steady", "pass"), ("unsteady", "regression")]);
    assert!(
        run["gate"]["reasons"][0]
            .as_str()
            .unwrap()
            .starts_with("unsteady: ")
    );
    // A bar applies to each provider, too.
    assert_eq!(gate(&place, &["--fail-under", "0.9"]).1, Some(1));
    // One verdict for several providers cannot stop a run early.
    for flag in ["--until-decided", "--sequential"] {
        let (_, code, said) = gate(&place, &["--gate", flag]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("steady, unsteady"), "{said}");
    }
    // A single target is compared with itself in the baseline, or with nothing.
    let (run, code, said) = gate(&place, &["--gate", "--target", "echo"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        run["gate"]["reasons"][0]
            .as_str()
            .unwrap()
            .contains("no target in common"),
        "{run:#}"
    );
}
