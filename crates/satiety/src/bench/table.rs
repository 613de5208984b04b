//! Reads tables of results (CSV, JSON Lines, or rows that the caller decoded) as a run. What a column means is
//! guessed from its name, unless the caller says it; an ambiguous guess is an error that lists the columns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::imported_run::{
    Decision, RepeatCounter, ResultOrigin, RunImport, ScoreChoice, decide_by_scores, field_error,
    run_of_content, whole_count,
};
use super::loss::Losses;
use super::reader::SuiteError;
use super::run::{BenchmarkResult, NamedScore, Status};

/// Depth up to which objects in cells become columns of their own, such as `metrics.f1`.
const MAX_DEPTH: usize = 3;

/// Meaning of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnRole {
    /// Id or text that identifies the case.
    Case,
    /// Number, seed or name of the repeat.
    Repeat,
    /// Model or variant that was evaluated.
    Variant,
    /// Verdict: a truth value, 0 or 1, or a word such as `passed` or `timeout`.
    Passed,
    /// A score with its name; the name of the column if empty.
    Score(String),
    /// Latency in milliseconds.
    LatencyMs,
    /// Latency in seconds.
    LatencyS,
    /// Total number of tokens.
    Tokens,
    /// Number of input tokens.
    TokensIn,
    /// Number of output tokens.
    TokensOut,
    /// Cost in US dollars.
    Cost,
    /// Answer of the target.
    Output,
    /// Error message; a result with one and without a verdict is an error.
    Error,
}

/// Roles by the name that users write, with the column names from which they are guessed. Names of one group are
/// equally likely; a later group counts only if no earlier one matches.
const ROLES: [(&str, ColumnRole, &[&[&str]]); 12] = [
    (
        "case",
        ColumnRole::Case,
        &[
            &[
                "case_id",
                "case",
                "task_id",
                "test_id",
                "sample_id",
                "example_id",
                "question_id",
                "instance_id",
                "item_id",
                "problem_id",
                "doc_id",
                "prompt_id",
                "nodeid",
            ],
            &[
                "id",
                "name",
                "task",
                "test",
                "case_name",
                "test_name",
                "task_name",
            ],
            &["question", "prompt", "input", "query"],
        ],
    ),
    (
        "passed",
        ColumnRole::Passed,
        &[
            &[
                "passed",
                "pass",
                "success",
                "successful",
                "correct",
                "is_correct",
                "is_passed",
                "is_success",
                "resolved",
                "is_resolved",
                "solved",
            ],
            &["status", "outcome", "verdict", "result", "label", "grade"],
        ],
    ),
    (
        "repeat",
        ColumnRole::Repeat,
        &[
            &[
                "repeat",
                "epoch",
                "trial",
                "repetition",
                "replicate",
                "rollout",
                "run_idx",
                "trial_id",
            ],
            &["seed", "attempt", "iteration", "run", "sample_idx"],
        ],
    ),
    (
        "variant",
        ColumnRole::Variant,
        &[
            &["variant"],
            &["model", "model_name", "model_id", "system", "agent", "provider"],
        ],
    ),
    (
        "latency_ms",
        ColumnRole::LatencyMs,
        &[&["latency_ms", "duration_ms", "elapsed_ms", "time_ms", "runtime_ms"]],
    ),
    (
        "latency_s",
        ColumnRole::LatencyS,
        &[&[
            "latency_s",
            "latency_sec",
            "latency_seconds",
            "duration_s",
            "duration_sec",
            "duration_seconds",
            "elapsed_s",
            "elapsed_sec",
            "elapsed_seconds",
            "time_s",
            "time_sec",
            "time_seconds",
            "runtime_s",
            "runtime_seconds",
            "seconds",
        ]],
    ),
    (
        "tokens",
        ColumnRole::Tokens,
        &[
            &["total_tokens"],
            &["tokens", "token_count", "num_tokens", "n_tokens", "token_cost"],
        ],
    ),
    (
        "tokens_in",
        ColumnRole::TokensIn,
        &[&[
            "input_tokens",
            "prompt_tokens",
            "tokens_in",
            "num_input_tokens",
            "n_input_tokens",
        ]],
    ),
    (
        "tokens_out",
        ColumnRole::TokensOut,
        &[&[
            "output_tokens",
            "completion_tokens",
            "tokens_out",
            "num_output_tokens",
            "n_output_tokens",
        ]],
    ),
    (
        "cost",
        ColumnRole::Cost,
        &[&["cost_usd", "total_cost_usd"], &["cost", "total_cost"]],
    ),
    (
        "output",
        ColumnRole::Output,
        &[
            &["actual_output", "model_output", "output"],
            &["response", "answer", "completion", "prediction"],
        ],
    ),
    (
        "error",
        ColumnRole::Error,
        &[&["error", "error_message", "exception"]],
    ),
];

/// Names of columns that hold scores, in addition to those with `score` in their name.
const SCORES: [&str; 14] = [
    "accuracy",
    "acc",
    "f1",
    "em",
    "exact_match",
    "reward",
    "rating",
    "grade",
    "quality",
    "bleu",
    "rouge1",
    "rouge2",
    "rougel",
    "similarity",
];

impl fmt::Display for ColumnRole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Score(name) = self {
            return if name.is_empty() {
                formatter.write_str("score")
            } else {
                write!(formatter, "score:{name}")
            };
        }
        let name = ROLES.iter().find(|(_, role, _)| role == self);
        formatter.write_str(name.map_or("", |(name, _, _)| name))
    }
}

/// Meaning of a column that the caller states, written as `ROLE=COLUMN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnChoice {
    /// Meaning of the column.
    pub role: ColumnRole,
    /// Name of the column, as it is in the file.
    pub column: String,
}

impl FromStr for ColumnChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            let names: Vec<&str> = ROLES.iter().map(|(name, _, _)| *name).collect();
            format!("{}, score:NAME", names.join(", "))
        };
        let (role, column) = text
            .split_once('=')
            .filter(|(_, column)| !column.trim().is_empty())
            .ok_or_else(|| format!("expected ROLE=COLUMN, with one of the roles: {}", expected()))?;
        let known = ROLES.iter().find(|(name, _, _)| *name == role.trim());
        let role = match (known, role.trim().split_once(':')) {
            (Some((_, role, _)), _) => role.clone(),
            (None, Some(("score", name))) => ColumnRole::Score(name.to_owned()),
            (None, None) if role.trim() == "score" => ColumnRole::Score(String::new()),
            _ => return Err(format!("unknown role `{role}` (expected one of: {})", expected())),
        };
        Ok(Self {
            role,
            column: column.trim().to_owned(),
        })
    }
}

/// How a column of a table was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ColumnUse {
    /// Meaning of the column, such as `case` or `score:quality`.
    pub role: String,
    /// Name of the column in the file.
    pub column: String,
    /// Whether the meaning was guessed from the name.
    pub guessed: bool,
}

impl fmt::Display for ColumnUse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.role, self.column)
    }
}

/// Rows of a table, with the place of each in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultTable {
    /// Names of the columns, in their order.
    pub columns: Vec<String>,
    /// Place of each row, such as `line 3`, with a value per column; `null` if it has none.
    pub rows: Vec<(String, Vec<Value>)>,
}

impl ResultTable {
    /// Parses text with a header line and values that `separator` separates.
    #[cfg(feature = "imports")]
    pub fn from_csv(file: &str, text: &str, separator: u8) -> Result<Self, SuiteError> {
        let syntax = |error: csv::Error| SuiteError::Syntax {
            file: file.to_owned(),
            reason: error.to_string(),
        };
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            .from_reader(text.as_bytes());
        let header = reader.headers().map_err(syntax)?;
        let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(syntax)?;
            let line = record.position().map_or(0, csv::Position::line);
            let cells = record.iter().map(|cell| match cell.trim() {
                "" => Value::Null,
                cell => Value::String(cell.to_owned()),
            });
            rows.push((format!("line {line}"), cells.collect()));
        }
        Ok(Self { columns, rows })
    }

    /// Without the cargo feature `imports`, no CSV file can be read.
    #[cfg(not(feature = "imports"))]
    pub fn from_csv(file: &str, _: &str, _: u8) -> Result<Self, SuiteError> {
        Err(SuiteError::Syntax {
            file: file.to_owned(),
            reason: "cannot read CSV: this build lacks the cargo feature `imports`".to_owned(),
        })
    }

    /// Parses one JSON object per line.
    pub fn from_json_lines(file: &str, text: &str) -> Result<Self, SuiteError> {
        let mut objects = Vec::new();
        for (number, line) in (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let object: Map<String, Value> =
                serde_json::from_str(line).map_err(|error| SuiteError::Syntax {
                    file: file.to_owned(),
                    reason: format!("line {number}: {error}"),
                })?;
            objects.push((format!("line {number}"), object));
        }
        Ok(Self::from_objects(objects))
    }

    /// Makes a table from objects with their places. Objects in objects become columns such as `metrics.f1`.
    pub fn from_objects(objects: impl IntoIterator<Item = (String, Map<String, Value>)>) -> Self {
        let mut columns: Vec<String> = Vec::new();
        let mut index: BTreeMap<String, usize> = BTreeMap::new();
        let mut rows = Vec::new();
        for (place, object) in objects {
            let mut cells = Vec::new();
            flatten("", object, MAX_DEPTH, &mut cells);
            let mut row = vec![Value::Null; columns.len()];
            for (name, value) in cells {
                let column = *index.entry(name.clone()).or_insert_with(|| {
                    columns.push(name);
                    columns.len() - 1
                });
                if row.len() <= column {
                    row.resize(column + 1, Value::Null);
                }
                if let Some(cell) = row.get_mut(column) {
                    *cell = value;
                }
            }
            rows.push((place, row));
        }
        Self { columns, rows }
    }
}

fn flatten(prefix: &str, object: Map<String, Value>, depth: usize, cells: &mut Vec<(String, Value)>) {
    for (key, value) in object {
        let name = if prefix.is_empty() {
            key
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            Value::Object(fields) if depth > 1 => flatten(&name, fields, depth - 1, cells),
            value => cells.push((name, value)),
        }
    }
}

/// A run from a table, with the meaning of its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct TableImport {
    /// The run and its scores.
    pub import: RunImport,
    /// Columns that were read, with what they mean.
    pub columns: Vec<ColumnUse>,
}

/// Reads a table. `given` states the meaning of columns; all others are guessed.
pub fn read_result_table(
    file: &str,
    table: &ResultTable,
    mut origin: ResultOrigin,
    given: &[ColumnChoice],
    choice: &ScoreChoice,
) -> Result<TableImport, SuiteError> {
    if table.rows.is_empty() {
        return Err(field_error(file, "rows", "are missing: the table is empty"));
    }
    let columns = Columns::assign(file, table, given)?;
    let mut losses = Losses::default();
    columns.report_unused(table, &mut losses);
    let variants = columns.distinct(table, &ColumnRole::Variant);
    match variants.as_slice() {
        [] => {}
        [only] => origin.target.clone_from(only),
        [first, ..] => {
            origin.target = variants.join(", ");
            losses.push(
                "variant",
                format!(
                    "{} variants: comparisons and the pass rate are about the first, `{first}`",
                    variants.len()
                ),
            );
        }
    }
    let repeats = columns.distinct(table, &ColumnRole::Repeat);
    let mut counter = RepeatCounter::default();
    let mut seen = BTreeSet::new();
    let mut results = Vec::with_capacity(table.rows.len());
    for (place, row) in &table.rows {
        let row = Row {
            file,
            place,
            columns: &columns,
            cells: row,
        };
        let case_id = row
            .text(&ColumnRole::Case)
            .ok_or_else(|| row.error(&ColumnRole::Case, "is empty"))?;
        let variant = row.text(&ColumnRole::Variant).filter(|_| variants.len() > 1);
        let repeat = match row.text(&ColumnRole::Repeat) {
            Some(text) => (0..)
                .zip(&repeats)
                .find(|(_, known)| **known == text)
                .map_or(0, |(number, _)| number),
            None => counter.next(&format!("{case_id}{}", variant.as_deref().unwrap_or_default())),
        };
        if !seen.insert((case_id.clone(), variant.clone(), repeat)) {
            let reason = format!("repeats case `{case_id}` with the same variant and repeat");
            return Err(row.error(&ColumnRole::Case, &reason));
        }
        let mut result = row.result(case_id, repeat)?;
        result.variant = variant;
        results.push(result);
    }
    if columns.index(&ColumnRole::Repeat).is_none() {
        counter.report("rows", &mut losses);
    }
    let decision = columns.decide(file, &mut results, choice)?;
    Ok(TableImport {
        import: run_of_content("table", &table.rows, origin, results, decision.as_ref(), losses),
        columns: columns.uses(),
    })
}

/// Columns with their meaning.
struct Columns<'a> {
    assigned: Vec<Assigned<'a>>,
}

struct Assigned<'a> {
    role: ColumnRole,
    index: usize,
    column: &'a str,
    guessed: bool,
}

impl<'a> Columns<'a> {
    fn assign(file: &str, table: &'a ResultTable, given: &[ColumnChoice]) -> Result<Self, SuiteError> {
        let list = || table.columns.join(", ");
        let mut columns = Self { assigned: Vec::new() };
        for choice in given {
            let index = table.columns.iter().position(|name| *name == choice.column);
            let index = index.ok_or_else(|| {
                let reason = format!("unknown column `{}` (expected one of: {})", choice.column, list());
                field_error(file, "columns", &reason)
            })?;
            let role = match &choice.role {
                ColumnRole::Score(name) if name.is_empty() => ColumnRole::Score(choice.column.clone()),
                role => role.clone(),
            };
            if columns.index(&role).is_some() {
                let reason = format!("`{role}` is given twice");
                return Err(field_error(file, "columns", &reason));
            }
            columns.push(table, role, index, false);
        }
        for (name, role, groups) in &ROLES {
            let is_given = columns.index(role).is_some();
            // Two units of one quantity, or a score in place of a verdict.
            let is_replaced = match role {
                ColumnRole::LatencyS => columns.index(&ColumnRole::LatencyMs).is_some(),
                ColumnRole::Passed => columns.has_scores(),
                _ => false,
            };
            if is_given || is_replaced {
                continue;
            }
            for group in *groups {
                let found = columns.free(table, |column, values| {
                    group.contains(&column)
                        && (*role != ColumnRole::Passed
                            || values.iter().all(|value| verdict(value).is_some()))
                });
                match found.as_slice() {
                    [] => continue,
                    [only] => columns.push(table, role.clone(), *only, true),
                    several => {
                        let names: Vec<&str> = several
                            .iter()
                            .filter_map(|index| table.columns.get(*index).map(String::as_str))
                            .collect();
                        let reason = format!(
                            "`{name}` is ambiguous: it could be any of {} (all columns: {})",
                            names.join(", "),
                            list()
                        );
                        return Err(field_error(file, "columns", &reason));
                    }
                }
                break;
            }
        }
        if !columns.has_scores() {
            let found = columns.free(table, |column, values| {
                is_score_name(column) && values.iter().all(|value| number(value).is_some())
            });
            for index in found {
                let name = table.columns.get(index).cloned().unwrap_or_default();
                columns.push(table, ColumnRole::Score(name), index, true);
            }
        }
        for (role, is_found) in [
            ("case", columns.index(&ColumnRole::Case).is_some()),
            (
                "passed or a score",
                columns.index(&ColumnRole::Passed).is_some() || columns.has_scores(),
            ),
        ] {
            if !is_found {
                let reason = format!("no column looks like {role} (columns: {})", list());
                return Err(field_error(file, "columns", &reason));
            }
        }
        Ok(columns)
    }

    fn push(&mut self, table: &'a ResultTable, role: ColumnRole, index: usize, guessed: bool) {
        self.assigned.push(Assigned {
            role,
            index,
            column: table.columns.get(index).map_or("", String::as_str),
            guessed,
        });
    }

    /// Unassigned columns with a value that fit, by their normalized name and their values.
    fn free(&self, table: &ResultTable, fits: impl Fn(&str, &[&Value]) -> bool) -> Vec<usize> {
        let is_free = |index: &usize| !self.assigned.iter().any(|assigned| assigned.index == *index);
        (0..table.columns.len())
            .filter(is_free)
            .filter(|index| {
                let name = table.columns.get(*index).map_or("", String::as_str);
                let values: Vec<&Value> = table
                    .rows
                    .iter()
                    .filter_map(|(_, row)| row.get(*index))
                    .filter(|value| !value.is_null())
                    .collect();
                !values.is_empty() && fits(&normalized(name), &values)
            })
            .collect()
    }

    fn index(&self, role: &ColumnRole) -> Option<usize> {
        let found = self.assigned.iter().find(|assigned| assigned.role == *role);
        found.map(|assigned| assigned.index)
    }

    fn has_scores(&self) -> bool {
        self.assigned
            .iter()
            .any(|assigned| matches!(assigned.role, ColumnRole::Score(_)))
    }

    /// Values of a column, sorted: numbers by value, others as texts.
    fn distinct(&self, table: &ResultTable, role: &ColumnRole) -> Vec<String> {
        let Some(index) = self.index(role) else {
            return Vec::new();
        };
        let cells = table.rows.iter().filter_map(|(_, row)| row.get(index));
        let texts: BTreeSet<String> = cells.filter_map(cell_text).collect();
        let mut list: Vec<String> = texts.into_iter().collect();
        list.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a.total_cmp(&b),
            _ => a.cmp(b),
        });
        list
    }

    /// Lets the verdicts decide, or the scores if there are no verdicts or a score was chosen.
    fn decide(
        &self,
        file: &str,
        results: &mut [BenchmarkResult],
        choice: &ScoreChoice,
    ) -> Result<Option<Decision>, SuiteError> {
        let is_chosen = choice.scorer.is_some() || choice.threshold.is_some();
        if self.index(&ColumnRole::Passed).is_some() && !is_chosen {
            return Ok(None);
        }
        for result in results.iter_mut() {
            result.scores.iter_mut().for_each(|score| score.decides = false);
            if matches!(result.status, Status::Pass | Status::Fail) {
                result.status = Status::Pending;
            }
        }
        decide_by_scores(file, results, choice)
    }

    fn report_unused(&self, table: &ResultTable, losses: &mut Losses) {
        for index in self.free(table, |_, _| true) {
            let name = table.columns.get(index).map_or("", String::as_str);
            let reason = match normalized(name).as_str() {
                "latency" | "duration" | "elapsed" | "time" | "runtime" => {
                    "not imported: its unit is unknown (latency_ms or latency_s)"
                }
                _ => "not imported",
            };
            losses.push(format!("column {name}"), reason);
        }
    }

    fn uses(&self) -> Vec<ColumnUse> {
        let assigned = self.assigned.iter();
        assigned
            .map(|assigned| ColumnUse {
                role: assigned.role.to_string(),
                column: assigned.column.to_owned(),
                guessed: assigned.guessed,
            })
            .collect()
    }
}

/// One row with the meaning of its cells.
struct Row<'a> {
    file: &'a str,
    place: &'a str,
    columns: &'a Columns<'a>,
    cells: &'a [Value],
}

impl Row<'_> {
    fn cell(&self, role: &ColumnRole) -> Option<&Value> {
        let cell = self.cells.get(self.columns.index(role)?)?;
        (!cell.is_null()).then_some(cell)
    }

    fn text(&self, role: &ColumnRole) -> Option<String> {
        self.cell(role).and_then(cell_text)
    }

    fn error(&self, role: &ColumnRole, reason: &str) -> SuiteError {
        let found = self
            .columns
            .assigned
            .iter()
            .find(|assigned| assigned.role == *role);
        let column = found.map_or("", |assigned| assigned.column);
        field_error(self.file, &format!("{}: column `{column}`", self.place), reason)
    }

    /// A number that is not negative; `None` for an empty cell.
    fn amount(&self, role: &ColumnRole) -> Result<Option<f64>, SuiteError> {
        let Some(cell) = self.cell(role) else {
            return Ok(None);
        };
        match number(cell).filter(|number| *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(role, &format!("{cell} is not a number of at least 0"))),
        }
    }

    fn result(&self, case_id: String, repeat: u32) -> Result<BenchmarkResult, SuiteError> {
        let mut result = BenchmarkResult::new(case_id, repeat, Status::Pending);
        if let Some(index) = self.columns.index(&ColumnRole::Passed) {
            let name = self
                .columns
                .assigned
                .iter()
                .find(|assigned| assigned.index == index);
            let name = name.map_or("", |assigned| assigned.column);
            let status = match self.cell(&ColumnRole::Passed) {
                None => Status::Skipped,
                Some(cell) => verdict(cell).ok_or_else(|| {
                    let reason = format!("{cell} is not a verdict (true or false, 1 or 0, passed or failed)");
                    self.error(&ColumnRole::Passed, &reason)
                })?,
            };
            result.status = status;
            let passed = match status {
                Status::Pass => Some(true),
                Status::Fail => Some(false),
                _ => None,
            };
            if status == Status::Skipped {
                result.reasons.push("no verdict".to_owned());
            }
            result.scores.push(NamedScore {
                passed,
                decides: true,
                range: Some([0.0, 1.0]),
                ..NamedScore::new(name, passed.map(|passed| f64::from(u8::from(passed))))
            });
        }
        for assigned in &self.columns.assigned {
            let ColumnRole::Score(name) = &assigned.role else {
                continue;
            };
            let value = match self.cell(&assigned.role) {
                None => None,
                Some(cell) => Some(
                    number(cell)
                        .ok_or_else(|| self.error(&assigned.role, &format!("{cell} is not a number")))?,
                ),
            };
            result.scores.push(NamedScore::new(name.as_str(), value));
        }
        let in_ms = self.amount(&ColumnRole::LatencyMs)?;
        let in_s = self.amount(&ColumnRole::LatencyS)?;
        result.latency_ms = in_ms.or(in_s.map(|seconds| seconds * 1e3)).unwrap_or(0.0);
        let count = |number: Option<f64>| number.and_then(whole_count);
        result.tokens_in = count(self.amount(&ColumnRole::TokensIn)?);
        result.tokens_out = count(self.amount(&ColumnRole::TokensOut)?);
        let parts = [result.tokens_in, result.tokens_out].into_iter().flatten();
        let total = count(self.amount(&ColumnRole::Tokens)?);
        result.token_cost = total.unwrap_or_else(|| parts.fold(0, u64::saturating_add));
        result.cost_usd = self.amount(&ColumnRole::Cost)?;
        result.actual_output = self.text(&ColumnRole::Output);
        result.error = self.text(&ColumnRole::Error);
        let is_open = matches!(result.status, Status::Pending | Status::Skipped);
        let is_scored = result.scores.iter().any(|score| score.value.is_some());
        if result.error.is_some() && is_open && !is_scored {
            result.status = Status::Error;
            result.reasons.clear();
        }
        if result.status == Status::Error && result.error.is_none() {
            result.error = Some("the table says that it is an error".to_owned());
        }
        Ok(result)
    }
}

/// Lower-case name with underscores: `Task ID` and `task-id` are `task_id`.
fn normalized(name: &str) -> String {
    let mut out = String::new();
    for letter in name.trim().chars() {
        if letter.is_alphanumeric() {
            out.extend(letter.to_lowercase());
        } else if !out.ends_with('_') {
            out.push('_');
        }
    }
    out.trim_matches('_').to_owned()
}

fn is_score_name(name: &str) -> bool {
    let last = name.strip_prefix("metrics_").or(name.strip_prefix("scores_"));
    let name = last.unwrap_or(name);
    let verdicts = ROLES.iter().filter(|(_, role, _)| *role == ColumnRole::Passed);
    let is_verdict = |name: &str| {
        verdicts
            .clone()
            .any(|(_, _, groups)| groups.iter().any(|group| group.contains(&name)))
    };
    last.is_some()
        || SCORES.contains(&name)
        || is_verdict(name)
        || name.split('_').any(|word| word == "score" || word == "scores")
}

fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

/// Verdict in a cell: a truth value, 0 or 1, or a word.
fn verdict(value: &Value) -> Option<Status> {
    if let Some(number) = number(value) {
        return if number == 1.0 {
            Some(Status::Pass)
        } else if number == 0.0 {
            Some(Status::Fail)
        } else {
            None
        };
    }
    Some(match normalized(value.as_str()?).as_str() {
        "true" | "yes" | "pass" | "passed" | "success" | "successful" | "succeeded" | "correct" | "ok"
        | "right" | "resolved" | "solved" | "c" | "xpassed" => Status::Pass,
        "false" | "no" | "fail" | "failed" | "failure" | "incorrect" | "wrong" | "unresolved"
        | "unsolved" | "i" => Status::Fail,
        "error" | "errored" | "crash" | "crashed" | "exception" => Status::Error,
        "timeout" | "timed_out" | "time_out" => Status::Timeout,
        "skip" | "skipped" | "not_run" | "none" | "null" | "nan" | "na" | "n_a" | "xfailed" | "cancelled" => {
            Status::Skipped
        }
        "pending" => Status::Pending,
        _ => return None,
    })
}

fn cell_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        other => Some(super::compare_values::as_text(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(text: &str, given: &[&str], scorer: Option<&str>) -> Result<TableImport, String> {
        let origin = ResultOrigin {
            suite_id: "t".to_owned(),
            target: "t.csv".to_owned(),
            recorded_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let table = if text.starts_with('{') {
            ResultTable::from_json_lines("t.jsonl", text)
        } else {
            ResultTable::from_csv("t.csv", text, b',')
        }
        .map_err(|error| error.to_string())?;
        let given: Vec<ColumnChoice> = given.iter().map(|text| text.parse().unwrap()).collect();
        let choice = ScoreChoice {
            scorer: scorer.map(str::to_owned),
            ..ScoreChoice::default()
        };
        read_result_table("t.csv", &table, origin, &given, &choice).map_err(|error| error.to_string())
    }

    fn read(text: &str) -> Result<TableImport, String> {
        read_with(text, &[], None)
    }

    fn seen(import: &TableImport) -> Vec<(&str, u32, Status)> {
        let results = import.import.run.results.iter();
        results
            .map(|result| (result.case_id.as_str(), result.repeat, result.status))
            .collect()
    }

    fn uses(import: &TableImport) -> String {
        let uses: Vec<String> = import.columns.iter().map(ToString::to_string).collect();
        uses.join(" ")
    }

    #[test]
    fn columns_are_guessed() {
        let import = read(
            "Task ID,Success,Seed,judge_score,latency_s,total_tokens,cost,model,notes\n\
             a,True,7,0.5,1.5,10,0.1,m,x\n\
             a,false,3,,2,20,0.2,m,\n\
             b,timeout,7,1,,,,m,\n",
        )
        .unwrap();
        assert_eq!(
            seen(&import),
            [
                ("a", 1, Status::Pass),
                ("a", 0, Status::Fail),
                ("b", 1, Status::Timeout)
            ]
        );
        assert_eq!(
            uses(&import),
            "case=Task ID passed=Success repeat=Seed variant=model latency_s=latency_s tokens=total_tokens cost=cost score:judge_score=judge_score"
        );
        assert!(import.columns.iter().all(|column| column.guessed));
        let first = &import.import.run.results[0];
        assert_eq!(
            (first.latency_ms, first.token_cost, first.cost_usd),
            (1500.0, 10, Some(0.1))
        );
        assert_eq!(first.scores[1].value, Some(0.5));
        assert_eq!(import.import.run.target, "m");
        assert_eq!(import.import.losses[0].place, "column notes");
    }

    #[test]
    fn json_lines_have_nested_scores_that_need_a_choice() {
        let text = "{\"id\": 1, \"metrics\": {\"f1\": 0.5, \"em\": 0}}\n\n{\"id\": 2, \"metrics\": {\"f1\": 1, \"em\": 1}}";
        let error = read(text).unwrap_err();
        assert!(
            error.contains("expected one of: metrics.em (0 to 1), metrics.f1 (0.5 to 1)"),
            "{error}"
        );
        let import = read_with(text, &[], Some("metrics.em")).unwrap();
        assert_eq!(seen(&import), [("1", 0, Status::Fail), ("2", 0, Status::Pass)]);
        let import = read_with(text, &["score:exact=metrics.em"], None).unwrap();
        assert_eq!(seen(&import), [("1", 0, Status::Fail), ("2", 0, Status::Pass)]);
        assert_eq!(uses(&import), "score:exact=metrics.em case=id");
    }

    #[test]
    fn repeats_and_variants_are_found_in_the_rows() {
        let import = read("question,correct,model\nq,1,b\nq,0,b\nq,1,a\nr,,a\n").unwrap();
        assert_eq!(
            seen(&import),
            [
                ("q", 0, Status::Pass),
                ("q", 1, Status::Fail),
                ("q", 0, Status::Pass),
                ("r", 0, Status::Skipped)
            ]
        );
        let losses: Vec<String> = import.import.losses.iter().map(ToString::to_string).collect();
        assert!(
            losses
                .iter()
                .any(|loss| loss.contains("are about the first, `a`")),
            "{losses:?}"
        );
    }

    #[test]
    fn a_column_with_other_values_has_scores_not_verdicts() {
        // The right answer of a question is often in a column `correct`.
        let import = read("id,correct,score\n1,B,1\n2,C,0\n").unwrap();
        assert_eq!(uses(&import), "case=id score:score=score");
        // Errors without a verdict are errors.
        let import = read("id,passed,error\n1,,boom\n2,1,\n").unwrap();
        assert_eq!(seen(&import), [("1", 0, Status::Error), ("2", 0, Status::Pass)]);
    }

    #[test]
    fn what_is_unclear_is_an_error() {
        for (text, given, expected) in [
            (
                "task_id,case_id,passed\n1,2,1\n",
                &[][..],
                "columns: `case` is ambiguous: it could be any of task_id, case_id (all columns: task_id, case_id, passed)",
            ),
            ("a,b\n1,2\n", &[], "no column looks like case (columns: a, b)"),
            (
                "id,b\n1,x\n",
                &[],
                "no column looks like passed or a score (columns: id, b)",
            ),
            ("id,success,correct\n1,1,1\n", &[], "`passed` is ambiguous"),
            (
                "id,passed\n1,1\n,0\n",
                &[],
                "t.csv: line 3: column `id`: is empty",
            ),
            (
                "id,ok\n1,maybe\n",
                &["passed=ok"],
                "line 2: column `ok`: \"maybe\" is not a verdict",
            ),
            (
                "id,x\n1,maybe\n",
                &["score:q=x"],
                "line 2: column `x`: \"maybe\" is not a number",
            ),
            (
                "id,passed,tokens\n1,1,-4\n",
                &[],
                "line 2: column `tokens`: \"-4\" is not a number of at least 0",
            ),
            (
                "id,passed,epoch\n1,1,1\n1,1,1\n",
                &[],
                "line 3: column `id`: repeats case `1`",
            ),
            (
                "id,passed\n1,1\n",
                &["case=nosuch"],
                "unknown column `nosuch` (expected one of: id, passed)",
            ),
            ("id,passed\n", &[], "the table is empty"),
            ("id,passed\n1\n", &[], "CSV error"),
            ("{\n", &[], "t.jsonl: line 1: EOF"),
        ] {
            let found = read_with(text, given, None).unwrap_err();
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert!(
            "who=x"
                .parse::<ColumnChoice>()
                .unwrap_err()
                .contains("unknown role `who` (expected one of: case, passed")
        );
        assert!(
            "case"
                .parse::<ColumnChoice>()
                .unwrap_err()
                .contains("expected ROLE=COLUMN")
        );
    }
}
