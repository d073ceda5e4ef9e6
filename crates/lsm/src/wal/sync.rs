//! Group sync: one leader makes all whole frames durable, for all waiting threads. Each group takes one fdatasync,
//! never two: a group ends with its segment at the latest, so an older segment is synced before anything after it
//! (I15).
//!
//! The leader pads to a page boundary if no other thread is writing, syncs the files that frames point to, drains,
//! syncs, and stores the witness. Only then do the waiting threads return. No lock that a commit needs is held during
//! the I/O. Only threads with work to do are woken: the group's members return, and one of the later arrivals leads the
//! next group, or waits with a timeout for the others to come back (`gather`). A failed sync halts the log: the pages'
//! state is unknown, and syncing them again proves nothing (I09).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::env::work::{Bell, lock};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::frame::Mark;
use crate::names;
use crate::planted::{self, Bug};

use super::Wal;
use super::append::LOOK_AGAIN;
use super::gather::{Gathering, Next};
use super::segment::{Place, Segment};

/// State of the group sync: its leader and its progress.
#[derive(Debug)]
pub(super) struct Group {
    /// The log is durable up to this place.
    synced: Place,
    leading: bool,
    /// The end of the group being synced. `None` while the group gathers: it then covers all whole frames.
    end: Option<u64>,
    /// Index of the current group's wake-up channel.
    turn: usize,
    gathering: Gathering,
}

impl Group {
    pub(super) fn new(synced: Place) -> Group {
        Group { synced, leading: false, end: None, turn: 0, gathering: Gathering::default() }
    }

    /// Returns the wake-up channel of the group that makes `upto` durable.
    fn bell(&self, upto: u64) -> usize {
        match self.end {
            Some(end) if end < upto => 1 - self.turn,
            _ => self.turn,
        }
    }
}

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
        if !self.expects_syncs.load(Ordering::Relaxed) {
            self.expects_syncs.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the log durable like `sync`, for events that come once in many commits: an edit, a full segment.
    pub fn sync_once(&self, upto: u64) -> Result<()> {
        let mut group = lock(&self.group);
        let (mut watches, mut time_is_up) = (false, false);
        loop {
            if group.synced.offset >= upto {
                return Ok(());
            }
            if self.failed.get().is_some() {
                drop(group);
                return self.check();
            }
            if group.leading {
                (watches, time_is_up) = (false, false);
                let bell = group.bell(upto);
                group = self.bells[bell].wait(group, None);
                continue;
            }
            let turn = group.turn;
            let present = self.bells[turn].waiting() + 1;
            if !time_is_up {
                match group.gathering.next(present, watches) {
                    Next::Lead => {}
                    Next::Wait => {
                        group = self.bells[turn].wait(group, None);
                        continue;
                    }
                    Next::Watch(time) => {
                        watches = true;
                        (group, time_is_up) = self.bells[turn].wait_at_most(group, time);
                        continue;
                    }
                }
            }
            group.gathering.led(present, time_is_up);
            group.leading = true;
            let before = group.synced.offset;
            (watches, time_is_up) = (false, false);
            drop(group);
            let started = self.env.clock.monotonic_nanos();
            let outcome = self.lead();
            let took = Duration::from_nanos(self.env.clock.monotonic_nanos().saturating_sub(started));
            group = lock(&self.group);
            let crowd = self.bells.iter().map(Bell::waiting).sum();
            self.crowd.store(crowd, Ordering::Relaxed);
            group.gathering.synced(crowd + 1, took);
            (group.leading, group.end, group.turn) = (false, None, 1 - turn);
            if let Ok(place) = &outcome {
                group.synced = *place;
            }
            drop(group);
            // One of the later arrivals leads; their wake-up channel becomes that of its group. Then this group's
            // members return.
            self.bells[1 - turn].wake_one();
            self.bells[turn].wake_all();
            let place = outcome.inspect_err(|_| self.bells.iter().for_each(Bell::wake_all))?;
            if place.offset < upto && place.offset == before {
                return Err(Error::invalid(format!("the log is whole up to {before} only, not {upto}")));
            }
            group = lock(&self.group);
        }
    }

    /// Makes everything that is whole now durable, and returns the place up to which the log is durable.
    pub fn sync_all(&self) -> Result<Place> {
        self.check()?;
        let whole = {
            let mut order = self.order.lock();
            self.look(&mut order);
            order.whole.offset
        };
        self.sync(whole)?;
        Ok(self.synced())
    }

    /// Returns the place up to which the log is durable.
    pub fn synced(&self) -> Place {
        lock(&self.group).synced
    }

    /// Returns the ends of the segments that are full, durable and not yet sealed, oldest first, to be sealed in the
    /// manifest. `sealed` removes them from this list.
    pub fn seals_due(&self) -> Vec<Place> {
        if self.failed.get().is_some() {
            return Vec::new();
        }
        let order = self.order.lock();
        let unsealed = order.live.iter().filter(|segment| !segment.sealed.load(Ordering::Relaxed));
        let ends = unsealed.map_while(|segment| {
            let (offset, link) = *segment.closed.get()?;
            let is_durable = segment.synced.load(Ordering::Acquire) || planted::active(Bug::SealedBeforeSync);
            is_durable.then_some(Place { segment: segment.number, nonce: segment.nonce, offset, link })
        });
        ends.collect()
    }

    /// Marks these segments as sealed. The manifest must have sealed them durably.
    pub fn sealed(&self, seals: &[Place]) {
        let order = self.order.lock();
        let is_of = |segment: &&Arc<Segment>| seals.iter().any(|seal| seal.segment == segment.number);
        order.live.iter().filter(is_of).for_each(|segment| segment.sealed.store(true, Ordering::Relaxed));
    }

    /// Syncs the segments that the log has left, so that they can be sealed. Background work; returns true if it synced
    /// any.
    pub fn sync_full(&self) -> Result<bool> {
        self.check()?;
        let behind = {
            let order = self.order.lock();
            let unsynced = order.live.iter().filter(|segment| !segment.synced.load(Ordering::Relaxed));
            // The place after a turnover is the start of the next segment; the log is whole up to that offset.
            unsynced.filter(|segment| segment.closed.get().is_some()).map(|segment| segment.limit()).max()
        };
        let Some(next_start) = behind.filter(|next_start| self.whole_up_to() >= *next_start) else { return Ok(false) };
        let before = self.synced().offset;
        if before < next_start {
            self.sync_once(next_start)?;
        }
        Ok(before < next_start)
    }

    /// Closes the log: no frame can be ordered any more, and all frames are durable. The returned place seals the last
    /// segment.
    pub fn close(&self) -> Result<Place> {
        let mut order = self.order.lock();
        order.closed = true;
        self.order.notify_all();
        // Ordered frames are still being copied and their commits return, so the seal must lie after them.
        self.look(&mut order);
        while !order.all_whole() && self.failed.get().is_none() {
            order.waiting += 1;
            order = self.order.wait(order, Some(LOOK_AGAIN));
            order.waiting -= 1;
            self.look(&mut order);
        }
        drop(order);
        let place = self.sync_all()?;
        debug_assert!(self.order.lock().all_whole(), "closed while a commit was under way");
        Ok(place)
    }

    /// Frees the drain buffer, once the log is closed.
    pub fn release(&self) {
        *lock(&self.staging) = Vec::new();
    }

    /// Returns the witness in the encoding of padding frames.
    pub(super) fn witness_word(&self) -> u64 {
        // Read without the group's lock: an older witness is also valid.
        Mark::Synced.encode(0, self.witness.load(Ordering::Relaxed))
    }

    fn lead(&self) -> Result<Place> {
        let (place, segment) = self.end_group()?;
        let Some(segment) = segment else {
            self.check_place()?;
            return Ok(place);
        };
        lock(&self.group).end = Some(place.offset);
        if planted::active(Bug::SyncBeforeDrain) {
            self.sync_segment(&segment, place)?;
        }
        if let Some(first) = self.syncs_first.get() {
            first().map_err(|error| self.halt(error))?; // that data was written before its frames were ordered
        }
        self.drain_through(place.offset)?;
        if !planted::active(Bug::SyncBeforeDrain) {
            self.sync_segment(&segment, place)?;
        }
        self.check()?;
        self.check_place()?;
        self.ring.mark(Mark::Synced, place.offset).map_err(|error| self.halt(error))?;
        self.witness.store(place.offset, Ordering::Relaxed);
        self.metrics.groups.fetch_add(1, Ordering::Relaxed);
        Ok(place)
    }

    /// A sync counts only while the directory holds this store: a process that took a new lock file may have removed
    /// the log, and another `CURRENT` names other segments.
    fn check_place(&self) -> Result<()> {
        names::check_place(&self.env).map_err(|error| match error.kind() {
            ErrorKind::Halted => self.halt(error),
            _ => error, // the directory did not respond; the next sync checks again
        })
    }

    /// Runs a group's only fdatasync.
    fn sync_segment(&self, segment: &Segment, place: Place) -> Result<()> {
        let is_left = place.segment != segment.number;
        let forgets = planted::active(Bug::OlderSegmentNotSynced) && is_left;
        if !forgets && !planted::active(Bug::AcknowledgeBeforeFsync) {
            self.metrics.syncs.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = segment.file.sync_data().during(|| format!("sync {}", segment.name())) {
                let forgotten = planted::active(Bug::FsyncFailureForgotten);
                return Err(if forgotten { error } else { self.halt(error) });
            }
        }
        if is_left {
            segment.synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Returns the end of the group and the segment that holds it; the segment is `None` if all whole frames are
    /// durable. If all other threads are done, a padding frame moves the end to a page boundary.
    fn end_group(&self) -> Result<(Place, Option<Arc<Segment>>)> {
        let synced = self.synced();
        let filler = {
            let mut order = self.order.lock();
            self.look(&mut order);
            if self.expects_syncs.load(Ordering::Relaxed) {
                order.want_written(self.limits);
            }
            self.note_wanted(&order);
            let quiet = order.all_whole() && order.waiting == 0 && !order.leaves_behind();
            match order.situation(self.limits).padding().filter(|_| quiet && order.has_room()) {
                Some(until) => order.pad(until, self.witness_word(), self.limits),
                None => return Ok(order.group(synced)),
            }
        };
        self.copy_filler(&filler)?;
        let mut order = self.order.lock();
        self.look(&mut order);
        Ok(order.group(synced))
    }
}
