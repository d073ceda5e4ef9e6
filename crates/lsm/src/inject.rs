//! Hooks for fault injection: a test or experiment damages records and blocks during a flush or compaction, and records
//! of a memtable. Not for users.
//!
//! A fault injector (`Strike`) is installed for one thread, and affects every job that the thread runs until it is
//! removed. If background work runs in steps on that thread, this is the whole store. Without one, a job asks once
//! per block. Memtables are damaged afterwards (`Db::damage_memtable`), so that a put asks nothing.

use std::cell::{Cell, RefCell};

use crate::cursor::Cursor;
use crate::error::Result;
use crate::record::{OwnedRecord, Record, Seqno};
use crate::seam::RecordSource;

/// The outcome for a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The record continues, changed or not.
    Pass,
    /// The record is dropped.
    Lost,
    /// The record is duplicated.
    Twice,
}

/// A fault injector.
pub trait Strike {
    /// A record leaves the merge of a flush or compaction.
    fn record(&mut self, _: &mut OwnedRecord) -> Fate {
        Fate::Pass
    }
    /// A record is copied into a damaged memtable. `Lost`: it cannot be found there, but still counts as inserted.
    fn insert(&mut self, _: &mut OwnedRecord) -> Fate {
        Fate::Pass
    }
    /// The header of that record is written to the arena: its kind, and the lengths of value and companions.
    fn header(&mut self, _kind: &mut u8, _lengths: &mut [u8]) {}
    /// A block's body is complete; its CRC is not computed yet.
    fn body(&mut self, _: &mut [u8]) {}
    /// A block is framed, but not read back yet.
    fn framed(&mut self, _: &mut [u8]) {}
}

thread_local! {
    static ARMED: RefCell<Option<Box<dyn Strike>>> = const { RefCell::new(None) };
    /// Whether `ARMED` holds an injector: one byte to read, without a destructor.
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
}

/// Installs a fault injector for this thread, replacing the previous one.
pub fn arm(strike: Box<dyn Strike>) {
    ARMED.with(|armed| *armed.borrow_mut() = Some(strike));
    IS_ARMED.set(true);
}

/// Removes the fault injector.
pub fn disarm() {
    IS_ARMED.set(false);
    ARMED.with(|armed| *armed.borrow_mut() = None);
}

fn with<T>(strike: impl FnOnce(&mut dyn Strike) -> T) -> Option<T> {
    let is_armed = IS_ARMED.get();
    if is_armed { ARMED.with(|armed| armed.borrow_mut().as_mut().map(|armed| strike(&mut **armed))) } else { None }
}

/// Runs a job with its cursor, wrapped for fault injection if an injector is installed.
pub(crate) fn along<T>(cursor: &mut dyn Cursor, pass: impl FnOnce(&mut dyn Cursor) -> T) -> T {
    if IS_ARMED.get() { pass(&mut Struck { inner: cursor, shown: None, again: false }) } else { pass(cursor) }
}

/// Injects faults into a body before its CRC is computed.
pub(crate) fn body(body: &mut [u8]) {
    with(|strike| strike.body(body));
}

/// Injects faults into a framed block before it is read back.
pub(crate) fn framed(block: &mut [u8]) {
    with(|strike| strike.framed(block));
}

#[cfg(feature = "planted")]
thread_local! {
    static LOOKING: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Installs a function that a test calls whenever this thread has published one half of an edit and not the other.
#[cfg(feature = "planted")]
pub fn look(looking: Option<Box<dyn FnMut()>>) {
    LOOKING.with(|now| *now.borrow_mut() = looking);
}

/// Called when one half of an edit is visible to readers and the other is not.
#[inline(always)]
pub(crate) fn half_shown() {
    #[cfg(feature = "planted")]
    {
        // Removed while running: the function may reach this point recursively, and must not run again after a panic.
        let taken = LOOKING.with(|looking| looking.borrow_mut().take());
        if let Some(mut taken) = taken {
            taken();
            look(Some(taken));
        }
    }
}

/// A cursor that injects faults into its records. It only moves forward, as jobs do.
struct Struck<'a> {
    inner: &'a mut dyn Cursor,
    /// The record under the cursor; `None` at the end.
    shown: Option<OwnedRecord>,
    /// The record must be returned once more.
    again: bool,
}

impl Struck<'_> {
    /// Copies the record under the inner cursor, and skips dropped records.
    fn take(&mut self) -> Result<()> {
        self.shown = None;
        while self.inner.valid() {
            let mut shown = OwnedRecord::of(&self.inner.record());
            match with(|strike| strike.record(&mut shown)) {
                Some(Fate::Lost) => self.inner.next()?,
                fate => {
                    self.again = fate == Some(Fate::Twice);
                    self.shown = Some(shown);
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Cursor for Struck<'_> {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.inner.seek(key, seqno)?;
        self.take()
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.inner.seek_for_prev(key, seqno)?;
        self.take()
    }
    fn first(&mut self) -> Result<()> {
        self.inner.first()?;
        self.take()
    }
    fn last(&mut self) -> Result<()> {
        self.inner.last()?;
        self.take()
    }
    fn next(&mut self) -> Result<()> {
        if std::mem::take(&mut self.again) {
            return Ok(());
        }
        self.inner.next()?;
        self.take()
    }
    fn prev(&mut self) -> Result<()> {
        self.inner.prev()?;
        self.take()
    }
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    fn record(&self) -> Record<'_> {
        self.shown.as_ref().map_or_else(|| self.inner.record(), OwnedRecord::borrow)
    }
    fn source(&self) -> RecordSource<'_> {
        self.inner.source()
    }
}
