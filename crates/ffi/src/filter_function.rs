//! Compaction filters that a caller supplies, as the engine calls them.
//!
//! A callback is called by compactions only. Its failure keeps the value, and is counted and reported.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use face::{CompactionFilter, FilterDecision, Filtered};

use crate::bytes::{taken, waxseal_bytes_t};
use crate::callback::{Context, try_ask};
use crate::error::waxseal_error_t;
use crate::failure::{Failed, Failure, Result};
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

/// The function of `waxseal_filter_fn`, not null.
type FilterFunction = unsafe extern "C" fn(
    *mut c_void,
    *const u8,
    usize,
    *const u8,
    usize,
    *mut *mut waxseal_bytes_t,
    *mut *mut waxseal_error_t,
) -> i32;

/// A compaction filter that a caller supplied, for any stores.
pub(crate) struct GivenFilter {
    name: String,
    function: FilterFunction,
    by_key: bool,
    context: Context,
}

impl GivenFilter {
    /// Validates the caller's filter. On an error the context is destroyed.
    pub(crate) fn new(
        name: Lent<'_>,
        function: waxseal_filter_fn,
        by_key: bool,
        context: Context,
    ) -> Result<Arc<GivenFilter>> {
        let name = name.text("name of the compaction filter")?.to_owned();
        let function = function.ok_or_else(|| Failure::invalid("the compaction filter is a null pointer"))?;
        Ok(Arc::new(GivenFilter { name, function, by_key, context }))
    }

    /// Returns the filter for one store.
    pub(crate) fn filter_of(self: &Arc<GivenFilter>, caller: &Caller) -> CompactionFilter {
        let (given, caller) = (Arc::clone(self), caller.clone());
        match self.by_key {
            true => CompactionFilter::by_key(&self.name, move |key| given.decide(&caller, key, &[])),
            false => CompactionFilter::new(&self.name, move |key, value| given.decide(&caller, key, value)),
        }
    }

    fn decide(&self, caller: &Caller, key: &[u8], value: &[u8]) -> Filtered {
        let mut changed: *mut waxseal_bytes_t = null_mut();
        let asked = try_ask(caller, |error| {
            let (key, value, context) = (waxseal_slice_t::of(key), waxseal_slice_t::of(value), self.context.get());
            // SAFETY: the header states the arguments and their lifetime; the context came with the function.
            unsafe { (self.function)(context, key.data, key.len, value.data, value.len, &mut changed, error) }
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
