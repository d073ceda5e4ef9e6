//! Write stalls: how much writers are throttled, decided from the tables and memtables of all families
//! (`compaction::debt`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::write_path::WritePath;
use crate::compaction::packing::level_shape;
use crate::compaction::pick::LevelSummary;
use crate::compaction::{Debt, Stall, StallLimits, debt};
use crate::db::notify::events::Event;
use crate::db::notify::lanes::{LEAST_SLEEP_NANOS, Lane};
use crate::db::state::family::Family;
use crate::env::work::Mode;
use crate::error::Result;
use crate::options::CfOptions;

/// Total fullness allowed for a family's memtables, in units of one memtable: one being filled and one being flushed.
/// Memtables frozen before they were full count by their actual fullness.
const MEMTABLES: u64 = 2;

impl WritePath {
    /// Decides the stall again after tables or memtables have changed, and reports changes. Called with no lock held.
    pub(crate) fn revise_stall(&self) {
        self.note_stall();
        self.notifier().deliver();
    }

    /// Decides the stall under a lock: events are only queued.
    pub(in crate::db) fn note_stall(&self) {
        self.decide(|tables| *tables = self.stall_by_tables());
    }

    /// Decides the stall after memtables have changed, without examining tables.
    pub(in crate::db) fn note_waits(&self) {
        self.decide(|_| {});
    }

    /// Decides the stall after a family is gone. That ends stalls and begins none, so without one nothing is examined.
    pub(in crate::db) fn note_fewer(&self) {
        if self.lanes().stall() != Stall::Go {
            self.note_stall();
        }
    }

    fn decide(&self, look: impl FnOnce(&mut Stall)) {
        let stall = |tables: &mut Stall| {
            look(tables);
            (*tables).max(self.stall_by_memory())
        };
        self.lanes().decide_stall(stall, |stalled| self.notifier().queue(Event::Stalled { stalled }));
    }

    fn stall_by_tables(&self) -> Stall {
        let (families, now) = (self.catalog().families(), self.context().now_nanos());
        let worst = families.all().map(|family| {
            let (view, options) = (family.view(), family.options());
            let limits = limits(&options);
            let bytes = view.levels.iter().map(|level| level.bytes()).fold(0, u64::saturating_add);
            if debt::is_small(view.levels.level(0).tables().len(), bytes, options.fanout, &limits) {
                return Stall::Go;
            }
            let summary = LevelSummary::new(&view.levels, level_shape(&options), &[], None, |_| false);
            let mut debt = debt::debt(&summary);
            // Above a quarantined or postponed table, level 0 grows whatever writers do, so throttling them would never
            // end.
            let tables = view.levels.iter().flat_map(|level| level.tables());
            if self.catalog().claims.blocks_any(now, tables.map(|table| table.meta().number)) {
                debt.level0 = debt.level0.min(limits.level0.0);
            }
            debt::stall(&debt, &limits)
        });
        worst.max().unwrap_or(Stall::Go)
    }

    fn stall_by_memory(&self) -> Stall {
        let (families, memory, log) =
            (self.catalog().families(), self.memory.pressure(self.catalog()), self.log_pressure());
        let mut any_waits = false;
        let worst = families.all().map(|family| {
            let view = family.view();
            let all = view.frozen.iter().chain([&view.active]);
            // Each memtable counts at most as one full memtable, so a single oversized batch does not stop writers.
            let full = all.map(|generation| generation.fullness(self.context().settings.memtable_bytes).min(1000));
            any_waits |= !view.frozen.is_empty();
            let debt = Debt { memtables: full.sum(), memory, log, ..Debt::default() };
            debt::stall(&debt, &limits(&family.options()))
        });
        let worst = worst.max().unwrap_or(Stall::Go);
        self.lanes().watch(any_waits);
        worst
    }

    /// Counts bytes that a writer is about to add, and checks the budget at intervals if it is bounded or flushes are
    /// behind.
    #[inline]
    pub(super) fn grows_by(&self, bytes: usize) {
        if (self.context().settings.memory_bytes > 0 || self.lanes().watches()) && self.memory.grow(bytes) {
            self.revise_memory();
            self.note_waits();
            self.notifier().deliver();
        }
    }

    /// Charges the current size of the memtables. If they take too much, freezes the largest one, and those of idle
    /// families, which were not written since the largest one began.
    pub(in crate::db) fn revise_memory(&self) {
        if !self.memory.charge_memtables(self.catalog()).is_some_and(|share| share.freezes()) {
            return;
        }
        let families = self.catalog().families();
        let size = |family: &&Family| family.view().active.memtable.bytes();
        if let Some(largest) =
            families.all().filter(|family| !family.view().active.memtable.is_empty()).max_by_key(size)
        {
            let begin = largest.view().active.memtable.least_seqno();
            let is_idle = |family: &Family| {
                let newest = family.view().active.memtable.greatest_seqno();
                newest.is_some() && newest < begin
            };
            // A failed log reports its error to the next writer.
            let _ = self.freeze(&|family| family == largest || is_idle(family));
            self.lanes().kick(Lane::Flush);
        }
    }

    /// Throttles a writer of `bytes` bytes as the debt requires: no delay, a delay, or a stop until the debt is
    /// reduced. In stepped mode, `step` performs one step of background work.
    #[inline]
    pub(in crate::db) fn admit(&self, bytes: usize, step: &impl Fn() -> bool) -> Result<()> {
        self.grows_by(bytes);
        match self.lanes().stall() {
            Stall::Go => Ok(()),
            stall => self.hold_back(stall, bytes, step),
        }
    }

    #[inline(never)]
    fn hold_back(&self, stall: Stall, bytes: usize, step: &dyn Fn() -> bool) -> Result<()> {
        let before = self.context().env.clock.monotonic_nanos();
        let outcome = match stall.nanos(bytes as u64) {
            Some(nanos) => {
                self.slow_down(nanos, step);
                Ok(())
            }
            None => {
                self.revise_stall();
                let lane = || {
                    self.revise_memory(); // freezes memtables whose flush ends the stop
                    if self.freeze_log_holders() {
                        self.lanes().kick(Lane::Flush);
                    }
                    self.note_waits();
                    self.notifier().deliver();
                    if self.catalog().flush_is_due() { Lane::Flush } else { Lane::Compact }
                };
                self.store_log().wait_for_lane(step, lane, true, || self.lanes().stall() != Stall::Stop)
            }
        };
        self.context().counters.stalled(self.context().env.clock.monotonic_nanos() - before);
        outcome
    }

    /// Waits for a delay. Short delays accumulate until they are worth a sleep.
    fn slow_down(&self, nanos: u64, step: &dyn Fn() -> bool) {
        if self.lanes().mode == Mode::Stepped {
            step();
            return;
        }
        let owed = self.lanes().owed.fetch_add(nanos, Ordering::Relaxed).saturating_add(nanos);
        if owed < LEAST_SLEEP_NANOS {
            return;
        }
        // The first thread takes over the whole accumulated delay, so that it is waited only once.
        let mine = self.lanes().owed.swap(0, Ordering::Relaxed);
        let until = self.context().env.clock.monotonic_nanos().saturating_add(mine.min(nanos.max(LEAST_SLEEP_NANOS)));
        let mut state = self.lanes().state.lock();
        loop {
            let now = self.context().env.clock.monotonic_nanos();
            if now >= until || self.lanes().stall() == Stall::Go || self.lanes().is_stopping() {
                return;
            }
            state = self.lanes().state.wait(state, Some(Duration::from_nanos(until - now)));
        }
    }
}

fn limits(options: &CfOptions) -> StallLimits {
    StallLimits::new(options.level0_tables, options.level_base_bytes, MEMTABLES)
}
