//! The block cache, the cached large values that share its budget, and the buffers for blocks.

pub(super) mod buffer_pool;
pub(super) mod cache;
pub(super) mod large_values;
pub(super) mod read_buffer;
