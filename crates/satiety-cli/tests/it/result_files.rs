//! Result files of other tools: compared without a store, imported as runs, and exported.

use serde_json::{Value, json};

use crate::support::{Place, json_of};

/// Log of Inspect in which the first `right` of 20 samples are correct, with a second scorer.
fn inspect_log(right: usize) -> String {
    let samples: Value = (0..20)
        .map(|id| {
            let value = if id < right { "C" } else { "I" };
            json!({"id": id, "epoch": 1, "input": "q", "target": "a",
                "scores": {"match": {"value": value}, "length": {"value": 40 + id}}})
        })
        .collect();
    json!({
        "version": 2, "status": "success", "samples": samples,
        "eval": {"task": "arithmetic", "eval_id": right.to_string(), "created": "2026-08-01T10:00:00+00:00", "model": "mock/model"},
        "stats": {"started_at": "2026-08-01T10:00:01+00:00", "completed_at": "2026-08-01T10:05:00+00:00"},
    })
    .to_string()
}

/// Whether any command has created a database.
fn has_database(place: &Place) -> bool {
    walk(&place.folder.path().to_path_buf())
        .iter()
        .any(|name| name.contains(".db") || name.contains("sqlite"))
}

fn walk(folder: &std::path::PathBuf) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(walk(&path));
        } else {
            names.push(path.display().to_string());
        }
    }
    names
}

#[test]
fn two_files_are_compared_without_a_database() {
    let place = Place::new();
    place.write("before.json", &inspect_log(20));
    place.write("after.json", &inspect_log(4));
    let compare = ["bench", "compare", "before.json", "after.json"];
    let undecided = place.run(&compare);
    assert!(
        undecided.starts_with("exit 2")
            && undecided.contains("before.json: scorer: must be chosen")
            && undecided.contains("length (40 to 59), match (1 to 1)")
            && undecided.contains("--scorer NAME"),
        "{undecided}"
    );
    let chosen = [&compare[..], &["--scorer", "match"]].concat();
    let compared = place.run(&chosen);
    assert!(
        compared.starts_with("exit 1")
            && compared.contains("REGRESSION")
            && compared.contains("after.json compared with before.json"),
        "{compared}"
    );
    let length = compared.lines().find(|line| line.contains("length")).unwrap();
    assert!(
        length.contains("49.500") && length.contains("+0.000"),
        "every scorer is compared: {compared}"
    );
    let report = place.run(&[&chosen[..], &["--format", "json"]].concat());
    assert!(
        report.starts_with("exit 1")
            && report.contains("\"verdict\": \"regression\"")
            && report.contains("\"baseline_run\": \"before.json\""),
        "{report}"
    );
    let same = place.run(&[
        "bench",
        "compare",
        "after.json",
        "after.json",
        "--scorer",
        "match",
    ]);
    assert!(same.starts_with("exit 0"), "{same}");
    assert!(!has_database(&place));

    // A file can be compared with a stored run, too.
    let import = place.run(&["bench", "import", "before.json", "--scorer", "match"]);
    assert!(import.starts_with("exit 0"), "{import}");
    let mixed = place.run(&["bench", "compare", "20", "after.json", "--scorer", "match"]);
    assert!(
        mixed.starts_with("exit 1") && mixed.contains("after.json compared with 20"),
        "{mixed}"
    );
    let other = place.run(&[
        "bench",
        "compare",
        "20",
        "after.json",
        "--scorer",
        "length",
        "--threshold",
        "50",
    ]);
    assert!(
        other.starts_with("exit 2") && other.contains("\"length\" decides in one and \"match\" in the other"),
        "{other}"
    );
}

/// Writes `before` and `after`, compares and imports them, and checks what is shown.
fn compare_and_import(place: &Place, flags: &[&str], files: [&str; 2], imported: &[&str]) {
    let [before, after] = files;
    let same = place.run(&[&["bench", "compare", before, before], flags].concat());
    assert!(same.starts_with("exit 0"), "{same}");
    let worse = place.run(&[&["bench", "compare", before, after], flags].concat());
    assert!(
        worse.starts_with("exit 1") && worse.contains("REGRESSION"),
        "{worse}"
    );
    assert!(!has_database(place), "{worse}");
    let import = place.run(&[&["bench", "import", after], flags].concat());
    assert!(import.starts_with("exit 0"), "{import}");
    for expected in imported {
        assert!(import.contains(expected), "{expected}: {import}");
    }
}

#[test]
fn junit_reports_are_compared() {
    let place = Place::new();
    let report = |right: usize| {
        let tests: Vec<String> = (0..20)
            .map(|id| {
                let failure = if id < right {
                    ""
                } else {
                    "<failure message=\"wrong\"/>"
                };
                format!("<testcase classname=\"tests.test_a\" name=\"test_{id}\" time=\"0.1\">{failure}</testcase>")
            })
            .collect();
        format!(
            "<testsuites><testsuite name=\"pytest\" tests=\"20\">{}</testsuite></testsuites>",
            tests.concat()
        )
    };
    place.write("before.xml", &report(20));
    place.write("after.xml", &report(4));
    compare_and_import(
        &place,
        &[],
        ["before.xml", "after.xml"],
        &["of pytest (after.xml): 20 results, 20.0 % passed"],
    );
    place.write("page.xml", "<html/>");
    let refused = place.run(&["bench", "import", "page.xml"]);
    assert!(
        refused.starts_with("exit 2") && refused.contains("page.xml: root element: must be"),
        "{refused}"
    );
}

#[test]
fn pytest_reports_and_logs_are_compared() {
    let place = Place::new();
    let outcome = |id: usize, right: usize| if id < right { "passed" } else { "failed" };
    let report = |right: usize| {
        let tests: Value = (0..20)
            .map(|id| json!({"nodeid": format!("a.py::t{id}"), "outcome": outcome(id, right), "call": {"outcome": outcome(id, right)}}))
            .collect();
        json!({"created": 1_785_578_400, "exitcode": 1, "root": "/", "tests": tests}).to_string()
    };
    let log = |right: usize| {
        let mut lines = vec![json!({"pytest_version": "9", "$report_type": "SessionStart"}).to_string()];
        for id in 0..20 {
            for (when, outcome) in [
                ("setup", "passed"),
                ("call", outcome(id, right)),
                ("teardown", "passed"),
            ] {
                let line = json!({"nodeid": format!("a.py::t{id}"), "when": when, "outcome": outcome, "$report_type": "TestReport"});
                lines.push(line.to_string());
            }
        }
        lines.push(json!({"exitstatus": 1, "$report_type": "SessionFinish"}).to_string());
        lines.join("\n")
    };
    place.write("before.json", &report(20));
    place.write("after.json", &report(4));
    place.write("after.jsonl", &log(4));
    // Both formats have the same ids, so they are comparable with each other.
    let mixed = place.run(&["bench", "compare", "after.json", "after.jsonl"]);
    assert!(mixed.starts_with("exit 0"), "{mixed}");
    compare_and_import(
        &place,
        &[],
        ["before.json", "after.jsonl"],
        &["of after (after.jsonl): 20 results, 20.0 % passed"],
    );
}

#[test]
fn helm_directories_are_compared() {
    let place = Place::new();
    for (run, right) in [("before", 20), ("after", 4)] {
        let stats: Value = (0..20)
            .map(|id| {
                let value = u8::from(id < right);
                let stat = |name: &str| json!({"name": {"name": name, "split": "test"}, "count": 1, "mean": value});
                json!({"instance_id": format!("id{id}"), "train_trial_index": 0, "stats": [stat("exact_match"), stat("quasi_exact_match"), stat("num_references")]})
            })
            .collect();
        place.write(&format!("{run}/per_instance_stats.json"), &stats.to_string());
        let state = json!({"adapter_spec": {"model": format!("org/{run}")}, "request_states": []});
        place.write(&format!("{run}/scenario_state.json"), &state.to_string());
        let spec = json!({"name": format!("mmlu:subject=anatomy,model=org_{run}")});
        place.write(&format!("{run}/run_spec.json"), &spec.to_string());
    }
    compare_and_import(
        &place,
        &[],
        ["before", "after/per_instance_stats.json"],
        &[
            "of mmlu:subject=anatomy (org/after): 20 results, 20.0 % passed",
            "quasi_exact_match",
        ],
    );
}

#[test]
fn deepeval_runs_are_compared() {
    let place = Place::new();
    let run = |right: usize| {
        let cases: Value = (0..20)
            .map(|id| {
                let is_right = id < right;
                json!({"name": format!("test_case_{id}"), "input": id.to_string(), "success": is_right, "metricsData": [
                    {"name": "Faithfulness", "score": if is_right { 0.9 } else { 0.1 }, "threshold": 0.5, "success": is_right, "reason": "because"}]})
            })
            .collect();
        json!({"testCases": cases, "conversationalTestCases": [], "metricsScores": []}).to_string()
    };
    place.write("before.json", &run(20));
    place.write("after.json", &run(4));
    compare_and_import(
        &place,
        &[],
        ["before.json", "after.json"],
        &["of after (after.json): 20 results, 20.0 % passed"],
    );
}

#[test]
fn tables_show_how_their_columns_were_read() {
    let place = Place::new();
    let csv = |right: usize| {
        let rows = (0..20).map(|id| format!("q{id},{},{id},fast\n", id < right));
        format!("task_id,success,judge_score,note\n{}", rows.collect::<String>())
    };
    let lines = |right: usize| {
        let rows = (0..20).map(|id| {
            format!(
                "{}\n",
                json!({"task_id": format!("q{id}"), "solved": u8::from(id < right)})
            )
        });
        rows.collect::<String>()
    };
    place.write("before.csv", &csv(20));
    place.write("after.csv", &csv(4));
    place.write("after.jsonl", &lines(4));
    let shown = place.run(&["bench", "compare", "before.csv", "after.jsonl"]);
    assert!(
        shown.starts_with("exit 1")
            && shown.contains("after.jsonl: columns read as case=task_id,passed=solved"),
        "{shown}"
    );
    let given = ["--map", "case=task_id,passed=success,score:quality=judge_score"];
    compare_and_import(
        &place,
        &given,
        ["before.csv", "after.csv"],
        &[
            "columns given: case=task_id,passed=success,score:quality=judge_score",
            "column note: not imported",
            "20 results, 20.0 % passed",
        ],
    );
    place.write("unclear.csv", "task_id,case_id,passed\n1,1,1\n");
    for (flags, expected) in [
        (
            &[][..],
            "`case` is ambiguous: it could be any of task_id, case_id",
        ),
        (
            &["--map", "case=nosuch"],
            "unknown column `nosuch` (expected one of: task_id",
        ),
        (&["--map", "who=case_id"], "unknown role `who`"),
    ] {
        let refused = place.run(&[&["bench", "import", "unclear.csv"], flags].concat());
        assert!(
            refused.starts_with("exit 2") && refused.contains(expected),
            "{refused}"
        );
    }
    let shown = place.run(&[
        "bench",
        "import",
        "unclear.csv",
        "--map",
        "case=task_id",
        "--suite-id",
        "mine",
    ]);
    assert!(
        shown.starts_with("exit 0")
            && shown.contains("of mine")
            && shown.contains("columns guessed: passed=passed"),
        "{shown}"
    );
}

#[test]
fn exports_are_read_back_with_the_same_verdicts() {
    let place = Place::new();
    let rows = (0..20).map(|id| {
        format!(
            "q{id},{},{id}.5,\"a, \"\"b\"\"\"\n",
            if id < 12 { "pass" } else { "fail" }
        )
    });
    place.write(
        "in.csv",
        &format!("case_id,status,judge_score,output\n{}", rows.collect::<String>()),
    );
    let import = [
        "bench",
        "import",
        "in.csv",
        "--suite-id",
        "desk",
        "--format",
        "json",
    ];
    let id = json_of(&place, &import)["run_id"].as_str().unwrap().to_owned();
    for file in ["out.csv", "out.parquet", "out.xml", "out.json", "out.eval.json"] {
        let shown = place.run(&["bench", "export", &id, file]);
        assert!(
            shown.starts_with("exit 0") && shown.contains(&format!("wrote 20 results of {id} to {file}")),
            "{shown}"
        );
        let compared = json_of(&place, &["bench", "compare", &id, file, "--format", "json"]);
        assert_eq!(compared["verdict"], "pass", "{file}: {compared:#}");
        assert_eq!(compared["pass"]["cases"], 20, "{file}");
        assert_eq!(
            (&compared["pass"]["candidate"], &compared["pass"]["worse"]),
            (&json!(0.6), &json!(0)),
            "{file}"
        );
    }
    let table = fs_err::read_to_string(place.path("out.csv")).unwrap();
    assert!(
        table.contains(",\"a, \"\"b\"\"\"") && table.contains("score.judge_score"),
        "{table}"
    );
    let log: Value =
        serde_json::from_str(&fs_err::read_to_string(place.path("out.eval.json")).unwrap()).unwrap();
    assert_eq!(
        log["samples"][3]["scores"]["judge_score"]["value"]
            .as_f64()
            .map(f64::fract),
        Some(0.5)
    );

    let named = place.run(&["bench", "export", &id, "log.txt", "--to", "inspect"]);
    assert!(named.starts_with("exit 0"), "{named}");
    let unknown = place.run(&["bench", "export", &id, "log.txt"]);
    assert!(
        unknown.starts_with("exit 2")
            && unknown.contains("unknown extension (expected one of: .csv, .parquet"),
        "{unknown}"
    );
    // A damaged file is an error, wherever the damage is.
    let bytes = fs_err::read(place.path("out.parquet")).unwrap();
    for position in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x55;
        fs_err::write(place.path("damaged.parquet"), damaged).unwrap();
        let shown = place.run(&["bench", "compare", "out.parquet", "damaged.parquet"]);
        assert!(!shown.starts_with("exit 70"), "byte {position}: {shown}");
    }
    fs_err::write(place.path("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    let cut = place.run(&["bench", "import", "cut.parquet"]);
    assert!(
        cut.starts_with("exit 2") && cut.contains("cut.parquet: "),
        "{cut}"
    );
}

#[test]
fn the_store_is_exported_as_parquet_by_day() {
    let place = Place::new();
    place.write("in.csv", "case_id,passed\na,1\nb,0\n");
    let import = place.run(&["bench", "import", "in.csv"]);
    assert!(import.starts_with("exit 0"), "{import}");
    let export = ["db", "export", "out", "--to", "parquet"];
    let shown = place.run(&export);
    assert!(
        shown.starts_with("exit 0") && shown.contains("0 superseded files removed"),
        "{shown}"
    );
    let files = walk(&place.path("out"));
    let is_by_day = |file: &String| file.contains("/bench_runs/day=") && file.contains("/0000-");
    assert!(files.iter().any(is_by_day), "{files:?}");
    let results = files
        .iter()
        .find(|file| file.contains("/bench_results/"))
        .unwrap();
    let table = place.run(&["bench", "import", results, "--suite-id", "again"]);
    assert!(
        table.starts_with("exit 0") && table.contains("2 results, 50.0 % passed"),
        "{table}"
    );
    // The import of the table is a second run: new files for it, and the old ones of its day are superseded.
    let again = place.run(&export);
    assert!(again.starts_with("exit 0"), "{again}");
    let unchanged = place.run(&export);
    assert!(unchanged.contains("\n0 files written"), "{unchanged}");
    place.write("mine/notes.txt", "");
    let refused = place.run(&["db", "export", "mine", "--to", "parquet"]);
    assert!(
        refused.starts_with("exit 2") && refused.contains("no manifest.json"),
        "{refused}"
    );
}

#[test]
fn reports_and_baselines_read_the_files_of_other_tools() {
    let place = Place::new();
    let mut rows = vec!["task_id,success,quality".to_owned()];
    rows.extend((0..20).map(|id| format!("q{id},{},0.5", id < 15)));
    place.write("before.csv", &rows.join("\n"));
    place.write(
        "junit.xml",
        r#"<testsuite name="t"><testcase name="a"/><testcase name="b"><failure>no</failure></testcase></testsuite>"#,
    );
    // A report needs no database, and shows what the file has.
    let report = json_of(&place, &["bench", "report", "junit.xml", "--format", "json"]);
    assert_eq!(report["summary"]["pass_rate"], 0.5);
    let shown = place.run(&["bench", "report", "before.csv"]);
    assert!(
        shown.starts_with("exit 0") && shown.contains("75.0 %") && shown.contains("case=task_id"),
        "{shown}"
    );
    assert!(!has_database(&place));
    let wrong = place.run(&["bench", "report", "before.csv", "--scorer", "nosuch"]);
    assert!(wrong.starts_with("exit 2") && wrong.contains("nosuch"), "{wrong}");
    // A baseline from a file is stored with its results, so that later runs can be compared with it.
    let accept = |more: &[&str]| {
        let base = [
            "bench",
            "baseline",
            "before.csv",
            "--reason",
            "old harness",
            "--by",
            "ann",
        ];
        place.run(&[&base, more].concat())
    };
    let accepted = accept(&["--suite-id", "desk"]);
    assert!(
        accepted.starts_with("exit 0") && accepted.contains("is the baseline of desk (75.0 % passed)"),
        "{accepted}"
    );
    let runs = json_of(&place, &["bench", "list", "--runs", "--format", "json"]);
    assert_eq!(runs["runs"][0]["suite_id"], "desk");
    // Accepting it again changes nothing but the record.
    assert!(accept(&["--suite-id", "desk"]).starts_with("exit 0"));
    let missing = place.run(&["bench", "report", "absent.csv"]);
    assert!(
        missing.starts_with("exit 2") && missing.contains("absent.csv"),
        "{missing}"
    );
    place.write("notes.json", r#"{"hello": 1}"#);
    let foreign = place.run(&["bench", "report", "notes.json"]);
    assert!(
        foreign.starts_with("exit 2") && foreign.contains("no results of a known tool"),
        "{foreign}"
    );
}
