//! Iterates over the tables of a family for passes that read all of them.
//!
//! In:     a family as it is at the start. Out: each table when the iteration reaches it, or `None`
//!         if the table was removed.
//! Holds:  only the current table is held, so that tables replaced during a long pass can be deleted. The compaction
//!         that removed a table has verified it, and its outputs as written. But compactions copy blob pointers without
//!         reading the values, so these values are checked through the tables that point to them now.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{Db, Family, TableRef};
use waxseal_lsm::error::Result;

/// A table that has not been visited yet.
struct WaitingTable {
    number: u64,
    uid: Uid,
    /// Its part of the total bytes.
    bytes: u64,
    /// The blob files it points into.
    values: Vec<Uid>,
    /// Set for a table that took over missed values. It is held, so it cannot be missed itself.
    held: Option<TableRef>,
}

impl WaitingTable {
    fn of(table: &TableRef, bytes: u64) -> WaitingTable {
        let meta = table.meta();
        let values = meta.values.iter().map(|values| values.file.uid).collect();
        WaitingTable { number: meta.number, uid: meta.uid, bytes, values, held: None }
    }
}

/// One step of the iteration.
pub(super) struct TableStep {
    /// Part of the total bytes that this step completes.
    pub(super) bytes: u64,
    /// The table; `None` if it was removed.
    pub(super) table: Option<TableRef>,
    /// If set, only the values in these blob files remain to be checked.
    pub(super) missed: Option<Arc<HashSet<Uid>>>,
}

/// The tables of a family in sequence; no table is held before it is visited.
pub(super) struct TableQueue {
    family: Family,
    waiting: VecDeque<WaitingTable>,
    /// The numbers of all tables seen so far.
    known: HashSet<u64>,
    /// Blob files of tables that were removed before their visit.
    missed: HashSet<Uid>,
    /// The missed blob files, once the tables that took over their values are queued.
    found: Option<Arc<HashSet<Uid>>>,
}

impl TableQueue {
    /// Queues the current tables, upper levels first. Tables that take over values of removed tables follow later.
    pub(super) fn of(db: &Db, family: &Family) -> Result<TableQueue> {
        let tables = db.tables(family)?;
        let waiting = tables.iter().map(|table| WaitingTable::of(table, table.meta().bytes_with_values())).collect();
        let known = tables.iter().map(|table| table.meta().number).collect();
        Ok(TableQueue { family: family.clone(), waiting, known, missed: HashSet::new(), found: None })
    }

    /// Sorts the tables by number, and skips those below `first`.
    pub(super) fn by_number_from(mut self, first: u64) -> TableQueue {
        self.waiting.retain(|waiting| waiting.number >= first);
        self.sort();
        self
    }

    fn sort(&mut self) {
        self.waiting.make_contiguous().sort_by_key(|waiting| waiting.number);
    }

    /// Returns the total bytes of the queued tables, as far as known.
    pub(super) fn bytes(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.bytes).sum()
    }

    /// Returns the next step. Reads the family's current version, a small cost compared with checking a table. Errors:
    /// `Closed`.
    pub(super) fn next_table(&mut self, db: &Db) -> Result<Option<TableStep>> {
        if self.waiting.is_empty() && !self.missed.is_empty() {
            self.find_missed(db)?;
        }
        let Some(next) = self.waiting.pop_front() else { return Ok(None) };
        if next.held.is_some() {
            return Ok(Some(TableStep { bytes: next.bytes, table: next.held, missed: self.found.clone() }));
        }
        let table = db.table(&self.family, next.number)?.filter(|table| table.meta().uid == next.uid);
        if table.is_none() {
            self.missed.extend(next.values);
        }
        Ok(Some(TableStep { bytes: next.bytes, table, missed: None }))
    }

    /// Queues the new tables that point into missed blob files. They are held; otherwise the pass might never end if
    /// compactions are faster. Their bytes are in no total.
    fn find_missed(&mut self, db: &Db) -> Result<()> {
        let missed = std::mem::take(&mut self.missed);
        for table in db.tables(&self.family)? {
            let is_new = self.known.insert(table.meta().number);
            if is_new && table.meta().values.iter().any(|values| missed.contains(&values.file.uid)) {
                self.waiting.push_back(WaitingTable { held: Some(table.clone()), ..WaitingTable::of(&table, 0) });
            }
        }
        self.found = Some(Arc::new(missed));
        self.sort();
        Ok(())
    }
}
