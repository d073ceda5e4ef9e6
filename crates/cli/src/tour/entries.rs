//! The entries that a tour stores, and the state that the store must have for each.

use waxseal_files::{Digest, Digester, ErrorKind, FileKind, Metadata, Snapshot};

use crate::failure::Failure;
use crate::files::stored;
use crate::files::tree::{Node, Part, Tree};

/// An entry of the tour's tree.
pub(super) struct TourEntry {
    pub(super) path: Vec<u8>,
    /// Its source tree, as an index.
    pub(super) source: usize,
    pub(super) loaded: EntryState,
    pub(super) now: Now,
}

/// The current state of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Now {
    AsLoaded,
    Updated(EntryState),
    Deleted,
}

/// The kind of an entry, with size and digest of a file's content or a link's target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryState {
    kind: FileKind,
    size: u64,
    digest: Digest,
}

/// Computes the state of an entry from its content, which it gets in parts.
pub(super) struct StateReader {
    digester: Digester,
    size: u64,
}

impl TourEntry {
    pub(super) fn is_file(&self) -> bool {
        self.loaded.is_file()
    }

    /// Returns the expected state; `None` for a deleted entry.
    pub(super) fn expected(&self) -> Option<EntryState> {
        match self.now {
            Now::AsLoaded => Some(self.loaded),
            Now::Updated(state) => Some(state),
            Now::Deleted => None,
        }
    }
}

impl EntryState {
    pub(super) fn is_file(self) -> bool {
        self.kind == FileKind::File
    }

    pub(super) fn size(self) -> u64 {
        self.size
    }

    /// Returns true if a list shows the entry as it is.
    pub(super) fn is_listed_as(self, listed: &Metadata) -> bool {
        let is_same = match self.kind {
            FileKind::File => (listed.size, listed.digest) == (self.size, self.digest),
            FileKind::Link => listed.size == self.size,
            _ => true,
        };
        listed.kind == self.kind && is_same
    }

    /// Reads the state of an entry in a tree.
    pub(super) fn read(tree: &dyn Tree, node: &Node, chunk_bytes: u32) -> Result<Option<EntryState>, Failure> {
        let mut reader = StateReader::new(chunk_bytes);
        match node.kind {
            Some(FileKind::File) => tree.open(node)?.read(&mut |part| {
                reader.add(part);
                Ok(())
            })?,
            Some(FileKind::Link) => reader.add(Part::Bytes(&tree.read_link(&node.path)?)),
            _ => {}
        }
        Ok(node.kind.map(|kind| reader.finish(kind)))
    }

    /// Reads the state of a path in a snapshot; `None` without an entry.
    pub(super) fn stored(snapshot: &Snapshot, path: &[u8], chunk_bytes: u32) -> Result<Option<EntryState>, Failure> {
        let kind = match snapshot.stat(path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotDirectory) => return Ok(None),
            metadata => metadata?.kind,
        };
        let mut reader = StateReader::new(chunk_bytes);
        match kind {
            FileKind::File => stored::read(snapshot, path, &mut |part| {
                reader.add(part);
                Ok(())
            })?,
            FileKind::Link => reader.add(Part::Bytes(&snapshot.read_link(path)?)),
            _ => {}
        }
        Ok(Some(reader.finish(kind)))
    }
}

impl StateReader {
    /// Begins a content. The chunk size is that of the store, so that the digest is that of the stored entry.
    pub(super) fn new(chunk_bytes: u32) -> StateReader {
        StateReader { digester: Digester::new(chunk_bytes), size: 0 }
    }

    pub(super) fn add(&mut self, part: Part<'_>) {
        self.size += match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Hole(bytes) => bytes,
        };
        part.add_to(&mut self.digester);
    }

    pub(super) fn finish(self, kind: FileKind) -> EntryState {
        EntryState { kind, size: self.size, digest: self.digester.finish() }
    }
}

#[cfg(test)]
impl EntryState {
    pub(super) fn file(content: &str) -> EntryState {
        let mut reader = StateReader::new(1 << 18);
        reader.add(Part::Bytes(content.as_bytes()));
        reader.finish(FileKind::File)
    }
}

#[cfg(test)]
impl TourEntry {
    pub(super) fn stub(path: &str, now: Now) -> TourEntry {
        TourEntry { path: path.into(), source: 0, loaded: EntryState::file(path), now }
    }
}
