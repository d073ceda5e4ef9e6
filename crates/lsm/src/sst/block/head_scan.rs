//! Block scan: the data that a search needs from a body with bytewise order, which are entry offsets and heads. See
//! docs/format.md, section 4.2.
//!
//! In:  the body of a checked block.
//! Out: the same facts as `scan_entries`, with the same rejections: every byte is validated, and records must be in
//!      internal order. For a block that is evicted before its second use, this costs little more than the read itself.
//!
//! Keys are neither assembled nor compared. All keys share the common prefix of the first and the last one. After that
//! prefix, heads must ascend. If two heads are equal, which is rare, those two keys are compared in full.

use std::cmp::Ordering;

use super::entry::{BlockEntry, BlockTrailer, checked_seqno};
use super::scan::{companions_end, disordered, long_key, misplaced_restart, shares_too_much, too_long};
use crate::error::Result;
use crate::order::{common_prefix, head};
use crate::record::{MAX_KEY_BYTES, Seqno};

/// The part of an entry that the scan keeps.
#[derive(Clone, Copy, Debug)]
struct EntryPosition {
    /// Offset of the entry.
    at: u32,
    /// Length of the prefix shared with the restart's key.
    shared: u32,
    /// Range of the rest of its key.
    suffix: (u32, u32),
}

/// A body after its first pass.
#[derive(Debug)]
pub(in crate::sst) struct HeadScan<'a> {
    body: &'a [u8],
    base: Seqno,
    shape: BlockTrailer,
    parts: Vec<EntryPosition>,
}

/// A key in two pieces: the prefix from its restart's key, and its own suffix.
#[derive(Clone, Copy)]
struct SplitKey<'a>(&'a [u8], &'a [u8]);

impl SplitKey<'_> {
    /// Returns the length of the common prefix with another key.
    fn common_prefix(self, key: &[u8]) -> usize {
        let start = common_prefix(self.0, key);
        if start < self.0.len() { start } else { start + common_prefix(self.1, &key[start..]) }
    }

    fn compare(self, other: SplitKey<'_>) -> Ordering {
        self.0.iter().chain(self.1).cmp(other.0.iter().chain(other.1))
    }

    /// Returns `head` of the whole key.
    #[inline]
    fn head(self, skip: usize) -> u64 {
        let SplitKey(start, rest) = self;
        match start.get(skip..) {
            None | Some([]) => head(rest, skip - start.len()),
            Some(start) => {
                let own = start.len().min(8);
                let high = head(start, 0);
                if own == 8 { high } else { high | head(rest, 0) >> (own * 8) }
            }
        }
    }
}

impl<'a> HeadScan<'a> {
    /// Performs the first pass. `column` is the length of the companion column, if there is one.
    pub(in crate::sst) fn over(body: &'a [u8], column: Option<usize>, base: Seqno) -> Result<HeadScan<'a>> {
        let shape = BlockTrailer::of(body, column)?;
        let entries = body.get(..shape.entries_end as usize).unwrap_or_default();
        let mut parts = Vec::with_capacity(shape.count as usize);
        let (mut at, mut until_restart, mut restart) = (0, 0, 0);
        for index in 0..shape.count as usize {
            let entry = BlockEntry::read(entries, at)?;
            checked_seqno(&entry, base)?;
            let suffix = entry.value_at - entry.suffix_at;
            if until_restart == 0 {
                if entry.shared != 0 || shape.restart(body, index) != Some(at as u32) {
                    return Err(misplaced_restart());
                }
                (until_restart, restart) = (shape.interval, suffix);
            }
            until_restart -= 1;
            if entry.shared > restart {
                return Err(shares_too_much());
            }
            if entry.shared + suffix > MAX_KEY_BYTES {
                return Err(long_key());
            }
            let suffix = (entry.suffix_at as u32, entry.value_at as u32);
            parts.push(EntryPosition { at: at as u32, shared: entry.shared as u32, suffix });
            at = match column {
                Some(_) => entry.value_end,
                None => companions_end(entries, entry.value_end)?,
            };
        }
        if at == entries.len() { Ok(HeadScan { body, base, shape, parts }) } else { Err(too_long()) }
    }

    /// Returns the body's trailer.
    pub(in crate::sst) fn shape(&self) -> BlockTrailer {
        self.shape
    }

    /// Returns the offset of each entry, and the end of the last one.
    pub(in crate::sst) fn offsets(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().map(|part| part.at).chain([self.shape.entries_end])
    }

    /// Returns the length of the common prefix of all keys, provided that they are in order.
    pub(in crate::sst) fn skip(&self) -> usize {
        self.key(self.parts.len() - 1).common_prefix(self.key(0).1)
    }

    /// Performs the second pass: calls `show` with the heads of all keys, taken after `skip` bytes. Returns true if
    /// some key has more than one version.
    pub(in crate::sst) fn heads(&self, skip: usize, mut show: impl FnMut(u64)) -> Result<bool> {
        let prefix = &self.key(0).1[..skip];
        let (mut before, mut restart): (u64, &[u8]) = (0, &[]);
        let (mut until_restart, mut has_versions) = (0, false);
        for (index, part) in self.parts.iter().enumerate() {
            let suffix = &self.body[part.suffix.0 as usize..part.suffix.1 as usize];
            let begins = if until_restart == 0 {
                (until_restart, restart) = (self.shape.interval, suffix);
                suffix.starts_with(prefix)
            } else {
                // The restart's key was compared already.
                part.shared as usize >= skip || suffix.starts_with(&prefix[part.shared as usize..])
            };
            until_restart -= 1;
            let own = SplitKey(&restart[..part.shared as usize], suffix).head(skip);
            if !begins || own < before {
                return Err(disordered());
            }
            if own == before && index > 0 {
                has_versions |= self.is_version(index)?;
            }
            show(own);
            before = own;
        }
        Ok(has_versions)
    }

    /// Returns whether an entry is an older version of the one before it; an error if they are out of order.
    #[cold]
    #[inline(never)]
    fn is_version(&self, index: usize) -> Result<bool> {
        let seqno =
            |index: usize| checked_seqno(&BlockEntry::read(self.body, self.parts[index].at as usize)?, self.base);
        match self.key(index - 1).compare(self.key(index)) {
            Ordering::Less => Ok(false),
            Ordering::Equal if seqno(index - 1)? > seqno(index)? => Ok(true),
            _ => Err(disordered()),
        }
    }

    fn key(&self, index: usize) -> SplitKey<'a> {
        let (part, restart) = (&self.parts[index], &self.parts[index - index % self.shape.interval as usize]);
        let bytes = |(from, to): (u32, u32)| &self.body[from as usize..to as usize];
        SplitKey(&bytes(restart.suffix)[..part.shared as usize], bytes(part.suffix))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::order::Order;
    use crate::record::{Kind, Record};
    use crate::sst::block::entry::BlockBuilder;
    use crate::sst::block::scan::{KeyBuffer, scan_entries};

    /// Few distinct bytes, so that keys repeat, share prefixes, or are prefixes of each other.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let key = proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(b'b'), Just(255)], 0..24);
        proptest::collection::vec(key, 1..70)
    }

    proptest! {
        #[test]
        fn a_head_of_two_pieces_is_the_head_of_the_whole(start: Vec<u8>, rest: Vec<u8>, skip in 0usize..20) {
            let whole = [&start[..], &rest].concat();
            let skip = skip.min(whole.len());
            prop_assert_eq!(SplitKey(&start, &rest).head(skip), head(&whole, skip));
        }

        #[test]
        fn a_head_scan_accepts_and_rejects_what_an_entry_scan_does(
            mut keys in keys(),
            start in prop_oneof![Just(&b""[..]), Just(&b"the same"[..])],
            is_sorted in prop_oneof![4 => Just(true), 1 => Just(false)],
            interval in 1usize..20,
            hits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3),
        ) {
            if is_sorted {
                keys.sort();
            }
            let mut builder = BlockBuilder::new(interval, 7);
            for (key, seqno) in keys.iter().zip((7..1000).rev()) {
                let key = [start, key].concat();
                let record = Record { key: &key, seqno, kind: Kind::Put, value: b"value", companion: &[] };
                builder.add(&record, &[]);
            }
            let mut body = builder.finish().to_vec();
            for (at, byte) in &hits {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            let (mut walked, mut offsets, mut held) = (Vec::new(), Vec::new(), KeyBuffer::default());
            let shape = scan_entries(&body, None, 7, &Order::bytewise(), &mut held, |at, record| {
                offsets.push(at as u32);
                walked.push(record.key.to_vec());
                Ok(())
            });
            let mut heads = Vec::new();
            let scanned = HeadScan::over(&body, None, 7).and_then(|scan| {
                let has_versions = scan.heads(scan.skip(), |head| heads.push(head))?;
                Ok((scan.shape(), scan.offsets().collect::<Vec<u32>>(), scan.skip(), has_versions))
            });
            prop_assert_eq!(shape.is_ok(), scanned.is_ok());
            if let (Ok(shape), Ok((scan, scanned_offsets, skip, has_versions))) = (shape, scanned) {
                offsets.push(shape.entries_end);
                prop_assert_eq!(has_versions, held.repeats > 0);
                prop_assert_eq!((scan, &scanned_offsets), (shape, &offsets));
                let common = walked.iter().map(|key| common_prefix(&walked[0], key)).min();
                prop_assert_eq!(common, Some(skip));
                prop_assert_eq!(heads, walked.iter().map(|key| head(key, skip)).collect::<Vec<u64>>());
            }
        }
    }
}
