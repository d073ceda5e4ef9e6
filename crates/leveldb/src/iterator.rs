//! Iterators: a position in the store as it was when they were made, and the error that sticks to them.
//!
//! A caller asks four things of each row: whether it is there, its key, its value, the next one. Only the last moves anything: it takes the
//! iterator's lock and leaves where it came to in words that the others read without one.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

use waxseal::{Cursor, Result};

use crate::failure::Failure;
use crate::shelf::lock;

/// An iterator as its caller holds it.
#[derive(Default)]
pub(crate) struct Held {
    iterator: Mutex<Option<Iter>>,
    is_valid: AtomicBool,
    key: Lent,
    value: Lent,
}

/// Bytes of the iterator that its caller may read until it is moved. They are read by one thread at a time, as the header asks.
struct Lent(AtomicPtr<c_char>, AtomicUsize);

/// A position.
struct Iter {
    /// None: it could not be made, and `failure` says why.
    cursor: Option<Cursor>,
    /// The first failure. It stays, so that whoever asks after a loop hears of it wherever it was met.
    failure: Option<Failure>,
}

impl Held {
    /// Becomes a new iterator, or one that says why it could not be made.
    pub(crate) fn begin(&self, cursor: std::result::Result<Cursor, Failure>) {
        let (cursor, failure) = match cursor {
            Ok(cursor) => (Some(cursor), None),
            Err(failure) => (None, Some(failure)),
        };
        *lock(&self.iterator) = Some(Iter { cursor, failure });
        self.show(None);
    }

    /// Lets go of everything.
    pub(crate) fn end(&self) {
        self.show(None);
        let ended = lock(&self.iterator).take();
        drop(ended); // a comparator's destructor may run, without our lock
    }

    /// Moves it. Where that fails it is not valid, and says why.
    #[inline]
    pub(crate) fn go(&self, step: impl FnOnce(&mut Cursor) -> Result<()>) {
        let mut held = lock(&self.iterator);
        let Some(Iter { cursor: Some(cursor), failure }) = &mut *held else { return };
        self.show(None); // until it has arrived, should it not
        if let Err(error) = step(cursor) {
            failure.get_or_insert(error.into());
        }
        self.show(cursor.valid().then_some(cursor));
    }

    /// Goes to the first key not before this one.
    pub(crate) fn seek(&self, key: std::result::Result<&[u8], Failure>) {
        match key {
            Ok(key) => self.go(|cursor| cursor.seek(key)),
            // What was asked for is not known, so it stands nowhere.
            Err(unknown) => {
                let mut held = lock(&self.iterator);
                self.show(None);
                if let Some(Iter { cursor, failure }) = &mut *held {
                    *cursor = None;
                    failure.get_or_insert(unknown);
                }
            }
        }
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.is_valid.load(Relaxed)
    }

    /// Where the key is that it stands on, and its length.
    #[inline]
    pub(crate) fn key(&self) -> (*const c_char, usize) {
        self.key.load()
    }

    /// Where the value is that it stands on, and its length.
    #[inline]
    pub(crate) fn value(&self) -> (*const c_char, usize) {
        self.value.load()
    }

    /// The first failure; none if it is no iterator.
    pub(crate) fn check(&self) -> Option<std::result::Result<(), Failure>> {
        lock(&self.iterator).as_ref().map(|iterator| iterator.failure.clone().map_or(Ok(()), Err))
    }

    #[inline]
    fn show(&self, cursor: Option<&mut Cursor>) {
        self.is_valid.store(cursor.is_some(), Relaxed);
        let (key, value) = cursor.as_ref().map_or((&[][..], &[][..]), |cursor| (cursor.key(), cursor.value()));
        self.key.store(key);
        self.value.store(value);
    }
}

impl Lent {
    #[inline]
    fn store(&self, bytes: &[u8]) {
        self.0.store(bytes.as_ptr().cast_mut().cast(), Relaxed);
        self.1.store(bytes.len(), Relaxed);
    }

    #[inline]
    fn load(&self) -> (*const c_char, usize) {
        match self.1.load(Relaxed) {
            0 => NOWHERE,
            length => (self.0.load(Relaxed), length),
        }
    }
}

impl Default for Lent {
    fn default() -> Lent {
        Lent(AtomicPtr::new(null_mut()), AtomicUsize::new(0))
    }
}

/// No bytes: an empty text, so that nobody follows NULL.
pub(crate) const NOWHERE: (*const c_char, usize) = (c"".as_ptr(), 0);
