//! Databases for the dashboard, filled through commands and HTTP, never by writing tables. One has data for every page; the
//! other has scripts in every text field.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Output;
use std::time::{Duration, Instant};

use satiety_engine::harness::KeyFile;
use serde_json::{Value, json};

use crate::serve::{Server, start};
use crate::support::{Place, example};

/// Topics of memories, corpus and experiment.
const TOPICS: [&str; 10] = [
    "rollbacks",
    "invoices",
    "webhooks",
    "backups",
    "sharding",
    "caching",
    "logins",
    "exports",
    "alerts",
    "quotas",
];
/// Text that a page must show and never run.
pub(crate) const SCRIPT: &str = "<script>window.pwned='script'</script>";
pub(crate) const IMAGE: &str = "<img src=x onerror=\"window.pwned='image'\">";

/// A server over a database that has data for every page.
pub(crate) struct Seeded {
    pub(crate) server: Server,
    /// Every page, with words that it contains when its data is present.
    pub(crate) pages: Vec<(String, Vec<String>)>,
}

struct Seeding<'a> {
    place: &'a Place,
}

impl Seeding<'_> {
    fn output(&self, arguments: &[&str]) -> Output {
        self.place
            .command(arguments)
            .env("USER", "mira")
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap()
    }

    /// Runs a command that exits with one of these codes, and parses its JSON.
    fn run_to(&self, codes: &[i32], arguments: &[&str]) -> Value {
        let output = self.output(&[&["--format", "json"], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code().is_some_and(|code| codes.contains(&code)),
            "{arguments:?}: {stderr}"
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Value {
        self.run_to(&[0], arguments)
    }
}

/// Posts a request that must succeed.
pub(crate) fn post(address: &str, path: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    answer(stream, path)
}

/// Requests a resource that must exist.
pub(crate) fn look(address: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    answer(stream, path)
}

fn answer(mut stream: TcpStream, path: &str) -> Value {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{path}: {text}");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{path}: {text}"))
}

/// Waits until a condition holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(40), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn settings(place: &Place, store: Option<&str>) {
    let key = KeyFile::generate("mira", "correct horse").unwrap();
    let store = store.map_or_else(String::new, |url| format!("[store]\nurl = \"{url}\"\n"));
    let text = format!(
        "{store}[models]\nembedder = \"none\"\n[ab]\nsettle_minutes = \"0\"\n[harness]\nfolder = \"harness\"\n\
         [[harness.approvers]]\nname = \"mira\"\npublic_key = \"{}\"\n",
        key.public_key
    );
    place.write("satiety.toml", &text);
    place.run(&["trust"]);
}

/// Fills a database, on SQLite or at this address.
pub(crate) fn fill(place: &Place, store: Option<&str>) -> Seeded {
    settings(place, store);
    let seeding = Seeding { place };
    let mut pages: Vec<(String, Vec<String>)> = Vec::new();
    let mut page = |path: &str, words: &[&str]| {
        pages.push((
            path.to_owned(),
            words.iter().map(|word| (*word).to_owned()).collect(),
        ));
    };
    conversations(&seeding);
    page(
        "/conversations",
        &["Which queue carries our jobs?", "ESCALATE", "SHIP", "STOP"],
    );
    page(
        "/conversations/queue",
        &[
            "Novelty and readiness",
            "new",
            "paraphrase",
            "repeat",
            "Round by round",
        ],
    );
    let heat = example("research/heat-pumps");
    let task = "how do heat pumps cope with cold climates";
    let research = seeding.run(&[
        "research",
        task,
        "--in",
        &heat,
        "--results",
        "4",
        "--min-rounds",
        "4",
    ]);
    seeding.run(&["research", "what do heat pumps cost to run", "--in", &heat]);
    page("/research", &[task, "what do heat pumps cost to run"]);
    page(
        &format!("/research/{}", text(&research["run_id"])),
        &["Novelty by round", "Round 1", "Sources", "02-cold-climates.md"],
    );
    page(
        &format!("/research/{}/rounds/2", text(&research["run_id"])),
        &[
            "Kept.",
            "novelty",
            "Results",
            "Previous round",
            "Summary after this round",
        ],
    );
    page(
        &format!("/research/{}/rounds/1/results/1", text(&research["run_id"])),
        &["found by", "rank 1", "cited", "Next result"],
    );
    let [first, second, ablation] = bench(&seeding);
    page(
        "/bench",
        &[
            "concierge",
            "support",
            "Compare selected runs",
            "Ablations",
            "control 0.",
        ],
    );
    page(
        &format!("/bench/ablations/{ablation}"),
        &["Difference from", "verdict", "pass", " to +"],
    );
    page(
        &format!("/bench/runs/{first}"),
        &[
            "flaky",
            "finds-the-late-train",
            "remembers-an-allergy",
            "allergy: remembers",
        ],
    );
    page(
        &format!("/bench/runs/{second}?status=not_pass&sort=-score&changed=1"),
        &["remembers-an-allergy", "lower", "Clear"],
    );
    page(
        &format!("/bench/runs/{second}/cases/remembers-an-allergy"),
        &[
            "Failed",
            "allergy: remembers-an-allergy",
            "What allergy?",
            "does not contain",
            "Expected and not found in the answer",
            "8 results",
            "Attempts and log",
        ],
    );
    page(
        &format!("/bench/compare?run={second}&run={first}"),
        &[
            "Case by case",
            "Regression",
            "Show all cases",
            "greets-in-french",
            "higher",
            "worse",
            "remembers-an-allergy",
        ],
    );
    let labelled = human_suite(&seeding);
    page(
        &format!("/bench/runs/{labelled}/label"),
        &["decline a booking", "is it polite?", "right", "left to label"],
    );
    page(
        &format!("/bench/runs/{labelled}"),
        &["Review", "Label 2 open results", "Add note"],
    );
    let cycle = harness(&seeding);
    page(
        &format!("/harness/cycles/{cycle}"),
        &[
            "Cases of support",
            "8 versions",
            "ticket-8",
            "5 of 8",
            "Previous cycle",
            "harness version",
        ],
    );
    page(
        &format!("/harness/cases/support/ticket-8?cycle={cycle}"),
        &["Distinguishes versions", "5 of 8 passed", "whole suite"],
    );
    page(
        "/harness",
        &[
            "A cycle opens its cases",
            "Saturation over cycles",
            "The suites can no longer show an improvement",
            "Awaiting approval",
            "satiety harness approve",
            "harder",
            "Always passed",
        ],
    );
    let memory = memories(&seeding);
    page("/memory", &["Decision on rollbacks", "critical"]);
    page(&format!("/memory/{memory}"), &["Decision on rollbacks"]);
    page(
        "/memory/search?q=rollbacks",
        &["Meeting about rollbacks", "lexical"],
    );
    page("/memory/queries", &["rollbacks", "lexical"]);

    let server = start(place, &["--research-sources", &format!("notes=local:{heat}")]);
    let address = server.address.as_str();
    agent_runs(address);
    page("/progress", &["fix-import", "ESCALATE", "CONTINUE"]);
    page(
        "/progress/fix-import",
        &[
            "Level by step",
            "Cost by step",
            "first nudge",
            "same action and outcome as step",
            "ImportError",
            "Tools",
            "Open ends",
            "Changes of the context",
            "compaction before step 5",
            "eviction before",
            "See the items and why",
        ],
    );
    page(
        "/progress/fix-import/steps/6",
        &[
            "ame action and outcome as step",
            "Step 6",
            "ImportError",
            "so far",
        ],
    );
    page(
        "/compare/progress?run=fix-import&run=collect-notes",
        &["Step by step", "first stop", "fix-import", "collect-notes"],
    );
    features(&seeding, address);
    page("/ab", &["critical-first", "one-result", "better", "not better"]);
    page(
        "/ab/critical-first",
        &[
            "Evidence for the feature, with decision thresholds",
            "better above",
            "Shadow runs",
            "Graduation checklist",
            "same top result",
        ],
    );
    retrieval(address);
    page(
        "/retrieval",
        &["Quality over runs", "Latest two runs by query", "rollbacks"],
    );
    let measured = look(address, "/v1/retrieval/runs");
    page(
        &format!("/retrieval/runs/{}", text(&measured["runs"][0]["run_id"])),
        &["largest loss first", "rollbacks", "Compared with"],
    );
    page("/bench/jobs", &["retrieval run", "done"]);
    page("/retrieval/annotate", &["Your name"]);
    page(
        "/retrieval/annotate?annotator=mira&double=10",
        &["Query:", "not relevant", "Agreement"],
    );
    eviction(&seeding, address);
    page(
        "/eviction",
        &["session-1", "Exclusions", "predicted", "heuristic"],
    );
    page(
        "/eviction/session-1",
        &["Tokens of each proposal", "excluded", "still needed"],
    );
    let proposals = look(address, "/v1/eviction/scopes/session-1/timeline");
    page(
        &format!(
            "/eviction/session-1/proposals/{}",
            text(&proposals["rows"][0]["proposal_id"])
        ),
        &["relevance", "recency", "tokens to free"],
    );
    page(
        "/",
        &[
            "needs approval",
            "saturated",
            "regression",
            "decided",
            "Conversations",
        ],
    );
    page("/docs", &["/v1/research/runs"]);
    Seeded { server, pages }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A conversation with new, repeated and paraphrased claims, and bundled ones with every verdict.
fn conversations(seeding: &Seeding<'_>) {
    let round = |number: u32, agent: &str, claims: &[&str], questions: &[&str], actions: &[&str]| {
        json!({"round": number, "agent": agent, "outputs": {"claims": claims, "decisions": [], "open_questions": questions,
            "next_actions": actions}})
    };
    let queue = json!({"conversation_id": "queue", "topic": "Which queue carries our jobs?", "rounds": [
        round(1, "ada", &["PostgreSQL is enough for 200 jobs a second.", "Jobs must survive a restart of every machine.",
            "Redis is run by the platform team already."], &["How long may a job wait?", "Who is called at night?"], &[]),
        round(2, "bo", &["SKIP LOCKED lets many workers take jobs from one table.", "PostgreSQL is enough for 200 jobs a second.",
            "Jobs must survive the restart of every machine."], &["How long may a job wait?"], &["Measure db/0007_jobs.sql with pgbench"]),
        round(3, "ada", &["A job waits at most two seconds at the measured rate.", "SKIP LOCKED lets many workers take jobs from one table."],
            &[], &["Write db/0007_jobs.sql", "Run the load test against staging"]),
        round(4, "bo", &["PostgreSQL is enough for 200 jobs a second.", "SKIP LOCKED lets many workers take jobs from the one table."],
            &[], &["Write db/0007_jobs.sql", "Run the load test against staging"]),
    ]});
    let file = seeding.place.write("queue.json", &queue.to_string());
    seeding.run(&["score", &file.display().to_string(), "--record"]);
    for name in [
        "two-agents-converge",
        "long-tail",
        "hidden-blocker",
        "nothing-to-execute",
    ] {
        seeding.run(&["score", &example(&format!("calibration/{name}.json")), "--record"]);
    }
}

/// An agent that reads, edits and then runs the same failing test until it is stuck, and one that makes progress.
fn agent_runs(address: &str) {
    let call = |tool: &str, arguments: Value, result: &str, exit_code: i64| json!({"tool": tool, "arguments": arguments, "result": {"content": result, "exit_code": exit_code}});
    let mut steps = vec![
        json!({"agent": "fixer", "text": "I look for the import first.", "usage": {"tokens": 1200, "cost": 0.012},
            "calls": [call("bash", json!({"command": "grep -rn 'import parser' src"}), "src/app.py:3:import parser", 0)]}),
        json!({"agent": "fixer", "usage": {"tokens": 1500, "cost": 0.015}, "plan": [{"text": "rename the import", "done": true},
            {"text": "run the tests", "done": false}],
            "calls": [call("read_file", json!({"path": "src/app.py"}), "import os\nimport sys\nimport parser\n", 0)]}),
        json!({"agent": "fixer", "usage": {"tokens": 1700, "cost": 0.017}, "calls": [call("edit_file",
            json!({"path": "src/app.py", "old": "import parser", "new": "from src import parser"}), "edited", 0)]}),
    ];
    let test = "collected 0 items / 1 error\n\ntests/test_app.py:1: in <module>\nE   ImportError: cannot import name 'parser' from 'src'";
    for round in 0..7 {
        let cost = 0.02 + 0.002 * f64::from(round);
        steps.push(
            json!({"agent": "fixer", "compacted": round == 1, "usage": {"tokens": 2000 + 200 * round, "cost": cost},
            "calls": [call("bash", json!({"command": "python -m pytest tests/test_app.py"}), test, 1)]}),
        );
    }
    post(
        address,
        "/v1/conversations/fix-import/messages",
        &json!({ "messages": steps }),
    );
    // Part of the context of the same agent is proposed for eviction.
    let items = json!([{"ctx_id": "log", "zone": "workspace", "kind": "log", "token_count": 900, "snippet": "output of the tests"},
        {"ctx_id": "plan", "zone": "workspace", "kind": "plan", "token_count": 90, "snippet": "rename the import"}]);
    let scope = json!({"scope_id": "fix-import", "turn": 8, "goal": "mend the import", "add": items});
    post(address, "/v1/eviction/scopes", &scope);
    let propose = json!({"scope_id": "fix-import", "free_tokens": 500, "timeout_ms": 60000, "seed": 1});
    post(address, "/v1/eviction/propose", &propose);
    let steps: Vec<Value> = TOPICS
        .iter()
        .map(|topic| {
            let found = format!("{topic}.md: notes on {topic} by the team");
            json!({"calls": [call("search", json!({"query": topic}), &found, 0)]})
        })
        .collect();
    post(
        address,
        "/v1/conversations/collect-notes/messages",
        &json!({ "messages": steps }),
    );
}

/// Two versions of an agent: the second fixes two cases and breaks one, and two cases are flaky.
/// Returns the ids of both runs and of an ablation.
fn bench(seeding: &Seeding<'_>) -> [String; 3] {
    const CASES: [(&str, &str); 10] = [
        ("greets-a-guest", "plain"),
        ("greets-in-french", "french"),
        ("confirms-a-table", "plain"),
        ("names-the-hour", "plain"),
        ("spells-the-name", "spell"),
        ("refuses-a-double-booking", "plain"),
        ("remembers-an-allergy", "allergy"),
        ("finds-the-late-train", "late"),
        ("reads-the-weather", "late"),
        ("says-goodbye", "plain"),
    ];
    const AGENT: &str = r#"kind=$(sed -n 's/.*"goal":"\([a-z]*\):.*/\1/p')
coin=$(od -An -N1 -tu1 /dev/urandom)
case "$1/$kind" in
*/late) [ $((coin % 2)) = 0 ] && echo "done, by the board" || echo "I am not sure" ;;
first/french|first/spell) echo "I do not know how" ;;
second/allergy) echo "What allergy?" ;;
*) echo "done" ;;
esac
"#;
    let cases: Vec<Value> = CASES
        .iter()
        .map(|(name, kind)| {
            json!({"case_id": name, "input": {"goal": format!("{kind}: {name}")},
                "expected": {"mode": "contains", "value": "done"}, "tags": [kind]})
        })
        .collect();
    let suite = json!({"suite_id": "concierge", "name": "Concierge", "version": "1.0.0", "cases": cases});
    let place = seeding.place;
    place.write("concierge/suite.json", &suite.to_string());
    place.write("concierge/agent.sh", AGENT);
    for (file, version) in [("target", "first"), ("second", "second")] {
        let target = format!(
            "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"{{{{base}}}}/agent.sh\", \"{version}\"]\n"
        );
        place.write(&format!("concierge/{file}.toml"), &target);
    }
    let first = seeding.run(&["bench", "run", "concierge", "--repeats", "8"]);
    seeding.run(&[
        "bench",
        "baseline",
        "latest",
        "--suite",
        "concierge",
        "--reason",
        "the first one",
    ]);
    let second = [
        "bench",
        "run",
        "concierge",
        "--target",
        "concierge/second.toml",
        "--repeats",
        "8",
        "--gate",
    ];
    let second = seeding.run_to(&[1], &second);
    let ablation = [
        "bench",
        "ablation",
        "concierge/target.toml",
        "concierge/second.toml",
        "--suite",
        "concierge",
        "--runs",
        "2",
    ];
    let ablation = seeding.run_to(&[0, 1, 3], &ablation);
    let ids = [&first["run_id"], &second["run_id"], &ablation["ablation_id"]];
    ids.map(|id| text(id).to_owned())
}

/// A suite that a person grades, with one label; returns the run.
fn human_suite(seeding: &Seeding<'_>) -> String {
    let cases: Vec<Value> = ["greet a guest", "decline a booking", "say goodbye"]
        .iter()
        .map(|goal| {
            json!({"case_id": goal.replace(' ', "-"), "input": {"goal": goal}, "expected": {"mode": "human", "value": "is it polite?"}})
        })
        .collect();
    let suite = json!({"suite_id": "manners", "cases": cases});
    seeding.place.write("manners/suite.json", &suite.to_string());
    seeding.place.write("manners/target.toml", "type = \"echo\"\n");
    let run = seeding.run_to(&[0, 3], &["bench", "run", "manners"]);
    let run = text(&run["run_id"]).to_owned();
    seeding
        .place
        .write("labels.jsonl", "{\"case_id\": \"say-goodbye\", \"pass\": true}\n");
    seeding.run(&["bench", "label", &run, "--file", "labels.jsonl"]);
    run
}

/// Versions that improve until every case passes, the resulting expansion, and a proposal. Returns the id of the last cycle.
fn harness(seeding: &Seeding<'_>) -> String {
    let place = seeding.place;
    place.write(
        "harness/support/suite.json",
        r#"{"suite_id": "support", "deterministic": true}"#,
    );
    let target = "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"{{base}}/agent.sh\"]\n";
    place.write("harness/support/target.toml", target);
    place.write(
        "harness/harness.toml",
        "[thresholds]\n\"support/pass_rate\" = { value = 0.3, direction = \"higher\" }\n",
    );
    for number in 1..=8 {
        let harder = json!([{"input": {"goal": format!("Ticket 1{number}, twice")}, "expected": {"value": "solved twice"}}]);
        let case = json!({"case_id": format!("ticket-{number}"), "input": {"goal": format!("Ticket {number}")},
            "expected": {"mode": "contains", "value": "solved"}, "metadata": {"harder": harder}});
        place.write(
            &format!("harness/support/cases/ticket-{number}.json"),
            &case.to_string(),
        );
    }
    let mut cycle = String::new();
    for level in [3, 4, 4, 6, 7, 8, 8, 8, 8, 8] {
        let agent = format!(
            "n=$(sed -n 's/.*\"goal\":\"Ticket \\([0-9]*\\).*/\\1/p')\n\
             if [ \"$n\" -le {level} ]; then echo \"Ticket $n is solved.\"; else echo \"I cannot tell.\"; fi\n"
        );
        place.write("harness/support/agent.sh", &agent);
        seeding.run(&["bench", "run", "harness/support"]);
        let recorded = seeding.run(&["harness", "record"]);
        text(&recorded["snapshot"]["cycle_id"]).clone_into(&mut cycle);
    }
    seeding.run(&["harness", "expand"]);
    cycle
}

/// For each topic two notes that mention it often and a decision, which is usually relevant but mentions it once. A lexical
/// search ranks the decision last, except for two easy topics and two for which the meeting is relevant.
fn memories(seeding: &Seeding<'_>) -> String {
    let place = seeding.place;
    for (place_of, topic) in TOPICS.iter().enumerate() {
        let note = |name: &str, front: &str, body: &str| {
            place.write(
                &format!("notes/{name}-{topic}.md"),
                &format!("---\n{front}\n---\n{body}\n"),
            );
        };
        note(
            "meeting",
            &format!("title: Meeting about {topic}"),
            &format!("We talked about {topic}. Somebody likes {topic}, somebody else does not like {topic}."),
        );
        note(
            "news",
            &format!("title: News on {topic}"),
            &format!("There is a blog about {topic}; it says {topic} are new, and {topic} are everywhere."),
        );
        note(
            "decision",
            &format!("title: Decision on {topic}\ntier: critical"),
            &if place_of % 5 == 3 {
                format!("{topic}: what counts about {topic} is that {topic} are tried every week.")
            } else {
                format!(
                    "After the incident in spring this is how it is done from now on, whoever is on call that night: the runbook \
                     is followed line by line, the owner of the service is told within ten minutes, nothing is changed by hand on a \
                     machine, and what was learnt about {topic} goes into the review of the week, where two people who were not \
                     there read it and ask what they do not understand."
                )
            },
        );
    }
    seeding.run(&["memory", "index", "notes"]);
    let listed = seeding.run(&["memory", "list", "--limit", "100"]);
    let all = listed["memories"].as_array().unwrap();
    let id_of = |title: &str| {
        let found = all.iter().find(|memory| memory["title"] == title).unwrap();
        text(&found["id"]).to_owned()
    };
    // Indexed files are at most important.
    for topic in TOPICS {
        let id = id_of(&format!("Decision on {topic}"));
        seeding.run(&["memory", "update", &id, "--tier", "critical"]);
    }
    let corpus: Vec<String> = TOPICS
        .iter()
        .enumerate()
        .map(|(place_of, topic)| {
            let right = if place_of % 5 == 4 {
                "Meeting about"
            } else {
                "Decision on"
            };
            let right = id_of(&format!("{right} {topic}"));
            json!({"queryId": format!("golden-{topic}"), "query": topic, "judgmentSource": "manual",
                "judgments": [{"memoryId": right, "relevance": 3}]})
            .to_string()
        })
        .collect();
    place.write("corpus.jsonl", &corpus.join("\n"));
    seeding.run(&["retrieval", "import", "corpus.jsonl"]);
    id_of("Decision on rollbacks")
}

/// An improvement, a regression and a neutral change, compared on every query.
fn features(seeding: &Seeding<'_>, address: &str) {
    for file in ["better", "worse", "same"] {
        seeding.run(&["ab", "start", "--file", &example(&format!("ab/{file}.toml"))]);
    }
    // Other processes see a new feature within a second.
    std::thread::sleep(Duration::from_millis(1100));
    for round in 0..4 {
        for topic in TOPICS {
            let session = format!("user-{round}-{topic}");
            post(
                address,
                "/v1/memory/search",
                &json!({"query": topic, "session": session}),
            );
        }
        // The shadow queue is short and is processed when no search runs.
        let wanted = (round + 1) * TOPICS.len() as u64;
        until("questions are run in the shadow", || {
            look(address, "/v1/ab/critical-first")["shadow"]["runs"].as_u64() >= Some(wanted)
        });
    }
    post(address, "/v1/ab/critical-first/check", &json!({}));
}

/// Replays the corpus with several changes; the last one helps most queries and hurts some.
fn retrieval(address: &str) {
    for (pipeline, baseline) in [
        (json!({"tiers": {"critical": 0.3}}), None),
        (json!({}), Some("last")),
        (json!({"tiers": {"critical": 1.6}}), Some("last")),
        (json!({}), None),
        (json!({"tiers": {"critical": 10.0}}), Some("last")),
    ] {
        let mut body = json!({"pipeline": pipeline});
        if let Some(baseline) = baseline {
            body["baseline"] = json!(baseline);
        }
        let job = post(address, "/v1/retrieval/runs", &body);
        let path = format!("/v1/jobs/{}", text(&job["job_id"]));
        until("the corpus is replayed", || {
            look(address, &path)["ended_at"].is_string()
        });
        let ended = look(address, &path);
        assert_eq!(ended["state"], "done", "{ended}");
    }
}

/// A session whose plans are excluded and whose logs are evicted.
fn eviction(seeding: &Seeding<'_>, address: &str) {
    for turn in 1..=14_u64 {
        let item = |kind: &str, tokens: u64| {
            json!({"ctx_id": format!("{kind}-{turn}"), "zone": "workspace", "kind": kind, "token_count": tokens + turn % 3 * 40,
                "snippet": format!("the {kind} of turn {turn}")})
        };
        let add = json!([
            item("log", 400),
            item("plan", 120),
            item("diff", 200),
            item("chat", 90)
        ]);
        // Repeatedly used items are the ones that the agent excludes.
        let mut used = vec![format!("plan-{turn}")];
        if turn > 1 {
            let kept = look(address, "/v1/eviction/scopes/session-1");
            let ids = kept["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| text(&item["ctx_id"]));
            used.extend(ids.filter(|id| id.starts_with("plan")).map(str::to_owned));
        }
        let update =
            json!({"scope_id": "session-1", "turn": turn, "goal": "mend the login", "add": add, "use": used});
        post(address, "/v1/eviction/scopes", &update);
        if turn < 2 {
            continue;
        }
        let propose = json!({"scope_id": "session-1", "free_tokens": 600, "timeout_ms": 60000, "exploration": 0.3, "seed": turn});
        let proposed = post(address, "/v1/eviction/propose", &propose);
        let wanted: Vec<&str> = proposed["view"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| text(&one["ctx_id"]))
            .filter(|id| id.starts_with("plan") || (turn % 4 == 0 && id.starts_with("diff")))
            .collect();
        let reasons: serde_json::Map<String, Value> = wanted
            .iter()
            .map(|id| ((*id).to_owned(), json!("still needed")))
            .collect();
        // The last proposal stays open.
        if turn < 14 {
            let resolve = json!({"proposal_id": proposed["proposal_id"], "exclude_ctx_ids": wanted, "exclude_reasons": reasons});
            post(address, "/v1/eviction/resolve", &resolve);
        }
    }
    seeding.run_to(&[0, 3], &["evict", "calibrate"]);
}

/// Fills a database with scripts in every text field that a page shows.
pub(crate) fn fill_with_scripts(place: &Place) -> Seeded {
    settings(place, None);
    let seeding = Seeding { place };
    let evil = format!("{SCRIPT} {IMAGE} says so");
    let evil = evil.as_str();
    let script_text = vec![evil.to_owned()];
    let conversation = json!({"conversation_id": "evil", "topic": evil, "rounds": [
        {"round": 1, "agent": evil, "outputs": {"claims": [evil, "a plain claim"], "open_questions": [evil], "next_actions": [evil]}},
        {"round": 2, "agent": evil, "outputs": {"claims": [evil], "blockers": [evil], "open_questions": [evil]}},
    ]});
    let file = place.write("evil.json", &conversation.to_string());
    seeding.run(&["score", &file.display().to_string(), "--record"]);
    place.write(
        "pages/evil.md",
        &format!("# {evil}\n\nHeat pumps {evil} work in the cold. {evil}\n"),
    );
    place.write(
        "pages/other.md",
        "# Heat pumps\n\nHeat pumps work in the cold with care.\n",
    );
    let task = format!("heat pumps {evil}");
    let research = seeding.run_to(&[0, 3], &["research", &task, "--in", "pages"]);
    let memory = seeding.run(&["memory", "save", evil, evil, "--folder", "evil"]);
    let memory = text(&memory["memory"]["id"]).to_owned();
    let suite = json!({"suite_id": "evil", "name": evil, "cases": [
        {"case_id": "one", "input": {"goal": evil}, "expected": {"mode": "contains", "value": evil}, "tags": [evil]},
        {"case_id": "two", "input": {"goal": evil}, "expected": {"mode": "exact", "value": "y"}}]});
    place.write("harness/evil/suite.json", &suite.to_string());
    // The target echoes the goal, so the displayed answers contain it, too.
    place.write("harness/evil/target.toml", "type = \"echo\"\n");
    let first = seeding.run(&["bench", "run", "harness/evil"]);
    let second = seeding.run(&["bench", "run", "harness/evil"]);
    let cycle = seeding.run(&["harness", "record"]);
    let cycle = text(&cycle["snapshot"]["cycle_id"]).to_owned();
    let proposals = json!({"expansion_proposals": {"new_edge_cases": [{"category": evil, "description": evil, "expected_failure_mode": evil,
        "suite": "evil", "case": {"case_id": "three", "input": {"goal": evil}, "expected": {"mode": "contains", "value": evil}}}]}});
    place.write("proposals.json", &proposals.to_string());
    seeding.run(&["harness", "propose", "proposals.json", "--by", evil]);
    let feature = json!({"feature_id": "evil", "description": evil, "pipeline": {"fusion": {"reciprocal_rank": {"k": 10}}}});
    let server = start(place, &[]);
    let address = server.address.as_str();
    post(address, "/v1/ab", &feature);
    post(address, "/v1/ab/evil/pause", &json!({"reason": evil}));
    let corpus = json!({"queryId": evil, "query": evil, "judgments": [{"memoryId": memory, "relevance": 3}]});
    place.write("corpus.jsonl", &corpus.to_string());
    seeding.run(&["retrieval", "import", "corpus.jsonl"]);
    for _ in 0..2 {
        let job = post(address, "/v1/retrieval/runs", &json!({}));
        let path = format!("/v1/jobs/{}", text(&job["job_id"]));
        until("the corpus is replayed", || {
            look(address, &path)["ended_at"].is_string()
        });
    }
    let items = json!([{"ctx_id": evil, "zone": evil, "kind": evil, "content": evil}, {"ctx_id": "b", "zone": "memory", "content": "b b b b"}]);
    post(
        address,
        "/v1/eviction/scopes",
        &json!({"scope_id": evil, "turn": 1, "goal": evil, "add": items}),
    );
    let propose = json!({"scope_id": evil, "free_tokens": 4, "timeout_ms": 60000});
    let proposed = post(address, "/v1/eviction/propose", &propose);
    let resolve = json!({"proposal_id": proposed["proposal_id"], "exclude_ctx_ids": [evil], "exclude_reasons": {evil: evil}, "quota": 1.0});
    post(address, "/v1/eviction/resolve", &resolve);
    let step = json!({"agent": evil, "text": evil, "plan": [{"text": evil, "done": false}],
        "calls": [{"tool": evil, "arguments": {evil: evil}, "result": {"content": evil, "error": true}}]});
    post(
        address,
        "/v1/conversations/evil-run/messages",
        &json!({"messages": [step, step, step, step, step, step, {"role": "user", "content": evil}]}),
    );
    let run = text(&first["run_id"]);
    let note = json!({"author": SCRIPT, "note": evil});
    post(address, &format!("/v1/bench/runs/{run}/notes"), &note);
    let label = json!({"annotator": SCRIPT, "signal": "STOP"});
    post(address, "/v1/conversations/evil/labels", &label);
    let measured = look(address, "/v1/retrieval/runs");
    let scope = encoded(evil);
    let pages = [
        "/".to_owned(),
        "/conversations".into(),
        "/conversations/evil".into(),
        "/progress".into(),
        "/progress/evil-run".into(),
        "/progress/evil-run/steps/2".into(),
        "/compare/progress?run=evil-run&run=evil-run".into(),
        "/research".into(),
        format!("/research/{}", text(&research["run_id"])),
        format!("/research/{}/rounds/1", text(&research["run_id"])),
        format!("/research/{}/rounds/1/results/1", text(&research["run_id"])),
        "/memory".into(),
        format!("/memory/{memory}"),
        format!("/memory/search?q={scope}"),
        "/memory/queries".into(),
        "/retrieval".into(),
        format!("/retrieval/runs/{}", text(&measured["runs"][0]["run_id"])),
        format!("/retrieval/annotate?annotator={scope}"),
        "/ab".into(),
        "/ab/evil".into(),
        "/bench".into(),
        format!("/bench/runs/{run}"),
        format!("/bench/runs/{run}/cases/one"),
        format!("/bench/runs/{run}/label?all=1"),
        format!(
            "/bench/compare?baseline={run}&candidate={}",
            text(&second["run_id"])
        ),
        "/eviction".into(),
        format!("/eviction/{scope}"),
        format!("/eviction/{scope}/proposals/{}", text(&proposed["proposal_id"])),
        "/harness".into(),
        format!("/harness/cycles/{cycle}"),
        format!("/harness/cases/evil/one?cycle={cycle}"),
        format!("/conversations/{scope}"),
    ];
    // Every stored script is displayed as text; some pages have only ids, numbers and forms.
    let shows = |path: &str| {
        let without = [
            "/bench/compare",
            "/compare/progress",
            "/retrieval/annotate",
            "/retrieval/runs",
        ];
        !matches!(path, "/bench" | "/progress") && !without.iter().any(|start| path.starts_with(start))
    };
    Seeded {
        server,
        pages: pages
            .into_iter()
            .map(|path| {
                (
                    path.clone(),
                    if shows(&path) {
                        script_text.clone()
                    } else {
                        Vec::new()
                    },
                )
            })
            .collect(),
    }
}

/// Escapes a part of an address.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
