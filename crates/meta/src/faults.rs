//! Injected faults: one interface for tests, bench and fuzzers.
//!
//! A *cell* is a site (where), a target (what of a record or of a file) and a number of bits. A cell that cannot be is marked so, with
//! the reason; every other one can be injected as often as one likes, from a seed, and its outcome is judged against a model.
//!
//! ```text
//! stage       a small store on a simulated disk beside its model: read everything, judge
//! strike      one fault in one cell, on its way, in memory or at rest
//! damage      bytes: which of them, and what becomes of them
//! redirect    a file system that answers a read with what stands elsewhere
//! anatomy     where everything stands in a table file: a second reading of docs/format.md
//! flow        records on their way, owned and damageable
//! keepers     keepers that go wrong, or do less, on purpose
//! ```

pub mod anatomy;
mod damage;
pub mod flow;
pub mod keepers;
mod reach;
mod redirect;
mod stage;
mod strike;

pub use damage::Dice;
pub use stage::{Told, clean};
pub use strike::inject;

/// Where a fault strikes.
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
    /// What leads to a record of a memtable.
    MemtableLinks,
    /// The picture of the levels in memory.
    VersionLinks,
    /// Records and blocks between memtable and table.
    FlushBuffer,
    /// Records and blocks between tables and table.
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
    /// A seal that was hit before the sum of its block was taken.
    SealWord,
    /// The manifest on disk.
    Manifest,
    /// A value file on disk.
    ValueFile,
}

/// What is hit.
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
    /// What a provider keeps beside the record.
    Payload,
    /// Who wrote a record that is watched, and when.
    Stamp,
    /// Any byte of the site.
    Any,
    /// A record is gone.
    Dropped,
    /// A record stands there twice.
    Duplicated,
    /// A run of zeros.
    Zeroed,
    /// A read answers what stands elsewhere.
    Misdirected,
    /// What stood there before stands there again.
    Stale,
}

/// How many bits flip, where bits do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Bits {
    /// One.
    One,
    /// Two, anywhere in the target.
    Two,
    /// Three.
    Three,
    /// Up to 32 bits in a row, each or not.
    Burst,
    /// The target is not about bits.
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

/// What came of one fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Outcome {
    /// Every answer was right, and nobody had to do anything.
    Correct,
    /// Every answer was right, and somebody said that something was mended.
    Repaired,
    /// Some answer was an error, none was wrong.
    Error,
    /// A record that was there is not, and no error says so.
    HiddenLoss,
    /// An answer was wrong.
    SilentWrong,
    /// The process would have gone down.
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
        Site::ValueFile,
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

    /// How many bits may flip in it.
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
    /// Every cell of the matrix, possible or not.
    pub fn all() -> impl Iterator<Item = Cell> {
        let targets =
            || Target::ALL.into_iter().flat_map(|target| target.bits().iter().map(move |bits| (target, *bits)));
        Site::ALL.into_iter().flat_map(move |site| targets().map(move |(target, bits)| Cell { site, target, bits }))
    }

    /// True if a miss here is outside of what is promised: it is counted and shown, not forbidden. docs/integrity.md. Key and seqno of
    /// a record in a memtable are what leads to it.
    pub fn is_exempt(self) -> bool {
        matches!(
            (self.site, self.target),
            (Site::MemtableLinks | Site::VersionLinks, _) | (Site::Memtable, Target::Key | Target::Seqno)
        )
    }

    /// Why such a fault cannot be; none if it can.
    pub fn impossible(self) -> Option<&'static str> {
        use Site::*;
        use Target::*;
        let record = matches!(self.target, Key | Value | Kind | Seqno | Seal | Lengths | Payload | Stamp);
        match (self.site, self.target) {
            (ValueFile, Stale) => Some("a file that is written once: nothing stood there before"),
            (ValueFile, Dropped | Duplicated) => Some("values are found by their places: see any"),
            (ValueFile, _) if record => Some("values are found by their places: see any"),
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

    /// True if it is one that must not be.
    pub fn is_forbidden(self) -> bool {
        self >= Outcome::HiddenLoss
    }
}
