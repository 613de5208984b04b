//! The only module that writes results to stdout, in the requested format.

use std::io::Write;

use satiety_report::{Document, Finding, csv, github, html, markdown, sarif, terminal};
use serde::Serialize;

use crate::args::SavedFormat;
use crate::failure::Failure;
use crate::settings::{Format, Settings};

/// Rendering of a result for people. Its JSON is its serde form, so that all surfaces agree.
pub(crate) trait Render: Serialize {
    /// Report from which all formats except JSON are rendered. One-line results implement only `human`.
    fn document(&self) -> Document {
        Document::default()
    }

    /// Text for a terminal; colors are stripped if unsupported.
    fn human(&self) -> String {
        terminal::render(&self.document())
    }

    /// Markdown; without a document, the terminal text in a code block.
    fn markdown(&self) -> String {
        let document = self.document();
        if document.blocks.is_empty() {
            let text = self.human();
            return format!("```text\n{}\n```", anstream::adapter::strip_str(text.trim_end()));
        }
        markdown::render(&document)
    }

    /// Problems at lines of files; `None` for a command that does not check files.
    fn findings(&self) -> Option<Vec<Finding>> {
        None
    }
}

#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    quiet: bool,
    saved: Vec<SavedFormat>,
}

impl Printer {
    pub(crate) fn new(settings: &Settings, quiet: bool, saved: Vec<SavedFormat>) -> Self {
        settings.color.write_global();
        Self {
            format: settings.format,
            quiet,
            saved,
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether parts of a result are printed as soon as they are known.
    pub(crate) fn streams(&self) -> bool {
        !self.quiet && self.format == Format::Human
    }

    /// Prints a result, and writes it to the files of `--save`.
    pub(crate) fn answer(&self, answer: &impl Render) -> Result<(), Failure> {
        self.save(answer)?;
        // Quiet is for scripts that only check the exit code; `--format json` is always printed.
        if self.quiet && self.format != Format::Json {
            return Ok(());
        }
        self.text(&render(answer, self.format)?)
    }

    /// Writes a result to the files of `--save`.
    pub(crate) fn save(&self, answer: &impl Render) -> Result<(), Failure> {
        for saved in &self.saved {
            let text = render(answer, saved.format)?;
            let mut text = anstream::adapter::strip_str(&text).to_string();
            if !text.ends_with('\n') {
                text.push('\n');
            }
            fs_err::write(&saved.file, text)?;
        }
        Ok(())
    }

    /// Prints text unchanged, such as a file or a script.
    #[expect(clippy::unused_self, reason = "all output goes through the printer")]
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(())
    }

    /// Prints a note to stderr unless quiet.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            crate::failure::to_stderr(text);
        }
    }
}

fn render(answer: &impl Render, format: Format) -> Result<String, Failure> {
    let findings = |name| answer.findings().ok_or_else(|| unsupported_format(name));
    Ok(match format {
        Format::Json => json(answer)?,
        Format::Human => answer.human(),
        Format::Markdown => answer.markdown(),
        Format::Csv => csv::render(&answer.document()).ok_or_else(|| unsupported_format("CSV"))?,
        Format::Html => {
            // Only documents with a title can be HTML pages.
            let document = answer.document();
            if document.title.is_empty() {
                return Err(unsupported_format("HTML"));
            }
            html::render(&document)
        }
        Format::Sarif => sarif::render(&findings("SARIF")?),
        Format::Github => github::render(&findings("GitHub")?),
    })
}

fn unsupported_format(name: &str) -> Failure {
    Failure::bad_input(
        format!("this command does not support the format {name}"),
        "use human, json or markdown; html is supported by `satiety progress`, `retrieval`, `bench` and `evict`, csv by the first three, sarif and github by `harness check` and `bench run`",
    )
}

fn json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(answer)
        .map_err(|error| Failure::environment(format!("cannot write the answer as JSON: {error}"), None))
}
