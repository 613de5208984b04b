//! Measures the overhead of a benchmark run beyond the target: `satiety bench run` as a whole process,
//! compared with other harnesses.
//!
//! `cargo build --release && cargo run --release -p perf --bin bench -- --python PYTHON [--promptfoo PATH]`
//!
//! The cases echo the question and compare it with the expected answer; a tenth of them fails. `echo` answers
//! in process, `worker` is two processes that read and write lines. Everything counts: start-up, reading the
//! suite, writing results to the store (durably, unlike all peers), metrics. CPU time includes child
//! processes.

#![expect(clippy::print_stdout, reason = "prints the measurements")]

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use perf::rows::Row;
use serde_json::{Value, json};

/// Clock ticks per second in `/proc` on Linux.
const TICKS: f64 = 100.0;

#[derive(Debug, Parser)]
struct Arguments {
    /// Path of the satiety binary [default: the release build of this workspace]
    #[arg(long)]
    satiety: Option<PathBuf>,
    /// Python interpreter with pydantic-evals and inspect-ai
    #[arg(long)]
    python: Option<PathBuf>,
    /// Path of the promptfoo command
    #[arg(long)]
    promptfoo: Option<PathBuf>,
    /// Numbers of cases per suite
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2_000, 10_000, 100_000])]
    cases: Vec<usize>,
    /// Run as the echo worker instead of measuring
    #[arg(long, hide = true)]
    worker: bool,
}

/// Builds the command for a suite in a fresh directory.
type Start = Box<dyn Fn(&Path, &Path) -> Result<Command>>;

/// One program to measure.
struct Program {
    name: &'static str,
    /// Largest suite to run, so that slow programs finish.
    most: usize,
    /// Builds the command for a suite in a fresh directory.
    command: Start,
    /// Whether the output reports the expected numbers of results and passes.
    is_right: fn(&str, usize, usize) -> bool,
    ours: bool,
}

/// Cost of one suite size per run.
struct Cost {
    wall: f64,
    cpu: f64,
    megabytes: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.worker {
        return work();
    }
    let own = std::env::current_exe()?;
    let satiety = match &arguments.satiety {
        Some(path) => path.clone(),
        None => own.with_file_name("satiety"),
    };
    ensure!(
        satiety.is_file(),
        "{} not found; run `cargo build --release`",
        satiety.display()
    );
    let programs = programs(&arguments, &satiety, &own);
    let scratch = tempfile::tempdir()?;
    println!(
        "{:<28} {:>8} {:>10} {:>12} {:>12} {:>9}",
        "", "cases", "wall s", "cases/s", "CPU ms/case", "peak MB"
    );
    for &cases in &arguments.cases {
        let suite = scratch.path().join(format!("suite-{cases}.json"));
        fs_err::write(&suite, suite_of(cases).to_string())?;
        let mut found: Vec<(&Program, Cost)> = Vec::new();
        for program in programs.iter().filter(|program| cases <= program.most) {
            let cost = measure(program, &suite, cases).with_context(|| program.name)?;
            println!(
                "{:<28} {cases:>8} {:>10.3} {:>12.0} {:>12.4} {:>9.1}",
                program.name,
                cost.wall,
                cases as f64 / cost.wall,
                1000.0 * cost.cpu / cases as f64,
                cost.megabytes
            );
            found.push((program, cost));
        }
        record_rows(cases, &found)?;
        let best = |of: fn(&Cost) -> f64| {
            let peers = found.iter().filter(|(program, _)| !program.ours);
            peers
                .map(|(program, cost)| (of(cost), program.name))
                .min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let sides = [
            ("cases per second", (|cost| cost.wall) as fn(&Cost) -> f64),
            ("cases per CPU-second", |cost| cost.cpu),
            ("memory", |cost| cost.megabytes),
        ];
        for (what, of) in sides {
            if let Some((peer, name)) = best(of) {
                let ours: Vec<String> = found
                    .iter()
                    .filter(|(program, _)| program.ours)
                    .map(|(program, cost)| format!("{} {:.1}", program.name, peer / of(cost)))
                    .collect();
                println!("  {what}, times better than {name}: {}", ours.join(", "));
            }
        }
    }
    Ok(())
}

/// Records our costs next to those of every peer.
fn record_rows(cases: usize, found: &[(&Program, Cost)]) -> Result<()> {
    for (ours, cost) in found.iter().filter(|(program, _)| program.ours) {
        let per_case = |cost: &Cost| 1000.0 * cost.cpu / cases as f64;
        let what = format!("{}, a run of {cases} cases", ours.name);
        let row = Row::cost(&what, "CPU ms per case", per_case(cost));
        let mut peers = found.iter().filter(|(program, _)| !program.ours).peekable();
        if peers.peek().is_none() {
            row.record()?;
        }
        for (peer, theirs) in peers {
            row.clone().against(peer.name, per_case(theirs)).record()?;
            Row::cost(&what, "MB", cost.megabytes)
                .against(peer.name, theirs.megabytes)
                .record()?;
        }
    }
    Ok(())
}

fn programs(arguments: &Arguments, satiety: &Path, own: &Path) -> Vec<Program> {
    let says = |text: &str, cases: usize, passed: usize| {
        text.contains(&format!("passed: {passed} of {cases} results"))
    };
    let ours = |name, target: String| Program {
        name,
        most: usize::MAX,
        command: {
            let satiety = satiety.to_owned();
            Box::new(move |suite, directory| {
                let file = directory.join("target.toml");
                fs_err::write(&file, &target)?;
                let mut command = Command::new(&satiety);
                command
                    .args(["bench", "run"])
                    .arg(suite)
                    .arg("--target")
                    .arg(file);
                command
                    .current_dir(directory)
                    .env("HOME", directory)
                    .env("NO_COLOR", "1");
                Ok(command)
            })
        },
        is_right: says,
        ours: true,
    };
    let worker = format!(
        "type = 'worker'\nworkers = 2\ncommand = '{}'\nargs = ['--worker']\n",
        own.display()
    );
    let mut programs = vec![
        ours("satiety, echo", "type = 'echo'\n".into()),
        ours("satiety, 2 workers", worker),
    ];
    let counted = |text: &str, cases: usize, passed: usize| {
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str::<Value>(last)
            .is_ok_and(|found| found == json!({"results": cases, "passed": passed}))
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/bench_peer.py");
    for (name, peer, module, most) in [
        ("pydantic-evals", "pydantic", "pydantic_evals", 10_000),
        ("Inspect", "inspect", "inspect_ai", 2_000),
    ] {
        let Some(python) = arguments.python.clone().filter(|python| has(python, module)) else {
            println!("skipped {name}: no --python with {module}");
            continue;
        };
        let script = script.clone();
        programs.push(Program {
            name,
            most,
            command: Box::new(move |suite, directory| {
                let mut command = Command::new(&python);
                command.arg(&script).arg(peer).arg(suite).current_dir(directory);
                Ok(command)
            }),
            is_right: counted,
            ours: false,
        });
    }
    match arguments.promptfoo.clone() {
        None => println!("skipped promptfoo: no --promptfoo"),
        Some(promptfoo) => programs.push(Program {
            name: "promptfoo, echo",
            most: 2_000,
            command: Box::new(move |suite, directory| {
                let suite: Value = serde_json::from_str(&fs_err::read_to_string(suite)?)?;
                let config = directory.join("promptfooconfig.json");
                fs_err::write(&config, promptfoo_config(&suite).to_string())?;
                let mut command = Command::new(&promptfoo);
                command.args(["eval", "--no-cache", "--no-table", "--no-progress-bar", "-c"]);
                command.arg(config).current_dir(directory);
                command
                    .env("PROMPTFOO_CONFIG_DIR", directory)
                    .env("PROMPTFOO_DISABLE_TELEMETRY", "1")
                    .env("PROMPTFOO_DISABLE_UPDATE", "1");
                Ok(command)
            }),
            is_right: |text, cases, passed| {
                let failed = cases - passed;
                let has = |number: usize, word: &str| {
                    text.to_lowercase().lines().any(|line| {
                        line.contains(word)
                            && line
                                .split(|c: char| !c.is_ascii_digit())
                                .any(|part| part == number.to_string())
                    })
                };
                (passed == 0 || has(passed, "pass")) && (failed == 0 || has(failed, "fail"))
            },
            ours: false,
        }),
    }
    programs
}

fn has(python: &Path, module: &str) -> bool {
    let import = format!("import {module}");
    let tried = Command::new(python).args(["-c", &import]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Suite in which every tenth case expects another answer.
fn suite_of(cases: usize) -> Value {
    let cases: Vec<Value> = (0..cases)
        .map(|number| {
            let goal = format!("What is the answer to question {number} of this suite?");
            let value = if number % 10 == 9 {
                "another"
            } else {
                goal.as_str()
            };
            json!({"case_id": format!("case-{number:06}"), "input": {"goal": goal},
                   "expected": {"mode": "exact", "value": value}})
        })
        .collect();
    json!({"suite_id": "perf", "version": "1.0.0", "cases": cases})
}

fn promptfoo_config(suite: &Value) -> Value {
    let cases = suite["cases"].as_array().into_iter().flatten();
    let tests: Vec<Value> = cases
        .map(|case| {
            json!({"vars": {"q": case["input"]["goal"]},
                   "assert": [{"type": "equals", "value": case["expected"]["value"]}]})
        })
        .collect();
    json!({"prompts": ["{{q}}"], "providers": ["echo"], "tests": tests})
}

/// Runs it often enough to exceed one clock tick, each time in a fresh directory.
fn measure(program: &Program, suite: &Path, cases: usize) -> Result<Cost> {
    let passed = cases - cases / 10;
    let (mut walls, mut megabytes, before) = (Vec::new(), 0.0_f64, children_cpu()?);
    let begun = Instant::now();
    while walls.is_empty() || (walls.len() < 10 && begun.elapsed() < Duration::from_secs(3)) {
        let directory = tempfile::tempdir()?;
        let mut command = (program.command)(suite, directory.path())?;
        let output = fs_err::File::create(directory.path().join("stdout"))?;
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output.into_parts().0)
            .stderr(Stdio::null())
            .spawn()?;
        while child.try_wait()?.is_none() {
            megabytes = megabytes.max(peak(child.id()).unwrap_or(0.0));
            std::thread::sleep(Duration::from_millis(2));
        }
        walls.push(started.elapsed().as_secs_f64());
        let said = fs_err::read_to_string(directory.path().join("stdout"))?;
        ensure!(
            (program.is_right)(&said, cases, passed),
            "unexpected results: {said}"
        );
    }
    walls.sort_by(f64::total_cmp);
    Ok(Cost {
        cpu: (children_cpu()? - before) / walls.len() as f64,
        wall: walls[walls.len() / 2],
        megabytes,
    })
}

/// CPU seconds of all terminated child processes, including theirs.
fn children_cpu() -> Result<f64> {
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    // The name in parentheses may contain spaces; fields are counted after it, starting with the third, the
    // state.
    let fields = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>())
        .context("no fields")?;
    let field = |number: usize| -> Result<f64> { Ok(fields.get(number - 3).context("too short")?.parse()?) };
    Ok((field(16)? + field(17)?) / TICKS)
}

/// Peak memory of a process in megabytes.
fn peak(process: u32) -> Option<f64> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes / 1000.0)
}

/// Cheapest possible target: reads a line, writes the goal.
fn work() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        serde_json::to_writer(&mut out, &json!({"output": request["input"]["goal"]}))?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}
