//! Passes over all rows of a table, in steps of one commit each, beside readers and writers.

use std::sync::Arc;

use crate::alteration::Alteration;
use crate::error::Result;
use crate::key::above;
use crate::layout::Layout;
use crate::row_reader::RowReader;
use crate::row_writer::RowWriter;
use crate::schema::ColumnState;
use crate::table::Table;
use crate::write::RowOptions;

/// Rows of one commit.
const ROWS_OF_A_STEP: usize = 256;

/// Result of a purge of columns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PurgeReport {
    /// Names of the purged columns.
    pub columns: Vec<String>,
    /// Records that had values of these columns and were written again.
    pub records: u64,
}

impl Table {
    /// Removes the values of the columns whose drop is final from all rows, and then the columns from the schema. Reads
    /// and writes go on. After a crash, or an error of the store, call it again.
    ///
    /// No read returns a value of these columns before or after the call, except at older snapshots. Older versions of
    /// the rows stay in files, in the log and in backups until compactions, retirement and deletion remove them.
    ///
    /// Errors: `Corruption` if a row is damaged; the columns stay in the schema then.
    pub fn purge_columns(&self) -> Result<PurgeReport> {
        self.try_purge().map_err(|error| self.named(error))
    }

    fn try_purge(&self) -> Result<PurgeReport> {
        self.try_alter(&Alteration::new())?; // drops whose time is over become final
        let layout = self.state.layout()?;
        let purging = layout.record.schema.columns.iter().filter(|column| column.state == ColumnState::Purging);
        let (ids, columns): (Vec<u32>, Vec<String>) = purging.map(|column| (column.id, column.name.clone())).unzip();
        if ids.is_empty() {
            return Ok(PurgeReport::default());
        }
        let records = self.for_all_rows(|writer, row_key| writer.purge(row_key))?;
        self.try_alter(&Alteration::new().forget_columns(ids))?;
        Ok(PurgeReport { columns, records })
    }

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
