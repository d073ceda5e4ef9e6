//! Secondary indexes of a table: build, verify and repair.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use waxseal::Snapshot;

use crate::alteration::{Alteration, no_index, superseded};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, IndexId, IndexState, row_key_of};
use crate::index_reader::read_row;
use crate::layout::{IndexLayout, Layout};
use crate::row_reader::{Move, RowReader};
use crate::row_writer::RowWriter;
use crate::table::Table;

/// Result of a check of a table's indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct IndexReport {
    /// Rows that were read.
    pub rows: u64,
    /// Entries that were read, of all indexes.
    pub entries: u64,
    /// Missing entries of existing rows.
    pub missing: u64,
    /// Entries that belong to no row.
    pub stale: u64,
    /// Rows and entries that could not be read.
    pub damaged: u64,
}

impl IndexReport {
    /// Returns true if every row has its entries, and every entry its row.
    pub fn is_clean(&self) -> bool {
        (self.missing, self.stale, self.damaged) == (0, 0, 0)
    }
}

impl Table {
    /// Adds an index, and builds it while reads and writes go on. Writes maintain the index from the first moment on;
    /// selects can use it when the call returns. After a crash, or an error of the store, call it again.
    ///
    /// Errors: `Exists` for an index of the name, unless it is an equal one whose build was interrupted, and for rows
    /// that have the same values of a unique index; `Invalid` for an index that the table cannot have; `Conflict` if
    /// another call begins to build the index, or drops it; `Corruption` if a row is damaged. After `Exists` and
    /// `Corruption` the table does not have the index.
    pub fn create_index(&self, index: Index) -> Result<()> {
        let name = index.name.clone();
        let create = || {
            self.try_alter(&Alteration::new().add_index(index))?;
            self.build(&name, true)
        };
        create().map_err(|error| self.named(error))
    }

    /// Builds an index again from the rows, as [`create_index`](Table::create_index) does. Reads use the old entries, and
    /// a unique index refuses equal rows, until the new entries replace the old ones in one commit. If the build fails,
    /// the index stays as it was. This also finishes a build that was interrupted. Errors: `NotFound`; `Conflict` if
    /// another call rebuilds or drops the index meanwhile; and as for `create_index`.
    pub fn rebuild_index(&self, name: &str) -> Result<()> {
        let rebuild = || {
            self.try_alter(&Alteration::new().rebuild_index(name))?;
            self.build(name, false)
        };
        rebuild().map_err(|error| self.named(error))
    }

    /// Drops an index and its entries. Errors: `NotFound`.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.alter(Alteration::new().drop_index(name))
    }

    /// Rebuilds every index, also those over columns that are tentatively dropped. Returns their number.
    ///
    /// Beside damaged rows the indexes stay as they were, and the error is `Corruption`: the entries of these rows cannot
    /// be built, and an index without them would answer without these rows. The old entries make a select fail at these
    /// rows, and a unique index refuse their values. Errors: as for [`rebuild_index`](Table::rebuild_index), except that
    /// an index that is dropped meanwhile is left out.
    pub fn repair_indexes(&self) -> Result<usize> {
        let mut rebuilt = 0;
        let schema = self.schema()?;
        let names: BTreeSet<&str> = schema.indexes.iter().map(|index| &*index.name).collect();
        for name in names {
            match self.rebuild_index(name) {
                Ok(()) => rebuilt += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.is_corruption() => {
                    return Err(error.about("the indexes stay as they were until the damage is repaired or given up"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(rebuilt)
    }

    /// Checks at one snapshot that every row has its entries and every entry its row. Indexes that are being built are
    /// left out. Costs a read of all rows and entries, and a search for each of both. Damage is counted, not returned.
    ///
    /// Errors: those of the store except damage.
    pub fn verify_indexes(&self) -> Result<IndexReport> {
        let verify = || {
            let snapshot = self.state.store.db.snapshot();
            let layout = self.state.layout_at(&snapshot)?;
            let mut report = IndexReport::default();
            self.verify_rows(&snapshot, &layout, &mut report)?;
            for index in public(&layout) {
                self.verify_entries(&snapshot, &layout, index, &mut report)?;
            }
            Ok(report)
        };
        verify().map_err(|error| self.named(error))
    }

    /// Adds the entries of all rows to an index, and lets the index be read. If that fails, an index that is new is
    /// dropped, and an index that can be read stays without the build.
    fn build(&self, name: &str, is_new: bool) -> Result<()> {
        let layout = self.state.layout()?;
        let named = || layout.indexes.iter().map(|index| &index.info).filter(|index| index.name == name);
        named().next().ok_or_else(|| no_index(name))?;
        let id = named().find(|index| index.state == IndexState::Building).ok_or_else(superseded)?.id;
        let is_droppable = is_new || named().any(|index| index.state == IndexState::Public);
        match self.add_all_entries(id) {
            Ok(()) => self.try_alter(&Alteration::new().publish_index(id)),
            Err(error) if is_droppable && matches!(error.kind(), ErrorKind::Exists | ErrorKind::Corruption) => {
                self.try_alter(&Alteration::new().drop_build(id))?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    fn add_all_entries(&self, id: IndexId) -> Result<()> {
        let add = |writer: &RowWriter<'_>, row_key: &[u8]| {
            let index = writer.layout.indexes.iter().find(|index| index.info.id == id).ok_or_else(superseded)?;
            let values = writer.indexed_values(row_key)?;
            values.map_or(Ok(()), |values| writer.add_entry(index, row_key, &values)).map(|()| 0)
        };
        self.for_all_rows(add).map(drop)
    }

    fn verify_rows(&self, snapshot: &Snapshot, layout: &Arc<Layout>, report: &mut IndexReport) -> Result<()> {
        let cursor = snapshot.cursor(&self.rows);
        cursor.check()?;
        let mut reader = RowReader::new(layout.clone(), layout.select_indexed(), cursor, false);
        loop {
            let (row_key, row) = match reader.next_row() {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(()),
                Err(error) => {
                    report.count(error)?;
                    continue;
                }
            };
            report.rows += 1;
            let values = layout.values_of(row);
            for index in public(layout) {
                let Some(entry) = index.entry(&values, &row_key)? else { continue };
                match snapshot.get_with(&self.state.indexes, &entry.key, |found| found == entry.value) {
                    Ok(Some(true)) => {}
                    Ok(_) => report.missing += 1,
                    Err(error) => report.count(error.into())?,
                }
            }
        }
    }

    fn verify_entries(
        &self,
        snapshot: &Snapshot,
        layout: &Arc<Layout>,
        index: &IndexLayout,
        report: &mut IndexReport,
    ) -> Result<()> {
        let selection = Arc::new(layout.select_indexed());
        let range = (Bound::Included(index.info.prefix()), Bound::Excluded(index.info.end()));
        let mut entries = snapshot.cursor_in(&self.state.indexes, range);
        entries.check()?;
        let mut next = Move::Begin;
        loop {
            match next.make(&mut entries, false) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    report.count(error)?;
                    continue;
                }
            }
            report.entries += 1;
            let (key, value) = (entries.key(), entries.value());
            let row = row_key_of(&index.parts, key, value)
                .and_then(|row_key| Ok((row_key, read_row(snapshot, &self.rows, layout, &selection, row_key)?)));
            let (row_key, row) = match row {
                Ok(found) => found,
                Err(error) => {
                    report.count(error)?;
                    continue;
                }
            };
            let expected = row.map_or(Ok(None), |row| index.entry(&layout.values_of(row), row_key))?;
            if !expected.is_some_and(|expected| expected.key == key && expected.value == value) {
                report.stale += 1;
            }
        }
    }
}

impl IndexReport {
    /// Counts damage. Errors: any other error.
    fn count(&mut self, error: Error) -> Result<()> {
        if !error.is_corruption() {
            return Err(error);
        }
        self.damaged += 1;
        Ok(())
    }
}

/// Returns the indexes that have all rows.
fn public(layout: &Layout) -> impl Iterator<Item = &IndexLayout> {
    layout.indexes.iter().filter(|index| index.info.state == IndexState::Public)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, ColumnType, Row, Schema, Tables};

    /// Two rows of the same code, without an index.
    fn equal_rows() -> Table {
        let tables = Tables::open(&waxseal::Db::memory().unwrap()).unwrap();
        let schema = Schema::new().partition_key("isbn", ColumnType::I32).column("code", ColumnType::Text);
        let table = tables.create("library.books", schema).unwrap();
        for isbn in [1, 2] {
            table.insert(Row::new().with("isbn", isbn).with("code", "x")).unwrap();
        }
        table
    }

    fn by_code() -> Index {
        Index::on("by_code", ["code"]).unique()
    }

    #[test]
    fn an_interrupted_build_is_done_again_by_the_same_call() {
        let table = equal_rows();
        let by_code = || Index::on("by_code", ["code"]);
        table.try_alter(&Alteration::new().add_index(by_code())).unwrap();
        assert_eq!(table.select().index("by_code").rows().unwrap_err().kind(), ErrorKind::Invalid);
        table.create_index(by_code()).unwrap();
        assert_eq!(table.select().index("by_code").count().unwrap(), 2);
        assert!(table.verify_indexes().unwrap().is_clean());
        assert_eq!(table.create_index(by_code()).unwrap_err().kind(), ErrorKind::Exists);
    }

    #[test]
    fn an_interrupted_build_beside_a_damaged_row_waits_for_the_row() {
        let table = equal_rows();
        table.try_alter(&Alteration::new().add_index(Index::on("by_code", ["code"]))).unwrap();
        let row_key = table.state.layout().unwrap().row_key(&[2.into()]).unwrap();
        table.rows.put(&row_key, b"\0").unwrap();
        for _ in 0..2 {
            assert!(table.repair_indexes().unwrap_err().is_corruption());
            assert_eq!(table.select().index("by_code").rows().unwrap_err().kind(), ErrorKind::Invalid);
        }
        table.delete(2).unwrap();
        assert_eq!(table.repair_indexes().unwrap(), 1);
        assert_eq!(table.select().index("by_code").count().unwrap(), 1);
        assert!(table.verify_indexes().unwrap().is_clean());
    }

    #[test]
    fn a_unique_index_is_read_and_enforced_while_it_is_rebuilt() {
        let table = equal_rows();
        table.delete(2).unwrap();
        table.create_index(by_code()).unwrap();
        table.try_alter(&Alteration::new().rebuild_index("by_code")).unwrap();
        let equal = Row::new().with("isbn", 0).with("code", "x");
        assert_eq!(table.insert(equal.clone()).unwrap_err().kind(), ErrorKind::Exists);
        table.insert(Row::new().with("isbn", 3).with("code", "y")).unwrap();
        table.update(1, Changes::new().set("code", "z")).unwrap();
        table.insert(equal).unwrap();
        let prefixed = |code: &str| table.select().index("by_code").prefix(code).count().unwrap();
        assert_eq!([prefixed("x"), prefixed("y"), prefixed("z")], [1, 1, 1]);
        assert_eq!(table.schema().unwrap().indexes().count(), 1);
        table.build("by_code", false).unwrap();
        assert_eq!([prefixed("x"), prefixed("y"), prefixed("z")], [1, 1, 1]);
        assert!(table.verify_indexes().unwrap().is_clean());
        assert_eq!(table.state.indexes.iter().count(), 3, "the old entries are gone");
    }

    #[test]
    fn a_build_beside_a_row_that_is_always_written_ends() {
        let table = equal_rows();
        (3..40).for_each(|isbn| table.insert(Row::new().with("isbn", isbn).with("code", "x")).unwrap());
        let hot = table.state.layout().unwrap().row_key(&[1.into()]).unwrap();
        let visits = std::cell::Cell::new(0);
        // Another commit changes the first row whenever a step visits it together with another row.
        let visit = |writer: &RowWriter<'_>, row_key: &[u8]| {
            visits.set(visits.get() + 1);
            assert!(visits.get() < 1000, "the pass makes no progress");
            if row_key != hot {
                table.rows.put(&hot, [1]).unwrap();
            }
            writer.get(row_key)?;
            writer.transaction.put(writer.indexes, row_key, "")?;
            Ok(1)
        };
        assert_eq!(table.for_all_rows(visit).unwrap(), 39);
    }

    #[test]
    fn a_row_deletes_no_entry_of_another_row_while_a_unique_index_is_built() {
        for change in [
            |table: &Table| table.delete(2).unwrap(),
            |table: &Table| {
                assert!(table.update(2, Changes::new().set("code", "y")).unwrap());
            },
        ] {
            let table = equal_rows();
            table.try_alter(&Alteration::new().add_index(by_code())).unwrap();
            let layout = table.state.layout().unwrap();
            let row_key = layout.row_key(&[1.into()]).unwrap();
            let add = |writer: &RowWriter<'_>| {
                let values = writer.indexed_values(&row_key)?.unwrap();
                writer.add_entry(&layout.indexes[0], &row_key, &values)
            };
            table.transact(&layout, &crate::RowOptions::new(), add).unwrap();
            change(&table);
            table.try_alter(&Alteration::new().publish_index(layout.indexes[0].info.id)).unwrap();
            assert!(table.verify_indexes().unwrap().is_clean());
            let found: Vec<_> = table.select().index("by_code").prefix("x").rows().unwrap().collect();
            assert_eq!(found.len(), 1);
            let error = table.insert(Row::new().with("isbn", 3).with("code", "x")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Exists);
        }
    }
}
