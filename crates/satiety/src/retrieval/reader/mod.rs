//! Streaming readers of judgments and runs in all formats. They accept chunks of any size and buffer at most
//! one line. Large files can be read in parts by several readers, for example in threads, and joined
//! afterwards.

mod lines;
mod rows;
#[cfg(test)]
mod tests;
mod trec;

pub(super) use lines::Lines;

use super::builder::{self, ArrangedRuns, Builder};
use super::fast_parse::Ends;
use super::graded::{GradedRunPart, Grades};
use super::lists::{OrderOptions, Qrels, Run, Scored, Ties};
use super::tables::Columns;
use super::{RetrievalError, RetrievalResult};

/// Format of a file of judgments or results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// Whitespace-separated fields, as in `trec_eval`.
    #[default]
    Trec,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header, as in BEIR.
    Tsv,
    /// JSON Lines, one query per line.
    JsonLines,
}

impl FileFormat {
    /// Whether a file can be split between any two lines and read in parts. Formats with a header cannot.
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Trec | Self::JsonLines)
    }

    /// Maximum length of a line in bytes.
    pub fn longest_line(self) -> usize {
        match self {
            // Ids are stored with 16-bit lengths.
            Self::Trec | Self::Csv | Self::Tsv => 65_535,
            // A line holds all judgments or results of a query.
            Self::JsonLines => 16 << 20,
        }
    }
}

/// Reads judgments. Lines of `trec_eval` have the fields `query iteration document grade`.
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
    /// Creates a reader for files of `trec_eval`.
    pub fn trec() -> Self {
        Self::new(FileFormat::Trec)
    }

    /// Creates a reader for files of a format.
    pub fn new(format: FileFormat) -> Self {
        Self::part(format, 0)
    }

    /// Creates a reader for a part of a file, numbered from zero, if the [format has
    /// parts](FileFormat::has_parts).
    pub fn part(format: FileFormat, number: u16) -> Self {
        Self {
            format,
            lines: Lines::new(format.longest_line(), number == 0),
            ends: Ends::default(),
            builder: Builder::new(number),
            columns: None,
        }
    }

    /// Reads the next chunk of the file, which may end anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        self.take(Some(bytes))
    }

    /// Ends the file and returns the judgments.
    pub fn finish(self, options: OrderOptions) -> RetrievalResult<Qrels> {
        QrelsPart::join(vec![self.end(options)?])
    }

    /// Ends the part and returns its judgments.
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
    /// Number of lines; add it to the lines of errors in later parts with [`RetrievalError::after`].
    pub fn lines(&self) -> u64 {
        self.0.lines
    }

    /// Joins the parts of a file, in file order.
    pub fn join(parts: Vec<Self>) -> RetrievalResult<Qrels> {
        builder::qrels(parts.into_iter().map(|part| part.0).collect())
    }
}

/// Reads a run. Lines of `trec_eval` have the fields `query Q0 document rank score tag`.
#[derive(Debug)]
pub struct RunReader {
    format: FileFormat,
    lines: Lines,
    ends: Ends,
    builder: Builder<Scored>,
    columns: Option<Columns>,
    /// First line whose rank is not an integer; an error only if ranks break ties.
    unranked: Option<u64>,
}

/// A part of a run.
#[derive(Debug)]
pub struct RunPart {
    arranged: ArrangedRuns<Scored>,
    unranked: Option<u64>,
}

impl RunReader {
    /// Creates a reader for files of `trec_eval`.
    pub fn trec() -> Self {
        Self::new(FileFormat::Trec)
    }

    /// Creates a reader for files of a format.
    pub fn new(format: FileFormat) -> Self {
        Self::part(format, 0)
    }

    /// Creates a reader for a part of a file, numbered from zero, if the [format has
    /// parts](FileFormat::has_parts).
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

    /// Reads the next chunk of the file, which may end anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        self.take(Some(bytes))
    }

    /// Ends the file and returns the run, sorted and without duplicates.
    pub fn finish(self, options: OrderOptions) -> RetrievalResult<Run> {
        RunPart::join(vec![self.end(options)?])
    }

    /// Ends the part and returns its results.
    pub fn end(mut self, options: OrderOptions) -> RetrievalResult<RunPart> {
        self.take(None)?;
        Ok(RunPart {
            arranged: self.builder.arrange(self.lines.done(), options)?,
            unranked: self.unranked.filter(|_| options.ties == Ties::Rank),
        })
    }

    /// Reads the next chunk and grades the queries that it completes. `None` if the run has to be read as a
    /// whole.
    pub(super) fn push_graded(
        &mut self,
        bytes: &[u8],
        grades: &mut Grades,
        qrels: &Qrels,
        order: OrderOptions,
    ) -> RetrievalResult<Option<()>> {
        self.push(bytes)?;
        Ok(grades.take_complete(&mut self.builder, qrels, order))
    }

    /// Ends the part.
    pub(super) fn end_graded(self, graded: Grades, order: OrderOptions) -> RetrievalResult<GradedRunPart> {
        let rest = self.end(order)?;
        Ok(GradedRunPart { graded, rest })
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

/// Reads a part of a run and grades it, see [`GradedRun`](super::GradedRun).
#[derive(Debug)]
pub struct GradingReader<'a> {
    reader: RunReader,
    grades: Grades,
    qrels: &'a Qrels,
    order: OrderOptions,
    /// Whether the run has to be read as a whole.
    is_refused: bool,
}

impl<'a> GradingReader<'a> {
    /// Creates a reader for a part of a file, numbered from zero.
    pub fn part(format: FileFormat, number: u16, qrels: &'a Qrels, order: OrderOptions) -> Self {
        Self {
            reader: RunReader::part(format, number),
            grades: Grades::default(),
            qrels,
            order,
            is_refused: false,
        }
    }

    /// Reads the next chunk of the file, which may end anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        if !self.is_refused {
            let graded = self
                .reader
                .push_graded(bytes, &mut self.grades, self.qrels, self.order)?;
            self.is_refused = graded.is_none();
        }
        Ok(())
    }

    /// Ends the part; `None` if the run has to be read as a whole.
    pub fn end(self) -> RetrievalResult<Option<GradedRunPart>> {
        if self.is_refused {
            return Ok(None);
        }
        self.reader.end_graded(self.grades, self.order).map(Some)
    }
}

impl RunPart {
    /// Number of lines; add it to the lines of errors in later parts with [`RetrievalError::after`].
    pub fn lines(&self) -> u64 {
        self.arranged.lines
    }

    /// Joins the parts of a file, in file order.
    pub fn join(parts: Vec<Self>) -> RetrievalResult<Run> {
        let mut before = 0;
        for part in &parts {
            if let Some(line) = part.unranked {
                return Err(RetrievalError::at(before + line, "rank is not an integer"));
            }
            before += part.lines();
        }
        builder::run(parts.into_iter().map(|part| part.arranged).collect())
    }
}
