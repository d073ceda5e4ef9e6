//! Table files: sorted, immutable records on disk. See docs/format.md, section 4.
//!
//! ```text
//! write   records -> BlockBuilder -> frame (compress, CRC) -> verifying pass -> filter, properties, index, footer
//! get     [top index ->] filter -> index -> slot of the block (cache) -> heads -> entry
//! scan    cursor: index -> block -> entries, in both directions
//! ```
//!
//! Folders, top first; a folder imports only from folders below its own:
//!
//! ```text
//! fuzzing  entry points for fuzzers
//! damage   repair, salvage and rebuild
//! table    an open table: metadata, point reads, cursors; the writer
//! index    the index of a table, whole or partitioned, and its filters
//! cache    blocks and large values in memory, recycled buffers
//! block    codec, frame, entries, and a block in memory
//! ```
//!
//! Before: records arrive in internal order, each with its companions, from one job (flush or compaction).
//! After:  a self-describing file that states its own extent. The manifest repeats its uid, size and digest, so that
//!         neither another file nor an older copy is accepted.
//! Damage: every byte is covered by a CRC seeded with the file's uid and the block's offset. A read of a damaged block
//!         returns `Corruption` with file and offset; reads of other blocks are not affected.

mod block;
mod cache;
mod damage;
#[doc(hidden)]
pub mod fuzzing;
mod index;
#[cfg(test)]
mod scripts;
mod table;
#[cfg(test)]
mod tests;

pub use block::codec::Dictionary;
pub(crate) use block::codec::Packer;
pub(crate) use block::frame::{put_packed, unpack_block};
pub use cache::cache::{Cache, CacheMetrics, Charge};
pub use cache::large_values::{LargeValue, LargeValues};
pub use damage::copies::CheckedBlock;
pub use damage::examine::ExaminedItem;
pub use damage::rebuild::{KnownTable, Rebuilt, rebuild};
pub use table::cursor::TableCursor;
pub use table::dictionary_training::{TRAINING_BYTES, train_for};
pub use table::properties::{CompanionSummary, Properties};
pub use table::stream::TableStream;
pub use table::table::{Approach, Table};
pub use table::tail::{Expected, WRITTEN_SEQNO};
pub use table::verify_read::Checks;
pub(crate) use table::watch::NoWatch;
pub use table::watch::TableListener;
pub(crate) use table::writer::not_served;
pub use table::writer::{Finished, Writer, WriterSettings};
