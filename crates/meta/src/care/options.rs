//! What a caller may ask of the care of a store.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;

use waxseal_lsm::error::{Error, Result, Verdict};
use waxseal_lsm::record::{Kind, Seqno};

use super::report::Token;
use crate::seal::Seal;

/// How far a pass has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes looked at, as they are stored; never more than `total`. What of a table stands around its blocks counts once it is through, so that
    /// of the last one is not told any more. A table that is gone when its turn comes counts as looked at. `verify` counts the log too: the keys,
    /// values and companions of records that no table holds yet.
    pub done: u64,
    /// Bytes there are, as far as known when it began.
    pub total: u64,
    /// Places of damage found so far.
    pub found: u64,
}

/// Hears of progress about once a block, and ends the pass with `Break`.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// What `verify` looks at.
#[derive(Default)]
pub struct VerifyOptions<'a> {
    /// Families by name; none: all.
    pub families: Option<Vec<String>>,
    /// Hears of progress, and may end it.
    pub progress: Option<Watch<'a>>,
}

/// How `scrub` goes about it.
#[derive(Default)]
pub struct ScrubOptions<'a> {
    /// The pace; none: as fast as it goes.
    pub bytes_per_second: Option<u64>,
    /// Where the pass before stopped; none: from the beginning.
    pub resume: Option<Token>,
    /// Stop after about so many bytes, with a token to go on from; none: to the end of the pass.
    pub most_bytes: Option<u64>,
    /// Mend what is found, in this way; none: report it.
    pub repair: Option<RepairOptions<'a>>,
    /// Hears of progress, and may end it, with a token to go on from, also among the values of a table; if one of these was found damaged, the table is told of, or mended, before.
    pub progress: Option<Watch<'a>>,
}

/// How `repair` goes about it.
#[derive(Default)]
pub struct RepairOptions<'a> {
    /// Lift the fences that are there, and leave none: what was lost is given up, and reported; the damaged files are set aside.
    pub accept_loss: bool,
    /// Somebody who has the records too: a replica, a backup.
    pub source: Option<&'a dyn RepairSource>,
    /// Asked about each loss that nothing helped; none: `Decision::Quarantine`. The strictest answer about a table counts.
    pub handler: Option<&'a dyn ErrorHandler>,
    /// How often the source is asked before it counts as without an answer; 0: three times.
    pub max_retries: u32,
    /// A directory of tables that compaction had replaced.
    pub trash: Option<PathBuf>,
    /// Hears of progress, and may end it.
    pub progress: Option<Watch<'a>>,
}

/// How `salvage` goes about it.
#[derive(Default)]
pub struct SalvageOptions<'a> {
    /// Leave no fences: reads of the new store answer with what was found, also where something newer may have been lost.
    pub accept_loss: bool,
    /// Hears of progress, and may end it.
    pub progress: Option<Watch<'a>>,
}

/// A record as another copy of the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its kind: a put, or a tombstone.
    pub kind: Kind,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// Somebody who may still have what was lost. What it answers is believed only if the seal of what was lost says so. Errors: whatever keeps it from
/// looking, and it is asked again; `Io` of the kind `Interrupted` ends the repair there, before anything of the table at hand is given up.
pub trait RepairSource: Sync {
    /// The record of this key whose seal is this one, if it is there.
    fn by_seal(&self, family: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>>;
    /// All records there are with keys from `low` to `high`, both included: the seal of what was lost is not known here.
    fn by_range(&self, family: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()>;
}

/// A loss that nothing on the ladder helped: a record that can be read though nothing speaks for it, or a span in which nobody knows
/// what there was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupted {
    /// The file.
    pub file: String,
    /// The offset of the block.
    pub offset: u64,
    /// The family.
    pub family: String,
    /// The first and last place at which something may have been lost, both included. The same place twice: this one record.
    pub span: ((Vec<u8>, Seqno), (Vec<u8>, Seqno)),
    /// What is wrong.
    pub verdict: Verdict,
}

/// What becomes of a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// A fence takes its place: reads there answer corruption, the rest goes on.
    #[default]
    Quarantine,
    /// The table stays as it is, barred from compaction.
    Fail,
    /// The same, and repair ends: somebody has to look at the device. The store refuses writes until it is opened anew.
    ReadOnly,
}

/// The human, or whoever stands for one.
pub trait ErrorHandler: Sync {
    /// Called after everything else was tried: once for each record that is known to be lost (an entry that can be read but whose
    /// seal does not fit; its key is as it stands there), and once for each gap in which no such record stands. Not called with
    /// `accept_loss`: that was decided before.
    fn on_corruption(&self, event: &Corrupted) -> Decision;
}

impl RepairOptions<'_> {
    pub(super) fn retries(&self) -> u32 {
        if self.max_retries == 0 { 3 } else { self.max_retries }
    }
}

/// Tells `watch`; false if it ends the pass.
pub(super) fn goes_on(watch: &mut Option<Watch<'_>>, progress: Progress) -> bool {
    watch.as_mut().is_none_or(|watch| watch(progress).is_continue())
}

/// The error by which a walk is ended from within; never shown.
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
