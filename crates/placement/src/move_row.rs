//! The row of a move in the placement store.

use std::path::{Path, PathBuf};

use waxseal::Digest;
use waxseal_table::Row;

use crate::error::{Error, Result};
use crate::key_span::KeySpan;
use crate::records::RangeRow;

/// The last step of a move that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MoveStep {
    /// The move was begun.
    Planned,
    /// The destination has a copy of the range.
    Copied,
    /// The digests of range and copy were equal.
    Proved,
    /// The destination is the owner.
    Switched,
    /// The old owner no longer has the range.
    Done,
}

impl MoveStep {
    const ALL: [MoveStep; 5] =
        [MoveStep::Planned, MoveStep::Copied, MoveStep::Proved, MoveStep::Switched, MoveStep::Done];

    /// Returns the step's word.
    pub fn word(self) -> &'static str {
        match self {
            MoveStep::Planned => "planned",
            MoveStep::Copied => "copied",
            MoveStep::Proved => "proved",
            MoveStep::Switched => "switched",
            MoveStep::Done => "done",
        }
    }
}

/// A move of a range between nodes. The row keeps the proof after the last step.
#[derive(Row, Clone, Debug)]
pub(crate) struct MoveRow {
    #[column(partition_key)]
    pub(crate) number: u64,
    #[column(name = "table")]
    table: String,
    start: String,
    end: Option<String>,
    pub(crate) source: String,
    pub(crate) destination: String,
    step: String,
    /// The position in the source's change feed that the copy has durably reached.
    pub(crate) position: Option<String>,
    checkpoint: Option<String>,
    /// The family of the rows in the checkpoint.
    family: Option<String>,
    time: Option<u64>,
    records: Option<u64>,
    sum: Option<u64>,
    /// How long writes waited, in microseconds.
    pub(crate) pause_micros: Option<u64>,
}

/// What a move has proved: at a time, in microseconds since 1970, the copy in a checkpoint and the range on the source
/// had the same digest.
pub(crate) struct Proof {
    pub(crate) checkpoint: PathBuf,
    pub(crate) family: String,
    pub(crate) time: u64,
    pub(crate) digest: Digest,
}

impl MoveRow {
    pub(crate) fn new(number: u64, range: &RangeRow, destination: &str) -> MoveRow {
        let (start, end) = range.bounds();
        MoveRow {
            number,
            table: range.table.clone(),
            start: start.to_owned(),
            end: end.map(str::to_owned),
            source: range.owner.clone(),
            destination: destination.to_owned(),
            step: MoveStep::Planned.word().to_owned(),
            position: None,
            checkpoint: None,
            family: None,
            time: None,
            records: None,
            sum: None,
            pause_micros: None,
        }
    }

    /// Returns the range as its new owner's row.
    pub(crate) fn range(&self) -> RangeRow {
        RangeRow::at(&self.table, (&self.start, self.end.as_deref()), &self.destination)
    }

    pub(crate) fn span(&self) -> Result<KeySpan> {
        self.range().span()
    }

    pub(crate) fn step(&self) -> Result<MoveStep> {
        let found = MoveStep::ALL.into_iter().find(|step| step.word() == self.step);
        found.ok_or_else(|| Error::invalid(format!("this version does not know the step {:?} of a move", self.step)))
    }

    pub(crate) fn set_step(&mut self, step: MoveStep) {
        step.word().clone_into(&mut self.step);
    }

    /// Returns true if the move is from or to a node.
    pub(crate) fn concerns(&self, node: &str) -> bool {
        self.source == node || self.destination == node
    }

    /// Returns true once the destination has had a copy.
    pub(crate) fn has_copied(&self) -> bool {
        self.position.is_some()
    }

    /// Returns the name of the move's cursor in the change feed of the source.
    pub(crate) fn cursor(&self) -> String {
        format!("waxseal-placement move {}", self.number)
    }

    pub(crate) fn set_proof(&mut self, proof: Proof) {
        let Proof { checkpoint, family, time, digest } = proof;
        self.checkpoint = Some(checkpoint.display().to_string()); // beside the node's directory, which is Unicode
        (self.family, self.time) = (Some(family), Some(time));
        (self.records, self.sum) = (Some(digest.count), Some(digest.sum));
    }

    /// Returns the proof; `None` before there is one.
    pub(crate) fn proof(&self) -> Option<Proof> {
        let digest = Digest { count: self.records?, sum: self.sum? };
        let checkpoint = Path::new(self.checkpoint.as_ref()?).to_owned();
        Some(Proof { checkpoint, family: self.family.clone()?, time: self.time?, digest })
    }
}
