//! Compactions of tables that a caller has chosen: by their numbers, or by an item of a property.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::compact::{Compactor, Turn, points_into};
use crate::checksum::Uid;
use crate::compaction::pick;
use crate::db::state::family::{Family, TableHandle, View};
use crate::error::{Error, Result};
use crate::names::StoreFileName;
use crate::planted;
use crate::record::Seqno;
use crate::version::TableMeta;

/// How often a caller's compaction looks for tables that still point into the blob files that it empties: compactions that
/// ran when it began write such tables.
const COLLECTING_ROUNDS: usize = 3;

/// Number of searches for an item whose tables are compacted by themselves. The first search finds the inputs of the
/// compactions that began before, perhaps with other functions, and waits for them. The second one finds their outputs.
const SEARCHES: usize = 2;

/// The tables that may have an item of a property in a record up to some seqno, and the ids of all blob files that may
/// have it. A blob file may have it in a value that no table points to any more.
struct FilesWith {
    tables: Vec<Arc<TableMeta>>,
    values: BTreeSet<Uid>,
}

impl FilesWith {
    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.values.is_empty()
    }
}

impl Compactor {
    /// Compacts tables that a caller has chosen. Errors: `Invalid` for a number of no table, before anything is compacted,
    /// and for a table that is quarantined or overlaps such a table.
    pub(in crate::db) fn compact_tables(
        &self,
        family: &Family,
        numbers: &[u64],
        step: &dyn Fn() -> bool,
    ) -> Result<()> {
        let is_known = |view: &View, number: u64| {
            view.levels.iter().flat_map(|level| level.tables()).any(|table| table.meta().number == number)
        };
        let view = family.open_view()?;
        if let Some(number) = numbers.iter().find(|number| !is_known(&view, **number)) {
            return Err(Error::invalid(format!("family {:?} has no table {number}", family.name())));
        }
        drop(view);
        self.compact_each(family, numbers, &BTreeSet::new(), step)
    }

    /// Compacts the tables that may have an item, and moves all values out of the blob files that may have it.
    ///
    /// After the first searches a compaction with the current functions has judged every record that was written before
    /// the call. Such a record still has the item only if a newer version of its key, or a tombstone, hid it from the
    /// filter. The newer records are flushed and merged with it, whatever the filter says of them. So the call ends beside
    /// writers that overwrite their keys, or add the item again.
    pub(in crate::db) fn compact_with(
        &self,
        family: &Family,
        property: &str,
        item: &[u8],
        step: &dyn Fn() -> bool,
    ) -> Result<()> {
        let through = self.flusher().flush_all(|other| other == family)?;
        let search = || files_with(&*family.open_view()?, (property, item), through);
        for _ in 0..SEARCHES {
            let FilesWith { tables, values } = search()?;
            let numbers = tables.iter().map(|table| table.number).collect();
            self.empty_files(family, numbers, &values, step)?;
        }
        if search()?.is_empty() {
            return Ok(());
        }
        self.flusher().flush_all(|other| other == family)?;
        for table in search()?.tables {
            let bounds = [&table.smallest, &table.largest].map(|key| Bound::Included(key.clone()));
            self.compact_range(family, &bounds.into(), step)?;
        }
        // Values of hidden records may have been collected into other blob files meanwhile.
        self.empty_files(family, Vec::new(), &search()?.values, step)
    }

    /// Compacts tables, and moves all values out of these blob files.
    fn empty_files(
        &self,
        family: &Family,
        mut numbers: Vec<u64>,
        values: &BTreeSet<Uid>,
        step: &dyn Fn() -> bool,
    ) -> Result<()> {
        for _ in 0..COLLECTING_ROUNDS {
            self.compact_each(family, &numbers, values, step)?;
            let view = family.open_view()?;
            let tables = view.levels.iter().flat_map(|level| level.tables()).map(|table| table.meta());
            numbers = tables.filter(|meta| points_into(meta, values)).map(|meta| meta.number).collect();
        }
        Ok(())
    }

    /// Compacts tables in turn, those that are gone excepted, and moves the values out of these blob files.
    fn compact_each(
        &self,
        family: &Family,
        numbers: &[u64],
        chosen: &BTreeSet<Uid>,
        step: &dyn Fn() -> bool,
    ) -> Result<()> {
        for number in numbers {
            loop {
                if self.lanes().is_stopping() {
                    return Err(Error::closed());
                }
                if self.catalog().claims.bars_any([*number].into_iter()) {
                    let name = StoreFileName::Table(*number);
                    return Err(Error::invalid(format!("{name} is quarantined: repair it first")));
                }
                match self
                    .compact_step_of(family, chosen, step, &|summary, _, _| pick::plan_table(&summary, *number))?
                {
                    Turn::Again => {}
                    Turn::Done => break,
                    Turn::Blocked => {
                        let name = StoreFileName::Table(*number);
                        return Err(Error::invalid(format!(
                            "{name} waits for a table that it overlaps, which is quarantined or was damaged: repair it first"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Finds the files of a view that may have an item of a property: the tables with records up to `through`, and the blob
/// files of all tables.
fn files_with(view: &View, (property, item): (&str, &[u8]), through: Seqno) -> Result<FilesWith> {
    let mut found = FilesWith { tables: Vec::new(), values: BTreeSet::new() };
    for table in view.levels.iter().flat_map(|level| level.tables()) {
        if table.meta().oldest_seqno() <= through && may_have_item(table, property, item)? {
            found.tables.push(table.meta().clone());
        }
        let files = table.meta().values.iter().map(|values| &values.file);
        found.values.extend(files.filter(|file| file.collected.may_have(property, item)).map(|file| file.uid));
    }
    Ok(found)
}

/// Returns true if a table may have this item of a property, itself or in the blob files that it points into. Opens it.
pub(in crate::db) fn may_have_item(table: &TableHandle, property: &str, item: &[u8]) -> Result<bool> {
    let in_values = |meta: &TableMeta| meta.values.iter().any(|of| of.file.collected.may_have(property, item));
    if planted!(ItemsOfValuesForgotten, false, in_values(table.meta())) {
        return Ok(true);
    }
    match table.table() {
        Ok(open) => Ok(open.properties().collected.may_have(property, item)),
        Err(error) if error.is_corruption() => Ok(true),
        Err(error) => Err(error),
    }
}
