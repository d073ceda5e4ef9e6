//! Damage to what an open store holds in memory of its tables.

use std::sync::Arc;

use waxseal_lsm::db::{Db, Family};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::sst::Table;
use waxseal_lsm::sst::fuzzing::CorruptionSite;

/// Flips bits of a byte of a block in memory; the bytes of its record heads follow those of the block. Loads the block
/// if it is not cached. Returns false if no such block or byte exists, or the block cannot be cached.
pub fn damage_cache(db: &Db, file: &str, block: usize, byte: usize, mask: u8) -> Result<bool> {
    let (.., table) = table_of(db, file)?;
    table.damage_cached(block, byte, mask)
}

/// Flips bits of a byte of a table's index or filter in memory.
pub fn damage_table(db: &Db, file: &str, site: CorruptionSite, at: usize, mask: u8) -> Result<()> {
    let (family, place, table) = table_of(db, file)?;
    db.exchange_in_memory(&family, place, Some(table.damaged(site, at, mask)?))
}

fn table_of(db: &Db, file: &str) -> Result<(Family, (usize, u64), Arc<Table>)> {
    for family in db.families() {
        let tables = db.tables_in_memory(&family)?;
        let found = tables.into_iter().find(|(_, number, _)| StoreFileName::Table(*number).to_string() == file);
        if let Some((level, number, table)) = found {
            return Ok((family, (level, number), table));
        }
    }
    Err(Error::invalid(format!("there is no table {file}")))
}
