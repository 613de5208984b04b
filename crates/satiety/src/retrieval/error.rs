//! What can be wrong with judgments, runs and names of measures; lines are counted from one.

/// The result of reading or naming something.
pub type RetrievalResult<T> = Result<T, RetrievalError>;

/// Why judgments or a run cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// A line that is not what it should be.
    #[error("line {line}: {reason}")]
    Line {
        /// Which line.
        line: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A line without an end in sight.
    #[error("line {line} is longer than {limit} bytes")]
    LongLine {
        /// Which line.
        line: u64,
        /// The most bytes that a line may have.
        limit: usize,
    },
    /// The same document twice for one query.
    #[error("{}query `{query}` has document `{document}` twice", place(*.line))]
    Duplicate {
        /// The query.
        query: String,
        /// The document.
        document: String,
        /// The line where it comes for the second time, when it came from lines.
        line: Option<u64>,
    },
    /// Nothing but white space and comments.
    #[error("there is nothing in it")]
    Empty,
    /// More ids than positions of 32 bits can tell apart.
    #[error("more than 4 GiB of document ids, or 4 billion lines")]
    TooLarge,
    /// A name that is no measure.
    #[error("`{name}` is no measure: {reason}")]
    Measure {
        /// What was typed.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A measure that needs to know more than was told.
    #[error("`{measure}` needs {missing}, and there are none")]
    NeedsFacts {
        /// The measure.
        measure: String,
        /// What is missing.
        missing: &'static str,
    },
    /// Runs and judgments without a query in common.
    #[error("no query of the judgments can be evaluated with this run")]
    NoSharedQueries,
}

fn place(line: Option<u64>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl RetrievalError {
    /// The same, when so many lines come before the part of the file that was read.
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
