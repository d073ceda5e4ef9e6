//! Events: a world in which some values are watched. Each of them gets a row in the event log. The row is written by
//! the batch itself (its key ends in the operation's seqno, which is known only later), or by the flush of the record's
//! memtable.
//!
//! Invariant: as long as an operation is in the store, its event is in the log or in a memtable, whatever happens to
//! the value and whatever crash occurs. The oracle stores events as a family of their own, with their counts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::batch::{Batch, SystemPass, seqno_of_before};
use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::system_id;
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, Emitted, Emitting, PendingWrite};
use waxseal_testing::above::Above;

use crate::oracle::Change;

/// The oracle's family for all events.
pub const EVENTS: &str = "events";
/// The event log.
pub const LOG: &str = "system_metadata.log";
/// The sessions that caused the events.
pub const SESSIONS: &str = "system_metadata.sessions";
const LOG_NUMBER: u8 = 1;
const SESSIONS_NUMBER: u8 = 4;
const SOMEONE: &[u8] = b"someone";
/// The session of the event is unreadable.
const UNKNOWN: &[u8] = b"-";

/// The system families of such a world, by name and number.
pub const FAMILIES: [(&str, u8); 2] = [(LOG, LOG_NUMBER), (SESSIONS, SESSIONS_NUMBER)];

/// How an event gets into the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With its batch.
    Sync,
    /// With the flush.
    Deferred,
}

fn way(value: &[u8]) -> Option<Way> {
    match value.len() {
        length if length <= 4 => None,
        length if length % 8 == 2 => Some(Way::Deferred),
        length if length % 8 == 6 => Some(Way::Sync),
        _ => None,
    }
}

/// Returns the name of an event, without its time.
fn name_of(family: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    [family.as_bytes(), b"\0", key, b"\0", &hash(value).to_le_bytes()].concat()
}

fn row_key(name: &[u8], seqno: Seqno) -> Vec<u8> {
    [name, &seqno.swap_bytes().to_le_bytes()].concat()
}

/// Appends the row for the operation just added to a batch, if its event goes with the batch.
pub fn push_row(db: &Db, batch: &mut Batch, family: &str, key: &[u8], value: &[u8]) -> Result<()> {
    if way(value) == Some(Way::Sync) {
        batch.grant(SystemPass::for_layers_above());
        let row = [&name_of(family, key, value)[..], &seqno_of_before(1)].concat();
        batch.push(system_id(LOG_NUMBER), Kind::Put, &row, SOMEONE, db.companions())?;
    }
    Ok(())
}

/// Returns the changes, followed by the oracle's changes for their events, given the earlier counts.
pub fn told(changes: &[Change], before: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Change> {
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for change in changes {
        let name = match change {
            Change::Put(family, key, value) if way(value).is_some() => name_of(family, key, value),
            Change::Drop(family) => name_of("dropped", family.as_bytes(), b""),
            _ => continue,
        };
        let count = counts.entry(name).or_insert_with_key(|name| before.get(name).map_or(0, |count| number(count)));
        *count += 1;
    }
    counts.into_iter().map(|(name, count)| Change::Put(EVENTS.into(), name, count.to_le_bytes().to_vec())).collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Returns the row that a family leaves when it is dropped.
pub fn farewell(family: &str, seqno: Seqno) -> Vec<Emitted> {
    let key = row_key(&name_of("dropped", family.as_bytes(), b""), seqno);
    vec![Emitted::new(system_id(LOG_NUMBER), seqno, &key, SOMEONE)]
}

/// Writes the session durably, before the first event, unless the store has it already.
pub fn introduce(db: &Db) -> Result<()> {
    let sessions = db.family(SESSIONS).expect("the family of sessions");
    if db.get(&sessions, b"1", At::Latest, &mut |_| {})? {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.grant(SystemPass::for_layers_above());
    batch.push(sessions.id(), Kind::Put, b"1", SOMEONE, db.companions())?;
    db.commit(&mut batch, Durability::Sync).map(drop)
}

/// Returns all events in the store with their counts: rows of the log, and records still in memory.
pub fn events_of(db: &Db, log: &Family) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut errors = Vec::new();
    let found = events_shown(db, log, &mut errors)?;
    errors.pop().map_or(Ok(found), Err)
}

/// Returns true if sessions are unreadable.
fn is_damaged(db: &Db) -> Result<bool> {
    let sessions = db.family(SESSIONS).expect("the family of sessions");
    match db.get(&sessions, b"1", At::Latest, &mut |_| {}) {
        Err(error) if error.is_corruption() => Ok(true),
        found => found.map(|_| false),
    }
}

/// Returns the readable events of a possibly damaged log; `errors` receives the errors for the rest.
pub fn events_shown(db: &Db, log: &Family, errors: &mut Vec<Error>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    // A seqno identifies one operation, so duplicates are the same event.
    let mut found: BTreeSet<(Seqno, Vec<u8>)> = BTreeSet::new();
    for family in db.families().iter().filter(|family| family.system().is_none()) {
        db.memory(family)?.visit(&mut |record, _| {
            if record.kind == Kind::Put && way(record.value) == Some(Way::Deferred) {
                found.insert((record.seqno, name_of(family.name(), record.key, record.value)));
            }
            Ok(())
        })?;
    }
    let mut cursor = db.cursor(log, At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
    let mut outcome = cursor.first();
    loop {
        match outcome {
            Err(error) if error.is_corruption() => errors.push(error),
            Err(error) => return Err(error),
            Ok(()) if !cursor.valid() => break,
            Ok(()) => {
                let (name, seqno) = cursor.key().split_last_chunk::<8>().expect("a key with a seqno");
                let is_known = cursor.value() == SOMEONE || cursor.value() == UNKNOWN && is_damaged(db)?;
                assert!(is_known, "who did {name:?}: {}", cursor.value().escape_ascii());
                found.insert((Seqno::from_le_bytes(*seqno).swap_bytes(), name.to_vec()));
            }
        }
        outcome = cursor.next();
    }
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    found.into_iter().for_each(|(_, name)| *counts.entry(name).or_default() += 1);
    Ok(counts.into_iter().map(|(name, count)| (name, count.to_le_bytes().to_vec())).collect())
}

/// A record protector that emits rows for watched records, and otherwise delegates to another one.
pub struct Watching(pub Arc<dyn Companions>);

impl Above for Watching {
    fn beneath(&self) -> &dyn Companions {
        &*self.0
    }
    fn may_emit(&self, family: u32, record: &Record<'_>) -> bool {
        let is_users = waxseal_lsm::names::system_number(family).is_none();
        is_users && record.kind == Kind::Put && way(record.value) == Some(Way::Deferred)
    }
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
        if !self.may_emit(family.id, record) {
            return Ok(());
        }
        let mut value = b"nobody".to_vec();
        let asked = family.lookup.get(system_id(SESSIONS_NUMBER), b"1", &mut |name| value = name.to_vec());
        match asked {
            Err(error) if error.is_corruption() => value = UNKNOWN.to_vec(), // the event is recorded all the same
            asked => drop(asked?),
        }
        let key = row_key(&name_of(family.name, record.key, record.value), record.seqno);
        let mut companion = Vec::new();
        let pending = PendingWrite {
            family: system_id(LOG_NUMBER),
            kind: Kind::Put,
            key: &key,
            value: &value,
            entries: &[],
            key_hash: None,
        };
        self.0.on_write(&pending, &mut companion)?;
        self.0.bind(&mut companion, None, record.seqno);
        rows.push(Emitted::new(system_id(LOG_NUMBER), record.seqno, &key, &value).with_companion(&companion));
        Ok(())
    }
}
