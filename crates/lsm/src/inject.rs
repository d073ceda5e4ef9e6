//! Faults on the way: what a test or the bench does to the records and bytes of a pass while they are in memory.
//!
//! Only in builds with the feature `faults`; elsewhere the calls are nothing. A strike is armed for one thread and meets what that
//! thread does until it is taken off: with work in steps that is the whole store.

use crate::cursor::Cursor;
use crate::record::Record;

/// A record on its way, owned so that it can be damaged.
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

/// What becomes of a record on its way.
#[cfg(feature = "faults")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It goes on, changed or not.
    Pass,
    /// It is lost.
    Lost,
    /// It comes twice.
    Twice,
}

/// What strikes: called for every record that a flush or compaction reads from its merge, and for every block that is built.
#[cfg(feature = "faults")]
pub trait Strike {
    /// A record passes.
    fn record(&mut self, _: &mut Passing) -> Fate {
        Fate::Pass
    }
    /// A record goes into a memtable, and counts as one that did. Lost: nothing leads to it.
    fn insert(&mut self, _: &mut Passing) -> Fate {
        Fate::Pass
    }
    /// The header of a record is made, and goes into the arena of a memtable: its kind, and the lengths of value and companions.
    fn header(&mut self, _kind: &mut u8, _lengths: &mut [u8]) {}
    /// A block's body is built, and no sum taken yet.
    fn body(&mut self, _: &mut [u8]) {}
    /// A block is framed, and nothing read back yet.
    fn framed(&mut self, _: &mut [u8]) {}
}

#[cfg(feature = "faults")]
thread_local! {
    static ARMED: std::cell::RefCell<Option<Box<dyn Strike>>> = const { std::cell::RefCell::new(None) };
    /// The same in a byte, so that a bench of such a build counts what is counted without the feature.
    static IS_ARMED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Arms a strike for this thread, in the place of the one before.
#[cfg(feature = "faults")]
pub fn arm(strike: Box<dyn Strike>) {
    ARMED.with(|armed| *armed.borrow_mut() = Some(strike));
    IS_ARMED.set(true);
}

/// Takes the strike off.
#[cfg(feature = "faults")]
pub fn disarm() {
    ARMED.with(|armed| *armed.borrow_mut() = None);
    IS_ARMED.set(false);
}

#[cfg(feature = "faults")]
fn with<T>(strike: impl FnOnce(&mut dyn Strike) -> T) -> Option<T> {
    ARMED.with(|armed| armed.borrow_mut().as_mut().map(|armed| strike(&mut **armed)))
}

/// The cursor of a pass, struck on its way if a strike is armed.
#[cfg(feature = "faults")]
pub(crate) fn along<T>(cursor: &mut dyn Cursor, pass: impl FnOnce(&mut dyn Cursor) -> T) -> T {
    match with(|_| ()) {
        None => pass(cursor),
        Some(()) => pass(&mut Struck { inner: cursor, shown: Passing::default(), again: false }),
    }
}

/// The cursor of a pass as it is.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn along<T>(cursor: &mut dyn Cursor, pass: impl FnOnce(&mut dyn Cursor) -> T) -> T {
    pass(cursor)
}

/// A record on its way into a memtable; answers what `insert` does, or 0 bytes where the record is lost.
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

/// A record on its way into a memtable.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn inserted(record: &Record<'_>, insert: impl FnOnce(&Record<'_>) -> usize) -> usize {
    insert(record)
}

/// The header of a record on its way into an arena.
#[cfg(feature = "faults")]
#[inline(always)]
pub(crate) fn header(kind: &mut u8, lengths: &mut [u8]) {
    if IS_ARMED.get() {
        with(|strike| strike.header(kind, lengths));
    }
}

/// The header of a record on its way into an arena.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn header(_kind: &mut u8, _lengths: &mut [u8]) {}

/// A body before its sum is taken.
#[inline(always)]
pub(crate) fn body(_body: &mut [u8]) {
    #[cfg(feature = "faults")]
    with(|strike| strike.body(_body));
}

/// A framed block before it is read back.
#[inline(always)]
pub(crate) fn framed(_block: &mut [u8]) {
    #[cfg(feature = "faults")]
    with(|strike| strike.framed(_block));
}

#[cfg(feature = "planted")]
thread_local! {
    static LOOKING: std::cell::RefCell<Option<Box<dyn FnMut()>>> = const { std::cell::RefCell::new(None) };
}

/// From now on a test looks at the store whenever this thread has shown one half of an edit and not the other.
#[cfg(feature = "planted")]
pub fn look(looking: Option<Box<dyn FnMut()>>) {
    LOOKING.with(|now| *now.borrow_mut() = looking);
}

/// One half of an edit is shown to readers, the other is not.
#[inline(always)]
pub(crate) fn half_shown() {
    #[cfg(feature = "planted")]
    {
        // Taken out while it looks: it may come by here itself, and one that found something looks no more.
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

    /// A cursor whose records are struck. It only goes forward, as passes do.
    pub(super) struct Struck<'a> {
        pub(super) inner: &'a mut dyn Cursor,
        pub(super) shown: Passing,
        /// The record is to be shown once more.
        pub(super) again: bool,
    }

    impl Struck<'_> {
        /// Takes in what is under the inner cursor, and passes over what is lost.
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
