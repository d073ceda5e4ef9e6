//! Merged values: turns a key whose newest version is a merge operand into the record that a read returns.
//!
//! In:     a family and its pinned view, the key, and the seqno of the read.
//! Out:    a put with the seqno of the newest operand, made by the family's merge operator.
//! Holds:  each version on the way is found by the ordinary search, at the seqno below the version before. Lost ranges,
//!         range deletes and damage therefore count as in any read, and every input is verified, whatever the checks of
//!         the read. The protector makes the companions of the result only afterwards.
//! Expiry: operands never expire. The base is judged once. If it has expired, it counts as absent; otherwise the result
//!         keeps its expiry.
//! Costs:  one search for each operand. Values under an associative operator are combined on the way; for another
//!         operator all operands are held in memory.

use super::values::fetch_by;
use super::{ReadPoint, Reads, unread};
use crate::checksum::hash_key;
use crate::db::state::family::{Family, View};
use crate::env::try_copy;
use crate::error::{Error, IoContext, Result};
use crate::interrupt;
use crate::merge_operator::OperandStack;
use crate::record::{Kind, OwnedRecord, Record, Seqno};
use crate::sst::Checks;

impl Reads {
    /// Passes the merged record of a key to `visit`. The key's newest version at the read's seqno is an operand.
    ///
    /// Errors: `Invalid` if the family's merge operator fails or is not known; damage of any input.
    #[cold]
    #[inline(never)]
    pub(in crate::db) fn merged_in(
        &self,
        of: (&Family, &View),
        key: &[u8],
        moment: ReadPoint,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<()> {
        self.merged_above(of, (key, 0), moment, checks, visit)
    }

    /// As `merged_in`; versions below the seqno `hidden` count as absent. For reads of earlier versions, whose range
    /// deletes the search does not know.
    pub(in crate::db) fn merged_above(
        &self,
        of: (&Family, &View),
        (key, hidden): (&[u8], Seqno),
        moment: ReadPoint,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<()> {
        let Some(operator) = of.0.merge_operator() else {
            return Err(Error::invalid(format!("column family {:?} has no merge operator", of.0.name())));
        };
        let checks = Checks { each: self.verifies(), ..checks };
        let moment = moment.fixed(self.expiry_clock());
        let mut operands = OperandStack::default();
        let (mut newest, mut at) = (None, moment.seqno);
        let base = loop {
            interrupt::check()?;
            match self.copy_of_version(of, key, at, checks)?.filter(|record| record.seqno >= hidden) {
                Some(record) if record.kind == Kind::Merge => {
                    let next = record.seqno.checked_sub(1);
                    let is_unproven = self.companions.is_unproven(&record.borrow());
                    let operand = try_copy(&record.value).during(|| "copying an operand")?;
                    operands.push((operator, key), ((), operand, is_unproven), &mut |()| ())?;
                    newest.get_or_insert(record);
                    match next {
                        Some(next) => at = next,
                        None => break None,
                    }
                }
                Some(record) => break self.base_of(of, record, moment, checks)?,
                None => break None,
            }
        };
        let newest = newest.ok_or_else(|| Error::structural("an operand that is not found again"))?;
        operands.combine((operator, key), &mut |()| ())?;
        let value = operands.onto((operator, key), base.as_ref().map(|base| &base.value[..]))?;
        let result = Record { key, seqno: newest.seqno, kind: Kind::Put, value: &value, companion: &[] };
        let inputs: Vec<Record<'_>> = base.iter().chain([&newest]).map(OwnedRecord::borrow).collect();
        let mut companion = Vec::new();
        self.companions.on_merge(&inputs, operands.is_unproven(), &result, &mut companion)?;
        visit(&Record { companion: &companion, ..result });
        Ok(())
    }

    /// Copies the newest version of a key at or below a seqno.
    fn copy_of_version(
        &self,
        of: (&Family, &View),
        key: &[u8],
        seqno: Seqno,
        checks: Checks,
    ) -> Result<Option<OwnedRecord>> {
        let (known_hash, mut found) = (of.0.order().is_hashable().then(|| hash_key(key)), None);
        self.version_in(of, (key, known_hash), seqno, checks, |record| found = Some(OwnedRecord::try_of(record)))?;
        found.transpose()
    }

    /// Returns the version below the operands with its value; `None` if it counts as absent.
    fn base_of(
        &self,
        of: (&Family, &View),
        version: OwnedRecord,
        moment: ReadPoint,
        checks: Checks,
    ) -> Result<Option<OwnedRecord>> {
        let record = version.borrow();
        match record.kind {
            Kind::Delete => Ok(None),
            Kind::Put | Kind::BlobPointer => {
                if self.is_value(&record, moment.as_of, checks) == Some(false) {
                    return Ok(None);
                }
                let mut base = None;
                self.show_whole(of, &record, fetch_by(checks), &mut |whole| base = Some(OwnedRecord::try_of(whole)))?;
                base.transpose()
            }
            kind => Err(unread(kind)),
        }
    }
}
