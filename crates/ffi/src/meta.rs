//! Annotations of records: entries of metadata providers, written with values and readable without them.

use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use face::meta::{Checked, Expiry, Meta, MetaIter};
use face::{ColumnFamily, WriteOptions};

use crate::batch::{add, waxseal_batch_t};
use crate::bytes::{copied, waxseal_bytes_t};
use crate::call::status_of;
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::Failure;
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, issue, peek, with, with_mut};
use crate::lent::{lent, waxseal_slice_t};
use crate::range::waxseal_range_t;
use crate::snapshot::{read, waxseal_snapshot_t};
use crate::write_options::{set, waxseal_write_options_t, write_settings};

/// The entry was not checked: the seal covers it together with the value, and the value was not read.
pub const WAXSEAL_CHECKED_NOT: i32 = 0;
/// The entry was checked by its own checksum.
pub const WAXSEAL_CHECKED_ITSELF: i32 = 1;
/// The entry was checked by the seal of its record.
pub const WAXSEAL_CHECKED_SEALED: i32 = 2;

/// A provider's entry for a record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct waxseal_entry_t {
    /// The number of the provider.
    pub provider: u16,
    /// The version of the entry's format; ignored when an entry is written.
    pub version: u8,
    /// One of `WAXSEAL_CHECKED_..`; ignored when an entry is written.
    pub checked: i32,
    /// The content of the entry.
    pub bytes: waxseal_slice_t,
}

fn checked_number(checked: Checked) -> i32 {
    match checked {
        Checked::Not => WAXSEAL_CHECKED_NOT,
        Checked::Itself => WAXSEAL_CHECKED_ITSELF,
        Checked::Sealed => WAXSEAL_CHECKED_SEALED,
    }
}

calls! {
    /// Stores an entry of the provider with this number in the record, next to the value. The entry follows the record
    /// everywhere and is removed with it. Reads of the value do not read it. The write reports an unknown provider,
    /// bytes that the provider refuses, and two entries for one provider.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for null with a length.
    fn waxseal_write_options_add_entry(options: *mut waxseal_write_options_t, provider: u16, bytes bytes) {
        let bytes = bytes.value()?;
        set(options, |options| options.entry(provider, bytes))
    }
}

/// Sets the record's expiry time, in microseconds since 1970. From then on the record counts as absent, and a later
/// compaction drops it. A past time is allowed. Snapshots and iterators compare with the time of their creation, all
/// other reads with the current time. Of this function, `waxseal_write_options_set_expires_in` and
/// `waxseal_write_options_set_expires_never`, the last call wins.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a time before the year 2000, which indicates a wrong unit or
/// epoch; the options are then unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_set_expiry(options: *mut waxseal_write_options_t, micros: u64) -> i32 {
    status_of(|| {
        if micros < Expiry::LEAST_MICROS {
            return Err(Failure::invalid(format!("expiry {micros} is before the year 2000")));
        }
        let time = UNIX_EPOCH.checked_add(Duration::from_micros(micros));
        let time = time.ok_or_else(|| Failure::invalid("the expiry is beyond what the system can say"))?;
        set(options, |options| options.expires_at(time))
    })
}

/// Sets the record's expiry to this many microseconds after the write.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_set_expires_in(options: *mut waxseal_write_options_t, micros: u64) -> i32 {
    status_of(|| set(options, |options| options.expires_in(Duration::from_micros(micros))))
}

/// The record never expires, whatever its family's default time to live is.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_write_options_set_expires_never(options: *mut waxseal_write_options_t) -> i32 {
    status_of(|| set(options, WriteOptions::expires_never))
}

calls! {
    /// Adds a write to a batch that sets a key to a value, with options: an expiry, labels, entries. Null options mean
    /// defaults. The commit sets the durability.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` for options that set a durability.
    fn waxseal_batch_put_with_options(
        batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, options: *const waxseal_write_options_t, bytes key,
        bytes value,
    ) {
        let options = write_settings(options)?;
        add(batch, family, |batch, family| {
            batch.put_with(family, key.key()?, value.value()?, options);
            Ok(())
        })
    }

    /// Adds a write to a batch that sets a key to a value with entries.
    ///
    /// One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` for invalid entries.
    fn waxseal_batch_put_with(
        batch: *mut waxseal_batch_t, family: *mut waxseal_family_t, bytes key, bytes value,
        array entries: *const waxseal_entry_t,
    ) {
        // SAFETY: the header asks the same of the bytes of each entry.
        let given = entries?
            .iter()
            .map(|entry| unsafe { Ok((entry.provider, lent(entry.bytes.data, entry.bytes.len).value()?)) });
        let given = given.collect::<crate::failure::Result<Vec<(u16, &[u8])>>>()?;
        add(batch, family, |batch, family| {
            batch.put_given(family, key.key()?, value.value()?, &given);
            Ok(())
        })
    }

    /// Returns a copy of a provider's entry for a key. Does not read the value, whatever its size. `version` and
    /// `checked` (one of `WAXSEAL_CHECKED_..`) may be null. A null `snapshot` reads the current state.
    /// `WAXSEAL_NOT_FOUND` if the key has no value, or the value no entry.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*bytes` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CORRUPTION` if the record's annotations cannot be decoded or do not match their checksum; otherwise as
    /// of `waxseal_get`.
    fn waxseal_get_meta(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes key, provider: u16,
        out bytes: *mut *mut waxseal_bytes_t, out version: *mut u8, out checked: *mut i32,
    ) {
        let bytes = bytes.needed("entry")?;
        let key = key.key()?;
        let found = with(family, |family| {
            read(snapshot, || family.get_meta(key, provider), |snapshot| snapshot.get_meta(family, key, provider))
        })?;
        let Some(meta) = found else { return Ok(false) };
        bytes.set(issue(copied(&meta.bytes)?)?);
        version.set(meta.version);
        checked.set(checked_number(meta.checked));
        Ok(true)
    }
}

/// An iterator over one provider's entries in a key range. Used by one thread at a time. Destroyed by
/// `waxseal_meta_iter_destroy`; it pins its view of the store until then.
pub struct waxseal_meta_iter_t {
    _opaque: [u8; 0],
}

handle!(waxseal_meta_iter_t => Mutex<EntryIterator>, HandleKind::MetaIter, "iterator of entries", |entries| {
    peek(entries, |entries| entries.family.store())
});

/// An iterator over entries, and the entry that it lends.
pub(crate) struct EntryIterator {
    family: ColumnFamily,
    provider: u16,
    iter: MetaIter,
    stands: Option<(Vec<u8>, Meta)>,
}

calls! {
    /// Creates an iterator over a provider's entries at the current state, in key order; values without an entry are
    /// skipped. `range` may be null: all keys.
    ///
    /// Thread-safe. On success the caller owns `*iter` and frees it with `waxseal_meta_iter_destroy`. Errors:
    /// `WAXSEAL_CLOSED`, `WAXSEAL_INVALID` for an invalid range.
    fn waxseal_meta_iter_create(
        family: *const waxseal_family_t, bounds range: *const waxseal_range_t, provider: u16,
        out iter: *mut *mut waxseal_meta_iter_t,
    ) {
        let place = iter.needed("iterator")?;
        let entries = with(family, |family| {
            let iter = family.iter_meta(range?, provider)?;
            Ok(EntryIterator { family: family.clone(), provider, iter, stands: None })
        })?;
        place.set(issue(Mutex::new(entries))?);
        Ok(())
    }

    /// Moves to the next entry; the entry and its key are valid until the next call. `WAXSEAL_NOT_FOUND` past the end.
    /// Damage is one `WAXSEAL_CORRUPTION`; the next call continues behind it.
    ///
    /// One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`.
    fn waxseal_meta_iter_next(
        iter: *mut waxseal_meta_iter_t, out key: *mut waxseal_slice_t, out entry: *mut waxseal_entry_t,
    ) {
        with_mut(iter.cast_const(), |entries: &mut EntryIterator| {
            entries.stands = None;
            entries.family.check()?;
            let Some(next) = entries.iter.next() else { return Ok(false) };
            let (its_key, meta) = entries.stands.insert(next.map_err(Failure::from)?);
            key.set(waxseal_slice_t::of(its_key));
            entry.set(waxseal_entry_t {
                provider: entries.provider,
                version: meta.version,
                checked: checked_number(meta.checked),
                bytes: waxseal_slice_t::of(&meta.bytes),
            });
            Ok(true)
        })
    }
}

destroy! {
    /// Destroys an iterator over entries. Null is allowed; a destroyed iterator is `WAXSEAL_CLOSED`.
    fn waxseal_meta_iter_destroy(iter: *mut waxseal_meta_iter_t);
}
