//! Single writes.

use crate::error::calls;
use crate::family::waxseal_family_t;
use crate::handle::with;
use crate::range::half_open;
use crate::write_options::{waxseal_write_options_t, write_settings};

calls! {
    /// Sets a key to a value, with the store's durability. Keys have up to 65,535 bytes, values up to 3 GiB less one.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for a key or value that is too long, or null with a length; `WAXSEAL_IO`,
    /// `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`. A failed call has written nothing, unless the message
    /// says otherwise.
    fn waxseal_put(family: *mut waxseal_family_t, bytes key, bytes value) {
        with(family.cast_const(), |family| Ok(family.put(key.key()?, value.value()?)?))
    }

    /// Sets a key to a value, with options. `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for
    /// invalid options.
    fn waxseal_put_with(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key, bytes value,
    ) {
        let options = write_settings(options)?;
        with(family.cast_const(), |family| Ok(family.put_with(key.key()?, value.value()?, options)?))
    }

    /// Deletes a key; a missing key is not an error.
    ///
    /// Thread-safe. Errors: as of `waxseal_put`.
    fn waxseal_delete(family: *mut waxseal_family_t, bytes key) {
        with(family.cast_const(), |family| Ok(family.delete(key.key()?)?))
    }

    /// Deletes a key, with options; a missing key is not an error. `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_put_with`.
    fn waxseal_delete_with(family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key) {
        let options = write_settings(options)?;
        with(family.cast_const(), |family| Ok(family.delete_with(key.key()?, options)?))
    }

    /// Deletes all keys from `start` to `end`, `end` excluded, that were written before. A null pointer with length 0 is
    /// no bound, so that two of them delete every key of the family. Takes the same time and space whatever the range
    /// holds. A range without keys is not an error.
    ///
    /// Thread-safe. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for a start behind the end.
    fn waxseal_delete_range(family: *mut waxseal_family_t, bytes start, bytes end) {
        let range = half_open(start, end)?;
        with(family.cast_const(), |family| Ok(family.delete_range(range)?))
    }

    /// Deletes all keys from `start` to `end`, `end` excluded, with options, of which only the durability may be set.
    /// `options` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_delete_range`;
    /// `WAXSEAL_INVALID` for options about a value.
    fn waxseal_delete_range_with(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes start, bytes end,
    ) {
        let (options, range) = (write_settings(options)?, half_open(start, end)?);
        with(family.cast_const(), |family| Ok(family.delete_range_with(range, options)?))
    }

    /// Merges an operand into the value of a key, without reading it: the family's merge operator, as of
    /// `waxseal_family_options_set_merge_operator`, makes the value when the key is read.
    ///
    /// Thread-safe. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for a family without a merge operator, and for an
    /// operand that the operator cannot read. An operator that fails is an error of the reads of the key.
    fn waxseal_merge(family: *mut waxseal_family_t, bytes key, bytes operand) {
        with(family.cast_const(), |family| Ok(family.merge(key.key()?, operand.value()?)?))
    }

    /// Merges an operand into the value of a key, with options, of which only the durability may be set. `options` may
    /// be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_merge`; `WAXSEAL_INVALID` for
    /// options about a value.
    fn waxseal_merge_with(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key, bytes operand,
    ) {
        let options = write_settings(options)?;
        with(family.cast_const(), |family| Ok(family.merge_with(key.key()?, operand.value()?, options)?))
    }

    /// Sets a key to a new value if it has the old one, atomically. A null `old_value` requires that the key is absent;
    /// a null `new_value` deletes the key. `*is_set` is false, and nothing has changed, if the key has another value.
    /// An expired record counts as absent. `options` and `is_set` may be null.
    ///
    /// No write of the key comes between the comparison and the change. Beside fast writers of other threads the commit
    /// may be attempted several times; then the writers wait for it, at most 10 ms.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_get` and `waxseal_put_with`.
    fn waxseal_compare_and_set(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key, optional old_value,
        optional new_value, out is_set: *mut bool,
    ) {
        let options = write_settings(options)?;
        let old = old_value.map(|old| old.value()).transpose()?;
        let new = new_value.map(|new| new.value()).transpose()?;
        with(family.cast_const(), |family| {
            is_set.set(family.compare_and_set_with(key.key()?, old, new, options)?);
            Ok(())
        })
    }

    /// Sets a key to a value if it is absent, atomically. `*is_put` is false, and nothing has changed, if the key
    /// exists. `options` and `is_put` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_compare_and_set`.
    fn waxseal_put_if_absent(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key, bytes value,
        out is_put: *mut bool,
    ) {
        let options = write_settings(options)?;
        with(family.cast_const(), |family| {
            is_put.set(family.put_if_absent_with(key.key()?, value.value()?, options)?);
            Ok(())
        })
    }

    /// Adds a number to a counter, atomically. A counter is a signed integer of 64 bits, stored as 8 bytes in
    /// little-endian order; an absent key counts as 0. `*before` is the value before the addition. `options` and
    /// `before` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_compare_and_set`;
    /// `WAXSEAL_INVALID` if the value does not have 8 bytes or the sum exceeds 64 bits.
    fn waxseal_fetch_add(
        family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key, number: i64,
        out before: *mut i64,
    ) {
        let options = write_settings(options)?;
        with(family.cast_const(), |family| {
            before.set(family.fetch_add_with(key.key()?, number, options)?);
            Ok(())
        })
    }
}
