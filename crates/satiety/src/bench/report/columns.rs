//! Results of a run as columns, for tables that other programs read: one row per result.

use crate::bench::run::{BenchmarkResult, BenchmarkRun};

/// Values of one column; an absent value is `None`.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnValues {
    /// Texts, such as ids and words.
    Text(Vec<Option<String>>),
    /// Whole numbers, such as counts.
    Integer(Vec<Option<i64>>),
    /// Numbers, such as scores and times.
    Number(Vec<Option<f64>>),
    /// Truth values, as they are.
    Boolean(Vec<Option<bool>>),
    /// Times, in microseconds since the Unix epoch.
    Time(Vec<Option<i64>>),
}

/// A column with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Name of the column.
    pub name: String,
    /// One value per row.
    pub values: ColumnValues,
}

/// Columns of a run: what identifies a result, its outcome and measurements, then every named score and metric as
/// `score.NAME` and `metric.NAME`. [`crate::bench::read_result_table`] reads such a table back.
pub fn result_columns(run: &BenchmarkRun) -> Vec<TableColumn> {
    let results = &run.results;
    let text = |value: &dyn Fn(&BenchmarkResult) -> Option<String>| {
        ColumnValues::Text(results.iter().map(value).collect())
    };
    let integer = |value: &dyn Fn(&BenchmarkResult) -> Option<u64>| {
        let values = results.iter().map(value);
        ColumnValues::Integer(
            values
                .map(|value| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)))
                .collect(),
        )
    };
    let number = |value: &dyn Fn(&BenchmarkResult) -> Option<f64>| {
        ColumnValues::Number(results.iter().map(value).collect())
    };
    let status = |result: &BenchmarkResult| Some(format!("{:?}", result.status).to_lowercase());
    let mut columns: Vec<(String, ColumnValues)> = [
        ("run_id", text(&|_| Some(run.run_id.clone()))),
        ("suite_id", text(&|_| Some(run.suite_id.clone()))),
        ("target", text(&|_| Some(run.target.clone()))),
        ("started_at", text(&|_| Some(run.started_at.to_string()))),
        ("case_id", text(&|result| Some(result.case_id.clone()))),
        ("variant", text(&|result| result.variant.clone())),
        ("repeat", integer(&|result| Some(u64::from(result.repeat)))),
        ("status", text(&status)),
        ("score", number(&|result| result.score)),
        ("latency_ms", number(&|result| Some(result.latency_ms))),
        (
            "tokens",
            integer(&|result| result.metric("tokens").map(|_| result.token_cost)),
        ),
        ("tokens_in", integer(&|result| result.tokens_in)),
        ("tokens_out", integer(&|result| result.tokens_out)),
        ("cost_usd", number(&|result| result.cost_usd)),
        ("retries", integer(&|result| Some(u64::from(result.retries)))),
        ("error", text(&|result| result.error.clone())),
        ("error_kind", text(&|result| result.error_kind.clone())),
        (
            "reasons",
            text(&|result| (!result.reasons.is_empty()).then(|| result.reasons.join("; "))),
        ),
        ("output", text(&|result| result.actual_output.clone())),
    ]
    .map(|(name, values)| (name.to_owned(), values))
    .into();
    let mut scores: Vec<&str> = Vec::new();
    for score in results.iter().flat_map(|result| &result.scores) {
        if !scores.contains(&score.name.as_str()) {
            scores.push(&score.name);
        }
    }
    for name in scores {
        let value = |result: &BenchmarkResult| {
            let found = result.scores.iter().find(|score| score.name == name);
            found.and_then(|score| score.value)
        };
        columns.push((format!("score.{name}"), number(&value)));
    }
    let metrics: std::collections::BTreeSet<&String> =
        results.iter().flat_map(|result| result.metrics.keys()).collect();
    for name in metrics {
        let value = |result: &BenchmarkResult| result.metrics.get(name).copied();
        columns.push((format!("metric.{name}"), number(&value)));
    }
    columns
        .into_iter()
        .map(|(name, values)| TableColumn { name, values })
        .collect()
}

impl ColumnValues {
    /// Values as texts; an absent value is empty.
    pub fn to_texts(&self) -> Vec<String> {
        fn list<T: ToString>(values: &[Option<T>]) -> Vec<String> {
            let texts = values.iter().map(|value| value.as_ref().map(ToString::to_string));
            texts.map(Option::unwrap_or_default).collect()
        }
        match self {
            Self::Text(values) => list(values),
            Self::Integer(values) | Self::Time(values) => list(values),
            Self::Number(values) => list(values),
            Self::Boolean(values) => list(values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::run::{NamedScore, Status};

    #[test]
    fn absent_values_are_empty() {
        let mut first = BenchmarkResult::new("a", 0, Status::Pass);
        first.scores = vec![NamedScore::new("quality", Some(7.5))];
        first.metrics.insert("recall".into(), 0.5);
        first.tokens_in = Some(3);
        first.token_cost = 3;
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "s".into(),
            suite_hash: None,
            target: "t".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: std::collections::BTreeMap::new(),
            results: vec![first, BenchmarkResult::new("b", 0, Status::Timeout)],
            summary: None,
        };
        let columns = result_columns(&run);
        let texts = |name: &str| {
            let column = columns.iter().find(|column| column.name == name).unwrap();
            column.values.to_texts()
        };
        assert_eq!(texts("case_id"), ["a", "b"]);
        assert_eq!(texts("status"), ["pass", "timeout"]);
        assert_eq!(texts("tokens"), ["3", ""]);
        assert_eq!(texts("score.quality"), ["7.5", ""]);
        assert_eq!(texts("metric.recall"), ["0.5", ""]);
        assert_eq!(texts("variant"), ["", ""]);
    }
}
