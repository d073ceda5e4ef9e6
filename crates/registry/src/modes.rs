//! Mode async: events wait in a ring, and a thread of the registrar's own writes them to the log a little later.
//!
//! ```text
//! claim     before the commit: room for its events, or what the ring is to do when it has none
//! push      after the commit: the rows, whose seqnos are known now
//! write     the thread, `drain`, or in stepped mode whoever finds no room: rows into the log, in their order
//! ```
//!
//! Crash: events that were claimed and are not in the log yet are lost, as many as the ring holds at most. What is in the log is of
//! commits that are there: a row is written after its commit.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use waxseal_lsm::env::work::{Signal, lock};
use waxseal_lsm::error::{Error, ErrorKind, Result};

/// What becomes of events of mode async while the ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The writer waits.
    #[default]
    Backpressure,
    /// They are written with their operation, as of mode sync.
    SyncFallback,
    /// They are dropped, and counted.
    DropCounted,
}

/// Where events of mode async wait until they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// How many there may be: as many may be lost in a crash.
    pub events: usize,
    /// What happens to more.
    pub when_full: WhenFull,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { events: 4096, when_full: WhenFull::default() }
    }
}

/// How things stand with events of mode async.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingStats {
    /// Taken, and not in the log yet.
    pub waiting: u64,
    /// Dropped since the store was opened.
    pub dropped: u64,
    /// Written with their operation since the ring was full.
    pub fallen_back: u64,
    /// As many may be lost in a crash.
    pub lost_at_most: u64,
}

/// A row that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// When it may be dropped, in microseconds since 1970.
    pub(crate) expires: Option<u64>,
}

/// What a commit may do with its events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Push so many.
    Room(usize),
    /// Write them with the operation.
    WithOperation,
    /// Forget them; they are counted.
    Dropped,
    /// There is no room now: `wait_for_room`, then claim again.
    Full,
}

/// Rows written by one commit.
const WRITTEN_AT_ONCE: usize = 256;
/// How long the thread waits before it tries again what failed.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Queue {
    ring: Ring,
    state: Signal<State>,
    /// Held from taking rows to their being written, so that they keep their order.
    writing: Mutex<()>,
    dropped: AtomicU64,
    fallen_back: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    rows: VecDeque<Waiting>,
    /// Claimed, waiting or being written.
    taken: usize,
    stopping: bool,
}

impl Queue {
    pub(crate) fn new(ring: Ring) -> Queue {
        let (dropped, fallen_back) = (AtomicU64::new(0), AtomicU64::new(0));
        Queue { ring, state: Signal::default(), writing: Mutex::default(), dropped, fallen_back }
    }

    /// Asks for room for so many events.
    pub(crate) fn claim(&self, events: usize) -> Claim {
        if events == 0 {
            return Claim::Room(0);
        }
        let mut state = self.state.lock();
        let free = self.ring.events.saturating_sub(state.taken);
        match self.ring.when_full {
            _ if events <= free => {
                state.taken += events;
                Claim::Room(events)
            }
            WhenFull::Backpressure if events <= self.ring.events => Claim::Full,
            WhenFull::DropCounted => {
                self.dropped.fetch_add(events as u64, Relaxed);
                Claim::Dropped
            }
            WhenFull::Backpressure | WhenFull::SyncFallback => {
                self.fallen_back.fetch_add(events as u64, Relaxed);
                Claim::WithOperation
            }
        }
    }

    /// Waits until there may be room for so many. Errors: `Closed` once nobody writes any more.
    pub(crate) fn wait_for_room(&self, events: usize) -> Result<()> {
        let state = self.state.lock();
        if state.stopping {
            return Err(Error::closed());
        }
        if state.taken + events > self.ring.events {
            drop(self.state.wait(state, Some(RETRY)));
        }
        Ok(())
    }

    /// The commit was not ordered: its room is free again.
    pub(crate) fn release(&self, claim: Claim) {
        if let Claim::Room(events) = claim
            && events > 0
        {
            self.state.lock().taken -= events;
            self.state.notify_all();
        }
    }

    /// Rows for which there was room.
    pub(crate) fn push(&self, rows: impl IntoIterator<Item = Waiting>) {
        self.state.lock().rows.extend(rows);
        self.state.notify_all();
    }

    /// Lets `write` write the rows that have waited longest; false if there were none. What fails waits on, unless the store is
    /// closed or halted: then nothing can be written any more.
    pub(crate) fn write(&self, write: impl FnOnce(&[Waiting]) -> Result<()>) -> Result<bool> {
        let _in_order = lock(&self.writing);
        let rows: Vec<Waiting> = {
            let state = self.state.lock();
            state.rows.iter().take(WRITTEN_AT_ONCE).cloned().collect()
        };
        if rows.is_empty() {
            return Ok(false);
        }
        let outcome = write(&rows);
        let is_over = |kind: &ErrorKind| matches!(kind, ErrorKind::Closed | ErrorKind::Halted | ErrorKind::ReadOnly);
        if outcome.as_ref().err().is_none_or(|error| is_over(error.kind())) {
            let mut state = self.state.lock();
            state.rows.drain(..rows.len());
            state.taken -= rows.len();
            drop(state);
            self.state.notify_all();
        }
        outcome.map(|()| true)
    }

    /// The thread waits until rows wait; false if it is to end.
    pub(crate) fn wait_for_rows(&self, after_failure: bool) -> bool {
        let mut state = self.state.lock();
        if after_failure && !state.stopping {
            state = self.state.wait(state, Some(RETRY));
        }
        while state.rows.is_empty() && !state.stopping {
            state = self.state.wait(state, None);
        }
        !state.stopping
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.state.notify_all();
    }

    pub(crate) fn stats(&self) -> RingStats {
        RingStats {
            waiting: self.state.lock().taken as u64,
            dropped: self.dropped.load(Relaxed),
            fallen_back: self.fallen_back.load(Relaxed),
            lost_at_most: self.ring.events as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u8) -> Waiting {
        Waiting { key: vec![n], value: Vec::new(), expires: None }
    }

    fn queue(events: usize, when_full: WhenFull) -> Queue {
        Queue::new(Ring { events, when_full })
    }

    #[test]
    fn a_full_ring_does_as_it_was_told() {
        let backpressure = queue(2, WhenFull::Backpressure);
        assert_eq!(backpressure.claim(2), Claim::Room(2));
        assert_eq!(backpressure.claim(1), Claim::Full);
        assert_eq!(backpressure.claim(3), Claim::WithOperation, "it would wait for ever");
        backpressure.release(Claim::Room(2));
        assert_eq!(backpressure.claim(1), Claim::Room(1));
        let dropping = queue(1, WhenFull::DropCounted);
        assert_eq!((dropping.claim(1), dropping.claim(2)), (Claim::Room(1), Claim::Dropped));
        let falling = queue(1, WhenFull::SyncFallback);
        assert_eq!((falling.claim(1), falling.claim(2)), (Claim::Room(1), Claim::WithOperation));
        let stats = (dropping.stats(), falling.stats());
        assert_eq!((stats.0.dropped, stats.1.fallen_back, stats.0.waiting), (2, 2, 1));
    }

    #[test]
    fn rows_leave_in_order_and_not_before_they_are_written() {
        let queue = queue(8, WhenFull::Backpressure);
        assert_eq!(queue.claim(3), Claim::Room(3));
        queue.push([row(1), row(2), row(3)]);
        let failed = queue.write(|_| Err(Error::invalid("no")));
        assert!(failed.is_err());
        assert_eq!(queue.stats().waiting, 3);
        let mut seen = Vec::new();
        let took = queue.write(|rows| {
            seen.extend(rows.iter().map(|row| row.key[0]));
            assert_eq!(queue.stats().waiting, 3);
            Ok(())
        });
        assert!(took.unwrap());
        assert_eq!((seen, queue.stats().waiting), (vec![1, 2, 3], 0));
        assert!(!queue.write(|_| Ok(())).unwrap());
        queue.claim(1);
        queue.push([row(4)]);
        assert!(queue.write(|_| Err(Error::closed())).is_err());
        assert_eq!(queue.stats().waiting, 0, "a closed store takes no rows");
    }
}
