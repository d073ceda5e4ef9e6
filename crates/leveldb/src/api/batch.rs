#![allow(unsafe_code, reason = "fence: C calls it")]
//! Write batches.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use super::{leveldb_writebatch_t, pointer, ticket};
use crate::batch::{BatchWrite, LevelBatch};
use crate::held::BATCHES;
use crate::raw;
use crate::shelf::lock;

/// `void put(void* state, const char* k, size_t klen, const char* v, size_t vlen)`
type PutFunction = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize);
/// `void deleted(void* state, const char* k, size_t klen)`
type Deleted = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// Changes a batch; does nothing if the pointer is no batch.
fn change(batch: *mut leveldb_writebatch_t, work: impl FnOnce(&mut LevelBatch)) {
    raw::quietly((), || {
        if let Some(held) = BATCHES.get(ticket(batch)) {
            work(&mut lock(held));
        }
    });
}

/// Returns a copy of a batch; `None` if the pointer is no batch.
fn copy(batch: *const leveldb_writebatch_t) -> Option<LevelBatch> {
    BATCHES.get(ticket(batch)).map(|held| lock(held).clone())
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_create() -> *mut leveldb_writebatch_t {
    raw::quietly(null_mut(), || pointer(BATCHES.put(|held| lock(held).clear())))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_destroy(batch: *mut leveldb_writebatch_t) {
    raw::quietly((), || BATCHES.remove(ticket(batch), |held| lock(held).clear()));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_clear(batch: *mut leveldb_writebatch_t) {
    change(batch, LevelBatch::clear);
}

/// # Safety
/// See the parent module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_put(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: the header's contract.
    let write = unsafe { raw::key(key, klen).and_then(|key| Ok(BatchWrite::Put(key, raw::value(val, vlen)?))) };
    change(batch, |batch| batch.add(write));
}

/// # Safety
/// See the parent module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_delete(batch: *mut leveldb_writebatch_t, key: *const c_char, klen: usize) {
    // SAFETY: the header's contract.
    let write = unsafe { raw::key(key, klen).map(BatchWrite::Delete) };
    change(batch, |batch| batch.add(write));
}

/// # Safety
/// The functions are NULL or callable with `state`.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: *const leveldb_writebatch_t,
    state: *mut c_void,
    put: Option<PutFunction>,
    deleted: Option<Deleted>,
) {
    // A copy that shares the bytes, since the functions may change the batch.
    let batch = raw::quietly(None, || copy(batch));
    for write in batch.iter().flat_map(LevelBatch::writes) {
        // SAFETY: the functions are the caller's; keys and values are readable for their lengths.
        unsafe {
            match (write, put, deleted) {
                (BatchWrite::Put(key, value), Some(put), _) => {
                    put(state, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
                }
                (BatchWrite::Delete(key), _, Some(deleted)) => deleted(state, key.as_ptr().cast(), key.len()),
                _ => {}
            }
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_append(destination: *mut leveldb_writebatch_t, source: *const leveldb_writebatch_t) {
    let source = raw::quietly(None, || copy(source));
    change(destination, |batch| match source {
        Some(source) => batch.append(&source),
        None => batch.add(Err(crate::failure::Failure::dead(ticket(destination), "a batch that was appended"))),
    });
}
