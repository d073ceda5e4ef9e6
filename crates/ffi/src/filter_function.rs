//! Compaction filters that a caller supplies, as the engine calls them.
//!
//! A callback is called by compactions only. Its failure keeps the value, and is counted and reported.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use face::{CompactionFilter, FilterDecision, Filtered};

use crate::bytes::{taken, waxseal_bytes_t};
use crate::callback::Context;
use crate::error::waxseal_error_t;
use crate::failure::{Failed, Result};
use crate::given_function::GivenFunction;
use crate::lent::{Lent, waxseal_slice_t};
use crate::reentry::Caller;

/// The value stays.
pub const WAXSEAL_FILTER_KEEP: i32 = 1;
/// The key is deleted.
pub const WAXSEAL_FILTER_DROP: i32 = 2;
/// The key gets the value that the filter returns. It keeps its expiry, but no other annotation.
pub const WAXSEAL_FILTER_CHANGE: i32 = 3;

/// Decides on a value that a compaction rewrites. Returns `WAXSEAL_FILTER_KEEP`, `WAXSEAL_FILTER_DROP`, or
/// `WAXSEAL_FILTER_CHANGE` after it has set `*changed` to a bytes object of `waxseal_bytes_create`, which the library
/// destroys. Any other status is a failure: the value stays, and the failure is counted in the metric `filter_failures`
/// and reported to the listener. A filter by key gets an empty value. All inputs are valid during the call only.
///
/// Called on any thread, concurrently. It must not call the store whose values it filters.
pub type waxseal_filter_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        changed: *mut *mut waxseal_bytes_t,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

/// A compaction filter that a caller supplied, for any stores.
pub(crate) struct GivenFilter {
    given: GivenFunction<waxseal_filter_fn>,
    by_key: bool,
}

impl GivenFilter {
    /// Validates the caller's filter. On an error the context is destroyed.
    pub(crate) fn new(
        name: Lent<'_>,
        function: waxseal_filter_fn,
        by_key: bool,
        context: Context,
    ) -> Result<Arc<GivenFilter>> {
        let given = GivenFunction::new("compaction filter", name, function, context)?;
        Ok(Arc::new(GivenFilter { given, by_key }))
    }

    /// Returns the filter for one store.
    pub(crate) fn filter_of(self: &Arc<GivenFilter>, caller: &Caller) -> CompactionFilter {
        let (filter, caller, name) = (Arc::clone(self), caller.clone(), self.given.name());
        match self.by_key {
            true => CompactionFilter::by_key(name, move |key| filter.decide(&caller, key, &[])),
            false => CompactionFilter::new(name, move |key, value| filter.decide(&caller, key, value)),
        }
    }

    fn decide(&self, caller: &Caller, key: &[u8], value: &[u8]) -> Filtered {
        let mut changed: *mut waxseal_bytes_t = null_mut();
        let asked = self.given.try_ask(caller, |function, context, error| {
            let (key, value) = (waxseal_slice_t::of(key), waxseal_slice_t::of(value));
            // SAFETY: the header states the arguments and their lifetime; the context came with the function.
            unsafe { function(context, key.data, key.len, value.data, value.len, &mut changed, error) }
        });
        let new = taken(changed);
        match asked? {
            WAXSEAL_FILTER_KEEP => Ok(FilterDecision::Keep),
            WAXSEAL_FILTER_DROP => Ok(FilterDecision::Drop),
            WAXSEAL_FILTER_CHANGE => match new {
                Ok(new) => Ok(FilterDecision::Change(new)),
                Err(_) => Err(Failed("it left no changed value".to_owned()).into()),
            },
            other => Err(Failed(format!("it answered {other}, which is no decision")).into()),
        }
    }
}
