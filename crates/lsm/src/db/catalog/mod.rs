//! The catalog: the store's families with their views, the manifest, the table files and the event log.
//!
//! ```text
//! install.rs         makes an edit durable, then swaps the views (I04); view_change.rs: its changes to one family
//! feed.rs            what the change feed keeps of the log, and who needs it
//! obsolete_files.rs  frees and removes files that no version names
//! claims.rs          tables in use by compactions and repairs, quarantined tables, postponed tables
//! event_log.rs       the event log: each job adds an entry to its edit; event_rows.rs: entries that become rows
//! ```

pub(super) mod claims;
pub(super) mod event_log;
pub(super) mod event_rows;
pub(super) mod feed;
mod install;
pub(super) mod obsolete_files;
pub(super) mod view_change;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use rpds::RedBlackTreeMapSync;

use crate::db::notify::lanes::LaneSignals;
use crate::db::notify::notifier::Notifier;
use crate::db::reads::{ReadPoint, Reads};
use crate::db::state::context::{StoreContext, reach};
use crate::db::state::family::{Family, Generation};
use crate::db::state::live_memtables::LiveMemtables;
use crate::db::state::snapshot::{At, Snapshot, Snapshots};
use crate::db::state::store_log::StoreLog;
use crate::error::{Error, Result};
use crate::expiry::AsOf;
use crate::planted;
use crate::record::Seqno;
use crate::seam::{EngineEvent, Work};
use crate::version::{Edit, Manifest, OpenTables};
use claims::TableClaims;
use event_log::{EventLog, add_event, touched};
use feed::Feed;
use obsolete_files::ObsoleteFiles;
use view_change::Replaced;

/// The families of a store, its manifest and its files.
pub(crate) struct Catalog {
    pub(super) store_log: StoreLog,
    pub(super) reads: Arc<Reads>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) families: ArcSwap<FamilyMap>,
    /// The log of edits; held during its own I/O, never taken by a reader (I14).
    pub(super) manifest: Mutex<Option<Manifest>>,
    /// The number of the format level that the manifest records.
    pub(super) format_level: AtomicU32,
    pub(super) next_file: Arc<AtomicU64>,
    pub(super) claims: TableClaims,
    /// Counts the begins and ends of ingestions, so it is odd while one has a seqno but does not yet show its records.
    /// A snapshot taken meanwhile holds its views.
    pub(super) ingestions: AtomicU64,
    /// Number of running compactions that apply a filter. A snapshot taken meanwhile holds its views.
    pub(super) filtering: AtomicU64,
    pub(super) obsolete: ObsoleteFiles,
    /// Counts the open tables and bounds their number.
    pub(super) open_tables: Arc<OpenTables>,
    pub(super) events: EventLog,
    pub(super) feed: Arc<Feed>,
}

reach!(Catalog, store_log: context -> StoreContext, notifier -> Notifier, lanes -> LaneSignals);

/// The families by id and by name. Adding or removing a family in a clone shares the other families with the original.
#[derive(Clone, Default)]
pub(crate) struct FamilyMap {
    pub(crate) by_id: RedBlackTreeMapSync<u32, Family>,
    by_name: RedBlackTreeMapSync<Arc<str>, u32>,
    pub(crate) next_id: u32,
    /// The memtables of all families, those of dropped families included.
    pub(crate) memtables: Arc<LiveMemtables<Generation>>,
}

impl FamilyMap {
    /// Returns an empty set; `next_id` is the id of the first family added.
    pub(crate) fn none(next_id: u32) -> FamilyMap {
        FamilyMap { next_id, ..FamilyMap::default() }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Family> {
        self.by_name.get(name).and_then(|id| self.by_id.get(id))
    }

    /// Returns all families, by id. A walk over them costs too much in an operation on one family.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Family> {
        let all = self.by_id.values();
        #[cfg(test)]
        let all = all.inspect(|_| visits::count());
        all
    }

    pub(crate) fn add(&mut self, family: Family) {
        self.by_name.insert_mut(family.shared_name(), family.id());
        self.by_id.insert_mut(family.id(), family);
    }

    pub(crate) fn remove(&mut self, family: &Family) {
        self.by_name.remove_mut(family.name());
        self.by_id.remove_mut(&family.id());
    }
}

impl Catalog {
    #[inline]
    pub(super) fn store_log(&self) -> &StoreLog {
        &self.store_log
    }

    pub(crate) fn families(&self) -> arc_swap::Guard<Arc<FamilyMap>> {
        self.families.load()
    }

    pub(crate) fn new_file_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the seqno that a read sees.
    #[inline]
    pub(super) fn seqno(&self, at: At<'_>) -> Result<Seqno> {
        match at {
            At::Latest => Ok(self.store_log().visible()),
            At::Snapshot(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.seqno()),
            At::Snapshot(_) => Err(Error::invalid("the snapshot belongs to another store")),
        }
    }

    /// Returns the seqno of a read, and the time at which it evaluates expiry.
    #[inline]
    pub(super) fn read_point(&self, at: At<'_>) -> Result<ReadPoint> {
        let as_of = match at {
            At::Snapshot(snapshot) if planted!(SnapshotReadsByTheClock, false, true) => AsOf::micros(snapshot.micros()),
            _ => AsOf::NOW,
        };
        Ok(ReadPoint { seqno: self.seqno(at)?, as_of })
    }

    /// Makes a snapshot taken between an ingestion's seqno and its edit hold its views. Whether such a snapshot sees
    /// the records is thus fixed. A snapshot taken before the ingestion incremented the counter has a lower seqno than
    /// the records.
    ///
    /// So does a snapshot taken while a compaction applies a filter, whose results have the seqnos of the records that
    /// they replace. A compaction that increments its counter later sees the snapshot, and filters nothing that it sees.
    pub(super) fn held_while_tables_change(&self, snapshot: Snapshot) -> Snapshot {
        let filtering = planted!(FilterIgnoresLaterSnapshots, 0, self.filtering.load(Ordering::SeqCst));
        if self.ingestions.load(Ordering::SeqCst).is_multiple_of(2) && filtering == 0 {
            return snapshot;
        }
        let views = self.families().by_id.iter().map(|(id, family)| (*id, family.pinned_view())).collect();
        snapshot.holding(views)
    }

    /// Returns true if a frozen memtable waits.
    pub(crate) fn flush_is_due(&self) -> bool {
        self.families().by_id.values().any(|family| !family.view().frozen.is_empty())
    }

    /// Frees and removes all obsolete files.
    pub(super) fn remove_obsolete_files(&self) {
        self.obsolete.remove_all(self.context());
    }

    /// Returns the quarantined tables among these, by level and number.
    pub(super) fn quarantined<'a>(&self, tables: &'a [(usize, u64)]) -> impl Iterator<Item = &'a (usize, u64)> {
        tables.iter().filter(|(_, number)| self.claims.bars_any([*number].into_iter()))
    }

    /// Adds the entry of a job to its edit. `parts`: the tables that are removed and added; read before the change.
    /// `log`: the log range of the records. `started`: when the job began.
    pub(super) fn log_event(
        &self,
        edit: &mut Edit,
        engine_event: EngineEvent<'_>,
        parts: &[Replaced<'_>],
        log: Option<(u64, u64)>,
        started: u64,
    ) {
        let Some(engine_log) = self.events.engine_log() else { return };
        let touched = parts.iter().map(touched).collect();
        let nanos = self.context().now_nanos().saturating_sub(started);
        add_event(&**engine_log, edit, &Work { engine_event, touched, log, seqno: self.store_log().visible(), nanos });
    }
}

/// Counts the families that walks of this thread have visited.
#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local! {
        static VISITS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        VISITS.set(VISITS.get() + 1);
    }

    pub(crate) fn take() -> u64 {
        VISITS.take()
    }
}
