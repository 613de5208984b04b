//! Parquet files as tables of results.

use std::path::Path;

use satiety::bench::{ResultTable, SuiteError};

use crate::EngineError;
use crate::bench::suites::display_path;
use crate::parquet_reader::{ParquetError, each_parquet_row};

/// Largest number of rows; a table of results is far smaller.
const MAX_ROWS: i64 = 5_000_000;

/// Reads all rows of a file.
pub(super) fn read_parquet(path: &Path) -> Result<ResultTable, EngineError> {
    let mut objects = Vec::new();
    let read = each_parquet_row(path, MAX_ROWS, |row| {
        objects.push((format!("row {}", objects.len() + 1), row));
        Ok(())
    });
    match read {
        Ok(()) => Ok(ResultTable::from_objects(objects)),
        Err(ParquetError::Other(error)) => Err(error),
        Err(ParquetError::Syntax(reason)) => Err(EngineError::Suite(SuiteError::Syntax {
            file: display_path(path),
            reason,
        })),
    }
}
