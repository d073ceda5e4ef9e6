//! Reads rows in the order of an index.

use std::sync::Arc;

use waxseal::{ColumnFamily, Cursor, Snapshot};

use crate::error::{Error, Result};
use crate::index::row_key_of;
use crate::key::above;
use crate::layout::Layout;
use crate::row::Row;
use crate::row_reader::{Move, RowReader};
use crate::selection::Selection;

/// Reads the entries of an index, and the row of each one: two searches of the store.
pub(crate) struct IndexReader {
    snapshot: Snapshot,
    rows: ColumnFamily,
    layout: Arc<Layout>,
    /// The index, by its place in the layout.
    index: usize,
    selection: Arc<Selection>,
    entries: Cursor,
    is_reverse: bool,
    next: Move,
}

impl IndexReader {
    pub(crate) fn new(
        (snapshot, rows): (&Snapshot, &ColumnFamily),
        (layout, index): (&Arc<Layout>, usize),
        selection: Selection,
        (entries, is_reverse): (Cursor, bool),
    ) -> IndexReader {
        let (snapshot, rows, layout) = (snapshot.clone(), rows.clone(), layout.clone());
        let selection = Arc::new(selection);
        IndexReader { snapshot, rows, layout, index, selection, entries, is_reverse, next: Move::Begin }
    }

    /// Returns the key of the next entry, and its row. Errors: `Corruption` for damage and for an entry without a row;
    /// the next call reads on behind it.
    pub(crate) fn next_row(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        if !self.next.make(&mut self.entries, self.is_reverse)? {
            return Ok(None);
        }
        let key = self.entries.key().to_vec();
        let index = &self.layout.indexes[self.index];
        let row_key = row_key_of(&index.parts, &key, self.entries.value())?;
        match self.row(row_key)? {
            Some(row) => Ok(Some((key, row))),
            None => {
                let (name, row) = (&index.info.name, self.layout.shown(row_key));
                Err(Error::corruption(format!("the index {name:?} has an entry of row {row}, which does not exist")))
            }
        }
    }

    fn row(&self, row_key: &[u8]) -> Result<Option<Row>> {
        read_row(&self.snapshot, &self.rows, &self.layout, &self.selection, row_key)
    }
}

/// Reads the row of a key at a snapshot.
pub(crate) fn read_row(
    snapshot: &Snapshot,
    rows: &ColumnFamily,
    layout: &Arc<Layout>,
    selection: &Arc<Selection>,
    row_key: &[u8],
) -> Result<Option<Row>> {
    if !selection.is_beyond_default {
        let decode = |record: &[u8]| layout.decode_default(row_key, record, selection);
        return snapshot.get_with(rows, row_key, decode)?.transpose();
    }
    let cursor = match above(row_key) {
        Some(end) => snapshot.cursor_in(rows, row_key.to_vec()..end),
        None => snapshot.cursor_in(rows, row_key.to_vec()..),
    };
    cursor.check()?;
    let mut reader = RowReader::new(layout.clone(), selection.clone(), cursor, false);
    let found = reader.next_row()?;
    reader.take_pending().map_or(Ok(found.map(|(_, row)| row)), Err)
}
