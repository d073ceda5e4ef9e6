//! What every store is given. One file says it for `peers` (`peers.toml`, built in); a run by hand says it on its command line.
//!
//! A file that names something unknown, or leaves something out, is refused: nobody should believe to have set what was not read.

use crate::Outcome;
use serde::{Deserialize, Serialize};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// What one store is opened with. Compression is off everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Block or page cache; LMDB has none of its own and uses the page cache without a bound.
    pub cache_bytes: u64,
    /// Memtable of the LSM trees; B-trees have none.
    pub memtable_bytes: u64,
    /// Tables of the LSM trees; by default each store's own size.
    pub table_bytes: Option<u64>,
    /// The first level below level 0 of the LSM trees; by default each store's own size.
    pub level_bytes: Option<u64>,
    /// Every write will be synced. Only stores that must choose at opening look at it.
    pub synced: bool,
    /// What only one store knows.
    pub own: Own,
}

impl Settings {
    /// Cache and memtable; all else by default.
    pub const fn new(cache_bytes: u64, memtable_bytes: u64) -> Settings {
        Settings { cache_bytes, memtable_bytes, table_bytes: None, level_bytes: None, synced: false, own: Own::DEFAULT }
    }
}

/// What only one store knows.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// RocksDB's.
    pub rocksdb: Rocksdb,
    /// fjall's.
    pub fjall: Fjall,
    /// LMDB's.
    pub lmdb: Lmdb,
}

impl Own {
    /// What the file that is built in says too; a test holds them together.
    pub const DEFAULT: Own = Own {
        rocksdb: Rocksdb {
            bloom_bits: 10.0,
            strict: Strict { absolute_consistency: true, track_and_verify_wals: true, paranoid_checks: true },
        },
        fjall: Fjall { journal_mib: 2048 },
        lmdb: Lmdb { map_gib: 64, readers: 256 },
    };
}

/// Of RocksDB.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rocksdb {
    /// Bits a key of its filters.
    pub bloom_bits: f64,
    /// Of the one with every check on.
    pub strict: Strict,
}

/// The checks of the strict RocksDB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strict {
    /// A log that does not end well is refused.
    pub absolute_consistency: bool,
    /// The manifest knows the logs.
    pub track_and_verify_wals: bool,
    /// What its documentation calls paranoid.
    pub paranoid_checks: bool,
}

/// Of fjall.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fjall {
    /// Its journals at most.
    pub journal_mib: u64,
}

/// Of LMDB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lmdb {
    /// Address space.
    pub map_gib: u64,
    /// Reader slots.
    pub readers: u32,
}

/// For every store alike.
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
    /// The first level of the store that reads start from.
    pub deep_level_kib: u64,
    /// Its tables.
    pub deep_table_kib: u64,
}

/// How much is asked of the stores.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Rounds at most.
    pub rounds: u64,
    /// Records that the fills write.
    pub records: u64,
    /// Numbers of threads beside one.
    pub threads: Vec<u64>,
    /// Bytes that a fill of large values writes.
    pub large_mib: u64,
    /// Bytes of the random load whose write amplification is judged.
    pub load_mib: u64,
    /// Bytes of the log that is recovered.
    pub recover_mib: u64,
    /// Tables of the store that is opened.
    pub tables: u64,
    /// Their size.
    pub table_kib: u64,
    /// Records of the growing store.
    pub growth: Vec<u64>,
    /// Cache and memtable of the store that holds four times as much.
    pub budget_mib: u64,
    /// How long the mixed load runs.
    pub mixed_seconds: u64,
    /// One point of its plot.
    pub window_seconds: u64,
}

/// The file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// For every store alike.
    pub shared: Shared,
    rocksdb: Rocksdb,
    fjall: Fjall,
    lmdb: Lmdb,
    full: Sizes,
    quick: Sizes,
}

impl File {
    /// The file at `path`, or the one that is built in.
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
                sizes.mixed_seconds,
                sizes.window_seconds,
            ];
            if whole.iter().chain(&sizes.threads).chain(&sizes.growth).any(|size| *size == 0) {
                return Err("a size of the settings is 0".into());
            }
        }
        Ok(())
    }

    /// The sizes of a full or a quick run.
    pub fn sizes(&self, quick: bool) -> &Sizes {
        if quick { &self.quick } else { &self.full }
    }

    /// What only one store knows.
    pub fn own(&self) -> Own {
        Own { rocksdb: self.rocksdb, fjall: self.fjall, lmdb: self.lmdb }
    }

    /// Cache, memtable and what only one store knows.
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
