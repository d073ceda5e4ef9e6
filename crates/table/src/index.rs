//! Secondary indexes: their definition, and the entries of a row. docs/format-tables.md, section 7.

use crate::error::Result;
use crate::key::{KeyPart, SortOrder};
use crate::packed::ColumnId;
use crate::value::Value;

/// Identifies an index of a table. A dropped index's id is never used again.
pub(crate) type IndexId = u32;

/// In front of each part of an entry's key.
const MISSING: u8 = 0;
const PRESENT: u8 = 1;

/// A secondary index, as a schema defines it.
///
/// ```
/// use waxseal_table::{ColumnType, Index, Schema};
///
/// let schema = Schema::new()
///     .partition_key("isbn", ColumnType::Text)
///     .column("author", ColumnType::Text)
///     .column("year", ColumnType::I32)
///     .index(Index::on("by_author", ["author", "year"]));
/// # let _ = schema;
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Index {
    pub(crate) name: String,
    pub(crate) columns: Vec<(String, SortOrder)>,
    pub(crate) is_unique: bool,
    pub(crate) has_missing: bool,
}

impl Index {
    /// Returns an index over columns, in ascending order. The index leaves out rows with nulls.
    pub fn on<N: Into<String>>(name: &str, columns: impl IntoIterator<Item = N>) -> Index {
        let columns = columns.into_iter().map(|column| (column.into(), SortOrder::Ascending)).collect();
        Index { name: name.to_owned(), columns, is_unique: false, has_missing: false }
    }

    /// Adds a column in ascending order.
    pub fn ascending(mut self, column: &str) -> Index {
        self.columns.push((column.to_owned(), SortOrder::Ascending));
        self
    }

    /// Adds a column in descending order.
    pub fn descending(mut self, column: &str) -> Index {
        self.columns.push((column.to_owned(), SortOrder::Descending));
        self
    }

    /// Permits one row for each combination of values. Nulls are distinct.
    pub fn unique(mut self) -> Index {
        self.is_unique = true;
        self
    }

    /// Adds the rows that lack a column: a null is less than all values. The columns are of the key or of the group
    /// `default`, because the columns of another group may expire before their row.
    pub fn with_missing(mut self) -> Index {
        self.has_missing = true;
        self
    }
}

/// Whether an index can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexState {
    /// Writes maintain the index, and rows from before it are being added.
    Building,
    /// The index has all rows.
    Public,
}

/// An index, as a schema has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexInfo {
    pub(crate) id: IndexId,
    pub(crate) name: String,
    pub(crate) columns: Vec<(ColumnId, SortOrder)>,
    pub(crate) is_unique: bool,
    pub(crate) has_missing: bool,
    pub(crate) state: IndexState,
}

impl IndexInfo {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if each combination of values has one row.
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// Returns true if the index has the rows that lack a column.
    pub fn has_missing(&self) -> bool {
        self.has_missing
    }

    /// Returns whether the index can be read.
    pub fn state(&self) -> IndexState {
        self.state
    }

    /// Returns the index with another id.
    pub(crate) fn with_id(&self, id: IndexId) -> IndexInfo {
        IndexInfo { id, ..self.clone() }
    }

    /// Returns the beginning of the keys of the index's entries.
    pub(crate) fn prefix(&self) -> [u8; 4] {
        self.id.swap_bytes().to_le_bytes()
    }

    /// Returns the end of the keys of the index's entries.
    pub(crate) fn end(&self) -> [u8; 4] {
        (self.id + 1).swap_bytes().to_le_bytes()
    }
}

/// An entry of an index.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct IndexEntry {
    pub(crate) key: Vec<u8>,
    /// The row key of a unique entry; otherwise empty, and the row key is the end of `key`.
    pub(crate) value: Vec<u8>,
}

/// Returns the entry of a row; `None` if the index leaves the row out. `values` are those of the index's columns.
pub(crate) fn entry_of(
    index: &IndexInfo,
    parts: &[KeyPart],
    values: &[Option<Value>],
    row_key: &[u8],
) -> Result<Option<IndexEntry>> {
    let has_null = values.iter().any(Option::is_none);
    if has_null && !index.has_missing {
        return Ok(None);
    }
    let mut key = index.prefix().to_vec();
    for (part, value) in parts.iter().zip(values) {
        put_part(&mut key, part, value.as_ref())?;
    }
    if index.is_unique && !has_null {
        return Ok(Some(IndexEntry { key, value: row_key.to_vec() }));
    }
    key.extend_from_slice(row_key);
    Ok(Some(IndexEntry { key, value: Vec::new() }))
}

/// Appends a part of an entry's key: whether the value is present, and the value.
pub(crate) fn put_part(key: &mut Vec<u8>, part: &KeyPart, value: Option<&Value>) -> Result<()> {
    match value {
        Some(value) => {
            key.push(present_marker(part.order));
            part.put(key, value)
        }
        None => {
            key.push(present_marker(part.order) ^ PRESENT ^ MISSING);
            Ok(())
        }
    }
}

/// Returns the byte in front of a value that is present.
pub(crate) fn present_marker(order: SortOrder) -> u8 {
    match order {
        SortOrder::Ascending => PRESENT,
        SortOrder::Descending => !PRESENT,
    }
}

/// Returns the row key of an entry. Errors: `Corruption` for a key that no entry has.
pub(crate) fn row_key_of<'a>(parts: &[KeyPart], key: &'a [u8], value: &'a [u8]) -> Result<&'a [u8]> {
    let cut = || crate::Error::corruption("an entry of an index that is cut short");
    let mut rest = key.get(4..).ok_or_else(cut)?;
    for part in parts {
        let mask = if part.order == SortOrder::Descending { 0xFF } else { 0 };
        let (first, after) = rest.split_first().ok_or_else(cut)?;
        rest = after;
        match first ^ mask {
            MISSING => {}
            PRESENT => rest = rest.get(part.length(rest)?..).ok_or_else(cut)?,
            _ => return Err(crate::Error::corruption("an entry of an index with a part that is none")),
        }
    }
    Ok(if value.is_empty() { rest } else { value })
}
