//! Creating, changing and dropping families: one edit each, durable before readers or writers see it.
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

use super::job_lock::Flusher;
use super::level0::Level0;
use super::quarantine::quarantine_ends;
use super::redo::{queue_redone, records_from_log};
use super::rows::{Received, emit_alone, remove_tables, take_given, write_given};
use crate::compaction_filter::CompactionFilter;
use crate::db::catalog::view_change::Replaced;
use crate::db::notify::lanes::Lane;
use crate::db::state::family::{Family, MemtableShape, TableLevels};
use crate::db::state::store_log::LogPosition;
use crate::db::state::tables::table_cache;
use crate::db::writes::commit::TakenFor;
use crate::db::writes::memory::memtable_bytes_of;
use crate::env::work::or_undo;
use crate::error::{Error, Result};
use crate::format_level::FormatLevel;
use crate::memtable::Memtable;
use crate::names::system_id;
use crate::options::CfOptions;
use crate::planted;
use crate::record::Seqno;
use crate::seam::{Emitted, EngineEvent};
use crate::table_property::TableProperty;
use crate::version::{self, Edit, EditChange};
use crate::wal::EpochChange;

/// Creates the requested families that are missing: user families in one edit, system families in another.
pub(in crate::db) fn create_missing(flusher: &Flusher, asked: &[(String, CfOptions)]) -> Result<()> {
    let _job = flusher.job()?;
    let is_missing = |name: &str| flusher.catalog().families().named(name).is_none();
    let missing: Vec<_> = asked.iter().filter(|(name, _)| is_missing(name)).collect();
    let ids = flusher.catalog().families().next_id..;
    let users = missing.iter().filter(|(_, options)| options.system.is_none());
    let users: Vec<_> = ids.zip(users).map(|(id, (name, options))| (id, name.clone(), options.clone())).collect();
    if !users.is_empty() {
        create_families(flusher, users, &mut || {})?;
    }
    let system = missing
        .iter()
        .filter_map(|(name, options)| options.system.map(|number| (system_id(number), name.clone(), options.clone())));
    match system.collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        system => create_families(flusher, system, &mut || {}),
    }
}

/// Creates families in one edit. Calls `before` when creation can no longer fail and the families are not visible
/// yet.
pub(in crate::db) fn create_families(
    flusher: &Flusher,
    asked: Vec<(u32, String, CfOptions)>,
    before: &mut dyn FnMut(),
) -> Result<()> {
    let (mut families, mut made) = ((**flusher.catalog().families()).clone(), Vec::new());
    let mut edit = Edit::default();
    for (id, name, options) in asked {
        if families.named(&name).is_some() || families.by_id.contains_key(&id) {
            return Err(Error::invalid(format!("there is a family {name:?} already")));
        }
        let seen_by = (&flusher.context().companions, &flusher.context().notifier);
        let shared = (&flusher.context().cache, flusher.catalog().obsolete.dead(), &flusher.catalog().open_tables);
        let table_cache = table_cache(&name, &options, shared, seen_by);
        let levels = Arc::new(TableLevels::empty(options.order.clone()));
        let shape = MemtableShape::of(&flusher.context().settings.current(), &families.memtables);
        let clock = flusher.context().env.clock.clone();
        let family = Family::new(id, &name, options.clone(), (shape, clock), table_cache, levels);
        families.add(family.clone());
        made.push(family);
        if options.system.is_none() {
            families.next_id = id + 1;
        }
        edit.changes.extend(version::family::creation(id, name, &options));
    }
    flusher.write_path().sync_log()?; // I15
    // Shown only when durable: otherwise a synced commit could name a family that a crash forgets.
    flusher.catalog().install(edit, None)?;
    flusher.write_path().separation.note_families(made.iter());
    or_undo(before, || flusher.store_log().halt_unwound("a family was made that is not shown"));
    flusher.catalog().families.store(Arc::new(families));
    Ok(())
}

/// Raises the format level of the store.
pub(in crate::db) fn raise_format_level(flusher: &Flusher, level: FormatLevel) -> Result<()> {
    if flusher.catalog().format_level() >= level {
        return Ok(());
    }
    flusher.write_path().sync_log()?; // I15
    flusher.catalog().install(Edit::from(vec![EditChange::FormatLevel(level)]), None)
}

/// Changes the functions of a family; without a filter, the present one stays. Only the name of another filter is
/// written. The blob file that commits write into ends, because it collects properties by the old functions. The caller
/// has checked the functions.
pub(in crate::db) fn change_functions(
    flusher: &Flusher,
    family: &Family,
    filter: Option<CompactionFilter>,
    table_properties: Vec<TableProperty>,
) -> Result<()> {
    if family.is_dropped() {
        return Err(Error::invalid(format!("the family {:?} was dropped", family.name())));
    }
    let now = family.options();
    let own = now.compaction_filter.as_ref().map(CompactionFilter::name);
    if let Some(filter) = filter.as_ref().filter(|filter| own != Some(filter.name())) {
        let change = EditChange::CompactionFilterNamed { family: family.id(), name: filter.name().to_owned() };
        flusher.write_path().sync_log()?; // I15
        flusher.catalog().install(Edit::from(vec![change]), None)?;
    }
    let compaction_filter = filter.or_else(|| now.compaction_filter.clone());
    let options = CfOptions { compaction_filter, table_properties, ..(*now).clone() };
    let separation = &flusher.write_path().separation;
    separation.change_options(flusher.catalog(), family, || family.replace_options(options))?;
    separation.note_options(flusher.catalog().families().all());
    Ok(())
}

/// Changes options of a family. The caller has checked them.
pub(in crate::db) fn change_options(flusher: &Flusher, family: &Family, options: CfOptions) -> Result<()> {
    if family.is_dropped() {
        return Err(Error::invalid(format!("the family {:?} was dropped", family.name())));
    }
    let options = family.with_fixed_options(options);
    let change = EditChange::OptionsChanged { family: family.id(), options: version::family::encode(&options) };
    flusher.write_path().sync_log()?; // I15
    flusher.catalog().install(Edit::from(vec![change]), None)?;
    family.replace_options(options);
    flusher.write_path().separation.note_options(flusher.catalog().families().all());
    flusher.write_path().revise_stall();
    flusher.lanes().kick(Lane::Compact); // which may have more to do
    Ok(())
}

pub(in crate::db) fn drop_family(
    flusher: &Flusher,
    name: &str,
    rows: &mut dyn FnMut(Seqno) -> Vec<Emitted>,
) -> Result<()> {
    let Some(family) = flusher.catalog().families().named(name).cloned() else {
        return Err(Error::invalid(format!("there is no family {name:?}")));
    };
    // Marked first: a compaction that finishes now finds the mark under the manifest's lock and installs no table.
    family.set_dropped(true);
    if let Err(error) = or_undo(|| drop_marked(flusher, &family, rows), || family.set_dropped(false)) {
        family.set_dropped(planted!(MarkOfADropStays, true, false));
        return Err(error);
    }
    // Retired first, so that its tables are at any time those of a family or obsolete files.
    family.view().levels.iter().flat_map(|level| level.tables()).for_each(|table| table.retire());
    let mut families = (**flusher.catalog().families()).clone();
    families.remove(&family);
    flusher.catalog().families.store(Arc::new(families));
    let (active, frozen) = memtable_bytes_of(&family);
    family.clear(Arc::new(TableLevels::empty(family.order().clone())), flusher.write_path().separation.unsynced());
    flusher.write_path().memory.uncharge(flusher.context(), active + frozen);
    flusher.write_path().note_fewer(); // before files are removed: writers may wait for this family's memory
    flusher.catalog().remove_obsolete_files();
    Ok(())
}

/// Ends the history of a family that is marked as dropped, and makes the drop durable.
fn drop_marked(flusher: &Flusher, family: &Family, rows: &mut dyn FnMut(Seqno) -> Vec<Emitted>) -> Result<()> {
    let then = planted!(RulesStayWhenAFamilyGoes, EpochChange::Stay, EpochChange::NextHigh);
    let started = flusher.context().now_nanos();
    let mut added = Vec::new();
    let seqno = flusher.write_path().take_seqno(&[family], (then, TakenFor::Edit), |seqno| added = rows(seqno))?;
    let moment = flusher.write_path().sync_log()?; // I15
    let (families, next_file) = (flusher.catalog().families(), || flusher.catalog().new_file_number());
    let level0 = Level0::of_store(flusher.catalog(), &families, &next_file);
    let memtables: Vec<Arc<Memtable>> =
        family.view().frozen.iter().map(|generation| generation.memtable.clone()).collect();
    planted!(EventsLostWithTheirFamily => let memtables = Vec::new());
    let mut given = match emit_alone(&level0, family, &memtables) {
        Err(error) if error.is_corruption() => {
            let (fresh, start) = records_from_log(flusher.catalog(), family, &memtables, (seqno, moment), error)?;
            let given = emit_alone(&level0, family, &[fresh])?;
            queue_redone(flusher.catalog(), &start);
            given
        }
        outcome => outcome?,
    };
    take_given(&*flusher.context().companions, &mut given, added)?;
    take_given(&*flusher.context().companions, &mut given, quarantine_ends(flusher.catalog(), family, "dropped"))?;
    let received = write_given(&level0, given)?;
    let synced = if received.is_empty() { Ok(()) } else { flusher.store_log().sync_dir_before_edit() };
    if let Err(error) = synced {
        received.iter().for_each(|(family, tables)| remove_tables(&level0, family, tables));
        return Err(error);
    }
    install_drop(flusher, family, &received, (seqno, moment), started)
}

fn install_drop(
    flusher: &Flusher,
    family: &Family,
    received: &Received,
    (seqno, moment): (Seqno, LogPosition),
    started: u64,
) -> Result<()> {
    let parts: Vec<Replaced<'_>> =
        received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables)).collect();
    let mut edit = Edit::from(parts.iter().flat_map(Replaced::changes).collect::<Vec<_>>());
    edit.changes.push(EditChange::FamilyDropped { id: family.id() });
    edit.changes.extend(flusher.catalog().feed.dropped(family, seqno));
    let mut concerned = vec![Replaced::tables(family, family.table_numbers(), Vec::new())];
    concerned.extend(received.iter().map(|(receiver, tables)| Replaced::level0(receiver, tables)));
    flusher.catalog().log_event(&mut edit, EngineEvent::Dropped, &concerned, None, started);
    let log_edit = flusher.write_path().log_changes(&mut edit, moment, &[(family, seqno)]);
    flusher.catalog().install(edit, parts)?;
    flusher.write_path().end_log_edit(log_edit);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::Batch;
    use crate::db::catalog::visits;
    use crate::db::{Db, Parts};
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
        while db.inner().store_log().log().unwrap().wal().oldest_end().is_none() {
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
