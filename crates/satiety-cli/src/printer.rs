//! The one place that writes answers to stdout, in the format that was asked for.

use std::io::Write;

use satiety_report::{Document, csv, html, markdown, terminal};
use serde::Serialize;

use crate::failure::Failure;
use crate::settings::{Format, Settings};

/// How an answer looks to a person. Its JSON is its serde form, so that all surfaces show the same.
pub(crate) trait Render: Serialize {
    /// The report that all forms but JSON are made of. An answer of a line or two has `human` alone.
    fn document(&self) -> Document {
        Document::default()
    }

    /// For a terminal; colours are stripped where nobody sees them.
    fn human(&self) -> String {
        terminal::render(&self.document())
    }

    /// For a comment or a page; what a terminal shows, in a code block, where there is no document.
    fn markdown(&self) -> String {
        let document = self.document();
        if document.blocks.is_empty() {
            let text = self.human();
            return format!("```text\n{}\n```", anstream::adapter::strip_str(text.trim_end()));
        }
        markdown::render(&document)
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
            Format::Csv => csv::render(&answer.document()).ok_or_else(|| no_form("CSV"))?,
            Format::Html => {
                // A page has a title; a document without one is for terminals and comments.
                let document = answer.document();
                if document.title.is_empty() {
                    return Err(no_form("HTML"));
                }
                html::render(&document)
            }
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
