//! Our file store, through the library.

use super::face::{Client, Face, PIECE_BYTES, transfer};
use std::io::{Read, Write};
use waxseal_bench::Outcome;
use waxseal_files::FileStore;

/// The face of a file store.
pub(super) struct Library {
    pub(super) files: FileStore,
}

impl Library {
    /// Waits for background work.
    pub(super) fn settle(&self) -> Outcome<()> {
        self.files.reclaim()?;
        Ok(self.files.db().settle()?)
    }

    pub(super) fn close(self) -> Outcome<()> {
        let db = self.files.db().clone();
        drop(self.files);
        Ok(db.close()?)
    }
}

impl Face for Library {
    fn client(&self) -> Outcome<Box<dyn Client + '_>> {
        Ok(Box::new(LibraryClient { files: &self.files }))
    }
}

struct LibraryClient<'a> {
    files: &'a FileStore,
}

impl Client for LibraryClient<'_> {
    fn make_directory(&mut self, path: &str) -> Outcome<()> {
        Ok(self.files.mkdir(path)?)
    }

    fn write(&mut self, path: &str, bytes: u64, source: &mut dyn Read) -> Outcome<()> {
        let mut writer = self.files.writer(path)?;
        transfer(path, bytes, source, &mut writer)?;
        writer.finish()?;
        Ok(())
    }

    fn read(&mut self, path: &str, sink: &mut dyn Write) -> Outcome<()> {
        let file = self.files.snapshot().open(path)?;
        // Whole chunks, since a chunk is verified as one.
        let mut piece = vec![0; PIECE_BYTES.max(self.files.chunk_bytes() as usize)];
        let mut offset = 0;
        loop {
            match file.read_at(&mut piece, offset)? {
                0 => return Ok(()),
                bytes => {
                    sink.write_all(&piece[..bytes])?;
                    offset += bytes as u64;
                }
            }
        }
    }

    fn remove(&mut self, path: &str) -> Outcome<()> {
        Ok(self.files.remove(path)?)
    }

    fn remove_tree(&mut self, path: &str) -> Outcome<()> {
        Ok(self.files.remove_tree(path)?)
    }
}
