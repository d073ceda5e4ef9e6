//! The facts of an open store that every owner needs, and the two means to reach threads and listeners. Every other
//! owner is above it.

use std::path::PathBuf;
use std::sync::Arc;

use super::counters::Counters;
use super::live_settings::LiveSettings;
use crate::checksum::Uid;
use crate::compaction::WriteRate;
use crate::db::notify::lanes::LaneSignals;
use crate::db::notify::notifier::Notifier;
use crate::env::Env;
use crate::left_files::LeftFiles;
use crate::names::StoreFileName;
use crate::seam::{Companions, Protection};
use crate::sst::Cache;

/// The access mode of an open store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Reads and writes.
    Write,
    /// Reads only, without a lock, possibly while another process writes the store.
    Read,
    /// Reads only, because the disk had no room for recovery; the store lock is held.
    NoSpace,
}

/// The environment of an open store. The lowest owner.
pub(crate) struct StoreContext {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    /// The store's unique id.
    pub(crate) store: Uid,
    pub(in crate::db) settings: LiveSettings,
    pub(crate) access: Access,
    pub(crate) companions: Arc<dyn Companions>,
    /// The protection that the record protector promises for written records.
    pub(in crate::db) promise: Protection,
    pub(crate) cache: Arc<Cache>,
    pub(in crate::db) pace: WriteRate,
    pub(in crate::db) counters: Counters,
    /// The files that could not be removed, except those of the log.
    pub(in crate::db) left: LeftFiles,
    pub(in crate::db) lanes: Arc<LaneSignals>,
    pub(in crate::db) notifier: Arc<Notifier>,
}

impl StoreContext {
    #[inline]
    pub(in crate::db) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    #[inline]
    pub(in crate::db) fn lanes(&self) -> &LaneSignals {
        &self.lanes
    }

    /// Returns the current time for measuring jobs.
    pub(in crate::db) fn now_nanos(&self) -> u64 {
        self.env.clock.monotonic_nanos()
    }

    /// Removes a file that no version names. If that fails, `retry_removals` tries again, and so does the next open.
    /// Returns true if the file was removed.
    pub(in crate::db) fn remove_file(&self, name: StoreFileName) -> bool {
        self.left.remove(&*self.env.fs, &self.dir, name)
    }

    /// Tries again to remove the files that could not be removed. Returns true if it removed one.
    pub(in crate::db) fn retry_removals(&self) -> bool {
        self.left.retry(&*self.env.fs, &self.dir)
    }

    pub(crate) fn path(&self, name: StoreFileName) -> PathBuf {
        self.dir.join(name.to_string())
    }
}

/// Defines methods of an owner that return the owners below the one it contains.
macro_rules! reach {
    ($owner:ty, $below:ident: $($method:ident -> $type:ty),+) => {
        impl $owner {
            $(
                #[inline]
                pub(in crate::db) fn $method(&self) -> &$type {
                    self.$below.$method()
                }
            )+
        }
    };
}
pub(in crate::db) use reach;
