//! `Db`: checks arguments, then calls an owner.
//!
//! ```text
//! read_calls.rs    the calls that read
//! changes.rs       the change feed and its cursors
//! optimistic.rs    commits that depend on the value of a key
//! transaction.rs   commits that depend on a set of keys and ranges
//! repair_calls.rs  the calls that inspect, repair, copy and fill a store
//! metrics.rs       the numbers of a store and of a family
//! faults.rs        hooks for fault injection
//! ```

mod changes;
mod faults;
pub(super) mod metrics;
pub(super) mod optimistic;
mod read_calls;
mod repair_calls;
pub(super) mod transaction;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::Batch;
use crate::checksum::Uid;
use crate::compaction_filter::CompactionFilter;
use crate::db::jobs::ddl;
use crate::db::maintenance::erasure::{self, OldestSeqnos};
use crate::db::open::inner::{StoreHandle, StoreInner, forked};
use crate::db::open::opening::Parts;
use crate::db::open::pause::BackgroundPause;
use crate::db::open::recover::RecoveryReport;
use crate::db::open::{directory, open};
use crate::db::state::context::Access;
use crate::db::state::family::{DEFAULT_FAMILY, Family, check_name};
use crate::db::state::snapshot::Snapshot;
use crate::db::state::store_log::OpenLog;
use crate::db::writes::commit::TakenFor;
use crate::env::Env;
use crate::env::work::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::format_level::FormatLevel;
use crate::names::is_system_name;
use crate::options::{CfOptions, Durability, Settings};
use crate::read::CursorBounds;
use crate::record::Seqno;
use crate::seam::{Companions, Emitted, MAX_LINE_BYTES};
use crate::table_property::TableProperty;
use crate::version::{Edit, EditChange};
use crate::wal::{EpochChange, Precondition};
use metrics::{FamilyMetrics, Metrics};

/// An open store. Clones share it, and any thread may call all methods. Dropping the last clone closes the store.
#[derive(Clone)]
pub struct Db {
    handle: Arc<StoreHandle>,
}

impl Db {
    /// Returns the families, ordered by id; `default` is always among them.
    pub fn families(&self) -> Vec<Family> {
        self.inner().catalog().families().by_id.values().cloned().collect()
    }

    /// Returns the family with this name, or `None` if no such family exists.
    pub fn family(&self, name: &str) -> Option<Family> {
        self.inner().catalog().families().named(name).cloned()
    }

    /// Returns the family with this id. Costs one lookup, while `families` copies the whole list.
    pub fn family_by_id(&self, id: u32) -> Option<Family> {
        self.inner().catalog().families().by_id.get(&id).cloned()
    }

    /// The record protector that batches are built with.
    pub fn companions(&self) -> &dyn Companions {
        &*self.inner().context().companions
    }

    /// Returns the settings as of now. `set_settings` replaces them.
    pub fn settings(&self) -> Arc<Settings> {
        self.inner().context().settings.current()
    }

    /// Returns the durability of commits that do not specify one.
    #[inline]
    pub fn durability(&self) -> Durability {
        self.inner().context().settings.durability()
    }

    /// Changes settings while the store is open: `background_bytes_per_second`, `cache_bytes`, `chronicle_lines`,
    /// `cursor_log_age`, `cursor_log_bytes`, `durability`, `engine_events`, `engine_event_age`, `manifest_bytes`, `subcompactions` and `trash_bytes`. Settings
    /// are not stored: the next open passes its own. A smaller cache evicts blocks before the call returns, and a
    /// smaller
    /// `trash_bytes` removes kept tables.
    ///
    /// Fails with `Invalid`, and changes nothing, if a setting is invalid, if another one differs from `settings`, or if
    /// `cache_bytes` differs and the cache is shared with other stores.
    pub fn set_settings(&self, settings: Settings) -> Result<()> {
        self.update_settings(&mut |now| {
            now.clone_from(&settings);
            Ok(())
        })
    }

    /// As `set_settings`, with the settings that `change` makes of the present ones. No other change comes in between.
    pub fn update_settings(&self, change: &mut dyn FnMut(&mut Settings) -> Result<()>) -> Result<()> {
        let inner = self.open_inner()?;
        let _job = inner.flusher().job()?;
        let context = inner.context();
        let mut settings = (*context.settings.current()).clone();
        change(&mut settings)?;
        settings.validate()?;
        context.settings.check_change(&settings)?;
        if settings.cache_bytes != context.settings.current().cache_bytes {
            if !inner.owns_cache {
                return Err(Error::invalid("cache_bytes cannot be changed: other stores may share the cache"));
            }
            context.cache.resize(settings.cache_bytes);
        }
        context.pace.set_rate(settings.background_bytes_per_second);
        context.settings.replace(settings);
        inner.catalog().obsolete.trim_trash(context);
        Ok(())
    }

    /// Returns the directory of the store.
    pub fn path(&self) -> &Path {
        &self.inner().context().dir
    }

    /// Returns the store's uid.
    pub fn uid(&self) -> Uid {
        self.inner().context().store
    }

    /// Returns true if writes fail with `ReadOnly`.
    pub fn is_read_only(&self) -> bool {
        self.inner().context().access != Access::Write || self.inner().refusing.load(Ordering::Relaxed)
    }

    /// Returns `ReadOnly` with the reason if writes fail with it, and `Closed` in a closed store.
    pub fn check_writable(&self) -> Result<()> {
        self.writable().map(drop)
    }

    /// Makes every later call that would change the store fail with `ReadOnly`, until the store is reopened. Reads
    /// continue, and so does background work: earlier writes are still flushed and compacted.
    pub fn refuse_writes(&self) {
        self.inner().refusing.store(true, Ordering::Relaxed);
    }

    /// Takes a snapshot of the whole store as of now. The versions it sees are kept until its last clone is dropped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let inner = self.open_inner()?;
        if inner.context().access != Access::Write {
            return Ok(inner.held_snapshot());
        }
        Ok(inner.catalog().held_while_tables_change(inner.catalog().snapshots.take(
            inner.catalog().reads.expiry_clock(),
            None,
            || inner.store_log().visible(),
        )))
    }

    /// Takes a snapshot at the last commit known to be durable, which may be slightly older than that of `snapshot`. If
    /// range deletes were written since, it may have to sync the log first. Errors: those of `sync`.
    pub fn durable_snapshot(&self) -> Result<Snapshot> {
        let inner = self.open_inner()?;
        let Some(log) = inner.store_log().log() else { return Ok(inner.held_snapshot()) };
        loop {
            let taken = inner.catalog().held_while_tables_change(inner.catalog().snapshots.take(
                inner.catalog().reads.expiry_clock(),
                None,
                || log.durable_seqno(),
            ));
            if taken.seqno() >= inner.write_path().least_readable.load(Ordering::SeqCst) {
                return Ok(taken);
            }
            inner.write_path().sync_and_check()?;
        }
    }

    /// Returns the time at which a read evaluates expiry now, in microseconds since 1970. It never precedes the expiry
    /// of a record already found expired, nor the time of a snapshot, even if the system clock runs back.
    pub fn expiry_micros(&self) -> u64 {
        self.inner().catalog().reads.expiry_clock().now()
    }

    /// Returns the report of the recovery that opened the store.
    pub fn recovery(&self) -> RecoveryReport {
        lock(&self.inner().recovery).clone()
    }

    /// Returns `Closed` for a closed store and `Invalid` in a forked child, as every other call does. Costs two atomic
    /// loads.
    pub fn check_open(&self) -> Result<()> {
        self.open_inner().map(drop)
    }

    /// Stops background work, makes every acknowledged write durable and closes the store. Later calls on every clone,
    /// family and snapshot return `Closed`. Closing twice is no error, and the second call does not wait for the first.
    /// Threads, descriptors, mappings, memtables and cached blocks are released before this call returns. Running calls
    /// keep the memory that they use, and an open cursor keeps its memtables and its tables' indexes until it is
    /// dropped. Dropping the last clone also closes the store, but cannot report a failure.
    pub fn close(&self) -> Result<()> {
        match self.open_inner() {
            Err(error) if *error.kind() != ErrorKind::Closed => Err(error), // a forked child owns nothing
            _ => self.handle.close(),
        }
    }

    /// Removes a store that is not open: all of its files, then the directory unless it contains other files. Fails
    /// with `Invalid` if the directory holds no store, with `Locked` if the store is open, and with `Io` if a file cannot
    /// be read or removed.
    pub fn destroy(dir: &Path, env: &Env) -> Result<()> {
        directory::destroy(dir, env)
    }

    /// Returns the event log entries that are not rows yet, each with its number, oldest first. An entry may appear
    /// both here and in rows read afterwards, but it is never missing from both.
    pub fn engine_log(&self) -> Vec<(u64, Arc<[u8]>)> {
        self.inner().catalog().events.lines().iter().cloned().collect()
    }

    /// Adds an entry to the event log, in an edit of its own. Costs an fsync.
    pub fn note(&self, line: Vec<u8>) -> Result<()> {
        let (inner, _) = self.writable()?;
        if line.len() > MAX_LINE_BYTES {
            return Err(Error::invalid(format!("a line of {} bytes", line.len())));
        }
        let changes = vec![EditChange::Line { number: 0, bytes: line.into() }];
        inner.catalog().install(Edit { changes }, None)
    }

    /// Opens a store for reading and writing, and creates it if `settings` allows that.
    ///
    /// Errors: `Locked` (names the holder), `Corruption` of log or manifest (damaged tables are reported when read),
    /// `FormatTooNew`, `Invalid` for invalid settings or a comparator other than the stored one, `Io`. If the disk has
    /// no room for recovery, the store opens read-only and writes fail with `ReadOnly`. Costs a read of the live log, a
    /// flush of its records, and about ten fsyncs.
    pub fn open(dir: &Path, settings: Settings, parts: Parts) -> Result<Db> {
        Ok(Db { handle: open::open(dir, settings, parts)? })
    }

    /// Opens a store for reading, even while another process writes it. Takes no lock, writes no file and does not cut
    /// the log. Reads see commits made before the call, and later ones after `refresh`. The records of the log are held
    /// in memory.
    pub fn open_read_only(dir: &Path, settings: Settings, parts: Parts) -> Result<Db> {
        Ok(Db { handle: open::open_read_only(dir, settings, parts)? })
    }

    /// Makes newer commits visible in a read-only store. Existing cursors and snapshots keep their view. Has no effect
    /// on a store that is open for writing.
    pub fn refresh(&self) -> Result<()> {
        let inner = self.open_inner()?;
        if inner.context().access != Access::Read {
            return Ok(());
        }
        let outcome = inner.look_again();
        inner.notifier().deliver();
        outcome
    }

    /// Commits a batch atomically, at one position in the commit order. Returns the seqno of its last operation.
    ///
    /// When the call returns, the batch is visible to reads. It may become visible earlier, but only once it is certain
    /// to be completely in the log. Errors: `Io` (for example a full disk: nothing was changed, and the caller can
    /// retry), `Halted`, `ReadOnly`, `Closed`. After `Halted` from a `Sync` commit the batch is visible, but not known
    /// to be durable. An empty batch does nothing. The batch itself is not modified.
    #[inline]
    pub fn commit(&self, batch: &mut Batch, durability: Durability) -> Result<Seqno> {
        loop {
            if let Some(last) = self.commit_if(batch, durability, Precondition::epoch(self.epoch()))? {
                return Ok(last);
            }
        }
    }

    /// Commits like `commit` if a precondition holds when the batch is ordered. Returns `None` if it does not; then
    /// nothing was changed. All callers without a callback share this function, so the commit path is not inlined into
    /// each of them.
    #[inline(never)]
    pub fn commit_if(&self, batch: &mut Batch, durability: Durability, when: Precondition) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &when, |_| {})
    }

    /// Commits like `commit_if`. `on_ordered` receives the seqno of the first operation once the batch's position in
    /// the commit order is certain. A caller that holds a lock to keep an order can release it there. The callback runs
    /// once, or not at all if the batch is not ordered. The log waits for it, so it must be short, must not call the
    /// store and must not panic. Before the callback, the commit may wait for log space, flushes and compactions. The
    /// caller must therefore not hold any lock that the record protector takes during those.
    pub fn commit_observed(
        &self,
        batch: &mut Batch,
        durability: Durability,
        when: Precondition,
        on_ordered: &mut dyn FnMut(Seqno),
    ) -> Result<Option<Seqno>> {
        self.commit_as(batch, durability, &when, on_ordered)
    }

    /// Returns the current configuration epoch, under which batches are built. The engine owns the upper half and
    /// changes it when a family is dropped. The lower half belongs to the caller and is 0 at open. If a caller reads an
    /// epoch here and commits under it, neither half changed in between. Costs one atomic load; returns 0 for a store
    /// that cannot be written.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.inner().store_log().log().map_or(0, |log| log.wal().epoch())
    }

    /// Sets the lower half of the configuration epoch for all batches ordered from now on.
    pub fn set_epoch(&self, low: u32) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal().set_epoch(low);
        Ok(())
    }

    /// Changes the upper half of the configuration epoch. Batches built under the old epoch that are not yet ordered
    /// are rejected for retry.
    pub fn bump_epoch(&self) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal().renew_epoch();
        Ok(())
    }

    /// Returns a cell that always holds the timestamp of the last timed commit, readable without a lock; 0 if there was
    /// none since open.
    pub fn last_time(&self) -> Arc<AtomicU64> {
        self.inner().store_log().log().map_or_else(Arc::default, |log| log.wal().last_time().clone())
    }

    #[inline(always)]
    fn commit_as(
        &self,
        batch: &mut Batch,
        durability: Durability,
        when: &Precondition,
        on_ordered: impl FnOnce(Seqno),
    ) -> Result<Option<Seqno>> {
        let (inner, log) = self.writable()?;
        inner.write_path().commit(log, batch, durability, when, on_ordered, || inner.step_any())
    }

    /// Makes all commits acknowledged before this call durable, whatever durability they requested. Costs one
    /// fdatasync, shared with concurrent syncs.
    pub fn sync(&self) -> Result<()> {
        let (_, log) = self.writable()?;
        log.wal().expect_syncs();
        self.sync_committed()
    }

    /// Syncs like `sync`, for commits that have already returned. If the store has been closed since, or is being
    /// closed, the call still returns the correct result, because closing makes all commits durable.
    pub fn sync_committed(&self) -> Result<()> {
        let inner = self.here()?;
        let synced = inner.write_path().sync_and_check();
        inner.notifier().deliver();
        synced
    }

    /// Writes all memtables to tables and waits until they are durable.
    pub fn flush(&self) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.flusher().flush_all(|_| true)?;
        inner.store_log().halt_if_lost() // if all memtables were empty, no edit has checked the lock
    }

    /// Flushes the memtables of one family, including every commit ordered before, even if its writer has not applied
    /// it yet. Uses one seqno.
    pub fn flush_ordered(&self, family: &Family) -> Result<()> {
        let (inner, _) = self.writable()?;
        let _job = inner.flusher().job()?;
        let seqno = inner.write_path().take_seqno(&[family], (EpochChange::Stay, TakenFor::Flush), |_| {})?;
        inner.flusher().flush_frozen(&|other| other == family, seqno).map(|_| ())
    }

    /// Flushes all memtables, then compacts until no compaction is due and neither the upper levels nor the blob files
    /// hold excess data. Finally releases the log's unneeded disk space. If other threads write meanwhile, only the due
    /// compactions are certain to run.
    pub fn settle(&self) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.compactor.settle(&|| inner.step_any())
    }

    /// Returns how far back the records reach that a store holds outside of its current tables and blob files:
    /// `OldestSeqnos`. Costs a listing of the directory. If the change feed keeps log, also costs a read of one frame,
    /// and the opening of each kept segment that was closed since the last `erase_log`.
    ///
    /// Errors: `ReadOnly` for a store that was opened read-only; `Halted`; `Corruption` of a kept log segment; `Io`.
    pub fn oldest_seqnos(&self) -> Result<OldestSeqnos> {
        let (inner, _) = self.writable()?;
        erasure::oldest_seqnos(inner.flusher())
    }

    /// Flushes all memtables, and erases what the log's files hold beyond the records that memtables or the change feed
    /// need: continues the log in a fresh file, removes the files kept for future writes, and overwrites the old frames
    /// in the tail ring. Erased records do not come back after a loss of power. Other threads may write meanwhile; a
    /// commit waits for less than a millisecond more than beside a flush. Costs the flush and about eight fsyncs. Errors:
    /// those of `flush`.
    ///
    /// `oldest_seqnos` returns what is left. A segment that is still needed when other threads write is erased by a
    /// later call.
    pub fn erase_log(&self) -> Result<()> {
        let (inner, _) = self.writable()?;
        erasure::erase_log(inner.flusher())
    }

    /// Flushes the family, then merges all records within bounds down to the lowest level that holds data.
    pub fn compact(&self, family: &Family, bounds: &CursorBounds) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.flusher().flush_all(|other| other == family)?;
        inner.compactor.compact_range(family, bounds, &|| inner.step_any())
    }

    /// Compacts tables of a family, by their numbers: each is merged into the next level with what it overlaps there, or
    /// rewritten in place at the bottom. A table that an earlier one of these compactions took along is done. Errors:
    /// `Invalid` for a number of no table of the family, before anything is compacted, and for a quarantined table.
    pub fn compact_tables(&self, family: &Family, numbers: &[u64]) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.compactor.compact_tables(family, numbers, &|| inner.step_any())
    }

    /// Flushes a family, then compacts the tables that `files_with` finds, as `compact_tables` does. The values in blob
    /// files that may have the item are moved into new files, so that none of the old files is left, unless a value
    /// cannot be read. Tables that still may have the item are merged with the newer records of their keys, those
    /// included that are written meanwhile. Errors: `Invalid` for a quarantined table.
    pub fn compact_with(&self, family: &Family, property: &str, item: &[u8]) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.compactor.compact_with(family, property, item, &|| inner.step_any())
    }

    /// Creates a family. Fails with `Invalid` if the name is taken, empty, longer than 255 bytes, contains a zero byte
    /// or belongs to a system family, or if the options are invalid. The family is durable when the call returns; costs
    /// two fsyncs.
    pub fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        self.create_family_with(name, options, &mut |_| None)
    }

    /// Creates a family and changes the configuration epoch. `epoch_of` receives the family's id once the family is
    /// durable and before it is visible. It returns the new lower half of the epoch, or `None` to keep the current one.
    /// No batch built under the old epoch can thus write to the family. `epoch_of` may list the store's families, and
    /// must make no other call to the store.
    pub fn create_family_with(
        &self,
        name: &str,
        options: CfOptions,
        epoch_of: &mut dyn FnMut(u32) -> Option<u32>,
    ) -> Result<Family> {
        let (inner, log) = self.writable()?;
        options.validate()?;
        check_name(name)?;
        if options.system.is_some() || is_system_name(name) {
            return Err(Error::invalid(format!("{name:?}: system families are made when a store is opened")));
        }
        let _job = inner.flusher().job()?;
        inner.given.add_order(&options.order);
        let id = inner.catalog().families().next_id;
        ddl::create_families(inner.flusher(), vec![(id, name.to_owned(), options)], &mut || {
            if let Some(low) = epoch_of(id) {
                log.wal().set_epoch(low);
            }
        })?;
        self.family(name).ok_or_else(|| Error::structural("a family just created is not there"))
    }

    /// Drops a family and all of its data. Fails with `Invalid` if no family has this name, and for `default` and
    /// system families. Reads by remaining handles fail with `Invalid`, also at snapshots; files are removed when the
    /// last cursor over them is dropped.
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.drop_family_with(name, &mut |_| Vec::new())
    }

    /// Drops a family, and writes rows for other families in the same edit. `rows` is called once, with the drop's
    /// seqno, as soon as the drop's position in the commit order is certain (like `on_ordered` of `commit_observed`).
    /// Every operation on the family is older than the rows, and no later operation can reach the family. Rows without
    /// companions get companions. No other operation may write the rows' keys.
    pub fn drop_family_with(&self, name: &str, rows: &mut dyn FnMut(Seqno) -> Vec<Emitted>) -> Result<()> {
        let (inner, _) = self.writable()?;
        if name == DEFAULT_FAMILY || is_system_name(name) {
            return Err(Error::invalid(format!("the family {name:?} cannot be dropped")));
        }
        let _job = inner.flusher().job()?;
        ddl::drop_family(inner.flusher(), name, rows)
    }

    /// Changes options of a family while the store is open, and records them in the manifest, except the verification
    /// levels: a later open that passes no options for the family uses them. Reads, writes and jobs that begin after the call obey them; tables that
    /// exist stay as they are until they are rewritten.
    ///
    /// Fails with `Invalid`, and changes nothing, if options are invalid, or if they change the order, the merge operator, the compaction filter,
    /// the filter policy, the system number or `key_ends_in_seqno`. The change is durable when the call returns; costs
    /// two fsyncs.
    pub fn set_options(&self, family: &Family, options: CfOptions) -> Result<()> {
        self.update_options(family, &mut |now| {
            now.clone_from(&options);
            Ok(())
        })
    }

    /// As `set_options`, with the options that `change` makes of the present ones. No other change comes in between.
    pub fn update_options(&self, family: &Family, change: &mut dyn FnMut(&mut CfOptions) -> Result<()>) -> Result<()> {
        let (inner, _) = self.writable()?;
        let _job = inner.flusher().job()?;
        let mut options = (*family.options()).clone();
        change(&mut options)?;
        options.validate()?;
        family.check_options(&options)?;
        ddl::change_options(inner.flusher(), family, options)
    }

    /// Gives a family other table properties while the store is open, and another compaction filter unless that is `None`.
    /// Compactions, flushes and commits that begin later call them. Tables that exist stay as they are. The store records
    /// the filter's name: if it is new, the call costs two fsyncs. Another one ends the blob file that commits write into, if
    /// there is one. The functions themselves are not recorded.
    ///
    /// Fails with `Invalid`, and changes nothing, for names that options refuse.
    pub fn set_functions(
        &self,
        family: &Family,
        filter: Option<CompactionFilter>,
        properties: Vec<TableProperty>,
    ) -> Result<()> {
        let (inner, _) = self.writable()?;
        let _job = inner.flusher().job()?;
        let mut options = (*family.options()).clone();
        options.compaction_filter = filter.clone().or(options.compaction_filter);
        options.table_properties.clone_from(&properties);
        options.validate()?;
        ddl::change_functions(inner.flusher(), family, filter, properties)
    }

    /// Returns the format level of the store: what its files may hold. For a read-only store, as of the last refresh.
    pub fn format_level(&self) -> FormatLevel {
        self.inner().catalog().format_level()
    }

    /// Raises the format level of the store, for good: versions that do not know the level refuse to open it from then
    /// on. Does nothing if the store has the level or a higher one. Durable when the call returns; costs two fsyncs.
    /// Errors: `ReadOnly`, `Io`.
    pub fn upgrade(&self, level: FormatLevel) -> Result<()> {
        let (inner, _) = self.writable()?;
        let _job = inner.flusher().job()?;
        ddl::raise_format_level(inner.flusher(), level)
    }

    /// Returns the store's metrics.
    pub fn metrics(&self) -> Metrics {
        metrics::metrics(self.inner().write_path())
    }

    /// The numbers of one family, by its name: `metrics` looks at the tables of all. None if there is no such family.
    pub fn family_metrics(&self, name: &str) -> Option<FamilyMetrics> {
        self.inner().catalog().families().named(name).map(metrics::of_family)
    }

    /// Pauses background work until the result is dropped: no flush and no compaction starts by itself. Returns once
    /// running jobs have ended, except in a call from a listener, and while writers wait for jobs.
    ///
    /// Writers are bounded as always: once they are slowed down because memtables or the log are full, flushes run, and
    /// once they are stopped, compactions too. Explicit calls (`flush`, `compact`, `settle`) do their work. Several pauses
    /// may overlap. Closing the store ends all of them. Fails with `Closed`.
    pub fn pause_background(&self) -> Result<BackgroundPause> {
        BackgroundPause::begin(self.open_inner()?)
    }

    /// Performs one step of background work; returns true if work was done. For stores in stepped mode.
    pub fn step(&self) -> Result<bool> {
        let inner = self.open_inner()?;
        Ok(inner.context().access == Access::Write && inner.step_any())
    }

    pub(in crate::db) fn inner(&self) -> &Arc<StoreInner> {
        &self.handle.inner
    }

    /// Returns the store if it is open and this process opened it.
    #[inline]
    fn open_inner(&self) -> Result<&Arc<StoreInner>> {
        let inner = &self.handle.inner;
        if inner.is_over() { Err(inner.why_over()) } else { Ok(inner) }
    }

    /// Returns the store, open or closed, if this process opened it.
    #[inline]
    fn here(&self) -> Result<&Arc<StoreInner>> {
        match self.handle.inner.origin.is_here() {
            true => Ok(&self.handle.inner),
            false => Err(forked()),
        }
    }

    /// Returns the store and its log if the store accepts writes.
    #[inline]
    fn writable(&self) -> Result<(&Arc<StoreInner>, &OpenLog)> {
        let inner = &self.handle.inner;
        match inner.store_log().log() {
            Some(log) if !inner.is_over() && !inner.refusing.load(Ordering::Relaxed) => Ok((inner, log)),
            _ => Err(self.not_writable()),
        }
    }

    /// Returns the reason why the store rejects writes.
    #[cold]
    fn not_writable(&self) -> Error {
        let inner = match self.open_inner() {
            Ok(inner) => inner,
            Err(error) => return error,
        };
        let why = match (inner.store_log().log(), inner.context().access) {
            (Some(_), _) => "writes were refused after damage was met: look at the device, then open anew",
            (None, Access::NoSpace) => {
                "opened read-only: there was no room on the device to recover the log; free space outside the store, \
                 or copy it to a larger device, and open it again"
            }
            (None, _) => "the store was opened read-only",
        };
        Error::of(ErrorKind::ReadOnly, why)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("dir", &self.inner().context().dir)
            .field("access", &self.inner().context().access)
            .finish()
    }
}
