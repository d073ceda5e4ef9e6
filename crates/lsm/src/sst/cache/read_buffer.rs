//! The buffers of a thread for blocks that it reads without caching them: stored bytes, and the decompressed body.
//!
//! Why: such a block lives for one search. A buffer that stays with its thread needs no allocation, no zeroing and no
//! lock, and its lines stay in the processor's caches.
//!
//! Holds: while a search uses the buffers, another search of the same thread (from a callback) gets fresh ones.
//! Memory: at most two buffers of `MOST_BYTES` per thread that reads, outside of the cache's budget.

use std::cell::Cell;
use std::io;

use crate::env::try_resize;
use crate::options::KIB;

/// Size up to which a thread keeps a buffer.
const MOST_BYTES: usize = 64 * KIB;

thread_local! {
    static SPARE: Cell<ReadBuffer> = const { Cell::new(ReadBuffer { stored: Vec::new(), body: Vec::new() }) };
}

/// Buffers for one block, with any content.
#[derive(Default)]
pub(in crate::sst) struct ReadBuffer {
    /// Never shortened, so that its bytes are zeroed once.
    stored: Vec<u8>,
    /// Buffer for a decompressed body.
    pub(in crate::sst) body: Vec<u8>,
}

impl ReadBuffer {
    /// Takes this thread's buffers.
    pub(in crate::sst) fn take() -> ReadBuffer {
        SPARE.try_with(Cell::take).unwrap_or_default() // fresh ones while the thread exits
    }

    /// Returns room for `length` stored bytes, with any content, and the other buffer. Returns `OutOfMemory` if the
    /// memory is not available.
    pub(in crate::sst) fn parts(&mut self, length: usize) -> io::Result<(&mut [u8], &mut Vec<u8>)> {
        if self.stored.len() < length {
            try_resize(&mut self.stored, length)?;
        }
        Ok((&mut self.stored[..length], &mut self.body))
    }

    /// Returns the buffers to this thread, but frees long ones.
    pub(in crate::sst) fn give_back(mut self) {
        for buffer in [&mut self.stored, &mut self.body] {
            if buffer.capacity() > MOST_BYTES {
                *buffer = Vec::new();
            }
        }
        let _ = SPARE.try_with(|spare| spare.set(self));
    }
}
