//! Applies a compaction filter to the values that a pass keeps.
//!
//! In:     a value that `rules` lets a filter change: the newest of its key in the inputs, which no snapshot sees.
//! Out:    the record that replaces it, with its seqno: a tombstone or a put, sealed by the protector.
//! Holds:  a value is replaced only after it was verified. A value stays as it is if a newer version or a range delete
//!         hides it, because a merge or a query for an earlier version may need it. An expired value counts as absent
//!         and stays, too.
//! Errors: a filter that fails, or a value that cannot be read, changes nothing; both are counted.

use std::sync::Arc;

use crate::compaction_filter::{CompactionFilter, FilterDecision};
use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;
use crate::planted;
use crate::record::{Kind, Record};
use crate::seam::{Companions, PassRecord, Protection};
use crate::values::{BlobBuffer, BlobFiles};

/// The filter of a pass.
#[derive(Clone, Copy)]
pub struct FilterRule<'a> {
    /// The filter.
    pub filter: &'a CompactionFilter,
    /// Returns true if a newer version of a key may exist outside of the inputs.
    pub is_hidden: &'a (dyn Fn(&[u8]) -> bool + Sync),
}

impl std::fmt::Debug for FilterRule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterRule").field("filter", self.filter).finish_non_exhaustive()
    }
}

/// The results of a filter.
#[derive(Clone, Debug, Default)]
pub struct FilterCounts {
    /// Ledger of the values that were dropped.
    pub dropped: Ledger,
    /// Ledger of the original values of changed records.
    pub changed: Ledger,
    /// Number of values that stay because the filter failed.
    pub failures: u64,
    /// Number of values that stay because their blob files could not be read.
    pub unreadable: u64,
    /// The first failure of the filter.
    pub error: Option<Error>,
}

impl FilterCounts {
    /// Adds the counts of the next part.
    pub fn add(&mut self, part: FilterCounts) {
        self.dropped.merge(&part.dropped);
        self.changed.merge(&part.changed);
        self.failures += part.failures;
        self.unreadable += part.unreadable;
        self.error = self.error.take().or(part.error);
    }
}

impl FilterRule<'_> {
    /// Calls the filter for a value. Errors: those of a store that closes.
    pub(super) fn decide(
        &self,
        record: &Record<'_>,
        blob_files: Option<&Arc<BlobFiles>>,
        counts: &mut FilterCounts,
    ) -> Result<FilterDecision> {
        let mut room = BlobBuffer::default();
        let value = match (record.kind, blob_files) {
            (Kind::BlobPointer, Some(blob_files)) if self.filter.needs_value() => {
                match blob_files.resolve(record, true, &mut room) {
                    Ok(whole) => whole.value,
                    Err(error) if matches!(error.kind(), ErrorKind::Corruption(_) | ErrorKind::Io(_)) => {
                        counts.unreadable += 1;
                        return Ok(FilterDecision::Keep);
                    }
                    Err(error) => return Err(error),
                }
            }
            (Kind::BlobPointer, None) if self.filter.needs_value() => return Ok(FilterDecision::Keep),
            _ => record.value,
        };
        let decision = self.filter.decide(record.key, value).unwrap_or_else(|error| {
            counts.failures += 1;
            counts.error.get_or_insert(error);
            FilterDecision::Keep
        });
        let is_hidden = || planted!(FilterIgnoresNewerVersions, false, (self.is_hidden)(record.key));
        Ok(if decision == FilterDecision::Keep || is_hidden() { FilterDecision::Keep } else { decision })
    }
}

/// Returns the record that replaces a verified one: a put of the value, or a tombstone.
pub(super) fn replacement(
    companions: &dyn Companions,
    record: &Record<'_>,
    protection: Protection,
    value: Option<Vec<u8>>,
) -> Result<PassRecord> {
    let (kind, value) = value.map_or((Kind::Delete, Vec::new()), |value| (Kind::Put, value));
    let mut companion = Vec::new();
    let result = Record { key: record.key, seqno: record.seqno, kind, value: &value, companion: &[] };
    companions.on_filter(record, &result, &mut companion)?;
    let protection = if companion.is_empty() { protection } else { Protection::Complete };
    Ok(PassRecord { key: record.key.to_vec(), seqno: record.seqno, kind, value, companion, protection, made: true })
}
