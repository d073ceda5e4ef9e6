//! The handle tables: one for each kind of object that callers hold.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use waxseal::{Cache, Snapshot};

use crate::batch::LevelBatch;
use crate::callback::{Filtering, Ordered};
use crate::failure::Failure;
use crate::iterator;
use crate::options::Options;
use crate::shelf::{Shelf, lock};
use crate::store::{ReadMode, Store};

/// A filter policy.
#[derive(Clone, Debug)]
pub(crate) enum HeldPolicy {
    /// The engine's own filter, with this many bits per key.
    Bloom(usize),
    /// The caller's.
    Own(Arc<Filtering>),
}

/// Read options: read by any thread, changed by one.
#[derive(Default)]
pub(crate) struct ReadOptions {
    pub(crate) verify: AtomicBool,
    pub(crate) passing: AtomicBool,
    /// The ticket of a snapshot; 0 means the current state.
    pub(crate) snapshot: AtomicUsize,
}

/// Write options.
#[derive(Default)]
pub(crate) struct HeldWriteOptions {
    pub(crate) sync: AtomicBool,
}

/// An object, or the error of its creation; `None` in an unused place.
type Creation<T> = Mutex<Option<Result<T, Failure>>>;

pub(crate) static STORES: Shelf<ArcSwapOption<Store>> = Shelf::new(1);
pub(crate) static SNAPSHOTS: Shelf<ArcSwapOption<Result<Snapshot, Failure>>> = Shelf::new(2);
pub(crate) static ITERATORS: Shelf<iterator::HeldIterator> = Shelf::new(3);
pub(crate) static BATCHES: Shelf<Mutex<LevelBatch>> = Shelf::new(4);
pub(crate) static OPTIONS: Shelf<Mutex<Options>> = Shelf::new(5);
pub(crate) static READ_OPTIONS: Shelf<ReadOptions> = Shelf::new(6);
pub(crate) static WRITE_OPTIONS: Shelf<HeldWriteOptions> = Shelf::new(7);
pub(crate) static COMPARATORS: Shelf<Creation<Arc<Ordered>>> = Shelf::new(8);
pub(crate) static POLICIES: Shelf<Creation<HeldPolicy>> = Shelf::new(9);
pub(crate) static CACHES: Shelf<Mutex<Option<Arc<Cache>>>> = Shelf::new(10);
/// There is one environment, the operating system; all environment objects are equal.
pub(crate) static ENVIRONMENTS: Shelf<()> = Shelf::new(11);

/// Runs `work` on the open store of a ticket. A store that is closed meanwhile stays alive until `work` returns.
#[inline]
pub(crate) fn store<R>(ticket: usize, work: impl FnOnce(&Store) -> Result<R, Failure>) -> Result<R, Failure> {
    let held = STORES.get(ticket).map(|held| held.load());
    match held.as_ref().and_then(|held| held.as_deref()) {
        Some(store) => work(store),
        None => Err(Failure::dead(ticket, "the database")),
    }
}

/// Returns the settings of a read from a caller's read options.
#[inline]
pub(crate) fn how(ticket: usize) -> Result<ReadMode, Failure> {
    let options = READ_OPTIONS.get(ticket).ok_or_else(|| Failure::dead(ticket, "readoptions"))?;
    let snapshot = match options.snapshot.load(Relaxed) {
        0 => None,
        ticket => Some(snapshot(ticket)?),
    };
    Ok(ReadMode { verify: options.verify.load(Relaxed), passing: options.passing.load(Relaxed), snapshot })
}

fn snapshot(ticket: usize) -> Result<Snapshot, Failure> {
    let held = SNAPSHOTS.get(ticket).and_then(|held| held.load().as_deref().cloned());
    held.unwrap_or_else(|| Err(Failure::dead(ticket, "the snapshot")))
}

/// True if writes with these options are synced.
#[inline]
pub(crate) fn is_synced(ticket: usize) -> Result<bool, Failure> {
    let options = WRITE_OPTIONS.get(ticket).ok_or_else(|| Failure::dead(ticket, "writeoptions"))?;
    Ok(options.sync.load(Relaxed))
}

/// Returns a copy of an object, or the reason why it could not be created.
pub(crate) fn made<T: Clone>(shelf: &'static Shelf<Creation<T>>, ticket: usize, kind: &str) -> Result<T, Failure> {
    let held = shelf.get(ticket).and_then(|held| lock(held).clone());
    held.unwrap_or_else(|| Err(Failure::dead(ticket, kind)))
}
