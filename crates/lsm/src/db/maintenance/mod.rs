//! Work on a store as a whole, one call each.
//!
//! ```text
//! examine.rs     shows tables, memtables and log piece by piece, without a change
//! replace.rs     replaces tables by their remaining records; lost ranges
//! ingest.rs      writes external records to a family under one seqno
//! checkpoint.rs  makes an independent store of the same contents
//! ```

pub(super) mod checkpoint;
pub(super) mod examine;
pub(super) mod ingest;
pub(super) mod replace;
