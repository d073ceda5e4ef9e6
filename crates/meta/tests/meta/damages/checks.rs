//! Reads of a damaged store: each answers what the store holds, or `Corruption`.

use std::ops::Bound;

use waxseal_lsm::db::{At, CursorBounds, Db, Family};
use waxseal_lsm::error::Error;

use super::stores::{FAMILIES, KEYS, Rows, Sample, key};

pub(crate) const ALL: CursorBounds = (Bound::Unbounded, Bound::Unbounded);

/// No store of these tests gives more errors in one scan.
const MOST_ERRORS: usize = 10_000;

/// True of an error that a damaged store may answer.
pub(crate) fn is_fair(error: &Error) -> bool {
    error.is_corruption()
}

/// Reads everything by key and by scans in both directions. Errors: the first wrong answer.
pub(crate) fn check(db: &Db, sample: &Sample) -> Result<(), String> {
    check_but(db, sample, false)
}

/// The same, for a store whose range deletes are unknown if `may_come_back`: then rows that they deleted may come back.
pub(crate) fn check_but(db: &Db, sample: &Sample, may_come_back: bool) -> Result<(), String> {
    let nothing = Rows::new();
    for name in FAMILIES {
        let family = db.family(name).ok_or_else(|| format!("family {name} is gone"))?;
        let rows = &sample.rows[name];
        let deleted = if may_come_back { &sample.deleted[name] } else { &nothing };
        for n in 0..KEYS {
            let (key, mut found) = (key(n), None);
            let got = db.get(&family, &key, At::Latest, &mut |record| found = Some(record.value.to_vec()));
            let comes_back = || found.is_some() && !rows.contains_key(&key) && found.as_ref() == deleted.get(&key);
            let is_right = got.as_ref().map_or_else(is_fair, |_| found.as_ref() == rows.get(&key) || comes_back());
            if !is_right {
                let [found, expected] = [found.as_ref(), rows.get(&key)].map(shown);
                return Err(format!("get of {} in {name}: {got:?} {found}, not {expected}", key.escape_ascii()));
            }
        }
        for backwards in [false, true] {
            scan(db, &family, (rows, deleted), backwards)
                .map_err(|wrong| format!("scan of {name}, backwards {backwards}, {wrong}"))?;
        }
    }
    Ok(())
}

fn shown(value: Option<&Vec<u8>>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| value.escape_ascii().to_string())
}

/// A scan that goes on behind each error: every row that it does not show lies where an error said so.
fn scan(db: &Db, family: &Family, (rows, deleted): (&Rows, &Rows), backwards: bool) -> Result<(), String> {
    let (mut missing, mut errors) = (rows.clone(), Vec::new());
    let mut cursor = match db.cursor(family, At::Latest, ALL) {
        Ok(cursor) => cursor,
        Err(error) if is_fair(&error) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let mut moved = if backwards { cursor.last() } else { cursor.first() };
    loop {
        match moved {
            Err(error) if !is_fair(&error) => return Err(error.to_string()),
            Err(_) if errors.len() == MOST_ERRORS => return Err("never ends".to_owned()),
            Err(error) => errors.push(error),
            Ok(()) if !cursor.valid() => break,
            Ok(()) => {
                let (key, expected) = (cursor.key(), missing.remove(cursor.key()));
                let comes_back =
                    || !rows.contains_key(key) && deleted.get(key).map(Vec::as_slice) == Some(cursor.value());
                if Some(cursor.value()) != expected.as_deref() && !comes_back() {
                    return Err(format!("shows {} with {}", key.escape_ascii(), cursor.value().escape_ascii()));
                }
            }
        }
        moved = if backwards { cursor.prev() } else { cursor.next() };
    }
    for key in missing.keys() {
        let is_told = errors.iter().any(|error| match error.damage().and_then(|damage| damage.key_range.as_ref()) {
            Some((from, to)) => from <= key && key <= to,
            None => true,
        });
        if !is_told {
            return Err(format!("hides {}", key.escape_ascii()));
        }
    }
    Ok(())
}
