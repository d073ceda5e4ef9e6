//! Opening and destroying a store: the directory, the lock, and the assembly of a `Db` from the results of `recover`.
//!
//! In:      a directory, possibly left by a crash; settings; parts.
//! Damage:  in a table it does not prevent the open; in the log or manifest it does, unless the caller accepts the
//!          loss.
//! No room: the store opens read-only, with the replayed records in memory.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
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
use crate::env::{DirEntry, Env, Lock, Open, Origin};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::expiry::ExpiryClock;
use crate::names::{Name, is_system_name};
use crate::options::Settings;
use crate::planted::{Bug, active};
use crate::version::{self, Contents, Foreign, Marked};
use crate::wal::LogEnd;

/// Reports what recovery found in the log at open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Number of commits replayed.
    pub commits: u64,
    /// Bytes of the log that were cut as a torn tail (or, with `accept_loss`, as damage). 0 after a clean close.
    pub cut_bytes: u64,
    /// Logical offset at which the log was cut.
    pub cut_at: Option<u64>,
    /// Name of the file in the store that keeps the cut bytes.
    pub set_aside: Option<String>,
    /// Bytes of missing commits that had returned: the acknowledged mark minus the recovered end. 0 unless the machine
    /// failed. If `may_lack_unsynced` is set, this is a lower bound: the mark is as old as the operating system's last
    /// write of its page.
    pub acknowledged_bytes_missing: u64,
    /// True if the machine failed, or the store moved to another device, while the log was open. Commits that had
    /// returned without a sync may be missing, and the remaining files do not tell how many.
    pub may_lack_unsynced: bool,
    /// Damaged values of commits in the log. Reads of their keys fail with `Corruption` until the keys are overwritten
    /// or repaired.
    pub lost_values: u64,
}

impl RecoveryReport {
    /// Records what the end of the log proves about missing commits.
    pub(super) fn of_end(&mut self, end: &LogEnd) {
        self.acknowledged_bytes_missing = end.acknowledged.saturating_sub(end.place.offset);
        self.may_lack_unsynced = end.may_lack_unsynced;
    }
}

impl Db {
    /// Opens a store for reading and writing, and creates it if `settings` allows that.
    ///
    /// Errors: `Locked` (names the holder), `Corruption` of log or manifest (damaged tables are reported when read),
    /// `FormatTooNew`, `Invalid` for invalid settings or a comparator other than the stored one, `Io`. If the disk has
    /// no room for recovery, the store opens read-only and writes fail with `ReadOnly`. Costs a read of the live log, a
    /// flush of its records, and about ten fsyncs.
    pub fn open(dir: &Path, settings: Settings, parts: Parts) -> Result<Db> {
        validate(&settings, &parts)?;
        let outside = parts.env.clone();
        let parts = Parts { env: parts.env.within(dir), ..parts };
        let (held, is_new) = prepare_directory(dir, &settings, &parts.env)?;
        let integrity = Integrity::new(parts.listener.clone());
        let opening = Opening { dir, settings: &settings, parts: &parts, integrity: &integrity, kept: None };
        let mut recovered = opening.recover_for_writing(is_new);
        if recovered.as_ref().is_err_and(|error| error.is_disk_full()) && opening.empty_trash() {
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
        let outcome = start(dir, settings, parts, (opened, integrity), access, Some(held));
        if is_new && outcome.as_ref().is_err_and(|error| error.is_out_of_space()) {
            take_back(dir, &outside.within(dir)); // the failed store has closed its own
        }
        outcome
    }

    /// Opens a store for reading, even while another process writes it. Takes no lock, writes no file and does not cut
    /// the log. Reads see commits made before the call, and later ones after `refresh`. The records of the log are held
    /// in memory.
    pub fn open_read_only(dir: &Path, settings: Settings, parts: Parts) -> Result<Db> {
        validate(&settings, &parts)?;
        let parts = Parts { env: parts.env.within(dir), ..parts };
        let integrity = Integrity::new(parts.listener.clone());
        let opened = Opening { dir, settings: &settings, parts: &parts, integrity: &integrity, kept: None }.read();
        let opened = opened.map_err(with_a_way_on)?;
        start(dir, settings, parts, (opened, integrity), Access::Read, None)
    }

    /// Makes newer commits visible in a read-only store. Existing cursors and snapshots keep their view. Has no effect
    /// on a store that is open for writing.
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
    /// Runs `refresh`; events of its reads are queued.
    fn look_again(&self) -> Result<()> {
        let _one_look_at_a_time = lock(&self.manifest); // else an older state could replace a newer one
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
        let kept = Some((self.cache.clone(), self.open_tables.files().clone()));
        let (dir, integrity) = (&*self.dir, &self.integrity);
        let opened = Opening { dir, settings: &self.settings, parts: &parts, integrity, kept }.read()?;
        self.adopt(opened);
        Ok(())
    }
}

/// Adds advice to an open error caused by the manifest. Errors of the log get theirs where they are detected.
fn with_a_way_on(error: Error) -> Error {
    match error.damage().map(|damage| Name::parse(&damage.file)) {
        Some(Some(Name::Manifest(_) | Name::Current)) => {
            error.advise("`salvage` into a new directory reads the tables and the log without it")
        }
        _ => error,
    }
}

/// Removes a store's files, and its directory unless it contains other files. `LOCK` is removed only together with the
/// directory.
pub(super) fn destroy(dir: &Path, env: &Env) -> Result<()> {
    let env = &env.clone().within(dir);
    let refuse = |contents: &Contents| Error::invalid(format!("{} holds {contents}", dir.display()));
    let check = || match version::contents(env, dir)? {
        Contents::Store | Contents::Damaged | Contents::Marked(Marked::UnfinishedCheckpoint) => Ok(()),
        Contents::Empty if holds_unfinished(dir, env)? => Ok(()),
        contents => Err(refuse(&contents)),
    };
    check()?;
    let held = take_lock(dir, env)?;
    check()?;
    remove_ours(dir, env)?;
    remove_directory(dir, env, held);
    Ok(())
}

/// Returns true if an interrupted creation has left files.
fn holds_unfinished(dir: &Path, env: &Env) -> Result<bool> {
    if !env.fs.exists(dir).during(|| "looking for the store")? {
        return Ok(false);
    }
    Ok(version::our_files(env, dir)?.iter().any(|name| *name != Name::Lock))
}

/// Removes the store's files in a locked directory, except for the lock. Durably removes `CURRENT` first, so that a
/// crash leaves no openable store. Removes as many of the other files as possible, and returns the first error.
pub(super) fn remove_ours(dir: &Path, env: &Env) -> Result<()> {
    let ours = version::our_files(env, dir)?;
    if ours.contains(&Name::Current) {
        env.fs.remove(&dir.join(Name::Current.to_string())).during(|| "removing CURRENT")?;
        env.fs.sync_dir(dir).during(|| "syncing the store's directory")?;
    }
    let remove = |name: Name| env.fs.remove(&dir.join(name.to_string())).during(|| format!("removing {name}"));
    // The marker of an unfinished checkpoint is removed last, so that an interruption leaves an unfinished checkpoint.
    let (marks, others): (Vec<Name>, Vec<Name>) = ours
        .into_iter()
        .filter(|name| !matches!(name, Name::Current | Name::Lock))
        .partition(|name| *name == Name::Unfinished);
    others.into_iter().chain(marks).map(remove).fold(Ok(()), Result::and)
}

/// Removes a directory that contains only the lock file, and the lock file with it. The lock stays held until then:
/// another process that waits for it finds no directory.
pub(super) fn remove_directory(dir: &Path, env: &Env, held: StoreLocks) {
    let lock = Name::Lock.to_string();
    let is_lock = |entry: &DirEntry| entry.is_file && entry.name == lock;
    if env.fs.entries(dir).is_ok_and(|entries| entries.iter().all(is_lock)) {
        let _ = env.fs.remove(&dir.join(&lock));
        let _ = env.fs.remove_dir(dir);
    }
    drop(held);
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

/// Removes a store whose creation ran out of space at its last steps, unless another handle has opened it meanwhile.
fn take_back(dir: &Path, env: &Env) {
    if let Ok(held) = take_lock(dir, env) {
        undo_creation(dir, env);
        drop(held);
    }
}

/// Removes the files of a store that no caller has seen, `CURRENT` first, ignoring failures. Syncs nothing, because
/// syncing may be the operation that failed.
fn undo_creation(dir: &Path, env: &Env) {
    let mut ours = version::our_files(env, dir).unwrap_or_default();
    ours.sort_by_key(|name| *name != Name::Current);
    let files = ours.into_iter().filter(|name| *name != Name::Lock);
    files.for_each(|name| drop(env.fs.remove(&dir.join(name.to_string()))));
}

/// Checks the directory, creates it if it is missing, and locks it. Returns true if it holds no store yet. A rejected
/// directory is not modified.
fn prepare_directory(dir: &Path, settings: &Settings, env: &Env) -> Result<(StoreLocks, bool)> {
    admit(dir, settings, env)?;
    if settings.create_if_missing {
        create_directory(dir, env)?;
    }
    let held = take_lock(dir, env)?;
    let is_new = admit(dir, settings, env)?; // another process may have changed it before we got the lock
    if is_new {
        // The lock file distinguishes the files of a creation from a user's own files, so its name becomes durable
        // before any other.
        env.fs.sync_dir(dir).during(|| "syncing the store's directory")?;
    }
    if settings.error_if_exists && !is_new {
        return Err(Error::invalid(format!("{}: exists (error_if_exists is true)", dir.display())));
    }
    Ok((held, is_new))
}

/// Rejects a directory unless it holds a store, or a store may be created in it. Returns true if it holds no store yet.
fn admit(dir: &Path, settings: &Settings, env: &Env) -> Result<bool> {
    let refuse = |contents: &Contents, what: &str| Error::invalid(format!("{} holds {contents}{what}", dir.display()));
    match version::contents(env, dir)? {
        Contents::Store if !version::is_unfinished(env, dir)? => Ok(false),
        Contents::Damaged => Err(version::recover(env, dir).err().unwrap_or_else(|| no_store(dir))),
        Contents::Store | Contents::Empty if settings.create_if_missing => Ok(true),
        Contents::Store | Contents::Empty => Err(no_store(dir)),
        contents @ Contents::Marked(Marked::UnfinishedCheckpoint) => {
            Err(refuse(&contents, ": destroy it, and take the checkpoint again"))
        }
        contents @ Contents::Foreign(Foreign::Other(_)) if settings.create_if_missing => {
            let entries = env.fs.entries(dir).during(|| "listing the store's directory")?;
            let is_ours = |entry: &&DirEntry| Name::parse(&entry.name).is_some_and(|name| name != Name::Lock);
            match entries.iter().find(is_ours) {
                None if settings.beside_other_files => Ok(true),
                Some(entry) if settings.beside_other_files => {
                    Err(refuse(&contents, &format!(", and a store would give the name {:?} to a file", entry.name)))
                }
                _ => Err(refuse(&contents, ": no store is created beside them")),
            }
        }
        contents => Err(refuse(&contents, "")),
    }
}

pub(super) fn no_store(dir: &Path) -> Error {
    Error::invalid(format!("there is no store at {} and create_if_missing is off", dir.display()))
}

/// Creates a directory and its missing parents, and makes each name durable. An existing directory without a store may
/// have been created by a call that was killed before it synced the name. Its name is synced as well, as far as the
/// parent directories can be synced.
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
        // After a failed sync the durability of their names is unknown (I09), so a retry must create the directories
        // again.
        missing.iter().for_each(|path| drop(env.fs.remove_dir(path)));
    }
    synced
}

/// Returns true for an error of a parent directory that another owner controls: unreadable, or on a read-only device.
fn is_not_ours(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), InvalidInput | NotFound | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

/// The locks of an open store. The file lock is released first, so that a process that gets the directory lock gets
/// both.
#[derive(Debug)]
pub(super) struct StoreLocks {
    _file: Box<dyn Lock>,
    _dir: Box<dyn Lock>,
}

/// Locks the directory, which survives a rename, and the lock file, the only lock that older versions and some file
/// systems support.
pub(super) fn take_lock(dir: &Path, env: &Env) -> Result<StoreLocks> {
    let path = dir.join(Name::Lock.to_string());
    let Some(locked) = env.fs.lock_dir(dir).during(|| "locking the store's directory")? else {
        return Err(already_open(dir, &holder_in(&path, env)));
    };
    match env.fs.lock(&path, &this_process()).during(|| "locking the store")? {
        Ok(file) => Ok(StoreLocks { _file: file, _dir: locked }),
        Err(other) => Err(already_open(dir, &other)),
    }
}

/// Returns the holder's name that this process writes to the lock file.
fn this_process() -> String {
    format!("process {}", std::process::id())
}

/// Returns the holder's name in a lock file; empty if the file has none.
fn holder_in(path: &Path, env: &Env) -> String {
    let mut name = [0; 128];
    let read = env.fs.open(path, Open::Read).and_then(|file| file.read_at(&mut name, 0));
    String::from_utf8_lossy(&name[..read.unwrap_or(0)]).trim().to_owned()
}

fn already_open(dir: &Path, holder: &str) -> Error {
    let by = match holder {
        "" => "another handle".to_owned(),
        other if other == this_process() => {
            format!("this process ({other}): use the handle that it has, or close that")
        }
        other => other.to_owned(),
    };
    Error::of(ErrorKind::Locked, format!("{} is open already, by {by}", dir.display()))
}

fn start(
    dir: &Path,
    settings: Settings,
    parts: Parts,
    (opened, integrity): (Opened, Arc<Integrity>),
    access: Access,
    held: Option<StoreLocks>,
) -> Result<Db> {
    let recovered = Event::Recovered { commits: opened.report.commits, cut_bytes: opened.report.cut_bytes };
    let inner = Arc::new(Inner {
        background: Arc::new(Background::new(parts.env.work)),
        dir: dir.to_owned(),
        store: opened.manifest.as_ref().map(|manifest| manifest.store()),
        promise: parts.companions.protection(),
        companions: parts.companions,
        noted: integrity.noted().clone(),
        integrity,
        listener: parts.listener,
        memory: Memory::new(&opened.cache, if access == Access::Write { settings.ring_bytes } else { 0 }, &settings),
        cache: opened.cache,
        owns_cache: parts.cache.is_none(),
        snapshots: Arc::new(Snapshots::default()),
        expiry_clock: Arc::new(ExpiryClock::new(
            parts.env.clock.clone(),
            if active(Bug::ExpiryClockForgetsRestart) { 0 } else { opened.expired_through },
        )),
        access,
        origin: Origin::here(),
        closed: AtomicBool::new(false),
        refusing: AtomicBool::new(false),
        visible: AtomicU64::new(opened.visible),
        next_file: opened.next_file,
        least_apart: AtomicUsize::new(least_apart(opened.families.by_id.values())),
        families: ArcSwap::from_pointee(opened.families),
        log: opened.log.filter(|_| access == Access::Write),
        log_points: AtomicBool::new(opened.manifest.as_ref().is_some_and(|manifest| manifest.state().log_points)),
        unsynced: Arc::default(),
        intakes: Mutex::default(),
        manifest: Mutex::new(opened.manifest),
        jobs_lock: Mutex::new(()),
        log_holder: AtomicU32::new(0),
        compactions: Running::barring(opened.barred),
        picks: Mutex::default(),
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
        inner.charge_memtables(); // the memtables replayed from the log
    }
    inner.listener.on_event(&recovered);
    for (family, _, fence) in opened.lost {
        let (family, fence) = (family.name().to_owned(), (*fence).clone());
        inner.listener.on_event(&Event::Corruption { error: fence.error().in_family(&family, None) });
        if access == Access::Write {
            inner.listener.on_event(&Event::Fenced { family, fence });
        }
    }
    let db = Db { handle };
    if access == Access::Write {
        db.inner().create_missing(&parts.families)?;
    }
    Ok(db)
}

impl Inner {
    /// Switches a read-only store to a freshly read state. The seqno is stored first: a reader loads its view before
    /// the seqno, and a new view may lack versions that an old seqno needs. Snapshots take views and seqno together, so
    /// they wait for the lock.
    fn adopt(&self, opened: Opened) {
        let _all_at_once = lock(&self.jobs_lock);
        self.visible.store(opened.visible, Ordering::Release);
        self.expiry_clock.note(opened.expired_through);
        let known = self.families();
        let mut families = Families::none(opened.families.next_id);
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
        self.families.store(Arc::new(families));
        self.charge_memtables();
        self.book.show(&opened.lines); // after the rows that the removed entries became
        self.sweep_dead_files(); // tables of the first state that no reader holds
    }
}
