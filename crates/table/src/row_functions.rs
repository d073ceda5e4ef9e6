//! The functions that flushes and compactions call for a table's records: the properties that list the columns of a file
//! of rows and the indexes of a file of entries, and the filter that removes the values of purged columns.
//!
//! A file that was written without a property may have any item, and a search finds it. The filter belongs to a family
//! only while a purge runs: a filter reads large values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waxseal::{ColumnFamily, CompactionFilter, FilterDecision, Seqno, TableProperty};

use crate::error::Result;
use crate::layout::Layout;
use crate::packed::{ColumnId, Packer};

/// The first property of the files of rows. Each lists the columns with values in the file, of a range of ids.
const COLUMNS: &str = "waxseal columns";

/// Column ids of one property: a property has room for 819 items.
const IDS_OF_A_PROPERTY: ColumnId = 800;

/// The number of the last property, which has all greater ids: a family has at most 16 properties.
const LAST_PROPERTY: u32 = 14;

/// The property of the files of entries. It lists the index of each entry and of each delete of one: the key of a deleted
/// entry has its values, too.
pub(crate) const INDEXES: &str = "waxseal index keys";

const FILTER: &str = "waxseal purged columns";

/// Returns the name of the property of the files of rows that lists a column.
pub(crate) fn property_of(column: ColumnId) -> String {
    named(number_of(column))
}

fn number_of(column: ColumnId) -> u32 {
    (column / IDS_OF_A_PROPERTY).min(LAST_PROPERTY)
}

fn named(number: u32) -> String {
    if number == 0 { COLUMNS.to_owned() } else { format!("{COLUMNS} {number}") }
}

/// Returns the item of a property that stands for a column or an index.
pub(crate) fn item_of(id: u32) -> [u8; 4] {
    id.swap_bytes().to_le_bytes()
}

/// Gives a table's families their properties, unless they have them.
pub(crate) fn attach(rows: &ColumnFamily, indexes: &ColumnFamily, layout: &Arc<Layout>) -> Result<()> {
    let has =
        |family: &ColumnFamily, name: &str| family.options().table_properties.iter().any(|own| own.name() == name);
    if !has(rows, &property_of(layout.record.schema.next_column)) {
        rows.set_functions(None, columns(layout))?;
    }
    if !has(indexes, INDEXES) {
        indexes.set_functions(None, vec![entries()])?;
    }
    Ok(())
}

/// Lets compactions remove the values of these columns, which are being purged or are not in the schema any more. Readers
/// hide them from a seqno on.
pub(crate) fn begin_purge(
    rows: &ColumnFamily,
    layout: &Arc<Layout>,
    purged: BTreeSet<ColumnId>,
    hidden_from: Seqno,
) -> Result<()> {
    let own = layout.clone();
    let filter = CompactionFilter::new(FILTER, move |key, record| Ok(decide(&own, &purged, key, record)?));
    Ok(rows.set_functions(Some(filter.hidden_from(hidden_from)), columns(layout))?)
}

/// Ends what `begin_purge` began: compactions keep all values, and read no large ones for it.
pub(crate) fn end_purge(rows: &ColumnFamily, layout: &Arc<Layout>) -> Result<()> {
    let filter = CompactionFilter::by_key(FILTER, |_| Ok(FilterDecision::Keep));
    Ok(rows.set_functions(Some(filter), columns(layout))?)
}

/// Returns the properties of the files of rows, up to that of the next column.
fn columns(layout: &Arc<Layout>) -> Vec<TableProperty> {
    let property = |number: u32| {
        let layout = layout.clone();
        TableProperty::new(&named(number), move |key, record, add| {
            let length = layout.row_key_length(key)?;
            layout.columns_of(&key[length..], record, |id| {
                if number_of(id) == number {
                    add(&item_of(id));
                }
            })?;
            Ok(())
        })
    };
    (0..=number_of(layout.record.schema.next_column)).map(property).collect()
}

fn entries() -> TableProperty {
    TableProperty::of_keys(INDEXES, |key, add| {
        add(key.get(..4).ok_or("an entry of an index that is cut short")?);
        Ok(())
    })
}

/// Returns what becomes of a record: the values of purged columns are removed. A record that marks a row or an entry of
/// a repeated group stays without columns.
fn decide(layout: &Layout, purged: &BTreeSet<ColumnId>, key: &[u8], record: &[u8]) -> Result<FilterDecision> {
    let suffix = &key[layout.row_key_length(key)?..];
    let mut has_purged = false;
    layout.columns_of(suffix, record, |id| has_purged |= purged.contains(&id))?;
    if !has_purged {
        return Ok(FilterDecision::Keep);
    }
    Ok(match layout.apply(Some(record), &BTreeMap::new())? {
        None if !suffix.is_empty() && !layout.is_entry(suffix) => FilterDecision::Drop,
        left => FilterDecision::Change(left.unwrap_or_else(|| Packer::new().finish())),
    })
}
