//! Group sync: one leader makes everything whole durable, for all who wait. One fdatasync a group (and one for each older
//! segment that had none yet).
//!
//! The leader pads to a page boundary when nobody else is writing, drains, syncs older segments first, then its own, stores
//! the witness, and only then does anyone return. No lock that a commit needs is held over the I/O.
//! A sync that fails halts the log: nothing is known of the pages, so nothing is synced again (I09).

use std::sync::atomic::Ordering;

use crate::error::{Error, IoContext, Result};
use crate::frame::Mark;
use crate::planted::{self, Bug};

use super::Wal;
use super::append::LOOK_AGAIN;
use super::segment::Place;

/// Who syncs, and how far it is done.
#[derive(Debug)]
pub(super) struct Group {
    /// Durable up to here.
    synced: Place,
    leading: bool,
}

impl Group {
    pub(super) fn new(synced: Place) -> Group {
        Group { synced, leading: false }
    }
}

impl<T> Wal<T> {
    /// Makes the log durable up to `upto`, which is whole (the commit was taken). Returns when it is, with whoever leads.
    pub fn sync(&self, upto: u64) -> Result<()> {
        let mut group = self.group.lock();
        loop {
            if group.synced.offset >= upto {
                return Ok(());
            }
            if self.failed.get().is_some() {
                drop(group);
                return self.check();
            }
            if !group.leading {
                break;
            }
            group = self.group.wait(group, None);
        }
        group.leading = true;
        drop(group);
        let outcome = self.lead();
        let mut group = self.group.lock();
        group.leading = false;
        if let Ok(place) = &outcome {
            group.synced = *place;
        }
        drop(group);
        self.group.notify_all();
        match outcome? {
            place if place.offset >= upto => Ok(()),
            place => Err(Error::invalid(format!("the log is whole up to {} only, not {upto}", place.offset))),
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
        self.group.lock().synced
    }

    /// A segment that is full and durable and not sealed yet, to be sealed in the manifest; `sealed` takes it off the list.
    pub fn seal_due(&self) -> Option<Place> {
        if self.failed.get().is_some() {
            return None;
        }
        let order = self.order.lock();
        let full = order.live.iter().find(|segment| !segment.sealed.load(Ordering::Relaxed))?;
        let (offset, link) = *full.closed.get()?;
        let synced = full.synced.load(Ordering::Acquire);
        synced.then_some(Place { segment: full.number, nonce: full.nonce, offset, link })
    }

    /// The manifest has sealed this segment durably.
    pub fn sealed(&self, number: u64) {
        let order = self.order.lock();
        if let Some(segment) = order.live.iter().find(|segment| segment.number == number) {
            segment.sealed.store(true, Ordering::Relaxed);
        }
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
            self.sync(next_start)?;
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

    /// The witness as padding frames carry it.
    pub(super) fn witness_word(&self) -> u64 {
        // Read without the group's lock: an older witness is a witness too.
        Mark::Synced.encode(0, self.witness.load(Ordering::Relaxed))
    }

    fn lead(&self) -> Result<Place> {
        let place = self.end_group()?;
        if place == self.synced() {
            return Ok(place);
        }
        self.drain()?;
        let unsynced: Vec<_> = {
            let order = self.order.lock();
            let is_due = |segment: &&std::sync::Arc<super::Segment>| {
                segment.first < place.offset && !segment.synced.load(Ordering::Relaxed)
            };
            order.live.iter().filter(is_due).cloned().collect()
        };
        for (left, segment) in (0..unsynced.len()).rev().zip(&unsynced) {
            if planted::active(Bug::AcknowledgeBeforeFsync) || (planted::active(Bug::OlderSegmentNotSynced) && left > 0)
            {
                continue;
            }
            self.metrics.syncs.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = segment.file.sync_data().during(|| format!("sync {}", segment.name())) {
                let forgotten = planted::active(Bug::FsyncFailureForgotten);
                return Err(if forgotten { error } else { self.halt(error) });
            }
            if segment.closed.get().is_some_and(|(end, _)| *end <= place.offset) {
                segment.synced.store(true, Ordering::Release);
            }
        }
        self.check()?;
        self.ring.mark(Mark::Synced, place.offset).map_err(|error| self.halt(error))?;
        self.witness.store(place.offset, Ordering::Relaxed);
        self.metrics.groups.fetch_add(1, Ordering::Relaxed);
        Ok(place)
    }

    /// Where the group ends: at a page boundary, by a padding frame, if everyone else is done.
    fn end_group(&self) -> Result<Place> {
        let filler = {
            let mut order = self.order.lock();
            self.look(&mut order);
            let quiet = order.all_whole() && order.waiting == 0;
            match order.situation(self.limits).padding().filter(|_| quiet && order.has_room()) {
                Some(until) => order.pad(until, self.witness_word(), self.limits),
                None => return Ok(order.whole),
            }
        };
        self.copy_filler(&filler)?;
        let mut order = self.order.lock();
        self.look(&mut order);
        Ok(order.whole)
    }
}
