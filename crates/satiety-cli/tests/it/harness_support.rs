//! A harness for tests: a suite of cases that the echo target passes or fails by their expectation, a person with a key, and
//! a terminal for that person.

use std::fmt::Write as _;
use std::process::{Command, Output, Stdio};

use jiff::{SignedDuration, Timestamp};
use satiety::harness::{Approval, Statement};
use satiety_engine::harness::KeyFile;
use serde_json::{Value, json};

use crate::support::Place;

pub(crate) const PASSPHRASE: &str = "correct horse";

/// The program in a directory with `suites/`, a database and a person's key.
pub(crate) struct Lab {
    pub(crate) place: Place,
    pub(crate) key: KeyFile,
}

impl Lab {
    /// A harness with this many cases, all of which pass.
    pub(crate) fn new(cases: usize) -> Self {
        let place = Place::new();
        place.write(
            "suites/echoes/suite.json",
            r#"{"suite_id": "echoes", "deterministic": true}"#,
        );
        place.write("suites/echoes/target.toml", "type = \"echo\"\n");
        for number in 0..cases {
            let id = format!("c{number:02}");
            let case = json!({"case_id": id, "input": {"goal": id}, "expected": {"mode": "exact", "value": id},
                "metadata": {"harder": [{"input": {"goal": format!("{id} again")}, "expected": {"value": format!("{id} again")}}]}});
            place.write(&format!("suites/echoes/cases/{id}.json"), &format!("{case:#}\n"));
        }
        place.write(
            "suites/harness.toml",
            "# Kept by hand.\n[thresholds]\n\"echoes/pass_rate\" = { value = 0.5, direction = \"higher\" }\n",
        );
        let key = KeyFile::generate("anna", PASSPHRASE).unwrap();
        key.write(&place.path("anna.key")).unwrap();
        let lab = Self { place, key };
        lab.settings(&[&lab.key], "");
        lab
    }

    /// Writes satiety.toml with these approvers.
    pub(crate) fn settings(&self, keys: &[&KeyFile], more: &str) {
        let mut text = format!("[harness]\nfolder = \"suites\"\n{more}");
        for key in keys {
            let _ = write!(
                text,
                "\n[[harness.approvers]]\nname = \"{}\"\npublic_key = \"{}\"\n",
                key.name, key.public_key
            );
        }
        self.place.write("satiety.toml", &text);
        self.place.run(&["trust"]);
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command
            .env("USER", "tester")
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env(
                "SATIETY_STORE_URL",
                format!("sqlite:{}", self.place.path("s.db").display()),
            );
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must exit with this code; returns stdout and stderr.
    pub(crate) fn expect(&self, code: i32, arguments: &[&str]) -> (String, String) {
        self.expect_one_of(&[code], arguments)
    }

    pub(crate) fn expect_one_of(&self, codes: &[i32], arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(
            output.status.code().is_some_and(|code| codes.contains(&code)),
            "{arguments:?}\n{out}\n{err}"
        );
        (out, err)
    }

    pub(crate) fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.extend(["--format", "json"]);
        serde_json::from_str(&self.expect(code, &all).0).unwrap()
    }

    /// Makes this many runs, each with a cycle.
    pub(crate) fn cycles(&self, count: usize) -> Value {
        let mut last = Value::Null;
        for _ in 0..count {
            self.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
            last = self.json(0, &["harness", "record"]);
        }
        last
    }

    pub(crate) fn status(&self) -> Value {
        self.json(0, &["harness", "status"])
    }

    /// A proposal of new cases; those whose expected answer is the goal pass.
    pub(crate) fn propose(&self, code: i32, cases: &[(&str, bool)]) -> Option<String> {
        let edges: Vec<Value> = cases
            .iter()
            .map(|(id, passes)| {
                let answer = if *passes { (*id).to_owned() } else { "something else".to_owned() };
                json!({"category": "new", "description": "d", "expected_failure_mode": "f", "suite": "echoes",
                    "case": {"case_id": id, "input": {"goal": id}, "expected": {"mode": "exact", "value": answer}}})
            })
            .collect();
        let content = json!({"expansion_proposals": {"new_edge_cases": edges}});
        self.place.write("proposals.json", &content.to_string());
        let arguments = ["harness", "propose", "proposals.json", "--by", "ben"];
        if code != 0 {
            self.expect(code, &arguments);
            return None;
        }
        self.json(0, &arguments)["proposal_hash"]
            .as_str()
            .map(str::to_owned)
    }

    /// Sets the suite's target to a script.
    pub(crate) fn agent(&self, script: &str) {
        self.place.write("suites/echoes/agent.sh", script);
        self.place.write(
            "suites/echoes/target.toml",
            "type = \"exec\"\ncommand = \"sh\"\nargs = [\"{{base}}/agent.sh\"]\nrequest = \"goal\"\n",
        );
    }

    /// Sets a Python script as the target; returns its file.
    pub(crate) fn worker(&self, name: &str, script: &str) -> String {
        self.place.write(&format!("{name}.py"), script);
        let target = format!(
            "type = \"worker\"\ncommand = \"python3\"\nargs = [\"-S\", \"{{{{base}}}}/{name}.py\"]\n"
        );
        self.place.write(&format!("{name}.toml"), &target);
        format!("{name}.toml")
    }

    /// Approval of the open proposal, valid from and until this many hours from now.
    pub(crate) fn signed(&self, key: &KeyFile, from_hours: i64, until_hours: i64) -> Approval {
        let record = self.open_record();
        let proposal: satiety::harness::Proposal =
            serde_json::from_value(record["state"]["proposal"].clone()).unwrap();
        let at = |hours: i64| {
            Timestamp::now()
                .checked_add(SignedDuration::from_hours(hours))
                .unwrap()
        };
        let statement = Statement::about(&proposal, &key.name, at(from_hours), at(until_hours));
        key.approve(statement, PASSPHRASE).unwrap()
    }

    pub(crate) fn open_record(&self) -> Value {
        let status = self.status();
        let id = status["expansion"]["expansion_id"].as_str().unwrap().to_owned();
        let key = format!("eval-harness/saturation/expansions/{id}");
        serde_json::from_str(&self.expect(0, &["harness", "history", "--key", &key]).0).unwrap()
    }

    /// Identity of the harness in the repository.
    pub(crate) fn harness_id(&self) -> String {
        let text = fs_err::read_to_string(self.place.path("suites/.harness/anchor.json")).unwrap();
        let anchor: Value = serde_json::from_str(&text).unwrap();
        anchor["harness_id"].as_str().unwrap().to_owned()
    }

    /// Submits an approval.
    pub(crate) fn approve(&self, code: i32, approval: &Approval) -> String {
        self.place
            .write("approval.json", &serde_json::to_string(approval).unwrap());
        self.expect(code, &["harness", "approve", "--signed", "approval.json"])
            .1
    }

    /// Every file below `suites`, with its content.
    pub(crate) fn files(&self) -> std::collections::BTreeMap<String, String> {
        fn look(folder: &std::path::Path, found: &mut std::collections::BTreeMap<String, String>) {
            for entry in fs_err::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    look(&path, found);
                } else {
                    let text = fs_err::read_to_string(&path).unwrap();
                    found.insert(path.display().to_string(), text);
                }
            }
        }
        let mut found = std::collections::BTreeMap::new();
        look(&self.place.path("suites"), &mut found);
        found
    }

    /// Runs a statement on the database, as an attacker with access to the file could.
    pub(crate) fn sql(&self, statement: &str) {
        use sqlx::Connection as _;
        let url = format!("sqlite:{}", self.place.path("s.db").display());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
            let done = sqlx::query(sqlx::AssertSqlSafe(statement.to_owned()))
                .execute(&mut connection)
                .await
                .unwrap();
            assert!(done.rows_affected() > 0, "{statement} changed nothing");
            connection.close().await.unwrap();
        });
    }

    /// Runs a command on a pseudo-terminal and answers its prompts: `(prompt, answer)`.
    pub(crate) fn at_a_terminal(&self, answers: &[(&str, &str)], arguments: &[&str]) -> (i32, String) {
        const SCRIPT: &str = r"
import json, os, pty, select, sys, time
answers, command = json.loads(sys.argv[1]), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(command[0], command)
seen, pending = '', ''
while True:
    if not select.select([terminal], [], [], 60)[0]:
        break
    try:
        data = os.read(terminal, 4096).decode(errors='replace')
    except OSError:
        break
    if not data:
        break
    seen, pending = seen + data, pending + data
    if answers and answers[0][0] in pending:
        time.sleep(0.1)
        os.write(terminal, (answers.pop(0)[1] + '\n').encode())
        pending = ''
status = os.waitpid(child, 0)[1]
print(seen)
sys.exit(os.waitstatus_to_exitcode(status))
";
        let answers = serde_json::to_string(answers).unwrap();
        let mut all = vec!["-c", SCRIPT, &answers, env!("CARGO_BIN_EXE_satiety")];
        all.extend(arguments);
        let ours = self.command(&[]);
        let mut command = Command::new("python3");
        command
            .args(all)
            .env_clear()
            .current_dir(self.place.folder.path())
            .stdin(Stdio::null());
        for (name, value) in ours.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let output = command.output().unwrap();
        (
            output.status.code().unwrap_or(-1),
            format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ),
        )
    }
}
