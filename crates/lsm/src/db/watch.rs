//! What reads come by that is not right: counted, and told to the listener once for each place.
//!
//! Nothing here is on the path of a read that finds what it looks for: a check that passes is not counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::events::{Event, Listener, Noted};
use crate::checksum::Uid;
use crate::env::work::lock;
use crate::error::{Error, Remedy};
use crate::sst::Watch;
use crate::version::OpenTables;

/// Places of which it is remembered that they were told of.
const MOST_TOLD: usize = 4096;

/// What the reads of a store have come by since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntegrityMetrics {
    /// Checks of a block, or of what leads to it, that did not pass and were looked into.
    pub doubted: u64,
    /// Of those, what reading the file again put right.
    pub read_again: u64,
    /// Of those, what could be corrected.
    pub corrected: u64,
    /// Blocks that could not be made whole.
    pub damaged_blocks: u64,
    /// Records in memory that did not match their companion.
    pub damaged_in_memory: u64,
    /// Reads that came upon something lost in a damaged block.
    pub gaps_met: u64,
    /// Reads that came upon a fence of the manifest, or a table that cannot be opened.
    pub fences_met: u64,
}

/// Counts what tables and memtables tell, and passes it on.
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

/// Something that was told of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A table that cannot be opened, by its number.
    Table(u64),
    /// A record in memory, by its seqno.
    Memory(u64),
    /// A value in a value file, by the file's own name and where its entry begins.
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

    /// What is told of when its thread holds no lock any more.
    pub(super) fn noted(&self) -> &Arc<Noted> {
        &self.noted
    }

    /// Tells at once, or, where the thread is hushed, at the end of that.
    #[cold]
    fn say(&self, event: Event) {
        match self.noted.is_hushed() {
            true => self.noted.put(event),
            false => self.listener.on_event(&event),
        }
    }

    /// A read came upon a fence.
    #[cold]
    pub(crate) fn fence_met(&self) {
        self.fences_met.fetch_add(1, Relaxed);
    }

    /// Tells of damage, unless it was told of at this place before.
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

/// What the tables of one family tell.
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
