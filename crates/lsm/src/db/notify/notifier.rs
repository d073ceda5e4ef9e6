//! The notifier: delivers events to the listener with no lock held, and counts the damage that reads encounter.
//!
//! An event that occurs under a lock is queued. It is delivered after the lock is released: by the job that held the
//! job lock, by a lane after its step, or by a waiting writer. One thread delivers at a time, in queue order. Another
//! thread that finds a delivery running leaves its events to it and continues. Damage found by a read is delivered at
//! once, and only once for each place. Damage found by a job's own reads, or by those of a `refresh`, is delivered when
//! the job ends.
//!
//! Successful reads never run this code: a check that passes is not counted.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use super::events::{Event, Listener};
use crate::checksum::Uid;
use crate::env::work::lock;
use crate::error::{Error, Remedy};
use crate::sst::TableListener;
use crate::version::OpenTables;

/// Maximum number of places remembered as already reported.
const MOST_REPORTED: usize = 4096;

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

#[derive(Default)]
struct IntegrityCounters {
    doubted: AtomicU64,
    read_again: AtomicU64,
    corrected: AtomicU64,
    damaged_blocks: AtomicU64,
    damaged_in_memory: AtomicU64,
    gaps_met: AtomicU64,
    fences_met: AtomicU64,
}

/// Delivers a store's events to its listener, and counts damage. Shared by the store and the readers of its tables.
pub(crate) struct Notifier {
    listener: Arc<dyn Listener>,
    queue: Mutex<EventQueue>,
    /// Lets a thread skip the lock when the queue is empty.
    is_any: AtomicBool,
    counters: IntegrityCounters,
    reported: Mutex<BTreeSet<DamagedPlace>>,
    /// True once the event that the store halted was queued.
    halt_reported: AtomicBool,
}

#[derive(Default)]
struct EventQueue {
    events: VecDeque<Event>,
    /// True while a thread delivers events, until it has found the queue empty.
    is_delivering: bool,
}

/// A place whose damage is reported only once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DamagedPlace {
    /// A table that cannot be opened, by its number.
    Table(u64),
    /// A record in memory, by its seqno.
    Memory(u64),
    /// A value in a blob file, by the file's unique id and the offset of the entry.
    Value(Uid, u64),
}

thread_local! {
    /// Stores for which this thread defers events, because it holds a lock that a listener may take. Each store is
    /// identified by the address of its notifier.
    static DEFERRED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While this guard lives, its thread delivers no events of the store.
#[derive(Debug)]
pub(in crate::db) struct Deferral {
    notifier: usize,
    /// Keeps the guard on its thread, because the list is thread-local.
    _stays: PhantomData<*const ()>,
}

impl Drop for Deferral {
    fn drop(&mut self) {
        DEFERRED.with_borrow_mut(|deferred| {
            if let Some(last) = deferred.iter().rposition(|notifier| *notifier == self.notifier) {
                deferred.remove(last);
            }
        });
    }
}

impl Notifier {
    pub(crate) fn new(listener: Arc<dyn Listener>) -> Arc<Notifier> {
        Arc::new(Notifier {
            listener,
            queue: Mutex::default(),
            is_any: AtomicBool::new(false),
            counters: IntegrityCounters::default(),
            reported: Mutex::default(),
            halt_reported: AtomicBool::new(false),
        })
    }

    pub(crate) fn listener(&self) -> &Arc<dyn Listener> {
        &self.listener
    }

    /// Returns a guard to hold for as long as a lock. The thread that releases both delivers the queued events.
    pub(in crate::db) fn defer(&self) -> Deferral {
        DEFERRED.with_borrow_mut(|deferred| deferred.push(self.address()));
        Deferral { notifier: self.address(), _stays: PhantomData }
    }

    /// Returns true if this thread currently defers events.
    fn is_deferred(&self) -> bool {
        DEFERRED.with_borrow(|deferred| deferred.contains(&self.address()))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Queues an event that occurred under a lock.
    pub(in crate::db) fn queue(&self, event: Event) {
        lock(&self.queue).events.push_back(event);
        self.is_any.store(true, Release);
    }

    /// Queues an event and delivers the queue. If this thread defers events, the delivery happens when its guard is
    /// released.
    pub(in crate::db) fn notify(&self, event: Event) {
        self.queue(event);
        self.deliver();
    }

    /// Queues the event that the store halted, unless that was done before. Returns true if it queued the event.
    pub(in crate::db) fn queue_halt(&self, error: &Error) -> bool {
        let is_first = !self.halt_reported.swap(true, AcqRel);
        if is_first {
            self.queue(Event::BackgroundError { error: error.clone(), halted: true });
        }
        is_first
    }

    /// Delivers the queued events. If this thread defers events, the delivery happens when its guard is released. The
    /// caller holds no other lock.
    pub(in crate::db) fn deliver(&self) {
        if self.is_deferred() {
            return;
        }
        let Some(mut delivery) = self.begin_delivery() else { return };
        while let Some(event) = delivery.next() {
            self.listener.on_event(&event);
        }
    }

    /// Returns the right to deliver events, unless the queue is empty or another thread is delivering.
    fn begin_delivery(&self) -> Option<Delivery<'_>> {
        if !self.is_any.load(Acquire) {
            return None;
        }
        let mut queue = lock(&self.queue);
        if queue.is_delivering || queue.events.is_empty() {
            return None;
        }
        queue.is_delivering = true;
        Some(Delivery { notifier: self, is_over: false })
    }

    pub(crate) fn integrity_metrics(&self) -> IntegrityMetrics {
        let counters = &self.counters;
        IntegrityMetrics {
            doubted: counters.doubted.load(Relaxed),
            read_again: counters.read_again.load(Relaxed),
            corrected: counters.corrected.load(Relaxed),
            damaged_blocks: counters.damaged_blocks.load(Relaxed),
            damaged_in_memory: counters.damaged_in_memory.load(Relaxed),
            gaps_met: counters.gaps_met.load(Relaxed),
            fences_met: counters.fences_met.load(Relaxed),
        }
    }

    /// Delivers an event of a read at once, or queues it if the thread currently defers events.
    #[cold]
    fn notify_at_once(&self, event: Event) {
        match self.is_deferred() {
            true => self.queue(event),
            false => self.listener.on_event(&event),
        }
    }

    /// Counts a read that hit a lost range.
    #[cold]
    pub(crate) fn fence_met(&self) {
        self.counters.fences_met.fetch_add(1, Relaxed);
    }

    /// Reports damage, unless it was already reported for this place.
    #[cold]
    pub(crate) fn report_damage(&self, place: DamagedPlace, error: &Error) {
        if !error.is_corruption() {
            return;
        }
        let is_new = {
            let mut reported = lock(&self.reported);
            if reported.len() >= MOST_REPORTED {
                reported.clear();
            }
            reported.insert(place)
        };
        match place {
            DamagedPlace::Memory(_) => self.counters.damaged_in_memory.fetch_add(1, Relaxed),
            DamagedPlace::Value(..) => self.counters.gaps_met.fetch_add(1, Relaxed),
            DamagedPlace::Table(_) => self.counters.fences_met.fetch_add(1, Relaxed),
        };
        if is_new {
            self.notify_at_once(Event::Corruption { error: error.clone() });
        }
    }
}

/// The right to deliver events; returned even if a listener panics.
struct Delivery<'a> {
    notifier: &'a Notifier,
    is_over: bool,
}

impl Delivery<'_> {
    fn next(&mut self) -> Option<Event> {
        let mut queue = lock(&self.notifier.queue);
        let event = queue.events.pop_front();
        self.notifier.is_any.store(!queue.events.is_empty(), Release);
        self.is_over = event.is_none();
        queue.is_delivering = !self.is_over;
        event
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            lock(&self.notifier.queue).is_delivering = false;
        }
    }
}

/// Receives the damage reports of one family's tables.
pub(crate) struct FamilyWatch {
    family: String,
    notifier: Arc<Notifier>,
    tables: Arc<OpenTables>,
}

impl FamilyWatch {
    pub(crate) fn new(family: &str, notifier: &Arc<Notifier>, tables: &Arc<OpenTables>) -> Arc<FamilyWatch> {
        Arc::new(FamilyWatch { family: family.to_owned(), notifier: notifier.clone(), tables: tables.clone() })
    }
}

impl TableListener for FamilyWatch {
    fn family(&self) -> &str {
        &self.family
    }

    fn doubted(&self) {
        self.notifier.counters.doubted.fetch_add(1, Relaxed);
    }

    fn healed(&self, file: &str, offset: u64, by: Remedy) {
        let counters = &self.notifier.counters;
        let count = match by {
            Remedy::Corrected | Remedy::Rebuilt => &counters.corrected,
            _ => &counters.read_again,
        };
        count.fetch_add(1, Relaxed);
        self.notifier.notify_at_once(Event::Healed { file: file.to_owned(), offset, by });
    }

    fn damaged(&self, error: &Error) {
        self.notifier.counters.damaged_blocks.fetch_add(1, Relaxed);
        self.notifier.notify_at_once(Event::Corruption { error: error.clone() });
    }

    fn gap_met(&self) {
        self.notifier.counters.gaps_met.fetch_add(1, Relaxed);
    }

    fn grew(&self, bytes: usize) {
        self.tables.grew(bytes);
    }

    fn shrank(&self, bytes: usize) {
        self.tables.shrank(bytes);
    }
}
