//! Filters of a caller's own: which keys a table certainly does not hold, said by somebody else than the engine.

use std::fmt;

/// Makes and asks filters in the place of the engine's own: see `CfOptions::filter_policy`.
///
/// It is called on readers' threads and on those that flush and compact, several at a time.
pub trait FilterPolicy: fmt::Debug + Send + Sync + 'static {
    /// The name kept in every table that it made a filter for. Give another one when the filters change: it is asked only of
    /// filters that were made under its name.
    fn name(&self) -> &str;
    /// A filter for these keys, which come in their order; any bytes. None: nothing is denied of them.
    fn build(&self, keys: &[&[u8]]) -> Option<Vec<u8>>;
    /// False only if `key` is certainly none of those that the filter was made for. A wrong "no" hides what is stored.
    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool;
}
