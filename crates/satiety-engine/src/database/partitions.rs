//! Writes rows of tables as Parquet files by day, in the layout that data frames and databases recognize, and only those
//! files whose rows have changed since the last export.

use std::collections::BTreeSet;

use jiff::civil::Date;
use satiety::bench::report::{ColumnValues, TableColumn};
use satiety_store::partitioned::{DAY_MICROS, DayCount, RowSink};
use satiety_store::{Kind, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::manifest::{
    ExportManifest, FileManifest, LockedExport, TableManifest, columns_of, folder_of, pending, write_durably,
};
use crate::EngineError;
use crate::parquet_writer::parquet_bytes;

/// Most rows of a file, and most bytes of them as JSON: a file is built in memory.
const MAX_ROWS: usize = 50_000;
const MAX_BYTES: usize = 64 << 20;
/// Days before the last export that are always read again: clocks differ, and transactions commit late.
const GRACE_DAYS: i64 = 1;

/// What an export did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParquetExport {
    /// Number of rows in the export.
    pub rows: u64,
    /// Number of files in the export.
    pub files: u64,
    /// Number of files that were written, because their rows are new or have changed.
    pub written_files: u64,
    /// Number of rows in the files that were written.
    pub written_rows: u64,
    /// Size of the files that were written.
    pub written_bytes: u64,
    /// Number of files that were removed: rewritten, or without rows in the database.
    pub removed_files: u64,
    /// Number of rows that were not read, because their day cannot have changed.
    pub unread_rows: u64,
}

/// Progress of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportProgress {
    /// Table that is exported.
    pub table: &'static str,
    /// Number of rows that were read so far, in all tables.
    pub rows: u64,
    /// Number of files that were written so far.
    pub written_files: u64,
}

/// Rows of a table and day that are not written yet.
struct Chunk {
    table: &'static Table,
    day: Option<i64>,
    /// Number of the file within the day.
    number: u32,
    rows: Vec<Map<String, Value>>,
    bytes: usize,
    hasher: blake3::Hasher,
    /// Column of the table that has the time.
    time: Option<&'static str>,
    latest: Option<i64>,
}

impl Chunk {
    fn new(table: &'static Table, day: Option<i64>, number: u32) -> Result<Self, EngineError> {
        // Files are only the same if their columns have the same types.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&serde_json::to_vec(&columns_of(table))?);
        Ok(Self {
            table,
            day,
            number,
            rows: Vec::new(),
            bytes: 0,
            hasher,
            time: table
                .day_column()
                .filter(|time| time.reference.is_none())
                .map(|time| time.column),
            latest: None,
        })
    }
}

/// Receives rows by table and day and writes what has changed.
pub(super) struct PartitionWriter<'p> {
    target: LockedExport,
    next: ExportManifest,
    /// Whether every row is read, even of days that cannot have changed.
    full: bool,
    chunk: Option<Chunk>,
    done: ParquetExport,
    read: u64,
    progress: &'p mut (dyn FnMut(ExportProgress) + Send),
}

impl<'p> PartitionWriter<'p> {
    pub(super) fn new(
        target: LockedExport,
        next: ExportManifest,
        full: bool,
        progress: &'p mut (dyn FnMut(ExportProgress) + Send),
    ) -> Self {
        Self {
            target,
            next,
            full,
            chunk: None,
            done: ParquetExport::default(),
            read: 0,
            progress,
        }
    }

    /// Writes the last rows and replaces the old files.
    pub(super) fn finish(mut self, exported_at: jiff::Timestamp) -> Result<ParquetExport, EngineError> {
        self.flush()?;
        self.next.exported_at = Some(exported_at);
        for table in self.next.tables.values_mut() {
            table.files.sort_by(|a, b| a.path.cmp(&b.path));
            table.rows = table.files.iter().map(|file| file.rows).sum();
            self.done.rows += table.rows;
            self.done.files += table.files.len() as u64;
        }
        self.done.removed_files = self.target.commit(&self.next)? as u64;
        Ok(self.done)
    }

    fn old_table(&self, table: &str) -> Option<&TableManifest> {
        self.target.manifest.tables.get(table)
    }

    /// Files of a day in the old export, if they are complete and have this number of rows.
    fn old_day(&self, table: &Table, day: Date, rows: u64) -> Option<Vec<FileManifest>> {
        let old = self.old_table(table.name)?;
        if old.columns != columns_of(table) {
            return None;
        }
        let files: Vec<FileManifest> = old
            .files
            .iter()
            .filter(|file| file.day == Some(day))
            .cloned()
            .collect();
        let counted: u64 = files.iter().map(|file| file.rows).sum();
        (counted == rows && files.iter().all(|file| self.is_there(file))).then_some(files)
    }

    fn is_there(&self, file: &FileManifest) -> bool {
        let path = self.target.directory.join(&file.path);
        fs_err::metadata(path).is_ok_and(|found| found.len() == file.bytes)
    }

    /// Writes the rows of the chunk, unless a file with exactly these rows exists.
    fn flush(&mut self) -> Result<(), EngineError> {
        let Some(chunk) = self.chunk.take() else {
            return Ok(());
        };
        let table = chunk.table;
        let rows_hash = chunk.hasher.finalize().to_hex().to_string();
        let day = chunk.day.and_then(date_of);
        let folder = folder_of(table, day);
        let path = format!("{folder}/{:04}-{}.parquet", chunk.number, &rows_hash[..16]);
        let old = self.old_table(table.name).and_then(|old| {
            let same = old
                .files
                .iter()
                .find(|file| file.path == path && file.rows_hash == rows_hash)?;
            self.is_there(same).then(|| same.clone())
        });
        let file = match old {
            Some(file) => file,
            None => self.write(path, day, rows_hash, &chunk)?,
        };
        let entry = self.next.tables.entry(table.name.to_owned()).or_default();
        let latest = chunk
            .latest
            .and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        entry.watermark = entry.watermark.max(latest);
        entry.files.push(file);
        self.report(table);
        Ok(())
    }

    fn write(
        &mut self,
        path: String,
        day: Option<Date>,
        rows_hash: String,
        chunk: &Chunk,
    ) -> Result<FileManifest, EngineError> {
        let place = pending(&self.target.directory.join(&path));
        // An interrupted export may have written it already; its name has the hash of the rows.
        let bytes = if let Ok(bytes) = fs_err::read(&place) {
            bytes
        } else {
            let bytes = parquet_bytes(&columns(chunk.table, &chunk.rows))?;
            if let Some(folder) = place.parent() {
                fs_err::create_dir_all(folder).map_err(|cause| EngineError::file("create", folder, cause))?;
            }
            write_durably(&place, &bytes)?;
            bytes
        };
        let file = FileManifest {
            path,
            day,
            rows: chunk.rows.len() as u64,
            bytes: bytes.len() as u64,
            rows_hash,
            file_hash: blake3::hash(&bytes).to_hex().to_string(),
        };
        self.done.written_files += 1;
        self.done.written_rows += file.rows;
        self.done.written_bytes += file.bytes;
        Ok(file)
    }

    fn report(&mut self, table: &'static Table) {
        (self.progress)(ExportProgress {
            table: table.name,
            rows: self.read,
            written_files: self.done.written_files,
        });
    }
}

impl RowSink for PartitionWriter<'_> {
    type Error = EngineError;

    fn begin_table(
        &mut self,
        table: &'static Table,
        days: &[DayCount],
    ) -> Result<BTreeSet<Option<i64>>, EngineError> {
        self.flush()?;
        self.report(table);
        let mut entry = TableManifest::empty(table);
        let mut unread = BTreeSet::new();
        let last = self
            .target
            .manifest
            .exported_at
            // A migration may have changed rows of any day.
            .filter(|_| self.target.manifest.schema_version == self.next.schema_version)
            .filter(|_| !self.full && table.has_stable_days());
        let settled = last.map(|last| last.as_microsecond().div_euclid(DAY_MICROS) - GRACE_DAYS);
        for (day, rows) in days {
            let (Some(number), Some(settled)) = (*day, settled) else {
                continue;
            };
            if number >= settled {
                continue;
            }
            let old = date_of(number).and_then(|date| self.old_day(table, date, *rows));
            if let Some(files) = old {
                entry.files.extend(files);
                self.done.unread_rows += rows;
                unread.insert(*day);
            }
        }
        if !unread.is_empty() {
            entry.watermark = self.old_table(table.name).and_then(|old| old.watermark);
        }
        self.next.tables.insert(table.name.to_owned(), entry);
        if days.is_empty() {
            // A table without rows has a file, too, so that every query finds its columns.
            self.chunk = Some(Chunk::new(table, None, 0)?);
        }
        Ok(unread)
    }

    fn row(
        &mut self,
        table: &'static Table,
        day: Option<i64>,
        row: Map<String, Value>,
    ) -> Result<(), EngineError> {
        let line = serde_json::to_vec(&row)?;
        let (is_same, number) = match &self.chunk {
            Some(chunk) if chunk.table.name == table.name && chunk.day == day => {
                let is_full = chunk.rows.len() >= MAX_ROWS || chunk.bytes + line.len() > MAX_BYTES;
                (!is_full, chunk.number + u32::from(is_full))
            }
            _ => (false, 0),
        };
        if !is_same {
            self.flush()?;
        }
        let chunk = match &mut self.chunk {
            Some(chunk) => chunk,
            none => none.insert(Chunk::new(table, day, number)?),
        };
        chunk.hasher.update(&line);
        chunk.hasher.update(b"\n");
        chunk.bytes += line.len();
        if let Some(time) = chunk.time.and_then(|column| row.get(column)?.as_i64()) {
            chunk.latest = chunk.latest.max(Some(time));
        }
        chunk.rows.push(row);
        self.read += 1;
        Ok(())
    }
}

/// Date of a number of days since the Unix epoch; `None` beyond the years that dates have.
fn date_of(day: i64) -> Option<Date> {
    let start = jiff::Timestamp::from_microsecond(day.checked_mul(DAY_MICROS)?).ok()?;
    Some(start.to_zoned(jiff::tz::TimeZone::UTC).date())
}

fn columns(table: &Table, rows: &[Map<String, Value>]) -> Vec<TableColumn> {
    let described = table.columns.iter();
    described
        .map(|described| {
            let cells = rows
                .iter()
                .map(|row| row.get(described.name).unwrap_or(&Value::Null));
            let values = match described.kind {
                Kind::Text => {
                    ColumnValues::Text(cells.map(|cell| cell.as_str().map(str::to_owned)).collect())
                }
                Kind::Integer if described.is_time() => {
                    ColumnValues::Time(cells.map(Value::as_i64).collect())
                }
                Kind::Integer => ColumnValues::Integer(cells.map(Value::as_i64).collect()),
                // Numbers that JSON does not have are texts.
                Kind::Float => {
                    let number = |cell: &Value| cell.as_f64().or_else(|| cell.as_str()?.parse().ok());
                    ColumnValues::Number(cells.map(number).collect())
                }
                Kind::Boolean => ColumnValues::Boolean(cells.map(Value::as_bool).collect()),
            };
            TableColumn {
                name: described.name.to_owned(),
                values,
            }
        })
        .collect()
}
