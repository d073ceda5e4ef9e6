//! Appending: order, copy, take, acknowledge. The path of every commit.
//!
//! ```text
//! let ticket = wal.order(&body, payload)?;   // may wait, before it is ordered
//! wal.copy(&ticket, &body)?;                 // beside other threads' copies
//! wal.take_whole(&mut group);                // under the db's apply lock: whole frames, in order
//! wal.acknowledge(group.last().end)?;        // the mark, before the commits return
//!
//! let whole = wal.append_alone(&sum, ..);    // fast path: the first three in one call; then acknowledge
//! ```
//!
//! Short frames are copied before the order lock is released: a thread descheduled between ordering and copying would
//! stall every writer behind it. Fast path: a writer that finds the queue empty orders, copies and takes its frame
//! under one lock, without queueing.
//!
//! A frame that was ordered must be copied: all later frames wait for it. If its write fails, the frame can never
//! become whole, so the log halts (I09).

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::batch::{Body, Sum};
use crate::env::work::Mode;
use crate::error::{Error, IoContext, Result};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, Mark};
use crate::planted::{self, Bug};
use crate::record::Seqno;

use super::order::{FILLER_BODY_BYTES, Filler, Order, Spot, Step};
use super::segment::{PAGE, Segment};
use super::{DEPTH, Wal};

/// Waiting threads check their condition again after this interval, in case a wake-up was missed.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// In plain mode, a frame up to this length is assembled in memory and written with one call.
const JOINED_BYTES: usize = 64 * 1024;

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
    spot: Spot,
}

/// Preconditions for ordering a batch, in terms of the log's configuration epoch (the word of rules). The default
/// accepts every epoch and leaves it unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Under {
    /// The epoch word at the time the batch was built.
    pub word: u64,
    /// The bits of the word that must be unchanged.
    pub mask: u64,
    /// How ordering the batch changes the epoch word.
    pub then: Then,
    /// If true, the batch is rejected instead of ordered whenever ordering would wait or write to a file.
    pub at_once: bool,
    /// Time of the batch on its creator's clock; 0 if it has no time. Ordered batches have strictly increasing times.
    pub time: u64,
}

impl Under {
    /// True if the batch must be rejected: the current epoch differs from its own in a masked bit, or a batch of the
    /// same or a later time was already ordered.
    #[inline]
    fn is_ruled_out(&self, rules: u64, last: &AtomicU64) -> bool {
        let is_late = || self.time <= last.load(Ordering::Relaxed) && !planted::active(Bug::TimesNotCompared);
        (rules ^ self.word) & self.mask != 0 && !planted::active(Bug::RulesNotCompared) || self.time != 0 && is_late()
    }

    /// Publishes the batch's time for later batches. The caller holds the order lock.
    #[inline]
    fn leave(&self, last: &AtomicU64) {
        if self.time != 0 {
            last.store(self.time, Ordering::Release);
        }
    }
}

/// How ordering a batch changes the epoch word: the batch is the last one under the old epoch.
#[derive(Clone, Copy, Debug, Default)]
pub enum Then {
    /// Leaves the word unchanged.
    #[default]
    Stay,
    /// Replaces the lower half.
    Low(u32),
    /// Increments the upper half.
    NextHigh,
}

impl Then {
    fn apply(self, word: u64) -> u64 {
        match self {
            Then::Stay => word,
            Then::Low(low) => word >> 32 << 32 | u64::from(low),
            Then::NextHigh => word.wrapping_add(1 << 32),
        }
    }
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

impl<T> Wal<T> {
    /// Assigns a batch its seqnos and its log offset, after waiting for room if necessary. On an error the log is
    /// unchanged.
    pub fn order(&self, body: &Body, payload: T) -> Result<Ticket> {
        let ticket = self.order_copying(0, body, payload, &Under::default(), |_| {})?;
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
        under: &Under,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Ticket>> {
        self.order_copying(COPIED_AT_ONCE, body, payload, under, on_ordered)
    }

    fn order_copying(
        &self,
        at_once_up_to: u64,
        body: &Body,
        payload: T,
        under: &Under,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Ticket>> {
        let length = body.bytes.len() as u64;
        if under.at_once && !self.is_mapped() {
            return Ok(None); // each frame is a write
        }
        let mut filler: Option<Filler> = None;
        let mut waits_since = None;
        let mut order = self.order.lock();
        let kind = loop {
            if self.failed.get().is_some() || order.closed {
                drop(order);
                self.check()?;
                return Err(Error::closed());
            }
            match order.next_step(length, self.limits) {
                Step::Place(kind) => break kind,
                Step::Pad(until) if filler.is_none() => {
                    let witness = self.witness_word();
                    filler = Some(order.pad(until, witness, self.limits));
                }
                Step::Turn(until) if filler.is_none() => {
                    filler = order.turn(until, self.limits);
                    self.metrics.turnovers.fetch_add(1, Ordering::Relaxed);
                }
                step => {
                    // Copy the filler, or wait, without the order lock: frames already ordered must not wait for this
                    // thread.
                    drop(order);
                    match filler.take() {
                        Some(filler) => self.copy_filler(&filler)?,
                        None if under.at_once => return Ok(None),
                        None => {
                            let is_first = waits_since.is_none();
                            waits_since.get_or_insert_with(|| self.env.clock.monotonic_nanos());
                            self.await_step(step, is_first)?;
                        }
                    }
                    order = self.order.lock();
                }
            }
        };
        if let Some(since) = waits_since {
            let waited = self.env.clock.monotonic_nanos().saturating_sub(since);
            self.metrics.longest_wait_nanos.fetch_max(waited, Ordering::Relaxed);
        }
        if under.is_ruled_out(order.rules, &self.last_time) || under.at_once && !self.goes_at_once(&mut order, kind) {
            drop(order);
            filler.map_or(Ok(()), |filler| self.copy_filler(&filler))?;
            return Ok(None);
        }
        let spot = order.place(kind, body.count, length as u32, body.hash, payload, self.limits);
        if !matches!(under.then, Then::Stay) {
            self.turn_rules(&mut order, under.then);
        }
        under.leave(&self.last_time);
        let end = order.end;
        if planted::active(Bug::MarkBeforeFrame) {
            let _ = self.store_acknowledged(end);
        }
        self.count_frame(kind, &spot.header);
        if !self.is_mapped() {
            self.note_way(&order, spot.offset);
        }
        // Copy a filler that precedes the frame first.
        let is_copied = length <= at_once_up_to && spot.direct.is_none() && filler.is_none();
        if is_copied {
            self.store_frame(&spot, &body.bytes);
        }
        drop(order);
        on_ordered(spot.header.seqno);
        if let Some(filler) = &filler {
            self.copy_filler(filler)?;
        }
        Ok(Some(Ticket { seqno: spot.header.seqno, count: body.count, end, is_copied, spot }))
    }

    /// Orders, copies and takes a batch in one step: the fast path. It applies if no ordered frame waits to be taken,
    /// no filler or wait is needed, and the frame is short enough for the ring. Otherwise, or if the precondition
    /// fails, it returns `None` without changing the log; the caller then uses `order_under`, which waits or reports
    /// the reason.
    ///
    /// One thread at a time, as with `take_whole`. The same thread applies the batch before any other frame is taken.
    pub fn append_alone(&self, sum: &Sum<'_>, under: &Under) -> Option<Whole<()>> {
        let length = sum.bytes.len() as u64;
        if length > COPIED_AT_ONCE || !self.is_mapped() {
            return None;
        }
        let mut order = self.order.lock();
        if self.failed.get().is_some()
            || order.closed
            || under.is_ruled_out(order.rules, &self.last_time)
            || !order.is_all_taken(|sequence| self.is_copied(sequence))
            || !order.is_easy(length, &self.limits)
        {
            return None;
        }
        let (header, offset) = order.place_alone(sum.count, length as u32, sum.hash);
        if !matches!(under.then, Then::Stay) {
            self.turn_rules(&mut order, under.then);
        }
        under.leave(&self.last_time);
        let end = order.end;
        if planted::active(Bug::AloneMarkedBeforeStored) {
            let _ = self.store_acknowledged(end);
        }
        self.ring.store_frame(offset, &header.encode(), sum.bytes);
        self.whole.store(end, Ordering::Release);
        self.count_frame(FrameKind::Batch, &header);
        if order.waiting > 0 {
            self.order.notify_all();
        }
        Some(Whole { seqno: header.seqno, count: sum.count, offset, end, payload: () })
    }

    /// Updates the frame counters. The caller holds the order lock.
    fn count_frame(&self, kind: FrameKind, header: &FrameHeader) {
        add_locked(&self.metrics.frames, 1);
        add_locked(&self.metrics.frame_bytes, header.extent());
        if kind == FrameKind::LargeBatch {
            add_locked(&self.metrics.large_frames, 1);
        }
    }

    /// True if the commit of a frame placed now waits for no other frame: its bytes go to the ring, and every earlier
    /// frame is whole.
    fn goes_at_once(&self, order: &mut Order<T>, kind: FrameKind) -> bool {
        self.look(order);
        kind == FrameKind::Batch && order.all_whole()
    }

    /// Changes the epoch word under the order lock: a thread that reads the new epoch is ordered after this change.
    #[cold]
    pub(super) fn turn_rules(&self, order: &mut Order<T>, then: Then) {
        order.rules = then.apply(order.rules);
        self.rules.0.store(order.rules, Ordering::Release);
    }

    /// Copies the frame to its offset, into the ring or with a write to the segment, unless it is already copied.
    /// Threads copy their frames concurrently and in any order.
    pub fn copy(&self, ticket: &Ticket, body: &Body) -> Result<()> {
        if ticket.is_copied { Ok(()) } else { self.copy_frame(&ticket.spot, &body.bytes) }
    }

    /// Takes all frames that are whole, in log order, after those taken before. One thread at a time (the db's apply
    /// lock).
    pub fn take_whole(&self, group: &mut Vec<Whole<T>>) {
        let mut order = self.order.lock();
        self.look(&mut order);
        while let Some(entry) = order.take() {
            if let Some(payload) = entry.payload {
                let end = entry.after.offset;
                group.push(Whole { seqno: entry.seqno, count: entry.count, offset: entry.offset, end, payload });
            }
        }
        if order.waiting > 0 {
            self.order.notify_all();
        }
    }

    /// Stores the acknowledged mark: commits up to `end` are applied and about to return. In plain mode this takes two
    /// small writes. One thread at a time, as with `take_whole`.
    #[inline]
    pub fn acknowledge(&self, end: u64) -> Result<()> {
        self.check()?;
        self.store_acknowledged(end).map_err(|error| self.halt(error))
    }

    fn store_acknowledged(&self, end: u64) -> Result<()> {
        if end > self.acknowledged.load(Ordering::Relaxed) {
            self.ring.mark(Mark::Acknowledged, end)?;
            self.acknowledged.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Advances the whole and drained offsets and publishes them.
    pub(super) fn look(&self, order: &mut Order<T>) {
        order.advance(|sequence| self.is_copied(sequence));
        self.whole.store(order.whole.offset, Ordering::Release);
        self.drained.store(order.drained, Ordering::Release);
    }

    /// True if the frame with this sequence number is copied.
    #[inline]
    fn is_copied(&self, sequence: u64) -> bool {
        self.slots[sequence as usize % DEPTH].load(Ordering::Acquire) == sequence + 1
    }

    /// Not inlined: its 4 KiB body would enlarge the stack frame of every commit.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_filler(&self, filler: &Filler) -> Result<()> {
        let mut body = [0; FILLER_BODY_BYTES];
        let length = filler.spot.header.length as usize;
        let headed = length.min(filler.head.len());
        body[..headed].copy_from_slice(&filler.head[..headed]);
        self.metrics.filler_bytes.fetch_add(filler.spot.header.extent(), Ordering::Relaxed);
        self.copy_frame(&filler.spot, &body[..length])
    }

    fn copy_frame(&self, spot: &Spot, body: &[u8]) -> Result<()> {
        if let Some(segment) = &spot.direct {
            self.await_zeros(spot.offset);
            self.check()?;
            write_frame(segment, spot, body)
                .during(|| format!("write a frame to {}", segment.name()))
                .map_err(|error| self.halt(error))?;
            self.slots[spot.sequence as usize % DEPTH].store(spot.sequence + 1, Ordering::Release);
        } else {
            self.store_frame(spot, body);
        }
        Ok(())
    }

    /// Copies a frame into the ring and marks its slot as copied.
    fn store_frame(&self, spot: &Spot, body: &[u8]) {
        self.ring.store_frame(spot.offset, &spot.header.encode(), body);
        self.slots[spot.sequence as usize % DEPTH].store(spot.sequence + 1, Ordering::Release);
    }

    /// Performs the work that a step requires, or waits if another thread is already doing it.
    pub(super) fn await_step(&self, step: Step, first_time: bool) -> Result<()> {
        let count = |counter: &AtomicU64| counter.fetch_add(first_time as u64, Ordering::Relaxed);
        match step {
            Step::Place(_) | Step::Pad(_) | Step::Turn(_) => Ok(()),
            Step::AwaitBlocks(until) => self.reserve(until),
            Step::AwaitSegment(length) => {
                count(&self.metrics.waits_for_segment);
                self.prepare_at_least(length).map(drop)
            }
            Step::AwaitDrain(until) => {
                count(&self.metrics.waits_for_room);
                let order = self.order.lock();
                let order = match order.draining {
                    true => order,
                    false => {
                        drop(order);
                        if self.drain_until(u64::MAX, until)? {
                            return Ok(());
                        }
                        self.order.lock()
                    }
                };
                self.sleep(order, "frames that were ordered are not copied")
            }
            Step::AwaitTake => {
                count(&self.metrics.waits_for_queue);
                self.sleep(self.order.lock(), "frames that are whole are not taken")
            }
        }
    }

    /// Sleeps until a change is signalled or the interval ends. In single-threaded mode no change could ever come, so
    /// waiting there is a caller error.
    fn sleep<'a>(&'a self, mut order: MutexGuard<'a, Order<T>>, mistake: &str) -> Result<()> {
        if self.env.work == Mode::Stepped {
            return Err(Error::invalid(format!("the log waits for its only thread: {mistake}")));
        }
        order.waiting += 1;
        order = self.order.wait(order, Some(LOOK_AGAIN));
        order.waiting -= 1;
        Ok(())
    }
}

/// Adds to a counter that changes only under the order lock.
fn add_locked(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// Writes a frame to its segment. A short frame is written with one call; a longer one as header, body and tail,
/// without a copy of the body.
fn write_frame(segment: &Segment, spot: &Spot, body: &[u8]) -> std::io::Result<()> {
    let header = spot.header.encode();
    let extent = spot.header.extent();
    if extent <= JOINED_BYTES as u64 {
        let mut bytes = Vec::with_capacity(extent as usize);
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(body);
        bytes.resize(extent as usize, 0);
        return segment.write(spot.offset, &bytes);
    }
    // Split at page boundaries of the frame: the first page holds the header, the last one the zeros after the body.
    let first = PAGE as usize - FRAME_HEADER_BYTES;
    let middle = first + (body.len() - first) / PAGE as usize * PAGE as usize;
    let mut page = Vec::with_capacity(2 * PAGE as usize);
    page.extend_from_slice(&header);
    page.extend_from_slice(&body[..first]);
    segment.write(spot.offset, &page)?;
    segment.write(spot.offset + PAGE, &body[first..middle])?;
    let written = (FRAME_HEADER_BYTES + middle) as u64;
    if written < extent {
        page.clear();
        page.extend_from_slice(&body[middle..]);
        page.resize((extent - written) as usize, 0);
        segment.write(spot.offset + written, &page)?;
    }
    Ok(())
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
