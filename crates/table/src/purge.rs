//! Purge of dropped columns.
//!
//! ```text
//! Active -> Tentative (deadline) -> Purging -> purged
//! ```
//!
//! From the begin of the purge on, no write has a value of the column, and no schema version shows it. The purge rewrites
//! the files that have one, through a compaction filter. When no file of the table has one, one commit removes the
//! column from the schema and records it as purged. A crash leaves a purge that the next call continues.
//!
//! A purge concerns the files of one store. The change feed carries its record, and no removal of a value. So the record
//! names the store, and another store with the record purges its own files.

use std::collections::BTreeSet;
use std::sync::Arc;

use waxseal::env::lock;
use waxseal::{Batch, Durability, Seqno};

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
    /// In a copy of a store, as a follower or a restored backup is, it also purges the columns that the other store has
    /// purged, because the copy's files may have values.
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
        let mut columns = self.columns_to_purge(&layout)?;
        if columns.is_empty() {
            return Ok(PurgeReport::default());
        }
        self.db().flush()?;
        let mut report = PurgeReport::default();
        for column in &columns {
            report.files += self.rows.files_with(&property_of(column.id), item_of(column.id))?.len();
        }
        self.purge_files(&layout, &columns)?;
        let mut are_held = Vec::new();
        for column in &mut columns {
            are_held.push(self.is_in_files(column.id, &column.indexes)?);
            column.purged_at = self.now();
        }
        let (held, purged): (Vec<_>, Vec<_>) = columns.into_iter().zip(are_held).partition(|(_, is_held)| *is_held);
        let purged: Vec<PurgedColumn> = purged.into_iter().map(|(column, _)| column).collect();
        self.record_purge(&purged)?;
        report.held = held.into_iter().map(|(column, _)| column.name).collect();
        report.columns = purged.into_iter().map(|column| column.name).collect();
        Ok(report)
    }

    /// Returns the columns that were purged from the table in this store, by their ids. The list is kept for ever.
    pub fn purged_columns(&self) -> Result<Vec<PurgedColumn>> {
        let purged = self.state.store.catalogue.purged(self.state.id);
        purged.map(|purged| purged.here).map_err(|error| self.named(error))
    }

    /// Returns the columns whose values are to be removed from the files of this store, as they will be recorded.
    fn columns_to_purge(&self, layout: &Layout) -> Result<Vec<PurgedColumn>> {
        let catalogue = &self.state.store.catalogue;
        let history = catalogue.history(self.state.id)?;
        // Every write of a value was committed before. A move may have imported rows with values after the drop.
        let through = self.db().snapshot().seqno()?;
        let column = |id: ColumnId, name: &str| PurgedColumn {
            id,
            name: name.to_owned(),
            through,
            indexes: indexes_over(id, &history),
            purged_at: 0,
            certified_at: None,
        };
        let schema = &layout.record.schema;
        let is_purging = |column: &&Column| column.state == ColumnState::Purging;
        let mut columns: Vec<PurgedColumn> =
            schema.columns.iter().filter(is_purging).map(|own| column(own.id, &own.name)).collect();
        let mut elsewhere = catalogue.purged(self.state.id)?.elsewhere;
        elsewhere.retain(|gone| !schema.columns.iter().any(|own| own.id == gone.id));
        columns.extend(elsewhere.iter().map(|gone| column(gone.id, &gone.name)));
        Ok(columns)
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

    /// Removes the values of columns, and the entries of indexes over them, from the files of the table.
    pub(crate) fn purge_files(&self, layout: &Arc<Layout>, columns: &[PurgedColumn]) -> Result<()> {
        let mut hidden_from = 0;
        for column in columns {
            hidden_from = hidden_from.max(self.hidden_from(column)?);
        }
        let ids = columns.iter().map(|column| column.id).collect();
        begin_purge(&self.state.rows, layout, ids, hidden_from)?;
        let rewritten = columns.iter().try_for_each(|column| self.rewrite_files(column.id, &column.indexes));
        end_purge(&self.state.rows, layout)?;
        rewritten
    }

    /// Returns the seqno from which on readers, and so snapshots, do not see values of a column.
    pub(crate) fn hidden_from(&self, column: &PurgedColumn) -> Result<Seqno> {
        Ok(self.state.store.catalogue.purging_since(self.state.id, column.id)?.unwrap_or(column.through))
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
        let (catalogue, layout) = (&self.state.store.catalogue, self.state.layout()?);
        let put = |batch: &mut Batch| {
            purged.iter().try_for_each(|column| catalogue.put_purged(batch, layout.record.id, column))
        };
        let is_known = |column: &PurgedColumn| layout.record.schema.columns.iter().any(|own| own.id == column.id);
        if !purged.iter().any(is_known) {
            // The copy keeps the schema version of its source.
            let mut batch = self.session.batch();
            put(&mut batch)?;
            return Ok(batch.describe_nothing().commit(Durability::Sync)?);
        }
        let forget = Alteration::new().forget_columns(purged.iter().map(|column| column.id).collect());
        let now = self.now();
        let next =
            |record: &TableRecord| Ok(TableRecord { schema: forget.apply(&record.schema, now)?, ..record.clone() });
        self.state.change(&self.session, next, |batch, _, _| put(batch))
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
