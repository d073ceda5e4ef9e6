//! Folds merge operands: the operands of a key that no reader can tell apart become one, or a value with their base.
//!
//! In:     the operands of one key and one stripe (`rules`), newest first, each verified by the pass; then their base.
//! Out:    the records that replace them, newest first, and the ledger of those that are replaced.
//! Holds:  no operand is folded if a snapshot, a range delete or a retained version may be between it and its neighbor:
//!         the pass ends the group there. A result has the seqno of its newest operand.
//! Errors: a failure of the operator changes nothing: its operands stay, or what was made of them before it.
//! Costs:  the operands of a group are in memory, those of an associative operator combined. At most
//!         `MOST_FOLDED_BYTES` of them are folded together.

use std::sync::Arc;

use crate::error::Result;
use crate::ledger::Ledger;
use crate::merge_operator::{MergeOperator, OperandStack};
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Companions, DropReason, PassRecord, Protection};

/// Maximum number of bytes of operands that become one record, in addition to their base.
const MOST_FOLDED_BYTES: usize = 16 << 20;

/// The merge operator of a pass, and the keys whose operands it may fold.
#[derive(Clone, Copy)]
pub struct MergeRule<'a> {
    /// The operator.
    pub operator: &'a MergeOperator,
    /// Returns false if versions of a key may exist between those of the inputs: in a lost range.
    pub is_whole: &'a (dyn Fn(&[u8]) -> bool + Sync),
}

impl std::fmt::Debug for MergeRule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergeRule").field("operator", self.operator).finish_non_exhaustive()
    }
}

/// The version below the operands of a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'r> {
    /// A verified value.
    Value(&'r Record<'r>),
    /// The key is absent below the operands.
    Absent,
    /// Not known to this pass, or not to be merged.
    Unknown,
}

/// The operands of one key that a pass has read and not written.
pub(super) struct Fold<'a> {
    rule: MergeRule<'a>,
    companions: &'a Arc<dyn Companions>,
    key: Vec<u8>,
    stack: OperandStack<Operand>,
    stripe: usize,
    /// The seqno of the oldest operand.
    oldest: Seqno,
    bytes: usize,
    /// The operator has failed for this group.
    has_failed: bool,
    replaced: Replaced,
}

/// The newest operand of those that were combined, and its term in the ledger.
struct Operand {
    record: PassRecord,
    term: u64,
}

/// The records that merged records replace, and failures of the operator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replaced {
    pub(super) ledger: Ledger,
    pub(super) operands: u64,
    pub(super) failures: u64,
}

impl<'a> Fold<'a> {
    pub(super) fn new(rule: MergeRule<'a>, companions: &'a Arc<dyn Companions>) -> Fold<'a> {
        let (key, stack, replaced) = (Vec::new(), OperandStack::default(), Replaced::default());
        Fold { rule, companions, key, stack, stripe: 0, oldest: 0, bytes: 0, has_failed: false, replaced }
    }

    /// Returns true if the group has operands.
    pub(super) fn is_open(&self) -> bool {
        !self.stack.is_empty()
    }

    /// The key of the group.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The stripe of the group.
    pub(super) fn stripe(&self) -> usize {
        self.stripe
    }

    /// The seqno of the oldest operand of the group.
    pub(super) fn oldest(&self) -> Seqno {
        self.oldest
    }

    pub(super) fn replaced(&self) -> Replaced {
        self.replaced
    }

    /// Returns true if the group has room for this operand, which is older and in this stripe.
    pub(super) fn has_room(&self, operand: &Record<'_>, stripe: usize) -> bool {
        self.stripe == stripe && !self.has_failed && self.bytes + operand.value.len() <= MOST_FOLDED_BYTES
    }

    /// Returns true if a group may begin with an operand of this key.
    pub(super) fn may_begin(&self, key: &[u8]) -> bool {
        (self.rule.is_whole)(key)
    }

    /// Adds a verified operand, older than those of the group, or begins a group. `term`: its term in the ledger.
    pub(super) fn add(&mut self, operand: &Record<'_>, stripe: usize, (term, protection): (u64, Protection)) {
        if !self.is_open() {
            self.key.clear();
            self.key.extend_from_slice(operand.key);
            (self.stripe, self.bytes, self.has_failed) = (stripe, 0, false);
        }
        self.oldest = operand.seqno;
        self.bytes += operand.value.len();
        let entry = Operand { record: PassRecord::copy(operand, protection), term };
        let (companions, replaced) = (&**self.companions, &mut self.replaced);
        let by = (self.rule.operator, &self.key[..]);
        let operand = (entry, operand.value.to_vec(), companions.is_unproven(operand));
        let pushed = self.stack.push(by, operand, &mut |one| replaced.operand(companions, one));
        self.has_failed |= pushed.is_err();
        self.replaced.failures += pushed.is_err() as u64;
    }

    /// Ends the group. Returns the records that replace it, newest first, and whether the base is merged into them.
    pub(super) fn end(&mut self, base: Base<'_>) -> Result<(Vec<PassRecord>, bool)> {
        let (companions, replaced, operator) = (&**self.companions, &mut self.replaced, self.rule.operator);
        let by = (operator, &self.key[..]);
        if !self.has_failed && self.stack.combine(by, &mut |one| replaced.operand(companions, one)).is_err() {
            self.has_failed = true;
            replaced.failures += 1;
        }
        let merged = match base {
            _ if self.has_failed => None,
            Base::Unknown => None,
            Base::Absent => Some(self.stack.onto(by, None)),
            Base::Value(base) => Some(self.stack.onto(by, Some(base.value))),
        };
        replaced.failures += matches!(merged, Some(Err(_))) as u64;
        let is_unproven = self.stack.is_unproven();
        let operands = self.stack.take();
        let Some(Ok(value)) = merged else {
            let rows = operands.into_iter().map(|one| match one.is_combined {
                true => one.tag.record.into_merged(companions, (Kind::Merge, one.value), None, one.is_unproven),
                false => Ok(one.tag.record),
            });
            return Ok((rows.collect::<Result<_>>()?, false));
        };
        operands.iter().filter(|one| !one.is_combined).for_each(|one| replaced.operand(companions, &one.tag));
        let base = if let Base::Value(base) = base { Some(base) } else { None };
        let newest = operands.into_iter().next().map(|one| one.tag.record);
        let row =
            newest.map(|newest| newest.into_merged(companions, (Kind::Put, value), base, is_unproven)).transpose()?;
        Ok((row.into_iter().collect(), true))
    }
}

impl Replaced {
    fn operand(&mut self, companions: &dyn Companions, operand: &Operand) {
        let record = operand.record.record();
        self.ledger.add(record.kind, operand.term);
        self.operands += 1;
        companions.on_drop(&record, DropReason::Merged);
    }
}

impl PassRecord {
    /// Returns the merged record of which this is the newest operand, with companions derived from it and the base.
    /// `is_unproven`: some operand has no seal that proves what was put.
    fn into_merged(
        self,
        companions: &dyn Companions,
        (kind, value): (Kind, Vec<u8>),
        base: Option<&Record<'_>>,
        is_unproven: bool,
    ) -> Result<PassRecord> {
        let mut companion = Vec::new();
        let result = Record { key: &self.key, seqno: self.seqno, kind, value: &value, companion: &[] };
        let inputs: Vec<Record<'_>> = base.copied().into_iter().chain([self.record()]).collect();
        companions.on_merge(&inputs, is_unproven, &result, &mut companion)?;
        let protection = if companion.is_empty() { self.protection } else { Protection::Complete };
        Ok(PassRecord { key: self.key, seqno: self.seqno, kind, value, companion, protection, made: true })
    }
}
