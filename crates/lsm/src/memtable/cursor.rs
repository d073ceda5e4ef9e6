//! A cursor over a memtable that owns its position.
//!
//! A `LeafWalk` over the tree's leaves keeps the position, and allocates nothing.
//!
//! A user's cursor checks the record at its position as often as its policy requires. A record that does not match its
//! companion is shown as a lost range over all places where it may belong (`suspect_range`). So older versions of its
//! key are not returned in its stead, and a range that may have held it does not end without an error.

use std::cell::Cell;
use std::sync::Arc;

use super::Memtable;
use super::placed::Probe;
use super::sync::LEAF;
use super::walk::LeafWalk;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::lost_range::LostRange;
use crate::options::Verify;
use crate::record::{Kind, Record, Seqno};
use crate::sampler::first_sample;
use crate::seam::{Companions, Protection, RecordSource};

/// A position among the records of a memtable. Its moves do not fail.
pub struct MemtableCursor {
    pub(super) table: Arc<Memtable>,
    pub(super) walk: LeafWalk,
    pub(super) judge: Option<CursorCheck>,
    /// True if records have companions but this cursor checks none of them: its findings are not shared with other
    /// cursors.
    looks_away: bool,
    /// The lost range that stands for a damaged record at the position; empty if the record itself is shown.
    fence: Vec<u8>,
    /// The end of that lost range at which the cursor arrived.
    lost_range_place: (Vec<u8>, Seqno),
    /// The last group of records whose order was verified.
    believed: Option<(u32, u32)>,
}

/// The verification policy of a cursor: the record protector, and how often it checks.
pub(super) struct CursorCheck {
    protector: Arc<dyn Companions>,
    protection: Protection,
    /// Number of records until the next check.
    left: u32,
    every: u32,
    /// Number of records to check without sampling because one of them is known to be damaged.
    closely: usize,
}

impl MemtableCursor {
    pub(super) fn new(table: Arc<Memtable>) -> MemtableCursor {
        MemtableCursor {
            table,
            walk: LeafWalk::new(),
            judge: None,
            looks_away: false,
            fence: Vec::new(),
            lost_range_place: Default::default(),
            believed: None,
        }
    }

    pub(super) fn checked(table: Arc<Memtable>, protector: &Arc<dyn Companions>, verify: Verify) -> MemtableCursor {
        let protection = table.protection(protector.protection());
        let every = match verify {
            Verify::Always => 1,
            Verify::Sampled(of) => of.max(1),
            Verify::Never | Verify::OnFill => 0,
        };
        let judge = (every > 0 && protection != Protection::None).then(|| CursorCheck {
            protector: protector.clone(),
            protection,
            left: first_sample(every),
            every,
            closely: 0,
        });
        let looks_away = every == 0 && protection != Protection::None;
        MemtableCursor { judge, looks_away, ..MemtableCursor::new(table) }
    }

    /// False if `pass_deleted` would find nothing new.
    #[inline]
    pub(crate) fn may_pass(&self) -> bool {
        self.walk.may_pass()
    }

    /// Skips deleted keys. The cursor must be at a tombstone that hides its key from a reader at `seqno`. If that
    /// reader sees no key from there up to some later record, at most `until`, the cursor moves to that record, past at
    /// most `most` leaves, and returns their number. The record is visible to the reader, and its key is hidden.
    pub(crate) fn pass_deleted(&mut self, seqno: Seqno, until: Option<(&[u8], Seqno)>, most: u32) -> Option<u32> {
        let (table, judge) = (&self.table, &self.judge);
        let met_damage = Cell::new(false);
        let is_sound = |record: &Record<'_>| {
            let is_sound = judge.as_ref().is_none_or(|judge| judge.serves(table, record));
            met_damage.set(!is_sound);
            is_sound
        };
        let until = until.map(|(key, seqno)| Probe { key, seqno });
        let passed = self.walk.pass_deleted(&table.tree, seqno, until, most, (!self.looks_away).then_some(is_sound));
        if let Some(judge) = self.judge.as_mut().filter(|_| met_damage.get()) {
            judge.closely = LEAF; // so that the walk reports the damage when it reaches the record
        }
        if passed.is_some() {
            self.fence.clear(); // each record was checked when its deletion was recorded
        }
        passed
    }

    /// Checks the record that the cursor has moved to, if the sampling selects it.
    #[inline]
    fn arrive(&mut self, forward: bool) {
        if let Some(judge) = &mut self.judge {
            self.fence.clear();
            judge.left -= 1;
            if judge.left == 0 || judge.closely > 0 {
                judge.closely = judge.closely.saturating_sub(1);
                judge.left = judge.every;
                self.check(forward);
            }
        }
    }

    #[inline]
    fn check(&mut self, forward: bool) {
        let (Some(judge), Some(record)) = (&self.judge, self.stored()) else { return };
        if !judge.serves(&self.table, &record) {
            self.show_lost_range(forward);
        } else if judge.every == 1
            && let Some(name) = self.walk.group_name(self.walk.at())
            && self.believed != Some(name)
        {
            self.check_group(name, forward);
        }
    }

    /// Checks the other records of a group, because a corrupted one may have changed their order.
    #[inline(never)]
    fn check_group(&mut self, name: (u32, u32), forward: bool) {
        match self.walk.suspect_of_group(&self.table, self.judge.as_ref(), self.walk.at()) {
            Some(fence) => self.put_lost_range(fence, forward),
            None => self.believed = Some(name),
        }
    }

    #[cold]
    #[inline(never)]
    fn show_lost_range(&mut self, forward: bool) {
        if let Some(suspect) = self.walk.suspect(&self.table, self.judge.as_ref()) {
            self.put_lost_range(suspect.fence, forward);
        }
    }

    #[cold]
    fn put_lost_range(&mut self, fence: LostRange, forward: bool) {
        fence.encode(&mut self.fence);
        self.lost_range_place = if forward { fence.from } else { fence.to };
    }

    /// Checks the record at which a search ended. If every record is checked, its neighbor is checked too: a corrupted
    /// key may have misled the search.
    #[inline]
    fn arrive_from_search(&mut self, place: (&[u8], Seqno), forward: bool) {
        self.arrive(forward);
        if self.judge.as_ref().is_some_and(|judge| judge.every == 1)
            && (!self.fence.is_empty() || !self.is_sound_beside(!forward))
        {
            self.search_anew(place, forward);
        }
    }

    /// True if the neighboring record is undamaged and its group is in order, or if there is no neighbor.
    #[inline]
    fn is_sound_beside(&self, forward: bool) -> bool {
        let Some(judge) = &self.judge else { return true };
        let (walk, tree) = (&self.walk, &self.table.tree);
        if let Some(record) = walk.record_beside(tree, forward) {
            let at = if forward { walk.at() + 1 } else { walk.at().wrapping_sub(1) };
            return judge.serves(&self.table, &record) && self.is_group_in_order(walk, at);
        }
        let mut beside = walk.clone();
        beside.step(tree, forward);
        let Some(record) = beside.record(tree) else { return true };
        judge.serves(&self.table, &record) && self.is_group_in_order(&beside, beside.at())
    }

    /// True if no record in the group of the one at this leaf position is corrupted and possibly misplaced.
    #[inline]
    fn is_group_in_order(&self, walk: &LeafWalk, at: usize) -> bool {
        walk.group_name(at).is_none_or(|name| self.believed == Some(name))
            || walk.suspect_of_group(&self.table, self.judge.as_ref(), at).is_none()
    }

    /// The search encountered a corrupted record: scans all records one by one from the end on this side.
    #[cold]
    #[inline(never)]
    fn search_anew(&mut self, place: (&[u8], Seqno), forward: bool) {
        let Some(judge) = &mut self.judge else { return };
        judge.left = 1;
        self.walk = LeafWalk::found(&self.table, judge, place, forward);
        self.arrive(forward);
    }

    /// Returns the record at the position, as stored.
    #[inline]
    fn stored(&self) -> Option<Record<'_>> {
        self.walk.record(&self.table.tree)
    }
}

impl CursorCheck {
    #[inline]
    pub(super) fn serves(&self, table: &Memtable, record: &Record<'_>) -> bool {
        // A record inserted later may be the first without a companion.
        let protection = table.protection(self.protection);
        self.protector.serves(record, protection)
    }
}

impl Cursor for MemtableCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.walk.seek(&self.table.tree, key, seqno);
        self.arrive_from_search((key, seqno), true);
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.walk.seek_for_prev(&self.table.tree, key, seqno);
        self.arrive_from_search((key, seqno), false);
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.walk.end(&self.table.tree, false);
        self.arrive(true);
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.walk.end(&self.table.tree, true);
        self.arrive(false);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        self.walk.next(&self.table.tree);
        self.arrive(true);
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        self.walk.prev(&self.table.tree);
        self.arrive(false);
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.walk.valid()
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        debug_assert!(self.valid());
        match self.stored() {
            Some(record) if self.fence.is_empty() => record,
            Some(_) => {
                let (key, seqno) = (&self.lost_range_place.0, self.lost_range_place.1);
                Record { key, seqno, kind: Kind::Fence, value: &self.fence, companion: &[] }
            }
            None => Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] },
        }
    }

    fn source(&self) -> RecordSource<'_> {
        // As long as every inserted record had companions, a record without them has lost them.
        RecordSource { protection: self.table.protection(Protection::Complete), ..RecordSource::default() }
    }
}

impl std::fmt::Debug for MemtableCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemtableCursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}
