//! Writes of rows: the records that they put and delete.

use std::time::Duration;

use waxseal::meta::{EXPIRY, Expiry};
use waxseal::{Batch, ColumnFamily, Durability, WriteOptions};

use crate::error::{Error, ErrorKind, Result};
use crate::key::above;
use crate::layout::{EncodedRow, Layout};
use crate::schema::{DEFAULT_GROUP, GroupId};

/// Options of a write: when the row or its groups expire, and how durable the write is.
///
/// ```
/// use std::time::Duration;
/// use waxseal_table::RowOptions;
///
/// let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
/// let options = RowOptions::new().expires_in(hour).group_expires_in("draft", minute);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RowOptions {
    pub(crate) durability: Option<Durability>,
    expires: Option<Expires>,
    groups: Vec<(String, Expires)>,
}

#[derive(Clone, Copy, Debug)]
enum Expires {
    At(u64),
    In(Duration),
}

impl RowOptions {
    /// Returns the default options: no expiry, and the durability of the store.
    pub fn new() -> RowOptions {
        RowOptions::default()
    }

    /// Sets the durability.
    pub fn durability(mut self, durability: Durability) -> RowOptions {
        self.durability = Some(durability);
        self
    }

    /// Sets the time at which the row expires, in microseconds since 1970: from then on it counts as absent. A write
    /// with a time before the year 2000 is refused, because that indicates a wrong unit.
    pub fn expires_at(mut self, micros: u64) -> RowOptions {
        self.expires = Some(Expires::At(micros));
        self
    }

    /// Sets the row's time to live, counted from the write.
    pub fn expires_in(mut self, after: Duration) -> RowOptions {
        self.expires = Some(Expires::In(after));
        self
    }

    /// Sets the time at which the columns of a group expire, if that is before the row. Dynamic columns are the group
    /// `dynamic`.
    pub fn group_expires_at(mut self, group: &str, micros: u64) -> RowOptions {
        self.groups.push((group.to_owned(), Expires::At(micros)));
        self
    }

    /// Sets the time to live of the columns of a group: see [`group_expires_at`](RowOptions::group_expires_at).
    pub fn group_expires_in(mut self, group: &str, after: Duration) -> RowOptions {
        self.groups.push((group.to_owned(), Expires::In(after)));
        self
    }

    /// Resolves the expiry of each group. Errors: `NotFound` for an unknown group; `Invalid` for
    /// the group `default`, whose expiry is that of the row.
    pub(crate) fn expiries(&self, layout: &Layout, now_micros: u64) -> Result<Expiries> {
        let at = |expires: Expires| match expires {
            Expires::At(micros) => Expiry::checked(micros).map(|_| micros).map_err(Error::from),
            Expires::In(after) => Ok(u64::try_from(after.as_micros()).unwrap_or(u64::MAX).saturating_add(now_micros)),
        };
        let row = self.expires.map(at).transpose()?;
        let mut groups = Vec::with_capacity(self.groups.len());
        for (name, expires) in &self.groups {
            let group = layout.group_by_name(name);
            match group.ok_or_else(|| Error::of(ErrorKind::NotFound, format!("the table has no group {name:?}")))? {
                DEFAULT_GROUP => {
                    return Err(Error::invalid("the columns of the group \"default\" expire with the row: expires_at"));
                }
                group => groups.push((group, at(*expires)?)),
            }
        }
        Ok(Expiries { row, groups })
    }
}

/// The times at which a row and its groups expire, in microseconds since 1970.
#[derive(Default)]
pub(crate) struct Expiries {
    row: Option<u64>,
    groups: Vec<(GroupId, u64)>,
}

impl Expiries {
    /// Returns the time at which the records of a group expire: with the row at the latest.
    pub(crate) fn of(&self, group: GroupId) -> Option<u64> {
        let own = self.groups.iter().rev().find(|(id, _)| *id == group).map(|(_, time)| *time);
        match (own, self.row) {
            (Some(own), Some(row)) => Some(own.min(row)),
            (own, row) => own.or(row),
        }
    }
}

/// Options of a put that expires at a time, in microseconds since 1970.
pub(crate) fn expiring(micros: Option<u64>) -> WriteOptions {
    micros.map_or_else(WriteOptions::new, |micros| WriteOptions::new().entry(EXPIRY, Expiry::at(micros)))
}

/// Collects writes until a commit.
pub(crate) trait Writes {
    fn put(&mut self, family: &ColumnFamily, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()>;
    fn delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()>;
    /// Deletes the keys from `start` up to `end`; all keys from `start` on without an end.
    fn delete_range(&mut self, family: &ColumnFamily, start: &[u8], end: Option<&[u8]>) -> Result<()>;
}

impl Writes for Batch {
    fn put(&mut self, family: &ColumnFamily, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()> {
        match expires {
            None => Batch::put(self, family, key, value),
            expires => self.put_with(family, key, value, expiring(expires)),
        };
        Ok(self.check()?)
    }

    fn delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        Batch::delete(self, family, key);
        Ok(self.check()?)
    }

    fn delete_range(&mut self, family: &ColumnFamily, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        match end {
            Some(end) => Batch::delete_range(self, family, start..end),
            None => Batch::delete_range(self, family, start..),
        };
        Ok(self.check()?)
    }
}

/// Writes a whole row over whatever is there.
pub(crate) fn put_row(
    writes: &mut impl Writes,
    family: &ColumnFamily,
    layout: &Layout,
    row: &EncodedRow,
    expiries: &Expiries,
) -> Result<()> {
    if layout.is_open_ended() {
        // All records of the row but that of group 0: a group's id is never 0.
        let mut beyond = row.key.clone();
        beyond.push(0);
        writes.delete_range(family, &beyond, above(&row.key).as_deref())?;
    } else {
        row.absent.iter().try_for_each(|key| writes.delete(family, key))?;
    }
    for record in &row.records {
        writes.put(family, &record.key, &record.value, expiries.of(record.group))?;
    }
    Ok(())
}

/// Deletes a row.
pub(crate) fn delete_row(
    writes: &mut impl Writes,
    family: &ColumnFamily,
    layout: &Layout,
    row_key: &[u8],
) -> Result<()> {
    if layout.is_open_ended() {
        return writes.delete_range(family, row_key, above(row_key).as_deref());
    }
    writes.delete(family, row_key)?;
    layout.single_groups().try_for_each(|group| writes.delete(family, &layout.group_key(row_key, group)))
}
