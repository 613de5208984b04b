//! The one place that writes answers to stdout, in the format that was asked for.

use std::io::Write;

use serde::Serialize;

use crate::failure::Failure;
use crate::settings::{Format, Settings};

/// How an answer looks to a person. Its JSON is its serde form, so that all surfaces show the same.
pub(crate) trait Render: Serialize {
    /// For a terminal; colours are stripped where nobody sees them.
    fn human(&self) -> String;

    /// For a comment or a page; what a terminal shows, in a code block, unless there is something better.
    fn markdown(&self) -> String {
        format!(
            "```text\n{}\n```",
            anstream::adapter::strip_str(self.human().trim_end())
        )
    }

    /// As a table for a spreadsheet, where there is one.
    fn csv(&self) -> Option<String> {
        None
    }

    /// As a page in one file, where there is one.
    fn html(&self) -> Option<String> {
        None
    }
}

/// Prints answers.
#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    quiet: bool,
}

impl Printer {
    pub(crate) fn new(settings: &Settings, quiet: bool) -> Self {
        settings.color.write_global();
        Self {
            format: settings.format,
            quiet,
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Prints an answer.
    pub(crate) fn answer(&self, answer: &impl Render) -> Result<(), Failure> {
        let text = match self.format {
            Format::Json => json(answer)?,
            // Quiet is for scripts that only look at the exit code; who asks for JSON wants to read it.
            _ if self.quiet => return Ok(()),
            Format::Human => answer.human(),
            Format::Markdown => answer.markdown(),
            Format::Csv => answer.csv().ok_or_else(|| no_form("CSV"))?,
            Format::Html => answer.html().ok_or_else(|| no_form("HTML"))?,
        };
        self.text(&text)
    }

    /// Prints text as it is: a file, a script.
    #[expect(
        clippy::unused_self,
        reason = "answers go through the printer, whatever their form"
    )]
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(())
    }

    /// Says something beside the answer, on stderr, unless it should be quiet.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            crate::failure::to_stderr(text);
        }
    }
}

fn no_form(name: &str) -> Failure {
    Failure::bad_input(
        format!("this command cannot answer as {name}"),
        "human, json and markdown always work; `satiety retrieval`, `satiety bench` and `satiety evict` have html, the first two csv too",
    )
}

fn json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(answer)
        .map_err(|error| Failure::environment(format!("cannot write the answer as JSON: {error}"), None))
}
