//! Rules of an operation hold on every surface: CLI, HTTP and MCP write the same rows and send the same alerts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness_support::Lab;
use crate::serve::{Server, start};

/// Surfaces. MCP uses standard input and output.
const SURFACES: [Surface; 3] = [Surface::Cli, Surface::Http, Surface::Mcp];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    Cli,
    Http,
    Mcp,
}

/// A directory with a harness, a database, and a webhook for all alerts.
struct Site {
    lab: Lab,
    alerts: mpsc::Receiver<Value>,
}

impl Site {
    fn new() -> Self {
        let lab = Lab::new(12);
        let (sender, alerts) = mpsc::channel();
        let url = web_hook(sender);
        lab.settings(
            &[&lab.key],
            &format!(
                "record = true\nnotify_webhook = \"{url}/notify\"\n[bench]\nalert_webhook = \"{url}/alert\"\n\
                 [models]\nembedder = \"none\"\n"
            ),
        );
        Self { lab, alerts }
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.lab.place.path("s.db").display())
    }

    fn server(&self) -> Server {
        start(&self.lab.place, &["--db", &self.store(), "--root", "."])
    }

    fn agent(&self) -> Agent {
        Agent::connect(self)
    }

    /// Alerts that the webhook received since the last call, by event.
    fn alerts(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.alerts
            .try_iter()
            .map(|body| (text(&body["event"]), text(&body["suite_id"])))
            .collect()
    }

    /// Rows of the database, each as its columns joined by a space.
    fn rows(&self, columns: &[&str], rest: &str) -> Vec<String> {
        use sqlx::{Connection as _, Row as _};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let text = format!("SELECT {} AS line {rest}", columns.join(" || ' ' || "));
        runtime.block_on(async {
            let mut connection = sqlx::SqliteConnection::connect(&self.store()).await.unwrap();
            let rows = sqlx::query(sqlx::AssertSqlSafe(text))
                .fetch_all(&mut connection)
                .await
                .unwrap();
            connection.close().await.unwrap();
            rows.iter().map(|row| row.get("line")).collect()
        })
    }

    /// Runs the suite with a gate.
    fn gated_run(&self, surface: Surface) {
        match surface {
            Surface::Cli => {
                self.lab
                    .expect_one_of(&[0, 1], &["bench", "run", "suites/echoes", "--gate"]);
            }
            Surface::Http => {
                let server = self.server();
                let job = post(
                    &server,
                    "/v1/bench/runs",
                    &json!({"suite": "suites/echoes", "gate": true}),
                );
                let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
                let began = Instant::now();
                loop {
                    let job = request(&server, "GET", &path, &Value::Null);
                    match job["state"].as_str().unwrap() {
                        "done" => break,
                        "failed" | "stopped" => panic!("{job}"),
                        _ => assert!(began.elapsed() < Duration::from_mins(1), "{job}"),
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            Surface::Mcp => {
                self.agent()
                    .call("bench_run", &json!({"suite": "suites/echoes", "gate": true}));
            }
        }
    }
}

/// A gated run alerts about a regression and records the next cycle of the harness.
#[test]
fn a_gated_run_alerts_and_records_a_cycle() {
    let mut seen = Vec::new();
    for surface in SURFACES {
        let site = Site::new();
        site.lab.expect(0, &["bench", "run", "suites/echoes"]);
        site.lab.expect(
            0,
            &[
                "bench",
                "baseline",
                "latest",
                "--suite",
                "suites/echoes",
                "--reason",
                "first",
            ],
        );
        // The same cases, and a target that fails all of them.
        site.lab.place.write(
            "suites/echoes/target.toml",
            "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo wrong\"]\n",
        );
        site.gated_run(surface);
        let gates = site.rows(&["suite_id", "verdict"], "FROM bench_gates");
        let ledger = site.rows(&["kind"], "FROM harness_ledger ORDER BY seq");
        let answers = site.rows(&["key"], "FROM bench_responses");
        let alerts = site.alerts();
        assert_eq!(gates, ["echoes regression"], "{surface:?}");
        assert!(ledger.contains(&"cycle".to_owned()), "{surface:?}: {ledger:?}");
        assert!(
            answers.is_empty(),
            "{surface:?} stores answers without a request to do so"
        );
        let alert = ("bench_regression".to_owned(), "echoes".to_owned());
        assert!(alerts.contains(&alert), "{surface:?}: {alerts:?}");
        seen.push((gates, ledger, alerts));
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
}

/// A cycle that needs a person sends an alert.
#[test]
fn a_cycle_that_needs_a_person_alerts() {
    let mut seen = Vec::new();
    for surface in SURFACES {
        let site = Site::new();
        // All cases pass in several runs, until the harness is too easy.
        site.lab.cycles(9);
        site.lab.expect(0, &["bench", "run", "suites/echoes"]);
        site.alerts();
        match surface {
            Surface::Cli => {
                site.lab.expect(0, &["harness", "record", "--cycle", "tenth"]);
            }
            Surface::Http => {
                post(
                    &site.server(),
                    "/v1/harness/cycles",
                    &json!({"cycle_id": "tenth"}),
                );
            }
            Surface::Mcp => {
                site.agent().call("harness_record", &json!({"cycle_id": "tenth"}));
            }
        }
        let ledger = site.rows(&["kind"], "FROM harness_ledger ORDER BY seq");
        let alerts = site.alerts();
        assert_eq!(
            alerts,
            [("harness_saturation".into(), String::new())],
            "{surface:?}"
        );
        seen.push((ledger, alerts));
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
}

/// Search results that a session quotes when it saves, changes or matches a text are recorded as used.
#[test]
fn quoted_memories_are_recorded_as_used() {
    const LOCKS: &str =
        "Take the store lock before the journal lock, or two writers wait for each other for ever.";
    const PAGES: &str =
        "The page cache of the journal is flushed before the checkpoint begins to copy anything.";
    const RETRY: &str =
        "A writer that finds the journal locked waits for ten milliseconds and then tries it again.";
    let quote = |text: &str| format!("As we said: {text}");
    let mut seen: Vec<Vec<Vec<String>>> = Vec::new();
    for surface in SURFACES {
        let site = Site::new();
        let texts = [("Lock order", LOCKS), ("Page cache", PAGES), ("Retries", RETRY)];
        let search = "how does the journal lock and flush";
        match surface {
            Surface::Cli => {
                let memory = |arguments: &[&str]| site.lab.json(0, &[&["memory"], arguments].concat());
                for (title, text) in texts {
                    memory(&["save", title, text]);
                }
                memory(&["search", search, "--session", "s1"]);
                let note = memory(&["save", "Note", &quote(LOCKS), "--session", "s1"]);
                let id = note["memory"]["id"].as_str().unwrap();
                memory(&["update", id, "--content", &quote(PAGES), "--session", "s1"]);
                memory(&["match", &quote(RETRY), "--session", "s1"]);
            }
            Surface::Http => {
                let server = site.server();
                let save = |body: Value| post(&server, "/v1/memories", &body);
                for (title, text) in texts {
                    save(json!({"title": title, "content": text}));
                }
                post(
                    &server,
                    "/v1/memory/search",
                    &json!({"query": search, "session": "s1"}),
                );
                let note = save(json!({"title": "Note", "content": quote(LOCKS), "session": "s1"}));
                let path = format!("/v1/memories/{}", note["memory"]["id"].as_str().unwrap());
                let body = json!({"content": quote(PAGES), "session": "s1"});
                request(&server, "PATCH", &path, &body);
                post(
                    &server,
                    "/v1/memory/match",
                    &json!({"text": quote(RETRY), "session": "s1"}),
                );
            }
            Surface::Mcp => {
                let mut agent = site.agent();
                for (title, text) in texts {
                    agent.call(
                        "memory_save",
                        &json!({"title": title, "content": text, "session": "s0"}),
                    );
                }
                agent.call("memory_search", &json!({"query": search, "session": "s1"}));
                let body = json!({"title": "Note", "content": quote(LOCKS), "session": "s1"});
                let note = agent.call("memory_save", &body);
                let id = note["memory"]["id"].as_str().unwrap();
                let body = json!({"id": id, "content": quote(PAGES), "session": "s1"});
                agent.call("memory_update", &body);
                agent.call(
                    "memory_match_triggers",
                    &json!({"text": quote(RETRY), "session": "s1"}),
                );
            }
        }
        let uses = site.rows(
            &["event_type", "session_id", "title"],
            "FROM eval_feedback JOIN memories USING (memory_id) ORDER BY line",
        );
        assert_eq!(
            uses,
            [
                "reference s1 Lock order",
                "reference s1 Page cache",
                "reference s1 Retries"
            ],
            "{surface:?}"
        );
        let learnt = site.rows(&["title", "learnt"], "FROM memories ORDER BY line");
        seen.push(vec![uses, learnt]);
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
}

/// A server on loopback that forwards every body it receives.
fn web_hook(sender: mpsc::Sender<Value>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let body = message(&mut stream).1;
            // Before the answer, so that callers that wait for the answer find it here.
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
            let answer = "HTTP/1.1 204 X\r\nconnection: close\r\n\r\n";
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    request(server, "POST", path, body)
}

/// Sends a request that must succeed.
fn request(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        server.address,
        body.len()
    )
    .unwrap();
    let (head, body) = message(&mut BufReader::new(stream));
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {head}{text}");
    serde_json::from_slice(&body).unwrap()
}

/// Head and body of a message with a content length.
fn message(stream: &mut BufReader<TcpStream>) -> (String, Vec<u8>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
    let length = head.lines().find_map(|line| {
        let line = line.to_lowercase();
        line.strip_prefix("content-length:")?.trim().parse().ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

/// An MCP client on standard input and output.
struct Agent {
    child: std::process::Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    calls: u64,
}

impl Agent {
    fn connect(site: &Site) -> Self {
        let mut child = site
            .lab
            .command(&["mcp", "--profile", "full"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut agent = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            calls: 0,
        };
        let about = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"}});
        agent.ask("initialize", &about);
        writeln!(
            agent.input,
            "{}",
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
        )
        .unwrap();
        agent
    }

    /// Calls a tool, which must succeed, and waits for its result.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], false, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let asked = json!({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params});
        writeln!(self.input, "{asked}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server exited");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.calls {
                return answer["result"].clone();
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
