//! Write stalls: how much writers are throttled, decided from the tables and memtables of all families
//! (`compaction::debt`).

use super::compact::shape;
use super::{Event, Inner};
use crate::compaction::pick::Picture;
use crate::compaction::{Debt, Limits, Stall, debt};
use crate::options::CfOptions;

/// Total fullness allowed for a family's memtables, in units of one memtable: one being filled and one being flushed.
/// Memtables frozen before they were full count by their actual fullness.
const MEMTABLES: u64 = 2;

impl Inner {
    /// Decides the stall again after tables or memtables have changed, and reports changes. Called with no lock held.
    pub(crate) fn revise_stall(&self) {
        self.note_stall();
        self.tell_noted();
    }

    /// Decides the stall under a lock: events are only queued.
    pub(super) fn note_stall(&self) {
        self.decide(|tables| *tables = self.stall_by_tables());
    }

    /// Decides the stall after memtables have changed, without examining tables.
    pub(super) fn note_waits(&self) {
        self.decide(|_| {});
    }

    /// Decides the stall after a family is gone. That ends stalls and begins none, so without one nothing is examined.
    pub(super) fn note_fewer(&self) {
        if self.background.stall() != Stall::Go {
            self.note_stall();
        }
    }

    fn decide(&self, look: impl FnOnce(&mut Stall)) {
        let stall = |tables: &mut Stall| {
            look(tables);
            (*tables).max(self.stall_by_memory())
        };
        self.background.decide_stall(stall, |stalled| self.note(Event::Stalled { stalled }));
    }

    fn stall_by_tables(&self) -> Stall {
        let (families, now) = (self.families(), self.now_nanos());
        let worst = families.all().map(|family| {
            let (view, options) = (family.view(), family.options());
            let limits = limits(options);
            let bytes = view.levels.iter().map(|level| level.bytes()).fold(0, u64::saturating_add);
            if debt::is_small(view.levels.level(0).tables().len(), bytes, options.fanout, &limits) {
                return Stall::Go;
            }
            let picture = Picture::new(&view.levels, shape(options), &[], None, |_| false);
            let mut debt = debt::debt(&picture);
            // Above a quarantined or postponed table, level 0 grows whatever writers do, so throttling them would never
            // end.
            let tables = view.levels.iter().flat_map(|level| level.tables());
            if self.compactions.blocks_any(now, tables.map(|table| table.meta().number)) {
                debt.level0 = debt.level0.min(limits.level0.0);
            }
            debt::stall(&debt, &limits)
        });
        worst.max().unwrap_or(Stall::Go)
    }

    fn stall_by_memory(&self) -> Stall {
        let (families, memory, log) = (self.families(), self.memory_pressure(), self.log_pressure());
        let mut any_waits = false;
        let worst = families.all().map(|family| {
            let view = family.view();
            let all = view.frozen.iter().chain([&view.active]);
            // Each memtable counts at most as one full memtable, so a single oversized batch does not stop writers.
            let full = all.map(|generation| generation.fullness(self.settings.memtable_bytes).min(1000));
            any_waits |= !view.frozen.is_empty();
            let debt = Debt { memtables: full.sum(), memory, log, ..Debt::default() };
            debt::stall(&debt, &limits(family.options()))
        });
        let worst = worst.max().unwrap_or(Stall::Go);
        self.background.watch(any_waits);
        worst
    }
}

fn limits(options: &CfOptions) -> Limits {
    Limits::new(options.level0_tables, options.level_base_bytes, MEMTABLES)
}
