//! Options of verify, scrub, repair and salvage.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::error::{Error, Result, Verdict};
use waxseal_lsm::record::{Kind, Seqno};

use super::report::Token;
use crate::seal::Seal;

/// Progress of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far, as stored; at most `total`. The parts of a table around its blocks count when the table is
    /// complete, so those of the last table are not reported. A table that was removed before the pass reached it
    /// counts as read. `verify` also counts the log: the keys, values and companions of records that no table holds
    /// yet.
    pub done: u64,
    /// Total bytes, as known when the pass began.
    pub total: u64,
    /// Damaged places found so far.
    pub found: u64,
}

/// Called about once per block; `Break` ends the pass.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Options of `verify`.
#[derive(Default)]
pub struct VerifyOptions<'a> {
    /// Names of the families to verify; `None` means all.
    pub families: Option<Vec<String>>,
    /// Progress callback, which may end the pass.
    pub progress: Option<Watch<'a>>,
}

/// Options of `scrub`.
#[derive(Default)]
pub struct ScrubOptions<'a> {
    /// Rate limit; `None` means unlimited.
    pub bytes_per_second: Option<u64>,
    /// Token of the previous pass; `None` starts from the beginning.
    pub resume: Option<Token>,
    /// Stop after about this many bytes and return a token; `None` means the complete pass.
    pub most_bytes: Option<u64>,
    /// Repair damage with these options; `None` only reports it.
    pub repair: Option<RepairOptions<'a>>,
    /// Progress callback. It may end the pass, also between the values of a table; the report then has a token. If a
    /// value of that table was found damaged, the table is reported or repaired first.
    pub progress: Option<Watch<'a>>,
}

/// Options of `repair`.
#[derive(Default)]
pub struct RepairOptions<'a> {
    /// Remove existing lost ranges and create none: lost records are given up and reported, and the damaged files are
    /// moved aside.
    pub accept_loss: bool,
    /// Another holder of the records, such as a replica or a backup.
    pub source: Option<&'a dyn RepairSource>,
    /// Called for each loss that no step repaired; `None` means `Decision::Quarantine`. The strictest decision about a
    /// table applies.
    pub handler: Option<&'a dyn ErrorHandler>,
    /// Number of calls to the source before it counts as unavailable; 0 means three.
    pub max_retries: u32,
    /// A directory with tables that compaction replaced.
    pub trash: Option<PathBuf>,
    /// Progress callback, which may end the pass.
    pub progress: Option<Watch<'a>>,
}

/// Options of `salvage`.
#[derive(Default)]
pub struct SalvageOptions<'a> {
    /// Create no lost ranges: reads of the new store return the found records, even where newer ones may have been
    /// lost.
    pub accept_loss: bool,
    /// The stores whose tables and log are taken where no manifest names them; empty: the store that the surviving
    /// files name. For a directory with files of several stores, whose uids the refusal lists.
    pub stores: Vec<Uid>,
    /// Hears of progress, and may end it.
    pub progress: Option<Watch<'a>>,
}

/// A record from another copy of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its kind: a put or a tombstone.
    pub kind: Kind,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// Another copy of the records, from which repair can restore lost ones. An answer is used only if it matches the seal
/// of the lost record. Errors: any failure, after which the call is repeated. `Io` of the kind `Interrupted` ends the
/// repair before any part of the current table is given up.
pub trait RepairSource: Sync {
    /// Returns the record with this key and seal, if the source has it.
    fn by_seal(&self, family: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>>;
    /// Visits all records with keys from `low` to `high`, both inclusive. Used when the seal of the lost record is
    /// unknown.
    fn by_range(&self, family: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()>;
}

/// A loss that no repair step could restore: a readable record that no seal confirms, or a span with unknown content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupted {
    /// The damaged file.
    pub file: String,
    /// The offset of the block.
    pub offset: u64,
    /// The family.
    pub family: String,
    /// First and last position at which a record may have been lost, both inclusive. Two equal positions mean a single
    /// record.
    pub span: ((Vec<u8>, Seqno), (Vec<u8>, Seqno)),
    /// The kind of damage.
    pub verdict: Verdict,
}

/// The handler's decision about a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Mark a lost range: reads of it return `Corruption`; all other reads continue.
    #[default]
    Quarantine,
    /// Keep the table unchanged and exclude it from compaction.
    Fail,
    /// As `Fail`, and the repair ends because the device must be inspected. The store rejects writes until it is
    /// reopened.
    ReadOnly,
}

/// Decides about losses, for the operator.
pub trait ErrorHandler: Sync {
    /// Called after every repair step has failed: once for each record that is known to be lost (a readable entry that
    /// does not match its seal; the key is the stored one), and once for each gap without such an entry. Not called
    /// with `accept_loss`, which has decided already.
    fn on_corruption(&self, event: &Corrupted) -> Decision;
}

impl RepairOptions<'_> {
    pub(super) fn retries(&self) -> u32 {
        if self.max_retries == 0 { 3 } else { self.max_retries }
    }
}

/// Reports progress; returns false if the callback ends the pass.
pub(super) fn goes_on(watch: &mut Option<Watch<'_>>, progress: Progress) -> bool {
    watch.as_mut().is_none_or(|watch| watch(progress).is_continue())
}

/// Returns the internal error that ends a walk early; callers never see it.
pub(super) fn cancelled() -> Error {
    Error::invalid("ended by the caller")
}

macro_rules! debug_without_callbacks {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}
debug_without_callbacks!(VerifyOptions, ScrubOptions, RepairOptions, SalvageOptions);
