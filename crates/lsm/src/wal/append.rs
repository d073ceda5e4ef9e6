//! Appending: order, copy, take, acknowledge. The path of every commit.
//!
//! ```text
//! let ticket = wal.order(&body, payload)?;   // may wait, before it is ordered
//! wal.copy(&ticket, &body)?;                 // beside other threads' copies
//! wal.take_whole(&mut group);                // under the db's apply lock: whole frames, in order
//! wal.acknowledge(group.last().end)?;        // the mark, before the commits return
//!
//! let whole = wal.append_alone(&sum, ..);    // the first three at once, for whoever is alone; then acknowledge
//! ```
//!
//! Short frames are copied before the order's lock is let go: a thread that is put to sleep between the two would keep everyone behind it
//! waiting, for as long as it sleeps. Who finds that nothing waits to be taken is alone: its frame is ordered, copied and taken under one
//! lock, and nobody else hears of it.
//!
//! A frame that was ordered must be copied: all frames behind it wait for it. If its write fails its place can never be
//! whole, so the log halts (I09).

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

/// Whoever waits looks again after this time, should a wake-up have missed it.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A frame up to this long is put together in memory and written at once (plain mode).
const JOINED_BYTES: usize = 64 * 1024;

/// A frame with a body up to this long is copied to the ring in the ordered section: less than a microsecond.
const COPIED_AT_ONCE: u64 = 4096;

/// A batch that has its seqnos and its place, and waits to be copied there.
#[must_use = "a frame that was ordered must be copied: all behind it wait for it"]
pub struct Ticket {
    /// Seqno of its first operation.
    pub seqno: Seqno,
    /// Operations, one seqno each.
    pub count: u64,
    /// Logical offset behind its frame.
    pub end: u64,
    /// It is copied already.
    is_copied: bool,
    spot: Spot,
}

/// Under which rules a batch may be ordered. The default: whatever they are, and so they stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Under {
    /// The word that the batch was made under.
    pub word: u64,
    /// The bits of it that must be the same still.
    pub mask: u64,
    /// What becomes of the word.
    pub then: Then,
    /// It is not ordered at all if anything would have to be waited for, or written to a file.
    pub at_once: bool,
    /// When it was made, as whoever made it counts; 0: nobody says. Times rise in the order of batches.
    pub time: u64,
}

impl Under {
    /// True if a batch made so is not to be ordered any more, now that the rules are these and a batch of that time is in front of it.
    #[inline]
    fn is_ruled_out(&self, rules: u64, last: &AtomicU64) -> bool {
        let is_late = || self.time <= last.load(Ordering::Relaxed) && !planted::active(Bug::TimesNotCompared);
        (rules ^ self.word) & self.mask != 0 && !planted::active(Bug::RulesNotCompared) || self.time != 0 && is_late()
    }

    /// What its batch leaves for those behind it, under the order lock.
    #[inline]
    fn leave(&self, last: &AtomicU64) {
        if self.time != 0 {
            last.store(self.time, Ordering::Release);
        }
    }
}

/// What becomes of the word of rules when a batch is ordered: the batch is the last under the old one.
#[derive(Clone, Copy, Debug, Default)]
pub enum Then {
    /// Nothing.
    #[default]
    Stay,
    /// Another lower half.
    Low(u32),
    /// The next upper half.
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

/// A batch that is whole in the log, with everything before it.
#[derive(Debug)]
pub struct Whole<T> {
    /// Seqno of its first operation.
    pub seqno: Seqno,
    /// Operations, one seqno each.
    pub count: u64,
    /// Logical offset of its frame.
    pub offset: u64,
    /// Logical offset behind it.
    pub end: u64,
    /// What was ordered with it.
    pub payload: T,
}

impl<T> Wal<T> {
    /// Gives a batch its seqnos and its place, after waiting for room if need be. An error leaves the log as it was.
    pub fn order(&self, body: &Body, payload: T) -> Result<Ticket> {
        let ticket = self.order_copying(0, body, payload, &Under::default(), |_| {})?;
        ticket.ok_or_else(|| Error::structural("refused under any rules"))
    }

    /// The same under rules: none if they are others by now, or if it cannot be at once as they ask, and then no batch is ordered and no
    /// rule changed. `on_ordered` hears the batch's seqno as soon as it has one, whatever becomes of the log then. What is short is copied
    /// already when this returns, and `copy` finds nothing to do.
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
                    // Another filler, or a wait: what is ordered already must not wait with us.
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
        // A filler in front of it is copied first.
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

    /// Orders, copies and takes a batch at once, if nothing that was ordered waits to be taken, nothing has to come first, and the frame is
    /// a short one for the ring. None otherwise, or where rules forbid it, and nothing was changed: `order_under` waits, or says why.
    ///
    /// One thread at a time, as with `take_whole`, and the same one applies the batch before anything else is taken.
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

    /// Counts a frame, under the order lock.
    fn count_frame(&self, kind: FrameKind, header: &FrameHeader) {
        add_locked(&self.metrics.frames, 1);
        add_locked(&self.metrics.frame_bytes, header.extent());
        if kind == FrameKind::LargeBatch {
            add_locked(&self.metrics.large_frames, 1);
        }
    }

    /// True if the commit of a frame that is placed now waits for no other's: its bytes go to the ring, and all before it are there.
    fn goes_at_once(&self, order: &mut Order<T>, kind: FrameKind) -> bool {
        self.look(order);
        kind == FrameKind::Batch && order.all_whole()
    }

    /// Changes the word of rules, under the order lock: who reads the new one is ordered after this.
    #[cold]
    pub(super) fn turn_rules(&self, order: &mut Order<T>, then: Then) {
        order.rules = then.apply(order.rules);
        self.rules.0.store(order.rules, Ordering::Release);
    }

    /// Copies the frame to its place, unless it is there: into the ring, or with a write to the segment. Beside other threads' copies, in
    /// any order.
    pub fn copy(&self, ticket: &Ticket, body: &Body) -> Result<()> {
        if ticket.is_copied { Ok(()) } else { self.copy_frame(&ticket.spot, &body.bytes) }
    }

    /// Takes all frames that are whole, in order, behind what was taken before. One thread at a time (the db's apply lock).
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

    /// Stores the acknowledged mark: commits up to `end` are applied and about to return. In plain mode two small writes.
    /// One thread at a time, as with `take_whole`.
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

    /// Looks how far frames are whole and written, and publishes it.
    pub(super) fn look(&self, order: &mut Order<T>) {
        order.advance(|sequence| self.is_copied(sequence));
        self.whole.store(order.whole.offset, Ordering::Release);
        self.drained.store(order.drained, Ordering::Release);
    }

    /// True if the frame of this number is in its place.
    #[inline]
    fn is_copied(&self, sequence: u64) -> bool {
        self.slots[sequence as usize % DEPTH].load(Ordering::Acquire) == sequence + 1
    }

    /// Out of line: its body would be a page of every commit's stack.
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

    /// Copies a frame into the ring, and says so.
    fn store_frame(&self, spot: &Spot, body: &[u8]) {
        self.ring.store_frame(spot.offset, &spot.header.encode(), body);
        self.slots[spot.sequence as usize % DEPTH].store(spot.sequence + 1, Ordering::Release);
    }

    /// Waits for what a step asks for, by doing it unless another thread is at it.
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

    /// Sleeps until something changed, or a moment. With one thread nothing would ever change: that is the caller's mistake.
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

/// Adds to a counter that is only changed under the order's lock.
fn add_locked(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// Writes a frame to its segment: at once if it is short, else header, body and tail without a copy of the body.
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
    // Cut at page boundaries of the frame: the first page has the header, the last one the zeros behind the body.
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
