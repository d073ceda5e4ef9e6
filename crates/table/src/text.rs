//! Values as text and as JSON, and back. docs/tables.md, "Values as text", has both forms of each type.
//!
//! Reading needs the type that is wanted, and then loses nothing. A dynamic column has no type: its JSON names the type
//! of every value that JSON itself does not tell, as in `{"date": "2026-01-31"}`. The same form is accepted
//! for columns with a type.

use std::fmt;
use std::fmt::Write;
use std::str::FromStr;

use crate::calendar::{date_text, parse_date, parse_timestamp, timestamp_text};
use crate::decimal::{Decimal, MAX_DECIMAL_DIGITS};
use crate::error::{Error, Result};
use crate::json::{self, trimmed};
use crate::types::ColumnType;
use crate::value::Value;

/// The positions of the hyphens of a UUID, in bytes of it.
const HYPHENS: [usize; 4] = [4, 6, 8, 10];

/// The number of digits of an integer that every binary number type holds.
const EXACT_DIGITS: usize = 7;

impl fmt::Display for Value {
    /// Writes the text form: numbers in decimal, bytes as hexadecimal digits, times in UTC, a list as a JSON array. Text
    /// and JSON documents are unchanged. A null is `null`, and the value of a column without values is `true`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Text(text) | Value::Json(text) => f.write_str(text),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::I32(number) => write!(f, "{number}"),
            Value::I64(number) => write!(f, "{number}"),
            Value::U64(number) => write!(f, "{number}"),
            // The debug form has an exponent where that is shorter, and is read back as the same number.
            Value::F32(number) => write!(f, "{number:?}"),
            Value::F64(number) => write!(f, "{number:?}"),
            Value::Decimal(number) => write!(f, "{number}"),
            Value::Date(days) => f.write_str(&date_text(*days)),
            Value::Timestamp(micros) => f.write_str(&timestamp_text(*micros)),
            Value::Uuid(uuid) => uuid.iter().enumerate().try_for_each(|(at, byte)| {
                let hyphen = if HYPHENS.contains(&at) { "-" } else { "" };
                write!(f, "{hyphen}{byte:02x}")
            }),
            Value::List(_) => f.write_str(&self.to_json()),
            Value::Empty => f.write_str("true"),
        }
    }
}

impl Value {
    /// Returns the type of the value; `None` for a null. A decimal has 38 digits and its own scale, and a list without
    /// values is one of text.
    pub fn column_type(&self) -> Option<ColumnType> {
        Some(match self {
            Value::Null => return None,
            Value::Bytes(_) => ColumnType::Bytes,
            Value::Text(_) => ColumnType::Text,
            Value::Bool(_) => ColumnType::Bool,
            Value::I32(_) => ColumnType::I32,
            Value::I64(_) => ColumnType::I64,
            Value::U64(_) => ColumnType::U64,
            Value::F32(_) => ColumnType::F32,
            Value::F64(_) => ColumnType::F64,
            Value::Decimal(number) => ColumnType::Decimal { precision: MAX_DECIMAL_DIGITS, scale: number.scale() },
            Value::Date(_) => ColumnType::Date,
            Value::Timestamp(_) => ColumnType::Timestamp,
            Value::Uuid(_) => ColumnType::Uuid,
            Value::Json(_) => ColumnType::Json,
            Value::List(values) => {
                let finest = |finest: Option<ColumnType>, value: &Value| match (finest, value.column_type()) {
                    (
                        Some(ColumnType::Decimal { precision, scale }),
                        Some(ColumnType::Decimal { scale: other, .. }),
                    ) => Some(ColumnType::Decimal { precision, scale: scale.max(other) }),
                    (None, first) => first,
                    (finest, _) => finest,
                };
                values.iter().fold(None, finest).unwrap_or(ColumnType::Text).list()
            }
            Value::Empty => ColumnType::Empty,
        })
    }

    /// Parses the text form of a value, as `Display` writes it, as a value of a type. Never returns a null: the text
    /// `null` is one of text columns alone.
    ///
    /// Times may have an offset from UTC or no seconds, and a UUID no hyphens. Errors: `Invalid` for text that the type
    /// does not have, and for digits that a decimal does not hold.
    ///
    /// ```
    /// use waxseal_table::{ColumnType, Value};
    ///
    /// let noon = Value::parse("2026-01-31 13:00+01:00", &ColumnType::Timestamp)?;
    /// assert_eq!(noon.to_string(), "2026-01-31T12:00:00Z");
    /// assert!(Value::parse("31.1.2026", &ColumnType::Timestamp).is_err());
    /// # Ok::<(), waxseal_table::Error>(())
    /// ```
    pub fn parse(text: &str, ty: &ColumnType) -> Result<Value> {
        let parsed = match ty {
            ColumnType::Text => Some(Value::Text(text.to_owned())),
            ColumnType::Bytes => unhex(text).map(Value::Bytes),
            ColumnType::Bool => truth(text).map(Value::Bool),
            ColumnType::I32 => text.parse().ok().map(Value::I32),
            ColumnType::I64 => text.parse().ok().map(Value::I64),
            ColumnType::U64 => text.parse().ok().map(Value::U64),
            ColumnType::F32 => binary(text).map(Value::F32),
            ColumnType::F64 => binary(text).map(Value::F64),
            ColumnType::Decimal { .. } => return Value::Decimal(text.parse::<Decimal>()?).into_type(ty),
            ColumnType::Date => parse_date(text).map(Value::Date),
            ColumnType::Timestamp => parse_timestamp(text).map(Value::Timestamp),
            ColumnType::Uuid => parse_uuid(text).map(Value::Uuid),
            ColumnType::Json => return Value::Text(text.to_owned()).into_type(ty),
            ColumnType::List(_) => return Value::from_json(text, ty),
            ColumnType::Empty => Some(Value::Empty).filter(|_| truth(text) == Some(true)),
        };
        parsed.ok_or_else(|| wrong(text, ty))
    }

    /// Returns the value as JSON, on one line: [`from_json`](Value::from_json) with its type reads it back. Finite
    /// binary numbers are JSON numbers, and a JSON document is itself. Values that JSON does not have are strings of their
    /// text form.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        put_json(&mut out, self);
        out
    }

    /// Reads JSON as a value of a type. `null` is a null, except that a JSON column has the document `null` as
    /// `{"json": "null"}`. Errors: `Invalid` for JSON that the type does not have.
    ///
    /// ```
    /// use waxseal_table::{ColumnType, Decimal, Value};
    ///
    /// let price = ColumnType::Decimal { precision: 9, scale: 2 };
    /// assert_eq!(Value::from_json("12.5", &price)?, Value::from(Decimal::new(1250, 2)?));
    /// assert!(Value::from_json("12.345", &price).is_err());
    /// # Ok::<(), waxseal_table::Error>(())
    /// ```
    pub fn from_json(text: &str, ty: &ColumnType) -> Result<Value> {
        json::check(text)?;
        Value::from_part(text, ty)
    }

    /// Reads a part of a JSON document: see [`from_json`](Value::from_json).
    pub(crate) fn from_part(text: &str, ty: &ColumnType) -> Result<Value> {
        let text = trimmed(text);
        if text == "null" {
            return Ok(Value::Null);
        }
        if let Some((own, value)) = typed(text).filter(|(own, _)| *ty != ColumnType::Json || own == ty) {
            return from_plain_json(&value, &own)?.into_type(ty);
        }
        from_plain_json(text, ty)
    }

    /// Returns the value of a dynamic column as JSON, with its type unless JSON tells it.
    pub(crate) fn to_dynamic_json(&self) -> String {
        match (self, self.column_type()) {
            (Value::F64(number), Some(ty)) if !number.is_finite() => format!("{{\"{ty}\":{}}}", self.to_json()),
            (Value::Null | Value::Text(_) | Value::Bool(_) | Value::I64(_) | Value::F64(_), _) | (_, None) => {
                self.to_json()
            }
            (Value::Json(document), Some(_)) => typed_document(document),
            (_, Some(ty)) => format!("{{\"{ty}\":{}}}", self.to_json()),
        }
    }

    /// Reads the JSON of a dynamic column: the caller has checked that it is JSON. An integer is an `i64`, and any other
    /// number an `f64`. Errors: `Invalid` for JSON that does not tell its type.
    pub(crate) fn from_dynamic_json(text: &str) -> Result<Value> {
        let text = trimmed(text);
        if let Some((ty, value)) = typed(text) {
            return from_plain_json(&value, &ty);
        }
        let ty = match text.as_bytes().first() {
            _ if text == "null" => return Ok(Value::Null),
            Some(b'"') => ColumnType::Text,
            Some(b't' | b'f') => ColumnType::Bool,
            Some(b'{' | b'[') => {
                return Err(Error::invalid(
                    "the column is dynamic: name the type of the value, as in {\"list<text>\": [\"a\"]}",
                ));
            }
            _ if text.contains(['.', 'e', 'E']) => ColumnType::F64,
            _ => ColumnType::I64,
        };
        from_plain_json(text, &ty)
    }
}

/// Reads JSON that names no type.
fn from_plain_json(text: &str, ty: &ColumnType) -> Result<Value> {
    if let ColumnType::Json = ty {
        return Value::Text(text.to_owned()).into_type(ty);
    }
    if let (ColumnType::List(element), true) = (ty, text.starts_with('[')) {
        let value = |text: &str| match Value::from_part(text, element)? {
            Value::Null => Err(Error::invalid("a list has no null elements")),
            value => Ok(value),
        };
        return Ok(Value::List(json::elements(text)?.into_iter().map(value).collect::<Result<_>>()?));
    }
    match json::string(text) {
        Some(string) if !matches!(ty, ColumnType::List(_)) => Value::parse(&string, ty),
        None if is_literal(text, ty) => Value::parse(text, ty),
        _ => Err(wrong(text, ty)),
    }
}

/// Returns true for a truth value or number of JSON, if the type has these.
fn is_literal(text: &str, ty: &ColumnType) -> bool {
    match ty {
        ColumnType::Bool | ColumnType::Empty => matches!(text, "true" | "false"),
        ColumnType::I32 | ColumnType::I64 | ColumnType::U64 | ColumnType::F32 | ColumnType::F64 => is_number(text),
        ColumnType::Decimal { .. } => is_number(text),
        _ => false,
    }
}

/// Tells a number from the other values of JSON.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// Returns the type and the value of JSON that names its type. The text of a document is in a string.
fn typed(text: &str) -> Option<(ColumnType, String)> {
    if !text.starts_with('{') {
        return None;
    }
    let [(name, value)] = <[_; 1]>::try_from(json::members(text).ok()?).ok()?;
    let ty = name.parse().ok()?;
    match ty {
        ColumnType::Json => Some((ty, json::string(value)?)),
        _ => Some((ty, value.to_owned())),
    }
}

fn typed_document(document: &str) -> String {
    let mut out = "{\"json\":".to_owned();
    json::put_string(&mut out, document);
    out + "}"
}

fn put_json(out: &mut String, value: &Value) {
    match value {
        Value::F32(number) if !number.is_finite() => json::put_string(out, &value.to_string()),
        Value::F64(number) if !number.is_finite() => json::put_string(out, &value.to_string()),
        Value::Null
        | Value::Bool(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::U64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::Empty => drop(write!(out, "{value}")), // writing to a string does not fail
        Value::Text(text) => json::put_string(out, text),
        Value::Bytes(_) | Value::Decimal(_) | Value::Date(_) | Value::Timestamp(_) | Value::Uuid(_) => {
            json::put_string(out, &value.to_string());
        }
        Value::Json(document) => match is_read_back(document) {
            true => out.push_str(document),
            false => out.push_str(&typed_document(document)),
        },
        Value::List(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                put_json(out, value);
            }
            out.push(']');
        }
    }
}

/// Returns true if a reader gets the same document from its unchanged text on one line.
fn is_read_back(document: &str) -> bool {
    document != "null"
        && document == trimmed(document)
        && !document.contains(['\n', '\r'])
        && json::fits_in_row(document)
        && typed(document).is_none_or(|(ty, _)| ty != ColumnType::Json)
}

fn truth(text: &str) -> Option<bool> {
    match () {
        () if text.eq_ignore_ascii_case("true") => Some(true),
        () if text.eq_ignore_ascii_case("false") => Some(false),
        () => None,
    }
}

/// Parses a binary number. A fraction is rounded to the nearest number. Returns `None` on overflow, on underflow to zero,
/// and for an integer without an exact binary number.
fn binary<F: FromStr + fmt::Display + Into<f64> + Copy>(text: &str) -> Option<F> {
    let number = text.parse::<F>().ok()?;
    let unsigned = text.trim_start_matches(['-', '+']);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_kept = match () {
        () if unsigned.starts_with(|first: char| first.is_ascii_alphabetic()) => true, // inf, NaN
        () if is_digits(unsigned) => unsigned.len() <= EXACT_DIGITS || is_integer(unsigned, number),
        () => {
            let number: f64 = number.into();
            let mantissa = unsigned.split(['e', 'E']).next().unwrap_or(unsigned);
            number.is_finite() && (number != 0.0 || !mantissa.contains(|digit| ('1'..='9').contains(&digit)))
        }
    };
    is_kept.then_some(number)
}

/// Returns true if the digits are those of the number, or the fewest that are read back as the number: JavaScript writes
/// 2 to the power of 64 as 18446744073709552000.
fn is_integer(digits: &str, number: impl fmt::Display) -> bool {
    let shown = [format!("{number:.0}"), format!("{number}")];
    shown.iter().any(|shown| shown.trim_start_matches('-') == digits.trim_start_matches('0'))
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = HYPHENS.iter().enumerate().map(|(at, bytes)| bytes * 2 + at);
    match text.len() {
        32 => unhex(text)?.try_into().ok(),
        36 if hyphens.clone().all(|at| text.as_bytes()[at] == b'-') => {
            let digits = text.replace('-', "");
            if digits.len() == 32 { unhex(&digits)?.try_into().ok() } else { None }
        }
        _ => None,
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cold]
fn wrong(text: &str, ty: &ColumnType) -> Error {
    let form = match ty {
        ColumnType::Bytes => ": hexadecimal digits are expected",
        ColumnType::Bool => ": true or false is expected",
        ColumnType::Date => ": YYYY-MM-DD is expected",
        ColumnType::Timestamp => ": YYYY-MM-DDTHH:MM:SS.ffffffZ is expected",
        ColumnType::Empty => ": a column without values is true, or absent",
        _ => "",
    };
    // An error is one line, whatever the text.
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    Error::invalid(format!("{shown:?} is not of type {ty}{form}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::check_dynamic;
    use crate::values_for_tests::{any_type, value_of};
    use proptest::prelude::*;

    /// Documents whose unchanged text reads back as another value.
    const DOCUMENTS: [&str; 6] =
        ["null", " {} ", "[1,\n2]", "{\"json\": \"1\"}", "{ \"json\":\"{\\\"json\\\":\\\"1\\\"}\" }", "{\"i32\": 5}"];

    /// Every value of the type, JSON documents of every form among them, and numbers of every size.
    fn value(ty: ColumnType) -> BoxedStrategy<Value> {
        let document = || prop::sample::select(DOCUMENTS.to_vec()).prop_map(|text| Value::Json(text.to_owned()));
        match ty {
            ColumnType::Json => prop_oneof![value_of(ty), document()].boxed(),
            ColumnType::List(element) if *element == ColumnType::Json => {
                prop::collection::vec(document(), 0..3).prop_map(Value::List).boxed()
            }
            ColumnType::Text => prop_oneof![value_of(ty), any::<String>().prop_map(Value::Text)].boxed(),
            ty => value_of(ty),
        }
    }

    fn typed_value() -> impl Strategy<Value = (ColumnType, Value)> {
        any_type().prop_flat_map(|ty| (Just(ty.clone()), value(ty)))
    }

    /// Documents that are none among them, and decimals without a common scale.
    fn list_element() -> impl Strategy<Value = Value> {
        let document = prop::sample::select(vec!["null", "{}", "[1,\n2]", "oops", ""]);
        let decimal = (prop::sample::select(vec![1i128, 10i128.pow(37)]), prop::sample::select(vec![0u8, 1, 38]));
        prop_oneof![
            document.prop_map(|text| Value::Json(text.to_owned())),
            decimal.prop_map(|(number, scale)| Value::Decimal(Decimal::new(number, scale).unwrap())),
        ]
    }

    /// Equal, and with the same sign of a zero.
    fn is_same(one: &Value, other: &Value) -> bool {
        let sign = |value: &Value| value.as_f64().filter(|number| !number.is_nan()).map(f64::is_sign_negative);
        one == other && sign(one) == sign(other) && one.column_type() == other.column_type()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

        #[test]
        fn text_and_json_are_read_back((ty, value) in typed_value()) {
            let (text, json, dynamic) = (value.to_string(), value.to_json(), value.to_dynamic_json());
            for line in [&json, &dynamic] {
                prop_assert!(json::check(line).is_ok() && !line.contains(['\n', '\r']), "{line}");
            }
            for read in [Value::parse(&text, &ty), Value::from_json(&json, &ty), Value::from_dynamic_json(&dynamic)] {
                let read = read.unwrap();
                prop_assert!(is_same(&read, &value), "{ty}: {text} {json} {dynamic}: {read:?}");
            }
            let typed = format!(" {dynamic}\n");
            prop_assert!(is_same(&Value::from_json(&typed, &ty).unwrap(), &value));
        }

        #[test]
        fn every_dynamic_list_is_read_back(values in prop::collection::vec(list_element(), 1..4)) {
            let list = Value::List(values);
            if check_dynamic("list", &list).is_ok() {
                let json = list.to_dynamic_json();
                prop_assert!(json::check(&json).is_ok(), "{json}");
                prop_assert_eq!(Value::from_dynamic_json(&json).unwrap(), list, "{}", json);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9a-fTZe:. \"\\[\\]{}]{0,20}", ty in any_type()) {
            for value in [Value::parse(&text, &ty), Value::from_json(&text, &ty)].into_iter().flatten() {
                prop_assert!(value.is_null() || value.into_type(&ty).is_ok());
            }
            let _ = Value::from_dynamic_json(&text);
        }
    }

    #[test]
    fn values_have_this_text() {
        let uuid = Value::Uuid(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef");
        for (value, text, json) in [
            (Value::Null, "null", "null"),
            (Value::from(b"\x00\xff"), "00ff", "\"00ff\""),
            (Value::from("a\"b"), "a\"b", "\"a\\\"b\""),
            (Value::from(1e300), "1e300", "1e300"),
            (Value::from(2.0f32), "2.0", "2.0"),
            (Value::from(f64::NEG_INFINITY), "-inf", "\"-inf\""),
            (Value::from(Decimal::new(-150, 2).unwrap()), "-1.50", "\"-1.50\""),
            (Value::Date(0), "1970-01-01", "\"1970-01-01\""),
            (uuid, "01234567-89ab-cdef-0123-456789abcdef", "\"01234567-89ab-cdef-0123-456789abcdef\""),
            (Value::Json("{\"a\": null}".to_owned()), "{\"a\": null}", "{\"a\": null}"),
            (Value::Json("null".to_owned()), "null", "{\"json\":\"null\"}"),
            (Value::from(vec![Value::from("a"), Value::from("b")]), "[\"a\",\"b\"]", "[\"a\",\"b\"]"),
            (Value::Empty, "true", "true"),
        ] {
            assert_eq!((value.to_string().as_str(), value.to_json().as_str()), (text, json));
        }
        for (value, json) in [
            (Value::from("a"), "\"a\""),
            (Value::from(5i64), "5"),
            (Value::from(5), "{\"i32\":5}"),
            (Value::from(f64::NAN), "{\"f64\":\"NaN\"}"),
            (Value::from(Vec::<Value>::new()), "{\"list<text>\":[]}"),
        ] {
            assert_eq!(value.to_dynamic_json(), json);
        }
    }

    #[test]
    fn other_notations_are_read() {
        let decimal = ColumnType::Decimal { precision: 9, scale: 2 };
        for (ty, text, expected) in [
            (ColumnType::I64, "\"5\"", Value::from(5i64)),
            (ColumnType::I64, "{\"i32\": 5}", Value::from(5i64)),
            (ColumnType::F64, "5", Value::from(5.0)),
            (ColumnType::F64, "-9007199254740992", Value::from(-9_007_199_254_740_992.0)),
            (ColumnType::F64, "\"0018446744073709551616\"", Value::from(18_446_744_073_709_551_616.0)),
            (ColumnType::F64, "18446744073709552000", Value::from(18_446_744_073_709_551_616.0)),
            (ColumnType::F64, "0.0e-999", Value::from(0.0)),
            (ColumnType::F64, "0.1000000000000000055", Value::from(0.1)),
            (ColumnType::F32, "16777216", Value::from(16_777_216.0f32)),
            (ColumnType::Bool, "\"TRUE\"", Value::from(true)),
            (ColumnType::Text, "\"null\"", Value::from("null")),
            (ColumnType::Json, "{\"i32\": 5}", Value::Json("{\"i32\": 5}".to_owned())),
            (decimal, "-0.5", Value::from(Decimal::new(-50, 2).unwrap())),
            (
                ColumnType::Uuid,
                "\"0123456789ABCDEF0123456789abcdef\"",
                Value::Uuid([1, 35, 69, 103, 137, 171, 205, 239].repeat(2).try_into().unwrap()),
            ),
        ] {
            assert_eq!(Value::from_json(text, &ty).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn other_text_is_refused_with_a_reason() {
        let decimal = ColumnType::Decimal { precision: 4, scale: 2 };
        for (ty, json) in [
            (ColumnType::Text, "5"),
            (ColumnType::Text, "true"),
            (ColumnType::I32, "2147483648"),
            (ColumnType::I32, "1.0"),
            (ColumnType::I32, "+1"),
            (ColumnType::I32, "true"),
            (ColumnType::U64, "-1"),
            (ColumnType::F64, "1e999"),
            (ColumnType::F32, "\"1e39\""),
            (ColumnType::F64, "\"\""),
            (ColumnType::Bool, "1"),
            (ColumnType::Empty, "false"),
            (decimal.clone(), "0.001"),
            (decimal.clone(), "100"),
            (decimal, "1e1"),
            (ColumnType::F64, "1e-400"),
            (ColumnType::F64, "-0.1e-400"),
            (ColumnType::F32, "1e-50"),
            (ColumnType::F64, "9007199254740993"),
            (ColumnType::F32, "16777217"),
            (ColumnType::F32, "\"-100000001\""),
            (ColumnType::Bytes, "\"abc\""),
            (ColumnType::Bytes, "1234"),
            (ColumnType::Uuid, "12345678901234567890123456789012"),
            (ColumnType::Date, "true"),
            (ColumnType::Uuid, "\"01234567-89ab-cdef-0123-456789abcde-\""),
            (ColumnType::Uuid, "\"0123456789ab-cdef-0123-4567-89abcdef\""),
            (ColumnType::I32.list(), "[1, null]"),
            (ColumnType::I32.list(), "\"[1]\""),
            (ColumnType::I32, "[1]"),
            (ColumnType::I32, "{\"text\": \"5\"}"),
            (ColumnType::Json, "{"),
        ] {
            let error = Value::from_json(json, &ty).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{json}");
        }
        for json in ["[1]", "{\"a\": 1}", "{}", "nul", "tru", "1x", ""] {
            assert!(Value::from_dynamic_json(json).is_err(), "{json}");
        }
        let error = Value::parse(&"\n".repeat(100), &ColumnType::Date).unwrap_err();
        assert_eq!(error.to_string(), format!("\"{}…\" is not of type date: YYYY-MM-DD is expected", "\\n".repeat(60)));
    }
}
