//! Which tables are being compacted, and which must not be: two plans never share a table. What a plan has taken it gives back when it goes,
//! done or not, and if a comparator panics in the middle of it: closing waits for all of them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::family::Family;
use crate::compaction::{Plan, Span};
use crate::env::work::Signal;
use crate::planted::{Bug, active};

#[derive(Default)]
pub(crate) struct Running {
    tables: Signal<Tables>,
    finished: AtomicU64,
}

#[derive(Default)]
struct Tables {
    busy: HashSet<u64>,
    /// Damaged, or with a ledger that does not close: left alone until somebody repairs them.
    barred: HashSet<u64>,
    /// Inputs of a plan that failed: left alone for a while, which is longer each time.
    put_off: HashMap<u64, PutOff>,
    /// Those of one that found no room for what nothing but room asks for: what is due takes them all the same.
    lacks_room: HashMap<u64, PutOff>,
    /// Written anew in their place, and what was to go did not: records that retain keep tombstones, values cannot be read.
    kept: HashSet<u64>,
    /// The same for expired records: something wants them kept.
    keep_expired: HashSet<u64>,
    /// What running plans write, by family.
    spans: Vec<(u32, Span)>,
    /// How often the sets of tables that are left alone have changed, but for those that are in use.
    changes: u64,
    /// The store closes: no plan is made any more.
    ended: bool,
}

/// Until when a table is left alone, and for how long that was. As long again is time to try it once more; then the failure is forgotten.
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

/// The first time, and the longest: a tenth of a second, a minute.
const FIRST_NANOS: u64 = 100_000_000;
const MOST_NANOS: u64 = 60_000_000_000;

/// A plan, and its tables until it is dropped.
pub(crate) struct Picked<'a> {
    pub(crate) family: Family,
    pub(crate) plan: Plan,
    running: &'a Running,
}

impl Drop for Picked<'_> {
    fn drop(&mut self) {
        if active(Bug::PanickedPlanKept) && std::thread::panicking() {
            return;
        }
        let numbers = self.plan.inputs.iter().flat_map(|(_, numbers)| numbers.iter().copied());
        self.running.give_back(numbers, self.family.id(), &self.plan.span);
    }
}

/// What may not be touched now, and when that is.
pub(crate) struct Taken<'a>(&'a Tables, u64);

impl Taken<'_> {
    /// True for a table that is in use, barred or put off.
    pub(crate) fn is_busy(&self, number: u64) -> bool {
        let is_put_off = || self.0.put_off.get(&number).is_some_and(|put_off| self.1 < put_off.until);
        self.0.busy.contains(&number) || self.0.barred.contains(&number) || is_put_off()
    }

    /// The tables that are left alone, for a while or until somebody repairs them, and those that were written anew in vain.
    pub(crate) fn resting(&self) -> HashSet<u64> {
        self.0.resting(self.1)
    }

    /// True for a table that was written anew, for its tombstones or its values, in vain, or found no room for that.
    pub(crate) fn is_kept(&self, number: u64) -> bool {
        let lacks_room = || self.0.lacks_room.get(&number).is_some_and(|put_off| self.1 < put_off.until);
        self.0.kept.contains(&number) || lacks_room()
    }

    /// True for a table that was written anew for its expired records, in vain.
    pub(crate) fn keeps_expired(&self, number: u64) -> bool {
        self.0.keep_expired.contains(&number)
    }

    /// True if no table is left alone for a while, so that time alone changes nothing.
    pub(crate) fn is_steady(&self) -> bool {
        !self.0.waits_for_any(self.1)
    }

    /// Counted up whenever more tables, or fewer, are barred or kept.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes
    }

    /// True while a plan of a family runs.
    pub(crate) fn runs_for(&self, family: u32) -> bool {
        self.0.spans.iter().any(|(of, _)| *of == family)
    }

    /// What running plans of a family write.
    pub(crate) fn spans(&self, family: u32) -> Vec<Span> {
        self.0.spans.iter().filter(|(of, _)| *of == family).map(|(_, span)| span.clone()).collect()
    }
}

impl Tables {
    fn resting(&self, now: u64) -> HashSet<u64> {
        let put_off = self.put_off.iter().chain(&self.lacks_room).filter(|(_, put_off)| now < put_off.until);
        put_off.map(|(number, _)| number).chain(&self.barred).chain(&self.kept).copied().collect()
    }

    fn waits_for_any(&self, now: u64) -> bool {
        self.put_off.values().chain(self.lacks_room.values()).any(|put_off| !put_off.is_over(now))
    }
}

impl Running {
    /// With these tables left alone from the start.
    pub(crate) fn barring(numbers: Vec<u64>) -> Running {
        let running = Running::default();
        running.bar(numbers.into_iter());
        running
    }

    /// Lets `choose` make a plan from the tables that are free at this time, and takes them.
    pub(crate) fn pick(
        &self,
        now: u64,
        choose: impl FnOnce(&Taken<'_>) -> Option<(Family, Plan)>,
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

    /// Takes tables for somebody who repairs them, barred ones too, unless one of them is in use: then false. `find` is asked
    /// while nobody can take them; what it answers counts as a running plan until `release`.
    pub(crate) fn hold(&self, numbers: &[u64], find: impl FnOnce() -> Option<(u32, Span)>) -> bool {
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

    /// Gives held tables back.
    pub(crate) fn release(&self, numbers: impl Iterator<Item = u64>, span: Option<(u32, &Span)>) {
        if let Some((family, span)) = span {
            self.give_back(numbers, family, span);
        }
    }

    fn give_back(&self, numbers: impl Iterator<Item = u64>, family: u32, span: &Span) {
        let mut tables = self.tables.lock();
        for number in numbers {
            tables.busy.remove(&number);
        }
        if let Some(at) = tables.spans.iter().position(|(of, other)| *of == family && other == span) {
            tables.spans.swap_remove(at);
        }
        // Under the lock: whoever finds that nothing runs sees the count as well.
        self.finished.fetch_add(1, Ordering::Release);
        drop(tables);
        self.tables.notify_all();
    }

    /// Lets no plan begin any more, and waits until those that did are carried out.
    pub(crate) fn end(&self) {
        let mut tables = self.tables.lock();
        tables.ended = true;
        while !tables.spans.is_empty() {
            tables = self.tables.wait(tables, None);
        }
    }

    /// Keeps tables out of every plan to come.
    pub(crate) fn bar(&self, numbers: impl Iterator<Item = u64>) {
        let mut tables = self.tables.lock();
        tables.barred.extend(numbers);
        tables.changes += 1;
    }

    /// Lets a table be picked again, or forgets one that is gone.
    pub(crate) fn unbar(&self, number: u64) {
        let mut tables = self.tables.lock();
        let Tables { barred, kept, keep_expired, put_off, lacks_room, .. } = &mut *tables;
        let was_in = [barred, kept, keep_expired].map(|set| set.remove(&number));
        let was_off = [put_off, lacks_room].map(|map| map.remove(&number).is_some());
        tables.changes += u64::from(was_in.contains(&true) || was_off.contains(&true));
    }

    /// Leaves the inputs of a plan that failed alone for a while, twice as long as the last time: a plan that fails again and again would keep all
    /// others from being made. `lacks_room`: it was about room, and found none.
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

    /// The tables that no plan of its own is made for now: `Taken::resting`.
    pub(crate) fn resting(&self, now: u64) -> HashSet<u64> {
        self.tables.lock().resting(now)
    }

    /// Keeps tables from being picked for their tombstones or their values, until they are merged for another reason or the store is opened anew.
    pub(crate) fn keeps(&self, numbers: &[u64]) {
        let mut tables = self.tables.lock();
        tables.kept.extend(numbers);
        tables.changes += 1;
    }

    /// Keeps tables from being picked for expired records, until they are merged for another reason or the store is opened anew.
    pub(crate) fn keep_expired(&self, numbers: impl Iterator<Item = u64>) {
        let mut tables = self.tables.lock();
        tables.keep_expired.extend(numbers);
        tables.changes += 1;
    }

    /// True if one of these tables is left alone, until somebody repairs it or for a while: what stands above it waits.
    pub(crate) fn blocks_any(&self, now: u64, mut numbers: impl Iterator<Item = u64>) -> bool {
        let tables = self.tables.lock();
        let is_put_off = |number| tables.put_off.get(&number).is_some_and(|put_off| !put_off.is_over(now));
        let is_empty = tables.barred.is_empty() && tables.put_off.is_empty();
        !is_empty && numbers.any(|number| tables.barred.contains(&number) || is_put_off(number))
    }

    /// True while a failure is not forgotten: whoever finds nothing to do looks again.
    pub(crate) fn waits_for_any(&self, now: u64) -> bool {
        self.tables.lock().waits_for_any(now)
    }

    /// True if one of these tables is left alone until somebody repairs it.
    pub(crate) fn bars_any(&self, mut numbers: impl Iterator<Item = u64>) -> bool {
        let tables = self.tables.lock();
        !tables.barred.is_empty() && numbers.any(|number| tables.barred.contains(&number))
    }

    /// True while a plan is carried out.
    pub(crate) fn is_running(&self) -> bool {
        !self.tables.lock().spans.is_empty()
    }

    /// Plans carried out so far.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }
}
