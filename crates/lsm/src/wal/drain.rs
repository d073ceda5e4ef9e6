//! The drain: whole frames, in whole pages, from the ring to the segments.
//!
//! Each run ends at the end of a frame, and so do most of its pieces. Recovery needs every frame whole in either the
//! ring or the segment, and ring space becomes free only after whole frames. The last page is written again when later
//! frames fill it, so the ring keeps that page until then (`Order::kept`). The rest of the page after the last frame is
//! written as zeros. A failed write halts the log (I09): the ring still holds every byte.
//!
//! If commits are synced, the drain also writes zeros ahead of the log, after the last pending run, into blocks that
//! were never written. Syncing an unwritten block also commits the file system's journal, and takes half as long again.
//! These zeros never overwrite frames written directly to a segment: none are written while such a frame follows, and a
//! frame ordered later waits for zeros in flight (`Wal::await_zeros`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use crate::env::work::lock;
use crate::error::{IoContext, Result};
use crate::planted::{self, Bug};

use super::Wal;
use super::order::Order;
use super::segment::{PAGE, Segment};

/// Bytes of zeros written ahead at a time.
pub(super) const AHEAD: u64 = 16 * PAGE;

/// One write: a run of pages of one segment.
struct Job {
    segment: Arc<Segment>,
    /// A page boundary.
    from: u64,
    /// End of the whole bytes.
    to: u64,
    /// Zeros follow up to this offset: at least to the end of the page.
    until: u64,
    /// True if a frame ends at `to`.
    is_end: bool,
    /// True if no whole bytes remain to be drained after this job.
    is_last: bool,
}

impl<T> Wal<T> {
    /// Returns true if the ring holds enough undrained bytes.
    pub fn drain_due(&self) -> bool {
        let gathered = self.whole.load(Ordering::Relaxed).saturating_sub(self.drained.load(Ordering::Relaxed));
        self.is_mapped() && gathered >= self.limits.drain_bytes
    }

    /// Writes all frames that are whole at the time of the call to the segments. Returns true if anything was written.
    /// Frames that become whole during the call are left: with a fast writer the drain would never end, and the calling
    /// thread has other work.
    pub fn drain(&self) -> Result<bool> {
        let end = {
            let mut order = self.order.lock();
            self.look(&mut order);
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
    pub(super) fn drain_until(&self, end: u64, enough: u64) -> Result<bool> {
        let mut staging = lock(&self.staging);
        let mut moved = false;
        loop {
            self.check()?;
            let job = {
                let mut order = self.order.lock();
                let before = order.drained;
                self.look(&mut order);
                moved |= order.drained > before;
                if order.kept >= enough {
                    self.leave(order);
                    return Ok(true);
                }
                let mut job = next_job(&order, (staging.len() as u64).saturating_sub(AHEAD), end);
                if let Some(job) = job.as_mut().filter(|job| job.is_last) {
                    self.look_ahead(&order, job);
                }
                let Some(job) = job else {
                    self.leave(order);
                    return Ok(moved);
                };
                order.draining = true; // until `leave`: threads that wait meanwhile are notified of each piece
                job
            };
            let written = self.write_out(&job, &mut staging);
            let mut order = self.order.lock();
            if let Err(error) = written {
                self.leave(order);
                return Err(self.halt(error));
            }
            order.drained_to(job.to, job.is_end);
            self.look(&mut order);
            if order.waiting > 0 {
                self.order.notify_all();
            }
            moved = true;
            self.metrics.drains.fetch_add(1, Ordering::Relaxed);
            self.metrics.drained_bytes.fetch_add(job.to - job.from, Ordering::Relaxed);
        }
    }

    /// Ends the drain and wakes its waiters, which either find the room they need or drain themselves.
    fn leave(&self, mut order: MutexGuard<'_, Order<T>>) {
        order.draining = false;
        if order.waiting > 0 {
            self.order.notify_all();
        }
    }

    fn write_out(&self, job: &Job, staging: &mut [u8]) -> Result<()> {
        let (whole, all) = ((job.to - job.from) as usize, (job.until - job.from) as usize);
        self.ring.load(job.from, &mut staging[..whole]);
        staging[whole..all].fill(0);
        job.segment.write(job.from, &staging[..all]).during(|| format!("drain {whole} bytes to {}", job.segment.name()))
    }

    /// Extends a run by zeros if commits are synced and the run reaches blocks that were never written. The caller
    /// holds the order lock.
    fn look_ahead(&self, order: &Order<T>, job: &mut Job) {
        let is_last = order.pieces.len() == 1 || planted::active(Bug::ZerosOverFrames);
        let written = job.segment.written.max(self.ahead.load(Ordering::Relaxed));
        if is_last && job.until > written && self.expects_syncs.load(Ordering::Relaxed) {
            // The last run is in the current segment. Zeros in blocks that are reserved later save nothing.
            let reserved = order.blocks.segment_until().max(job.until);
            let until = (job.until + AHEAD).min(job.segment.limit()).min(reserved);
            self.metrics.zeroed_ahead_bytes.fetch_add(until - job.until, Ordering::Relaxed);
            job.until = until;
            self.ahead.store(until, Ordering::Release);
        }
    }

    /// Waits for zeros in flight that could overwrite the frame at `offset`, which was ordered before this call.
    pub(super) fn await_zeros(&self, offset: u64) {
        if offset < self.ahead.load(Ordering::Acquire) {
            drop(lock(&self.staging));
        }
    }
}

/// Returns the next run to write: at most `room` bytes, ending at `end` at the latest.
fn next_job<T>(order: &Order<T>, room: u64, end: u64) -> Option<Job> {
    let piece = order.pieces.front().filter(|piece| !piece.direct)?;
    let from = order.drained / PAGE * PAGE;
    let end = order.whole.offset.min(piece.end).min(end);
    let frame_end = if end <= from + room { Some(end) } else { order.frame_end_up_to(from + room) };
    let to = frame_end.unwrap_or(from + room);
    let job = || Job {
        segment: piece.segment.clone(),
        from,
        to,
        until: to.next_multiple_of(PAGE),
        is_end: frame_end.is_some(),
        is_last: to == end,
    };
    (to > order.drained).then(job)
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
            let order = wal.order.lock();
            assert!(order.end - order.kept <= MIB as u64);
        }
        assert!(count(&wal.metrics().waits_for_room) > 60);
        let (before, most) = (count(&wal.metrics().drains), MIB as u64 / 8);
        let due = {
            let order = wal.order.lock();
            order.end - order.kept
        };
        assert!(wal.drain().unwrap());
        let drains = count(&wal.metrics().drains) - before;
        assert!(due / most <= drains && drains <= 2 * due / most, "{drains} for {due} bytes");
    }
}
