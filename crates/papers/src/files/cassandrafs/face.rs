//! The ways to reach a file system: what the benchmark of CassandraFS does with one.

use std::io::{Read, Write};
use waxseal_bench::Outcome;

/// A file system that clients use at once.
pub(super) trait Face: Send + Sync {
    /// Returns a client for the calling thread.
    fn client(&self) -> Outcome<Box<dyn Client + '_>>;
}

/// One client.
pub(super) trait Client {
    /// Creates a directory in an existing one.
    fn make_directory(&mut self, path: &str) -> Outcome<()>;

    /// Creates or replaces a file with `bytes` bytes of a source.
    fn write(&mut self, path: &str, bytes: u64, source: &mut dyn Read) -> Outcome<()>;

    /// Copies the content of a file to a sink.
    fn read(&mut self, path: &str, sink: &mut dyn Write) -> Outcome<()>;

    /// Removes a file.
    fn remove(&mut self, path: &str) -> Outcome<()>;

    /// Removes a directory with everything below it.
    fn remove_tree(&mut self, path: &str) -> Outcome<()>;
}

/// Bytes that are copied at once.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

/// Copies exactly `bytes` bytes. `what` is the operation in the error for a source that is shorter.
pub(super) fn transfer(what: &str, bytes: u64, source: &mut dyn Read, sink: &mut dyn Write) -> Outcome<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let most = left.min(PIECE_BYTES as u64) as usize;
        let read = source.read(&mut piece[..most])?;
        if read == 0 {
            return Err(format!("{what}: the source ends {left} bytes before the end of {bytes} bytes").into());
        }
        sink.write_all(&piece[..read])?;
        left -= read as u64;
    }
    Ok(())
}
