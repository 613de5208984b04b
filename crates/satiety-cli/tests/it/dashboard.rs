//! The dashboard in a real browser: every page with data, wide and narrow, light and dark, on both engines; no external
//! requests, no console messages, no serious axe violations; and text from people, agents and the web cannot run as code.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::dashboard_seed::{Seeded, fill, fill_with_scripts, post};
use crate::serve::{get, start};
use crate::support::{Place, json_of};

/// Checks that the browser runs on the pages.
struct Visit<'a> {
    /// `wide` (and light), `phone` (and dark).
    looks: &'a [&'a str],
    /// Whether to check accessibility: axe, and every control by keyboard.
    access: bool,
    /// Whether the data contains scripts.
    scripts: bool,
    /// Directory for screenshots.
    pictures: Option<PathBuf>,
}

/// Requests every page, also without a browser.
fn answers(seeded: &Seeded) {
    for (path, _) in &seeded.pages {
        let answer = get(&seeded.server.address, path, None);
        let expected = if path.starts_with("/conversations/%") {
            "404"
        } else {
            "200"
        };
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected}")),
            "{path}: {}",
            answer.chars().take(400).collect::<String>()
        );
        assert!(
            !answer.contains("<script>window") && !answer.contains("<img src=x"),
            "{path}"
        );
        assert!(
            answer
                .to_lowercase()
                .contains("content-security-policy: default-src 'none'"),
            "{path}"
        );
    }
}

/// Checks all pages in the browser, if it is available.
fn visit(place: &Place, seeded: &Seeded, visit: &Visit<'_>) {
    if let Some(folder) = &visit.pictures {
        fs_err::create_dir_all(folder).unwrap();
    }
    let plan = json!({"pages": seeded.pages, "looks": visit.looks, "access": visit.access, "scripts": visit.scripts,
        "pictures": visit.pictures});
    run_browser(place, seeded, "dashboard.py", &plan);
}

/// Runs a script that drives the browser on the pages of the server.
fn run_browser(place: &Place, seeded: &Seeded, script: &str, plan: &Value) {
    browse(&format!("http://{}", seeded.server.address), place, script, plan);
}

/// Runs a script that drives the browser at an address, if both are available.
#[expect(clippy::print_stderr, reason = "reports skipped checks")]
fn browse(base: &str, place: &Place, script: &str, plan: &Value) {
    let (Some(python), Some(browser)) = (
        std::env::var_os("SATIETY_TEST_PYTHON"),
        std::env::var_os("SATIETY_TEST_BROWSER"),
    ) else {
        eprintln!(
            "no browser: SATIETY_TEST_PYTHON or SATIETY_TEST_BROWSER is not set; `cargo xtask test` sets both"
        );
        return;
    };
    let plan = place.write("visit.json", &plan.to_string());
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python/");
    let output = Command::new(python)
        .arg(format!("{scripts}{script}"))
        .arg(browser)
        .arg(base)
        .arg(plan)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_page_renders_in_a_browser() {
    let place = Place::new();
    let seeded = fill(&place, None);
    answers(&seeded);
    let address = &seeded.server.address;
    assert!(get(address, "/conversations/missing", None).starts_with("HTTP/1.1 404"));
    assert!(get(address, "/bench/runs/..%2F..%2Fetc%2Fpasswd", None).starts_with("HTTP/1.1 404"));
    visit(
        &place,
        &seeded,
        &Visit {
            looks: &["wide", "phone"],
            access: true,
            scripts: false,
            pictures: std::env::var_os("SATIETY_TEST_PICTURES").map(Into::into),
        },
    );
    accepting_settles_a_regression(&seeded);
}

/// A run that a person accepts as the baseline is no longer a regression that needs attention.
fn accepting_settles_a_regression(seeded: &Seeded) {
    const OPEN: &str = "See which cases got worse";
    let address = &seeded.server.address;
    assert!(get(address, "/", None).contains(OPEN));
    let mut paths = seeded.pages.iter().map(|(path, _)| path);
    let case = paths.find(|path| path.ends_with("/cases/remembers-an-allergy"));
    let run = case.unwrap().split('/').nth(3).unwrap();
    let accept = json!({"by": "mira", "reason": "the allergy is asked for on another page"});
    post(address, &format!("/v1/bench/runs/{run}/baseline"), &accept);
    assert!(!get(address, "/", None).contains(OPEN));
}

/// Questions of users, each answered from the overview in at most four interactions: what is asked, the interactions, and
/// words of the answer.
const QUESTIONS: [(&str, &[&str], &[&str]); 25] = [
    (
        "why did a case fail in the last gated run?",
        &["link:See which cases got worse", "link:failed 0/8"],
        &["What allergy?", "does not contain", "Failed"],
    ),
    (
        "which cases got worse since the baseline?",
        &["link:See which cases got worse"],
        &["remembers-an-allergy", "worse", "Regression"],
    ),
    (
        "which runs does a suite have, and how many cases passed?",
        &["link:Bench", "link:concierge", "link:run …"],
        &["greets-in-french", "passed", "target"],
    ),
    (
        "which cases did not change?",
        &["link:See which cases got worse", "link:Show all cases"],
        &["says-goodbye", "same"],
    ),
    (
        "which cases of a run are flaky?",
        &["link:See which cases got worse", "link:run …", "check:flaky"],
        &["late-train"],
    ),
    (
        "what was a case asked?",
        &[
            "link:Bench",
            "link:concierge",
            "link:run …",
            "link:names-the-hour",
        ],
        &["plain: names-the-hour", "Expected", "done"],
    ),
    (
        "how long did a case take?",
        &[
            "link:Bench",
            "link:concierge",
            "link:run …",
            "link:names-the-hour",
        ],
        &["latency", "Usage"],
    ),
    (
        "which cases have a tag?",
        &[
            "link:See which cases got worse",
            "link:run …",
            "search:Tag=allergy",
        ],
        &["1 case", "remembers-an-allergy"],
    ),
    (
        "at which step did an agent start to loop?",
        &["link:where the first warning came"],
        &["ame action and outcome as step", "Previous step"],
    ),
    (
        "what did an agent run cost?",
        &["link:Agent runs", "link:fix-import"],
        &["Cost by step", "cost"],
    ),
    (
        "which agents are stuck?",
        &["link:Agent runs", "select:Signal=ESCALATE"],
        &["fix-import", "1 run"],
    ),
    (
        "which conversations need a person?",
        &["link:Conversations", "select:Signal=ESCALATE"],
        &["ESCALATE"],
    ),
    (
        "why does a conversation need a person?",
        &["link:Read why it needs a person"],
        &["ESCALATE", "Round by round"],
    ),
    (
        "what waits for my approval?",
        &["link:Review the proposal"],
        &["Awaiting approval", "satiety harness approve"],
    ),
    (
        "which cases always pass?",
        &["link:See which cases always pass"],
        &["Always passed"],
    ),
    (
        "which experiment can be decided, and why?",
        &["link:See the evidence, then graduate or reject"],
        &["Evidence for the feature", "Graduation checklist"],
    ),
    (
        "which query lost most between two retrieval runs?",
        &["link:Retrieval"],
        &["Latest two runs by query"],
    ),
    (
        "what does the memory find?",
        &["link:Memory", "search:Search=rollbacks"],
        &["Meeting about rollbacks", "rank 1"],
    ),
    (
        "what was searched, and what was read afterwards?",
        &[
            "link:Memory",
            "link:Searches of agents and people",
            "link:rollbacks",
        ],
        &["Results", "found by", "lexical rank", "score", "Afterwards"],
    ),
    (
        "which source did a research run use?",
        &["link:Research", "link:cold climates"],
        &["Sources", "02-cold-climates.md"],
    ),
    (
        "which passage did a research round find, and which finding quotes it?",
        &[
            "link:Research",
            "link:cold climates",
            "link:Round 1",
            "link:Heat pumps in cold climates",
        ],
        &["found by", "rank", "Passage", "quoted in the findings"],
    ),
    (
        "which versions passed a case of the harness?",
        &["link:Harness", "link:cycle …", "link:ticket-8"],
        &["Distinguishes versions", "5 of 8 passed", "whole suite"],
    ),
    (
        "which cases did the versions of a cycle differ on?",
        &[
            "link:Harness",
            "link:cycle …",
            "link:Show only cases that versions differ on",
        ],
        &["cases that versions differ on", "ticket-8", "5 of 8"],
    ),
    (
        "which variant of an ablation is worse, and how sure is it?",
        &["link:Bench", "link:ablation …"],
        &["Difference from", "pass", "Intervals are 90 %"],
    ),
    (
        "when was the context of an agent compacted?",
        &["link:Agent runs", "link:fix-import"],
        &["Changes of the context", "compaction before step 5"],
    ),
];

/// Answers all questions in the browser, if it is available.
fn answer_questions(place: &Place, seeded: &Seeded, looks: &[&str]) {
    let questions: Vec<Value> = QUESTIONS
        .iter()
        .map(|(ask, steps, words)| json!({"ask": ask, "steps": steps, "words": words}))
        .collect();
    let plan = json!({"looks": looks, "questions": questions});
    run_browser(place, seeded, "questions.py", &plan);
}

/// Pages that were written as files open without a server, and their links lead to each other.
#[test]
fn exported_pages_open_offline() {
    let place = Place::new();
    let suite = json!({"suite_id": "greeter", "cases": [
        {"case_id": "hello", "input": {"goal": "say hello"}, "expected": {"mode": "contains", "value": "hello"}},
        {"case_id": "a/b \"<c>", "input": {"goal": "say <b>nothing</b>"}, "expected": {"mode": "contains", "value": "hello"}}]});
    place.write("greeter/suite.json", &suite.to_string());
    place.write("greeter/target.toml", "type = \"echo\"\n");
    let run = ["bench", "run", "greeter", "--repeats", "2", "--html", "report"];
    let output = place.command(&run).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("wrote 7 pages"), "{stderr}");
    place.run(&["bench", "run", "greeter", "--repeats", "2"]);
    let runs = json_of(&place, &["--format", "json", "bench", "list", "--runs"]);
    let ids: Vec<&str> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    place
        .command(&["bench", "compare", ids[1], ids[0], "--html", "comparison"])
        .output()
        .unwrap();
    for (directory, words) in [("report", "hello"), ("comparison", "Case by case")] {
        let index = fs_err::read_to_string(place.path(directory).join("index.html")).unwrap();
        assert!(index.contains(words), "{index}");
        let pages: Vec<(String, Vec<String>)> = fs_err::read_dir(place.path(directory))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| {
                Path::new(name)
                    .extension()
                    .is_some_and(|extension| extension == "html")
            })
            .map(|name| (format!("/{name}"), Vec::new()))
            .collect();
        let plan =
            json!({"pages": pages, "looks": ["wide"], "access": true, "scripts": false, "pictures": null});
        let base = format!("file://{}", place.path(directory).display());
        browse(&base, &place, "dashboard.py", &plan);
    }
}

/// `bench run` prints the address of the page while a server runs on the same database, and a Markdown report links to it.
#[test]
fn commands_and_reports_name_the_page_of_a_run() {
    let place = Place::new();
    let suite = json!({"suite_id": "greeter", "cases": [
        {"case_id": "hello", "input": {"goal": "say hello"}, "expected": {"mode": "contains", "value": "hello"}}]});
    place.write("greeter/suite.json", &suite.to_string());
    place.write("greeter/target.toml", "type = \"echo\"\n");
    let server = start(&place, &[]);
    let run = ["bench", "run", "greeter", "--markdown", "report.md"];
    let output = place.command(&run).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let pages = format!("http://{}/bench/runs/run-", server.address);
    assert!(stderr.contains(&format!("page: {pages}")), "{stderr}");
    let report = fs_err::read_to_string(place.path("report.md")).unwrap();
    assert!(report.contains(&pages), "{report}");
    let page = stderr.split("page: http://").nth(1).unwrap();
    let (_, path) = page.lines().next().unwrap().split_once('/').unwrap();
    assert!(get(&server.address, &format!("/{path}"), None).starts_with("HTTP/1.1 200"));
}

/// A person pauses and resumes a live timeline, starts a run and stops it.
#[test]
fn live_pages_and_jobs_are_used_in_a_browser() {
    let place = Place::new();
    // Accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let suite = json!({"suite_id": "patient", "cases": [
        {"case_id": "wait", "input": {"goal": "wait"}, "expected": {"mode": "contains", "value": "x"}}]});
    place.write("suites/patient/suite.json", &suite.to_string());
    let target = format!("type = \"http\"\nurl = \"http://127.0.0.1:{port}/\"\n");
    place.write("suites/patient/target.toml", &target);
    let server = start(&place, &["--root", "suites"]);
    let message = json!({"calls": [{"tool": "bash", "arguments": {"command": "pytest"},
        "result": {"content": "2 failed", "exit_code": 1}}]});
    let first = json!({"messages": [message]});
    post(&server.address, "/v1/conversations/fix-tests/messages", &first);
    let plan = json!({"run": "fix-tests", "message": message});
    let base = format!("http://{}", server.address);
    browse(&base, &place, "work.py", &plan);
}

#[test]
fn questions_are_answered_in_four_interactions() {
    let place = Place::new();
    let seeded = fill(&place, None);
    answer_questions(&place, &seeded, &["wide", "phone"]);
}

/// The same pages on PostgreSQL, in one layout, since they look the same.
#[test]
fn every_page_renders_on_postgres() {
    let Ok(url) = std::env::var("SATIETY_TEST_POSTGRES") else {
        eprintln!("skipped: SATIETY_TEST_POSTGRES is not set; `cargo xtask test` starts a server");
        return;
    };
    let name = format!("dashboard_{}", std::process::id());
    let (server, _) = url.rsplit_once('/').unwrap();
    sql(&url, &format!("CREATE DATABASE {name}"));
    {
        let place = Place::new();
        let seeded = fill(&place, Some(&format!("{server}/{name}")));
        answers(&seeded);
        visit(
            &place,
            &seeded,
            &Visit {
                looks: &["wide"],
                access: false,
                scripts: false,
                pictures: None,
            },
        );
        answer_questions(&place, &seeded, &["wide", "phone"]);
    }
    sql(&url, &format!("DROP DATABASE {name} WITH (FORCE)"));
}

pub(crate) fn sql(url: &str, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()))
            .execute(&mut connection)
            .await
            .unwrap();
    });
}

/// Claims, memories, research pages, benchmark outputs, proposals, reasons and names that contain scripts.
#[test]
fn stored_scripts_are_shown_and_do_not_run() {
    let place = Place::new();
    let seeded = fill_with_scripts(&place);
    answers(&seeded);
    visit(
        &place,
        &seeded,
        &Visit {
            looks: &["wide"],
            access: false,
            scripts: true,
            pictures: None,
        },
    );
}
