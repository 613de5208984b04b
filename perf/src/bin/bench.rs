//! What a benchmark run costs beyond the target: `satiety bench run` as a whole process, beside other harnesses.
//!
//! `cargo build --release && cargo run --release -p perf --bin bench -- --python PYTHON [--promptfoo PATH]`
//!
//! The cases give the question back and compare it with what is expected; a tenth of them fails. `echo` answers in process,
//! `worker` is two processes that read a line and write one. Everything counts: start-up, reading the suite, writing
//! results to the store (durably, which none of the peers does), figures. CPU time is the process's and its children's.

#![expect(clippy::print_stdout, reason = "a measurement's answer")]

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use serde_json::{Value, json};

/// Ticks a second in `/proc`, on every Linux there is.
const TICKS: f64 = 100.0;

#[derive(Debug, Parser)]
struct Arguments {
    /// The program; built from this workspace in release.
    #[arg(long)]
    satiety: Option<PathBuf>,
    /// An interpreter with pydantic-evals and inspect-ai.
    #[arg(long)]
    python: Option<PathBuf>,
    /// The promptfoo command.
    #[arg(long)]
    promptfoo: Option<PathBuf>,
    /// Sizes of the suites.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2_000, 10_000, 100_000])]
    cases: Vec<usize>,
    /// Answer lines instead of measuring.
    #[arg(long, hide = true)]
    worker: bool,
}

/// Makes the command for a suite in a fresh folder.
type Start = Box<dyn Fn(&Path, &Path) -> Result<Command>>;

/// One way to run a suite.
struct Way {
    name: &'static str,
    /// The largest suite it is given, so that the slow ones end.
    most: usize,
    /// The command for a suite in a fresh folder.
    command: Start,
    /// Whether the output says that so many results are there and so many passed.
    is_right: fn(&str, usize, usize) -> bool,
    ours: bool,
}

/// What one size cost, a run.
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
        "{} is not there: cargo build --release",
        satiety.display()
    );
    let ways = ways(&arguments, &satiety, &own);
    let scratch = tempfile::tempdir()?;
    println!(
        "{:<28} {:>8} {:>10} {:>12} {:>12} {:>9}",
        "", "cases", "wall s", "cases/s", "CPU ms/case", "peak MB"
    );
    for &cases in &arguments.cases {
        let suite = scratch.path().join(format!("suite-{cases}.json"));
        fs_err::write(&suite, suite_of(cases).to_string())?;
        let mut found: Vec<(&Way, Cost)> = Vec::new();
        for way in ways.iter().filter(|way| cases <= way.most) {
            let cost = measure(way, &suite, cases).with_context(|| way.name)?;
            println!(
                "{:<28} {cases:>8} {:>10.3} {:>12.0} {:>12.4} {:>9.1}",
                way.name,
                cost.wall,
                cases as f64 / cost.wall,
                1000.0 * cost.cpu / cases as f64,
                cost.megabytes
            );
            found.push((way, cost));
        }
        let best = |of: fn(&Cost) -> f64| {
            let peers = found.iter().filter(|(way, _)| !way.ours);
            peers
                .map(|(way, cost)| (of(cost), way.name))
                .min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let sides = [
            ("cases a second", (|cost| cost.wall) as fn(&Cost) -> f64),
            ("cases a CPU-second", |cost| cost.cpu),
            ("memory", |cost| cost.megabytes),
        ];
        for (what, of) in sides {
            if let Some((peer, name)) = best(of) {
                let ours: Vec<String> = found
                    .iter()
                    .filter(|(way, _)| way.ours)
                    .map(|(way, cost)| format!("{} {:.1}", way.name, peer / of(cost)))
                    .collect();
                println!("  {what}, times better than {name}: {}", ours.join(", "));
            }
        }
    }
    Ok(())
}

fn ways(arguments: &Arguments, satiety: &Path, own: &Path) -> Vec<Way> {
    let says = |text: &str, cases: usize, passed: usize| {
        text.contains(&format!("passed: {passed} of {cases} results"))
    };
    let ours = |name, target: String| Way {
        name,
        most: usize::MAX,
        command: {
            let satiety = satiety.to_owned();
            Box::new(move |suite, folder| {
                let file = folder.join("target.toml");
                fs_err::write(&file, &target)?;
                let mut command = Command::new(&satiety);
                command
                    .args(["bench", "run"])
                    .arg(suite)
                    .arg("--target")
                    .arg(file);
                command
                    .current_dir(folder)
                    .env("HOME", folder)
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
    let mut ways = vec![
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
            println!("{name} is left out: no --python with {module}");
            continue;
        };
        let script = script.clone();
        ways.push(Way {
            name,
            most,
            command: Box::new(move |suite, folder| {
                let mut command = Command::new(&python);
                command.arg(&script).arg(peer).arg(suite).current_dir(folder);
                Ok(command)
            }),
            is_right: counted,
            ours: false,
        });
    }
    match arguments.promptfoo.clone() {
        None => println!("promptfoo is left out: no --promptfoo"),
        Some(promptfoo) => ways.push(Way {
            name: "promptfoo, echo",
            most: 2_000,
            command: Box::new(move |suite, folder| {
                let suite: Value = serde_json::from_str(&fs_err::read_to_string(suite)?)?;
                let config = folder.join("promptfooconfig.json");
                fs_err::write(&config, promptfoo_config(&suite).to_string())?;
                let mut command = Command::new(&promptfoo);
                command.args(["eval", "--no-cache", "--no-table", "--no-progress-bar", "-c"]);
                command.arg(config).current_dir(folder);
                command
                    .env("PROMPTFOO_CONFIG_DIR", folder)
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
    ways
}

fn has(python: &Path, module: &str) -> bool {
    let import = format!("import {module}");
    let tried = Command::new(python).args(["-c", &import]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Every tenth case expects what does not come.
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

/// Runs it as often as it takes to see more than a tick, each time in a fresh folder.
fn measure(way: &Way, suite: &Path, cases: usize) -> Result<Cost> {
    let passed = cases - cases / 10;
    let (mut walls, mut megabytes, before) = (Vec::new(), 0.0_f64, children_cpu()?);
    let begun = Instant::now();
    while walls.is_empty() || (walls.len() < 10 && begun.elapsed() < Duration::from_secs(3)) {
        let folder = tempfile::tempdir()?;
        let mut command = (way.command)(suite, folder.path())?;
        let output = fs_err::File::create(folder.path().join("stdout"))?;
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
        let said = fs_err::read_to_string(folder.path().join("stdout"))?;
        ensure!((way.is_right)(&said, cases, passed), "other results: {said}");
    }
    walls.sort_by(f64::total_cmp);
    Ok(Cost {
        cpu: (children_cpu()? - before) / walls.len() as f64,
        wall: walls[walls.len() / 2],
        megabytes,
    })
}

/// CPU seconds of all children that have ended, and of theirs.
fn children_cpu() -> Result<f64> {
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    // The name in parentheses may have spaces; fields are counted from behind it, the state being the third of all.
    let fields = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>())
        .context("no fields")?;
    let field = |number: usize| -> Result<f64> { Ok(fields.get(number - 3).context("too short")?.parse()?) };
    Ok((field(16)? + field(17)?) / TICKS)
}

/// The most memory that a process had, in megabytes.
fn peak(process: u32) -> Option<f64> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes / 1000.0)
}

/// The cheapest target there is: a line in, the goal out.
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
