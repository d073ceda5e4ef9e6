//! The store's state for the event log: the queries that its implementation may make while entries become rows, to find
//! rows outside its retention.
//!
//! In:    the views of all families at one moment, and the last commit then visible.
//! Out:   the live and quarantined tables, the lost ranges, and the records of a family.
//! Order: the seqno is at least that of every record in a table, because a memtable is frozen only after its commits
//!        are visible. A table with a tombstone of that seqno therefore precedes the table with the row in level 0
//!        (ordered by newest seqno, then number).
//! Costs: one step for each table of the store; a scan holds its view, does not populate the cache and takes no lock
//!        that a flush holds.

use std::collections::HashSet;
use std::ops::Bound::{Excluded, Included};

use super::Inner;
use super::reads::Moment;
use crate::checksum::Uid;
use crate::error::Result;
use crate::expiry::AsOf;
use crate::fence::Fence;
use crate::options::{Reading, Verify};
use crate::record::{Record, Seqno};
use crate::seam::{EventRetention, EventStore};

/// The state of the store while entries become rows.
pub(super) struct Standing<'a> {
    inner: &'a Inner,
    retention: EventRetention,
    now: u64,
    pub(super) seqno: Seqno,
    live: HashSet<Uid>,
    barred: HashSet<Uid>,
    fences: Vec<Fence>,
}

impl<'a> Standing<'a> {
    pub(super) fn new(inner: &'a Inner, retention: EventRetention, now: u64) -> Standing<'a> {
        let (mut live, mut barred, mut fences) = (HashSet::new(), HashSet::new(), Vec::new());
        for family in inner.families().by_id.values() {
            let view = family.pinned_view();
            for table in view.levels.iter().flat_map(|level| level.tables()) {
                let meta = table.meta();
                live.insert(meta.uid);
                if inner.compactions.bars_any([meta.number].into_iter()) {
                    barred.insert(meta.uid);
                }
            }
            fences.extend(view.fences.iter().cloned());
        }
        Standing { inner, retention, now, seqno: inner.visible(), live, barred, fences }
    }
}

impl EventStore for Standing<'_> {
    fn retention(&self) -> EventRetention {
        self.retention
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn seqno(&self) -> Seqno {
        self.seqno
    }

    fn is_live(&self, uid: Uid) -> bool {
        self.live.contains(&uid)
    }

    fn is_barred(&self, uid: Uid) -> bool {
        self.barred.contains(&uid)
    }

    fn fences(&self) -> &[Fence] {
        &self.fences
    }

    fn scan(&self, family: u32, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&Record<'_>) -> bool) -> Result<()> {
        let families = self.inner.families();
        let Some(family) = families.by_id.get(&family) else { return Ok(()) };
        let reading = Reading { verify: Verify::Always, fill_cache: false };
        let bounds = (Included(from.to_vec()), Excluded(to.to_vec()));
        let moment = Moment { seqno: self.seqno, as_of: AsOf::micros(self.now) };
        let mut cursor = self.inner.cursor_in(family, family.pinned_view(), moment, bounds, reading);
        let mut moved = cursor.first();
        loop {
            let met = match moved {
                Ok(()) => false,
                Err(error) if error.is_corruption() => true,
                Err(error) => return Err(error),
            };
            match (cursor.valid(), met) {
                (true, _) if !visit(&cursor.record()) => return Ok(()),
                (true, _) | (false, true) => moved = cursor.next(),
                (false, false) => return Ok(()),
            }
        }
    }
}
