//! The files that a tour stores, and the content that the store must have for each.

use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;

/// A stored file.
pub(super) struct StoredFile {
    pub(super) key: Vec<u8>,
    pub(super) path: PathBuf,
    pub(super) loaded: ContentDigest,
    pub(super) now: Now,
}

/// The length and hash that identify a content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentDigest {
    length: u64,
    hash: u64,
}

/// The current state of a stored file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Now {
    AsLoaded,
    Updated(ContentDigest),
    Deleted,
}

impl ContentDigest {
    pub(super) fn of(bytes: &[u8]) -> ContentDigest {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        ContentDigest { length: bytes.len() as u64, hash: hasher.finish() }
    }
}

#[cfg(test)]
impl Now {
    pub(super) fn updated(content: &[u8]) -> Now {
        Now::Updated(ContentDigest::of(content))
    }
}

#[cfg(test)]
impl StoredFile {
    pub(super) fn stub(key: &str, now: Now) -> StoredFile {
        StoredFile { key: key.into(), path: PathBuf::new(), loaded: ContentDigest::of(b""), now }
    }
}

impl StoredFile {
    /// Returns the content that the store must hold for it.
    pub(super) fn expected(&self) -> Option<ContentDigest> {
        match self.now {
            Now::AsLoaded => Some(self.loaded),
            Now::Updated(content) => Some(content),
            Now::Deleted => None,
        }
    }
}
