//! `LaneSignals`: background work has three lanes, for log housekeeping, flushes and compactions.
//!
//! In threaded mode each lane has its own thread (compactions may have several), which sleeps until it is kicked. In
//! stepped mode background work runs only in `step`, or in a call that must wait and then performs the steps itself. A
//! lane that runs out of disk space retries later: acknowledged data is not affected, and writers that need the space
//! get an error.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::compaction::Stall;
use crate::env::work::{Bell, Mode, Signal, lock};
use crate::error::{Error, Result};
use crate::interrupt;

/// A kind of background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// Drains the ring, and prepares and syncs segments.
    Log = 0,
    /// Flushes frozen memtables to tables.
    Flush = 1,
    /// Merges tables.
    Compact = 2,
}

pub(in crate::db) const LANES: [Lane; 3] = [Lane::Log, Lane::Flush, Lane::Compact];

/// Delay before a lane retries a failed step.
pub(in crate::db) const RETRY: Duration = Duration::from_millis(100);

/// Interval at which a thread that waits for running jobs looks for an interrupt.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Shortest sleep, 200 µs: a shorter one would cost more than it delays.
pub(in crate::db) const LEAST_SLEEP_NANOS: u64 = 200_000;

pub(crate) struct LaneSignals {
    pub(in crate::db) mode: Mode,
    pub(in crate::db) state: Signal<LaneState>,
    /// Lanes that were kicked and have not checked for work yet. Set outside the state's lock, because every commit
    /// kicks a busy lane. A thread that sets a flag then acquires and releases the lock before it rings the bell, so
    /// that no lane falls asleep on the old flag.
    pub(in crate::db) kicked: [AtomicBool; 3],
    /// Wakes each lane. If a lane has several threads, the bell wakes one, which kicks the next one if more work is
    /// due.
    pub(in crate::db) bells: [Bell; 3],
    /// Set once, at close; long jobs poll it.
    pub(crate) stopping: AtomicBool,
    /// The writers' delay: 0 for none, `u64::MAX` for a stop, otherwise nanoseconds per 1,024 bytes.
    stall: AtomicU64,
    /// Delay in nanoseconds that writers have accumulated and not waited yet.
    pub(in crate::db) owed: AtomicU64,
    /// The stall that tables alone require, as of the last change of tables. Locked from reading the debt to the
    /// decision, so that a decision from older data never replaces a newer one.
    deciding: Mutex<Stall>,
    /// Number of pauses in force: see `holds_back`.
    pauses: AtomicUsize,
    /// Number of steps in which a lane flushes or merges now.
    running: AtomicUsize,
    /// True if so many memtables wait for their flush that writers must check the active memtable's fullness.
    watches: AtomicBool,
}

thread_local! {
    /// Number of counted steps that this thread performs.
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// A step of a lane; holds the signals that count it.
pub(in crate::db) struct LaneStep<'a>(Option<&'a LaneSignals>);

impl Drop for LaneStep<'_> {
    fn drop(&mut self) {
        let Some(lanes) = self.0 else { return };
        STEPS.set(STEPS.get() - 1);
        lanes.running.fetch_sub(1, Ordering::SeqCst);
        if lanes.pauses() > 0 {
            lanes.changed();
        }
    }
}

#[derive(Default)]
pub(in crate::db) struct LaneState {
    /// The last failure of each lane, until the lane succeeds again.
    pub(in crate::db) failed: [Option<Error>; 3],
}

impl LaneSignals {
    pub(crate) fn new(mode: Mode) -> LaneSignals {
        LaneSignals {
            mode,
            state: Signal::new(LaneState::default()),
            kicked: [const { AtomicBool::new(false) }; 3],
            bells: [const { Bell::new() }; 3],
            stopping: AtomicBool::new(false),
            stall: AtomicU64::new(0),
            owed: AtomicU64::new(0),
            deciding: Mutex::new(Stall::Go),
            pauses: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            watches: AtomicBool::new(false),
        }
    }

    /// Begins a step of a lane; `None` while a pause holds the lane back.
    pub(in crate::db) fn begin_step(&self, lane: Lane) -> Option<LaneStep<'_>> {
        let counted = (lane != Lane::Log).then_some(self);
        // Counted before the look at the pauses, so that a pause sees each step that does not see the pause.
        if counted.is_some() {
            self.running.fetch_add(1, Ordering::SeqCst);
            STEPS.set(STEPS.get() + 1);
        }
        let step = LaneStep(counted);
        if self.holds_back(lane) { None } else { Some(step) }
    }

    /// Returns true if a lane begins no job: background work is paused, and no writer waits for the lane. A writer that
    /// is slowed down or stopped waits for flushes, and one that is stopped for merges too.
    fn holds_back(&self, lane: Lane) -> bool {
        let is_paused = self.pauses.load(Ordering::SeqCst) > 0;
        is_paused
            && match (lane, self.stall()) {
                (Lane::Log, _) => false,
                (Lane::Flush, stall) => stall == Stall::Go,
                (Lane::Compact, stall) => stall != Stall::Stop,
            }
    }

    /// Returns the number of pauses in force.
    pub(in crate::db) fn pauses(&self) -> usize {
        self.pauses.load(Ordering::Relaxed)
    }

    /// Begins a pause.
    pub(in crate::db) fn pause(&self) {
        self.pauses.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a pause.
    pub(in crate::db) fn resume(&self) {
        self.pauses.fetch_sub(1, Ordering::SeqCst);
        self.kick(Lane::Flush);
        self.kick(Lane::Compact);
    }

    /// Waits until the steps that a pause did not prevent have ended. Returns at once on a thread that performs such a
    /// step itself (a listener's call), and while writers wait for jobs.
    pub(in crate::db) fn wait_for_pause(&self) -> Result<()> {
        let mut state = self.state.lock();
        while STEPS.get() == 0
            && self.running.load(Ordering::SeqCst) > 0
            && self.stall() == Stall::Go
            && !self.is_stopping()
        {
            interrupt::check()?;
            state = self.state.wait(state, Some(LOOK_AGAIN));
        }
        Ok(())
    }

    /// Wakes a lane that may have work.
    pub(crate) fn kick(&self, lane: Lane) {
        if !self.kicked[lane as usize].swap(true, Ordering::AcqRel) {
            drop(self.state.lock());
            self.bells[lane as usize].wake_one();
        }
    }

    /// Wakes threads that wait for a change of state. Lanes wait only for their bells.
    pub(crate) fn changed(&self) {
        drop(self.state.lock());
        self.state.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.changed();
        self.bells.iter().for_each(Bell::wake_all);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Returns the failure that keeps a lane from its work, if any.
    pub(crate) fn failure(&self, lane: Lane) -> Option<Error> {
        self.state.lock().failed[lane as usize].clone()
    }

    /// Records the failure that keeps a lane from its work.
    pub(in crate::db) fn fail(&self, lane: Lane, error: &Error) {
        self.state.lock().failed[lane as usize] = Some(error.clone());
        self.state.notify_all();
    }

    #[inline]
    pub(crate) fn stall(&self) -> Stall {
        match self.stall.load(Ordering::Relaxed) {
            0 => Stall::Go,
            u64::MAX => Stall::Stop,
            nanos => Stall::Delay(nanos),
        }
    }

    /// Returns true while writers must check the memtables' fullness as they fill them.
    #[inline]
    pub(crate) fn watches(&self) -> bool {
        self.watches.load(Ordering::Relaxed)
    }

    pub(crate) fn watch(&self, watches: bool) {
        self.watches.store(watches, Ordering::Relaxed);
    }

    /// Decides the stall again. A thread that changed the inputs of the debt calls this afterwards, so the last
    /// decision is made from the last state, whichever thread makes it. `stall` receives the tables' last requirement
    /// and may change it. `on_change` is called, in the order of decisions, when writers begin or cease to be
    /// throttled.
    pub(crate) fn decide_stall(&self, stall: impl FnOnce(&mut Stall) -> Stall, on_change: impl FnOnce(bool)) {
        let mut one_look_at_a_time = lock(&self.deciding);
        let stall = stall(&mut one_look_at_a_time);
        let word = match stall {
            Stall::Go => 0,
            Stall::Delay(nanos) => nanos.clamp(1, u64::MAX - 1),
            Stall::Stop => u64::MAX,
        };
        let before = self.stall.swap(word, Ordering::Relaxed);
        if before != word {
            self.changed();
            if word != 0 && self.pauses() > 0 {
                self.kick(Lane::Flush); // which may have seen the pause and no waiting writer
                self.kick(Lane::Compact);
            }
        }
        if (before == 0) != (word == 0) {
            on_change(word != 0);
        }
    }
}
