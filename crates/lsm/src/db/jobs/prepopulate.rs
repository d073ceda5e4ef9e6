//! Cache repopulation after a merge: if blocks of the input tables were cached, the output blocks with the same keys
//! are loaded (`sst::table::prepopulate`).
//!
//! In:     the tables of a merge, before and after.
//! Out:    blocks of the new tables in the cache.
//! Order:  the blocks are chosen while the input tables are held, and read after these are released, when their cache
//!         space is free.
//! Errors: none; unreadable blocks are left to readers.

use std::sync::Arc;

use crate::compaction::Stall;
use crate::db::notify::lanes::LaneSignals;
use crate::db::state::family::{Family, TableHandle};
use crate::order::Order;

/// An input table of a compaction, with its level.
pub(super) type Input = (usize, Arc<TableHandle>);

/// Blocks to load into the cache, by table.
#[derive(Default)]
pub(super) struct Prepopulation(Vec<(Arc<TableHandle>, Vec<usize>)>);

impl Prepopulation {
    /// Selects the blocks of the tables with these numbers whose keys were cached in `before`, the input tables with
    /// their levels.
    pub(super) fn of_inputs(family: &Family, (level, numbers): (usize, &[u64]), before: &[Input]) -> Prepopulation {
        let is_cached = |table: &&TableHandle| table.opened().is_some_and(|table| table.has_cached_blocks());
        let mut rows: Vec<TableRun<'_>> = Vec::new();
        for (level, table) in
            before.iter().map(|(level, table)| (*level, &**table)).filter(|(_, table)| is_cached(table))
        {
            match rows.last_mut().filter(|row| row.level == level && level > 0) {
                Some(row) => row.tables.push(table),
                None => rows.push(TableRun { level, tables: vec![table] }),
            }
        }
        if rows.is_empty() {
            return Prepopulation::default();
        }
        let order = family.order();
        rows.iter_mut()
            .for_each(|row| row.tables.sort_by(|a, b| order.compare(&a.meta().smallest, &b.meta().smallest)));
        let levels = family.view().levels.clone();
        let after = numbers.iter().filter_map(|number| levels.get(level, *number));
        let of = |table: &Arc<TableHandle>| {
            let wanted = &mut |key: &[u8]| rows.iter().any(|row| row.is_cached_at(key, order));
            Some((table.clone(), table.table().ok()?.blocks_where(wanted).ok()?))
        };
        Prepopulation(after.filter_map(of).collect())
    }

    /// Loads the blocks into the cache while it has space. Stops when the store closes, or when writers are throttled
    /// and thus wait for the next job.
    pub(in crate::db) fn load(self, lanes: &LaneSignals) {
        let goes_on = || !lanes.is_stopping() && lanes.stall() == Stall::Go;
        for (table, blocks) in self.0 {
            if let Some(table) = table.opened() {
                table.prepopulate(&blocks, &goes_on);
            }
        }
    }
}

/// Tables of one level that do not overlap, in key order; a single table for level 0.
struct TableRun<'a> {
    level: usize,
    tables: Vec<&'a TableHandle>,
}

impl TableRun<'_> {
    fn is_cached_at(&self, key: &[u8], order: &Order) -> bool {
        let at = self.tables.partition_point(|table| order.compare(&table.meta().largest, key).is_lt());
        let table = self.tables.get(at).filter(|table| order.compare(&table.meta().smallest, key).is_le());
        table.and_then(|table| table.opened()).is_some_and(|table| table.is_cached_at(key))
    }
}
