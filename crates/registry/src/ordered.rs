//! An order-preserving byte encoding. docs/format.md, section 9.1.
//!
//! Numbers are big-endian. A component is a byte string in which each 00 is written as 00 FF, terminated by 00 01.
//! Encoded components therefore compare as their byte strings. None is a prefix of another, and bytes that follow do
//! not affect the order. Each value has exactly one encoding; the decoder refuses all others.

use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};

const ZERO: u8 = 0x00;
/// After a zero byte: the zero belongs to the component.
const ESCAPED: u8 = 0xFF;
/// After a zero byte: the component ends here.
const END: u8 = 0x01;

/// Appends a two-byte number, big-endian.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.swap_bytes().to_le_bytes());
}

/// Appends an eight-byte number, big-endian.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.swap_bytes().to_le_bytes());
}

/// Reads a two-byte number.
pub fn take_u16(reader: &mut Reader<'_>) -> Result<u16> {
    reader.u16().map(u16::swap_bytes)
}

/// Reads an eight-byte number.
pub fn take_u64(reader: &mut Reader<'_>) -> Result<u64> {
    reader.u64().map(u64::swap_bytes)
}

/// Appends a component.
#[inline]
pub fn put_component(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.contains(&ZERO) {
        out.extend_from_slice(bytes);
        out.extend_from_slice(&[ZERO, END]);
        return;
    }
    put_escaped(out, bytes);
}

#[inline(never)]
fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == ZERO);
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        out.extend_from_slice(&[ZERO, ESCAPED]);
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&[ZERO, END]);
}

/// Returns the encoded length of a component.
#[inline]
pub fn component_bytes(bytes: &[u8]) -> usize {
    bytes.len() + bytes.iter().filter(|byte| **byte == ZERO).count() + 2
}

/// Reads a component.
pub fn take_component(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    while let Some(part) = take_part(reader)? {
        out.extend_from_slice(part);
        out.push(ZERO);
    }
    out.extend_from_slice(last_part(reader)?);
    Ok(out)
}

/// Skips a component.
pub fn skip_component(reader: &mut Reader<'_>) -> Result<()> {
    while take_part(reader)?.is_some() {}
    last_part(reader).map(|_| ())
}

/// Returns the bytes up to the next escaped zero and moves past it. Returns `None`, without moving, if the component
/// ends before one.
fn take_part<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    let rest = reader.rest();
    let zero = rest.iter().position(|byte| *byte == ZERO).ok_or_else(endless)?;
    match rest.get(zero + 1) {
        Some(&ESCAPED) => {
            reader.bytes(zero + 2)?;
            Ok(Some(&rest[..zero]))
        }
        Some(&END) => Ok(None),
        Some(_) => Err(Error::structural("a zero byte that is neither escaped nor an end")),
        None => Err(endless()),
    }
}

/// Returns the bytes up to the terminator and moves past it. `take_part` has found the terminator.
fn last_part<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let rest = reader.rest();
    let zero = rest.iter().position(|byte| *byte == ZERO).ok_or_else(endless)?;
    reader.bytes(zero + 2)?;
    Ok(&rest[..zero])
}

#[cold]
fn endless() -> Error {
    Error::structural("a component without an end")
}

/// Returns the smallest byte string above all that begin with `prefix`; `None` if there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn component(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_component(&mut out, bytes);
        out
    }

    /// Bytes that are likely to need escapes.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()], 0..6)
    }

    proptest! {
        #[test]
        fn components_come_back_and_sort_as_their_bytes(a in bytes(), b in bytes(), behind in bytes()) {
            let (one, other) = (component(&a), component(&b));
            prop_assert_eq!(one.len(), component_bytes(&a));
            prop_assert_eq!(one.cmp(&other), a.cmp(&b));
            prop_assert!(a == b || !one.starts_with(&other));
            let with_more = [&one[..], &behind].concat();
            let (mut reader, mut skipper) = (Reader::new(&with_more), Reader::new(&with_more));
            prop_assert_eq!(take_component(&mut reader).unwrap(), a);
            prop_assert_eq!(reader.rest(), &behind[..]);
            skip_component(&mut skipper).unwrap();
            prop_assert_eq!(skipper.rest(), &behind[..]);
        }

        #[test]
        fn any_bytes_are_a_component_in_its_one_form_or_refused(bytes in bytes()) {
            let mut reader = Reader::new(&bytes);
            if let Ok(read) = take_component(&mut reader) {
                prop_assert_eq!(component(&read), &bytes[..reader.position()]);
            }
        }

        #[test]
        fn a_successor_is_the_least_above_a_prefix(prefix in bytes(), other in bytes()) {
            let next = successor(&prefix);
            let above = next.as_ref().is_some_and(|next| other >= *next);
            prop_assert_eq!(above, other > prefix && !other.starts_with(&prefix));
        }

        #[test]
        fn numbers_sort_as_they_are(a: u64, b: u64) {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            put_u64(&mut one, a);
            put_u64(&mut other, b);
            prop_assert_eq!(one.cmp(&other), a.cmp(&b));
            prop_assert_eq!(take_u64(&mut Reader::new(&one)).unwrap(), a);
            let mut short = Vec::new();
            put_u16(&mut short, a as u16);
            prop_assert_eq!(take_u16(&mut Reader::new(&short)).unwrap(), a as u16);
        }
    }
}
