//! Events: a world in which some values are watched. A row of the log of events tells of each of them, put there by the batch itself
//! (its key ends in the seqno of the operation, which is known only later) or by the flush that takes the record out of memory.
//!
//! What must hold: an event is in the log or in a memtable as long as its operation is in the store, whatever becomes of the value,
//! and whatever stops the machine. The oracle keeps them as a family of their own, with how often each happened.

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
use waxseal_lsm::seam::{Companions, Draft, Emitted, Emitting};

use crate::oracle::Change;

/// The family of the oracle that stands for all of them.
pub const EVENTS: &str = "events";
/// The log of events.
pub const LOG: &str = "system_metadata.log";
/// Who did it.
pub const SESSIONS: &str = "system_metadata.sessions";
const LOG_NUMBER: u8 = 1;
const SESSIONS_NUMBER: u8 = 4;
const SOMEONE: &[u8] = b"someone";
/// It cannot be read who did it.
const UNKNOWN: &[u8] = b"-";

/// The system families of such a world, by name and number.
pub const FAMILIES: [(&str, u8); 2] = [(LOG, LOG_NUMBER), (SESSIONS, SESSIONS_NUMBER)];

/// How an event comes into the log.
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

/// What happened, without when.
fn name_of(family: &str, key: &[u8], value: &[u8]) -> Vec<u8> {
    [family.as_bytes(), b"\0", key, b"\0", &hash(value).to_le_bytes()].concat()
}

fn row_key(name: &[u8], seqno: Seqno) -> Vec<u8> {
    [name, &seqno.swap_bytes().to_le_bytes()].concat()
}

/// Puts the row of an operation that was just put into a batch behind it, if it is one that goes with its batch.
pub fn push_row(db: &Db, batch: &mut Batch, family: &str, key: &[u8], value: &[u8]) -> Result<()> {
    if way(value) == Some(Way::Sync) {
        batch.grant(SystemPass::for_layers_above());
        let row = [&name_of(family, key, value)[..], &seqno_of_before(1)].concat();
        batch.push(system_id(LOG_NUMBER), Kind::Put, &row, SOMEONE, db.companions())?;
    }
    Ok(())
}

/// The same changes, with what the oracle is to say of their events, given how often each happened before.
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

/// The row that a family leaves when it is dropped.
pub fn farewell(family: &str, seqno: Seqno) -> Vec<Emitted> {
    let key = row_key(&name_of("dropped", family.as_bytes(), b""), seqno);
    vec![Emitted::new(system_id(LOG_NUMBER), seqno, &key, SOMEONE)]
}

/// Says who it is, if the store does not know yet: before the first event, and durable.
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

/// All events that the store knows, with how often each happened: rows of the log, and records that are still in memory.
pub fn events_of(db: &Db, log: &Family) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut errors = Vec::new();
    let found = events_shown(db, log, &mut errors)?;
    errors.pop().map_or(Ok(found), Err)
}

/// True if it cannot be read who anybody is.
fn is_damaged(db: &Db) -> Result<bool> {
    let sessions = db.family(SESSIONS).expect("the family of sessions");
    match db.get(&sessions, b"1", At::Latest, &mut |_| {}) {
        Err(error) if error.is_corruption() => Ok(true),
        found => found.map(|_| false),
    }
}

/// The same of a log that may be damaged: what is shown of it, and what is said of the rest.
pub fn events_shown(db: &Db, log: &Family, errors: &mut Vec<Error>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    // A seqno names one operation: whatever is found twice is one event.
    let mut found: BTreeSet<(Seqno, Vec<u8>)> = BTreeSet::new();
    for family in db.families().iter().filter(|family| family.options().system.is_none()) {
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

/// A keeper that gives rows for watched records, and is another one in all else.
pub struct Watching(pub Arc<dyn Companions>);

impl Companions for Watching {
    fn beneath(&self) -> Option<&dyn Companions> {
        Some(&*self.0)
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
            Err(error) if error.is_corruption() => value = UNKNOWN.to_vec(), // what happened is told all the same
            asked => drop(asked?),
        }
        let key = row_key(&name_of(family.name, record.key, record.value), record.seqno);
        let mut companion = Vec::new();
        let draft = Draft {
            family: system_id(LOG_NUMBER),
            kind: Kind::Put,
            key: &key,
            value: &value,
            entries: &[],
            key_hash: None,
        };
        self.0.on_write(&draft, &mut companion)?;
        self.0.bind(&mut companion, None, record.seqno);
        rows.push(Emitted::new(system_id(LOG_NUMBER), record.seqno, &key, &value).with_companion(&companion));
        Ok(())
    }
}
