//! User-defined filters.

use std::fmt;

/// Builds and queries filters instead of the engine's own: see `CfOptions::filter_policy`.
///
/// Called concurrently from readers' threads and from flush and compaction threads.
pub trait FilterPolicy: fmt::Debug + Send + Sync + 'static {
    /// Returns the name stored in every table with a filter of this policy. Change the name when the filter format
    /// changes: a policy is only called for filters that were built under its name.
    fn name(&self) -> &str;
    /// Builds a filter of any bytes for these keys, which are in order. `None`: no filter; all these keys may be
    /// present.
    fn build(&self, keys: &[&[u8]]) -> Option<Vec<u8>>;
    /// Returns false only if `key` is certainly not among the filter's keys. A false negative hides stored records.
    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool;
}
