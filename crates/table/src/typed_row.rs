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
/// Fields may have aliases of these types. A struct that cannot be a row does not compile, and the error names the
/// reason. A column of the key is no `Option` and no list:
///
/// ```compile_fail,E0080
/// type Author = Option<String>;
///
/// #[derive(waxseal_table::Row)]
/// struct Book {
///     #[column(partition_key)]
///     author: Author,
/// }
/// ```
///
/// A decimal has its digits in an attribute:
///
/// ```compile_fail,E0080
/// type Price = waxseal_table::Decimal;
///
/// #[derive(waxseal_table::Row)]
/// struct Book {
///     #[column(partition_key)]
///     isbn: String,
///     price: Option<Price>, // needs #[column(type = "decimal(9, 2)")]
/// }
/// ```
///
/// A column that may be null is one `Option`:
///
/// ```compile_fail,E0080
/// #[derive(waxseal_table::Row)]
/// struct Book {
///     #[column(partition_key)]
///     isbn: String,
///     pages: Option<Option<i32>>,
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
    #[doc(hidden)]
    const KIND: FieldKind = FieldKind::Other;

    /// The number of `Option`s around the value.
    #[doc(hidden)]
    const OPTIONS: u32 = 0;

    /// Returns the type of the column.
    fn column_type() -> ColumnType;

    /// Returns the value of the column.
    fn into_value(self) -> Value;

    /// Returns a value of a column, or a null, as this type. `None` if the type does not hold it.
    fn from_value(value: &Value) -> Option<Self>;
}

/// The kinds of fields that attributes and places of columns distinguish.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    I32,
    I64,
    Text,
    Decimal,
    List,
    Other,
}

impl<T: ColumnValue> ColumnValue for Option<T> {
    const KIND: FieldKind = T::KIND;
    const OPTIONS: u32 = T::OPTIONS + 1;

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
    ($($own:ty, $kind:ident, $type:expr, $into:expr, $value:ident => $from:expr;)*) => {$(
        impl ColumnValue for $own {
            const KIND: FieldKind = FieldKind::$kind;

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
    String, Text, ColumnType::Text, Value::Text, value => value.as_str().map(str::to_owned);
    Vec<u8>, Other, ColumnType::Bytes, Value::Bytes, value => value.as_bytes().map(<[u8]>::to_vec);
    bool, Other, ColumnType::Bool, Value::Bool, value => value.as_bool();
    i32, I32, ColumnType::I32, Value::I32, value => match value {
        Value::Date(days) => Some(*days),
        value => value.as_i64()?.try_into().ok(),
    };
    i64, I64, ColumnType::I64, Value::I64, value => match value {
        Value::Timestamp(micros) => Some(*micros),
        value => value.as_i64(),
    };
    u64, Other, ColumnType::U64, Value::U64, value => match value {
        Value::U64(number) => Some(*number),
        value => value.as_i64()?.try_into().ok(),
    };
    f32, Other, ColumnType::F32, Value::F32, value => match value {
        Value::F32(number) => Some(*number),
        _ => None,
    };
    f64, Other, ColumnType::F64, Value::F64, value => match value {
        Value::I32(number) => Some(f64::from(*number)),
        value => value.as_f64(),
    };
    [u8; 16], Other, ColumnType::Uuid, Value::Uuid, value => match value {
        Value::Uuid(uuid) => Some(*uuid),
        _ => None,
    };
    Decimal, Decimal, ColumnType::Decimal { precision: MAX_DECIMAL_DIGITS, scale: 9 }, Value::Decimal,
    value => match value {
        Value::Decimal(number) => Some(*number),
        _ => None,
    };
}

macro_rules! lists {
    ($($element:ty),*) => {$(
        impl ColumnValue for Vec<$element> {
            const KIND: FieldKind = FieldKind::List;

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
    use std::collections::HashMap;

    use super::{ColumnType, ColumnValue, Error, FieldKind, Result, Row, Value};

    /// Refuses a field that is a column of the key and that no key can have.
    pub const fn check_key<T: ColumnValue>() {
        assert!(T::OPTIONS == 0, "a column of the key is never null: it is no Option");
        assert!(!matches!(T::KIND, FieldKind::List), "a column of the key is no list");
    }

    /// Refuses a field with two kinds of null.
    pub const fn check_column<T: ColumnValue>() {
        assert!(T::OPTIONS <= 1, "a column has one kind of null: its field is no Option of an Option");
    }

    /// Refuses a field whose column needs an attribute.
    pub const fn check_plain<T: ColumnValue>() {
        let is_decimal = matches!(T::KIND, FieldKind::Decimal);
        assert!(!is_decimal, "a decimal has its digits in an attribute: #[column(type = \"decimal(9, 2)\")]");
    }

    /// Refuses a field with the attribute of a date.
    pub const fn check_date<T: ColumnValue>() {
        assert!(matches!(T::KIND, FieldKind::I32), "a date is an i32: days since 1970");
    }

    /// Refuses a field with the attribute of a timestamp.
    pub const fn check_timestamp<T: ColumnValue>() {
        assert!(matches!(T::KIND, FieldKind::I64), "a timestamp is an i64: microseconds since 1970");
    }

    /// Refuses a field with the attribute of a JSON document.
    pub const fn check_json<T: ColumnValue>() {
        assert!(matches!(T::KIND, FieldKind::Text), "a JSON document is a String");
    }

    /// Refuses a field with the attribute of a decimal.
    pub const fn check_decimal<T: ColumnValue>() {
        assert!(matches!(T::KIND, FieldKind::Decimal), "a decimal is a waxseal_table::Decimal");
    }

    /// Returns a row of columns with different names.
    pub fn row<const N: usize>(columns: [(&str, Value); N]) -> Row {
        let present = columns.into_iter().filter(|(_, value)| !value.is_null());
        Row { columns: present.map(|(name, value)| (name.into(), value)).collect(), entries: Vec::new() }
    }

    /// Rows with more columns are searched through a map.
    const FEW_COLUMNS: usize = 16;

    /// The columns of a row, read in the order of the struct. Most often, that is their order in the row.
    pub struct Fields<'a> {
        row: &'a Row,
        next: usize,
        /// The values of many columns by name, built when a column is not the next one.
        by_name: Option<HashMap<&'a str, &'a Value>>,
    }

    impl<'a> Fields<'a> {
        /// Returns the columns of a row.
        pub fn of(row: &'a Row) -> Fields<'a> {
            Fields { row, next: 0, by_name: None }
        }

        /// Returns a column as the type of its field.
        pub fn next<T: ColumnValue>(&mut self, name: &str) -> Result<T> {
            let value = match self.row.columns.get(self.next) {
                Some((own, value)) if **own == *name => {
                    self.next += 1;
                    value
                }
                _ => self.find(name).unwrap_or(&Value::Null),
            };
            field(value, name)
        }

        fn find(&mut self, name: &str) -> Option<&'a Value> {
            if self.row.columns.len() <= FEW_COLUMNS {
                return self.row.get(name);
            }
            self.by_name.get_or_insert_with(|| self.row.columns().collect()).get(name).copied()
        }
    }

    fn field<T: ColumnValue>(value: &Value, name: &str) -> Result<T> {
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
