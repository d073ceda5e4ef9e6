//! Tables whose place among the commits is unknown: only the manifest has the seqno of an ingested table's records.
//!
//! Holds:  without a manifest, the records of such a table have the seqno `UNDATED`. A key that has another version
//!         elsewhere is lost, unless both have the same content: either of them may be the newer one. A loss elsewhere
//!         hides an undated record in its range, whatever the bound of the loss. A loss in an undated table hides all
//!         other versions. A range delete of the log may be older or newer than the table: all its keys are lost then.
//!         Whether the ingestion was ever committed is unknown, too. Its records are copied, because files of an
//!         ingestion that was interrupted exist only until the next open, and the report names each such table.

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::Family;
use waxseal_lsm::error::Verdict;
use waxseal_lsm::lost_range::LostRange;
use waxseal_lsm::range_delete::RangeDelete;
use waxseal_lsm::record::{MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::Check;
use waxseal_lsm::sst::Table;

use super::super::carry::term;
use super::super::report::{Finding, Outcome, finding_of};
use super::Salvage;

/// The seqno of records whose own seqno is unknown. No commit has it.
pub(super) const UNDATED: Seqno = MAX_SEQNO - 1;

/// Maximum number of lost ranges for the contested keys of one table. The last range grows beyond that.
const MAX_RANGES: usize = 64;

/// Returns true if the records of a table are undated.
pub(super) fn is_undated(table: &Table) -> bool {
    table.expected().ingest_seqno == UNDATED
}

/// Returns the seqno by which a loss is compared with a record: a loss of any seqno may be newer than an undated record.
pub(super) fn seqno_below_losses(record: &Record<'_>) -> Seqno {
    if record.seqno == UNDATED { 0 } else { record.seqno }
}

/// An undated table that was copied.
pub(super) struct UndatedTable {
    id: u32,
    family: Family,
    /// Its keys.
    keys: LostRange,
    /// Number of its records that the copy shows.
    copied: u64,
}

/// The keys of one undated table that have other versions elsewhere. Adjacent keys share a range.
#[derive(Default)]
pub(super) struct ContestedKeys {
    ranges: Vec<LostRange>,
    continues: bool,
}

impl ContestedKeys {
    /// Adds the next key of the table.
    pub(super) fn add(&mut self, key: &[u8], is_contested: bool, file: &str) {
        if is_contested {
            let is_full = self.ranges.len() == MAX_RANGES;
            match self.ranges.last_mut() {
                Some(last) if self.continues || is_full => last.to.0 = key.to_vec(),
                _ => self.ranges.push(lost_keys(key, key, file)),
            }
        }
        self.continues = is_contested;
    }
}

fn lost_keys(from: &[u8], to: &[u8], file: &str) -> LostRange {
    LostRange::over(from, to, MAX_SEQNO, file, Verdict::Missing)
}

impl Salvage<'_> {
    /// Returns true if a version of the record's key was copied, and either of the two may be the newer one.
    pub(super) fn is_contested(&self, id: u32, record: &Record<'_>, check: Check) -> bool {
        let copied = self.newest.get(&(id, hash(record.key)));
        let differs = |of: u64| {
            let term = term(&*self.parts.companions, record, check);
            term == 0 || term != of
        };
        copied.is_some_and(|(seqno, of)| (record.seqno == UNDATED || *seqno == UNDATED) && differs(*of))
    }

    /// Reports the contested keys of a table as lost.
    pub(super) fn lose_contested(&mut self, id: u32, family: &Family, keys: ContestedKeys) {
        keys.ranges.iter().for_each(|range| self.lose_undated(id, family, range));
    }

    /// Notes that a key has an undated version and another one. Returns true for a record of the undated table itself
    /// that the copy does not show for that reason.
    pub(super) fn note_contested(&mut self, id: u32, key: &[u8]) -> bool {
        self.contested.insert((id, hash(key))) && !self.accepts
    }

    /// Reports a key as lost whose undated version was copied before this record was found.
    pub(super) fn lose_contested_key(&mut self, id: u32, family: &Family, key: &[u8]) {
        if self.note_contested(id, key) {
            let holds = |table: &&mut UndatedTable| {
                let (from, to, order) = (&table.keys.from.0, &table.keys.to.0, family.order());
                table.id == id && order.compare(from, key).is_le() && order.compare(key, to).is_le()
            };
            if let Some(table) = self.undated.iter_mut().find(holds) {
                table.copied = table.copied.saturating_sub(1);
            }
        }
        self.lose_undated(id, family, &lost_keys(key, key, "CURRENT"));
    }

    /// Remembers an undated table, for the range deletes of the log and for the report. `all`: its keys.
    pub(super) fn add_undated(&mut self, id: u32, family: &Family, all: &LostRange, copied: u64) {
        if let Some(into) = self.families.get_mut(&id) {
            into.undated.push(lost_keys(&all.from.0, &all.to.0, &all.file));
        }
        self.undated.push(UndatedTable { id, family: family.clone(), keys: all.clone(), copied });
    }

    /// Reports that the records copied from undated tables may never have been in the store.
    pub(super) fn report_undated(&mut self) {
        for UndatedTable { family, keys, copied, .. } in std::mem::take(&mut self.undated) {
            if copied == 0 {
                continue; // all of it is reported as lost
            }
            let message = format!(
                "only the manifest lists the ingestions that were committed: {copied} records of this table, which may \
                 have been written to be ingested, were copied and may never have been in the store"
            );
            let outcome = if self.accepts { Outcome::Accepted } else { Outcome::Reported };
            let finding = Finding { message, outcome, verdict: Verdict::Missing, ..finding_of(&family, &keys) };
            self.report.structural += 1;
            self.report.damage.push(finding);
        }
    }

    /// Reports the undated tables as lost that a range delete of the log overlaps.
    pub(super) fn lose_undated_below(&mut self, id: u32, family: &Family, deleted: &RangeDelete) {
        let order = family.order();
        let undated = self.families.get_mut(&id).map(|into| &mut into.undated);
        let overlaps = |table: &mut LostRange| deleted.overlaps(order, &table.from.0, &table.to.0);
        let lost: Vec<LostRange> = undated.into_iter().flat_map(|tables| tables.extract_if(.., overlaps)).collect();
        for table in &lost {
            let is_it = |other: &&mut UndatedTable| other.keys.file == table.file && !self.accepts;
            self.undated.iter_mut().filter(is_it).for_each(|other| other.copied = 0);
            self.lose_undated(id, family, table);
        }
    }

    fn lose_undated(&mut self, id: u32, family: &Family, range: &LostRange) {
        let message = "only the manifest had the seqno of an ingested table: another version may be newer".to_owned();
        self.report.structural += 1;
        self.report.damage.push(Finding { message, outcome: self.outcome(), ..finding_of(family, range) });
        self.losses.add(id, self.in_old_store(range));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_keys_share_a_range_and_the_last_one_grows() {
        let mut keys = ContestedKeys::default();
        for (key, is_contested) in [(b"a", true), (b"b", true), (b"c", false), (b"d", true)] {
            keys.add(key, is_contested, "t");
        }
        assert_eq!(keys.ranges, [lost_keys(b"a", b"b", "t"), lost_keys(b"d", b"d", "t")]);
        for at in 0..=u8::MAX {
            keys.add(&[b'e', at], at % 2 == 1, "t");
        }
        assert_eq!(keys.ranges.len(), MAX_RANGES);
        assert_eq!(keys.ranges[MAX_RANGES - 1].to.0, [b'e', u8::MAX]);
    }
}
