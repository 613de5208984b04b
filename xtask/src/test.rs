//! `cargo xtask test`: runs all checks and tests and prints a summary.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::npm;
use crate::postgres;
use crate::python::CLIENTS;
use crate::wheel;

/// Steps in order. `postgres` does not test anything: it starts the server that the tests use.
const STEPS: &[(&str, &str)] = &[
    ("format", "rustfmt"),
    (
        "style",
        "phrases that STYLE.md replaces, in comments, messages and docs",
    ),
    ("lints", "clippy, warnings are errors"),
    (
        "dependencies",
        "licences, bans and sources with cargo-deny, if installed",
    ),
    ("postgres", "a private PostgreSQL server for the tests"),
    ("python", "Python environment with the clients that the tests use"),
    ("browser", "Chromium, for the dashboard tests"),
    ("node", "official TypeScript client of MCP, for the test of /mcp"),
    (
        "tests",
        "unit, integration and command tests, on SQLite and PostgreSQL",
    ),
    (
        "wheel",
        "the Python package: built, installed, checked and tested; skipped with the step python",
    ),
    (
        "npm",
        "the npm packages: compiled, packed and tested with the frameworks; skipped with the step node",
    ),
    ("doctests", "examples in the documentation comments"),
    ("docs", "rustdoc, warnings are errors"),
    ("generated", "reference pages and man pages are up to date"),
];

/// Steps that are skipped with another one.
const NEEDS: &[(&str, &str)] = &[("wheel", "python"), ("npm", "node")];

/// The only build of the test command. Everything else that needs a binary uses this one: another selection
/// of packages would have other features and recompile everything.
pub const TEST_BUILD: &[&str] = &["test", "--workspace", "--tests"];

struct Outcome {
    step: &'static str,
    state: State,
    tests: Tests,
    took: Duration,
}

enum State {
    Passed,
    Failed(String),
    Skipped(String),
}

#[derive(Default, Clone, Copy)]
struct Tests {
    passed: u64,
    failed: u64,
}

/// Runs the steps and fails if any of them failed.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut skip = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => {
                for (name, what) in STEPS {
                    say(&format!("{name:<14}{what}"));
                }
                return Ok(());
            }
            "--skip" => match arguments.next() {
                Some(name) if STEPS.iter().any(|(step, _)| step == name) => skip.push(name.clone()),
                Some(name) => bail!("unknown step `{name}`; `cargo xtask test --list` lists the steps"),
                None => bail!("--skip needs a step name"),
            },
            other => bail!("usage: cargo xtask test [--skip STEP]... [--list] (not `{other}`)"),
        }
    }
    let started = Instant::now();
    let mut server = None;
    let mut outcomes = Vec::new();
    for (step, what) in STEPS {
        let began = Instant::now();
        let mut tests = Tests::default();
        let state = if skip
            .iter()
            .any(|name| name == step || NEEDS.contains(&(*step, name.as_str())))
        {
            State::Skipped("by --skip".into())
        } else {
            say(&format!("\n── {step}: {what}"));
            perform(step, &mut server, &mut tests)
        };
        if let State::Failed(reason) = &state {
            say(&format!("{step} failed: {reason}"));
        }
        outcomes.push(Outcome {
            step,
            state,
            tests,
            took: began.elapsed(),
        });
    }
    summarise(&outcomes, started.elapsed())
}

fn perform(step: &str, server: &mut Option<postgres::Cluster>, tests: &mut Tests) -> State {
    match step {
        "format" => finish(cargo_command(&["fmt", "--all", "--check"])),
        "style" => match crate::style::check(&root()) {
            Ok(()) => State::Passed,
            Err(error) => State::Failed(error.to_string()),
        },
        "lints" => finish(cargo_command(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ])),
        "dependencies" => {
            let installed = Command::new(cargo())
                .args(["deny", "--version"])
                .output()
                .is_ok_and(|o| o.status.success());
            if !installed {
                return State::Skipped("cargo-deny is not installed".into());
            }
            finish(cargo_command(&[
                "deny",
                "--offline",
                "check",
                "bans",
                "licenses",
                "sources",
            ]))
        }
        "postgres" => {
            let installed = postgres::install().and_then(|()| crate::pgbouncer::install());
            match installed.and_then(|()| postgres::Cluster::start(postgres::Options::default())) {
                Ok(cluster) => {
                    *server = Some(cluster);
                    State::Passed
                }
                Err(error) => State::Failed(format!("{error:#}")),
            }
        }
        "python" => match CLIENTS.install() {
            Ok(()) => State::Passed,
            Err(error) => State::Failed(format!("{error:#}")),
        },
        "browser" => match crate::browser::install() {
            Ok(_) => State::Passed,
            Err(error) => State::Failed(format!("{error:#}")),
        },
        "node" => match crate::node::CLIENTS.install() {
            Ok(()) => State::Passed,
            Err(error) => State::Failed(format!("{error:#}")),
        },
        "tests" => {
            let mut command = cargo_command(TEST_BUILD);
            command.arg("--no-fail-fast");
            if let Some(server) = server {
                command.env("SATIETY_TEST_POSTGRES", server.url("postgres"));
            }
            if CLIENTS.python().is_file() {
                command.env("SATIETY_TEST_PYTHON", CLIENTS.python());
            }
            if let Some(browser) = crate::browser::find() {
                command.env("SATIETY_TEST_BROWSER", browser);
            }
            if let Some(directory) = crate::node::CLIENTS.find() {
                command.env("SATIETY_TEST_NODE", directory);
            }
            count_tests(command, tests)
        }
        "wheel" => match wheel::install_for_tests().and_then(|()| wheel::check()) {
            Ok(()) => count_tests(wheel::test_command(), tests),
            Err(error) => State::Failed(format!("{error:#}")),
        },
        "npm" if !crate::node::has_npm() => State::Skipped("npm is not installed".into()),
        "npm" => match npm::build().and_then(|()| npm::test_command()) {
            Ok(command) => count_tests(command, tests),
            Err(error) => State::Failed(format!("{error:#}")),
        },
        "doctests" => count_tests(
            cargo_command(&["test", "--workspace", "--doc", "--no-fail-fast"]),
            tests,
        ),
        "docs" => {
            let mut command = cargo_command(&["doc", "--workspace", "--no-deps", "--quiet"]);
            command.env("RUSTDOCFLAGS", "-D warnings");
            finish(command)
        }
        "generated" => match crate::generate::run(&["--check".into()]) {
            Ok(()) => State::Passed,
            Err(error) => State::Failed(format!("{error:#}")),
        },
        other => State::Failed(format!("unknown step `{other}`")),
    }
}

fn finish(mut command: Command) -> State {
    match command.status() {
        Ok(status) if status.success() => State::Passed,
        Ok(status) => State::Failed(status.to_string()),
        Err(error) => State::Failed(error.to_string()),
    }
}

/// Runs a test command, forwards its output, and adds up the results of the test binaries.
fn count_tests(mut command: Command, tests: &mut Tests) -> State {
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return State::Failed(error.to_string()),
    };
    let lines = child.stdout.take().map(|out| BufReader::new(out).lines());
    for line in lines.into_iter().flatten().map_while(Result::ok) {
        say(&line);
        if let Some(counts) = line
            .strip_prefix("test result: ")
            .or_else(|| pytest_summary(&line))
        {
            tests.passed += count_before(counts, " passed");
            tests.failed += count_before(counts, " failed");
        }
        tests.passed += node_summary(&line, "pass").unwrap_or(0);
        tests.failed += node_summary(&line, "fail").unwrap_or(0);
    }
    match child.wait() {
        Ok(status) if status.success() && tests.failed == 0 => State::Passed,
        Ok(status) => State::Failed(status.to_string()),
        Err(error) => State::Failed(error.to_string()),
    }
}

/// Last line of pytest: `2 failed, 12 passed in 0.31s`.
fn pytest_summary(line: &str) -> Option<&str> {
    let is_count = |part: &str| {
        let mut words = part.split(' ');
        words.next().is_some_and(|number| number.parse::<u64>().is_ok()) && words.next().is_some()
    };
    let (counts, took) = line.split_once(" in ")?;
    let seconds = took.split(' ').next()?.strip_suffix('s')?;
    (seconds.parse::<f64>().is_ok() && counts.split(", ").all(is_count)).then_some(counts)
}

/// A line of the summary of Node's test runner: `ℹ pass 12`.
fn node_summary(line: &str, word: &str) -> Option<u64> {
    let count = line.strip_prefix("ℹ ")?.strip_prefix(word)?.strip_prefix(' ')?;
    count.parse().ok()
}

/// Number before a word: `12` before ` passed` in `ok. 12 passed; 0 failed`.
fn count_before(text: &str, word: &str) -> u64 {
    text.find(word)
        .and_then(|end| text[..end].rsplit(|c: char| !c.is_ascii_digit()).next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn summarise(outcomes: &[Outcome], took: Duration) -> Result<()> {
    say("\n── summary");
    let mut all = Tests::default();
    let mut broken = Vec::new();
    for Outcome {
        step,
        state,
        tests,
        took,
    } in outcomes
    {
        all.passed += tests.passed;
        all.failed += tests.failed;
        let word = match state {
            State::Passed => "ok".to_owned(),
            State::Failed(_) => "FAILED".to_owned(),
            State::Skipped(why) => format!("skipped ({why})"),
        };
        if matches!(state, State::Failed(_)) {
            broken.push(*step);
        }
        let count = if tests.passed + tests.failed > 0 {
            format!("{} tests", tests.passed + tests.failed)
        } else {
            String::new()
        };
        say(&format!(
            "{step:<14}{:>7.1} s  {count:>11}  {word}",
            took.as_secs_f64()
        ));
    }
    say(&format!("{:<14}{:>7.1} s", "total", took.as_secs_f64()));
    say(&format!("{} passed, {} failed", all.passed, all.failed));
    if broken.is_empty() {
        Ok(())
    } else {
        bail!("failed: {}", broken.join(", "))
    }
}

/// Root directory of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Path of the cargo that runs this command.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command.args(arguments).current_dir(root());
    command
}

#[expect(clippy::print_stdout, reason = "a command's answer")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::{count_before, node_summary, pytest_summary};

    #[test]
    fn counts_are_parsed_from_the_summary_line() {
        let line = "ok. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(
            (count_before(line, " passed"), count_before(line, " failed")),
            (12, 3)
        );
        assert_eq!(count_before("nothing here", " passed"), 0);
    }

    #[test]
    fn the_summary_of_pytest_is_recognized() {
        let counts = pytest_summary("1 failed, 12 passed, 2 warnings in 61.02s (0:01:01)").unwrap();
        assert_eq!(
            (count_before(counts, " passed"), count_before(counts, " failed")),
            (12, 1)
        );
        assert_eq!(pytest_summary("2 cases in fixtures"), None);
        assert_eq!(pytest_summary("built in 3s"), None);
    }
    #[test]
    fn the_summary_of_node_is_recognized() {
        assert_eq!(node_summary("ℹ pass 12", "pass"), Some(12));
        assert_eq!(node_summary("ℹ pass 12", "fail"), None);
        assert_eq!(node_summary("ℹ duration_ms 16.5", "pass"), None);
        assert_eq!(node_summary("✔ pass 3 messages (1.2ms)", "pass"), None);
    }
}
