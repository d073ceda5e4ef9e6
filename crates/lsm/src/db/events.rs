//! Events for the listener, delivered after the fact and with no lock held.
//!
//! An event that occurs under a lock is queued and delivered after the lock is released: by the job that held the job
//! lock, by a lane after its step, or by a waiting writer. One thread delivers at a time, in queue order. Another
//! thread that finds a delivery running leaves its events to it and continues. Damage found by a read (`watch.rs`) is
//! delivered at once. Damage found by a job's own reads, or by those of a `refresh`, is delivered when the job ends.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Inner;
use crate::compaction::Reason;
use crate::env::work::lock;
use crate::error::{Error, Remedy};
use crate::fence::Fence;

/// An event of a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Opening the store read the log.
    Recovered {
        /// Number of commits replayed.
        commits: u64,
        /// Bytes cut from the log's tail, saved to a separate file and reported.
        cut_bytes: u64,
    },
    /// A flush wrote memtables to a level-0 table, or to no table if it dropped all of their records.
    Flushed {
        /// Name of the family.
        family: String,
        /// Number of the table file, if one was written.
        table: Option<u64>,
        /// Size of the table file in bytes.
        bytes: u64,
    },
    /// A compaction merged tables, or moved one down without reading it.
    Compacted {
        /// Name of the family.
        family: String,
        /// Numbers of the removed tables.
        inputs: Vec<u64>,
        /// Numbers of the tables that replace them.
        outputs: Vec<u64>,
        /// Level of the output tables.
        level: usize,
        /// True if the table only changed its level.
        moved: bool,
        /// Why the compaction ran.
        reason: Reason,
    },
    /// A read found damage. Reads of the damaged keys fail with `Corruption`; the rest of the store keeps working.
    Corruption {
        /// The damage, with file, offset and keys as far as known.
        error: Error,
    },
    /// A block with a wrong checksum, or a record that did not match its companion, was recovered.
    Healed {
        /// The file.
        file: String,
        /// The offset of the block.
        offset: u64,
        /// The remedy that recovered it.
        by: Remedy,
    },
    /// A damaged table was quarantined: compaction does not pick it until it is repaired.
    Barred {
        /// Name of the family.
        family: String,
        /// Number of the table file.
        table: u64,
    },
    /// Records were permanently lost: reads in this key range fail with `Corruption` until the lost range is removed.
    Fenced {
        /// Name of the family.
        family: String,
        /// The key range, and the known facts about the loss.
        fence: Fence,
    },
    /// A lost range was removed.
    Lifted {
        /// Name of the family.
        family: String,
        /// The key range.
        fence: Fence,
    },
    /// Background work failed. It will be retried (a full disk), or the store halted.
    BackgroundError {
        /// The failure.
        error: Error,
        /// True if the store acknowledges no more commits until it is reopened (I09).
        halted: bool,
    },
    /// Write throttling began (true) or ended (false).
    Stalled {
        /// True while writers are throttled.
        stalled: bool,
    },
}

/// Receives events. An implementation must return soon and must not write to the store. The calling thread is one of
/// the store's own, or one that is inside a call of the store; it holds none of the store's locks. The application must
/// not hold a lock that its listener takes while it calls the store.
pub trait Listener: Send + Sync {
    /// Handles one event.
    fn on_event(&self, event: &Event);
}

/// The queue of events to deliver.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    queue: Mutex<Queue>,
    /// Lets a thread skip the lock when the queue is empty.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    /// True while a thread delivers events, until it has found the queue empty.
    is_told: bool,
}

thread_local! {
    /// Stores for which this thread defers events, because it holds a lock that a listener may take. Each store is
    /// identified by the address of its queue.
    static HUSHED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While this guard lives, its thread delivers no events of the store.
#[derive(Debug)]
pub(super) struct Hush {
    noted: usize,
    /// Keeps the guard on its thread, because the list is thread-local.
    _stays: PhantomData<*const ()>,
}

impl Drop for Hush {
    fn drop(&mut self) {
        HUSHED.with_borrow_mut(|hushed| {
            if let Some(last) = hushed.iter().rposition(|noted| *noted == self.noted) {
                hushed.remove(last);
            }
        });
    }
}

impl Noted {
    /// Returns a guard to hold for as long as a lock. The thread that releases both delivers the queued events.
    pub(super) fn hush(&self) -> Hush {
        HUSHED.with_borrow_mut(|hushed| hushed.push(self.place()));
        Hush { noted: self.place(), _stays: PhantomData }
    }

    /// Returns true if this thread currently defers events.
    pub(super) fn is_hushed(&self) -> bool {
        HUSHED.with_borrow(|hushed| hushed.contains(&self.place()))
    }

    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(super) fn put(&self, event: Event) {
        lock(&self.queue).events.push_back(event);
        self.is_any.store(true, Ordering::Release);
    }

    /// Returns the right to deliver events, unless the queue is empty or another thread is delivering.
    fn turn(&self) -> Option<Telling<'_>> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = lock(&self.queue);
        if queue.is_told || queue.events.is_empty() {
            return None;
        }
        queue.is_told = true;
        Some(Telling { noted: self, is_over: false })
    }
}

/// The right to deliver events; returned even if a listener panics.
struct Telling<'a> {
    noted: &'a Noted,
    is_over: bool,
}

impl Telling<'_> {
    fn next(&mut self) -> Option<Event> {
        let mut queue = lock(&self.noted.queue);
        let event = queue.events.pop_front();
        self.noted.is_any.store(!queue.events.is_empty(), Ordering::Release);
        self.is_over = event.is_none();
        queue.is_told = !self.is_over;
        event
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            lock(&self.noted.queue).is_told = false;
        }
    }
}

impl Inner {
    /// Queues an event that occurred under a lock.
    pub(super) fn note(&self, event: Event) {
        self.noted.put(event);
    }

    /// Queues an event and delivers the queue. If this thread defers events, the delivery happens when its guard is
    /// released.
    pub(super) fn say(&self, event: Event) {
        self.note(event);
        self.tell_noted();
    }

    /// Delivers the queued events. If this thread defers events, the delivery happens when its guard is released. The
    /// caller holds no other lock.
    pub(super) fn tell_noted(&self) {
        if self.noted.is_hushed() {
            return;
        }
        let Some(mut telling) = self.noted.turn() else { return };
        while let Some(event) = telling.next() {
            self.listener.on_event(&event);
        }
    }
}

/// A listener that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {
    fn on_event(&self, _event: &Event) {}
}
