//! Parquet files as tables of results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use satiety::bench::{ResultTable, SuiteError};
use serde_json::{Map, Value};

use crate::EngineError;
use crate::bench::suites::display_path;

/// Largest number of rows; a table of results is far smaller.
const MAX_ROWS: i64 = 5_000_000;

/// Reads all rows of a file.
pub(super) fn read_parquet(path: &Path) -> Result<ResultTable, EngineError> {
    let file = fs_err::File::open(path).map_err(|cause| EngineError::file("read", path, cause))?;
    let syntax = |reason: String| {
        EngineError::Suite(SuiteError::Syntax {
            file: display_path(path),
            reason,
        })
    };
    // The decoder panics on some damaged files.
    let read = catch_unwind(AssertUnwindSafe(|| read_rows(file.into_parts().0)));
    match read {
        Ok(Ok(table)) => Ok(table),
        Ok(Err(reason)) => Err(syntax(reason)),
        Err(_) => Err(syntax("damaged Parquet file".into())),
    }
}

fn read_rows(file: std::fs::File) -> Result<ResultTable, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let rows = reader.metadata().file_metadata().num_rows();
    if rows > MAX_ROWS {
        return Err(format!("{rows} rows, more than {MAX_ROWS}"));
    }
    let mut objects = Vec::new();
    for (number, row) in (1..).zip(RowIter::from_file_into(Box::new(reader))) {
        let row = row.map_err(|error| format!("row {number}: {error}"))?;
        objects.push((format!("row {number}"), object(row)));
    }
    Ok(ResultTable::from_objects(objects))
}

fn object(row: Row) -> Map<String, Value> {
    let columns = row.into_columns().into_iter();
    columns.map(|(name, field)| (name, value(field))).collect()
}

/// A cell as JSON; what JSON has no type for becomes its text.
fn value(field: Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => flag.into(),
        Field::Byte(number) => number.into(),
        Field::Short(number) => number.into(),
        Field::Int(number) => number.into(),
        Field::Long(number) => number.into(),
        Field::UByte(number) => number.into(),
        Field::UShort(number) => number.into(),
        Field::UInt(number) => number.into(),
        Field::ULong(number) => number.into(),
        Field::Float(number) => f64::from(number).into(),
        Field::Double(number) => number.into(),
        Field::Str(text) => text.into(),
        Field::Group(row) => Value::Object(object(row)),
        other => other.to_string().into(),
    }
}
