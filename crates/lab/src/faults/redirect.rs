//! A file system that silently answers a read with other bytes of the same file. Everything else goes to the disk
//! below.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use waxseal_lsm::env::File;
use waxseal_lsm::env::work::lock;
use waxseal_testing::fs::{FsHook, HookedFs};

/// The reads to misdirect.
#[derive(Clone, Debug)]
pub(super) struct Astray {
    /// Suffix of the file names.
    pub(super) name: String,
    /// Start of the misdirected span.
    pub(super) from: u64,
    pub(super) length: u64,
    /// Position of the bytes that are returned instead.
    pub(super) to: u64,
    /// Number of misdirected reads.
    pub(super) times: usize,
}

/// A disk with misdirected reads.
pub(super) type RedirectFs = HookedFs<Redirect>;

/// The misdirected reads of a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Redirect {
    astray: Arc<Mutex<Option<Astray>>>,
}

impl Redirect {
    pub(super) fn set(&self, astray: Option<Astray>) {
        *lock(&self.astray) = astray;
    }
}

impl FsHook for Redirect {
    fn read(&self, path: &Path, file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = file.read_at(buf, offset)?;
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let mut astray = lock(&self.astray);
        let Some(astray) = astray.as_mut().filter(|astray| astray.times > 0 && name.ends_with(&astray.name)) else {
            return Ok(read);
        };
        let from = astray.from.max(offset);
        let to = (astray.from + astray.length).min(offset + read as u64);
        if from < to {
            astray.times -= 1;
            let part = &mut buf[(from - offset) as usize..(to - offset) as usize];
            file.read_at(part, astray.to + (from - astray.from))?;
        }
        Ok(read)
    }
}
