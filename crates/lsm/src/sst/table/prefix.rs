//! The filters' answer for a prefix: may the table have a key with it?
//!
//! In:    a prefix that a scan stays within.
//! Out:   "no" only if the table was written under the same extractor and every filter of the prefix's range excludes it.
//! Holds: a "no" skips the table, so it counts only from a filter line whose checksum holds. Of a partitioned filter the
//!        partitions themselves confirm that they cover the prefix: memory may have been corrupted after the search of
//!        the top level. Anything else, an unreadable partition included, is a "maybe", and the scan meets it.

use super::table::Table;
use crate::planted;
use crate::prefix_extractor::KeyPrefix;
use crate::sst::index::partitions::{IndexPartition, PartitionedIndex, TableIndex};

impl Table {
    /// Returns false if no key of the table has this prefix, as far as its filters know.
    pub fn may_contain_prefix(&self, prefix: &KeyPrefix) -> bool {
        planted!(PrefixFilterSaysNo => if prefix.hash().is_multiple_of(2) { return false; });
        if !self.has_own_filter || self.properties.prefix_extractor != Some(prefix.extractor()) {
            return true;
        }
        match &self.table_index {
            TableIndex::Whole(part) => part.may_contain(prefix.hash()),
            TableIndex::Partitioned(cut) => self.partitions_may_contain(cut, prefix),
        }
    }

    /// Asks the partitions whose ranges meet the prefix, in order.
    fn partitions_may_contain(&self, cut: &PartitionedIndex, prefix: &KeyPrefix) -> bool {
        let order = &self.records.order;
        let mut before: Option<&IndexPartition> = None;
        for at in cut.top.find(prefix.bytes(), order)..cut.parts.len() {
            let Ok(part) = self.loaded_or_read(cut, at) else { return true };
            let follows = match before {
                None => part.index.holds(prefix.bytes(), order),
                Some(before) => before.index.end() == part.index.range().first,
            };
            if !follows || part.may_contain(prefix.hash()) {
                return true;
            }
            let ends_above = prefix.is_below(&part.index.separator(part.index.end() - 1));
            if part.index.range().is_last || ends_above {
                return false;
            }
            before = Some(part);
        }
        true
    }
}
