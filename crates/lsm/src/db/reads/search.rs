//! The order in which a read looks for a key, written once.

use std::sync::Arc;

use crate::db::state::family::{Generation, TableHandle, View};
use crate::error::Error;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::planted;
use crate::record::Seqno;

/// One kind of search: how it looks into memtables and tables, and what it makes of a lost range.
pub(in crate::db) trait Search {
    /// The error of a search.
    type Error: From<Error>;

    /// Looks for the key in a memtable; returns true if it holds the deciding version.
    fn in_memtable(&mut self, generation: &Generation) -> Result<bool, Self::Error>;

    /// Prefetches memory for the search of the next table, before the current table is searched.
    #[inline]
    fn prefetch(&mut self, _table: &TableHandle) {}

    /// Looks for the key in a table; returns true if it holds the deciding version.
    fn in_table(&mut self, table: &Arc<TableHandle>) -> Result<bool, Self::Error>;

    /// Returns the error for a key that no table holds, but that a lost range may have held.
    fn lost(&mut self, lost_range: &LostRange) -> Self::Error;
}

/// Searches a view for the newest version of a key at or below a seqno: the memtables, then the tables that may hold
/// the key, newest first. The first hit decides. Without a hit, a lost range that may have held the key is an error.
/// Returns true after a hit.
#[inline]
pub(in crate::db) fn newest_version<S: Search>(
    view: &View,
    order: &Order,
    (key, seqno): (&[u8], Seqno),
    search: &mut S,
) -> Result<bool, S::Error> {
    let frozen = planted!(FrozenMemtableSkipped, &[][..], &view.frozen[..]);
    for generation in [&view.active].into_iter().chain(frozen) {
        if search.in_memtable(generation)? {
            return Ok(true);
        }
    }
    if view.levels.tables() > 0 {
        let mut holding = view.levels.holding(key);
        let mut before: Option<&Arc<TableHandle>> = None;
        loop {
            let next = holding.next();
            if let Some(table) = next {
                search.prefetch(table);
            }
            if let Some(table) = before
                && search.in_table(table)?
            {
                return Ok(true);
            }
            before = next;
            if before.is_none() {
                break;
            }
        }
    }
    match view.lost_ranges.iter().find(|lost_range| lost_range.may_hide(order, key, seqno)) {
        Some(lost_range) => Err(search.lost(lost_range)),
        None => Ok(view.check_open().map(|()| false)?),
    }
}
