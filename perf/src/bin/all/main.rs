//! Runs the measuring programs one after the other and prints one table of ratios, the facts of the machine,
//! and what was not measured and why.
//!
//! `cargo run --release -p perf --bin all -- --quick [--install-peers [DIR]]`
//!
//! `--quick` takes less than ten minutes after building. A peer that is missing, a program that fails and one
//! that exceeds its time limit are reported, and the others still run. `--install-peers` installs the Python
//! peers into a virtual environment from the package registry that pip is configured for.

#![expect(clippy::print_stdout, reason = "prints the measurements")]
#![expect(clippy::print_stderr, reason = "reports progress")]

mod machine;
mod peers;
mod sections;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use perf::rows::Row;

use self::sections::{Outcome, SECTIONS, Section};

#[derive(Debug, Parser)]
struct Arguments {
    /// Measure smaller sizes, in less than ten minutes
    #[arg(long)]
    quick: bool,
    /// Sections to run [default: all]
    #[arg(long, value_delimiter = ',')]
    section: Vec<String>,
    /// Python interpreter with the peers
    #[arg(long)]
    python: Option<PathBuf>,
    /// Install the Python peers into a virtual environment [default directory: target/perf-peers]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = peers::DIRECTORY)]
    install_peers: Option<PathBuf>,
    /// Directory with the f32 all-MiniLM-L6-v2, for the comparison with sentence-transformers
    #[arg(long)]
    model: Option<PathBuf>,
    /// Time limit of each section in seconds [default: that of the section]
    #[arg(long)]
    limit: Option<u64>,
    /// Do not build the programs first
    #[arg(long)]
    no_build: bool,
    /// Also write the rows to this file, as JSON lines
    #[arg(long)]
    output: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    for name in &arguments.section {
        ensure!(
            SECTIONS.iter().any(|section| section.name == name),
            "unknown section {name:?} (expected one of: {})",
            SECTIONS.map(|section| section.name).join(", ")
        );
    }
    if !arguments.no_build {
        build()?;
    }
    let python = peers::interpreter(arguments.python.as_deref(), arguments.install_peers.as_deref())?;
    let begun = Instant::now();
    println!("{}", machine::describe());
    let mut rows: Vec<(&str, Row)> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for section in &SECTIONS {
        if !arguments.section.is_empty() && !arguments.section.iter().any(|name| name == section.name) {
            notes.push(format!("{}: not selected", section.name));
            continue;
        }
        let limit = Duration::from_secs(arguments.limit.unwrap_or(section.limit(arguments.quick)));
        eprintln!(
            "{} (at most {} s): {}",
            section.name,
            limit.as_secs(),
            section.summary
        );
        let outcome = run(section, &arguments, python.as_deref(), limit)
            .unwrap_or_else(|error| Outcome::failed(format!("{error:#}")));
        rows.extend(outcome.rows.into_iter().map(|row| (section.name, row)));
        notes.extend(
            outcome
                .notes
                .into_iter()
                .map(|note| format!("{}: {note}", section.name)),
        );
    }
    print_table(&rows);
    println!("\nNot measured, and remarks:");
    for note in &notes {
        println!("- {note}");
    }
    println!("\n{:.0} s; {}", begun.elapsed().as_secs_f64(), machine::load());
    if let Some(path) = &arguments.output {
        let lines = rows
            .iter()
            .map(|(_, row)| Ok(serde_json::to_string(row)? + "\n"))
            .collect::<Result<String>>()?;
        fs_err::write(path, lines)?;
    }
    Ok(())
}

fn warn(message: &str) {
    eprintln!("warning: {message}");
}

/// Builds the measuring programs and the command, with the cargo that started this program.
fn build() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    eprintln!("building the programs");
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "-p", "perf", "-p", "satiety-cli"])
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "cannot build the programs\nhint: pass --no-build to measure those that exist"
    );
    Ok(())
}

fn run(section: &Section, arguments: &Arguments, python: Option<&Path>, limit: Duration) -> Result<Outcome> {
    let mut words: Vec<String> = section
        .arguments(arguments.quick)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let mut notes = Vec::new();
    if !section.modules.is_empty() {
        let missing: Vec<&str> = match python {
            Some(python) => peers::missing(python, section.modules),
            None => section.modules.to_vec(),
        };
        for module in &missing {
            notes.push(format!(
                "the Python module {module} is not installed, so that peer is missing (--install-peers)"
            ));
        }
        let is_complete =
            missing.is_empty() || (section.skips_missing && missing.len() < section.modules.len());
        let needs_model = section.needs_model && arguments.model.is_none();
        if needs_model {
            notes.push("no --model DIR with the f32 weights, so that the peer is missing".to_owned());
        }
        if let Some(python) = python.filter(|_| is_complete && !needs_model) {
            words.extend(["--python".to_owned(), python.display().to_string()]);
            if let Some(model) = arguments.model.as_ref().filter(|_| section.needs_model) {
                words.extend(["--model".to_owned(), model.display().to_string()]);
            }
        }
    }
    for command in section.commands {
        if Command::new(command).arg("--version").output().is_err() {
            let missing = format!("{command} is not installed (Debian: apt-get install {command})");
            if !section.skips_missing {
                return Ok(Outcome::failed(missing));
            }
            notes.push(missing);
        }
    }
    let mut outcome = sections::run(section, &words, limit)?;
    notes.append(&mut outcome.notes);
    Ok(Outcome { notes, ..outcome })
}

fn print_table(rows: &[(&str, Row)]) {
    println!("| section | what | ours | unit | compared with | theirs | times better |");
    println!("|---|---|---|---|---|---|---|");
    for (section, row) in rows {
        println!(
            "| {section} | {} | {} | {} | {} | {} | {} |",
            row.what,
            short(row.ours),
            row.unit,
            row.peer,
            row.theirs.map_or_else(String::new, short),
            row.ratio().map_or_else(String::new, short),
        );
    }
}

/// A number with three significant digits.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if magnitude >= 100.0 => format!("{value:.0}"),
        _ if magnitude >= 10.0 => format!("{value:.1}"),
        _ if magnitude >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
