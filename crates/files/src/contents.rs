//! Reads the content of many files in one scan.

use std::sync::Arc;

use waxseal::Cursor;
use waxseal::env::Clock;

use crate::content::reserve;
use crate::entry::{Chunks, Content, Entry, chunk_count};
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::pace::Pace;
use crate::records::{all_chunks, chunk_key};
use crate::snapshot::Snapshot;
use crate::store::Files;
use crate::walk::{DirEntry, List, Walk, WalkEntry};

/// The entries of a directory with the content of its files: see [`Files::read_dir`].
#[must_use = "iterators are lazy"]
pub struct ReadDir {
    list: List,
    chunks: ChunkScan,
}

/// The entries of a tree with the content of its files: see [`Files::read_tree`].
#[must_use = "iterators are lazy"]
pub struct ReadTree {
    walk: Walk,
    chunks: ChunkScan,
}

impl Files {
    /// Lists a directory with the content of each regular file; other entries have `None`.
    ///
    /// One scan of the entries beside one scan of the chunks: files that were written in the order of their names are
    /// read without a seek. One file at a time is in memory. A file whose content is damaged is an error, and the scan
    /// goes on behind it. Errors: as for `list` and `read`.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// fs.write("a", "one")?;
    /// fs.write("b", "two")?;
    /// for file in fs.read_dir("")? {
    ///     let (entry, content) = file?;
    ///     assert_eq!(entry.metadata.size, content.unwrap().len() as u64);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<ReadDir> {
        self.snapshot().read_dir(path)
    }

    /// [`read_dir`](Files::read_dir) from the name behind `after` on: the next page. `after` need not exist.
    pub fn read_dir_after(&self, path: impl AsRef<[u8]>, after: impl AsRef<[u8]>) -> Result<ReadDir> {
        self.snapshot().read_dir_after(path, after)
    }

    /// Walks over a tree with the content of each regular file, as [`read_dir`](Files::read_dir) does in a directory.
    pub fn read_tree(&self, path: impl AsRef<[u8]>) -> Result<ReadTree> {
        self.snapshot().read_tree(path)
    }
}

impl Snapshot {
    /// [`Files::read_dir`] at the time of the snapshot.
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<ReadDir> {
        Ok(ReadDir { list: self.list(path)?, chunks: ChunkScan::new(self) })
    }

    /// [`Files::read_dir_after`] at the time of the snapshot.
    pub fn read_dir_after(&self, path: impl AsRef<[u8]>, after: impl AsRef<[u8]>) -> Result<ReadDir> {
        Ok(ReadDir { list: self.list_after(path, after)?, chunks: ChunkScan::new(self) })
    }

    /// [`Files::read_tree`] at the time of the snapshot.
    pub fn read_tree(&self, path: impl AsRef<[u8]>) -> Result<ReadTree> {
        Ok(ReadTree { walk: self.walk(path)?, chunks: ChunkScan::new(self) })
    }
}

impl ReadDir {
    /// Reads no file of more than this many bytes: its content is `None`, and the caller reads it in parts.
    pub fn max_file_bytes(mut self, bytes: u64) -> ReadDir {
        self.chunks.max_file_bytes = bytes;
        self
    }

    /// Reads at most this many bytes of content a second, so that other readers keep their latency; 0 is unlimited. The
    /// calling thread sleeps between chunks. A caller that was slower makes up for at most 10 ms.
    pub fn bytes_per_second(mut self, bytes: u64) -> ReadDir {
        self.chunks.set_pace(bytes);
        self
    }
}

impl ReadTree {
    /// Reads no file of more than this many bytes: its content is `None`, and the caller reads it in parts.
    pub fn max_file_bytes(mut self, bytes: u64) -> ReadTree {
        self.chunks.max_file_bytes = bytes;
        self
    }

    /// Reads at most this many bytes of content a second, so that other readers keep their latency; 0 is unlimited. The
    /// calling thread sleeps between chunks. A caller that was slower makes up for at most 10 ms.
    ///
    /// ```
    /// # fn main() -> waxseal_files::Result<()> {
    /// # let fs = waxseal_files::FileStore::open(&waxseal::Db::memory()?, "files")?;
    /// # fs.write("a", "one")?;
    /// for file in fs.read_tree("")?.bytes_per_second(100_000_000) {
    ///     let (_entry, _content) = file?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn bytes_per_second(mut self, bytes: u64) -> ReadTree {
        self.chunks.set_pace(bytes);
        self
    }
}

impl Iterator for ReadDir {
    type Item = Result<(DirEntry, Option<Vec<u8>>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.list.next()?;
        Some(entry.and_then(|entry| {
            let content = self.chunks.content(entry.metadata, self.list.value());
            content.map_err(|error| error.at(self.list.path())).map(|content| (entry, content))
        }))
    }
}

impl Iterator for ReadTree {
    type Item = Result<(WalkEntry, Option<Vec<u8>>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.walk.next()?;
        Some(entry.and_then(|entry| {
            let content = self.chunks.content(entry.metadata, self.walk.value());
            content.map_err(|error| error.at(&entry.path)).map(|content| (entry, content))
        }))
    }
}

/// A cursor over the chunks of all files, which steps where a chunk follows the one before.
struct ChunkScan {
    cursor: Cursor,
    clock: Arc<dyn Clock>,
    pace: Option<Pace>,
    /// Longer files are not read.
    max_file_bytes: u64,
}

impl ChunkScan {
    fn new(snapshot: &Snapshot) -> ChunkScan {
        let (cursor, clock) = (snapshot.chunks(all_chunks()), snapshot.clock());
        ChunkScan { cursor, clock, pace: None, max_file_bytes: u64::MAX }
    }

    fn set_pace(&mut self, bytes_per_second: u64) {
        self.pace = Pace::new(Arc::clone(&self.clock), bytes_per_second);
    }

    fn keep_pace(&mut self, bytes: usize) {
        if let Some(pace) = &mut self.pace {
            pace.read(bytes);
        }
    }

    /// Returns the content of a regular file of at most `max_file_bytes`; `None` for other entries.
    fn content(&mut self, metadata: Metadata, value: &[u8]) -> Result<Option<Vec<u8>>> {
        if !metadata.is_file() || metadata.size > self.max_file_bytes {
            return Ok(None);
        }
        let entry = Entry::decode(value)?;
        match entry.content()? {
            Content::Inline(bytes) => {
                self.keep_pace(bytes.len());
                Ok(Some(bytes.clone()))
            }
            Content::Chunks(chunks) => self.read(chunks, metadata).map(Some),
        }
    }

    fn read(&mut self, chunks: &Chunks, metadata: Metadata) -> Result<Vec<u8>> {
        let mut bytes = reserve(metadata.size)?;
        for (start, end) in chunks.holes.stored_runs(chunk_count(metadata.size, chunks.chunk_bytes)?) {
            for number in start..end {
                bytes.resize(number as usize * chunks.chunk_bytes as usize, 0);
                self.seek(&chunk_key(chunks.id, number))?;
                let stored = self.cursor.value();
                if stored.len() > chunks.chunk_bytes as usize {
                    return Err(Error::corruption(format!("chunk {number} has {} bytes", stored.len())));
                }
                bytes.extend_from_slice(stored);
                let length = stored.len();
                self.keep_pace(length);
            }
        }
        bytes.resize(metadata.size as usize, 0);
        Ok(bytes)
    }

    /// Moves to a key. Errors: `Corruption` if it does not exist.
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.cursor.valid() && self.cursor.key() < key {
            match self.cursor.next() {
                // The damage may be of another file. The seek reports that of this one.
                Err(error) if error.is_corruption() => {}
                moved => moved?,
            }
        }
        if !self.cursor.valid() || self.cursor.key() != key {
            self.cursor.seek(key)?;
        }
        match self.cursor.valid() && self.cursor.key() == key {
            true => Ok(()),
            false => {
                let (content, number) = crate::records::parse_chunk_key(key)?;
                Err(Error::corruption(format!("chunk {number} of content {content} is missing")))
            }
        }
    }
}
