//! Rows of tables by day, as of one snapshot: what an export for analysis reads.
//!
//! The day of a row is that of the table's own time or, if it has none, that of the row that it belongs to: the results
//! of a run have the day on which the run started. Everything follows from [`TABLES`], so a column or a table that is
//! added there is exported without a change here.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use serde_json::{Map, Value};

use crate::sql::sql;
use crate::tables::{Kind, TABLES, Table};
use crate::transfer::row_to_json;
use crate::{Store, StoreError};

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// Tables whose past days change only by rows that are added or removed: rows that are never updated, rows whose time is
/// set by every update, and rows that belong to such a row and are written with it. A day that still has the same
/// number of rows then has the same rows. A test compares the list with the statements of this crate.
const STABLE_DAYS: &[&str] = &[
    "agent_messages",
    "agent_runs",
    "bench_ablations",
    "bench_cases",
    "bench_gates",
    "bench_responses",
    "conversations",
    "eval_ab_tests",
    "eval_feedback",
    "eval_results",
    "eviction_opinions",
    "hook_sessions",
    "journal",
    "research_searches",
    "rounds",
];

/// Time by which rows are assigned to days.
#[derive(Debug, Clone, Copy)]
pub struct DayColumn {
    /// Table that has the time: the table itself, or the one that its rows belong to.
    pub table: &'static Table,
    pub column: &'static str,
    /// Foreign key column if the time is another table's.
    pub reference: Option<&'static str>,
}

impl Table {
    /// Returns the time by which rows are assigned to days; `None` if they have none, or if the table has a column
    /// `day`, which a directory `day=DATE` would hide from readers.
    pub fn day_column(&'static self) -> Option<DayColumn> {
        if self.columns.iter().any(|column| column.name == "day") {
            return None;
        }
        if let Some(column) = self.age {
            return Some(DayColumn {
                table: self,
                column,
                reference: None,
            });
        }
        let owner = |owner: &'static Table| {
            let (_, reference) = owner.children.iter().find(|(child, _)| *child == self.name)?;
            Some(DayColumn {
                table: owner,
                column: owner.age?,
                reference: Some(*reference),
            })
        };
        TABLES.iter().find_map(owner)
    }

    /// Whether an equal number of rows shows that a past day has not changed.
    pub fn has_stable_days(&self) -> bool {
        STABLE_DAYS.contains(&self.name)
    }
}

impl crate::Column {
    /// Whether the values are times, in microseconds since the Unix epoch.
    pub fn is_time(&self) -> bool {
        let named = ["_at", "_until", "_from"]
            .iter()
            .any(|ending| self.name.ends_with(ending));
        self.kind == Kind::Integer && (named || matches!(self.name, "at" | "day"))
    }
}

/// Number of rows of a day, in days since the Unix epoch; `None` has the rows without a day.
pub type DayCount = (Option<i64>, u64);

/// Receives the rows of an export.
pub trait RowSink {
    type Error: From<StoreError>;

    /// Chooses the days of a table that are not read, given the number of rows of every day.
    fn begin_table(
        &mut self,
        table: &'static Table,
        days: &[DayCount],
    ) -> Result<BTreeSet<Option<i64>>, Self::Error>;

    /// Takes a row. Days are in order; rows of a day are in order of time and key.
    fn row(
        &mut self,
        table: &'static Table,
        day: Option<i64>,
        row: Map<String, Value>,
    ) -> Result<(), Self::Error>;
}

impl Store {
    /// Passes the rows of every table to `sink`, as of one snapshot. Memory does not grow with the number of rows.
    pub async fn rows_by_day<S: RowSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        self.query_log().flush().await;
        let mut transaction = self.pool.begin_snapshot().await.map_err(StoreError::from)?;
        for table in TABLES {
            let source = Source::new(table);
            let counts = transaction
                .rows(sql!(source.day_counts()))
                .await
                .map_err(StoreError::from)?;
            let mut days: Vec<DayCount> = Vec::with_capacity(counts.len());
            for row in &counts {
                let rows: i64 = row.get(1)?;
                days.push((row.get(0)?, u64::try_from(rows).unwrap_or(0)));
            }
            days.sort_unstable();
            let skipped = sink.begin_table(table, &days)?;
            for range in wanted_ranges(&days, &skipped) {
                let mut rows = transaction
                    .stream(&sql!(source.select(range)))
                    .map_err(StoreError::from)?;
                while let Some(row) = rows.try_next().await.map_err(StoreError::from)? {
                    let time: Option<i64> = row.get(table.columns.len())?;
                    let day = time.map(|time| time.div_euclid(DAY_MICROS));
                    sink.row(table, day, row_to_json(table, &row)?)?;
                }
            }
        }
        Ok(())
    }
}

/// Consecutive days to read together: first and last, or `None` for rows without a day.
type DayRange = Option<(i64, i64)>;

/// Merges the days that are read into as few ranges as possible. Days without rows do not separate ranges.
fn wanted_ranges(days: &[DayCount], skipped: &BTreeSet<Option<i64>>) -> Vec<DayRange> {
    let mut ranges: Vec<DayRange> = Vec::new();
    let mut joins = false;
    for (day, _) in days {
        if skipped.contains(day) {
            joins = false;
            continue;
        }
        match (day, ranges.last_mut()) {
            (Some(day), Some(Some((_, last)))) if joins => *last = *day,
            (Some(day), _) => ranges.push(Some((*day, *day))),
            (None, _) => ranges.push(None),
        }
        joins = day.is_some();
    }
    ranges
}

/// Statements that read a table by day.
struct Source {
    table: &'static Table,
    /// `FROM` clause: the table as `t`, and the one with the time as `o`.
    from: String,
    /// Expression of the time, or a typed null.
    time: String,
}

impl Source {
    fn new(table: &'static Table) -> Self {
        let (join, time) = match table.day_column() {
            None => (String::new(), "CAST(NULL AS BIGINT)".to_owned()),
            Some(DayColumn {
                column,
                reference: None,
                ..
            }) => (String::new(), format!("t.{column}")),
            Some(DayColumn {
                table: owner,
                column,
                reference: Some(reference),
            }) => {
                let key = owner.key.first().copied().unwrap_or_default();
                let join = format!(" LEFT JOIN {} o ON o.{key} = t.{reference}", owner.name);
                (join, format!("o.{column}"))
            }
        };
        Self {
            table,
            from: format!("{} t{join}", table.name),
            time,
        }
    }

    fn day_counts(&self) -> String {
        // Rounds towards the past for times before 1970, too.
        let day = format!(
            "({time} - (({time} % {DAY_MICROS}) + {DAY_MICROS}) % {DAY_MICROS}) / {DAY_MICROS}",
            time = self.time
        );
        format!(
            "SELECT day, COUNT(*) FROM (SELECT {day} AS day FROM {}) d GROUP BY day",
            self.from
        )
    }

    fn select(&self, range: DayRange) -> String {
        let columns: Vec<String> = self
            .table
            .columns
            .iter()
            .map(|column| format!("t.{}", column.name))
            .collect();
        let condition = match range {
            Some((first, last)) => format!(
                "{time} >= {} AND {time} < {}",
                first.saturating_mul(DAY_MICROS),
                last.saturating_add(1).saturating_mul(DAY_MICROS),
                time = self.time
            ),
            None => format!("{} IS NULL", self.time),
        };
        let key: Vec<String> = self.table.key.iter().map(|key| format!("t.{key}")).collect();
        let order = match range {
            Some(_) => format!("{}, {}", self.time, key.join(", ")),
            None => key.join(", "),
        };
        format!(
            "SELECT {}, {} FROM {} WHERE {condition} ORDER BY {order}",
            columns.join(", "),
            self.time,
            self.from
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_days_that_are_read() {
        let days: Vec<DayCount> = [None, Some(-2), Some(3), Some(4), Some(9)]
            .into_iter()
            .map(|day| (day, 1))
            .collect();
        assert_eq!(wanted_ranges(&days, &BTreeSet::new()), [None, Some((-2, 9))]);
        let skipped = BTreeSet::from([Some(3), None]);
        assert_eq!(wanted_ranges(&days, &skipped), [Some((-2, -2)), Some((4, 9))]);
        assert!(wanted_ranges(&days, &days.iter().map(|(day, _)| *day).collect()).is_empty());
    }

    #[test]
    fn results_have_the_day_of_their_run() {
        let column = |name: &str| {
            let found = Table::named(name).unwrap().day_column();
            found.map(|found| (found.table.name, found.column))
        };
        assert_eq!(column("bench_results"), Some(("bench_runs", "started_at")));
        assert_eq!(column("rounds"), Some(("conversations", "updated_at")));
        assert_eq!(column("journal"), Some(("journal", "at")));
        assert_eq!(column("memories"), None);
        assert_eq!(column("tenant_usage"), None, "its own `day` would be hidden");
        for table in TABLES {
            let Some(found) = table.day_column().filter(|found| found.table.name != table.name) else {
                continue;
            };
            assert_eq!(
                found.table.key.len(),
                1,
                "{} is joined by its key",
                found.table.name
            );
        }
    }

    /// A new column must be classified: times are exported as timestamps.
    #[test]
    fn times_are_recognized_by_name() {
        let integers = TABLES.iter().flat_map(|table| table.columns);
        let others: BTreeSet<&str> = integers
            .filter(|column| column.kind == Kind::Integer && !column.is_time())
            .map(|column| column.name)
            .collect();
        let suspicious: Vec<&&str> = others
            .iter()
            .filter(|name| name.contains("time") || name.contains("date") || name.contains("deadline"))
            .collect();
        assert!(suspicious.is_empty(), "{suspicious:?}");
        assert!(
            others.contains("position") && !others.contains("created_at") && !others.contains("lease_until")
        );
    }

    /// Every statement that updates a row of a table with stable days sets the time of the row.
    #[test]
    fn stable_days_follow_from_the_statements() {
        let mut sources = String::new();
        let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs_err::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    sources.push_str(&fs_err::read_to_string(path).unwrap());
                }
            }
        }
        let mut statements = 0;
        for name in STABLE_DAYS {
            let table = Table::named(name).unwrap();
            let time = table.age.map(|age| format!("{age} = "));
            let mut check = |statement: &str, what: &str| {
                statements += 1;
                let sets = time
                    .as_ref()
                    .is_some_and(|time| statement.contains(time.as_str()));
                assert!(sets, "{what} {name} does not set the time: {statement}");
            };
            let update = format!("UPDATE {name} SET");
            for (at, _) in sources.match_indices(&update) {
                check(sources[at..].split('"').next().unwrap(), "UPDATE");
            }
            let insert = format!("INSERT INTO {name} (");
            for (at, _) in sources.match_indices(&insert) {
                // The tail of the statement may be a literal of its own; the next INSERT ends the search.
                let rest = &sources[at + 11..];
                let end = rest.find("INSERT INTO").unwrap_or(rest.len()).min(1500);
                let end = (end..=rest.len())
                    .find(|end| rest.is_char_boundary(*end))
                    .unwrap();
                if let Some(update) = rest[..end].find("DO UPDATE SET") {
                    check(rest[update..end].split('"').next().unwrap(), "INSERT INTO");
                }
            }
        }
        assert!(statements >= 6, "the search found only {statements} statements");
    }
}
