//! Additions to a schema: names that no dynamic column has, and ids under which no file has values.

use std::sync::MutexGuard;

use waxseal::env::lock;

use crate::alteration::Alteration;
use crate::error::{Error, ErrorKind, Result};
use crate::packed::ColumnId;
use crate::row_functions::{item_of, property_of};
use crate::row_reader::RowReader;
use crate::schema::Schema;
use crate::schema_record::TableRecord;
use crate::state::ReservedNames;
use crate::table::Table;

/// Names that are kept for new columns of a table. One change of a schema has any.
pub(crate) struct NewNames<'a> {
    _reserved: ReservedNames<'a>,
    _alone: MutexGuard<'a, ()>,
}

impl Table {
    /// Changes the schema.
    pub(crate) fn try_alter(&self, change: &Alteration) -> Result<()> {
        self.state.check_exists()?;
        let (now, first_id) = (self.now(), self.first_unused_id(change.added_columns())?);
        let alter = |record: &TableRecord| {
            let mut schema = record.schema.clone();
            schema.next_column = schema.next_column.max(first_id);
            Ok(TableRecord { schema: change.apply(&schema, now)?, ..record.clone() })
        };
        let _new_names = self.keep_new_names(&alter)?;
        self.state.change(&self.session, alter, |_, _, _| Ok(()))
    }

    /// Keeps the names that a change adds, so that no write makes a dynamic column of one. A column of the schema hides
    /// dynamic ones of its name. `None` without new names, and for a table without dynamic columns. Errors: `Exists` if a
    /// row has such a dynamic column; those of the change.
    fn keep_new_names(&self, alter: &impl Fn(&TableRecord) -> Result<TableRecord>) -> Result<Option<NewNames<'_>>> {
        if !self.state.layout()?.record.schema.has_dynamic_columns {
            return Ok(None);
        }
        let alone = lock(&self.state.naming);
        let record = self.state.layout()?.record.clone();
        let names = new_names(&record.schema, &alter(&record)?.schema);
        if names.is_empty() {
            return Ok(None);
        }
        let reserved = self.state.reserve(&self.session, &names)?;
        self.refuse_dynamic_columns(&names)?;
        Ok(Some(NewNames { _reserved: reserved, _alone: alone }))
    }

    /// Fails with `Exists` if a row has a dynamic column of one of these names. Reads all rows.
    fn refuse_dynamic_columns(&self, names: &[String]) -> Result<()> {
        let (layout, snapshot) = (self.state.layout()?, self.db().snapshot());
        let selection = layout.select(names.iter().map(String::as_str))?;
        let cursor = snapshot.cursor_in(&self.rows, ..);
        cursor.check()?;
        let mut reader = RowReader::new(layout.clone(), selection, cursor, false);
        while let Some((row_key, row)) = reader.next_row()? {
            if let Some(name) = names.iter().find(|name| row.get(name).is_some()) {
                let row = layout.shown(&row_key);
                let ways = "copy its values and remove it from all rows first, or choose another name";
                return Err(Error::of(ErrorKind::Exists, format!("row {row} has a dynamic column {name:?}: {ways}")));
            }
        }
        reader.take_pending().map_or(Ok(()), Err)
    }

    /// Returns an id from which on no file has values of this number of columns. It is the schema's next one, unless
    /// damage has lost the newest schema: then an older one counts, whose next id may have been another column's.
    fn first_unused_id(&self, count: usize) -> Result<ColumnId> {
        let next = self.state.layout()?.record.schema.next_column;
        let (mut first, mut id, mut lists_all) = (next, next, false);
        while ((id - first) as usize) < count && property_of(id) == property_of(next) {
            if self.lists(id)? && !lists_all {
                // A recovery writes tables before they have the functions that list their columns.
                self.rows.compact_with(&property_of(id), item_of(id))?;
                lists_all = true;
            }
            if self.lists(id)? {
                first = id + 1;
            }
            id += 1;
        }
        Ok(first)
    }

    /// Returns true if a file may have values of a column.
    fn lists(&self, column: ColumnId) -> Result<bool> {
        Ok(!self.rows.files_with(&property_of(column), item_of(column))?.is_empty())
    }
}

/// Returns the names of columns that only the later schema has.
fn new_names(before: &Schema, after: &Schema) -> Vec<String> {
    let is_new = |name: &&String| !before.columns.iter().any(|column| column.name == **name);
    after.columns.iter().map(|column| &column.name).filter(is_new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use crate::{Changes, ColumnType, ErrorKind, Row, Schema, Tables};

    #[test]
    fn no_write_makes_a_dynamic_column_of_a_reserved_name() {
        let tables = Tables::open(&waxseal::Db::memory().unwrap()).unwrap();
        let schema = Schema::new().partition_key("id", ColumnType::I32).dynamic_columns();
        let table = tables.create("staff.people", schema).unwrap();
        let row = |id: i32| Row::new().with("id", id).with("phone", "555-0100");
        let early = tables.transaction();
        early.insert(&table, row(1)).unwrap();
        table.insert(Row::new().with("id", 2)).unwrap();

        let reserved = table.state.reserve(&table.session, &["phone".to_owned()]).unwrap();
        assert_eq!(early.commit().unwrap_err().kind(), ErrorKind::Conflict);
        let late = tables.transaction();
        for refused in [
            table.insert(row(1)),
            table.update(2, Changes::new().set("phone", "555-0100")).map(drop),
            late.insert(&table, row(1)),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InUse);
        }
        table.update(2, Changes::new().set("mail", "alice@example.com").remove("phone")).unwrap();
        drop(reserved);
        table.insert(row(1)).unwrap();
        assert_eq!(table.schema_version().unwrap(), 1);
    }
}
