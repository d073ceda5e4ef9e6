//! The table files of a column family, for tools that display or measure a store.

use waxseal_lsm::db::TableRef;
use waxseal_lsm::error::Result;
use waxseal_lsm::record::Seqno;

use crate::inner::ColumnFamily;

/// Facts about one table file that are known without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// The number in its file name.
    pub number: u64,
    /// Its level; 0 is the newest.
    pub level: usize,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Number of records, including all versions and tombstones.
    pub records: u64,
    /// Smallest key.
    pub smallest: Vec<u8>,
    /// Largest key.
    pub largest: Vec<u8>,
    /// Smallest and largest sequence number.
    pub seqnos: (Seqno, Seqno),
}

impl ColumnFamily {
    /// Returns the family's current table files, upper levels first. Costs no I/O.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// cf.put("key", "value")?;
    /// db.flush()?;
    /// let tables = cf.tables()?;
    /// assert_eq!((tables[0].level, &tables[0].smallest[..]), (0, &b"key"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        self.inner.check(&self.family)?;
        Ok(self.inner.engine.tables(&self.family)?.iter().map(TableInfo::of).collect())
    }

    /// Returns the tables that may have an item of a property
    /// ([`CfOptions::table_properties`](crate::CfOptions::table_properties)), upper levels first.
    ///
    /// No table with the item is missing. A table that points into a blob file may have the items of all values of that
    /// file, deleted ones included. A file that was written without the property may have any item, and so may one with
    /// more items than a property holds. Records that are not flushed are in no table. Opens each table that is not open.
    /// Errors: `Closed`, `Io`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::{CfOptions, Db, TableProperty};
    ///
    /// // The first byte of a value is the version of its schema.
    /// let versions = TableProperty::new("versions", |_key, value, add| {
    ///     add(value.get(..1).ok_or("an empty value")?);
    ///     Ok(())
    /// });
    /// let db = Db::memory()?;
    /// let options = CfOptions { table_properties: vec![versions], ..CfOptions::default() };
    /// let cf = db.create_column_family("users", options)?;
    /// cf.put("alice", "1 old")?;
    /// db.flush()?;
    /// cf.put("bob", "2 new")?;
    /// db.flush()?;
    /// let old = cf.files_with("versions", b"1")?;
    /// assert_eq!((old.len(), &old[0].smallest[..]), (1, &b"alice"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn files_with(&self, property: &str, item: impl AsRef<[u8]>) -> Result<Vec<TableInfo>> {
        self.inner.check(&self.family)?;
        Ok(self.inner.engine.files_with(&self.family, property, item.as_ref())?.iter().map(TableInfo::of).collect())
    }

    /// Flushes the family, then compacts the tables that may have an item of a property
    /// ([`files_with`](ColumnFamily::files_with)), as [`compact_files`](ColumnFamily::compact_files) does. Values are
    /// moved out of the blob files that may have it, so that none of these files is left, unless a value cannot be read.
    ///
    /// If no current value has the item, or a [compaction filter](crate::CompactionFilter) removes it from all values,
    /// `files_with` then finds no table, unless a snapshot sees an older version. This holds also for old versions
    /// below newer ones or deletes: tables that still have the item are merged with the newer records of their keys.
    ///
    /// Beside other threads that write, this holds for all records that were written before the call, those included that
    /// are overwritten or deleted meanwhile. It also holds for the outputs of compactions that began before. A merge
    /// operand that is written meanwhile makes a new value of an old one, which may have the item. Errors: `Invalid` for a
    /// quarantined table.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::{CfOptions, CompactionFilter, Db, FilterDecision, TableProperty};
    ///
    /// let firsts = TableProperty::new("firsts", |_key, value, add| {
    ///     add(&value[..1]);
    ///     Ok(())
    /// });
    /// let drop_x = CompactionFilter::new("drop x", |_key, value| {
    ///     Ok(if value[0] == b'x' { FilterDecision::Drop } else { FilterDecision::Keep })
    /// });
    /// let options =
    ///     CfOptions { table_properties: vec![firsts], compaction_filter: Some(drop_x), ..CfOptions::default() };
    /// let cf = Db::memory()?.create_column_family("rows", options)?;
    /// cf.put("a", "x")?;
    /// cf.put("b", "y")?;
    /// cf.compact_with("firsts", "x")?;
    /// assert!(cf.files_with("firsts", "x")?.is_empty() && cf.get("a")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact_with(&self, property: &str, item: impl AsRef<[u8]>) -> Result<()> {
        self.inner.check(&self.family)?;
        self.inner.engine.compact_with(&self.family, property, item.as_ref())
    }
}

impl TableInfo {
    fn of(table: &TableRef) -> TableInfo {
        let meta = table.meta();
        TableInfo {
            number: meta.number,
            level: table.level(),
            bytes: meta.size,
            records: meta.ledger.count(),
            smallest: meta.smallest.clone(),
            largest: meta.largest.clone(),
            seqnos: (meta.least_seqno, meta.greatest_seqno),
        }
    }
}
