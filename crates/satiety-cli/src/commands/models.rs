//! `satiety models` and `satiety calibrate`: choose and check the sentence model, and fit its threshold.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use owo_colors::OwoColorize;
use satiety::dialogue::Fit;
use satiety_engine::Engine;
use satiety_engine::models::{Calibrated, ModelList, Verification};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{CalibrateArgs, Models};
use crate::commands::score::read_input;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::Settings;
use crate::table::table;

/// Pairs that `calibrate` uses by default.
const BUNDLED_PAIRS: &str = include_str!("../../../../examples/paraphrases.jsonl");

pub(super) async fn run(
    command: Models,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    match command {
        Models::List => printer.answer(&engine.models().list())?,
        Models::Verify => {
            let verification = engine.models().verify().await?;
            printer.answer(&verification)?;
            return Ok(if verification.passed() {
                Exit::Done
            } else {
                Exit::Environment
            });
        }
        Models::Use { spec } => {
            let spec = engine.models().check(&spec)?;
            let file = settings
                .file
                .clone()
                .unwrap_or_else(|| PathBuf::from("satiety.toml"));
            let trusted = super::trust::is_trusted(&file);
            let text = choose(&file, &spec)?;
            // A trusted file that the user changes through us stays trusted; an untrusted one stays
            // untrusted.
            if trusted {
                super::trust::record(&file, &text)?;
            } else {
                crate::failure::warn(&format!(
                    "{} is not trusted, so this setting may be ignored; review the file, then run `satiety trust`",
                    crate::settings::trust::printable_path(&file)
                ));
            }
            printer.answer(&ChosenModel { embedder: spec, file })?;
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn calibrate(
    arguments: CalibrateArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let (name, pairs) = match &arguments.pairs {
        None => ("the bundled pairs".to_owned(), BUNDLED_PAIRS.to_owned()),
        Some(path) => {
            let text = String::from_utf8(read_input(path)?).map_err(|_| {
                Failure::bad_input(
                    format!("{} is not UTF-8 text", path.display()),
                    "give a JSON Lines file of pairs",
                )
            })?;
            (path.display().to_string(), text)
        }
    };
    if !(0.0..=1.0).contains(&arguments.max_false_positives) {
        let message = format!(
            "--max-false-positives: {} is not a share from 0 to 1",
            arguments.max_false_positives
        );
        return Err(Failure::bad_input(message, "use a number such as 0.03"));
    }
    let calibrated = engine
        .models()
        .calibrate(&name, &pairs, arguments.max_false_positives)
        .await?;
    if let Some(path) = &arguments.write {
        fs_err::write(path, &calibrated.profile)
            .map_err(|error| Failure::environment(format!("cannot write the profile: {error}"), None))?;
        printer.note(&format!("wrote {}; use it with `--profile {0}`", path.display()));
    }
    printer.answer(&calibrated)?;
    Ok(Exit::Done)
}

/// Sets `models.embedder` in a configuration file and preserves the rest, including comments; returns the new
/// text.
fn choose(path: &Path, spec: &str) -> Result<String, Failure> {
    let text = if path.exists() {
        fs_err::read_to_string(path).map_err(|error| Failure::environment(error.to_string(), None))?
    } else {
        String::new()
    };
    let mut document: toml_edit::DocumentMut = text.parse().map_err(|error| {
        Failure::bad_input(
            format!("{}: {error}", path.display()),
            "fix the file and try again",
        )
    })?;
    document["models"].or_insert(toml_edit::table())["embedder"] = toml_edit::value(spec);
    let text = document.to_string();
    fs_err::write(path, &text).map_err(|error| Failure::environment(error.to_string(), None))?;
    Ok(text)
}

/// Sentence model that was set in a configuration file.
#[derive(Serialize, JsonSchema)]
pub(super) struct ChosenModel {
    /// Specification of the model, such as `builtin`.
    embedder: String,
    /// Configuration file that was changed.
    file: PathBuf,
}

impl Render for ChosenModel {
    fn human(&self) -> String {
        format!(
            "set models.embedder to `{}` in {}",
            self.embedder,
            self.file.display()
        )
    }
}

impl Render for ModelList {
    fn human(&self) -> String {
        let kind = |spec: &str| spec.split(':').next().unwrap_or(spec).to_owned();
        let rows = self.models.iter().map(|entry| {
            let mark = if kind(entry.spec) == kind(&self.chosen) {
                "*"
            } else {
                ""
            };
            vec![
                mark.into(),
                entry.spec.into(),
                entry.what.into(),
                entry.needs.into(),
            ]
        });
        format!(
            "{}\n\n* active: {}",
            table(&["", "model", "description", "needs"], &[], rows),
            self.chosen
        )
    }
}

impl Render for Verification {
    fn human(&self) -> String {
        let mut text = self.id.to_string();
        for check in &self.checks {
            let state = if check.passed {
                "ok    ".green().to_string()
            } else {
                "FAILED".red().to_string()
            };
            let _ = write!(text, "\n{state}  {}: {}", check.name, check.detail);
        }
        text
    }
}

impl Render for Calibrated {
    fn human(&self) -> String {
        let row = |name: &str, fit: &Fit| {
            vec![
                name.to_owned(),
                format!("{:.3}", fit.threshold),
                format!("{:.1} %", fit.recall * 100.0),
                format!("{:.1} %", fit.false_positives * 100.0),
                format!("{:.3}", fit.auc),
            ]
        };
        let rows = [
            row("with guard", &self.with_guard),
            row("cosine only", &self.without_guard),
        ];
        let edits = match self.edits {
            0 => String::new(),
            edits => format!(
                "\n\nThe guard rejects {} of {edits} edits that change the meaning.",
                self.edits_refused
            ),
        };
        format!(
            "{} on {} pairs with the same meaning and {} with different meanings, at most {} % false positives\n\n{}{edits}\n\n{}",
            self.embedder,
            self.with_guard.same,
            self.with_guard.different,
            self.max_false_positives * 100.0,
            table(
                &["", "threshold", "found", "false positives", "AUC"],
                &[1, 2, 3, 4],
                rows
            ),
            self.profile
        )
    }
}
