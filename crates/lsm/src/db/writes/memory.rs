//! The memory budget: keeps the store's memory within `Settings::memory_bytes`.
//!
//! In:     the charges (`sst::Charge`): memtables at their current size, the ring, indexes and filters of open tables,
//!         the buffers of jobs.
//! Out:    blocks are evicted at once, because the block cache gets what the charges leave. If memtables exceed half of
//!         their share, the largest one is frozen, together with those that were not written since it began: many idle
//!         families would otherwise keep their memory. Near the full share writers are slowed down, and at the full
//!         share they wait for a flush.
//! Looks:  writers check the budget after each fixed number of bytes and before they wait; every flush checks it too.
//!         If memtables take all of their share, one of them is frozen or already waits for its flush, so no writer
//!         waits for a flush that is not due. The check also runs without a budget while flushes are behind: then the
//!         active memtable is the only remaining space, and writers slow down as it fills.
//! Beside: memory held by callers (flushed memtables that a snapshot or cursor still sees) is counted and reported, but
//!         not part of the budget, because the store cannot reclaim it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::db::catalog::Catalog;
use crate::db::state::context::StoreContext;
use crate::db::state::family::Family;
use crate::env::work::lock;
use crate::memtable::Memtable;
use crate::options::{KIB, Settings};
use crate::sst::{Cache, Charge, TRAINING_BYTES};

/// Minimum share of memtables, whatever else is charged; one memtable if that is smaller. Without it no write could
/// succeed.
const LEAST_ROOM_BYTES: usize = 256 * KIB;

/// Maximum number of bytes written between two checks; bounded also by this fraction (1/64) of the budget, or of a
/// memtable.
const LOOK_BYTES: usize = 256 * KIB;
const LOOK_PART: usize = 64;

/// MemoryBudget of one input of a compaction: its read buffer, a block, and the unpacked block.
const INPUT_BYTES: usize = 384 * KIB;

/// MemoryBudget of an output: its write buffer, which exists twice while it is being written.
const OUTPUT_BYTES: usize = 1024 * KIB;

/// MemoryBudget per record while a table is written: a hash for the filter, held twice while the filter is built.
const RECORD_BYTES: u64 = 16;

/// Creates the block cache that the settings request.
pub(in crate::db) fn cache_of(settings: &Settings) -> Cache {
    match settings.memory_bytes {
        0 => Cache::new(settings.cache_bytes),
        total => Cache::within(settings.cache_bytes, total),
    }
}

/// The store's charges, and the flushed memtables that callers may still hold.
#[derive(Debug)]
pub(in crate::db) struct MemoryBudget {
    memtables: Charge,
    _ring: Charge,
    /// Bytes written since the last check. `look_bytes` is their limit.
    unseen: AtomicUsize,
    look_bytes: usize,
    /// Flushed memtables that callers may still hold.
    flushed: Mutex<Vec<Weak<Memtable>>>,
}

/// MemoryBudget use of the store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryMetrics {
    /// The budget; 0 means no budget.
    pub budget_bytes: u64,
    /// Memtables, including those that wait for their flush.
    pub memtable_bytes: u64,
    /// Cached blocks of tables and large values, including blocks of removed tables that are not evicted yet.
    pub block_bytes: u64,
    /// The ring, indexes and filters of open tables, and buffers of running jobs.
    pub other_bytes: u64,
    /// Flushed memtables that snapshots or cursors still hold; not part of the budget.
    pub held_by_callers_bytes: u64,
}

/// The memtables' share of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::db) struct Share {
    /// The budget minus all charges other than memtables and blocks.
    left: usize,
    /// Minimum share of memtables.
    least: usize,
    active: usize,
    frozen: usize,
}

impl Share {
    /// Returns the bytes that memtables may take. Blocks keep the other half, the minimum for useful reads.
    fn room(&self) -> usize {
        (self.left / 2).max(self.least)
    }

    /// Returns true if a memtable should be frozen although it is not full. A memtable that already waits for its flush
    /// comes first.
    pub(in crate::db) fn freezes(&self) -> bool {
        self.active > 0 && self.frozen == 0 && self.active > self.room() / 2
    }

    /// Returns how much of their share memtables take, in thousandths. Empty memtables are not counted, because they
    /// cannot be flushed.
    fn pressure(&self) -> u64 {
        let taken = self.active.saturating_add(self.frozen) as u128;
        u64::try_from(taken * 1000 / self.room() as u128).unwrap_or(u64::MAX)
    }
}

impl MemoryBudget {
    pub(in crate::db) fn new(cache: &Arc<Cache>, ring_bytes: usize, settings: &Settings) -> MemoryBudget {
        let budget = if settings.memory_bytes > 0 { settings.memory_bytes } else { usize::MAX };
        MemoryBudget {
            memtables: Charge::new(cache.clone(), 0),
            _ring: Charge::new(cache.clone(), ring_bytes),
            unseen: AtomicUsize::new(0),
            look_bytes: LOOK_BYTES.min(budget.min(settings.memtable_bytes) / LOOK_PART),
            flushed: Mutex::default(),
        }
    }

    /// Counts bytes that a writer is about to add. Returns true if the budget must be checked now.
    #[inline]
    pub(super) fn grow(&self, bytes: usize) -> bool {
        let is_due = self.unseen.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) >= self.look_bytes;
        if is_due {
            self.unseen.store(0, Ordering::Relaxed);
        }
        is_due
    }

    /// Notes memtables that are in tables now, but may still be read.
    pub(in crate::db) fn let_go<'a>(&self, memtables: impl Iterator<Item = &'a Arc<Memtable>>) {
        let mut flushed = lock(&self.flushed);
        flushed.retain(|held| held.strong_count() > 0);
        flushed.extend(memtables.map(Arc::downgrade));
    }

    fn held_by_callers(&self) -> usize {
        lock(&self.flushed).iter().filter_map(Weak::upgrade).map(|memtable| memtable.bytes()).sum()
    }
}

impl MemoryBudget {
    /// Charges the current size of the memtables; does nothing without a budget.
    pub(in crate::db) fn charge_memtables(&self, catalog: &Catalog) -> Option<Share> {
        let share = self.share(catalog)?;
        self.memtables.set(share.active + share.frozen);
        Some(share)
    }

    /// Releases the charge for the memtables of a family that is gone. The next check of the budget corrects it.
    pub(in crate::db) fn uncharge(&self, context: &StoreContext, memtables: usize) {
        if context.settings.memory_bytes > 0 {
            self.memtables.set(self.memtables.bytes().saturating_sub(memtables));
        }
    }

    /// Returns how much of their share the flushable memtables take, in thousandths; 0 without a budget.
    pub(super) fn pressure(&self, catalog: &Catalog) -> u64 {
        self.share(catalog).map_or(0, |share| share.pressure())
    }

    fn share(&self, catalog: &Catalog) -> Option<Share> {
        let total = Some(catalog.context().settings.memory_bytes).filter(|total| *total > 0)?;
        let (active, frozen) = MemoryBudget::memtable_bytes(catalog);
        let charged = catalog.context().cache.metrics().charged_bytes as usize;
        // A cache that does not bound charges may carry charges of other stores. In such a store only the memtables
        // count against the budget.
        let others =
            if catalog.context().cache.bounds_charges() { charged.saturating_sub(self.memtables.bytes()) } else { 0 };
        let least = catalog.context().settings.memtable_bytes.min(LEAST_ROOM_BYTES);
        Some(Share { left: total.saturating_sub(others), least, active, frozen })
    }

    /// Returns the bytes of active and of frozen memtables. Empty memtables count as 0.
    fn memtable_bytes(catalog: &Catalog) -> (usize, usize) {
        let (mut active, mut frozen) = (0, 0);
        for family in catalog.families().all() {
            let (of_active, of_frozen) = memtable_bytes_of(family);
            (active, frozen) = (active + of_active, frozen + of_frozen);
        }
        (active, frozen)
    }

    pub(in crate::db) fn metrics(&self, catalog: &Catalog) -> MemoryMetrics {
        let cache = catalog.context().cache.metrics();
        let (active, frozen) = MemoryBudget::memtable_bytes(catalog);
        MemoryMetrics {
            budget_bytes: catalog.context().settings.memory_bytes as u64,
            memtable_bytes: (active + frozen) as u64,
            block_bytes: cache.used_bytes,
            other_bytes: cache.charged_bytes.saturating_sub(self.memtables.bytes() as u64),
            held_by_callers_bytes: self.held_by_callers() as u64,
        }
    }
}

/// Charges the buffers of a job with this many inputs, concurrent output tables and records, until the charge is
/// dropped.
pub(in crate::db) fn job_room(cache: &Arc<Cache>, inputs: usize, outputs: usize, records: u64) -> Charge {
    let per_record = usize::try_from(records.saturating_mul(RECORD_BYTES)).unwrap_or(usize::MAX);
    let bytes = (inputs * INPUT_BYTES).saturating_add(outputs * OUTPUT_BYTES).saturating_add(per_record);
    Charge::new(cache.clone(), bytes)
}

/// Charges the memory for training a dictionary.
pub(in crate::db) fn training_room(cache: &Arc<Cache>) -> Charge {
    Charge::new(cache.clone(), TRAINING_BYTES)
}

/// Returns the bytes of the active and of the frozen memtables of a family.
pub(in crate::db) fn memtable_bytes_of(family: &Family) -> (usize, usize) {
    let view = family.view();
    let active = if view.active.memtable.is_empty() { 0 } else { view.active.memtable.bytes() };
    (active, view.frozen.iter().map(|generation| generation.memtable.bytes()).sum())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{Db, Parts};
    use crate::env::sim::SimFs;
    use crate::options::{CfOptions, Durability, MIB};
    use crate::record::Kind;

    /// Opens a store with a budget, with a megabyte in one of its families.
    fn with_a_megabyte(cache: Option<Arc<Cache>>) -> Db {
        let families = ["default", "other"].map(|name| (name.to_owned(), CfOptions::default())).to_vec();
        let parts = Parts { env: SimFs::new(5).env(5), families, cache, ..Parts::real() };
        let settings = Settings { memory_bytes: 64 * MIB, memtable_bytes: 8 * MIB, ..Settings::default() };
        let db = Db::open(Path::new("/store"), settings, parts).unwrap();
        let other = db.family("other").unwrap();
        for n in 0..1_000u32 {
            let mut batch = Batch::new();
            batch.push(other.id(), Kind::Put, format!("{n:08}").as_bytes(), &[7; 1_000], db.companions()).unwrap();
            db.commit(&mut batch, Durability::Os).unwrap();
        }
        db
    }

    #[test]
    fn what_others_charge_to_a_shared_cache_presses_nobody() {
        let cache = Arc::new(Cache::new(64 * MIB));
        let _of_others = Charge::new(cache.clone(), 1 << 30);
        let db = with_a_megabyte(Some(cache));
        assert!(
            db.inner().write_path().memory.pressure(db.inner().catalog()) < 100,
            "{}",
            db.inner().write_path().memory.pressure(db.inner().catalog())
        );
    }

    /// The buffers for large values stay with their file until it is flushed.
    #[test]
    fn what_a_file_of_values_keeps_until_its_flush_is_in_the_budget() {
        let db = with_a_megabyte(None);
        let other = || db.inner().write_path().memory.metrics(db.inner().catalog()).other_bytes;
        let before = other();
        let (family, mut batch) = (db.family("other").unwrap(), Batch::new());
        batch.push(family.id(), Kind::Put, b"large", &vec![7; 3 * MIB], db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        let kept = other() - before;
        assert!((3 * MIB as u64..=8 * MIB as u64).contains(&kept), "{kept}");
        db.flush().unwrap();
        assert!(other() < before + MIB as u64, "{} after {before}", other());
    }

    #[test]
    fn a_family_that_is_dropped_gives_its_memory_back() {
        let db = with_a_megabyte(None);
        db.inner().write_path().memory.charge_memtables(db.inner().catalog());
        let charged = || db.inner().context().cache.metrics().charged_bytes;
        let before = charged();
        db.drop_family("other").unwrap();
        assert!(charged() + 1_000_000 <= before, "{} of {before}", charged());
    }

    #[test]
    fn idle_families_give_their_memory_back_under_a_busy_one() {
        const IDLE: usize = 200;
        let idle = |n: usize| format!("idle {n}");
        let names = (0..IDLE).map(idle).chain(["busy".to_owned(), "steady".to_owned()]);
        let families = names.map(|name| (name, CfOptions::default())).collect();
        let parts = Parts { env: SimFs::new(5).env(5), families, ..Parts::real() };
        let settings = Settings { memory_bytes: 24 * MIB, ..Settings::default() };
        let db = Db::open(Path::new("/store"), settings, parts).unwrap();
        let put = |name: &str, n: usize| {
            let mut batch = Batch::new();
            let family = db.family(name).unwrap();
            batch.push(family.id(), Kind::Put, format!("{n:08}").as_bytes(), &[7; 1_000], db.companions()).unwrap();
            db.commit(&mut batch, Durability::Os).unwrap();
        };
        (0..IDLE).for_each(|n| put(&idle(n), n));
        let taken = |name: &str| memtable_bytes_of(&db.family(name).unwrap());
        assert!(taken(&idle(IDLE - 1)).0 > 0);
        let mut steady = 0;
        for n in 0..20_000 {
            put("busy", n);
            if n % 100 == 0 {
                put("steady", n);
                steady = steady.max(taken("steady").0);
            }
            while db.step().unwrap() {}
        }
        let kept = (0..IDLE).filter(|n| taken(&idle(*n)) != (0, 0)).count();
        assert_eq!(kept, 0, "idle families keep their memtables");
        assert_eq!(taken("steady").0, steady, "a family that is written was flushed");
        assert!(db.metrics().flushes < IDLE as u64 + 20, "{}", db.metrics().flushes);
    }

    #[test]
    fn the_largest_memtable_goes_at_half_of_their_room_unless_one_waits() {
        let share = |active, frozen| Share { left: 8 * LEAST_ROOM_BYTES, least: 1, active, frozen };
        let half = 2 * LEAST_ROOM_BYTES;
        assert!(!share(half, 0).freezes() && share(half + 1, 0).freezes());
        assert!(!share(2 * half, 1).freezes());
        let little = |active| Share { left: 0, least: LEAST_ROOM_BYTES, active, frozen: 0 }.freezes();
        assert!(!little(0) && !little(LEAST_ROOM_BYTES / 2) && little(LEAST_ROOM_BYTES));
    }

    #[test]
    fn who_waits_for_memory_waits_for_a_flush() {
        for (left, least, active) in [(0, 1, 1), (0, 8192, 8192), (1 << 20, 1, 1 << 19), (3, 1, 1)] {
            let share = Share { left, least, active, frozen: 0 };
            assert!(share.pressure() < 1000 || share.freezes(), "{share:?}");
        }
    }

    #[test]
    fn pressure_is_whole_when_the_room_is_taken() {
        let pressure = |left, active, frozen| Share { left, least: LEAST_ROOM_BYTES, active, frozen }.pressure();
        let room = LEAST_ROOM_BYTES;
        assert_eq!(pressure(4 * room, room / 2, room / 2), 500);
        assert_eq!(pressure(4 * room, room, room), 1000);
        assert_eq!((pressure(0, 0, 0), pressure(0, room / 4, 0)), (0, 250));
        assert!(pressure(0, usize::MAX, usize::MAX) >= 1000);
    }
}
