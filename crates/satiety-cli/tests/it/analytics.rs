//! A Parquet export of a real database: read back by the commands, and by `DuckDB` with the queries of the guide.

use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Place, json_of};

const DB: &[&str] = &["--db", "sqlite:demo/demo.db"];

/// A database filled by the demo, with a search that finds nothing and grades of a person, and its export.
fn exported() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = Place::new();
        let shown = place.run(&["demo", "--keep=demo"]);
        assert!(shown.starts_with("exit 0"), "{shown}");
        let run = |arguments: &[&str]| {
            let shown = place.run(&[DB, arguments].concat());
            assert!(shown.starts_with("exit 0"), "{arguments:?}: {shown}");
        };
        run(&["memory", "search", "zyzzyva quokka marzipan"]);
        run(&["retrieval", "export", "corpus.jsonl"]);
        // The grades of the demo come from feedback; a person gives the same ones.
        let corpus = fs_err::read_to_string(place.path("corpus.jsonl")).unwrap();
        let manual = corpus.lines().map(|line| {
            let mut query: Value = serde_json::from_str(line).unwrap();
            for judgment in query["judgments"].as_array_mut().unwrap() {
                judgment["source"] = "manual".into();
            }
            format!("{query}\n")
        });
        place.write("manual.jsonl", &manual.collect::<String>());
        run(&["retrieval", "import", "manual.jsonl"]);
        run(&["db", "export", "store", "--to", "parquet"]);
        place
    })
}

fn json(arguments: &[&str]) -> Value {
    json_of(exported(), &[DB, arguments, &["--format", "json"]].concat())
}

#[test]
fn runs_of_an_export_are_compared_like_stored_ones() {
    let place = exported();
    let runs = json(&["bench", "list", "--runs"]);
    let runs = runs["runs"].as_array().or_else(|| runs.as_array()).unwrap();
    let ids: Vec<&str> = runs
        .iter()
        .filter(|run| run["suite_id"] == "greeter")
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    let (new, old) = (ids[0], ids[1]);
    let compare = |baseline: &str, candidate: &str| {
        let output = place
            .command(&[DB, &["bench", "compare", baseline, candidate, "--format", "json"]].concat())
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (
            output.status.code(),
            report["verdict"].clone(),
            report["changes"].clone(),
        )
    };
    let stored = compare(old, new);
    assert_eq!(compare(&format!("store#{old}"), &format!("store#{new}")), stored);
    let shown = place.run(&[DB, &["bench", "compare", "store#none", "store"]].concat());
    assert!(
        shown.starts_with("exit 2") && shown.contains("cannot find run `none`"),
        "{shown}"
    );
    let newest = runs[0]["run_id"].as_str().unwrap();
    assert!(shown.contains(newest), "the error lists the newest runs: {shown}");
    let shown = place.run(&[DB, &["bench", "report", &format!("store#{new}")]].concat());
    assert!(
        shown.starts_with("exit 0") && shown.contains("greeter"),
        "{shown}"
    );
}

#[test]
fn answers_and_messages_of_an_export_are_read_back() {
    let place = exported();
    let shown = place.run(
        &[
            DB,
            &[
                "retrieval",
                "compare",
                "--qrels",
                "store",
                "--run",
                "store",
                "--run",
                "store",
            ],
        ]
        .concat(),
    );
    assert!(
        shown.contains("cannot choose a run of store: the export has "),
        "{shown}"
    );
    let run = shown
        .split("the export has ")
        .nth(1)
        .unwrap()
        .split([',', '\n', ' '])
        .next()
        .unwrap()
        .trim();
    let named = format!("store#{run}");
    let same = json(&[
        "retrieval",
        "compare",
        "--qrels",
        "store",
        "--run",
        &named,
        "--run",
        &named,
    ]);
    assert_eq!(same["control"], named.as_str());
    let looping = json(&["progress", "store#export-looping"]);
    assert_eq!(looping["signal"], "ESCALATE");
    let working = json(&["progress", "store", "--run", "export-working"]);
    assert_eq!(working["signal"], "SHIP");
    let shown = place.run(&[DB, &["progress", "store#other"]].concat());
    assert!(
        shown.starts_with("exit 2") && shown.contains("the export has export-working, export-looping"),
        "{shown}"
    );
}

#[test]
fn damaged_files_and_directories_of_other_tools_are_errors() {
    let place = exported();
    let broken = place.path("broken");
    let shown = place.run(&[DB, &["db", "export", "broken", "--to", "parquet"]].concat());
    assert!(shown.starts_with("exit 0"), "{shown}");
    let manifest = fs_err::read(broken.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let file = manifest["tables"]["bench_runs"]["files"][0]["path"]
        .as_str()
        .unwrap();
    let whole = fs_err::read(broken.join(file)).unwrap();
    for part in [&whole[..whole.len() / 2], &b"PAR1"[..], &[]] {
        fs_err::write(broken.join(file), part).unwrap();
        let shown = place.run(&[DB, &["bench", "report", "broken#none"]].concat());
        assert!(
            shown.starts_with("exit 2") && shown.contains(&format!("cannot read broken/{file}")),
            "{shown}"
        );
    }
    place.write("other/manifest.json", r#"{"name": "another tool"}"#);
    let shown = place.run(&[DB, &["bench", "report", "other#none"]].concat());
    assert!(
        shown.starts_with("exit 2") && !shown.contains("manifest.json"),
        "{shown}"
    );
}

#[test]
fn the_format_of_an_export_is_not_the_format_of_the_output() {
    let place = Place::new();
    let shown = place.run(&["db", "export", "store", "--format", "parquet"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("`--to parquet`"),
        "{shown}"
    );
    let shown = place.run(&["db", "export", "store.jsonl", "--full"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("--to parquet"),
        "{shown}"
    );
}

/// Runs the statements of a file after `views.sql`, and prints the number of rows and columns of each.
const SCRIPT: &str = "
import sys, duckdb
connection = duckdb.connect()
connection.execute(open('views.sql').read())
for query in open(sys.argv[1]).read().split('-- next'):
    names = [column[0] for column in connection.execute(query).description]
    counted = 'SELECT count(*) FROM (' + query.strip().rstrip(';') + ')'
    print(connection.execute(counted).fetchone()[0], ','.join(names))
types = connection.execute(\"SELECT column_name, column_type FROM (DESCRIBE bench_runs)\").fetchall()
print(dict(types)['started_at'], dict(types)['day'])
";

#[test]
fn duckdb_answers_the_questions_of_the_guide() {
    let Some(python) = std::env::var_os("SATIETY_TEST_PYTHON") else {
        eprintln!("skipped: SATIETY_TEST_PYTHON is not set; `cargo xtask test` makes the environment");
        return;
    };
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/analytics.md");
    let guide = fs_err::read_to_string(guide).unwrap();
    let queries: Vec<&str> = guide
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(queries.len(), 10);
    let place = exported();
    let file = place.write("queries.sql", &queries.join("-- next\n"));
    let output = Command::new(python)
        .args(["-c", SCRIPT, file.to_str().unwrap()])
        .current_dir(place.path("store"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 11, "{text}");
    for (query, line) in queries.iter().zip(&lines) {
        assert!(!line.starts_with("0 "), "no rows for {query}: {line}");
    }
    assert_eq!(lines[10], "TIMESTAMP WITH TIME ZONE DATE");
}
