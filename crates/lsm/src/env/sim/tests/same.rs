//! Without faults the three file systems return the same results.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::env::{MemoryFs, RealFs};

const NAMES: [&str; 10] = ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a"];
const SLOTS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Open(usize, Open, usize),
    Close(usize),
    Read(usize, u64, usize),
    Write(usize, u64, usize, u8),
    SetLen(usize, u64),
    Allocate(usize, u64),
    Length(usize),
    Sync(usize),
    Rename(usize, usize),
    Remove(usize),
    Link(usize, usize),
    List(usize),
    CreateDirs(usize),
    RemoveDir(usize),
    Exists(usize),
    SyncDir(usize),
    Lock(usize, usize),
    Unlock(usize),
}

fn steps() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let slot = || 0..SLOTS;
    let offset = || prop_oneof![0..200u64, 4000..4200u64, 65_400..65_700u64];
    let length = || prop_oneof![1..100usize, 4000..9000usize, 60_000..70_000usize];
    let how = prop_oneof![1 => Just(Open::Read), 1 => Just(Open::Write), 3 => Just(Open::Create)];
    prop_oneof![
        6 => (name(), how, slot()).prop_map(|(name, how, slot)| Step::Open(name, how, slot)),
        1 => slot().prop_map(Step::Close),
        4 => (slot(), offset(), length()).prop_map(|(slot, at, length)| Step::Read(slot, at, length)),
        8 => (slot(), offset(), length(), any::<u8>()).prop_map(|(slot, at, length, byte)| Step::Write(slot, at, length, byte)),
        2 => (slot(), offset()).prop_map(|(slot, length)| Step::SetLen(slot, length)),
        1 => (slot(), offset()).prop_map(|(slot, length)| Step::Allocate(slot, length)),
        1 => slot().prop_map(Step::Length),
        1 => slot().prop_map(Step::Sync),
        3 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => name().prop_map(Step::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Step::Link(from, to)),
        1 => name().prop_map(Step::List),
        3 => name().prop_map(Step::CreateDirs),
        1 => name().prop_map(Step::RemoveDir),
        1 => name().prop_map(Step::Exists),
        1 => name().prop_map(Step::SyncDir),
        1 => (name(), slot()).prop_map(|(name, slot)| Step::Lock(name, slot)),
        1 => slot().prop_map(Step::Unlock),
    ]
}

/// The result of a step, as far as the three must agree.
#[derive(PartialEq, Debug)]
enum Answer {
    Skipped,
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Names(Vec<String>),
    Refused(Option<ErrorKind>),
}

struct World {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    open: BTreeMap<usize, Arc<dyn File>>,
    locks: BTreeMap<usize, Box<dyn Lock>>,
}

impl World {
    fn new(fs: Arc<dyn Fs>, root: &Path) -> World {
        fs.create_dir_all(root).unwrap();
        World { fs, root: root.to_owned(), open: BTreeMap::new(), locks: BTreeMap::new() }
    }

    fn path(&self, name: usize) -> PathBuf {
        self.root.join(NAMES[name])
    }

    fn is_dir(&self, name: usize) -> bool {
        self.fs.list(&self.path(name)).is_ok()
    }

    fn step(&mut self, step: &Step) -> Answer {
        // The error kinds on which every kernel and the standard library agree.
        self.try_step(step).unwrap_or_else(|error| {
            let known = [ErrorKind::NotFound, ErrorKind::AlreadyExists, ErrorKind::DirectoryNotEmpty];
            Answer::Refused(Some(error.kind()).filter(|kind| known.contains(kind)))
        })
    }

    fn try_step(&mut self, step: &Step) -> io::Result<Answer> {
        let file = |slot: &usize| self.open.get(slot).ok_or(());
        Ok(match step {
            Step::Open(name, how, _) if *how != Open::Create && self.is_dir(*name) => Answer::Skipped,
            Step::Open(name, how, slot) => {
                let file = self.fs.open(&self.path(*name), *how)?;
                self.open.insert(*slot, file);
                Answer::Done
            }
            Step::Close(slot) => self.open.remove(slot).map_or(Answer::Skipped, |_| Answer::Done),
            Step::Read(slot, at, length) => {
                let Ok(file) = file(slot) else { return Ok(Answer::Skipped) };
                let mut bytes = vec![0xEE; *length];
                let n = file.read_at(&mut bytes, *at)?;
                bytes.truncate(n);
                Answer::Bytes(bytes)
            }
            Step::Write(slot, at, length, byte) => match file(slot) {
                Ok(file) => file.write_at(&vec![*byte; *length], *at).map(|()| Answer::Done)?,
                Err(()) => Answer::Skipped,
            },
            Step::SetLen(slot, length) => match file(slot) {
                Ok(file) => file.set_len(*length).map(|()| Answer::Done)?,
                Err(()) => Answer::Skipped,
            },
            Step::Allocate(slot, length) => match file(slot) {
                Ok(file) if *length > 0 => file.allocate(*length).map(|()| Answer::Done)?,
                _ => Answer::Skipped,
            },
            Step::Length(slot) => match file(slot) {
                Ok(file) => Answer::Number(file.len()?),
                Err(()) => Answer::Skipped,
            },
            Step::Sync(slot) => match file(slot) {
                Ok(file) => file.sync_data().map(|()| Answer::Done)?,
                Err(()) => Answer::Skipped,
            },
            Step::Rename(from, to) => self.fs.rename(&self.path(*from), &self.path(*to)).map(|()| Answer::Done)?,
            Step::Remove(name) => self.fs.remove(&self.path(*name)).map(|()| Answer::Done)?,
            Step::Link(from, _) if self.is_dir(*from) => Answer::Skipped,
            Step::Link(from, to) => self.fs.link(&self.path(*from), &self.path(*to)).map(|()| Answer::Done)?,
            Step::List(name) => {
                let mut names = self.fs.list(&self.path(*name))?;
                names.sort();
                Answer::Names(names)
            }
            Step::CreateDirs(name) => self.fs.create_dir_all(&self.path(*name)).map(|()| Answer::Done)?,
            Step::RemoveDir(name) => self.fs.remove_dir(&self.path(*name)).map(|()| Answer::Done)?,
            Step::Exists(name) => Answer::Number(u64::from(self.fs.exists(&self.path(*name))?)),
            Step::SyncDir(name) if !self.is_dir(*name) => Answer::Skipped,
            Step::SyncDir(name) => self.fs.sync_dir(&self.path(*name)).map(|()| Answer::Done)?,
            Step::Lock(name, _) if self.is_dir(*name) => Answer::Skipped,
            Step::Lock(name, slot) => match self.fs.lock(&self.path(*name), "holder")? {
                Ok(lock) => {
                    self.locks.insert(*slot, lock);
                    Answer::Done
                }
                Err(holder) => Answer::Names(vec![holder]),
            },
            Step::Unlock(slot) => self.locks.remove(slot).map_or(Answer::Skipped, |_| Answer::Done),
        })
    }

    /// Returns every file by its name, with its bytes.
    fn contents(&self) -> BTreeMap<&'static str, Option<Vec<u8>>> {
        let read = |name: usize| {
            if self.is_dir(name) {
                return None;
            }
            let file = self.fs.open(&self.path(name), Open::Read).ok()?;
            super::super::super::read_exact(&*file, 0, file.len().unwrap() as usize).ok()
        };
        NAMES.iter().enumerate().map(|(name, text)| (*text, read(name))).collect()
    }

    /// Makes everything durable with ordinary calls.
    fn sync_all(&self) {
        for name in 0..NAMES.len() {
            if self.is_dir(name) {
                self.fs.sync_dir(&self.path(name)).unwrap();
            } else if let Ok(file) = self.fs.open(&self.path(name), Open::Write) {
                file.sync_data().unwrap();
            }
        }
        self.fs.sync_dir(&self.root).unwrap();
        self.fs.sync_dir(Path::new("")).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn file_systems_agree(steps in proptest::collection::vec(steps(), 1..60), seed: u64) {
        let dir = tempfile::tempdir().unwrap();
        let mut real = World::new(Arc::new(RealFs), dir.path());
        let mut memory = World::new(Arc::new(MemoryFs::new()), path("store"));
        let disk = SimFs::new(seed);
        let mut sim = World::new(Arc::new(disk.clone()), path("store"));
        for (at, step) in steps.iter().enumerate() {
            let expected = real.step(step);
            prop_assert_eq!(&memory.step(step), &expected, "memory, step {} {:?}", at, step);
            prop_assert_eq!(&sim.step(step), &expected, "sim, step {} {:?}", at, step);
        }
        let contents = real.contents();
        prop_assert_eq!(&memory.contents(), &contents);
        prop_assert_eq!(&sim.contents(), &contents);
        // The cache is equivalent to the disk if no change is lost.
        for crash in [Crash::Process, ALL] {
            let copy = disk.fork();
            copy.reboot(crash);
            prop_assert_eq!(&World::new(Arc::new(copy), path("store")).contents(), &contents);
        }
        // And no policy can lose synced changes.
        sim.sync_all();
        for loss in Loss::all(seed) {
            let copy = disk.fork();
            copy.reboot(Crash::Machine(loss));
            prop_assert_eq!(&World::new(Arc::new(copy), path("store")).contents(), &contents, "{:?}", loss);
        }
    }
}
