//! The changes that an edit makes to the view of one family.

use std::sync::Arc;

use crate::db::state::family::Family;
use crate::lost_range::LostRange;
use crate::record::Seqno;
use crate::version::{EditChange, TableMeta};

/// The changes that an edit makes to one family's view.
pub(in crate::db) struct Replaced<'a> {
    pub(in crate::db) family: &'a Family,
    /// Tables to remove: level and number.
    pub(in crate::db) removes: Vec<(usize, u64)>,
    /// Tables to add, with their level.
    pub(in crate::db) adds: Vec<(usize, Arc<TableMeta>)>,
    /// Memtables frozen up to this seqno are in tables now.
    pub(in crate::db) flushed: Option<Seqno>,
    /// Lost ranges to remove.
    pub(in crate::db) lifted: Vec<u64>,
    /// Lost ranges to add.
    pub(in crate::db) fenced: Vec<(u64, Arc<LostRange>)>,
}

impl<'a> Replaced<'a> {
    /// Exchanges tables.
    pub(in crate::db) fn tables(
        family: &'a Family,
        removes: Vec<(usize, u64)>,
        adds: Vec<(usize, Arc<TableMeta>)>,
    ) -> Self {
        Replaced { family, removes, adds, flushed: None, lifted: Vec::new(), fenced: Vec::new() }
    }

    /// Adds tables to level 0.
    pub(in crate::db) fn level0(family: &'a Family, tables: &[TableMeta]) -> Self {
        let adds = tables.iter().map(|meta| (0, Arc::new(meta.clone()))).collect();
        Replaced::tables(family, Vec::new(), adds)
    }

    /// Returns the same changes for the manifest. `flushed` is added by the caller, which knows the log's position.
    pub(in crate::db) fn changes(&self) -> Vec<EditChange> {
        let family = self.family.id();
        let removed =
            |(level, number): &(usize, u64)| EditChange::TableRemoved { family, level: *level as u8, number: *number };
        let added = |(level, meta): &(usize, Arc<TableMeta>)| added_to(self.family, *level, meta);
        let lifted = |id: &u64| EditChange::LostRangeLifted { family, id: *id };
        let fenced = |(id, lost_range): &(u64, Arc<LostRange>)| EditChange::LostRangeAdded {
            family,
            id: *id,
            lost_range: lost_range.clone(),
        };
        let tables = self.removes.iter().map(removed).chain(self.adds.iter().map(added));
        tables.chain(self.lifted.iter().map(lifted)).chain(self.fenced.iter().map(fenced)).collect()
    }
}

pub(in crate::db) fn added_to(family: &Family, level: usize, meta: &Arc<TableMeta>) -> EditChange {
    EditChange::TableAdded { family: family.id(), level: level as u8, table: meta.clone() }
}
