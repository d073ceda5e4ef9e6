//! Which blocks the log may use: parts of the ring, and the current segment up to an offset.
//!
//! In:     the reserved blocks. Out: how far the log may grow, and which part of the ring must be reserved next.
//! Holds:  the ring and the first segment are sparse files. A batch is ordered only if blocks are reserved for it and
//!         for the padding and the turnover that may follow it (`BEHIND`). So a store into the mapping never faults, a
//!         drain never lacks room, and a full disk rejects a commit before it is ordered.
//!
//! No I/O happens here; `supply.rs` does it. The order lock guards the one value of a log.

use crate::frame::FRAME_HEADER_BYTES;

use super::segment::PAGE;

/// Parts of a ring: one bit each.
const PARTS: u64 = 128;

/// Minimum length of a padding frame.
pub(super) const PADDING_BYTES: u64 = FRAME_HEADER_BYTES as u64 + 8;

/// Blocks that each batch leaves reserved after it: enough for padding and a turnover, so these never wait for blocks.
pub(super) const BEHIND: u64 = PAGE + PADDING_BYTES;

/// Initial reservation of a log: 32 KiB with 16 MiB segments, and at least two pages.
pub(super) fn first_bytes(segment_bytes: u64) -> u64 {
    (segment_bytes / 512 / PAGE * PAGE).clamp(2 * PAGE, 8 * PAGE)
}

/// Bytes reserved beyond the immediate need: the size already in use, so that a small log stays small and a growing one
/// reserves rarely. At most 1/32 of a segment (512 KiB of 16 MiB), so that no commit waits long.
pub(super) fn ahead_bytes(used: u64, segment_bytes: u64) -> u64 {
    let least = first_bytes(segment_bytes);
    used.clamp(least, (segment_bytes / 32).max(least))
}

/// Adjacent parts of the ring that have no blocks yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingRun {
    /// Position in the ring.
    pub at: u64,
    /// Bytes.
    pub length: u64,
    parts: u128,
}

/// The reserved blocks of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReservedBlocks {
    capacity: u64,
    /// Bytes of one part of the ring. The last part may be shorter.
    part: u64,
    /// Parts that are ready: reserved, written with zeros, and in memory.
    ready: u128,
    /// End of the blocks of the current segment; `u64::MAX` if the whole file is reserved.
    segment: u64,
    /// The lesser of the limits of ring and segment.
    until: u64,
}

impl ReservedBlocks {
    /// Starts with no part of the ring ready, at log end `end`, in a segment with blocks below `segment`. A ring of 0
    /// bytes (plain mode) needs none.
    pub(super) fn new(capacity: u64, end: u64, segment: u64) -> ReservedBlocks {
        let part = (capacity / PARTS).next_multiple_of(PAGE).max(PAGE);
        let mut blocks = ReservedBlocks { capacity, part, ready: 0, segment: 0, until: 0 };
        blocks.enter(end, segment);
        blocks
    }

    /// Returns the offset up to which the log may grow, a page boundary; `u64::MAX` if every block is reserved.
    #[inline]
    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// Returns the end of the current segment's blocks; `u64::MAX` if the whole file is reserved.
    pub(super) fn segment_until(&self) -> u64 {
        self.segment
    }

    /// Moves the log's end to `end`, in a segment that has blocks below `segment`.
    pub(super) fn enter(&mut self, end: u64, segment: u64) {
        self.segment = segment;
        self.until = segment.min(self.ring_until(end));
    }

    /// Marks these parts of the ring as ready. The log ends at `end`.
    pub(super) fn add(&mut self, run: RingRun, end: u64) {
        self.ready |= run.parts;
        self.enter(end, self.segment);
    }

    /// Returns the first parts of the ring that are not ready for a log growing from `end` to `goal`.
    pub(super) fn missing(&self, end: u64, goal: u64) -> Option<RingRun> {
        let first = self.ring_until(end);
        if first >= goal {
            return None;
        }
        let from = first % self.capacity / self.part;
        let is_wanted = |part: &u64| self.ready & (1 << part) == 0 && first + (part - from) * self.part < goal;
        let behind = (from..self.parts()).take_while(is_wanted).last()? + 1;
        let at = from * self.part;
        let length = (behind * self.part).min(self.capacity) - at;
        Some(RingRun { at, length, parts: (from..behind).map(|part| 1_u128 << part).sum() })
    }

    /// Returns the parts of the ring that may be written to: position and length of each.
    pub(super) fn ready_parts(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let ReservedBlocks { capacity, part, ready, .. } = *self;
        let parts = (0..self.parts()).filter(move |number| ready & (1 << number) != 0);
        parts.map(move |number| (number * part, part.min(capacity - number * part)))
    }

    fn parts(&self) -> u64 {
        self.capacity.div_ceil(self.part)
    }

    /// Returns the offset where the first unready part begins, searching around the ring from `end`: `end` or less if
    /// `end` lies in that part, `u64::MAX` if all parts are ready.
    fn ring_until(&self, end: u64) -> u64 {
        if u64::from(self.ready.count_ones()) == self.parts() {
            return u64::MAX;
        }
        let within = end % self.capacity;
        let (mut round, mut part) = (end - within, within / self.part);
        while self.ready & (1 << part) != 0 {
            part += 1;
            if part == self.parts() {
                (round, part) = (round + self.capacity, 0);
            }
        }
        round + part * self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_ready(blocks: &ReservedBlocks, pages: u64, page: u64) -> bool {
        blocks.ready & (1 << (page % pages * PAGE / blocks.part)) != 0
    }

    proptest! {
        /// Compares with a page-by-page model: the log may grow up to the first unready page, and adding the missing
        /// runs readies every page up to the goal.
        #[test]
        fn ready_parts_are_found_around_the_ring(
            pages in 1u64..500, bits: u128, end in 0u64..2000, span in 0u64..400, segment in 0u64..3000,
        ) {
            let (end, segment) = (end * PAGE, segment * PAGE);
            let mut blocks = ReservedBlocks::new(pages * PAGE, end, segment);
            blocks.ready = bits & (u128::MAX >> (128 - blocks.parts()));
            blocks.enter(end, segment);
            let not_ready = (end / PAGE..end / PAGE + pages).find(|page| !is_ready(&blocks, pages, *page));
            let ring = blocks.ring_until(end);
            match not_ready.map(|page| page * PAGE) {
                None => prop_assert_eq!(ring, u64::MAX),
                Some(first) if first == end => prop_assert!(ring <= end),
                Some(first) => prop_assert_eq!(ring, first),
            }
            prop_assert_eq!(blocks.until(), ring.min(segment));

            let goal = end + span * PAGE;
            let mut runs = 0;
            while let Some(run) = blocks.missing(end, goal) {
                prop_assert!(run.length > 0 && run.at + run.length <= pages * PAGE);
                prop_assert!(run.at.is_multiple_of(PAGE) && run.length.is_multiple_of(PAGE));
                prop_assert_eq!(blocks.ready & run.parts, 0, "prepared twice");
                blocks.add(run, end);
                runs += 1;
            }
            prop_assert!(runs <= PARTS);
            prop_assert!((end / PAGE..goal / PAGE).all(|page| is_ready(&blocks, pages, page)));
            prop_assert!(blocks.until() >= goal.min(segment));
        }
    }

    #[test]
    fn a_log_without_a_ring_depends_on_its_segment_alone() {
        let mut blocks = ReservedBlocks::new(0, 5 * PAGE, 9 * PAGE);
        assert_eq!((blocks.until(), blocks.missing(0, 1 << 30)), (9 * PAGE, None));
        blocks.enter(5 * PAGE, u64::MAX);
        assert_eq!(blocks.until(), u64::MAX);
    }

    #[test]
    fn a_usual_log_begins_with_32_kib_and_asks_for_as_much_as_it_has_used() {
        let (ring, segment) = (4 << 20, 16 << 20);
        assert_eq!((ReservedBlocks::new(ring, 0, 0).part, first_bytes(segment)), (32 << 10, 32 << 10));
        let ahead = [0, 64 << 10, 200 << 10, 1 << 20].map(|used| ahead_bytes(used, segment));
        assert_eq!(ahead, [32 << 10, 64 << 10, 200 << 10, 512 << 10]);
        assert_eq!((first_bytes(4 * PAGE), ahead_bytes(0, 4 * PAGE)), (2 * PAGE, 2 * PAGE));
    }
}
