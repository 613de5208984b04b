//! Messages and records that arrive one at a time.

use serde_json::Value;

use super::value::string;
use super::{DETECTION_RECORDS, FORMATS, LogFormat, Output, Reader, Skipped, chat};
use crate::trajectory::step::{Step, Trajectory};

/// Turns records that arrive one at a time into steps.
///
/// Records are buffered until one of them shows the format, because a log may begin with a header or with
/// messages that many formats share. Such records contain no turn of an agent, so no step is delayed.
#[derive(Default)]
pub struct Feed {
    reader: Option<Box<dyn Reader>>,
    format: Option<LogFormat>,
    out: Output,
    records: usize,
    /// Records that arrived before the format was known.
    pending: Vec<Value>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Feed")
            .field("format", &self.format)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl Feed {
    /// Creates a feed that detects its format.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record: a message, an event, a span or a step.
    pub fn push(&mut self, record: &Value) {
        self.records += 1;
        if let Some(reader) = &mut self.reader {
            reader.record(record, self.records, &mut self.out);
            return;
        }
        self.pending.push(record.clone());
        if !is_shared_message(record) || self.pending.len() >= DETECTION_RECORDS {
            self.detect(self.pending.len() >= DETECTION_RECORDS);
        }
    }

    /// Steps that became complete since the last call. A step is complete when the next one begins, or when
    /// all its calls have results. In formats that split a turn into several records, a turn without calls
    /// is complete only when the next record shows that it has ended.
    pub fn take_steps(&mut self) -> &[Step] {
        let split_turns = self.reader.as_ref().is_some_and(|reader| reader.splits_turns());
        self.out.builder.take_complete(split_turns)
    }

    /// The first turn, once all of its records are there; it may still be answered.
    pub fn first_turn(&mut self) -> Option<&Step> {
        let split_turns = self.reader.as_ref().is_some_and(|reader| reader.splits_turns());
        self.out.builder.first_turn(split_turns)
    }

    /// Number of records so far.
    pub fn records(&self) -> usize {
        self.records
    }

    /// The format, once it is known.
    pub fn format(&self) -> Option<LogFormat> {
        self.format
    }

    /// Records that were not understood.
    pub fn skipped(&self) -> &Skipped {
        &self.out.skipped
    }

    /// Finishes the feed and returns the whole trajectory.
    pub fn finish(mut self) -> Trajectory {
        if self.reader.is_none() {
            self.detect(true);
        }
        if let Some(mut reader) = self.reader.take() {
            reader.end(&mut self.out);
        }
        self.out.end_trajectory();
        self.out.finished.pop().unwrap_or_default()
    }

    /// Chooses the reader from the pending records and passes them to it. If no format fits, the records are
    /// kept, or read as chat messages if `decide` is set.
    fn detect(&mut self, decide: bool) {
        let records: Vec<&Value> = self.pending.iter().collect();
        let entry = FORMATS.iter().find(|entry| (entry.detect)(&records));
        let mut reader = match entry {
            Some(entry) => (entry.reader)(),
            None if decide => Box::new(chat::Chat::default()) as Box<dyn Reader>,
            None => return,
        };
        self.format = Some(entry.map_or(LogFormat::Chat, |entry| entry.format));
        reader.stream();
        for (index, record) in std::mem::take(&mut self.pending).iter().enumerate() {
            reader.record(record, index + 1, &mut self.out);
        }
        self.reader = Some(reader);
    }
}

/// Whether a record is a message to an agent that chat logs, Responses items and others share.
fn is_shared_message(record: &Value) -> bool {
    matches!(
        string(record, "role"),
        Some("user" | "system" | "developer" | "human")
    )
}
