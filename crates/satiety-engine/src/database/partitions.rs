//! Rows of tables as Parquet files, partitioned by day in the layout that data frames and databases recognize.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use satiety::Hint;
use satiety::bench::report::{ColumnValues, TableColumn};
use satiety_store::{Kind, Table};
use serde_json::{Map, Value};

use crate::EngineError;
use crate::parquet_writer::parquet_bytes;

/// Rows per file; a file is written at once, from memory.
const ROWS_PER_FILE: usize = 50_000;

/// Writes rows that arrive table by table, and within a table day by day.
pub(super) struct PartitionWriter {
    directory: PathBuf,
    /// Table and directory of the rows that are not written yet.
    partition: Option<(&'static Table, PathBuf)>,
    rows: Vec<Map<String, Value>>,
    /// Files that the partition has.
    files: u32,
}

impl PartitionWriter {
    /// Creates the directory, which must not have any files yet.
    pub(super) fn create(directory: &Path) -> Result<Self, EngineError> {
        let failed = |cause| EngineError::file("create", directory, cause);
        fs_err::create_dir_all(directory).map_err(failed)?;
        if fs_err::read_dir(directory).map_err(failed)?.next().is_some() {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot export to {}: the directory is not empty",
                    directory.display()
                ),
                hint: Hint::new("name a new directory; old files would be taken for part of the export"),
            });
        }
        Ok(Self {
            directory: directory.to_owned(),
            partition: None,
            rows: Vec::new(),
            files: 0,
        })
    }

    pub(super) fn add(&mut self, table: &'static Table, row: Map<String, Value>) -> Result<(), EngineError> {
        let folder = self.folder(table, &row);
        let is_same = matches!(&self.partition, Some((_, current)) if *current == folder);
        if !is_same || self.rows.len() >= ROWS_PER_FILE {
            self.flush()?;
        }
        if !is_same {
            self.files = 0;
            self.partition = Some((table, folder));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Writes the rows so far.
    pub(super) fn flush(&mut self) -> Result<(), EngineError> {
        let (Some((table, folder)), false) = (&self.partition, self.rows.is_empty()) else {
            return Ok(());
        };
        let bytes = parquet_bytes(&columns(table, &self.rows))?;
        let file = folder.join(format!("{:04}.parquet", self.files));
        fs_err::create_dir_all(folder)
            .and_then(|()| fs_err::write(&file, bytes))
            .map_err(|cause| EngineError::file("write", &file, cause))?;
        self.rows.clear();
        self.files += 1;
        Ok(())
    }

    fn folder(&self, table: &Table, row: &Map<String, Value>) -> PathBuf {
        let folder = self.directory.join(table.name);
        let micros = table.age.and_then(|column| row.get(column)?.as_i64());
        let day = micros.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        match day {
            Some(day) => folder.join(format!("day={}", day.to_zoned(TimeZone::UTC).date())),
            None => folder,
        }
    }
}

fn columns(table: &Table, rows: &[Map<String, Value>]) -> Vec<TableColumn> {
    let column = |name: &str, kind| {
        let cells = rows.iter().map(|row| row.get(name).unwrap_or(&Value::Null));
        match kind {
            Kind::Text => ColumnValues::Text(cells.map(|cell| cell.as_str().map(str::to_owned)).collect()),
            Kind::Integer => ColumnValues::Integer(cells.map(Value::as_i64).collect()),
            // Numbers that JSON does not have are texts.
            Kind::Float => {
                let number = |cell: &Value| cell.as_f64().or_else(|| cell.as_str()?.parse().ok());
                ColumnValues::Number(cells.map(number).collect())
            }
            Kind::Boolean => ColumnValues::Boolean(cells.map(Value::as_bool).collect()),
        }
    };
    let described = table.columns.iter();
    described
        .map(|described| TableColumn {
            name: described.name.to_owned(),
            values: column(described.name, described.kind),
        })
        .collect()
}
