//! Passes over all rows of a table, in steps of one commit each, beside readers and writers.

use std::sync::Arc;

use crate::error::Result;
use crate::key::above;
use crate::layout::Layout;
use crate::row_reader::RowReader;
use crate::row_writer::RowWriter;
use crate::table::Table;
use crate::write::RowOptions;

/// Rows of one commit.
const ROWS_OF_A_STEP: usize = 256;

impl Table {
    /// Runs `visit` for each row, in transactions of some rows each, and returns the sum of its results. A row that is
    /// written meanwhile may be left out.
    pub(crate) fn for_all_rows(&self, visit: impl Fn(&RowWriter<'_>, &[u8]) -> Result<u64>) -> Result<u64> {
        let (mut start, mut sum) = (Some(Vec::new()), 0);
        while let Some(from) = start {
            // A change of the schema waits for a step at most.
            let schema = self.state.for_write()?;
            let row_keys = self.next_row_keys(&schema.layout, from)?;
            sum += self.transact(&schema.layout, &RowOptions::new(), |writer| {
                row_keys.iter().try_fold(0, |sum, row_key| Ok(sum + visit(writer, row_key)?))
            })?;
            let is_last = row_keys.len() < ROWS_OF_A_STEP;
            start = row_keys.last().filter(|_| !is_last).and_then(|last| above(last));
        }
        Ok(sum)
    }

    fn next_row_keys(&self, layout: &Arc<Layout>, from: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let cursor = self.state.store.db.snapshot().cursor_in(&self.rows, from..);
        cursor.check()?;
        let mut reader = RowReader::new(layout.clone(), layout.select([])?, cursor, false);
        let mut keys = Vec::new();
        while keys.len() < ROWS_OF_A_STEP
            && let Some((key, _)) = reader.next_row()?
        {
            keys.push(key);
        }
        Ok(keys)
    }
}
