//! Range deletes: one record that deletes every older record of the keys from a start up to an end. See
//! docs/format.md, section 5.2.
//!
//! In the log it is a record of kind `RangeDelete`: the key is the start, the value has the end. A memtable keeps it
//! beside its records, and a flush moves it into the manifest, never into a table. It stays there until no table holds
//! a record that it hides.

use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::order::Order;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno, companion};

/// The value's first byte: the value continues with the end of the range.
const HAS_END: u8 = 1;
/// The value's first byte: the range begins before all keys, and the record's key is empty.
const NO_START: u8 = 2;

/// A range delete, with the companions of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeDelete {
    /// The first key that it deletes; `None`: the range begins before all keys.
    pub start: Option<Vec<u8>>,
    /// The first key after the range; `None`: the range ends after all keys.
    pub end: Option<Vec<u8>>,
    /// The seqno. Records with a lower one are deleted.
    pub seqno: Seqno,
    /// The companions of the record.
    pub companion: Vec<u8>,
}

impl RangeDelete {
    /// Returns the range delete that a record holds. Errors: `Corruption` if the value is not that of a range delete.
    pub fn of(record: &Record<'_>) -> Result<RangeDelete> {
        let (start, end) = bounds_of(record.key, record.value)?;
        let [start, end] = [start, end].map(|key| key.map(<[u8]>::to_vec));
        Ok(RangeDelete { start, end, seqno: record.seqno, companion: record.companion.to_vec() })
    }

    /// Passes the record to `visit`.
    pub fn with_record<T>(&self, visit: impl FnOnce(&Record<'_>) -> T) -> T {
        let value = encode_bounds(self.start.as_deref(), self.end.as_deref());
        let key = self.start.as_deref().unwrap_or_default();
        visit(&Record { key, seqno: self.seqno, kind: Kind::RangeDelete, value: &value, companion: &self.companion })
    }

    /// Returns true if the range can hold no key.
    pub fn is_empty(&self, order: &Order) -> bool {
        self.start.as_ref().zip(self.end.as_ref()).is_some_and(|(start, end)| order.compare(start, end).is_ge())
    }

    /// Returns true if the range holds a key.
    pub fn holds(&self, order: &Order, key: &[u8]) -> bool {
        is_within(order, (self.start.as_deref(), self.end.as_deref()), key)
    }

    /// Returns true if the range holds a key from `smallest` to `largest`, both included.
    pub fn overlaps(&self, order: &Order, smallest: &[u8], largest: &[u8]) -> bool {
        self.start.as_ref().is_none_or(|start| order.compare(start, largest).is_le())
            && self.end.as_ref().is_none_or(|end| order.compare(smallest, end).is_lt())
    }

    /// Appends the bytes stored in the manifest.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.seqno);
        put_bytes(out, self.start.as_deref().unwrap_or_default());
        put_bytes(out, &encode_bounds(self.start.as_deref(), self.end.as_deref()));
        put_bytes(out, &self.companion);
    }

    /// Decodes those bytes; rejects invalid ones.
    pub fn decode(reader: &mut Reader<'_>) -> Result<RangeDelete> {
        let seqno = reader.varint()?;
        let (key, value) = (reader.length_prefixed()?, reader.length_prefixed()?);
        let companion = reader.length_prefixed()?;
        let mut rest = Reader::new(companion);
        let is_whole = companion::take(&mut rest).is_ok() && rest.is_empty();
        match seqno <= MAX_SEQNO && key.len() <= MAX_KEY_BYTES && is_whole && companion.len() <= companion::MAX_BYTES {
            true => RangeDelete::of(&Record { key, seqno, kind: Kind::RangeDelete, value, companion }),
            false => Err(Error::structural("a range delete that no batch can hold")),
        }
    }
}

/// Returns the value of a range delete's record. Its key is the start, or empty without a start.
pub fn encode_bounds(start: Option<&[u8]>, end: Option<&[u8]>) -> Vec<u8> {
    let no_start = if start.is_none() { NO_START } else { 0 };
    match end {
        Some(end) => [&[no_start | HAS_END], end].concat(),
        None => vec![no_start],
    }
}

/// The start and the end of a range; `None` for an unbounded side.
pub type RangeBounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Returns true if a key lies within bounds.
pub fn is_within(order: &Order, (start, end): RangeBounds<'_>, key: &[u8]) -> bool {
    start.is_none_or(|start| order.compare(start, key).is_le()) && end.is_none_or(|end| order.compare(key, end).is_lt())
}

/// Returns start and end of the range delete with this key and value. Errors: `Corruption` for any other value.
pub fn bounds_of<'a>(key: &'a [u8], value: &'a [u8]) -> Result<RangeBounds<'a>> {
    let bad = || Error::structural("the value of a range delete is none");
    let (flags, end) = value.split_first().ok_or_else(bad)?;
    let (has_start, has_end) = (flags & NO_START == 0, flags & HAS_END != 0);
    let is_right = flags & !(HAS_END | NO_START) == 0
        && (has_start || key.is_empty())
        && (has_end || end.is_empty())
        && end.len() <= MAX_KEY_BYTES;
    if is_right { Ok((has_start.then_some(key), has_end.then_some(end))) } else { Err(bad()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    pub(crate) fn range_deletes() -> impl Strategy<Value = RangeDelete> {
        let key = || option::of(vec(any::<u8>(), 0..9));
        let companion = option::of(any::<[u8; 8]>());
        (key(), key(), 0..=MAX_SEQNO, companion).prop_map(|(start, end, seqno, seal)| {
            let companion = seal.map(|seal| [&[companion::WORD8], &seal[..]].concat()).unwrap_or_default();
            RangeDelete { start, end, seqno, companion }
        })
    }

    proptest! {
        #[test]
        fn range_deletes_come_back(range in range_deletes()) {
            let mut bytes = Vec::new();
            range.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(&RangeDelete::decode(&mut reader).unwrap(), &range);
            prop_assert!(reader.is_empty());
            prop_assert_eq!(range.with_record(RangeDelete::of).unwrap(), range);
        }

        #[test]
        fn any_bytes_are_a_range_delete_or_refused(bytes: Vec<u8>) {
            let _ = RangeDelete::decode(&mut Reader::new(&bytes));
        }
    }

    #[test]
    fn a_range_holds_its_start_and_not_its_end() {
        let order = Order::bytewise();
        let range = |start: Option<&str>, end: Option<&str>| {
            let [start, end] = [start, end].map(|key| key.map(|key| key.as_bytes().to_vec()));
            RangeDelete { start, end, seqno: 7, companion: Vec::new() }
        };
        let held = |range: &RangeDelete| ["a", "b", "c", "d"].map(|key| range.holds(&order, key.as_bytes()));
        assert_eq!(held(&range(Some("b"), Some("c"))), [false, true, false, false]);
        assert_eq!(held(&range(None, Some("c"))), [true, true, false, false]);
        assert_eq!(held(&range(Some("c"), None)), [false, false, true, true]);
        let overlaps =
            |from: &str, to: &str| range(Some("b"), Some("d")).overlaps(&order, from.as_bytes(), to.as_bytes());
        assert_eq!(
            [overlaps("a", "b"), overlaps("a", "aa"), overlaps("c", "x"), overlaps("d", "x")],
            [true, false, true, false]
        );
    }
}
