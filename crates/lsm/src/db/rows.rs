//! Rows that a flush gives rise to, in the order of the family that receives them.

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::order::Order;
use crate::record::{Record, Seqno};
use crate::seam::{Companions, Emitted, Protection, Source};

/// A cursor from end to end, for one pass.
pub(super) struct RowCursor {
    rows: Vec<Emitted>,
    at: usize,
    protection: Protection,
}

impl RowCursor {
    pub(super) fn new(order: &Order, keeper: &dyn Companions, mut rows: Vec<Emitted>) -> RowCursor {
        rows.sort_by(|a, b| order.compare_internal((&a.key, a.seqno), (&b.key, b.seqno)));
        // What the keeper gives itself it must have given a companion, if it promises one for every record.
        let protection = keeper.protection();
        let at = rows.len();
        RowCursor { rows, at, protection }
    }

    fn one_way(&self) -> Result<()> {
        debug_assert!(false, "a pass goes from end to end");
        Err(Error::invalid("rows of a flush are walked from end to end"))
    }
}

impl Cursor for RowCursor {
    fn seek(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        self.one_way()
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        self.one_way()
    }
    fn first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn last(&mut self) -> Result<()> {
        self.one_way()
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.one_way()
    }
    fn valid(&self) -> bool {
        self.at < self.rows.len()
    }
    fn record(&self) -> Record<'_> {
        self.rows[self.at].record()
    }
    fn source(&self) -> Source<'_> {
        Source { protection: self.protection, ..Source::default() }
    }
}
