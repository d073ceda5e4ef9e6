//! The tools of a repair that rewrites the records of a damaged table into a new one.
//!
//! Before: the table is held, so that no compaction processes it (`hold_tables`); its records were read, in order, from
//!         all places that still have them.
//! After:  one edit has replaced it by a table of these records, with lost ranges for missing ones.
//! Crash:  the damaged table, or the new one.

use std::cmp::Ordering;

use super::Db;
use super::examine::{OwnedRecord, TableRef};
use crate::cursor::Cursor;
use crate::env::{Open, read_into};
use crate::error::{IoContext, Result};
use crate::names::Name;
use crate::options::MIB;
use crate::order::Order;
use crate::record::{Record, Seqno};
use crate::seam::{Protection, Source};

impl Db {
    /// Keeps the file of a table under another name (`000012.damaged`), which only `destroy` removes; returns the name.
    pub fn keep_damaged(&self, table: &TableRef) -> Result<String> {
        let (inner, _) = self.writable()?;
        let fs = &inner.env.fs;
        let (from, kept) = (Name::Table(table.meta().number), Name::Damaged(table.meta().number));
        let (source, copy) = (inner.path(from), inner.path(kept));
        if !fs.exists(&copy).during(|| format!("looking for {kept}"))? && fs.link(&source, &copy).is_err() {
            let source = fs.open(&source, Open::Read).during(|| format!("opening {from}"))?;
            let length = source.len().during(|| format!("asking for the length of {from}"))?;
            let target = fs.open(&copy, Open::Create).during(|| format!("creating {kept}"))?;
            let mut buffer = vec![0; MIB];
            let mut at = 0;
            while at < length {
                let part = (length - at).min(MIB as u64) as usize;
                if read_into(&*source, at, &mut buffer[..part]).is_err() {
                    buffer[..part].fill(0); // an unreadable page
                }
                target.write_at(&buffer[..part], at).during(|| format!("writing {kept}"))?;
                at += part as u64;
            }
            target.sync_data().during(|| format!("syncing {kept}"))?;
        }
        inner.sync_dir_before_edit()?;
        Ok(kept.to_string())
    }
}

/// A cursor over records in memory, which are in internal order.
#[derive(Debug)]
pub struct ListCursor {
    order: Order,
    records: Vec<OwnedRecord>,
    protection: Protection,
    at: Option<usize>,
}

impl ListCursor {
    /// Creates a cursor over these records. `protection` is the protection that their source promised for them.
    pub fn new(order: Order, records: Vec<OwnedRecord>, protection: Protection) -> ListCursor {
        ListCursor { order, records, protection, at: None }
    }

    fn first_not_before(&self, key: &[u8], seqno: Seqno) -> usize {
        let before = |record: &OwnedRecord| {
            self.order.compare_internal((&record.key, record.seqno), (key, seqno)) == Ordering::Less
        };
        self.records.partition_point(before)
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|at| *at < self.records.len());
        Ok(())
    }
}

impl Cursor for ListCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let at = self.first_not_before(key, seqno);
        self.go(Some(at))
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let at = self.first_not_before(key, seqno);
        let here = self.records.get(at).is_some_and(|record| {
            self.order.compare_internal((&record.key, record.seqno), (key, seqno)) == Ordering::Equal
        });
        self.go(if here { Some(at) } else { at.checked_sub(1) })
    }

    fn first(&mut self) -> Result<()> {
        self.go(Some(0))
    }

    fn last(&mut self) -> Result<()> {
        self.go(self.records.len().checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        self.go(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        self.go(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn record(&self) -> Record<'_> {
        debug_assert!(self.valid());
        self.records[self.at.unwrap_or(0)].borrow()
    }

    fn source(&self) -> Source<'_> {
        Source { protection: self.protection, ..Source::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::testing::{Owned, check_moves, moves, orders, records, sorted};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_walks_like_any_cursor(order in orders(), records in records(40), moves in moves(60)) {
            let list = sorted(&order, &records).iter().map(|record: &Owned| OwnedRecord::of(&record.borrow())).collect();
            check_moves(&order, &records, &mut ListCursor::new(order.clone(), list, Protection::None), &moves);
        }
    }
}
