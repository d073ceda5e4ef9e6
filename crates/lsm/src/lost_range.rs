//! Lost ranges: every read of a key range in which records were lost returns corruption. See docs/format.md,
//! section 6.2.
//!
//! A lost range spans positions (user key, seqno) in internal order, both ends included. Its `bound` is the maximum
//! seqno of the lost records: a newer record was not among them and is read normally. While a damaged block is still in
//! its file, its lost ranges exist in memory only. Permanently lost ranges are stored in the manifest.
//!
//! Cursors return a lost range as a record of kind `Fence`, at the end of the range that they reach first.

use std::cmp::Ordering;

use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Damage, Error, Result, Verdict};
use crate::order::Order;
use crate::record::{MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno};

/// A range in which records may have been lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The first position, included.
    pub from: (Vec<u8>, Seqno),
    /// The last position, included; not before the first.
    pub to: (Vec<u8>, Seqno),
    /// Upper bound of the lost records' seqnos.
    pub bound: Seqno,
    /// The file that held them.
    pub file: String,
    /// The offset of their block in it. Without a file: the seqno shown by a damaged record in memory.
    pub offset: u64,
    /// The kind of damage.
    pub verdict: Verdict,
}

impl LostRange {
    /// Creates a lost range of all versions of the keys from `low` to `high`, both included.
    pub fn over(low: &[u8], high: &[u8], bound: Seqno, file: &str, verdict: Verdict) -> LostRange {
        let (from, to) = ((low.to_vec(), MAX_SEQNO), (high.to_vec(), 0));
        LostRange { from, to, bound, file: file.to_owned(), offset: 0, verdict }
    }

    /// Creates a lost range of all possible keys. `None` if the order does not define a last key.
    pub fn over_all(order: &Order, bound: Seqno, file: &str, verdict: Verdict) -> Option<LostRange> {
        order.is_bytewise().then(|| LostRange::over(&[], &[0xFF; MAX_KEY_BYTES], bound, file, verdict))
    }

    /// Returns true if a record at this position may be older than a lost one, or may lack its newest version. It then
    /// does not decide a read.
    pub fn covers(&self, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        seqno <= self.bound && self.may_hide(order, key, self.bound) && {
            // A version of the range's last key that is after the range is older than the lost records.
            order.compare_internal((&self.from.0, self.from.1), (key, seqno)) != Ordering::Greater
        }
    }

    /// As `covers`, for a reader at seqno `at`: lost records may be newer than that.
    pub fn covers_at(&self, order: &Order, key: &[u8], seqno: Seqno, at: Seqno) -> bool {
        self.covers(order, key, seqno) && self.may_hide(order, key, at)
    }

    /// Returns true if a version of `key` not above `seqno` may have been lost here.
    pub fn may_hide(&self, order: &Order, key: &[u8], seqno: Seqno) -> bool {
        let newest = (key, seqno.min(self.bound));
        order.compare_internal((&self.from.0, self.from.1), (key, 0)) != Ordering::Greater
            && order.compare_internal(newest, (&self.to.0, self.to.1)) != Ordering::Greater
    }

    /// Returns the key, if the range spans versions of a single key.
    pub fn only_key(&self, order: &Order) -> Option<&[u8]> {
        order.compare(&self.from.0, &self.to.0).is_eq().then_some(&self.from.0)
    }

    /// Returns the error for reads within the range.
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

    /// Decodes the lost range from the record that a cursor returned. A record without a value is a record in memory
    /// whose kind or lengths are damaged; its range is its own position.
    pub fn shown(record: &Record<'_>) -> Result<LostRange> {
        if !record.value.is_empty() {
            return LostRange::decode(&mut Reader::new(record.value));
        }
        let place = (record.key.to_vec(), record.seqno);
        let (file, verdict) = (String::new(), Verdict::Structural);
        let offset = record.seqno;
        Ok(LostRange { from: place.clone(), to: place, bound: MAX_SEQNO, file, offset, verdict })
    }

    /// Appends the bytes stored in the manifest.
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

    /// Decodes those bytes; rejects invalid ones.
    pub fn decode(reader: &mut Reader<'_>) -> Result<LostRange> {
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
        Ok(LostRange { from, to, bound, file, offset, verdict: Verdict::from_number(verdict) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lost_range(from: (&str, Seqno), to: (&str, Seqno), bound: Seqno) -> LostRange {
        let place = |(key, seqno): (&str, Seqno)| (key.as_bytes().to_vec(), seqno);
        let (file, verdict) = ("000001.tbl".to_owned(), Verdict::Seal);
        LostRange { from: place(from), to: place(to), bound, file, offset: 64, verdict }
    }

    #[test]
    fn a_fence_hides_what_may_have_stood_in_it_and_nothing_newer() {
        let order = Order::bytewise();
        // Between b@7 and d@4, which are both intact; nothing above 9 was lost.
        let lost_range = lost_range(("b", 6), ("d", 5), 9);
        let cases = [
            ("a", 9, false), // before it
            ("b", 9, true),  // an older version of b may be lost
            ("c", 9, true),
            ("c", 1, true),
            ("d", 9, true),  // a version newer than d@4 may be lost
            ("d", 4, false), // at 4 and below d@4 decides
            ("e", 9, false),
        ];
        for (key, seqno, hidden) in cases {
            assert_eq!(lost_range.may_hide(&order, key.as_bytes(), seqno), hidden, "{key} at {seqno}");
        }
        for (key, seqno, covered) in [("b", 7, false), ("b", 3, true), ("c", 10, false), ("c", 9, true), ("d", 4, true)]
        {
            assert_eq!(lost_range.covers(&order, key.as_bytes(), seqno), covered, "{key}@{seqno}");
        }
    }

    #[test]
    fn a_fence_over_all_hides_every_key() {
        let lost_range = LostRange::over_all(&Order::bytewise(), 9, "000001.log", Verdict::Checksum).unwrap();
        let order = Order::bytewise();
        for key in [&b""[..], b"k", &[0xFF; 64], &[0xFF; MAX_KEY_BYTES]] {
            assert!(
                lost_range.may_hide(&order, key, 9)
                    && lost_range.covers(&order, key, 9)
                    && !lost_range.covers(&order, key, 10)
            );
        }
    }

    proptest! {
        #[test]
        fn fences_come_back(keys: (Vec<u8>, Vec<u8>), seqnos in (0..=MAX_SEQNO, 0..=MAX_SEQNO, 0..=MAX_SEQNO), offset: u64) {
            let (from, to, bound) = seqnos;
            let (file, verdict) = ("000009.tbl".to_owned(), Verdict::Checksum);
            let lost_range = LostRange { from: (keys.0, from), to: (keys.1, to), bound, file, offset, verdict };
            let mut bytes = Vec::new();
            lost_range.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(LostRange::decode(&mut reader).unwrap(), lost_range);
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_a_fence_or_refused(bytes: Vec<u8>) {
            let _ = LostRange::decode(&mut Reader::new(&bytes));
        }
    }
}
