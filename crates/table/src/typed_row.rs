//! Structs as rows: `#[derive(Row)]`.

use crate::decimal::{Decimal, MAX_DECIMAL_DIGITS};
use crate::error::{Error, Result};
use crate::row::Row;
use crate::schema::Schema;
use crate::types::ColumnType;
use crate::value::Value;

/// A struct whose fields are the columns of a table. `#[derive(Row)]` implements it for a struct with named fields.
///
/// An `Option` is a column that may be null. Attributes of a field:
///
/// | attribute | meaning |
/// |---|---|
/// | `#[column(partition_key)]` | a column of the partition key, in the order of the fields; at least one |
/// | `#[column(clustering_key)]`, `#[column(clustering_key, descending)]` | a column of the key behind it |
/// | `#[column(name = "..")]` | the name of the column, if it is not that of the field |
/// | `#[column(group = "..")]` | the group of the column |
/// | `#[column(type = "..")]` | `date` (an `i32`), `timestamp` (an `i64`), `json` (a `String`), `decimal(9, 2)` |
///
/// Attributes of the struct: `#[row(hashed)]`, `#[row(index = "by_author=author,year:desc")]` and
/// `#[row(unique_index = "..")]`. Other types of columns are those of [`ColumnValue`].
///
/// ```
/// # fn main() -> waxseal_table::Result<()> {
/// use waxseal_table::{Decimal, Row, Tables, TypedRow};
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(index = "by_title=title")]
/// struct Book {
///     #[column(partition_key)]
///     author: String,
///     #[column(clustering_key, descending)]
///     year: i32,
///     title: Option<String>,
///     #[column(type = "decimal(9, 2)")]
///     price: Option<Decimal>,
/// }
///
/// let books = Tables::open(&waxseal::Db::memory()?)?.create("library.books", Book::schema())?;
/// let emma = || Book { author: "Austen".into(), year: 1815, title: Some("Emma".into()), price: None };
/// books.insert(emma())?;
/// assert_eq!(Book::from_row(&books.get(("Austen", 1815))?.unwrap())?, emma());
/// for row in books.select().index("by_title").prefix("Emma").rows()? {
///     let book = Book::from_row(&row?)?;
///     assert_eq!(book.year, 1815);
/// }
/// # Ok(())
/// # }
/// ```
///
/// A struct that cannot be a row does not compile:
///
/// ```compile_fail
/// #[derive(waxseal_table::Row)]
/// struct Book {
///     #[column(partition_key)]
///     author: Option<String>, // a column of the key is never null: it is no Option
/// }
/// ```
pub trait TypedRow: Into<Row> {
    /// Returns the schema of a table with such rows.
    fn schema() -> Schema;

    /// Returns the struct as a row.
    fn into_row(self) -> Row;

    /// Returns a row as the struct. Other columns of the row are ignored. Errors: `Invalid` for a null
    /// whose field is no `Option`, and for a value that the field's type does not hold.
    fn from_row(row: &Row) -> Result<Self>;
}

/// A type of fields of a [`TypedRow`].
///
/// A `String` is a text column, a `Vec<u8>` a bytes column, and a `[u8; 16]` a uuid column. `bool`, `i32`, `i64`, `u64`,
/// `f32` and `f64` are columns of the same name. A `Vec` of any of these types is a list.
pub trait ColumnValue: Sized {
    /// Returns the type of the column.
    fn column_type() -> ColumnType;

    /// Returns the value of the column.
    fn into_value(self) -> Value;

    /// Returns a value of a column, or a null, as this type. `None` if the type does not hold it.
    fn from_value(value: &Value) -> Option<Self>;
}

impl<T: ColumnValue> ColumnValue for Option<T> {
    fn column_type() -> ColumnType {
        T::column_type()
    }

    fn into_value(self) -> Value {
        self.map_or(Value::Null, T::into_value)
    }

    fn from_value(value: &Value) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::from_value(value).map(Some) }
    }
}

macro_rules! column_values {
    ($($own:ty, $type:expr, $into:expr, $value:ident => $from:expr;)*) => {$(
        impl ColumnValue for $own {
            fn column_type() -> ColumnType {
                $type
            }

            fn into_value(self) -> Value {
                $into(self)
            }

            fn from_value($value: &Value) -> Option<Self> {
                $from
            }
        }
    )*};
}

column_values! {
    String, ColumnType::Text, Value::Text, value => value.as_str().map(str::to_owned);
    Vec<u8>, ColumnType::Bytes, Value::Bytes, value => value.as_bytes().map(<[u8]>::to_vec);
    bool, ColumnType::Bool, Value::Bool, value => value.as_bool();
    i32, ColumnType::I32, Value::I32, value => match value {
        Value::Date(days) => Some(*days),
        value => value.as_i64()?.try_into().ok(),
    };
    i64, ColumnType::I64, Value::I64, value => match value {
        Value::Timestamp(micros) => Some(*micros),
        value => value.as_i64(),
    };
    u64, ColumnType::U64, Value::U64, value => match value {
        Value::U64(number) => Some(*number),
        value => value.as_i64()?.try_into().ok(),
    };
    f32, ColumnType::F32, Value::F32, value => match value {
        Value::F32(number) => Some(*number),
        _ => None,
    };
    f64, ColumnType::F64, Value::F64, value => match value {
        Value::I32(number) => Some(f64::from(*number)),
        value => value.as_f64(),
    };
    [u8; 16], ColumnType::Uuid, Value::Uuid, value => match value {
        Value::Uuid(uuid) => Some(*uuid),
        _ => None,
    };
    Decimal, ColumnType::Decimal { precision: MAX_DECIMAL_DIGITS, scale: 9 }, Value::Decimal, value => match value {
        Value::Decimal(number) => Some(*number),
        _ => None,
    };
}

macro_rules! lists {
    ($($element:ty),*) => {$(
        impl ColumnValue for Vec<$element> {
            fn column_type() -> ColumnType {
                <$element>::column_type().list()
            }

            fn into_value(self) -> Value {
                Value::List(self.into_iter().map(ColumnValue::into_value).collect())
            }

            fn from_value(value: &Value) -> Option<Self> {
                value.as_list()?.iter().map(<$element>::from_value).collect()
            }
        }
    )*};
}

lists!(String, Vec<u8>, bool, i32, i64, u64, f32, f64, [u8; 16], Decimal);

/// What the macro calls.
pub mod derive_support {
    use super::{ColumnType, ColumnValue, Error, Result, Row, Value};

    /// Returns a column of a row as the type of its field.
    pub fn field<T: ColumnValue>(row: &Row, name: &str) -> Result<T> {
        let value = row.get(name).unwrap_or(&Value::Null);
        T::from_value(value).ok_or_else(|| {
            Error::invalid(match value.column_type() {
                Some(ty) => format!("column {name:?}: the field of the struct does not hold this value of type {ty}"),
                None => format!("column {name:?} is null, and the field of the struct is no Option"),
            })
        })
    }

    /// Returns a value as one of the type that the field's attribute names.
    pub fn of_type(value: Value, ty: &ColumnType) -> Value {
        match (value, ty) {
            (Value::I32(days), ColumnType::Date) => Value::Date(days),
            (Value::I64(micros), ColumnType::Timestamp) => Value::Timestamp(micros),
            (Value::Text(document), ColumnType::Json) => Value::Json(document),
            (value, _) => value,
        }
    }
}
