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
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Chronicle, Companions, Deed, Emitted, TableFact, Work};

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

    fn rows(&self, lines: &[(u64, Arc<[u8]>)]) -> Vec<Emitted> {
        let row = |(number, line): &(u64, Arc<[u8]>)| {
            let text = String::from_utf8_lossy(line);
            let seqno = text.split(' ').nth(1).and_then(|seqno| seqno.parse().ok()).expect("a seqno");
            let key = format!("{number:020}").into_bytes();
            Emitted { family: system_id(LINES.1), key, seqno, value: line.to_vec(), companion: Vec::new() }
        };
        lines.iter().map(row).collect()
    }
}

/// All lines by number, those that are rows too.
pub(crate) fn lines(db: &Db) -> Result<BTreeMap<u64, String>> {
    let held = db.chronicle();
    let family = db.family(LINES.0).expect("the family of lines");
    let mut lines = BTreeMap::new();
    let mut cursor = db.cursor(&family, At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
    cursor.first()?;
    while cursor.valid() {
        let number = String::from_utf8_lossy(cursor.key()).parse().expect("a number");
        lines.insert(number, String::from_utf8_lossy(cursor.value()).into_owned());
        cursor.next()?;
    }
    lines.extend(held.into_iter().map(|(number, line)| (number, String::from_utf8_lossy(&line).into_owned())));
    Ok(lines)
}

/// The lines add up to the tables that there are.
pub(crate) fn check_lines(db: &Db, at: &str) -> Result<()> {
    let lines = lines(db)?;
    assert!(lines.keys().copied().eq(1..=lines.len() as u64), "{at}: lines are missing: {:?}", lines.keys());
    let mut told = BTreeSet::new();
    for line in lines.values() {
        for table in line.split(' ') {
            match table.split_at_checked(1) {
                Some(("-", uid)) => assert!(told.remove(uid), "{at}: {line:?} takes a table that is not there"),
                Some(("+", uid)) => assert!(told.insert(uid.to_owned()), "{at}: {line:?} adds a table twice"),
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    for family in db.families() {
        found.extend(db.tables(&family)?.iter().map(|table| format!("{:?}", table.meta().uid)));
    }
    assert_eq!(told, found, "{at}: the tables that the lines tell of, and those that are there: {lines:#?}");
    Ok(())
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
        retains(record.kind, record.key, record.value)
    }
}
