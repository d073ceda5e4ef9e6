//! Creating and dropping families: one edit each, durable before readers or writers see it.
//!
//! A created family is in the manifest before its first record is in the log. A dropped family leaves the manifest;
//! recovery skips its records that are still in the log, and its tables become obsolete when no version names them. Its
//! id is never reused.
//!
//! Drop:  the family is marked, so that new batches for it are rejected. Then the drop takes a seqno and changes the
//!        configuration epoch at that seqno: a batch that was checked before is either ordered before, or checked again
//!        and rejected. That seqno therefore ends the family's history in the commit order. Rows emitted by its last
//!        records are written, but its data is not. One edit names the rows' tables and drops the family, so an event
//!        is in the event log, or its family still exists.
//! Fails: the mark is removed, and the store is unchanged except for one used seqno.
//! Crash: before the edit the family is complete; after it, the family is gone and its rows exist.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::apart::least_apart;
use super::commit::Moment;
use super::family::{Family, Shape};
use super::install::Replaced;
use super::memory::memtable_bytes_of;
use super::recover::shelf;
use super::rows::{Received, emit_alone, remove_tables, take_given, write_given};
use super::{DEFAULT_FAMILY, Db, Inner, Levels};
use crate::env::work::or_undo;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::names::{is_system_name, system_id};
use crate::options::CfOptions;
use crate::planted::{self, Bug};
use crate::record::Seqno;
use crate::seam::{Deed, Emitted};
use crate::version::{self, Change, Edit};
use crate::wal::Then;

/// Maximum length of a family name, in bytes.
const MAX_NAME_BYTES: usize = 255;

impl Db {
    /// Creates a family. Fails with `Invalid` if the name is taken, empty, longer than 255 bytes, contains a zero byte
    /// or belongs to a system family, or if the options are invalid. The family is durable when the call returns; costs
    /// two fsyncs.
    pub fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        self.create_family_with(name, options, &mut |_| None)
    }

    /// Creates a family and changes the configuration epoch. `rules` receives the family's id once the family is
    /// durable and before it is visible. It returns the new lower half of the epoch, or `None` to keep the current one.
    /// No batch built under the old epoch can thus write to the family. `rules` may list the store's families, and must
    /// make no other call to the store.
    pub fn create_family_with(
        &self,
        name: &str,
        options: CfOptions,
        rules: &mut dyn FnMut(u32) -> Option<u32>,
    ) -> Result<Family> {
        let (inner, log) = self.writable()?;
        options.validate()?;
        check_name(name)?;
        if options.system.is_some() || is_system_name(name) {
            return Err(Error::invalid(format!("{name:?}: system families are made when a store is opened")));
        }
        let _job = inner.job()?;
        let id = inner.families().next_id;
        inner.create_families(vec![(id, name.to_owned(), options)], &mut || {
            if let Some(low) = rules(id) {
                log.wal().set_rules(low);
            }
        })?;
        self.family(name).ok_or_else(|| Error::structural("a family just created is not there"))
    }

    /// Drops a family and all of its data. Fails with `Invalid` if no family has this name, and for `default` and
    /// system families. Remaining handles read no data; files are removed when the last cursor over them is dropped.
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.drop_family_with(name, &mut |_| Vec::new())
    }

    /// Drops a family, and writes rows for other families in the same edit. `rows` is called once, with the drop's
    /// seqno, as soon as the drop's position in the commit order is certain (like `on_ordered` of `commit_under`).
    /// Every operation on the family is older than the rows, and no later operation can reach the family. Rows without
    /// companions get companions. No other operation may write the rows' keys.
    pub fn drop_family_with(&self, name: &str, rows: &mut dyn FnMut(Seqno) -> Vec<Emitted>) -> Result<()> {
        let (inner, _) = self.writable()?;
        if name == DEFAULT_FAMILY || is_system_name(name) {
            return Err(Error::invalid(format!("the family {name:?} cannot be dropped")));
        }
        let _job = inner.job()?;
        inner.drop_family(name, rows)
    }
}

/// Checks a family name. The C interface returns lists of names that end in zero bytes, so a name contains none.
pub(super) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=MAX_NAME_BYTES if !name.contains('\0') => Ok(()),
        _ => Err(Error::invalid(format!("a family name has 1 to {MAX_NAME_BYTES} bytes, none of them zero"))),
    }
}

impl Inner {
    /// Creates the requested families that are missing: user families in one edit, system families in another.
    pub(super) fn create_missing(&self, asked: &[(String, CfOptions)]) -> Result<()> {
        let _job = self.job()?;
        let is_missing = |name: &str| self.families().named(name).is_none();
        let missing: Vec<_> = asked.iter().filter(|(name, _)| is_missing(name)).collect();
        let ids = self.families().next_id..;
        let users = missing.iter().filter(|(_, options)| options.system.is_none());
        let users: Vec<_> = ids.zip(users).map(|(id, (name, options))| (id, name.clone(), options.clone())).collect();
        if !users.is_empty() {
            self.create_families(users, &mut || {})?;
        }
        let system = missing.iter().filter_map(|(name, options)| {
            options.system.map(|number| (system_id(number), name.clone(), options.clone()))
        });
        match system.collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            system => self.create_families(system, &mut || {}),
        }
    }

    /// Creates families in one edit. Calls `before` when creation can no longer fail and the families are not visible
    /// yet.
    fn create_families(&self, asked: Vec<(u32, String, CfOptions)>, before: &mut dyn FnMut()) -> Result<()> {
        let (mut families, mut made) = ((**self.families()).clone(), Vec::new());
        let mut edit = Edit::default();
        for (id, name, options) in asked {
            if families.named(&name).is_some() || families.by_id.contains_key(&id) {
                return Err(Error::invalid(format!("there is a family {name:?} already")));
            }
            let seen_by = (&self.companions, &self.integrity);
            let shared = (&self.cache, &self.dead_files, &self.open_tables);
            let shelf = shelf(&name, &options, shared, seen_by);
            let levels = Arc::new(Levels::empty(options.order.clone()));
            let shape = Shape::of(&self.settings);
            let family = Family::new(id, &name, options.clone(), shape, shelf, levels);
            families.add(family.clone());
            made.push(family);
            if options.system.is_none() {
                families.next_id = id + 1;
            }
            let (comparator, options) = (options.order.name().to_owned(), version::family::encode(&options));
            edit.changes.push(Change::FamilyCreated { id, name, comparator, options });
        }
        self.sync_log()?; // I15
        // Shown only when durable: otherwise a synced commit could name a family that a crash forgets.
        self.install(edit, None)?;
        self.least_apart.fetch_min(least_apart(made.iter()), Ordering::Relaxed);
        or_undo(before, || self.halt_unwound("a family was made that is not shown"));
        self.families.store(Arc::new(families));
        Ok(())
    }

    fn drop_family(&self, name: &str, rows: &mut dyn FnMut(Seqno) -> Vec<Emitted>) -> Result<()> {
        let Some(family) = self.families().named(name).cloned() else {
            return Err(Error::invalid(format!("there is no family {name:?}")));
        };
        // Marked first: a compaction that finishes now finds the mark under the manifest's lock and installs no table.
        family.set_dropped(true);
        if let Err(error) = or_undo(|| self.drop_marked(&family, rows), || family.set_dropped(false)) {
            family.set_dropped(planted::active(Bug::MarkOfADropStays));
            return Err(error);
        }
        let mut families = (**self.families()).clone();
        families.remove(&family);
        self.families.store(Arc::new(families));
        family.view().levels.iter().flat_map(|level| level.tables()).for_each(|table| table.retire());
        let (active, frozen) = memtable_bytes_of(&family);
        family.clear(Arc::new(Levels::empty(family.order().clone())), &self.unsynced);
        self.uncharge(active + frozen);
        self.note_fewer(); // before files are removed: writers may wait for this family's memory
        self.sweep_dead_files();
        Ok(())
    }

    /// Ends the history of a family that is marked as dropped, and makes the drop durable.
    fn drop_marked(&self, family: &Family, rows: &mut dyn FnMut(Seqno) -> Vec<Emitted>) -> Result<()> {
        let then = if planted::active(Bug::RulesStayWhenAFamilyGoes) { Then::Stay } else { Then::NextHigh };
        let started = self.now_nanos();
        let mut added = Vec::new();
        let seqno = self.take_seqno(family, then, |seqno| added = rows(seqno))?;
        let moment = self.sync_log()?; // I15
        let (families, next_file) = (self.families(), || self.new_file_number());
        let level0 = self.level0(&families, &next_file);
        let memtables: Vec<Arc<Memtable>> =
            family.view().frozen.iter().map(|generation| generation.memtable.clone()).collect();
        let memtables = if planted::active(Bug::EventsLostWithTheirFamily) { Vec::new() } else { memtables };
        let mut given = match emit_alone(&level0, family, &memtables) {
            Err(error) if error.is_corruption() => {
                let (fresh, start) = self.records_from_log(family, &memtables, (seqno, moment), error)?;
                let given = emit_alone(&level0, family, &[fresh])?;
                self.tell_redone(&start);
                given
            }
            outcome => outcome?,
        };
        take_given(&*self.companions, &mut given, added)?;
        take_given(&*self.companions, &mut given, self.quarantine_ends(family, "dropped"))?;
        let received = write_given(&level0, given)?;
        let synced = if received.is_empty() { Ok(()) } else { self.sync_dir_before_edit() };
        if let Err(error) = synced {
            received.iter().for_each(|(family, tables)| remove_tables(&level0, family, tables));
            return Err(error);
        }
        self.install_drop(family, &received, (seqno, moment), started)
    }

    fn install_drop(
        &self,
        family: &Family,
        received: &Received,
        (seqno, moment): (Seqno, Moment),
        started: u64,
    ) -> Result<()> {
        let parts: Vec<Replaced<'_>> =
            received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables)).collect();
        let mut edit = Edit::from(parts.iter().flat_map(Replaced::changes).collect::<Vec<_>>());
        edit.changes.push(Change::FamilyDropped { id: family.id() });
        let mut concerned = vec![Replaced::tables(family, family.table_numbers(), Vec::new())];
        concerned.extend(received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables)));
        self.tell(&mut edit, Deed::Dropped, &concerned, None, started);
        let said = self.log_changes(&mut edit, moment, &[(family, seqno)]);
        self.install(edit, parts)?;
        self.end_log_edit(said);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{Parts, visits};
    use crate::env::SimFs;
    use crate::options::{Durability, Settings};
    use crate::record::Kind;

    /// The first segment of the log has records of all families, and of a last one that is never dropped: each drop
    /// asks whether the segment can be retired.
    #[test]
    fn a_drop_does_not_walk_over_all_families() {
        const FAMILIES: u64 = 1_000;
        let sim = SimFs::new(4);
        let settings = Settings { segment_bytes: 64 * 1024, ..Settings::default() };
        let settings = Settings { ring_bytes: 16 * 1024, drain_bytes: 4096, ..settings };
        let parts = Parts { env: sim.env(4), ..Parts::real() };
        let db = Db::open(Path::new("/store"), settings, parts).unwrap();
        let names: Vec<String> = (0..FAMILIES).map(|number| format!("family {number:04}")).collect();
        let put = |name: &str, value: &[u8]| {
            let mut batch = Batch::new();
            let id = db.family(name).unwrap().id();
            batch.push(id, Kind::Put, b"k", value, db.companions()).unwrap();
            db.commit(&mut batch, Durability::Os).unwrap();
        };
        for name in names.iter().map(String::as_str).chain(["the last"]) {
            db.create_family(name, CfOptions::default()).unwrap();
            put(name, b"v");
        }
        while db.inner().log.as_ref().unwrap().wal().oldest_end().is_none() {
            put("default", &[7; 1024]);
            db.step().unwrap();
        }
        visits::take();
        for name in &names {
            db.drop_family(name).unwrap();
        }
        let visited = visits::take();
        assert!(visited < 8 * FAMILIES, "{visited} families visited by {FAMILIES} drops");
        assert!(db.family("the last").is_some());
    }
}
