//! Group sync: one leader makes what is whole durable, for all who wait. One fdatasync a group, never two: a group ends with
//! its segment at the latest, so that an older segment is synced before anything behind it (I15).
//!
//! The leader pads to a page boundary when nobody else is writing, syncs what frames point to, drains, syncs, stores the witness, and only then does anyone
//! return. No lock that a commit needs is held over the I/O. Who is woken has something to do: those of the group return, and one of
//! those who came later leads the next, or sees to it that somebody does once the others are back (`gather`).
//! A sync that fails halts the log: nothing is known of the pages, so nothing is synced again (I09).

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

/// Who syncs, and how far it is done.
#[derive(Debug)]
pub(super) struct Group {
    /// Durable up to here.
    synced: Place,
    leading: bool,
    /// The group under way ends here; none while it gathers: then it holds whatever is whole.
    end: Option<u64>,
    /// The bell of the group under way.
    turn: usize,
    gathering: Gathering,
}

impl Group {
    pub(super) fn new(synced: Place) -> Group {
        Group { synced, leading: false, end: None, turn: 0, gathering: Gathering::default() }
    }

    /// The bell of the group that makes `upto` durable, while one is under way.
    fn bell(&self, upto: u64) -> usize {
        match self.end {
            Some(end) if end < upto => 1 - self.turn,
            _ => self.turn,
        }
    }
}

impl<T> Wal<T> {
    /// Makes the log durable up to `upto`, which is whole (the commit was taken). Returns when it is, with whoever leads. Whoever waits so for one
    /// commit will for others: from now on the log is kept on blocks that were written before.
    pub fn sync(&self, upto: u64) -> Result<()> {
        self.expect_syncs();
        self.sync_once(upto)
    }

    /// Commits are synced here.
    #[inline]
    pub fn expect_syncs(&self) {
        if !self.expects_syncs.load(Ordering::Relaxed) {
            self.expects_syncs.store(true, Ordering::Relaxed);
        }
    }

    /// `sync`, for what comes once in many commits: an edit, a full segment.
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
            // Of those who came later one leads, and their bell is that of its group; then those of this group return.
            self.bells[1 - turn].wake_one();
            self.bells[turn].wake_all();
            let place = outcome.inspect_err(|_| self.bells.iter().for_each(Bell::wake_all))?;
            if place.offset < upto && place.offset == before {
                return Err(Error::invalid(format!("the log is whole up to {before} only, not {upto}")));
            }
            group = lock(&self.group);
        }
    }

    /// Makes durable everything that is whole now, and returns the place up to which the log is durable.
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

    /// The place up to which the log is durable.
    pub fn synced(&self) -> Place {
        lock(&self.group).synced
    }

    /// The ends of the segments that are full and durable and not sealed yet, oldest first, to be sealed in the manifest; `sealed` takes them
    /// off the list.
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

    /// The manifest has sealed these segments durably.
    pub fn sealed(&self, seals: &[Place]) {
        let order = self.order.lock();
        let is_of = |segment: &&Arc<Segment>| seals.iter().any(|seal| seal.segment == segment.number);
        order.live.iter().filter(is_of).for_each(|segment| segment.sealed.store(true, Ordering::Relaxed));
    }

    /// Syncs the segments that were left behind, so that they can be sealed. Background work; true if there was something.
    pub fn sync_full(&self) -> Result<bool> {
        self.check()?;
        let behind = {
            let order = self.order.lock();
            let unsynced = order.live.iter().filter(|segment| !segment.synced.load(Ordering::Relaxed));
            // The place behind a turnover is the start of the next segment; the log is whole up to there at least.
            unsynced.filter(|segment| segment.closed.get().is_some()).map(|segment| segment.limit()).max()
        };
        let Some(next_start) = behind.filter(|next_start| self.whole_up_to() >= *next_start) else { return Ok(false) };
        let before = self.synced().offset;
        if before < next_start {
            self.sync_once(next_start)?;
        }
        Ok(before < next_start)
    }

    /// Ends the log: nothing can be ordered any more, everything is durable. The place seals the last segment.
    pub fn close(&self) -> Result<Place> {
        let mut order = self.order.lock();
        order.closed = true;
        self.order.notify_all();
        // Frames that were ordered are on their way: their commits return, so the seal must lie behind them.
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

    /// Frees the buffer between ring and segment: the log is closed.
    pub fn release(&self) {
        *lock(&self.staging) = Vec::new();
    }

    /// The witness as padding frames carry it.
    pub(super) fn witness_word(&self) -> u64 {
        // Read without the group's lock: an older witness is a witness too.
        Mark::Synced.encode(0, self.witness.load(Ordering::Relaxed))
    }

    fn lead(&self) -> Result<Place> {
        let (place, segment) = self.end_group()?;
        let Some(segment) = segment else {
            self.check_lock()?;
            return Ok(place);
        };
        lock(&self.group).end = Some(place.offset);
        if planted::active(Bug::SyncBeforeDrain) {
            self.sync_segment(&segment, place)?;
        }
        if let Some(first) = self.syncs_first.get() {
            first().map_err(|error| self.halt(error))?; // what is whole was written before it was ordered
        }
        self.drain_through(place.offset)?;
        if !planted::active(Bug::SyncBeforeDrain) {
            self.sync_segment(&segment, place)?;
        }
        self.check()?;
        self.check_lock()?;
        self.ring.mark(Mark::Synced, place.offset).map_err(|error| self.halt(error))?;
        self.witness.store(place.offset, Ordering::Relaxed);
        self.metrics.groups.fetch_add(1, Ordering::Relaxed);
        Ok(place)
    }

    /// What was synced counts only while the lock is this store's: a process that took a new lock file may have removed the log.
    fn check_lock(&self) -> Result<()> {
        names::check_lock(&self.env).map_err(|error| match error.kind() {
            ErrorKind::Halted => self.halt(error),
            _ => error, // the directory did not answer; the next sync asks again
        })
    }

    /// The one fdatasync of a group.
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

    /// Where the group ends, and the segment that holds it; none if all that is whole is durable. At a page boundary, by a padding
    /// frame, if everyone else is done.
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
