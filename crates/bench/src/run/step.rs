//! The names of steps, and their properties that are known before they run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Writes all keys in order.
    FillSeq,
    /// Loads all keys in order by the store's bulk load, which is durable when it returns.
    BulkLoad,
    /// Writes `num` records in random order, about 63 % of them new.
    FillRandom,
    /// Like `FillRandom`, in batches.
    FillBatch,
    /// Writes `num` records over existing ones, in another random order.
    Overwrite,
    /// Writes `ops` records in random order, each synced before it is acknowledged.
    FillSync,
    /// Waits until all flushes and compactions are done.
    Settle,
    /// Reads existing keys, drawn uniformly.
    ReadRandom,
    /// Reads 32 existing keys at a time, drawn uniformly, in one call.
    MultiGet,
    /// Looks up missing keys between existing ones.
    ReadMissing,
    /// Scans all rows forwards, once per thread.
    ReadSeq,
    /// Scans all rows backwards, once per thread.
    ReadReverse,
    /// Seeks to an existing key and reads ten rows.
    SeekRandom,
    /// Random reads while an additional thread overwrites.
    ReadWhileWriting,
    /// Deletes keys drawn uniformly.
    DeleteRandom,
    /// Half reads, half updates; zipfian, like the other mixes.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Only reads.
    YcsbC,
    /// 95 % reads of recent records, 5 % inserts.
    YcsbD,
    /// 95 % scans of 1 to 100 rows, 5 % inserts.
    YcsbE,
    /// Half reads, half read-modify-writes.
    YcsbF,
    /// A queue: a row is added at the end, and the first one is looked up and deleted.
    Queue,
    /// Adds 1 to one counter, from all threads.
    Counter,
    /// Adds 1 to one counter by merge operands, from all threads.
    Merge,
    /// A transaction reads and writes two records drawn uniformly.
    TransactLow,
    /// A transaction reads and writes two of a few records, so that most threads conflict.
    TransactHigh,
    /// Deletes a hundred adjacent keys at a time.
    DeleteRange,
    /// Reads all changes since the store was first opened, in the order of their commits.
    Changes,
    /// Adds a backup of the store to a directory beside it.
    Backup,
    /// Finds the tables that may have a key near one drawn uniformly, by a property of the tables.
    TablesWith,
    /// Compacts the whole store, with a compaction filter that drops the keys with an odd last digit.
    Compact,
    /// Reads the rows whose keys have all digits of a key drawn uniformly but the last. Every second prefix has no rows.
    ReadPrefix,
    /// Half reads, 45 % updates, 5 % scans, for a duration instead of a number of operations; one point per window.
    Mixed,
    /// Makes all acknowledged writes durable.
    Sync,
    /// Opens the store and makes the first read; it must be the first step.
    Open,
}

impl Step {
    /// Returns the name as used on the command line and in reports.
    pub fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns true if the step only reads, so that the store's caches may be warmed before it.
    pub fn only_reads(self) -> bool {
        use Step::{MultiGet, ReadMissing, ReadPrefix, ReadRandom, ReadReverse, ReadSeq, SeekRandom, YcsbC};
        let scans = matches!(self, ReadSeq | ReadReverse | SeekRandom | ReadPrefix);
        scans || matches!(self, ReadRandom | MultiGet | ReadMissing | YcsbC)
    }

    /// Returns true if it writes the store's records.
    pub fn is_fill(self) -> bool {
        use Step::{BulkLoad, DeleteRandom, FillBatch, FillRandom, FillSeq, FillSync, Overwrite};
        matches!(self, FillSeq | BulkLoad | FillRandom | FillBatch | Overwrite | FillSync | DeleteRandom)
    }

    /// Returns true if it draws keys from a zipfian distribution.
    pub(super) fn is_zipfian(self) -> bool {
        use Step::{Mixed, YcsbA, YcsbB, YcsbC, YcsbD, YcsbE, YcsbF};
        matches!(self, YcsbA | YcsbB | YcsbC | YcsbD | YcsbE | YcsbF | Mixed)
    }

    /// Returns true if a store must be opened for transactions.
    pub fn is_transactional(self) -> bool {
        matches!(self, Step::Counter | Step::TransactLow | Step::TransactHigh)
    }

    /// Returns true if a store must be opened with a merge operator.
    pub fn is_merging(self) -> bool {
        self == Step::Merge
    }

    /// Returns true if a store must keep its log for it.
    pub fn is_feeding(self) -> bool {
        self == Step::Changes
    }

    /// Returns true if a store must collect properties for it.
    pub fn is_collecting(self) -> bool {
        self == Step::TablesWith
    }

    /// Returns true if a store must be opened with the driver's compaction filter.
    pub fn is_filtering(self) -> bool {
        self == Step::Compact
    }

    /// Returns true if a store's filters should know the prefixes of the keys.
    pub fn is_prefixed(self) -> bool {
        self == Step::ReadPrefix
    }

    /// Returns true if it only waits for the store, without work for the driver's threads.
    pub(super) fn is_wait(self) -> bool {
        matches!(self, Step::Settle | Step::Sync | Step::Backup | Step::Compact | Step::Open)
    }
}
