//! Measures the server time of every page of the dashboard over a large store: `cargo build --release && cargo run
//! --release -p perf --bin pages`.
//!
//! The store has 100,000 benchmark results of one suite, 1,000 runs of another, 10,000 conversations, 10,000 agents' runs,
//! 10,000 contexts with a proposal each, 1,000 research runs and 1,000,000 logged searches. One of each is created with the program itself, and SQL multiplies it,
//! so that the rows are real and the store is made in a minute or two. The large suite is a harness with a recorded cycle.
//! The same pages are measured over a store of a tenth of the size: a page whose cost grows with the store shows as a ratio
//! near ten. The first request of a page, which fills caches, is reported separately.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use perf::rows::Row;
use perf::server::Server;
use serde_json::{Value, json};

#[derive(Debug, Parser)]
struct Arguments {
    /// Path of the satiety binary [default: next to this one]
    #[arg(long)]
    satiety: Option<PathBuf>,
    /// Directory for the stores [default: a temporary one]
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Share of the full size
    #[arg(long, default_value_t = 1.0)]
    size: f64,
    /// Requests per page
    #[arg(long, default_value_t = 40)]
    requests: usize,
    /// Whether to skip the store of a tenth of the size
    #[arg(long)]
    only_large: bool,
}

/// Number of rows of a store.
#[derive(Debug, Clone, Copy)]
struct Size {
    runs: usize,
    cases: usize,
    conversations: usize,
    queries: usize,
    /// Research runs, and runs of the small suite.
    others: usize,
}

impl Size {
    fn scaled(share: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "sizes are small positive numbers"
        )]
        let scale = |full: usize| ((full as f64 * share).round() as usize).max(1);
        Self {
            runs: scale(100).max(2),
            cases: 1000,
            conversations: scale(10_000),
            queries: scale(1_000_000),
            others: scale(1000),
        }
    }
}

/// Limit of the p95 in milliseconds.
const LIMIT_MS: f64 = 200.0;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let has_shell = Command::new("sqlite3").arg("--version").output().is_ok();
    ensure!(has_shell, "sqlite3 not found\nhint: apt-get install sqlite3");
    let satiety = match &arguments.satiety {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("satiety"),
    };
    ensure!(
        satiety.is_file(),
        "{} not found\nhint: cargo build --release",
        satiety.display()
    );
    let temporary = tempfile::tempdir()?;
    let place = arguments
        .keep
        .clone()
        .unwrap_or_else(|| temporary.path().to_owned());
    let large = measure(&satiety, &place.join("large"), arguments.size, arguments.requests)?;
    let small = if arguments.only_large {
        Vec::new()
    } else {
        measure(
            &satiety,
            &place.join("small"),
            arguments.size / 10.0,
            arguments.requests,
        )?
    };
    println!(
        "\n| page | first ms | p50 ms | p95 ms | kB | p50 at a tenth | ratio |\n|---|--:|--:|--:|--:|--:|--:|"
    );
    let mut slow = 0;
    for (number, page) in large.iter().enumerate() {
        let tenth = small.get(number);
        let ratio = tenth.map(|tenth| page.p50 / tenth.p50.max(0.5));
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {:.0} | {} | {} |",
            page.name,
            page.first,
            page.p50,
            page.p95,
            page.kilobytes,
            tenth.map_or_else(String::new, |tenth| format!("{:.1}", tenth.p50)),
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.1}")),
        );
        slow += usize::from(page.p95 > LIMIT_MS);
        Row::cost(format!("page {}, p95", page.name), "ms", page.p95).record()?;
    }
    println!("\n{} of {} pages above {LIMIT_MS} ms at p95", slow, large.len());
    Ok(())
}

struct PageTime {
    name: &'static str,
    /// Time of the first request.
    first: f64,
    p50: f64,
    p95: f64,
    kilobytes: f64,
}

/// Fills a store and measures its pages.
fn measure(satiety: &Path, place: &Path, share: f64, requests: usize) -> Result<Vec<PageTime>> {
    let size = Size::scaled(share);
    fs_err::create_dir_all(place)?;
    let store = place.join("store.db");
    let began = Instant::now();
    let known = store.is_file();
    if !known {
        templates(satiety, place)?;
        multiply(&store, size)?;
        record_cycle(satiety, place, size)?;
    }
    println!(
        "{}: {} results, {} conversations, {} searches, {} MB, {:.0} s",
        if known { "kept store" } else { "new store" },
        size.runs * size.cases,
        size.conversations,
        size.queries,
        fs_err::metadata(&store)?.len() / 1_000_000,
        began.elapsed().as_secs_f64()
    );
    let server = serve(satiety, place)?;
    let last_case = size.cases / 2;
    let cycle = shell(
        &store,
        "SELECT json_extract(body, '$.cycle_id') FROM harness_ledger WHERE kind = 'cycle' LIMIT 1;",
    )?;
    let cycle = cycle.trim();
    let pages: [(&'static str, String); 38] = [
        ("overview", "/".into()),
        ("conversations", "/conversations".into()),
        ("conversations by signal", "/conversations?signal=ESCALATE".into()),
        ("conversations by text", "/conversations?q=queue".into()),
        ("a conversation", "/conversations/conversation-1".into()),
        ("agent runs", "/progress".into()),
        ("an agent run", "/progress/agent-1".into()),
        ("memory searches", "/memory/queries".into()),
        ("memory searches by text", "/memory/queries?q=rollback".into()),
        ("a memory search", "/memory/queries/query-1".into()),
        ("bench", "/bench".into()),
        ("bench by text", "/bench?q=load".into()),
        ("a run", "/bench/runs/run-1".into()),
        (
            "a run, failed cases",
            "/bench/runs/run-1?status=not_pass&sort=-latency".into(),
        ),
        ("a run, changed cases", "/bench/runs/run-2?changed=1".into()),
        ("a run by text", "/bench/runs/run-1?q=case-99".into()),
        ("a case", format!("/bench/runs/run-1/cases/case-{last_case}")),
        (
            "a comparison",
            "/bench/compare?baseline=run-1&candidate=run-2".into(),
        ),
        ("memory", "/memory".into()),
        ("a step", "/progress/agent-1/steps/6".into()),
        ("research", "/research".into()),
        ("a research run", "/research/research-1".into()),
        ("a research round", "/research/research-1/rounds/1".into()),
        ("a passage", "/research/research-1/rounds/1/results/1".into()),
        ("harness", "/harness".into()),
        ("a cycle", format!("/harness/cycles/{cycle}")),
        (
            "a cycle, differing cases",
            format!("/harness/cycles/{cycle}?differ=1"),
        ),
        (
            "a case of the harness",
            format!("/harness/cases/load/case-{last_case}?cycle={cycle}"),
        ),
        ("retrieval", "/retrieval".into()),
        ("annotation", "/retrieval/annotate?annotator=perf".into()),
        ("experiments", "/ab".into()),
        ("eviction", "/eviction".into()),
        ("a context", "/eviction/scope-1".into()),
        ("a proposal", "/eviction/scope-1/proposals/proposal-1".into()),
        (
            "two agent runs",
            "/compare/progress?run=agent-1&run=agent-2".into(),
        ),
        ("a search of the memory", "/memory/search?q=rollback".into()),
        ("results to label", "/bench/runs/run-1/label?all=1".into()),
        ("jobs", "/bench/jobs".into()),
    ];
    let mut connection = Connection::open(server.url.trim_start_matches("http://"))?;
    let mut found = Vec::new();
    for (name, path) in pages {
        let mut times = Vec::with_capacity(requests);
        let mut bytes = 0;
        let mut first = 0.0;
        for number in 0..=requests {
            let started = Instant::now();
            bytes = connection.get(&path).with_context(|| format!("page {path}"))?;
            let took = started.elapsed().as_secs_f64() * 1e3;
            // The first request of a page fills caches.
            if number == 0 {
                first = took;
            } else {
                times.push(took);
            }
        }
        times.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of a short list"
        )]
        let at = |share: f64| times[(((times.len() - 1) as f64) * share).round() as usize];
        found.push(PageTime {
            name,
            first,
            p50: at(0.5),
            p95: at(0.95),
            #[expect(clippy::cast_precision_loss, reason = "pages are small")]
            kilobytes: bytes as f64 / 1e3,
        });
    }
    Ok(found)
}

fn command(satiety: &Path, place: &Path) -> Command {
    let mut command = Command::new(satiety);
    command
        .current_dir(place)
        .env(
            "SATIETY_STORE_URL",
            format!("sqlite:{}", place.join("store.db").display()),
        )
        .env("SATIETY_MODELS_EMBEDDER", "none")
        .env("SATIETY_HARNESS_FOLDER", place.join("harness"))
        .env("HOME", place);
    command
}

fn serve(satiety: &Path, place: &Path) -> Result<Server> {
    let mut command = command(satiety, place);
    command.args(["--format", "json", "serve", "--listen", "127.0.0.1:0"]);
    Server::start(command)
}

/// Writes the suite of the harness: cases that expect the word, or not.
fn write_suite(place: &Path, cases: &[(String, bool)]) -> Result<()> {
    let cases: Vec<Value> = cases
        .iter()
        .map(|(case_id, passes)| {
            let goal = if *passes { "say queue" } else { "say nothing" };
            json!({"case_id": case_id, "input": {"goal": goal}, "expected": {"mode": "contains", "value": "queue"}, "tags": ["a"]})
        })
        .collect();
    let suite = json!({"suite_id": "load", "cases": cases});
    fs_err::create_dir_all(place.join("harness/load"))?;
    fs_err::write(place.join("harness/load/suite.json"), suite.to_string())?;
    fs_err::write(place.join("harness/load/target.toml"), "type = \"echo\"\n")?;
    Ok(())
}

/// Runs a command of the program, which may end with the code of an unmet check.
fn run(satiety: &Path, place: &Path, arguments: &[&str]) -> Result<()> {
    let output = command(satiety, place).args(arguments).output()?;
    ensure!(
        output.status.code().is_some_and(|code| code <= 3),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Records a cycle of the harness over the multiplied runs.
fn record_cycle(satiety: &Path, place: &Path, size: Size) -> Result<()> {
    let cases: Vec<(String, bool)> = (1..=size.cases)
        .map(|number| (format!("case-{number}"), number % 10 != 0))
        .collect();
    write_suite(place, &cases)?;
    run(satiety, place, &["harness", "record"])
}

/// One row of each kind, made with the program.
fn templates(satiety: &Path, place: &Path) -> Result<()> {
    write_suite(
        place,
        &[("template-pass".into(), true), ("template-fail".into(), false)],
    )?;
    run(satiety, place, &["bench", "run", "harness/load"])?;
    fs_err::create_dir_all(place.join("pages"))?;
    for (name, text) in [
        (
            "queue.md",
            "# Queues\n\nA queue needs workers.\n\n## Durability\n\nA durable queue survives a restart.\n",
        ),
        (
            "workers.md",
            "# Workers\n\nWorkers take jobs from the queue one by one.\n",
        ),
    ] {
        fs_err::write(place.join("pages").join(name), text)?;
    }
    run(
        satiety,
        place,
        &["research", "how does a durable queue work", "--in", "pages"],
    )?;
    let server = serve(satiety, place)?;
    let mut connection = Connection::open(server.url.trim_start_matches("http://"))?;
    let rounds: Vec<Value> = (1..=6)
        .map(|round| {
            json!({"round": round, "agent": "a", "outputs": {
                "claims": [format!("the queue has {round} workers"), "the queue is durable"],
                "next_actions": ["Write the migration in db/0007.sql"]}})
        })
        .collect();
    connection.post(
        "/v1/conversations",
        &json!({"conversation_id": "template", "topic": "which queue?", "rounds": rounds}),
    )?;
    let step = json!({"calls": [{"tool": "bash", "arguments": {"command": "pytest"},
        "result": {"content": "E ImportError", "exit_code": 1}}], "usage": {"tokens": 2000}});
    let steps: Vec<&Value> = std::iter::repeat_n(&step, 12).collect();
    connection.post("/v1/conversations/template/messages", &json!({"messages": steps}))?;
    let items: Vec<Value> = (1..=10)
        .map(|number| {
            json!({"ctx_id": format!("log-{number}"), "zone": "workspace", "kind": "log", "token_count": 400,
                "snippet": format!("output of test {number}")})
        })
        .collect();
    connection.post(
        "/v1/eviction/scopes",
        &json!({"scope_id": "template", "turn": 1, "goal": "mend the queue", "add": items}),
    )?;
    connection.post(
        "/v1/eviction/propose",
        &json!({"scope_id": "template", "free_tokens": 1000, "timeout_ms": 60_000, "seed": 1}),
    )?;
    for topic in ["rollback", "queue", "invoice"] {
        connection.post(
            "/v1/memories",
            &json!({"title": format!("About the {topic}"), "content": format!("The {topic} is tested every week.")}),
        )?;
    }
    connection.post("/v1/memory/search", &json!({"query": "rollback", "session": "s"}))?;
    let corpus: Vec<String> = (1..=50)
        .map(|number| {
            let query = json!({"queryId": format!("golden-{number}"), "query": "rollback", "judgmentSource": "manual",
                "judgments": [{"memoryId": format!("memory-{number}"), "relevance": number % 4}]});
            query.to_string()
        })
        .collect();
    fs_err::write(place.join("corpus.jsonl"), corpus.join("\n"))?;
    run(satiety, place, &["retrieval", "import", "corpus.jsonl"])?;
    // The query log is written in the background.
    std::thread::sleep(std::time::Duration::from_secs(2));
    Ok(())
}

/// Multiplies the templates with SQL.
fn multiply(store: &Path, size: Size) -> Result<()> {
    let Size {
        runs,
        cases,
        conversations,
        queries,
        others,
    } = size;
    let columns = |table: &str| -> Result<Vec<String>> {
        let text = shell(store, &format!("SELECT name FROM pragma_table_info('{table}');"))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    // Copies all columns of a table except the given ones, which get expressions of `n.i`.
    let copy = |table: &str, changed: &[(&str, &str)], source: &str| -> Result<String> {
        let names = columns(table)?;
        ensure!(!names.is_empty(), "table {table} is missing");
        let values: Vec<String> = names
            .iter()
            .map(|name| {
                let own = changed.iter().find(|(column, _)| column == name);
                own.map_or_else(|| format!("t.{name}"), |(_, value)| (*value).to_owned())
            })
            .collect();
        Ok(format!(
            "INSERT INTO {table} ({}) SELECT {} FROM {source};\n",
            names.join(", "),
            values.join(", ")
        ))
    };
    let series = |count: usize, alias: &str| {
        format!(
            "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n) {alias}"
        )
    };
    let numbers = |count: usize| series(count, "n");
    let template_run = shell(store, "SELECT run_id FROM bench_runs LIMIT 1;")?;
    let template_run = template_run.trim();
    let mut script = String::from("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; BEGIN;\n");
    script += &copy(
        "conversations",
        &[
            ("id", "'conversation-' || n.i"),
            ("topic", "'which queue? ' || n.i"),
            ("updated_at", "t.updated_at - n.i * 1000000"),
        ],
        &format!(
            "conversations t, {} WHERE t.id = 'template'",
            numbers(conversations)
        ),
    )?;
    script += &copy(
        "rounds",
        &[("conversation_id", "'conversation-' || n.i")],
        &format!(
            "rounds t, {} WHERE t.conversation_id = 'template'",
            numbers(conversations)
        ),
    )?;
    script += &copy(
        "agent_runs",
        &[
            ("id", "'agent-' || n.i"),
            ("updated_at", "t.updated_at - n.i * 1000000"),
        ],
        &format!("agent_runs t, {} WHERE t.id = 'template'", numbers(conversations)),
    )?;
    script += &copy(
        "agent_messages",
        &[("run_id", "'agent-' || n.i")],
        &format!(
            "agent_messages t, {} WHERE t.run_id = 'template'",
            numbers(conversations)
        ),
    )?;
    script += &copy(
        "eviction_scopes",
        &[
            ("scope_id", "'scope-' || n.i"),
            ("updated_at", "t.updated_at - n.i * 1000000"),
        ],
        &format!(
            "eviction_scopes t, {} WHERE t.scope_id = 'template'",
            numbers(conversations)
        ),
    )?;
    script += &copy(
        "eviction_items",
        &[("scope_id", "'scope-' || n.i")],
        &format!(
            "eviction_items t, {} WHERE t.scope_id = 'template'",
            numbers(conversations)
        ),
    )?;
    script += &copy(
        "eviction_proposals",
        &[
            ("proposal_id", "'proposal-' || n.i"),
            ("scope_id", "'scope-' || n.i"),
            ("proposed_at", "t.proposed_at - n.i * 1000000"),
        ],
        &format!(
            "eviction_proposals t, {} WHERE t.scope_id = 'template'",
            numbers(conversations)
        ),
    )?;
    script += &copy(
        "eval_queries",
        &[
            ("query_id", "'query-' || n.i"),
            ("query", "'rollback ' || n.i"),
            ("created_at", "t.created_at - n.i * 1000"),
            // Rows are found by the time in their id; these ids have none.
            ("partition_at", "0"),
        ],
        &format!(
            "(SELECT * FROM eval_queries WHERE NOT is_eval_corpus LIMIT 1) t, {}",
            numbers(queries)
        ),
    )?;
    script += &copy(
        "bench_runs",
        &[
            ("run_id", "'run-' || n.i"),
            ("started_at", "t.started_at + n.i * 1000000"),
        ],
        &format!("(SELECT * FROM bench_runs LIMIT 1) t, {}", numbers(runs)),
    )?;
    script += &copy(
        "bench_runs",
        &[
            ("run_id", "'small-' || n.i"),
            ("suite_id", "'small'"),
            ("started_at", "t.started_at - n.i * 1000000"),
        ],
        &format!("(SELECT * FROM bench_runs LIMIT 1) t, {}", numbers(others)),
    )?;
    script += &copy(
        "research_runs",
        &[
            ("run_id", "'research-' || n.i"),
            ("started_at", "t.started_at - n.i * 1000000"),
        ],
        &format!("(SELECT * FROM research_runs LIMIT 1) t, {}", numbers(others)),
    )?;
    script += &copy(
        "research_rounds",
        &[("run_id", "'research-' || n.i")],
        &format!(
            "(SELECT * FROM research_rounds WHERE run_id = (SELECT run_id FROM research_runs LIMIT 1)) t, {}",
            numbers(others)
        ),
    )?;
    write!(
        script,
        "INSERT INTO bench_gates (gate_id, suite_id, baseline_run, candidate_run, verdict, decided_at, report)
         SELECT 'gate-' || n.i, 'load', 'run-1', 'run-' || n.i, 'pass', n.i, '{{}}' FROM {};\n",
        numbers(runs)
    )?;
    // Every tenth case fails, others in each run.
    let template = "CASE WHEN (n.i + r.i) % 10 = 0 THEN 'template-fail' ELSE 'template-pass' END";
    script += &copy(
        "bench_results",
        &[
            ("run_id", "'run-' || r.i"),
            ("case_id", "'case-' || n.i"),
            // The body names its case, and its content is that of the case.
            (
                "body",
                "replace(t.body, '\"' || t.case_id || '\"', '\"case-' || n.i || '\"')",
            ),
        ],
        &format!(
            "{} JOIN {} JOIN bench_results t ON t.case_id = {template} AND t.run_id = '{template_run}'",
            numbers(cases),
            series(runs, "r")
        ),
    )?;
    script += &copy(
        "bench_run_cases",
        &[("run_id", "'run-' || r.i"), ("case_id", "'case-' || n.i")],
        &format!(
            "{} JOIN {} JOIN (SELECT * FROM bench_run_cases LIMIT 1) t",
            numbers(cases),
            series(runs, "r")
        ),
    )?;
    script += "COMMIT; ANALYZE; PRAGMA wal_checkpoint(TRUNCATE);";
    shell(store, &script)?;
    Ok(())
}

/// Runs a script in the shell of SQLite and returns its output.
fn shell(store: &Path, script: &str) -> Result<String> {
    let mut child = Command::new("sqlite3")
        .arg("-bail")
        .arg(store)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start sqlite3")?;
    child
        .stdin
        .take()
        .context("sqlite3 has no input")?
        .write_all(script.as_bytes())?;
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && errors.is_empty(), "sqlite3: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// HTTP client with one kept-alive connection, which adds little to the server's time.
struct Connection {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Connection {
    fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            address: address.to_owned(),
        })
    }

    /// Requests a page; returns its size in bytes.
    fn get(&mut self, path: &str) -> Result<usize> {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }

    fn post(&mut self, path: &str, body: &Value) -> Result<usize> {
        let body = body.to_string();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        ))
    }

    fn send(&mut self, request: &str) -> Result<usize> {
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut status = String::new();
        self.stream.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        ensure!(
            status.contains(" 20"),
            "{} {}",
            status.trim(),
            String::from_utf8_lossy(&body)
                .chars()
                .take(300)
                .collect::<String>()
        );
        Ok(length)
    }
}
