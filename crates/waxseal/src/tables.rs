//! The table files of a column family, for tools that display or measure a store.

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
        let tables = self.inner.engine.tables(&self.family)?;
        let info = |table: &waxseal_lsm::db::TableRef| {
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
        };
        Ok(tables.iter().map(info).collect())
    }
}
