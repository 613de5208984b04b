//! Input formats: parses transcripts, traces, chat logs and session logs of coding agents into the types of
//! [`super::wire`]. All functions are pure; callers read the files.
//!
//! Parsing has two steps: [`read`] returns rounds or, for logs of plain messages, the messages; [`extract`]
//! turns messages into rounds with fixed rules. [`parse`] does both. To extract outputs with a model instead,
//! start with [`turns`], which splits the log into the same rounds.

mod agent_log;
mod chat;
mod detect;
mod error;
mod extract;
mod json;
mod message;
mod trace;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::InputError;
pub use extract::{Turn, extract, transcript, turns};
pub use message::{Message, MessageLog, PlanItem, Role};

use super::wire::Transcript;

/// Supported formats of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InputFormat {
    /// A JSON object with `rounds`.
    Transcript,
    /// JSON Lines of the types `transcript_header` and `round`; other types are ignored.
    Trace,
    /// Messages with `role` and `content`: an array, an object with `messages`, or JSON Lines.
    Chat,
    /// JSON Lines session log of a coding agent.
    AgentLog,
}

/// Options for reading an input.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// Input format; detected from the first lines if absent.
    pub format: Option<InputFormat>,
    /// Whether the file may still be growing. An incomplete last line is then skipped and reported instead of
    /// being an error.
    pub growing: bool,
}

/// Result of parsing an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Input<T> {
    /// The rounds or messages.
    pub content: T,
    /// The format that was used.
    pub format: InputFormat,
    /// Line number of the skipped incomplete last line, if any.
    pub incomplete_line: Option<usize>,
}

/// Content of an input: structured rounds, or messages that must still be turned into rounds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Rounds with claims, questions and actions.
    Rounds(Transcript),
    /// Unstructured messages.
    Messages(MessageLog),
}

/// Parses any supported format into rounds, extracting claims, questions and actions from messages by fixed
/// rules.
pub fn parse(bytes: &[u8], options: ReadOptions) -> Result<Input<Transcript>, InputError> {
    let input = read(bytes, options)?;
    let content = match input.content {
        Content::Rounds(transcript) => transcript,
        Content::Messages(log) => extract(&log),
    };
    Ok(Input {
        content,
        format: input.format,
        incomplete_line: input.incomplete_line,
    })
}

/// Parses any supported format without extracting rounds from messages.
pub fn read(bytes: &[u8], options: ReadOptions) -> Result<Input<Content>, InputError> {
    let text = decode(bytes, options.growing)?;
    let format = match options.format {
        Some(format) => format,
        None => detect::format(text)?,
    };
    let (content, incomplete_line) = match format {
        InputFormat::Transcript => (Content::Rounds(trace::transcript(text)?), None),
        InputFormat::Trace => {
            let lines = json::lines(text, options.growing)?;
            (Content::Rounds(trace::trace(&lines.values)?), lines.incomplete)
        }
        InputFormat::Chat => {
            let (log, incomplete) = chat::messages(text, options.growing)?;
            (Content::Messages(log), incomplete)
        }
        InputFormat::AgentLog => {
            let lines = json::lines(text, options.growing)?;
            (
                Content::Messages(agent_log::messages(&lines.values)?),
                lines.incomplete,
            )
        }
    };
    Ok(Input {
        content,
        format,
        incomplete_line,
    })
}

/// Reads a transcript that was already parsed as JSON. `None` if it is not one: [`read`] its text for the error.
pub fn read_transcript_value(value: &Value) -> Option<Transcript> {
    trace::transcript_value(value)
}

/// Detects the format of an input from its first lines.
pub fn detect_format(bytes: &[u8]) -> Result<InputFormat, InputError> {
    detect::format(decode(bytes, false)?)
}

/// Decodes UTF-8 without a byte order mark. A growing file may end within a character.
fn decode(bytes: &[u8], growing: bool) -> Result<&str, InputError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            if !growing || error.error_len().is_some() {
                return Err(InputError::NotUtf8 {
                    line: valid.matches('\n').count() + 1,
                });
            }
            valid
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        Err(InputError::Empty)
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
