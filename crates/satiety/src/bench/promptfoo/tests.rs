use super::*;
use crate::bench::matching::{Answers, Observed, assess};
use crate::bench::run::Status;

const CONFIG: &str = r"
description: Translations
prompts:
  - 'Translate to {{language}}: {{input}}'
  - file://chat.json
providers: [openai:gpt-5]
defaultTest:
  assert:
    - {type: latency, threshold: 2000}
tests:
  - description: greeting
    vars: {language: [French, German], input: Hello}
    assert:
      - {type: icontains, value: 'b'}
      - {type: not-contains, value: '{{input}}', weight: 2}
  - vars: {language: French, input: file://long.txt}
    threshold: 0.5
    assert:
      - type: assert-set
        threshold: 0.5
        assert: [{type: contains-any, value: 'x, y'}, {type: regex, value: '^\d'}]
      - {type: javascript, value: 'output.length > 3'}
  - file://more.csv
";

fn lookup(name: &str) -> Option<String> {
    match name {
        "chat.json" => Some(r#"[{"role": "system", "content": "You translate"}, {"role": "user", "content": "{{input}}"}]"#.into()),
        "more.csv" => Some("input,__expected,__expected2,__description\nHi,\"contains: a\",is-json,from csv\nBye,Au revoir,,\n".into()),
        _ => None,
    }
}

fn import() -> PromptfooImport {
    import_promptfoo(
        Named {
            file: "promptfooconfig.yaml",
            text: CONFIG,
        },
        "translations",
        &lookup,
    )
    .unwrap()
}

fn status(case: &BenchmarkCase, output: &str, latency: f64) -> Status {
    let observed = Observed {
        output: json!(output),
        metrics: [("latency_ms".to_owned(), latency)].into(),
    };
    assess(&case.expected, &observed, &Answers::default()).status
}

#[test]
fn prompts_and_tests_are_combined_with_lists_expanded() {
    let found = import();
    let ids: Vec<&str> = found
        .suite
        .cases
        .iter()
        .map(|case| case.case_id.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "greeting / prompt 1",
            "greeting / prompt 2",
            "greeting / prompt 1 (2)",
            "greeting / prompt 2 (2)",
            "test 2 / prompt 1",
            "test 2 / prompt 2",
            "from csv / prompt 1",
            "from csv / prompt 2",
            "test 4 / prompt 1",
            "test 4 / prompt 2",
        ]
    );
    assert_eq!(found.suite.cases[0].input.goal, "Translate to French: Hello");
    assert_eq!(found.suite.cases[2].input.goal, "Translate to German: Hello");
    let chat: Value = serde_json::from_str(&found.suite.cases[1].input.goal).unwrap();
    assert_eq!(
        (chat.as_array().unwrap().len(), &chat[1]["content"]),
        (2, &json!("Hello"))
    );
    assert_eq!(found.suite.metadata["providers"], json!([{"id": "openai:gpt-5"}]));
}

#[test]
fn assertions_keep_their_meaning() {
    let found = import();
    let greeting = &found.suite.cases[0];
    assert_eq!(status(greeting, "Bonjour", 100.0), Status::Pass);
    assert_eq!(status(greeting, "Bonjour, Hello", 100.0), Status::Fail);
    assert_eq!(status(greeting, "Bonjour", 3000.0), Status::Fail);
    let csv = &found.suite.cases[6];
    assert_eq!(status(csv, "[\"a\"]", 1.0), Status::Pass);
    assert_eq!(status(csv, "a", 1.0), Status::Fail);
    assert_eq!(status(&found.suite.cases[8], "Au revoir", 1.0), Status::Pass);
}

#[test]
fn unsupported_parts_are_skipped_and_reported() {
    let found = import();
    assert_eq!(found.report.imported, 8);
    assert_eq!(
        found.report.skipped["test 2 / prompt 1"],
        "variable file not found: file://long.txt"
    );
    assert_eq!(found.suite.cases[4].expected.unsupported_reason(), None);
    assert_eq!(found.report.needs.iter().collect::<Vec<_>>(), ["long.txt"]);
    assert_eq!(found.report.assertions["latency"], 10);

    for (assertion, reason) in [
        ("{type: is-sql}", "is-sql: not supported"),
        ("{type: trace-span-count}", "trace-span-count: requires traces"),
        ("{type: moderation}", "moderation: requires a hosted classifier"),
        (
            "{type: select-best, value: x}",
            "select-best: compares the answers",
        ),
        (
            "{type: perplexity, threshold: 5}",
            "perplexity: requires token probabilities",
        ),
        (
            "{type: contains, value: file://x.js}",
            "contains: file://x.js requires running code",
        ),
        (
            "{type: similar, value: x, transform: file://gone.js}",
            "similar: file not found: gone.js",
        ),
        (
            "{type: javascript, value: file://x.ts}",
            "javascript: x.ts is TypeScript, which needs Node.js 22.6",
        ),
        (
            "{type: javascript, value: file://x.rb}",
            "javascript: cannot run x.rb",
        ),
        ("{type: latency}", "latency: `threshold` is missing"),
    ] {
        let text = format!("prompts: [hi]\ntests: [{{assert: [{assertion}]}}]");
        let found = import_promptfoo(
            Named {
                file: "p.yaml",
                text: &text,
            },
            "s",
            &|_: &str| None,
        )
        .unwrap();
        let skipped = found.report.skipped.values().next().unwrap();
        assert!(skipped.contains(reason), "{assertion}: {skipped}");
    }
    let nothing = import_promptfoo(
        Named {
            file: "p.yaml",
            text: "prompts: [hi]",
        },
        "s",
        &|_: &str| None,
    )
    .unwrap();
    assert_eq!(nothing.report.imported, 1);
    let loss = &nothing.report.losses[0];
    assert!(
        loss.reason.contains("passes whenever the target answers") && !loss.decides,
        "{loss}"
    );
    let code = import_promptfoo(
        Named {
            file: "p.yaml",
            text: "prompts: [file://p.py]\ntests: [{assert: [{type: equals, value: x}]}]",
        },
        "s",
        &|_: &str| Some(String::new()),
    )
    .unwrap();
    assert!(
        code.suite.cases[0]
            .skip
            .as_deref()
            .unwrap()
            .contains("requires running code")
    );
}

#[test]
fn an_imported_suite_is_valid() {
    let found = import();
    assert_eq!(crate::bench::check_suite(&found.suite, "imported", &[]), []);
    assert!(
        import_promptfoo(
            Named {
                file: "p.yaml",
                text: "- 1"
            },
            "s",
            &lookup
        )
        .is_err()
    );
}

/// The expectation of a case with this assertion.
fn expectation(assertion: &str) -> BenchmarkExpected {
    let text = format!("prompts: [hi]\ntests: [{{assert: [{assertion}], options: {{}}}}]");
    let files = |name: &str| (name == "grade.js").then(|| "module.exports = () => true".to_owned());
    let named = Named {
        file: "p.yaml",
        text: &text,
    };
    let found = import_promptfoo(named, "s", &files).unwrap();
    assert_eq!(found.report.losses, [], "{assertion}");
    found.suite.cases[0].expected.clone()
}

/// The program of the first case's expectation.
fn check(assertion: &str) -> (Mode, Value) {
    let expected = expectation(assertion);
    (expected.mode, expected.value.unwrap())
}

#[test]
fn code_is_kept_and_assertions_of_javascript_become_code() {
    assert_eq!(
        check("{type: javascript, value: 'output.length > 3'}"),
        (Mode::Javascript, json!("output.length > 3"))
    );
    assert_eq!(
        check("{type: python, value: 'len(output) > 3'}"),
        (Mode::Python, json!("len(output) > 3"))
    );
    assert_eq!(
        check("{type: javascript, value: 'file://grade.js:check', config: {least: 2}}"),
        (
            Mode::Javascript,
            json!({"file": "grade.js", "function": "check", "config": {"least": 2}})
        )
    );
    let changed = expectation("{type: contains, value: x, transform: output.trim()}");
    assert_eq!(changed.mode, Mode::Contains);
    assert_eq!(changed.transforms, [Transform::inline("output.trim()")]);
    let similar = expectation("{type: 'similar:cosine', value: [x, y], threshold: 0.8}");
    assert_eq!((similar.mode, similar.threshold), (Mode::Similar, Some(0.8)));
    for kind in ["answer-relevance", "context-faithfulness", "context-relevance"] {
        assert_eq!(check(&format!("{{type: {kind}}}")).0, Mode::LlmJudge, "{kind}");
    }
    for assertion in [
        "{type: regex, value: '(?<=a)b'}",
        "{type: rouge-n, value: x}",
        "{type: is-refusal}",
        "{type: is-xml}",
        "{type: levenshtein, value: abc, threshold: 2}",
        "{type: word-count, value: {min: 2}}",
    ] {
        assert_eq!(check(assertion).0, Mode::Javascript, "{assertion}");
    }
}

const WIDE: &str = r"
prompts: [prompts/*.txt, {raw: 'Third {{q}}', label: third}]
defaultTest: {options: {prefix: '<', suffix: '>', repeat: 3}}
tests: tests/*.yaml
scenarios:
  - config: [{vars: {q: a}}, {vars: {q: b}}]
    tests: [{prompts: [third], assert: [{$ref: '#/assertionTemplates/short', metric: ignored}]}]
assertionTemplates: {short: {type: javascript, value: output.length < 9, metric: brevity}}
redteam: {plugins: []}
surprise: 1
";

struct Wide;

impl ConfigFiles for Wide {
    fn read(&self, name: &str) -> Option<String> {
        match name {
            "prompts/a.txt" => Some("First {{q}}\n---\nSecond {{q}}".into()),
            "tests/one.yaml" => Some(
                "- {vars: {q: x}, assert: [{type: equals, value: y, surprise: 2}], transformVars: z}".into(),
            ),
            _ => None,
        }
    }

    fn list(&self) -> Vec<String> {
        vec![
            "tests/one.yaml".into(),
            "prompts/a.txt".into(),
            "prompts/a.md".into(),
        ]
    }
}

#[test]
fn wildcards_scenarios_templates_and_options_are_understood() {
    let named = Named {
        file: "p.yaml",
        text: WIDE,
    };
    let found = import_promptfoo(named, "s", &Wide).unwrap();
    let goals: Vec<&str> = found
        .suite
        .cases
        .iter()
        .map(|case| case.input.goal.as_str())
        .collect();
    assert_eq!(
        goals,
        ["<First x>", "<Second x>", "<Third x>", "<Third a>", "<Third b>"]
    );
    assert!(found.suite.cases.iter().all(|case| case.repeats == Some(3)));
    assert_eq!(found.suite.cases[3].expected.name.as_deref(), Some("brevity"));
    let losses: Vec<(&str, bool)> = found
        .report
        .losses
        .iter()
        .map(|loss| (loss.place.as_str(), loss.decides))
        .collect();
    assert_eq!(
        losses,
        [
            ("redteam", true),
            ("surprise", false),
            ("tests/one.yaml[0].assert[0].surprise", false),
            ("tests/one.yaml[0].transformVars", false),
        ]
    );
}

#[test]
fn a_configuration_without_cases_is_an_error() {
    for (text, expected) in [
        (
            "prompts: [hi]\ntests: missing.csv",
            "tests: gives no cases; tests[0]: test file not found: missing.csv",
        ),
        ("prompts: [hi]\ntests: []", "tests: gives no cases"),
        ("title: x", "not a promptfoo configuration"),
    ] {
        let named = Named { file: "p.yaml", text };
        let message = import_promptfoo(named, "s", &|_: &str| None)
            .unwrap_err()
            .to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}
