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
    let chat = &found.suite.cases[1].input;
    assert_eq!(
        (chat.goal.as_str(), chat.messages.as_ref().unwrap().len()),
        ("Hello", 2)
    );
    assert_eq!(found.suite.metadata["providers"], json!(["openai:gpt-5"]));
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
    assert_eq!(status(&found.suite.cases[4], "x", 1.0), Status::Skipped);
    assert_eq!(found.report.imported, 8);
    assert_eq!(
        found.report.skipped["test 2 / prompt 1"],
        "variable file not found: file://long.txt"
    );
    let reason = found.suite.cases[4].expected.unsupported_reason();
    assert_eq!(reason.as_deref(), Some("javascript: requires running code"));
    assert_eq!(found.report.needs.iter().collect::<Vec<_>>(), ["long.txt"]);
    assert_eq!(found.report.assertions["latency"], 10);

    for (assertion, reason) in [
        (
            "{type: similar, value: x}",
            "similar: requires an embedding model",
        ),
        ("{type: trace-span-count}", "trace-span-count: not supported"),
        (
            "{type: contains, value: file://x.js}",
            "contains: file://x.js requires running code",
        ),
        (
            "{type: contains, value: x, transform: output.trim()}",
            "contains: requires a code transform of the answer",
        ),
        (
            "{type: regex, value: '(?<=a)b'}",
            "is not a supported regular expression",
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
            &|_| None,
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
        &|_| None,
    )
    .unwrap();
    assert_eq!(nothing.report.skipped["test 1"], "the test has no assertions");
    let code = import_promptfoo(
        Named {
            file: "p.yaml",
            text: "prompts: [file://p.py]\ntests: [{assert: [{type: equals, value: x}]}]",
        },
        "s",
        &|_| None,
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
