//! Stall: how much writers are held back, decided from the tables and memtables of all families (`compaction::debt`).

use super::compact::shape;
use super::{Event, Inner};
use crate::compaction::pick::Picture;
use crate::compaction::{Debt, Limits, Stall, debt};
use crate::options::CfOptions;

/// What a family's memtables may take together, in memtables: one that fills and one that is flushed. Those that were frozen before they were full
/// count as what they are.
const MEMTABLES: u64 = 2;

impl Inner {
    /// Decides anew how much writers are held back, after tables or memtables have changed, and tells it. With no lock held.
    pub(crate) fn revise_stall(&self) {
        self.note_stall();
        self.tell_noted();
    }

    /// The same under a lock: it is told behind that.
    pub(super) fn note_stall(&self) {
        self.decide(|tables| *tables = self.stall_by_tables());
    }

    /// The same after memtables have changed: tables are not looked at.
    pub(super) fn note_waits(&self) {
        self.decide(|_| {});
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
        let worst = families.by_id.values().map(|family| {
            let (view, options) = (family.view(), family.options());
            let limits = limits(options);
            let bytes = view.levels.iter().map(|level| level.bytes()).fold(0, u64::saturating_add);
            if debt::is_small(view.levels.level(0).tables().len(), bytes, options.fanout, &limits) {
                return Stall::Go;
            }
            let picture = Picture::new(&view.levels, shape(options), &[], None, |_| false);
            let mut debt = debt::debt(&picture);
            // Behind a table that is left alone, there or in the level below, level 0 grows whatever writers do: to hold them back would end
            // in waiting for ever.
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
        let worst = families.by_id.values().map(|family| {
            let view = family.view();
            let all = view.frozen.iter().chain([&view.active]);
            // None counts more than it is meant to take: what one batch made too large stops nobody for itself.
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
