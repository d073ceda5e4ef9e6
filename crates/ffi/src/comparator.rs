//! Key orders for stores and families.

use std::ffi::c_void;

use crate::call::status_of;
use crate::callback::{Context, waxseal_destroy_fn};
use crate::error::calls;
use crate::family_options::{set_order, waxseal_family_options_t};
use crate::key_order::{Given, repeat_comparison, waxseal_compare_fn};
use crate::options::{set_calling, waxseal_options_t};

calls! {
    /// Adds a key order for families of the stores opened with these options. The store records the order's name,
    /// UTF-8, and finds the comparator by it. A store with a family in a custom order cannot be opened without that
    /// order's comparator. If `equal_means_same_bytes` is false, keys with different bytes may be equal, and filters
    /// are off. Unless `destroy` is null, it destroys `context` once the options and all these stores are gone, or if
    /// this call fails.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is empty or not UTF-8, and for a null function.
    fn waxseal_options_add_comparator(
        options: *mut waxseal_options_t, bytes name, compare: waxseal_compare_fn, equal_means_same_bytes: bool,
        context: *mut c_void, destroy: waxseal_destroy_fn,
    ) {
        let context = Context::new(context, destroy);
        let given = Given::new(name, compare, equal_means_same_bytes, context)?;
        set_calling(options, move |builder, caller| builder.comparator(given.comparator_of(caller)))
    }

    /// Sets the key order, as of `waxseal_options_add_comparator`, of families created with these options. The options
    /// of a later open of the store need the comparator too.
    ///
    /// One thread at a time. Errors: as of `waxseal_options_add_comparator`.
    fn waxseal_family_options_set_comparator(
        options: *mut waxseal_family_options_t, bytes name, compare: waxseal_compare_fn, equal_means_same_bytes: bool,
        context: *mut c_void, destroy: waxseal_destroy_fn,
    ) {
        let context = Context::new(context, destroy);
        set_order(options, Given::new(name, compare, equal_means_same_bytes, context)?)
    }
}

/// Takes back the answer of the comparison that runs on this thread: the store asks its comparator again about the same two keys. After 16
/// answers that were taken back the comparator has failed, as by `WAXSEAL_COMPARE_FAILED`.
///
/// For languages in which a function may be left without an answer, as by the handler of a signal, and returns any number then.
/// Thread-safe: it is for the calling thread, that of the comparison, before it returns, and without effect elsewhere. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_compare_again() -> i32 {
    status_of(|| {
        repeat_comparison();
        Ok(())
    })
}
