//! The parameters of passes that write to level 0: flushes, rows of other families, and recovery. Also the reads of
//! other families that the record protector makes while such a pass emits rows.
//!
//! In:    the families as the flush or the recovery holds them, their memtables and tables.
//! Out:   of a lookup: the newest value of one key, verified like any read; an error if the deciding record may be
//!        lost.
//! Holds: no lock is taken, so a flush may call it with any lock held.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::checksum::{Uid, hash_key};
use crate::compaction::output::CompactionJob;
use crate::compaction::{IoPriority, UnsyncedTables, WriteRate};
use crate::db::catalog::{Catalog, FamilyMap};
use crate::db::reads::search::{Search, newest_version};
use crate::db::state::family::{Family, Generation, TableHandle, View};
use crate::env::Env;
use crate::error::{Damage, Error, Result, Verdict};
use crate::ledger::Ledger;
use crate::left_files::LeftFiles;
use crate::lost_range::LostRange;
use crate::options::Compression;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::{Companions, Emitting, Lookup, is_over};
use crate::sst::Checks;
use crate::values::BlobBuffer;

/// The parameters of a flush; also used by recovery, before the store exists.
pub(in crate::db) struct Level0<'a> {
    pub(in crate::db) env: &'a Env,
    pub(in crate::db) dir: &'a Path,
    /// Knows the files that could not be removed.
    pub(in crate::db) left: &'a LeftFiles,
    pub(in crate::db) store: Option<Uid>,
    pub(in crate::db) companions: &'a Arc<dyn Companions>,
    /// The families that may receive rows.
    pub(in crate::db) families: &'a FamilyMap,
    pub(in crate::db) next_file: &'a (dyn Fn() -> u64 + Sync),
    pub(in crate::db) cancelled: &'a AtomicBool,
    pub(in crate::db) snapshots: Vec<Seqno>,
    /// Limits the write rate.
    pub(in crate::db) pace: Option<&'a WriteRate>,
    /// Collects unsynced tables; `None` syncs each table when it is finished.
    pub(in crate::db) unsynced: Option<&'a UnsyncedTables>,
}

impl<'s> Level0<'s> {
    /// Returns the parameters of a flush of this store.
    pub(super) fn of_store(
        catalog: &'s Catalog,
        families: &'s FamilyMap,
        next_file: &'s (dyn Fn() -> u64 + Sync),
    ) -> Level0<'s> {
        Level0 {
            env: &catalog.context().env,
            dir: &catalog.context().dir,
            left: &catalog.context().left,
            store: Some(catalog.context().store),
            companions: &catalog.context().companions,
            families,
            next_file,
            cancelled: &catalog.lanes().stopping,
            snapshots: catalog.snapshots.boundaries(),
            pace: Some(&catalog.context().pace),
            unsynced: None,
        }
    }

    /// Returns the context that the record protector gets for a flushed family.
    pub(super) fn emitting<'a>(&'a self, family: &'a Family) -> Emitting<'a> {
        Emitting { id: family.id(), name: family.name(), lookup: self }
    }

    pub(in crate::db) fn job<'a>(
        &'a self,
        family: &'a Family,
        base_seqno: Seqno,
        expected: Ledger,
    ) -> CompactionJob<'a> {
        let options = family.options();
        CompactionJob {
            env: self.env,
            dir: self.dir,
            left: self.left,
            store: self.store,
            companions: self.companions,
            family: family.id(),
            compression: Compression::None,
            filter_bits: options.filter_bits_above(family.view().levels.filled().count()),
            options,
            dictionary: None,
            base_seqno,
            next_file: self.next_file,
            cancelled: self.cancelled,
            expected,
            summed: true,
            values: family.table_cache().values(),
            pace: self.pace.map(|pace| (pace, IoPriority::Flush)),
            unsynced: self.unsynced,
        }
    }
}

impl Lookup for Level0<'_> {
    fn get(&self, family: u32, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(family) = self.families.by_id.get(&family) else { return Ok(false) };
        let (mut pointed, view) = (None, family.view());
        let mut room = BlobBuffer::default();
        let found = self.get_in(&view, key, &mut |record| match record.kind {
            Kind::BlobPointer => pointed = Some(record.value.to_vec()),
            _ => visit(record.value),
        });
        let found = match (found, &pointed, &view.values) {
            (Ok(true), Some(pointer), Some(blob_files)) => {
                let record = Record { key, seqno: 0, kind: Kind::BlobPointer, value: pointer, companion: &[] };
                blob_files.resolve(&record, true, &mut room).map(|whole| visit(whole.value)).map(|()| true)
            }
            (found, _, _) => found,
        };
        found.map_err(|error| error.in_family(family.name(), Some((key, key))))
    }
}

impl Level0<'_> {
    fn get_in(&self, view: &View, key: &[u8], visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        let mut search =
            RowSearch { level0: self, view, key: (key, hash_key(key)), visit, hidden: 0, outcome: Ok(false) };
        newest_version(view, view.levels.order(), (key, MAX_SEQNO), &mut search)?;
        search.outcome
    }
}

/// A search of a flush, whose reports of damage are left to the flush.
struct RowSearch<'a> {
    level0: &'a Level0<'a>,
    view: &'a View,
    /// The key and its hash.
    key: (&'a [u8], u64),
    visit: &'a mut dyn FnMut(&Record<'_>),
    /// A range delete hides the versions below this seqno.
    hidden: Seqno,
    outcome: Result<bool>,
}

impl RowSearch<'_> {
    fn decide(&mut self, record: &Record<'_>) {
        let (level0, order) = (self.level0, self.view.levels.order());
        let covers = |lost_range: &&LostRange| {
            lost_range.bound > self.hidden && lost_range.covers_at(order, record.key, record.seqno, MAX_SEQNO)
        };
        let now = || level0.env.clock.wall_micros();
        self.outcome = match (self.view.lost_ranges.iter().find(covers), record.kind) {
            (Some(lost_range), _) => Err(lost_range.error()),
            (None, kind) if !kind.is_value() || record.seqno < self.hidden => Ok(false),
            (None, _) if is_over(&**level0.companions, record, &now) => Ok(false),
            (None, _) => {
                (self.visit)(record);
                Ok(true)
            }
        };
    }
}

impl Search for RowSearch<'_> {
    type Error = Error;

    fn hide_below(&mut self, seqno: Seqno) {
        self.hidden = seqno;
    }

    fn in_memtable(&mut self, generation: &Generation) -> Result<bool> {
        let (memtable, (key, key_hash)) = (&generation.memtable, self.key);
        let (companions, order) = (self.level0.companions, self.view.levels.order());
        let mut is_damaged = false;
        let found = memtable.get(key, MAX_SEQNO, &mut |stored| {
            let hash = if order.is_hashable() { key_hash } else { hash_key(stored.key) };
            let promise = memtable.protection(companions.protection());
            match companions.verify(stored, hash, promise).serves() && stored.kind != Kind::Fence {
                true => self.decide(stored),
                false => is_damaged = true,
            }
        });
        if found && is_damaged {
            let damage = Damage { verdict: Verdict::Seal, ..Damage::default() };
            return Err(Error::corruption(damage, "a record in memory does not match its companion"));
        }
        Ok(found)
    }

    fn in_table(&mut self, table: &Arc<TableHandle>) -> Result<bool> {
        let (key, key_hash) = self.key;
        table.table()?.get(key, key_hash, MAX_SEQNO, Checks::EACH, &mut |record| self.decide(record))
    }

    fn lost(&mut self, lost_range: &LostRange) -> Error {
        lost_range.error()
    }
}
