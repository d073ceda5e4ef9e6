//! The rows of a bulk load that are not yet in a table.
//!
//! In:    rows in any order, with their companions.
//! Out:   a cursor over the last row of each key, in the family's order.

use std::cmp::Ordering;

use super::run_merge::forward_only;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::ledger::Ledger;
use crate::order::{Order, head};
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Companions, Protection, RecordSource};
use crate::sst::WRITTEN_SEQNO;

/// Rows with their companions, in memory.
pub(super) struct RowBuffer {
    order: Order,
    bytes: Vec<u8>,
    rows: Vec<BufferedRow>,
    /// True while the rows ascend, each key once.
    is_sorted: bool,
}

/// Key, value and companions of a row follow each other in the buffer's bytes.
#[derive(Clone, Copy)]
struct BufferedRow {
    /// Head of the key, in bytewise order.
    head: u64,
    at: usize,
    value_len: u32,
    companion_len: u32,
    key_len: u16,
    kind: Kind,
}

impl RowBuffer {
    pub(super) fn new(order: Order) -> RowBuffer {
        RowBuffer { order, bytes: Vec::new(), rows: Vec::new(), is_sorted: true }
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + self.rows.len() * size_of::<BufferedRow>()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.is_sorted = true;
    }

    pub(super) fn push(&mut self, kind: Kind, key: &[u8], value: &[u8], companion: &[u8]) {
        if self.is_sorted
            && let Some(last) = self.rows.last()
        {
            self.is_sorted = self.order.compare(self.key(last), key).is_lt();
        }
        let head = if self.order.is_bytewise() { head(key, 0) } else { 0 };
        let (key_len, value_len, companion_len) = (key.len() as u16, value.len() as u32, companion.len() as u32);
        self.rows.push(BufferedRow { head, at: self.bytes.len(), value_len, companion_len, key_len, kind });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(companion);
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns a cursor over the rows of the sorted buffer.
    pub(super) fn cursor(&self, protection: Protection) -> BufferCursor<'_> {
        BufferCursor { buffer: self, at: 0, source: RecordSource { protection, file: "", offset: 0 } }
    }

    fn key(&self, row: &BufferedRow) -> &[u8] {
        &self.bytes[row.at..row.at + usize::from(row.key_len)]
    }

    fn record(&self, row: &BufferedRow) -> Record<'_> {
        let (key, rest) = self.bytes[row.at..].split_at(row.key_len.into());
        let (value, rest) = rest.split_at(row.value_len as usize);
        let companion = &rest[..row.companion_len as usize];
        Record { key, seqno: WRITTEN_SEQNO, kind: row.kind, value, companion }
    }

    /// Sorts the rows, and keeps the last one of each key.
    pub(super) fn sort(&mut self) {
        if std::mem::replace(&mut self.is_sorted, true) {
            return;
        }
        let mut rows = std::mem::take(&mut self.rows);
        let compare = |a: &BufferedRow, b: &BufferedRow| {
            a.head.cmp(&b.head).then_with(|| self.order.compare(self.key(a), self.key(b)))
        };
        rows.sort_by(compare);
        rows.reverse();
        rows.dedup_by(|later, kept| compare(later, kept) == Ordering::Equal);
        rows.reverse();
        self.rows = rows;
    }

    /// Returns the first key of each of `parts` parts but the first one; the buffer is sorted.
    pub(super) fn cuts(&self, parts: usize) -> Vec<Vec<u8>> {
        (1..parts).map(|part| self.key(&self.rows[part * self.rows.len() / parts]).to_vec()).collect()
    }

    pub(super) fn ledger(&self, protector: &dyn Companions) -> Ledger {
        let mut ledger = Ledger::default();
        for row in &self.rows {
            let record = self.record(row);
            ledger.add(record.kind, protector.term(&record));
        }
        ledger
    }
}

/// The rows of a sorted buffer, which it seeks by key alone; forward only.
pub(super) struct BufferCursor<'a> {
    buffer: &'a RowBuffer,
    at: usize,
    source: RecordSource<'static>,
}

impl Cursor for BufferCursor<'_> {
    fn seek(&mut self, key: &[u8], _: Seqno) -> Result<()> {
        let buffer = self.buffer;
        self.at = buffer.rows.partition_point(|row| buffer.order.compare(buffer.key(row), key).is_lt());
        Ok(())
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        Err(forward_only())
    }
    fn first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn last(&mut self) -> Result<()> {
        Err(forward_only())
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }
    fn valid(&self) -> bool {
        self.at < self.buffer.rows.len()
    }
    fn record(&self) -> Record<'_> {
        self.buffer.record(&self.buffer.rows[self.at])
    }
    fn source(&self) -> RecordSource<'_> {
        self.source
    }
}
