//! The read path: functions over a pinned view. `search.rs` is the order in which every read looks for a key.
//!
//! ```text
//! search.rs     memtables newest first, then tables newest first, then lost ranges: the first hit decides
//! merged.rs     merges the operands of a key into a value
//! values.rs     reads the value of a record from its blob file
//! resident.rs   the same reads for callers that must not wait for a file
//! cursor.rs     cursors over a view, for users and exports
//! versions.rs   the location of a version, unflushed records
//! ```
//!
//! In:    a family, a key or bounds, and the commits to see.
//! Order: the view is loaded before the seqno. A view holds everything committed before it was loaded, so the seqno can
//!        only add newer records. In the opposite order, a compaction could have dropped versions that the old seqno
//!        needs.
//! Costs: a cached `get` allocates nothing, takes no lock and writes no counter that another core writes.

pub(super) mod cursor;
mod estimate;
mod merged;
pub(super) mod resident;
pub(super) mod search;
pub(super) mod values;
pub(super) mod versions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checksum::hash_key;
use crate::db::notify::notifier::{DamagedPlace, Notifier};
use crate::db::state::context::StoreContext;
use crate::db::state::family::{Family, Generation, TableHandle, View};
use crate::error::{Damage, Error, Result, Verdict};
use crate::expiry::{AsOf, ExpiryClock};
use crate::lost_range::LostRange;
use crate::options::{ReadSettings, Verify};
use crate::record::{Kind, Record, Seqno};
use crate::sampler::is_sampled;
use crate::seam::{Check, Companions, Life, Protection};
use crate::sst::{Approach, Checks, Table};
use search::{Search, newest_version};
use values::fetch_by;

/// Number of `multi_get` keys whose cache misses overlap.
pub(super) const SIDE_BY_SIDE: usize = 16;

/// The commits that a read sees, and the time at which it evaluates expiry.
#[derive(Clone, Copy)]
pub(super) struct ReadPoint {
    pub(super) seqno: Seqno,
    pub(super) as_of: AsOf,
}

impl ReadPoint {
    /// Returns the point at a seqno that evaluates expiry at the current time.
    pub(super) fn now(seqno: Seqno) -> ReadPoint {
        ReadPoint { seqno, as_of: AsOf::NOW }
    }

    /// Fixes the expiry time at the current time, for a read of many records.
    pub(super) fn fixed(self, clock: &ExpiryClock) -> ReadPoint {
        match self.as_of {
            AsOf::NOW => ReadPoint { as_of: AsOf::micros(clock.now()), ..self },
            _ => self,
        }
    }
}

/// Reads over a pinned view: the store's record protector, its expiry clock and the reports of damage. Cursors share it.
pub(crate) struct Reads {
    companions: Arc<dyn Companions>,
    /// The protection that the record protector promises for written records.
    promise: Protection,
    /// The clock that decides whether a record has expired.
    expiry_clock: Arc<ExpiryClock>,
    notifier: Arc<Notifier>,
    /// Number of tables that scans skipped by the filters' answer for a prefix.
    prefix_skips: AtomicU64,
}

impl Reads {
    pub(super) fn new(context: &StoreContext, expiry_clock: Arc<ExpiryClock>) -> Arc<Reads> {
        let companions = context.companions.clone();
        Arc::new(Reads {
            companions,
            promise: context.promise,
            expiry_clock,
            notifier: context.notifier.clone(),
            prefix_skips: AtomicU64::new(0),
        })
    }

    /// Returns the clock that decides whether a record has expired.
    #[inline]
    pub(super) fn expiry_clock(&self) -> &Arc<ExpiryClock> {
        &self.expiry_clock
    }

    /// Returns the number of tables that scans skipped by the filters' answer for a prefix.
    pub(super) fn prefix_skips(&self) -> u64 {
        self.prefix_skips.load(Ordering::Relaxed)
    }

    /// Returns the checks of one read under its policy. A store whose protector makes no companions checks nothing.
    #[inline]
    pub(super) fn checks(&self, reading: impl Into<ReadSettings>) -> Checks {
        let reading = reading.into();
        let checks = match reading.verify {
            _ if self.promise == Protection::None => Checks::NONE,
            Verify::Always => Checks::EACH,
            Verify::Never => Checks::NONE,
            Verify::OnFill => Checks::LOADED,
            Verify::Sampled(of) => Checks { each: is_sampled(of), ..Checks::LOADED },
        };
        Checks { passing: !reading.fill_cache, ..checks }
    }

    /// Returns true if records have companions that a read can verify.
    fn verifies(&self) -> bool {
        self.promise != Protection::None
    }

    pub(super) fn get_in(
        &self,
        of: (&Family, &View),
        key: Hashed<'_>,
        moment: ReadPoint,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let mut outcome = Ok(false);
        let decide = |record: &Record<'_>| outcome = self.value_of(of, record, (moment, checks), visit);
        self.version_in(of, key, moment.seqno, checks, decide)?;
        outcome
    }

    /// Repeats `get_in` with each returned record verified: the deciding record claims to be expired, but does not
    /// match its companion.
    #[cold]
    #[inline(never)]
    fn get_closely(
        &self,
        of: (&Family, &View),
        key: &[u8],
        moment: ReadPoint,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        self.get_in(of, (key, None), moment, Checks { each: true, ..checks }, visit)
    }

    /// Reads like `get_in`, with the prefetched hash and block.
    pub(super) fn get_on(
        &self,
        mut way: SearchPath<'_>,
        of: (&Family, &View),
        key: &[u8],
        moment: ReadPoint,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let mut outcome = Ok(false);
        let decide = |record: &Record<'_>| outcome = self.value_of(of, record, (moment, checks), visit);
        self.version_by(of, (key, way.key_hash), moment.seqno, checks, decide, |table, key_hash, decide| {
            let reader = table.table().map_err(|error| self.unopened(of.0, table, error))?;
            match way.block {
                // A range delete may keep the search from the table whose block was prefetched.
                Some(_) if of.1.active.has_ranges() => reader.get(key, key_hash, moment.seqno, checks, decide),
                Some((first, number)) if std::ptr::eq(first, &**reader) => {
                    way.block = None;
                    reader.get_from(number, (key, key_hash), moment.seqno, checks, decide)
                }
                Some(_) => Ok(false),
                // The following key was prefetched from another block.
                None => reader.get(key, key_hash, moment.seqno, Checks { again: false, ..checks }, decide),
            }
        })?;
        outcome
    }

    /// Passes the deciding version to `visit` if it is a value.
    #[inline(always)]
    fn value_of(
        &self,
        of: (&Family, &View),
        record: &Record<'_>,
        (moment, checks): (ReadPoint, Checks),
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        match record.kind {
            Kind::Put | Kind::BlobPointer => match self.is_value(record, moment.as_of, checks) {
                Some(true) => {
                    self.show_whole(of, record, fetch_by(checks), visit)?;
                    Ok(true)
                }
                Some(false) => Ok(false),
                None => self.get_closely(of, record.key, moment, checks, visit),
            },
            Kind::Delete => Ok(false),
            Kind::Merge => self.merged_in(of, record.key, moment, checks, visit).map(|()| true),
            kind => Err(unread(kind)),
        }
    }

    /// Returns true for an unexpired value, inline or in a blob file. Returns `None` if the record was not verified,
    /// claims to be expired and does not match its companion; a verifying read then determines the error.
    #[inline]
    pub(super) fn is_value(&self, record: &Record<'_>, as_of: AsOf, checks: Checks) -> Option<bool> {
        if !record.kind.is_value() {
            return Some(false);
        }
        match self.expiry_clock.life(&*self.companions, record, as_of) {
            Life::Alive => Some(true),
            Life::Over => Some(false),
            Life::Doubtful => (checks.each || self.promise == Protection::None).then_some(true),
        }
    }

    /// Finds the newest version at or below a seqno; the version may be a tombstone.
    #[inline]
    pub(super) fn version_in(
        &self,
        of: (&Family, &View),
        key: Hashed<'_>,
        seqno: Seqno,
        checks: Checks,
        visit: impl FnMut(&Record<'_>),
    ) -> Result<bool> {
        self.version_by(of, key, seqno, checks, visit, move |table, key_hash, decide| {
            let reader = table.table().map_err(|error| self.unopened(of.0, table, error))?;
            reader.get(key.0, key_hash, seqno, checks, decide)
        })
    }

    /// Finds the version like `version_in`, with a caller-supplied table lookup, whose error type may also express an
    /// incomplete answer. The lookup receives the key's hash and the callback for its record.
    #[inline]
    pub(super) fn version_by<E: From<Error>>(
        &self,
        (family, view): (&Family, &View),
        (key, known_hash): Hashed<'_>,
        seqno: Seqno,
        checks: Checks,
        visit: impl FnMut(&Record<'_>),
        ask: impl FnMut(&TableHandle, u64, &mut dyn FnMut(&Record<'_>)) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        // The key is hashed once, for its companion and for the filters.
        let is_hashable = family.order().is_hashable();
        let key_hash = match known_hash {
            Some(hash) => hash,
            None if is_hashable => hash_key(key),
            None => 0,
        };
        let is_plain = view.lost_ranges.is_empty();
        let decision =
            ReadDecision { reads: self, of: (family, view), seqno, is_plain, hidden: 0, visit, outcome: Ok(false) };
        let mut search = VersionSearch { decision, key: (key, key_hash), is_hashable, checks, ask };
        newest_version(view, family.order(), (key, seqno), &mut search)?;
        Ok(search.decision.outcome?)
    }

    /// Returns the error of the lost range that a read hit.
    #[cold]
    fn lost(&self, family: &Family, view: &View, meets: impl Fn(&LostRange) -> bool) -> Error {
        self.notifier.fence_met();
        match view.lost_ranges.iter().find(|lost_range| meets(lost_range)) {
            Some(lost_range) => lost_range.error().in_family(family.name(), None),
            None => Error::structural("a fence that is not there"),
        }
    }

    /// Adds the family and the key range to the error of a table that cannot be opened, and reports damage to the
    /// listener once.
    #[cold]
    pub(super) fn unopened(&self, family: &Family, table: &TableHandle, error: Error) -> Error {
        let keys = (&table.meta().smallest[..], &table.meta().largest[..]);
        let error = error.in_family(family.name(), Some(keys));
        self.notifier.report_damage(DamagedPlace::Table(table.meta().number), &error);
        error
    }

    /// Returns the error of a record in memory that does not match its companion.
    #[cold]
    fn damaged_in_memory(&self, family: &Family, record: &Record<'_>, check: Check) -> Error {
        let verdict = if check == Check::Missing { Verdict::Missing } else { Verdict::Seal };
        let damage = Damage { verdict, ..Damage::default() };
        let error = Error::corruption(damage, "a record in memory does not match its companion");
        let error = error.in_family(family.name(), Some((record.key, record.key)));
        self.notifier.report_damage(DamagedPlace::Memory(record.seqno), &error);
        error
    }
}

/// The record that decides a read of one key, and the result of the read.
struct ReadDecision<'a, V> {
    reads: &'a Reads,
    of: (&'a Family, &'a View),
    seqno: Seqno,
    /// No lost range and no range delete takes part.
    is_plain: bool,
    /// A range delete hides the versions below this seqno; 0 if there is none.
    hidden: Seqno,
    visit: V,
    outcome: Result<bool>,
}

impl<V: FnMut(&Record<'_>)> ReadDecision<'_, V> {
    #[inline]
    fn decide(&mut self, record: &Record<'_>) {
        if !self.is_plain && !self.is_visible(record) {
            return;
        }
        (self.visit)(record);
        self.outcome = Ok(true);
    }

    /// Returns false if a record is hidden by a range delete, or if a newer one may be lost, which is then the outcome.
    #[cold]
    #[inline(never)]
    fn is_visible(&mut self, record: &Record<'_>) -> bool {
        let (family, view) = self.of;
        let hides = |lost_range: &LostRange| {
            lost_range.bound >= self.hidden
                && lost_range.covers_at(family.order(), record.key, record.seqno, self.seqno)
        };
        let is_lost = view.lost_ranges.iter().any(hides);
        if is_lost {
            self.outcome = Err(self.reads.lost(family, view, hides));
        }
        !is_lost && record.seqno > self.hidden
    }
}

/// A search for the newest version of a key.
struct VersionSearch<'a, V, A> {
    decision: ReadDecision<'a, V>,
    /// The key and its hash.
    key: (&'a [u8], u64),
    is_hashable: bool,
    checks: Checks,
    ask: A,
}

impl<E, V, A> Search for VersionSearch<'_, V, A>
where
    E: From<Error>,
    V: FnMut(&Record<'_>),
    A: FnMut(&TableHandle, u64, &mut dyn FnMut(&Record<'_>)) -> std::result::Result<bool, E>,
{
    type Error = E;

    fn hide_below(&mut self, seqno: Seqno) {
        (self.decision.is_plain, self.decision.hidden) = (false, seqno);
    }

    // Always: the search of keys in range deletes calls it too, and a call would cost each read.
    #[inline(always)]
    fn in_memtable(&mut self, generation: &Generation) -> std::result::Result<bool, E> {
        let (memtable, (key, key_hash), checks) = (&generation.memtable, self.key, self.checks);
        // A record is counted before its seqno becomes visible, and this read loaded the seqno earlier.
        if !memtable.may_hold(key_hash) {
            return Ok(false);
        }
        let (reads, is_hashable, mut damage) = (self.decision.reads, self.is_hashable, None);
        let found = memtable.get(key, self.decision.seqno, &mut |stored| {
            // Use the requested key, not the stored key, whose bytes may have changed in memory.
            let (record, hash) = match is_hashable {
                true => (Record { key, ..*stored }, key_hash),
                false => (*stored, if checks.each { hash_key(stored.key) } else { 0 }),
            };
            let check = match checks.each {
                true => reads.companions.verify(&record, hash, memtable.protection(reads.promise)),
                false => Check::Unverified,
            };
            match check.serves() && record.kind != Kind::Fence {
                true => self.decision.decide(&record),
                false => damage = Some(reads.damaged_in_memory(self.decision.of.0, &record, check)),
            }
        });
        match (found, damage) {
            (true, Some(error)) => Err(error.into()),
            (found, _) => Ok(found),
        }
    }

    #[inline]
    fn prefetch(&mut self, table: &TableHandle) {
        if let Some(table) = table.opened() {
            table.prefetch_filter(self.key.0, self.key.1);
        }
    }

    #[inline]
    fn in_table(&mut self, table: &Arc<TableHandle>) -> std::result::Result<bool, E> {
        let decision = &mut self.decision;
        (self.ask)(table, self.key.1, &mut |record| decision.decide(record))
    }

    #[cold]
    fn lost(&mut self, lost_range: &LostRange) -> E {
        self.decision.reads.notifier.fence_met();
        lost_range.error().in_family(self.decision.of.0.name(), None).into()
    }
}

/// A key, and its hash if already computed.
pub(super) type Hashed<'a> = (&'a [u8], Option<u64>);

/// Prefetched facts about a key's read.
#[derive(Clone, Copy, Default)]
pub(super) struct SearchPath<'a> {
    key_hash: Option<u64>,
    /// The first table that may hold the key, and the block in that table; the filters of earlier tables exclude the
    /// key.
    block: Option<(&'a Table, usize)>,
}

impl SearchPath<'_> {
    /// Returns true if another key's read uses the same block.
    pub(super) fn is_beside(&self, other: &SearchPath<'_>) -> bool {
        let same = |one: (&Table, usize), other: (&Table, usize)| std::ptr::eq(one.0, other.0) && one.1 == other.1;
        self.block.zip(other.block).is_some_and(|(one, other)| same(one, other))
    }
}

/// Prefetches the memory that the reads of several keys will touch: filter lines for all keys, then slots, then blocks.
/// A single read waits for one cache miss after the other; these reads wait for all misses of a step together.
pub(super) fn approach<'a>((family, view): (&Family, &'a View), keys: &[&'a [u8]]) -> [SearchPath<'a>; SIDE_BY_SIDE] {
    let mut ways = [SearchPath::default(); SIDE_BY_SIDE];
    if keys.len() < 2 || view.levels.tables() == 0 || !family.order().is_hashable() {
        return ways;
    }
    for (way, key) in ways.iter_mut().zip(keys) {
        let key_hash = *way.key_hash.insert(hash_key(key));
        for table in view.levels.holding(key).filter_map(|table| table.opened()) {
            table.prefetch_filter(key, key_hash);
        }
    }
    for (way, key) in ways.iter_mut().zip(keys) {
        for table in view.levels.holding(key) {
            let (Some(table), Some(key_hash)) = (table.opened(), way.key_hash) else { break };
            match table.prefetch_slot(key, key_hash) {
                Approach::Denied => {}
                Approach::At(number) => {
                    way.block = Some((table, number));
                    break;
                }
                Approach::Unknown => break,
            }
        }
    }
    ways.iter().filter_map(|way| way.block).for_each(|(table, number)| table.prefetch_block(number));
    ways
}

/// Returns the error of a record kind that this version does not read.
#[cold]
pub(super) fn unread(kind: Kind) -> Error {
    Error::invalid(format!("a record of kind {kind:?}, which this version does not read"))
}
