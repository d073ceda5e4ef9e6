//! Quarantine records: a row for each quarantined table and each lost range, and for its end, in a family that the
//! record protector chooses.
//!
//! In:    tables that are quarantined, freed, or replaced by a repair; lost ranges that are added or removed.
//! Out:   level-0 tables with a row for each, synced and not named yet: the edit that makes the change names them.
//! Holds: damaged data is excluded whether or not its row can be written. If the row cannot be written, the edit goes
//!        ahead without it, and the event log's implementation detects the missing row at the next open. If the name of
//!        a row's table cannot be made durable, the store halts (I09) and the edit fails. The damage then stays on
//!        disk, and reads of it fail.

use super::chronicle::fact;
use super::family::Family;
use super::rows::{Received, remove_tables, take_given, write_given};
use super::{Db, Inner};
use crate::compaction::output::Given;
use crate::error::Result;
use crate::fence::Fence;
use crate::planted::{self, Bug};
use crate::seam::{Emitted, Quarantine, Withheld};

/// A table by level and number, or a lost range by number.
pub(super) enum Item<'a> {
    Table(&'a (usize, u64)),
    Span(u64, &'a Fence),
}

impl Db {
    /// Passes all current quarantined tables and lost ranges of all families to `see`, each as beginning with the cause
    /// `found`.
    pub fn quarantines(&self, see: &mut dyn FnMut(&Quarantine<'_>)) {
        let inner = self.inner();
        for family in inner.families().by_id.values() {
            let (view, seqno) = (family.pinned_view(), inner.visible());
            let mut show = |what| see(&Quarantine { family: family.name(), what, begins: true, how: "found", seqno });
            for (level, number) in inner.barred_of(&family.table_numbers()) {
                if let Some(table) = view.levels.get(*level, *number) {
                    show(Withheld::Table(fact(*level, table.meta())));
                }
            }
            view.fence_ids.iter().zip(&*view.fences).for_each(|(number, fence)| show(Withheld::Span(*number, fence)));
        }
    }
}

impl Inner {
    /// Returns the row for an item of a family, if the record protector makes one. Called before the item is removed.
    pub(super) fn quarantine_row(
        &self,
        family: &Family,
        item: Item<'_>,
        begins: bool,
        how: &'static str,
    ) -> Option<Emitted> {
        let what = match item {
            Item::Table((level, number)) => {
                Withheld::Table(fact(*level, family.pinned_view().levels.get(*level, *number)?.meta()))
            }
            Item::Span(number, fence) => Withheld::Span(number, fence),
        };
        let seqno = self.visible();
        self.book.keeper()?.quarantined(&Quarantine { family: family.name(), what, begins, how, seqno })
    }

    /// Returns the rows for all quarantined items of a family that is being dropped.
    pub(super) fn quarantine_ends(&self, family: &Family, how: &'static str) -> Vec<Emitted> {
        let view = family.pinned_view();
        let tables = family.table_numbers();
        let barred = self.barred_of(&tables);
        let fences = view.fence_ids.iter().zip(&*view.fences).map(|(number, fence)| Item::Span(*number, fence));
        let items = barred.map(Item::Table).chain(fences);
        items.filter_map(|item| self.quarantine_row(family, item, false, how)).collect()
    }

    /// Returns the quarantined tables among these, by level and number.
    pub(super) fn barred_of<'a>(&self, tables: &'a [(usize, u64)]) -> impl Iterator<Item = &'a (usize, u64)> {
        tables.iter().filter(|(_, number)| self.compactions.bars_any([*number].into_iter()))
    }

    /// Writes rows to tables of their families; returns none if they cannot be written now.
    pub(super) fn write_quarantine(&self, rows: Vec<Emitted>) -> Received {
        if rows.is_empty() || planted::active(Bug::QuarantineNotTold) {
            return Vec::new();
        }
        self.try_write(rows).unwrap_or_default()
    }

    fn try_write(&self, rows: Vec<Emitted>) -> Result<Received> {
        let (families, next_file) = (self.families(), || self.new_file_number());
        let level0 = self.level0(&families, &next_file);
        let mut given = Given::default();
        take_given(&*self.companions, &mut given, rows)?;
        let received = write_given(&level0, given)?;
        match self.sync_dir_before_edit() {
            Ok(()) => Ok(received),
            Err(error) => {
                received.iter().for_each(|(family, tables)| remove_tables(&level0, family, tables));
                Err(error)
            }
        }
    }
}
