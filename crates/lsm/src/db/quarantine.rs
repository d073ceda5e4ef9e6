//! Quarantine: of each bar and each fence, and of its end, a row is kept in a family of the keeper's choice.
//!
//! In:     tables that are barred, are so no longer, or were replaced by a repair; fences that begin or end.
//! Out:    tables of level 0 with a row of each, synced and not named yet: the edit that makes it true names them.
//! Holds:  what is damaged goes out of reach whether or not a row of it can be written. Where none can, the edit goes without, and
//!         whoever keeps the chronicle sees at the next open what is missing. Where a row's table cannot get a durable name the store halts (I09)
//!         and the edit is refused with it: then the damage stays where it is on disk, and reads of it answer so.

use super::chronicle::fact;
use super::family::Family;
use super::rows::{Received, remove_tables, take_given, write_given};
use super::{Db, Inner};
use crate::compaction::output::Given;
use crate::error::Result;
use crate::fence::Fence;
use crate::planted::{self, Bug};
use crate::seam::{Emitted, Quarantine, Withheld};

/// A table by level and number, or a fence by number.
pub(super) enum Item<'a> {
    Table(&'a (usize, u64)),
    Span(u64, &'a Fence),
}

impl Db {
    /// Shows everything that is barred or fenced now, of all families, as begun by being `found`.
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
    /// The row that tells of an item of a family, if the keeper wants one. Asked before the item goes.
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

    /// The rows of everything in a family that is in quarantine and goes with it.
    pub(super) fn quarantine_ends(&self, family: &Family, how: &'static str) -> Vec<Emitted> {
        let view = family.pinned_view();
        let tables = family.table_numbers();
        let barred = self.barred_of(&tables);
        let fences = view.fence_ids.iter().zip(&*view.fences).map(|(number, fence)| Item::Span(*number, fence));
        let items = barred.map(Item::Table).chain(fences);
        items.filter_map(|item| self.quarantine_row(family, item, false, how)).collect()
    }

    /// Those of these tables, by level and number, that are barred.
    pub(super) fn barred_of<'a>(&self, tables: &'a [(usize, u64)]) -> impl Iterator<Item = &'a (usize, u64)> {
        tables.iter().filter(|(_, number)| self.compactions.bars_any([*number].into_iter()))
    }

    /// Rows as tables of their families; none if they cannot be written now.
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
