//! Waxseal: an embeddable storage engine that never gives a wrong answer, never hides a loss, and is fast.
//!
//! A store is a directory of ordered maps from bytes to bytes, the *column families*. A commit returns when it survives the
//! process ([`Durability::Os`], the default, as with other engines); [`Durability::Sync`] makes it survive the machine.
//!
//! ```
//! # fn main() -> waxseal::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("store");
//! use waxseal::{Db, Durability};
//!
//! let db = Db::open(&path)?;
//! let users = db.column_family("users")?; // made on first use
//! users.put("alice", "1815")?;
//! users.put("bob", "1912")?;
//! assert_eq!(users.get("alice")?.as_deref(), Some(&b"1815"[..]));
//!
//! // Several writes, in any families, all or none.
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
//! | [`ColumnFamily::get_with`], [`ColumnFamily::get_into`], [`ColumnFamily::contains`] | nothing is allocated; the value is borrowed or copied to your buffer |
//! | [`ColumnFamily::cursor`] | one open; then keys and values are borrowed, steps in both directions allocate nothing |
//! | [`ColumnFamily::get`], [`ColumnFamily::multi_get`] | a copy of the value, inside the [`Slice`] if it is short |
//! | [`ColumnFamily::range`], [`ColumnFamily::prefix`], [`ColumnFamily::iter`] | a copy of each key and value; double-ended, owned, [`Send`] |
//!
//! # Threads
//!
//! [`Db`], [`ColumnFamily`] and [`Snapshot`] are cheap to clone and may be used from any thread. [`Cursor`], [`Range`] and
//! [`Batch`] may move between threads. Everything that came from a store keeps it open; [`Db::close`] ends it for all of them:
//! every later call answers [`ErrorKind::Closed`].
//!
//! The engine is synchronous and owns its background threads; it never touches an async runtime of yours.
//!
//! # Errors
//!
//! There is one [`Error`]; [`Error::kind`] says what you can do about it. A refused call has changed nothing.

mod batch;
mod builder;
pub mod care;
mod cursor;
mod db;
mod family;
mod range;
mod sealed;
mod slice;
mod snapshot;
mod verify;

pub use batch::{Batch, WriteOptions};
pub use builder::Builder;
pub use care::{
    Digest, ErrorHandler, RepairOptions, RepairSource, Report, SalvageOptions, ScrubOptions, VerifyOptions,
};
pub use cursor::Cursor;
pub use db::Db;
pub use family::ColumnFamily;
pub use range::{KeyRange, Keys, Range};
pub use sealed::Sealed;
pub use slice::Slice;
pub use snapshot::Snapshot;

pub use waxseal_lsm::db::{Event, FamilyMetrics, LevelMetrics, Listener, Metrics, RecoveryReport, WalMetrics};
pub use waxseal_lsm::error::{Damage, Error, ErrorKind, Result, Verdict};
pub use waxseal_lsm::options::{CfOptions, Compression, Durability, KIB, MIB, Settings, Verify};
pub use waxseal_lsm::order::{Comparator, Order};
pub use waxseal_lsm::record::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Seqno};
pub use waxseal_lsm::sst::CacheMetrics;
pub use waxseal_meta::{Counts as SealCounts, Seal};

/// The outside world as the engine sees it: files, time, randomness. Plug in your own with [`Builder::fs`],
/// [`Builder::clock`] or [`Builder::env`].
pub mod env {
    pub use waxseal_lsm::env::work::Mode;
    pub use waxseal_lsm::env::{
        Clock, Env, File, Fs, Lock, Machine, ManualClock, Mapped, MemoryFs, Open, Random, RealFs, SeededRandom,
        SystemClock, SystemRandom,
    };
}

/// The pages of the repository, so that their examples are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/durability.md")]
    struct Durability;
}
