//! What a step is called, and what may be known of it before it runs.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// All keys in order.
    FillSeq,
    /// `num` records in random order, about 63 % of them new.
    FillRandom,
    /// The same in batches.
    FillBatch,
    /// `num` records over existing ones, in another random order.
    Overwrite,
    /// `ops` records in random order, each synced before it is acknowledged.
    FillSync,
    /// Waits until flushes and compactions have nothing left to do.
    Settle,
    /// Keys that exist, drawn evenly.
    ReadRandom,
    /// Keys that do not exist, between those that do.
    ReadMissing,
    /// Every row, upwards, once a thread.
    ReadSeq,
    /// Every row, downwards, once a thread.
    ReadReverse,
    /// A seek to a key that exists, and ten rows.
    SeekRandom,
    /// Random reads while one more thread overwrites.
    ReadWhileWriting,
    /// Deletes of keys drawn evenly.
    DeleteRandom,
    /// Half reads, half updates; zipfian, like the other mixes.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Reads.
    YcsbC,
    /// 95 % reads of recent records, 5 % inserts.
    YcsbD,
    /// 95 % scans of 1 to 100 rows, 5 % inserts.
    YcsbE,
    /// Half reads, half read-modify-writes.
    YcsbF,
    /// A queue: a row is put at the end, the first is looked for and deleted.
    Queue,
    /// Half reads, 45 % updates, 5 % scans, for so many seconds and not so many operations; one point a window.
    Mixed,
    /// Makes durable what was acknowledged.
    Sync,
    /// The opening of the store and the first read; the first step, if it is asked for.
    Open,
}

impl Step {
    /// The name as the command line and the reports spell it.
    pub fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether the step only reads, so that the store's caches may be warmed before it.
    pub fn only_reads(self) -> bool {
        use Step::{ReadMissing, ReadRandom, ReadReverse, ReadSeq, SeekRandom, YcsbC};
        matches!(self, ReadRandom | ReadMissing | ReadSeq | ReadReverse | SeekRandom | YcsbC)
    }

    /// Whether it writes the store's records.
    pub fn is_fill(self) -> bool {
        use Step::{DeleteRandom, FillBatch, FillRandom, FillSeq, FillSync, Overwrite};
        matches!(self, FillSeq | FillRandom | FillBatch | Overwrite | FillSync | DeleteRandom)
    }

    /// Whether it draws keys by the zipfian law.
    pub(super) fn is_zipfian(self) -> bool {
        use Step::{Mixed, YcsbA, YcsbB, YcsbC, YcsbD, YcsbE, YcsbF};
        matches!(self, YcsbA | YcsbB | YcsbC | YcsbD | YcsbE | YcsbF | Mixed)
    }

    /// Whether it is one wait for the store and no work of the driver's threads.
    pub(super) fn is_wait(self) -> bool {
        matches!(self, Step::Settle | Step::Sync | Step::Open)
    }
}
