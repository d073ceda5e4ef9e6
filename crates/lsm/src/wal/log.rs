//! `Wal`: the log of one open store, composed of its owners, and the path of every commit.
//!
//! ```text
//! let ticket = wal.order(&body, payload)?;   // may wait, before it is ordered
//! wal.copy(&ticket, &body)?;                 // beside other threads' copies
//! wal.take_whole(&mut group);                // under the db's apply lock: whole frames, in order
//! wal.acknowledge(group.last().end)?;        // the mark, before the commits return
//!
//! let whole = wal.try_append_fast(&sum, ..);    // fast path: the first three in one call; then acknowledge
//! ```
//!
//! Short frames are copied before the order lock is released: a thread descheduled between ordering and copying would
//! stall every writer behind it. Fast path: a writer that finds the queue empty orders, copies and takes its frame
//! under one lock, without queueing.

use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::{Body, Sum};
use crate::env::Env;
use crate::error::{Error, IoContext, Result};
use crate::frame::{FrameHeader, FrameKind};
use crate::identity::StoreIdentity;
use crate::left_files::LeftFiles;
use crate::options::Settings;
use crate::planted;
use crate::record::Seqno;

use super::blocks::first_bytes;
use super::epoch::{Epoch, EpochChange, Precondition};
use super::hold::Hold;
use super::holds::HoldId;
use super::limits::LogLimits;
use super::metrics::LogMetrics;
use super::order::{Filler, FrameOrder, OrderStep, Placement};
use super::preallocation::{LEAST_READY, MOST_READY};
use super::ring::TailRing;
use super::segment::{LogStart, PAGE, Segment, SegmentEnd, SegmentError, SegmentMaker};
use super::stream::FrameStream;
use super::supply::{Numbers, SegmentSupply};

/// A frame with a body up to this length is copied to the ring under the order lock, which takes less than a
/// microsecond.
const COPIED_AT_ONCE: u64 = 4096;

/// A batch that has its seqnos and its log offset, and whose frame is still to be copied there.
#[must_use = "a frame that was ordered must be copied: all behind it wait for it"]
pub struct Ticket {
    /// Seqno of its first operation.
    pub seqno: Seqno,
    /// Operations, one seqno each.
    pub count: u64,
    /// Logical offset of the end of its frame.
    pub end: u64,
    /// True if the frame is already copied.
    is_copied: bool,
    placement: Placement,
}

/// A batch whose frame, and every frame before it, is whole in the log.
#[derive(Debug)]
pub struct Whole<T> {
    /// Seqno of its first operation.
    pub seqno: Seqno,
    /// Operations, one seqno each.
    pub count: u64,
    /// Logical offset of its frame.
    pub offset: u64,
    /// Logical offset of the end of its frame.
    pub end: u64,
    /// The payload that was ordered with it.
    pub payload: T,
}

/// The frames of a segment that is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredSegment {
    /// The segment's number.
    pub number: u64,
    /// Its nonce.
    pub nonce: u64,
    /// Logical offset of its first frame.
    pub first: u64,
    /// Logical offset of the end of its last frame.
    pub end: u64,
    /// The seqno after its last operation.
    pub next_seqno: Seqno,
}

impl RetiredSegment {
    fn of(segment: &Segment) -> Option<RetiredSegment> {
        let SegmentEnd { offset: end, next_seqno, .. } = *segment.closed.get()?;
        Some(RetiredSegment { number: segment.number, nonce: segment.nonce, first: segment.first, end, next_seqno })
    }
}

/// The segments that are no longer needed, and the log's start without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retirable {
    /// Numbers of the segments, oldest first.
    pub segments: Vec<u64>,
    /// What they hold.
    pub ends: Vec<RetiredSegment>,
    /// The log's start once they are gone.
    pub start: LogStart,
}

/// Syncs everything written outside the log before the call.
pub type SyncsFirst = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// The log of one open store. All methods may be called from any thread.
pub struct Wal<T> {
    pub(super) stream: FrameStream<T>,
    pub(super) supply: SegmentSupply,
    epoch: Epoch,
    /// Syncs the files that frames point to, before those frames count as durable.
    pub(super) syncs_first: OnceLock<SyncsFirst>,
}

impl<T> std::fmt::Debug for Wal<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dir, ring) = (self.supply.dir(), &self.stream.ring);
        f.debug_struct("Wal").field("dir", &dir).field("ring", ring).finish_non_exhaustive()
    }
}

impl<T> Wal<T> {
    /// Creates a log that begins at `start` (a multiple of 4096 above every offset used before) with `seqno`: one
    /// segment and a ring, durable with their directory entries. No frame may be ordered before the manifest names them
    /// durably.
    pub fn create(
        env: &Env,
        (dir, store): (&Path, &StoreIdentity),
        settings: &Settings,
        start: u64,
        seqno: Seqno,
        numbers: Numbers,
    ) -> Result<(Wal<T>, LogStart)> {
        debug_assert!(start.is_multiple_of(PAGE));
        let maker = SegmentMaker {
            store: store.clone(),
            machine: env.fs.machine(dir).during(|| "ask for the device of the store")?,
            reserves: env.fs.reserves_blocks(dir).during(|| "ask for the file system of the store")?,
            left: LeftFiles::default(),
        };
        let capacity = if settings.wal_mapped && maker.reserves { settings.ring_bytes as u64 } else { 0 };
        let ring = TailRing::create(env, (dir, store), maker.machine, numbers(), start, capacity)?;
        let segment_bytes = settings.log_segment_bytes();
        let blocks = first_bytes(segment_bytes);
        let first = maker
            .sparse(env, dir, (numbers(), start, segment_bytes), blocks, true)
            .map_err(SegmentError::into_error)?;
        let limits = LogLimits {
            segment_bytes,
            ring_bytes: ring.capacity,
            drain_bytes: settings.drain_bytes as u64,
            easy_bytes: segment_bytes.min(ring.capacity) / 8,
        };
        let log_start = LogStart { place: first.start(), ring: ring.number, ring_nonce: ring.nonce };
        let order = FrameOrder::new(Arc::new(first), seqno, &limits);
        let wal = Wal {
            stream: FrameStream::new(env, limits, ring, order),
            supply: SegmentSupply::new(env, dir, maker, numbers, seqno),
            epoch: Epoch::default(),
            syncs_first: OnceLock::new(),
        };
        wal.supply.reserve_up_to(&wal.stream, start + blocks, start + blocks)?;
        Ok((wal, log_start))
    }

    /// Registers a sync of files outside the log that frames point to: later groups count as durable only after that
    /// sync. Called once, before the first such frame is ordered. Data is written before the frame that points to it is
    /// ordered.
    pub fn syncs_first(&self, first: SyncsFirst) {
        let _ = self.syncs_first.set(first);
    }

    /// Returns the counters.
    pub fn metrics(&self) -> &LogMetrics {
        &self.stream.metrics
    }

    /// True if frames go through a mapped ring.
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.stream.is_mapped()
    }

    /// Returns the number and nonce of the ring.
    pub fn ring(&self) -> (u64, u64) {
        (self.stream.ring.number, self.stream.ring.nonce)
    }

    /// Returns the epoch word under which batches are ordered. Its upper half counts the changes that this store makes
    /// itself; its lower half belongs to the caller. It changes only under the order lock.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.word()
    }

    /// Replaces the lower half of the epoch word.
    pub fn set_epoch(&self, low: u32) {
        let _order = self.stream.order.lock();
        self.epoch.change(EpochChange::Low(low));
    }

    /// Increments the upper half of the epoch word: batches made under the old one are rejected for retry.
    pub fn renew_epoch(&self) {
        let _order = self.stream.order.lock();
        self.epoch.change(EpochChange::NextHigh);
    }

    /// Returns the time of the last batch that has one (`Precondition::at_time`); 0 if none had.
    pub fn last_time(&self) -> &Arc<AtomicU64> {
        self.epoch.last_time()
    }

    /// Takes a hold on the order: commits of other threads wait until it ends, at most 10 ms (`hold.rs`).
    pub fn hold(&self) -> Hold<'_, T> {
        self.stream.hold()
    }

    /// Waits until the holds that exist now have ended, at most 10 ms for one. Without a hold, it costs one load.
    #[inline]
    pub fn await_holds(&self) {
        if self.stream.is_held.load(Ordering::Relaxed) {
            drop(self.stream.pass_holds(self.stream.order.lock(), HoldId::default()));
        }
    }

    /// Returns the seqno of the last operation that was ordered.
    pub fn last_seqno(&self) -> Seqno {
        self.stream.order.lock().next_seqno - 1
    }

    /// Returns the published offset up to which all frames are whole.
    #[inline]
    pub fn whole_up_to(&self) -> u64 {
        self.stream.whole_up_to()
    }

    /// Returns the failure that halted the log, in the form in which later writes report it.
    pub fn failed(&self) -> Option<Error> {
        self.stream.failed()
    }

    /// Halts the log because of a failure outside it, such as a failed manifest sync (I09). Returns the error for the
    /// caller.
    pub fn halt(&self, cause: Error) -> Error {
        self.stream.halt(cause)
    }

    /// Assigns a batch its seqnos and its log offset, after waiting for room if necessary. On an error the log is
    /// unchanged.
    pub fn order(&self, body: &Body, payload: T) -> Result<Ticket> {
        let ticket = self.order_copying(0, body, payload, &Precondition::default(), |_| {})?;
        ticket.ok_or_else(|| Error::structural("refused under any rules"))
    }

    /// Orders a batch under a precondition. Returns `None`, without ordering the batch or changing the epoch, if the
    /// epoch has changed or if `under.at_once` is set and ordering would wait. `on_ordered` receives the batch's seqno
    /// as soon as it is assigned, even if the log fails afterwards. A short frame is already copied on return, so
    /// `copy` does nothing.
    pub fn order_under(
        &self,
        body: &Body,
        payload: T,
        under: &Precondition,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Ticket>> {
        self.order_copying(COPIED_AT_ONCE, body, payload, under, on_ordered)
    }

    fn order_copying(
        &self,
        at_once_up_to: u64,
        body: &Body,
        payload: T,
        under: &Precondition,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Ticket>> {
        let stream = &self.stream;
        let length = body.bytes.len() as u64;
        if under.at_once && !stream.is_mapped() {
            return Ok(None); // each frame is a write
        }
        let mut filler: Option<Filler> = None;
        let mut waits_since = None;
        let mut waited_for_hold = false;
        let mut order = stream.order.lock();
        let kind = loop {
            if stream.has_failed() || order.closed {
                drop(order);
                stream.check()?;
                return Err(Error::closed());
            }
            if order.holds.is_held() && under.hold != HoldId::ANY && !waited_for_hold {
                if under.at_once {
                    return Ok(None);
                }
                waited_for_hold = true;
                order = stream.pass_holds(order, under.hold);
                continue;
            }
            match order.next_step(length, stream.limits) {
                OrderStep::Place(kind) => break kind,
                OrderStep::Pad(until) if filler.is_none() => {
                    filler = Some(order.pad(until, stream.ring.witness_word(), stream.limits));
                }
                OrderStep::Rotate(until) if filler.is_none() => {
                    filler = order.rotate(until, stream.limits);
                    stream.metrics.turnovers.fetch_add(1, Ordering::Relaxed);
                }
                step => {
                    // Copy the filler, or wait, without the order lock: frames already ordered must not wait for this
                    // thread.
                    drop(order);
                    match filler.take() {
                        Some(filler) => stream.copy_filler(&filler)?,
                        None if under.at_once => return Ok(None),
                        None => {
                            let is_first = waits_since.is_none();
                            waits_since.get_or_insert_with(|| stream.env.clock.monotonic_nanos());
                            self.supply.provide(stream, step, is_first)?;
                        }
                    }
                    order = stream.order.lock();
                }
            }
        };
        if let Some(since) = waits_since {
            let waited = stream.env.clock.monotonic_nanos().saturating_sub(since);
            stream.metrics.longest_wait_nanos.fetch_max(waited, Ordering::Relaxed);
        }
        if self.epoch.rejects(under, order.next_seqno) || under.at_once && !self.goes_at_once(&mut order, kind) {
            drop(order);
            filler.map_or(Ok(()), |filler| stream.copy_filler(&filler))?;
            return Ok(None);
        }
        let placement = order.place(kind, body.count, length as u32, body.hash, payload, stream.limits);
        self.epoch.pass(under);
        let end = order.end;
        planted!(MarkBeforeFrame => { let _ = stream.ring.acknowledge(end); });
        self.count_frame(kind, &placement.header);
        if !stream.is_mapped() {
            self.supply.check_progress(stream, &order, placement.offset);
        }
        // Copy a filler that precedes the frame first.
        let is_copied = length <= at_once_up_to && placement.direct.is_none() && filler.is_none();
        if is_copied {
            stream.store_frame(&placement, &body.bytes);
        }
        drop(order);
        on_ordered(placement.header.seqno);
        if let Some(filler) = &filler {
            stream.copy_filler(filler)?;
        }
        Ok(Some(Ticket { seqno: placement.header.seqno, count: body.count, end, is_copied, placement }))
    }

    /// Orders, copies and takes a batch in one step: the fast path. It applies if no ordered frame waits to be taken,
    /// no filler or wait is needed, and the frame is short enough for the ring. Otherwise, or if the precondition
    /// fails, it returns `None` without changing the log; the caller then uses `order_under`, which waits or reports
    /// the reason.
    ///
    /// One thread at a time, as with `take_whole`. The same thread applies the batch before any other frame is taken.
    pub fn try_append_fast(&self, sum: &Sum<'_>, under: &Precondition) -> Option<Whole<()>> {
        let stream = &self.stream;
        let length = sum.bytes.len() as u64;
        if length > COPIED_AT_ONCE || !stream.is_mapped() {
            return None;
        }
        let mut order = stream.order.lock();
        if stream.has_failed()
            || order.closed
            || self.epoch.rejects(under, order.next_seqno)
            || !order.is_all_taken(|sequence| stream.is_copied(sequence))
            || !order.is_easy(length, &stream.limits)
        {
            return None;
        }
        let (header, offset) = order.place_fast(sum.count, length as u32, sum.hash);
        self.epoch.pass(under);
        let end = order.end;
        planted!(AloneMarkedBeforeStored => { let _ = stream.ring.acknowledge(end); });
        stream.ring.store_frame(offset, &header.encode(), sum.bytes);
        stream.publish_whole(end);
        self.count_frame(FrameKind::Batch, &header);
        stream.wake_waiting(&order);
        Some(Whole { seqno: header.seqno, count: sum.count, offset, end, payload: () })
    }

    /// Updates the frame counters. The caller holds the order lock.
    fn count_frame(&self, kind: FrameKind, header: &FrameHeader) {
        let metrics = &self.stream.metrics;
        add_locked(&metrics.frames, 1);
        add_locked(&metrics.frame_bytes, header.extent());
        if kind == FrameKind::LargeBatch {
            add_locked(&metrics.large_frames, 1);
        }
    }

    /// True if the commit of a frame placed now waits for no other frame: its bytes go to the ring, and every earlier
    /// frame is whole.
    fn goes_at_once(&self, order: &mut FrameOrder<T>, kind: FrameKind) -> bool {
        self.stream.advance(order);
        kind == FrameKind::Batch && order.all_whole()
    }

    /// Copies the frame to its offset, into the ring or with a write to the segment, unless it is already copied.
    /// Threads copy their frames concurrently and in any order.
    pub fn copy(&self, ticket: &Ticket, body: &Body) -> Result<()> {
        if ticket.is_copied { Ok(()) } else { self.stream.copy_frame(&ticket.placement, &body.bytes) }
    }

    /// Takes all frames that are whole, in log order, after those taken before. One thread at a time (the db's apply
    /// lock).
    pub fn take_whole(&self, group: &mut Vec<Whole<T>>) {
        let mut order = self.stream.order.lock();
        self.stream.advance(&mut order);
        while let Some(frame) = order.take() {
            if let Some(payload) = frame.payload {
                let end = frame.after.offset;
                group.push(Whole { seqno: frame.seqno, count: frame.count, offset: frame.offset, end, payload });
            }
        }
        self.stream.wake_waiting(&order);
    }

    /// Returns the offset up to which no frame waits to be taken. For the thread that takes frames (the db's apply
    /// lock).
    pub fn taken_up_to(&self) -> u64 {
        self.stream.order.lock().taken_up_to()
    }

    /// Stores the acknowledged mark: commits up to `end` are applied and about to return. In plain mode this takes two
    /// small writes. One thread at a time, as with `take_whole`.
    #[inline]
    pub fn acknowledge(&self, end: u64) -> Result<()> {
        self.stream.check()?;
        self.stream.ring.acknowledge(end).map_err(|error| self.halt(error))
    }

    /// Returns true if the ring holds enough undrained bytes.
    #[inline]
    pub fn drain_due(&self) -> bool {
        self.stream.drain_due()
    }

    /// Writes all frames that are whole at the time of the call to the segments. Returns true if anything was written.
    pub fn drain(&self) -> Result<bool> {
        self.stream.drain()
    }

    /// Reserves blocks before a batch needs them. Returns true if it did. A full disk is not an error here.
    pub fn reserve_ahead(&self) -> Result<bool> {
        self.supply.reserve_ahead(&self.stream)
    }

    /// True if work on the next segment is due. A store with few writes keeps one segment.
    pub fn prepare_due(&self) -> bool {
        self.supply.is_due(&self.stream, LEAST_READY)
    }

    /// True if work on the segments after the next one is due.
    pub fn prepare_more_due(&self) -> bool {
        self.supply.is_due(&self.stream, MOST_READY)
    }

    /// Returns whether the last check found work due, and resets the flag. In most calls this is one atomic load.
    #[inline]
    pub fn prepare_wanted(&self) -> bool {
        self.supply.take_wanted()
    }

    /// Continues work on the next segment. Returns true if it did any work. A failure leaves the log unchanged, except
    /// that a failed sync halts it.
    pub fn prepare_some(&self) -> Result<bool> {
        self.supply.prepare_some(&self.stream)
    }

    /// Makes the whole next segment ready. Returns true if it was not ready before.
    pub fn prepare(&self) -> Result<bool> {
        self.supply.prepare(&self.stream)
    }

    /// Returns the segments that lie entirely below an offset, and the log's start without them; `None` if there are
    /// none. Leaves out segments with bytes not yet drained from the ring: draining them after the file was recycled
    /// would overwrite the new contents.
    pub fn retirable(&self, below: u64) -> Option<Retirable> {
        let mut order = self.stream.order.lock();
        self.stream.advance(&mut order);
        let below = planted!(RetiredBeforeDrained, below, below.min(order.drained));
        let is_over = |segment: &&Arc<Segment>| segment.closed.get().is_some_and(|end| end.offset <= below);
        let ends: Vec<RetiredSegment> =
            order.live.iter().take_while(is_over).filter_map(|segment| RetiredSegment::of(segment)).collect();
        let segments: Vec<u64> = ends.iter().map(|end| end.number).collect();
        let place = order.live.get(segments.len())?.start();
        let (ring, ring_nonce) = self.ring();
        (!segments.is_empty()).then_some(Retirable { segments, ends, start: LogStart { place, ring, ring_nonce } })
    }

    /// Returns the end of the oldest segment, if the log has left and drained it: only then can a segment be retired.
    pub fn oldest_end(&self) -> Option<u64> {
        let mut order = self.stream.order.lock();
        self.stream.advance(&mut order);
        let end = order.live.front()?.closed.get()?.offset;
        planted!(RetiredBeforeDrained, true, end <= order.drained).then_some(end)
    }

    /// Releases retired segments. The manifest must have durably dropped them.
    pub fn recycle(&self, numbers: &[u64]) {
        self.supply.recycle(&self.stream, numbers);
    }

    /// Releases retired segments whose files the change feed keeps. The manifest must durably keep them.
    pub fn hand_over(&self, numbers: &[u64]) {
        self.supply.hand_over(&self.stream, numbers);
    }

    /// Returns the live size of the log in bytes: from the oldest segment's start to the end.
    pub fn live_bytes(&self) -> u64 {
        let order = self.stream.order.lock();
        order.live.front().map_or(0, |oldest| order.end - oldest.first)
    }

    /// Returns the least seqno of a frame in the log's files: in live segments, in files kept for future writes, behind
    /// the frames of a file that is used again, and in the ring, whether recovery needs the frame or not. `None` if
    /// they hold no operation. Segments that were handed over are not among them.
    pub fn oldest_seqno(&self) -> Option<Seqno> {
        self.supply.oldest_seqno(&self.stream)
    }

    /// Overwrites the frames in the ring that the log does not need any more, durably. Commits wait meanwhile: about
    /// 0.2 ms for a ring of 4 MiB. Errors: `Io`; the log has halted.
    pub fn erase_ring(&self) -> Result<()> {
        self.supply.erase_ring(&self.stream)
    }

    /// Rotates to a short segment, unless the log is at the beginning of one. Returns true if it did. The caller, which
    /// knows the memtables, decides that a trim is worthwhile. After a failure the log remains usable, except that a
    /// failed sync halts it.
    pub fn rotate_short(&self) -> Result<bool> {
        self.supply.rotate_short(&self.stream)
    }

    /// Removes all files kept for future writes. The log makes new ones as needed.
    pub fn give_back(&self) {
        self.supply.give_back(&self.stream);
    }

    /// Removes the files kept beyond the next segment. Returns true if any file was removed.
    pub fn give_back_spare(&self) -> bool {
        self.supply.give_back_spare(&self.stream)
    }
}

/// Adds to a counter that changes only under the order lock.
fn add_locked(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("seqno", &self.seqno)
            .field("count", &self.count)
            .field("end", &self.end)
            .finish()
    }
}
