//! The history of quarantined tables and lost ranges. docs/format.md, section 9.10.
//!
//! A table that is barred is left alone by compactions, a span that is fenced is not read. The manifest decides both;
//! here is a row of each beginning and each end, in the edit that makes it true, and of each table that a repair
//! replaced. Where the engine could not write one, or nobody kept rows while it happened, the rows that are missing are
//! made up when the store is opened.
//!
//! Cases that have ended have the retention of the engine's events (`retention.rs`): a device that is healed every
//! night must not make every open slower. They leave when the store is opened for writing, and after a repair. Deletes
//! are commits of their own: a tombstone in an edit would stand below rows that were made up and are in memory still.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use waxseal_lsm::codec::Reader;
use waxseal_lsm::db::Db;
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::planted;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Quarantine, TableFact, Withheld};

use crate::clock::{EventClock, Time, is_older};
use crate::families::{QUARANTINE, QUARANTINE_ID, SESSIONS, granted, readable_rows};
use crate::ordered::{put_component, put_u64, take_component, take_u64};
use crate::payload::{Field, FileRef, Payload};

/// The format level of a row's value.
const LEVEL: u8 = 1;
/// The first byte of a row's key.
const ROW: u8 = 0x05;
/// The kind byte of a table, and of a range.
const TABLE: u8 = 1;
const SPAN: u8 = 2;
/// Maximum number of reconstructed rows per commit.
const AT_ONCE: usize = 1024;

/// A quarantined item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Item {
    /// The table with this number is excluded from compaction.
    Table(u64),
    /// The lost key range with this number.
    Span(u64),
}

/// A current or past quarantine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The family, by its name at that time.
    pub family: String,
    /// The item.
    pub item: Item,
    /// When it began.
    pub since: Time,
    /// When and how it ended; `None` if it continues. Equal to `since` if the item was replaced at once.
    pub until: Option<(Time, String)>,
    /// Details: how it began, and the table, or the range with its seqno bound.
    pub payload: Payload,
}

/// One row: the beginning or the end of a quarantine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QuarantineRow {
    family: String,
    item: Item,
    time: Time,
    begins: bool,
    payload: Payload,
}

impl QuarantineRow {
    pub(crate) fn of(quarantine: &Quarantine<'_>, time: Time) -> QuarantineRow {
        let Quarantine { family, what, begins, how, .. } = *quarantine;
        let payload = Payload::new().with(Field::Method(how.to_owned()));
        let (item, payload) = match what {
            Withheld::Table(fact) => (Item::Table(fact.number), table(payload, &fact)),
            Withheld::Span(number, lost_range) => (Item::Span(number), span(payload, lost_range)),
        };
        QuarantineRow { family: family.to_owned(), item, time, begins, payload }
    }

    /// Encodes key and value. Errors: `Invalid` for a payload beyond its limits.
    pub(crate) fn encode(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut key = vec![ROW];
        put_component(&mut key, self.family.as_bytes());
        let (what, number) = match self.item {
            Item::Table(number) => (TABLE, number),
            Item::Span(number) => (SPAN, number),
        };
        key.push(what);
        put_u64(&mut key, number);
        put_u64(&mut key, self.time.0);
        let mut value = vec![LEVEL, u8::from(self.begins)];
        self.payload.encode(&mut value)?;
        Ok((key, value))
    }

    /// Decodes a row. Fails with `Corruption` for malformed bytes, and with `FormatTooNew` for a later level.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<QuarantineRow> {
        let wrong = || Error::structural("a row that is of no quarantine");
        let mut reader = Reader::new(value);
        let level = reader.u8()?;
        if level > LEVEL {
            let say = format!("a row of level {level}; this store knows {LEVEL}");
            return Err(Error::of(ErrorKind::FormatTooNew, say));
        }
        let begins = match (level, reader.u8()?) {
            (LEVEL, 0) => false,
            (LEVEL, 1) => true,
            _ => return Err(wrong()),
        };
        let payload = Payload::decode(&mut reader)?;
        let mut reader = Reader::new(key);
        let row = reader.u8()?;
        let family = String::from_utf8(take_component(&mut reader)?).map_err(|_| wrong())?;
        let item = match (reader.u8()?, take_u64(&mut reader)?) {
            (TABLE, number) => Item::Table(number),
            (SPAN, number) => Item::Span(number),
            _ => return Err(wrong()),
        };
        let time = Time(take_u64(&mut reader)?);
        if row == ROW && reader.is_empty() {
            Ok(QuarantineRow { family, item, time, begins, payload })
        } else {
            Err(wrong())
        }
    }
}

fn table(payload: Payload, fact: &TableFact) -> Payload {
    let TableFact { number, uid, digest, level, records, .. } = *fact;
    let payload = payload.with(Field::Setting(("file".to_owned(), format!("{number:06}.tbl"))));
    let payload = payload.with(Field::Setting(("level".to_owned(), level.to_string())));
    payload.with(Field::Input(FileRef { uid, digest, records }))
}

fn span(payload: Payload, lost_range: &LostRange) -> Payload {
    let LostRange { from, to, bound, file, offset, verdict } = lost_range;
    let settings = [("file", file.clone()), ("offset", offset.to_string())];
    let setting = |(name, value): (&str, String)| Field::Setting((name.to_owned(), value));
    let payload = settings.map(setting).into_iter().fold(payload, Payload::with);
    let payload = payload.with(Field::Verdict(verdict.to_string())).with(Field::SeqnoBound(*bound));
    payload.with(Field::RangeStart(from.0.clone())).with(Field::RangeEnd(to.0.clone()))
}

/// Combines rows in key order into cases, each with its end if there is one.
fn cases(rows: Vec<QuarantineRow>) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for QuarantineRow { family, item, time, begins, payload } in rows {
        let open = cases.last_mut().filter(|case| case.family == family && case.item == item && case.until.is_none());
        match (begins, open) {
            (true, _) => cases.push(Case { family, item, since: time, until: None, payload }),
            (false, open) => {
                let how = payload.find(|field| if let Field::Method(how) = field { Some(how.clone()) } else { None });
                let until = Some((time, how.unwrap_or_default()));
                match open {
                    Some(case) => case.until = until,
                    None => cases.push(Case { family, item, since: time, until, payload }),
                }
            }
        }
    }
    cases
}

/// Returns the readable rows, and whether others are unreadable.
fn rows(db: &Db) -> Result<(Vec<QuarantineRow>, bool)> {
    let mut rows = Vec::new();
    let damaged =
        readable_rows(db, QUARANTINE, &mut |key, value| QuarantineRow::decode(key, value).map(|row| rows.push(row)))?;
    Ok((rows, damaged))
}

/// Returns all current and past cases, by family and item. Unreadable rows are left out.
pub(crate) fn read(db: &Db) -> Result<Vec<Case>> {
    rows(db).map(|(rows, _)| cases(rows))
}

/// Adds missing rows and deletes the rows of expired cases; no other thread writes meanwhile. On a full disk both wait
/// for the next open. Returns the remaining cases, and whether some rows are unreadable.
pub(crate) fn make_up(db: &Db, clock: &EventClock) -> Result<(Vec<Case>, bool)> {
    let (mut rows, damaged) = rows(db)?;
    for row in &rows {
        let _ = clock.observe(row.time); // ignores times that no clock produced
    }
    let mut known: BTreeMap<(String, Item), bool> = BTreeMap::new();
    known.extend(rows.iter().map(|row| ((row.family.clone(), row.item), row.begins)));
    let mut missing = Vec::new();
    db.quarantines(&mut |quarantine| {
        let row = QuarantineRow::of(quarantine, clock.now());
        if known.remove(&(row.family.clone(), row.item)) != Some(true) {
            missing.push(row);
        }
    });
    let over = known.into_iter().filter(|(_, begins)| *begins).map(|((family, item), _)| {
        let payload = Payload::new().with(Field::Method("gone".to_owned()));
        QuarantineRow { family, item, time: clock.now(), begins: false, payload }
    });
    missing.extend(over);
    let _ = planted!(QuarantineNotMadeUp, Ok(()), write(db, &missing));
    rows.extend(missing);
    rows.sort_by(|a, b| (&a.family, a.item, a.time).cmp(&(&b.family, b.item, b.time)));
    let rows = delete_outdated(db, rows, clock.now());
    Ok((cases(rows), damaged))
}

/// Deletes the rows of cases that have ended and are not kept. Safe beside writers and jobs: no row is written twice.
pub(crate) fn trim(db: &Db, clock: &EventClock) -> Result<()> {
    delete_outdated(db, rows(db)?.0, clock.now());
    Ok(())
}

/// Deletes the rows of cases that are not kept; returns the others. A delete that fails is tried again at the next
/// open.
fn delete_outdated(db: &Db, rows: Vec<QuarantineRow>, now: Time) -> Vec<QuarantineRow> {
    let settings = db.settings();
    let gone = outdated(&rows, settings.engine_events, settings.engine_event_age, now);
    let (gone, stay): (Vec<QuarantineRow>, Vec<QuarantineRow>) =
        rows.into_iter().partition(|row| gone.contains(&(row.family.clone(), row.item)));
    let _ = delete(db, &gone);
    stay
}

/// The items whose case has ended, and that are not kept: the newest `most` are, if they ended within `age`. Of
/// families that tell which sessions may be unknown, the newest is. `rows` are in the order of their keys.
fn outdated(rows: &[QuarantineRow], most: usize, age: Duration, now: Time) -> BTreeSet<(String, Item)> {
    let items = rows.chunk_by(|a, b| (&a.family, a.item) == (&b.family, b.item));
    let mut ended: Vec<&QuarantineRow> =
        items.filter_map(<[QuarantineRow]>::last).filter(|last| !last.begins).collect();
    ended.sort_by_key(|row| Reverse(row.time));
    let mut needed: BTreeSet<&str> = [SESSIONS, QUARANTINE].into();
    let is_gone = |(at, row): &(usize, &QuarantineRow)| {
        let is_needed = needed.remove(&*row.family);
        !is_needed && (*at >= most || is_older(row.time, age, now.micros()))
    };
    ended.into_iter().enumerate().filter(is_gone).map(|(_, row)| (row.family.clone(), row.item)).collect()
}

fn delete(db: &Db, rows: &[QuarantineRow]) -> Result<()> {
    for rows in rows.chunks(AT_ONCE) {
        let mut batch = granted();
        for row in rows {
            batch.push(QUARANTINE_ID, Kind::Delete, &row.encode()?.0, b"", db.companions())?;
        }
        db.commit(&mut batch, db.durability())?;
    }
    Ok(())
}

fn write(db: &Db, rows: &[QuarantineRow]) -> Result<()> {
    for rows in rows.chunks(AT_ONCE) {
        let mut batch = granted();
        for row in rows {
            let (key, value) = row.encode()?;
            batch.push(QUARANTINE_ID, Kind::Put, &key, &value, db.companions())?;
        }
        db.commit(&mut batch, db.durability())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::testing::payload;
    use proptest::prelude::*;
    use waxseal_lsm::checksum::Uid;
    use waxseal_lsm::error::Verdict;

    fn row() -> impl Strategy<Value = QuarantineRow> {
        let item = prop_oneof![any::<u64>().prop_map(Item::Table), any::<u64>().prop_map(Item::Span)];
        (".{0,4}", item, any::<u64>(), any::<bool>(), payload()).prop_map(|(family, item, time, begins, payload)| {
            QuarantineRow { family, item, time: Time(time), begins, payload }
        })
    }

    #[test]
    fn golden_rows() {
        // docs/format.md, section 9.10.
        let fact = TableFact { number: 9, uid: Uid([0xAB; 16]), digest: 7, level: 1, records: 3, bytes: 100 };
        let what = Withheld::Table(fact);
        let (key, value) =
            QuarantineRow::of(&Quarantine { family: "u", what, begins: true, how: "barred", seqno: 5 }, Time(2))
                .encode()
                .unwrap();
        assert_eq!(key, b"\x05u\0\x01\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x02");
        let uid = [0xAB; 16];
        let expected = [
            &b"\x01\x01\x04\x0F\x04file000009.tbl\x04\x07\x05level1\x16\x19"[..],
            &uid,
            b"\x07\0\0\0\0\0\0\0\x03\x1B\x06barred",
        ];
        assert_eq!(value, expected.concat());
        let lost_range = LostRange::over(b"a", b"c", 4, "000009.tbl", Verdict::Seal);
        let what = Withheld::Span(12, &lost_range);
        let (key, value) =
            QuarantineRow::of(&Quarantine { family: "u", what, begins: false, how: "lifted", seqno: 5 }, Time(3))
                .encode()
                .unwrap();
        assert_eq!(key, b"\x05u\0\x01\x02\0\0\0\0\0\0\0\x0C\0\0\0\0\0\0\0\x03");
        assert_eq!(
            value,
            b"\x01\x00\x04\x0F\x04file000009.tbl\x04\x08\x06offset0\x0A\x01\x04\x13\x01a\x14\x01c\x1A\x04seal\x1B\x06lifted"
        );
        assert_eq!(*QuarantineRow::decode(&key, b"\x02\x01").unwrap_err().kind(), ErrorKind::FormatTooNew);
        assert!(QuarantineRow::decode(&key, b"\x00\x01").unwrap_err().is_corruption());
    }

    #[test]
    fn an_end_belongs_to_the_beginning_before_it() {
        let row = |item, time, begins, how: &str| QuarantineRow {
            family: "u".to_owned(),
            item,
            time: Time(time),
            begins,
            payload: Payload::new().with(Field::Method(how.to_owned())),
        };
        let (table, span) = (Item::Table(1), Item::Span(1));
        let found = cases(vec![
            row(table, 1, true, "barred"),
            row(table, 2, false, "freed"),
            row(table, 3, true, "barred"),
            row(span, 1, false, "lifted"),
            row(span, 2, true, "fenced"),
        ]);
        let told: Vec<_> = found.iter().map(|case| (case.item, case.since.0, case.until.clone())).collect();
        let (freed, lifted) = (Some((Time(2), "freed".to_owned())), Some((Time(1), "lifted".to_owned())));
        assert_eq!(told, [(table, 1, freed), (table, 3, None), (span, 1, lifted), (span, 2, None)]);
    }

    proptest! {
        #[test]
        fn rows_come_back(row in row()) {
            let (key, value) = row.encode().unwrap();
            prop_assert_eq!(QuarantineRow::decode(&key, &value).unwrap(), row);
        }

        #[test]
        fn any_bytes_are_a_row_or_refused(row in row(), at: prop::sample::Index, flip: u8, key: Vec<u8>, value: Vec<u8>) {
            let (likely, whole) = row.encode().unwrap();
            let mut bytes = whole.clone();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            for (key, value) in [(&likely, &bytes), (&key, &whole), (&likely, &value)] {
                if let Ok(row) = QuarantineRow::decode(key, value) {
                    let (key, value) = row.encode().unwrap();
                    prop_assert_eq!(QuarantineRow::decode(&key, &value).unwrap(), row);
                }
            }
        }
    }
}
