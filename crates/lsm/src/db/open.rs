//! Opening a store: manifest -> families, log -> memtables -> tables, a fresh log.
//!
//! In:     a directory, perhaps left by a crash; settings; parts.
//! Writes: recovery trusts no page that it has not written and overwrites none that it still needs (I16). What was replayed
//!         is flushed to tables and synced, a fresh segment and ring are made and synced, a fresh manifest that names them all
//!         is made and synced; then `CURRENT` is turned to it, and only after that is anything removed or acknowledged.
//! Crash:  before the turn, the store as it was found, with some unnamed files more; after it, the recovered one.
//! Damage: in a table it does not refuse the open; in the log or manifest it does, unless the caller accepts the loss.
//! No room: the store opens for reading, with what was replayed in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use super::background::Background;
use super::commit::Log;
use super::family::Family;
use super::jobs::{Level0, write_level0};
use super::running::Running;
use super::snapshot::Snapshots;
use super::{Access, DEFAULT_FAMILY, Db, Event, Families, Handle, Inner, Parts};
use crate::batch::Operations;
use crate::env::work::lock;
use crate::env::{Env, Lock, Open, Origin};
use crate::error::{Damage, Error, ErrorKind, IoContext, Result, Verdict};
use crate::names::Name;
use crate::options::{CfOptions, Settings};
use crate::order::Order;
use crate::planted::{self, Bug};
use crate::record::{Record, Seqno};
use crate::seam::Companions;
use crate::sst::Cache;
use crate::version::{self, Levels, Manifest, State, TableMeta};
use crate::wal;

/// What recovery found in the log at open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Commits replayed.
    pub commits: u64,
    /// Bytes of the log that were cut as a torn tail (or, with `accept_loss`, as damage). 0 after a clean close.
    pub cut_bytes: u64,
    /// Logical offset of the log at which it was cut.
    pub cut_at: Option<u64>,
    /// The file in the store that keeps the bytes that were cut.
    pub set_aside: Option<String>,
    /// Bytes of commits that had returned and are missing: first mark minus recovered end. 0 unless the machine failed.
    pub acknowledged_bytes_missing: u64,
}

impl Db {
    /// Opens a store for reading and writing, and creates it if `settings` says so.
    ///
    /// Errors: `Locked` (names the holder), `Corruption` of log or manifest (table damage is met when read), `FormatTooNew`,
    /// `Invalid` settings or a comparator that is not the stored one, `Io`. If there is no room to recover, the store opens
    /// read-only and writes answer `ReadOnly`. Costs a read of the live log, a flush of it, and about ten fsyncs.
    pub fn open(dir: &Path, settings: Settings, parts: Parts) -> Result<Db> {
        validate(&settings, &parts)?;
        let held = prepare_directory(dir, &settings, &parts.env)?;
        let opening = Opening { dir, settings: &settings, parts: &parts };
        let (opened, access) = match opening.recover_for_writing() {
            Err(error) if error.is_out_of_space() => {
                parts.listener.on_event(&Event::BackgroundError { error, halted: false });
                (opening.read()?, Access::NoSpace)
            }
            outcome => (outcome?, Access::Write),
        };
        start(dir, settings, parts, opened, access, Some(held))
    }

    /// Opens a store for reading, also beside a process that writes it. Takes no lock, writes nothing, cuts nothing; sees what
    /// was committed before the call, and what came later after `refresh`. What is in the log is held in memory.
    pub fn open_read_only(dir: &Path, settings: Settings, parts: Parts) -> Result<Db> {
        validate(&settings, &parts)?;
        let opened = Opening { dir, settings: &settings, parts: &parts }.read()?;
        start(dir, settings, parts, opened, Access::Read, None)
    }

    /// Lets a read-only store see what was committed meanwhile. Cursors and snapshots keep what they see. No effect on a
    /// store that is open for writing.
    pub fn refresh(&self) -> Result<()> {
        let inner = self.open_inner()?;
        if inner.access != Access::Read {
            return Ok(());
        }
        let parts = Parts {
            env: inner.env.clone(),
            companions: inner.companions.clone(),
            listener: inner.listener.clone(),
            families: inner.given.0.clone(),
            orders: inner.given.1.clone(),
        };
        let opened = Opening { dir: &inner.dir, settings: &inner.settings, parts: &parts }.read()?;
        inner.adopt(opened);
        Ok(())
    }
}

/// Removes a store's files, `CURRENT` first so that what is left of an interrupted call is no store.
pub(super) fn destroy(dir: &Path, env: &Env) -> Result<()> {
    let names = env.fs.list(dir).during(|| "listing the store's directory")?;
    let ours: Vec<Name> = names.iter().filter_map(|name| Name::parse(name)).collect();
    if !ours.contains(&Name::Current) {
        return Err(Error::invalid(format!("{} holds no store", dir.display())));
    }
    let held = take_lock(dir, env)?;
    env.fs.remove(&dir.join(Name::Current.to_string())).during(|| "removing CURRENT")?;
    env.fs.sync_dir(dir).during(|| "syncing the store's directory")?;
    for name in ours.into_iter().filter(|name| *name != Name::Current) {
        env.fs.remove(&dir.join(name.to_string())).during(|| format!("removing {name}"))?;
    }
    drop(held);
    let _ = env.fs.remove_dir(dir); // stays if the user keeps something else in it
    Ok(())
}

fn validate(settings: &Settings, parts: &Parts) -> Result<()> {
    settings.validate()?;
    parts.families.iter().try_for_each(|(_, options)| options.validate())
}

fn prepare_directory(dir: &Path, settings: &Settings, env: &Env) -> Result<Box<dyn Lock>> {
    if !env.fs.exists(dir).during(|| "looking for the store")? {
        if !settings.create_if_missing {
            return Err(Error::invalid(format!("there is no store at {} and create_if_missing is off", dir.display())));
        }
        env.fs.create_dir_all(dir).during(|| "creating the store's directory")?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            env.fs.sync_dir(parent).during(|| "syncing the parent directory")?;
        }
    }
    take_lock(dir, env)
}

fn take_lock(dir: &Path, env: &Env) -> Result<Box<dyn Lock>> {
    let holder = format!("process {}", std::process::id());
    match env.fs.lock(&dir.join(Name::Lock.to_string()), &holder).during(|| "locking the store")? {
        Ok(held) => Ok(held),
        Err(other) => {
            let what = format!("{} is open already, by {}", dir.display(), if other.is_empty() { "another handle" } else { &other });
            Err(Error::of(ErrorKind::Locked, what))
        }
    }
}

/// What an open needs to know.
struct Opening<'a> {
    dir: &'a Path,
    settings: &'a Settings,
    parts: &'a Parts,
}

/// What an open found.
struct Opened {
    families: Families,
    cache: Arc<Cache>,
    visible: Seqno,
    next_file: u64,
    log: Option<Log>,
    manifest: Option<Manifest>,
    dead_tables: version::DeadTables,
    report: RecoveryReport,
}

impl Opening<'_> {
    fn env(&self) -> &Env {
        &self.parts.env
    }

    /// Opens for reading: everything that the log holds goes into memtables, nothing is written.
    fn read(&self) -> Result<Opened> {
        // A writer may remove what an old picture names; a fresh look names what took its place.
        let mut attempts = 0;
        loop {
            match self.read_once() {
                Err(error) if attempts < 8 && is_moved(&error) => attempts += 1,
                outcome => return outcome,
            }
        }
    }

    fn read_once(&self) -> Result<Opened> {
        let marks = wal::Beside::look(self.env(), self.dir)?;
        let Some(recovered) = Manifest::read(self.env(), self.dir)? else {
            return Err(Error::invalid(format!("there is no store at {}", self.dir.display())));
        };
        let mut replay = self.replay(&recovered.state, None)?;
        let machine = self.env().fs.machine(self.dir).during(|| "asking for the device")?;
        let state = &recovered.state;
        let end = marks.recover(self.env(), self.dir, &state.log, machine, &mut |frame| replay.apply(&frame))?;
        // Opened now, so that a writer that removes them leaves us their descriptors.
        for family in replay.families.by_id.values() {
            for table in family.view().levels.tables() {
                if let Err(error) = table.open()
                    && matches!(error.kind(), ErrorKind::Io(std::io::ErrorKind::NotFound))
                {
                    return Err(error);
                }
            }
        }
        Ok(Opened {
            visible: end.next_seqno.max(state.last_seqno + 1) - 1,
            next_file: state.next_file,
            log: None,
            manifest: None,
            report: RecoveryReport { commits: replay.commits, ..RecoveryReport::default() },
            families: replay.families,
            cache: replay.cache,
            dead_tables: replay.dead_tables,
        })
    }

    fn recover_for_writing(&self) -> Result<Opened> {
        match Manifest::read(self.env(), self.dir)? {
            None => self.create(),
            Some(recovered) => self.recover(recovered.state),
        }
    }

    /// A new store: log first, then the manifest that names it, then the pointer.
    fn create(&self) -> Result<Opened> {
        if !self.settings.create_if_missing {
            return Err(Error::invalid(format!("there is no store at {} and create_if_missing is off", self.dir.display())));
        }
        self.clear_unfinished_creation()?;
        let mut state = State::new(self.env().random.uid());
        state.add_family(0, DEFAULT_FAMILY, &self.options(DEFAULT_FAMILY).unwrap_or_default());
        self.recover(state)
    }

    /// Files without `CURRENT` are what an interrupted creation leaves, or a store that lost its pointer. Only the first is ours to clear.
    fn clear_unfinished_creation(&self) -> Result<()> {
        let names = self.env().fs.list(self.dir).during(|| "listing the store's directory")?;
        let ours: Vec<Name> = names.iter().filter_map(|name| Name::parse(name)).filter(|name| *name != Name::Lock).collect();
        let holds_data = |name: &Name| match name {
            Name::Table(_) | Name::Cut(_) => Ok(true),
            Name::Segment(_) | Name::Ring(_) => wal::holds_commits(self.env(), &self.dir.join(name.to_string())),
            Name::Manifest(_) | Name::Current | Name::Lock | Name::Temporary => Ok(false),
        };
        for name in &ours {
            if holds_data(name)? {
                let damage = Damage { file: Name::Current.to_string(), verdict: Verdict::Missing, ..Damage::default() };
                return Err(Error::corruption(damage, format!("CURRENT is missing, but {name} holds data of a store")));
            }
        }
        for name in ours {
            self.env().fs.remove(&self.dir.join(name.to_string())).during(|| format!("removing {name}"))?;
        }
        Ok(())
    }

    fn recover(&self, state: State) -> Result<Opened> {
        let env = self.env();
        let names = env.fs.list(self.dir).during(|| "listing the store's directory")?;
        let found: Vec<Name> = names.iter().filter_map(|name| Name::parse(name)).collect();
        let highest = found.iter().filter_map(|name| name.number()).max().unwrap_or(0);
        let next_file = AtomicU64::new(state.next_file.max(highest + 1));
        let new_number = || next_file.fetch_add(1, std::sync::atomic::Ordering::Relaxed);

        let mut replay = self.replay(&state, Some(&new_number))?;
        let machine = env.fs.machine(self.dir).during(|| "asking for the device")?;
        let end = match state.log.is_some() {
            true => wal::recover(env, self.dir, &state.log, machine, self.settings.accept_loss, &mut |frame| replay.apply(&frame))?,
            false => wal::LogEnd::of_new_store(),
        };
        let last = (end.next_seqno.max(state.last_seqno + 1)) - 1;
        replay.flush_all(last)?;
        let report = self.report(&end, replay.commits, &new_number)?;
        env.fs.sync_dir(self.dir).during(|| "syncing the store's directory")?;
        if planted::active(Bug::RecoveryRecyclesBeforeEdit) {
            self.sweep(&found, &|name| matches!(name, Name::Table(_)));
        }

        let start = wal::Start { offset: end.offset.next_multiple_of(crate::frame::PAGE_BYTES as u64), seqno: last + 1 };
        let log = Log::create(env, self.dir, self.settings, start, &new_number)?;
        let mut state = state;
        for (family, table) in replay.added.drain(..) {
            state.add_table(family, 0, table)?;
        }
        for family in replay.families.by_id.keys() {
            state.set_flushed(*family, last);
        }
        state.log = log.start_place();
        state.last_seqno = last;
        state.cut(&report);
        state.next_file = next_file.load(std::sync::atomic::Ordering::Relaxed) + 1;
        let manifest = Manifest::create(env, self.dir, new_number(), &state, self.settings.manifest_bytes)?;
        let live: Vec<Name> = state.live_files(manifest.number());
        self.sweep(&found, &|name| live.contains(&name) || matches!(name, Name::Cut(_) | Name::Lock | Name::Current));
        let families = self.families(&state, &replay.cache, &replay.dead_tables)?;
        Ok(Opened {
            families,
            cache: replay.cache,
            visible: last,
            next_file: next_file.into_inner(),
            log: Some(log),
            manifest: Some(manifest),
            dead_tables: replay.dead_tables,
            report,
        })
    }

    /// Sets aside what was cut, and says so.
    fn report(&self, end: &wal::LogEnd, commits: u64, new_number: &dyn Fn() -> u64) -> Result<RecoveryReport> {
        let mut report = RecoveryReport {
            commits,
            acknowledged_bytes_missing: end.acknowledged.saturating_sub(end.offset),
            ..RecoveryReport::default()
        };
        if let Some(cut) = &end.cut
            && !planted::active(Bug::TornTailNotReported)
        {
            let name = Name::Cut(new_number());
            let path = self.dir.join(name.to_string());
            let file = self.env().fs.open(&path, Open::Create).during(|| format!("creating {name}"))?;
            wal::set_aside(self.env(), self.dir, cut, &*file)?;
            file.sync_data().during(|| format!("syncing {name}"))?;
            report.cut_bytes = cut.bytes;
            report.cut_at = Some(end.offset);
            report.set_aside = Some(name.to_string());
        }
        Ok(report)
    }

    /// Removes files of ours that are not kept. One that cannot be removed is swept at the next open.
    fn sweep(&self, found: &[Name], keep: &dyn Fn(Name) -> bool) {
        for name in found.iter().filter(|name| !keep(**name)) {
            let _ = self.env().fs.remove(&self.dir.join(name.to_string()));
        }
    }

    fn options(&self, name: &str) -> Option<CfOptions> {
        self.parts.families.iter().find(|(of, _)| of == name).map(|(_, options)| options.clone())
    }

    /// The families of a state, each with its levels; tables are opened when first read.
    fn families(&self, state: &State, cache: &Arc<Cache>, dead: &version::DeadTables) -> Result<Families> {
        let mut families = Families { by_id: BTreeMap::new(), next_id: state.next_family };
        for stored in state.families() {
            let options = self.options_of(stored)?;
            let opener = version::Opener {
                env: self.env().clone(),
                dir: self.dir.to_owned(),
                order: options.order.clone(),
                cache: cache.clone(),
                dead: dead.clone(),
            };
            let levels = Levels::from_state(stored, &opener)?;
            families.by_id.insert(stored.id, Family::new(stored.id, &stored.name, options, Arc::new(levels)));
        }
        Ok(families)
    }

    /// The caller's options for a stored family, or the stored ones; the order must be the stored one either way.
    fn options_of(&self, stored: &version::Family) -> Result<CfOptions> {
        if let Some(options) = self.options(&stored.name) {
            return match options.order.name() == stored.comparator {
                true => Ok(options),
                false => Err(Error::invalid(format!(
                    "family {:?} is ordered by {:?}, not by {:?}",
                    stored.name,
                    stored.comparator,
                    options.order.name()
                ))),
            };
        }
        let bytewise = Order::bytewise();
        let order = self.parts.orders.iter().chain([&bytewise]).find(|order| order.name() == stored.comparator);
        let Some(order) = order else {
            let what = format!("family {:?} is ordered by {:?}, which was not given", stored.name, stored.comparator);
            return Err(Error::invalid(what));
        };
        stored.options(order.clone())
    }

    fn replay<'a>(&'a self, state: &State, new_number: Option<&'a dyn Fn() -> u64>) -> Result<Replay<'a>> {
        let cache = Cache::new(self.settings.cache_bytes);
        let dead_tables = version::DeadTables::default();
        let families = self.families(state, &cache, &dead_tables)?;
        let flushed = state.families().map(|family| (family.id, family.flushed)).collect();
        Ok(Replay { opening: self, new_number, families, flushed, added: Vec::new(), commits: 0, companion: Vec::new(), cache, dead_tables })
    }
}

/// Frames of the log on their way into memtables, and into tables where these grow too large.
struct Replay<'a> {
    opening: &'a Opening<'a>,
    /// None: nothing may be written.
    new_number: Option<&'a dyn Fn() -> u64>,
    families: Families,
    flushed: BTreeMap<u32, Seqno>,
    /// Tables of level 0, oldest first.
    added: Vec<(u32, TableMeta)>,
    commits: u64,
    companion: Vec<u8>,
    cache: Arc<Cache>,
    dead_tables: version::DeadTables,
}

impl Replay<'_> {
    fn apply(&mut self, frame: &wal::Replayed<'_>) -> Result<()> {
        let companions = self.opening.parts.companions.clone();
        let mut seqno = frame.seqno;
        for operation in Operations::new(frame.body)? {
            let operation = operation?;
            if let Some(family) = self.families.by_id.get(&operation.family)
                && seqno > self.flushed.get(&operation.family).copied().unwrap_or(0)
            {
                self.companion.clear();
                self.companion.extend_from_slice(operation.companion);
                companions.bind(&mut self.companion, None, seqno);
                let record = Record {
                    key: operation.key,
                    seqno,
                    kind: operation.kind,
                    value: operation.value,
                    companion: &self.companion,
                };
                let view = family.view();
                view.active.touch(frame.offset);
                view.active.memtable.insert(&record, companions.term(&record));
            }
            seqno += 1;
        }
        self.commits += 1;
        if self.new_number.is_some() {
            let limit = self.opening.settings.memtable_bytes;
            let full: Vec<Family> = (self.families.by_id.values())
                .filter(|family| family.view().active.memtable.bytes() > limit)
                .cloned()
                .collect();
            full.iter().try_for_each(|family| self.flush(family, seqno - 1))?;
        }
        Ok(())
    }

    fn flush_all(&mut self, through: Seqno) -> Result<()> {
        let families: Vec<Family> = self.families.by_id.values().cloned().collect();
        families.iter().try_for_each(|family| self.flush(family, through))
    }

    fn flush(&mut self, family: &Family, through: Seqno) -> Result<()> {
        let Some(new_number) = self.new_number else { return Ok(()) };
        family.freeze(through);
        let view = family.pinned_view();
        if view.frozen.is_empty() {
            return Ok(());
        }
        let opening = self.opening;
        let companions: &Arc<dyn Companions> = &opening.parts.companions;
        let level0 = Level0 {
            env: opening.env(),
            dir: opening.dir,
            companions,
            next_file: new_number,
            cancelled: &AtomicBool::new(false),
            snapshots: Vec::new(),
        };
        let tables = write_level0(&level0, family, &view.frozen)?;
        self.added.extend(tables.into_iter().map(|table| (family.id(), table)));
        family.install(view.levels.clone(), Some(through));
        Ok(())
    }
}

/// True for what a reader meets when a writer changes files under it.
fn is_moved(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io(std::io::ErrorKind::NotFound)) || wal::Beside::is_moved(error)
}

fn start(
    dir: &Path,
    settings: Settings,
    parts: Parts,
    opened: Opened,
    access: Access,
    held: Option<Box<dyn Lock>>,
) -> Result<Db> {
    let recovered = Event::Recovered { commits: opened.report.commits, cut_bytes: opened.report.cut_bytes };
    let inner = Arc::new(Inner {
        background: Background::new(parts.env.work),
        dir: dir.to_owned(),
        companions: parts.companions,
        listener: parts.listener,
        cache: opened.cache,
        snapshots: Arc::new(Snapshots::default()),
        access,
        origin: Origin::here(),
        closed: AtomicBool::new(false),
        visible: AtomicU64::new(opened.visible),
        next_file: AtomicU64::new(opened.next_file),
        families: ArcSwap::from_pointee(opened.families),
        log: opened.log.filter(|_| access == Access::Write),
        jobs_lock: Mutex::new(()),
        manifest: Mutex::new(opened.manifest),
        compactions: Running::default(),
        dead_tables: opened.dead_tables,
        halted: Mutex::new(None),
        recovery: Mutex::new(opened.report),
        given: (parts.families.clone(), parts.orders),
        store_lock: Mutex::new(held),
        counters: Default::default(),
        env: parts.env,
        settings,
    });
    let handle = Arc::new(Handle { inner: inner.clone(), threads: Mutex::new(Vec::new()) });
    if access == Access::Write {
        inner.revise_stall();
        *lock(&handle.threads) = inner.start_lanes()?;
    }
    inner.listener.on_event(&recovered);
    let db = Db { handle };
    for (name, options) in parts.families {
        if access == Access::Write && db.family(&name).is_none() {
            db.create_family(&name, options)?;
        }
    }
    Ok(db)
}

impl Inner {
    /// Takes over what a fresh look found (read-only stores).
    fn adopt(&self, opened: Opened) {
        let known = self.families();
        let mut families = Families { by_id: BTreeMap::new(), next_id: opened.families.next_id };
        for (id, fresh) in opened.families.by_id {
            let family = match known.by_id.get(&id) {
                Some(family) => {
                    let view = fresh.pinned_view();
                    family.replace(view.active.memtable.clone(), view.levels.clone());
                    family.clone()
                }
                None => fresh,
            };
            families.by_id.insert(id, family);
        }
        self.families.store(Arc::new(families));
        self.visible.store(opened.visible, std::sync::atomic::Ordering::Release);
    }
}
