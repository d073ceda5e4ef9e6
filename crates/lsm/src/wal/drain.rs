//! The drain: whole frames, in whole pages, from the ring to the segments.
//!
//! Each run ends with a frame: recovery needs every frame whole in one of the two places. The last page is written again with
//! what comes into it later, so the ring keeps it until then (`Order::kept`). What stands behind the last frame goes out as zeros. A write that fails halts the log (I09): the ring still holds every byte.
//!
//! Where commits are synced, zeros go out some way ahead of the log as well, behind the last run that is due, into blocks that were never
//! written: a sync of such a block is one of the file system's own blocks too, and half as long again. What is written to a segment past the ring never meets them: none go out
//! while such a frame stands behind, and one that is ordered later waits for those on their way (`Wal::await_zeros`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::env::work::lock;
use crate::error::{IoContext, Result};
use crate::planted::{self, Bug};

use super::Wal;
use super::order::Order;
use super::segment::{PAGE, Segment};

/// Zeros go out so many bytes at a time.
pub(super) const AHEAD: u64 = 16 * PAGE;

/// One write: a run of pages of one segment.
struct Job {
    segment: Arc<Segment>,
    /// A page boundary.
    from: u64,
    /// End of the whole bytes.
    to: u64,
    /// Zeros follow up to here: at least to the end of the page.
    until: u64,
    /// A frame ends there.
    is_end: bool,
}

impl<T> Wal<T> {
    /// True if enough has gathered in the ring, or someone waits for room.
    pub fn drain_due(&self) -> bool {
        let gathered = self.whole.load(Ordering::Relaxed).saturating_sub(self.drained.load(Ordering::Relaxed));
        self.is_mapped() && gathered >= self.limits.drain_bytes
    }

    /// Writes all whole frames to the segments. True if anything moved.
    pub fn drain(&self) -> Result<bool> {
        self.drain_through(u64::MAX)
    }

    /// `drain` of what stands before the end of a frame; what comes meanwhile is left to others.
    pub(super) fn drain_through(&self, end: u64) -> Result<bool> {
        let mut staging = lock(&self.staging);
        let mut moved = false;
        loop {
            self.check()?;
            let job = {
                let mut order = self.order.lock();
                let before = order.drained;
                self.look(&mut order);
                moved |= order.drained > before;
                let mut job = next_job(&order, (staging.len() as u64).saturating_sub(AHEAD), end);
                if let Some(job) = job.as_mut().filter(|job| job.is_end) {
                    self.look_ahead(&order, job);
                }
                order.draining = job.is_some();
                if job.is_none() && order.waiting > 0 {
                    self.order.notify_all();
                }
                job
            };
            let Some(job) = job else { return Ok(moved) };
            let written = self.write_out(&job, &mut staging);
            let mut order = self.order.lock();
            order.draining = false;
            if let Err(error) = written {
                drop(order);
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

    fn write_out(&self, job: &Job, staging: &mut [u8]) -> Result<()> {
        let (whole, all) = ((job.to - job.from) as usize, (job.until - job.from) as usize);
        self.ring.load(job.from, &mut staging[..whole]);
        staging[whole..all].fill(0);
        job.segment.write(job.from, &staging[..all]).during(|| format!("drain {whole} bytes to {}", job.segment.name()))
    }

    /// Lets zeros follow a run that goes to blocks which were never written, where commits are synced. Called under the order lock.
    fn look_ahead(&self, order: &Order<T>, job: &mut Job) {
        let is_last = order.pieces.len() == 1 || planted::active(Bug::ZerosOverFrames);
        let written = job.segment.written.max(self.ahead.load(Ordering::Relaxed));
        if is_last && job.until > written && self.expects_syncs.load(Ordering::Relaxed) {
            let until = (job.until + AHEAD).min(job.segment.limit());
            self.metrics.zeroed_ahead_bytes.fetch_add(until - job.until, Ordering::Relaxed);
            job.until = until;
            self.ahead.store(until, Ordering::Release);
        }
    }

    /// Waits until no zeros are on their way that would go over what stands at an offset, which was ordered before this is called.
    pub(super) fn await_zeros(&self, offset: u64) {
        if offset < self.ahead.load(Ordering::Acquire) {
            drop(lock(&self.staging));
        }
    }
}

/// The next run to be written, at most `room` bytes, and none behind `end`.
fn next_job<T>(order: &Order<T>, room: u64, end: u64) -> Option<Job> {
    let piece = order.pieces.front().filter(|piece| !piece.direct)?;
    let from = order.drained / PAGE * PAGE;
    let end = order.whole.offset.min(piece.end).min(end);
    let to = end.min(from + room);
    let job = || Job { segment: piece.segment.clone(), from, to, until: to.next_multiple_of(PAGE), is_end: to == end };
    (to > order.drained).then(job)
}
