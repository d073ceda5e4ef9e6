//! Properties of the tables of a family.

use std::ffi::c_void;

use crate::callback::{Context, waxseal_destroy_fn};
use crate::error::calls;
use crate::family_options::{add_property, waxseal_family_options_t};
use crate::property_function::{GivenProperty, add_item, waxseal_property_fn};

calls! {
    /// Adds a property that is collected of each table and blob file of the family: a set of items by name, for
    /// `waxseal_tables_with` and `waxseal_compact_with`. A family has at most 16 properties. `name` is UTF-8, of 1 to 255
    /// bytes. Names and functions are not stored: a file that is written without the function has no such property.
    /// Unless `destroy` is null, it destroys `context` once the options and all stores that use them are gone, or if this
    /// call fails.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8, and for a null function. An invalid
    /// name is an error of the open, or of the family's creation.
    fn waxseal_family_options_add_table_property(
        options: *mut waxseal_family_options_t, bytes name, property: waxseal_property_fn,
        context: *mut c_void, destroy: waxseal_destroy_fn,
    ) {
        let context = Context::new(context, destroy);
        add_property(options, GivenProperty::new(name, property, context)?)
    }

    /// Adds an item to the property whose function is running on this thread. Items of a file that need more than 4,096
    /// bytes together leave the file without the property. So does an invalid item, a null one with a length, whatever the
    /// function returns: for languages in which a function may be left without an answer, as by the handler of a signal.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` outside of such a function, and for an invalid item.
    fn waxseal_property_add_item(bytes item) {
        add_item(item.bytes("item"))
    }
}
