//! Partition builder: records, while a table is written, where its index and filter may be partitioned by key range.
//!
//! In:    the possible partition ends, each between two blocks and between two keys, at least `part_blocks` blocks
//!        after the previous end.
//! Out:   the partitions of a table of more than twice `part_blocks` blocks. A smaller table has none, and its index
//!        stays whole.
//! Holds: no key is in two partitions, however many versions it has. Nothing is written twice: the body of an index
//!        partition is a slice of the whole index's body.

use super::index::{Builder, Mark};
use super::range::Range;
use super::top_index::{Span, sum_of};
use crate::sst::block::frame::Handle;

/// The partition ends so far.
#[derive(Debug)]
pub(in crate::sst) struct Cutter {
    part_blocks: usize,
    ends: Vec<End>,
}

/// The end of a partition.
#[derive(Debug)]
pub(in crate::sst) struct End {
    /// Position in the index body.
    pub(in crate::sst) mark: Mark,
    /// Number of keys hashed so far.
    pub(in crate::sst) hashes: usize,
    /// End offset of the last block.
    pub(in crate::sst) offset: u64,
    /// The last separator.
    pub(in crate::sst) bound: Vec<u8>,
}

impl Cutter {
    pub(in crate::sst) fn new(part_blocks: usize) -> Cutter {
        Cutter { part_blocks: part_blocks.max(1), ends: Vec::new() }
    }

    /// Returns true if the current partition has enough blocks to end after the last one.
    #[inline]
    pub(in crate::sst) fn is_due(&self, index: &Builder) -> bool {
        let before = self.ends.last().map_or(0, |end| end.mark.count);
        (index.count() - before) as usize >= self.part_blocks
    }

    /// Ends a partition here.
    pub(in crate::sst) fn end(&mut self, end: End) {
        self.ends.push(end);
    }

    /// Returns the ends of all partitions; empty if the table is not partitioned.
    pub(in crate::sst) fn finish(&mut self, last: End) -> Vec<End> {
        if self.ends.is_empty() || last.mark.count as usize <= 2 * self.part_blocks {
            return Vec::new();
        }
        self.ends.push(last);
        std::mem::take(&mut self.ends)
    }
}

/// Builds the partition ranges in order.
pub(in crate::sst) struct Ranges<'a> {
    crcs: &'a [u32],
    range: Range,
    mark: Mark,
    hashes: usize,
}

impl<'a> Ranges<'a> {
    /// `crcs`: the CRCs of all data blocks.
    pub(in crate::sst) fn new(crcs: &'a [u32]) -> Ranges<'a> {
        Ranges { crcs, range: Range { is_last: false, ..Range::whole() }, mark: Mark::START, hashes: 0 }
    }

    /// Returns the next range (without the handles of its blocks), the marks that delimit its slice of the index, and
    /// the hashes for its filter.
    pub(in crate::sst) fn next(&mut self, end: End, is_last: bool) -> (Span, (Mark, Mark), std::ops::Range<usize>) {
        let (from, hashes) = (std::mem::replace(&mut self.mark, end.mark), self.hashes..end.hashes);
        self.hashes = end.hashes;
        let blocks = from.count as usize..end.mark.count as usize;
        let next = Range { first: blocks.end, offset: end.offset, floor: Some(end.bound.clone()), is_last: false };
        let range = Range { is_last, ..std::mem::replace(&mut self.range, next) };
        let span = Span {
            range,
            blocks: blocks.len(),
            end: end.offset,
            bound: end.bound,
            index: Handle::default(),
            filter: Handle::default(),
            sum: sum_of(self.crcs[blocks].iter().copied()),
        };
        (span, (from, end.mark), hashes)
    }
}
