//! Iterators: a position in the store, in the state at the iterator's creation, and a sticky error.
//!
//! For each row, a caller reads validity, key and value, and then moves the iterator. Only a move takes the iterator's
//! lock; it stores the new position in atomics that the other functions read without a lock.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

use waxseal::{Cursor, Result};

use crate::failure::Failure;
use crate::shelf::lock;

/// An iterator in the form that the caller holds.
#[derive(Default)]
pub(crate) struct HeldIterator {
    iterator: Mutex<Option<Iter>>,
    is_valid: AtomicBool,
    key: LentBytes,
    value: LentBytes,
}

/// Bytes of the iterator that the caller may read until the next move. The header requires that one thread at a time
/// reads them.
struct LentBytes(AtomicPtr<c_char>, AtomicUsize);

/// A position.
struct Iter {
    /// `None` if the cursor could not be created; `failure` then holds the reason.
    cursor: Option<Cursor>,
    /// The first failure. It is sticky, so that a check after a loop reports a failure of any step.
    failure: Option<Failure>,
}

impl HeldIterator {
    /// Starts a new iterator; on an error, one that is never valid and holds the error.
    pub(crate) fn begin(&self, cursor: std::result::Result<Cursor, Failure>) {
        let (cursor, failure) = match cursor {
            Ok(cursor) => (Some(cursor), None),
            Err(failure) => (None, Some(failure)),
        };
        *lock(&self.iterator) = Some(Iter { cursor, failure });
        self.show(None);
    }

    /// Releases the cursor and the error.
    pub(crate) fn end(&self) {
        self.show(None);
        let ended = lock(&self.iterator).take();
        drop(ended); // may run a comparator's destructor, hence after the unlock
    }

    /// Moves the iterator. On a failure it is not valid and keeps the first error.
    #[inline]
    pub(crate) fn go(&self, step: impl FnOnce(&mut Cursor) -> Result<()>) {
        let mut held = lock(&self.iterator);
        let Some(Iter { cursor: Some(cursor), failure }) = &mut *held else { return };
        self.show(None); // not valid if the step panics
        if let Err(error) = step(cursor) {
            failure.get_or_insert(error.into());
        }
        self.show(cursor.valid().then_some(cursor));
    }

    /// Moves to the first key at or after `key`.
    pub(crate) fn seek(&self, key: std::result::Result<&[u8], Failure>) {
        match key {
            Ok(key) => self.go(|cursor| cursor.seek(key)),
            // The target is unknown, so the iterator has no position.
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

    /// Returns the address and the length of the current key.
    #[inline]
    pub(crate) fn key(&self) -> (*const c_char, usize) {
        self.key.load()
    }

    /// Returns the address and the length of the current value.
    #[inline]
    pub(crate) fn value(&self) -> (*const c_char, usize) {
        self.value.load()
    }

    /// Returns the first failure; `None` if there is no iterator.
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

impl LentBytes {
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

impl Default for LentBytes {
    fn default() -> LentBytes {
        LentBytes(AtomicPtr::new(null_mut()), AtomicUsize::new(0))
    }
}

/// An empty text, so that callers never dereference NULL.
pub(crate) const NOWHERE: (*const c_char, usize) = (c"".as_ptr(), 0);
