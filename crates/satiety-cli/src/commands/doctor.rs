//! `satiety doctor`: checks that everything the commands need is available.

use std::fmt::Write as _;

use owo_colors::OwoColorize;
use satiety_engine::Engine;
use satiety_engine::bench::sandbox::probes::{ProbeResult, SandboxExamination};
use satiety_engine::doctor::{Examination, Finding, Health};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;
use crate::table::table;

pub(super) async fn run(engine: &Engine, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let mut examination = engine.doctor().await;
    let configuration = match &settings.file {
        Some(path) => format!("using {}", path.display()),
        None => "no satiety.toml in this directory or above; using built-in defaults".into(),
    };
    let finding = match &settings.ignored {
        None => Finding::good("configuration", configuration),
        Some(ignored) => Finding::warning(
            "configuration",
            ignored.to_string(),
            "review the file with `satiety trust --show`, then run `satiety trust`",
        ),
    };
    examination.findings.insert(0, finding);
    printer.answer(&examination)?;
    Ok(if examination.has_failed() {
        Exit::Environment
    } else {
        Exit::Done
    })
}

/// Checks the database and all processes on it; exits with 1 when a check fails.
pub(super) async fn run_fleet(engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let examination = engine.database().examine_fleet().await;
    printer.answer(&examination)?;
    Ok(if examination.has_failed() {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

/// Tries to escape from the sandbox; exits with 1 when an attempt succeeds.
pub(super) async fn run_sandbox(engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let examination = Box::pin(engine.examine_sandbox()).await?;
    printer.answer(&examination)?;
    Ok(if examination.leaks > 0 {
        Exit::CheckFailed
    } else if examination.isolations.is_empty() {
        Exit::Environment
    } else {
        Exit::Done
    })
}

impl Render for SandboxExamination {
    fn human(&self) -> String {
        let mut text = String::new();
        for found in &self.isolations {
            let user = if found.as_root {
                "root"
            } else {
                "an unprivileged user"
            };
            let degraded = if found.isolation.is_full() {
                ""
            } else {
                ", degraded"
            };
            let _ = writeln!(text, "{}{degraded}, run as {user}", found.isolation);
            let rows = found.probes.iter().map(|probed| {
                let result = match probed.result {
                    ProbeResult::Blocked => "blocked".green().to_string(),
                    ProbeResult::Leak => "LEAK".red().bold().to_string(),
                };
                vec![probed.probe.clone(), result, probed.mechanism.clone()]
            });
            let _ = writeln!(text, "{}\n", table(&["probe", "result", "mechanism"], &[], rows));
        }
        for (name, reason) in &self.unavailable {
            let _ = writeln!(text, "{name} is not available: {reason}");
        }
        let attempts: usize = self.isolations.iter().map(|found| found.probes.len()).sum();
        let _ = write!(text, "{} of {attempts} escape attempts succeeded", self.leaks);
        text
    }
}

impl Render for Examination {
    fn human(&self) -> String {
        let width = self
            .findings
            .iter()
            .map(|finding| finding.part.len())
            .max()
            .unwrap_or(0);
        let lines = self.findings.iter().map(|finding| {
            let state = match finding.health {
                Health::Good => "ok     ".green().to_string(),
                Health::Warning => "warning".yellow().to_string(),
                Health::Bad => "FAILED ".red().to_string(),
            };
            let fix = finding
                .fix
                .as_ref()
                .map_or_else(String::new, |fix| format!("\n{:width$}           fix: {fix}", ""));
            format!("{state}  {:width$}  {}{fix}", finding.part, finding.detail)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
