//! Iterators: a position in the store as it was when they were made, and the error that sticks to them.

use waxseal::{Cursor, Result};

use crate::failure::Failure;

/// See the head of the file.
pub(crate) struct Iter {
    /// None: it could not be made, and `failure` says why.
    cursor: Option<Cursor>,
    /// The first failure. It stays, so that whoever asks after a loop hears of it wherever it was met.
    failure: Option<Failure>,
}

impl Iter {
    pub(crate) fn new(cursor: std::result::Result<Cursor, Failure>) -> Iter {
        match cursor {
            Ok(cursor) => Iter { cursor: Some(cursor), failure: None },
            Err(failure) => Iter { cursor: None, failure: Some(failure) },
        }
    }

    /// Moves it. Where that fails it is not valid, and says why.
    #[inline]
    pub(crate) fn go(&mut self, step: impl FnOnce(&mut Cursor) -> Result<()>) {
        if let Some(Err(error)) = self.cursor.as_mut().map(step) {
            self.fail(error.into());
        }
    }

    /// Goes to the first key not before this one.
    pub(crate) fn seek(&mut self, key: std::result::Result<&[u8], Failure>) {
        match key {
            Ok(key) => self.go(|cursor| cursor.seek(key)),
            // What was asked for is not known, so it stands nowhere.
            Err(failure) => {
                self.fail(failure);
                self.cursor = None;
            }
        }
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::valid)
    }

    /// The key it stands on; empty if it stands nowhere.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], Cursor::key)
    }

    /// The value it stands on; empty if it stands nowhere.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], Cursor::value)
    }

    pub(crate) fn check(&self) -> std::result::Result<(), Failure> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    #[cold]
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}
