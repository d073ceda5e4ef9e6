//! The state of the write path: the frames that are being applied, blob separation and the memory budget.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::blob_separation::BlobSeparator;
use super::memory::MemoryBudget;
use crate::batch::{Batch, Binding, Body};
use crate::db::catalog::Catalog;
use crate::db::notify::lanes::LaneSignals;
use crate::db::notify::notifier::Notifier;
use crate::db::state::context::{StoreContext, reach};
use crate::db::state::family::{ApplyTarget, Family};
use crate::db::state::store_log::{LogPosition, StoreLog};
use crate::env::work::{Signal, lock};
use crate::error::Result;
use crate::names::system_number;
use crate::record::Seqno;
use crate::version::{Edit, EditChange};
use crate::wal::Whole;

/// The write path of a store: the log's frames that are being applied, blob separation and the memory budget.
pub(crate) struct WritePath {
    pub(in crate::db) catalog: Catalog,
    pub(in crate::db) applier: Applier,
    pub(in crate::db) separation: BlobSeparator,
    pub(in crate::db) memory: MemoryBudget,
    /// True if the manifest records that the log may hold range deletes.
    pub(in crate::db) log_deletes_ranges: AtomicBool,
    /// The family that last kept the oldest segment of the log from being retired: a hint.
    pub(in crate::db) log_holder: AtomicU32,
    /// New snapshots must see at least this seqno: of older range deletes, the indexes that were rebuilt know only those
    /// that `readers` sees.
    pub(in crate::db) least_readable: AtomicU64,
}

reach!(
    WritePath, catalog: store_log -> StoreLog, context -> StoreContext, notifier -> Notifier, lanes -> LaneSignals
);

/// The frames that are being applied, the only place where they become visible.
pub(in crate::db) struct Applier {
    pub(in crate::db) apply: Mutex<Apply>,
    /// Offset up to which frames are applied, for writers whose frame another thread applies.
    pub(super) applied: Signal<u64>,
}

pub(in crate::db) struct Apply {
    pub(in crate::db) group: Vec<Whole<Body>>,
    pub(in crate::db) binding: Binding,
    /// The memtable that received the last record.
    pub(in crate::db) target: Option<ApplyTarget>,
    pub(in crate::db) last_seqno: Seqno,
    pub(in crate::db) offset: u64,
    /// True if a memtable exceeded its budget.
    pub(in crate::db) full: bool,
}

impl Apply {
    /// Returns true if a batch writes to a single ordinary family, and the last record went to that family's current
    /// memtable.
    #[inline]
    pub(super) fn is_aimed_at(&self, batch: &Batch) -> bool {
        let ([id], Some(target)) = (batch.families(), &self.target) else { return false };
        target.is_that_of(*id)
            && !batch.has_ranges()
            && !batch.has_operands()
            && system_number(*id).is_none()
            && !target.family.key_ends_in_seqno()
    }
}

impl Applier {
    /// Creates the applier of a log that begins at `offset`, after `last_seqno`.
    pub(in crate::db) fn new(offset: u64, last_seqno: Seqno) -> Applier {
        let (group, binding) = (Vec::new(), Binding::default());
        Applier {
            apply: Mutex::new(Apply { group, binding, target: None, last_seqno, offset, full: false }),
            applied: Signal::new(offset),
        }
    }

    /// Frees the memory that only commits need, because the log is closed.
    pub(in crate::db) fn release(&self) {
        let mut apply = lock(&self.apply);
        (apply.target, apply.group) = (None, Vec::new());
    }

    fn moment(&self) -> LogPosition {
        let apply = lock(&self.apply);
        LogPosition { offset: apply.offset, seqno: apply.last_seqno }
    }
}

impl WritePath {
    #[inline]
    pub(in crate::db) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Freezes the memtables of the chosen families at one commit, and returns its seqno.
    pub(in crate::db) fn freeze(&self, choose: &dyn Fn(&Family) -> bool) -> Result<Seqno> {
        if self.store_log().log().is_none() {
            return Ok(self.store_log().visible());
        }
        let mut apply = lock(&self.applier.apply);
        apply.target = None;
        self.catalog()
            .families()
            .by_id
            .values()
            .filter(|family| choose(family))
            .for_each(|family| family.freeze(apply.last_seqno, &|| self.readers()));
        Ok(apply.last_seqno)
    }

    /// Returns the seqnos at which somebody reads, or may begin to read, below the last applied commit. Called under
    /// the apply lock. From here on nobody may begin to read below the visible commit: see `least_readable`.
    pub(in crate::db) fn readers(&self) -> Vec<Seqno> {
        let visible = self.store_log().visible();
        // Before the snapshots are listed, so that one which is taken meanwhile is either listed or finds this.
        self.least_readable.fetch_max(visible, Ordering::SeqCst);
        let mut readers = self.catalog().snapshots.boundaries();
        readers.push(visible);
        readers
    }

    /// Versions that do not know range deletes must not read the log, so the manifest records them before the first one,
    /// once in the life of a store. Returns false if that is not recorded yet and the caller must not wait for it.
    pub(super) fn record_that_log_deletes_ranges(&self, may_wait: bool) -> Result<bool> {
        if !self.log_deletes_ranges.load(Ordering::Acquire) {
            if !may_wait {
                return Ok(false);
            }
            self.catalog().install(Edit::from(vec![EditChange::LogDeletesRanges]), None)?;
            self.log_deletes_ranges.store(true, Ordering::Release);
        }
        Ok(true)
    }

    /// Returns the position up to which frames are applied.
    pub(in crate::db) fn applied(&self) -> LogPosition {
        self.applier.moment()
    }

    /// Makes all applied frames durable (I15) and returns the durable position.
    pub(in crate::db) fn sync_log(&self) -> Result<LogPosition> {
        let Some(log) = self.store_log().log() else {
            return Ok(LogPosition { offset: 0, seqno: self.store_log().visible() });
        };
        let moment = self.applier.moment();
        log.sync(moment).inspect_err(|error| self.store_log().queue_halt(error))?;
        self.store_log().kick_log(log, true);
        Ok(moment)
    }
}
