//! Options of a single write.

use std::sync::Mutex;

use face::WriteOptions;

use crate::call::status_of;
use crate::declare::destroy;
use crate::error::{calls, create};
use crate::failure::Result;
use crate::handle::{HandleKind, handle, with_mut};
use crate::options::durability;

/// Options of a write: its durability, and the annotations stored with its value. Options that are not set keep their
/// defaults; a null pointer means all defaults. Usable for any number of writes, by one thread at a time. Destroyed by
/// `waxseal_write_options_destroy`.
pub struct waxseal_write_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_write_options_t => Mutex<WriteOptions>, HandleKind::WriteOptions, "write options object");

/// Returns the options; null means defaults.
pub(crate) fn write_settings(options: *const waxseal_write_options_t) -> Result<WriteOptions> {
    if options.is_null() { Ok(WriteOptions::new()) } else { with_mut(options, |options| Ok(options.clone())) }
}

/// Changes an option.
pub(crate) fn set(
    options: *mut waxseal_write_options_t,
    apply: impl FnOnce(WriteOptions) -> WriteOptions,
) -> Result<()> {
    with_mut(options.cast_const(), |options| {
        *options = apply(std::mem::take(options));
        Ok(())
    })
}

create! {
    /// Creates write options with all defaults.
    fn waxseal_write_options_create(options: *mut *mut waxseal_write_options_t) => "write options";
}

/// Sets the durability of the write: one of `WAXSEAL_DURABILITY_..`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_set_durability(options: *mut waxseal_write_options_t, number: i32) -> i32 {
    status_of(|| match durability(number)? {
        Some(durability) => set(options, |options| options.durability(durability)),
        None => set(options, |options| options),
    })
}

calls! {
    /// Adds a label to the record: a name with a text, both UTF-8. Of several labels with one name, the last wins.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for text that is not UTF-8.
    fn waxseal_write_options_add_label(options: *mut waxseal_write_options_t, bytes name, bytes text) {
        let (name, text) = (name.text("name of the label")?, text.text("text of the label")?);
        set(options, |options| options.label(name, text))
    }
}

/// Logs the put as `Row.Insert` instead of `Row.Update`. This affects the event only: the put overwrites like any
/// other, and the store does not check whether the key existed.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_set_log_as_insert(options: *mut waxseal_write_options_t) -> i32 {
    status_of(|| set(options, WriteOptions::log_as_insert))
}

destroy! {
    /// Destroys write options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
    fn waxseal_write_options_destroy(options: *mut waxseal_write_options_t);
}
