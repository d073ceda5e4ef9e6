//! Damage that reads encounter: counts it, and reports it to the listener once for each place.
//!
//! Successful reads never run this code: a check that passes is not counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::events::{Event, Listener, Noted};
use crate::checksum::Uid;
use crate::env::work::lock;
use crate::error::{Error, Remedy};
use crate::sst::Watch;
use crate::version::OpenTables;

/// Maximum number of places remembered as already reported.
const MOST_TOLD: usize = 4096;

/// Damage that the reads of a store have encountered since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntegrityMetrics {
    /// Failed checks of a block, or of the index or filter that leads to it, that were investigated.
    pub doubted: u64,
    /// Failed checks that rereading the file resolved.
    pub read_again: u64,
    /// Failed checks that block repair corrected.
    pub corrected: u64,
    /// Blocks that could not be fully repaired.
    pub damaged_blocks: u64,
    /// Records in memory that did not match their companion.
    pub damaged_in_memory: u64,
    /// Reads that needed an entry lost in a damaged block.
    pub gaps_met: u64,
    /// Reads that hit a lost range of the manifest, or a table that cannot be opened.
    pub fences_met: u64,
}

/// Counts the damage that tables and memtables report, and forwards it to the listener.
pub(crate) struct Integrity {
    listener: Arc<dyn Listener>,
    noted: Arc<Noted>,
    doubted: AtomicU64,
    read_again: AtomicU64,
    corrected: AtomicU64,
    damaged_blocks: AtomicU64,
    damaged_in_memory: AtomicU64,
    gaps_met: AtomicU64,
    fences_met: AtomicU64,
    told: Mutex<BTreeSet<Place>>,
}

/// The identity of a reported place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A table that cannot be opened, by its number.
    Table(u64),
    /// A record in memory, by its seqno.
    Memory(u64),
    /// A value in a blob file, by the file's unique id and the offset of the entry.
    Value(Uid, u64),
}

impl Integrity {
    pub(crate) fn new(listener: Arc<dyn Listener>) -> Arc<Integrity> {
        Arc::new(Integrity {
            listener,
            noted: Arc::default(),
            doubted: AtomicU64::new(0),
            read_again: AtomicU64::new(0),
            corrected: AtomicU64::new(0),
            damaged_blocks: AtomicU64::new(0),
            damaged_in_memory: AtomicU64::new(0),
            gaps_met: AtomicU64::new(0),
            fences_met: AtomicU64::new(0),
            told: Mutex::default(),
        })
    }

    pub(crate) fn metrics(&self) -> IntegrityMetrics {
        IntegrityMetrics {
            doubted: self.doubted.load(Relaxed),
            read_again: self.read_again.load(Relaxed),
            corrected: self.corrected.load(Relaxed),
            damaged_blocks: self.damaged_blocks.load(Relaxed),
            damaged_in_memory: self.damaged_in_memory.load(Relaxed),
            gaps_met: self.gaps_met.load(Relaxed),
            fences_met: self.fences_met.load(Relaxed),
        }
    }

    /// Returns the queue of events that are delivered once their thread holds no lock.
    pub(super) fn noted(&self) -> &Arc<Noted> {
        &self.noted
    }

    /// Delivers an event at once, or queues it if the thread currently defers events.
    #[cold]
    fn say(&self, event: Event) {
        match self.noted.is_hushed() {
            true => self.noted.put(event),
            false => self.listener.on_event(&event),
        }
    }

    /// Counts a read that hit a lost range.
    #[cold]
    pub(crate) fn fence_met(&self) {
        self.fences_met.fetch_add(1, Relaxed);
    }

    /// Reports damage, unless it was already reported for this place.
    #[cold]
    pub(crate) fn tell(&self, place: Place, error: &Error) {
        if !error.is_corruption() {
            return;
        }
        let fresh = {
            let mut told = lock(&self.told);
            if told.len() >= MOST_TOLD {
                told.clear();
            }
            told.insert(place)
        };
        match place {
            Place::Memory(_) => self.damaged_in_memory.fetch_add(1, Relaxed),
            Place::Value(..) => self.gaps_met.fetch_add(1, Relaxed),
            Place::Table(_) => self.fences_met.fetch_add(1, Relaxed),
        };
        if fresh {
            self.say(Event::Corruption { error: error.clone() });
        }
    }
}

/// Receives the damage reports of one family's tables.
pub(crate) struct FamilyWatch {
    family: String,
    store: Arc<Integrity>,
    tables: Arc<OpenTables>,
}

impl FamilyWatch {
    pub(crate) fn new(family: &str, store: &Arc<Integrity>, tables: &Arc<OpenTables>) -> Arc<FamilyWatch> {
        Arc::new(FamilyWatch { family: family.to_owned(), store: store.clone(), tables: tables.clone() })
    }
}

impl Watch for FamilyWatch {
    fn family(&self) -> &str {
        &self.family
    }

    fn doubted(&self) {
        self.store.doubted.fetch_add(1, Relaxed);
    }

    fn healed(&self, file: &str, offset: u64, by: Remedy) {
        let count = if matches!(by, Remedy::Corrected | Remedy::Rebuilt) {
            &self.store.corrected
        } else {
            &self.store.read_again
        };
        count.fetch_add(1, Relaxed);
        self.store.say(Event::Healed { file: file.to_owned(), offset, by });
    }

    fn damaged(&self, error: &Error) {
        self.store.damaged_blocks.fetch_add(1, Relaxed);
        self.store.say(Event::Corruption { error: error.clone() });
    }

    fn gap_met(&self) {
        self.store.gaps_met.fetch_add(1, Relaxed);
    }

    fn grew(&self, bytes: usize) {
        self.tables.grew(bytes);
    }

    fn shrank(&self, bytes: usize) {
        self.tables.shrank(bytes);
    }
}
