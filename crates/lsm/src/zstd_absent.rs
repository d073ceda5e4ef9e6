//! The names of `zstd.rs` in a build without the feature `zstd`: each use is an error.
//!
//! Files that need zstd are refused by the feature bit in their header, so that only damaged files come this far.

use crate::error::{Error, ErrorKind, Result};

pub(crate) const AVAILABLE: bool = false;

/// No value of this type exists.
pub(crate) enum LoadedDictionary {}

impl LoadedDictionary {
    pub(crate) fn load(_: &[u8]) -> Option<LoadedDictionary> {
        None
    }

    pub(crate) fn memory(&self) -> usize {
        match *self {}
    }
}

#[derive(Default)]
pub(crate) struct Compressor(());

impl Compressor {
    pub(crate) fn compress(&mut self, _: i32, _: Option<&[u8]>, _: &[u8], _: &mut Vec<u8>) -> Result<usize> {
        Err(Error::invalid("this build is one without the feature `zstd`"))
    }
}

pub(crate) fn decompress(_: &[u8], _: Option<&LoadedDictionary>, _: &mut [u8]) -> Result<()> {
    Err(Error::of(
        ErrorKind::FormatTooNew,
        "a block is packed with zstd, and this build is one without the feature `zstd`",
    ))
}

pub(crate) fn declared_length(_: &[u8]) -> Option<usize> {
    None
}

pub(crate) fn train(_: usize, _: &[u8], _: &[usize]) -> Option<Vec<u8>> {
    None
}
