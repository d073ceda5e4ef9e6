//! Events that are not rows yet. Mode deferred leaves them as stamps in their records until a flush; this module shows
//! them as the rows that the flush will write.
//!
//! In:     the memtables of a family, as a cursor over all versions.
//! Out:    rows in log order, one key of the family at a time: the log orders keys as the family does, and one key has
//!         few rows. A family with another order is read completely and sorted.
//! Costs:  a merge of the memtables over the part that is read.

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, Db, Family};
use waxseal_lsm::error::Result;
use waxseal_lsm::record::{MAX_SEQNO, Record};
use waxseal_meta::stamp::Stamp;

use crate::clock::Time;
use crate::emission::{Done, expires, put_event};
use crate::key::{KEY_MARK, family_keys};
use crate::sessions::Session;
use crate::sources::{LogRows, Sorted};

/// Key and value of a row.
type RowBytes = (Vec<u8>, Vec<u8>);

/// The inputs for making rows.
#[derive(Clone, Copy)]
pub(crate) struct Making<'a> {
    /// Looks up a session by number.
    pub(crate) session: &'a dyn Fn(u64) -> Session,
    /// Microseconds since 1970; expired rows are not shown.
    pub(crate) now: u64,
}

/// Makes the row that a flush will write for a record, if any.
fn row_of(family: &str, record: &Record<'_>, making: Making<'_>) -> Result<Option<RowBytes>> {
    let stamp = match Stamp::standing(record.companion, hash_key(record.key))? {
        Some(stamp) if !stamp.elsewhere => stamp,
        _ => return Ok(None),
    };
    if expires(Time(stamp.time), stamp.retention).is_some_and(|end| end <= making.now) {
        return Ok(None);
    }
    let mut key = Vec::new();
    let key_end = put_event(&Done::of(family, record), &stamp, &(making.session)(stamp.session), None, &mut key)?;
    let value = key.split_off(key_end);
    Ok(Some((key, value)))
}

/// Returns all rows of one key.
pub(crate) fn of_key(db: &Db, family: &Family, key: &[u8], at: At<'_>, making: Making<'_>) -> Result<Sorted> {
    let mut cursor = db.unflushed(family, at)?;
    cursor.seek(key, MAX_SEQNO)?;
    let mut rows = Vec::new();
    while cursor.valid() && family.order().compare(cursor.record().key, key).is_eq() {
        rows.extend(row_of(family.name(), &cursor.record(), making)?);
        cursor.next()?;
    }
    Ok(Sorted::of(rows))
}

/// Returns all rows of a family with a custom key order.
pub(crate) fn of_family(db: &Db, family: &Family, at: At<'_>, making: Making<'_>) -> Result<Sorted> {
    let mut cursor = db.unflushed(family, at)?;
    cursor.first()?;
    let mut rows = Vec::new();
    while cursor.valid() {
        rows.extend(row_of(family.name(), &cursor.record(), making)?);
        cursor.next()?;
    }
    Ok(Sorted::of(rows))
}

/// The rows of a family in byte order, one key at a time.
pub(crate) struct PendingRows<'a> {
    family: String,
    cursor: Box<dyn Cursor + Send>,
    making: Making<'a>,
    /// The common prefix of the log keys of the family's keys.
    start: Vec<u8>,
    rows: Vec<RowBytes>,
    at: usize,
}

impl<'a> PendingRows<'a> {
    pub(crate) fn new(db: &Db, family: &Family, at: At<'_>, making: Making<'a>) -> Result<PendingRows<'a>> {
        let start = family_keys(family.name())?;
        let cursor = db.unflushed(family, at)?;
        Ok(PendingRows { family: family.name().to_owned(), cursor, making, start, rows: Vec::new(), at: 0 })
    }

    /// Loads the rows of the next key that has any, from the cursor's position on.
    fn load(&mut self) -> Result<()> {
        self.rows.clear();
        self.at = 0;
        let mut key = Vec::new();
        while self.cursor.valid() {
            let record = self.cursor.record();
            if record.key != key {
                if !self.rows.is_empty() {
                    break;
                }
                key.clear();
                key.extend_from_slice(record.key);
            }
            self.rows.extend(row_of(&self.family, &record, self.making)?);
            self.cursor.next()?;
        }
        self.rows.sort();
        Ok(())
    }
}

impl LogRows for PendingRows<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.rows.clear();
        self.at = 0;
        match key.strip_prefix(&self.start[..]) {
            Some([KEY_MARK, component @ ..]) => self.cursor.seek(&unescaped(component), MAX_SEQNO)?,
            Some([mark, ..]) if *mark > KEY_MARK => return Ok(()),
            None if key > &self.start[..] => return Ok(()),
            _ => self.cursor.first()?,
        }
        loop {
            self.load()?;
            self.at = self.rows.partition_point(|(own, _)| own.as_slice() < key);
            if self.at < self.rows.len() || self.rows.is_empty() {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        if self.at >= self.rows.len() { self.load() } else { Ok(()) }
    }

    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.rows.get(self.at).map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

/// Decodes a component, which may be truncated. No key below the result has an encoded component at or above the input.
fn unescaped(component: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = component.iter();
    while let Some(byte) = rest.next() {
        match (byte, rest.as_slice().first()) {
            (0, Some(0xFF)) => {
                bytes.push(0);
                rest.next();
            }
            (0, _) => break,
            _ => bytes.push(*byte),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::put_component;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xFF), any::<u8>()], 0..5)
    }

    proptest! {
        #[test]
        fn no_key_before_the_one_sought_is_at_or_behind_it(key in bytes(), other in bytes(), cut: prop::sample::Index) {
            let component = |key: &[u8]| {
                let mut out = Vec::new();
                put_component(&mut out, key);
                out
            };
            let whole = component(&key);
            prop_assert_eq!(unescaped(&whole), key.clone());
            let cut = &whole[..cut.index(whole.len() + 1)];
            if component(&other).as_slice() >= cut {
                // Its rows may be selected, so the cursor must not start behind it.
                prop_assert!(other >= unescaped(cut));
            }
        }
    }
}
