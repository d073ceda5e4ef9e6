//! Updates of a key by a function of the caller.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use crate::bytes::{taken, waxseal_bytes_t};
use crate::callback::ask;
use crate::error::{calls, waxseal_error_t};
use crate::failure::{Failure, failed};
use crate::family::waxseal_family_t;
use crate::handle::with;
use crate::lent::waxseal_slice_t;
use crate::reentry::Caller;
use crate::write_options::{waxseal_write_options_t, write_settings};

/// Computes the new value of a key from the present one. `value` is null if the key is absent, and valid during the
/// call only. To set the key, the callback sets `*new_value` to a bytes object of `waxseal_bytes_create`, which the
/// library destroys. If it leaves `*new_value` null, the key is deleted. It returns `WAXSEAL_OK`. A negative status is a
/// failure: the call of `waxseal_update` ends, and nothing is changed.
///
/// Called on the thread of `waxseal_update`, with no lock held, and again whenever another write changed the key
/// meanwhile. It should be short, and free of side effects or able to repeat them. It must not throw or `longjmp` out of
/// itself.
pub type waxseal_update_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        value: *const waxseal_slice_t,
        new_value: *mut *mut waxseal_bytes_t,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

calls! {
    /// Replaces the value of a key by the result of a function of it, atomically. The function runs once, and again each
    /// time that another write changed the key between its read and its change. If it deletes an absent key, nothing is
    /// written. `options` may be null; they apply to the new value.
    ///
    /// Guarantees and costs are those of `waxseal_compare_and_set`.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_compare_and_set`;
    /// `WAXSEAL_CALLBACK` with the function's reason if it fails; `WAXSEAL_INVALID` for a null function.
    fn waxseal_update(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key, change: waxseal_update_fn,
        context: *mut c_void,
    ) {
        let options = write_settings(options)?;
        let change = change.ok_or_else(|| Failure::invalid("the function of the update is a null pointer"))?;
        with(family.cast_const(), |family| {
            let caller = Caller::of(family.store());
            let changed = |value: Option<&[u8]>| {
                let value = value.map(waxseal_slice_t::of);
                let mut new_value: *mut waxseal_bytes_t = null_mut();
                let asked = ask(&caller, "the function of the update", |error| {
                    let value = value.as_ref().map_or(null(), std::ptr::from_ref);
                    // SAFETY: the header states the arguments and their lifetime; the context came with the function.
                    unsafe { change(context, value, &mut new_value, error) }
                });
                let new = if new_value.is_null() { Ok(None) } else { taken(new_value).map(Some) };
                asked?;
                new.map_err(|failure| failed("the function of the update", failure.to_string()))
            };
            family.try_update_with(key.key()?, changed, options)?;
            Ok(())
        })
    }
}
