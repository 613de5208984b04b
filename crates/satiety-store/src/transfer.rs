//! Export and import of a store as JSON Lines, to move between engines and to back up a server.
//!
//! The first line identifies the format, each following line is a row, and the last line has the count and
//! the hash of all lines before it, so that a truncated file is detected. Both directions stream; an import
//! is one transaction.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::TryStreamExt;
use satiety::bench::queue::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};

use crate::pool::Engine;
use crate::sql::{Row, Value as Cell, sql, storable};
use crate::tables::{Column, Kind, TABLES, Table};
use crate::{SCHEMA_VERSION, Store, StoreError, migrate};

/// Version of the file format.
const FORMAT: i64 = 1;
/// Maximum bytes of a line: far beyond any row, but a file without line ends must not exhaust memory.
const MAX_LINE: usize = 256 * 1024 * 1024;

/// Rows that are copied at once.
const IMPORT_BATCH: usize = 2000;

/// Result of an export or import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransferReport {
    /// Number of rows by table.
    pub tables: BTreeMap<String, u64>,
    /// Total number of rows.
    pub rows: u64,
}

impl TransferReport {
    fn count(&mut self, table: &str, rows: u64) {
        *self.tables.entry(table.into()).or_default() += rows;
        self.rows += rows;
    }
}

/// Format of a backup file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupKind {
    /// Copy of the SQLite file, ready to be opened.
    SqliteFile,
    /// Export, to be imported into a new store.
    Export,
}

/// Converts a row to a JSON object.
pub(crate) fn row_to_json(table: &Table, row: &Row) -> Result<Map<String, Value>, StoreError> {
    let mut object = Map::new();
    for (index, column) in table.columns.iter().enumerate() {
        let value = match column.kind {
            Kind::Text => row.get::<Option<String>>(index)?.map(Value::from),
            Kind::Integer => row.get::<Option<i64>>(index)?.map(Value::from),
            Kind::Float => row.get::<Option<f64>>(index)?.map(float_to_json),
            Kind::Boolean => row.get::<Option<bool>>(index)?.map(Value::from),
        };
        object.insert(column.name.into(), value.unwrap_or(Value::Null));
    }
    Ok(object)
}

impl Store {
    /// Exports everything to `out`, as of one snapshot.
    pub async fn export(
        &self,
        out: &mut (impl AsyncWrite + Unpin + Send),
    ) -> Result<TransferReport, StoreError> {
        self.query_log().flush().await;
        let mut out = HashingWriter {
            out,
            hasher: blake3::Hasher::new(),
        };
        let header = json!({"satiety_export": FORMAT, "schema_version": SCHEMA_VERSION,
            "exported_at": jiff::Timestamp::now().to_string()});
        out.line(&header).await?;
        let mut moved = TransferReport::default();
        let mut transaction = self.pool.begin_snapshot().await?;
        for table in TABLES {
            moved.count(table.name, 0);
            let (columns, key) = (table.column_list(), table.key.join(", "));
            let select = format!("SELECT {columns} FROM {} ORDER BY {key}", table.name);
            let mut rows = transaction.stream(&sql!(select))?;
            while let Some(row) = rows.try_next().await? {
                let object = row_to_json(table, &row)?;
                out.line(&json!({"table": table.name, "row": object})).await?;
                moved.count(table.name, 1);
            }
        }
        drop(transaction);
        let hash = out.hasher.finalize().to_hex().to_string();
        let end = json!({"end": {"rows": moved.rows, "tables": moved.tables, "blake3": hash}});
        out.line(&end).await?;
        out.out
            .flush()
            .await
            .map_err(|cause| StoreError::stream("write the export", cause))?;
        Ok(moved)
    }

    /// Imports an export into this store, which must be empty, atomically.
    pub async fn import(
        &self,
        input: &mut (impl AsyncBufRead + Unpin + Send),
    ) -> Result<TransferReport, StoreError> {
        self.import_lines(input, true).await
    }

    /// Like `import`, but refuses an export with constitutional memories:
    /// [`StoreError::ConstitutionalMemory`].
    pub async fn import_without_rules(
        &self,
        input: &mut (impl AsyncBufRead + Unpin + Send),
    ) -> Result<TransferReport, StoreError> {
        self.import_lines(input, false).await
    }

    async fn import_lines(
        &self,
        input: &mut (impl AsyncBufRead + Unpin + Send),
        rules: bool,
    ) -> Result<TransferReport, StoreError> {
        migrate::run(&self.pool, SCHEMA_VERSION).await?;
        self.refuse_unless_empty().await?;
        let mut lines = Lines {
            input,
            line: 0,
            hasher: blake3::Hasher::new(),
            put_back: None,
            rules,
        };
        lines.header().await?;
        let mut moved = TransferReport::default();
        let mut transaction = self.pool.begin().await?;
        // An export has its own rules; the defaults of a new store would conflict.
        transaction.execute(sql!("DELETE FROM retention_rules")).await?;
        // A new store may have a lease of the process that made its partitions.
        transaction.execute(sql!("DELETE FROM chores")).await?;
        while let Some(Batch {
            table,
            rows,
            last_line,
        }) = lines.batch(&mut moved).await?
        {
            let inserted = transaction.copy(table.name, &table.column_list(), &rows).await;
            inserted.map_err(|fault| at_line(last_line, fault.error))?;
        }
        // Not part of exports from before runs shared workers.
        let count = sql!(
            "UPDATE bench_plans SET waiting =
                 (SELECT COUNT(*) FROM bench_work w WHERE w.run_id = bench_plans.run_id AND w.lease_until IS NULL)
             WHERE closed_at IS NULL"
        );
        transaction.execute(count).await?;
        transaction.commit().await?;
        Ok(moved)
    }

    /// Creates a backup at `path`, which must not exist yet, while the store stays in use.
    pub async fn backup(&self, path: &Path) -> Result<BackupKind, StoreError> {
        self.query_log().flush().await;
        let taken = std::io::Error::new(std::io::ErrorKind::AlreadyExists, "the file already exists");
        if path.exists() {
            return Err(StoreError::file("cannot write the backup", path, taken));
        }
        match &self.pool.engine {
            Engine::Sqlite { read, .. } => {
                let target = path.to_str().ok_or_else(|| {
                    let cause =
                        std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path is not valid UTF-8");
                    StoreError::file("cannot write the backup", path, cause)
                })?;
                sqlx::query("VACUUM INTO $1")
                    .bind(target)
                    .execute(read.pool())
                    .await
                    .map_err(|error| crate::error::classify(self.place(), error))?;
                let sync = async { fs_err::tokio::File::open(path).await?.sync_all().await }.await;
                sync.map_err(|cause| StoreError::file("cannot sync the backup", path, cause))?;
                Ok(BackupKind::SqliteFile)
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(_) => {
                let failed = |cause| StoreError::file("cannot write the backup", path, cause);
                let mut file =
                    tokio::io::BufWriter::new(fs_err::tokio::File::create_new(path).await.map_err(failed)?);
                self.export(&mut file).await?;
                file.get_ref().sync_all().await.map_err(failed)?;
                Ok(BackupKind::Export)
            }
        }
    }

    async fn refuse_unless_empty(&self) -> Result<(), StoreError> {
        let has_defaults = |table: &&Table| matches!(table.name, "retention_rules" | "chores");
        for table in TABLES.iter().filter(|table| !has_defaults(table)) {
            let select = format!("SELECT 1 FROM {} LIMIT 1", table.name);
            if self.pool.row(sql!(select)).await?.is_some() {
                return Err(StoreError::NotEmpty {
                    place: self.place().into(),
                    table: table.name.into(),
                });
            }
        }
        Ok(())
    }
}

/// A violated constraint is an error in the file; anything else is an error of the store.
fn at_line(line: u64, error: StoreError) -> StoreError {
    match &error {
        StoreError::Engine { cause, .. } => match cause.as_database_error() {
            Some(database)
                if database.is_unique_violation()
                    || database.is_foreign_key_violation()
                    || database.is_check_violation() =>
            {
                StoreError::Import {
                    line,
                    reason: format!(
                        "constraint violation at or shortly before this line: {}",
                        database.message()
                    ),
                }
            }
            _ => error,
        },
        _ => error,
    }
}

/// JSON has no infinities; as strings they survive the round trip.
pub(crate) fn float_to_json(value: f64) -> Value {
    if value.is_finite() {
        Value::from(value)
    } else {
        Value::from(value.to_string())
    }
}

struct HashingWriter<'a, W> {
    out: &'a mut W,
    hasher: blake3::Hasher,
}

impl<W: AsyncWrite + Unpin> HashingWriter<'_, W> {
    async fn line(&mut self, value: &Value) -> Result<(), StoreError> {
        let mut line = value.to_string();
        line.push('\n');
        self.hasher.update(line.as_bytes());
        self.out
            .write_all(line.as_bytes())
            .await
            .map_err(|cause| StoreError::stream("write the export", cause))
    }
}

type TableRow = (&'static Table, Vec<Cell<'static>>);

enum Item {
    Row(TableRow),
    End,
}

struct Batch {
    table: &'static Table,
    rows: Vec<Vec<Cell<'static>>>,
    last_line: u64,
}

/// Parses and validates the lines of an export.
struct Lines<'a, R> {
    input: &'a mut R,
    line: u64,
    hasher: blake3::Hasher,
    /// Item read in advance: a row of the next table, or the end.
    put_back: Option<Item>,
    /// Whether constitutional memories are accepted.
    rules: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<'_, R> {
    async fn header(&mut self) -> Result<(), StoreError> {
        let Some((bytes, header)) = self.next().await? else {
            return Err(self.wrong("empty file"));
        };
        self.hasher.update(&bytes);
        match header.get("satiety_export").and_then(Value::as_i64) {
            None => {
                return Err(self.wrong("not a Satiety export: missing `satiety_export` in the first line"));
            }
            Some(FORMAT) => {}
            Some(other) => {
                return Err(self.wrong(format!("unsupported export format {other} (expected {FORMAT})")));
            }
        }
        match header.get("schema_version").and_then(Value::as_i64) {
            Some(version) if version <= SCHEMA_VERSION => Ok(()),
            Some(version) => Err(self.wrong(format!(
                "the export has schema version {version}, but this program supports versions up to {SCHEMA_VERSION}"
            ))),
            None => Err(self.wrong("missing `schema_version` in the first line")),
        }
    }

    /// Returns the next rows of one table, or `None` after a valid last line.
    async fn batch(&mut self, moved: &mut TransferReport) -> Result<Option<Batch>, StoreError> {
        let Item::Row((table, first)) = self.item(moved).await? else {
            return Ok(None);
        };
        let mut batch = Batch {
            table,
            rows: vec![first],
            last_line: self.line,
        };
        while batch.rows.len() < IMPORT_BATCH {
            match self.item(moved).await? {
                Item::Row((next, row)) if next.name == table.name => batch.rows.push(row),
                other => {
                    self.put_back = Some(other);
                    break;
                }
            }
            batch.last_line = self.line;
        }
        Ok(Some(batch))
    }

    async fn item(&mut self, moved: &mut TransferReport) -> Result<Item, StoreError> {
        if let Some(item) = self.put_back.take() {
            return Ok(item);
        }
        let Some((bytes, line)) = self.next().await? else {
            return Err(self.wrong("truncated file: missing the last line"));
        };
        if let Some(end) = line.get("end") {
            self.check_end(end, moved).await?;
            return Ok(Item::End);
        }
        self.hasher.update(&bytes);
        let (table, row) = self.row(&line)?;
        moved.count(table.name, 1);
        Ok(Item::Row((table, row)))
    }

    fn row(&self, line: &Value) -> Result<TableRow, StoreError> {
        let name = line
            .get("table")
            .and_then(Value::as_str)
            .ok_or_else(|| self.wrong("missing `table`"))?;
        let table = Table::named(name).ok_or_else(|| self.wrong(format!("unknown table `{name}`")))?;
        let object = line
            .get("row")
            .and_then(Value::as_object)
            .ok_or_else(|| self.wrong("missing `row`"))?;
        if let Some(stranger) = object
            .keys()
            .find(|key| !table.columns.iter().any(|column| column.name == **key))
        {
            return Err(self.wrong(format!("unknown column `{stranger}` in table `{name}`")));
        }
        let tier = object.get("tier").and_then(Value::as_str).unwrap_or_default();
        if !self.rules && name == "memories" && tier.trim().eq_ignore_ascii_case("constitutional") {
            return Err(StoreError::ConstitutionalMemory { line: self.line });
        }
        let cells = table
            .columns
            .iter()
            .map(|column| {
                let found = object.get(column.name);
                // Exports from before harnesses had ids, tables were partitioned, and runs shared workers.
                match (name, column.name) {
                    (_, "harness_id") if found.is_none() => return Ok(String::new().into()),
                    ("bench_plans", "weight") if found.is_none() => {
                        return Ok(i64::from(Priority::default().weight()).into());
                    }
                    (_, "partition_at") | ("bench_plans", "turn" | "served" | "waiting")
                        if found.is_none() =>
                    {
                        return Ok(0_i64.into());
                    }
                    _ => {}
                }
                self.cell(column, found.unwrap_or(&Value::Null))
            })
            .collect::<Result<_, _>>()?;
        Ok((table, cells))
    }

    fn cell(&self, column: &Column, value: &Value) -> Result<Cell<'static>, StoreError> {
        let name = column.name;
        let wrong = |wanted: &str| self.wrong(format!("column `{name}` must be {wanted}, got {value}"));
        if value.is_null() && !column.optional {
            return Err(self.wrong(format!("missing column `{name}`")));
        }
        let present = !value.is_null();
        Ok(match column.kind {
            Kind::Text => Cell::Text(
                present
                    .then(|| {
                        let text = value.as_str().map(|text| storable(text.to_owned().into()));
                        text.ok_or_else(|| wrong("text"))
                    })
                    .transpose()?,
            ),
            Kind::Integer => Cell::Integer(
                present
                    .then(|| value.as_i64().ok_or_else(|| wrong("an integer")))
                    .transpose()?,
            ),
            Kind::Float => Cell::Float(
                present
                    .then(|| {
                        value
                            .as_f64()
                            .or_else(|| value.as_str().and_then(|word| word.parse().ok()))
                            .ok_or_else(|| wrong("a number"))
                    })
                    .transpose()?,
            ),
            Kind::Boolean => Cell::Boolean(
                present
                    .then(|| value.as_bool().ok_or_else(|| wrong("true or false")))
                    .transpose()?,
            ),
        })
    }

    async fn check_end(&mut self, end: &Value, moved: &TransferReport) -> Result<(), StoreError> {
        let rows = end.get("rows").and_then(Value::as_u64);
        if rows != Some(moved.rows) {
            let said = rows.map_or_else(
                || "does not count the rows".to_owned(),
                |rows| format!("counts {rows} rows"),
            );
            return Err(self.wrong(format!("the last line {said}, but {} were read", moved.rows)));
        }
        let hash = self.hasher.finalize().to_hex();
        if end.get("blake3").and_then(Value::as_str) != Some(hash.as_str()) {
            return Err(self.wrong("hash mismatch in the last line: the file was changed"));
        }
        if self.next().await?.is_some() {
            return Err(self.wrong("unexpected data after the last line"));
        }
        Ok(())
    }

    /// Returns the next non-blank line, as bytes and as JSON.
    async fn next(&mut self) -> Result<Option<(Vec<u8>, Value)>, StoreError> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = tokio::io::AsyncReadExt::take(&mut *self.input, MAX_LINE as u64);
            let read = limited.read_until(b'\n', &mut bytes).await;
            if read.map_err(|cause| StoreError::stream("read the import", cause))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if bytes.len() >= MAX_LINE {
                return Err(self.wrong("line too long"));
            }
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let value = serde_json::from_slice(&bytes)
                .map_err(|cause| self.wrong(format!("invalid JSON: {cause}")))?;
            return Ok(Some((bytes, value)));
        }
    }

    fn wrong(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Import {
            line: self.line,
            reason: reason.into(),
        }
    }
}
