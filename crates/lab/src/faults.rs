//! Fault injection: one interface for tests, benchmarks and fuzzers.
//!
//! A *cell* consists of a site (where), a target (which part of a record or file) and a number of bits. Impossible
//! cells are marked with the reason. Every other cell can be injected any number of times, from a seed, and its outcome
//! is judged against a model.
//!
//! ```text
//! stage       a small store on a simulated disk with its model: reads everything, judges
//! strike      one fault in one cell, in transit, in memory or at rest
//! damage      flips, zeroes, removes and duplicates bytes
//! redirect    a file system that answers a read with other bytes of the same file
//! anatomy     positions of all parts of a table file: a second reader of docs/format.md
//! protectors  record protectors with deliberate faults or omissions
//! ```

pub mod anatomy;
mod damage;
pub mod protectors;
mod reach;
mod redirect;
mod stage;
mod strike;

pub use damage::Dice;
pub use stage::{Told, clean};
pub use strike::inject;

/// The site of a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Site {
    /// A batch in memory, between the last operation and the commit.
    Batch,
    /// A log segment on disk.
    Log,
    /// The ring file: the newest bytes of the log.
    Ring,
    /// A record in a memtable.
    Memtable,
    /// The links that lead to a memtable's record.
    MemtableLinks,
    /// The version of the levels in memory.
    VersionLinks,
    /// Records and blocks between memtable and table.
    FlushBuffer,
    /// Records and blocks between a compaction's inputs and outputs.
    MergeBuffer,
    /// Data blocks on disk.
    TableData,
    /// The index block on disk.
    TableIndex,
    /// The filter on disk.
    TableFilter,
    /// The properties on disk.
    TableProperties,
    /// The footer on disk.
    TableFooter,
    /// A data block in the cache, after it was checked.
    CachedBlock,
    /// The index of an open table.
    IndexInMemory,
    /// A line of the filter of an open table.
    FilterInMemory,
    /// A seal that was damaged before its block's checksum was computed.
    SealWord,
    /// The manifest on disk.
    Manifest,
    /// A blob file on disk.
    BlobFile,
}

/// The damaged part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Target {
    /// A user key.
    Key,
    /// A value.
    Value,
    /// The kind byte of a record.
    Kind,
    /// The seqno of a record.
    Seqno,
    /// The seal of a record.
    Seal,
    /// The lengths of a record.
    Lengths,
    /// A provider's entry of a record.
    Payload,
    /// The stamp of a watched record.
    Stamp,
    /// Any byte of the site.
    Any,
    /// A record is removed.
    Dropped,
    /// A record is duplicated.
    Duplicated,
    /// Bytes are replaced by zeros.
    Zeroed,
    /// A read returns bytes from another position.
    Misdirected,
    /// Old bytes reappear.
    Stale,
}

/// The number of flipped bits, for targets with bit flips.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Bits {
    /// One bit.
    One,
    /// Two bits, anywhere in the target.
    Two,
    /// Three bits.
    Three,
    /// Flips the ends of up to 32 consecutive bits, and each bit between with probability 1/2.
    Burst,
    /// The target has no bit flips.
    Whole,
}

/// One kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[expect(missing_docs, reason = "the three words of the matrix")]
pub struct Cell {
    pub site: Site,
    pub target: Target,
    pub bits: Bits,
}

/// The outcome of one fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Outcome {
    /// Every answer was right, and nothing was repaired.
    Correct,
    /// Every answer was right, and a repair was reported.
    Repaired,
    /// Some answer was an error, and none was wrong.
    Error,
    /// An existing record is missing, and no error reports it.
    HiddenLoss,
    /// An answer was wrong.
    SilentWrong,
    /// The process would have crashed.
    Panic,
}

impl Site {
    /// Every site.
    pub const ALL: [Site; 19] = [
        Site::Batch,
        Site::Log,
        Site::Ring,
        Site::Memtable,
        Site::MemtableLinks,
        Site::VersionLinks,
        Site::FlushBuffer,
        Site::MergeBuffer,
        Site::TableData,
        Site::TableIndex,
        Site::TableFilter,
        Site::TableProperties,
        Site::TableFooter,
        Site::CachedBlock,
        Site::IndexInMemory,
        Site::FilterInMemory,
        Site::SealWord,
        Site::Manifest,
        Site::BlobFile,
    ];
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 14] = [
        Target::Key,
        Target::Value,
        Target::Kind,
        Target::Seqno,
        Target::Seal,
        Target::Lengths,
        Target::Payload,
        Target::Stamp,
        Target::Any,
        Target::Dropped,
        Target::Duplicated,
        Target::Zeroed,
        Target::Misdirected,
        Target::Stale,
    ];

    /// Returns the possible numbers of flipped bits.
    pub fn bits(self) -> &'static [Bits] {
        match self {
            Target::Dropped | Target::Duplicated | Target::Zeroed | Target::Misdirected | Target::Stale => {
                &[Bits::Whole]
            }
            _ => &[Bits::One, Bits::Two, Bits::Three, Bits::Burst],
        }
    }
}

impl Cell {
    /// Iterates over every cell of the matrix, possible or not.
    pub fn all() -> impl Iterator<Item = Cell> {
        let targets =
            || Target::ALL.into_iter().flat_map(|target| target.bits().iter().map(move |bits| (target, *bits)));
        Site::ALL.into_iter().flat_map(move |site| targets().map(move |(target, bits)| Cell { site, target, bits }))
    }

    /// Returns true if a miss here is outside the guarantees: it is counted and shown, not forbidden.
    /// docs/integrity.md. Key and seqno of a memtable's record belong to the links to it.
    pub fn is_exempt(self) -> bool {
        matches!(
            (self.site, self.target),
            (Site::MemtableLinks | Site::VersionLinks, _) | (Site::Memtable, Target::Key | Target::Seqno)
        )
    }

    /// Returns the reason why the fault is impossible, or `None`.
    pub fn impossible(self) -> Option<&'static str> {
        use Site::*;
        use Target::*;
        let record = matches!(self.target, Key | Value | Kind | Seqno | Seal | Lengths | Payload | Stamp);
        match (self.site, self.target) {
            (BlobFile, Stale) => Some("a file that is written once: nothing stood there before"),
            (BlobFile, Dropped | Duplicated) => Some("values are found by their places: see any"),
            (BlobFile, _) if record => Some("values are found by their places: see any"),
            (MemtableLinks | VersionLinks, Dropped) => None,
            (MemtableLinks | VersionLinks, _) => Some("a link leads somewhere or nowhere: it has no other part"),
            (SealWord, Seal) => None,
            (SealWord, _) => Some("the site is the seal"),
            (TableIndex | TableFilter | TableProperties | TableFooter | Manifest, _) if record => {
                Some("no record stands here: see any")
            }
            (IndexInMemory | FilterInMemory, Any) => None,
            (IndexInMemory | FilterInMemory, Zeroed) => Some("a run of zeros here is a burst: see any"),
            (IndexInMemory | FilterInMemory, _) => Some("memory that holds no record and is not read from anywhere"),
            (TableIndex | TableFilter | TableProperties | TableFooter | Manifest, Dropped | Duplicated) => {
                Some("no record stands here: see any")
            }
            (Batch, Seqno) => Some("a batch has no seqno yet"),
            (Batch, Dropped | Duplicated) => Some("before the commit nobody but the caller knows what it is to hold"),
            (Batch | Memtable | CachedBlock | FlushBuffer, Misdirected) => Some("memory: nothing is read from a file"),
            (Batch | Memtable | CachedBlock | FlushBuffer | MergeBuffer, Stale) => {
                Some("memory that is filled once: nothing stood there before")
            }
            (Memtable, Zeroed | Any) => Some("see what a record there is made of"),
            (Memtable, Dropped) => Some("see memtable links"),
            (Memtable, Duplicated) => Some("key and seqno are unique in a memtable"),
            _ => None,
        }
    }
}

impl Outcome {
    /// Every outcome, from good to bad.
    pub const ALL: [Outcome; 6] = [
        Outcome::Correct,
        Outcome::Repaired,
        Outcome::Error,
        Outcome::HiddenLoss,
        Outcome::SilentWrong,
        Outcome::Panic,
    ];

    /// Returns true if the guarantees rule this outcome out.
    pub fn is_forbidden(self) -> bool {
        self >= Outcome::HiddenLoss
    }
}
