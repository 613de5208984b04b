//! Readers for the logs of agents and frameworks.
//!
//! A file is one JSON document or JSON Lines. Every record goes to the `Reader` of its format, which drives
//! a [`Builder`]. Reading is lenient: records of unknown shape are skipped and counted in [`Skipped`]. A list
//! or file of complete dialogues becomes one trajectory each.

mod agentchat;
mod autogen;
mod chat;
mod chatgpt;
mod claude_code;
mod codex;
mod dataset;
mod feed;
mod fence;
mod gemini;
mod inspect;
mod langchain;
mod mini_swe_agent;
mod openhands;
mod otel;
pub(super) mod react;
mod responses;
mod steps;
mod swe_agent;
mod tau_bench;
#[cfg(test)]
mod tests;
mod value;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::builder::Builder;
use super::step::Trajectory;

pub use feed::Feed;
pub use otel::{ExportedSpans, split_export};

/// Formats of agent logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Steps in the format of this library: an object with `steps`, or one step per line.
    Steps,
    /// Messages with `role` and `content`: OpenAI, Anthropic, tau-bench and compatible APIs.
    Chat,
    /// SWE-agent `.traj` files: `trajectory` with `action` and `observation`.
    SweAgent,
    /// mini-swe-agent trajectories: messages with fenced commands or tool calls, and `info`.
    MiniSweAgent,
    /// OpenHands events of version 0 (`action`, `observation`) and of the SDK (`kind`), and the `history` of
    /// evaluation outputs.
    Openhands,
    /// AG2 and AutoGen 0.2 chat histories, group chats, Magentic-One histories and Who&When files.
    Autogen,
    /// Messages and events of AutoGen AgentChat 0.4 and later, with `type` and `source`.
    AutogenAgentchat,
    /// LangChain messages, LangGraph states and updates, and LangSmith runs.
    Langchain,
    /// Results of tau-bench (`traj`) and tau2-bench (`simulations`).
    TauBench,
    /// Inspect evaluation logs (`.json`, and `.eval` where archives are read), one run per sample.
    Inspect,
    /// Session logs of Claude Code, and the output of `claude -p --output-format stream-json`.
    ClaudeCode,
    /// Rollouts of Codex CLI, and the output of `codex exec --json`.
    Codex,
    /// Sessions and checkpoints of Gemini CLI, and `contents` of the Gemini API.
    Gemini,
    /// Items of the OpenAI Responses API, as in `to_input_list` of openai-agents.
    Responses,
    /// ChatGPT data exports: `conversations.json`.
    ChatGpt,
    /// OpenTelemetry spans with the GenAI or OpenInference conventions, in OTLP JSON or as single spans.
    Otel,
    /// Published dataset of SWE-agent runs: `trajectory` with `role` and `text`.
    SweAgentDataset,
}

impl LogFormat {
    /// All formats, in the order in which they are tried.
    pub fn all() -> impl Iterator<Item = Self> {
        FORMATS.iter().map(|entry| entry.format)
    }

    /// The name used in JSON.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).unwrap_or_default();
        name.as_str().unwrap_or_default().to_owned()
    }
}

/// Options for reading a log.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// Format of the log; detected from its first records if absent.
    pub format: Option<LogFormat>,
}

/// A log after reading: one or more trajectories, and what was skipped.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Log {
    /// Format that was read.
    pub format: LogFormat,
    /// Runs in the order of the file.
    pub trajectories: Vec<Trajectory>,
    /// Records that were not understood.
    pub skipped: Skipped,
}

/// Records that were not understood, counted, with the first of them in detail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Number of skipped records.
    pub count: usize,
    /// The first skipped records, each with its line and reason.
    pub first: Vec<SkippedRecord>,
}

/// A record that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedRecord {
    /// Line of the file, from 1.
    pub line: usize,
    /// Reason why the record was skipped.
    pub reason: String,
}

/// Reasons why a log cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The input has no content.
    #[error("the log is empty")]
    Empty,
    /// The input is not JSON.
    #[error("line {line}: expected JSON or JSON Lines: {problem}")]
    NotJson {
        /// Line of the first problem, from 1.
        line: usize,
        /// The parser's message.
        problem: String,
    },
    /// The input is a zip archive, such as an Inspect `.eval` file, which the caller unpacks.
    #[error("the log is a zip archive; convert an Inspect log with `inspect log convert --to json`")]
    Archive,
    /// No reader recognizes the records.
    #[error("cannot recognize the format of the log: {found}")]
    UnknownFormat {
        /// Description of the first record.
        found: String,
    },
}

/// Reads the records of one format.
trait Reader: Send + Sync {
    /// Processes one record: a line of JSON Lines, or the whole document.
    fn record(&mut self, value: &Value, line: usize, out: &mut Output);
    /// Called after the last record.
    fn end(&mut self, _out: &mut Output) {}
    /// Called before the first record if records arrive one at a time: a reader that collects records until
    /// the end must process each at once instead.
    fn stream(&mut self) {}
    /// Whether the log splits one turn into several records.
    fn splits_turns(&self) -> bool {
        false
    }
}

/// Collects what readers produce.
#[derive(Debug, Default)]
struct Output {
    builder: Builder,
    finished: Vec<Trajectory>,
    skipped: Skipped,
}

impl Output {
    /// Counts a record that was not understood.
    fn skip(&mut self, line: usize, reason: impl Into<String>) {
        self.skipped.count += 1;
        if self.skipped.first.len() < MAX_SKIPPED_DETAILS {
            self.skipped.first.push(SkippedRecord {
                line,
                reason: reason.into(),
            });
        }
    }

    /// Sets how the run ended, where the log says so.
    fn outcome(&mut self, solved: Option<bool>, exit: Option<&str>) {
        let exit = exit.filter(|exit| !exit.is_empty());
        if solved.is_none() && exit.is_none() {
            return;
        }
        let outcome = self.builder.trajectory_mut().outcome.get_or_insert_default();
        outcome.solved = solved.or(outcome.solved);
        outcome.exit = exit.map(str::to_owned).or(outcome.exit.take());
    }

    /// Ends the current trajectory and begins another.
    fn end_trajectory(&mut self) {
        let builder = std::mem::take(&mut self.builder);
        let mut trajectory = builder.finish();
        react::extract_calls(&mut trajectory);
        if !trajectory.steps.is_empty() || trajectory.task.is_some() {
            self.finished.push(trajectory);
        }
    }
}

/// Number of skipped records that are described; the rest is counted.
const MAX_SKIPPED_DETAILS: usize = 10;

/// Number of records that are looked at to detect a format.
const DETECTION_RECORDS: usize = 20;

/// How deep lists of lists of dialogues are followed.
const MAX_NESTING: usize = 4;

/// A format with its detection and its reader, from the most to the least specific.
struct FormatEntry {
    format: LogFormat,
    /// Whether the first records of a file look like this format. A document is a single record.
    detect: fn(&[&Value]) -> bool,
    reader: fn() -> Box<dyn Reader>,
}

const FORMATS: &[FormatEntry] = &[
    FormatEntry {
        format: LogFormat::SweAgentDataset,
        detect: dataset::detect,
        reader: || Box::new(dataset::SweAgentDataset),
    },
    FormatEntry {
        format: LogFormat::Otel,
        detect: otel::detect,
        reader: || Box::new(otel::Otel::default()),
    },
    FormatEntry {
        format: LogFormat::ChatGpt,
        detect: chatgpt::detect,
        reader: || Box::new(chatgpt::ChatGpt),
    },
    FormatEntry {
        format: LogFormat::ClaudeCode,
        detect: claude_code::detect,
        reader: || Box::new(claude_code::ClaudeCode::default()),
    },
    FormatEntry {
        format: LogFormat::Codex,
        detect: codex::detect,
        reader: || Box::new(codex::Codex::default()),
    },
    FormatEntry {
        format: LogFormat::Gemini,
        detect: gemini::detect,
        reader: || Box::new(gemini::Gemini::default()),
    },
    FormatEntry {
        format: LogFormat::Responses,
        detect: responses::detect,
        reader: || Box::new(responses::Responses),
    },
    FormatEntry {
        format: LogFormat::MiniSweAgent,
        detect: mini_swe_agent::detect,
        reader: || Box::new(mini_swe_agent::MiniSweAgent::default()),
    },
    FormatEntry {
        format: LogFormat::SweAgent,
        detect: swe_agent::detect,
        reader: || Box::new(swe_agent::SweAgent),
    },
    FormatEntry {
        format: LogFormat::Openhands,
        detect: openhands::detect,
        reader: || Box::new(openhands::Openhands::default()),
    },
    FormatEntry {
        format: LogFormat::Inspect,
        detect: inspect::detect,
        reader: || Box::new(inspect::Inspect),
    },
    FormatEntry {
        format: LogFormat::TauBench,
        detect: tau_bench::detect,
        reader: || Box::new(tau_bench::TauBench),
    },
    FormatEntry {
        format: LogFormat::AutogenAgentchat,
        detect: agentchat::detect,
        reader: || Box::new(agentchat::Agentchat),
    },
    FormatEntry {
        format: LogFormat::Langchain,
        detect: langchain::detect,
        reader: || Box::new(langchain::Langchain::default()),
    },
    FormatEntry {
        format: LogFormat::Autogen,
        detect: autogen::detect,
        reader: || Box::new(autogen::Autogen::default()),
    },
    FormatEntry {
        format: LogFormat::Steps,
        detect: steps::detect,
        reader: || Box::new(steps::Steps),
    },
    FormatEntry {
        format: LogFormat::Chat,
        detect: chat::detect,
        reader: || Box::new(chat::Chat::default()),
    },
];

/// Reads a log of any supported format.
pub fn read(bytes: &[u8], options: ReadOptions) -> Result<Log, ReadError> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Err(ReadError::Archive);
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let mut out = Output::default();
    let document = serde_json::from_str::<Value>(text);
    let format = match document {
        Ok(value) => {
            read_document(&value, 1, options.format, &mut out, 0).ok_or_else(|| ReadError::UnknownFormat {
                found: value::describe(&value),
            })?
        }
        Err(error) => read_lines(text, &error, options.format, &mut out)?,
    };
    Ok(Log {
        format,
        trajectories: out.finished,
        skipped: out.skipped,
    })
}

/// Reads one document: a dialogue, or a list of dialogues.
fn read_document(
    value: &Value,
    line: usize,
    format: Option<LogFormat>,
    out: &mut Output,
    depth: usize,
) -> Option<LogFormat> {
    if let Some(entry) = entry_for(&[value], format) {
        let mut reader = (entry.reader)();
        reader.record(value, line, out);
        reader.end(out);
        out.end_trajectory();
        return Some(entry.format);
    }
    let elements = value.as_array().filter(|_| depth < MAX_NESTING)?;
    // The records of one dialogue as a list: the same as one record per line.
    let first: Vec<&Value> = elements.iter().take(DETECTION_RECORDS).collect();
    if let Some(entry) = entry_for(&first, format).filter(|_| is_record_stream(&first)) {
        let mut reader = (entry.reader)();
        for element in elements {
            reader.record(element, line, out);
        }
        reader.end(out);
        out.end_trajectory();
        return Some(entry.format);
    }
    let mut found = None;
    for element in elements {
        match read_document(element, line, format, out, depth + 1) {
            Some(format) => found = found.or(Some(format)),
            None => out.skip(line, format!("unknown dialogue: {}", value::describe(element))),
        }
    }
    found
}

/// Reads JSON Lines: the records of one log, or one dialogue per line.
fn read_lines(
    text: &str,
    document_error: &serde_json::Error,
    format: Option<LogFormat>,
    out: &mut Output,
) -> Result<LogFormat, ReadError> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim().is_empty());
    let mut first = Vec::new();
    for (number, line) in lines.by_ref().take(DETECTION_RECORDS) {
        first.push((number, serde_json::from_str::<Value>(line)));
    }
    if first.first().is_some_and(|(_, parsed)| parsed.is_err())
        && let Some(values) = concatenated_documents(text)
    {
        return read_document(&values, 1, format, out, 0).ok_or_else(|| ReadError::UnknownFormat {
            found: value::describe(&values),
        });
    }
    let references: Vec<&Value> = first
        .iter()
        .filter_map(|(_, parsed)| parsed.as_ref().ok())
        .collect();
    let Some(found_first) = references.first().map(|value| value::describe(value)) else {
        return Err(ReadError::NotJson {
            line: document_error.line(),
            problem: document_error.to_string(),
        });
    };
    let one_dialogue_per_line = !is_record_stream(&references);
    let entry = entry_for(&references, format);
    let mut found = entry.filter(|_| !one_dialogue_per_line).map(|entry| entry.format);
    let mut reader = found.and(entry).map(|entry| (entry.reader)());
    let ends_with_line_end = text.ends_with('\n');
    let last = text.lines().count();
    let rest = lines.map(|(number, line)| (number, serde_json::from_str::<Value>(line)));
    for (number, parsed) in first.into_iter().chain(rest) {
        let value = match parsed {
            Ok(value) => value,
            Err(_) if number == last && !ends_with_line_end => {
                out.skip(number, "incomplete last line");
                continue;
            }
            Err(error) => {
                out.skip(number, format!("invalid JSON: {error}"));
                continue;
            }
        };
        match &mut reader {
            Some(reader) => reader.record(&value, number, out),
            None => match read_document(&value, number, format, out, 1) {
                Some(format) => found = found.or(Some(format)),
                None => out.skip(number, format!("unknown record: {}", value::describe(&value))),
            },
        }
    }
    if let Some(mut reader) = reader {
        reader.end(out);
        out.end_trajectory();
    }
    found.ok_or(ReadError::UnknownFormat { found: found_first })
}

/// JSON documents one after another that span several lines, as exporters print them, as one list.
fn concatenated_documents(text: &str) -> Option<Value> {
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value {
            Ok(value) => values.push(value),
            Err(_) => break,
        }
    }
    (values.len() > 1).then_some(Value::Array(values))
}

fn entry_for(first: &[&Value], format: Option<LogFormat>) -> Option<&'static FormatEntry> {
    match format {
        Some(format) => FORMATS
            .iter()
            .find(|entry| entry.format == format && (entry.detect)(first)),
        None => FORMATS.iter().find(|entry| (entry.detect)(first)),
    }
}

/// Whether records are parts of one log, such as messages or events, and not complete dialogues.
fn is_record_stream(records: &[&Value]) -> bool {
    let complete = records
        .iter()
        .filter(|record| {
            record.is_array()
                || [
                    "messages",
                    "steps",
                    "trajectory",
                    "history",
                    "traj",
                    "mapping",
                    "samples",
                ]
                .iter()
                .any(|key| {
                    record
                        .get(key)
                        .is_some_and(|value| value.is_array() || value.is_object())
                })
        })
        .count();
    complete * 2 <= records.len()
}
