//! The tables that running compactions use, and those that must not be compacted: two plans never share a table. A plan
//! returns its tables when it is dropped, whether it succeeded, failed or unwound from a comparator's panic. Closing
//! the store waits for all running plans.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compaction::{CompactionPlan, OutputRange};
use crate::db::state::family::Family;
use crate::env::work::Signal;
use crate::error::{Error, Result};
use crate::planted;

#[derive(Default)]
pub(crate) struct TableClaims {
    tables: Signal<ClaimState>,
    finished: AtomicU64,
}

#[derive(Default)]
struct ClaimState {
    busy: HashSet<u64>,
    /// Quarantined tables: damaged, or with a ledger mismatch. Excluded until they are repaired.
    quarantined: HashSet<u64>,
    /// Inputs of a failed plan, excluded for a period that doubles with each failure.
    put_off: HashMap<u64, PutOff>,
    /// Inputs of an optional space compaction that ran out of disk space. Compactions that are due may still use them.
    lacks_room: HashMap<u64, PutOff>,
    /// Tables rewritten without effect: retaining records keep their tombstones, or values are unreadable.
    kept: HashSet<u64>,
    /// Tables rewritten without effect for expired records, which some reader or record still needs.
    keep_expired: HashSet<u64>,
    /// Output spans of the running plans, by family.
    spans: Vec<(u32, OutputRange)>,
    /// Incremented when a set of excluded tables changes, except for tables in use.
    changes: u64,
    /// True once the store closes: no plan is made any more.
    ended: bool,
}

/// How long a table is excluded, and the length of that period. After the period, the table may be retried for the same
/// time; then the failure is forgotten.
#[derive(Clone, Copy)]
struct PutOff {
    until: u64,
    nanos: u64,
}

impl PutOff {
    fn is_over(&self, now: u64) -> bool {
        now > self.until.saturating_add(self.nanos)
    }
}

/// The first and the longest exclusion: 0.1 seconds and 1 minute.
const FIRST_NANOS: u64 = 100_000_000;
const MOST_NANOS: u64 = 60_000_000_000;

/// A plan that owns its tables until it is dropped.
pub(crate) struct Picked<'a> {
    pub(crate) family: Family,
    pub(crate) plan: CompactionPlan,
    running: &'a TableClaims,
}

impl Drop for Picked<'_> {
    fn drop(&mut self) {
        planted!(PanickedPlanKept => if std::thread::panicking() { return; });
        let numbers = self.plan.inputs.iter().flat_map(|(_, numbers)| numbers.iter().copied());
        self.running.give_back(numbers, self.family.id(), &self.plan.span);
    }
}

/// The excluded tables at a given time.
pub(crate) struct Taken<'a>(&'a ClaimState, u64);

impl Taken<'_> {
    /// Returns true if a table is in use, quarantined or postponed after a failure.
    pub(crate) fn is_busy(&self, number: u64) -> bool {
        let is_put_off = || self.0.put_off.get(&number).is_some_and(|put_off| self.1 < put_off.until);
        self.0.busy.contains(&number) || self.0.quarantined.contains(&number) || is_put_off()
    }

    /// Returns the tables that are quarantined or postponed, and those rewritten without effect.
    pub(crate) fn resting(&self) -> HashSet<u64> {
        self.0.resting(self.1)
    }

    /// Returns true if rewriting a table for its tombstones or values had no effect, or ran out of disk space.
    pub(crate) fn is_kept(&self, number: u64) -> bool {
        let lacks_room = || self.0.lacks_room.get(&number).is_some_and(|put_off| self.1 < put_off.until);
        self.0.kept.contains(&number) || lacks_room()
    }

    /// Returns true if rewriting a table for its expired records had no effect.
    pub(crate) fn keeps_expired(&self, number: u64) -> bool {
        self.0.keep_expired.contains(&number)
    }

    /// Returns true if no table is postponed, so that the passing of time alone changes nothing.
    pub(crate) fn is_steady(&self) -> bool {
        !self.0.waits_for_any(self.1)
    }

    /// Returns a counter of changes to the quarantined or ineffective tables.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes
    }

    /// Returns true while a plan of a family runs.
    pub(crate) fn runs_for(&self, family: u32) -> bool {
        self.0.spans.iter().any(|(of, _)| *of == family)
    }

    /// Returns the output spans of a family's running plans.
    pub(crate) fn spans(&self, family: u32) -> Vec<OutputRange> {
        self.0.spans.iter().filter(|(of, _)| *of == family).map(|(_, span)| span.clone()).collect()
    }
}

impl ClaimState {
    fn resting(&self, now: u64) -> HashSet<u64> {
        let put_off = self.put_off.iter().chain(&self.lacks_room).filter(|(_, put_off)| now < put_off.until);
        put_off.map(|(number, _)| number).chain(&self.quarantined).chain(&self.kept).copied().collect()
    }

    fn waits_for_any(&self, now: u64) -> bool {
        self.put_off.values().chain(self.lacks_room.values()).any(|put_off| !put_off.is_over(now))
    }
}

impl TableClaims {
    /// Creates the registry with these tables quarantined.
    pub(crate) fn barring(numbers: Vec<u64>) -> TableClaims {
        let running = TableClaims::default();
        running.bar(numbers.into_iter());
        running
    }

    /// Lets `choose` make a plan from the tables that are free at time `now`, and reserves its tables.
    pub(crate) fn pick(
        &self,
        now: u64,
        choose: impl FnOnce(&Taken<'_>) -> Option<(Family, CompactionPlan)>,
    ) -> Option<Picked<'_>> {
        let mut tables = self.tables.lock();
        if tables.ended {
            return None;
        }
        let (family, plan) = choose(&Taken(&tables, now))?;
        tables.busy.extend(plan.inputs.iter().flat_map(|(_, numbers)| numbers));
        tables.spans.push((family.id(), plan.span.clone()));
        Some(Picked { family, plan, running: self })
    }

    /// Reserves tables for a repair, quarantined ones included. Returns false if one of them is in use. `find` runs
    /// under the lock, so no plan can take the tables meanwhile; the span that it returns counts as a running plan
    /// until `release`.
    pub(crate) fn hold(&self, numbers: &[u64], find: impl FnOnce() -> Option<(u32, OutputRange)>) -> bool {
        let mut tables = self.tables.lock();
        if tables.ended || numbers.iter().any(|number| tables.busy.contains(number)) {
            return false;
        }
        if let Some(span) = find() {
            tables.busy.extend(numbers);
            tables.spans.push(span);
        }
        true
    }

    /// Reserves output spans of a family for tables that no plan writes. `choose` receives the spans of the family's
    /// running plans; its own count as running plans until they are `given_back`. Fails once the store closes.
    pub(crate) fn reserve<T>(
        &self,
        family: u32,
        choose: impl FnOnce(&[OutputRange]) -> (T, Vec<OutputRange>),
    ) -> Result<T> {
        let mut tables = self.tables.lock();
        if tables.ended {
            return Err(Error::closed());
        }
        let (chosen, spans) = choose(&Taken(&tables, 0).spans(family));
        tables.spans.extend(spans.into_iter().map(|span| (family, span)));
        Ok(chosen)
    }

    /// Releases held tables.
    pub(crate) fn release(&self, numbers: impl Iterator<Item = u64>, span: Option<(u32, &OutputRange)>) {
        if let Some((family, span)) = span {
            self.give_back(numbers, family, span);
        }
    }

    fn give_back(&self, numbers: impl Iterator<Item = u64>, family: u32, span: &OutputRange) {
        let mut tables = self.tables.lock();
        for number in numbers {
            tables.busy.remove(&number);
        }
        if let Some(at) = tables.spans.iter().position(|(of, other)| *of == family && other == span) {
            tables.spans.swap_remove(at);
        }
        // Under the lock, so that a thread that finds no running plan also sees the new count.
        self.finished.fetch_add(1, Ordering::Release);
        drop(tables);
        self.tables.notify_all();
    }

    /// Stops new plans, and waits until the running ones have ended.
    pub(crate) fn end(&self) {
        let mut tables = self.tables.lock();
        tables.ended = true;
        while !tables.spans.is_empty() {
            tables = self.tables.wait(tables, None);
        }
    }

    /// Excludes tables from all future plans.
    pub(crate) fn bar(&self, numbers: impl Iterator<Item = u64>) {
        let mut tables = self.tables.lock();
        tables.quarantined.extend(numbers);
        tables.changes += 1;
    }

    /// Lets a table be picked again, or forgets a removed table.
    pub(crate) fn unbar(&self, number: u64) {
        let mut tables = self.tables.lock();
        let ClaimState { quarantined, kept, keep_expired, put_off, lacks_room, .. } = &mut *tables;
        let was_in = [quarantined, kept, keep_expired].map(|set| set.remove(&number));
        let was_off = [put_off, lacks_room].map(|map| map.remove(&number).is_some());
        tables.changes += u64::from(was_in.contains(&true) || was_off.contains(&true));
    }

    /// Excludes the inputs of a failed plan for a while, twice as long as the last time, because a plan that keeps
    /// failing would keep all others from running. `lacks_room`: the plan was meant to free space, and ran out of it.
    pub(crate) fn put_off(&self, inputs: &[(usize, Vec<u64>)], now: u64, lacks_room: bool) {
        let mut tables = self.tables.lock();
        let failed = if lacks_room { &mut tables.lacks_room } else { &mut tables.put_off };
        failed.retain(|_, put_off| !put_off.is_over(now));
        for number in inputs.iter().flat_map(|(_, numbers)| numbers) {
            let before = failed.get(number).map_or(0, |put_off| put_off.nanos);
            let nanos = (2 * before).clamp(FIRST_NANOS, MOST_NANOS);
            failed.insert(*number, PutOff { until: now.saturating_add(nanos), nanos });
        }
    }

    /// Returns the tables excluded from plans of their own for now, as `Taken::resting` does.
    pub(crate) fn resting(&self, now: u64) -> HashSet<u64> {
        self.tables.lock().resting(now)
    }

    /// Excludes tables from rewrites for tombstones or values, until they are merged for another reason or the store is
    /// reopened.
    pub(crate) fn keeps(&self, numbers: &[u64]) {
        let mut tables = self.tables.lock();
        tables.kept.extend(numbers);
        tables.changes += 1;
    }

    /// Excludes tables from rewrites for expired records, until they are merged for another reason or the store is
    /// reopened.
    pub(crate) fn keep_expired(&self, numbers: impl Iterator<Item = u64>) {
        let mut tables = self.tables.lock();
        tables.keep_expired.extend(numbers);
        tables.changes += 1;
    }

    /// Returns true if one of these tables is quarantined or postponed; compactions from the level above it must wait.
    pub(crate) fn blocks_any(&self, now: u64, mut numbers: impl Iterator<Item = u64>) -> bool {
        let tables = self.tables.lock();
        let is_put_off = |number| tables.put_off.get(&number).is_some_and(|put_off| !put_off.is_over(now));
        let is_empty = tables.quarantined.is_empty() && tables.put_off.is_empty();
        !is_empty && numbers.any(|number| tables.quarantined.contains(&number) || is_put_off(number))
    }

    /// Returns true while a failure is remembered, so that an idle lane must check again later.
    pub(crate) fn waits_for_any(&self, now: u64) -> bool {
        self.tables.lock().waits_for_any(now)
    }

    /// Returns true if one of these tables is quarantined.
    pub(crate) fn bars_any(&self, mut numbers: impl Iterator<Item = u64>) -> bool {
        let tables = self.tables.lock();
        !tables.quarantined.is_empty() && numbers.any(|number| tables.quarantined.contains(&number))
    }

    /// Returns true while a plan runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.tables.lock().spans.is_empty()
    }

    /// Returns the number of plans that have ended.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }
}
