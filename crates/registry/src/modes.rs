//! Mode async: events wait in a ring, and the registrar's own thread writes them to the log a little later.
//!
//! ```text
//! claim     before the commit: reserves space for its events, or returns the alternative if the ring is full
//! push      after the commit: adds the rows, whose seqnos are known now; a failed commit releases its space
//! linger    the thread: waits until many rows wait, or a short time has passed
//! write     the thread, `drain`, or in stepped mode a caller without space: writes rows to the log, in order
//! shut      before the store is closed: ends reservations; later events are written with their operations
//! ```
//!
//! A caller that needs all rows in the log (to close, or to drop a family that they refer to) waits until no space is
//! reserved: a commit whose row is not pushed yet still holds its space.
//!
//! Costs: a commit increments one counter and appends its row under a short lock; once the buffers have grown, nothing
//! is allocated. The thread is woken for the first row after a pause, and then for many rows at once: a wake-up costs
//! more than writing one row, and each commit of rows delays the commits of users.
//!
//! Crash: events that have reserved space and are not in the log yet are lost, at most as many as the ring holds.
//! Events in the log always belong to existing commits, because a row is written after its commit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use waxseal_lsm::env::work::{Bell, lock};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::planted;

/// The policy for events of mode async while the ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The writer waits.
    #[default]
    Backpressure,
    /// They are written with their operation, as in mode sync.
    SyncFallback,
    /// They are dropped and counted.
    DropCounted,
}

/// The ring of waiting events of mode async.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Its capacity, which is also the number of events that a crash may lose. With 16 MiB of rows the ring counts as
    /// full, too.
    pub events: usize,
    /// The policy for a full ring.
    pub when_full: WhenFull,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { events: 4096, when_full: WhenFull::default() }
    }
}

/// Statistics of events of mode async.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingStats {
    /// Accepted, but not in the log yet.
    pub waiting: u64,
    /// Dropped since the store was opened.
    pub dropped: u64,
    /// Written with their operation because the ring was full.
    pub fallen_back: u64,
    /// Maximum number of events that a crash may lose.
    pub lost_at_most: u64,
}

/// A waiting row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaitingRow<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// When the row may be dropped, in microseconds since 1970.
    pub(crate) expires: Option<u64>,
}

/// Waiting rows in one buffer.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    bytes: Vec<u8>,
    ends: Vec<RowEnds>,
}

/// The ends of a row's key and value in the buffer, and the row's expiry.
#[derive(Clone, Copy, Debug)]
struct RowEnds {
    key: usize,
    value: usize,
    expires: Option<u64>,
}

impl RowBuffer {
    /// Adds a row whose key is its first `key_end` bytes.
    pub(crate) fn push(&mut self, row: &[u8], key_end: usize, expires: Option<u64>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.ends.push(RowEnds { key: start + key_end.min(row.len()), value: self.bytes.len(), expires });
    }

    /// Adds the rows of another buffer.
    pub(crate) fn append(&mut self, other: &RowBuffer) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let behind = |end: &RowEnds| RowEnds { key: start + end.key, value: start + end.value, expires: end.expires };
        self.ends.extend(other.ends.iter().map(behind));
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the end of the first `count` rows.
    fn end(&self, count: usize) -> usize {
        count.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |last| last.value)
    }

    fn get(&self, at: usize) -> Option<WaitingRow<'_>> {
        let RowEnds { key, value, expires } = *self.ends.get(at)?;
        Some(WaitingRow { key: self.bytes.get(self.end(at)..key)?, value: self.bytes.get(key..value)?, expires })
    }

    /// Removes the rows and keeps the buffer, unless it is large.
    fn clear(&mut self) {
        match self.bytes.capacity() > KEPT_BYTES {
            true => *self = RowBuffer::default(),
            false => {
                self.bytes.clear();
                self.ends.clear();
            }
        }
    }
}

/// Ring space reserved for the events of one commit. Dropping it releases the space.
#[derive(Debug)]
pub(crate) struct Claimed<'a> {
    queue: &'a RowQueue,
    events: usize,
}

impl Claimed<'_> {
    /// Adds the rows to the waiting ones.
    pub(crate) fn push(mut self, add: impl FnOnce(&mut RowBuffer)) {
        self.queue.push(add);
        self.events = 0;
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if planted!(RoomOfRefusedWriteKept, false, self.events > 0) {
            self.queue.free(self.events, 0);
        }
    }
}

/// The decision on the events of a commit.
#[derive(Debug)]
pub(crate) enum Claim<'a> {
    /// Push them to the ring.
    Room(Claimed<'a>),
    /// Write them with the operation; the number counts those that fall back because the ring is full.
    WithOperation(usize),
    /// Drop this number of events.
    Dropped(usize),
    /// There is no space now: call `wait_for_room`, then claim again.
    Full,
}

/// A flag in `taken`: no more space may be reserved.
const SHUT: usize = 1 << (usize::BITS - 1);
/// The ring counts as full when the waiting rows have this many bytes.
const MOST_BYTES: usize = 16 << 20;
/// Number of rows per commit.
const WRITTEN_AT_ONCE: usize = 256;
/// How long the thread waits before it retries a failed write.
const RETRY: Duration = Duration::from_millis(100);
/// How long a row waits for more rows.
const LINGER: Duration = Duration::from_millis(10);
/// Largest buffer kept between commits of rows, in bytes.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct RowQueue {
    ring: Ring,
    /// The number of waiting rows for which the thread is woken.
    many: usize,
    /// Events reserved, waiting or being written, and `SHUT`. Decremented under the lock of `state`, so that no waiter
    /// misses it.
    taken: AtomicUsize,
    /// Bytes of the rows that wait or are being written.
    bytes: AtomicUsize,
    state: Mutex<QueueState>,
    /// Signals new rows, and that the thread must hurry or end.
    came: Bell,
    /// Signals free space.
    room: Bell,
    /// Signals that reserved space was used or released.
    ended: Bell,
    /// Rows being written to the log. Locked while writing, so that rows keep their order.
    writing: Mutex<Writing>,
    dropped: AtomicU64,
    fallen_back: AtomicU64,
}

#[derive(Debug, Default)]
struct QueueState {
    rows: RowBuffer,
    /// A writer waits for space: rows must not linger.
    hurried: bool,
    stopping: bool,
}

/// A group of rows taken together, and how many of them are written.
#[derive(Debug, Default)]
struct Writing {
    rows: RowBuffer,
    written: usize,
}

impl Writing {
    fn is_left(&self) -> bool {
        self.written < self.rows.len()
    }
}

impl RowQueue {
    pub(crate) fn new(ring: Ring) -> RowQueue {
        RowQueue {
            ring,
            many: (ring.events / 4).clamp(1, WRITTEN_AT_ONCE),
            taken: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            state: Mutex::default(),
            came: Bell::new(),
            room: Bell::new(),
            ended: Bell::new(),
            writing: Mutex::default(),
            dropped: AtomicU64::new(0),
            fallen_back: AtomicU64::new(0),
        }
    }

    /// Reserves space for this number of events.
    pub(crate) fn claim(&self, events: usize) -> Claim<'_> {
        if events == 0 {
            return Claim::Room(Claimed { queue: self, events });
        }
        let fits = |taken: usize| {
            let sum = taken.checked_add(events);
            sum.filter(|sum| taken & SHUT == 0 && *sum <= self.ring.events && !self.is_heavy())
        };
        match self.taken.fetch_update(Relaxed, Relaxed, fits) {
            Ok(_) => return Claim::Room(Claimed { queue: self, events }),
            Err(taken) if taken & SHUT != 0 => return Claim::WithOperation(0),
            Err(_) => {}
        }
        match self.ring.when_full {
            WhenFull::Backpressure if events <= self.ring.events => Claim::Full,
            WhenFull::DropCounted => Claim::Dropped(events),
            WhenFull::Backpressure | WhenFull::SyncFallback => Claim::WithOperation(events),
        }
    }

    /// Counts the events of a committed batch that found no space. A commit rejected for retry claims again and is not
    /// counted.
    pub(crate) fn count(&self, claim: &Claim<'_>) {
        let (counter, events) = match claim {
            Claim::Dropped(events) => (&self.dropped, *events),
            Claim::WithOperation(events) => (&self.fallen_back, *events),
            Claim::Room(_) | Claim::Full => return,
        };
        if events > 0 {
            counter.fetch_add(events as u64, Relaxed); // mode sync must not touch this cache line for every event
        }
    }

    /// Waits until there may be space for this number of events. Errors: `Closed` once the writing thread was stopped.
    pub(crate) fn wait_for_room(&self, events: usize) -> Result<()> {
        let mut state = lock(&self.state);
        if state.stopping {
            return Err(Error::closed());
        }
        if self.taken().saturating_add(events) > self.ring.events || self.is_heavy() {
            state.hurried = true;
            self.came.wake_all();
            drop(self.room.wait(state, Some(RETRY)));
        }
        Ok(())
    }

    fn free(&self, events: usize, bytes: usize) {
        let state = lock(&self.state);
        self.taken.fetch_sub(events, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
        drop(state);
        self.room.wake_all();
        self.ended.wake_all();
    }

    fn push(&self, add: impl FnOnce(&mut RowBuffer)) {
        let mut state = lock(&self.state);
        let (before, bytes) = (state.rows.len(), state.rows.bytes.len());
        add(&mut state.rows);
        let after = state.rows.len();
        self.bytes.fetch_add(state.rows.bytes.len() - bytes, Relaxed);
        drop(state);
        if before == 0 || before < self.many && after >= self.many {
            self.came.wake_all();
        }
        self.ended.wake_all();
    }

    /// Waits a while for rows if none wait but some have reserved space. Returns false if no space is reserved.
    pub(crate) fn wait_for_claimed(&self) -> bool {
        let state = lock(&self.state);
        let is_any = self.taken() > 0;
        if is_any && state.rows.len() == 0 {
            drop(self.ended.wait(state, Some(RETRY)));
        }
        is_any
    }

    /// Ends reservations.
    pub(crate) fn shut(&self) {
        self.taken.fetch_or(SHUT, Relaxed);
        self.room.wake_all();
    }

    fn is_heavy(&self) -> bool {
        self.bytes.load(Relaxed) >= MOST_BYTES
    }

    /// Returns the number of events reserved, waiting or being written.
    fn taken(&self) -> usize {
        self.taken.load(Relaxed) & !SHUT
    }

    /// Passes the oldest waiting rows to `write`; returns false if there were none. After a failure the rows keep
    /// waiting, unless the store is closed, halted or read-only and can never write them.
    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut dyn Iterator<Item = WaitingRow<'_>>) -> Result<()>,
    ) -> Result<bool> {
        let mut writing = lock(&self.writing);
        if !writing.is_left() {
            writing.rows.clear();
            writing.written = 0;
            std::mem::swap(&mut writing.rows, &mut lock(&self.state).rows);
        }
        let Writing { rows, written } = &mut *writing;
        let until = rows.len().min(*written + WRITTEN_AT_ONCE);
        if *written == until {
            return Ok(false);
        }
        let outcome = write(&mut (*written..until).filter_map(|at| rows.get(at)));
        let is_over = |kind: &ErrorKind| matches!(kind, ErrorKind::Closed | ErrorKind::Halted | ErrorKind::ReadOnly);
        if outcome.as_ref().err().is_none_or(|error| is_over(error.kind())) {
            let (count, bytes) = (until - *written, rows.end(until) - rows.end(*written));
            *written = planted!(WaitingRowsForgotten, rows.len(), until);
            self.free(count, bytes);
        }
        outcome.map(|()| true)
    }

    /// Blocks the thread until rows must be written; returns false if the thread must end.
    pub(crate) fn wait_for_rows(&self, after_failure: bool) -> bool {
        let is_left = lock(&self.writing).is_left(); // rows of the last group, including failed ones
        let mut state = lock(&self.state);
        if after_failure && !state.stopping {
            state = self.came.wait(state, Some(RETRY));
        }
        while !is_left && state.rows.len() == 0 && !state.stopping {
            state = self.came.wait(state, None);
        }
        // Waits only once: even if woken early, the thread writes the rows it has.
        if !is_left && state.rows.len() < self.many && !state.hurried && !state.stopping {
            state = self.came.wait(state, Some(LINGER));
        }
        state.hurried = false;
        !state.stopping
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.came.wake_all();
        self.room.wake_all();
    }

    pub(crate) fn stats(&self) -> RingStats {
        RingStats {
            waiting: self.taken() as u64,
            dropped: self.dropped.load(Relaxed),
            fallen_back: self.fallen_back.load(Relaxed),
            lost_at_most: self.ring.events as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claimed(queue: &RowQueue, events: usize) -> Claimed<'_> {
        let Claim::Room(claimed) = queue.claim(events) else { panic!("no room for {events}") };
        claimed
    }

    fn push(queue: &RowQueue, rows: &[u8]) {
        claimed(queue, rows.len()).push(|all| rows.iter().for_each(|n| all.push(&[*n, 0, 0], 1, None)));
    }

    fn queue(events: usize, when_full: WhenFull) -> RowQueue {
        RowQueue::new(Ring { events, when_full })
    }

    #[test]
    fn a_full_ring_does_as_it_was_told() {
        let backpressure = queue(2, WhenFull::Backpressure);
        let both = claimed(&backpressure, 2);
        assert!(matches!(backpressure.claim(1), Claim::Full));
        assert!(matches!(backpressure.claim(3), Claim::WithOperation(_)), "it would wait for ever");
        drop(both);
        let _one = claimed(&backpressure, 1);
        assert!(matches!(backpressure.claim(usize::MAX), Claim::WithOperation(_)));
        let dropping = queue(1, WhenFull::DropCounted);
        let _one = claimed(&dropping, 1);
        dropping.claim(2); // of a commit that is rejected for retry
        dropping.count(&dropping.claim(2));
        let falling = queue(1, WhenFull::SyncFallback);
        let _one = claimed(&falling, 1);
        falling.claim(2);
        falling.count(&falling.claim(2));
        let stats = (dropping.stats(), falling.stats());
        assert_eq!((stats.0.dropped, stats.1.fallen_back, stats.0.waiting), (2, 2, 1));
    }

    #[test]
    fn rows_leave_in_order_and_not_before_they_are_written() {
        let queue = queue(8, WhenFull::Backpressure);
        push(&queue, &[1, 2, 3]);
        let failed = queue.write(|_| Err(Error::invalid("no")));
        assert!(failed.is_err());
        assert_eq!(queue.stats().waiting, 3);
        push(&queue, &[4]); // behind the rows that failed
        let mut seen = Vec::new();
        for waiting in [4, 1] {
            let took = queue.write(|rows| {
                seen.extend(rows.map(|row| (row.key[0], row.value.len())));
                assert_eq!(queue.stats().waiting, waiting);
                Ok(())
            });
            assert!(took.unwrap());
        }
        assert_eq!((seen, queue.stats().waiting), (vec![(1, 2), (2, 2), (3, 2), (4, 2)], 0));
        assert!(!queue.write(|_| Ok(())).unwrap());
        push(&queue, &[4]);
        assert!(queue.write(|_| Err(Error::closed())).is_err());
        assert_eq!(queue.stats().waiting, 0, "a closed store takes no rows");
    }

    #[test]
    fn a_ring_of_long_rows_is_full() {
        let queue = queue(600, WhenFull::Backpressure);
        let row = vec![7; MOST_BYTES / 300];
        claimed(&queue, 300).push(|rows| (0..300).for_each(|_| rows.push(&row, 1, None)));
        drop(claimed(&queue, 1)); // still below the limit
        claimed(&queue, 1).push(|rows| rows.push(&row, 1, None));
        assert!(matches!(queue.claim(1), Claim::Full));
        while queue.write(|_| Ok(())).unwrap() {
            drop(claimed(&queue, 1));
        }
        assert_eq!(queue.bytes.load(Relaxed), 0);
    }

    #[test]
    fn a_ring_that_is_shut_takes_nothing_and_waits_for_what_it_took() {
        for events in [2, usize::MAX] {
            let queue = queue(events, WhenFull::DropCounted);
            let [pushed, dropped] = [(); 2].map(|()| claimed(&queue, 1));
            queue.shut();
            assert!(matches!(queue.claim(1), Claim::WithOperation(_)));
            assert_eq!((queue.stats().waiting, queue.stats().dropped, queue.stats().fallen_back), (2, 0, 0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pushed.push(|rows| rows.push(b"row", 1, None));
                    drop(dropped);
                });
                let mut rows = 0;
                while queue.wait_for_claimed() {
                    let count = |some: &mut dyn Iterator<Item = WaitingRow<'_>>| {
                        rows += some.count();
                        Ok(())
                    };
                    queue.write(count).unwrap();
                }
                assert_eq!((rows, queue.stats().waiting), (1, 0));
            });
        }
    }

    #[test]
    fn many_rows_are_written_by_several_commits_each_of_so_many() {
        let count = 2 * WRITTEN_AT_ONCE + 3;
        let queue = queue(count, WhenFull::Backpressure);
        claimed(&queue, count)
            .push(|rows| (0..count).for_each(|at| rows.push(&(at as u64).to_le_bytes(), 8, Some(at as u64))));
        let (mut written, mut commits) = (Vec::new(), Vec::new());
        while queue
            .write(|rows| {
                let before = written.len();
                written.extend(rows.filter_map(|row| row.expires));
                commits.push(written.len() - before);
                Ok(())
            })
            .unwrap()
        {}
        assert_eq!(commits, [WRITTEN_AT_ONCE, WRITTEN_AT_ONCE, 3]);
        assert_eq!(written, (0..count as u64).collect::<Vec<_>>());
    }

    #[test]
    fn the_thread_is_not_left_waiting() {
        for events in [1, 2, 4096] {
            let queue = queue(events, WhenFull::Backpressure);
            push(&queue, &[1]);
            assert!(queue.wait_for_rows(false), "one row is written after a moment");
            assert!(queue.write(|_| Err(Error::invalid("no"))).is_err());
            assert!(queue.wait_for_rows(true), "what failed is tried again, though no row comes");
            queue.stop();
            assert!(!queue.wait_for_rows(false));
            assert!(queue.wait_for_room(events).is_err());
        }
    }

    proptest! {
        #[test]
        fn rows_come_back_one_by_one_or_appended(rows: Vec<(Vec<u8>, Vec<u8>, Option<u64>)>, cut: prop::sample::Index) {
            let mut all = [RowBuffer::default(), RowBuffer::default()];
            let cut = cut.index(rows.len() + 1);
            for (at, (key, value, expires)) in rows.iter().enumerate() {
                let row = [&key[..], value].concat();
                all[usize::from(at >= cut)].push(&row, key.len(), *expires);
            }
            let [mut first, second] = all;
            first.append(&second);
            prop_assert_eq!(first.len(), rows.len());
            for (at, (key, value, expires)) in rows.iter().enumerate() {
                prop_assert_eq!(first.get(at), Some(WaitingRow { key, value, expires: *expires }));
            }
            prop_assert!(first.get(rows.len()).is_none());
        }
    }
}
