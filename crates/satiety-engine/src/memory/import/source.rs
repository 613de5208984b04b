//! Reader of an import: a thread that parses a file, an archive or a directory, and sends batches of records.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use satiety::memory::{ImportFormat, ImportRecord, JsonRecords, import_records};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{BATCH, READ_AHEAD, ReadBatch, ReadRecord};
use crate::EngineError;
use crate::memory::directory_index::{markdown_files, read_note};

/// Messages of a log without conversations that are taken together.
const MAX_MESSAGES: usize = 2000;
const BUFFER_BYTES: usize = 1 << 20;

/// Starts to read a source. The thread ends when the receiver is dropped.
pub(super) fn read(path: PathBuf, format: Option<ImportFormat>) -> Receiver<Result<ReadBatch, EngineError>> {
    let (sender, receiver) = channel(READ_AHEAD);
    tokio::task::spawn_blocking(move || {
        let outcome = Reader::new(&path, sender.clone()).run(&path, format);
        if let Err(Stop::Failed(error)) = outcome {
            // Fails only without a receiver.
            let _ = sender.blocking_send(Err(error));
        }
    });
    receiver
}

/// Why reading ends early.
enum Stop {
    Failed(EngineError),
    /// The receiver is gone.
    Unwanted,
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

struct Reader {
    name: String,
    sender: Sender<Result<ReadBatch, EngineError>>,
    records: Vec<ReadRecord>,
    format: ImportFormat,
    done: Arc<AtomicU64>,
    total: u64,
}

impl Reader {
    fn new(path: &Path, sender: Sender<Result<ReadBatch, EngineError>>) -> Self {
        Self {
            name: path.display().to_string(),
            sender,
            records: Vec::new(),
            format: ImportFormat::Jsonl,
            done: Arc::default(),
            total: 0,
        }
    }

    fn run(mut self, path: &Path, format: Option<ImportFormat>) -> Result<(), Stop> {
        let failed = |cause| EngineError::file("read", path, cause);
        let about = fs_err::metadata(path).map_err(failed)?;
        let extension = path
            .extension()
            .and_then(|end| end.to_str())
            .unwrap_or_default()
            .to_lowercase();
        if about.is_dir() {
            self.format = ImportFormat::Markdown;
            self.read_directory(path)?;
        } else if extension == "zip" {
            self.read_archive(path, format)?;
        } else {
            self.total = about.len();
            let file = Counted {
                input: fs_err::File::open(path).map_err(failed)?,
                done: Arc::clone(&self.done),
            };
            let table = format == Some(ImportFormat::Csv)
                || (format.is_none() && matches!(extension.as_str(), "csv" | "tsv"));
            if table {
                self.format = ImportFormat::Csv;
                self.read_table(file, if extension == "tsv" { b'\t' } else { b',' })?;
            } else if format.is_none() && matches!(extension.as_str(), "md" | "markdown") {
                self.format = ImportFormat::Markdown;
                self.read_note(path, path.parent().unwrap_or(path))?;
            } else {
                self.read_json(BufReader::with_capacity(BUFFER_BYTES, file), format)?;
            }
        }
        self.flush()
    }

    fn push(&mut self, line: u64, record: Result<ImportRecord, String>) -> Result<(), Stop> {
        let place = format!("{}:{line}", self.name);
        self.push_at(place, record)
    }

    fn push_at(&mut self, place: String, record: Result<ImportRecord, String>) -> Result<(), Stop> {
        self.records.push(ReadRecord { place, record });
        if self.records.len() >= BATCH {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let batch = ReadBatch {
            records: std::mem::take(&mut self.records),
            format: self.format,
            done: self.done.load(Ordering::Relaxed),
            total: self.total,
        };
        self.sender.blocking_send(Ok(batch)).map_err(|_| Stop::Unwanted)
    }

    fn read_json(&mut self, input: impl BufRead, asked: Option<ImportFormat>) -> Result<(), Stop> {
        let mut format = asked;
        let mut log = MessageLog::default();
        for record in JsonRecords::new(input) {
            let record = record.map_err(|cause| EngineError::file("read", Path::new(&self.name), cause))?;
            let value = match record.value {
                Ok(value) => value,
                Err(problem) => {
                    self.push(record.line, Err(problem))?;
                    continue;
                }
            };
            let Some(found) = format.or_else(|| ImportFormat::detect(&value)) else {
                self.push(
                    record.line,
                    Err("unknown kind of record: no text, no messages".to_owned()),
                )?;
                continue;
            };
            // The first record that is recognised decides for all.
            format = Some(found);
            self.format = found;
            let is_message = found == ImportFormat::Messages && value.get("messages").is_none();
            if is_message {
                if let Some((line, conversation)) = log.add(record.line, value) {
                    self.push_all(line, found, &conversation)?;
                }
                continue;
            }
            self.push_all(record.line, found, &value)?;
        }
        if let Some((line, conversation)) = log.take() {
            self.push_all(line, ImportFormat::Messages, &conversation)?;
        }
        if format.is_none() && self.records.is_empty() {
            return Ok(());
        }
        if format.is_none() {
            let names: Vec<&str> = ImportFormat::ALL.iter().map(|format| format.name()).collect();
            return Err(Stop::Failed(EngineError::Invalid {
                message: format!("cannot import {}: no record has a known format", self.name),
                hint: format!("name the format (one of: {})", names.join(", ")).into(),
            }));
        }
        Ok(())
    }

    fn push_all(&mut self, line: u64, format: ImportFormat, value: &Value) -> Result<(), Stop> {
        match import_records(format, value) {
            Err(problem) => self.push(line, Err(problem)),
            Ok(records) => records
                .into_iter()
                .try_for_each(|record| self.push(line, Ok(record))),
        }
    }

    #[cfg(feature = "imports")]
    fn read_table(&mut self, input: impl Read, delimiter: u8) -> Result<(), Stop> {
        let mut outcome = Ok(());
        let read = satiety::memory::csv_records(input, delimiter, |line, record| {
            outcome = self.push(line, record);
            outcome.is_ok()
        });
        outcome?;
        read.map_err(|problem| {
            Stop::Failed(EngineError::Invalid {
                message: format!("cannot import {}: {problem}", self.name),
                hint: "name the columns in the first line: content, and optionally id, title, kind, folder, triggers".into(),
            })
        })
    }

    #[cfg(not(feature = "imports"))]
    fn read_table(&mut self, _: impl Read, _: u8) -> Result<(), Stop> {
        Err(Stop::Failed(EngineError::Invalid {
            message: crate::feature_disabled("CSV files", "imports"),
            hint: "convert the table to JSON Lines".into(),
        }))
    }

    /// Reads `conversations.json` from the archive of a data export.
    #[cfg(feature = "imports")]
    fn read_archive(&mut self, path: &Path, format: Option<ImportFormat>) -> Result<(), Stop> {
        const ENTRY: &str = "conversations.json";
        let failed = |cause| EngineError::file("read", path, cause);
        let bad = |problem: String| EngineError::Invalid {
            message: format!("cannot import {}: {problem}", path.display()),
            hint: format!("give an export with `{ENTRY}`, or unpack it and name the file").into(),
        };
        let file = fs_err::File::open(path).map_err(failed)?;
        let mut archive = zip::ZipArchive::new(file).map_err(|error| bad(error.to_string()))?;
        let named = archive
            .file_names()
            .position(|name| name.is_ok_and(|name| name.rsplit('/').next() == Some(ENTRY)));
        let named = named.ok_or_else(|| bad(format!("it has no `{ENTRY}`")))?;
        let entry = archive.by_index(named).map_err(|error| bad(error.to_string()))?;
        self.total = entry.size();
        let input = Counted {
            input: entry,
            done: Arc::clone(&self.done),
        };
        self.read_json(BufReader::with_capacity(BUFFER_BYTES, input), format)
    }

    #[cfg(not(feature = "imports"))]
    fn read_archive(&mut self, _: &Path, _: Option<ImportFormat>) -> Result<(), Stop> {
        Err(Stop::Failed(EngineError::Invalid {
            message: crate::feature_disabled("ZIP archives", "imports"),
            hint: "unpack the archive and import `conversations.json`".into(),
        }))
    }

    fn read_directory(&mut self, root: &Path) -> Result<(), Stop> {
        let files = markdown_files(root)?;
        self.total = files.len() as u64;
        for path in files {
            self.read_note(&path, root)?;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn read_note(&mut self, path: &Path, root: &Path) -> Result<(), Stop> {
        let shown = path.strip_prefix(root).unwrap_or(path);
        let record = read_markdown_record(path, shown);
        self.push_at(path.display().to_string(), record)
    }
}

fn read_markdown_record(path: &Path, shown: &Path) -> Result<ImportRecord, String> {
    let draft = read_note(path, shown)?;
    Ok(ImportRecord {
        key: shown.display().to_string(),
        draft,
        at: None,
        link: None,
    })
}

/// Messages of a log that has no conversations, such as one message per line.
#[derive(Default)]
struct MessageLog {
    messages: Vec<Value>,
    line: u64,
    number: usize,
}

impl MessageLog {
    /// Adds a message; returns the messages before it if they are many and it begins an exchange.
    fn add(&mut self, line: u64, message: Value) -> Option<(u64, Value)> {
        let begins = matches!(
            message.get("role").and_then(Value::as_str),
            Some("user" | "human")
        );
        let full = (self.messages.len() >= MAX_MESSAGES && begins)
            .then(|| self.take())
            .flatten();
        if self.messages.is_empty() {
            self.line = line;
        }
        self.messages.push(message);
        full
    }

    fn take(&mut self) -> Option<(u64, Value)> {
        if self.messages.is_empty() {
            return None;
        }
        self.number += 1;
        let messages = std::mem::take(&mut self.messages);
        Some((
            self.line,
            json!({"id": format!("log-{}", self.number), "messages": messages}),
        ))
    }
}

/// Counts the bytes that were read.
struct Counted<R> {
    input: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
