//! From what people have (transcripts, traces, chat logs, session logs of coding agents) to rounds. Pure functions from
//! text to the types of [`super::wire`]; reading files is the caller's part, judging rounds is not done here.
//!
//! Two steps, so that either can be replaced: [`read`] gives rounds or, for logs of plain messages, the messages;
//! [`extract`] turns messages into rounds with fixed rules. [`parse`] does both. Who wants to sort messages otherwise
//! begins with [`turns`], so that the rounds are the same whoever sorts.

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

pub use error::InputError;
pub use extract::{Turn, extract, transcript, turns};
pub use message::{Message, MessageLog, PlanItem, Role};

use super::wire::Transcript;

/// The shapes of input that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InputFormat {
    /// One JSON object with `rounds`.
    Transcript,
    /// JSON Lines of type `transcript_header` and `round`; other types are ignored.
    Trace,
    /// Messages with `role` and `content`: an array, an object with `messages`, or JSON Lines.
    Chat,
    /// JSON Lines as coding agents write them for their sessions.
    AgentLog,
}

/// How to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// The shape of the input; found out from its first lines when absent.
    pub format: Option<InputFormat>,
    /// Whether the input may still be written to: then an incomplete last line is reported and left out instead of
    /// being an error.
    pub growing: bool,
}

/// What an input contains.
#[derive(Debug, Clone, PartialEq)]
pub struct Input<T> {
    /// Rounds or messages.
    pub content: T,
    /// The shape that it was read as.
    pub format: InputFormat,
    /// The number of the incomplete last line that was left out, if there is one.
    pub incomplete_line: Option<usize>,
}

/// What was in the input: rounds as somebody sorted them, or messages that are still to be sorted into rounds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Rounds with their claims.
    Rounds(Transcript),
    /// Messages without structure.
    Messages(MessageLog),
}

/// Reads any known shape and gives rounds, sorting messages into claims, questions and actions by fixed rules.
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

/// Reads any known shape and gives what stands there, messages unsorted.
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

/// The text without its byte order mark. The end of a growing file may cut a character in two.
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
