//! Judgments and answers in a Parquet export, as the text that the readers of files take.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use satiety_store::evaluation::EvalJudgmentRow;
use serde_json::{Map, Value, json};

use super::history::trusted;
use crate::EngineError;
use crate::database::stored_export::{ExportedName, StoredExport};

/// Judgments of an export as JSON Lines, the most trusted one for each result.
pub(super) fn judgment_lines(name: &ExportedName) -> Result<String, EngineError> {
    let mut queries: BTreeMap<String, Vec<EvalJudgmentRow>> = BTreeMap::new();
    StoredExport::open(&name.directory)?.each_row("eval_judgments", None, |row| {
        if let (Some(query_id), Some(memory_id)) = (text(&row, "query_id"), text(&row, "memory_id")) {
            queries
                .entry(query_id.clone())
                .or_default()
                .push(EvalJudgmentRow {
                    query_id,
                    memory_id,
                    source: text(&row, "source").unwrap_or_default(),
                    relevance: row.get("relevance").and_then(Value::as_i64).unwrap_or(0),
                    annotator: None,
                    confidence: None,
                });
        }
        Ok(())
    })?;
    let mut lines = String::new();
    for (query, judgments) in queries {
        let grades: Vec<Value> = trusted(&judgments)
            .map(|one| json!({"memoryId": one.memory_id, "relevance": one.relevance}))
            .collect();
        let _ = writeln!(lines, "{}", json!({"queryId": query, "judgments": grades}));
    }
    Ok(lines)
}

/// Answers of a run in an export as JSON Lines. Queries that failed have none.
pub(super) fn answer_lines(name: &ExportedName) -> Result<String, EngineError> {
    let export = StoredExport::open(&name.directory)?;
    let missing = || export.not_found("eval_answers", "run_id", name.id.as_deref());
    let id = name.id.as_deref().ok_or_else(missing)?;
    let rows = export.rows_where("eval_answers", "run_id", id, None)?;
    if rows.is_empty() {
        return Err(missing());
    }
    let mut lines = String::new();
    for row in rows
        .iter()
        .filter(|row| row.get("error").is_none_or(Value::is_null))
    {
        let results: Value = serde_json::from_str(&text(row, "results").unwrap_or_default())?;
        let line = json!({"queryId": row.get("query_id"), "results": results});
        let _ = writeln!(lines, "{line}");
    }
    Ok(lines)
}

fn text(row: &Map<String, Value>, column: &str) -> Option<String> {
    Some(row.get(column)?.as_str()?.to_owned())
}
