//! The settings of every store. `peers` reads them from a file (`peers.toml`, built in); a manual run takes them from
//! its command line.
//!
//! A file with an unknown or missing field is rejected, so that no setting is silently ignored.

use crate::Outcome;
use serde::{Deserialize, Serialize};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// The settings with which a store is opened. Compression is always off.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Block or page cache. LMDB has none; it uses the page cache without a limit.
    pub cache_bytes: u64,
    /// Memtable of the LSM trees; B-trees have none.
    pub memtable_bytes: u64,
    /// Table size of the LSM trees; by default each store's own size.
    pub table_bytes: Option<u64>,
    /// Size of the first level below level 0 of the LSM trees; by default each store's own size.
    pub level_bytes: Option<u64>,
    /// True if every write will be synced. Used only by stores that must choose at opening.
    pub synced: bool,
    /// True if `transact` will be called. Used only by stores that must choose at opening.
    pub transactional: bool,
    /// True if `merge` will be called. Used only by stores with merge operators.
    pub merging: bool,
    /// True if `changes` will be called: the log is kept from the first open on.
    pub feeding: bool,
    /// True if `tables_with` will be called: a property of the tables has all of their keys but the last bytes.
    pub collecting: bool,
    /// True if `compact` will be called: the compaction filter keeps the keys of `keeps`.
    pub filtering: bool,
    /// Bytes of the prefixes that `scan_prefix` will be called with, for stores whose filters may know them.
    pub prefix_bytes: Option<usize>,
    /// Settings of individual stores.
    pub own: Own,
}

impl Settings {
    /// Returns settings with this cache and memtable, and defaults otherwise.
    pub const fn new(cache_bytes: u64, memtable_bytes: u64) -> Settings {
        Settings {
            cache_bytes,
            memtable_bytes,
            table_bytes: None,
            level_bytes: None,
            synced: false,
            transactional: false,
            merging: false,
            feeding: false,
            collecting: false,
            filtering: false,
            prefix_bytes: None,
            own: Own::DEFAULT,
        }
    }
}

/// Settings of individual stores.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// RocksDB's settings.
    pub rocksdb: Rocksdb,
    /// fjall's settings.
    pub fjall: Fjall,
    /// LMDB's settings.
    pub lmdb: Lmdb,
}

impl Own {
    /// The values of the built-in file; a test compares the two.
    pub const DEFAULT: Own = Own {
        rocksdb: Rocksdb {
            bloom_bits: 10.0,
            strict: Strict { absolute_consistency: true, track_and_verify_wals: true, paranoid_checks: true },
        },
        fjall: Fjall { journal_mib: 2048 },
        lmdb: Lmdb { map_gib: 64, readers: 256 },
    };
}

/// Settings of RocksDB.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rocksdb {
    /// Bits per key of its filters.
    pub bloom_bits: f64,
    /// Checks of the strict variant.
    pub strict: Strict,
}

/// The checks of the strict RocksDB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strict {
    /// A log with a damaged end is rejected.
    pub absolute_consistency: bool,
    /// The manifest lists the logs.
    pub track_and_verify_wals: bool,
    /// RocksDB's option `paranoid_checks`.
    pub paranoid_checks: bool,
}

/// Settings of fjall.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fjall {
    /// Maximum size of its journals.
    pub journal_mib: u64,
}

/// Settings of LMDB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lmdb {
    /// Address space.
    pub map_gib: u64,
    /// Reader slots.
    pub readers: u32,
}

/// Settings shared by all stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Length of keys.
    pub key_bytes: u64,
    /// Length of values.
    pub value_bytes: u64,
    /// Block or page cache.
    pub cache_mib: u64,
    /// Memtable.
    pub memtable_mib: u64,
    /// First level of the store with deep levels, on which reads are measured.
    pub deep_level_kib: u64,
    /// Table size of that store.
    pub deep_table_kib: u64,
}

/// Sizes of the workloads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Maximum number of rounds.
    pub rounds: u64,
    /// Records that the fills write.
    pub records: u64,
    /// Thread counts besides one.
    pub threads: Vec<u64>,
    /// Bytes that a fill of large values writes.
    pub large_mib: u64,
    /// Bytes of the random load for which write amplification is judged.
    pub load_mib: u64,
    /// Bytes of the log for the recovery step.
    pub recover_mib: u64,
    /// Number of tables of the store for the open step.
    pub tables: u64,
    /// Size of these tables.
    pub table_kib: u64,
    /// Record counts of the growing store.
    pub growth: Vec<u64>,
    /// Cache and memtable of the store with four times as much data.
    pub budget_mib: u64,
    /// Records that the fill of the store beyond the cache writes, about 63 % of them new.
    pub beyond: u64,
    /// Duration of the mixed load.
    pub mixed_seconds: u64,
    /// Length of one point of its plot.
    pub window_seconds: u64,
}

/// The settings file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Settings shared by all stores.
    pub shared: Shared,
    rocksdb: Rocksdb,
    fjall: Fjall,
    lmdb: Lmdb,
    full: Sizes,
    quick: Sizes,
}

impl File {
    /// Reads the file at `path`, or the built-in one.
    pub fn read(path: Option<&Path>) -> Outcome<File> {
        let text = match path {
            Some(path) => std::fs::read_to_string(path)?,
            None => include_str!("../../peers.toml").into(),
        };
        let file: File = toml::from_str(&text)?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Outcome<()> {
        for sizes in [&self.full, &self.quick] {
            let whole = [
                sizes.rounds,
                sizes.records,
                sizes.large_mib,
                sizes.load_mib,
                sizes.recover_mib,
                sizes.tables,
                sizes.table_kib,
                sizes.budget_mib,
                sizes.beyond,
                sizes.mixed_seconds,
                sizes.window_seconds,
            ];
            if whole.iter().chain(&sizes.threads).chain(&sizes.growth).any(|size| *size == 0) {
                return Err("a size of the settings is 0".into());
            }
        }
        Ok(())
    }

    /// Returns the sizes of a full or a quick run.
    pub fn sizes(&self, quick: bool) -> &Sizes {
        if quick { &self.quick } else { &self.full }
    }

    /// Returns the settings of individual stores.
    pub fn own(&self) -> Own {
        Own { rocksdb: self.rocksdb, fjall: self.fjall, lmdb: self.lmdb }
    }

    /// Returns cache, memtable and the settings of individual stores.
    pub fn settings(&self) -> Settings {
        let Shared { cache_mib, memtable_mib, .. } = self.shared;
        Settings { own: self.own(), ..Settings::new(cache_mib * MIB, memtable_mib * MIB) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_is_built_in_is_whole_and_says_what_the_constants_say() {
        let file = File::read(None).expect("read");
        let own = file.own();
        let Own { rocksdb, fjall, lmdb } = Own::DEFAULT;
        assert_eq!((own.rocksdb, own.fjall, own.lmdb), (rocksdb, fjall, lmdb));
        assert!(file.sizes(true).records < file.sizes(false).records);
    }

    #[test]
    fn what_is_unknown_or_missing_or_nothing_is_refused() {
        let text = include_str!("../../peers.toml");
        let dir = tempfile::tempdir().expect("a directory");
        let read = |text: String| {
            let path = dir.path().join("peers.toml");
            std::fs::write(&path, text).expect("written");
            File::read(Some(&path))
        };
        assert!(read(text.into()).is_ok());
        assert!(read(text.replace("bloom_bits", "bloom_bites")).is_err());
        assert!(read(text.replace("readers = 256", "")).is_err());
        assert!(read(text.replace("tables = 200", "tables = 0")).is_err());
        assert!(File::read(Some(Path::new("/nowhere/at/all"))).is_err());
    }
}
