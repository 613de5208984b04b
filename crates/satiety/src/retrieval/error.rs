//! Errors of reading judgments and runs, and of parsing measure names. Line numbers start at one.

/// Result with a [`RetrievalError`].
pub type RetrievalResult<T> = Result<T, RetrievalError>;

/// Errors of judgments, runs and measures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// A line is invalid.
    #[error("line {line}: {reason}")]
    Line {
        /// Number of the line.
        line: u64,
        /// Description of the problem.
        reason: String,
    },
    /// A line exceeds the length limit.
    #[error("line {line} is longer than {limit} bytes")]
    LongLine {
        /// Number of the line.
        line: u64,
        /// Maximum length of a line in bytes.
        limit: usize,
    },
    /// A query has the same document twice.
    #[error("{}duplicate document `{document}` for query `{query}`", line_prefix(*.line))]
    Duplicate {
        /// Id of the query.
        query: String,
        /// Id of the document.
        document: String,
        /// Line of the second occurrence, if known.
        line: Option<u64>,
    },
    /// The input contains only whitespace and comments.
    #[error("the input is empty")]
    Empty,
    /// The input exceeds 32-bit positions.
    #[error("the input is too large: more than 4 GiB of document ids or 4 billion lines")]
    TooLarge,
    /// The score of a result is not a number.
    #[error("score of document `{document}` for query `{query}` is not a number")]
    Score {
        /// Id of the query.
        query: String,
        /// Id of the document.
        document: String,
    },
    /// The name of a measure is invalid.
    #[error("invalid measure `{name}`: {reason}")]
    Measure {
        /// The name as given.
        name: String,
        /// Description of the problem.
        reason: String,
    },
    /// A measure needs facts about documents or queries that are missing.
    #[error("cannot compute `{measure}`: {missing}")]
    NeedsFacts {
        /// Name of the measure.
        measure: String,
        /// Description of the missing facts.
        missing: &'static str,
    },
    /// The run and the judgments share no query with a value.
    #[error("cannot evaluate the run: it shares no usable query with the judgments")]
    NoSharedQueries,
}

fn line_prefix(line: Option<u64>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl RetrievalError {
    /// Shifts the line number by `lines`, the number of lines before the part of the file that was read.
    pub fn after(mut self, lines: u64) -> Self {
        if let Self::Line { line, .. }
        | Self::LongLine { line, .. }
        | Self::Duplicate { line: Some(line), .. } = &mut self
        {
            *line += lines;
        }
        self
    }

    pub(super) fn at(line: u64, reason: impl Into<String>) -> Self {
        Self::Line {
            line,
            reason: reason.into(),
        }
    }
}
