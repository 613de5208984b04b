//! Reads rows back from a Parquet export: `DIRECTORY#ID` names a run in it.

use std::path::{Path, PathBuf};

use satiety::Hint;
use serde_json::{Map, Value};

use super::manifest::{ExportManifest, existing, is_export, read_export};
use crate::EngineError;

/// Most ids that an error lists.
const MAX_LISTED: usize = 10;

/// A run in an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportedName {
    pub(crate) directory: PathBuf,
    /// Id of the run; absent if only the directory was named.
    pub(crate) id: Option<String>,
}

impl ExportedName {
    /// Recognizes the directory of an export, alone or with `#ID`.
    pub(crate) fn parse(named: &str) -> Option<Self> {
        if is_export(Path::new(named)) {
            return Some(Self {
                directory: named.into(),
                id: None,
            });
        }
        // Both a directory and an id may contain the separator.
        named.match_indices('#').find_map(|(at, _)| {
            let (directory, id) = (&named[..at], &named[at + 1..]);
            is_export(Path::new(directory)).then(|| Self {
                directory: directory.into(),
                id: Some(id.to_owned()),
            })
        })
    }
}

/// A complete export.
#[derive(Debug)]
pub(crate) struct StoredExport {
    directory: PathBuf,
    manifest: ExportManifest,
}

impl StoredExport {
    pub(crate) fn open(directory: &Path) -> Result<Self, EngineError> {
        Ok(Self {
            directory: directory.to_owned(),
            manifest: read_export(directory)?,
        })
    }

    /// Passes the rows of a table to `each`, file by file; `micros` limits the files to a day.
    pub(crate) fn each_row(
        &self,
        table: &str,
        micros: Option<i64>,
        mut each: impl FnMut(Map<String, Value>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let day = micros.and_then(|micros| {
            let time = jiff::Timestamp::from_microsecond(micros).ok()?;
            Some(time.to_zoned(jiff::tz::TimeZone::UTC).date())
        });
        let files = self
            .manifest
            .tables
            .get(table)
            .map_or(&[][..], |table| &table.files);
        for file in files.iter().filter(|file| day.is_none() || file.day == day) {
            read_file(&existing(&self.directory, file), &mut each)?;
        }
        Ok(())
    }

    /// Rows whose column has this text, in the order of the files.
    pub(crate) fn rows_where(
        &self,
        table: &str,
        column: &str,
        wanted: &str,
        micros: Option<i64>,
    ) -> Result<Vec<Map<String, Value>>, EngineError> {
        let mut found = Vec::new();
        self.each_row(table, micros, |row| {
            if row.get(column).and_then(Value::as_str) == Some(wanted) {
                found.push(row);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Error for a run that is not in the export, with the ids that are: the last rows of the table.
    pub(crate) fn not_found(&self, table: &str, column: &str, id: Option<&str>) -> EngineError {
        let mut ids: Vec<String> = Vec::new();
        let read = self.each_row(table, None, |row| {
            if let Some(id) = row.get(column).and_then(Value::as_str)
                && ids.last().is_none_or(|last| last != id)
            {
                ids.push(id.to_owned());
            }
            Ok(())
        });
        if let Err(error) = read {
            return error;
        }
        ids.sort_unstable();
        ids.dedup();
        let place = self.directory.display();
        let listed: Vec<&str> = ids.iter().rev().take(MAX_LISTED).map(String::as_str).collect();
        let more = match ids.len().saturating_sub(MAX_LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let available = if listed.is_empty() {
            format!("the export has no rows of {table}")
        } else {
            format!("the export has {}{more}", listed.join(", "))
        };
        EngineError::Invalid {
            message: match id {
                Some(id) => format!("cannot find run `{id}` in {place}: {available}"),
                None => format!("cannot choose a run of {place}: {available}"),
            },
            hint: Hint::new(format!("name a run as {place}#ID")),
        }
    }
}

#[cfg(feature = "imports")]
fn read_file(
    path: &Path,
    each: &mut impl FnMut(Map<String, Value>) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    use crate::parquet_reader::{ParquetError, each_parquet_row};
    each_parquet_row(path, i64::MAX, each).map_err(|error| match error {
        ParquetError::Other(error) => error,
        ParquetError::Syntax(reason) => EngineError::Invalid {
            message: format!("cannot read {}: {reason}", path.display()),
            hint: "export the database again, to a new directory".into(),
        },
    })
}

#[cfg(not(feature = "imports"))]
fn read_file(
    _: &Path,
    _: &mut impl FnMut(Map<String, Value>) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    Err(EngineError::Invalid {
        message: crate::feature_disabled("Parquet files", "imports"),
        hint: "import JSON Lines instead".into(),
    })
}

/// Time of a column, in microseconds since the Unix epoch.
pub(crate) fn micros_of(row: &Map<String, Value>, column: &str) -> Option<i64> {
    let cell = row.get(column)?;
    cell.as_i64().or_else(|| {
        let text = cell.as_str()?;
        Some(text.parse::<jiff::Timestamp>().ok()?.as_microsecond())
    })
}
