//! Passes over all rows of a table, in steps of one commit each, beside readers and writers.

use std::sync::Arc;

use crate::error::Result;
use crate::key::above;
use crate::layout::Layout;
use crate::row_reader::RowReader;
use crate::row_writer::RowWriter;
use crate::table::Table;
use crate::write::RowOptions;

/// Most rows of one commit.
const ROWS_OF_A_STEP: usize = 256;

impl Table {
    /// Runs `visit` for each row, in transactions of some rows each, and returns the sum of its results. A row that is
    /// written meanwhile may be left out. Errors: `Corruption` if a row is damaged, or may have been lost.
    pub(crate) fn for_all_rows(&self, mut visit: impl FnMut(&RowWriter<'_>, &[u8]) -> Result<u64>) -> Result<u64> {
        let (mut start, mut sum, mut rows_of_step) = (Some(Vec::new()), 0, ROWS_OF_A_STEP);
        while let Some(from) = &start {
            // A change of the schema waits for an attempt at most.
            let schema = self.state.for_write()?;
            let row_keys = self.next_row_keys(&schema.layout, from.clone(), rows_of_step)?;
            let visited = self.try_transact(&schema.layout, &RowOptions::new(), &mut |writer| {
                row_keys.iter().try_fold(0, |sum, row_key| Ok(sum + visit(writer, row_key)?))
            })?;
            drop(schema);
            let Some(visited) = visited else {
                // A shorter step meets fewer other commits.
                rows_of_step = (row_keys.len() / 2).max(1);
                waxseal::interrupt::check()?;
                continue;
            };
            sum += visited;
            let is_last = row_keys.len() < rows_of_step;
            start = row_keys.last().filter(|_| !is_last).and_then(|last| above(last));
            rows_of_step = (2 * rows_of_step).min(ROWS_OF_A_STEP);
        }
        Ok(sum)
    }

    /// Returns the keys of the next rows, at most `most`.
    fn next_row_keys(&self, layout: &Arc<Layout>, from: Vec<u8>, most: usize) -> Result<Vec<Vec<u8>>> {
        let cursor = self.state.store.db.snapshot().cursor_in(&self.rows, from..);
        cursor.check()?;
        let mut reader = RowReader::new(layout.clone(), layout.select([])?, cursor, false);
        let mut keys = Vec::new();
        while keys.len() < most {
            let Some((key, _)) = reader.next_row()? else { break };
            keys.push(key);
        }
        Ok(keys)
    }
}
