//! Data blocks: codec, frame, entries, and the block in memory that searches use.

pub(super) mod block;
pub(super) mod codec;
pub(super) mod entry;
pub(super) mod frame;
pub(super) mod head_scan;
pub(super) mod key;
pub(super) mod lookup;
pub(super) mod partial_block;
pub(super) mod scan;
