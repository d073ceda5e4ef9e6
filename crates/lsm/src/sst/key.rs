//! The whole key of the entry under a cursor: the start of its restart's key, then bytes of its own.
//!
//! In:     a block, a place in it, and the entry there.
//! Out:    the key in one piece, until the next is put together.
//! Costs:  two copies of sixteen bytes, where neither part is longer; no call, no allocation. The restart is looked up when a walk
//!         comes among its entries, not for each of them.
//! Holds:  a restart that was looked up is of the block shown last: `forget` it when another block takes its place.

use super::block::{Block, Restart};
use super::entry::Entry;
use crate::error::Result;

/// Keys up to this length stand beside the rest of a cursor.
const NEAR_BYTES: usize = 96;

/// Parts up to this length are copied whole strides at a time, with whatever stands behind them.
const STRIDE: usize = 16;

/// See the head of the file.
pub(super) struct WholeKey {
    near: [u8; NEAR_BYTES],
    /// Room for longer keys.
    far: Vec<u8>,
    len: usize,
    /// The restart among whose entries the walk is.
    restart: Restart,
}

impl WholeKey {
    /// The empty key.
    pub(super) fn new() -> WholeKey {
        WholeKey { near: [0; NEAR_BYTES], far: Vec::new(), len: 0, restart: Restart::default() }
    }

    /// Another block takes the place of the one before.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.restart = Restart::default();
    }

    /// The key that was put together last.
    #[inline]
    pub(super) fn get(&self) -> &[u8] {
        match self.near.get(..self.len) {
            Some(near) => near,
            None => &self.far[..self.len],
        }
    }

    /// Takes a key that is known whole.
    #[inline]
    pub(super) fn set(&mut self, key: &[u8]) {
        self.len = key.len();
        match self.near.get_mut(..key.len()) {
            Some(near) => near.copy_from_slice(key),
            None => {
                self.far.clear();
                self.far.extend_from_slice(key);
            }
        }
    }

    /// Puts the key of the entry at a place together. An error leaves the key as it was.
    #[inline]
    pub(super) fn put(&mut self, block: &Block, at: usize, entry: &Entry) -> Result<()> {
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

    /// The same for any lengths, and for an entry of another restart.
    #[inline(never)]
    fn put_longer(&mut self, block: &Block, at: usize, entry: &Entry) -> Result<()> {
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

/// As many bytes from a place on, if there are so many.
#[inline]
fn stride(bytes: &[u8], at: usize) -> Option<&[u8; STRIDE]> {
    bytes.get(at..)?.first_chunk()
}
