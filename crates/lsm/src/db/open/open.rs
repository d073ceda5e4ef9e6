//! Opening and destroying a store: the directory, the lock, and the assembly of a `Db` from the results of `recover`.
//!
//! In:      a directory, possibly left by a crash; settings; parts.
//! Damage:  in a table it does not prevent the open; in the log or manifest it does, unless the caller accepts the
//!          loss.
//! No room: the store opens read-only, with the replayed records in memory.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use super::directory::{StoreLocks, prepare_directory, take_back, undo_creation};
use super::inner::{GivenByName, StoreHandle, StoreInner};
use super::opening::{Opening, Parts};
use super::recover::Opened;
use crate::compaction::WriteRate;
use crate::db::catalog::claims::TableClaims;
use crate::db::catalog::event_log::EventLog;
use crate::db::catalog::feed::Feed;
use crate::db::catalog::obsolete_files::ObsoleteFiles;
use crate::db::catalog::{Catalog, FamilyMap};
use crate::db::jobs::compact::Compactor;
use crate::db::jobs::ddl::create_missing;
use crate::db::jobs::job_lock::Flusher;
use crate::db::notify::events::Event;
use crate::db::notify::lanes::{Lane, LaneSignals};
use crate::db::notify::notifier::Notifier;
use crate::db::reads::Reads;
use crate::db::state::context::{Access, StoreContext};
use crate::db::state::counters::Counters;
use crate::db::state::family::check_name;
use crate::db::state::live_settings::LiveSettings;
use crate::db::state::snapshot::Snapshots;
use crate::db::state::store_log::{LogPosition, OpenLog, StoreLog};
use crate::db::writes::blob_separation::BlobSeparator;
use crate::db::writes::memory::MemoryBudget;
use crate::db::writes::write_path::{Applier, WritePath};
use crate::env::Origin;
use crate::env::work::lock;
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::left_files::LeftFiles;
use crate::names::{StoreFileName, is_system_name};
use crate::options::Settings;
use crate::planted;
use crate::version::Manifest;

/// Implements `Db::open`.
pub(in crate::db) fn open(dir: &Path, settings: Settings, parts: Parts) -> Result<Arc<StoreHandle>> {
    validate(&settings, &parts)?;
    let outside = parts.env.clone();
    let parts = Parts { env: parts.env.within_mode(dir, settings.file_mode), ..parts };
    let (held, is_new) = prepare_directory(dir, &settings, &parts.env)?;
    let notifier = Notifier::new(parts.listener.clone());
    let opening = Opening { dir, settings: &settings, parts: &parts, notifier: &notifier, kept: None };
    let mut recovered = opening.recover_for_writing(is_new);
    if recovered.as_ref().is_err_and(|error| error.is_disk_full()) && opening.remove_spare_files() {
        recovered = opening.recover_for_writing(is_new);
    }
    let (opened, access) = match recovered {
        // The caller never saw a store here, so the files of the failed creation are removed, and there is no data
        // to read.
        Err(error) if is_new => {
            if error.is_out_of_space() {
                undo_creation(dir, &parts.env);
            }
            return Err(error);
        }
        Err(error) if error.is_out_of_space() => {
            parts.listener.on_event(&Event::BackgroundError { error, halted: false });
            (opening.read()?, Access::NoSpace)
        }
        outcome => (outcome.map_err(with_a_way_on)?, Access::Write),
    };
    let outcome = start(dir, settings, parts, (opened, notifier), access, Some(held));
    if is_new && outcome.as_ref().is_err_and(|error| error.is_out_of_space()) {
        take_back(dir, &outside.within(dir)); // the failed store has closed its own
    }
    outcome
}

/// Implements `Db::open_read_only`.
pub(in crate::db) fn open_read_only(dir: &Path, settings: Settings, parts: Parts) -> Result<Arc<StoreHandle>> {
    validate(&settings, &parts)?;
    let parts = Parts { env: parts.env.within(dir), ..parts };
    let notifier = Notifier::new(parts.listener.clone());
    let opened = Opening { dir, settings: &settings, parts: &parts, notifier: &notifier, kept: None }.read();
    let opened = opened.map_err(with_a_way_on)?;
    start(dir, settings, parts, (opened, notifier), Access::Read, None)
}

impl StoreInner {
    /// Runs `refresh`; events of its reads are queued.
    pub(in crate::db) fn look_again(&self) -> Result<()> {
        let _one_look_at_a_time = lock(&self.catalog().manifest); // else an older state could replace a newer one
        let _deferred = self.notifier().defer();
        let parts = Parts {
            env: self.context().env.clone(),
            companions: self.context().companions.clone(),
            listener: self.notifier().listener().clone(),
            families: self.given.families.clone(),
            orders: lock(&self.given.orders).clone(),
            filters: Vec::new(), // a reader compacts nothing
            merge_operators: self.given.merge_operators.clone(),
            engine_log: None,
            cache: None,
        };
        let kept = Some((self.context().cache.clone(), self.catalog().open_tables.files().clone()));
        let (dir, notifier) = (&*self.context().dir, &self.context().notifier);
        let opened =
            Opening { dir, settings: &self.context().settings.current(), parts: &parts, notifier, kept }.read()?;
        self.adopt(opened);
        Ok(())
    }
}

/// Adds advice to an open error caused by the manifest. Errors of the log get theirs where they are detected.
fn with_a_way_on(error: Error) -> Error {
    match error.damage().map(|damage| StoreFileName::parse(&damage.file)) {
        Some(Some(StoreFileName::Manifest(_) | StoreFileName::Current)) => {
            error.advise("`salvage` into a new directory reads the tables and the log without it")
        }
        _ => error,
    }
}

fn validate(settings: &Settings, parts: &Parts) -> Result<()> {
    settings.validate()?;
    if let Some(operator) = parts.merge_operators.iter().find(|operator| !operator.has_valid_name()) {
        let what = "the name of a merge operator must have 1 to 255 bytes, and must not begin with wax.";
        return Err(Error::invalid(format!("{:?}: {what}", operator.name())));
    }
    for (name, options) in &parts.families {
        options.validate()?;
        check_name(name)?;
        if is_system_name(name) != options.system.is_some() {
            return Err(Error::invalid(format!("{name:?}: a system family has a number, and a name of its own kind")));
        }
    }
    Ok(())
}

pub(super) fn start(
    dir: &Path,
    settings: Settings,
    parts: Parts,
    (opened, notifier): (Opened, Arc<Notifier>),
    access: Access,
    held: Option<StoreLocks>,
) -> Result<Arc<StoreHandle>> {
    let recovered = Event::Recovered { commits: opened.report.commits, cut_bytes: opened.report.cut_bytes };
    let (is_writer, shares_cache) = (access == Access::Write, parts.cache.is_some());
    let memory = MemoryBudget::new(&opened.cache, if is_writer { settings.ring_bytes } else { 0 }, &settings);
    let expired_through = planted!(ExpiryClockForgetsRestart, 0, opened.expired_through);
    let expiry_clock = Arc::new(ExpiryClock::new(parts.env.clock.clone(), expired_through));
    let context = StoreContext {
        lanes: Arc::new(LaneSignals::new(parts.env.work)),
        dir: dir.to_owned(),
        store: opened.store,
        access,
        promise: parts.companions.protection(),
        companions: parts.companions,
        cache: opened.cache,
        pace: WriteRate::new(settings.background_bytes_per_second),
        counters: Counters::default(),
        left: LeftFiles::default(),
        notifier,
        env: parts.env,
        settings: LiveSettings::new(settings),
    };
    let reads = Reads::new(&context, expiry_clock);
    let log = opened.log.filter(|_| is_writer);
    let begin = log.as_ref().map_or(LogPosition { offset: 0, seqno: 0 }, OpenLog::begin);
    let log_points = opened.manifest.as_ref().is_some_and(|manifest| manifest.state().log_points);
    let deletes_ranges = opened.manifest.as_ref().is_some_and(|manifest| manifest.state().log_deletes_ranges);
    let separation = BlobSeparator::new(opened.families.by_id.values(), log_points);
    let feed = opened.manifest.as_ref().map(Manifest::state);
    let feed = Arc::new(feed.map_or_else(|| Feed::of_reader(opened.feed), Feed::new));
    let catalog = Catalog {
        obsolete: ObsoleteFiles::new(&context, opened.dead_files, (opened.leftovers, opened.trash), Arc::clone(&feed)),
        store_log: StoreLog::new(context, log, opened.visible),
        reads,
        snapshots: Arc::new(Snapshots::default()),
        families: ArcSwap::from_pointee(opened.families),
        manifest: Mutex::new(opened.manifest),
        format_level: AtomicU32::new(opened.format_level.number()),
        next_file: opened.next_file,
        claims: TableClaims::barring(opened.quarantined),
        ingestions: AtomicU64::new(0),
        filtering: AtomicU64::new(0),
        open_tables: opened.open_tables,
        events: EventLog::new(parts.engine_log, opened.lines),
        feed,
    };
    let write_path = WritePath {
        catalog,
        applier: Applier::new(begin.offset, begin.seqno),
        separation,
        memory,
        log_deletes_ranges: AtomicBool::new(deletes_ranges),
        log_holder: AtomicU32::new(0),
        least_readable: AtomicU64::new(0),
    };
    let flusher = Flusher { write_path, jobs_lock: Mutex::new(()) };
    let inner = Arc::new(StoreInner {
        compactor: Compactor { flusher, picks: Mutex::default(), retiring: Mutex::default() },
        owns_cache: !shares_cache,
        origin: Origin::here(),
        closed: AtomicBool::new(false),
        refusing: AtomicBool::new(false),
        recovery: Mutex::new(opened.report),
        given: GivenByName {
            families: parts.families.clone(),
            orders: Mutex::new(parts.orders),
            merge_operators: parts.merge_operators,
        },
        store_lock: Mutex::new(held),
    });
    if let Some(log) = inner.store_log().log() {
        let unsynced = inner.write_path().separation.unsynced().clone();
        log.wal().syncs_first(Box::new(move || unsynced.sync()));
    }
    let lanes = inner.context().lanes.clone();
    inner.catalog().obsolete.dead().on_new(move || lanes.kick(Lane::Flush));
    let handle = Arc::new(StoreHandle { inner: inner.clone(), threads: Mutex::new(Vec::new()) });
    if access == Access::Write {
        inner.write_path().revise_stall();
        *lock(&handle.threads) = inner.start_lanes()?;
    } else {
        inner.write_path().memory.charge_memtables(inner.catalog()); // the memtables replayed from the log
    }
    inner.notifier().listener().on_event(&recovered);
    for (family, _, lost_range) in opened.lost {
        let (family, lost_range) = (family.name().to_owned(), (*lost_range).clone());
        inner.notifier().listener().on_event(&Event::Corruption { error: lost_range.error().in_family(&family, None) });
        if access == Access::Write {
            inner.notifier().listener().on_event(&Event::Fenced { family, fence: lost_range });
        }
    }
    if access == Access::Write {
        create_missing(inner.flusher(), &parts.families)?;
    }
    Ok(handle)
}

impl StoreInner {
    /// Switches a read-only store to a freshly read state. The seqno is stored first: a reader loads its view before
    /// the seqno, and a new view may lack versions that an old seqno needs. Snapshots take views and seqno together, so
    /// they wait for the lock.
    fn adopt(&self, opened: Opened) {
        let _all_at_once = lock(&self.flusher().jobs_lock);
        self.store_log().visible.store(opened.visible, Ordering::Release);
        self.catalog().reads.expiry_clock().note(opened.expired_through);
        self.catalog().note_format_level(opened.format_level);
        let known = self.catalog().families();
        let mut families = FamilyMap::none(opened.families.next_id);
        for (id, fresh) in &opened.families.by_id {
            let family = match known.by_id.get(id) {
                Some(family) => {
                    family.replace(&fresh.view());
                    family.clone()
                }
                None => fresh.clone(),
            };
            families.add(family);
        }
        self.catalog().families.store(Arc::new(families));
        self.write_path().memory.charge_memtables(self.catalog());
        self.catalog().feed.show_read(opened.feed);
        self.catalog().events.show(&opened.lines); // after the rows that the removed entries became
        self.catalog().remove_obsolete_files(); // tables of the first state that no reader holds
    }
}
