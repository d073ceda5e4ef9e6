//! Turns: the tables of a family, one after the other, for whoever looks at all of them.
//!
//! In:     a family as it is when its turns begin. Out: each of its tables as it is when its turn comes, or that it is gone.
//! Holds:  no table is held but the one at hand, so that what is replaced under a long look is removed. One that is gone when its turn comes was
//!         verified by whoever replaced it, as were those that came for it, in the bytes that were written; but a merge takes pointers over and reads
//!         no values, so these are looked at where they are pointed to then.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{Db, Family, TableRef};
use waxseal_lsm::error::Result;

/// A table whose turn is still to come.
struct Waiting {
    number: u64,
    uid: Uid,
    /// Bytes of the total that are its own.
    bytes: u64,
    /// The value files that it points into.
    values: Vec<Uid>,
    /// It took over what was missed, and is held: it is not missed itself.
    held: Option<TableRef>,
}

impl Waiting {
    fn of(table: &TableRef, bytes: u64) -> Waiting {
        let meta = table.meta();
        let values = meta.values.iter().map(|values| values.file.uid).collect();
        Waiting { number: meta.number, uid: meta.uid, bytes, values, held: None }
    }
}

/// The turn of a table.
pub(super) struct Turn {
    /// Bytes of the total that go with it.
    pub(super) bytes: u64,
    /// The table; none: it is gone.
    pub(super) table: Option<TableRef>,
    /// Of this table only the values in these files are still to be looked at.
    pub(super) missed: Option<Arc<HashSet<Uid>>>,
}

/// The tables of a family, one after the other; none is held before its turn.
pub(super) struct Turns {
    family: Family,
    waiting: VecDeque<Waiting>,
    /// The numbers of all tables that it has come by.
    known: HashSet<u64>,
    /// Value files of tables that were gone when their turn came.
    missed: HashSet<Uid>,
    /// The same, once those that took over such values have turns of their own.
    found: Option<Arc<HashSet<Uid>>>,
}

impl Turns {
    /// Those that there are now, the upper levels first; behind them those that took over values of tables that were gone.
    pub(super) fn of(db: &Db, family: &Family) -> Result<Turns> {
        let tables = db.tables(family)?;
        let waiting = tables.iter().map(|table| Waiting::of(table, table.meta().bytes_with_values())).collect();
        let known = tables.iter().map(|table| table.meta().number).collect();
        Ok(Turns { family: family.clone(), waiting, known, missed: HashSet::new(), found: None })
    }

    /// The same by their numbers, from one on.
    pub(super) fn by_number_from(mut self, first: u64) -> Turns {
        self.waiting.retain(|waiting| waiting.number >= first);
        self.sort();
        self
    }

    fn sort(&mut self) {
        self.waiting.make_contiguous().sort_by_key(|waiting| waiting.number);
    }

    /// Bytes of those that are still to come, as far as known.
    pub(super) fn bytes(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.bytes).sum()
    }

    /// The next one, as it is now. Costs a look at the picture of the family, which is nothing beside that at a table. Errors: `Closed`.
    pub(super) fn next_turn(&mut self, db: &Db) -> Result<Option<Turn>> {
        if self.waiting.is_empty() && !self.missed.is_empty() {
            self.find_missed(db)?;
        }
        let Some(next) = self.waiting.pop_front() else { return Ok(None) };
        if next.held.is_some() {
            return Ok(Some(Turn { bytes: next.bytes, table: next.held, missed: self.found.clone() }));
        }
        let table = db.table(&self.family, next.number)?.filter(|table| table.meta().uid == next.uid);
        if table.is_none() {
            self.missed.extend(next.values);
        }
        Ok(Some(Turn { bytes: next.bytes, table, missed: None }))
    }

    /// Tables that have come since and point into files of which values were missed. They are held: where merges are faster than the look, there
    /// would be no end else. Their bytes are in no total.
    fn find_missed(&mut self, db: &Db) -> Result<()> {
        let missed = std::mem::take(&mut self.missed);
        for table in db.tables(&self.family)? {
            let is_new = self.known.insert(table.meta().number);
            if is_new && table.meta().values.iter().any(|values| missed.contains(&values.file.uid)) {
                self.waiting.push_back(Waiting { held: Some(table.clone()), ..Waiting::of(&table, 0) });
            }
        }
        self.found = Some(Arc::new(missed));
        self.sort();
        Ok(())
    }
}
