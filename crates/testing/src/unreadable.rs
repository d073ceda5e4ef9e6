//! Reads that fail: of whole files, and of single bytes for a while or forever.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use waxseal_lsm::env::{File, Open};

use crate::fs::FsHook;

/// Every read fails.
pub const ALWAYS: u128 = u128::MAX;

/// The reads of a disk that fail.
#[derive(Clone, Debug, Default)]
pub struct Unreadable {
    /// Files that cannot be opened for reading.
    withheld: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// Positions of bytes, and for each the future reads that fail, the next one in the lowest bit.
    unread: Arc<Mutex<Vec<(PathBuf, u64, u128)>>>,
    /// Number of bytes that were requested so far.
    pub bytes_read: Arc<AtomicU64>,
}

impl Unreadable {
    /// Makes these files, and no others, fail to open for reading.
    pub fn hold_back<P: AsRef<Path>>(&self, files: impl IntoIterator<Item = P>) {
        *self.withheld.lock().unwrap() = files.into_iter().map(|file| file.as_ref().to_owned()).collect();
    }

    /// Makes later reads of one byte fail. Bit n of `reads` is set if the n-th read of the byte fails.
    pub fn fail_reads(&self, file: &Path, at: u64, reads: u128) {
        self.unread.lock().unwrap().push((file.to_owned(), at, reads));
    }

    /// Makes everything readable again.
    pub fn release(&self) {
        self.withheld.lock().unwrap().clear();
        self.unread.lock().unwrap().clear();
    }
}

impl FsHook for Unreadable {
    fn before_open(&self, path: &Path, how: Open) -> io::Result<()> {
        match how {
            Open::Read if self.withheld.lock().unwrap().contains(path) => Err(ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        }
    }
    fn read(&self, path: &Path, file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let span = offset..offset + buf.len() as u64;
        let mut fails = false;
        for (unread, at, reads) in self.unread.lock().unwrap().iter_mut() {
            if unread == path && span.contains(at) {
                fails |= *reads & 1 == 1;
                if *reads != ALWAYS {
                    *reads >>= 1;
                }
            }
        }
        if fails {
            return Err(ErrorKind::PermissionDenied.into());
        }
        self.bytes_read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        file.read_at(buf, offset)
    }
}
