//! Hooks for fault injection into the memory of a store. Not for users.

use std::sync::Arc;

use super::Db;
use crate::db::state::family::{Family, TableHandle, ViewDelta};
use crate::error::Result;
use crate::inject::Strike;
use crate::sst::Table;
use crate::version::TableCache;

impl Db {
    /// Returns the tables of a family that readers use: level, number, table.
    #[doc(hidden)]
    pub fn tables_in_memory(&self, family: &Family) -> Result<Vec<(usize, u64, Arc<Table>)>> {
        let view = family.pinned_view();
        let mut tables = Vec::new();
        for (level, of) in view.levels.iter().enumerate() {
            for handle in of.tables() {
                tables.push((level, handle.meta().number, handle.table()?.clone()));
            }
        }
        Ok(tables)
    }

    /// Replaces a table in memory by another one, or removes it; files and manifest stay unchanged.
    #[doc(hidden)]
    pub fn exchange_in_memory(
        &self,
        family: &Family,
        (level, number): (usize, u64),
        table: Option<Arc<Table>>,
    ) -> Result<()> {
        let view = family.pinned_view();
        let Some(handle) = view.levels.get(level, number) else { return Ok(()) };
        let adds = table.map(|table| {
            let table_cache = TableCache::new(family.name(), Arc::default(), move |_| Ok(table.clone()));
            (level, TableHandle::new(handle.meta().clone(), table_cache))
        });
        let levels = view.levels.apply(&[(level, number)], adds.as_slice())?;
        family.install(Arc::new(levels), &ViewDelta::default());
        Ok(())
    }

    /// Replaces a family's active memtable by what `strike` makes of it, while nobody writes.
    #[doc(hidden)]
    pub fn damage_memtable(&self, family: &Family, strike: &mut dyn Strike) -> Result<()> {
        let memtable = family.pinned_view().active.memtable.struck(strike)?;
        family.exchange_active(memtable);
        Ok(())
    }
}
