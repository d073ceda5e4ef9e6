//! Damaged tables: repair, salvage and rebuild. Table reads call it through one object given at open.

pub(super) mod block_repair;
pub(super) mod block_salvage;
pub(super) mod block_search;
pub(super) mod copies;
pub(super) mod dictionary_repair;
pub(super) mod examine;
pub(super) mod open;
pub(super) mod partition_rebuild;
pub(super) mod rebuild;
pub(super) mod tolerant_file;
