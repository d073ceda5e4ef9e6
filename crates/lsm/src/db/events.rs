//! What the engine tells a listener, after it is done and with no lock held.
//!
//! What happens under a lock is noted, and told when that is let go: by whoever holds the turn of a job at its end, by a lane behind its step, by a writer
//! that waits. One thread tells at a time, in the order in which things were noted; another one that comes meanwhile leaves its own to it and goes on.
//! What a read meets (`watch.rs`) is told at once; but what a job's own reads meet, or those of a `refresh`, when its turn is over.

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

/// Something that happened inside a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The log was read at open.
    Recovered {
        /// Commits replayed.
        commits: u64,
        /// Bytes cut from the tail, set aside and reported.
        cut_bytes: u64,
    },
    /// Memtables became a table of level 0 (or nothing, if all they held was dropped).
    Flushed {
        /// Name of the family.
        family: String,
        /// Number of the table file, if one was written.
        table: Option<u64>,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Tables were merged, or moved down without being read.
    Compacted {
        /// Name of the family.
        family: String,
        /// Numbers of the tables that are gone.
        inputs: Vec<u64>,
        /// Numbers of the tables that replace them.
        outputs: Vec<u64>,
        /// The level of the outputs.
        level: usize,
        /// True if the table only changed its level.
        moved: bool,
        /// Why.
        reason: Reason,
    },
    /// Damage was met; what it covers answers `Corruption`, the rest of the store goes on.
    Corruption {
        /// The damage, with file, offset and keys as far as known.
        error: Error,
    },
    /// A block that did not fit its sum, or a record that did not match its companion, was read right after all.
    Healed {
        /// The file.
        file: String,
        /// The offset of the block.
        offset: u64,
        /// What helped.
        by: Remedy,
    },
    /// A damaged table is left alone from now on: compaction does not pick it until it is repaired.
    Barred {
        /// Name of the family.
        family: String,
        /// Number of the table file.
        table: u64,
    },
    /// Records were lost for good: reads between these keys answer corruption until the fence is lifted.
    Fenced {
        /// Name of the family.
        family: String,
        /// The span, and what is known of the loss.
        fence: Fence,
    },
    /// A fence was lifted.
    Lifted {
        /// Name of the family.
        family: String,
        /// The span.
        fence: Fence,
    },
    /// Work in the background failed and will be tried again (a full disk), or halted the store.
    BackgroundError {
        /// What failed.
        error: Error,
        /// True if nothing more is acknowledged until reopen (I09).
        halted: bool,
    },
    /// Writers are held back (true) or free again (false).
    Stalled {
        /// Whether they are.
        stalled: bool,
    },
}

/// Receives events. Must return soon; may not call back into the store's writes. A call comes from a thread of the store, or from one that is in a call of
/// the store, which holds no lock of the store's: what a listener locks may not be locked around such calls.
pub trait Listener: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &Event);
}

/// What was noted and is to be told.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    queue: Mutex<Queue>,
    /// So that who has nothing to tell takes no lock.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    /// Somebody tells, until he has found that there is no more.
    is_told: bool,
}

thread_local! {
    /// Stores of which this thread holds a lock that a listener may ask for, each by where what happens to it is noted.
    static HUSHED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While it is there, what its thread notes of a store is told by nobody on that thread.
#[derive(Debug)]
pub(super) struct Hush {
    noted: usize,
    /// It goes where it came: the list is its thread's.
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
    /// To be held as long as a lock is. Whoever lets go of both tells what was noted.
    pub(super) fn hush(&self) -> Hush {
        HUSHED.with_borrow_mut(|hushed| hushed.push(self.place()));
        Hush { noted: self.place(), _stays: PhantomData }
    }

    /// True if this thread is to tell nothing now.
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

    /// The turn to tell, if there is something and nobody else has it.
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

/// The turn to tell; given back also where a listener panics.
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
    /// Notes what happened under a lock.
    pub(super) fn note(&self, event: Event) {
        self.noted.put(event);
    }

    /// Tells what happened, behind what was noted; where this thread is hushed, whoever ends that does.
    pub(super) fn say(&self, event: Event) {
        self.note(event);
        self.tell_noted();
    }

    /// Tells what was noted; where this thread is hushed, whoever ends that does. With no lock held else.
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

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {
    fn on_event(&self, _event: &Event) {}
}
