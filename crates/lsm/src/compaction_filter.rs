//! Compaction filters: functions of the application that keep, drop or change values while a compaction rewrites them.
//!
//! Calls:  for the newest value of a key, if no snapshot sees it and no newer record hides it (`compaction::output`). A
//!         filter with `hidden_from` also gets values that only later snapshots see. Flushes, and moves of whole tables,
//!         call no filter.
//! Holds:  a filter changes values of the present only, except for `hidden_from`. A dropped value leaves a tombstone wherever an older version
//!         may exist, so no older version becomes visible.
//! Errors: a filter that returns an error or panics keeps the value. The failure is counted and reported.
//! Disk:   the name of a family's filter is in the manifest (docs/format.md, section 6). The function must be given again
//!         when the store is opened; without it, compactions keep all values.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::planted;
use crate::record::{MAX_VALUE_BYTES, Seqno};

/// The reason for the failure of a compaction filter; made of a text, or of any error by `?`.
pub type FilterFailure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a compaction filter: its decision, or the reason for a failure.
pub type Filtered = std::result::Result<FilterDecision, FilterFailure>;

/// What a compaction filter does with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// The value stays.
    Keep,
    /// The key is deleted.
    Drop,
    /// The key gets this value. It keeps its expiry, but no other annotation.
    Change(Vec<u8>),
}

/// A function of key and value.
type ByValue = Arc<dyn Fn(&[u8], &[u8]) -> Filtered + Send + Sync>;

/// A function of the key alone.
type ByKey = Arc<dyn Fn(&[u8]) -> Filtered + Send + Sync>;

/// The compaction filter of a column family. Clones are cheap.
///
/// The name is stored with the family. Another filter, which has another name, may replace it whenever the store is
/// opened.
#[derive(Clone)]
pub struct CompactionFilter {
    name: Arc<str>,
    function: Function,
    hidden_from: Option<Seqno>,
}

#[derive(Clone)]
enum Function {
    ByValue(ByValue),
    ByKey(ByKey),
    /// A stored name without a function.
    Missing,
}

/// Maximum length of a filter's name, in bytes.
const MAX_NAME_BYTES: usize = 255;

impl CompactionFilter {
    /// Returns a filter by a function of key and value. Values in blob files are read for it.
    ///
    /// Compactions call the function from several threads, with the newest value of each key that they rewrite. It
    /// must not use the store. `name` must be 1 to 255 bytes; families refuse other names.
    pub fn new(name: &str, filter: impl Fn(&[u8], &[u8]) -> Filtered + Send + Sync + 'static) -> CompactionFilter {
        CompactionFilter { name: name.into(), function: Function::ByValue(Arc::new(filter)), hidden_from: None }
    }

    /// Returns a filter by a function of the key alone, which reads no value from a blob file. As for
    /// [`new`](CompactionFilter::new) otherwise.
    pub fn by_key(name: &str, filter: impl Fn(&[u8]) -> Filtered + Send + Sync + 'static) -> CompactionFilter {
        CompactionFilter { name: name.into(), function: Function::ByKey(Arc::new(filter)), hidden_from: None }
    }

    /// Lets compactions pass values to the filter that only snapshots of this seqno or a later one see, and older
    /// versions of keys as well. The application promises that its readers at such snapshots do not see what the filter
    /// removes. Otherwise any snapshot protects the values that it sees.
    ///
    /// ```
    /// # fn main() -> waxseal_lsm::error::Result<()> {
    /// use waxseal_lsm::compaction_filter::{CompactionFilter, FilterDecision};
    ///
    /// // The commit of seqno 700 marked the accounts of this prefix as closed, and no reader shows them since.
    /// let filter = CompactionFilter::by_key("closed accounts", |key| match key.starts_with(b"closed/") {
    ///     true => Ok(FilterDecision::Drop),
    ///     false => Ok(FilterDecision::Keep),
    /// });
    /// assert_eq!(filter.hidden_from(700).name(), "closed accounts");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hidden_from(self, seqno: Seqno) -> CompactionFilter {
        CompactionFilter { hidden_from: Some(seqno), ..self }
    }

    /// Returns the seqno of `hidden_from`.
    pub(crate) fn is_hidden_from(&self) -> Option<Seqno> {
        self.hidden_from
    }

    /// Returns the filter of a stored name, which has no function.
    pub(crate) fn of_name(name: &str) -> CompactionFilter {
        CompactionFilter { name: name.into(), function: Function::Missing, hidden_from: None }
    }

    /// Returns the stored name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns false if only the filter's name is known: compactions then keep all values.
    pub fn is_known(&self) -> bool {
        !matches!(self.function, Function::Missing)
    }

    /// Returns true if a family may have a filter of this name.
    pub(crate) fn has_valid_name(&self) -> bool {
        (1..=MAX_NAME_BYTES).contains(&self.name.len())
    }

    /// Returns true if the function depends on values.
    pub(crate) fn needs_value(&self) -> bool {
        matches!(self.function, Function::ByValue(_))
    }

    /// Decides on a value; `value` may be empty if the filter needs none. Errors: `Invalid` if the function fails or
    /// panics, or returns a value that is too long.
    pub(crate) fn decide(&self, key: &[u8], value: &[u8]) -> Result<FilterDecision> {
        let called = catch_unwind(AssertUnwindSafe(|| {
            let decided = match &self.function {
                Function::ByValue(filter) => filter(key, value),
                Function::ByKey(filter) => filter(key),
                Function::Missing => Ok(FilterDecision::Keep),
            };
            decided.map_err(|reason| (reason.to_string(), reason)) // which is the application's code, too
        }));
        match called {
            Ok(Ok(FilterDecision::Change(new))) if new.len() > MAX_VALUE_BYTES => {
                let text = format!("its value of {} bytes is too long", new.len());
                Err(self.failed(key, &text, text.as_str().into()))
            }
            Ok(Ok(FilterDecision::Change(new))) if self.needs_value() && new == value => Ok(FilterDecision::Keep),
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(_)) if planted!(FailedFilterDrops, true, false) => Ok(FilterDecision::Drop),
            Ok(Err((text, reason))) => Err(self.failed(key, &text, reason)),
            Err(panic) => {
                std::mem::forget(panic); // dropping a payload would call the application's code again
                Err(self.failed(key, "it panicked", "it panicked".into()))
            }
        }
    }

    #[cold]
    fn failed(&self, key: &[u8], text: &str, reason: FilterFailure) -> Error {
        let what = format!("compaction filter {:?} failed for key \"{}\": {text}", self.name, key.escape_ascii());
        Error::invalid_because(what, reason)
    }
}

impl fmt::Debug for CompactionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompactionFilter({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error that panics when it is shown.
    #[derive(Debug)]
    struct Unshown;

    impl fmt::Display for Unshown {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no text")
        }
    }

    impl std::error::Error for Unshown {}

    #[test]
    fn a_failure_names_filter_and_key() {
        let filter = CompactionFilter::new("ages", |key, _| match key {
            b"panic" => panic!("no"),
            b"shown" => Err(Box::new(Unshown)),
            b"same" => Ok(FilterDecision::Change(b"value".to_vec())),
            _ => Err("cannot read it".into()),
        });
        for (key, reason) in [("panic", "it panicked"), ("shown", "it panicked"), ("other", "cannot read it")] {
            let error = filter.decide(key.as_bytes(), b"value").unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("ages") && error.contains(key), "{error}");
        }
        assert_eq!(filter.decide(b"same", b"value").unwrap(), FilterDecision::Keep);
    }

    #[test]
    fn a_stored_name_keeps_everything() {
        let missing = CompactionFilter::of_name("gone");
        assert!(!missing.is_known() && missing.has_valid_name() && missing.name() == "gone");
        assert_eq!(missing.decide(b"key", b"value").unwrap(), FilterDecision::Keep);
        assert!(!CompactionFilter::by_key("", |_| Ok(FilterDecision::Drop)).has_valid_name());
    }
}
