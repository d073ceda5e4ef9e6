//! Fault injection into the memory of a store, for tests and experiments on error detection. Not for users.

use std::sync::Arc;

use super::family::Family;
use super::{Db, TableHandle};
use crate::error::{Error, Result};
use crate::names::Name;
use crate::sst::Table;
use crate::sst::fuzzing::Site;
use crate::version::Shelf;

impl Db {
    /// Flips bits of a byte of a block in memory; the bytes of its record heads follow those of the block. Loads the
    /// block if it is not cached. Returns false if no such block or byte exists, or the block cannot be cached.
    #[doc(hidden)]
    pub fn damage_cache(&self, file: &str, block: usize, byte: usize, mask: u8) -> Result<bool> {
        let (.., table) = self.table_of(file)?;
        table.damage_cached(block, byte, mask)
    }

    /// Flips bits of a byte of a table's index or filter in memory.
    #[doc(hidden)]
    pub fn damage_table(&self, file: &str, site: Site, at: usize, mask: u8) -> Result<()> {
        let (family, level, handle, table) = self.table_of(file)?;
        let damaged = table.damaged(site, at, mask)?;
        let shelf = Shelf::new(family.name(), self.inner().dead_files.clone(), move |_| Ok(damaged.clone()));
        let number = handle.meta().number;
        let hit = TableHandle::new(handle.meta().clone(), shelf);
        let levels = family.view().levels.apply(&[(level, number)], &[(level, hit)])?;
        family.install(Arc::new(levels), None);
        Ok(())
    }

    /// Returns the number of blocks of a table.
    #[doc(hidden)]
    pub fn blocks_of(&self, file: &str) -> Result<usize> {
        self.table_of(file).map(|(.., table)| table.blocks())
    }

    fn table_of(&self, file: &str) -> Result<(Family, usize, Arc<TableHandle>, Arc<Table>)> {
        for family in self.families() {
            let view = family.pinned_view();
            for (level, tables) in view.levels.iter().enumerate() {
                let is_it = |handle: &&Arc<TableHandle>| Name::Table(handle.meta().number).to_string() == file;
                if let Some(handle) = tables.tables().iter().find(is_it) {
                    return Ok((family.clone(), level, handle.clone(), handle.table()?.clone()));
                }
            }
        }
        Err(Error::invalid(format!("there is no table {file}")))
    }
}
