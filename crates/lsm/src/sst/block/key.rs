//! The whole key of the entry under a cursor: the prefix shared with its restart, then its own suffix.
//!
//! In:    a block, an entry position, and the decoded entry.
//! Out:   the contiguous key, valid until the next one is assembled.
//! Costs: two 16-byte copies if neither part is longer; no call, no allocation. The restart is looked up once per
//!        restart group, not once per entry.
//! Holds: a cached restart belongs to the current block: call `forget` when another block replaces it.

use super::block::{Block, RestartPoint};
use super::entry::BlockEntry;
use crate::error::Result;

/// Maximum length of a key that is stored inline in the cursor.
const NEAR_BYTES: usize = 96;

/// Parts up to this length are copied as one 16-byte chunk, including the bytes after them.
const STRIDE: usize = 16;

/// The assembled key; see the module documentation.
pub(in crate::sst) struct WholeKey {
    near: [u8; NEAR_BYTES],
    /// Buffer for longer keys.
    far: Vec<u8>,
    len: usize,
    /// The restart of the walk's current group.
    restart: RestartPoint,
}

impl WholeKey {
    /// Creates an empty key.
    pub(in crate::sst) fn new() -> WholeKey {
        WholeKey { near: [0; NEAR_BYTES], far: Vec::new(), len: 0, restart: RestartPoint::default() }
    }

    /// Forgets the cached restart, because another block replaces the current one.
    #[inline]
    pub(in crate::sst) fn forget(&mut self) {
        self.restart = RestartPoint::default();
    }

    /// Returns the key that was assembled last.
    #[inline]
    pub(in crate::sst) fn get(&self) -> &[u8] {
        match self.near.get(..self.len) {
            Some(near) => near,
            None => &self.far[..self.len],
        }
    }

    /// Stores a key that is already complete.
    #[inline]
    pub(in crate::sst) fn set(&mut self, key: &[u8]) {
        self.len = key.len();
        match self.near.get_mut(..key.len()) {
            Some(near) => near.copy_from_slice(key),
            None => {
                self.far.clear();
                self.far.extend_from_slice(key);
            }
        }
    }

    /// Assembles the key of the entry at a position. On error, the key is unchanged.
    #[inline]
    pub(in crate::sst) fn put(&mut self, block: &Block, at: usize, entry: &BlockEntry) -> Result<()> {
        let (shared, own) = (entry.shared, entry.value_at - entry.suffix_at);
        if shared <= STRIDE
            && own <= STRIDE
            && let Some(suffix) = stride(block.bytes(), entry.suffix_at)
        {
            if shared == 0 {
                self.near[..STRIDE].copy_from_slice(suffix);
                self.len = own;
                return Ok(());
            }
            if self.restart.spans(at)
                && self.restart.has(shared)
                && let Some(start) = stride(block.bytes(), self.restart.key_at)
            {
                self.near[..STRIDE].copy_from_slice(start);
                self.near[shared..shared + STRIDE].copy_from_slice(suffix);
                self.len = shared + own;
                return Ok(());
            }
        }
        self.put_longer(block, at, entry)
    }

    /// As `put`, for any lengths and for an entry of another restart group.
    #[inline(never)]
    fn put_longer(&mut self, block: &Block, at: usize, entry: &BlockEntry) -> Result<()> {
        let (shared, suffix) = (entry.shared, block.suffix(entry));
        let start = match shared {
            0 => &[][..],
            _ => {
                if !self.restart.spans(at) {
                    self.restart = block.restart_of(at)?;
                }
                self.restart.start(block, shared)?
            }
        };
        self.len = shared + suffix.len();
        match self.near.get_mut(..self.len) {
            Some(near) => {
                near[..shared].copy_from_slice(start);
                near[shared..].copy_from_slice(suffix);
            }
            None => {
                self.far.clear();
                self.far.extend_from_slice(start);
                self.far.extend_from_slice(suffix);
            }
        }
        Ok(())
    }
}

/// Returns the 16 bytes at a position, if the slice is long enough.
#[inline]
fn stride(bytes: &[u8], at: usize) -> Option<&[u8; STRIDE]> {
    bytes.get(at..)?.first_chunk()
}
