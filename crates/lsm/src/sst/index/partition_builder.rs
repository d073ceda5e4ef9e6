//! Partition builder: records, while a table is written, where its index and filter may be partitioned by key range.
//!
//! In:    the possible partition ends, each between two blocks and between two keys, at least `part_blocks` blocks
//!        after the previous end.
//! Out:   the partitions of a table of more than twice `part_blocks` blocks. A smaller table has none, and its index
//!        stays whole.
//! Holds: no key is in two partitions, however many versions it has. Nothing is written twice: the body of an index
//!        partition is a slice of the whole index's body.

use super::index::{IndexBuilder, IndexMark};
use super::range::IndexRange;
use super::top_index::{PartitionEntry, sum_of};
use crate::sst::block::frame::BlockHandle;

/// The partition ends so far.
#[derive(Debug)]
pub(in crate::sst) struct PartitionBuilder {
    part_blocks: usize,
    ends: Vec<PartitionEnd>,
}

/// The end of a partition.
#[derive(Debug)]
pub(in crate::sst) struct PartitionEnd {
    /// Position in the index body.
    pub(in crate::sst) mark: IndexMark,
    /// Number of keys hashed so far.
    pub(in crate::sst) hashes: usize,
    /// End offset of the last block.
    pub(in crate::sst) offset: u64,
    /// The last separator.
    pub(in crate::sst) bound: Vec<u8>,
}

impl PartitionBuilder {
    pub(in crate::sst) fn new(part_blocks: usize) -> PartitionBuilder {
        PartitionBuilder { part_blocks: part_blocks.max(1), ends: Vec::new() }
    }

    /// Returns true if the current partition has enough blocks to end after the last one.
    #[inline]
    pub(in crate::sst) fn is_due(&self, index: &IndexBuilder) -> bool {
        let before = self.ends.last().map_or(0, |end| end.mark.count);
        (index.count() - before) as usize >= self.part_blocks
    }

    /// Ends a partition here.
    pub(in crate::sst) fn end(&mut self, end: PartitionEnd) {
        self.ends.push(end);
    }

    /// Returns the ends of all partitions; empty if the table is not partitioned.
    pub(in crate::sst) fn finish(&mut self, last: PartitionEnd) -> Vec<PartitionEnd> {
        if self.ends.is_empty() || last.mark.count as usize <= 2 * self.part_blocks {
            return Vec::new();
        }
        self.ends.push(last);
        std::mem::take(&mut self.ends)
    }
}

/// Builds the partition ranges in order.
pub(in crate::sst) struct PartitionRanges<'a> {
    crcs: &'a [u32],
    range: IndexRange,
    mark: IndexMark,
    hashes: usize,
}

impl<'a> PartitionRanges<'a> {
    /// `crcs`: the CRCs of all data blocks.
    pub(in crate::sst) fn new(crcs: &'a [u32]) -> PartitionRanges<'a> {
        PartitionRanges {
            crcs,
            range: IndexRange { is_last: false, ..IndexRange::whole() },
            mark: IndexMark::START,
            hashes: 0,
        }
    }

    /// Returns the next range (without the handles of its blocks), the marks that delimit its slice of the index, and
    /// the hashes for its filter.
    pub(in crate::sst) fn next(
        &mut self,
        end: PartitionEnd,
        is_last: bool,
    ) -> (PartitionEntry, (IndexMark, IndexMark), std::ops::Range<usize>) {
        let (from, hashes) = (std::mem::replace(&mut self.mark, end.mark), self.hashes..end.hashes);
        self.hashes = end.hashes;
        let blocks = from.count as usize..end.mark.count as usize;
        let next = IndexRange { first: blocks.end, offset: end.offset, floor: Some(end.bound.clone()), is_last: false };
        let range = IndexRange { is_last, ..std::mem::replace(&mut self.range, next) };
        let span = PartitionEntry {
            range,
            blocks: blocks.len(),
            end: end.offset,
            bound: end.bound,
            index: BlockHandle::default(),
            filter: BlockHandle::default(),
            sum: sum_of(self.crcs[blocks].iter().copied()),
        };
        (span, (from, end.mark), hashes)
    }
}
