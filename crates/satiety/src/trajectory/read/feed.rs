//! Messages and records that arrive one at a time.

use serde_json::Value;

use super::{FORMATS, LogFormat, Output, Reader, Skipped, chat};
use crate::trajectory::step::{Step, Trajectory};

/// Turns records that arrive one at a time into steps. The format is detected from the first record.
#[derive(Default)]
pub struct Feed {
    reader: Option<Box<dyn Reader>>,
    format: Option<LogFormat>,
    out: Output,
    records: usize,
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

    /// Adds a record: a message, an event or a step.
    pub fn push(&mut self, record: &Value) {
        self.records += 1;
        let reader = self.reader.get_or_insert_with(|| {
            let entry = FORMATS.iter().find(|entry| (entry.detect)(&[record]));
            self.format = Some(entry.map_or(LogFormat::Chat, |entry| entry.format));
            entry.map_or_else(
                || Box::new(chat::Chat::default()) as Box<dyn Reader>,
                |entry| (entry.reader)(),
            )
        });
        reader.record(record, self.records, &mut self.out);
    }

    /// Steps that became complete since the last call. A step is complete when the next one begins, or when
    /// all its calls have results.
    pub fn take_steps(&mut self) -> &[Step] {
        self.out.builder.take_complete(true)
    }

    /// Number of records so far.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Records that were not understood.
    pub fn skipped(&self) -> &Skipped {
        &self.out.skipped
    }

    /// Finishes the feed and returns the whole trajectory.
    pub fn finish(mut self) -> Trajectory {
        if let Some(mut reader) = self.reader.take() {
            reader.end(&mut self.out);
        }
        self.out.end_trajectory();
        self.out.finished.pop().unwrap_or_default()
    }
}
