//! `satiety doctor`: is everything there that the commands need?

use owo_colors::OwoColorize;
use satiety_engine::Engine;
use satiety_engine::doctor::{Examination, Finding, Health};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;

pub(super) async fn run(engine: &Engine, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let mut examination = engine.doctor().await;
    let configuration = match &settings.file {
        Some(path) => format!("{} is read", path.display()),
        None => "no satiety.toml here or above; built-in defaults apply".into(),
    };
    let finding = match &settings.ignored {
        None => Finding::good("configuration", configuration),
        Some(ignored) => Finding::warning(
            "configuration",
            ignored.to_string(),
            "look at the file with `satiety trust --show`, then run `satiety trust`",
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
