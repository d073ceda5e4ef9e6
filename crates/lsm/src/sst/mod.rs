//! Table files: sorted, immutable records on disk. See docs/format.md, section 4.
//!
//! ```text
//! write   records in order -> entry::Builder -> format (pack, CRC) -> verifying pass -> filter, properties, index, footer
//! get     [top ->] filter -> index -> slot of the block (cache) -> heads -> entry
//! scan    cursor: index -> block -> entries, in both directions
//! ```
//!
//! Before: records arrive in internal order, each with its companions, from one job (flush or compaction).
//! After:  a self-describing file that states its own extent. The manifest repeats its uid, size and digest, so that
//!         neither another file nor an older copy is accepted.
//! Damage: every byte is covered by a CRC seeded with the file's uid and the block's offset. A read of a damaged block
//!         returns `Corruption` with file and offset; reads of other blocks are not affected.

mod approach;
mod block;
mod cache;
mod copies;
mod cursor;
mod cut;
mod dictionary;
mod ends;
mod entry;
mod examine;
mod fetch;
mod filter;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod given;
mod glean;
mod guide;
mod heal;
mod index;
mod key;
mod large;
mod policed;
mod properties;
mod prove;
mod reach;
mod rebuild;
mod remains;
mod resident;
#[cfg(test)]
mod scripts;
mod separators;
mod skim;
mod spare;
mod steps;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod top;
mod walked;
mod warm;
mod wreck;
mod writer;

pub use cache::{Cache, CacheMetrics, Charge};
pub use copies::CheckedBlock;
pub use cursor::TableCursor;
pub(crate) use dictionary::Packer;
pub use dictionary::{Dictionary, TRAINING_BYTES, train_for};
pub use examine::Found;
pub(crate) use format::{put_packed, unpack_block};
pub use heal::Watch;
pub use large::{Large, LargeValues};
pub use properties::{Carried, Properties};
pub use prove::Checks;
pub use rebuild::{Known, Rebuilt, rebuild};
pub use stream::TableStream;
pub use table::{Approach, Expected, Table};
pub(crate) use writer::not_served;
pub use writer::{Finished, Writer, WriterSettings};
