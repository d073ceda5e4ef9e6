#![allow(unsafe_code, reason = "fence: C calls it")]
//! Open, close, read, write, and operations on closed stores.

use std::ffi::{c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::{leveldb_iterator_t, leveldb_options_t, leveldb_readoptions_t, leveldb_snapshot_t, leveldb_t};
use super::{leveldb_writebatch_t, leveldb_writeoptions_t, pointer, ticket};
use crate::failure::Failure;
use crate::held::{self, BATCHES, ITERATORS, OPTIONS, SNAPSHOTS, STORES};
use crate::open_plan::OpenPlan;
use crate::options::Options;
use crate::property::property;
use crate::shelf::lock;
use crate::{manage, raw};

fn options_of(options: *const leveldb_options_t) -> Result<Options, Failure> {
    let held = OPTIONS.get(ticket(options)).map(|held| lock(held).clone());
    held.ok_or_else(|| Failure::dead(ticket(options), "options"))
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_open(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut leveldb_t {
    // SAFETY: the header's contract.
    unsafe {
        raw::answer(errptr, null_mut(), || {
            let store = Arc::new(OpenPlan::of(&options_of(options)?)?.open(&raw::directory(name)?)?);
            let opened = STORES.put(|held| held.store(Some(store.clone())));
            if opened == 0 {
                store.close();
                return Err(Failure::io("too many databases are open"));
            }
            Ok(pointer(opened))
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_close(db: *mut leveldb_t) {
    raw::quietly((), || {
        STORES.remove(ticket(db), |held| {
            if let Some(store) = held.swap(None) {
                store.close();
            }
        });
    });
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_put(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: the header's contract.
    unsafe {
        raw::answer(errptr, (), || {
            let sync = held::is_synced(ticket(options))?;
            let (key, value) = (raw::key(key, keylen)?, raw::value(val, vallen)?);
            held::store(ticket(db), |store| store.put(key, value, sync))
        })
    }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_delete(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    keylen: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: the header's contract.
    unsafe {
        raw::answer(errptr, (), || {
            let (sync, key) = (held::is_synced(ticket(options))?, raw::key(key, keylen)?);
            held::store(ticket(db), |store| store.delete(key, sync))
        })
    }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_write(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    batch: *mut leveldb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: the header's contract.
    unsafe {
        raw::answer(errptr, (), || {
            let sync = held::is_synced(ticket(options))?;
            let batch = BATCHES.get(ticket(batch)).ok_or_else(|| Failure::dead(ticket(batch), "the write batch"))?;
            let batch = lock(batch).clone();
            held::store(ticket(db), |store| store.write(&batch, sync))
        })
    }
}

/// # Safety
/// See the module; `vallen` is NULL or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_get(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
    key: *const c_char,
    keylen: usize,
    vallen: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: the header's contract.
    unsafe {
        let found = raw::answer(errptr, None, || {
            let (how, key) = (held::how(ticket(options))?, raw::key(key, keylen)?);
            let copy = |value: &[u8]| (raw::malloced(value), value.len());
            match held::store(ticket(db), |store| store.get(&how, key, copy))? {
                Some((copy, _)) if copy.is_null() => Err(Failure::io("no memory for the value")),
                copied => Ok(copied),
            }
        });
        let (value, length) = found.unwrap_or((null_mut(), 0));
        raw::give(vallen, length);
        value
    }
}

/// Returns NULL only if memory is exhausted. If the iterator cannot be created, the result is an iterator that is never
/// valid and holds the error.
#[unsafe(no_mangle)]
extern "C" fn leveldb_create_iterator(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
) -> *mut leveldb_iterator_t {
    raw::quietly(null_mut(), || {
        let cursor = held::how(ticket(options)).and_then(|how| held::store(ticket(db), |store| Ok(store.cursor(&how))));
        pointer(ITERATORS.put(|held| held.begin(cursor)))
    })
}

/// Returns NULL only if memory is exhausted. If the snapshot cannot be created, the result is a snapshot whose reads
/// return the error.
#[unsafe(no_mangle)]
extern "C" fn leveldb_create_snapshot(db: *mut leveldb_t) -> *const leveldb_snapshot_t {
    raw::quietly(null(), || {
        let snapshot = held::store(ticket(db), |store| Ok(store.db().snapshot()));
        pointer::<leveldb_snapshot_t>(SNAPSHOTS.put(|held| held.store(Some(Arc::new(snapshot))))).cast_const()
    })
}

/// Skips the lookup of the store, since a closed store's snapshots are released too.
#[unsafe(no_mangle)]
extern "C" fn leveldb_release_snapshot(_db: *mut leveldb_t, snapshot: *const leveldb_snapshot_t) {
    raw::quietly((), || SNAPSHOTS.remove(ticket(snapshot), |held| held.store(None)));
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_property_value(db: *mut leveldb_t, propname: *const c_char) -> *mut c_char {
    raw::quietly(null_mut(), || {
        // SAFETY: the header's contract.
        let Some(name) = (unsafe { raw::text(propname) }) else { return null_mut() };
        let text = held::store(ticket(db), |store| Ok(property(store, name)?));
        text.ok().flatten().map_or(null_mut(), |text| raw::malloced(text.as_bytes()))
    })
}

/// # Safety
/// See the module; the arrays are NULL or have `num_ranges` elements.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_approximate_sizes(
    db: *mut leveldb_t,
    num_ranges: c_int,
    range_start_key: *const *const c_char,
    range_start_key_len: *const usize,
    range_limit_key: *const *const c_char,
    range_limit_key_len: *const usize,
    sizes: *mut u64,
) {
    for at in 0..usize::try_from(num_ranges).unwrap_or(0) {
        // SAFETY: the header's contract.
        unsafe {
            let end = |keys: *const *const c_char, lengths: *const usize| {
                let (key, length) = (raw::element(keys, at), raw::element(lengths, at));
                raw::key(key.unwrap_or(null()), length.unwrap_or(0))
            };
            let size = raw::answer(null_mut(), 0, || {
                let start = end(range_start_key, range_start_key_len)?;
                let limit = end(range_limit_key, range_limit_key_len)?;
                held::store(ticket(db), |store| store.approximate_size(start, limit))
            });
            raw::give_at(sizes, at, size);
        }
    }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_compact_range(
    db: *mut leveldb_t,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    // SAFETY: the header's contract.
    unsafe {
        let end = |key: *const c_char, length| match key.is_null() {
            true => Ok(None),
            false => raw::key(key, length).map(Some),
        };
        raw::answer(null_mut(), (), || {
            let (start, limit) = (end(start_key, start_key_len)?, end(limit_key, limit_key_len)?);
            held::store(ticket(db), |store| store.compact(start, limit))
        });
    }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_destroy_db(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: the header's contract.
    unsafe { raw::answer(errptr, (), || options_of(options).and_then(|_| manage::destroy(&raw::directory(name)?))) }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_repair_db(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: the header's contract.
    unsafe { raw::answer(errptr, (), || manage::repair(&raw::directory(name)?, &options_of(options)?)) }
}
