//! The filters of a table, as a verification uses them: they must have every key of the table.
//!
//! In:    the keys of records. Out: an error for a key that a read would not find, or a prefix that a scan would skip.

use super::filter::BloomFilter;
use super::policy_filter::PolicyFilter;
use crate::checksum::hash;
use crate::error::{Error, Result};
use crate::order::Order;
use crate::prefix_extractor::{PrefixExtractor, prefix_hash};

/// The filters for a range of a table's keys.
#[derive(Clone, Copy)]
pub(in crate::sst) struct KeyFilters<'a> {
    /// The engine's filter, if the table has one.
    pub(in crate::sst) own: Option<&'a BloomFilter>,
    /// The rule of the prefixes that the engine's filter has beside the keys.
    pub(in crate::sst) prefixes: Option<PrefixExtractor>,
    /// The filter of a policy, if the table has one.
    pub(in crate::sst) policy: Option<&'a PolicyFilter>,
}

impl KeyFilters<'_> {
    /// Fails with `Corruption` if a filter excludes the key, or if the engine's filter excludes its prefix.
    pub(in crate::sst) fn check(&self, key: &[u8], order: &Order) -> Result<()> {
        let prefix = self.prefixes.and_then(|rule| rule.prefix_of(key)).map(prefix_hash);
        let hashes = || [Some(hash(key)), prefix].into_iter().flatten();
        let own_lacks = self.own.is_some_and(|own| hashes().any(|hash| !own.may_contain(hash)));
        if own_lacks || self.policy.is_some_and(|policy| !policy.may_contain(key, order)) {
            return Err(Error::structural("the filter denies a key of the table"));
        }
        Ok(())
    }
}
