//! Background work in three lanes: log housekeeping, flushes and compactions.
//!
//! In threaded mode each lane has its own thread (compactions may have several), which sleeps until it is kicked. In
//! stepped mode background work runs only in `step`, or in a call that must wait and then performs the steps itself. A
//! lane that runs out of disk space retries later: acknowledged data is not affected, and writers that need the space
//! get an error.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Access, Db, Event, Inner};
use crate::compaction::Stall;
use crate::env::work::{Bell, Mode, Signal, lock, spawn};
use crate::error::{Error, ErrorKind, IoContext, Result};
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

const LANES: [Lane; 3] = [Lane::Log, Lane::Flush, Lane::Compact];

/// Delay before a lane retries a failed step.
const RETRY: Duration = Duration::from_millis(100);

/// Shortest sleep, 200 µs: a shorter one would cost more than it delays.
const LEAST_SLEEP_NANOS: u64 = 200_000;

pub(crate) struct Background {
    mode: Mode,
    state: Signal<State>,
    /// Lanes that were kicked and have not checked for work yet. Set outside the state's lock, because every commit
    /// kicks a busy lane. A thread that sets a flag then acquires and releases the lock before it rings the bell, so
    /// that no lane falls asleep on the old flag.
    kicked: [AtomicBool; 3],
    /// Wakes each lane. If a lane has several threads, the bell wakes one, which kicks the next one if more work is
    /// due.
    bells: [Bell; 3],
    /// Set once, at close; long jobs poll it.
    pub(crate) stopping: AtomicBool,
    /// The writers' delay: 0 for none, `u64::MAX` for a stop, otherwise nanoseconds per 1,024 bytes.
    stall: AtomicU64,
    /// Delay in nanoseconds that writers have accumulated and not waited yet.
    owed: AtomicU64,
    /// The stall that tables alone require, as of the last change of tables. Locked from reading the debt to the
    /// decision, so that a decision from older data never replaces a newer one.
    deciding: Mutex<Stall>,
    /// True if so many memtables wait for their flush that writers must check the active memtable's fullness.
    watches: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The last failure of each lane, until the lane succeeds again.
    failed: [Option<Error>; 3],
}

impl Background {
    pub(crate) fn new(mode: Mode) -> Background {
        Background {
            mode,
            state: Signal::new(State::default()),
            kicked: [const { AtomicBool::new(false) }; 3],
            bells: [const { Bell::new() }; 3],
            stopping: AtomicBool::new(false),
            stall: AtomicU64::new(0),
            owed: AtomicU64::new(0),
            deciding: Mutex::new(Stall::Go),
            watches: AtomicBool::new(false),
        }
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
    pub(super) fn fail(&self, lane: Lane, error: &Error) {
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
    /// and may change it. `turned` is called, in the order of decisions, when writers begin or cease to be throttled.
    pub(crate) fn decide_stall(&self, stall: impl FnOnce(&mut Stall) -> Stall, turned: impl FnOnce(bool)) {
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
        }
        if (before == 0) != (word == 0) {
            turned(word != 0);
        }
    }
}

impl Db {
    /// Performs one step of background work; returns true if work was done. For stores in stepped mode.
    pub fn step(&self) -> Result<bool> {
        let inner = self.open_inner()?;
        Ok(inner.access == Access::Write && inner.step_any())
    }
}

impl Inner {
    /// Starts the lanes' threads.
    pub(crate) fn start_lanes(self: &Arc<Inner>) -> Result<Vec<std::thread::JoinHandle<()>>> {
        if self.background.mode == Mode::Stepped || self.access != Access::Write {
            return Ok(Vec::new());
        }
        let compactors = (0..self.settings.background_threads).map(|_| Lane::Compact);
        [Lane::Log, Lane::Flush]
            .into_iter()
            .chain(compactors)
            .map(|lane| {
                let inner = self.clone();
                let name = format!("waxseal-{}", format!("{lane:?}").to_lowercase());
                spawn(&name, lane != Lane::Log, move || inner.run_lane(lane)).during(|| format!("starting {name}"))
            })
            .collect()
    }

    fn run_lane(&self, lane: Lane) {
        while !self.background.is_stopping() {
            let pause = match self.try_step(lane) {
                Ok(true) => continue,
                // Postponed tables are retried after a while, and no bell rings for that.
                Ok(false) if lane == Lane::Compact && self.compactions.waits_for_any(self.now_nanos()) => Some(RETRY),
                Ok(false) if lane == Lane::Compact => self.until_expiry(),
                Ok(false) => None,
                Err(_) => Some(RETRY),
            };
            let kicked = &self.background.kicked[lane as usize];
            let mut state = self.background.state.lock();
            if pause.is_some() {
                kicked.store(false, Ordering::Release);
            }
            while !kicked.load(Ordering::Acquire) && !self.background.is_stopping() {
                state = self.background.bells[lane as usize].wait(state, pause);
                if pause.is_some() {
                    break;
                }
            }
            // A swap, so that the following check sees all work done before the kick.
            kicked.swap(false, Ordering::AcqRel);
        }
    }

    /// Performs one step in a lane, records and reports its failure, and catches a panic of a callback.
    fn try_step(&self, lane: Lane) -> Result<bool> {
        self.caught(lane, || self.told_step(lane))
    }

    fn told_step(&self, lane: Lane) -> Result<bool> {
        let outcome = match lane {
            Lane::Log => self.log_step(),
            Lane::Flush => self.flush_step(),
            Lane::Compact => self.compact_step(),
        };
        if outcome.is_err() && self.check_halted().is_ok() {
            let _ = self.halt_if_lost();
        }
        let failed = match &outcome {
            Err(error) if !matches!(error.kind(), ErrorKind::Closed | ErrorKind::Interrupted) => Some(error.clone()),
            _ => None,
        };
        let mut state = self.background.state.lock();
        let is_news = failed.is_some() && state.failed[lane as usize].is_none();
        state.failed[lane as usize] = failed.clone();
        drop(state);
        self.background.state.notify_all();
        if let (true, Some(error)) = (is_news, failed) {
            self.note(Event::BackgroundError { error, halted: false });
        }
        self.tell_noted();
        outcome
    }

    /// Performs one step in any lane, the log first, because the other lanes wait for it.
    pub(crate) fn step_any(&self) -> bool {
        LANES.into_iter().any(|lane| self.try_step(lane).unwrap_or(false))
    }

    /// Waits until `done` is true, which running compactions bring about, whether they succeed or not. In stepped mode
    /// it performs the steps itself.
    pub(crate) fn wait_for_others(&self, done: impl FnMut() -> bool) -> Result<()> {
        self.wait_for(|| Lane::Compact, false, done)
    }

    /// Waits until `done` is true. `lane` returns the lane to wait for, which may change meanwhile. If `minds` is set,
    /// fails with the error that keeps the lane from its work.
    fn wait_for(&self, lane: impl Fn() -> Lane, minds: bool, mut done: impl FnMut() -> bool) -> Result<()> {
        loop {
            let lane = lane(); // before `done`: work missing then belongs to this lane
            if done() {
                return Ok(());
            }
            self.check_halted()?;
            if self.background.is_stopping() {
                return Err(Error::closed());
            }
            interrupt::check()?;
            match self.background.mode {
                Mode::Stepped => {
                    if !self.step_any() && !done() {
                        let stuck = || Error::invalid("waits for background work that nobody has to do");
                        return Err(self.background.failure(lane).unwrap_or_else(stuck));
                    }
                }
                Mode::Threads => {
                    self.background.kick(lane);
                    let state = self.background.state.lock();
                    if let Some(error) = state.failed[lane as usize].as_ref().filter(|_| minds) {
                        return Err(error.clone());
                    }
                    drop(self.background.state.wait(state, Some(Duration::from_millis(10))));
                }
            }
        }
    }

    /// Throttles a writer of `bytes` bytes as the debt requires: no delay, a delay, or a stop until the debt is
    /// reduced.
    #[inline]
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        self.grows_by(bytes);
        match self.background.stall() {
            Stall::Go => Ok(()),
            stall => self.hold_back(stall, bytes),
        }
    }

    #[inline(never)]
    fn hold_back(&self, stall: Stall, bytes: usize) -> Result<()> {
        let before = self.env.clock.monotonic_nanos();
        let outcome = match stall.nanos(bytes as u64) {
            Some(nanos) => {
                self.slow_down(nanos);
                Ok(())
            }
            None => {
                self.revise_stall();
                let lane = || {
                    self.revise_memory(); // freezes memtables whose flush ends the stop
                    self.freeze_log_holders();
                    self.note_waits();
                    self.tell_noted();
                    if self.flush_is_due() { Lane::Flush } else { Lane::Compact }
                };
                self.wait_for(lane, true, || self.background.stall() != Stall::Stop)
            }
        };
        self.counters.stalled(self.env.clock.monotonic_nanos() - before);
        outcome
    }

    /// Waits for a delay. Short delays accumulate until they are worth a sleep.
    fn slow_down(&self, nanos: u64) {
        if self.background.mode == Mode::Stepped {
            self.step_any();
            return;
        }
        let owed = self.background.owed.fetch_add(nanos, Ordering::Relaxed).saturating_add(nanos);
        if owed < LEAST_SLEEP_NANOS {
            return;
        }
        // The first thread takes over the whole accumulated delay, so that it is waited only once.
        let mine = self.background.owed.swap(0, Ordering::Relaxed);
        let until = self.env.clock.monotonic_nanos().saturating_add(mine.min(nanos.max(LEAST_SLEEP_NANOS)));
        let mut state = self.background.state.lock();
        loop {
            let now = self.env.clock.monotonic_nanos();
            if now >= until || self.background.stall() == Stall::Go || self.background.is_stopping() {
                return;
            }
            state = self.background.state.wait(state, Some(Duration::from_nanos(until - now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{At, Parts};
    use crate::env::SimFs;
    use crate::env::sim::Crash;
    use crate::options::{CfOptions, Durability, Settings};
    use crate::record::Kind;

    fn open(sim: &SimFs, segment_bytes: u64) -> Db {
        let families = vec![("default".to_owned(), CfOptions::default())];
        let parts = Parts { env: sim.env(1), families, ..Parts::real() };
        let settings = Settings { segment_bytes, ring_bytes: 64 * 1024, drain_bytes: 32 * 1024, ..Settings::default() };
        Db::open(Path::new("/store"), settings, parts).unwrap()
    }

    /// The lane may have looked for work while the tables were held.
    #[test]
    fn tables_that_are_given_back_wake_the_lane_that_compacts() {
        let db = open(&SimFs::new(3), 64 * 1024);
        let family = db.family("default").unwrap();
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, b"key", b"value", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        db.flush().unwrap();
        let table = db.tables(&family).unwrap()[0].meta().number;
        let held = db.hold_tables(&family, &[table]).unwrap();
        let kicked = &db.inner().background.kicked[Lane::Compact as usize];
        kicked.store(false, Ordering::Relaxed);
        drop(held);
        assert!(kicked.load(Ordering::Relaxed));
    }

    /// Makes single commits until the log lane is kicked.
    fn sync_until_kicked(db: &Db, most: usize) {
        commit_until_kicked(db, most, Durability::Sync);
    }

    fn commit_until_kicked(db: &Db, most: usize, durability: Durability) {
        let family = db.family("default").unwrap();
        let is_kicked = || db.inner().background.kicked[Lane::Log as usize].load(Ordering::Relaxed);
        let mut commits = 0;
        while !is_kicked() {
            let mut batch = Batch::new();
            batch.push(family.id(), Kind::Put, b"key", b"value", db.companions()).unwrap();
            db.commit(&mut batch, durability).unwrap();
            commits += 1;
            assert!(commits < most, "half of what was written of the first segment is used, and nobody knows");
        }
    }

    #[test]
    fn a_segment_in_the_making_is_gone_after_a_crash() {
        let sim = SimFs::new(1);
        let segments = || sim.files("/store").iter().filter(|name| name.ends_with(".log")).count();
        let db = open(&sim, 1 << 20);
        sync_until_kicked(&db, 32);
        let before = segments();
        while segments() == before {
            assert!(db.step().unwrap(), "blocks are reserved, then comes the first of four pieces");
        }
        assert_eq!(segments(), before + 1);
        assert_eq!(db.inner().log.as_ref().unwrap().wal().metrics().segments_made.load(Ordering::Relaxed), 0);
        sim.crash_at(sim.steps());
        drop(db);
        sim.reboot(Crash::Process);
        let db = open(&sim, 1 << 20);
        assert_eq!(segments(), before + 2, "both of the crash, and a fresh one");
        while db.step().unwrap() {}
        assert_eq!(segments(), before, "the lanes remove what is left over");
        let mut value = None;
        db.get(&db.family("default").unwrap(), b"key", At::Latest, &mut |record| value = Some(record.value.to_vec()))
            .unwrap();
        assert_eq!(value.as_deref(), Some(&b"value"[..]));
    }

    /// A sync also drains the ring, so no drain is ever due; the lane must still learn of the next segment.
    #[test]
    fn a_log_that_is_only_synced_asks_for_its_next_segment() {
        let sim = SimFs::new(1);
        let db = open(&sim, 256 * 1024);
        sync_until_kicked(&db, 8);
        let log = db.inner().log.as_ref().unwrap();
        let made = || log.wal().metrics().segments_made.load(Ordering::Relaxed);
        let before = made();
        while db.step().unwrap() {}
        assert_eq!(made(), before + 1);
    }

    /// A log that is not mapped has no drains, and an unsynced commit makes no other log work due. Without a kick, full
    /// segments stay unsynced until the next flush, and each commit that reaches the end of a segment must create the
    /// next one itself.
    #[test]
    fn a_log_that_is_not_mapped_asks_for_its_next_segment() {
        let sim = SimFs::new(1);
        let parts =
            Parts { env: sim.env(1), families: vec![("default".to_owned(), CfOptions::default())], ..Parts::real() };
        let settings = Settings { segment_bytes: 16 * 1024, wal_mapped: false, ..Settings::default() };
        let db = Db::open(Path::new("/store"), settings, parts).unwrap();
        let log = db.inner().log.as_ref().unwrap();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for _ in 0..4 {
            commit_until_kicked(&db, 400, Durability::Os);
            while db.step().unwrap() {}
            db.inner().background.kicked[Lane::Log as usize].store(false, Ordering::Relaxed);
        }
        assert!(count(&log.wal().metrics().segments_made) > 1 && count(&log.wal().metrics().syncs) > 0);
    }
}
