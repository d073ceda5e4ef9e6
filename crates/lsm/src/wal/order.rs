//! The ordered section: assigns every frame's seqno, place and link under one short mutex.
//!
//! The code that a commit runs here takes no page faults, allocates no memory and makes no system calls. A frame waits
//! for its preconditions (room in the ring, the next segment) before it is ordered; `next_step` decides which apply,
//! from values alone. Fillers (padding before a large frame, the turnover at a segment's end) are frames of the log's
//! own, ordered by the thread that needs them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::checksum::hash;
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, PAGE_BYTES, extent};
use crate::planted;
use crate::record::Seqno;

use super::blocks::{BEHIND, PADDING_BYTES, ReservedBlocks};
use super::frame_ends::FrameEnds;
use super::holds::{HoldId, HoldQueue};
use super::limits::LogLimits;
use super::preallocation::{MOST_READY, PreallocationProgress};
use super::segment::{LogPlace, PAGE, Segment, SegmentEnd};

/// Maximum number of frames that are ordered and not taken: more threads than this cannot commit at once without
/// waiting.
pub(super) const DEPTH: usize = 4096;

/// Minimum length of a turnover frame. Every frame leaves this much room after it in its segment.
const TURNOVER_BYTES: u64 = FRAME_HEADER_BYTES as u64 + 24;

/// Maximum length of a filler's body.
pub(super) const FILLER_BODY_BYTES: usize = PAGE_BYTES + TURNOVER_BYTES as usize;

/// Maximum number of pieces waiting to be drained. Each large frame and each turnover adds one.
const PIECES: usize = 64;

/// A frame that is ordered and not yet taken.
pub(super) struct QueuedFrame<T> {
    pub seqno: Seqno,
    pub count: u64,
    pub offset: u64,
    /// The place after the frame: its end, or the start of the next segment after a turnover.
    pub after: LogPlace,
    /// `None` for a filler.
    pub payload: Option<T>,
}

/// A run of bytes in one segment, either in the ring or written directly to the segment by the committing threads.
pub(super) struct SegmentRun {
    pub segment: Arc<Segment>,
    pub start: u64,
    pub end: u64,
    pub direct: bool,
}

/// The header and position that a frame receives in the ordered section.
pub(super) struct Placement {
    pub sequence: u64,
    pub header: FrameHeader,
    pub offset: u64,
    /// The segment to write the frame to; `None` if it goes to the ring.
    pub direct: Option<Arc<Segment>>,
}

/// A frame of the log's own, not yet copied.
pub(super) struct Filler {
    pub placement: Placement,
    /// The body's first bytes; zeros follow.
    pub head: [u8; 24],
}

/// State of the ordered section.
pub(super) struct FrameOrder<T> {
    pub next_seqno: Seqno,
    /// Where the next frame begins.
    pub end: u64,
    link: u64,
    pub current: Arc<Segment>,
    /// The segments to use next, durable and empty, each beginning at the limit of the previous one.
    pub next: VecDeque<Arc<Segment>>,
    /// All segments that are not retired, oldest first, including the next ones at the end.
    pub live: VecDeque<Arc<Segment>>,
    queue: VecDeque<QueuedFrame<T>>,
    /// Counts of frames ordered, found whole, and taken, since the log was created.
    pub ordered: u64,
    whole_count: u64,
    taken: u64,
    /// The end of the last whole frame.
    pub whole: LogPlace,
    pub pieces: VecDeque<SegmentRun>,
    /// Everything below this offset is in the segments.
    pub drained: u64,
    /// Every frame that begins below this offset is whole in its segment. The ring must keep the bytes from this page
    /// on.
    pub kept: u64,
    pub blocks: ReservedBlocks,
    ends: FrameEnds,
    /// The holds on the order. While there is one, the fast path is off.
    pub holds: HoldQueue,
    /// True while a thread drains.
    pub draining: bool,
    /// Number of threads that wait for a change of this state.
    pub waiting: usize,
    pub closed: bool,
    /// True once the log has left a segment.
    has_rotated: bool,
    /// Commits are synced, so the current segment should be left early (`Segment::good_until`).
    pub wants_written: bool,
    /// End of the fast path's range: a short uncontended batch that ends at or below this offset needs no step but its
    /// placement, because the ring has room and no turnover is due. Any change that could shrink the range resets this
    /// field to zero. A grown range is found when its end is reached.
    pub easy_until: u64,
    /// Buffer in which a filler's body is assembled and hashed.
    scratch: Box<[u8]>,
}

/// The next step for a frame: a precondition to meet, or its placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderStep {
    /// Place the frame at `end`, as this kind.
    Place(FrameKind),
    /// Order a padding frame first, up to this offset.
    Pad(u64),
    /// Order a turnover first, up to this offset.
    Rotate(u64),
    /// Wait until the log is drained up to this offset.
    AwaitDrain(u64),
    /// Wait until blocks are reserved up to this offset.
    AwaitBlocks(u64),
    /// Wait for the next segment, with a file at least this long.
    AwaitSegment(u64),
    /// Wait until frames are taken.
    AwaitTake,
}

/// Returns the end of a filler that begins at `from`: a page boundary, at least `least` bytes later.
pub(super) fn filler_end(from: u64, least: u64) -> u64 {
    (from + least).next_multiple_of(PAGE)
}

/// The values that decide where a frame is placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacementState {
    pub end: u64,
    /// The ring must keep the bytes from this offset on, a page boundary.
    pub kept: u64,
    /// First offset and limit of the current segment.
    pub first: u64,
    pub limit: u64,
    /// A batch that would end after this offset goes to the next segment. At most the limit.
    pub rotate_at: u64,
    /// File length of the next segment; `None` if there is none.
    pub next_length: Option<u64>,
    /// End of the reserved blocks, a page boundary.
    pub reserved: u64,
    pub limits: LogLimits,
}

impl PlacementState {
    /// Returns the next step for a batch of `length` bytes.
    #[inline]
    pub(super) fn next_step(&self, length: u64) -> OrderStep {
        let small = extent(FrameKind::Batch, length);
        let needs_own_segment = small > self.limits.segment_bytes / 4;
        let large = needs_own_segment || (self.limits.ring_bytes > 0 && small > self.limits.ring_bytes / 4);
        let kind = if large { FrameKind::LargeBatch } else { FrameKind::Batch };
        let bytes = extent(kind, length);
        let fits = |start: u64| start + bytes + TURNOVER_BYTES <= self.rotate_at;

        if (needs_own_segment && self.end != self.first) || !fits(self.end) {
            return self.rotate(bytes);
        }
        if large && !self.end.is_multiple_of(PAGE) {
            let padded = filler_end(self.end, PADDING_BYTES);
            return match fits(padded) {
                true => self.with_room(padded, OrderStep::Pad(padded)),
                false => self.rotate(bytes),
            };
        }
        let step = OrderStep::Place(kind);
        let step = if large { step } else { self.with_room(self.end + bytes, step) };
        self.with_blocks(self.end + bytes + BEHIND, step)
    }

    /// Returns the highest end offset of a short frame that goes to the ring without a preceding step.
    fn easy_until(&self) -> u64 {
        let before_rotation = self.rotate_at.saturating_sub(TURNOVER_BYTES);
        before_rotation.min(self.reserved.saturating_sub(BEHIND)).min(self.kept + self.limits.ring_bytes)
    }

    /// Returns the end of a padding frame that can be ordered without waiting; `None` if the log already ends at a page
    /// boundary or the frame would have to wait.
    pub(super) fn padding(&self) -> Option<u64> {
        let padded = filler_end(self.end, PADDING_BYTES);
        let fits = padded + TURNOVER_BYTES <= self.limit;
        (!self.end.is_multiple_of(PAGE)
            && fits
            && self.with_room(padded, OrderStep::Pad(padded)) == OrderStep::Pad(padded))
        .then_some(padded)
    }

    #[cold]
    fn rotate(&self, bytes: u64) -> OrderStep {
        let least = PAGE + bytes + PAGE;
        match self.next_length {
            Some(length) if length >= least => {
                let end = filler_end(self.end, TURNOVER_BYTES);
                self.with_blocks(end, self.with_room(end, OrderStep::Rotate(end)))
            }
            _ => OrderStep::AwaitSegment(least),
        }
    }

    /// Returns `step` if blocks are reserved up to `end`, otherwise the wait for them.
    #[inline]
    fn with_blocks(&self, end: u64, step: OrderStep) -> OrderStep {
        if planted!(BlocksNotReserved, true, end <= self.reserved) { step } else { OrderStep::AwaitBlocks(end) }
    }

    /// Returns `step` if the ring has room up to `end` without overwriting bytes it must keep, otherwise the wait for a
    /// drain.
    #[inline]
    fn with_room(&self, end: u64, step: OrderStep) -> OrderStep {
        let ring = self.limits.ring_bytes;
        if planted!(RingOverwritten, true, ring == 0 || end <= self.kept + ring) {
            return step;
        }
        OrderStep::AwaitDrain(end - ring)
    }
}

impl<T> FrameOrder<T> {
    pub(super) fn new(first: Arc<Segment>, seqno: Seqno, limits: &LogLimits) -> FrameOrder<T> {
        let mut pieces = VecDeque::with_capacity(PIECES);
        pieces.push_back(SegmentRun { segment: first.clone(), start: first.first, end: first.first, direct: false });
        let _ = first.entered.set(seqno);
        FrameOrder {
            next_seqno: seqno,
            end: first.first,
            link: first.nonce,
            whole: first.start(),
            drained: first.first,
            kept: first.first,
            blocks: ReservedBlocks::new(limits.ring_bytes, first.first, first.reserved),
            ends: FrameEnds::new(limits),
            holds: HoldQueue::default(),
            live: VecDeque::from([first.clone()]),
            current: first,
            next: VecDeque::with_capacity(MOST_READY),
            queue: VecDeque::with_capacity(DEPTH),
            ordered: 0,
            whole_count: 0,
            taken: 0,
            pieces,
            draining: false,
            waiting: 0,
            closed: false,
            has_rotated: false,
            wants_written: false,
            easy_until: 0,
            scratch: vec![0; FILLER_BODY_BYTES].into(),
        }
    }

    #[inline]
    pub(super) fn placement_state(&self, limits: LogLimits) -> PlacementState {
        PlacementState {
            end: self.end,
            kept: self.kept,
            first: self.current.first,
            limit: self.current.limit(),
            rotate_at: if self.wants_written && self.next.front().is_some_and(|next| next.is_good()) {
                self.current.good_until()
            } else {
                self.current.limit()
            },
            next_length: self.next.front().map(|next| next.length()),
            reserved: self.blocks.until(),
            limits,
        }
    }

    /// Applies a change of the reserved blocks, which receives them and the log's end.
    pub(super) fn reserved(&mut self, change: impl FnOnce(&mut ReservedBlocks, u64)) {
        change(&mut self.blocks, self.end);
        self.easy_until = 0;
    }

    /// Returns the next step for a batch of `length` bytes.
    #[inline]
    pub(super) fn next_step(&self, length: u64, limits: LogLimits) -> OrderStep {
        // Two entries and two pieces stay free for the fillers that one batch may need.
        if self.queue.len() + 2 >= DEPTH {
            return OrderStep::AwaitTake;
        }
        if self.pieces.len() + 2 >= PIECES {
            return OrderStep::AwaitDrain(self.end);
        }
        self.placement_state(limits).next_step(length)
    }

    /// True if an uncontended batch of `length` bytes goes to the ring without a preceding step. One comparison decides
    /// if enough room is left.
    #[inline(always)]
    pub(super) fn is_easy(&mut self, length: u64, limits: &LogLimits) -> bool {
        let end = self.end + extent(FrameKind::Batch, length);
        end <= self.easy_until && length <= limits.easy_bytes || self.is_placed(length, limits)
    }

    /// Decides the same with the full rules, and on success recomputes the range of the fast path.
    #[inline(never)]
    fn is_placed(&mut self, length: u64, limits: &LogLimits) -> bool {
        if self.holds.is_held() {
            return false;
        }
        let is_placed = self.next_step(length, *limits) == OrderStep::Place(FrameKind::Batch);
        // A frame that does not directly follow the last piece may begin a new piece.
        let follows = self.pieces.back().is_some_and(|last| last.end == self.end && !last.direct);
        if is_placed && follows && limits.ring_bytes > 0 {
            self.easy_until = self.placement_state(*limits).easy_until();
        }
        is_placed
    }

    /// Returns the next step for a turnover to the next segment, regardless of the room left in the current one.
    pub(super) fn rotate_step(&self, limits: LogLimits) -> OrderStep {
        match self.has_room() {
            true => self.placement_state(limits).rotate(0),
            false if self.queue.len() + 2 >= DEPTH => OrderStep::AwaitTake,
            false => OrderStep::AwaitDrain(self.end),
        }
    }

    /// Removes the next segments, which no frame has entered, except the first `but_for`.
    pub(super) fn take_next(&mut self, but_for: usize) -> Vec<Arc<Segment>> {
        let taken = self.next.split_off(but_for.min(self.next.len()));
        self.live.truncate(self.live.len() - taken.len());
        self.easy_until = 0;
        taken.into()
    }

    /// True if the next segment was not zero-filled, so the log would not leave the current one early for it. A segment
    /// extended for a large frame is left for that frame, a short one for the trim.
    pub(super) fn is_next_unwritten(&self, limits: LogLimits) -> bool {
        self.next.front().is_some_and(|next| !next.is_good() && next.length() == limits.segment_bytes)
    }

    /// Appends a segment to the next segments.
    pub(super) fn add_next(&mut self, next: Arc<Segment>) {
        self.live.push_back(next.clone());
        self.next.push_back(next);
        self.easy_until = 0;
    }

    /// Returns the first offset of the segment that will be made next.
    pub(super) fn next_first(&self) -> u64 {
        self.next.back().unwrap_or(&self.current).limit()
    }

    /// Returns the offset of the first batch that waits to be taken; if none waits, the offset of the next batch.
    pub(super) fn taken_up_to(&self) -> u64 {
        let waiting = self.queue.iter().find(|entry| entry.payload.is_some());
        waiting.map_or(self.end, |entry| entry.offset)
    }

    /// Adds a hold, the last one to be served.
    pub(super) fn hold(&mut self) -> HoldId {
        self.easy_until = 0;
        self.holds.push()
    }

    /// True if the queue has room for one more filler.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() + 2 < DEPTH && self.pieces.len() + 2 < PIECES
    }

    /// True if every ordered frame is whole.
    pub(super) fn all_whole(&self) -> bool {
        self.whole_count == self.ordered
    }

    /// Returns the end of a group formed now and the segment that holds that end; the segment is `None` if no whole
    /// frame lies after `synced`.
    pub(super) fn group(&self, synced: LogPlace) -> (LogPlace, Option<Arc<Segment>>) {
        let mut unsynced = self.live.iter().skip_while(|segment| segment.synced.load(Ordering::Relaxed));
        let (oldest, next) = (unsynced.next(), unsynced.next());
        match next {
            Some(next) if self.whole.offset >= next.first => (next.start(), oldest.cloned()),
            _ if self.whole.offset > synced.offset => (self.whole, oldest.cloned()),
            _ => (self.whole, None),
        }
    }

    /// True if the next group ends with a segment that the log has left.
    pub(super) fn leaves_behind(&self) -> bool {
        let mut unsynced = self.live.iter().skip_while(|segment| segment.synced.load(Ordering::Relaxed));
        unsynced.nth(1).is_some_and(|next| self.whole.offset >= next.first)
    }

    /// Notes that commits are synced: the log wants a segment whose blocks were written before, since syncing unwritten
    /// blocks also costs a commit of the file system's journal. A segment that was extended for a large frame is left
    /// to that frame.
    pub(super) fn want_written(&mut self, limits: LogLimits) {
        let is_ordinary = self.current.length() == limits.segment_bytes;
        self.easy_until = 0;
        self.wants_written = is_ordinary && self.current.good_until() < self.current.limit();
    }

    /// Returns the log's progress toward its next segment; `None` if the next segment exists already or will not be
    /// needed.
    pub(super) fn preallocation_progress(&self) -> Option<PreallocationProgress> {
        let (first, limit) = (self.current.first, self.current.limit());
        // The initial zeros cover little of the segment; zeros written ahead of the log cover the rest of this range.
        let good = self.current.good_until().max(first + (limit - first) / 16);
        let good_until = if self.wants_written { good } else { limit };
        let progress = PreallocationProgress { used: self.end - first, good: good_until - first, room: limit - first };
        (self.next.is_empty() && !self.closed).then_some(progress)
    }

    /// True if a next segment exists, fewer than `wanted` do, and at the current pace the log will soon need more: it
    /// has filled one segment already, and an eighth of the current one.
    pub(super) fn wants_more(&self, wanted: usize, limits: LogLimits) -> bool {
        let current = &self.current;
        let is_on_its_way =
            current.length() == limits.segment_bytes && self.end - current.first >= current.length() / 8;
        is_on_its_way && self.has_rotated && (1..wanted).contains(&self.next.len()) && !self.closed
    }

    /// Assigns a batch its seqnos, place and link.
    pub(super) fn place(
        &mut self,
        kind: FrameKind,
        count: u64,
        length: u32,
        body_hash: u64,
        payload: T,
        limits: LogLimits,
    ) -> Placement {
        let direct = limits.ring_bytes == 0 || kind == FrameKind::LargeBatch;
        self.push(kind, count, length, body_hash, Some(payload), direct)
    }

    /// Orders a padding frame up to `until`. It carries the witness.
    pub(super) fn pad(&mut self, until: u64, witness: u64, limits: LogLimits) -> Filler {
        let mut head = [0; 24];
        head[..8].copy_from_slice(&witness.to_le_bytes());
        self.fill(FrameKind::Padding, head, until, limits)
    }

    /// Orders the turnover frame, up to `until`, and continues in the next segment.
    pub(super) fn rotate(&mut self, until: u64, limits: LogLimits) -> Option<Filler> {
        let next = self.next.pop_front()?;
        let mut head = [0; 24];
        head[..8].copy_from_slice(&next.number.to_le_bytes());
        head[8..16].copy_from_slice(&next.nonce.to_le_bytes());
        head[16..].copy_from_slice(&next.first.to_le_bytes());
        let filler = self.fill(FrameKind::Turnover, head, until, limits);
        let _ = self.current.closed.set(SegmentEnd { offset: self.end, link: self.link, next_seqno: self.next_seqno });
        if let Some(entry) = self.queue.back_mut() {
            entry.after = next.start();
        }
        let _ = next.entered.set(self.next_seqno);
        self.end = next.first;
        self.link = next.nonce;
        self.blocks.enter(next.first, next.reserved);
        self.pieces.push_back(SegmentRun { segment: next.clone(), start: next.first, end: next.first, direct: false });
        self.current = next;
        self.has_rotated = true;
        self.wants_written = false;
        self.easy_until = 0;
        Some(filler)
    }

    fn fill(&mut self, kind: FrameKind, head: [u8; 24], until: u64, limits: LogLimits) -> Filler {
        let length = (until - self.end) as usize - FRAME_HEADER_BYTES;
        let headed = length.min(head.len());
        self.scratch[..headed].copy_from_slice(&head[..headed]);
        self.scratch[headed..head.len()].fill(0);
        let body_hash = hash(&self.scratch[..length]);
        let placement = self.push(kind, 0, length as u32, body_hash, None, limits.ring_bytes == 0);
        debug_assert_eq!(self.end, until);
        Filler { placement, head }
    }

    fn push(
        &mut self,
        kind: FrameKind,
        count: u64,
        length: u32,
        body_hash: u64,
        payload: Option<T>,
        direct: bool,
    ) -> Placement {
        if direct {
            self.easy_until = 0; // the next frame begins a new piece
        }
        let (seqno, sequence) = (self.next_seqno, self.ordered);
        let (header, offset, after) = self.chain(kind, count, length, body_hash, direct);
        self.queue.push_back(QueuedFrame { seqno, count, offset, after, payload });
        Placement { sequence, header, offset, direct: direct.then(|| self.current.clone()) }
    }

    /// Places a batch in the ring while no ordered frame waits to be taken. It is whole and taken as soon as the caller
    /// has stored it under the lock it already holds, so no other record of it is needed.
    #[inline]
    pub(super) fn place_fast(&mut self, count: u64, length: u32, body_hash: u64) -> (FrameHeader, u64) {
        debug_assert!(planted!(AlonePassesOthers, true, self.taken == self.ordered));
        let (header, offset, after) = self.chain(FrameKind::Batch, count, length, body_hash, false);
        self.whole_count += 1;
        self.taken += 1;
        self.whole = after;
        (header, offset)
    }

    /// Appends a frame to the chain: returns its header, its offset, and the place after it.
    #[inline(always)]
    fn chain(
        &mut self,
        kind: FrameKind,
        count: u64,
        length: u32,
        body_hash: u64,
        direct: bool,
    ) -> (FrameHeader, u64, LogPlace) {
        let header = FrameHeader::chained(self.link, self.end, kind, self.next_seqno, length, body_hash);
        let (offset, end) = (self.end, self.end + header.extent());
        debug_assert!(end <= self.current.limit());
        match self.pieces.back_mut() {
            Some(last) if last.end == offset && (last.direct == direct || last.start == last.end) => {
                last.end = end;
                last.direct = direct;
            }
            _ => {
                let segment = self.current.clone();
                self.pieces.push_back(SegmentRun { segment, start: offset, end, direct });
            }
        }
        if self.ends.wants(end) && !direct {
            self.ends.push(end);
        }
        let after =
            LogPlace { segment: self.current.number, nonce: self.current.nonce, offset: end, link: header.link };
        self.ordered += 1;
        self.end = end;
        self.link = header.link;
        self.next_seqno += count;
        (header, offset, after)
    }

    /// True if no ordered frame waits to be taken. Whole fillers are taken here, since they are not applied. As with
    /// `take`, one thread at a time.
    #[inline]
    pub(super) fn is_all_taken(&mut self, is_copied: impl Fn(u64) -> bool) -> bool {
        if self.taken < self.ordered {
            self.take_fillers(is_copied);
        }
        planted!(AlonePassesOthers, true, self.taken == self.ordered)
    }

    #[inline(never)]
    fn take_fillers(&mut self, is_copied: impl Fn(u64) -> bool) {
        self.advance(is_copied);
        while self.taken < self.whole_count && self.queue.front().is_some_and(|entry| entry.payload.is_none()) {
            self.take();
        }
    }

    /// Advances the whole offset over all frames for which `is_copied` is true.
    pub(super) fn advance(&mut self, is_copied: impl Fn(u64) -> bool) {
        while self.whole_count < self.ordered && is_copied(self.whole_count) {
            let at = (self.whole_count - self.taken) as usize;
            let Some(entry) = self.queue.get(at) else { break };
            self.whole = entry.after;
            self.whole_count += 1;
        }
        self.skip_written();
    }

    /// Takes the next frame if it is whole.
    pub(super) fn take(&mut self) -> Option<QueuedFrame<T>> {
        if self.taken == self.whole_count {
            return None;
        }
        self.taken += 1;
        self.queue.pop_front()
    }

    /// Marks the log as drained up to `offset`. The ring keeps a frame until all of it is in the segment, and keeps the
    /// page of the last frame end, which is written again later.
    pub(super) fn drained_to(&mut self, offset: u64, is_end: bool) {
        self.drained = self.drained.max(offset);
        if is_end {
            self.kept = self.kept.max(offset / PAGE * PAGE);
            self.ends.forget_up_to(self.drained);
        }
    }

    /// Returns the last known frame end above `drained` and at or below an offset.
    pub(super) fn frame_end_up_to(&self, offset: u64) -> Option<u64> {
        self.ends.last_up_to(offset).filter(|end| *end > self.drained)
    }

    /// Marks as drained the frames that committing threads wrote to the segments directly, and gaps between segments.
    pub(super) fn skip_written(&mut self) {
        let whole = self.whole.offset;
        while let Some((end, direct)) = self.pieces.front().map(|piece| (piece.end, piece.direct)) {
            if direct {
                self.drained_to(end.min(whole), true);
            }
            match self.pieces.get(1).map(|following| following.start) {
                Some(start) if self.drained >= end && whole >= start => self.drained_to(start, true),
                _ => break,
            }
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(ring: u64) -> LogLimits {
        LogLimits { segment_bytes: 32 * PAGE, ring_bytes: ring * PAGE, drain_bytes: PAGE, easy_bytes: 4 * PAGE }
    }

    proptest! {
        /// From any state: with everything drained and a sufficiently long next segment, a batch is placed after at
        /// most two fillers, within its segment, with room for a turnover after it, and without overwriting bytes that
        /// the ring keeps.
        #[test]
        fn a_batch_finds_its_place(words in 0u64..31 * 512, length in 0u64..1 << 20, ring in 4u64..64, mapped: bool, early in 0u64..31, reserved in 0u64..40) {
            let limits = limits(if mapped { ring } else { 0 });
            // The previous batch, which may end within a page, has left blocks reserved.
            let least = if words % 512 == 0 { 0 } else { (words * 8 + BEHIND).next_multiple_of(PAGE) };
            let reserved = least.max(reserved * PAGE);
            let mut at = PlacementState { end: words * 8, kept: 0, first: 0, limit: 31 * PAGE, rotate_at: (31 - early) * PAGE, next_length: None, reserved, limits };
            prop_assume!(at.end + TURNOVER_BYTES <= at.limit);
            let mut fillers = 0;
            for _ in 0..12 {
                at.kept = at.end / PAGE * PAGE;
                match at.next_step(length) {
                    OrderStep::AwaitBlocks(until) => {
                        prop_assert!(until > at.reserved);
                        at.reserved = until.next_multiple_of(PAGE);
                    }
                    OrderStep::AwaitSegment(least) => at.next_length = Some(least.max(limits.segment_bytes)),
                    OrderStep::Pad(end) => {
                        prop_assert!(end >= at.end + PADDING_BYTES && end.is_multiple_of(PAGE) && end < at.end + 2 * PAGE);
                        prop_assert!(end <= at.reserved);
                        at.end = end;
                        fillers += 1;
                    }
                    OrderStep::Rotate(end) => {
                        prop_assert!(end >= at.end + TURNOVER_BYTES && end.is_multiple_of(PAGE) && end <= at.limit);
                        prop_assert!(end <= at.reserved);
                        at.first = at.limit;
                        at.end = at.limit;
                        at.limit = at.first + at.next_length.take().unwrap() - PAGE;
                        at.rotate_at = at.limit;
                        fillers += 1;
                    }
                    OrderStep::Place(kind) => {
                        let end = at.end + extent(kind, length);
                        prop_assert!(end + TURNOVER_BYTES <= at.limit && fillers <= 2);
                        let large = kind == FrameKind::LargeBatch;
                        prop_assert!(!large || at.end.is_multiple_of(PAGE));
                        prop_assert!(large || !mapped || end <= at.kept + limits.ring_bytes);
                        prop_assert!(end + BEHIND <= at.reserved);
                        return Ok(());
                    }
                    step => prop_assert!(false, "{:?} with everything drained", step),
                }
            }
            prop_assert!(false, "no place");
        }

        /// The one-comparison fast path agrees with the full rules.
        #[test]
        fn an_easy_place_is_one_by_all_the_rules(words in 0u64..31 * 512, length in 0u64..4 * PAGE, kept in 0u64..40, early in 0u64..31, reserved in 0u64..40) {
            let limits = limits(32);
            let rotate_at = (31 - early) * PAGE;
            let at = PlacementState { end: words * 8, kept: kept * PAGE, first: 0, limit: 31 * PAGE, rotate_at, next_length: None, reserved: reserved * PAGE, limits };
            let easy = at.end + extent(FrameKind::Batch, length) <= at.easy_until() && length <= limits.easy_bytes;
            prop_assert_eq!(easy, at.next_step(length) == OrderStep::Place(FrameKind::Batch));
        }
    }

    #[test]
    fn a_batch_waits_before_it_would_overwrite_what_is_kept() {
        let (end, limit) = (5 * PAGE, 31 * PAGE);
        let at = PlacementState {
            end,
            kept: PAGE,
            first: 0,
            limit,
            rotate_at: limit,
            next_length: None,
            reserved: u64::MAX,
            limits: limits(4),
        };
        assert_eq!(at.next_step(8), OrderStep::AwaitDrain(PAGE + 32));
        assert_eq!(PlacementState { kept: 2 * PAGE, ..at }.next_step(8), OrderStep::Place(FrameKind::Batch));
        // A large frame bypasses the ring.
        assert_eq!(at.next_step(5000), OrderStep::Place(FrameKind::LargeBatch));
    }
}
