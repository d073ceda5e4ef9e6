//! Group sync: one leader makes all whole frames durable, for all waiting threads. Each group takes one fdatasync,
//! never two: a group ends with its segment at the latest, so an older segment is synced before anything after it
//! (I15).
//!
//! The leader pads to a page boundary if no other thread is writing, syncs the files that frames point to, drains,
//! syncs, and stores the witness. Only then do the waiting threads return (`group.rs`). No lock that a commit needs is
//! held during the I/O. A failed sync halts the log: the pages' state is unknown, and syncing them again proves nothing
//! (I09).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::names;
use crate::planted;

use super::group::Joined;
use super::log::Wal;
use super::segment::{LogPlace, Segment, SegmentEnd};

impl<T> Wal<T> {
    /// Makes the log durable up to `upto`, which must be whole (the commit was taken). Returns once it is durable, as
    /// leader or as a member of a group. A thread that waits for one commit will wait for others: from now on the log
    /// prefers segments whose blocks were written before.
    pub fn sync(&self, upto: u64) -> Result<()> {
        self.expect_syncs();
        self.sync_once(upto)
    }

    /// Notes that commits are synced.
    #[inline]
    pub fn expect_syncs(&self) {
        if !self.stream.expects_syncs() {
            self.stream.expects_syncs.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the log durable like `sync`, for events that come once in many commits: an edit, a full segment.
    pub fn sync_once(&self, upto: u64) -> Result<()> {
        let (groups, clock) = (&self.stream.groups, &self.stream.env.clock);
        loop {
            let lead = match groups.join(upto, || self.stream.has_failed()) {
                Joined::Durable => return Ok(()),
                Joined::Failed => return self.stream.check(),
                Joined::Leads(lead) => lead,
            };
            let started = clock.monotonic_nanos();
            let outcome = self.lead();
            let took = Duration::from_nanos(clock.monotonic_nanos().saturating_sub(started));
            groups.finish(&lead, took, outcome.as_ref().ok().copied());
            let place = outcome.inspect_err(|_| groups.wake_all())?;
            if place.offset < upto && place.offset == lead.synced {
                return Err(Error::invalid(format!("the log is whole up to {} only, not {upto}", lead.synced)));
            }
        }
    }

    /// Makes everything that is whole now durable, and returns the place up to which the log is durable.
    pub fn sync_all(&self) -> Result<LogPlace> {
        self.stream.check()?;
        let whole = {
            let mut order = self.stream.order.lock();
            self.stream.advance(&mut order);
            order.whole.offset
        };
        self.sync(whole)?;
        Ok(self.synced())
    }

    /// Returns the place up to which the log is durable.
    pub fn synced(&self) -> LogPlace {
        self.stream.groups.synced()
    }

    /// Returns the ends of the segments that are full, durable and not yet sealed, oldest first, to be sealed in the
    /// manifest. `sealed` removes them from this list.
    pub fn seals_due(&self) -> Vec<LogPlace> {
        if self.stream.has_failed() {
            return Vec::new();
        }
        let order = self.stream.order.lock();
        let unsealed = order.live.iter().filter(|segment| !segment.sealed.load(Ordering::Relaxed));
        let ends = unsealed.map_while(|segment| {
            let SegmentEnd { offset, link, .. } = *segment.closed.get()?;
            let is_durable = planted!(SealedBeforeSync, true, segment.synced.load(Ordering::Acquire));
            is_durable.then_some(LogPlace { segment: segment.number, nonce: segment.nonce, offset, link })
        });
        ends.collect()
    }

    /// Marks these segments as sealed. The manifest must have sealed them durably.
    pub fn sealed(&self, seals: &[LogPlace]) {
        let order = self.stream.order.lock();
        let is_of = |segment: &&Arc<Segment>| seals.iter().any(|seal| seal.segment == segment.number);
        order.live.iter().filter(is_of).for_each(|segment| segment.sealed.store(true, Ordering::Relaxed));
    }

    /// Syncs the segments that the log has left, so that they can be sealed. Background work; returns true if it synced
    /// any.
    pub fn sync_full(&self) -> Result<bool> {
        self.stream.check()?;
        let behind = {
            let order = self.stream.order.lock();
            let unsynced = order.live.iter().filter(|segment| !segment.synced.load(Ordering::Relaxed));
            // The place after a turnover is the start of the next segment; the log is whole up to that offset.
            unsynced.filter(|segment| segment.closed.get().is_some()).map(|segment| segment.limit()).max()
        };
        let whole = self.stream.whole_up_to();
        let Some(next_start) = behind.filter(|next_start| whole >= *next_start) else { return Ok(false) };
        let before = self.synced().offset;
        if before < next_start {
            self.sync_once(next_start)?;
        }
        Ok(before < next_start)
    }

    /// Closes the log: no frame can be ordered any more, and all frames are durable. The returned place seals the last
    /// segment.
    pub fn close(&self) -> Result<LogPlace> {
        let stream = &self.stream;
        let mut order = stream.order.lock();
        order.closed = true;
        stream.order.notify_all();
        // Ordered frames are still being copied and their commits return, so the seal must lie after them.
        stream.advance(&mut order);
        while !order.all_whole() && !stream.has_failed() {
            order = stream.await_change(order);
            stream.advance(&mut order);
        }
        drop(order);
        let place = self.sync_all()?;
        debug_assert!(stream.order.lock().all_whole(), "closed while a commit was under way");
        Ok(place)
    }

    /// Frees the drain buffer, once the log is closed.
    pub fn release(&self) {
        self.stream.release();
    }

    /// Makes the frames that are whole now durable, up to the end of their segment at most.
    fn lead(&self) -> Result<LogPlace> {
        let (place, segment) = self.end_group()?;
        let Some(segment) = segment else {
            self.check_place()?;
            return Ok(place);
        };
        self.stream.groups.fix_end(place.offset);
        let is_left = place.segment != segment.number;
        planted!(SyncBeforeDrain => self.sync_segment(&segment)?);
        if let Some(first) = self.syncs_first.get() {
            first().map_err(|error| self.stream.halt(error))?; // that data was written before its frames were ordered
        }
        self.stream.drain_through(place.offset)?;
        let is_synced = planted!(SyncBeforeDrain, true, planted!(OlderSegmentNotSynced, is_left, false));
        if !is_synced {
            self.sync_segment(&segment)?;
        }
        self.stream.check()?;
        self.check_place()?;
        self.stream.ring.store_witness(place.offset).map_err(|error| self.stream.halt(error))?;
        if is_left {
            segment.synced.store(true, Ordering::Release); // not before: `sync_full` must try again after a failure
        }
        self.stream.metrics.groups.fetch_add(1, Ordering::Relaxed);
        Ok(place)
    }

    /// A sync counts only while the directory holds this store: a process that took a new lock file may have removed
    /// the log, and another `CURRENT` names other segments.
    fn check_place(&self) -> Result<()> {
        names::check_place(&self.stream.env).map_err(|error| match error.kind() {
            ErrorKind::Halted => self.stream.halt(error),
            _ => error, // the directory did not respond; the next sync checks again
        })
    }

    /// Runs a group's only fdatasync.
    fn sync_segment(&self, segment: &Segment) -> Result<()> {
        if planted!(AcknowledgeBeforeFsync, false, true) {
            self.stream.metrics.syncs.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = segment.file.sync_data().during(|| format!("sync {}", segment.name())) {
                return Err(planted!(FsyncFailureForgotten, error, self.stream.halt(error)));
            }
        }
        Ok(())
    }

    /// Returns the end of the group and the segment that holds it; the segment is `None` if all whole frames are
    /// durable. If all other threads are done, a padding frame moves the end to a page boundary.
    fn end_group(&self) -> Result<(LogPlace, Option<Arc<Segment>>)> {
        let stream = &self.stream;
        let synced = self.synced();
        let filler = {
            let mut order = stream.order.lock();
            stream.advance(&mut order);
            if stream.expects_syncs() {
                order.want_written(stream.limits);
            }
            self.supply.publish_wanted(stream, &order);
            let quiet = order.all_whole() && order.waiting == 0 && !order.leaves_behind();
            match order.placement_state(stream.limits).padding().filter(|_| quiet && order.has_room()) {
                Some(until) => order.pad(until, stream.ring.witness_word(), stream.limits),
                None => return Ok(order.group(synced)),
            }
        };
        stream.copy_filler(&filler)?;
        let mut order = stream.order.lock();
        stream.advance(&mut order);
        Ok(order.group(synced))
    }
}
