//! Retention: a table of rules, and the job that applies them.
//!
//! A rule's subject is a table (`journal`) or the keys of a table under a prefix (`records:eval-harness/…`).
//! Archived rows are synced to disk before they are deleted; a job that crashes in between archives some rows
//! twice and loses none.
//!
//! On PostgreSQL, tables that grow are partitioned by time, and a partition is dropped when its whole period is
//! past the retention time. Rows are deleted one by one only outside of such periods.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;

use crate::journal::Event;
use crate::partitions::{Bounds, ExpiredPartitions, partitions};
use crate::sql::{Row, Sql, sql};
use crate::tables::Table;
use crate::transfer::row_to_json;
use crate::{Store, StoreError, now_micros};

/// Rows per batch: large enough to be fast, small enough not to block other writers.
const BATCH: i64 = 1000;
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// Action for rows past their retention time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RetentionAction")]
pub enum Action {
    /// Keep the rows permanently.
    Keep,
    /// Delete the rows permanently.
    Delete,
    /// Write the rows to a JSONL file, then delete them.
    Archive,
}

/// A retention rule for one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Table, or table and key prefix: `records:eval-harness/saturation/cycles/`.
    pub subject: String,
    /// Retention time in days; absent to keep rows permanently.
    pub keep_days: Option<i64>,
    /// Action after the retention time.
    pub action: Action,
}

/// Effect of a retention rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RetentionOutcome")]
pub struct Outcome {
    /// Rule that was applied.
    #[serde(flatten)]
    pub rule: Rule,
    /// Number of rows past their retention time; an estimate for dropped partitions of more than 100,000 rows.
    pub rows: u64,
    /// Archive file, if rows were archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
}

/// Result of applying all retention rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retained {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Number of records that had expired.
    pub expired_records: u64,
    /// Effect of each rule.
    pub outcomes: Vec<Outcome>,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Delete => "delete",
            Self::Archive => "archive",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keep_days {
            Some(days) if self.action != Action::Keep => {
                write!(f, "{}={days}d:{}", self.subject, self.action.name())
            }
            _ => write!(f, "{}=keep", self.subject),
        }
    }
}

impl FromStr for Rule {
    type Err = StoreError;

    /// Parses `journal=90d:archive`, `journal=90d` (delete) or `journal=keep`.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let invalid = |reason: String| StoreError::InvalidRule {
            rule: text.into(),
            reason,
        };
        let (subject, rest) = text
            .rsplit_once('=')
            .ok_or_else(|| invalid("missing `=`".into()))?;
        retained_table(subject).map_err(invalid)?;
        if rest == "keep" {
            return Ok(Self {
                subject: subject.into(),
                keep_days: None,
                action: Action::Keep,
            });
        }
        let (days, action) = rest.split_once(':').unwrap_or((rest, "delete"));
        let keep_days = days
            .strip_suffix('d')
            .and_then(|days| days.parse().ok())
            .filter(|days| (0..=100_000).contains(days))
            .ok_or_else(|| {
                invalid(format!(
                    "invalid number of days `{days}` (expected for example `90d`)"
                ))
            })?;
        let action = match action {
            "delete" => Action::Delete,
            "archive" => Action::Archive,
            other => {
                return Err(invalid(format!(
                    "unknown action `{other}` (expected one of: delete, archive)"
                )));
            }
        };
        Ok(Self {
            subject: subject.into(),
            keep_days: Some(keep_days),
            action,
        })
    }
}

/// The retention rules: [`Store::retention`].
#[derive(Debug, Clone, Copy)]
pub struct Retention<'s>(pub(crate) &'s Store);

impl Retention<'_> {
    /// Returns the rules, ordered by subject.
    pub async fn rules(self) -> Result<Vec<Rule>, StoreError> {
        let select = sql!("SELECT subject, keep_days, action FROM retention_rules ORDER BY subject");
        let rows = self.0.pool.rows(select).await?;
        let rule = |row: &Row| {
            let action = match row.get::<String>("action")?.as_str() {
                "delete" => Action::Delete,
                "archive" => Action::Archive,
                _ => Action::Keep,
            };
            Ok(Rule {
                subject: row.get("subject")?,
                keep_days: row.get("keep_days")?,
                action,
            })
        };
        rows.iter().map(rule).collect()
    }

    /// Sets the rule of its subject.
    pub async fn set_rule(self, rule: &Rule) -> Result<(), StoreError> {
        let now = now_micros();
        let insert = sql!(
            "INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (subject) DO UPDATE SET keep_days = excluded.keep_days, action = excluded.action,
                 updated_at = excluded.updated_at";
            &rule.subject, rule.keep_days, rule.action.name(), now
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Applies all rules as of `now` (microseconds since the Unix epoch). Archives go to `archive_folder`.
    pub async fn apply(self, now: i64, archive_folder: &Path, dry_run: bool) -> Result<Retained, StoreError> {
        self.0.query_log().flush().await;
        if !dry_run {
            self.0.make_partitions().await?;
        }
        let expired_records = self.remove_expired(now, dry_run).await?;
        let mut outcomes = Vec::new();
        for rule in self.rules().await? {
            let outcome = match (rule.action, rule.keep_days) {
                (Action::Keep, _) | (_, None) => Outcome {
                    rule,
                    rows: 0,
                    archive: None,
                },
                (_, Some(days)) => {
                    self.apply_rule(rule, now - days.saturating_mul(DAY), archive_folder, dry_run)
                        .await?
                }
            };
            if outcome.rows > 0 && !dry_run {
                let body = json!({"rule": outcome.rule.to_string(), "rows": outcome.rows, "archive": outcome.archive});
                self.0
                    .journal()
                    .append(Event::now("store.retained", &outcome.rule.subject, body))
                    .await?;
            }
            outcomes.push(outcome);
        }
        Ok(Retained {
            dry_run,
            expired_records,
            outcomes,
        })
    }

    async fn remove_expired(self, now: i64, dry_run: bool) -> Result<u64, StoreError> {
        if dry_run {
            let select = sql!("SELECT COUNT(*) FROM records WHERE expires_at <= $1"; now);
            let count = self.0.pool.one(select).await?;
            return Ok(u64::try_from(count.get::<i64>(0)?).unwrap_or(0));
        }
        self.0
            .pool
            .execute(sql!("DELETE FROM records WHERE expires_at <= $1"; now))
            .await
    }

    async fn apply_rule(
        self,
        rule: Rule,
        cutoff: i64,
        archive_folder: &Path,
        dry_run: bool,
    ) -> Result<Outcome, StoreError> {
        let mut scope = Scope::of(&rule)?;
        let mut expired = ExpiredPartitions::find(self.0, &scope, cutoff).await?;
        let sources = scope.sources(self.0).await?;
        if dry_run {
            let mut rows = expired.count_rows(self.0, &scope).await?;
            for source in sources {
                scope.source = source;
                rows += scope.count(self.0, cutoff).await?;
            }
            return Ok(Outcome {
                rule,
                rows,
                archive: None,
            });
        }
        let mut archive = None;
        let target = (rule.action == Action::Archive).then_some(archive_folder);
        let mut removed = expired.remove(self.0, &scope, target, &mut archive).await?;
        for source in sources {
            scope.source = source;
            removed += self
                .remove_rows(&rule, &scope, cutoff, archive_folder, &mut archive)
                .await?;
        }
        // Archiving rows with their children may have emptied partitions of the children.
        expired.remove_empty(self.0).await?;
        Ok(Outcome {
            rule,
            rows: removed,
            archive: archive.map(|archive| archive.path),
        })
    }

    /// Removes rows in batches; returns their number.
    async fn remove_rows(
        self,
        rule: &Rule,
        scope: &Scope<'_>,
        cutoff: i64,
        archive_folder: &Path,
        archive: &mut Option<Archive>,
    ) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let rows = scope.oldest(self.0, cutoff).await?;
            let Some(last) = rows.last() else { break };
            tracing::debug!(subject = rule.subject, rows = rows.len(), oldest_kept = ?last.get(scope.age), "retaining");
            let keys: Vec<String> = rows
                .iter()
                .filter_map(|row| row.get(scope.key).and_then(Value::as_str))
                .map(str::to_owned)
                .collect();
            if rule.action == Action::Archive {
                let file = Archive::open(archive, archive_folder, scope.table.name).await?;
                file.write(scope.table.name, &rows).await?;
                for (child, column) in scope.table.children {
                    file.write(child, &scope.children(self.0, child, column, &keys).await?)
                        .await?;
                }
                file.sync().await?;
            }
            let count = scope.remove(self.0, cutoff, &keys).await?;
            removed += count;
            // Rows that were changed meanwhile are no longer expired; without this check, a busy one would be
            // fetched forever.
            if count == 0 {
                break;
            }
        }
        Ok(removed)
    }
}

/// Returns the table of a rule's subject, if retention applies to it.
fn retained_table(subject: &str) -> Result<(&'static Table, &'static str, &str), String> {
    let (name, prefix) = subject.split_once(':').unwrap_or((subject, ""));
    let table = Table::named(name).ok_or_else(|| format!("unknown table `{name}`"))?;
    match table.age {
        Some(age) => Ok((table, age, prefix)),
        None => Err(format!("rows of `{name}` have no age")),
    }
}

/// Rows that a rule applies to.
pub(crate) struct Scope<'a> {
    pub(crate) table: &'static Table,
    /// Table that has the rows: the table, or one of its partitions.
    source: String,
    pub(crate) age: &'static str,
    key: &'static str,
    pub(crate) prefix: &'a str,
}

impl<'a> Scope<'a> {
    fn of(rule: &'a Rule) -> Result<Self, StoreError> {
        let (table, age, prefix) =
            retained_table(&rule.subject).map_err(|reason| StoreError::InvalidRule {
                rule: rule.to_string(),
                reason,
            })?;
        Ok(Self {
            table,
            source: table.name.into(),
            age,
            key: table.key[0],
            prefix,
        })
    }

    /// Tables whose rows are removed one by one: the table itself, or its partitions without a period.
    async fn sources(&self, store: &Store) -> Result<Vec<String>, StoreError> {
        let own = partitions(&store.pool).await?.into_iter();
        let own: Vec<_> = own
            .filter(|partition| partition.table == self.table.name)
            .collect();
        // A prefix applies to some rows of each partition.
        if own.is_empty() || !self.prefix.is_empty() {
            return Ok(vec![self.table.name.into()]);
        }
        let without_period = own
            .into_iter()
            .filter(|partition| !matches!(partition.bounds, Bounds::Period(..)));
        Ok(without_period.map(|partition| partition.name).collect())
    }

    /// Both engines compare these keys by bytes, so a prefix is a range. `$1` is the cutoff, `$2` and `$3`
    /// the range.
    fn condition(&self) -> String {
        let exempt = self
            .table
            .keep
            .map(|column| format!(" AND NOT {column}"))
            .unwrap_or_default();
        format!(
            "{age} < $1 AND {key} >= $2 AND {key} < $3{exempt}",
            age = self.age,
            key = self.key
        )
    }

    fn end(&self) -> String {
        format!("{}\u{10FFFF}", self.prefix)
    }

    async fn count(&self, store: &Store, cutoff: i64) -> Result<u64, StoreError> {
        let select = format!("SELECT COUNT(*) FROM {} WHERE {}", self.source, self.condition());
        let rows = store
            .pool
            .one(sql!(select; cutoff, self.prefix, self.end()))
            .await?;
        Ok(u64::try_from(rows.get::<i64>(0)?).unwrap_or(0))
    }

    async fn oldest(&self, store: &Store, cutoff: i64) -> Result<Vec<Map<String, Value>>, StoreError> {
        let select = format!(
            "SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {BATCH}",
            self.table.column_list(),
            self.source,
            self.condition(),
            self.age
        );
        let rows = store
            .pool
            .rows(sql!(select; cutoff, self.prefix, self.end()))
            .await?;
        rows.iter().map(|row| row_to_json(self.table, row)).collect()
    }

    async fn children(
        &self,
        store: &Store,
        child: &str,
        column: &str,
        keys: &[String],
    ) -> Result<Vec<Map<String, Value>>, StoreError> {
        let Some(child) = Table::named(child) else {
            return Ok(Vec::new());
        };
        let select = format!(
            "SELECT {} FROM {} WHERE {column} IN ",
            child.column_list(),
            child.name
        );
        let rows = store
            .pool
            .rows(Sql::build(&select).push_list(keys.iter().map(Into::into)))
            .await?;
        rows.iter().map(|row| row_to_json(child, row)).collect()
    }

    /// Deletes these rows with their children, unless they were changed since they were read.
    async fn remove(&self, store: &Store, cutoff: i64, keys: &[String]) -> Result<u64, StoreError> {
        let delete = Sql::build(&format!("DELETE FROM {} WHERE {} < ", self.source, self.age))
            .push_bind(cutoff)
            .push(&format!(" AND {} IN ", self.key))
            .push_list(keys.iter().map(Into::into));
        store.pool.execute(delete).await
    }
}

/// A file of archived rows, in the format of an export.
pub(crate) struct Archive {
    path: PathBuf,
    file: tokio::io::BufWriter<fs_err::tokio::File>,
}

impl Archive {
    /// Returns the file of a rule, and creates it for its first row.
    pub(crate) async fn open<'a>(
        archive: &'a mut Option<Self>,
        folder: &Path,
        table: &str,
    ) -> Result<&'a mut Self, StoreError> {
        Ok(match archive {
            Some(file) => file,
            none => none.insert(Self::create(folder, table).await?),
        })
    }

    async fn create(folder: &Path, table: &str) -> Result<Self, StoreError> {
        let failed = |cause| StoreError::file("cannot write to the archive in", folder, cause);
        fs_err::tokio::create_dir_all(folder).await.map_err(failed)?;
        let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
        let unique = uuid::Uuid::now_v7().simple().to_string();
        let path = folder.join(format!("{table}-{stamp}-{}.jsonl", &unique[unique.len() - 6..]));
        let file = fs_err::tokio::File::create_new(&path).await.map_err(failed)?;
        Ok(Self {
            path,
            file: tokio::io::BufWriter::new(file),
        })
    }

    pub(crate) async fn write(&mut self, table: &str, rows: &[Map<String, Value>]) -> Result<(), StoreError> {
        for row in rows {
            let line = json!({"table": table, "row": row}).to_string() + "\n";
            self.file
                .write_all(line.as_bytes())
                .await
                .map_err(|cause| self.failed(cause))?;
        }
        Ok(())
    }

    pub(crate) async fn sync(&mut self) -> Result<(), StoreError> {
        let outcome = async {
            self.file.flush().await?;
            self.file.get_ref().sync_all().await
        }
        .await;
        outcome.map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: std::io::Error) -> StoreError {
        StoreError::file("cannot write the archive", &self.path, cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_round_trip() {
        for text in [
            "journal=90d:archive",
            "journal=0d:delete",
            "conversations=keep",
            "records:a/b/=7d:delete",
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!("journal=5d".parse::<Rule>().unwrap().action, Action::Delete);
    }

    #[test]
    fn invalid_rules_are_rejected() {
        for (text, reason) in [
            ("journal", "missing `=`"),
            ("diary=5d", "unknown table `diary`"),
            ("rounds=5d", "rows of `rounds` have no age"),
            (
                "journal=five",
                "invalid number of days `five` (expected for example `90d`)",
            ),
            (
                "journal=-1d",
                "invalid number of days `-1d` (expected for example `90d`)",
            ),
            (
                "journal=5d:burn",
                "unknown action `burn` (expected one of: delete, archive)",
            ),
        ] {
            assert!(
                text.parse::<Rule>().unwrap_err().to_string().contains(reason),
                "{text}"
            );
        }
    }
}
