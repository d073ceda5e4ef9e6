//! The read path: the active memtable, the frozen memtables, then the levels, newest first. The first hit decides.
//!
//! In:    a family, a key or bounds, and the commits to see.
//! Order: the view is loaded before the seqno. A view holds everything committed before it was loaded, so the seqno can
//!        only add newer records. In the opposite order, a compaction could have dropped versions that the old seqno
//!        needs.
//! Costs: a cached `get` allocates nothing, takes no lock and writes no counter that another core writes.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::family::{Family, View};
use super::snapshot::At;
use super::values::{fetch_by, read_value};
use super::versions::unread;
use super::watch::{Integrity, Place};
use super::{Db, Inner, TableHandle};
use crate::checksum::hash_key;
use crate::error::{Damage, Error, Result, Verdict};
use crate::expiry::{AsOf, ExpiryClock};
use crate::fence::Fence;
use crate::interrupt;
use crate::merge::{ConcatCursor, FenceCursor, MergeCursor, Opened, Part, Tiers, Walk};
use crate::options::{Reading, Verify};
use crate::order::Order;
use crate::planted::{self, Bug};
use crate::read::{UserCursor, Values};
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Life, Protection};
use crate::sst::{Approach, Checks, Table, TableCursor};
use crate::turn::is_turn;
use crate::values::Room;
use crate::version::LEVELS;

pub use crate::read::Bounds;

/// Number of `multi_get` keys whose cache misses overlap.
const SIDE_BY_SIDE: usize = 16;

impl Db {
    /// Passes the value of `key` to `visit`, borrowed from the cache or memtable; returns false if the key has no
    /// value. The family's `verify_reads` selects the checks.
    ///
    /// Errors: `Corruption` if the deciding record cannot be trusted (an older version is never returned instead),
    /// `Io`, `Closed`, `Invalid` for a snapshot of another store. A cached read allocates nothing.
    #[inline]
    pub fn get(&self, family: &Family, key: &[u8], at: At<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        self.get_checked(family, key, at, family.options().verify_reads, visit)
    }

    /// Reads like `get`, with checks other than the family's.
    pub fn get_checked(
        &self,
        family: &Family,
        key: &[u8],
        at: At<'_>,
        reading: impl Into<Reading>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let inner = self.open_inner()?;
        let checks = inner.checks(reading);
        if let At::Snapshot(snapshot) = at
            && let Some(views) = snapshot.views()
            && let Some(view) = views.of(family)?
        {
            return inner.get_in((family, view), (key, None), inner.moment(at)?, checks, visit);
        }
        let view = family.view();
        let moment = inner.moment(at)?;
        inner.get_in((family, &view), (key, None), moment, checks, visit)
    }

    /// Reads like `get_checked`, but returns the record as its table holds it. A value in a blob file is not read; the
    /// record has a pointer instead (kind `BlobPointer`). For callers that need only a record's companions, or only
    /// whether a value exists.
    pub fn get_record(
        &self,
        family: &Family,
        key: &[u8],
        at: At<'_>,
        reading: impl Into<Reading>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let inner = self.open_inner()?;
        let (view, moment, mut checks) = (self.view_at(family, at)?, inner.moment(at)?, inner.checks(reading));
        loop {
            let mut found = Some(false);
            inner.version_in((family, &view), (key, None), moment.seqno, checks, |record| {
                found = inner.is_value(record, moment.as_of, checks);
                if found == Some(true) {
                    visit(record);
                }
            })?;
            match found {
                Some(found) => return Ok(found),
                None => checks.each = true,
            }
        }
    }

    /// Returns a bidirectional cursor over the values of a family within bounds. It keeps its view of the store until
    /// it is dropped. The family's `verify_scans` selects the checks. At a lost range the cursor returns one error, and
    /// its next step continues after the range.
    pub fn cursor(&self, family: &Family, at: At<'_>, bounds: Bounds) -> Result<UserCursor> {
        self.cursor_checked(family, at, bounds, family.options().verify_scans)
    }

    /// Opens a cursor like `cursor`, with checks other than the family's.
    pub fn cursor_checked(
        &self,
        family: &Family,
        at: At<'_>,
        bounds: Bounds,
        reading: impl Into<Reading>,
    ) -> Result<UserCursor> {
        let inner = self.open_inner()?;
        let view = self.view_at(family, at)?;
        let moment = inner.moment(at)?.fixed(&inner.expiry_clock);
        Ok(inner.cursor_in(family, view, moment, bounds, reading.into()))
    }

    /// Looks up several keys at one seqno. `visit` receives the index of each key that has a value.
    pub fn multi_get(
        &self,
        family: &Family,
        keys: &[&[u8]],
        at: At<'_>,
        visit: &mut dyn FnMut(usize, &Record<'_>),
    ) -> Result<()> {
        self.multi_get_checked(family, keys, at, family.options().verify_reads, visit)
    }

    /// Reads like `multi_get`, with checks other than the family's.
    pub fn multi_get_checked(
        &self,
        family: &Family,
        keys: &[&[u8]],
        at: At<'_>,
        reading: impl Into<Reading>,
        visit: &mut dyn FnMut(usize, &Record<'_>),
    ) -> Result<()> {
        let (inner, reading) = (self.open_inner()?, reading.into());
        let view = self.view_at(family, at)?;
        let moment = inner.moment(at)?.fixed(&inner.expiry_clock);
        for (group, keys) in keys.chunks(SIDE_BY_SIDE).enumerate() {
            interrupt::check()?;
            let ways = approach((family, &view), keys);
            for (at, (key, way)) in keys.iter().zip(ways).enumerate() {
                let again = ways.get(at + 1).is_some_and(|next| way.is_beside(next));
                let checks = Checks { again, ..inner.checks(reading) };
                let mut show = |record: &Record<'_>| visit(group * SIDE_BY_SIDE + at, record);
                inner.get_on(way, (family, &view), key, moment, checks, &mut show)?;
            }
        }
        Ok(())
    }

    /// Estimates the bytes of table and blob files that the keys within bounds occupy. The estimates of adjacent bounds
    /// add up, and bounds around all keys of a table count all of its bytes. Memtables are not counted.
    pub fn approximate_size(&self, family: &Family, bounds: &Bounds) -> Result<u64> {
        self.open_inner()?;
        let view = family.open_view()?;
        let mut total = 0u64;
        for table in view.levels.iter().flat_map(|level| level.tables()) {
            let to = bytes_up_to(table, &bounds.1, true, family.order())?;
            let from = bytes_up_to(table, &bounds.0, false, family.order())?;
            total = total.saturating_add(to.saturating_sub(from));
        }
        Ok(total)
    }
}

/// Estimates the bytes of a table, and of the values it points to, that belong to keys below one end of some bounds.
fn bytes_up_to(table: &TableHandle, bound: &Bound<Vec<u8>>, is_upper: bool, order: &Order) -> Result<u64> {
    let meta = table.meta();
    let all = meta.bytes_with_values();
    let (key, and_key) = match bound {
        Bound::Unbounded => return Ok(if is_upper { all } else { 0 }),
        Bound::Included(key) => (key, is_upper),
        Bound::Excluded(key) => (key, !is_upper),
    };
    // Bounds at or beyond the table's own ends need no search and no open table.
    match (order.compare(key, &meta.smallest), order.compare(key, &meta.largest)) {
        (Ordering::Less, _) => Ok(0),
        (Ordering::Equal, _) if !and_key => Ok(0),
        (_, Ordering::Greater) => Ok(all),
        (_, Ordering::Equal) if and_key => Ok(all),
        _ => table.table()?.approximate_bytes_before(key, and_key, all),
    }
}

/// The commits that a read sees, and the time at which it evaluates expiry.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) seqno: Seqno,
    pub(super) as_of: AsOf,
}

impl Moment {
    /// Fixes the expiry time at the current time, for a read of many records.
    fn fixed(self, clock: &ExpiryClock) -> Moment {
        match self.as_of {
            AsOf::NOW => Moment { as_of: AsOf::micros(clock.now()), ..self },
            _ => self,
        }
    }
}

impl Inner {
    /// Returns the seqno that a read sees.
    #[inline]
    pub(super) fn seqno(&self, at: At<'_>) -> Result<Seqno> {
        match at {
            At::Latest => Ok(self.visible()),
            At::Snapshot(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.seqno()),
            At::Snapshot(_) => Err(Error::invalid("the snapshot belongs to another store")),
        }
    }

    /// Returns the seqno of a read, and the time at which it evaluates expiry.
    #[inline]
    pub(super) fn moment(&self, at: At<'_>) -> Result<Moment> {
        let as_of = match at {
            At::Snapshot(snapshot) if !planted::active(Bug::SnapshotReadsByTheClock) => AsOf::micros(snapshot.micros()),
            _ => AsOf::NOW,
        };
        Ok(Moment { seqno: self.seqno(at)?, as_of })
    }

    /// Returns the checks of one read under its policy. A store whose protector makes no companions checks nothing.
    #[inline]
    pub(super) fn checks(&self, reading: impl Into<Reading>) -> Checks {
        let reading = reading.into();
        let checks = match reading.verify {
            _ if self.promise == Protection::None => Checks::NONE,
            Verify::Always => Checks::EACH,
            Verify::Never => Checks::NONE,
            Verify::OnFill => Checks::LOADED,
            Verify::Sampled(of) => Checks { each: is_turn(of), ..Checks::LOADED },
        };
        Checks { passing: !reading.fill_cache, ..checks }
    }

    /// Opens a cursor over a view.
    pub(super) fn cursor_in(
        &self,
        family: &Family,
        view: Arc<View>,
        Moment { seqno, as_of }: Moment,
        bounds: Bounds,
        reading: Reading,
    ) -> UserCursor {
        let (internal, tables) = self.internal_cursor(family, view, reading);
        let cursor = UserCursor::over(family.order().clone(), internal, seqno, bounds).of_family(family.shared_name());
        cursor.reading(tables).expiring(self.companions.clone(), self.expiry_clock.clone(), as_of)
    }

    fn get_in(
        &self,
        of: (&Family, &View),
        key: Hashed<'_>,
        moment: Moment,
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
        moment: Moment,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        self.get_in(of, (key, None), moment, Checks { each: true, ..checks }, visit)
    }

    /// Reads like `get_in`, with the prefetched hash and block.
    fn get_on(
        &self,
        mut way: Way<'_>,
        of: (&Family, &View),
        key: &[u8],
        moment: Moment,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let mut outcome = Ok(false);
        let decide = |record: &Record<'_>| outcome = self.value_of(of, record, (moment, checks), visit);
        self.version_by(of, (key, way.key_hash), moment.seqno, checks, decide, |table, key_hash, decide| {
            let reader = table.table().map_err(|error| self.unopened(of.0, table, error))?;
            match way.block {
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
    #[inline]
    fn value_of(
        &self,
        of: (&Family, &View),
        record: &Record<'_>,
        (moment, checks): (Moment, Checks),
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
        self.version_by(of, key, seqno, checks, visit, |table, key_hash, decide| {
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
        mut visit: impl FnMut(&Record<'_>),
        mut ask: impl FnMut(&TableHandle, u64, &mut dyn FnMut(&Record<'_>)) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        let order = family.order();
        let mut outcome = Ok(false);
        let mut decide = |record: &Record<'_>| {
            outcome = match !view.fences.is_empty() && self.is_fenced((family, view), record, seqno) {
                true => Err(self.fenced(family, view, |fence| fence.covers_at(order, record.key, record.seqno, seqno))),
                false => {
                    visit(record);
                    Ok(true)
                }
            };
        };
        // The key is hashed once, for its companion and for the filters.
        let is_hashable = order.is_hashable();
        let key_hash = match known_hash {
            Some(hash) => hash,
            None if is_hashable => hash_key(key),
            None => 0,
        };
        let frozen = view.frozen.iter().filter(|_| !planted::active(Bug::FrozenMemtableSkipped));
        for generation in [&view.active].into_iter().chain(frozen) {
            let memtable = &generation.memtable;
            // A record is counted before its seqno becomes visible, and this read loaded the seqno earlier.
            if !memtable.may_hold(key_hash) {
                continue;
            }
            let mut damage = None;
            let found = memtable.get(key, seqno, &mut |stored| {
                // Use the requested key, not the stored key, whose bytes may have changed in memory.
                let (record, hash) = match is_hashable {
                    true => (Record { key, ..*stored }, key_hash),
                    false => (*stored, if checks.each { hash_key(stored.key) } else { 0 }),
                };
                let check = match checks.each {
                    true => self.companions.verify(&record, hash, memtable.protection(self.promise)),
                    false => Check::Unverified,
                };
                match check.serves() && record.kind != Kind::Fence {
                    true => decide(&record),
                    false => damage = Some(self.damaged_in_memory(family, &record, check)),
                }
            });
            match (found, damage) {
                (true, Some(error)) => return Err(error.into()),
                (true, None) => return Ok(outcome?),
                (false, _) => {}
            }
        }
        if view.levels.tables() > 0 {
            let mut holding = view.levels.holding(key);
            let mut before: Option<&Arc<TableHandle>> = None;
            loop {
                let next = holding.next();
                // Prefetch its filter line while the previous table is searched.
                if let Some(table) = next.and_then(|table| table.opened()) {
                    table.prefetch_filter(key, key_hash);
                }
                if let Some(table) = before
                    && ask(table, key_hash, &mut decide)?
                {
                    return Ok(outcome?);
                }
                before = next;
                if before.is_none() {
                    break;
                }
            }
        }
        match view.fences.iter().any(|fence| fence.may_hide(order, key, seqno)) {
            true => Err(self.fenced(family, view, |fence| fence.may_hide(order, key, seqno)).into()),
            false => Ok(view.check_open().map(|()| false)?),
        }
    }

    /// Returns true if a record lies in a lost range that may have held the deciding version.
    #[cold]
    fn is_fenced(&self, (family, view): (&Family, &View), record: &Record<'_>, at: Seqno) -> bool {
        view.fences.iter().any(|fence| fence.covers_at(family.order(), record.key, record.seqno, at))
    }

    /// Returns the error of the lost range that a read hit.
    #[cold]
    fn fenced(&self, family: &Family, view: &View, meets: impl Fn(&Fence) -> bool) -> Error {
        self.integrity.fence_met();
        match view.fences.iter().find(|fence| meets(fence)) {
            Some(fence) => fence.error().in_family(family.name(), None),
            None => Error::structural("a fence that is not there"),
        }
    }

    /// Returns the error of a record in memory that does not match its companion.
    #[cold]
    fn damaged_in_memory(&self, family: &Family, record: &Record<'_>, check: Check) -> Error {
        let verdict = if check == Check::Missing { Verdict::Missing } else { Verdict::Seal };
        let damage = Damage { verdict, ..Damage::default() };
        let error = Error::corruption(damage, "a record in memory does not match its companion");
        let error = error.in_family(family.name(), Some((record.key, record.key)));
        self.integrity.tell(Place::Memory(record.seqno), &error);
        error
    }
}

/// Typical stores have at most this many memtables, levels and level-0 tables.
const USUAL_SOURCES: usize = 8;

/// A key, and its hash if already computed.
pub(super) type Hashed<'a> = (&'a [u8], Option<u64>);

/// Prefetched facts about a key's read.
#[derive(Clone, Copy, Default)]
struct Way<'a> {
    key_hash: Option<u64>,
    /// The first table that may hold the key, and the block in that table; the filters of earlier tables exclude the
    /// key.
    block: Option<(&'a Table, usize)>,
}

impl Way<'_> {
    /// Returns true if another key's read uses the same block.
    fn is_beside(&self, other: &Way<'_>) -> bool {
        let same = |one: (&Table, usize), other: (&Table, usize)| std::ptr::eq(one.0, other.0) && one.1 == other.1;
        self.block.zip(other.block).is_some_and(|(one, other)| same(one, other))
    }
}

/// Prefetches the memory that the reads of several keys will touch: filter lines for all keys, then slots, then blocks.
/// A single read waits for one cache miss after the other; these reads wait for all misses of a step together.
fn approach<'a>((family, view): (&Family, &'a View), keys: &[&'a [u8]]) -> [Way<'a>; SIDE_BY_SIDE] {
    let mut ways = [Way::default(); SIDE_BY_SIDE];
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

impl Inner {
    /// Opens a cursor over all records and lost ranges of a view in internal order. No table is opened before a cursor
    /// movement needs it.
    fn internal_cursor(&self, family: &Family, view: Arc<View>, reading: Reading) -> (MergeCursor, Arc<ViewTables>) {
        let order = family.order();
        // The same rule as `Checks::asks_values`, but without advancing the verification sampler.
        let asks_values = self.promise != Protection::None && reading.verify != Verify::Never;
        let integrity = self.integrity.clone();
        let tables = Arc::new(ViewTables { view, reading, family: family.clone(), asks_values, integrity });
        let view = &tables.view;
        let mut sources = Vec::with_capacity(USUAL_SOURCES);
        for generation in [&view.active].into_iter().chain(&view.frozen) {
            if !generation.memtable.is_empty() {
                let memtable = generation.memtable.cursor_checked(&self.companions, reading.verify);
                sources.push(Walk::Memtable(Box::new(memtable)));
            }
        }
        if !view.fences.is_empty() {
            sources.push(Walk::Other(Box::new(FenceCursor::new(order.clone(), view.fences.clone()))));
        }
        let level0 = view.levels.level(0).tables().len();
        let deeper = (1..LEVELS).filter(|level| !view.levels.level(*level).tables().is_empty());
        for tier in (0..level0).chain(deeper.map(|level| level0 + level - 1)) {
            sources.push(Walk::Tables(ConcatCursor::over(order.clone(), tables.clone(), tier)));
        }
        (MergeCursor::of(order.clone(), sources), tables)
    }
}

/// The tables of a view for a user's cursor, and the blob files they point into. Each level-0 table is a tier of its
/// own, newest first, followed by the lower levels. A table that cannot be opened becomes a lost range.
struct ViewTables {
    view: Arc<View>,
    reading: Reading,
    family: Family,
    /// Values read from blob files are verified against their companions.
    asks_values: bool,
    integrity: Arc<Integrity>,
}

impl Values for ViewTables {
    fn read(&self, record: &Record<'_>, room: &mut Room) -> Result<()> {
        read_value((&self.family, &self.view), &self.integrity, record, self.asks_values, room)
    }

    fn damaged_in_memory(&self, seqno: Seqno, error: &Error) {
        self.integrity.tell(Place::Memory(seqno), error);
    }
}

impl ViewTables {
    /// Returns the level of a tier, and its tables.
    fn tier(&self, tier: usize) -> (usize, &[Arc<TableHandle>]) {
        let level0 = self.view.levels.level(0).tables();
        match level0.get(tier..=tier) {
            Some(table) => (0, table),
            None => {
                let level = tier + 1 - level0.len();
                (level, self.view.levels.level(level).tables())
            }
        }
    }
}

impl Tiers for ViewTables {
    fn parts(&self, tier: usize) -> usize {
        self.tier(tier).1.len()
    }

    fn smallest(&self, tier: usize, part: usize) -> &[u8] {
        &self.tier(tier).1[part].meta().smallest
    }

    fn largest(&self, tier: usize, part: usize) -> &[u8] {
        &self.tier(tier).1[part].meta().largest
    }

    fn find(&self, tier: usize, key: &[u8], order: &Order) -> usize {
        match self.tier(tier) {
            (0, tables) => tables.iter().take_while(|table| order.compare(&table.meta().largest, key).is_lt()).count(),
            (level, _) => self.view.levels.seek(level, key),
        }
    }

    fn open(&self, tier: usize, part: usize, spare: Option<Box<TableCursor>>) -> Result<Opened> {
        let handle = &self.tier(tier).1[part];
        match handle.table() {
            Ok(table) => Ok(Opened::Table(match spare {
                Some(spare) => spare.moved_to(table),
                None => Box::new(table.cursor_checked(self.reading)),
            })),
            Err(error) => match error.damage() {
                None => Err(error),
                Some(damage) => {
                    let meta = handle.meta();
                    self.integrity.tell(Place::Table(meta.number), &error);
                    let fence = Fence {
                        from: (meta.smallest.clone(), MAX_SEQNO),
                        to: (meta.largest.clone(), 0),
                        bound: meta.newest_seqno(),
                        file: damage.file.clone(),
                        offset: damage.offset,
                        verdict: damage.verdict,
                    };
                    Ok(Opened::Other(Box::new(FenceCursor::new(self.family.order().clone(), Arc::new(vec![fence])))))
                }
            },
        }
    }
}

/// A table as one part of its level, opened when a cursor reaches it.
pub(super) struct LevelPart {
    pub(super) table: Arc<TableHandle>,
    pub(super) fill_cache: bool,
}

impl Part for LevelPart {
    fn smallest(&self) -> &[u8] {
        &self.table.meta().smallest
    }

    fn largest(&self) -> &[u8] {
        &self.table.meta().largest
    }

    fn open(&self) -> Result<Opened> {
        Ok(Opened::Table(Box::new(self.table.table()?.cursor(self.fill_cache))))
    }
}
