//! Judgments and runs from values in memory, for callers that have no file.

use super::builder::{self, Builder};
use super::lists::{OrderOptions, Qrels, Run, Scored};
use super::{RetrievalError, RetrievalResult};

/// Builds judgments from values. Judgments of one query need not be contiguous, but are added faster if they
/// are.
///
/// ```
/// use satiety::retrieval::{OrderOptions, QrelsBuilder};
///
/// let mut builder = QrelsBuilder::default();
/// builder.add("q1", "a", 3)?;
/// builder.add("q1", "b", 0)?;
/// assert_eq!(builder.finish(OrderOptions::default())?.grade("q1", "a"), Some(3));
/// # Ok::<(), satiety::retrieval::RetrievalError>(())
/// ```
#[derive(Debug)]
pub struct QrelsBuilder(Builder<i32>);

/// Builds a run from values. Results of one query need not be contiguous, but are added faster if they are.
#[derive(Debug)]
pub struct RunBuilder {
    builder: Builder<Scored>,
    /// Number of results so far, which orders equal scores by [`Ties::Rank`](super::Ties::Rank).
    results: u32,
}

impl Default for QrelsBuilder {
    fn default() -> Self {
        Self(Builder::new(0))
    }
}

impl QrelsBuilder {
    /// Adds the grade of a document for a query. Ids must be shorter than 64 KiB.
    pub fn add(&mut self, query: &str, document: &str, grade: i32) -> RetrievalResult<()> {
        self.0.select_query(query.as_bytes())?;
        self.0.add(document.as_bytes(), grade)
    }

    /// Returns the judgments.
    pub fn finish(self, options: OrderOptions) -> RetrievalResult<Qrels> {
        builder::qrels(vec![self.0.arrange(0, options)?])
    }
}

impl Default for RunBuilder {
    fn default() -> Self {
        Self {
            builder: Builder::new(0),
            results: 0,
        }
    }
}

impl RunBuilder {
    /// Adds a result of a query. Ids must be shorter than 64 KiB; the score must not be NaN.
    pub fn add(&mut self, query: &str, document: &str, score: f32) -> RetrievalResult<()> {
        if score.is_nan() {
            return Err(RetrievalError::Score {
                query: query.into(),
                document: document.into(),
            });
        }
        self.builder.select_query(query.as_bytes())?;
        self.results = self.results.saturating_add(1);
        let rank = self.results;
        self.builder.add(document.as_bytes(), Scored { score, rank })
    }

    /// Returns the run with the results of each query in order.
    pub fn finish(self, options: OrderOptions) -> RetrievalResult<Run> {
        builder::run(vec![self.builder.arrange(0, options)?])
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::{EvaluationOptions, QrelsReader, RunReader, evaluate};
    use super::*;

    /// Values and files give the same lists, also for queries that are not contiguous.
    #[test]
    fn values_are_read_like_files() {
        let options = OrderOptions::default();
        let (mut qrels, mut run) = (QrelsBuilder::default(), RunBuilder::default());
        let mut files = (String::new(), String::new());
        for (query, document, grade, score) in [
            ("q1", "a", 3, 1.0),
            ("q2", "b", 2, 0.5),
            ("q1", "b", 0, 1.0),
            ("q2", "a", 0, 0.75),
            ("q1", "c", 2, 9.0),
        ] {
            qrels.add(query, document, grade).unwrap();
            run.add(query, document, score).unwrap();
            writeln!(files.0, "{query} 0 {document} {grade}").unwrap();
            writeln!(files.1, "{query} Q0 {document} 1 {score} x").unwrap();
        }
        let (qrels, run) = (qrels.finish(options).unwrap(), run.finish(options).unwrap());
        let (mut qrels_file, mut run_file) = (QrelsReader::trec(), RunReader::trec());
        qrels_file.push(files.0.as_bytes()).unwrap();
        run_file.push(files.1.as_bytes()).unwrap();
        let read = (
            qrels_file.finish(options).unwrap(),
            run_file.finish(options).unwrap(),
        );
        let measures = ["mrr".parse().unwrap(), "ndcg@2".parse().unwrap()];
        let evaluated = |(qrels, run)| evaluate(&qrels, &run, &measures, &EvaluationOptions::default());
        assert_eq!(evaluated((qrels, run)), evaluated(read));
    }

    #[test]
    fn invalid_values_are_rejected() {
        let mut run = RunBuilder::default();
        assert!(matches!(
            run.add("q", "d", f32::NAN),
            Err(RetrievalError::Score { .. })
        ));
        assert!(matches!(
            run.finish(OrderOptions::default()),
            Err(RetrievalError::Empty)
        ));
        let mut twice = QrelsBuilder::default();
        twice.add("q", "d", 1).unwrap();
        twice.add("q", "d", 2).unwrap();
        assert!(matches!(
            twice.finish(OrderOptions::default()),
            Err(RetrievalError::Duplicate { .. })
        ));
        assert_eq!(
            QrelsBuilder::default().add("q", &"d".repeat(70_000), 1),
            Err(RetrievalError::TooLarge)
        );
    }
}
