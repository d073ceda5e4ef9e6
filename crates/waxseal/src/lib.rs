//! Waxseal: an embeddable storage engine that never gives a wrong answer, never hides a loss, and is fast.
//!
//! A store is a directory that holds *column families*: ordered maps from byte strings to byte strings. By default
//! ([`Durability::Os`], the default of other engines as well), an acknowledged commit survives a crash of the process.
//! With [`Durability::Sync`] it also survives a crash of the machine.
//!
//! ```
//! # fn main() -> waxseal::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("store");
//! use waxseal::{Db, Durability};
//!
//! let db = Db::open(&path)?;
//! let users = db.column_family("users")?; // created on first use
//! users.put("alice", "1815")?;
//! users.put("bob", "1912")?;
//! assert_eq!(users.get("alice")?.as_deref(), Some(&b"1815"[..]));
//!
//! // Writes to any families, committed atomically.
//! let mut batch = db.batch();
//! batch.put(&users, "carol", "1906").delete(&users, "bob");
//! batch.commit(Durability::Sync)?;
//!
//! for row in users.iter().rev() {
//!     let (key, value) = row?;
//!     println!("{} {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Which read to use
//!
//! | call | what it costs |
//! |---|---|
//! | [`ColumnFamily::get_with`], [`ColumnFamily::get_into`], [`ColumnFamily::contains`] | nothing is allocated; the
//! value is borrowed or copied to your buffer |
//! | [`ColumnFamily::cursor`] | one open; then keys and values are borrowed, steps in both directions allocate nothing
//! |
//! | [`ColumnFamily::get`], [`ColumnFamily::multi_get`] | a copy of the value, inside the [`Slice`] if it is short |
//! | [`ColumnFamily::range`], [`ColumnFamily::prefix`], [`ColumnFamily::iter`] | a copy of each key and value;
//! double-ended, owned, [`Send`] |
//!
//! # Threads
//!
//! [`Db`], [`ColumnFamily`], [`Snapshot`], [`Session`] and [`Registry`] are cheap to clone and may be used from any
//! thread. [`Cursor`], [`Range`] and [`Batch`] may move between threads. Every object made from a store keeps the store
//! open. [`Db::close`] closes the store for all of them: every later call returns [`ErrorKind::Closed`].
//!
//! The engine is synchronous and owns its background threads; it never uses the caller's async runtime. `AsyncDb`
//! (feature `tokio`) is the same store for async code.
//!
//! # Errors
//!
//! All calls return the same [`Error`] type; [`Error::kind`] classifies an error by the reaction that it calls for. A
//! call that is refused changes nothing.

#[cfg(feature = "tokio")]
mod async_db;
mod attach;
mod backup;
mod batch;
mod builder;
pub mod care;
mod changes;
mod cursor;
mod db;
mod ends;
mod entries;
pub mod exchange;
mod family;
mod identity;
mod ingest;
mod inner;
mod modify;
mod range;
pub mod registry;
mod sealed;
mod session;
mod slice;
mod snapshot;
mod tables;
mod transaction;
mod verify;
mod write_options;

#[cfg(feature = "tokio")]
pub use async_db::{
    AsyncBatch, AsyncChangeCursor, AsyncChanges, AsyncColumnFamily, AsyncDb, AsyncSession, AsyncSnapshot,
    AsyncTransaction, KeyStream, RangeStream,
};
pub use backup::{
    Backup, BackupInfo, BackupOptions, BackupProgress, BackupVerification, BackupWatch, CreatedBackup, PurgedBackups,
};
pub use batch::Batch;
pub use builder::Builder;
pub use care::{
    Digest, ErrorHandler, RepairOptions, RepairSource, Report, SalvageOptions, ScrubOptions, VerifyOptions,
};
pub use changes::{Change, ChangeCursor, ChangeOperation, ChangePosition, ChangeReach, Changes, Tail};
pub use cursor::{Cursor, Row};
pub use db::Db;
pub use identity::StoreId;
pub use ingest::{BulkLoader, IngestOptions, Ingested, TableWriter};
pub use inner::ColumnFamily;
pub use range::{KeyRange, Keys, Prefix, Range};
pub use registry::{Identity, Registry};
pub use sealed::Sealed;
pub use session::Session;
pub use slice::Slice;
pub use snapshot::Snapshot;
pub use tables::TableInfo;
pub use transaction::{Isolation, Transaction, TransactionCursor, TransactionRange};
pub use write_options::WriteOptions;

pub use waxseal_lsm::compaction_filter::{CompactionFilter, FilterDecision, FilterFailure, Filtered};
pub use waxseal_lsm::db::{
    BackgroundPause, Event, FamilyMetrics, LevelMetrics, Listener, Metrics, OLD_READER_NANOS, OldReader, OldestSeqnos,
    RecoveryReport, TableFile, WalMetrics,
};
pub use waxseal_lsm::error::{Damage, Error, ErrorKind, OrderMismatch, Result, Verdict};
pub use waxseal_lsm::interrupt;
pub use waxseal_lsm::key_text::{KeyText, RangeText};
pub use waxseal_lsm::merge_operator::{MergeFailure, MergeOperator, Merged, decode_set, encode_set};
pub use waxseal_lsm::option_list::{OptionList, OptionValue};
pub use waxseal_lsm::options::{CfOptions, Compression, Durability, KIB, MIB, SealLayout, Settings, Verify};
pub use waxseal_lsm::order::{Comparator, Order};
pub use waxseal_lsm::policy::FilterPolicy;
pub use waxseal_lsm::prefix_extractor::PrefixExtractor;
pub use waxseal_lsm::record::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Seqno};
pub use waxseal_lsm::sst::{Cache, CacheMetrics};
pub use waxseal_lsm::table_property::{MAX_PROPERTIES, MAX_PROPERTY_BYTES, PropertyFailure, TableProperty};
pub use waxseal_lsm::version::{Contents, Foreign, Marked};
pub use waxseal_meta::{Seal, SealCounts};

/// The engine's interfaces to the operating system: files, time, randomness. Replace them with [`Builder::fs`],
/// [`Builder::clock`] or [`Builder::env`]. Layers above a store take theirs from [`Db::env`].
pub mod env {
    pub use waxseal_lsm::env::work::{Mode, Signal, lock, spawn};
    pub use waxseal_lsm::env::{
        Clock, Dir, DirEntry, Env, File, Fs, Lock, Machine, ManualClock, Mapped, MemoryFs, Open, Random, RealFs,
        SeededRandom, SystemClock, SystemRandom,
    };
}

/// Annotations: metadata entries that *providers* store with a value, in its record, next to its seal.
///
/// Waxseal's own providers are [`Expiry`](meta::Expiry), [`Labels`](meta::Labels), [`Etl`](meta::Etl) and
/// [`Provenance`](meta::Provenance); [`Builder::provider`] adds others. [`WriteOptions::entry`] and related methods
/// write entries. [`ColumnFamily::get_meta`] and [`ColumnFamily::iter_meta`] read them without touching the value.
/// Flushes, compactions and checkpoints carry entries with their record, and dropping the record drops them. An entry
/// of an unknown provider is carried unchanged, unless the entry itself permits dropping it.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// use std::sync::Arc;
/// use waxseal::meta::{Descriptor, MetadataProvider};
/// use waxseal::{Builder, WriteOptions};
///
/// /// The origin of a value.
/// struct Origin;
///
/// impl MetadataProvider for Origin {
///     fn descriptor(&self) -> Descriptor {
///         Descriptor { max_len: 100, in_checksum: true, ..Descriptor::new(1000, "example.origin") }
///     }
/// }
///
/// let db = Builder::in_memory().provider(Arc::new(Origin)).open()?;
/// let cf = db.column_family("default")?;
/// cf.put_with("key", "value", WriteOptions::new().entry(1000, "sensor 7"))?;
/// db.flush()?;
/// assert_eq!(cf.get_meta("key", 1000)?.unwrap().bytes, b"sensor 7");
/// assert!(cf.put_with("key", "value", WriteOptions::new().entry(1000, vec![0; 101])).is_err()); // longer than `max_len`
/// assert!(cf.put_with("key", "value", WriteOptions::new().entry(1001, "")).is_err()); // unknown provider
/// # Ok(())
/// # }
/// ```
pub mod meta {
    pub use crate::entries::MetaIter;
    pub use waxseal_lsm::record::Record;
    pub use waxseal_lsm::seam::DropReason;
    pub use waxseal_meta::builtin::{Etl, Expiry, Labels, Provenance};
    pub use waxseal_meta::provider::{
        Descriptor, ETL, EXPIRY, LABELS, Locality, MetadataProvider, OnUnknown, PROVENANCE, Rebuild, Wants, WriteCtx,
    };
    pub use waxseal_meta::reading::{Checked, Meta};
}

/// The pages of the repository, included so that their examples are compiled and run as doctests.
#[cfg(all(doctest, feature = "tokio"))]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/durability.md")]
    struct Durability;
    #[doc = include_str!("../../../docs/recipes.md")]
    struct Recipes;
}
