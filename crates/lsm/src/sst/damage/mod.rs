//! Damaged tables: repair, salvage and rebuild. Table reads call it through one object given at open.

pub(super) mod block_repair;
pub(super) mod block_salvage;
pub(super) mod copies;
pub(super) mod examine;
pub(super) mod partial_block;
pub(super) mod rebuild;
pub(super) mod tolerant_file;
