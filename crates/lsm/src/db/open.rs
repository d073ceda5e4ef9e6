//! Opening a store, and ending one: the directory, the lock, and what `recover` finds put together as a `Db`.
//!
//! In:     a directory, perhaps left by a crash; settings; parts.
//! Damage: in a table it does not refuse the open; in the log or manifest it does, unless the caller accepts the loss.
//! No room: the store opens for reading, with what was replayed in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use super::apart::least_apart;
use super::background::{Background, Lane};
use super::chronicle::Book;
use super::ddl::check_name;
use super::leftovers::Leftovers;
use super::memory::Memory;
use super::recover::{Opened, Opening};
use super::running::Running;
use super::snapshot::Snapshots;
use super::trash::Trash;
use super::watch::Integrity;
use super::{Access, Db, Event, Families, Handle, Inner, Parts};
use crate::compaction::Pace;
use crate::env::work::lock;
use crate::env::{Env, LastingFs, Lock, Origin};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::names::{Name, is_system_name};
use crate::options::Settings;

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
        let fs = Arc::new(LastingFs::new(parts.env.fs.clone(), dir));
        let parts = Parts { env: Env { fs, ..parts.env }, ..parts };
        let held = prepare_directory(dir, &settings, &parts.env)?;
        let integrity = Integrity::new(parts.listener.clone());
        let opening = Opening { dir, settings: &settings, parts: &parts, integrity: &integrity, cache: None };
        let mut recovered = opening.recover_for_writing();
        if recovered.as_ref().is_err_and(|error| error.is_disk_full()) && opening.empty_trash() {
            recovered = opening.recover_for_writing();
        }
        let (opened, access) = match recovered {
            Err(error) if error.is_out_of_space() => {
                parts.listener.on_event(&Event::BackgroundError { error, halted: false });
                (opening.read()?, Access::NoSpace)
            }
            outcome => (outcome?, Access::Write),
        };
        start(dir, settings, parts, (opened, integrity), access, Some(held))
    }

    /// Opens a store for reading, also beside a process that writes it. Takes no lock, writes nothing, cuts nothing; sees what
    /// was committed before the call, and what came later after `refresh`. What is in the log is held in memory.
    pub fn open_read_only(dir: &Path, settings: Settings, parts: Parts) -> Result<Db> {
        validate(&settings, &parts)?;
        let integrity = Integrity::new(parts.listener.clone());
        let opened = Opening { dir, settings: &settings, parts: &parts, integrity: &integrity, cache: None }.read()?;
        start(dir, settings, parts, (opened, integrity), Access::Read, None)
    }

    /// Lets a read-only store see what was committed meanwhile. Cursors and snapshots keep what they see. No effect on a
    /// store that is open for writing.
    pub fn refresh(&self) -> Result<()> {
        let inner = self.open_inner()?;
        if inner.access != Access::Read {
            return Ok(());
        }
        let outcome = inner.look_again();
        inner.tell_noted();
        outcome
    }
}

impl Inner {
    /// `refresh`; what its reads meet is noted.
    fn look_again(&self) -> Result<()> {
        let _one_look_at_a_time = lock(&self.manifest); // else an older picture could replace a newer one
        let _hush = self.noted.hush();
        let parts = Parts {
            env: self.env.clone(),
            companions: self.companions.clone(),
            listener: self.listener.clone(),
            families: self.given.0.clone(),
            orders: self.given.1.clone(),
            chronicle: None,
            cache: None,
        };
        let cache = Some(self.cache.clone());
        let (dir, integrity) = (&*self.dir, &self.integrity);
        let opened = Opening { dir, settings: &self.settings, parts: &parts, integrity, cache }.read()?;
        self.adopt(opened);
        Ok(())
    }
}

/// Removes a store's files.
pub(super) fn destroy(dir: &Path, env: &Env) -> Result<()> {
    if !env.fs.exists(dir).during(|| "looking for the store")? || !holds_ours(dir, env)? {
        return Err(Error::invalid(format!("{} holds no store", dir.display())));
    }
    let held = take_lock(dir, env)?;
    let outcome = remove_ours(dir, env);
    drop(held);
    outcome?;
    let _ = env.fs.remove_dir(dir); // stays if the user keeps something else in it
    Ok(())
}

/// Removes the files of ours in a directory that is locked, `CURRENT` durably first: what a crash leaves is no store. Of others as many as can be; errors: the
/// first.
pub(super) fn remove_ours(dir: &Path, env: &Env) -> Result<()> {
    let names = env.fs.list(dir).during(|| "listing the store's directory")?;
    let ours: Vec<Name> = names.iter().filter_map(|name| Name::parse(name)).collect();
    if ours.contains(&Name::Current) {
        env.fs.remove(&dir.join(Name::Current.to_string())).during(|| "removing CURRENT")?;
        env.fs.sync_dir(dir).during(|| "syncing the store's directory")?;
    }
    let remove = |name: Name| env.fs.remove(&dir.join(name.to_string())).during(|| format!("removing {name}"));
    let others = ours.into_iter().filter(|name| *name != Name::Current);
    others.map(remove).fold(Ok(()), Result::and)
}

fn validate(settings: &Settings, parts: &Parts) -> Result<()> {
    settings.validate()?;
    for (name, options) in &parts.families {
        options.validate()?;
        check_name(name)?;
        if is_system_name(name) != options.system.is_some() {
            return Err(Error::invalid(format!("{name:?}: a system family has a number, and a name of its own kind")));
        }
    }
    Ok(())
}

fn prepare_directory(dir: &Path, settings: &Settings, env: &Env) -> Result<Box<dyn Lock>> {
    if settings.create_if_missing {
        create_directory(dir, env)?;
    } else if !env.fs.exists(dir).during(|| "looking for the store")? || !holds_ours(dir, env)? {
        return Err(no_store(dir)); // and no lock file is left in somebody else's directory
    }
    let held = take_lock(dir, env)?;
    let current = dir.join(Name::Current.to_string());
    if settings.error_if_exists && env.fs.exists(&current).during(|| "looking for a store")? {
        return Err(Error::invalid(format!("{}: exists (error_if_exists is true)", dir.display())));
    }
    Ok(held)
}

pub(super) fn no_store(dir: &Path) -> Error {
    Error::invalid(format!("there is no store at {} and create_if_missing is off", dir.display()))
}

/// Makes a directory and those above it, if they are missing, and makes the name of each of them durable. One that is there, and holds no store, may have
/// been made by a call that was killed before its name was: that is done as well, as far as those above it let themselves be synced.
pub(super) fn create_directory(dir: &Path, env: &Env) -> Result<()> {
    let mut missing = Vec::new();
    for path in dir.ancestors().take_while(|path| !path.as_os_str().is_empty()) {
        if env.fs.exists(path).during(|| format!("looking for {}", path.display()))? {
            break;
        }
        missing.push(path);
    }
    if !missing.is_empty() {
        env.fs.create_dir_all(dir).during(|| format!("creating {}", dir.display()))?;
    } else if env.fs.exists(&dir.join(Name::Current.to_string())).during(|| "looking for a store")? {
        return Ok(());
    }
    let above: Vec<&Path> = dir.ancestors().filter_map(|path| path.parent()).collect();
    let synced = above.iter().enumerate().try_for_each(|(place, parent)| {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match env.fs.sync_dir(parent) {
            Err(error) if place >= missing.len() && is_not_ours(&error) => Ok(()),
            outcome => outcome.during(|| format!("syncing {}", parent.display())),
        }
    });
    if synced.is_err() {
        // Nothing is known of their names behind a sync that failed (I09): who tries again is to make them anew.
        missing.iter().for_each(|path| drop(env.fs.remove_dir(path)));
    }
    synced
}

/// A directory above that somebody else keeps: it may be read by nobody, or stand on a device that nobody writes to.
fn is_not_ours(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | NotFound | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

fn holds_ours(dir: &Path, env: &Env) -> Result<bool> {
    let names = env.fs.list(dir).during(|| "listing the store's directory")?;
    Ok(names.iter().filter_map(|name| Name::parse(name)).any(|name| name != Name::Lock))
}

pub(super) fn take_lock(dir: &Path, env: &Env) -> Result<Box<dyn Lock>> {
    let holder = format!("process {}", std::process::id());
    match env.fs.lock(&dir.join(Name::Lock.to_string()), &holder).during(|| "locking the store")? {
        Ok(held) => Ok(held),
        Err(other) => {
            let what = format!(
                "{} is open already, by {}",
                dir.display(),
                if other.is_empty() { "another handle" } else { &other }
            );
            Err(Error::of(ErrorKind::Locked, what))
        }
    }
}
fn start(
    dir: &Path,
    settings: Settings,
    parts: Parts,
    (opened, integrity): (Opened, Arc<Integrity>),
    access: Access,
    held: Option<Box<dyn Lock>>,
) -> Result<Db> {
    let recovered = Event::Recovered { commits: opened.report.commits, cut_bytes: opened.report.cut_bytes };
    let inner = Arc::new(Inner {
        background: Arc::new(Background::new(parts.env.work)),
        dir: dir.to_owned(),
        promise: parts.companions.protection(),
        companions: parts.companions,
        noted: integrity.noted().clone(),
        integrity,
        listener: parts.listener,
        memory: Memory::new(&opened.cache, if access == Access::Write { settings.ring_bytes } else { 0 }, &settings),
        cache: opened.cache,
        snapshots: Arc::new(Snapshots::default()),
        access,
        origin: Origin::here(),
        closed: AtomicBool::new(false),
        refusing: AtomicBool::new(false),
        visible: AtomicU64::new(opened.visible),
        next_file: opened.next_file,
        least_apart: AtomicUsize::new(least_apart(&opened.families)),
        families: ArcSwap::from_pointee(opened.families),
        log: opened.log.filter(|_| access == Access::Write),
        log_points: AtomicBool::new(opened.manifest.as_ref().is_some_and(|manifest| manifest.state().log_points)),
        unsynced: Arc::default(),
        intakes: Mutex::default(),
        manifest: Mutex::new(opened.manifest),
        jobs_lock: Mutex::new(()),
        compactions: Running::barring(opened.barred),
        pace: Pace::new(settings.background_bytes_per_second),
        ingesting: AtomicU64::new(0),
        dead_files: opened.dead_files,
        sweeping: Mutex::default(),
        open_tables: opened.open_tables,
        leftovers: Leftovers::of(opened.leftovers),
        trash: Trash::open(if access == Access::Write { settings.trash_bytes } else { 0 }, &*parts.env.fs, dir),
        book: Book::new(parts.chronicle, opened.lines),
        halt_told: AtomicBool::new(false),
        recovery: Mutex::new(opened.report),
        given: (parts.families.clone(), parts.orders),
        store_lock: Mutex::new(held),
        counters: Default::default(),
        env: parts.env,
        settings,
    });
    if let Some(log) = &inner.log {
        let unsynced = inner.unsynced.clone();
        log.wal().syncs_first(Box::new(move || unsynced.sync()));
    }
    let background = inner.background.clone();
    inner.dead_files.heard_by(move || background.kick(Lane::Flush));
    let handle = Arc::new(Handle { inner: inner.clone(), threads: Mutex::new(Vec::new()) });
    if access == Access::Write {
        inner.revise_stall();
        *lock(&handle.threads) = inner.start_lanes()?;
    } else {
        inner.charge_memtables(); // those of the log that it has read
    }
    inner.listener.on_event(&recovered);
    let db = Db { handle };
    if access == Access::Write {
        db.inner().create_missing(&parts.families)?;
    }
    Ok(db)
}

impl Inner {
    /// Takes over what a fresh look found (read-only stores). The seqno first: a reader loads its view and then the seqno, and a
    /// new view may lack what an old seqno needs. Snapshots take views and seqno together, so they wait.
    fn adopt(&self, opened: Opened) {
        let _all_at_once = lock(&self.jobs_lock);
        self.visible.store(opened.visible, Ordering::Release);
        let known = self.families();
        let mut families = Families { by_id: BTreeMap::new(), next_id: opened.families.next_id };
        for (id, fresh) in opened.families.by_id {
            let family = match known.by_id.get(&id) {
                Some(family) => {
                    family.replace(&fresh.view());
                    family.clone()
                }
                None => fresh,
            };
            families.by_id.insert(id, family);
        }
        self.families.store(Arc::new(families));
        self.charge_memtables();
        self.book.show(&opened.lines); // after the rows that became of those that are gone
        self.sweep_dead_files(); // of the tables that the first look found, what nobody sees any more
    }
}
