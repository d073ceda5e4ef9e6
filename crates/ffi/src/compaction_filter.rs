//! The compaction filter of a family.

use std::ffi::c_void;

use crate::callback::{Context, waxseal_destroy_fn};
use crate::error::calls;
use crate::family_options::{set_filter, waxseal_family_options_t};
use crate::filter_function::{GivenFilter, waxseal_filter_fn};
use crate::options::{set_calling, waxseal_options_t};

calls! {
    /// Sets the compaction filter of the family. Compactions call it for the newest value of a key, if no snapshot sees
    /// this value and the key has no newer record. Flushes and moves of whole tables do not call it;
    /// `waxseal_compact` calls it for all values. A dropped key stays deleted: no older value becomes visible.
    ///
    /// The store records the name, UTF-8, of 1 to 255 bytes; another filter may replace it at any open. A later open
    /// needs the filter here, or by `waxseal_options_add_compaction_filter`: without it, compactions keep all values. If `by_key`, the filter gets no values, and values of blob
    /// files are not read for it. Unless `destroy` is null, it destroys `context` once the options and all stores that
    /// use them are gone, or if this call fails.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8, and for a null function. An invalid
    /// name is an error of the open.
    fn waxseal_family_options_set_compaction_filter(
        options: *mut waxseal_family_options_t, bytes name, filter: waxseal_filter_fn, by_key: bool,
        context: *mut c_void, destroy: waxseal_destroy_fn,
    ) {
        let context = Context::new(context, destroy);
        set_filter(options, GivenFilter::new(name, filter, by_key, context)?)
    }

    /// Adds a compaction filter for families of the stores opened with these options, as of
    /// `waxseal_family_options_set_compaction_filter`. Families for which the store has recorded this name apply it.
    ///
    /// One thread at a time. Errors: as of `waxseal_family_options_set_compaction_filter`; an unknown name is none.
    fn waxseal_options_add_compaction_filter(
        options: *mut waxseal_options_t, bytes name, filter: waxseal_filter_fn, by_key: bool, context: *mut c_void,
        destroy: waxseal_destroy_fn,
    ) {
        let context = Context::new(context, destroy);
        let given = GivenFilter::new(name, filter, by_key, context)?;
        set_calling(options, move |builder, caller| builder.compaction_filter(given.filter_of(caller)))
    }
}
