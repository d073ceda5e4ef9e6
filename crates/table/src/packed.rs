//! Packed columns: the value of a group's record. docs/format-tables.md, section 4.
//!
//! A record has a version and then its columns in the order of their ids. Each column has three fields: id (as the
//! distance from the previous id), type tag and value. A column without a value is left out. The tag makes old values
//! readable after the column's type was widened.

use crate::codec::{Reader, put_bytes, put_varint};
use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::types::{ColumnType, tag};
use crate::value::Value;

/// Identifies a column of a table. A dropped column's id is never used again.
pub(crate) type ColumnId = u32;

/// The version of records that this crate writes.
pub(crate) const VERSION: u8 = 1;

/// Fails for a version that this crate does not know.
pub(crate) fn check_version(version: u8) -> Result<()> {
    match version {
        VERSION => Ok(()),
        0 => Err(Error::corruption("a record of version 0, which does not exist")),
        newer => Err(Error::too_new(format!("a record of version {newer}, where {VERSION} is known"))),
    }
}

/// Writes the value of a group's record.
pub(crate) struct Packer {
    bytes: Vec<u8>,
    last: ColumnId,
}

impl Packer {
    pub(crate) fn new() -> Packer {
        Packer { bytes: vec![VERSION], last: 0 }
    }

    /// Appends a column. Columns are appended in the order of their ids, which begin at 1. A null is not written.
    pub(crate) fn push(&mut self, id: ColumnId, value: &Value) {
        if value.is_null() {
            return;
        }
        self.begin(id);
        self.bytes.push(tag_of(value));
        put_payload(&mut self.bytes, value);
    }

    /// Appends a column as another record has it.
    pub(crate) fn push_raw(&mut self, column: &RawColumn<'_>) {
        self.begin(column.id);
        self.bytes.push(column.tag);
        self.bytes.extend_from_slice(column.payload);
    }

    fn begin(&mut self, id: ColumnId) {
        debug_assert!(id > self.last, "columns are packed in the order of their ids");
        put_varint(&mut self.bytes, u64::from(id - self.last));
        self.last = id;
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// A column of a record, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawColumn<'a> {
    pub(crate) id: ColumnId,
    tag: u8,
    payload: &'a [u8],
}

impl RawColumn<'_> {
    /// Returns the value as a value of the column's present type. Errors: `FormatTooNew` for a type of a newer version;
    /// `Corruption` for bytes that no type has, and for a value that does not widen to the type.
    pub(crate) fn value(&self, wanted: &ColumnType) -> Result<Value> {
        let mut reader = Reader::new(self.payload);
        let value = take_payload(self.tag, &mut reader)?;
        reader.end()?;
        widen(value, wanted)
    }
}

/// The columns of a record.
pub(crate) struct Columns<'a> {
    reader: Reader<'a>,
    last: ColumnId,
}

/// Reads the value of a group's record. Errors: `FormatTooNew` and `Corruption` for a version that is unknown.
pub(crate) fn columns(record: &[u8]) -> Result<Columns<'_>> {
    let mut reader = Reader::new(record);
    check_version(reader.u8()?)?;
    Ok(Columns { reader, last: 0 })
}

impl<'a> Columns<'a> {
    /// Returns the next column. Errors: `Corruption` and `FormatTooNew`; the record ends there.
    pub(crate) fn next(&mut self) -> Result<Option<RawColumn<'a>>> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let step = self.reader.varint_u32()?;
        let id = self.last.checked_add(step).filter(|_| step > 0);
        self.last = id.ok_or_else(|| Error::corruption("a record whose columns are not in order"))?;
        let tag = self.reader.u8()?;
        let before = self.reader.rest();
        skip_payload(tag, &mut self.reader)?;
        let payload = &before[..before.len() - self.reader.rest().len()];
        Ok(Some(RawColumn { id: self.last, tag, payload }))
    }
}

/// Returns the value of a dynamic column's record.
pub(crate) fn pack_single(value: &Value) -> Vec<u8> {
    let mut packer = Packer::new();
    packer.push(1, value);
    packer.finish()
}

/// Decodes a dynamic column's record.
pub(crate) fn unpack_single(record: &[u8]) -> Result<Value> {
    let mut columns = columns(record)?;
    let single = columns.next()?.filter(|column| column.id == 1);
    let column = single.ok_or_else(|| Error::corruption("a dynamic column without its value"))?;
    if columns.next()?.is_some() {
        return Err(Error::corruption("a dynamic column with two values"));
    }
    let mut reader = Reader::new(column.payload);
    let value = take_payload(column.tag, &mut reader)?;
    reader.end()?;
    Ok(value)
}

fn tag_of(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bytes(_) => tag::BYTES,
        Value::Text(_) => tag::TEXT,
        Value::Bool(_) => tag::BOOL,
        Value::I32(_) => tag::I32,
        Value::I64(_) => tag::I64,
        Value::U64(_) => tag::U64,
        Value::F32(_) => tag::F32,
        Value::F64(_) => tag::F64,
        Value::Decimal(_) => tag::DECIMAL,
        Value::Date(_) => tag::DATE,
        Value::Timestamp(_) => tag::TIMESTAMP,
        Value::Uuid(_) => tag::UUID,
        Value::Json(_) => tag::JSON,
        Value::List(_) => tag::LIST,
        Value::Empty => tag::EMPTY,
    }
}

fn put_payload(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null | Value::Empty => {}
        Value::Bytes(bytes) => put_bytes(out, bytes),
        Value::Text(text) | Value::Json(text) => put_bytes(out, text.as_bytes()),
        Value::Bool(truth) => out.push(u8::from(*truth)),
        Value::I32(number) | Value::Date(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::I64(number) | Value::Timestamp(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::U64(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::F32(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::F64(number) => out.extend_from_slice(&number.to_le_bytes()),
        Value::Decimal(number) => put_decimal(out, number),
        Value::Uuid(uuid) => out.extend_from_slice(uuid),
        Value::List(values) => {
            let mut body = Vec::new();
            body.push(values.first().map_or(tag::EMPTY, tag_of));
            put_varint(&mut body, values.len() as u64);
            for value in values {
                put_payload(&mut body, value);
            }
            put_bytes(out, &body);
        }
    }
}

/// Appends the scale, the number of bytes, and as many bytes as the number needs, least significant first.
fn put_decimal(out: &mut Vec<u8>, number: &Decimal) {
    let bytes = number.unscaled().to_le_bytes();
    let length = decimal_bytes(number.unscaled());
    out.extend_from_slice(&[number.scale(), length as u8]);
    out.extend_from_slice(&bytes[..length]);
}

/// Returns the least number of bytes that hold a number in two's complement.
fn decimal_bytes(number: i128) -> usize {
    let magnitude_bits = 128 - (number ^ (number >> 127)).leading_zeros() as usize;
    magnitude_bits / 8 + 1
}

fn take_decimal(reader: &mut Reader<'_>) -> Result<Decimal> {
    let wrong = || Error::corruption("a record with a decimal that is none");
    let (scale, length) = (reader.u8()?, usize::from(reader.u8()?));
    if !(1..=16).contains(&length) {
        return Err(wrong());
    }
    let bytes = reader.take(length)?;
    let sign = if bytes[length - 1] & 0x80 != 0 { 0xFF } else { 0 };
    let mut all = [sign; 16];
    all[..length].copy_from_slice(bytes);
    let unscaled = i128::from_le_bytes(all);
    if decimal_bytes(unscaled) != length {
        return Err(wrong());
    }
    Decimal::new(unscaled, scale).map_err(|_| wrong())
}

fn skip_payload(value_tag: u8, reader: &mut Reader<'_>) -> Result<()> {
    match value_tag {
        tag::EMPTY => {}
        tag::BOOL => drop(reader.take(1)?),
        tag::I32 | tag::F32 | tag::DATE => drop(reader.take(4)?),
        tag::I64 | tag::U64 | tag::F64 | tag::TIMESTAMP => drop(reader.take(8)?),
        tag::UUID => drop(reader.take(16)?),
        tag::DECIMAL => {
            let [_, length] = reader.array()?;
            reader.take(usize::from(length))?;
        }
        tag::BYTES | tag::TEXT | tag::JSON | tag::LIST | tag::FIRST_WITH_LENGTH.. => drop(reader.bytes()?),
        other => return Err(unknown_tag(other)),
    }
    Ok(())
}

/// Returns the error of a value whose type is not known.
#[cold]
fn unknown_tag(tag: u8) -> Error {
    match tag {
        0 => Error::corruption("a record with a value of type 0, which does not exist"),
        newer => Error::too_new(format!("a record with a value of type {newer}")),
    }
}

fn take_payload(value_tag: u8, reader: &mut Reader<'_>) -> Result<Value> {
    Ok(match value_tag {
        tag::EMPTY => Value::Empty,
        tag::BYTES => Value::Bytes(reader.bytes()?.to_vec()),
        tag::TEXT => Value::Text(reader.text()?.to_owned()),
        tag::JSON => Value::Json(reader.text()?.to_owned()),
        tag::BOOL => Value::Bool(reader.bool()?),
        tag::I32 => Value::I32(i32::from_le_bytes(reader.array()?)),
        tag::DATE => Value::Date(i32::from_le_bytes(reader.array()?)),
        tag::I64 => Value::I64(i64::from_le_bytes(reader.array()?)),
        tag::TIMESTAMP => Value::Timestamp(i64::from_le_bytes(reader.array()?)),
        tag::U64 => Value::U64(u64::from_le_bytes(reader.array()?)),
        tag::F32 => Value::F32(f32::from_le_bytes(reader.array()?)),
        tag::F64 => Value::F64(f64::from_le_bytes(reader.array()?)),
        tag::DECIMAL => Value::Decimal(take_decimal(reader)?),
        tag::UUID => Value::Uuid(reader.array()?),
        tag::LIST => Value::List(take_list(reader.bytes()?)?),
        other => return Err(unknown_tag(other)),
    })
}

fn take_list(body: &[u8]) -> Result<Vec<Value>> {
    let mut reader = Reader::new(body);
    let element = reader.u8()?;
    let count = reader.count()?;
    let is_nested = element == tag::LIST || element == tag::EMPTY && count > 0;
    if is_nested || count == 0 && element != tag::EMPTY {
        return Err(Error::corruption("a record with a list that is none"));
    }
    let values = (0..count).map(|_| take_payload(element, &mut reader)).collect::<Result<_>>()?;
    reader.end()?;
    Ok(values)
}

/// Converts a stored value to the present type of its column.
fn widen(value: Value, wanted: &ColumnType) -> Result<Value> {
    let found = tag_of(&value);
    let is_same = found == wanted.tag() && !matches!(wanted, ColumnType::Decimal { .. } | ColumnType::List(_));
    let is_wider = is_same
        || matches!(
            (found, wanted),
            (tag::I32, ColumnType::I64 | ColumnType::F64)
                | (tag::F32, ColumnType::F64)
                | (tag::TEXT, ColumnType::Bytes)
                | (tag::JSON, ColumnType::Text | ColumnType::Bytes)
                | (tag::DECIMAL, ColumnType::Decimal { .. })
                | (tag::LIST, ColumnType::List(_))
        );
    match is_wider {
        true if is_same => Ok(value), // a stored JSON document was checked when it was written
        true => value.into_type(wanted).map_err(|error| Error::corruption(error.to_string())),
        false => Err(Error::corruption(format!("a record with a value of type {found} in a column of type {wanted}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::values_for_tests::{any_type, value_of};
    use proptest::prelude::*;

    #[test]
    fn records_have_these_bytes() {
        let mut packer = Packer::new();
        for (id, value) in [
            (1, Value::from("hi")),
            (2, Value::Null),
            (3, Value::from(true)),
            (4, Value::from(-2)),
            (200, Value::from(Decimal::new(-256, 2).unwrap())),
            (201, Value::from(vec![Value::from(1), Value::from(2)])),
            (202, Value::Empty),
        ] {
            packer.push(id, &value);
        }
        let expected = [
            &[1][..],
            &[1, 2, 2, b'h', b'i'],
            &[2, 3, 1],
            &[1, 4, 0xFE, 0xFF, 0xFF, 0xFF],
            &[0xC4, 1, 9, 2, 2, 0x00, 0xFF],
            &[1, 14, 10, 4, 2, 1, 0, 0, 0, 2, 0, 0, 0],
            &[1, 15],
        ];
        assert_eq!(packer.finish(), expected.concat());
    }

    #[test]
    fn a_number_of_any_size_takes_the_least_bytes() {
        for (number, length) in [(0, 1), (-1, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i128::MIN, 16)] {
            assert_eq!(decimal_bytes(number), length, "{number}");
        }
    }

    #[test]
    fn values_widen_to_the_present_type() {
        for (value, wanted, widened) in [
            (Value::from(-5), ColumnType::I64, Value::from(-5i64)),
            (Value::from(1.5f32), ColumnType::F64, Value::from(1.5)),
            (Value::from("a"), ColumnType::Bytes, Value::from(b"a")),
            (
                Value::from(Decimal::new(15, 1).unwrap()),
                ColumnType::Decimal { precision: 9, scale: 3 },
                Value::from(Decimal::new(1500, 3).unwrap()),
            ),
        ] {
            let record = pack_single(&value);
            let column = columns(&record).unwrap().next().unwrap().unwrap();
            assert_eq!(column.value(&wanted).unwrap(), widened);
            assert!(column.value(&ColumnType::Uuid).unwrap_err().is_corruption());
        }
    }

    #[test]
    fn a_column_of_a_newer_type_is_skipped_and_carried() {
        let record = b"\x01\x01\x80\x02ab\x01\x04\x05\x00\x00\x00\x01\xFF\x00";
        let mut read = columns(record).unwrap();
        let mut again = Packer::new();
        for expected in [None, Some(Value::from(5)), None] {
            let column = read.next().unwrap().unwrap();
            match expected {
                Some(value) => assert_eq!(column.value(&ColumnType::I32).unwrap(), value),
                None => assert_eq!(column.value(&ColumnType::I32).unwrap_err().kind(), ErrorKind::FormatTooNew),
            }
            again.push_raw(&column);
        }
        assert!(read.next().unwrap().is_none());
        assert_eq!(again.finish(), record);
        for (record, kind) in [
            (&b"\x01\x01\x00"[..], ErrorKind::Corruption),
            (b"\x01\x01\x10", ErrorKind::FormatTooNew),
            (b"\x01\x01\x7F", ErrorKind::FormatTooNew),
            (b"\x01\x01\x80\x01", ErrorKind::Corruption),
        ] {
            assert_eq!(columns(record).unwrap().next().unwrap_err().kind(), kind, "{record:?}");
        }
        assert_eq!(unpack_single(b"\x01\x01\x80\x00").unwrap_err().kind(), ErrorKind::FormatTooNew);
        assert_eq!(unpack_single(b"\x01\x01\x0E\x03\x80\x01\x00").unwrap_err().kind(), ErrorKind::FormatTooNew);
    }

    fn typed_value() -> impl Strategy<Value = (ColumnType, Value)> {
        any_type().prop_flat_map(|ty| (Just(ty.clone()), value_of(ty)))
    }

    proptest! {
        #[test]
        fn packed_columns_are_read_back(
            columns_written in prop::collection::vec(typed_value(), 0..6),
            steps in prop::collection::vec(1u32..300, 6),
        ) {
            let mut packer = Packer::new();
            let mut id = 0;
            for ((_, value), step) in columns_written.iter().zip(&steps) {
                id += step;
                packer.push(id, value);
            }
            let record = packer.finish();
            let mut read = columns(&record).unwrap();
            let mut again = Packer::new();
            for (ty, value) in &columns_written {
                let column = read.next().unwrap().unwrap();
                prop_assert_eq!(&column.value(ty).unwrap(), value);
                again.push_raw(&column);
            }
            prop_assert!(read.next().unwrap().is_none());
            prop_assert_eq!(again.finish(), record);
        }

        #[test]
        fn any_bytes_are_read_or_refused(tail in prop::collection::vec(0u8..20, 0..30), ty in any_type()) {
            let record = [&[VERSION], &tail[..]].concat();
            let mut read = columns(&record).unwrap();
            while let Ok(Some(column)) = read.next() {
                let _ = column.value(&ty);
            }
            let _ = unpack_single(&record);
        }
    }
}
