//! The state of the simulated machine: how an operation begins, and the operations on data, space and locks (names:
//! `names`).
//!
//! An operation begins as a step: it is numbered, a crash or a fault may replace it, and then it runs on the live
//! state. Non-durable changes are recorded beside the state: name changes in one list for the machine, data changes
//! with each file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::{PAGE, PageFate, SECTOR, SimContent};
use super::dice::Dice;
use super::fault::{Fault, StepKind, StepOutcome, crashed};
use crate::env::tree::{NameTree, TreeChange, TreeEntry, TreePath};
use crate::env::{Machine, ManualClock};

/// A name change that is not durable.
#[derive(Clone)]
pub(super) struct PendingChange {
    pub(super) step: u64,
    pub(super) change: TreeChange,
}

/// A fault that waits for its step.
#[derive(Clone)]
pub(super) struct Armed {
    pub(super) from: u64,
    pub(super) fault: Fault,
    pub(super) stays: bool,
}

/// The machine: disk, page cache, open files.
#[derive(Clone)]
pub(super) struct SimState {
    /// Names as seen by processes.
    pub(super) live: NameTree,
    /// Durable names.
    pub(super) durable: NameTree,
    /// The changes between the two, in order.
    pub(super) pending: Vec<PendingChange>,
    pub(super) files: BTreeMap<u64, Arc<SimContent>>,
    next: u64,

    pub(super) steps: u64,
    /// The steps since the last reboot that change the state.
    pub(super) changing: Vec<u64>,
    /// Handles of earlier epochs are invalid.
    pub(super) epoch: u64,
    /// The step of the crash, and the part of it that is done.
    pub(super) crash: Option<(u64, Option<u64>)>,
    pub(super) crashed: bool,
    pub(super) faults: Vec<Armed>,
    pub(super) dice: Dice,

    /// Open handles and mappings by file.
    pub(super) open: BTreeMap<u64, u32>,
    /// Files and directories held as locks.
    pub(super) locks: BTreeSet<u64>,

    pub(super) free: Option<u64>,
    pub(super) machine: Machine,
    pub(super) reserves: bool,
    pub(super) clock: Arc<ManualClock>,
}

pub(super) const BLOCK: u64 = PAGE as u64;

impl SimState {
    pub(super) fn new(seed: u64, clock: Arc<ManualClock>) -> SimState {
        SimState {
            live: NameTree::new(),
            durable: NameTree::new(),
            pending: Vec::new(),
            files: BTreeMap::new(),
            next: 1,
            steps: 0,
            changing: Vec::new(),
            epoch: 0,
            crash: None,
            crashed: false,
            faults: Vec::new(),
            dice: Dice::new(seed),
            open: BTreeMap::new(),
            locks: BTreeSet::new(),
            free: None,
            machine: Machine { boot_id: Some([1; 16]), device: 1 },
            reserves: true,
            clock,
        }
    }

    /// Numbers an operation and determines its course. An error means that it has no effect.
    pub(super) fn begin(&mut self, epoch: u64, kind: StepKind) -> io::Result<(u64, StepOutcome)> {
        if epoch != self.epoch {
            return Err(io::Error::other("opened before a simulated crash"));
        }
        if self.crashed {
            return Err(crashed());
        }
        let step = self.steps;
        self.steps += 1;
        if kind.changes() {
            self.changing.push(step);
        }
        if let Some((at, done)) = self.crash
            && step >= at
        {
            self.crashed = true;
            return if kind.changes() { Ok((step, StepOutcome::Torn(done))) } else { Err(crashed()) };
        }
        Ok((step, self.strike(step, kind)?))
    }

    /// Applies the first fault that matches; delays apply in addition.
    fn strike(&mut self, step: u64, kind: StepKind) -> io::Result<StepOutcome> {
        let mut struck = None;
        let clock = self.clock.clone();
        self.faults.retain(|armed| {
            if step < armed.from || !armed.fault.fits(kind) {
                return true;
            }
            match armed.fault {
                Fault::Delay(nanos) => clock.advance_nanos(nanos),
                _ if struck.is_some() => return true,
                fault => struck = Some(fault),
            }
            armed.stays
        });
        match struck {
            None | Some(Fault::Delay(_)) => Ok(StepOutcome::Whole),
            Some(Fault::Error(error)) if kind == StepKind::Sync => Ok(StepOutcome::Failed(error)),
            Some(Fault::Error(error)) => Err(io::Error::new(error, format!("simulated fault at step {step}"))),
            Some(Fault::SyncFailed) => Ok(StepOutcome::Failed(ErrorKind::Other)),
            Some(Fault::Short) => Ok(StepOutcome::Short),
            Some(Fault::MisdirectedWrite | Fault::MisdirectedRead) => Ok(StepOutcome::Misdirected),
            Some(Fault::FlippedRead) => Ok(StepOutcome::Flipped),
        }
    }

    /// Returns how many of `total` bytes are done, in whole units.
    pub(super) fn done(&mut self, how: StepOutcome, total: usize, unit: usize) -> usize {
        match how {
            StepOutcome::Torn(Some(done)) => (done.min(total as u64) as usize) / unit * unit,
            StepOutcome::Torn(None) => match self.dice.below(4) {
                0 => 0,
                1 => total,
                _ => self.dice.below(total / unit + 1) * unit,
            },
            StepOutcome::Short => self.dice.below(total.max(1)) / unit * unit,
            _ => total,
        }
    }

    /// Returns whether an atomic operation is done.
    pub(super) fn is_done(&mut self, how: StepOutcome) -> bool {
        match how {
            StepOutcome::Torn(Some(done)) => done > 0,
            StepOutcome::Torn(None) => self.dice.coin(),
            _ => true,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn content(&mut self, file: u64) -> &mut SimContent {
        Arc::make_mut(self.files.entry(file).or_default())
    }

    // Space.

    /// Takes blocks from the free space.
    pub(super) fn spend(&mut self, blocks: u64) -> io::Result<()> {
        match self.free {
            Some(free) if free < blocks * BLOCK => Err(ErrorKind::StorageFull.into()),
            Some(free) => {
                self.free = Some(free - blocks * BLOCK);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Applies a change to a file's content, and accounts for its blocks.
    fn changing<T>(&mut self, file: u64, change: impl FnOnce(&mut SimContent) -> T) -> T {
        let Some(free) = self.free else { return change(self.content(file)) };
        let content = self.content(file);
        let before = content.live.reserved() as u64;
        let result = change(content);
        let after = content.live.reserved() as u64;
        self.free = Some((free + before * BLOCK).saturating_sub(after * BLOCK));
        result
    }

    /// Returns the blocks of every reachable file.
    pub(super) fn used(&self) -> u64 {
        let reachable = self.files.iter().filter(|(file, content)| content.names > 0 || self.open.contains_key(file));
        reachable.map(|(_, content)| (content.live.reserved() as u64 + 1) * BLOCK).sum()
    }

    // Locks.

    /// Takes a file as a lock, or returns its holder's text.
    pub(super) fn lock(
        &mut self,
        epoch: u64,
        at: impl FnOnce(&NameTree) -> io::Result<TreePath>,
        holder: &str,
    ) -> io::Result<Result<u64, String>> {
        let (step, how) = self.begin(epoch, StepKind::Name)?;
        if !self.is_done(how) {
            how.result()?;
        }
        let at = at(&self.live)?;
        let file = match self.live.file_at(&at) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.make(step, at)?,
            found => found?,
        };
        if self.locks.contains(&file) {
            let mut holder = vec![0; self.files[&file].live.length.min(4096) as usize];
            self.files[&file].live.read_at(&mut holder, 0);
            return Ok(Err(String::from_utf8_lossy(&holder).trim().to_owned()));
        }
        let room = self.free.map_or(u64::MAX, |free| free / BLOCK);
        self.changing(file, |content| {
            content.set_len(step, 0);
            // The lock is valid without its holder's name, which a full disk does not accept.
            let fitting = content.fitting(0, holder.len(), room);
            content.write(step, 0, &holder.as_bytes()[..fitting]);
        });
        how.result()?;
        self.locks.insert(file);
        Ok(Ok(file))
    }

    /// Locks a directory. Returns false if it is already locked.
    pub(super) fn lock_dir(&mut self, epoch: u64, dir: u64) -> io::Result<bool> {
        self.begin(epoch, StepKind::Look)?;
        match self.live.has_dir(dir) {
            true => Ok(self.locks.insert(dir)),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    /// True if the name at a place refers to this file.
    pub(super) fn stands_for(&mut self, epoch: u64, at: &TreePath, file: u64) -> io::Result<bool> {
        self.begin(epoch, StepKind::Look)?;
        Ok(self.live.at(at) == Some(TreeEntry::File(file)))
    }

    // Direct access, for tests.

    pub(super) fn put_file(&mut self, path: &Path, mut content: SimContent) -> io::Result<()> {
        match self.live.file(path) {
            Ok(file) => {
                content.names = self.files[&file].names;
                self.changing(file, |old| *old = content);
            }
            Err(_) => {
                let file = self.number();
                let change = self.live.plan_put(self.live.place(path)?, TreeEntry::File(file))?;
                content.names = 1;
                self.files.insert(file, Arc::new(content));
                self.live.apply(&change);
                self.durable.apply(&change);
            }
        }
        Ok(())
    }

    pub(super) fn take_file(&mut self, path: &Path) -> io::Result<()> {
        let change = self.live.plan_remove(self.live.place(path)?)?;
        self.change(self.steps, change);
        self.pending.pop().into_iter().for_each(|pending| self.durable.apply(&pending.change));
        Ok(())
    }

    pub(super) fn take_dir(&mut self, path: &Path) -> io::Result<()> {
        let change = self.live.plan_remove_dir(path)?;
        self.live.apply(&change);
        self.durable.apply(&change);
        Ok(())
    }

    pub(super) fn flip(&mut self, path: &Path, bit: u64) -> io::Result<()> {
        let file = self.live.file(path)?;
        if bit / 8 >= self.files[&file].live.length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.content(file).damage(bit / 8, |byte| *byte ^= 1 << (bit % 8));
        Ok(())
    }

    // Open files.

    pub(super) fn hold(&mut self, file: u64) {
        *self.open.entry(file).or_default() += 1;
    }

    pub(super) fn let_go(&mut self, epoch: u64, file: u64) {
        if epoch != self.epoch {
            return;
        }
        if let Some(count) = self.open.get_mut(&file) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&file);
                self.give_back(file);
            }
        }
    }

    /// Returns a path of a file.
    pub(super) fn path_of(&self, file: u64) -> PathBuf {
        let found = self.live.walk().into_iter().find(|(_, entry)| *entry == TreeEntry::File(file));
        found.map_or_else(|| PathBuf::from("(removed)"), |(path, _)| path)
    }

    // Data.

    pub(super) fn read(&mut self, epoch: u64, file: u64, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let (_, how) = self.begin(epoch, StepKind::Read)?;
        let length = self.files[&file].live.length;
        let from = match how {
            StepOutcome::Misdirected => self.astray(offset, buf.len(), length),
            _ => offset,
        };
        // A misdirected read still returns the requested number of bytes.
        let honest = length.saturating_sub(offset).min(buf.len() as u64) as usize;
        let wanted = if how == StepOutcome::Short { self.dice.below(honest.max(1)) } else { honest };
        let got = self.files[&file].live.read_at(&mut buf[..wanted], from);
        buf[got..wanted].fill(0);
        if how == StepOutcome::Flipped && wanted > 0 {
            let bit = self.dice.below(wanted * 8);
            buf[bit / 8] ^= 1 << (bit % 8);
        }
        Ok(wanted)
    }

    pub(super) fn write(&mut self, epoch: u64, file: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (step, how) = self.begin(epoch, StepKind::Write)?;
        let done = self.done(how, bytes.len(), 1);
        if how == StepOutcome::Misdirected {
            let length = self.files[&file].live.length;
            let astray = self.astray(offset, bytes.len(), length);
            self.changing(file, |content| {
                content.write(step, astray, bytes);
                content.set_len(step, length.max(offset + bytes.len() as u64));
            });
            return Ok(());
        }
        let room = self.free.map_or(u64::MAX, |free| free / BLOCK);
        let fitting = self.files[&file].fitting(offset, done, room);
        self.changing(file, |content| content.write(step, offset, &bytes[..fitting]));
        how.result()?;
        if fitting < done { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Returns another offset for `length` bytes, shifted by whole sectors, in a file of `end` bytes if it has room.
    fn astray(&mut self, offset: u64, length: usize, end: u64) -> u64 {
        let last = end.saturating_sub(length as u64) / SECTOR as u64;
        let within = offset % SECTOR as u64;
        let other = self.dice.below(last as usize + 1) as u64 * SECTOR as u64 + within;
        if other != offset {
            other
        } else if offset >= SECTOR as u64 {
            within
        } else {
            offset + SECTOR as u64
        }
    }

    pub(super) fn set_len(&mut self, epoch: u64, file: u64, length: u64) -> io::Result<()> {
        let (step, how) = self.begin(epoch, StepKind::Length)?;
        if length > self.files[&file].live.length && self.free.is_some_and(|free| free < BLOCK) {
            return Err(ErrorKind::StorageFull.into());
        }
        if self.is_done(how) {
            self.changing(file, |content| content.set_len(step, length));
        }
        how.result()
    }

    pub(super) fn allocate(&mut self, epoch: u64, file: u64, length: u64) -> io::Result<()> {
        let (step, how) = self.begin(epoch, StepKind::Length)?;
        let room = self.free.map_or(u64::MAX, |free| free / BLOCK);
        let length_in_memory = usize::try_from(length).map_err(|_| ErrorKind::StorageFull)?;
        if self.files[&file].fitting(0, length_in_memory, room) < length_in_memory {
            return Err(ErrorKind::StorageFull.into());
        }
        if self.is_done(how) {
            self.changing(file, |content| content.allocate(step, length));
        }
        how.result()
    }

    /// Prepares a mapping.
    pub(super) fn map(&mut self, epoch: u64, file: u64, length: usize) -> io::Result<bool> {
        self.begin(epoch, StepKind::Look)?;
        if !self.reserves {
            return Ok(false);
        }
        if length == 0 || !length.is_multiple_of(PAGE) {
            return Err(ErrorKind::InvalidInput.into());
        }
        if self.files[&file].live.length < length as u64 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(true)
    }

    /// Prepares a range of a mapping: reserves its blocks so that it reads as zeros, or fails.
    pub(super) fn prepare(&mut self, epoch: u64, file: u64, offset: u64, length: usize) -> io::Result<()> {
        let (step, how) = self.begin(epoch, StepKind::Write)?;
        let done = self.done(how, length, PAGE);
        let room = self.free.map_or(u64::MAX, |free| free / BLOCK);
        if self.files[&file].fitting(offset, length, room) < length {
            return Err(ErrorKind::StorageFull.into());
        }
        self.changing(file, |content| content.write(step, offset, &vec![0; done]));
        how.result()
    }

    /// Stores into a mapping: after the crash the store is dropped; at the crash its first words may be kept.
    pub(super) fn store(&mut self, epoch: u64, file: u64, bytes: &[u8], offset: u64) {
        if let Ok((step, how)) = self.begin(epoch, StepKind::Store) {
            let has_blocks = self.files[&file].fitting(offset, bytes.len(), 0) == bytes.len();
            assert!(has_blocks, "SIGBUS: a store at {offset} of {}, which has no block", self.path_of(file).display());
            let done = self.done(how, bytes.len(), 8);
            self.content(file).write(step, offset, &bytes[..done]);
        }
    }

    pub(super) fn sync(&mut self, epoch: u64, file: u64) -> io::Result<()> {
        let (_, how) = self.begin(epoch, StepKind::Sync)?;
        let dice = &mut self.dice.clone();
        match how {
            StepOutcome::Failed(_) => self
                .content(file)
                .fail_sync(|| [PageFate::Written, PageFate::LostButCached, PageFate::LostAndForgotten][dice.below(3)]),
            StepOutcome::Torn(Some(done)) => {
                let mut left = done / BLOCK;
                let whole = |_| {
                    let written = left > 0;
                    left = left.saturating_sub(1);
                    written
                };
                self.content(file).sync(whole, false);
            }
            StepOutcome::Torn(None) => {
                let length = dice.coin();
                match dice.below(4) {
                    0 => {}
                    1 => self.content(file).sync(|_| true, true),
                    _ => self.content(file).sync(|_| dice.coin(), length),
                }
            }
            _ => self.content(file).sync(|_| true, true),
        }
        self.dice = dice.clone();
        how.result()
    }
}
