//! The simulated disk: all behavior that a disk, a page cache and a kernel may show to a store, from a seed.
//!
//! Every operation of `Fs`, `File` and `Mapped` (except `load` and hints) is a numbered step. A step may be the crash
//! ([`SimFs::crash_at`]): it is done not at all, partially or completely, and every later step of this boot fails.
//! [`SimFs::reboot`] then selects the kind of crash and returns the file system to a usable state; earlier handles stay
//! invalid. A step may encounter a fault ([`SimFs::fail_at`]). Unsynced data is kept in all its versions, per sector,
//! and unsynced name changes are kept one by one. A machine crash leaves any of them, depending on its [`Loss`].
//!
//! The state is one value behind one lock, and copies share its parts, so a [`SimFs::fork`] is cheap.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::tree::{NameTree, TreeEntry, TreePath};
use super::work::{self, lock};
use super::{Dir, DirEntry, Env, File, Fs, Lock, Machine, ManualClock, Open, SeededRandom};

mod content;
mod dice;
mod dir;
mod fault;
mod handle;
mod loss;
mod names;
mod state;
#[cfg(test)]
mod tests;

pub use fault::Fault;
pub use loss::{Crash, Loss};

#[cfg(test)]
use content::SECTOR;
use content::SimContent;
use dir::SimDir;
use fault::StepKind;
use handle::{SimFile, SimLock};
use state::{Armed, SimState};

/// A simulated file system. Clones refer to the same one; `fork` makes another.
#[derive(Clone)]
pub struct SimFs {
    state: Arc<Mutex<SimState>>,
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFs at step {}", self.steps())
    }
}

impl SimFs {
    /// Creates an empty disk of unlimited size that maps files, on a machine with a boot id.
    pub fn new(seed: u64) -> SimFs {
        SimFs::with_clock(seed, Arc::default())
    }

    /// Creates the same disk, with the clock that delays advance.
    pub fn with_clock(seed: u64, clock: Arc<ManualClock>) -> SimFs {
        SimFs { state: Arc::new(Mutex::new(SimState::new(seed, clock))) }
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        lock(&self.state)
    }

    /// Returns an environment with this file system, its clock, random numbers from `seed`, and stepped work.
    pub fn env(&self, seed: u64) -> Env {
        Env {
            fs: Arc::new(self.clone()),
            clock: self.clock(),
            random: Arc::new(SeededRandom::new(seed)),
            work: work::Mode::Stepped,
        }
    }

    /// Returns the clock that delays advance.
    pub fn clock(&self) -> Arc<ManualClock> {
        self.state().clock.clone()
    }

    /// Sets whether files can be mapped and blocks stay reserved (the default), or stores use plain writes.
    pub fn set_mapped(&self, mapped: bool) {
        self.state().reserves = mapped;
    }

    /// Sets the machine that the files appear to be on. A boot id of `None` stays `None`.
    pub fn set_machine(&self, machine: Machine) {
        self.state().machine = machine;
    }

    /// Sets the number of bytes that can still be reserved; `None` for no limit. Reserved space stays writable.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.state().free = bytes;
    }

    /// Returns the number of bytes that can still be reserved.
    pub fn free_space(&self) -> Option<u64> {
        self.state().free
    }

    // Steps, crashes and faults.

    /// Returns the number of steps taken, over all boots.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Returns the numbers of this boot's steps that change or sync data: those at which a crash is worth testing.
    pub fn changing_steps(&self) -> Vec<u64> {
        self.state().changing.clone()
    }

    /// Makes step `step` and every later one fail until `reboot`; the part of that step that is still done is chosen at
    /// random.
    pub fn crash_at(&self, step: u64) {
        self.state().crash = Some((step, None));
    }

    /// Crashes like `crash_at`, with `done` bytes of the step done: whole words of a store, whole pages of a sync. An
    /// operation that cannot be torn is done if `done` is not 0.
    pub fn crash_within(&self, step: u64, done: u64) {
        self.state().crash = Some((step, Some(done)));
    }

    /// Returns true from the crash to the reboot.
    pub fn is_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Ends this boot, crashed or not, and begins the next. Earlier open files, mappings and locks are invalid; faults
    /// are cleared.
    pub fn reboot(&self, crash: Crash) {
        self.state().reboot(crash);
    }

    /// Sets a fault that occurs once: at the first applicable step from `step` on.
    pub fn fail_at(&self, step: u64, fault: Fault) {
        self.state().faults.push(Armed { from: step, fault, stays: false });
    }

    /// Sets a fault that occurs at every applicable step from `step` on, until `clear_faults` or a reboot.
    pub fn fail_from(&self, step: u64, fault: Fault) {
        self.state().faults.push(Armed { from: step, fault, stays: true });
    }

    /// Clears all faults. Returns true if every one-time fault had occurred.
    pub fn clear_faults(&self) -> bool {
        std::mem::take(&mut self.state().faults).iter().all(|armed| armed.stays)
    }

    // Copies.

    /// Returns a copy of the whole machine in its current state, with its unsynced changes and its crash, but without
    /// open files and locks.
    pub fn fork(&self) -> SimFs {
        let mut state = self.state().clone();
        let open = std::mem::take(&mut state.open);
        open.keys().for_each(|file| state.give_back(*file));
        state.locks.clear();
        state.clock = Arc::new(ManualClock::default());
        state.clock.advance_nanos(super::Clock::monotonic_nanos(&*self.clock()));
        SimFs { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns a copy of the files alone, as `cp` would make it, durable, on the given machine.
    pub fn copy(&self, machine: Machine) -> SimFs {
        let copy = self.fork();
        copy.settle();
        copy.reboot(Crash::Process);
        copy.set_machine(machine);
        copy
    }

    /// Makes all changes durable.
    pub fn settle(&self) {
        let mut state = self.state();
        state.durable = state.live.clone();
        state.pending.clear();
        for content in state.files.values_mut() {
            let content = Arc::make_mut(content);
            let live = content.live.clone();
            content.leave(live);
        }
        state.sweep();
    }

    // Direct access for tests: not counted as steps, immediately durable.

    /// Returns the names of the files in a directory, sorted.
    pub fn files(&self, dir: impl AsRef<Path>) -> Vec<String> {
        let state = self.state();
        state.live.dir(dir.as_ref()).map_or_else(|_| Vec::new(), |dir| file_names(&state, dir))
    }

    /// Returns all bytes of a file.
    pub fn read_all(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let state = self.state();
        let content = &state.files[&state.live.file(path.as_ref())?];
        let mut bytes = vec![0; content.live.length as usize];
        content.live.read_at(&mut bytes, 0);
        Ok(bytes)
    }

    /// Replaces a file's contents, or creates the file. Its directory must exist.
    pub fn write_all(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.state().put_file(path.as_ref(), SimContent::settled(bytes))
    }

    /// Removes a file.
    pub fn delete(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.state().take_file(path.as_ref())
    }

    /// Flips one bit of a file, on disk and in the cache.
    pub fn flip(&self, path: impl AsRef<Path>, bit: u64) -> io::Result<()> {
        self.state().flip(path.as_ref(), bit)
    }

    // Accounting.

    /// Returns the paths of the open or mapped files, one per handle.
    pub fn open_files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let open = state.open.iter();
        open.flat_map(|(file, count)| std::iter::repeat_n(state.path_of(*file), *count as usize)).collect()
    }

    /// Returns the paths of the lock files that are held.
    pub fn held_locks(&self) -> Vec<PathBuf> {
        let state = self.state();
        let files = state.locks.iter().filter(|locked| state.files.contains_key(locked));
        files.map(|file| state.path_of(*file)).collect()
    }

    /// Removes a directory and the files in it, durably, as `rm -r` and a sync would.
    pub fn delete_dir(&self, dir: impl AsRef<Path>) -> io::Result<()> {
        let dir = dir.as_ref();
        self.files(dir).iter().try_for_each(|name| self.delete(dir.join(name)))?;
        self.state().take_dir(dir)
    }
}

impl SimFs {
    /// Opens the file that `find` returns, or creates it at the place that `at` returns.
    fn open_at(
        &self,
        epoch: u64,
        how: Open,
        at: impl FnOnce(&NameTree) -> io::Result<TreePath>,
        find: impl FnOnce(&NameTree) -> io::Result<u64>,
    ) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let file = match how {
            Open::Create | Open::CreateMode(_) => state.create(epoch, at)?,
            Open::Read | Open::Write => {
                state.begin(epoch, StepKind::Look)?;
                find(&state.live)?
            }
        };
        state.hold(file);
        Ok(Arc::new(SimFile { state: self.state.clone(), file, epoch, writable: how != Open::Read }))
    }

    fn lock_at(
        &self,
        epoch: u64,
        at: impl Fn(&NameTree) -> io::Result<TreePath>,
        holder: &str,
    ) -> io::Result<Result<Box<dyn Lock>, String>> {
        let mut state = self.state();
        Ok(match state.lock(epoch, &at, holder)? {
            Ok(locked) => {
                let place = Some(at(&state.live)?);
                Ok(Box::new(SimLock { state: self.state.clone(), locked, place, epoch }))
            }
            Err(holder) => Err(holder),
        })
    }

    /// Looks up an existing directory.
    fn look_at(&self, dir: &Path) -> io::Result<(MutexGuard<'_, SimState>, u64)> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.begin(epoch, StepKind::Look)?;
        let dir = state.live.dir(dir)?;
        Ok((state, dir))
    }
}

impl Fs for SimFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let epoch = self.state().epoch;
        self.open_at(epoch, how, |live| live.place(path), |live| live.file(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.rename(epoch, |live| live.plan_rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.rename(epoch, |live| live.file(path).and_then(|_| live.plan_remove(live.place(path)?)).map(Some))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let epoch = state.epoch;
        let plan = |live: &NameTree| {
            let file = live.file(from)?;
            live.plan_put(live.place(to)?, TreeEntry::File(file))
        };
        state.rename(epoch, |live| plan(live).map(Some))
    }

    fn link_into(&self, from: &Path, dir: &dyn Dir, name: &str) -> io::Result<()> {
        let dir = SimDir::of(dir)?;
        let plan = |live: &NameTree| {
            let file = live.file(from)?;
            live.plan_put(dir.place(live, name)?, TreeEntry::File(file))
        };
        self.state().rename(dir.epoch, |live| plan(live).map(Some))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let (state, dir) = self.look_at(dir)?;
        Ok(file_names(&state, dir))
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.begin(epoch, StepKind::Look)?;
        Ok(state.live.dir_entries(state.live.dir(dir)?))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.create_dirs(epoch, dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.rename(epoch, |live| live.plan_remove_dir(dir).map(Some))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.begin(epoch, StepKind::Look)?;
        match state.live.lookup(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        let epoch = state.epoch;
        state.sync_dir(epoch, |live| live.dir(dir))
    }

    fn hold_dir(&self, dir: &Path) -> io::Result<Option<Arc<dyn Dir>>> {
        let (state, dir) = self.look_at(dir)?;
        Ok(Some(Arc::new(SimDir { fs: self.clone(), dir, epoch: state.epoch })))
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Result<Box<dyn Lock>, String>> {
        let epoch = self.state().epoch;
        self.lock_at(epoch, |live| live.place(path), holder)
    }

    fn machine(&self, dir: &Path) -> io::Result<Machine> {
        self.look_at(dir).map(|(state, _)| state.machine)
    }

    fn reserves_blocks(&self, dir: &Path) -> io::Result<bool> {
        self.look_at(dir).map(|(state, _)| state.reserves)
    }
}

fn file_names(state: &SimState, dir: u64) -> Vec<String> {
    let files = state.live.entries(dir).iter().filter(|(_, entry)| matches!(entry, TreeEntry::File(_)));
    files.map(|(name, _)| name.to_string()).collect()
}
