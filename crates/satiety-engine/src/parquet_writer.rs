//! Columns as a Parquet file that data frames and databases read.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use satiety::bench::report::{ColumnValues, TableColumn};

use crate::EngineError;

/// Writes columns of equal length as one row group.
pub(crate) fn parquet_bytes(columns: &[TableColumn]) -> Result<Vec<u8>, EngineError> {
    encode(columns).map_err(|error| EngineError::Invalid {
        message: format!("cannot write Parquet: {error}"),
        hint: "export to CSV instead".into(),
    })
}

fn encode(columns: &[TableColumn]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns
        .iter()
        .map(|column| field(column).map(Arc::new))
        .collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("results").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        match &column.values {
            ColumnValues::Text(values) => {
                let values: Vec<Option<ByteArray>> = values
                    .iter()
                    .map(|value| value.as_deref().map(ByteArray::from))
                    .collect();
                write::<ByteArrayType>(&mut group, &values)?;
            }
            ColumnValues::Integer(values) | ColumnValues::Time(values) => {
                write::<Int64Type>(&mut group, values)?;
            }
            ColumnValues::Number(values) => write::<DoubleType>(&mut group, values)?,
            ColumnValues::Boolean(values) => write::<BoolType>(&mut group, values)?,
        }
    }
    group.close()?;
    writer.into_inner()
}

fn field(column: &TableColumn) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.values {
        ColumnValues::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnValues::Integer(_) => (PhysicalType::INT64, None),
        ColumnValues::Time(_) => {
            let utc = LogicalType::timestamp(true, TimeUnit::MICROS);
            (PhysicalType::INT64, Some(utc))
        }
        ColumnValues::Number(_) => (PhysicalType::DOUBLE, None),
        ColumnValues::Boolean(_) => (PhysicalType::BOOLEAN, None),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

/// Writes the next column; a definition level of 0 is an absent value.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[Option<T::T>],
) -> Result<(), ParquetError> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("too many columns".to_owned()))?;
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<T::T> = values.iter().flatten().cloned().collect();
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()
}
