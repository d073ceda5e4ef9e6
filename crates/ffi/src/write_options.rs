//! How one write is done.

use std::sync::Mutex;

use face::WriteOptions;

use crate::call::{answer, status_of};
use crate::error::{Result, waxseal_error_t};
use crate::handle::{Kind, end, handle, issue, with_mut};
use crate::lent::{lent, out};
use crate::options::durability;

/// How a write is done, and what is kept beside its value. Whatever is not set keeps its default; a null pointer stands for nothing
/// but defaults. May be used for any number of writes, by one thread at a time, and is ended by `waxseal_write_options_destroy`.
pub struct waxseal_write_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_write_options_t => Mutex<WriteOptions>, Kind::WriteOptions, "write options object");

/// What was set; null sets nothing.
pub(crate) fn write_settings(options: *const waxseal_write_options_t) -> Result<WriteOptions> {
    if options.is_null() { Ok(WriteOptions::new()) } else { with_mut(options, |options| Ok(options.clone())) }
}

/// Sets one thing more.
pub(crate) fn set(
    options: *mut waxseal_write_options_t,
    turn: impl FnOnce(WriteOptions) -> WriteOptions,
) -> Result<()> {
    with_mut(options.cast_const(), |options| {
        *options = turn(std::mem::take(options));
        Ok(())
    })
}

/// New write options: defaults.
///
/// Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_write_options_destroy`. Errors: `WAXSEAL_INVALID` without a place
/// for the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_write_options_create(
    options: *mut *mut waxseal_write_options_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (options, error) = unsafe { (out(options), out(error)) };
    answer(error, || {
        let options = options.needed("write options")?;
        options.set(issue(Mutex::default())?);
        Ok(())
    })
}

/// When the write, once it has returned, can still be lost: one of `WAXSEAL_DURABILITY_..`.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no durability.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_set_durability(options: *mut waxseal_write_options_t, number: i32) -> i32 {
    status_of(|| match durability(number)? {
        Some(durability) => set(options, |options| options.durability(durability)),
        None => set(options, |options| options),
    })
}

/// Puts a label beside the value: a name with a text, both UTF-8. Each name once, the last text wins.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for what is no UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_write_options_add_label(
    options: *mut waxseal_write_options_t,
    name: *const u8,
    name_len: usize,
    text: *const u8,
    text_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, text, error) = unsafe { (lent(name, name_len), lent(text, text_len), out(error)) };
    answer(error, || {
        let (name, text) = (name.text("name of the label")?, text.text("text of the label")?);
        set(options, |options| options.label(name, text))
    })
}

/// Lets the log call the put `Row.Insert` instead of `Row.Update`. That is a word in the log alone: the put overwrites like any other, and
/// the store does not look whether the key was there.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_set_log_as_insert(options: *mut waxseal_write_options_t) -> i32 {
    status_of(|| set(options, WriteOptions::log_as_insert))
}

/// Ends write options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_destroy(options: *mut waxseal_write_options_t) -> i32 {
    status_of(|| end(options.cast_const()))
}
