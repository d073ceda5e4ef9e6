//! The changes that an edit makes to the view of one family.

use std::sync::Arc;

use crate::db::state::family::{Family, ViewDelta};
use crate::lost_range::LostRange;
use crate::range_delete::RangeDelete;
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
    /// Range deletes to add.
    pub(in crate::db) ranged: Vec<Arc<RangeDelete>>,
    /// The seqnos of the range deletes to remove.
    pub(in crate::db) retired: Vec<Seqno>,
}

impl<'a> Replaced<'a> {
    /// Exchanges tables.
    pub(in crate::db) fn tables(
        family: &'a Family,
        removes: Vec<(usize, u64)>,
        adds: Vec<(usize, Arc<TableMeta>)>,
    ) -> Self {
        let (lifted, fenced, ranged, retired) = Default::default();
        Replaced { family, removes, adds, flushed: None, lifted, fenced, ranged, retired }
    }

    /// Returns the changes of the view, apart from its tables.
    pub(in crate::db) fn delta(&self) -> ViewDelta<'_> {
        let Replaced { flushed, lifted, fenced, ranged, retired, .. } = self;
        ViewDelta { flushed: *flushed, lifted, fenced, ranged, retired }
    }

    /// Adds tables to level 0.
    pub(in crate::db) fn level0(family: &'a Family, tables: &[TableMeta]) -> Self {
        let adds = tables.iter().map(|meta| (0, Arc::new(meta.clone()))).collect();
        Replaced::tables(family, Vec::new(), adds)
    }

    /// Returns the smallest and the largest key of the tables to add.
    pub(in crate::db) fn added_keys(&self) -> Option<(&[u8], &[u8])> {
        let (order, metas) = (self.family.order(), || self.adds.iter().map(|(_, meta)| &**meta));
        let smallest = metas().map(|meta| &meta.smallest[..]).min_by(|a, b| order.compare(a, b))?;
        let largest = metas().map(|meta| &meta.largest[..]).max_by(|a, b| order.compare(a, b))?;
        Some((smallest, largest))
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
        let ranged = |range: &Arc<RangeDelete>| EditChange::RangeDeleteAdded { family, range: range.clone() };
        let retired = |seqno: &Seqno| EditChange::RangeDeleteRetired { family, seqno: *seqno };
        let tables = self.removes.iter().map(removed).chain(self.adds.iter().map(added));
        let lost_ranges = self.lifted.iter().map(lifted).chain(self.fenced.iter().map(fenced));
        let range_deletes = self.ranged.iter().map(ranged).chain(self.retired.iter().map(retired));
        tables.chain(lost_ranges).chain(range_deletes).collect()
    }
}

pub(in crate::db) fn added_to(family: &Family, level: usize, meta: &Arc<TableMeta>) -> EditChange {
    EditChange::TableAdded { family: family.id(), level: level as u8, table: meta.clone() }
}
