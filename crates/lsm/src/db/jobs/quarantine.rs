//! Quarantine records: a row for each quarantined table and each lost range, and for its end, in a family that the
//! record protector chooses.
//!
//! In:    tables that are quarantined, freed, or replaced by a repair; lost ranges that are added or removed.
//! Out:   level-0 tables with a row for each, synced and not named yet: the edit that makes the change names them.
//! Holds: damaged data is excluded whether or not its row can be written. If the row cannot be written, the edit goes
//!        ahead without it, and the event log's implementation detects the missing row at the next open. If the name of
//!        a row's table cannot be made durable, the store halts (I09) and the edit fails. The damage then stays on
//!        disk, and reads of it fail.

use super::level0::Level0;
use super::rows::{Received, remove_tables, take_given, write_given};
use crate::compaction::output::EmittedRows;
use crate::db::catalog::Catalog;
use crate::db::catalog::event_log::table_fact;
use crate::db::catalog::view_change::Replaced;
use crate::db::notify::events::Event;
use crate::db::notify::lanes::Lane;
use crate::db::state::family::Family;
use crate::db::writes::write_path::WritePath;
use crate::env::work::lock;
use crate::error::Result;
use crate::lost_range::LostRange;
use crate::planted;
use crate::seam::{Emitted, EngineEvent, Quarantine, Withheld};
use crate::version::{Edit, EditChange, LEVELS};

/// A table by level and number, or a lost range by number.
pub(in crate::db) enum QuarantinedItem<'a> {
    Table(&'a (usize, u64)),
    Span(u64, &'a LostRange),
}

/// Returns the row for an item of a family, if the record protector makes one. Called before the item is removed.
pub(in crate::db) fn quarantine_row(
    catalog: &Catalog,
    family: &Family,
    item: QuarantinedItem<'_>,
    begins: bool,
    how: &'static str,
) -> Option<Emitted> {
    let what = match item {
        QuarantinedItem::Table((level, number)) => {
            Withheld::Table(table_fact(*level, family.pinned_view().levels.get(*level, *number)?.meta()))
        }
        QuarantinedItem::Span(number, lost_range) => Withheld::Span(number, lost_range),
    };
    let seqno = catalog.store_log().visible();
    catalog.events.engine_log()?.quarantined(&Quarantine { family: family.name(), what, begins, how, seqno })
}

/// Returns the rows for all quarantined items of a family that is being dropped.
pub(super) fn quarantine_ends(catalog: &Catalog, family: &Family, how: &'static str) -> Vec<Emitted> {
    let view = family.pinned_view();
    let tables = family.table_numbers();
    let quarantined = catalog.quarantined(&tables);
    let lost_ranges = view
        .lost_range_ids
        .iter()
        .zip(&*view.lost_ranges)
        .map(|(number, lost_range)| QuarantinedItem::Span(*number, lost_range));
    let items = quarantined.map(QuarantinedItem::Table).chain(lost_ranges);
    items.filter_map(|item| quarantine_row(catalog, family, item, false, how)).collect()
}

/// Writes rows to tables of their families; returns none if they cannot be written now.
pub(in crate::db) fn write_quarantine(catalog: &Catalog, rows: Vec<Emitted>) -> Received {
    if planted!(QuarantineNotTold, true, rows.is_empty()) {
        return Vec::new();
    }
    try_write(catalog, rows).unwrap_or_default()
}

fn try_write(catalog: &Catalog, rows: Vec<Emitted>) -> Result<Received> {
    let (families, next_file) = (catalog.families(), || catalog.new_file_number());
    let level0 = Level0::of_store(catalog, &families, &next_file);
    let mut given = EmittedRows::default();
    take_given(&*catalog.context().companions, &mut given, rows)?;
    let received = write_given(&level0, given)?;
    match catalog.store_log().sync_dir_before_edit() {
        Ok(()) => Ok(received),
        Err(error) => {
            received.iter().for_each(|(family, tables)| remove_tables(&level0, family, tables));
            Err(error)
        }
    }
}

/// Quarantines tables, in memory and in the manifest, and reports it.
pub(in crate::db) fn quarantine_tables(write_path: &WritePath, family: &Family, numbers: &[u64]) -> Result<()> {
    // Checked against the manifest, because memory may quarantine tables whose edit failed.
    let is_known = |number: &u64| {
        let manifest = lock(&write_path.catalog().manifest);
        let stored = manifest.as_ref().and_then(|manifest| manifest.state().families.get(&family.id()));
        stored.is_some_and(|family| family.quarantined.contains(number))
    };
    let new: Vec<u64> = numbers.iter().copied().filter(|number| !is_known(number)).collect();
    if new.is_empty() {
        return Ok(());
    }
    write_path.catalog().claims.bar(new.iter().copied());
    write_path.revise_stall();
    let bar = |number: &u64| EditChange::TableQuarantined { family: family.id(), number: *number };
    let mut edit = Edit::from(new.iter().map(bar).collect::<Vec<_>>());
    let level_of = |number: &u64| {
        let view = family.view();
        (0..LEVELS).find(|level| view.levels.get(*level, *number).is_some()).map(|level| (level, *number))
    };
    let concerned = Replaced::tables(family, new.iter().filter_map(level_of).collect(), Vec::new());
    let row = |table| quarantine_row(write_path.catalog(), family, QuarantinedItem::Table(table), true, "barred");
    let received = write_quarantine(write_path.catalog(), concerned.removes.iter().filter_map(row).collect());
    let of_rows = || received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables));
    let parts: Vec<_> = of_rows().collect();
    edit.changes.extend(parts.iter().flat_map(Replaced::changes));
    let touched: Vec<_> = [concerned].into_iter().chain(of_rows()).collect();
    write_path.catalog().log_event(&mut edit, EngineEvent::Barred, &touched, None, write_path.context().now_nanos());
    let outcome = write_path.catalog().install(edit, parts);
    for number in new {
        write_path.notifier().notify(Event::Barred { family: family.name().to_owned(), table: number });
    }
    write_path.lanes().kick(Lane::Compact); // which writes the rows
    outcome
}
