//! Values as Arrow arrays, and back. docs/tables.md, "Arrow", has the types.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};

use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::types::ColumnType;
use crate::value::Value;

/// The key of a field's metadata that names an extension type.
const EXTENSION: &str = "ARROW:extension:name";

/// Returns the field of a column.
pub(crate) fn field(name: &str, ty: &ColumnType, is_nullable: bool) -> Field {
    let extension = match ty {
        ColumnType::Uuid => "arrow.uuid",
        ColumnType::Json => "arrow.json",
        ColumnType::Empty => "waxseal.empty",
        _ => return Field::new(name, data_type(ty), is_nullable),
    };
    let metadata = HashMap::from([(EXTENSION.to_owned(), extension.to_owned())]);
    Field::new(name, data_type(ty), is_nullable).with_metadata(metadata)
}

fn data_type(ty: &ColumnType) -> DataType {
    match ty {
        ColumnType::Bytes => DataType::Binary,
        ColumnType::Text | ColumnType::Json => DataType::Utf8,
        ColumnType::Bool | ColumnType::Empty => DataType::Boolean,
        ColumnType::I32 => DataType::Int32,
        ColumnType::I64 => DataType::Int64,
        ColumnType::U64 => DataType::UInt64,
        ColumnType::F32 => DataType::Float32,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Decimal { precision, scale } => DataType::Decimal128(*precision, scale.cast_signed()),
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnType::Uuid => DataType::FixedSizeBinary(16),
        ColumnType::List(element) => DataType::List(Arc::new(field("item", element, false))),
    }
}

/// Returns the array of a column's values, which have its type.
pub(crate) fn array(ty: &ColumnType, values: &[Option<&Value>]) -> std::result::Result<ArrayRef, ArrowError> {
    macro_rules! numbers {
        ($array:ty, $value:ident) => {
            <$array>::from_iter(values.iter().map(|value| match value {
                Some(Value::$value(number)) => Some(*number),
                _ => None,
            }))
        };
    }
    Ok(match ty {
        ColumnType::Bytes => {
            Arc::new(BinaryArray::from_iter(values.iter().map(|value| value.and_then(Value::as_bytes))))
        }
        ColumnType::Text | ColumnType::Json => {
            Arc::new(StringArray::from_iter(values.iter().map(|value| value.and_then(Value::as_str))))
        }
        ColumnType::Bool => {
            Arc::new(BooleanArray::from_iter(values.iter().map(|value| value.and_then(Value::as_bool))))
        }
        ColumnType::Empty => Arc::new(BooleanArray::from_iter(values.iter().map(|value| value.map(|_| true)))),
        ColumnType::I32 => Arc::new(numbers!(Int32Array, I32)),
        ColumnType::I64 => Arc::new(numbers!(Int64Array, I64)),
        ColumnType::U64 => Arc::new(numbers!(UInt64Array, U64)),
        ColumnType::F32 => Arc::new(numbers!(Float32Array, F32)),
        ColumnType::F64 => Arc::new(numbers!(Float64Array, F64)),
        ColumnType::Date => Arc::new(numbers!(Date32Array, Date)),
        ColumnType::Timestamp => Arc::new(numbers!(TimestampMicrosecondArray, Timestamp).with_timezone("UTC")),
        ColumnType::Decimal { precision, scale } => {
            let unscaled = values.iter().map(|value| match value {
                Some(Value::Decimal(number)) => Some(number.unscaled()),
                _ => None,
            });
            let array = Decimal128Array::from_iter(unscaled);
            Arc::new(array.with_precision_and_scale(*precision, scale.cast_signed())?)
        }
        ColumnType::Uuid => {
            let uuids = values.iter().map(|value| match value {
                Some(Value::Uuid(uuid)) => Some(uuid.as_slice()),
                _ => None,
            });
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16)?)
        }
        ColumnType::List(element) => {
            let lists: Vec<Option<&[Value]>> = values.iter().map(|value| value.and_then(Value::as_list)).collect();
            let lengths = lists.iter().map(|list| list.map_or(0, <[Value]>::len));
            let elements: Vec<Option<&Value>> = lists.iter().copied().flatten().flatten().map(Some).collect();
            let nulls = NullBuffer::from_iter(lists.iter().map(Option::is_some));
            let field = Arc::new(field("item", element, false));
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::try_new(field, offsets, array(element, &elements)?, Some(nulls))?)
        }
    })
}

/// Returns a value of an array as one of a column's type. Errors: `Invalid` for Arrow types that no column has, and for
/// a value that the type does not hold.
pub(crate) fn value(array: &dyn Array, row: usize, ty: &ColumnType) -> Result<Value> {
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok(Value::Null);
    }
    macro_rules! number {
        ($arrow:ty) => {
            array.as_primitive::<$arrow>().value(row)
        };
    }
    let micros = |number: i64, factor: i64| {
        let micros = number.checked_mul(factor);
        micros.map(Value::Timestamp).ok_or_else(|| Error::invalid("a time beyond the range of microseconds"))
    };
    let found = match array.data_type() {
        DataType::Utf8 => Value::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Value::from(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Value::from(array.as_string_view().value(row)),
        DataType::Binary => Value::from(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Value::from(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Value::from(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => Value::from(array.as_fixed_size_binary().value(row)),
        DataType::Boolean => Value::from(array.as_boolean().value(row)),
        DataType::Int8 => Value::from(i32::from(number!(Int8Type))),
        DataType::Int16 => Value::from(i32::from(number!(Int16Type))),
        DataType::Int32 => Value::from(number!(Int32Type)),
        DataType::Int64 => Value::from(number!(Int64Type)),
        DataType::UInt8 => Value::from(i32::from(number!(UInt8Type))),
        DataType::UInt16 => Value::from(i32::from(number!(UInt16Type))),
        DataType::UInt32 => Value::from(i64::from(number!(UInt32Type))),
        DataType::UInt64 => Value::from(number!(UInt64Type)),
        DataType::Float32 => Value::from(number!(Float32Type)),
        DataType::Float64 => Value::from(number!(Float64Type)),
        DataType::Date32 => Value::Date(number!(Date32Type)),
        DataType::Timestamp(TimeUnit::Second, _) => micros(number!(TimestampSecondType), 1_000_000)?,
        DataType::Timestamp(TimeUnit::Millisecond, _) => micros(number!(TimestampMillisecondType), 1_000)?,
        DataType::Timestamp(TimeUnit::Microsecond, _) => Value::Timestamp(number!(TimestampMicrosecondType)),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => match number!(TimestampNanosecondType) {
            nanos if nanos % 1_000 == 0 => Value::Timestamp(nanos / 1_000),
            nanos => return Err(Error::invalid(format!("{nanos} ns is no whole number of microseconds"))),
        },
        DataType::Decimal128(_, scale) if *scale >= 0 => {
            Value::from(Decimal::new(number!(Decimal128Type), scale.cast_unsigned())?)
        }
        DataType::List(_) => return list(&array.as_list::<i32>().value(row), ty),
        DataType::LargeList(_) => return list(&array.as_list::<i64>().value(row), ty),
        other => return Err(Error::invalid(format!("no column has values of the Arrow type {other}"))),
    };
    match (found, ty) {
        (Value::Bool(true), ColumnType::Empty) => Ok(Value::Empty),
        (Value::Bytes(bytes), ColumnType::Uuid) => match bytes.try_into() {
            Ok(uuid) => Ok(Value::Uuid(uuid)),
            Err(_) => Err(Error::invalid("a uuid has 16 bytes")),
        },
        (found, ty) => found.into_type(ty),
    }
}

impl Value {
    /// Returns a value of an array of any field that a column could have, for instance of a query's result. Small
    /// integers become those of a column.
    ///
    /// Errors: `Invalid` for Arrow types that no column has.
    pub fn from_arrow(field: &Field, array: &dyn Array, row: usize) -> Result<Value> {
        value(array, row, &column_type(field)?)
    }
}

/// Returns the type of a column that holds the values of a field.
fn column_type(field: &Field) -> Result<ColumnType> {
    let extension = field.metadata().get(EXTENSION).map(String::as_str);
    Ok(match (field.data_type(), extension) {
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, Some("arrow.json")) => ColumnType::Json,
        (DataType::FixedSizeBinary(16), Some("arrow.uuid")) => ColumnType::Uuid,
        (DataType::Boolean, Some("waxseal.empty")) => ColumnType::Empty,
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, _) => ColumnType::Text,
        (DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_), _) => {
            ColumnType::Bytes
        }
        (DataType::Boolean, _) => ColumnType::Bool,
        (DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16, _) => ColumnType::I32,
        (DataType::UInt32 | DataType::Int64, _) => ColumnType::I64,
        (DataType::UInt64, _) => ColumnType::U64,
        (DataType::Float32, _) => ColumnType::F32,
        (DataType::Float64, _) => ColumnType::F64,
        (DataType::Decimal128(precision, scale @ 0..), _) => {
            ColumnType::Decimal { precision: *precision, scale: scale.cast_unsigned() }
        }
        (DataType::Date32, _) => ColumnType::Date,
        (DataType::Timestamp(..), _) => ColumnType::Timestamp,
        (DataType::List(element) | DataType::LargeList(element), _) => {
            ColumnType::List(Box::new(column_type(element)?))
        }
        (other, _) => return Err(Error::invalid(format!("no column has values of the Arrow type {other}"))),
    })
}

fn list(elements: &ArrayRef, ty: &ColumnType) -> Result<Value> {
    let ColumnType::List(element) = ty else { return Value::List(Vec::new()).into_type(ty) };
    let value = |row: usize| match value(elements, row, element)? {
        Value::Null => Err(Error::invalid("a list has no null elements")),
        value => Ok(value),
    };
    Ok(Value::List((0..elements.len()).map(value).collect::<Result<_>>()?))
}
