//! The part of a pass that folds merge operands: which records join a group (`fold`), and what the group is merged into.
//!
//! Holds:  every input of a merge is verified before anything is made of it. Results count as derived in the ledger, and
//!         the records that they replace as dropped (I11).

use super::Outputs;
use crate::compaction::fold::Base;
use crate::compaction::rules::{RecordDecision, Rules};
use crate::compaction::split::Splitter;
use crate::error::Result;
use crate::planted;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{DropReason, Protection, RecordSource};
use crate::values::BlobBuffer;

impl Outputs<'_> {
    /// Takes a record into the group of merge operands, or ends the group before it. `newer`: the oldest range delete
    /// above the record. Returns the decision on the record, and whether the group or its result has taken it.
    pub(super) fn fold(
        &mut self,
        (record, source): (&Record<'_>, RecordSource<'_>),
        (decision, newer): (RecordDecision, Option<Seqno>),
        rules: &Rules<impl FnMut(&[u8]) -> bool>,
        splitter: &mut Splitter,
    ) -> Result<(RecordDecision, bool)> {
        let Some(fold) = &self.fold else { return Ok((decision, false)) };
        let is_kept = decision == RecordDecision::Keep;
        let is_operand = is_kept && record.kind == Kind::Merge && self.may_derive(record);
        let stripe = rules.merged_stripe();
        if fold.is_open() {
            if newer.is_some_and(|newer| newer < fold.oldest()) {
                self.end_fold(Base::Absent, splitter)?;
            } else if is_operand && stripe.is_some_and(|stripe| fold.has_room(record, stripe)) {
                return self.add_operand((record, source), stripe).map(|()| (decision, true));
            } else if stripe == Some(fold.stripe()) && decision == RecordDecision::Hold(DropReason::Expired) {
                self.end_fold(Base::Absent, splitter)?;
            } else if stripe == Some(fold.stripe()) && record.kind == Kind::Delete {
                let is_merged = self.end_fold(Base::Absent, splitter)?;
                return Ok((if is_merged { RecordDecision::Drop(DropReason::Shadowed) } else { decision }, false));
            } else if stripe == Some(fold.stripe()) && is_kept && record.kind.is_value() && self.is_base(record) {
                let is_merged = self.fold_into((record, source), splitter)?;
                return Ok((decision, is_merged));
            } else {
                self.end_fold(Base::Unknown, splitter)?;
            }
        }
        let begins =
            is_operand && stripe.is_some() && self.fold.as_ref().is_some_and(|fold| fold.may_begin(record.key));
        if begins {
            self.add_operand((record, source), stripe)?;
        }
        Ok((decision, begins))
    }

    /// True if the protector can make the companions of a record that replaces this one.
    fn may_derive(&self, record: &Record<'_>) -> bool {
        !self.is_strange && (record.companion.is_empty() || self.job.companions.protection() != Protection::None)
    }

    /// True if operands may be folded into a value. An expiry forbids it: until then the value belongs to them, and
    /// afterwards they begin with nothing.
    fn is_base(&self, record: &Record<'_>) -> bool {
        self.may_derive(record)
            && planted!(OperandsFoldedIntoExpiring, true, self.job.companions.expiry(record).is_none())
    }

    fn add_operand(&mut self, (record, source): (&Record<'_>, RecordSource<'_>), stripe: Option<usize>) -> Result<()> {
        let term = self.term_of_merged(record, source)?;
        if let (Some(fold), Some(stripe)) = (&mut self.fold, stripe) {
            fold.add(record, stripe, (term, source.protection));
        }
        Ok(())
    }

    /// Returns the ledger term of an input of a merge, which must be verified before anything is derived from it.
    fn term_of_merged(&mut self, record: &Record<'_>, source: RecordSource<'_>) -> Result<u64> {
        planted!(MergeSealNotVerified => return Ok(self.job.companions.term(record)));
        self.term_of_dropped(record, source)
    }

    /// Merges the group into a value, and drops the value. Returns false if both stay.
    fn fold_into(
        &mut self,
        (record, source): (&Record<'_>, RecordSource<'_>),
        splitter: &mut Splitter,
    ) -> Result<bool> {
        let mut room = BlobBuffer::default();
        let whole = match self.job.values {
            Some(values) => values.resolve(record, true, &mut room),
            None if record.kind == Kind::Put => Ok(*record),
            None => return self.end_fold(Base::Unknown, splitter),
        };
        // A value that cannot be read stays where it is: its own reads report it.
        let Ok(whole) = whole else { return self.end_fold(Base::Unknown, splitter) };
        let term = self.term_of_merged(&whole, source)?;
        let is_merged = self.end_fold(Base::Value(&whole), splitter)?;
        if is_merged {
            self.dropped.add(record.kind, term);
            self.job.companions.on_drop(record, DropReason::Merged);
        }
        Ok(is_merged)
    }

    /// Ends the group of a key all of whose records have been decided.
    pub(super) fn end_key(
        &mut self,
        rules: &mut Rules<impl FnMut(&[u8]) -> bool>,
        splitter: &mut Splitter,
    ) -> Result<()> {
        let Some(fold) = self.fold.as_ref().filter(|fold| fold.is_open()) else { return Ok(()) };
        let base = if rules.is_bottom(fold.key()) { Base::Absent } else { Base::Unknown };
        self.end_fold(base, splitter).map(drop)
    }

    /// Writes what the group is merged into. Returns false if its operands stay.
    fn end_fold(&mut self, base: Base<'_>, splitter: &mut Splitter) -> Result<bool> {
        let Some(fold) = &mut self.fold else { return Ok(false) };
        let (rows, is_merged) = fold.end(base)?;
        for row in &rows {
            if row.made {
                self.derived.add(row.kind, self.job.companions.term(&row.record()));
            }
            self.put(&row.record(), row.protection, splitter)?;
        }
        Ok(is_merged)
    }
}
