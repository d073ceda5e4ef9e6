//! The intake of a family: the value file that commits put their large values into before their frames are ordered, so that the log holds
//! pointers and a value is written once.
//!
//! In:    a key, its value and its record's term in the ledger, on the thread that commits. Out: a pointer, and the file, held.
//! Holds: a value is with the system before a frame that points to it is ordered, so that whatever a kill leaves of the log finds it; and
//!        durable before that frame is said to be (I15): whoever syncs the log calls `Unsynced::sync` first. The name of a file is durable
//!        before anybody points into it.
//!        A file gets its footer, and is synced, before a table that points into it is written (I04), by the flush that writes it.
//! Life:  held by whoever commits, then by the memtable that the record went to, then by tables. Values whose frames were never ordered are
//!        taken back, so that commits which fail again and again fill no device; garbage, if others came behind them meanwhile.
//! Crash: a file without a footer that no table names. Recovery reads the values that the log points to, and writes them with their
//!        tables; then the file is swept. A value that is not there, or not what it was, is a frame that is not whole.
//! Fails:  an entry that could not be written fails its commit alone, and the next one takes its place; a footer the flush, which is tried
//!         again. A sync that failed halts the log (I09).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::shelf::{ValueFile, ValueShelf};
use super::writer::{Mark, ValueWriter};
use crate::env::work::lock;
use crate::env::{Env, File};
use crate::error::{Error, IoContext, Result};
use crate::names::Name;
use crate::options::Compression;
use crate::planted::{self, Bug};
use crate::pointer::Pointer;
use crate::sst::{Charge, LargeValues};

/// What an intake needs to make a file.
#[derive(Clone, Copy)]
pub struct Making<'a> {
    /// Files and randomness.
    pub env: &'a Env,
    /// The store's directory.
    pub dir: &'a Path,
    /// How values are packed.
    pub compression: Compression,
    /// The number of a new file.
    pub new_number: &'a dyn Fn() -> u64,
    /// Makes the names in the directory durable.
    pub sync_names: &'a dyn Fn() -> Result<()>,
    /// Who hears of bytes that are not durable.
    pub unsynced: &'a Unsynced,
}

/// The value file that the commits of one family write into.
#[derive(Debug, Default)]
pub struct Intake {
    state: Mutex<State>,
    is_open: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    open: Option<Open>,
    /// Nobody will end a file that is begun from now on.
    is_over: bool,
}

#[derive(Debug)]
struct Open {
    writer: ValueWriter,
    file: Arc<ValueFile>,
    /// What the writer keeps between values, charged to the budget, where there is one.
    room: Option<Charge>,
}

/// Values that stand one behind the other in a file, just added. It is to be held until somebody else holds the file who keeps the pointers.
#[derive(Debug)]
pub struct Added {
    file: Arc<ValueFile>,
    before: Mark,
    after: Mark,
}

impl Added {
    /// Their file.
    pub fn file(&self) -> &Arc<ValueFile> {
        &self.file
    }

    /// Takes in what was added right behind; hands it back if it stands elsewhere.
    pub fn join(&mut self, next: Added) -> std::result::Result<(), Added> {
        if self.after != next.before || !Arc::ptr_eq(&self.file, &next.file) {
            return Err(next);
        }
        self.after = next.after;
        Ok(())
    }
}

impl Intake {
    /// Adds a value; it is with the system when this returns, not durable. Errors: `Io`; `Invalid` once it was abandoned; nothing was changed.
    pub fn add(
        &self,
        making: Making<'_>,
        shelf: &Arc<ValueShelf>,
        (key, value, term): (&[u8], &[u8], u64),
    ) -> Result<(Pointer, Added)> {
        let State { open, is_over } = &mut *lock(&self.state);
        let Open { writer, file, room } = match open {
            Some(open) => open,
            None if *is_over => return Err(Error::invalid("the family was dropped")),
            None => {
                let Making { env, dir, compression, new_number, sync_names, .. } = making;
                let writer = ValueWriter::create_shared((env, dir), new_number(), compression, sync_names)?;
                let file = shelf.hold_unfinished(writer.number(), writer.uid(), Some(writer.file()));
                self.is_open.store(true, Ordering::Release);
                open.insert(Open { writer, file, room: shelf.values().map(LargeValues::charge) })
            }
        };
        let before = writer.mark();
        let pointer = writer.add_through(key, value, term)?;
        if let Some(room) = room.as_ref().filter(|room| room.bytes() != writer.kept_bytes()) {
            room.set(writer.kept_bytes());
        }
        making.unsynced.note(file.name(), writer.file());
        Ok((pointer, Added { file: file.clone(), before, after: writer.mark() }))
    }

    /// True if a file is open that is not finished.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Takes values back that no frame points to: the next ones take their place. Those that others stand behind stay, as garbage.
    pub fn take_back(&self, added: &Added) {
        if let Some(Open { writer, file, .. }) = &mut lock(&self.state).open
            && Arc::ptr_eq(file, &added.file)
            && writer.mark() == added.after
        {
            writer.back_to(added.before);
        }
    }

    /// Ends the file that is open, with its footer; what comes goes into another. None: none is open. Errors: `Io`, and it is open still.
    pub fn end(&self) -> Result<Option<Ended>> {
        let open = &mut lock(&self.state).open;
        if let Some(Open { writer, .. }) = open {
            writer.end()?;
        }
        self.is_open.store(false, Ordering::Release);
        Ok(open.take().map(Ended))
    }

    /// Lets go of the file that is open, and begins no other: its family was dropped, durably.
    pub fn abandon(&self, unsynced: &Unsynced) {
        let State { open, is_over } = &mut *lock(&self.state);
        *is_over = true;
        self.is_open.store(false, Ordering::Release);
        if let Some(Open { file, .. }) = open.take() {
            unsynced.forget(file.name());
        }
    }
}

/// A file that has its footer and is to be synced.
#[derive(Debug)]
pub struct Ended(Open);

impl Ended {
    /// Makes it durable: tables may name it. After an error nothing is known of its bytes (I09).
    pub fn sync(self, unsynced: &Unsynced) -> Result<()> {
        let Open { writer, file, .. } = self.0;
        unsynced.one_at_a_time(|| {
            file.finish(writer.sync()?);
            unsynced.forget(file.name());
            Ok(())
        })
    }
}

/// The value files of a store that have bytes which are not durable yet.
#[derive(Debug, Default)]
pub struct Unsynced {
    files: Mutex<Vec<(Name, Arc<dyn File>)>>,
    /// Held while some of them are synced: who comes meanwhile needs those too. What the first that failed answered: the system tells of pages that it
    /// has lost once, and who asks next would take them for durable.
    syncing: Mutex<Option<Error>>,
}

impl Unsynced {
    fn note(&self, name: Name, file: &Arc<dyn File>) {
        let mut files = lock(&self.files);
        if !files.iter().any(|(known, _)| *known == name) {
            files.push((name, file.clone()));
        }
    }

    /// All of a file is durable, or nobody needs it: it is not kept open for a sync that may never come.
    fn forget(&self, name: Name) {
        lock(&self.files).retain(|(known, _)| *known != name);
    }

    /// Makes everything durable that was written before the call: an `fdatasync` a file. After an error nothing is known of it (I09).
    pub fn sync(&self) -> Result<()> {
        self.one_at_a_time(|| {
            let files = std::mem::take(&mut *lock(&self.files));
            if files.is_empty() || planted::active(Bug::LogSyncedBeforeItsValues) {
                return Ok(());
            }
            files.iter().try_for_each(|(name, file)| file.sync_data().during(|| format!("syncing {name}")))
        })
    }

    fn one_at_a_time(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut failed = lock(&self.syncing);
        match &*failed {
            Some(error) => Err(error.clone()),
            None => sync().inspect_err(|error| *failed = Some(error.clone())),
        }
    }
}
