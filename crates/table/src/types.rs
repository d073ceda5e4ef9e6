//! The types of columns.

use std::fmt;
use std::str::FromStr;

use crate::codec::Reader;
use crate::decimal::MAX_DECIMAL_DIGITS;
use crate::error::{Error, Result};

/// The type of a column. docs/format-tables.md, section 2, has the encodings.
///
/// `Display` gives the type's name, for example `decimal(10, 2)` or `list<text>`, and `FromStr` reads it.
///
/// ```
/// use waxseal_table::ColumnType;
///
/// let price: ColumnType = "decimal(10, 2)".parse()?;
/// assert_eq!(price, ColumnType::Decimal { precision: 10, scale: 2 });
/// assert_eq!("list<text>".parse::<ColumnType>()?.to_string(), "list<text>");
/// # Ok::<(), waxseal_table::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ColumnType {
    /// Any bytes.
    Bytes,
    /// UTF-8 text.
    Text,
    /// True or false.
    Bool,
    /// A signed 32-bit integer.
    I32,
    /// A signed 64-bit integer.
    I64,
    /// An unsigned 64-bit integer.
    U64,
    /// A 32-bit floating-point number.
    F32,
    /// A 64-bit floating-point number.
    F64,
    /// A decimal number.
    Decimal {
        /// The number of digits, 1 to 38.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// A day, counted from 1970-01-01.
    Date,
    /// A time in UTC, in microseconds since 1970.
    Timestamp,
    /// A universally unique identifier: 16 bytes.
    Uuid,
    /// A JSON document, as text.
    Json,
    /// A list of values of one type, which is neither a list nor `Empty`. An element is never null.
    List(Box<ColumnType>),
    /// A column without a value: present or absent.
    Empty,
}

/// Tags of types and of packed values. They are on disk and never change their meaning.
///
/// A new tag is one from 128 on: its packed values begin with their length, so that this version skips them. Another
/// tag changes what a record is, and needs a higher version of records.
pub(crate) mod tag {
    pub(crate) const BYTES: u8 = 1;
    pub(crate) const TEXT: u8 = 2;
    pub(crate) const BOOL: u8 = 3;
    pub(crate) const I32: u8 = 4;
    pub(crate) const I64: u8 = 5;
    pub(crate) const U64: u8 = 6;
    pub(crate) const F32: u8 = 7;
    pub(crate) const F64: u8 = 8;
    pub(crate) const DECIMAL: u8 = 9;
    pub(crate) const DATE: u8 = 10;
    pub(crate) const TIMESTAMP: u8 = 11;
    pub(crate) const UUID: u8 = 12;
    pub(crate) const JSON: u8 = 13;
    pub(crate) const LIST: u8 = 14;
    pub(crate) const EMPTY: u8 = 15;
    /// The first tag whose values always are bytes with a length.
    pub(crate) const FIRST_WITH_LENGTH: u8 = 128;
}

impl ColumnType {
    /// Returns the type of lists of this type.
    pub fn list(self) -> ColumnType {
        ColumnType::List(Box::new(self))
    }

    /// Returns the type's tag.
    pub(crate) fn tag(&self) -> u8 {
        match self {
            ColumnType::Bytes => tag::BYTES,
            ColumnType::Text => tag::TEXT,
            ColumnType::Bool => tag::BOOL,
            ColumnType::I32 => tag::I32,
            ColumnType::I64 => tag::I64,
            ColumnType::U64 => tag::U64,
            ColumnType::F32 => tag::F32,
            ColumnType::F64 => tag::F64,
            ColumnType::Decimal { .. } => tag::DECIMAL,
            ColumnType::Date => tag::DATE,
            ColumnType::Timestamp => tag::TIMESTAMP,
            ColumnType::Uuid => tag::UUID,
            ColumnType::Json => tag::JSON,
            ColumnType::List(_) => tag::LIST,
            ColumnType::Empty => tag::EMPTY,
        }
    }

    /// Returns true if columns of keys and indexes may have the type.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, ColumnType::Json | ColumnType::List(_) | ColumnType::Empty)
    }

    /// Returns true if every value of the type is a value of `wider`, so that a column can change its type to it:
    /// `i32` to `i64`, `f32` to `f64`, `i32` to `f64`, a decimal to one with more digits before the point and no fewer
    /// behind it, `text` to `bytes`, `json` to `text`.
    pub fn widens_to(&self, wider: &ColumnType) -> bool {
        use ColumnType::{Bytes, Decimal, F32, F64, I32, I64, Json, Text};
        match (self, wider) {
            (I32, I64 | F64) | (F32, F64) | (Text, Bytes) | (Json, Text | Bytes) => true,
            (Decimal { precision, scale }, Decimal { precision: more, scale: finer }) => {
                // Digits before the point: more - finer >= precision - scale.
                let sum = |one: &u8, other: &u8| u16::from(*one) + u16::from(*other);
                finer >= scale && sum(more, scale) >= sum(precision, finer)
            }
            (own, wider) => own == wider,
        }
    }

    /// Fails with `Invalid` for a type that no column can have.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            ColumnType::Decimal { precision, scale } if *precision == 0 || *precision > MAX_DECIMAL_DIGITS => Err(
                Error::invalid(format!("a decimal has 1 to {MAX_DECIMAL_DIGITS} digits, not {precision} ({scale})")),
            ),
            ColumnType::Decimal { precision, scale } if scale > precision => {
                Err(Error::invalid(format!("{self} has more digits behind the point than digits")))
            }
            ColumnType::List(element) if matches!(**element, ColumnType::List(_) | ColumnType::Empty) => {
                Err(Error::invalid(format!("the elements of a list are values of a simple type, not {element}")))
            }
            ColumnType::List(element) => element.check(),
            _ => Ok(()),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
        match self {
            ColumnType::Decimal { precision, scale } => out.extend_from_slice(&[*precision, *scale]),
            ColumnType::List(element) => element.encode(out),
            _ => {}
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ColumnType> {
        let decoded = match reader.u8()? {
            tag::LIST => {
                // No list of lists, so that the depth of this recursion is bounded.
                match reader.rest().first() {
                    Some(&tag::LIST) => return Err(Error::corruption("a list of lists")),
                    _ => ColumnType::decode(reader)?.list(),
                }
            }
            tag::BYTES => ColumnType::Bytes,
            tag::TEXT => ColumnType::Text,
            tag::BOOL => ColumnType::Bool,
            tag::I32 => ColumnType::I32,
            tag::I64 => ColumnType::I64,
            tag::U64 => ColumnType::U64,
            tag::F32 => ColumnType::F32,
            tag::F64 => ColumnType::F64,
            tag::DECIMAL => ColumnType::Decimal { precision: reader.u8()?, scale: reader.u8()? },
            tag::DATE => ColumnType::Date,
            tag::TIMESTAMP => ColumnType::Timestamp,
            tag::UUID => ColumnType::Uuid,
            tag::JSON => ColumnType::Json,
            tag::EMPTY => ColumnType::Empty,
            0 => return Err(Error::corruption("a column of type 0, which does not exist")),
            newer => return Err(Error::too_new(format!("a column of type {newer}"))),
        };
        decoded.check().map_err(|error| Error::corruption(error.to_string()))?;
        Ok(decoded)
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            ColumnType::Bytes => "bytes",
            ColumnType::Text => "text",
            ColumnType::Bool => "bool",
            ColumnType::I32 => "i32",
            ColumnType::I64 => "i64",
            ColumnType::U64 => "u64",
            ColumnType::F32 => "f32",
            ColumnType::F64 => "f64",
            ColumnType::Decimal { precision, scale } => return write!(f, "decimal({precision}, {scale})"),
            ColumnType::Date => "date",
            ColumnType::Timestamp => "timestamp",
            ColumnType::Uuid => "uuid",
            ColumnType::Json => "json",
            ColumnType::List(element) => return write!(f, "list<{element}>"),
            ColumnType::Empty => "empty",
        };
        f.write_str(name)
    }
}

impl FromStr for ColumnType {
    type Err = Error;

    /// Parses a type's name, in upper or lower case. Errors: `Invalid` for unknown names and impossible digits.
    fn from_str(text: &str) -> Result<ColumnType> {
        let name = text.trim().to_ascii_lowercase();
        let parsed = match name.as_str() {
            "bytes" => ColumnType::Bytes,
            "text" => ColumnType::Text,
            "bool" => ColumnType::Bool,
            "i32" => ColumnType::I32,
            "i64" => ColumnType::I64,
            "u64" => ColumnType::U64,
            "f32" => ColumnType::F32,
            "f64" => ColumnType::F64,
            "date" => ColumnType::Date,
            "timestamp" => ColumnType::Timestamp,
            "uuid" => ColumnType::Uuid,
            "json" => ColumnType::Json,
            "empty" => ColumnType::Empty,
            _ => parameterized(&name).ok_or_else(|| {
                Error::invalid(format!(
                    "{text:?} is no type: one of bytes, text, bool, i32, i64, u64, f32, f64, decimal(PRECISION, SCALE), \
                     date, timestamp, uuid, json, empty, list<TYPE>"
                ))
            })?,
        };
        parsed.check()?;
        Ok(parsed)
    }
}

/// Parses the name of a decimal or a list; `None` for any other.
fn parameterized(name: &str) -> Option<ColumnType> {
    let between = |word: &str, open: char, close: char| {
        name.strip_prefix(word)?.trim_start().strip_prefix(open)?.strip_suffix(close)
    };
    if let Some(element) = between("list", '<', '>') {
        // No list of lists, so that the depth of this recursion is bounded.
        let element = element.trim();
        return if element.starts_with("list") { None } else { Some(element.parse::<ColumnType>().ok()?.list()) };
    }
    let (precision, scale) = between("decimal", '(', ')')?.split_once(',')?;
    Some(ColumnType::Decimal { precision: precision.trim().parse().ok()?, scale: scale.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values_for_tests::any_type;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_parsed_back(ty in any_type()) {
            prop_assert_eq!(ty.to_string().parse::<ColumnType>().unwrap(), ty.clone());
            prop_assert_eq!(ty.to_string().to_uppercase().replace(' ', "").parse::<ColumnType>().unwrap(), ty);
        }
    }

    #[test]
    fn other_names_are_refused() {
        let names = ["", "int", "decimal", "decimal(39, 0)", "decimal(2, 3)", "decimal(1)", "decimal(-1, 0)", "list<>"];
        for name in names.into_iter().chain(["list<list<i32>>", "list<empty>", "list<i32", "text text"]) {
            assert_eq!(name.parse::<ColumnType>().unwrap_err().kind(), crate::ErrorKind::Invalid, "{name}");
        }
        assert!("list<decimal(99, 0)>".parse::<ColumnType>().is_err());
    }

    #[test]
    fn a_decimal_widens_to_one_that_has_all_its_values() {
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
        for (from, to, is_wider) in [
            ((9, 2), (9, 2), true),
            ((9, 2), (10, 2), true),
            ((9, 2), (10, 3), true),
            ((9, 2), (9, 3), false),
            ((9, 2), (20, 1), false),
            ((38, 0), (38, 38), false),
            // No columns can have these.
            ((5, 2), (1, 3), false),
            ((1, 5), (9, 5), true),
            ((0, 255), (255, 255), true),
        ] {
            assert_eq!(decimal(from.0, from.1).widens_to(&decimal(to.0, to.1)), is_wider, "{from:?} {to:?}");
        }
    }
}
