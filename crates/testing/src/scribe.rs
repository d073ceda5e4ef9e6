//! An event log with readable entries, and a retaining record protector: earlier versions, and the jobs that wrote
//! them.
//!
//! Holds: the entries, and the rows made from the oldest ones, have consecutive numbers, and the tables that they
//! report add up to the store's tables.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Db};
use waxseal_lsm::error::Result;
use waxseal_lsm::names::system_id;
use waxseal_lsm::pointer::value_hash;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Companions, Emitted, EngineEvent, EngineLog, EventStore, TableFact, Work};

use crate::above::Above;

/// The system family that receives the entries' rows.
pub const LINES: (&str, u8) = ("system_metadata.lines", 9);

/// Writes readable entries.
pub struct Scribe;

impl EngineLog for Scribe {
    fn line(&self, work: &Work<'_>) -> Option<Vec<u8>> {
        let stays = matches!(work.engine_event, EngineEvent::Checkpointed { .. } | EngineEvent::BackedUp { .. });
        let changes = !stays && work.engine_event != EngineEvent::Barred;
        let engine_event = format!("{:?}", work.engine_event);
        let word = engine_event.split([' ', '(']).next().unwrap_or_default();
        let uids = |sign: &str, facts: &[TableFact]| -> String {
            facts.iter().map(|fact| format!(" {sign}{:?}", fact.uid)).collect()
        };
        let mut line = format!("{word} {}", work.seqno);
        for touched in work.touched.iter().filter(|_| changes) {
            line += &(uids("-", &touched.read) + &uids("+", &touched.written));
        }
        Some(line.into_bytes())
    }

    fn rows(&self, lines: &[(u64, Arc<[u8]>)], _: &dyn EventStore) -> Vec<Emitted> {
        let row = |(number, line): &(u64, Arc<[u8]>)| {
            let text = String::from_utf8_lossy(line);
            let seqno = text.split(' ').nth(1).and_then(|seqno| seqno.parse().ok()).expect("a seqno");
            let key = format!("{number:020}").into_bytes();
            Emitted::new(system_id(LINES.1), seqno, &key, line)
        };
        lines.iter().map(row).collect()
    }
}

/// Returns all entries by number, including those that are rows.
pub fn lines(db: &Db) -> Result<BTreeMap<u64, String>> {
    lines_behind(db, 0)
}

/// Returns the entries after a number.
fn lines_behind(db: &Db, last: u64) -> Result<BTreeMap<u64, String>> {
    let held = db.engine_log();
    let family = db.family(LINES.0).expect("the family of lines");
    let mut lines = BTreeMap::new();
    let start = Bound::Excluded(format!("{last:020}").into_bytes());
    let mut cursor = db.cursor(&family, At::Latest, (start, Bound::Unbounded))?;
    cursor.first()?;
    while cursor.valid() {
        let number = String::from_utf8_lossy(cursor.key()).parse().expect("a number");
        lines.insert(number, String::from_utf8_lossy(cursor.value()).into_owned());
        cursor.next()?;
    }
    let held = held.into_iter().filter(|(number, _)| *number > last);
    lines.extend(held.map(|(number, line)| (number, String::from_utf8_lossy(&line).into_owned())));
    Ok(lines)
}

/// The tables that the entries add up to, up to an entry that was durable when it was read.
#[derive(Clone, Default)]
pub struct Told {
    last: u64,
    tables: BTreeSet<String>,
    /// Number of checks so far.
    times: u64,
}

/// Number of consecutive incremental checks before all entries are read again.
const GO_ON: u64 = 12;

impl Told {
    /// Applies the following entries, or returns an error if they are inconsistent.
    fn add(&mut self, lines: &BTreeMap<u64, String>) -> std::result::Result<(), String> {
        for (number, line) in lines {
            self.last += 1;
            if *number != self.last {
                return Err(format!("lines are missing: {:?}", lines.keys()));
            }
            for table in line.split(' ') {
                let fits = match table.split_at_checked(1) {
                    Some(("-", uid)) => self.tables.remove(uid),
                    Some(("+", uid)) => self.tables.insert(uid.to_owned()),
                    _ => true,
                };
                if !fits {
                    return Err(format!("{line:?} takes a table that is not there, or adds one twice"));
                }
            }
        }
        Ok(())
    }

    /// Checks that the entries add up to the store's tables. Most checks read only the entries since the last check.
    pub fn check(&mut self, db: &Db, at: &str) -> Result<()> {
        self.times += 1;
        if self.times.is_multiple_of(GO_ON) {
            self.forget();
        }
        let mut all = self.clone();
        let lines = lines_behind(db, self.last)?;
        let mut found = BTreeSet::new();
        for family in db.families() {
            found.extend(db.tables(&family)?.iter().map(|table| format!("{:?}", table.meta().uid)));
        }
        let outcome = all.add(&lines).and_then(|()| match all.tables == found {
            true => Ok(()),
            false => Err(format!("the lines tell of {:?}, and there are {found:?}: {lines:#?}", all.tables)),
        });
        match outcome {
            Ok(()) => {
                // A crash may lose entries that are still in the manifest.
                let first_held = db.engine_log().first().map_or(0, |(number, _)| *number);
                let kept = lines.into_iter().take_while(|(number, _)| *number < first_held).collect();
                self.add(&kept).unwrap_or_else(|what| panic!("{at}: {what}"));
                Ok(())
            }
            Err(_) if self.last > 0 => {
                self.forget();
                self.check(db, at)
            }
            Err(what) => panic!("{at}: {what}"),
        }
    }

    /// Makes the next check read all entries.
    pub fn forget(&mut self) {
        *self = Told { times: self.times, ..Told::default() };
    }
}

/// Checks that all entries add up to the store's tables.
pub fn check_lines(db: &Db, at: &str) -> Result<()> {
    Told::default().check(db, at)
}

/// A record protector that retains some versions, and otherwise delegates to another one.
pub struct Retaining(pub Arc<dyn Companions>);

/// Returns true for the few versions that are retained, which stay forever.
pub fn retains(kind: Kind, key: &[u8], value: &[u8]) -> bool {
    match kind {
        Kind::Put => hash(value).is_multiple_of(32),
        _ => hash(key).is_multiple_of(32),
    }
}

impl Above for Retaining {
    fn beneath(&self) -> &dyn Companions {
        &*self.0
    }
    fn retains(&self, record: &Record<'_>) -> bool {
        // A value in a blob file is identified by its hash.
        match record.kind {
            Kind::BlobPointer => value_hash(record.kind, record.value).is_ok_and(|hash| hash.is_multiple_of(32)),
            _ => retains(record.kind, record.key, record.value),
        }
    }
}
