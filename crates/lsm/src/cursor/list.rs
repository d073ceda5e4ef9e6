//! A cursor over records in memory.

use std::cmp::Ordering;

use super::Cursor;
use crate::error::Result;
use crate::order::Order;
use crate::record::{AsRecord, Record, Seqno};
use crate::seam::{Protection, RecordSource};

/// A cursor over records in memory, which are in internal order.
#[derive(Debug)]
pub struct ListCursor<R> {
    order: Order,
    records: Vec<R>,
    protection: Protection,
    at: Option<usize>,
}

impl<R: AsRecord> ListCursor<R> {
    /// Creates a cursor over these records. `protection` is the protection that their source promised for them.
    pub fn new(order: Order, records: Vec<R>, protection: Protection) -> ListCursor<R> {
        ListCursor { order, records, protection, at: None }
    }

    /// Compares a record with a place.
    fn compare(&self, record: &R, place: (&[u8], Seqno)) -> Ordering {
        let record = record.as_record();
        self.order.compare_internal((record.key, record.seqno), place)
    }

    fn first_not_before(&self, place: (&[u8], Seqno)) -> usize {
        self.records.partition_point(|record| self.compare(record, place) == Ordering::Less)
    }

    #[cfg(test)]
    pub(super) fn invalidate(&mut self) {
        self.at = None;
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|at| *at < self.records.len());
        Ok(())
    }
}

impl<R: AsRecord + Send> Cursor for ListCursor<R> {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let at = self.first_not_before((key, seqno));
        self.go(Some(at))
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let at = self.first_not_before((key, seqno));
        let here = self.records.get(at).is_some_and(|record| self.compare(record, (key, seqno)) == Ordering::Equal);
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
        self.records[self.at.unwrap_or(0)].as_record()
    }

    fn source(&self) -> RecordSource<'_> {
        RecordSource { protection: self.protection, ..RecordSource::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::testing::{check_moves, moves, orders, records, sorted};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_walks_like_any_cursor(order in orders(), records in records(40), moves in moves(60)) {
            let mut list = ListCursor::new(order.clone(), sorted(&order, &records), Protection::None);
            check_moves(&order, &records, &mut list, &moves);
        }
    }
}
