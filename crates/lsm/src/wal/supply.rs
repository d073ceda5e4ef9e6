//! The supply of space: the next segments, the retired ones, and reserved blocks.
//!
//! In:     the step that a frame waits for (`OrderStep`), or the log lane's look-ahead. Out: a next segment in
//!         `FrameOrder::next`, or a larger `FrameOrder::blocks`.
//! Holds:  a segment is durable and named in the directory before the order sees it, so a turnover costs no I/O. Blocks
//!         count as reserved only after the file system has allocated them. A failure leaves the log unchanged, except
//!         that a failed sync halts it.
//! Crash:  files that no edit names are deleted by the next open: a file under construction, a next segment that no
//!         frame has entered, a retired segment.
//!
//! `prepare` keeps one empty segment ready. Its first logical offset is the end of the current segment's file, however
//! much of that file is used. `preallocation.rs` decides when the work is due. A frame that needs a segment or blocks
//! gets them itself, unless the log lane did so earlier.
//!
//! A segment is retired in two steps: `Wal::retirable` returns the segments that are not needed below an offset, and
//! `recycle` releases them only after the manifest has durably dropped them.
//!
//! The trim releases the log's preallocated disk space: in an idle store the whole space, on a full disk most. It
//! continues the log in a short, empty segment. The first frame after it requests a segment of the usual length, which
//! is made like the first one of a store: reserved, with only its front written. Retired segments accumulate again over
//! time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::env::Env;
use crate::env::work::lock;
use crate::error::Result;
use crate::planted;
use crate::record::Seqno;

use super::blocks::{ahead_bytes, first_bytes};
use super::order::{FrameOrder, OrderStep};
use super::preallocation::{LEAST_READY, PACE_NANOS, PreallocationProgress, ready_wanted};
use super::segment::{PAGE, Segment, SegmentError, SegmentMaker, SegmentResult, UnfinishedSegment, ZERO_BYTES};
use super::stream::FrameStream;

/// Maximum number of retired segments kept for reuse.
const POOL: usize = 3;

/// Returns the number of the next file.
pub type Numbers = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Sources of the next segment.
#[derive(Debug, Default)]
struct RetiredSegments {
    /// Segments that are retired and not yet reused.
    segments: Vec<Arc<Segment>>,
    /// A new segment under construction.
    unfinished: Option<UnfinishedSegment>,
    /// First offset of the segment during which the disk had no room for a segment ahead.
    no_room_at: Option<u64>,
    /// Time of the last pace measurement, and the number of turnovers until then.
    pace: (u64, u64),
}

/// Makes segments, recycles them, and reserves blocks.
pub(super) struct SegmentSupply {
    env: Env,
    dir: PathBuf,
    numbers: Numbers,
    maker: SegmentMaker,
    /// Held while blocks are reserved.
    reserving: Mutex<()>,
    /// Held while a segment is prepared.
    retired: Mutex<RetiredSegments>,
    /// Bytes written of the segment file under construction.
    made: AtomicU64,
    /// Number of segments to keep ready if commits are not synced.
    ready_wanted: AtomicUsize,
    /// Set by the last check if work on the next segment is due.
    wanted: AtomicBool,
    /// No frame in the ring has a lower seqno. Changes under the order lock.
    ring_oldest: AtomicU64,
}

impl SegmentSupply {
    /// Starts without spare segments. `seqno` is the first one of the log.
    pub(super) fn new(env: &Env, dir: &Path, maker: SegmentMaker, numbers: Numbers, seqno: Seqno) -> SegmentSupply {
        SegmentSupply {
            env: env.clone(),
            dir: dir.to_owned(),
            numbers,
            maker,
            reserving: Mutex::default(),
            retired: Mutex::default(),
            made: AtomicU64::new(0),
            ready_wanted: AtomicUsize::new(LEAST_READY),
            wanted: AtomicBool::new(false),
            ring_oldest: AtomicU64::new(seqno),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Performs the work that a step requires, or waits if another thread is already doing it.
    pub(super) fn provide<T>(&self, stream: &FrameStream<T>, step: OrderStep, first_time: bool) -> Result<()> {
        let count = |counter: &AtomicU64| counter.fetch_add(first_time as u64, Ordering::Relaxed);
        match step {
            OrderStep::Place(_) | OrderStep::Pad(_) | OrderStep::Rotate(_) => Ok(()),
            OrderStep::AwaitBlocks(until) => self.reserve(stream, until),
            OrderStep::AwaitSegment(length) => {
                count(&stream.metrics.waits_for_segment);
                self.prepare_at_least(stream, length).map(drop)
            }
            OrderStep::AwaitDrain(until) => {
                count(&stream.metrics.waits_for_room);
                stream.make_room(until)
            }
            OrderStep::AwaitTake => {
                count(&stream.metrics.waits_for_queue);
                stream.await_take()
            }
        }
    }

    /// Reserves blocks up to an offset, and further blocks in advance if the disk has room.
    pub(super) fn reserve<T>(&self, stream: &FrameStream<T>, until: u64) -> Result<()> {
        let ahead = reserve_ahead_bytes(stream, &stream.order.lock());
        match self.reserve_up_to(stream, until, until + ahead) {
            Err(error) if error.is_out_of_space() => self.reserve_up_to(stream, until, until),
            reserved => reserved,
        }
    }

    /// Reserves blocks before a batch needs them. Returns true if it did. A full disk is not an error here: the batch
    /// that lacks the blocks reports it.
    pub(super) fn reserve_ahead<T>(&self, stream: &FrameStream<T>) -> Result<bool> {
        let until = {
            let order = stream.order.lock();
            let until = order.end + reserve_ahead_bytes(stream, &order) / 2;
            if order.closed || order.blocks.until() >= until {
                return Ok(false);
            }
            until
        };
        match self.reserve(stream, until) {
            Err(error) if error.is_out_of_space() => Ok(false),
            reserved => reserved.map(|()| true),
        }
    }

    /// Reserves blocks up to `goal`, unless another thread has meanwhile reserved them up to `until`.
    pub(super) fn reserve_up_to<T>(&self, stream: &FrameStream<T>, until: u64, goal: u64) -> Result<()> {
        let _one_at_a_time = lock(&self.reserving);
        stream.check()?;
        let (segment, segment_until) = {
            let order = stream.order.lock();
            if order.blocks.until() >= until {
                return Ok(());
            }
            (order.current.clone(), order.blocks.segment_until())
        };
        if segment_until < goal {
            let reserved = segment.reserve(goal)?;
            let mut order = stream.order.lock();
            if Arc::ptr_eq(&order.current, &segment) {
                order.reserved(|blocks, end| blocks.enter(end, reserved));
            }
        }
        loop {
            let missing = {
                let order = stream.order.lock();
                order.blocks.missing(order.end, goal)
            };
            let Some(run) = missing else { return Ok(()) };
            stream.ring.prepare(run.at, run.length)?;
            stream.order.lock().reserved(|blocks, end| blocks.add(run, end));
        }
    }

    /// True if work on one more next segment is due, given that `enough` suffice.
    pub(super) fn is_due<T>(&self, stream: &FrameStream<T>, enough: usize) -> bool {
        self.is_wanted(stream, &stream.order.lock(), enough)
    }

    fn is_wanted<T>(&self, stream: &FrameStream<T>, order: &FrameOrder<T>, enough: usize) -> bool {
        let is_of_no_use = order.is_next_unwritten(stream.limits) && stream.expects_syncs();
        let more = || order.wants_more(self.ready_wanted(stream).min(enough), stream.limits);
        is_of_no_use
            || order.preallocation_progress().map_or_else(more, |progress| self.is_piece_due(stream, &progress))
    }

    /// Returns whether the last check found work due, and resets the flag. In most calls this is one atomic load.
    #[inline]
    pub(super) fn take_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Publishes whether work on the next segment is due, for readers without the lock.
    pub(super) fn publish_wanted<T>(&self, stream: &FrameStream<T>, order: &FrameOrder<T>) {
        self.wanted.store(self.is_wanted(stream, order, LEAST_READY), Ordering::Relaxed);
    }

    /// Runs the check whenever the log passes a multiple of 1/16 of a segment. `from` is the previous end of the log.
    /// Without drains and syncs no other code triggers the check.
    pub(super) fn check_progress<T>(&self, stream: &FrameStream<T>, order: &FrameOrder<T>, from: u64) {
        let step = stream.limits.segment_bytes / 16;
        if from / step != order.end / step {
            self.publish_wanted(stream, order);
        }
    }

    /// True if the next piece of the next segment is due.
    fn is_piece_due<T>(&self, stream: &FrameStream<T>, progress: &PreallocationProgress) -> bool {
        let length = stream.limits.segment_bytes;
        if progress.room + PAGE < length {
            return progress.used >= progress.room / 8; // the rest of a short segment lasts until the next one is ready
        }
        let (made, crowd) = (self.made.load(Ordering::Relaxed), stream.groups.crowd.load(Ordering::Relaxed));
        progress.due(length, crowd) >= length.min(made + ZERO_BYTES as u64)
    }

    /// Returns how many next segments are wanted. If zeros are written, making one already takes enough disk time;
    /// further ones are not begun before their turn.
    fn ready_wanted<T>(&self, stream: &FrameStream<T>) -> usize {
        if stream.expects_syncs() { 1 } else { self.ready_wanted.load(Ordering::Relaxed) }
    }

    /// Measures how fast the log grows.
    fn measure_pace<T>(&self, stream: &FrameStream<T>, retired: &mut RetiredSegments) {
        let (now, turnovers) = (self.env.clock.monotonic_nanos(), stream.metrics.turnovers.load(Ordering::Relaxed));
        let (since, before) = retired.pace;
        if now.saturating_sub(since) >= PACE_NANOS {
            self.ready_wanted.store(ready_wanted(turnovers - before, now - since), Ordering::Relaxed);
            retired.pace = (now, turnovers);
        }
    }

    /// Continues work on the next segment: writes one piece of a new file, finishes it, or begins the segment after it.
    /// Returns true if it did any work.
    pub(super) fn prepare_some<T>(&self, stream: &FrameStream<T>) -> Result<bool> {
        let mut retired = lock(&self.retired);
        stream.check()?;
        self.measure_pace(stream, &mut retired);
        self.drop_unwritten(stream);
        let order = stream.order.lock();
        let has_next = !order.next.is_empty();
        let wants_more = order.wants_more(self.ready_wanted(stream), stream.limits);
        let (at, first) = (order.current.first, order.next_first());
        drop(order);
        if has_next {
            if !wants_more || retired.no_room_at == Some(at) {
                return Ok(false);
            }
            let made = self.make(stream, &mut retired, first, stream.limits.segment_bytes);
            return match halting(stream, made) {
                // The segment is not needed yet: other work that needs room continues.
                Err(error) if error.is_out_of_space() && !stream.has_failed() => {
                    retired.no_room_at = Some(at);
                    Ok(false)
                }
                made => made.map(|next| {
                    stream.order.lock().add_next(next);
                    true
                }),
            };
        }
        let length = stream.limits.segment_bytes;
        if fitting(&retired, length).is_none() {
            let unfinished = match retired.unfinished.take() {
                Some(unfinished) => unfinished,
                None => self.maker.begin(&self.env, &self.dir, (self.numbers)(), length)?,
            };
            if self.maker.has_to_fill(&unfinished) && stream.expects_syncs() && !is_short(stream) {
                self.publish_made(&retired);
                let (unfinished, bytes) = halting(stream, self.maker.fill_some(&self.env, &self.dir, unfinished))?;
                stream.metrics.zeroed_bytes.fetch_add(bytes, Ordering::Relaxed);
                let is_whole = unfinished.filled == length;
                retired.unfinished = Some(unfinished);
                self.publish_made(&retired);
                if !is_whole {
                    return Ok(true);
                }
            } else {
                retired.unfinished = Some(unfinished);
            }
        }
        drop(retired);
        self.prepare(stream)
    }

    /// Discards next segments that were made before any thread waited for syncs: their blocks were never written, which
    /// makes syncs slow.
    fn drop_unwritten<T>(&self, stream: &FrameStream<T>) {
        if !stream.expects_syncs() {
            return;
        }
        let mut order = stream.order.lock();
        let unwritten = if order.is_next_unwritten(stream.limits) { order.take_next(0) } else { Vec::new() };
        drop(order);
        unwritten.iter().for_each(|segment| self.remove(segment.number));
    }

    /// Makes the whole next segment ready. Returns true if it was not ready before.
    pub(super) fn prepare<T>(&self, stream: &FrameStream<T>) -> Result<bool> {
        self.prepare_at_least(stream, stream.limits.segment_bytes)
    }

    /// Makes the next segment ready, with a file at least `length` bytes long.
    pub(super) fn prepare_at_least<T>(&self, stream: &FrameStream<T>, length: u64) -> Result<bool> {
        let mut retired = lock(&self.retired);
        stream.check()?;
        let (short, first) = {
            let mut order = stream.order.lock();
            if order.next.front().is_some_and(|next| next.length() >= length) {
                return Ok(false);
            }
            // The segments after an extended one would have to begin at other offsets.
            let keeps = planted!(BehindLongerKept, super::preallocation::MOST_READY, 1);
            retired.segments.extend(order.take_next(keeps));
            (order.next.pop_front(), order.current.limit())
        };
        let made = match &short {
            Some(next) => {
                self.shed(stream, &mut retired, 0); // the extension may need their disk space
                self.maker.extend(&self.env, next, length).map(|()| next.clone())
            }
            None => self.make(stream, &mut retired, first, length),
        };
        let (next, outcome) = match made {
            Ok(next) => (Some(next), Ok(true)),
            Err(SegmentError::Unchanged(error)) => (short.clone(), Err(error)),
            Err(SegmentError::Sync(error)) => return Err(stream.halt(error)),
        };
        let mut order = stream.order.lock();
        if let Some(next) = next {
            if short.is_none() {
                order.live.push_back(next.clone());
            }
            order.next.push_front(next);
            order.easy_until = 0;
        }
        stream.wake_waiting(&order);
        outcome
    }

    fn make<T>(
        &self,
        stream: &FrameStream<T>,
        retired: &mut RetiredSegments,
        first: u64,
        length: u64,
    ) -> SegmentResult<Arc<Segment>> {
        let length = length.max(stream.limits.segment_bytes);
        self.shed(stream, retired, POOL);
        let unfinished = match fitting(retired, length) {
            Some(at) => {
                let old = retired.segments.swap_remove(at);
                stream.metrics.segments_recycled.fetch_add(1, Ordering::Relaxed);
                self.maker.reuse(&self.env, &self.dir, &old, (self.numbers)())?
            }
            None => match retired.unfinished.take() {
                Some(unfinished) => unfinished,
                None => self.maker.begin(&self.env, &self.dir, (self.numbers)(), length)?,
            },
        };
        self.publish_made(retired);
        if !unfinished.is_used_again {
            stream.metrics.segments_made.fetch_add(1, Ordering::Relaxed);
        }
        // A segment made for one large frame is rarely reused.
        let is_filled = length == stream.limits.segment_bytes && stream.expects_syncs();
        let filled = match is_filled {
            true if is_short(stream) => stream.limits.first_zeros(),
            true => length,
            false => 0,
        };
        if self.maker.has_to_fill(&unfinished) {
            let zeros = filled.saturating_sub(unfinished.filled);
            stream.metrics.zeroed_bytes.fetch_add(zeros, Ordering::Relaxed);
        }
        self.maker.finish(&self.env, &self.dir, unfinished, first, length, filled).map(Arc::new)
    }

    /// Publishes how much of the file under construction is written.
    fn publish_made(&self, retired: &RetiredSegments) {
        let made = retired.unfinished.as_ref().map_or(0, |unfinished| unfinished.filled);
        self.made.store(made, Ordering::Relaxed);
    }

    /// Removes retired segments except up to `most` of the standard length. Returns the number removed.
    fn shed<T>(&self, stream: &FrameStream<T>, retired: &mut RetiredSegments, most: usize) -> usize {
        let (mut kept, before) = (0, retired.segments.len());
        retired.segments.retain(|segment| {
            let keep = segment.length() == stream.limits.segment_bytes && kept < most;
            kept += keep as usize;
            if !keep {
                self.remove(segment.number);
            }
            keep
        });
        before - retired.segments.len()
    }

    /// Releases retired segments. The manifest must have durably dropped them.
    pub(super) fn recycle<T>(&self, stream: &FrameStream<T>, numbers: &[u64]) {
        let mut retired = lock(&self.retired);
        let mut order = stream.order.lock();
        while let Some(oldest) = order.live.front().filter(|oldest| numbers.contains(&oldest.number)) {
            retired.segments.push(oldest.clone());
            order.live.pop_front();
        }
        drop(order);
        self.retry_removals();
        self.shed(stream, &mut retired, POOL);
    }

    /// Leaves retired segments to the change feed: their files stay. Bytes behind the last frame are given back, as far as
    /// the file system does so. The manifest must durably keep the segments.
    pub(super) fn hand_over<T>(&self, stream: &FrameStream<T>, numbers: &[u64]) {
        let _retired = lock(&self.retired);
        let mut order = stream.order.lock();
        let mut kept = Vec::new();
        while let Some(oldest) = order.live.front().filter(|oldest| numbers.contains(&oldest.number)) {
            kept.push(oldest.clone());
            order.live.pop_front();
        }
        drop(order);
        for segment in kept {
            if let Some(end) = segment.closed.get() {
                let _ = segment.file.set_len(PAGE + end.offset - segment.first); // `erase_log` tries again, and syncs
            }
        }
    }

    /// Rotates to a short segment, unless the log is at the beginning of one. Returns true if it did. Concurrent
    /// commits are neither lost nor delayed.
    pub(super) fn rotate_short<T>(&self, stream: &FrameStream<T>) -> Result<bool> {
        let Some(first) = self.make_short(stream)? else { return Ok(false) };
        let filler = loop {
            let mut order = stream.order.lock();
            if order.closed || order.current.first >= first {
                break None; // a commit has rotated to it already
            }
            match order.rotate_step(stream.limits) {
                OrderStep::Rotate(until) => break order.rotate(until, stream.limits),
                step => {
                    drop(order);
                    self.provide(stream, step, false)?;
                }
            }
        };
        if let Some(filler) = filler {
            stream.metrics.turnovers.fetch_add(1, Ordering::Relaxed);
            stream.copy_filler(&filler)?;
        }
        stream.advance(&mut stream.order.lock());
        Ok(true)
    }

    /// Makes a short segment the next one, and returns its first offset.
    fn make_short<T>(&self, stream: &FrameStream<T>) -> Result<Option<u64>> {
        let retired = lock(&self.retired); // one segment is made at a time
        stream.check()?;
        let length = stream.limits.short_bytes();
        let (spare, first) = {
            let mut order = stream.order.lock();
            let is_short = order.end == order.current.first && order.current.length() <= length;
            if is_short || order.closed {
                return Ok(None);
            }
            (order.take_next(0), order.current.limit())
        };
        spare.iter().for_each(|spare| self.remove(spare.number));
        let blocks = first_bytes(stream.limits.segment_bytes);
        let file = ((self.numbers)(), first, length);
        let made = self.maker.sparse(&self.env, &self.dir, file, blocks, stream.expects_syncs());
        let short = Arc::new(halting(stream, made)?);
        stream.metrics.segments_made.fetch_add(1, Ordering::Relaxed);
        let mut order = stream.order.lock();
        order.add_next(short);
        stream.wake_waiting(&order);
        drop(order);
        drop(retired);
        Ok(Some(first))
    }

    /// Removes all files kept for future writes: retired segments, the next ones, and one under construction; and those
    /// that could not be removed before. The log makes new ones as needed.
    pub(super) fn give_back<T>(&self, stream: &FrameStream<T>) {
        let mut retired = lock(&self.retired);
        if let Some(unfinished) = retired.unfinished.take() {
            self.publish_made(&retired);
            self.remove(unfinished.number);
        }
        let next = stream.order.lock().take_next(0);
        next.iter().for_each(|next| self.remove(next.number));
        self.shed(stream, &mut retired, 0);
        self.retry_removals();
    }

    /// Removes the files kept beyond the next segment, or beyond the file that it can be made of, since commits may
    /// need it at any time. The room is needed by a table flush, after which the log needs less. No other segment is
    /// made ahead while the current one is being written. Returns true if any file was removed.
    pub(super) fn give_back_spare<T>(&self, stream: &FrameStream<T>) -> bool {
        let mut retired = lock(&self.retired);
        let mut order = stream.order.lock();
        let behind = order.take_next(1);
        retired.no_room_at = Some(order.current.first);
        let kept = usize::from(order.next.is_empty() && retired.unfinished.is_none());
        drop(order);
        behind.iter().for_each(|next| self.remove(next.number));
        let has_shed = self.shed(stream, &mut retired, kept) > 0;
        self.retry_removals() || has_shed || !behind.is_empty()
    }

    /// Returns the least seqno of a frame in the log's files: in live segments, in files kept for future writes, behind
    /// the frames of a file that is used again, and in the ring, whether recovery needs the frame or not. `None` if
    /// they hold no operation.
    pub(super) fn oldest_seqno<T>(&self, stream: &FrameStream<T>) -> Option<Seqno> {
        let retired = lock(&self.retired);
        let order = stream.order.lock();
        if !self.maker.left.is_empty() {
            return Some(0);
        }
        let segments = order.live.iter().chain(&retired.segments).filter_map(|segment| segment.contents(order.end));
        let ring = (stream.ring.capacity > 0).then(|| self.ring_oldest.load(Ordering::Relaxed));
        let oldest = segments.map(|contents| contents.oldest).chain(ring).min();
        oldest.filter(|oldest| *oldest < order.next_seqno)
    }

    /// Overwrites the frames in the ring that the log does not need any more, durably. Commits wait meanwhile: about
    /// 0.2 ms for a ring of 4 MiB. A failed sync halts the log (I09): the ring also holds acknowledged frames that are
    /// not drained, and a page that was not written may revert to its old contents.
    pub(super) fn erase_ring<T>(&self, stream: &FrameStream<T>) -> Result<()> {
        stream.drain()?;
        self.overwrite_ring(stream);
        match stream.ring.capacity {
            0 => Ok(()),
            _ => stream.ring.sync().map_err(|error| stream.halt(error)),
        }
    }

    fn overwrite_ring<T>(&self, stream: &FrameStream<T>) {
        let order = stream.order.lock();
        let capacity = stream.ring.capacity;
        if capacity == 0 {
            return;
        }
        let (from, to) = (order.kept % capacity, order.end.next_multiple_of(8) % capacity);
        let is_full = order.end - order.kept >= capacity;
        for (at, length) in order.blocks.ready_parts() {
            let end = at + length;
            // The needed frames lie between `from` and `to`, around the end of the ring if `to` is the lesser.
            let free = match from <= to {
                true => [(at, end.min(from)), (at.max(to), end)],
                false => [(at.max(to), end.min(from)), (end, end)],
            };
            let free = free.into_iter().filter(|(at, end)| at < end && !is_full);
            free.for_each(|(at, end)| stream.ring.erase(at, end - at));
        }
        let holder = order.live.iter().find(|segment| segment.limit() > order.kept);
        let oldest = holder.and_then(|segment| segment.entered.get()).copied();
        let oldest = if order.kept == order.end { Some(order.next_seqno) } else { oldest };
        self.ring_oldest.store(oldest.unwrap_or(0), Ordering::Relaxed);
    }

    /// Removes a segment that is not referenced. If that fails, `retry_removals` and the next open try again.
    fn remove(&self, number: u64) {
        self.maker.remove(&self.env, &self.dir, number);
    }

    /// Tries again to remove the segments that could not be removed. Returns true if it removed one.
    fn retry_removals(&self) -> bool {
        self.maker.left.retry(&*self.env.fs, &self.dir)
    }
}

/// Returns how many bytes to reserve ahead of the log's end.
fn reserve_ahead_bytes<T>(stream: &FrameStream<T>, order: &FrameOrder<T>) -> u64 {
    ahead_bytes(order.end - order.current.first, stream.limits.segment_bytes)
}

/// Returns the result of making a segment; a failed sync halts the log.
fn halting<T, A>(stream: &FrameStream<T>, made: SegmentResult<A>) -> Result<A> {
    made.map_err(|error| match error {
        SegmentError::Unchanged(error) => error,
        SegmentError::Sync(error) => stream.halt(error),
    })
}

/// Returns the index of a retired segment of this length.
fn fitting(retired: &RetiredSegments, length: u64) -> Option<usize> {
    retired.segments.iter().position(|segment| segment.length() == length)
}

/// True if the current segment is a short one.
fn is_short<T>(stream: &FrameStream<T>) -> bool {
    stream.order.lock().current.length() < stream.limits.segment_bytes
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::batch::Batch;
    use crate::env::SimFs;
    use crate::env::sim::Fault;
    use crate::identity::StoreIdentity;
    use crate::options::{MIB, Settings};
    use crate::record::Kind;
    use crate::seam::Plain;
    use crate::wal::Wal;
    use crate::wal::preallocation::{CROWD, MOST_READY};

    /// Runs a log with 4 MiB segments on a simulated disk, and the log lane's work after each commit of 3 kB. Commits
    /// from `synced_from` on are synced, each with `crowd` waiting threads.
    fn live(crowd: usize, commits: (u64, u64), look: impl FnMut(&Wal<()>, u64)) {
        live_on(&SimFs::new(1), crowd, commits, look);
    }

    fn live_on(sim: &SimFs, crowd: usize, (commits, synced_from): (u64, u64), mut look: impl FnMut(&Wal<()>, u64)) {
        let dir = Path::new("/log");
        let env = sim.env(1);
        env.fs.create_dir_all(dir).unwrap();
        let settings =
            Settings { segment_bytes: 4 * MIB as u64, ring_bytes: MIB, drain_bytes: MIB / 4, ..Settings::default() };
        let next = AtomicU64::new(1);
        let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
        let (wal, _) = Wal::<()>::create(&env, (dir, &StoreIdentity::default()), &settings, 0, 1, numbers).unwrap();
        let mut batch = Batch::new();
        batch.push(0, Kind::Put, b"key", &[7; 3000], &Plain).unwrap();
        let body = batch.seal();
        let mut group = Vec::new();
        for n in 0..commits {
            let ticket = wal.order(&body, ()).unwrap();
            wal.copy(&ticket, &body).unwrap();
            wal.take_whole(&mut group);
            group.clear();
            wal.acknowledge(ticket.end).unwrap();
            if n >= synced_from {
                wal.sync(ticket.end).unwrap();
                wal.stream.groups.crowd.store(crowd, Ordering::Relaxed); // simulated: the test has one thread
            }
            while wal.drain_due() {
                wal.drain().unwrap();
            }
            wal.sync_full().unwrap();
            if wal.prepare_more_due() {
                assert!(wal.prepare_some().unwrap() || sim.free_space() == Some(0));
            }
            look(&wal, ticket.end);
        }
    }

    #[test]
    fn in_a_crowd_the_next_segment_grows_as_the_present_one_is_used_and_no_commit_waits_for_it() {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (mut before, mut turnovers) = (0, 0);
        live(CROWD, (6000, 0), |wal, used| {
            let metrics = wal.metrics();
            let zeroed = count(&metrics.zeroed_bytes);
            assert!(zeroed - before <= ZERO_BYTES as u64, "more than a piece at a time");
            assert!(zeroed <= used * 4 / 3 + ZERO_BYTES as u64, "{zeroed} bytes for a log of {used}");
            assert_eq!(count(&metrics.waits_for_segment), 0);
            (before, turnovers) = (zeroed, count(&metrics.turnovers));
        });
        assert!(turnovers > 3, "{turnovers}");
    }

    #[test]
    fn where_few_sync_the_next_segment_comes_as_fast_as_its_pieces_do() {
        let mut ready = None;
        live(0, (60, 0), |wal, used| {
            assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
            if ready.is_none() && !wal.stream.order.lock().next.is_empty() {
                ready = Some(used);
            }
        });
        // The first segment has 256 KiB of written blocks, half of which are used when preparation begins; each commit
        // takes a page.
        let pieces = 4 * MIB as u64 / ZERO_BYTES as u64;
        assert!(ready.unwrap() <= 128 * 1024 + (pieces + 2) * PAGE, "{ready:?}");
    }

    #[test]
    fn a_segment_that_was_left_early_is_used_to_its_end_the_next_time() {
        let mut again: Option<(Arc<Segment>, u64)> = None;
        live(0, (2600, 0), |wal, end| {
            let below = wal.synced().offset.min(wal.taken_up_to());
            if let Some(retirable) = wal.retirable(below) {
                wal.recycle(&retirable.segments);
            }
            let ahead = wal.metrics().zeroed_ahead_bytes.load(Ordering::Relaxed);
            let current = wal.stream.order.lock().current.clone();
            if current.is_used_again && again.is_none() {
                again = Some((current.clone(), ahead));
            }
            let Some((segment, before)) = again.as_ref().filter(|(segment, _)| Arc::ptr_eq(segment, &current)) else {
                return;
            };
            // Zeros are written as soon as a page was never written before.
            assert!(end + PAGE > segment.written || ahead == *before, "{end}");
            assert!(end <= segment.written || ahead > *before, "{end}");
        });
        let (segment, _) = again.unwrap();
        let left_at = segment.closed.get().unwrap().offset;
        assert!(segment.written < segment.limit() && left_at + PAGE >= segment.limit(), "{left_at} of {segment:?}");
    }

    #[test]
    fn a_segment_that_cannot_be_used_again_is_removed() {
        for failing_step in [0, 1] {
            let (sim, mut tried) = (SimFs::new(1), false);
            live_on(&sim, 0, (2600, 0), |wal, _| {
                let below = wal.synced().offset.min(wal.taken_up_to());
                let Some(retirable) = wal.retirable(below).filter(|_| !tried) else { return };
                wal.recycle(&retirable.segments);
                let mut retired = lock(&wal.supply.retired);
                let (first, length) = (wal.stream.order.lock().next_first(), wal.stream.limits.segment_bytes);
                if fitting(&retired, length).is_none() {
                    return;
                }
                tried = true;
                sim.fail_at(sim.steps() + failing_step, Fault::Error(std::io::ErrorKind::PermissionDenied));
                assert!(wal.supply.make(&wal.stream, &mut retired, first, length).is_err() && sim.clear_faults());
                let known = wal.stream.order.lock().live.len() + retired.segments.len();
                let unfinished = usize::from(retired.unfinished.is_some());
                assert_eq!(sim.files("/log").len(), known + unfinished + 1, "and the ring: step {failing_step}");
            });
            assert!(tried);
        }
    }

    #[test]
    fn a_log_of_which_nobody_waits_for_the_disk_is_written_once() {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (synced_from, is_zeroed) in [(4000, false), (3900, true)] {
            let (mut made, mut zeroed, mut synced, mut n) = (0, 0, 0, 0);
            live(0, (4000, synced_from), |wal, _| {
                let metrics = wal.metrics();
                n += 1;
                assert!(n > synced_from || count(&metrics.zeroed_bytes) == 0, "after {n} commits");
                assert_eq!(count(&metrics.waits_for_segment), 0);
                (made, zeroed, synced) =
                    (count(&metrics.segments_made), count(&metrics.zeroed_bytes), count(&metrics.syncs));
            });
            // Full segments are synced by the log itself.
            assert!(made >= 3 && synced >= 2 && (zeroed > 0) == is_zeroed, "{made} {synced} {zeroed}");
        }
    }

    /// A writer that resumes after a trim never waits for a segment, and writes no more zeros for the first one than a
    /// new log does.
    #[test]
    fn behind_a_trim_the_next_segment_is_there_before_the_short_one_is_used_up() {
        for (crowd, synced_from) in [(0, 0), (CROWD, 0), (0, u64::MAX)] {
            let (mut n, mut lengths) = (0, Vec::new());
            live(crowd, (6000, synced_from), |wal, _| {
                n += 1;
                let length = wal.stream.order.lock().current.length();
                if lengths.last() != Some(&length) {
                    lengths.push(length);
                }
                if n % 3000 == 0 {
                    let zeroed = wal.metrics().zeroed_bytes.load(Ordering::Relaxed);
                    assert!(wal.rotate_short().unwrap() && !wal.rotate_short().unwrap());
                    wal.sync_full().unwrap();
                    let below = wal.synced().offset.min(wal.taken_up_to());
                    wal.recycle(&wal.retirable(below).unwrap().segments);
                    wal.give_back();
                    let order = wal.stream.order.lock();
                    assert!(order.live.len() == 1 && order.next.is_empty() && below == order.end);
                    drop(order);
                    assert!(lock(&wal.supply.retired).segments.is_empty());
                    assert_eq!(wal.metrics().zeroed_bytes.load(Ordering::Relaxed), zeroed);
                    assert!(!wal.prepare_due(), "a store that is not written keeps none");
                }
                assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
            });
            let (usual, short) = (4 * MIB as u64, MIB as u64 / 2);
            assert_eq!(lengths, [usual, short, usual, short][..lengths.len()]);
            assert!(lengths.len() >= 3);
        }
    }

    #[test]
    fn a_log_that_nobody_syncs_has_the_segment_behind_the_next_one_in_time() {
        let (mut last, mut turned) = (0, 0);
        live(0, (8000, u64::MAX), |wal, _| {
            let order = wal.stream.order.lock();
            let (first, used) = (order.current.first, order.end - order.current.first);
            let firsts: Vec<u64> = order.next.iter().map(|next| next.first).collect();
            let limit = order.current.limit();
            drop(order);
            if first != last {
                turned += 1; // one was ready, and the lane makes another with each step
                last = first;
            }
            assert!(turned <= 1 || firsts.first() == Some(&limit), "{firsts:?} behind {limit}");
            if turned > 1 && used > wal.stream.limits.segment_bytes / 4 {
                assert_eq!(firsts.get(1), Some(&(limit + wal.stream.limits.segment_bytes - PAGE)));
            }
            assert!(firsts.len() <= LEAST_READY);
        });
        assert!(turned > 3, "{turned}");
    }

    #[test]
    fn as_many_are_ready_as_half_a_second_takes() {
        // 1,398 commits fill a segment: microseconds per commit, and the number of ready segments at the end.
        for (micros, ready) in [(20, 8), (90, 4), (1000, 2)] {
            let (sim, mut most) = (SimFs::new(1), 0);
            live_on(&sim, 0, (14_000, u64::MAX), |wal, _| {
                sim.clock().advance_nanos(micros * 1000);
                let order = wal.stream.order.lock();
                most = most.max(order.next.len());
                let entered = order.live.iter().filter(|at| at.first <= order.current.first).count();
                assert_eq!(order.live.len() - order.next.len(), entered);
            });
            assert_eq!(most, ready, "{micros} us a commit");
        }
    }

    /// Segments made while no thread waited for syncs have unwritten blocks: a syncing thread does not turn to them.
    #[test]
    fn a_first_sync_behind_a_fast_fill_turns_to_a_segment_that_was_written_before_and_to_no_other() {
        let (sim, mut before, mut most) = (SimFs::new(1), None, 0);
        live_on(&sim, 0, (14_100, 14_000), |wal, _| {
            sim.clock().advance_nanos(20_000);
            let mut order = wal.stream.order.lock();
            most = most.max(order.next.len());
            if most == MOST_READY && before.is_none() {
                // The first sync, before the lane has run.
                order.want_written(wal.stream.limits);
                assert_eq!(order.placement_state(wal.stream.limits).rotate_at, order.current.limit());
                order.wants_written = false;
            }
            drop(order);
            let turnovers = wal.metrics().turnovers.load(Ordering::Relaxed);
            if wal.stream.expects_syncs.load(Ordering::Relaxed) {
                let before = *before.get_or_insert(turnovers);
                assert!(turnovers <= before + 1, "{turnovers} turnovers, {before} of them before");
            }
            assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
        });
        assert_eq!(most, MOST_READY);
    }

    /// A frame that needs a segment of its own has the next one extended; the segments after it, which would begin
    /// elsewhere, are made again.
    #[test]
    fn what_stands_behind_a_segment_that_grows_is_made_again() {
        let (mut dropped, mut made_again) = (None, false);
        live(0, (8000, u64::MAX), |wal, _| {
            let numbers = || wal.stream.order.lock().next.iter().map(|next| next.number).collect::<Vec<_>>();
            let before = numbers();
            if dropped.is_none() && before.len() == LEAST_READY {
                assert!(wal.supply.prepare_at_least(&wal.stream, 9 * MIB as u64).unwrap());
                assert_eq!(numbers(), before[..1]);
                assert!(lock(&wal.supply.retired).segments.is_empty());
                dropped = Some(before[1]);
            }
            let order = wal.stream.order.lock();
            made_again |= dropped.is_some() && order.next.len() == LEAST_READY;
            let ends: Vec<(u64, u64)> = order.live.iter().map(|at| (at.first, at.limit())).collect();
            assert!(ends.windows(2).all(|pair| pair[0].1 == pair[1].0), "{ends:?}");
            assert!(order.live.iter().all(|segment| Some(segment.number) != dropped));
        });
        assert!(made_again);
    }

    /// Otherwise the frame that waits for it would have it made again.
    #[test]
    fn a_segment_that_was_made_longer_for_a_frame_is_not_let_go_by_a_first_sync() {
        let mut looked = false;
        live(0, (8000, u64::MAX), |wal, _| {
            let numbers = || wal.stream.order.lock().next.iter().map(|next| next.number).collect::<Vec<_>>();
            if !looked && numbers().len() == 1 {
                looked = wal.supply.prepare_at_least(&wal.stream, 9 * MIB as u64).unwrap();
                let before = numbers();
                wal.stream.expects_syncs.store(true, Ordering::Relaxed);
                assert!(!wal.prepare_due() && !wal.prepare_some().unwrap());
                assert_eq!(numbers(), before);
                wal.stream.expects_syncs.store(false, Ordering::Relaxed);
            }
        });
        assert!(looked);
    }

    /// A full disk: the file after the next one is not needed yet, so all other work continues, and the attempt is
    /// repeated one segment later.
    #[test]
    fn a_file_ahead_that_finds_no_room_keeps_nobody_from_anything() {
        let sim = SimFs::new(1);
        let (mut tried, mut turnovers, mut segments) = (0, 0, 0);
        live_on(&sim, 0, (6000, u64::MAX), |wal, _| {
            assert!(lock(&wal.supply.retired).unfinished.is_none());
            assert_eq!(wal.metrics().waits_for_segment.load(Ordering::Relaxed), 0);
            turnovers = wal.metrics().turnovers.load(Ordering::Relaxed);
            let order = wal.stream.order.lock();
            tried += u32::from(order.wants_more(LEAST_READY, wal.stream.limits));
            segments = order.live.len();
            // The ring and the first segment are still growing until then.
            let is_grown = order.blocks.until() == u64::MAX;
            sim.set_free_space(order.next.front().filter(|_| is_grown).map(|_| 0));
        });
        assert!(turnovers > 3 && tried > 1000, "{turnovers} {tried}");
        assert_eq!(sim.files("/log").len(), segments + 1, "beside the ring, and no file that nobody needs");
    }

    #[test]
    fn what_is_in_the_making_is_finished_by_whoever_needs_it() {
        live(CROWD, (800, 0), |wal, _| {
            let retired = lock(&wal.supply.retired);
            if retired.unfinished.is_none() {
                return;
            }
            let made = retired.unfinished.as_ref().map(|unfinished| unfinished.number);
            drop(retired);
            assert!(wal.prepare().unwrap() && !wal.prepare().unwrap());
            let next = wal.stream.order.lock().next.front().cloned().unwrap();
            assert_eq!((Some(next.number), next.written), (made, next.limit()));
            assert!(lock(&wal.supply.retired).unfinished.is_none());
        });
    }
}
