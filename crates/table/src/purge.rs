//! Purge of dropped columns.
//!
//! ```text
//! Active -> Tentative (deadline) -> Purging -> purged
//! ```
//!
//! From the begin of the purge on, no write has a value of the column, and no schema version shows it. The purge rewrites
//! the files that have one, through a compaction filter. When no file of the table has one, one commit removes the
//! column from the schema and records it as purged. A crash leaves a purge that the next call continues.

use std::collections::BTreeSet;
use std::sync::Arc;

use waxseal::env::lock;

use crate::alteration::Alteration;
use crate::error::Result;
use crate::index::IndexId;
use crate::layout::Layout;
use crate::packed::ColumnId;
use crate::purged_column::PurgedColumn;
use crate::row_functions::{INDEXES, begin_purge, end_purge, item_of, property_of};
use crate::schema::{Column, ColumnState};
use crate::schema_record::TableRecord;
use crate::table::Table;
use crate::tables::Tables;

/// Rounds of compactions for what other compactions write beside a purge.
const ROUNDS: usize = 4;

/// Result of a purge of columns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PurgeReport {
    /// Names of the purged columns.
    pub columns: Vec<String>,
    /// Names of the columns that are still being purged, because a snapshot from before their final drop reads their
    /// values, or a value could not be read.
    pub held: Vec<String>,
    /// Files that may have had values of these columns when the purge began.
    pub files: usize,
}

impl Table {
    /// Removes the values of the columns whose drop is final from all files of the table, and then the columns from the
    /// schema, so that their names are free. Reads and writes go on.
    ///
    /// Costs a flush, and a rewrite of the files that have values of these columns. Files that were written before the
    /// table was opened after a crash may be rewritten as well. Values that a snapshot from before the final drop reads
    /// stay, and so does their column: call it again when the snapshot is gone, and also after a crash or an error of the
    /// store. Transactions, and selects in the order of an index, have such a snapshot.
    ///
    /// [`certificate`](Table::certificate) erases the copies in the log, and shows whether others are left.
    ///
    /// ```
    /// # fn main() -> waxseal_table::Result<()> {
    /// # use waxseal_table::{ColumnType, Row, Schema, Tables};
    /// # let tables = Tables::open(&waxseal::Db::memory()?)?;
    /// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("genre", ColumnType::Text);
    /// let books = tables.create("library.books", schema)?;
    /// books.insert(Row::new().with("isbn", "0141439580").with("genre", "novel"))?;
    /// books.drop_column("genre")?; // hidden from now on, and undelete_column restores it
    /// books.drop_column("genre")?; // final
    /// assert_eq!(books.purge_columns()?.columns, ["genre"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn purge_columns(&self) -> Result<PurgeReport> {
        self.try_purge().map_err(|error| self.named(error))
    }

    fn try_purge(&self) -> Result<PurgeReport> {
        let _one_at_a_time = lock(&self.state.purging);
        self.end_tentative_drops()?;
        let layout = self.state.layout()?;
        let is_purging = |column: &&Column| column.state == ColumnState::Purging;
        let purging: Vec<&Column> = layout.record.schema.columns.iter().filter(is_purging).collect();
        if purging.is_empty() {
            return Ok(PurgeReport::default());
        }
        // Every write that has a value of these columns was committed before, and readers hide them from then on.
        let ids: Vec<ColumnId> = purging.iter().map(|column| column.id).collect();
        let through = match self.state.store.catalogue.purging_since(self.state.id, &ids)? {
            Some(seqno) => seqno,
            None => self.db().snapshot().seqno()?,
        };
        self.db().flush()?;
        let mut report = PurgeReport::default();
        for column in &purging {
            report.files += self.rows.files_with(&property_of(column.id), item_of(column.id))?.len();
        }
        begin_purge(&self.state.rows, &layout, through)?;
        let purged = self.purge_files(&layout, &purging);
        end_purge(&self.state.rows, &layout)?;
        let mut records = Vec::new();
        for (column, indexes) in purging.into_iter().zip(purged?) {
            match self.is_in_files(column.id, &indexes)? {
                true => report.held.push(column.name.clone()),
                false => {
                    let (id, name, purged_at) = (column.id, column.name.clone(), self.now());
                    records.push(PurgedColumn { id, name, through, indexes, purged_at, certified_at: None });
                }
            }
        }
        self.record_purge(&records)?;
        report.columns = records.into_iter().map(|record| record.name).collect();
        Ok(report)
    }

    /// Returns the columns that were purged from the table, by their ids. The list is kept for ever.
    pub fn purged_columns(&self) -> Result<Vec<PurgedColumn>> {
        self.state.store.catalogue.purged(self.state.id).map_err(|error| self.named(error))
    }

    /// Makes the drops final whose time is over.
    fn end_tentative_drops(&self) -> Result<()> {
        let now = self.now();
        let is_over = |column: &Column| matches!(column.state, ColumnState::Tentative(deadline) if deadline <= now);
        match self.state.layout()?.record.schema.columns.iter().any(is_over) {
            true => self.try_alter(&Alteration::new()),
            false => Ok(()),
        }
    }

    /// Rewrites the files that have values of these columns, or entries of indexes over them. Returns these indexes.
    fn purge_files(&self, layout: &Arc<Layout>, purging: &[&Column]) -> Result<Vec<Vec<IndexId>>> {
        let history = self.state.store.catalogue.history(layout.record.id)?;
        let mut all = Vec::new();
        for column in purging {
            let indexes = indexes_over(column.id, &history);
            self.rewrite_files(column.id, &indexes)?;
            all.push(indexes);
        }
        Ok(all)
    }

    /// Rewrites the files that may have values of a column, or entries of one of these indexes. Compactions of other callers
    /// may write such files meanwhile, so that this looks again.
    pub(crate) fn rewrite_files(&self, column: ColumnId, indexes: &[IndexId]) -> Result<()> {
        for _ in 0..ROUNDS {
            self.rows.compact_with(&property_of(column), item_of(column))?;
            for index in indexes {
                self.state.indexes.compact_with(INDEXES, item_of(*index))?;
            }
            if !self.is_in_files(column, indexes)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns true if a file of the table may have a value of a column, or an entry of one of these indexes.
    pub(crate) fn is_in_files(&self, column: ColumnId, indexes: &[IndexId]) -> Result<bool> {
        if !self.state.rows.files_with(&property_of(column), item_of(column))?.is_empty() {
            return Ok(true);
        }
        for index in indexes {
            if !self.state.indexes.files_with(INDEXES, item_of(*index))?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes purged columns from the schema, and records them.
    fn record_purge(&self, purged: &[PurgedColumn]) -> Result<()> {
        if purged.is_empty() {
            return Ok(());
        }
        let forget = Alteration::new().forget_columns(purged.iter().map(|column| column.id).collect());
        let now = self.now();
        let next =
            |record: &TableRecord| Ok(TableRecord { schema: forget.apply(&record.schema, now)?, ..record.clone() });
        let catalogue = &self.state.store.catalogue;
        self.state.change(&self.session, next, |batch, table, _| {
            purged.iter().try_for_each(|column| catalogue.put_purged(batch, table.id, column))
        })
    }

    /// Returns the time in microseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.state.store.db.env().clock.wall_micros()).unwrap_or(i64::MAX)
    }
}

impl Tables {
    /// Purges the columns of all tables whose drop is final, as [`Table::purge_columns`] does, also of those whose time to
    /// be restored has ended. Returns the reports of the tables that had such columns, with their names.
    pub fn purge_columns(&self) -> Result<Vec<(String, PurgeReport)>> {
        let mut reports = Vec::new();
        for name in self.names()? {
            let report = self.table(&name)?.purge_columns()?;
            if report != PurgeReport::default() {
                reports.push((name, report));
            }
        }
        Ok(reports)
    }
}

/// Returns the indexes that a column was ever in.
fn indexes_over(column: ColumnId, history: &[TableRecord]) -> Vec<IndexId> {
    let all = history.iter().flat_map(|version| &version.schema.indexes);
    let over = all.filter(|index| index.columns.iter().any(|(own, _)| *own == column));
    over.map(|index| index.id).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use waxseal::Builder;
    use waxseal::env::ManualClock;

    use super::*;
    use crate::{ColumnType, Index, Row, Schema};

    #[test]
    fn a_deadline_that_passes_during_a_purge_deletes_the_entries_of_its_indexes() {
        let clock = Arc::new(ManualClock::default());
        clock.advance_nanos(1_700_000_000_000_000_000);
        let tables = Tables::open(&Builder::in_memory().clock(clock.clone()).open().unwrap()).unwrap();
        let columns = ["title", "note"].into_iter();
        let schema = Schema::new().partition_key("id", ColumnType::I32);
        let schema = columns.fold(schema, |schema, name| schema.column(name, ColumnType::Text));
        let table = tables.create("music.songs", schema.index(Index::on("by_note", ["note"]))).unwrap();
        table.insert(Row::new().with("id", 1).with("title", "t").with("note", "n")).unwrap();
        table.drop_column_for("note", Duration::from_secs(10)).unwrap();
        (0..2).for_each(|_| table.drop_column("title").unwrap());
        clock.advance_nanos(10_000_000_000);
        let (id, name, purged_at) = (2, "title".to_owned(), table.now());
        let (through, indexes, certified_at) = (0, Vec::new(), None);
        table.record_purge(&[PurgedColumn { id, name, through, indexes, purged_at, certified_at }]).unwrap();
        assert!(table.state.indexes.is_empty().unwrap());
        assert_eq!(table.purge_columns().unwrap().columns, ["note"]);
    }
}
