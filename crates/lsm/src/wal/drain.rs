//! The drain: whole frames, in whole pages, from the ring to the segments.
//!
//! Each run ends with a frame: recovery needs every frame whole in one of the two places. The last page is written again with
//! what comes into it later, so the ring keeps it until then (`Order::kept`). What stands behind the last frame goes out as zeros. A write that fails halts the log (I09): the ring still holds every byte.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::env::work::lock;
use crate::error::{IoContext, Result};

use super::Wal;
use super::order::Order;
use super::segment::{PAGE, Segment};

/// One write: a run of pages of one segment.
struct Job {
    segment: Arc<Segment>,
    /// A page boundary.
    from: u64,
    /// End of the whole bytes.
    to: u64,
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
        let mut staging = lock(&self.staging);
        let mut moved = false;
        loop {
            self.check()?;
            let job = {
                let mut order = self.order.lock();
                let before = order.drained;
                self.look(&mut order);
                moved |= order.drained > before;
                let job = next_job(&order, staging.len() as u64);
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
        let whole = (job.to - job.from) as usize;
        let pages = whole.next_multiple_of(PAGE as usize);
        self.ring.load(job.from, &mut staging[..whole]);
        staging[whole..pages].fill(0);
        job.segment
            .write(job.from, &staging[..pages])
            .during(|| format!("drain {whole} bytes to {}", job.segment.name()))
    }
}

/// The next run to be written, at most `room` bytes.
fn next_job<T>(order: &Order<T>, room: u64) -> Option<Job> {
    let piece = order.pieces.front().filter(|piece| !piece.direct)?;
    let from = order.drained / PAGE * PAGE;
    let end = order.whole.offset.min(piece.end);
    let to = end.min(from + room);
    (to > order.drained).then(|| Job { segment: piece.segment.clone(), from, to, is_end: to == end })
}
