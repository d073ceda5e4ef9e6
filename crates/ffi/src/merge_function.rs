//! Merge operators that a caller supplies, as the engine calls them.
//!
//! A callback is called by reads and by compactions. Its failure is an error of the read, and keeps the operands in a
//! compaction.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use face::{MergeOperator, Merged};

use crate::bytes::{taken, waxseal_bytes_t};
use crate::callback::Context;
use crate::error::waxseal_error_t;
use crate::failure::{Failed, Result};
use crate::given_function::GivenFunction;
use crate::lent::{Lent, waxseal_slice_t};
use crate::reentry::Caller;

/// Merges operands into the value of a key. `base` is the value below them, null if the key is absent. `operands` are in
/// the order of their commits. All inputs are valid during the call only. The callback sets `*merged` to a bytes object
/// of `waxseal_bytes_create`, which the library destroys, and returns `WAXSEAL_OK`. A negative status is a failure: the
/// read that needs the value returns `WAXSEAL_CALLBACK`, and the operands stay.
///
/// The result may depend on the arguments alone. Called on any thread, concurrently. It must not call the store whose
/// values it merges.
pub type waxseal_merge_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: *const u8,
        key_len: usize,
        base: *const waxseal_slice_t,
        operands: *const waxseal_slice_t,
        count: usize,
        merged: *mut *mut waxseal_bytes_t,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

/// A merge operator that a caller supplied, for any stores.
pub(crate) struct GivenOperator {
    given: GivenFunction<waxseal_merge_fn>,
    is_associative: bool,
}

impl GivenOperator {
    /// Validates the caller's operator. On an error the context is destroyed.
    pub(crate) fn new(
        name: Lent<'_>,
        function: waxseal_merge_fn,
        is_associative: bool,
        context: Context,
    ) -> Result<Arc<GivenOperator>> {
        let given = GivenFunction::new("merge operator", name, function, context)?;
        Ok(Arc::new(GivenOperator { given, is_associative }))
    }

    /// Returns the operator for one store.
    pub(crate) fn operator_of(self: &Arc<GivenOperator>, caller: &Caller) -> MergeOperator {
        let (operator, caller, name) = (Arc::clone(self), caller.clone(), self.given.name());
        match self.is_associative {
            true => MergeOperator::custom(name, move |key, older, newer| {
                operator.merge(&caller, key, Some(older), &[newer])
            }),
            false => MergeOperator::custom_full(name, move |key, base, operands| {
                operator.merge(&caller, key, base, operands)
            }),
        }
    }

    fn merge(&self, caller: &Caller, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        let base = base.map(waxseal_slice_t::of);
        let operands: Vec<waxseal_slice_t> = operands.iter().copied().map(waxseal_slice_t::of).collect();
        let mut merged: *mut waxseal_bytes_t = null_mut();
        let base = base.as_ref().map_or(null(), std::ptr::from_ref);
        let asked = self.given.try_ask(caller, |function, context, error| {
            let (key, count) = (waxseal_slice_t::of(key), operands.len());
            // SAFETY: the header states the arguments and their lifetime; the context came with the function.
            unsafe { function(context, key.data, key.len, base, operands.as_ptr(), count, &mut merged, error) }
        });
        let value = taken(merged);
        asked?;
        value.map_err(|_| Failed("it left no merged value".to_owned()).into())
    }
}
