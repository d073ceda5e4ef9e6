//! Installs edits: makes them durable, then visible to readers (I04). Files that become obsolete are removed elsewhere
//! (`obsolete_files.rs`).
//!
//! Edits and views change in the same order, under the manifest's lock, which no reader takes (I14).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Catalog;
use super::event_log::number_events;
use super::view_change::Replaced;
use crate::db::state::family::TableHandle;
use crate::env::work::{lock, or_undo};
use crate::error::{Error, Result};
use crate::format_level::FormatLevel;
use crate::inject;
use crate::names::{StoreFileName, system_number};
use crate::planted;
use crate::values::BlobRef;
use crate::version::{Edit, EditChange, TableMeta};

impl Catalog {
    /// Makes an edit durable, then visible to readers (I04). Edits and views change in the same order. If the edit
    /// fails, the files that it would have named are removed, unless the edit may have reached the disk.
    pub(in crate::db) fn install<'a>(
        &self,
        mut edit: Edit,
        replaced: impl IntoIterator<Item = Replaced<'a>>,
    ) -> Result<()> {
        let replaced: Vec<Replaced<'_>> = replaced.into_iter().collect();
        let mut guard = lock(&self.manifest);
        let Some(manifest) = guard.as_mut() else { return Err(Error::closed()) };
        let outcome =
            self.store_log().check_halted().and_then(|()| match replaced.iter().any(|part| part.family.is_dropped()) {
                true => Err(Error::invalid("the family was dropped meanwhile")),
                false => Ok(()),
            });
        // The tables of a level change only under this lock: a change that fits now still fits when it becomes visible.
        let fits = |part: &Replaced<'_>| part.family.view().levels.check(&part.removes, &part.adds);
        let outcome = outcome.and_then(|()| replaced.iter().try_for_each(fits));
        let outcome = outcome.and_then(|()| manifest.state().check_level(&edit.changes));
        let outcome = outcome.and_then(|()| {
            let created = edit.changes.iter().filter_map(|change| match change {
                EditChange::FamilyCreated { id, .. } if system_number(*id).is_none() => Some(id + 1),
                _ => None,
            });
            edit.changes.push(EditChange::Counters {
                next_family: created.max().unwrap_or(self.families().next_id),
                next_file: self.next_file.load(Ordering::Relaxed),
                last_seqno: self.store_log().visible(),
            });
            number_events(&mut edit, manifest.state());
            planted!(LineInOtherEdit => {
                let lines = super::event_log::split_events(&mut edit);
                return manifest.append(&edit).and_then(|()| manifest.append(&lines));
            });
            manifest.append(&edit)
        });
        if let Err(error) = outcome {
            if manifest.has_ended() {
                return Err(self.store_log().halt(error));
            }
            replaced.iter().for_each(|part| self.remove_unnamed(part));
            return Err(error);
        }
        // Readers must see the manifest's state; if the view cannot be changed, the store halts.
        let half_shown = || self.store_log().halt_unwound("an edit was shown that is durable");
        or_undo(|| self.show_all(&replaced), half_shown).map_err(|error| self.store_log().halt(error))?;
        self.note_format_level(manifest.state().format_level);
        self.feed.show(manifest.state());
        self.events.show(&manifest.state().lines); // after the rows that the removed entries became
        if manifest.is_full(self.context().settings.current().manifest_bytes) {
            match manifest.rotate(self.new_file_number(), &self.context().left) {
                Ok(()) => self.context().counters.rotated(),
                Err(error) if manifest.has_ended() => drop(self.store_log().halt(error)),
                Err(_) => {} // no space for a fresh one: continue with the old one
            }
        }
        let tables = manifest.state().tables();
        drop(guard);
        if let Some(files) = self.open_tables.outgrown(tables) {
            self.context().env.fs.expect_open(&self.context().dir, files as u64);
        }
        Ok(())
    }

    /// Writes the manifest anew: it keeps no edits of before, nor the keys in them. Errors: `Io`; the old manifest remains in
    /// use then, unless the store halts.
    pub(in crate::db) fn rotate_manifest(&self) -> Result<()> {
        let mut guard = lock(&self.manifest);
        let manifest = guard.as_mut().ok_or_else(Error::closed)?;
        match manifest.rotate(self.new_file_number(), &self.context().left) {
            Ok(()) => self.context().counters.rotated(),
            Err(error) if manifest.has_ended() => return Err(self.store_log().halt(error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the format level of the store.
    pub(in crate::db) fn format_level(&self) -> FormatLevel {
        FormatLevel::numbered(self.format_level.load(Ordering::Acquire))
    }

    /// Makes a format level that the manifest records the current one.
    pub(in crate::db) fn note_format_level(&self, level: FormatLevel) {
        self.format_level.fetch_max(level.number(), Ordering::Release);
    }

    /// Shows the rows first, then removes the memtable of the family that emitted them. A reader that reads that family
    /// and then the rows finds every event, possibly in both places.
    fn show_all(&self, replaced: &[Replaced<'_>]) -> Result<()> {
        let is_last =
            |part: &&Replaced<'_>| planted!(EmittedRowsShownLate, part.flushed.is_none(), part.flushed.is_some());
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
            handle.unwrap_or_else(|| TableHandle::new(meta.clone(), family.table_cache().clone()))
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
        family.install(Arc::new(levels), &replaced.delta());
        adds.iter().for_each(|(_, table)| table.shown());
        // Removed tables leave quarantine: the edit deletes them, or adds them again as free tables.
        replaced.removes.iter().for_each(|(_, number)| self.claims.unbar(*number));
        Ok(())
    }

    fn remove_unnamed(&self, replaced: &Replaced<'_>) {
        let blob_files = replaced.family.table_cache().values();
        for (_, meta) in &replaced.adds {
            if !replaced.removes.iter().any(|(_, number)| *number == meta.number) {
                self.context().remove_file(StoreFileName::Table(meta.number));
                // Files that other tables name existed before this edit.
                let is_new = |values: &&BlobRef| {
                    blob_files.is_some_and(|blob_files| blob_files.find(&values.file.uid).is_none())
                };
                for values in meta.values.iter().filter(is_new) {
                    self.context().remove_file(StoreFileName::Values(values.file.number));
                }
            }
        }
    }
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
        let number = inner.catalog().new_file_number();
        let meets = Arc::new(TableMeta { number, ..(**there).clone() });
        let gone = vec![(level, number)];
        for (removes, adds) in [(Vec::new(), vec![(level, meets)]), (gone, Vec::new())] {
            let replaced = Replaced::tables(&family, removes, adds);
            let edit = Edit::from(replaced.changes());
            assert!(inner.catalog().install(edit, [replaced]).unwrap_err().is_corruption());
            let tables = lock(&inner.catalog().manifest).as_ref().unwrap().state().families[&family.id()].tables.len();
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
