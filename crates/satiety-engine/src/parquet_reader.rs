//! Rows of a Parquet file as JSON objects.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use serde_json::{Map, Value};

use crate::EngineError;

/// Why a file cannot be read.
pub(crate) enum ParquetError {
    /// The file is damaged, or not a Parquet file.
    Syntax(String),
    /// The file cannot be opened, or the caller cannot use a row.
    Other(EngineError),
}

/// Passes the rows of a file to `each`. More rows than `max_rows` are refused before any is read.
pub(crate) fn each_parquet_row(
    path: &Path,
    max_rows: i64,
    each: impl FnMut(Map<String, Value>) -> Result<(), EngineError>,
) -> Result<(), ParquetError> {
    let file = fs_err::File::open(path)
        .map_err(|cause| ParquetError::Other(EngineError::file("read", path, cause)))?;
    // The decoder panics on some damaged files.
    let read = catch_unwind(AssertUnwindSafe(|| {
        read_rows(file.into_parts().0, max_rows, each)
    }));
    read.unwrap_or_else(|_| Err(ParquetError::Syntax("damaged Parquet file".into())))
}

fn read_rows(
    file: std::fs::File,
    max_rows: i64,
    mut each: impl FnMut(Map<String, Value>) -> Result<(), EngineError>,
) -> Result<(), ParquetError> {
    let syntax = ParquetError::Syntax;
    let reader = SerializedFileReader::new(file).map_err(|error| syntax(error.to_string()))?;
    let rows = reader.metadata().file_metadata().num_rows();
    if rows > max_rows {
        return Err(syntax(format!("{rows} rows, more than {max_rows}")));
    }
    for (number, row) in (1..).zip(RowIter::from_file_into(Box::new(reader))) {
        let row = row.map_err(|error| syntax(format!("row {number}: {error}")))?;
        each(object(row)).map_err(ParquetError::Other)?;
    }
    Ok(())
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
        Field::TimestampMicros(micros) => match jiff::Timestamp::from_microsecond(micros) {
            Ok(time) => time.to_string().into(),
            Err(_) => micros.into(),
        },
        Field::Group(row) => Value::Object(object(row)),
        other => other.to_string().into(),
    }
}
