//! The log of an open store: its durable position, the last visible commit, and halting. `commit.rs` applies its
//! frames.
//!
//! A failed write or sync halts the store (I09): from then on it acknowledges no commit, but reads continue.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::context::{StoreContext, reach};
use crate::batch::Body;
use crate::db::notify::lanes::{Lane, LaneSignals};
use crate::db::notify::notifier::Notifier;
use crate::env::Env;
use crate::env::work::Mode;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::identity::StoreIdentity;
use crate::interrupt;
use crate::names::check_place;
use crate::options::Settings;
use crate::planted;
use crate::record::Seqno;
use crate::version::ManifestState;
use crate::wal::{LogProofs, LogStart, Numbers, Wal};

/// A log that is being written.
pub(crate) struct OpenLog {
    wal: Wal<Body>,
    /// The greatest seqno known to be durable.
    durable: AtomicU64,
    start: LogStart,
    /// The last seqno before the log begins.
    seqno_before: Seqno,
}

/// A position in the log: all operations up to the seqno are applied, and their frames end at the offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    pub(crate) offset: u64,
    pub(crate) seqno: Seqno,
}

impl OpenLog {
    /// Creates a log that begins at `offset`, after `last_seqno`; no manifest edit names it yet.
    pub(in crate::db) fn create(
        env: &Env,
        (dir, store): (&Path, &StoreIdentity),
        settings: &Settings,
        offset: u64,
        last_seqno: Seqno,
        numbers: Numbers,
    ) -> Result<OpenLog> {
        let (wal, start) = Wal::create(env, (dir, store), settings, offset, last_seqno + 1, numbers)?;
        Ok(OpenLog { wal, durable: AtomicU64::new(last_seqno), start, seqno_before: last_seqno })
    }

    /// Returns the location of the first segment and of the ring.
    pub(in crate::db) fn start(&self) -> LogStart {
        self.start
    }

    /// Returns the position at which the log began.
    pub(in crate::db) fn begin(&self) -> LogPosition {
        LogPosition { offset: self.start.place.offset, seqno: self.seqno_before }
    }

    pub(in crate::db) fn durable_seqno(&self) -> Seqno {
        self.durable.load(Ordering::Acquire)
    }

    /// Notes that the commits up to `seqno` are durable.
    pub(in crate::db) fn note_durable(&self, seqno: Seqno) {
        self.durable.fetch_max(seqno, Ordering::AcqRel);
    }

    #[inline]
    pub(in crate::db) fn wal(&self) -> &Wal<Body> {
        &self.wal
    }

    /// Makes the applied frames up to a position durable.
    pub(in crate::db) fn sync(&self, moment: LogPosition) -> Result<()> {
        self.wal.sync_once(moment.offset)?;
        self.note_durable(moment.seqno);
        Ok(())
    }
}

/// The log as the owners above it see it; contains the store's context.
pub(crate) struct StoreLog {
    context: StoreContext,
    /// `None` when the store is read-only.
    log: Option<OpenLog>,
    /// The last seqno that reads see (I01).
    pub(in crate::db) visible: AtomicU64,
}

reach!(StoreLog, context: notifier -> Notifier, lanes -> LaneSignals);

impl StoreLog {
    pub(in crate::db) fn new(context: StoreContext, log: Option<OpenLog>, visible: Seqno) -> StoreLog {
        StoreLog { context, log, visible: AtomicU64::new(visible) }
    }

    #[inline]
    pub(in crate::db) fn context(&self) -> &StoreContext {
        &self.context
    }

    /// Returns the log, or `None` when the store is read-only.
    #[inline]
    pub(in crate::db) fn log(&self) -> Option<&OpenLog> {
        self.log.as_ref()
    }

    #[inline]
    pub(crate) fn visible(&self) -> Seqno {
        self.visible.load(Ordering::Acquire)
    }

    /// Halts the store and reports it, if it has lost its lock, its `CURRENT` or its directory.
    pub(in crate::db) fn halt_if_lost(&self) -> Result<()> {
        match check_place(&self.context().env) {
            Err(error) if *error.kind() == ErrorKind::Halted => Err(self.halt(error)),
            outcome => outcome,
        }
    }

    /// Wakes the log lane if it has work. A sync also drains the ring, so a log that is always synced never needs a
    /// drain. Without this kick the lane would not learn that the next segment is needed, and syncing threads would pay
    /// for writing to unallocated blocks. An unmapped log needs this kick as well.
    #[inline(always)]
    pub(in crate::db) fn kick_log(&self, log: &OpenLog, synced: bool) {
        if log.wal().drain_due() || (synced || !log.wal().is_mapped()) && log.wal().prepare_wanted() {
            self.lanes().kick(Lane::Log);
        }
    }

    /// Halts the store: from now on no commit is acknowledged, synced or made permanent (I09). Reads continue.
    pub(crate) fn halt(&self, error: Error) -> Error {
        let Some(log) = self.log() else { return error };
        let halted = log.wal().halt(error.clone());
        self.queue_halt(&error);
        halted
    }

    /// Returns `Halted` if the store has halted.
    pub(crate) fn check_halted(&self) -> Result<()> {
        self.log().and_then(|log| log.wal().failed()).map_or(Ok(()), Err)
    }

    /// Reports to the listener, once, that the store halted. Called with no lock held.
    pub(in crate::db) fn report_halt(&self, error: &Error) {
        if self.check_halted().is_ok() {
            let _ = self.halt_if_lost(); // a file could not be created: check whether the directory is gone
        }
        self.queue_halt(error);
        self.notifier().deliver();
    }

    /// Queues, once, the event that the store halted.
    pub(in crate::db) fn queue_halt(&self, error: &Error) {
        if self.check_halted().is_err() && *error.kind() != ErrorKind::Closed && self.notifier().queue_halt(error) {
            self.lanes().kick(Lane::Flush); // which delivers it, unless another thread does first
        }
    }

    pub(in crate::db) fn sync_dir_before_edit(&self) -> Result<()> {
        planted!(EditBeforeDirectorySync => return Ok(()));
        self.sync_names()
    }

    /// Syncs the store's directory. After a failure the durability of every unsynced name is unknown, including files
    /// of other jobs whose own sync may then report success. Therefore the store halts (I09).
    pub(in crate::db) fn sync_names(&self) -> Result<()> {
        let synced = self.context().env.fs.sync_dir(&self.context().dir).during(|| "syncing the store's directory");
        synced.map_err(|error| self.halt(error))
    }

    /// Waits until `done` is true. `lane` returns the lane to wait for, which may change meanwhile. If `minds` is set,
    /// fails with the error that keeps the lane from its work.
    pub(in crate::db) fn wait_for_lane(
        &self,
        step: &dyn Fn() -> bool,
        lane: impl Fn() -> Lane,
        minds: bool,
        mut done: impl FnMut() -> bool,
    ) -> Result<()> {
        loop {
            let lane = lane(); // before `done`: work missing then belongs to this lane
            if done() {
                return Ok(());
            }
            self.check_halted()?;
            if self.lanes().is_stopping() {
                return Err(Error::closed());
            }
            interrupt::check()?;
            match self.lanes().mode {
                Mode::Stepped => {
                    if !step() && !done() {
                        let stuck = || Error::invalid("waits for background work that nobody has to do");
                        return Err(self.lanes().failure(lane).unwrap_or_else(stuck));
                    }
                }
                Mode::Threads => {
                    self.lanes().kick(lane);
                    let state = self.lanes().state.lock();
                    if let Some(error) = state.failed[lane as usize].as_ref().filter(|_| minds) {
                        return Err(error.clone());
                    }
                    drop(self.lanes().state.wait(state, Some(Duration::from_millis(10))));
                }
            }
        }
    }

    /// Waits until `done` is true, which running compactions bring about, whether they succeed or not. In stepped mode
    /// `step` performs one step of background work.
    pub(in crate::db) fn wait_for_compactions(
        &self,
        step: &dyn Fn() -> bool,
        done: impl FnMut() -> bool,
    ) -> Result<()> {
        self.wait_for_lane(step, || Lane::Compact, false, done)
    }
}

/// Returns the facts that a manifest proves about the log.
pub fn facts_of(state: &ManifestState) -> LogProofs {
    LogProofs {
        sealed: state.sealed.values().copied().collect(),
        permanent: state.permanent_offset,
        witness: state.log_witness,
        seqno: state.permanent_seqno + 1,
    }
}
