//! Reading a file past device errors.
//!
//! In:    a file.
//! Out:   its bytes, with zeros for pages that cannot be read; and the first device error.
//! Holds: only device errors are recorded here, no corruption: a file that ends too early has been read completely.

use std::cell::RefCell;

use crate::env::{File, check_room, read_exact, read_into};
use crate::error::{Error, Result};
use crate::frame::PAGE_BYTES;
use crate::sst::block::frame::read_error;

/// A file, and the device errors met while reading it.
pub(in crate::sst) struct TolerantFile<'a> {
    name: &'a str,
    pub(in crate::sst) file: &'a dyn File,
    /// The first device error.
    refused: RefCell<Option<Error>>,
}

impl<'a> TolerantFile<'a> {
    pub(in crate::sst) fn new(name: &'a str, file: &'a dyn File) -> TolerantFile<'a> {
        TolerantFile { name, file, refused: RefCell::new(None) }
    }

    /// Returns a successful result; records a device error.
    pub(in crate::sst) fn record_error<T>(&self, read: Result<T>) -> Option<T> {
        let error = match read {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        if !error.is_corruption() {
            self.refused.borrow_mut().get_or_insert(error);
        }
        None
    }

    /// Reads a part of the file that must be within its length.
    pub(in crate::sst) fn part(&self, at: u64, length: u64, size: u64) -> Result<Vec<u8>> {
        if at.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::structural("the file ends too early"));
        }
        let read = read_exact(self.file, at, length as usize).map_err(|error| read_error(self.name, at, error));
        self.record_error(read).ok_or_else(|| Error::structural("a part of the file is not read"))
    }

    /// Reads bytes of the file, with zeros for pages that cannot be read. The range was checked against the file's
    /// length. Returns nothing if there is not enough memory.
    pub(in crate::sst) fn read(&self, at: u64, length: usize) -> Vec<u8> {
        if check_room(length).is_err() {
            return Vec::new();
        }
        let mut bytes = vec![0; length];
        if read_into(self.file, at, &mut bytes).is_err() {
            for (number, page) in (0..).zip(bytes.chunks_mut(PAGE_BYTES)) {
                let at = at + number * PAGE_BYTES as u64;
                let read = read_into(self.file, at, page).map_err(|error| read_error(self.name, at, error));
                if self.record_error(read).is_none() {
                    page.fill(0);
                }
            }
        }
        bytes
    }

    /// Returns the first device error.
    pub(in crate::sst) fn refused(self) -> Option<Error> {
        self.refused.into_inner()
    }
}
