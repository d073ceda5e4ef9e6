//! The stream of frames, from the writers' buffers to the segments: ordered, copied, whole, drained.
//!
//! In:     frames with their placement, copied by the committing threads concurrently and in any order.
//! Out:    two offsets: all frames before the first are whole; all bytes before the second are in the segments.
//! Holds:  a frame that was ordered must be copied: all later frames wait for it. If its write fails, the frame can
//!         never become whole, so the log halts (I09).
//!
//! The drain writes whole frames, in whole pages, from the ring to the segments. Each run ends at the end of a frame,
//! and so do most of its pieces. Recovery needs every frame whole in either the ring or the segment, and ring space
//! becomes free only after whole frames. The last page is written again when later frames fill it, so the ring keeps
//! that page until then (`FrameOrder::kept`). The rest of the page after the last frame is written as zeros. A failed
//! write halts the log (I09): the ring still holds every byte.
//!
//! If commits are synced, the drain also writes zeros ahead of the log, after the last pending run, into blocks that
//! were never written. Syncing an unwritten block also commits the file system's journal, and takes half as long again.
//! These zeros never overwrite frames written directly to a segment: none are written while such a frame follows, and a
//! frame ordered later waits for zeros in flight (`FrameStream::await_zeros`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use crate::env::Env;
use crate::env::work::{Bell, Mode, Signal, lock};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::frame::FRAME_HEADER_BYTES;
use crate::planted;

use super::group::GroupQueue;
use super::limits::LogLimits;
use super::metrics::LogMetrics;
use super::order::{DEPTH, FILLER_BODY_BYTES, Filler, FrameOrder, Placement};
use super::ring::TailRing;
use super::segment::{PAGE, Segment};

/// Waiting threads check their condition again after this interval, in case a wake-up was missed.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// In plain mode, a frame up to this length is assembled in memory and written with one call.
const JOINED_BYTES: usize = 64 * 1024;

/// Bytes of zeros written ahead at a time.
const AHEAD: u64 = 16 * PAGE;

/// The frames of one log, from their order to the segments. All methods may be called from any thread.
pub(super) struct FrameStream<T> {
    pub env: Env,
    pub limits: LogLimits,
    pub ring: TailRing,
    /// The frame order and the queue. Never held during I/O.
    pub order: Signal<FrameOrder<T>>,
    /// Wakes the threads that wait for the end of a hold; with the order lock.
    pub hold_ended: Bell,
    /// True while there is a hold. Changes under the order lock.
    pub is_held: AtomicBool,
    /// Slot `sequence % DEPTH` holds `sequence + 1` once that frame is copied.
    slots: Box<[AtomicU64]>,
    /// Offsets up to which frames are whole and drained, readable without the lock.
    whole: AtomicU64,
    drained: AtomicU64,
    /// Drain buffer: pages on their way from ring to segment. Held by the draining thread.
    staging: Mutex<Vec<u8>>,
    /// End of the zeros written ahead of the log, or in flight. Changes under the order lock.
    ahead: AtomicU64,
    /// The threads that wait for a group sync.
    pub groups: GroupQueue,
    /// Set once a thread has waited for a durable commit. Without syncs, zero-filling would write the whole log twice
    /// and save nothing.
    pub expects_syncs: AtomicBool,
    failed: OnceLock<Error>,
    pub metrics: LogMetrics,
}

/// One write of the drain: a run of pages of one segment.
struct DrainWrite {
    segment: Arc<Segment>,
    /// A page boundary.
    from: u64,
    /// End of the whole bytes.
    to: u64,
    /// Zeros follow up to this offset: at least to the end of the page.
    until: u64,
    /// True if a frame ends at `to`.
    is_end: bool,
    /// True if no whole bytes remain to be drained after this write.
    is_last: bool,
}

impl<T> FrameStream<T> {
    /// Starts an empty stream.
    pub(super) fn new(env: &Env, limits: LogLimits, ring: TailRing, order: FrameOrder<T>) -> FrameStream<T> {
        let place = order.whole;
        let pages = limits.drain_bytes.next_multiple_of(PAGE).max(PAGE);
        let staging_bytes = if limits.ring_bytes > 0 { pages + AHEAD } else { 0 };
        FrameStream {
            env: env.clone(),
            limits,
            ring,
            order: Signal::new(order),
            hold_ended: Bell::new(),
            is_held: AtomicBool::new(false),
            slots: (0..DEPTH).map(|_| AtomicU64::new(0)).collect(),
            whole: AtomicU64::new(place.offset),
            drained: AtomicU64::new(place.offset),
            staging: Mutex::new(vec![0; staging_bytes as usize]),
            ahead: AtomicU64::new(0),
            groups: GroupQueue::new(place),
            expects_syncs: AtomicBool::new(false),
            failed: OnceLock::new(),
            metrics: LogMetrics::default(),
        }
    }

    /// True if frames go through a mapped ring.
    #[inline]
    pub(super) fn is_mapped(&self) -> bool {
        self.limits.ring_bytes > 0
    }

    /// True once a thread has waited for a durable commit.
    #[inline]
    pub(super) fn expects_syncs(&self) -> bool {
        self.expects_syncs.load(Ordering::Relaxed)
    }

    /// Returns the failure that halted the log, in the form in which later writes report it.
    pub(super) fn failed(&self) -> Option<Error> {
        self.failed
            .get()
            .map(|cause| Error::of(ErrorKind::Halted, format!("the store failed earlier, reopen it to write: {cause}")))
    }

    /// True if the log was halted.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Returns an error if the log was halted.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if self.has_failed() { self.failed().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// Halts the log (I09). The first cause is kept. Returns the error for the caller: the cause, or `Halted` if the
    /// cause is a full device, since an out-of-space error promises that nothing was changed and that a retry may
    /// succeed.
    pub(super) fn halt(&self, cause: Error) -> Error {
        let _ = self.failed.set(cause.clone());
        // Notify under the locks, so that no thread goes to sleep on the old state.
        drop(self.order.lock());
        self.order.notify_all();
        self.groups.wake_all();
        if cause.is_out_of_space() { self.failed().unwrap_or(cause) } else { cause }
    }

    /// Returns the published offset up to which all frames are whole.
    #[inline]
    pub(super) fn whole_up_to(&self) -> u64 {
        self.whole.load(Ordering::Acquire)
    }

    /// Publishes the end of a frame that is whole as soon as it is ordered. The caller holds the order lock.
    #[inline]
    pub(super) fn publish_whole(&self, end: u64) {
        self.whole.store(end, Ordering::Release);
    }

    /// Advances the whole and drained offsets and publishes them.
    pub(super) fn advance(&self, order: &mut FrameOrder<T>) {
        order.advance(|sequence| self.is_copied(sequence));
        self.publish_whole(order.whole.offset);
        self.drained.store(order.drained, Ordering::Release);
    }

    /// True if the frame with this sequence number is copied.
    #[inline]
    pub(super) fn is_copied(&self, sequence: u64) -> bool {
        self.slots[sequence as usize % DEPTH].load(Ordering::Acquire) == sequence + 1
    }

    /// Wakes the threads that wait for a change of the order.
    #[inline]
    pub(super) fn wake_waiting(&self, order: &FrameOrder<T>) {
        if order.waiting > 0 {
            self.order.notify_all();
        }
    }

    /// Waits until a change of the order is signalled or an interval ends.
    pub(super) fn await_change<'a>(
        &'a self,
        mut order: MutexGuard<'a, FrameOrder<T>>,
    ) -> MutexGuard<'a, FrameOrder<T>> {
        order.waiting += 1;
        order = self.order.wait(order, Some(LOOK_AGAIN));
        order.waiting -= 1;
        order
    }

    /// Waits for another thread's change of the order. In single-threaded mode no change could ever come, so waiting
    /// there is a caller error.
    fn sleep(&self, order: MutexGuard<'_, FrameOrder<T>>, mistake: &str) -> Result<()> {
        if self.env.work == Mode::Stepped {
            return Err(Error::invalid(format!("the log waits for its only thread: {mistake}")));
        }
        drop(self.await_change(order));
        Ok(())
    }

    /// Waits until frames are taken.
    pub(super) fn await_take(&self) -> Result<()> {
        self.sleep(self.order.lock(), "frames that are whole are not taken")
    }

    /// Makes room in the ring up to `until`, or waits while another thread drains.
    pub(super) fn make_room(&self, until: u64) -> Result<()> {
        let mut order = self.order.lock();
        if !order.draining {
            drop(order);
            if self.drain_until(u64::MAX, until)? {
                return Ok(());
            }
            order = self.order.lock();
        }
        self.sleep(order, "frames that were ordered are not copied")
    }

    /// Not inlined: its 4 KiB body would enlarge the stack frame of every commit.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_filler(&self, filler: &Filler) -> Result<()> {
        let mut body = [0; FILLER_BODY_BYTES];
        let length = filler.placement.header.length as usize;
        let headed = length.min(filler.head.len());
        body[..headed].copy_from_slice(&filler.head[..headed]);
        self.metrics.filler_bytes.fetch_add(filler.placement.header.extent(), Ordering::Relaxed);
        self.copy_frame(&filler.placement, &body[..length])
    }

    /// Copies a frame into the ring, or writes it to its segment.
    pub(super) fn copy_frame(&self, placement: &Placement, body: &[u8]) -> Result<()> {
        let Some(segment) = &placement.direct else {
            self.store_frame(placement, body);
            return Ok(());
        };
        self.await_zeros(placement.offset);
        self.check()?;
        write_frame(segment, placement, body)
            .during(|| format!("write a frame to {}", segment.name()))
            .map_err(|error| self.halt(error))?;
        self.set_copied(placement.sequence);
        Ok(())
    }

    /// Copies a frame into the ring.
    #[inline]
    pub(super) fn store_frame(&self, placement: &Placement, body: &[u8]) {
        self.ring.store_frame(placement.offset, &placement.header.encode(), body);
        self.set_copied(placement.sequence);
    }

    #[inline]
    fn set_copied(&self, sequence: u64) {
        self.slots[sequence as usize % DEPTH].store(sequence + 1, Ordering::Release);
    }

    /// Returns true if the ring holds enough undrained bytes.
    #[inline]
    pub(super) fn drain_due(&self) -> bool {
        let gathered = self.whole.load(Ordering::Relaxed).saturating_sub(self.drained.load(Ordering::Relaxed));
        self.is_mapped() && gathered >= self.limits.drain_bytes
    }

    /// Writes all frames that are whole at the time of the call to the segments. Returns true if anything was written.
    /// Frames that become whole during the call are left: with a fast writer the drain would never end, and the calling
    /// thread has other work.
    pub(super) fn drain(&self) -> Result<bool> {
        let end = {
            let mut order = self.order.lock();
            self.advance(&mut order);
            order.whole.offset
        };
        self.drain_through(end)
    }

    /// Drains up to the frame end `end`; later frames are left to other threads.
    pub(super) fn drain_through(&self, end: u64) -> Result<bool> {
        self.drain_until(end, u64::MAX)
    }

    /// Drains until the ring keeps nothing below `enough`: a thread that waits for room leaves the rest to other
    /// threads.
    fn drain_until(&self, end: u64, enough: u64) -> Result<bool> {
        let mut staging = lock(&self.staging);
        let mut moved = false;
        loop {
            self.check()?;
            let write = {
                let mut order = self.order.lock();
                let before = order.drained;
                self.advance(&mut order);
                moved |= order.drained > before;
                if order.kept >= enough {
                    self.end_drain(order);
                    return Ok(true);
                }
                let mut write = next_write(&order, (staging.len() as u64).saturating_sub(AHEAD), end);
                if let Some(write) = write.as_mut().filter(|write| write.is_last) {
                    self.append_zeros(&order, write);
                }
                let Some(write) = write else {
                    self.end_drain(order);
                    return Ok(moved);
                };
                order.draining = true; // until `end_drain`: threads that wait meanwhile are notified of each piece
                write
            };
            let written = self.write_out(&write, &mut staging);
            let mut order = self.order.lock();
            if let Err(error) = written {
                self.end_drain(order);
                return Err(self.halt(error));
            }
            order.drained_to(write.to, write.is_end);
            self.advance(&mut order);
            self.wake_waiting(&order);
            moved = true;
            self.metrics.drains.fetch_add(1, Ordering::Relaxed);
            self.metrics.drained_bytes.fetch_add(write.to - write.from, Ordering::Relaxed);
        }
    }

    /// Ends the drain and wakes its waiters, which either find the room they need or drain themselves.
    fn end_drain(&self, mut order: MutexGuard<'_, FrameOrder<T>>) {
        order.draining = false;
        self.wake_waiting(&order);
    }

    fn write_out(&self, write: &DrainWrite, staging: &mut [u8]) -> Result<()> {
        let (whole, all) = ((write.to - write.from) as usize, (write.until - write.from) as usize);
        self.ring.load(write.from, &mut staging[..whole]);
        staging[whole..all].fill(0);
        let segment = &write.segment;
        segment.write(write.from, &staging[..all]).during(|| format!("drain {whole} bytes to {}", segment.name()))
    }

    /// Extends a write by zeros if commits are synced and it reaches blocks that were never written. The caller holds
    /// the order lock.
    fn append_zeros(&self, order: &FrameOrder<T>, write: &mut DrainWrite) {
        let is_last = planted!(ZerosOverFrames, true, order.pieces.len() == 1);
        let written = write.segment.written.max(self.ahead.load(Ordering::Relaxed));
        if is_last && write.until > written && self.expects_syncs() {
            // The last run is in the current segment. Zeros in blocks that are reserved later save nothing.
            let reserved = order.blocks.segment_until().max(write.until);
            let until = (write.until + AHEAD).min(write.segment.limit()).min(reserved);
            self.metrics.zeroed_ahead_bytes.fetch_add(until - write.until, Ordering::Relaxed);
            write.until = until;
            self.ahead.store(until, Ordering::Release);
        }
    }

    /// Waits for zeros in flight that could overwrite the frame at `offset`, which was ordered before this call.
    fn await_zeros(&self, offset: u64) {
        if offset < self.ahead.load(Ordering::Acquire) {
            drop(lock(&self.staging));
        }
    }

    /// Frees the drain buffer, once the log is closed.
    pub(super) fn release(&self) {
        *lock(&self.staging) = Vec::new();
    }
}

/// Returns the next run to write: at most `room` bytes, ending at `end` at the latest.
fn next_write<T>(order: &FrameOrder<T>, room: u64, end: u64) -> Option<DrainWrite> {
    let piece = order.pieces.front().filter(|piece| !piece.direct)?;
    let from = order.drained / PAGE * PAGE;
    let end = order.whole.offset.min(piece.end).min(end);
    let frame_end = if end <= from + room { Some(end) } else { order.frame_end_up_to(from + room) };
    let to = frame_end.unwrap_or(from + room);
    let write = || DrainWrite {
        segment: piece.segment.clone(),
        from,
        to,
        until: to.next_multiple_of(PAGE),
        is_end: frame_end.is_some(),
        is_last: to == end,
    };
    (to > order.drained).then(write)
}

/// Writes a frame to its segment. A short frame is written with one call; a longer one as header, body and tail,
/// without a copy of the body.
fn write_frame(segment: &Segment, placement: &Placement, body: &[u8]) -> std::io::Result<()> {
    let header = placement.header.encode();
    let extent = placement.header.extent();
    if extent <= JOINED_BYTES as u64 {
        let mut bytes = Vec::with_capacity(extent as usize);
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(body);
        bytes.resize(extent as usize, 0);
        return segment.write(placement.offset, &bytes);
    }
    // Split at page boundaries of the frame: the first page holds the header, the last one the zeros after the body.
    let first = PAGE as usize - FRAME_HEADER_BYTES;
    let middle = first + (body.len() - first) / PAGE as usize * PAGE as usize;
    let mut page = Vec::with_capacity(2 * PAGE as usize);
    page.extend_from_slice(&header);
    page.extend_from_slice(&body[..first]);
    segment.write(placement.offset, &page)?;
    segment.write(placement.offset + PAGE, &body[first..middle])?;
    let written = (FRAME_HEADER_BYTES + middle) as u64;
    if written < extent {
        page.clear();
        page.extend_from_slice(&body[middle..]);
        page.resize((extent - written) as usize, 0);
        segment.write(placement.offset + written, &page)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::batch::Batch;
    use crate::env::SimFs;
    use crate::identity::StoreIdentity;
    use crate::options::{MIB, Settings};
    use crate::record::Kind;
    use crate::seam::Plain;
    use crate::wal::Wal;

    /// A thread that finds the ring full writes one piece of it, and a full drain makes room with each piece.
    #[test]
    fn who_waits_for_room_waits_for_a_piece_of_the_ring_and_not_for_all_of_it() {
        let (sim, dir) = (SimFs::new(1), Path::new("/log"));
        let env = sim.env(1);
        env.fs.create_dir_all(dir).unwrap();
        let settings = Settings { ring_bytes: MIB, drain_bytes: MIB / 8, ..Settings::default() };
        let next = AtomicU64::new(1);
        let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
        let (wal, _) = Wal::<()>::create(&env, (dir, &StoreIdentity::default()), &settings, 0, 1, numbers).unwrap();
        let mut group = Vec::new();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for n in 0..4000_usize {
            let mut batch = Batch::new();
            batch.push(0, Kind::Put, b"key", &vec![7; n * 37 % 5000], &Plain).unwrap();
            let body = batch.seal();
            let (waits, drained) = (count(&wal.metrics().waits_for_room), count(&wal.metrics().drained_bytes));
            let ticket = wal.order(&body, ()).unwrap();
            wal.copy(&ticket, &body).unwrap();
            wal.take_whole(&mut group);
            group.clear();
            wal.acknowledge(ticket.end).unwrap();
            let waited = count(&wal.metrics().waits_for_room) - waits;
            let drained = count(&wal.metrics().drained_bytes) - drained;
            assert!(waited <= 1 && drained <= waited * MIB as u64 / 8, "{drained} bytes for {waited} waits");
            let order = wal.stream.order.lock();
            assert!(order.end - order.kept <= MIB as u64);
        }
        assert!(count(&wal.metrics().waits_for_room) > 60);
        let (before, most) = (count(&wal.metrics().drains), MIB as u64 / 8);
        let due = {
            let order = wal.stream.order.lock();
            order.end - order.kept
        };
        assert!(wal.drain().unwrap());
        let drains = count(&wal.metrics().drains) - before;
        assert!(due / most <= drains && drains <= 2 * due / most, "{drains} for {due} bytes");
    }
}
