//! Column families: by name, made, dropped, listed.

use face::ColumnFamily;

use crate::bytes::{give, waxseal_bytes_t};
use crate::call::{answer, status_of};
use crate::db::waxseal_db_t;
use crate::error::waxseal_error_t;
use crate::family_options::{family_settings, waxseal_family_options_t};
use crate::handle::{Kind, end, handle, issue, with};
use crate::lent::{lent, out};
use crate::options::verify;
use crate::range::{bounds, waxseal_range_t};

/// A column family of an open store: one ordered map from keys to values. May be used from any thread, and is ended by
/// `waxseal_family_destroy`, before or after its store is closed.
pub struct waxseal_family_t {
    _opaque: [u8; 0],
}

handle!(waxseal_family_t => ColumnFamily, Kind::Family, "column family", |family| Some(family.store()));

/// The column family of this name, made if there is none; `default` always exists. In a store opened for reading an unknown name is
/// `WAXSEAL_INVALID`.
///
/// Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: `WAXSEAL_INVALID` for a name
/// that is no UTF-8 or cannot be, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_open(
    db: *mut waxseal_db_t,
    name: *const u8,
    name_len: usize,
    family: *mut *mut waxseal_family_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, family, error) = unsafe { (lent(name, name_len), out(family), out(error)) };
    answer(error, || {
        let family = family.needed("column family")?;
        let opened = with(db.cast_const(), |db| Ok(db.column_family(name.text("name")?)?))?;
        family.set(issue(opened)?);
        Ok(())
    })
}

/// Makes a column family with options of its own. `options` may be null. Its name has 1 to 255 bytes, none of them zero.
///
/// Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: `WAXSEAL_INVALID` if the name
/// exists or cannot be, and for options that cannot be; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_create(
    db: *mut waxseal_db_t,
    name: *const u8,
    name_len: usize,
    options: *const waxseal_family_options_t,
    family: *mut *mut waxseal_family_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, family, error) = unsafe { (lent(name, name_len), out(family), out(error)) };
    answer(error, || {
        let family = family.needed("column family")?;
        let made = with(db.cast_const(), |db| {
            let settings = family_settings(options, db.store())?;
            Ok(db.create_column_family(name.text("name")?, settings)?)
        })?;
        family.set(issue(made)?);
        Ok(())
    })
}

/// Drops a column family with all its records. Handles to it answer `WAXSEAL_INVALID` from then on. `default` cannot be dropped.
///
/// Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown name, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_drop(
    db: *mut waxseal_db_t,
    name: *const u8,
    name_len: usize,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, error) = unsafe { (lent(name, name_len), out(error)) };
    answer(error, || with(db.cast_const(), |db| Ok(db.drop_column_family(name.text("name")?)?)))
}

/// The names of all column families, each with a zero byte behind it.
///
/// Thread-safe. On success `*names` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_names(
    db: *const waxseal_db_t,
    names: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (names, error) = unsafe { (out(names), out(error)) };
    answer(error, || {
        with(db, |db| {
            let names = names.needed("names")?;
            let mut all = Vec::new();
            for family in db.column_families() {
                all.extend_from_slice(family.name().as_bytes());
                all.push(0);
            }
            give(names, &all)
        })
    })
}

/// The name of a column family.
///
/// Thread-safe. On success `*name` is the caller's, to be ended by `waxseal_bytes_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_name(
    family: *const waxseal_family_t,
    name: *mut *mut waxseal_bytes_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (name, error) = unsafe { (out(name), out(error)) };
    answer(error, || with(family, |family| give(name.needed("name")?, family.name().as_bytes())))
}

/// The same column family, to be read under another policy, one of `WAXSEAL_VERIFY_..`: reads through it, by iterator too, check what it
/// says. `one_in` counts for `WAXSEAL_VERIFY_SAMPLED` alone.
///
/// Thread-safe. On success `*verified` is the caller's, to be ended by `waxseal_family_destroy`. Errors: `WAXSEAL_INVALID` for a
/// number that is no policy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_with_verify(
    family: *const waxseal_family_t,
    policy: i32,
    one_in: u32,
    verified: *mut *mut waxseal_family_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (verified, error) = unsafe { (out(verified), out(error)) };
    answer(error, || {
        let verified = verified.needed("column family")?;
        let policy = verify(policy, one_in)?;
        verified.set(issue(with(family, |family| Ok(family.with_verify(policy)))?)?);
        Ok(())
    })
}

/// The same column family, to be read so that blocks which its reads load stay in the cache, or, for reads that come by once, do not.
///
/// Thread-safe. On success `*filling` is the caller's, to be ended by `waxseal_family_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_with_fill_cache(
    family: *const waxseal_family_t,
    fill: bool,
    filling: *mut *mut waxseal_family_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (filling, error) = unsafe { (out(filling), out(error)) };
    answer(error, || {
        let filling = filling.needed("column family")?;
        filling.set(issue(with(family, |family| Ok(family.with_fill_cache(fill)))?)?);
        Ok(())
    })
}

/// Rewrites the tables of the whole family until nothing that is deleted or overwritten takes space.
///
/// Thread-safe. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_compact(family: *mut waxseal_family_t, error: *mut *mut waxseal_error_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let error = unsafe { out(error) };
    answer(error, || with(family.cast_const(), |family| Ok(family.compact()?)))
}

/// The same of the tables that may hold keys of a range. `range` may be null: all of them.
///
/// Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for a range that cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_compact_range(
    family: *mut waxseal_family_t,
    range: *const waxseal_range_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (range, error) = unsafe { (bounds(range), out(error)) };
    answer(error, || with(family.cast_const(), |family| Ok(family.compact_range(range?)?)))
}

/// About how many bytes of the store's files hold records of a range. Memtables are not counted. `range` may be null: everything.
///
/// Thread-safe. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_approximate_size(
    family: *const waxseal_family_t,
    range: *const waxseal_range_t,
    size: *mut u64,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (range, size, error) = unsafe { (bounds(range), out(size), out(error)) };
    answer(error, || {
        let size = size.needed("size")?;
        size.set(with(family, |family| Ok(family.approximate_size(range?)?))?);
        Ok(())
    })
}

/// Ends a handle to a column family; the family itself stays. Null is no error; a handle that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe: calls that use it meanwhile finish.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_family_destroy(family: *mut waxseal_family_t) -> i32 {
    status_of(|| end(family.cast_const()))
}
