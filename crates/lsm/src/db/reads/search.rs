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

    /// Notes that a range delete hides the versions of the key below this seqno. If the deciding version is below it,
    /// the key has no value.
    fn hide_below(&mut self, seqno: Seqno);

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
    let hidden = planted!(RangeDeleteForgottenByReads, 0, view.active.range_deleted_at(key, seqno));
    if hidden > 0 {
        return newest_unhidden(view, order, (key, seqno), hidden, search);
    }
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
        None => Ok(view.check_readable().map(|()| false)?),
    }
}

/// As `newest_version`, for a key whose versions below `hidden` are deleted: tables without newer records are not
/// searched, and a lost range matters only if it may have held a newer record.
#[cold]
#[inline(never)]
fn newest_unhidden<S: Search>(
    view: &View,
    order: &Order,
    (key, seqno): (&[u8], Seqno),
    hidden: Seqno,
    search: &mut S,
) -> Result<bool, S::Error> {
    search.hide_below(hidden);
    for generation in view.memtables() {
        if search.in_memtable(generation)? {
            return Ok(true);
        }
    }
    for table in view.levels.holding(key).filter(|table| table.meta().newest_seqno() > hidden) {
        if search.in_table(table)? {
            return Ok(true);
        }
    }
    let may_hold = |lost_range: &&LostRange| lost_range.bound >= hidden && lost_range.may_hide(order, key, seqno);
    match view.lost_ranges.iter().find(may_hold) {
        Some(lost_range) => Err(search.lost(lost_range)),
        None => Ok(view.check_readable().map(|()| false)?),
    }
}
