//! The options of a pass over records, and its result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use super::filter::{FilterCounts, FilterRule};
use super::fold::MergeRule;
use crate::checksum::Uid;
use crate::ledger::Ledger;
use crate::range_index::RangeIndex;
use crate::record::Seqno;
use crate::seam::{Companions, Emitted, Emitting};
use crate::sst::CompanionSummary;
use crate::version::TableMeta;

/// Deviations of a pass from the usual way.
#[derive(Clone, Debug, Default)]
pub struct PassOptions<'a> {
    /// The companions that the inputs carry; `None`: those that the protector makes.
    pub carried: Option<CompanionSummary>,
    /// True to check each record at its source.
    pub checks_inputs: bool,
    /// True to request rows for other families from the protector.
    pub emits: Option<Emitting<'a>>,
    /// Removes expired values; `None` keeps them.
    pub expires: Option<ExpiryRule<'a>>,
    /// Folds merge operands; `None` keeps them.
    pub merges: Option<MergeRule<'a>>,
    /// Applies a compaction filter; `None` keeps all values.
    pub filters: Option<FilterRule<'a>>,
    /// Value files whose values are rewritten.
    pub collects: BTreeSet<Uid>,
    /// The range deletes that may drop records: durable ones, none of which leaves the store during the pass.
    pub ranges: Option<RangeIndex>,
    /// The seqno of the newest of them; 0 if there is none.
    pub ranges_through: Seqno,
    /// Set when the results are no longer wanted: the pass stops with `Closed`.
    pub stop: Option<&'a AtomicBool>,
}

/// Decides which expired values may be removed. A value hidden by a newer version may be one that the newer version
/// retains, until the two are merged.
#[derive(Clone, Copy)]
pub struct ExpiryRule<'a> {
    /// No reader sees records that expired by this time: microseconds since 1970, read before the first call of
    /// `is_hidden`.
    pub now: u64,
    /// Returns true if a newer version of a key may exist outside of the inputs.
    pub is_hidden: &'a (dyn Fn(&[u8]) -> bool + Sync),
}

impl std::fmt::Debug for ExpiryRule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expires").field("now", &self.now).finish_non_exhaustive()
    }
}

/// Rows produced for other families, by family, with their ledger.
#[derive(Clone, Debug, Default)]
pub struct EmittedRows(BTreeMap<u32, (Ledger, Vec<Emitted>)>);

impl EmittedRows {
    /// Adds rows, and counts them.
    pub fn extend(&mut self, protector: &dyn Companions, rows: impl IntoIterator<Item = Emitted>) {
        for row in rows {
            let (ledger, rows) = self.0.entry(row.family).or_default();
            ledger.add(row.kind(), protector.term(&row.record()));
            rows.push(row);
        }
    }

    /// Returns the family, ledger and rows of each family.
    pub fn into_families(self) -> impl Iterator<Item = (u32, Ledger, Vec<Emitted>)> {
        self.0.into_iter().map(|(family, (ledger, rows))| (family, ledger, rows))
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default)]
pub struct PassResult {
    /// The tables.
    pub tables: Vec<TableMeta>,
    /// Ledger of the records dropped because they had expired.
    pub expired: Ledger,
    /// Rows for other families.
    pub rows: EmittedRows,
    /// The results of the compaction filter.
    pub filtered: FilterCounts,
    /// Number of merge operands that were folded into one another or into values.
    pub operands_folded: u64,
    /// Number of times that the merge operator failed: its operands stay.
    pub merge_failures: u64,
    /// Number of damaged companions restored to their original bytes.
    pub mended: u64,
    /// Number of records that were given a companion.
    pub adopted: u64,
    /// Bytes of the value files written.
    pub value_bytes: u64,
    /// Number of values moved out of files being collected.
    pub values_moved: u64,
    /// Number of values that could not be moved because they are unreadable: they stay in place.
    pub values_unreadable: u64,
    /// The seqno of the oldest range delete that may hide a record which was kept: the next one after the record's. The
    /// index has left out older range deletes that only a reader of earlier versions asks for (`Db::get_before`).
    pub hidden_by: Option<Seqno>,
}

impl PassResult {
    /// Adds the result of the next part.
    pub(super) fn receive(&mut self, part: PassResult) {
        self.tables.extend(part.tables);
        for (family, (ledger, rows)) in part.rows.0 {
            let (all, together) = self.rows.0.entry(family).or_default();
            all.merge(&ledger);
            together.extend(rows);
        }
        self.expired.merge(&part.expired);
        self.filtered.add(part.filtered);
        self.operands_folded += part.operands_folded;
        self.merge_failures += part.merge_failures;
        self.mended += part.mended;
        self.adopted += part.adopted;
        self.value_bytes += part.value_bytes;
        self.values_moved += part.values_moved;
        self.values_unreadable += part.values_unreadable;
        self.hidden_by = self.hidden_by.into_iter().chain(part.hidden_by).min();
    }
}
