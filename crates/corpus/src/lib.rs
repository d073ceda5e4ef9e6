//! A corpus of books in a Waxseal store: volumes with metadata and pages, queries, worksets, and rights.
//!
//! [`Corpus`] adds volumes and makes worksets. [`Reader`] runs queries for readers with given rights. [`jsonl::read`]
//! loads JSON lines, `pairtree::read` a pairtree (feature `pairtree`), and `parquet::read` Parquet (feature `parquet`).
//! The crate uses the public interface of `waxseal-table` alone. Modules import from lower lines only:
//!
//! ```text
//! reader          queries and reads
//! corpus          create, add, remove
//! pairtree        loader of a pairtree: metadata_xml, page_zip
//! jsonl           loader of JSON lines
//! parquet         loader of Parquet
//! layout          volumes as rows, by the three schemas of the paper
//! volume, words, shuffle, error
//! ```

mod corpus;
mod error;
pub mod jsonl;
mod layout;
#[cfg(feature = "pairtree")]
mod metadata_xml;
#[cfg(feature = "pairtree")]
mod page_zip;
#[cfg(feature = "pairtree")]
pub mod pairtree;
#[cfg(feature = "parquet")]
pub mod parquet;
mod reader;
mod shuffle;
mod volume;
mod words;

pub use corpus::Corpus;
pub use error::{Error, Result};
pub use layout::Layout;
pub use reader::{Access, Reader};
pub use volume::{Metadata, Rights, Volume};
