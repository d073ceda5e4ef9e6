//! Fences: where something was lost, every read answers corruption. docs/format.md, section 6.2.
//!
//! A fence spans places in internal order, (user key, seqno) from one to another, both included, and says how new the records
//! may have been that were lost in it: one newer than `bound` was not among them, so it decides as ever. What a block lost while
//! it lies in its file is told by a fence that lives as long as the reading of it; what is lost for good is kept in the manifest.
//!
//! Cursors show a fence as a record of kind `Fence`, at the end of the span by which they reach it.

use std::cmp::Ordering;

use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Damage, Error, Result, Verdict};
use crate::order::Order;
use crate::record::{MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno};

/// A span in which records may have been lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The first place, included.
    pub from: (Vec<u8>, Seqno),
    /// The last place, included; not before the first.
    pub to: (Vec<u8>, Seqno),
    /// No record that was lost is newer.
    pub bound: Seqno,
    /// The file in which they stood.
    pub file: String,
    /// The offset of their block in it. Without a file: the seqno that a damaged record in memory shows.
    pub offset: u64,
    /// What was wrong.
    pub verdict: Verdict,
}

impl Fence {
    /// A fence over all versions of the keys from `low` to `high`, both included.
    pub fn over(low: &[u8], high: &[u8], bound: Seqno, file: &str, verdict: Verdict) -> Fence {
        let (from, to) = ((low.to_vec(), MAX_SEQNO), (high.to_vec(), 0));
        Fence { from, to, bound, file: file.to_owned(), offset: 0, verdict }
    }

    /// A fence over every key there can be. None where the order does not say which key is the last.
    pub fn over_all(order: &Order, bound: Seqno, file: &str, verdict: Verdict) -> Option<Fence> {
        order.is_bytewise().then(|| Fence::over(&[], &[0xFF; MAX_KEY_BYTES], bound, file, verdict))
    }

    /// True if a record at this place may be older than one that was lost, or be missing its newest version: it does not decide.
    pub fn covers(&self, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        seqno <= self.bound && self.may_hide(order, key, self.bound) && {
            // A version that stands behind the span, of the key with which it ends, is older than what was lost.
            order.compare_internal((&self.from.0, self.from.1), (key, seqno)) != Ordering::Greater
        }
    }

    /// `covers`, for a reader who sees nothing above `at`: what was lost may be newer than that.
    pub fn covers_at(&self, order: &Order, key: &[u8], seqno: Seqno, at: Seqno) -> bool {
        self.covers(order, key, seqno) && self.may_hide(order, key, at)
    }

    /// True if a version of `key` not above `seqno` may have been lost here.
    pub fn may_hide(&self, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        let newest = (key, seqno.min(self.bound));
        order.compare_internal((&self.from.0, self.from.1), (key, 0)) != Ordering::Greater
            && order.compare_internal(newest, (&self.to.0, self.to.1)) != Ordering::Greater
    }

    /// The key, if the fence spans versions of no other one.
    pub fn only_key(&self, order: &Order) -> Option<&[u8]> {
        order.compare(&self.from.0, &self.to.0).is_eq().then_some(&self.from.0)
    }

    /// What a read answers inside.
    #[cold]
    pub fn error(&self) -> Error {
        let damage = Damage {
            file: self.file.clone(),
            offset: if self.file.is_empty() { 0 } else { self.offset },
            key_range: Some((self.from.0.clone(), self.to.0.clone())),
            verdict: self.verdict,
            ..Damage::default()
        };
        Error::corruption(damage, "records may have been lost")
    }

    /// The fence that a cursor shows: the record's value has it. One without a value is a record in memory whose kind or lengths were hit, and spans its
    /// own place.
    pub fn shown(record: &Record<'_>) -> Result<Fence> {
        if !record.value.is_empty() {
            return Fence::decode(&mut Reader::new(record.value));
        }
        let place = (record.key.to_vec(), record.seqno);
        let (file, verdict) = (String::new(), Verdict::Structural);
        let offset = record.seqno;
        Ok(Fence { from: place.clone(), to: place, bound: MAX_SEQNO, file, offset, verdict })
    }

    /// Appends the bytes kept in the manifest.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (key, seqno) in [&self.from, &self.to] {
            put_bytes(out, key);
            put_varint(out, *seqno);
        }
        put_varint(out, self.bound);
        put_bytes(out, self.file.as_bytes());
        put_varint(out, self.offset);
        put_varint(out, self.verdict as u64);
    }

    /// Reads them back. What cannot be is refused.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Fence> {
        let place = |reader: &mut Reader<'_>| {
            let key = reader.length_prefixed()?.to_vec();
            let seqno = reader.varint()?;
            match key.len() <= MAX_KEY_BYTES && seqno <= MAX_SEQNO {
                true => Ok((key, seqno)),
                false => Err(Error::structural("a fence at a place where no record can be")),
            }
        };
        let (from, to) = (place(reader)?, place(reader)?);
        let bound = reader.varint()?;
        let file = String::from_utf8(reader.length_prefixed()?.to_vec());
        let file = file.map_err(|_| Error::structural("a file name that is no text"))?;
        let (offset, verdict) = (reader.varint()?, reader.varint()?);
        Ok(Fence { from, to, bound, file, offset, verdict: Verdict::from_number(verdict) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fence(from: (&str, Seqno), to: (&str, Seqno), bound: Seqno) -> Fence {
        let place = |(key, seqno): (&str, Seqno)| (key.as_bytes().to_vec(), seqno);
        let (file, verdict) = ("000001.tbl".to_owned(), Verdict::Seal);
        Fence { from: place(from), to: place(to), bound, file, offset: 64, verdict }
    }

    #[test]
    fn a_fence_hides_what_may_have_stood_in_it_and_nothing_newer() {
        let order = Order::bytewise();
        // Between b@7 and d@4, both of which are whole; nothing above 9 was lost.
        let fence = fence(("b", 6), ("d", 5), 9);
        let cases = [
            ("a", 9, false), // before it
            ("b", 9, true),  // an older version of b may be lost
            ("c", 9, true),
            ("c", 1, true),
            ("d", 9, true),  // a newer version than d@4 may be lost
            ("d", 4, false), // at 4 and below d@4 decides
            ("e", 9, false),
        ];
        for (key, seqno, hidden) in cases {
            assert_eq!(fence.may_hide(&order, key.as_bytes(), seqno), hidden, "{key} at {seqno}");
        }
        for (key, seqno, covered) in [("b", 7, false), ("b", 3, true), ("c", 10, false), ("c", 9, true), ("d", 4, true)]
        {
            assert_eq!(fence.covers(&order, key.as_bytes(), seqno), covered, "{key}@{seqno}");
        }
    }

    #[test]
    fn a_fence_over_all_hides_every_key() {
        let fence = Fence::over_all(&Order::bytewise(), 9, "000001.log", Verdict::Checksum).unwrap();
        let order = Order::bytewise();
        for key in [&b""[..], b"k", &[0xFF; 64], &[0xFF; MAX_KEY_BYTES]] {
            assert!(fence.may_hide(&order, key, 9) && fence.covers(&order, key, 9) && !fence.covers(&order, key, 10));
        }
    }

    proptest! {
        #[test]
        fn fences_come_back(keys: (Vec<u8>, Vec<u8>), seqnos in (0..=MAX_SEQNO, 0..=MAX_SEQNO, 0..=MAX_SEQNO), offset: u64) {
            let (from, to, bound) = seqnos;
            let (file, verdict) = ("000009.tbl".to_owned(), Verdict::Checksum);
            let fence = Fence { from: (keys.0, from), to: (keys.1, to), bound, file, offset, verdict };
            let mut bytes = Vec::new();
            fence.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Fence::decode(&mut reader).unwrap(), fence);
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_a_fence_or_refused(bytes: Vec<u8>) {
            let _ = Fence::decode(&mut Reader::new(&bytes));
        }
    }
}
