//! Cutting: what a writer notes on its way, so that index and filter of a table that becomes large can be cut by ranges of keys.
//!
//! In:    the places between blocks where a range may end: so many blocks behind the one before, and between two keys.
//! Out:   the ranges of a table of more than twice as many blocks; of any other none, and nothing of it is cut.
//! Holds: no key stands in two ranges, however many versions it has. Nothing is written twice: the body of an index part is a stretch of
//!        the body that the whole index would have.

use super::format::Handle;
use super::index::{Builder, Mark, Range};
use super::top::{Span, sum_of};

/// The ends of ranges so far.
#[derive(Debug)]
pub(super) struct Cutter {
    part_blocks: usize,
    ends: Vec<End>,
}

/// Where a range ends.
#[derive(Debug)]
pub(super) struct End {
    /// How far the index has come.
    pub(super) mark: Mark,
    /// How many keys have been hashed.
    pub(super) hashes: usize,
    /// Where the last block ends.
    pub(super) offset: u64,
    /// The last separator.
    pub(super) bound: Vec<u8>,
}

impl Cutter {
    pub(super) fn new(part_blocks: usize) -> Cutter {
        Cutter { part_blocks: part_blocks.max(1), ends: Vec::new() }
    }

    /// True if there are enough blocks for a range to end behind them.
    #[inline]
    pub(super) fn is_due(&self, index: &Builder) -> bool {
        let before = self.ends.last().map_or(0, |end| end.mark.count);
        (index.count() - before) as usize >= self.part_blocks
    }

    /// A range ends here.
    pub(super) fn end(&mut self, end: End) {
        self.ends.push(end);
    }

    /// The ends of all ranges; none if the table is not to be cut.
    pub(super) fn finish(&mut self, last: End) -> Vec<End> {
        if self.ends.is_empty() || last.mark.count as usize <= 2 * self.part_blocks {
            return Vec::new();
        }
        self.ends.push(last);
        std::mem::take(&mut self.ends)
    }
}

/// Makes the ranges one after the other.
pub(super) struct Ranges<'a> {
    crcs: &'a [u32],
    range: Range,
    mark: Mark,
    hashes: usize,
}

impl<'a> Ranges<'a> {
    /// `crcs`: of all data blocks.
    pub(super) fn new(crcs: &'a [u32]) -> Ranges<'a> {
        Ranges { crcs, range: Range { is_last: false, ..Range::whole() }, mark: Mark::START, hashes: 0 }
    }

    /// The next range, without its parts; the marks between which its part of the index lies, and which hashes its filter is of.
    pub(super) fn next(&mut self, end: End, is_last: bool) -> (Span, (Mark, Mark), std::ops::Range<usize>) {
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
