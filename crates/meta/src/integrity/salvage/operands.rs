//! Merge operands under salvage.
//!
//! Holds:  the value of a key depends on its operands and on the newest version below them that is no operand. With a
//!         manifest, tables are read from the oldest to the newest, the log last, and operands are copied in that
//!         order, behind what is below them. A loss that concerns the key makes a lost range, which covers the copies.
//!         Without a manifest, replaced tables may have the same operands once more: the key is lost.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::Family;
use waxseal_lsm::error::{Result, Verdict};
use waxseal_lsm::record::{AsRecord, Kind, OwnedRecord, Record};
use waxseal_lsm::seam::Check;

use super::super::carry::term;
use super::super::report::{Finding, Outcome};
use super::Salvage;

/// The operands of one key of a table, from the newest to the oldest.
#[derive(Default)]
pub(super) struct WaitingOperands {
    key: Vec<u8>,
    operands: Vec<(OwnedRecord, Check)>,
    /// The table has a version of the key below the operands that is no operand: what follows is hidden.
    has_base: bool,
}

impl Salvage<'_> {
    /// Copies a record of a table, where the versions of a key come from the newest to the oldest: operands wait for
    /// what is below them.
    pub(super) fn take_of_table(&mut self, id: u32, family: &Family, record: &Record<'_>, check: Check) -> Result<()> {
        if self.waiting.key != record.key {
            self.take_waiting(id, family)?;
            self.waiting.key.extend_from_slice(record.key);
        }
        match record.kind {
            Kind::Merge if !check.serves() => self.take(id, family, record, check, false),
            Kind::Merge if self.waiting.has_base => Ok(()),
            Kind::Merge => {
                self.waiting.operands.push((OwnedRecord::try_of(record)?, check));
                Ok(())
            }
            _ => {
                self.waiting.has_base = true;
                self.take(id, family, record, check, false)
            }
        }
    }

    /// Copies the waiting operands, the oldest first.
    pub(super) fn take_waiting(&mut self, id: u32, family: &Family) -> Result<()> {
        for (operand, check) in std::mem::take(&mut self.waiting).operands.iter().rev() {
            self.take(id, family, &operand.as_record(), *check, false)?;
        }
        Ok(())
    }

    /// Copies an operand behind everything that is below it.
    pub(super) fn take_operand(
        &mut self,
        id: u32,
        family: &Family,
        record: &Record<'_>,
        check: Check,
        is_unemitted: bool,
    ) -> Result<()> {
        if self.again {
            return Ok(());
        }
        let newest = self.newest.get(&(id, hash(record.key))).map_or(0, |(newest, _)| *newest);
        let is_accepted = family.check_operand(record.key, record.value).is_ok();
        if self.state.is_none() || !is_accepted || newest > record.seqno {
            if !is_accepted {
                self.report_unknown_operator(id, family);
            }
            self.add_unread(id, record, check, (String::new(), Verdict::Missing));
            return Ok(());
        }
        self.newest.insert((id, hash(record.key)), (record.seqno, term(&*self.parts.companions, record, check)));
        self.push(family, record, check, is_unemitted)
    }

    /// Reports, once for each family, that its operands cannot be copied.
    fn report_unknown_operator(&mut self, id: u32, family: &Family) {
        if self.unknown_operators.insert(id) {
            let name = family.merge_operator().map_or("", |operator| operator.name());
            let message = format!(
                "keys with merge operands are lost: the family needs merge operator {name:?}, which was not given; salvage \
                 with a program that has it, or compact the store there first"
            );
            let family = Some(family.name().to_owned());
            self.report.damage.push(Finding { family, message, outcome: Outcome::Reported, ..Finding::default() });
        }
    }
}
