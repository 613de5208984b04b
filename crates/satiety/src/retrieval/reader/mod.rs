//! Judgments and runs from bytes that come piece by piece, in any format. At most one line is kept back. Big files can be
//! read in parts by several readers; whoever has threads does that and joins what they read.

mod lines;
mod rows;
#[cfg(test)]
mod tests;
mod trec;

pub(super) use lines::Lines;

use super::builder::{self, ArrangedRuns, Builder};
use super::fast_parse::Ends;
use super::lists::{OrderOptions, Qrels, Run, Scored, Ties};
use super::tables::Columns;
use super::{RetrievalError, RetrievalResult};

/// How a file is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// As `trec_eval` reads it.
    #[default]
    Trec,
    /// With commas and a header.
    Csv,
    /// With tabs and a header, as in BEIR.
    Tsv,
    /// A query a line, as JSON.
    JsonLines,
}

impl FileFormat {
    /// Whether a file can be cut between any two lines, and the parts be read by themselves: nothing in the first line
    /// says what the others mean.
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Trec | Self::JsonLines)
    }

    /// The most bytes of a line.
    pub fn longest_line(self) -> usize {
        match self {
            // Ids are kept with 16-bit lengths, and no honest line comes near.
            Self::Trec | Self::Csv | Self::Tsv => 65_535,
            // All judgments or results of a query.
            Self::JsonLines => 16 << 20,
        }
    }
}

/// Reads judgments: `query iteration document grade`.
#[derive(Debug)]
pub struct QrelsReader {
    format: FileFormat,
    lines: Lines,
    ends: Ends,
    builder: Builder<i32>,
    columns: Option<Columns>,
}

/// Judgments of a part of a file.
#[derive(Debug)]
pub struct QrelsPart(ArrangedRuns<i32>);

impl QrelsReader {
    /// For files as `trec_eval` reads them.
    pub fn trec() -> Self {
        Self::new(FileFormat::Trec)
    }

    /// For files of a format.
    pub fn new(format: FileFormat) -> Self {
        Self::part(format, 0)
    }

    /// For a part of a file whose [format has parts](FileFormat::has_parts), counted from zero.
    pub fn part(format: FileFormat, number: u16) -> Self {
        Self {
            format,
            lines: Lines::new(format.longest_line(), number == 0),
            ends: Ends::default(),
            builder: Builder::new(number),
            columns: None,
        }
    }

    /// Takes the next piece of the file, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        self.take(Some(bytes))
    }

    /// The judgments, once the file has ended.
    pub fn finish(self, options: OrderOptions) -> RetrievalResult<Qrels> {
        QrelsPart::join(vec![self.end(options)?])
    }

    /// The judgments of a part, once it has ended.
    pub fn end(mut self, options: OrderOptions) -> RetrievalResult<QrelsPart> {
        self.take(None)?;
        self.builder.arrange(self.lines.done(), options).map(QrelsPart)
    }

    fn take(&mut self, bytes: Option<&[u8]>) -> RetrievalResult<()> {
        let (builder, columns) = (&mut self.builder, &mut self.columns);
        let (format, ends) = (self.format, &mut self.ends);
        if format == FileFormat::Trec {
            return self
                .lines
                .push(bytes, |lines, block| trec::judgments(builder, lines, ends, block));
        }
        self.lines.push(bytes, |lines, block| {
            lines.each(block, |number, line| {
                rows::judgments(builder, columns, format, number, line)
            })
        })
    }
}

impl QrelsPart {
    /// How many lines it had; errors of the next part count from there ([`RetrievalError::after`]).
    pub fn lines(&self) -> u64 {
        self.0.lines
    }

    /// The judgments of a whole file from its parts, in their order.
    pub fn join(parts: Vec<Self>) -> RetrievalResult<Qrels> {
        builder::qrels(parts.into_iter().map(|part| part.0).collect())
    }
}

/// Reads a run: `query Q0 document rank score tag`.
#[derive(Debug)]
pub struct RunReader {
    format: FileFormat,
    lines: Lines,
    ends: Ends,
    builder: Builder<Scored>,
    columns: Option<Columns>,
    /// The first line whose rank is no number, which matters only when ranks are asked for.
    unranked: Option<u64>,
}

/// A part of a run.
#[derive(Debug)]
pub struct RunPart {
    arranged: ArrangedRuns<Scored>,
    unranked: Option<u64>,
}

impl RunReader {
    /// For files as `trec_eval` reads them.
    pub fn trec() -> Self {
        Self::new(FileFormat::Trec)
    }

    /// For files of a format.
    pub fn new(format: FileFormat) -> Self {
        Self::part(format, 0)
    }

    /// For a part of a file whose [format has parts](FileFormat::has_parts), counted from zero.
    pub fn part(format: FileFormat, number: u16) -> Self {
        Self {
            format,
            lines: Lines::new(format.longest_line(), number == 0),
            ends: Ends::default(),
            builder: Builder::new(number),
            columns: None,
            unranked: None,
        }
    }

    /// Takes the next piece of the file, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        self.take(Some(bytes))
    }

    /// The run, once the file has ended: sorted, and without documents that come twice.
    pub fn finish(self, options: OrderOptions) -> RetrievalResult<Run> {
        RunPart::join(vec![self.end(options)?])
    }

    /// The run of a part, once it has ended.
    pub fn end(mut self, options: OrderOptions) -> RetrievalResult<RunPart> {
        self.take(None)?;
        Ok(RunPart {
            arranged: self.builder.arrange(self.lines.done(), options)?,
            unranked: self.unranked.filter(|_| options.ties == Ties::Rank),
        })
    }

    fn take(&mut self, bytes: Option<&[u8]>) -> RetrievalResult<()> {
        let (builder, columns, unranked) = (&mut self.builder, &mut self.columns, &mut self.unranked);
        let (format, ends) = (self.format, &mut self.ends);
        if format == FileFormat::Trec {
            return self.lines.push(bytes, |lines, block| {
                trec::results(builder, unranked, lines, ends, block)
            });
        }
        self.lines.push(bytes, |lines, block| {
            lines.each(block, |number, line| {
                rows::results(builder, unranked, columns, format, number, line)
            })
        })
    }
}

impl RunPart {
    /// How many lines it had; errors of the next part count from there ([`RetrievalError::after`]).
    pub fn lines(&self) -> u64 {
        self.arranged.lines
    }

    /// The run of a whole file from its parts, in their order.
    pub fn join(parts: Vec<Self>) -> RetrievalResult<Run> {
        let mut before = 0;
        for part in &parts {
            if let Some(line) = part.unranked {
                return Err(RetrievalError::at(before + line, "the rank is no whole number"));
            }
            before += part.lines();
        }
        builder::run(parts.into_iter().map(|part| part.arranged).collect())
    }
}
