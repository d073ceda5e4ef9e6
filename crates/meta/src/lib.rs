//! Seals: a checksum born with its record, carried with it wherever it goes, and never made anew on the way.
//!
//! The engine below knows records and opaque companions; this crate keeps the companions. Files, each a story of its own:
//!
//! ```text
//! care       verify, scrub, repair, salvage, digest
//! keeper     what the engine's seam calls: makes, binds, carries and checks seals, and counts
//! verdict    pure: what a seal and its record say together
//! correct    pure: one or two flipped bits of a block, found by the linearity of its CRC
//! seal       the algebra: a checksum that can be moved from seqno to seqno without its record
//! ```
//!
//! A seal is a guard against hardware, kernels and our own mistakes, not against an adversary: it is no signature.
//! Every byte is in docs/format.md, section 7.

pub mod care;
pub mod correct;
pub mod keeper;
pub mod seal;
pub mod verdict;

pub use keeper::{Counts, MissingSeal, SealPoint, Sealer};
pub use seal::Seal;
