//! Record seals: a checksum that is computed once, when a record is written, and that stays with the record unchanged.
//!
//! The storage engine treats the companions of a record as opaque bytes; this crate writes and interprets them.
//! Modules:
//!
//! ```text
//! protector  the record protector that the engine calls: makes, binds, carries and checks seals
//! write      entry lists: made at a put, rebuilt by flushes and compactions
//! reading    reads entries, without the values
//! provider   metadata providers: entries stored next to the seal
//! builtin    expiry, provenance, ETL, labels
//! hits       damaged seal words, for the next flush or compaction to repair
//! counts     counters of the protector
//! integrity  verify, scrub, repair, salvage, digest
//! rebuild_companions  rebuilds the companions of an intact record, without the damaged ones
//! verdict    pure: the verdict on a record and its seal
//! correct    pure: one or two flipped bits of a block, found by the linearity of its CRC
//! annotations  pure: decodes the companions of a record
//! emitter    makes the event rows of stamped records: the interface
//! stamped    stamps watched operations, and makes the event rows when a flush reads them
//! rekey      pure: moves companions to the complete key once its seqno is known
//! stamp      pure: session and time of a write to a watched key, and how its event row is formed
//! stamp_check  pure: the check at the end of a stamp
//! exchange   export and import of table files for other nodes, with seals, without, or in the paper's form
//! seal       the algebra: moves a checksum from seqno to seqno without the record
//! ```
//!
//! A seal detects damage by hardware, kernels and our own bugs. It is not a signature: an adversary can forge it.
//! docs/format.md, section 7, defines every byte.

pub mod annotations;
pub mod builtin;
pub mod correct;
mod counts;
mod emitter;
pub mod exchange;
mod hits;
pub mod integrity;
pub mod protector;
pub mod provider;
pub mod reading;
pub mod rebuild_companions;
mod rekey;
pub mod seal;
pub mod stamp;
mod stamp_check;
pub mod stamped;
pub mod verdict;
mod write;

pub use counts::SealCounts;
pub use emitter::Emitter;
pub use protector::{Adoption, SealPoint, Sealer};
pub use provider::{MetadataProvider, Providers};
pub use reading::{Meta, get_meta, iter_meta};
pub use seal::Seal;
pub use stamp::Stamp;
