//! The parts of keys: bytes that sort like the values. docs/format-tables.md, section 3.
//!
//! No encoding is a prefix of another encoding of its type. The parts of a key therefore follow each other without
//! separators, and a key sorts by its first part, then by its second one, and so on. A descending part is stored with
//! all bits inverted.

use crate::decimal::{Decimal, MAX_DECIMAL_DIGITS};
use crate::error::{Error, Result};
use crate::floats::{ordered_f32, ordered_f64, unordered_f32, unordered_f64};
use crate::types::ColumnType;
use crate::value::Value;

/// The order of a key's part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SortOrder {
    /// Least value first.
    Ascending,
    /// Greatest value first.
    Descending,
}

/// In text and bytes: a zero byte is `00 FF`, and the end is `00 01`.
const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const END: u8 = 0x01;

/// Type and order of a key's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyPart {
    pub(crate) ty: ColumnType,
    pub(crate) order: SortOrder,
}

impl KeyPart {
    /// Appends a value of the part's type. Errors: `Invalid` for another value.
    pub(crate) fn put(&self, out: &mut Vec<u8>, value: &Value) -> Result<()> {
        let start = out.len();
        match (value, &self.ty) {
            (Value::Bytes(bytes), ColumnType::Bytes) => put_escaped(out, bytes),
            (Value::Text(text), ColumnType::Text) => put_escaped(out, text.as_bytes()),
            (Value::Bool(truth), ColumnType::Bool) => out.push(u8::from(*truth)),
            (Value::I32(number), ColumnType::I32) | (Value::Date(number), ColumnType::Date) => {
                put_unsigned(out, u128::from(*number as u32 ^ (1 << 31)), 4);
            }
            (Value::I64(number), ColumnType::I64) | (Value::Timestamp(number), ColumnType::Timestamp) => {
                put_unsigned(out, u128::from(*number as u64 ^ (1 << 63)), 8);
            }
            (Value::U64(number), ColumnType::U64) => put_unsigned(out, u128::from(*number), 8),
            (Value::F32(number), ColumnType::F32) => put_unsigned(out, u128::from(ordered_f32(*number)), 4),
            (Value::F64(number), ColumnType::F64) => put_unsigned(out, u128::from(ordered_f64(*number)), 8),
            (Value::Decimal(number), ColumnType::Decimal { precision, scale })
                if number.scale() == *scale && number.fits(*precision) =>
            {
                let width = decimal_width(*precision);
                put_unsigned(out, number.unscaled().wrapping_add(1 << (8 * width - 1)) as u128, width);
            }
            (Value::Uuid(uuid), ColumnType::Uuid) => out.extend_from_slice(uuid),
            (Value::Null, _) => return Err(Error::invalid("a column of the key is missing or null")),
            _ => match value.clone().into_type(&self.ty) {
                Ok(converted) if self.ty.is_ordered() => return self.put(out, &converted),
                Ok(_) => return Err(Error::invalid(format!("a key has no part of type {}", self.ty))),
                Err(error) => return Err(error),
            },
        }
        if self.order == SortOrder::Descending {
            invert(&mut out[start..]);
        }
        Ok(())
    }

    /// Takes the part off the front of a key. Errors: `Corruption` for bytes that `put` never writes.
    pub(crate) fn take(&self, key: &mut &[u8]) -> Result<Value> {
        let (part, rest) = key.split_at(self.length(key)?);
        *key = rest;
        let inverted;
        let part = match self.order {
            SortOrder::Ascending => part,
            SortOrder::Descending => {
                let mut bytes = part.to_vec();
                invert(&mut bytes);
                inverted = bytes;
                &inverted[..]
            }
        };
        self.decode(part)
    }

    /// Returns the length of the part at the front of a key. Errors: `Corruption` for a key that ends before the part.
    pub(crate) fn length(&self, key: &[u8]) -> Result<usize> {
        let length = match &self.ty {
            ColumnType::Bytes | ColumnType::Text => return self.escaped_length(key),
            ColumnType::Bool => 1,
            ColumnType::I32 | ColumnType::F32 | ColumnType::Date => 4,
            ColumnType::I64 | ColumnType::U64 | ColumnType::F64 | ColumnType::Timestamp => 8,
            ColumnType::Uuid => 16,
            ColumnType::Decimal { precision, .. } => decimal_width(*precision),
            ColumnType::Json | ColumnType::List(_) | ColumnType::Empty => {
                return Err(Error::corruption(format!("a key with a part of type {}", self.ty)));
            }
        };
        if length > key.len() { Err(cut()) } else { Ok(length) }
    }

    fn escaped_length(&self, key: &[u8]) -> Result<usize> {
        let mask = if self.order == SortOrder::Descending { 0xFF } else { 0 };
        let mut at = 0;
        loop {
            at += key[at..].iter().position(|byte| byte ^ mask == ESCAPE).ok_or_else(cut)?;
            match key.get(at + 1).map(|byte| byte ^ mask) {
                Some(END) => return Ok(at + 2),
                Some(ESCAPED_ZERO) => at += 2,
                Some(_) => return Err(Error::corruption("a key with an escape that does not exist")),
                None => return Err(cut()),
            }
        }
    }

    /// Decodes the whole bytes of an ascending part.
    fn decode(&self, part: &[u8]) -> Result<Value> {
        let unsigned = |bytes: &[u8]| bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
        let wrong = || Error::corruption(format!("a key with a part that is no {}", self.ty));
        Ok(match &self.ty {
            ColumnType::Bytes => Value::Bytes(unescaped(part)),
            ColumnType::Text => Value::Text(String::from_utf8(unescaped(part)).map_err(|_| wrong())?),
            ColumnType::Bool => match part {
                [truth @ 0..=1] => Value::Bool(*truth == 1),
                _ => return Err(wrong()),
            },
            ColumnType::I32 => Value::I32((unsigned(part) as u32 ^ (1 << 31)) as i32),
            ColumnType::Date => Value::Date((unsigned(part) as u32 ^ (1 << 31)) as i32),
            ColumnType::I64 => Value::I64((unsigned(part) as u64 ^ (1 << 63)) as i64),
            ColumnType::Timestamp => Value::Timestamp((unsigned(part) as u64 ^ (1 << 63)) as i64),
            ColumnType::U64 => Value::U64(unsigned(part) as u64),
            ColumnType::F32 => Value::F32(unordered_f32(unsigned(part) as u32).ok_or_else(wrong)?),
            ColumnType::F64 => Value::F64(unordered_f64(unsigned(part) as u64).ok_or_else(wrong)?),
            ColumnType::Decimal { precision, scale } => {
                let bias = 1u128 << (8 * decimal_width(*precision) - 1);
                let unscaled = unsigned(part).wrapping_sub(bias) as i128;
                let number = Decimal::new(unscaled, *scale).map_err(|_| wrong())?;
                if !number.fits(*precision) {
                    return Err(wrong());
                }
                Value::Decimal(number)
            }
            ColumnType::Uuid => Value::Uuid(part.try_into().map_err(|_| wrong())?),
            ColumnType::Json | ColumnType::List(_) | ColumnType::Empty => return Err(wrong()),
        })
    }
}

/// Returns the bytes of a decimal in a key.
fn decimal_width(precision: u8) -> usize {
    debug_assert!(precision <= MAX_DECIMAL_DIGITS);
    match precision {
        0..=9 => 4,
        10..=18 => 8,
        _ => 16,
    }
}

/// Appends the low `width` bytes of a number, most significant first.
fn put_unsigned(out: &mut Vec<u8>, number: u128, width: usize) {
    let start = out.len();
    out.extend_from_slice(&number.to_le_bytes()[..width]);
    out[start..].reverse();
}

fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 2);
    let mut rest = bytes;
    while let Some(zero) = rest.iter().position(|byte| *byte == ESCAPE) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[ESCAPE, END]);
}

/// Returns the bytes of a part whose escapes `length` has checked.
fn unescaped(part: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = &part[..part.len().saturating_sub(2)];
    while let Some(zero) = rest.iter().position(|byte| *byte == ESCAPE) {
        bytes.extend_from_slice(&rest[..=zero]);
        rest = rest.get(zero + 2..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest);
    bytes
}

fn invert(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

#[cold]
fn cut() -> Error {
    Error::corruption("a key that is cut short")
}

/// Returns the least key above all keys that begin with `prefix`; `None` if there is none.
pub(crate) fn above(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut above = prefix[..=last].to_vec();
    above[last] += 1;
    Some(above)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::values_for_tests::{part, value_of};
    use proptest::prelude::*;

    fn encoded(part: &KeyPart, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        part.put(&mut out, value).unwrap();
        out
    }

    #[test]
    fn parts_have_these_bytes() {
        let ascending = |ty| KeyPart { ty, order: SortOrder::Ascending };
        for (ty, value, bytes) in [
            (ColumnType::Text, Value::from("a\0b"), &b"a\0\xFFb\0\x01"[..]),
            (ColumnType::Bytes, Value::from(b""), b"\0\x01"),
            (ColumnType::Bool, Value::from(true), b"\x01"),
            (ColumnType::I32, Value::from(-2), b"\x7F\xFF\xFF\xFE"),
            (ColumnType::Date, Value::Date(1), b"\x80\0\0\x01"),
            (ColumnType::I64, Value::from(258i64), b"\x80\0\0\0\0\0\x01\x02"),
            (ColumnType::Timestamp, Value::Timestamp(-1), b"\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
            (ColumnType::U64, Value::from(258u64), b"\0\0\0\0\0\0\x01\x02"),
            (ColumnType::F32, Value::from(-1.0f32), b"\x40\x7F\xFF\xFF"),
            (ColumnType::F64, Value::from(-0.0), b"\x80\0\0\0\0\0\0\0"),
            (ColumnType::F64, Value::from(-f64::NAN), b"\xFF\xF8\0\0\0\0\0\0"),
            (ColumnType::Decimal { precision: 9, scale: 2 }, Value::from(-1), b"\x7F\xFF\xFF\x9C"),
            (ColumnType::Decimal { precision: 18, scale: 0 }, Value::from(1), b"\x80\0\0\0\0\0\0\x01"),
            (ColumnType::Decimal { precision: 38, scale: 0 }, Value::from(1), b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"),
            (ColumnType::Uuid, Value::Uuid(*b"0123456789abcdef"), b"0123456789abcdef"),
        ] {
            let part = ascending(ty);
            assert_eq!(encoded(&part, &value), bytes, "{}", part.ty);
            let descending = KeyPart { order: SortOrder::Descending, ..part };
            let inverted: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            assert_eq!(encoded(&descending, &value), inverted, "{}", descending.ty);
        }
    }

    #[test]
    fn nulls_and_unordered_values_are_refused() {
        for (ty, value) in [
            (ColumnType::Text, Value::Null),
            (ColumnType::Json, Value::Json("1".to_owned())),
            (ColumnType::Empty, Value::Empty),
            (ColumnType::I32, Value::from(1i64 << 40)),
            (ColumnType::Text, Value::from(1)),
        ] {
            let part = KeyPart { ty, order: SortOrder::Ascending };
            assert_eq!(part.put(&mut Vec::new(), &value).unwrap_err().kind(), crate::ErrorKind::Invalid);
        }
    }

    fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 7, 0xFE, 0xFF]), 0..6)
    }

    proptest! {
        #[test]
        fn keys_sort_like_their_values(
            (part, a, b) in part().prop_flat_map(|part| {
                (Just(part.clone()), value_of(part.ty.clone()), value_of(part.ty))
            })
        ) {
            let (key_a, key_b) = (encoded(&part, &a), encoded(&part, &b));
            let expected = a.compare(&b).unwrap();
            let expected = if part.order == SortOrder::Descending { expected.reverse() } else { expected };
            prop_assert_eq!(key_a.cmp(&key_b), expected);
            prop_assert!(a == b || !key_a.starts_with(&key_b));
            let mut rest = &[&key_a[..], b"rest"].concat()[..];
            prop_assert_eq!(part.take(&mut rest).unwrap(), a);
            prop_assert_eq!(rest, b"rest");
        }

        #[test]
        fn any_bytes_are_read_or_refused(part in part(), bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let mut rest = &bytes[..];
            if let Ok(value) = part.take(&mut rest) {
                prop_assert_eq!(&encoded(&part, &value)[..], &bytes[..bytes.len() - rest.len()]);
            }
        }

        #[test]
        fn the_key_above_a_prefix_is_the_least(prefix in some_bytes(), key in some_bytes()) {
            let is_below = above(&prefix).is_none_or(|above| key < above);
            prop_assert_eq!(key >= prefix && is_below, key.starts_with(&prefix));
        }
    }
}
