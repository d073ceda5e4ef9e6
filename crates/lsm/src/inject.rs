//! Fault injection: lets a test or benchmark damage records and bytes in memory during a job.
//!
//! Only in builds with the feature `faults`; in other builds these calls do nothing. A fault injector (`Strike`) is
//! installed for one thread, and affects everything that thread does until it is removed. If background work runs in
//! steps on that thread, this is the whole store.

use crate::cursor::Cursor;
use crate::record::Record;

/// An owned copy of a record, so that it can be damaged.
#[cfg(feature = "faults")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the parts of a record")]
pub struct Passing {
    pub key: Vec<u8>,
    pub seqno: u64,
    pub kind: Option<crate::record::Kind>,
    pub value: Vec<u8>,
    pub companion: Vec<u8>,
}

#[cfg(feature = "faults")]
impl Passing {
    fn of(record: &Record<'_>) -> Passing {
        Passing {
            key: record.key.to_vec(),
            seqno: record.seqno,
            kind: Some(record.kind),
            value: record.value.to_vec(),
            companion: record.companion.to_vec(),
        }
    }

    fn record(&self) -> Record<'_> {
        let Passing { key, seqno, kind, value, companion } = self;
        Record { key, seqno: *seqno, kind: kind.unwrap_or(crate::record::Kind::Put), value, companion }
    }
}

/// The outcome for a record.
#[cfg(feature = "faults")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The record continues, changed or not.
    Pass,
    /// The record is dropped.
    Lost,
    /// The record is duplicated.
    Twice,
}

/// A fault injector. Called for every record that a flush or compaction reads from its merge, and for every block that
/// is built.
#[cfg(feature = "faults")]
pub trait Strike {
    /// A record leaves the merge.
    fn record(&mut self, _: &mut Passing) -> Fate {
        Fate::Pass
    }
    /// A record is inserted into a memtable, and counted as inserted. `Lost`: it cannot be found there.
    fn insert(&mut self, _: &mut Passing) -> Fate {
        Fate::Pass
    }
    /// The header of a record is written to a memtable's arena: its kind, and the lengths of value and companions.
    fn header(&mut self, _kind: &mut u8, _lengths: &mut [u8]) {}
    /// A block's body is complete; its CRC is not computed yet.
    fn body(&mut self, _: &mut [u8]) {}
    /// A block is framed, but not read back yet.
    fn framed(&mut self, _: &mut [u8]) {}
}

#[cfg(feature = "faults")]
thread_local! {
    static ARMED: std::cell::RefCell<Option<Box<dyn Strike>>> = const { std::cell::RefCell::new(None) };
    /// A one-byte copy of the state, so that benchmarks of such a build count the same instructions as without the
    /// feature.
    static IS_ARMED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Installs a fault injector for this thread, replacing the previous one.
#[cfg(feature = "faults")]
pub fn arm(strike: Box<dyn Strike>) {
    ARMED.with(|armed| *armed.borrow_mut() = Some(strike));
    IS_ARMED.set(true);
}

/// Removes the fault injector.
#[cfg(feature = "faults")]
pub fn disarm() {
    ARMED.with(|armed| *armed.borrow_mut() = None);
    IS_ARMED.set(false);
}

#[cfg(feature = "faults")]
fn with<T>(strike: impl FnOnce(&mut dyn Strike) -> T) -> Option<T> {
    ARMED.with(|armed| armed.borrow_mut().as_mut().map(|armed| strike(&mut **armed)))
}

/// Runs a job with its cursor, wrapped for fault injection if an injector is installed.
#[cfg(feature = "faults")]
pub(crate) fn along<T>(cursor: &mut dyn Cursor, pass: impl FnOnce(&mut dyn Cursor) -> T) -> T {
    match with(|_| ()) {
        None => pass(cursor),
        Some(()) => pass(&mut Struck { inner: cursor, shown: Passing::default(), again: false }),
    }
}

/// Runs a job with its cursor unchanged.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn along<T>(cursor: &mut dyn Cursor, pass: impl FnOnce(&mut dyn Cursor) -> T) -> T {
    pass(cursor)
}

/// Inserts a record into a memtable; returns the result of `insert`, or 0 bytes if the record is dropped.
#[cfg(feature = "faults")]
#[inline(always)]
pub(crate) fn inserted(record: &Record<'_>, insert: impl FnOnce(&Record<'_>) -> usize) -> usize {
    if IS_ARMED.get() { inserted_struck(record, insert) } else { insert(record) }
}

#[cfg(feature = "faults")]
#[inline(never)]
fn inserted_struck(record: &Record<'_>, insert: impl FnOnce(&Record<'_>) -> usize) -> usize {
    let struck = with(|strike| {
        let mut passing = Passing::of(record);
        (strike.insert(&mut passing), passing)
    });
    match struck {
        None => insert(record),
        Some((Fate::Lost, _)) => 0,
        Some((_, passing)) => insert(&passing.record()),
    }
}

/// Inserts a record into a memtable.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn inserted(record: &Record<'_>, insert: impl FnOnce(&Record<'_>) -> usize) -> usize {
    insert(record)
}

/// Injects faults into a record's header in an arena.
#[cfg(feature = "faults")]
#[inline(always)]
pub(crate) fn header(kind: &mut u8, lengths: &mut [u8]) {
    if IS_ARMED.get() {
        with(|strike| strike.header(kind, lengths));
    }
}

/// Does nothing in this build.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn header(_kind: &mut u8, _lengths: &mut [u8]) {}

/// Injects faults into a body before its CRC is computed.
#[inline(always)]
pub(crate) fn body(_body: &mut [u8]) {
    #[cfg(feature = "faults")]
    with(|strike| strike.body(_body));
}

/// Injects faults into a framed block before it is read back.
#[inline(always)]
pub(crate) fn framed(_block: &mut [u8]) {
    #[cfg(feature = "faults")]
    with(|strike| strike.framed(_block));
}

#[cfg(feature = "planted")]
thread_local! {
    static LOOKING: std::cell::RefCell<Option<Box<dyn FnMut()>>> = const { std::cell::RefCell::new(None) };
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

#[cfg(feature = "faults")]
mod struck {
    use super::{Fate, Passing, with};
    use crate::cursor::Cursor;
    use crate::error::Result;
    use crate::record::{Record, Seqno};
    use crate::seam::Source;

    /// A cursor that injects faults into its records. It only moves forward, as jobs do.
    pub(super) struct Struck<'a> {
        pub(super) inner: &'a mut dyn Cursor,
        pub(super) shown: Passing,
        /// The record must be returned once more.
        pub(super) again: bool,
    }

    impl Struck<'_> {
        /// Copies the record under the inner cursor, and skips dropped records.
        fn take(&mut self) -> Result<()> {
            while self.inner.valid() {
                self.shown = Passing::of(&self.inner.record());
                match with(|strike| strike.record(&mut self.shown)) {
                    Some(Fate::Lost) => self.inner.next()?,
                    fate => {
                        self.again = fate == Some(Fate::Twice);
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
            self.shown.record()
        }
        fn source(&self) -> Source<'_> {
            self.inner.source()
        }
    }
}

#[cfg(feature = "faults")]
use struck::Struck;
