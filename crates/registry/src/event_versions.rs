//! Events in all their versions: their changes, and the removal of what the changes have replaced.
//!
//! In:     a target, and a function that judges the events of the target and below it.
//! Out:    changed rows, tombstones for removed ones, and an event about them in the same commit; after a compaction,
//!         tables without older versions of them.
//! Holds:  a row is changed only after it was verified, and only if it is still the row that was judged. It keeps its key
//!         and its expiry, and gets a new seal. Older versions stay while a snapshot sees them. Events that are not rows
//!         yet are not included.
//! Crash:  each commit is done or not done. A repeated call does what is left.

use std::ops::Bound::{Excluded, Included};

use waxseal_lsm::db::{At, CursorBounds, Db, Family};
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::Result;
use waxseal_lsm::interrupt;
use waxseal_lsm::options::Verify;
use waxseal_lsm::record::{Kind, Record, Seqno};

use crate::emission::{end_of, event_at};
use crate::event::Event;
use crate::families::{LOG, LOG_ID};
use crate::hooks::{Hooks, push_row};
use crate::key::{LogKey, Query};
use crate::operation::Operation;
use crate::payload::{Field, Payload};
use crate::registration::Registration;
use crate::sessions::Session;
use crate::target::Target;

/// Largest number of rows of one commit.
const MOST_ROWS: usize = 1024;

/// A commit ends with the row that exceeds this number of bytes.
const MOST_BYTES: usize = 4 << 20;

/// What becomes of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventChange {
    /// It stays as it is.
    Keep,
    /// It is removed from the log.
    Remove,
    /// It gets this payload.
    Replace(Payload),
}

/// A version of an event in a memtable or a table of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventVersion {
    /// The event. A tombstone has no payload.
    pub event: Event,
    /// No newer version exists.
    pub is_newest: bool,
    /// The version removes the event.
    pub is_tombstone: bool,
}

/// The numbers of events that a rewrite has changed and removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventCounts {
    /// Events that got another payload.
    pub changed: u64,
    /// Events that were removed.
    pub removed: u64,
}

/// A function that judges events.
pub(crate) type Judge<'a> = &'a dyn Fn(&Event) -> Result<EventChange>;

/// Passes every version of the events of a target and below it to `visit`, until that returns false. Expired events are
/// included.
pub(crate) fn each_version(
    db: &Db,
    target: &Target,
    visit: &mut dyn FnMut(EventVersion) -> Result<bool>,
) -> Result<()> {
    let Some(log) = db.family(LOG) else { return Ok(()) };
    let mut raw = db.raw(&log, At::Latest, bounds_of(target)?)?;
    let mut newest = Vec::new();
    while let Some((record, _)) = raw.next()? {
        interrupt::check()?;
        let (is_newest, is_tombstone) = (record.key != newest, record.kind != Kind::Put);
        let event = match is_tombstone {
            true => Event { key: LogKey::decode(record.key)?, payload: Payload::new() },
            false => Event::decode(record.key, record.value)?,
        };
        if is_newest {
            newest.clear();
            newest.extend_from_slice(record.key);
        }
        if !visit(EventVersion { event, is_newest, is_tombstone })? {
            break;
        }
    }
    Ok(())
}

/// Changes and removes events of a target and below it. Each commit adds an event `Registry.Rewrite` with its counts to
/// the target. These events are never changed.
pub(crate) fn rewrite(hooks: &Hooks, target: &Target, judge: Judge<'_>, who: Option<&Session>) -> Result<EventCounts> {
    let Some(log) = hooks.db.family(LOG) else { return Ok(EventCounts::default()) };
    let (rows, counts) = (Vec::new(), EventCounts::default());
    let mut rewrite = Rewrite { hooks, log, target, judge, who, rows, bytes: 0, counts };
    each_version(&hooks.db, target, &mut |version| {
        let is_current = version.is_newest && !version.is_tombstone;
        if is_current && rewrite.judge(&version.event)? != EventChange::Keep {
            rewrite.push(version.event.key.encode()?)?;
        }
        if rewrite.rows.len() >= MOST_ROWS || rewrite.bytes > MOST_BYTES {
            rewrite.commit()?;
        }
        Ok(true)
    })?;
    rewrite.commit()?;
    Ok(rewrite.counts)
}

/// A row that is to be changed.
struct RowChange {
    key: Vec<u8>,
    /// The version that was judged; `None` if it has expired.
    seqno: Option<Seqno>,
    /// In microseconds since 1970.
    expires: Option<u64>,
    /// `None` removes the row.
    value: Option<Vec<u8>>,
}

/// Changes of events that go on.
struct Rewrite<'a> {
    hooks: &'a Hooks,
    log: Family,
    target: &'a Target,
    judge: Judge<'a>,
    who: Option<&'a Session>,
    /// Rows of the next commit.
    rows: Vec<RowChange>,
    /// Bytes of their values.
    bytes: usize,
    /// Events of all commits.
    counts: EventCounts,
}

impl Rewrite<'_> {
    fn judge(&self, event: &Event) -> Result<EventChange> {
        match event.key.operation {
            Operation::REGISTRY_REWRITE => Ok(EventChange::Keep),
            _ => (self.judge)(event),
        }
    }

    /// Calls `see` with a verified row. Does not call it for an expired or deleted one.
    fn read(&self, key: &[u8], mut see: impl FnMut(&Record<'_>)) -> Result<()> {
        self.hooks.db.get_checked(&self.log, key, At::Latest, Verify::Always, &mut |record| see(record)).map(drop)
    }

    /// Judges the row of a key, and adds its change to the next commit.
    fn push(&mut self, key: Vec<u8>) -> Result<()> {
        let (mut row, mut expires) = (None, None);
        self.read(&key, |record| {
            expires = end_of(record.companion);
            row = Some(Event::decode(record.key, record.value).map(|event| (record.seqno, event)));
        })?;
        let (seqno, change) = match row.transpose()? {
            Some((seqno, event)) => (Some(seqno), self.judge(&event)?),
            None => (None, EventChange::Remove),
        };
        let value = match change {
            EventChange::Keep => return Ok(()),
            EventChange::Remove => None,
            EventChange::Replace(payload) => Some(Event { key: LogKey::decode(&key)?, payload }.encode()?.1),
        };
        self.bytes += value.as_ref().map_or(0, Vec::len);
        self.rows.push(RowChange { key, seqno, expires, value });
        Ok(())
    }

    /// Commits the changes. A row that another thread has changed since is judged again.
    fn commit(&mut self) -> Result<()> {
        while !self.rows.is_empty() {
            let overtaken = self.commit_unchanged()?;
            overtaken.into_iter().try_for_each(|key| self.push(key))?;
        }
        Ok(())
    }

    /// Commits the changes of rows that are still as they were judged. Returns the keys of the others, unless they were
    /// deleted.
    fn commit_unchanged(&mut self) -> Result<Vec<Vec<u8>>> {
        let (mut rows, mut overtaken, mut counts) = (Vec::new(), Vec::new(), EventCounts::default());
        let _rows = lock(&self.hooks.log_rows);
        self.bytes = 0;
        for row in std::mem::take(&mut self.rows) {
            let mut current = None;
            self.read(&row.key, |record| current = Some(record.seqno))?;
            match current {
                now if now == row.seqno => {
                    let count = if row.value.is_some() { &mut counts.changed } else { &mut counts.removed };
                    *count += 1;
                    rows.push(row);
                }
                Some(_) => overtaken.push(row.key),
                None => {}
            }
        }
        if rows.is_empty() {
            return Ok(overtaken);
        }
        let setting = |name: &str, number: u64| Field::Setting((name.to_owned(), number.to_string()));
        let payload = Payload::new()
            .with(setting("events_changed", counts.changed))
            .with(setting("events_removed", counts.removed));
        let own = Registration::new(self.target.clone(), Some(Operation::REGISTRY_REWRITE));
        let make = |now| event_at(now, &own, (self.target, Operation::REGISTRY_REWRITE), payload.clone(), self.who);
        let (db, sealer) = (&self.hooks.db, &self.hooks.sealer);
        self.hooks.add_with(db.durability(), None, make, |batch| {
            rows.iter().try_for_each(|row| match &row.value {
                None => batch.push(LOG_ID, Kind::Delete, &row.key, &[], db.companions()),
                Some(value) => push_row(batch, &row.key, value, row.expires, sealer),
            })
        })?;
        self.counts.changed += counts.changed;
        self.counts.removed += counts.removed;
        Ok(overtaken)
    }
}

/// Compacts the part of the log that has the events of a target and below it.
pub(crate) fn compact(db: &Db, target: &Target) -> Result<()> {
    match db.family(LOG) {
        Some(log) => db.compact(&log, &bounds_of(target)?),
        None => Ok(()),
    }
}

fn bounds_of(target: &Target) -> Result<CursorBounds> {
    let plan = Query { below: true, ..Query::of(target.clone()) }.plan()?;
    Ok((Included(plan.start().to_vec()), Excluded(plan.end().to_vec())))
}
