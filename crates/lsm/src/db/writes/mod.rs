//! The write path: batch -> ordered -> copied -> applied -> acknowledged (I01).
//!
//! ```text
//! commit.rs           commits a batch, applies whole frames
//! stall.rs            admits and delays writers
//! log_retirement.rs   seals segments, and recycles or removes them
//! write_path.rs       `WritePath`: the frames that are being applied, blob separation, memory
//! blob_separation.rs  moves large values to blob files before the batch is ordered
//! memory.rs           keeps the store's memory within its budget
//! ```

pub(super) mod blob_separation;
pub(super) mod commit;
pub(super) mod log_retirement;
pub(super) mod memory;
mod stall;
pub(super) mod write_path;
