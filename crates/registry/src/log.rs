//! The log: ordered events, queried in pages.
//!
//! In:     a query, a page position, a snapshot.
//! Out:    events of the log family, of memtables and of the engine event log, each once, ordered by target, operation
//!         and time.
//! Holds:  a query returns the state of its snapshot even while events move between sources: a source that loses rows
//!         is opened before the source that receives them. An event of the engine whose retention ends meanwhile may be
//!         missing.
//! Costs:  the events of a target, for one operation or all, are one range. A time span costs one more seek for each
//!         operation, the latest event one seek. Events in memtables are read by key.

use std::ops::Bound::{Excluded, Included, Unbounded};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::{At, Db, Family, Snapshot};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::is_system_name;
use waxseal_lsm::options::{Durability, Verify};
use waxseal_lsm::order::Order;
use waxseal_lsm::planted;
use waxseal_lsm::read::CursorBounds;
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_meta::annotations::Annotations;
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::stamp::Stamp;

use crate::emission::old_image;
use crate::engine_log::EngineLine;
use crate::event::Event;
use crate::families::{LOG, LOG_ID, granted};
use crate::key::{KEY_MARK, LogKey, Query, ScanPlan, ScanStep};
use crate::operation::Operation;
use crate::payload::{Field, Image};
use crate::pending::{self, Making, PendingRows};
use crate::sources::{LogRows, Merged, Sorted, StoredRows};
use crate::target::Target;

/// The position and size of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paging {
    /// The end of the previous page (`Page::next`); `None` for the first page.
    pub after: Option<Vec<u8>>,
    /// Maximum number of events, at least 1.
    pub limit: usize,
}

impl Paging {
    /// All events in one page.
    pub const ALL: Paging = Paging { after: None, limit: usize::MAX };

    /// Selects the first `limit` events.
    pub fn first(limit: usize) -> Paging {
        Paging { after: None, limit }
    }
}

/// Events ordered by target, operation and time, with the position of the next page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The events.
    pub events: Vec<Event>,
    /// `Paging::after` of the next page; `None` after the last page.
    pub next: Option<Vec<u8>>,
}

/// The target, the plan and the condition of the range deletes that a query of a key includes.
type RangeDeletesOver<'q> = (Target, ScanPlan, Box<dyn Fn(&Event) -> bool + 'q>);

/// Number of rows that one commit deletes or rewrites.
const AT_ONCE: usize = 1024;

/// A log at a snapshot.
pub(crate) struct LogReader<'a> {
    db: &'a Db,
    snapshot: Snapshot,
    making: Making<'a>,
}

impl<'a> LogReader<'a> {
    pub(crate) fn new(db: &'a Db, at: At<'_>, making: Making<'a>) -> Result<LogReader<'a>> {
        let snapshot = match at {
            At::Latest => db.snapshot()?,
            At::Snapshot(snapshot) => snapshot.clone(),
        };
        Ok(LogReader { db, snapshot, making })
    }

    fn at(&self) -> At<'_> {
        At::Snapshot(&self.snapshot)
    }

    /// Returns a page of a plan's events, all of them at or below `target`.
    pub(crate) fn page(&self, target: &Target, plan: ScanPlan, paging: &Paging) -> Result<Page> {
        self.page_of(target, plan, paging, &|_| true)
    }

    /// Returns a page of the events of a family's keys within bounds in the family's order. The log is ordered by the
    /// bytes of the keys, so in a family with another order every event is examined.
    pub(crate) fn page_of_range(&self, family: &Family, bounds: &CursorBounds, paging: &Paging) -> Result<Page> {
        let (target, order) = (Target::family(family.name()), family.order());
        if order.is_bytewise() {
            return self.page(&target, plan_of_range(family.name(), bounds)?, paging);
        }
        let plan = plan_of_range(family.name(), &(Unbounded, Unbounded))?;
        self.page_of(&target, plan, paging, &|event| match &event.key.target {
            Target::Key { key, .. } => is_within(order, bounds, key),
            _ => false,
        })
    }

    /// Returns a page of a query's events. Those of a key include the range deletes of its family that held the key:
    /// they come first, as in the order of the log.
    pub(crate) fn page_of_query(&self, query: &Query, paging: &Paging) -> Result<Page> {
        let own = query.plan()?;
        let Some((family, ranges, holds)) = self.range_deletes_over(query)? else {
            return self.page(&query.target, own, paging);
        };
        if paging.after.as_ref().is_some_and(|after| own.clone().resume(after).is_ok()) {
            return self.page(&query.target, own, paging);
        }
        let mut page = self.page_of(&family, ranges, paging, &holds)?;
        if page.next.is_some() {
            return Ok(page);
        }
        let left = paging.limit - page.events.len();
        let more = self.page(&query.target, own, &Paging::first(left.max(1)))?;
        match (left, page.events.last()) {
            (0, Some(last)) => page.next = if more.events.is_empty() { None } else { Some(last.encode()?.0) },
            _ => {
                page.events.extend(more.events);
                page.next = more.next;
            }
        }
        Ok(page)
    }

    /// Returns the range deletes that a query of a key includes: their target, a plan, and the condition on each; `None`
    /// if it includes none.
    fn range_deletes_over<'q>(&self, query: &'q Query) -> Result<Option<RangeDeletesOver<'q>>> {
        let Target::Key { family, key } = &query.target else { return Ok(None) };
        let operation = query.operation.unwrap_or(Operation::RANGE_DELETE);
        if !matches!(operation, Operation::RANGE_DELETE | Operation::ROW_DELETE) {
            return Ok(None);
        }
        let target = Target::family(family);
        let operation = Some(Operation::RANGE_DELETE);
        let plan = Query { target: target.clone(), below: false, operation, ..query.clone() }.plan()?;
        let order = self.db.family(family).map_or_else(Order::bytewise, |family| family.order().clone());
        let holds = move |event: &Event| {
            let start = event.payload.find(|field| match field {
                Field::RangeStart(key) => Some(key.clone()),
                _ => None,
            });
            let end = event.payload.find(|field| match field {
                Field::RangeEnd(key) => Some(key.clone()),
                _ => None,
            });
            is_within(&order, &(start.map_or(Unbounded, Included), end.map_or(Unbounded, Excluded)), key)
        };
        Ok(Some((target, plan, Box::new(holds))))
    }

    /// Returns a page of a plan's events that satisfy `wanted`.
    fn page_of(
        &self,
        target: &Target,
        plan: ScanPlan,
        paging: &Paging,
        wanted: &dyn Fn(&Event) -> bool,
    ) -> Result<Page> {
        if paging.limit == 0 {
            return Err(Error::invalid("a page of no events could not say where the next one begins"));
        }
        let plan = match &paging.after {
            Some(after) => plan.resume(after)?,
            None => plan,
        };
        let mut sources = self.unstored(target)?;
        if let Some(stored) = self.stored()? {
            sources.push(Box::new(stored));
        }
        let mut rows = Merged::of(sources);
        let mut page = Page::default();
        let mut last = Vec::new();
        walk(&mut rows, &plan, |key, value| {
            let event = Event::decode(key, value)?;
            if !wanted(&event) {
                return Ok(true);
            }
            if page.events.len() >= paging.limit {
                page.next = Some(std::mem::take(&mut last));
                return Ok(false);
            }
            page.events.push(self.with_old(event)?);
            if page.events.len() >= paging.limit {
                last = key.to_vec();
            }
            Ok(true)
        })?;
        Ok(page)
    }

    /// Returns the latest event of a query.
    pub(crate) fn latest(&self, query: &Query) -> Result<Option<Event>> {
        let unstored = match &query.target {
            Target::Key { family, key } => match self.db.family(family) {
                Some(of) => unless_dropped(&of, pending::of_key(self.db, &of, key, self.at(), self.making))?,
                None => None,
            },
            Target::TableFile(_) | Target::Engine(_) => Some(self.engine_log(Some(&query.target))?),
            _ => None,
        };
        planted!(LatestForgetsMemory => let unstored = None);
        let unstored = unstored.map(|rows| rows.latest(query.latest()?)).transpose()?.flatten();
        let stored = match self.stored()? {
            Some(mut stored) => stored.latest(query.latest()?)?,
            None => None,
        };
        let mut best: Option<Event> = None;
        if let Some((family, ranges, holds)) = self.range_deletes_over(query)? {
            best = self.page_of(&family, ranges, &Paging::ALL, &holds)?.events.pop();
        }
        for (key, value) in [unstored, stored].into_iter().flatten() {
            let event = Event::decode(&key, &value)?;
            let when = |event: &Event| (event.key.time, event.key.seqno);
            if best.as_ref().is_none_or(|best| when(&event) > when(best)) {
                best = Some(event);
            }
        }
        best.map(|event| self.with_old(event)).transpose()
    }

    /// Deletes the events of a query as of the snapshot and returns their number.
    pub(crate) fn delete(&self, query: &Query, durability: Durability) -> Result<u64> {
        let plan = query.plan()?;
        let mut waits = false;
        walk(&mut Merged::of(self.pending(&query.target)?), &plan, |_, _| {
            waits = true;
            Ok(false)
        })?;
        if planted!(DeletedEventBornAgain, false, waits) {
            self.db.flush()?; // otherwise a later flush would write the deleted rows again
        }
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut deleted = 0;
        let Some(mut stored) = self.stored()? else { return Ok(0) };
        walk(&mut stored, &plan, |key, _| {
            keys.push(key.to_vec());
            if keys.len() >= AT_ONCE {
                deleted += self.delete_rows(&mut keys, durability)?;
            }
            Ok(true)
        })?;
        Ok(deleted + self.delete_rows(&mut keys, durability)?)
    }

    fn delete_rows(&self, keys: &mut Vec<Vec<u8>>, durability: Durability) -> Result<u64> {
        let mut batch = granted();
        for key in &*keys {
            batch.push(LOG_ID, Kind::Delete, key, &[], self.db.companions())?;
        }
        self.db.commit(&mut batch, durability)?;
        let deleted = keys.len() as u64;
        keys.clear();
        Ok(deleted)
    }

    /// Returns the log family; `None` in a read-only store whose files contain no log family.
    fn stored(&self) -> Result<Option<StoredRows>> {
        let Some(log) = self.db.family(LOG) else { return Ok(None) };
        self.db
            .cursor_checked(&log, self.at(), (Unbounded, Unbounded), Verify::Always)
            .map(|cursor| Some(StoredRows(cursor)))
    }

    /// Returns the sources of events that are not in the log family, for a target and all targets below it.
    fn unstored(&self, target: &Target) -> Result<Vec<Box<dyn LogRows + 'a>>> {
        let mut sources = self.pending(target)?;
        match target {
            Target::Cluster => sources.push(Box::new(self.engine_log(None)?)),
            Target::TableFile(_) | Target::Engine(_) => sources.push(Box::new(self.engine_log(Some(target))?)),
            _ => {}
        }
        Ok(sources)
    }

    fn pending(&self, target: &Target) -> Result<Vec<Box<dyn LogRows + 'a>>> {
        let mut sources: Vec<Box<dyn LogRows + 'a>> = Vec::new();
        let (db, making) = (self.db, self.making);
        match target {
            Target::Key { family, key } => {
                if let Some(family) = db.family(family) {
                    let rows = unless_dropped(&family, pending::of_key(db, &family, key, self.at(), making))?;
                    sources.extend(rows.map(|rows| Box::new(rows) as Box<dyn LogRows>));
                }
            }
            Target::Family(_) | Target::Cluster => {
                let asked = match target {
                    Target::Family(name) => db.family(name).into_iter().collect(),
                    _ => db.families(),
                };
                for family in asked {
                    if is_system_name(family.name()) {
                        continue;
                    }
                    let rows: Result<Box<dyn LogRows + 'a>> = match family.order().is_bytewise() {
                        true => PendingRows::new(db, &family, self.at(), making).map(|rows| Box::new(rows) as _),
                        false => pending::of_family(db, &family, self.at(), making).map(|rows| Box::new(rows) as _),
                    };
                    sources.extend(unless_dropped(&family, rows)?);
                }
            }
            _ => {}
        }
        Ok(sources)
    }

    /// Returns the lines of the engine event log with their numbers.
    pub(crate) fn lines(&self) -> Result<Vec<(u64, EngineLine)>> {
        let mut lines = Vec::new();
        for (number, bytes) in self.db.engine_log() {
            let line = EngineLine::decode(&bytes)?;
            if line.seqno <= self.snapshot.seqno() {
                lines.push((number, line));
            }
        }
        Ok(lines)
    }

    /// Returns a plan's events from the log family only.
    pub(crate) fn stored_page(&self, plan: ScanPlan) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        if let Some(mut stored) = self.stored()? {
            walk(&mut stored, &plan, |key, value| {
                events.push(Event::decode(key, value)?);
                Ok(true)
            })?;
        }
        Ok(events)
    }

    /// Returns the engine's events that are not rows yet, for one target or all.
    fn engine_log(&self, target: Option<&Target>) -> Result<Sorted> {
        let mut rows = Vec::new();
        for (number, line) in self.lines()? {
            let events = target.map_or_else(|| line.events(number), |target| line.events_of(target, number));
            for event in events {
                rows.push(event.encode()?);
            }
        }
        Ok(Sorted::of(rows))
    }

    /// Copies old values that are kept as versions in a family into the rows of its events, before the family is
    /// dropped.
    pub(crate) fn keep_old_values(&self, name: &str, sealer: &Sealer) -> Result<()> {
        let plan = Query { below: true, ..Query::of(Target::family(name)) }.plan()?;
        let mut batch = granted();
        let commit = |batch: &mut Batch| {
            self.db.commit(batch, self.db.durability())?;
            *batch = granted();
            Ok(())
        };
        let (Some(log), Some(mut stored)) = (self.db.family(LOG), self.stored()?) else { return Ok(()) };
        walk(&mut stored, &plan, |key, value| {
            let event = Event::decode(key, value)?;
            let is_beside = old_kept(&event).is_some();
            let event = self.with_old(event)?;
            if is_beside && old_kept(&event).is_none() {
                let mut expiry = None;
                self.db.get_checked(&log, key, self.at(), Verify::Always, &mut |record| {
                    let entry = Annotations::read(record.companion).and_then(|annotations| annotations.entry(EXPIRY));
                    expiry = entry.ok().flatten().map(|entry| entry.bytes.to_vec());
                })?;
                let entries: Vec<(u16, &[u8])> = expiry.iter().map(|entry| (EXPIRY, &entry[..])).collect();
                let (key, value) = event.encode()?;
                batch.push_given(LOG_ID, Kind::Put, &key, &value, &entries, sealer)?;
                if batch.len() >= AT_ONCE {
                    commit(&mut batch)?;
                }
            }
            Ok(true)
        })?;
        commit(&mut batch)
    }

    /// Adds the old value to an event if the family still keeps it as a version. Otherwise the field that announces it
    /// remains.
    fn with_old(&self, mut event: Event) -> Result<Event> {
        let (Some(how), Target::Key { family, key }) = (old_kept(&event), &event.key.target) else { return Ok(event) };
        let Some(family) = self.db.family(family) else { return Ok(event) }; // the value was dropped with its family
        let (mut old, time) = (Image::Absent, event.key.time);
        let read = self.db.get_before(&family, key, event.key.seqno, Verify::Always, &mut |record| {
            old = old_image(record, how, time);
        });
        // Checked after the read: if the family had been dropped before the read, this check would fail as well.
        let keeps = match self.keeps_old(&family, key, &event.key) {
            Err(_) if family.is_dropped() => false,
            keeps => keeps?,
        };
        if !keeps {
            return Ok(event);
        }
        read?;
        event.payload.remove(Field::OldKept(how).number());
        event.payload.push(Field::OldValue(old));
        Ok(event)
    }

    /// Returns true if the record of this event exists and keeps the version that it overwrote. Otherwise older
    /// versions prove nothing: the family may be another one with the same name, or the store a copy with other
    /// sequence numbers. The record's own value is not needed; it may be lost.
    fn keeps_old(&self, family: &Family, key: &[u8], of: &LogKey) -> Result<bool> {
        let mut keeps = false;
        self.db.get_record_before(family, key, of.seqno + 1, Verify::Always, &mut |record| {
            let stamp = Stamp::of(record.companion, hash_key(record.key)).ok().flatten();
            let is_emitted = |stamp: Stamp| stamp.history && stamp.time == of.time.0;
            keeps = record.seqno == of.seqno && stamp.is_some_and(is_emitted);
        })?;
        Ok(keeps)
    }
}

/// Returns the events of a family that are not rows yet; `None` if the family was dropped since it was found. Its drop has
/// made rows of them.
fn unless_dropped<T>(family: &Family, events: Result<T>) -> Result<Option<T>> {
    match events {
        Err(_) if family.is_dropped() => Ok(None),
        events => events.map(Some),
    }
}

/// Returns how the old value of an event is kept as a version, if the event says so.
fn old_kept(event: &Event) -> Option<u64> {
    event.payload.find(|field| if let Field::OldKept(how) = field { Some(*how) } else { None })
}

/// Visits the rows that a plan selects, until `take` returns false.
fn walk(rows: &mut dyn LogRows, plan: &ScanPlan, mut take: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
    rows.seek(plan.start())?;
    while let Some((key, value)) = rows.row() {
        match plan.step(key)? {
            ScanStep::Take => match take(key, value)? {
                true => rows.next()?,
                false => break,
            },
            ScanStep::Skip => rows.next()?,
            ScanStep::Seek(to) => rows.seek(&to)?,
            ScanStep::Done => break,
        }
    }
    Ok(())
}

/// Returns true if a key is within bounds in an order.
fn is_within(order: &Order, bounds: &CursorBounds, key: &[u8]) -> bool {
    let begins = match &bounds.0 {
        Included(start) => order.compare(start, key).is_le(),
        Excluded(start) => order.compare(start, key).is_lt(),
        Unbounded => true,
    };
    let ends = match &bounds.1 {
        Included(end) => order.compare(key, end).is_le(),
        Excluded(end) => order.compare(key, end).is_lt(),
        Unbounded => true,
    };
    begins && ends
}

/// Returns the plan of all events of a family's keys within bounds in byte order.
fn plan_of_range(family: &str, bounds: &CursorBounds) -> Result<ScanPlan> {
    let of = |key: &Vec<u8>| Query { below: true, ..Query::of(Target::key(family, key.clone())) }.plan();
    let whole = Query { below: true, ..Query::of(Target::family(family)) }.plan()?;
    let start = match &bounds.0 {
        Included(key) => Some(of(key)?.start().to_vec()),
        Excluded(key) => Some(of(key)?.end().to_vec()),
        Unbounded => None,
    };
    let end = match &bounds.1 {
        Included(key) => Some(of(key)?.end().to_vec()),
        Excluded(key) => Some(of(key)?.start().to_vec()),
        Unbounded => None,
    };
    let keys = [whole.start(), &[KEY_MARK]].concat(); // excludes the events of the family itself
    Ok(whole.within(Some(keys), None).within(start, end))
}
