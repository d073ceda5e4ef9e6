//! Installs edits: makes them durable, then visible to readers (I04). Files that become obsolete are removed elsewhere
//! (`sweep.rs`).
//!
//! Edits and views change in the same order, under the manifest's lock, which no reader takes (I14).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::family::Family;
use super::{Inner, TableHandle, chronicle};
use crate::env::work::{lock, or_undo};
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::inject;
use crate::names::{Name, system_number};
use crate::planted::{self, Bug};
use crate::record::Seqno;
use crate::values::ValueRef;
use crate::version::{Change, Edit, TableMeta};

impl Inner {
    /// Makes an edit durable, then visible to readers (I04). Edits and views change in the same order. If the edit
    /// fails, the files that it would have named are removed, unless the edit may have reached the disk.
    pub(super) fn install<'a>(&self, mut edit: Edit, replaced: impl IntoIterator<Item = Replaced<'a>>) -> Result<()> {
        let replaced: Vec<Replaced<'_>> = replaced.into_iter().collect();
        let mut guard = lock(&self.manifest);
        let Some(manifest) = guard.as_mut() else { return Err(Error::closed()) };
        let outcome = self.check_halted().and_then(|()| match replaced.iter().any(|part| part.family.is_dropped()) {
            true => Err(Error::invalid("the family was dropped meanwhile")),
            false => Ok(()),
        });
        // The tables of a level change only under this lock: a change that fits now still fits when it becomes visible.
        let fits = |part: &Replaced<'_>| part.family.view().levels.check(&part.removes, &part.adds);
        let outcome = outcome.and_then(|()| replaced.iter().try_for_each(fits));
        let outcome = outcome.and_then(|()| {
            let created = edit.changes.iter().filter_map(|change| match change {
                Change::FamilyCreated { id, .. } if system_number(*id).is_none() => Some(id + 1),
                _ => None,
            });
            edit.changes.push(Change::Counters {
                next_family: created.max().unwrap_or(self.families().next_id),
                next_file: self.next_file.load(Ordering::Relaxed),
                last_seqno: self.visible(),
            });
            chronicle::number(&mut edit, manifest.state());
            if planted::active(Bug::LineInOtherEdit) {
                let lines = chronicle::set_apart(&mut edit);
                return manifest.append(&edit).and_then(|()| manifest.append(&lines));
            }
            manifest.append(&edit)
        });
        if let Err(error) = outcome {
            if manifest.has_ended() {
                return Err(self.halt(error));
            }
            replaced.iter().for_each(|part| self.remove_unnamed(part));
            return Err(error);
        }
        // Readers must see the manifest's state; if the view cannot be changed, the store halts.
        let half_shown = || self.halt_unwound("an edit was shown that is durable");
        or_undo(|| self.show_all(&replaced), half_shown).map_err(|error| self.halt(error))?;
        self.book.show(&manifest.state().lines); // after the rows that the removed entries became
        if manifest.is_full(self.settings.manifest_bytes) {
            match manifest.rotate(self.new_file_number()) {
                Ok(()) => self.counters.rotated(),
                Err(error) if manifest.has_ended() => drop(self.halt(error)),
                Err(_) => {} // no space for a fresh one: continue with the old one
            }
        }
        let tables = manifest.state().tables();
        drop(guard);
        if let Some(files) = self.open_tables.outgrown(tables) {
            self.env.fs.expect_open(&self.dir, files as u64);
        }
        Ok(())
    }

    /// Shows the rows first, then removes the memtable of the family that emitted them. A reader that reads that family
    /// and then the rows finds every event, possibly in both places.
    fn show_all(&self, replaced: &[Replaced<'_>]) -> Result<()> {
        let is_last = |part: &&Replaced<'_>| part.flushed.is_some() != planted::active(Bug::EmittedRowsShownLate);
        replaced.iter().filter(|part| !is_last(part)).try_for_each(|part| self.show(part))?;
        inject::half_shown();
        replaced.iter().filter(is_last).try_for_each(|part| self.show(part))
    }

    /// Switches the view of a family to the manifest's current state.
    fn show(&self, replaced: &Replaced<'_>) -> Result<()> {
        let family = replaced.family;
        let view = family.pinned_view();
        // A table that only moves keeps its handle, and with it its open file and cached blocks.
        let handle_of = |meta: &Arc<TableMeta>| {
            let moved = replaced.removes.iter().find(|(_, number)| *number == meta.number);
            let handle = moved.and_then(|(level, number)| view.levels.get(*level, *number).cloned());
            handle.unwrap_or_else(|| TableHandle::new(meta.clone(), family.shelf().clone()))
        };
        let adds: Vec<_> = replaced.adds.iter().map(|(level, meta)| (*level, handle_of(meta))).collect();
        let levels = view.levels.apply(&replaced.removes, &adds)?;
        for (level, number) in &replaced.removes {
            if !replaced.adds.iter().any(|(_, meta)| meta.number == *number)
                && let Some(gone) = view.levels.get(*level, *number)
            {
                gone.retire();
            }
        }
        family.install_fenced(Arc::new(levels), replaced.flushed, &replaced.lifted, &replaced.fenced);
        // Removed tables leave quarantine: the edit deletes them, or adds them again as free tables.
        replaced.removes.iter().for_each(|(_, number)| self.compactions.unbar(*number));
        Ok(())
    }

    fn remove_unnamed(&self, replaced: &Replaced<'_>) {
        let shelf = replaced.family.shelf().values();
        for (_, meta) in &replaced.adds {
            if !replaced.removes.iter().any(|(_, number)| *number == meta.number) {
                let _ = self.env.fs.remove(&self.path(Name::Table(meta.number)));
                // Files that other tables name existed before this edit.
                let is_new = |values: &&ValueRef| shelf.is_some_and(|shelf| shelf.find(&values.file.uid).is_none());
                for values in meta.values.iter().filter(is_new) {
                    let _ = self.env.fs.remove(&self.path(Name::Values(values.file.number)));
                }
            }
        }
    }
}

/// The changes that an edit makes to one family's view.
pub(super) struct Replaced<'a> {
    pub(super) family: &'a Family,
    /// Tables to remove: level and number.
    pub(super) removes: Vec<(usize, u64)>,
    /// Tables to add, with their level.
    pub(super) adds: Vec<(usize, Arc<TableMeta>)>,
    /// Memtables frozen up to this seqno are in tables now.
    pub(super) flushed: Option<Seqno>,
    /// Lost ranges to remove.
    pub(super) lifted: Vec<u64>,
    /// Lost ranges to add.
    pub(super) fenced: Vec<(u64, Arc<Fence>)>,
}

impl<'a> Replaced<'a> {
    /// Exchanges tables.
    pub(super) fn tables(family: &'a Family, removes: Vec<(usize, u64)>, adds: Vec<(usize, Arc<TableMeta>)>) -> Self {
        Replaced { family, removes, adds, flushed: None, lifted: Vec::new(), fenced: Vec::new() }
    }

    /// Adds tables to level 0.
    pub(super) fn level0(family: &'a Family, tables: &[TableMeta]) -> Self {
        let adds = tables.iter().map(|meta| (0, Arc::new(meta.clone()))).collect();
        Replaced::tables(family, Vec::new(), adds)
    }

    /// Returns the same changes for the manifest. `flushed` is added by the caller, which knows the log's position.
    pub(super) fn changes(&self) -> Vec<Change> {
        let family = self.family.id();
        let removed =
            |(level, number): &(usize, u64)| Change::TableRemoved { family, level: *level as u8, number: *number };
        let added = |(level, meta): &(usize, Arc<TableMeta>)| added_to(self.family, *level, meta);
        let lifted = |id: &u64| Change::FenceLifted { family, id: *id };
        let fenced = |(id, fence): &(u64, Arc<Fence>)| Change::FenceAdded { family, id: *id, fence: fence.clone() };
        let tables = self.removes.iter().map(removed).chain(self.adds.iter().map(added));
        tables.chain(self.lifted.iter().map(lifted)).chain(self.fenced.iter().map(fenced)).collect()
    }
}

pub(super) fn added_to(family: &Family, level: usize, meta: &Arc<TableMeta>) -> Change {
    Change::TableAdded { family: family.id(), level: level as u8, table: meta.clone() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{At, Db, Parts};
    use crate::env::SimFs;
    use crate::options::{Durability, Settings};
    use crate::record::Kind;
    use crate::version::LEVELS;

    #[test]
    fn an_edit_that_readers_could_not_be_shown_is_not_written() {
        let sim = SimFs::new(1);
        let open = || Db::open(Path::new("/store"), Settings::default(), Parts { env: sim.env(1), ..Parts::real() });
        let db = open().unwrap();
        let family = db.family("default").unwrap();
        let mut batch = Batch::new();
        for key in [b"a", b"m"] {
            batch.push(family.id(), Kind::Put, key, b"1", db.companions()).unwrap();
        }
        db.commit(&mut batch, Durability::Os).unwrap();
        db.compact(&family, &(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)).unwrap();
        let inner = db.inner();
        let view = family.pinned_view();
        let level = (1..LEVELS).find(|level| !view.levels.level(*level).tables().is_empty()).unwrap();
        let there = view.levels.level(level).tables()[0].meta();
        let number = inner.new_file_number();
        let meets = Arc::new(TableMeta { number, ..(**there).clone() });
        let gone = vec![(level, number)];
        for (removes, adds) in [(Vec::new(), vec![(level, meets)]), (gone, Vec::new())] {
            let replaced = Replaced::tables(&family, removes, adds);
            let edit = Edit::from(replaced.changes());
            assert!(inner.install(edit, [replaced]).unwrap_err().is_corruption());
            let tables = lock(&inner.manifest).as_ref().unwrap().state().families[&family.id()].tables.len();
            assert_eq!(tables, 1, "the manifest");
        }
        batch.clear();
        batch.push(family.id(), Kind::Put, b"z", b"1", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        drop((view, family));
        db.close().unwrap();
        let db = open().unwrap();
        let mut found = 0;
        for key in [b"a", b"m", b"z"] {
            db.get(&db.family("default").unwrap(), key, At::Latest, &mut |_| found += 1).unwrap();
        }
        assert_eq!(found, 3);
    }
}
