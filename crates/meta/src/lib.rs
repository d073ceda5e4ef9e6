//! Seals: a checksum born with its record, carried with it wherever it goes, and never made anew on the way.
//!
//! The engine below knows records and opaque companions; this crate keeps the companions. Files, each a story of its own:
//!
//! ```text
//! keeper     what the engine's seam calls: makes, binds, carries and checks seals
//! write      lists of entries: made at a put, made anew in a pass       reading    entries read back, without the values
//! provider   who keeps what beside a record, next to its seal            builtin    expiry, provenance, ETL, labels
//! hits       words found damaged, for the next pass to mend              counts     what a keeper has done
//! care       verify, scrub, repair, salvage, digest
//! mend       a right record's companions, without what was hit beside it
//! verdict    pure: what a seal and its record say together
//! correct    pure: one or two flipped bits of a block, found by the linearity of its CRC
//! beside     pure: what stands beside a record, taken apart
//! stamped    watched operations get stamps, and the flush that meets them tells of each
//! rekey      pure: companions of a key that becomes whole when its seqno is known
//! stamp      pure: who wrote a record that is watched, when, and what its row in the log shall say
//! exchange   table files for other nodes, and theirs for us; with seals, without, or in the paper's form
//! paper      the paper's store to the letter, for comparison
//! seal       the algebra: a checksum that can be moved from seqno to seqno without its record
//! ```
//!
//! A seal is a guard against hardware, kernels and our own mistakes, not against an adversary: it is no signature.
//! Every byte is in docs/format.md, section 7.

pub mod beside;
pub mod builtin;
pub mod care;
pub mod correct;
mod counts;
pub mod exchange;
#[cfg(feature = "faults")]
pub mod faults;
#[doc(hidden)]
pub mod fuzzing;
mod hits;
pub mod keeper;
pub mod mend;
pub mod paper;
pub mod provider;
pub mod reading;
mod rekey;
pub mod seal;
pub mod stamp;
pub mod stamped;
pub mod verdict;
mod write;

pub use counts::Counts;
pub use keeper::{Adoption, SealPoint, Sealer};
pub use provider::{MetadataProvider, Providers};
pub use reading::{Meta, get_meta, iter_meta};
pub use seal::Seal;
pub use stamp::Stamp;
pub use stamped::Emitter;
