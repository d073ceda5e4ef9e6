//! Values of columns.

use std::cmp::Ordering;

use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::floats::{ordered_f32, ordered_f64};
use crate::json;
use crate::types::ColumnType;

/// A value of a column, or of a part of a key.
///
/// Two values are equal if they have the same type and are the same key: NaN equals NaN, and 0.0 equals -0.0.
///
/// ```
/// use waxseal_table::Value;
///
/// assert_eq!(Value::from("Emma"), Value::Text("Emma".to_owned()));
/// assert_eq!(Value::from(None::<i32>), Value::Null);
/// assert_eq!(Value::F64(f64::NAN), Value::F64(f64::NAN));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// No value. A null is never stored: the column is absent.
    Null,
    /// Any bytes.
    Bytes(Vec<u8>),
    /// UTF-8 text.
    Text(String),
    /// True or false.
    Bool(bool),
    /// A signed 32-bit integer.
    I32(i32),
    /// A signed 64-bit integer.
    I64(i64),
    /// An unsigned 64-bit integer.
    U64(u64),
    /// A 32-bit floating-point number.
    F32(f32),
    /// A 64-bit floating-point number.
    F64(f64),
    /// A decimal number.
    Decimal(Decimal),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970, in UTC.
    Timestamp(i64),
    /// A universally unique identifier.
    Uuid([u8; 16]),
    /// A JSON document, as text.
    Json(String),
    /// Values of one type.
    List(Vec<Value>),
    /// The value of a column without values.
    Empty,
}

impl Value {
    /// Returns true for a null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Returns the text of a text or JSON document.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Json(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the bytes of bytes, text or a JSON document.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => self.as_str().map(str::as_bytes),
        }
    }

    /// Returns an integer that fits, of any integer type.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::I32(number) => Some(i64::from(*number)),
            Value::I64(number) => Some(*number),
            Value::U64(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns a floating-point number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::F32(number) => Some(f64::from(*number)),
            Value::F64(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns a truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the values of a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(values) => Some(values),
            _ => None,
        }
    }

    /// Converts the value to a type. Only conversions that lose nothing are made: between integers that fit, from
    /// integers and decimals to decimals that hold them, from `f32` to `f64`, from text to JSON, and those of
    /// [`ColumnType::widens_to`]. Errors: `Invalid` otherwise. A null stays one.
    pub fn into_type(self, wanted: &ColumnType) -> Result<Value> {
        let converted = match (self, wanted) {
            (Value::Null, _) => Some(Value::Null),
            (Value::Decimal(number), ColumnType::Decimal { precision, scale }) => decimal(number, *precision, *scale),
            (Value::Json(text), ColumnType::Json) => {
                json::check(&text)?;
                Some(Value::Json(text))
            }
            (Value::Text(text), ColumnType::Json) => {
                json::check(&text)?;
                Some(Value::Json(text))
            }
            (Value::List(values), ColumnType::List(element)) => {
                let convert = |value: Value| match value.is_null() {
                    true => Err(Error::invalid("a list has no null elements")),
                    false => value.into_type(element),
                };
                Some(Value::List(values.into_iter().map(convert).collect::<Result<_>>()?))
            }
            (value, wanted) if value.is_of(wanted) => Some(value),
            (Value::I32(number), ColumnType::F64) => Some(Value::F64(f64::from(number))),
            (value @ (Value::I32(_) | Value::I64(_) | Value::U64(_)), wanted) => integer(&value, wanted),
            (Value::F32(number), ColumnType::F64) => Some(Value::F64(f64::from(number))),
            (Value::Text(text) | Value::Json(text), ColumnType::Bytes) => Some(Value::Bytes(text.into_bytes())),
            (Value::Json(text), ColumnType::Text) => Some(Value::Text(text)),
            (value, wanted) => return Err(unfit(&value, wanted)),
        };
        converted.ok_or_else(|| Error::invalid(format!("a value does not fit into {wanted}")))
    }

    /// Returns true if the value needs no conversion to the type.
    fn is_of(&self, wanted: &ColumnType) -> bool {
        matches!(
            (self, wanted),
            (Value::Bytes(_), ColumnType::Bytes)
                | (Value::Text(_), ColumnType::Text)
                | (Value::Bool(_), ColumnType::Bool)
                | (Value::I32(_), ColumnType::I32)
                | (Value::I64(_), ColumnType::I64)
                | (Value::U64(_), ColumnType::U64)
                | (Value::F32(_), ColumnType::F32)
                | (Value::F64(_), ColumnType::F64)
                | (Value::Date(_), ColumnType::Date)
                | (Value::Timestamp(_), ColumnType::Timestamp)
                | (Value::Uuid(_), ColumnType::Uuid)
                | (Value::Empty, ColumnType::Empty)
        )
    }

    /// Compares two values of one type, as keys are ordered. `None` for different types, lists and nulls.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        Some(match (self, other) {
            (Value::Bytes(own), Value::Bytes(other)) => own.cmp(other),
            (Value::Text(own), Value::Text(other)) | (Value::Json(own), Value::Json(other)) => own.cmp(other),
            (Value::Bool(own), Value::Bool(other)) => own.cmp(other),
            (Value::I32(own), Value::I32(other)) | (Value::Date(own), Value::Date(other)) => own.cmp(other),
            (Value::I64(own), Value::I64(other)) | (Value::Timestamp(own), Value::Timestamp(other)) => own.cmp(other),
            (Value::U64(own), Value::U64(other)) => own.cmp(other),
            (Value::F32(own), Value::F32(other)) => ordered_f32(*own).cmp(&ordered_f32(*other)),
            (Value::F64(own), Value::F64(other)) => ordered_f64(*own).cmp(&ordered_f64(*other)),
            (Value::Decimal(own), Value::Decimal(other)) => own.cmp(other),
            (Value::Uuid(own), Value::Uuid(other)) => own.cmp(other),
            _ => return None,
        })
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) | (Value::Empty, Value::Empty) => true,
            (Value::List(own), Value::List(other)) => own == other,
            (own, other) => own.compare(other) == Some(Ordering::Equal),
        }
    }
}

impl Eq for Value {}

/// Converts an integer to another type that holds it.
fn integer(value: &Value, wanted: &ColumnType) -> Option<Value> {
    let number = match value {
        Value::U64(number) => i128::from(*number),
        value => i128::from(value.as_i64()?),
    };
    match wanted {
        ColumnType::I32 => number.try_into().ok().map(Value::I32),
        ColumnType::I64 => number.try_into().ok().map(Value::I64),
        ColumnType::U64 => number.try_into().ok().map(Value::U64),
        ColumnType::Decimal { precision, scale } => decimal(Decimal::new(number, 0).ok()?, *precision, *scale),
        _ => None,
    }
}

fn decimal(number: Decimal, precision: u8, scale: u8) -> Option<Value> {
    number.rescale(scale).filter(|number| number.fits(precision)).map(Value::Decimal)
}

#[cold]
fn unfit(value: &Value, wanted: &ColumnType) -> Error {
    let found = match value {
        Value::Null => "null",
        Value::Bytes(_) => "bytes",
        Value::Text(_) => "text",
        Value::Bool(_) => "bool",
        Value::I32(_) => "i32",
        Value::I64(_) => "i64",
        Value::U64(_) => "u64",
        Value::F32(_) => "f32",
        Value::F64(_) => "f64",
        Value::Decimal(_) => "a decimal",
        Value::Date(_) => "a date",
        Value::Timestamp(_) => "a timestamp",
        Value::Uuid(_) => "a uuid",
        Value::Json(_) => "json",
        Value::List(_) => "a list",
        Value::Empty => "empty",
    };
    Error::invalid(format!("the value is {found}, but {wanted} is expected"))
}

macro_rules! from_types {
    ($($source:ty, $value:ident => $made:expr;)*) => {$(
        impl From<$source> for Value {
            fn from($value: $source) -> Value {
                $made
            }
        }
    )*};
}

from_types! {
    &str, text => Value::Text(text.to_owned());
    String, text => Value::Text(text);
    &[u8], bytes => Value::Bytes(bytes.to_vec());
    Vec<u8>, bytes => Value::Bytes(bytes);
    bool, truth => Value::Bool(truth);
    i32, number => Value::I32(number);
    i64, number => Value::I64(number);
    u64, number => Value::U64(number);
    f32, number => Value::F32(number);
    f64, number => Value::F64(number);
    Decimal, number => Value::Decimal(number);
    Vec<Value>, values => Value::List(values);
    &Value, value => value.clone();
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Value {
        Value::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}
