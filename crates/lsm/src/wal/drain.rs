//! The drain: whole pages from the ring to the segments, and the partial last page when a sync asks for it.
//!
//! A page that was drained in part is written again later, so the ring keeps it until then (`order::Situation`). What stands
//! behind the last whole frame goes out as zeros. A write that fails halts the log (I09): the ring still holds every byte.

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
}

impl<T> Wal<T> {
    /// True if enough has gathered in the ring, or someone waits for room.
    pub fn drain_due(&self) -> bool {
        let gathered = self.whole.load(Ordering::Relaxed).saturating_sub(self.drained.load(Ordering::Relaxed));
        self.is_mapped() && gathered >= self.limits.drain_bytes
    }

    /// Writes every whole page of whole frames to the segments. True if anything moved.
    pub fn drain(&self) -> Result<bool> {
        self.check()?;
        self.drain_whole(false)
    }

    /// Drains all whole frames; `partial` takes the last page too, although more will come into it.
    pub(super) fn drain_whole(&self, partial: bool) -> Result<bool> {
        let mut staging = lock(&self.staging);
        let mut moved = false;
        loop {
            self.check()?;
            let job = {
                let mut order = self.order.lock();
                let before = order.drained;
                self.look(&mut order);
                moved |= order.drained > before;
                let job = next_job(&order, partial, staging.len() as u64);
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
            order.drained = job.to;
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
fn next_job<T>(order: &Order<T>, partial: bool, room: u64) -> Option<Job> {
    let piece = order.pieces.front().filter(|piece| !piece.direct)?;
    let from = order.drained / PAGE * PAGE;
    let whole = order.whole.offset.min(piece.end).min(from + room);
    let to = if partial { whole } else { whole / PAGE * PAGE };
    (to > order.drained).then(|| Job { segment: piece.segment.clone(), from, to })
}
