//! A corpus of books in a Waxseal store: volumes with metadata and pages, queries, worksets, and rights.
//!
//! [`Corpus`] adds volumes and makes worksets. [`Reader`] runs queries for readers with given rights. [`jsonl::read`]
//! loads JSON lines. The crate uses the public interface of `waxseal-table` alone. Modules import from lower lines only:
//!
//! ```text
//! reader          queries and reads
//! corpus          create, add, remove
//! jsonl           loader of JSON lines
//! layout          volumes as rows, by the three schemas of the paper
//! volume, words, shuffle, error
//! ```

mod corpus;
mod error;
pub mod jsonl;
mod layout;
mod reader;
mod shuffle;
mod volume;
mod words;

pub use corpus::Corpus;
pub use error::{Error, Result};
pub use layout::Layout;
pub use reader::{Access, Reader};
pub use volume::{Metadata, Rights, Volume};
