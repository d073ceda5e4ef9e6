//! A chronicle whose lines can be read back, and a keeper that retains: what was there, and what made it so.
//!
//! Holds: the lines, and the rows that the oldest became, have numbers without a gap, and what they say of tables adds up to the tables
//!        that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::{At, Db};
use waxseal_lsm::error::Result;
use waxseal_lsm::names::system_id;
use waxseal_lsm::pointer::value_hash;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Chronicle, Companions, Deed, Emitted, EventStore, TableFact, Work};

/// The system family that lines become rows of.
pub(crate) const LINES: (&str, u8) = ("system_metadata.lines", 9);

/// Writes lines that can be read back.
pub(crate) struct Scribe;

impl Chronicle for Scribe {
    fn line(&self, work: &Work<'_>) -> Option<Vec<u8>> {
        let changes = !matches!(work.deed, Deed::Barred | Deed::Checkpointed { .. });
        let deed = format!("{:?}", work.deed);
        let word = deed.split([' ', '(']).next().unwrap_or_default();
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

/// All lines by number, those that are rows too.
pub(crate) fn lines(db: &Db) -> Result<BTreeMap<u64, String>> {
    lines_behind(db, 0)
}

/// The lines behind a number.
fn lines_behind(db: &Db, last: u64) -> Result<BTreeMap<u64, String>> {
    let held = db.chronicle();
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

/// Up to a line that was durable when it was met, the tables that lines add up to.
#[derive(Clone, Default)]
pub(crate) struct Told {
    last: u64,
    tables: BTreeSet<String>,
    /// How often it was gone on from here.
    times: u64,
}

/// Checks in a row that go on from the one before; then all lines are looked at again.
const GO_ON: u64 = 12;

impl Told {
    /// What the lines behind add; or what is wrong with them.
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

    /// The lines add up to the tables that there are. Mostly only those behind the last check are looked at.
    pub(crate) fn check(&mut self, db: &Db, at: &str) -> Result<()> {
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
                // What the manifest still holds may go with a crash.
                let first_held = db.chronicle().first().map_or(0, |(number, _)| *number);
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

    /// The next check looks at all lines.
    pub(crate) fn forget(&mut self) {
        *self = Told { times: self.times, ..Told::default() };
    }
}

/// The lines add up to the tables that there are.
pub(crate) fn check_lines(db: &Db, at: &str) -> Result<()> {
    Told::default().check(db, at)
}

/// A keeper that retains some versions, whatever it keeps else.
pub(crate) struct Retaining(pub(crate) Arc<dyn Companions>);

/// True for the versions that are retained: few, since they stay for ever.
pub(crate) fn retains(kind: Kind, key: &[u8], value: &[u8]) -> bool {
    match kind {
        Kind::Put => hash(value).is_multiple_of(32),
        _ => hash(key).is_multiple_of(32),
    }
}

impl Companions for Retaining {
    fn beneath(&self) -> Option<&dyn Companions> {
        Some(&*self.0)
    }
    fn retains(&self, record: &Record<'_>) -> bool {
        // A value that stands apart is known by its hash.
        match record.kind {
            Kind::BlobPointer => value_hash(record.kind, record.value).is_ok_and(|hash| hash.is_multiple_of(32)),
            _ => retains(record.kind, record.key, record.value),
        }
    }
}
