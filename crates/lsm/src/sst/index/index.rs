//! The index: finds the block that may hold a key. See docs/format.md, section 4.3.
//!
//! In memory, separators are organized in groups. A group stores its separators' common prefix once, and for each
//! separator a head taken after that prefix and the remaining tail. Thus heads decide most comparisons whatever the
//! common prefixes, and a table of long similar keys needs little memory: at most the group size times the bytes in the
//! file.
//!
//! The index of a large table is partitioned (`partitions`); an `Index` is then one partition. Blocks keep their
//! numbers within the table, and the partition also stores the last separator of the previous one. One partition alone
//! therefore determines the block of a key in its range. Partitions are found by the same search (`top_index`).
//!
//! Each group has a checksum in memory over its separators. It is verified when only the index shows that a key is not
//! in a neighbor of the searched block, so that a bit flip in the index hides no record.

use std::cmp::Ordering;

use super::range::IndexRange;
use super::separators::SeparatorReader;
use crate::checksum::{hash, mix};
use crate::codec::{Reader, put_varint};
use crate::error::{Error, Result};
use crate::order::{Order, begins_with, common_prefix, head};
use crate::prefetch::{LINE, prefetch};
use crate::record::MAX_KEY_BYTES;
use crate::sst::block::block::first_not_below;
use crate::sst::block::frame::BlockHandle;

/// Number of separators per group.
const GROUP: usize = 64;

/// Number of heads per cache line.
const HEADS_IN_LINE: usize = LINE / size_of::<u64>();

/// Minimum length of an entry: four varints and a CRC.
const LEAST_ENTRY_BYTES: usize = 8;

/// Builds the body of an index.
#[derive(Debug)]
pub(in crate::sst) struct IndexBuilder {
    body: Vec<u8>,
    before: Vec<u8>,
    count: u32,
}

impl IndexBuilder {
    pub(in crate::sst) fn new() -> IndexBuilder {
        IndexBuilder { body: vec![0; 4], before: Vec::new(), count: 0 }
    }

    /// Adds the separator and handle of the next block.
    pub(in crate::sst) fn add(&mut self, separator: &[u8], handle: &BlockHandle) {
        let shared = common_prefix(&self.before, separator);
        put_varint(&mut self.body, shared as u64);
        put_varint(&mut self.body, (separator.len() - shared) as u64);
        self.body.extend_from_slice(&separator[shared..]);
        put_varint(&mut self.body, handle.stored_len.into());
        put_varint(&mut self.body, handle.raw_len.into());
        self.body.extend_from_slice(&handle.crc.to_le_bytes());
        self.before.clear();
        self.before.extend_from_slice(separator);
        self.count += 1;
    }

    /// Number of blocks so far.
    pub(in crate::sst) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the current position in the body.
    pub(in crate::sst) fn mark(&self) -> IndexMark {
        IndexMark { at: self.body.len(), count: self.count }
    }

    /// Returns the body of the partition between two marks.
    pub(in crate::sst) fn part(&self, from: IndexMark, to: IndexMark) -> Vec<u8> {
        [&(to.count - from.count).to_le_bytes()[..], &self.body[from.at..to.at]].concat()
    }

    /// Returns the body.
    pub(in crate::sst) fn finish(mut self) -> Vec<u8> {
        self.body[..4].copy_from_slice(&self.count.to_le_bytes());
        self.body
    }
}

/// A position between two blocks in an index body.
#[derive(Clone, Copy, Debug)]
pub(in crate::sst) struct IndexMark {
    at: usize,
    pub(in crate::sst) count: u32,
}

impl IndexMark {
    /// The position before the first block.
    pub(in crate::sst) const START: IndexMark = IndexMark { at: 4, count: 0 };
}

/// An index in memory, or one partition of it.
#[derive(Debug)]
pub(in crate::sst) struct Index {
    range: IndexRange,
    /// Heads of all separators, each after its group's common prefix; empty for orders other than bytewise.
    heads: Vec<u64>,
    /// Heads of each group's last separator, after the table's common prefix.
    group_heads: Vec<u64>,
    /// Common prefix of all separators.
    common: Vec<u8>,
    groups: Vec<SeparatorGroup>,
    /// Common prefixes and tails.
    keys: Vec<u8>,
    /// Start of each tail in `keys`, plus the end.
    tails: Vec<u32>,
    handles: Vec<BlockHandle>,
    /// Checksum of each group.
    checks: Vec<u64>,
}

/// Position in `keys` of a group's common prefix.
#[derive(Clone, Copy, Debug)]
struct SeparatorGroup {
    common_at: u32,
    common_len: u32,
}

impl Index {
    /// Reads an index body; `data_end` is the upper limit for the end of the data blocks.
    pub(in crate::sst) fn decode(body: &[u8], order: &Order, data_end: u64) -> Result<Index> {
        Index::decode_part(body, order, data_end, IndexRange::whole())
    }

    /// Reads the body of the partition with this range.
    pub(in crate::sst) fn decode_part(body: &[u8], order: &Order, data_end: u64, range: IndexRange) -> Result<Index> {
        let mut reader = Reader::new(body);
        let count = reader.u32()? as usize;
        if count == 0 || count > reader.remaining() / LEAST_ENTRY_BYTES {
            return Err(Error::structural("an index claims more entries than it can hold"));
        }
        let mut separators = SeparatorReader::new(reader, &range);
        let is_last = range.is_last;
        let mut filling = IndexAssembler::new(range, order, (count, body.len() - count * LEAST_ENTRY_BYTES));
        for at in 0..count {
            let handle = separators.next(at, data_end, order)?;
            filling.add(&separators.last, handle)?;
        }
        separators.finish(is_last)?;
        filling.finish()
    }

    fn add_group(&mut self, separators: &SeparatorRun, order: &Order) -> Result<()> {
        let common = match order.is_bytewise() {
            true => &separators.last()[..common_prefix(separators.first(), separators.last())],
            false => &[],
        };
        let common_at = self.keys_len()?;
        self.keys.extend_from_slice(common);
        self.groups.push(SeparatorGroup { common_at, common_len: common.len() as u32 });
        for separator in separators.iter() {
            let tail_at = self.keys_len()?;
            self.tails.push(tail_at);
            self.keys.extend_from_slice(&separator[common.len()..]);
            if order.is_bytewise() {
                self.heads.push(head(separator, common.len()));
            }
        }
        Ok(())
    }

    fn keys_len(&self) -> Result<u32> {
        u32::try_from(self.keys.len()).map_err(|_| Error::structural("an index of 4 GiB or more"))
    }

    /// Number of data blocks.
    #[inline]
    pub(in crate::sst) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns true if the index is not partitioned.
    #[inline]
    pub(in crate::sst) fn is_whole(&self) -> bool {
        self.range.is_last && self.range.first == 0
    }

    /// Its position in the table.
    pub(in crate::sst) fn range(&self) -> &IndexRange {
        &self.range
    }

    /// One past the number of its last block.
    #[inline]
    pub(in crate::sst) fn end(&self) -> usize {
        self.range.first + self.handles.len()
    }

    /// Returns the handle of a data block.
    pub(in crate::sst) fn handle(&self, number: usize) -> Option<&BlockHandle> {
        self.handles.get(number.checked_sub(self.range.first)?)
    }

    /// Returns all handles, in file order.
    pub(in crate::sst) fn handles(&self) -> &[BlockHandle] {
        &self.handles
    }

    /// End offset of the data blocks.
    pub(in crate::sst) fn data_end(&self) -> u64 {
        self.handles.last().map_or(self.range.offset, BlockHandle::end)
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        let words = self.heads.len() + self.group_heads.len() + self.groups.len();
        (words + self.checks.len()) * 8
            + self.keys.len()
            + self.range.floor.as_ref().map_or(0, Vec::len)
            + self.tails.len() * 4
            + self.handles.len() * size_of::<BlockHandle>()
    }

    /// Returns the first block whose separator is not less than `key`: the only block where versions of `key` can
    /// begin. `end` if there is none.
    #[inline]
    pub(in crate::sst) fn find(&self, key: &[u8], order: &Order) -> usize {
        self.range.first + self.find_here(key, order)
    }

    /// As `find`, counted from the first block of this partition.
    #[inline]
    pub(in crate::sst) fn find_here(&self, key: &[u8], order: &Order) -> usize {
        if !order.is_bytewise() {
            return partition(0, self.len(), |at| order.compare(self.tail(at), key) == Ordering::Less);
        }
        if !begins_with(key, &self.common) {
            return if key < &self.common[..] { 0 } else { self.len() };
        }
        let group = self.find_group(key);
        let (from, to) = (group * GROUP, self.len().min((group + 1) * GROUP));
        let Some(SeparatorGroup { common_at, common_len }) = self.groups.get(group).copied() else {
            return self.len();
        };
        // Prefetch all lines at once: the search would otherwise wait for one cache miss after another.
        self.heads[from..to].iter().step_by(HEADS_IN_LINE).chain(&self.heads[to - 1..to]).for_each(prefetch);
        let common_len = common_len as usize;
        if !self.shares(key, group, common_len) {
            let common = &self.keys[common_at as usize..common_at as usize + common_len];
            if !begins_with(key, common) {
                return if key < common { from } else { to };
            }
        }
        let wanted = head(key, common_len);
        let heads = &self.heads[from..to];
        let low = first_not_below(heads, wanted);
        if heads.get(low) != Some(&wanted) {
            return from + low;
        }
        let equal = heads[low..].iter().take_while(|head| **head == wanted).count();
        let rest = &key[common_len..];
        partition(from + low, from + low + equal, |at| self.tail(at) < rest)
    }

    /// Returns true if `key`, which has the table's common prefix, certainly has the group's common prefix too. This is
    /// decided by the head of the group's last separator, which was just loaded. False means unknown.
    #[inline]
    fn shares(&self, key: &[u8], group: usize, common_len: usize) -> bool {
        let further = common_len.wrapping_sub(self.common.len());
        if further > size_of::<u64>() || key.len() < common_len {
            return false;
        }
        let other = head(key, self.common.len()) ^ self.group_heads[group];
        other.leading_zeros() as usize >= further * 8
    }

    /// Returns the first group whose last separator is not less than a key that has the table's common prefix.
    fn find_group(&self, key: &[u8]) -> usize {
        let wanted = head(key, self.common.len());
        let low = first_not_below(&self.group_heads, wanted);
        if self.group_heads.get(low) != Some(&wanted) {
            return low;
        }
        let equal = self.group_heads[low..].partition_point(|head| *head == wanted);
        partition(low, low + equal, |group| {
            let (common, tail) = self.bound_parts(group);
            let start = key.get(..common.len()).unwrap_or(key);
            common.cmp(start).then_with(|| tail.cmp(&key[start.len()..])) == Ordering::Less
        })
    }

    /// Returns whether a key must be in block `number` if it is not in the block before. `follows`: the block before
    /// was searched and ends with the key. Uses only separators whose checksum matches.
    pub(in crate::sst) fn proves(&self, number: usize, key: &[u8], follows: bool, order: &Order) -> bool {
        let behind = |number: usize| self.compare_checked(number, key, order);
        let starts = follows || number.checked_sub(1).is_none_or(|left| behind(left) == Some(Ordering::Less));
        // No block follows the table's last separator.
        let ends = match number == self.end() {
            true => self.range.is_last,
            false => behind(number).is_some_and(|order| order != Ordering::Less),
        };
        starts && ends
    }

    /// Returns true if a key is in the range of this partition, according to bytes that the search for the partition
    /// did not read.
    pub(in crate::sst) fn holds(&self, key: &[u8], order: &Order) -> bool {
        let above = self.range.floor.as_ref().is_none_or(|floor| order.compare(floor, key) == Ordering::Less);
        above && (self.range.is_last || self.compare_last(key, order) != Ordering::Less)
    }

    /// Returns false if the block before `number` may end with a version of `key`.
    pub(in crate::sst) fn begins_at(&self, number: usize, key: &[u8], order: &Order) -> bool {
        let Some(left) = number.checked_sub(1) else { return true };
        let Some(here) = left.checked_sub(self.range.first) else {
            return self.compare_checked(left, key, order) == Some(Ordering::Less);
        };
        let SeparatorGroup { common_at, common_len } = self.groups[here / GROUP];
        let common = self.keys.get(common_at as usize..).and_then(|rest| rest.get(..common_len as usize));
        // Nearly always the head shows that the separator is less, and the head matches the separator's bytes.
        if let (Some(common), Some(tail)) = (common, self.tail_in(here))
            && order.is_bytewise()
            && begins_with(key, common)
        {
            let own = head(tail, 0);
            if own < head(key, common.len()) && self.heads.get(here) == Some(&own) {
                return true;
            }
        }
        self.compare_checked(left, key, order) == Some(Ordering::Less)
    }

    /// Returns true if all parts of the index are consistent.
    pub(in crate::sst) fn is_sound(&self, order: &Order) -> bool {
        let groups = 0..self.groups.len();
        let heads = |group: usize| {
            let common = self.groups[group].common_len as usize;
            (group * GROUP..self.len().min((group + 1) * GROUP)).all(|at| {
                let own = self.tail_in(at).map(|tail| head(tail, 0));
                let first = self.heads.get(at).copied();
                let bound = self.group_heads.get(group).copied();
                let is_last = at + 1 == self.len().min((group + 1) * GROUP);
                own == first
                    && (!is_last || bound == Some(head(&self.bound(group), self.common.len())))
                    && common <= MAX_KEY_BYTES
            })
        };
        groups.clone().all(|group| self.is_checked(group))
            && (!order.is_bytewise() || groups.clone().all(heads))
            && groups.clone().all(|group| self.bound(group).starts_with(&self.common))
    }

    /// Compares the separator of a block with a key, if its group's checksum matches. Also works for the block before
    /// the first one.
    fn compare_checked(&self, number: usize, key: &[u8], order: &Order) -> Option<Ordering> {
        let Some(here) = number.checked_sub(self.range.first) else {
            let floor = self.range.floor.as_ref().filter(|_| number + 1 == self.range.first && self.is_checked(0))?;
            return Some(order.compare(floor, key));
        };
        if here >= self.len() || !self.is_checked(here / GROUP) {
            return None;
        }
        Some(self.compare_here(here, key, order))
    }

    /// Compares the last separator with a key.
    fn compare_last(&self, key: &[u8], order: &Order) -> Ordering {
        self.compare_here(self.len() - 1, key, order)
    }

    fn compare_here(&self, here: usize, key: &[u8], order: &Order) -> Ordering {
        if !order.is_bytewise() {
            return order.compare(self.tail(here), key); // the tail is the whole separator
        }
        let SeparatorGroup { common_at, common_len } = self.groups[here / GROUP];
        let common = self.keys.get(common_at as usize..common_at as usize + common_len as usize).unwrap_or_default();
        let start = key.get(..common.len()).unwrap_or(key);
        common.cmp(start).then_with(|| self.tail(here).cmp(&key[start.len()..]))
    }

    fn is_checked(&self, group: usize) -> bool {
        self.checks.get(group) == Some(&self.check_of(group))
    }

    /// Computes a checksum over the separators of a group, their positions, and the handles of their blocks.
    fn check_of(&self, group: usize) -> u64 {
        let (from, to) = (group * GROUP, self.len().min((group + 1) * GROUP));
        let SeparatorGroup { common_at, common_len } = self.groups[group];
        let bytes = self.keys.get(common_at as usize..self.tail_end(to - 1)).unwrap_or_default();
        let tails = self.tails[from..to].iter().map(|tail| u64::from(*tail));
        let handles = self.handles[from..to].iter().flat_map(|handle| {
            [handle.offset, u64::from(handle.stored_len) << 32 | u64::from(handle.raw_len), u64::from(handle.crc)]
        });
        let floor = self.range.floor.as_ref().filter(|_| group == 0).map_or(0, |floor| mix(hash(floor)));
        let start = hash(bytes) ^ u64::from(common_len) ^ floor;
        tails.chain(handles).fold(start, |sum, word| mix(sum ^ word).rotate_left(1))
    }

    #[inline]
    fn tail(&self, at: usize) -> &[u8] {
        self.tail_in(at).unwrap_or_default()
    }

    /// Returns `None` only if memory was corrupted since the index was read.
    #[inline]
    fn tail_in(&self, at: usize) -> Option<&[u8]> {
        self.keys.get(self.tails[at] as usize..self.tail_end(at))
    }

    /// Flips bits of a separator's head, a group's head, or a byte of the separators. For tests of corruption
    /// detection.
    pub(in crate::sst) fn damage(&mut self, at: usize, mask: u64) {
        let count = self.heads.len() + self.group_heads.len();
        let at = at % (count + self.keys.len()).max(1);
        match self.heads.iter_mut().chain(&mut self.group_heads).nth(at) {
            Some(head) => *head ^= mask,
            None => {
                if let Some(byte) = self.keys.get_mut(at - count) {
                    *byte ^= mask as u8;
                }
            }
        }
    }

    /// Returns the end of a tail: the start of the next tail, or of the next group's common prefix.
    fn tail_end(&self, at: usize) -> usize {
        match self.groups.get((at + 1) / GROUP) {
            Some(group) if (at + 1).is_multiple_of(GROUP) => group.common_at as usize,
            _ => self.tails[at + 1] as usize,
        }
    }

    /// Returns the last separator of a group in two pieces.
    fn bound_parts(&self, group: usize) -> (&[u8], &[u8]) {
        let SeparatorGroup { common_at, common_len } = self.groups[group];
        let common = self.keys.get(common_at as usize..(common_at + common_len) as usize).unwrap_or_default();
        (common, self.tail(self.len().min((group + 1) * GROUP) - 1))
    }

    fn bound(&self, group: usize) -> Vec<u8> {
        let (common, tail) = self.bound_parts(group);
        [common, tail].concat()
    }

    /// Returns the separator of a block, or of the block before the first one.
    pub(in crate::sst) fn separator(&self, number: usize) -> Vec<u8> {
        let Some(here) = number.checked_sub(self.range.first) else {
            return self.range.floor.clone().unwrap_or_default();
        };
        let SeparatorGroup { common_at, common_len } = self.groups[here / GROUP];
        let common = &self.keys[common_at as usize..(common_at + common_len) as usize];
        [common, self.tail(here)].concat()
    }
}

/// Builds an index from separators and handles in order.
pub(in crate::sst) struct IndexAssembler<'a> {
    index: Index,
    group: SeparatorRun,
    order: &'a Order,
}

impl IndexAssembler<'_> {
    /// Creates an empty one, with capacity for `count` separators of `bytes` bytes in total.
    pub(in crate::sst) fn new(range: IndexRange, order: &Order, (count, bytes): (usize, usize)) -> IndexAssembler<'_> {
        let index = Index {
            range,
            heads: Vec::with_capacity(if order.is_bytewise() { count } else { 0 }),
            group_heads: Vec::new(),
            common: Vec::new(),
            groups: Vec::with_capacity(count.div_ceil(GROUP)),
            keys: Vec::with_capacity(bytes),
            tails: Vec::with_capacity(count + 1),
            handles: Vec::with_capacity(count),
            checks: Vec::new(),
        };
        IndexAssembler { index, group: SeparatorRun::default(), order }
    }

    pub(in crate::sst) fn add(&mut self, separator: &[u8], handle: BlockHandle) -> Result<()> {
        self.index.handles.push(handle);
        self.group.push(separator);
        if self.group.ends.len() == GROUP { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> Result<()> {
        if !self.group.ends.is_empty() {
            self.index.add_group(&self.group, self.order)?;
            self.group.clear();
        }
        Ok(())
    }

    /// Returns the index. Errors: it has no entries.
    pub(in crate::sst) fn finish(mut self) -> Result<Index> {
        self.end_group()?;
        let mut index = self.index;
        let Some(last) = index.groups.len().checked_sub(1) else {
            return Err(Error::structural("an index of nothing"));
        };
        index.tails.push(index.keys_len()?);
        if self.order.is_bytewise() {
            let (first, last) = (index.separator(index.range.first), index.bound(last));
            index.common = first[..common_prefix(&first, &last)].to_vec();
            let skip = index.common.len();
            index.group_heads = (0..index.groups.len()).map(|group| head(&index.bound(group), skip)).collect();
        }
        index.keys.shrink_to_fit();
        index.checks = (0..index.groups.len()).map(|group| index.check_of(group)).collect();
        Ok(index)
    }
}

/// Returns the first position of the range for which `below` is false, or `to`.
fn partition(from: usize, to: usize, below: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Separators of one group, concatenated in a reusable buffer.
#[derive(Default)]
struct SeparatorRun {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl SeparatorRun {
    fn push(&mut self, separator: &[u8]) {
        self.bytes.extend_from_slice(separator);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, to)| &self.bytes[from..*to])
    }

    fn first(&self) -> &[u8] {
        self.iter().next().unwrap_or_default()
    }

    fn last(&self) -> &[u8] {
        let from = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before]);
        &self.bytes[from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Comparator;
    use proptest::prelude::*;
    use std::sync::Arc;

    struct Reverse;

    impl Comparator for Reverse {
        fn name(&self) -> &str {
            "reverse"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }

    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let key = proptest::collection::vec(proptest::sample::select(vec![0u8, b'a', b'b', 0xff]), 0..20);
        let prefix = proptest::sample::select(vec![&b""[..], b"a long common prefix", b"\0\0"]);
        (prefix, proptest::collection::vec(key, 1..300))
            .prop_map(|(prefix, keys)| keys.iter().map(|key| [prefix, key].concat()).collect())
    }

    fn built(keys: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = IndexBuilder::new();
        for key in keys {
            builder.add(key, &BlockHandle { stored_len: 100, raw_len: 120, ..BlockHandle::default() });
        }
        builder.finish()
    }

    proptest! {
        #[test]
        fn finds_what_a_search_over_whole_keys_finds(mut keys in keys(), probes in keys(), reverse: bool) {
            let order = if reverse { Order::custom(Arc::new(Reverse)) } else { Order::bytewise() };
            keys.sort_by(|a, b| order.compare(a, b));
            let index = Index::decode(&built(&keys), &order, u64::MAX).unwrap();
            prop_assert_eq!(index.len(), keys.len());
            prop_assert!(index.is_sound(&order));
            for (at, key) in keys.iter().enumerate() {
                prop_assert_eq!(&index.separator(at), key);
                prop_assert_eq!(index.handles()[at].offset, 64 + 105 * at as u64);
            }
            for probe in probes.iter().chain(&keys).chain([&vec![]]) {
                let expected = keys.partition_point(|key| order.compare(key, probe) == Ordering::Less);
                prop_assert_eq!(index.find(probe, &order), expected, "{:?}", probe);
                for number in [0, expected.saturating_sub(1), expected, (expected + 1).min(keys.len())] {
                    prop_assert_eq!(index.proves(number, probe, false, &order), number == expected, "{:?}", probe);
                    let begins = number == 0 || order.compare(&keys[number - 1], probe) == Ordering::Less;
                    prop_assert_eq!(index.begins_at(number, probe, &order), begins, "{:?} {}", probe, number);
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Index::decode(&bytes, &Order::bytewise(), 1 << 20);
        }
    }

    /// An order on keys of exactly eight bytes.
    struct Words;

    impl Comparator for Words {
        fn name(&self) -> &str {
            "words"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            assert!(a.len() == 8 && b.len() == 8, "bytes that are no key");
            a.cmp(b)
        }
    }

    #[test]
    fn a_comparator_is_shown_nothing_but_keys() {
        let order = Order::custom(Arc::new(Words));
        let keys: Vec<Vec<u8>> = (0..200u64).map(|n| n.swap_bytes().to_le_bytes().to_vec()).collect();
        let index = Index::decode(&built(&keys), &order, u64::MAX).unwrap();
        assert!(
            (0..200u64).all(|n| index.find(&n.swap_bytes().to_le_bytes(), &order) as u64 == n)
                && index.is_sound(&order)
        );
        let mut falling = keys;
        falling.swap(70, 71);
        assert!(Index::decode(&built(&falling), &order, u64::MAX).is_err());
    }

    /// A few bytes can repeat a key of 65,533 bytes: a file of 3 MB would decode to an index of 8 GB.
    #[test]
    fn a_separator_longer_than_the_keys_beside_it_is_refused() {
        let long = vec![b'k'; 65_533];
        let read = |blocks: &[(&[u8], u32)], range: IndexRange| {
            let mut builder = IndexBuilder::new();
            for (key, raw_len) in blocks {
                builder.add(
                    key,
                    &BlockHandle { stored_len: raw_len.div_ceil(255), raw_len: *raw_len, ..BlockHandle::default() },
                );
            }
            Index::decode_part(&builder.finish(), &Order::bytewise(), u64::MAX, range).is_ok()
        };
        let whole = IndexRange::whole;
        assert!(read(&[(b"a", 100), (&long, 65_533), (&long, 65_533)], whole()), "it stands in its block");
        assert!(read(&[(&long, 100), (b"l", 65_533)], whole()), "in the next one");
        assert!(!read(&[(&long, 100), (b"l", 65_532)], whole()) && !read(&[(&long, 65_532)], whole()), "in none");
        assert!(!read(&[(&long, 65_533), (&long, 100), (&long, 100)], whole()), "nor here, again and again");
        assert!(read(&[(&long, 100)], IndexRange { is_last: false, ..whole() }), "in the next part");
    }

    #[test]
    fn a_block_outside_of_the_file_is_refused() {
        let body = built(&[b"a".to_vec(), b"b".to_vec()]);
        assert!(Index::decode(&body, &Order::bytewise(), 64 + 210).is_ok());
        assert!(Index::decode(&body, &Order::bytewise(), 64 + 209).is_err());
    }
}
