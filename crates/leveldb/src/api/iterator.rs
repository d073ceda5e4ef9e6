#![allow(unsafe_code, reason = "fence: C calls it")]
//! Iterators.

use std::ffi::c_char;

use super::{leveldb_iterator_t, ticket};
use crate::failure::Failure;
use crate::held::ITERATORS;
use crate::iterator::{HeldIterator, NOWHERE};
use crate::raw;

/// Runs `work` on an iterator; returns `otherwise` if the pointer is no iterator.
#[inline]
fn with<R>(iterator: *const leveldb_iterator_t, otherwise: R, work: impl FnOnce(&HeldIterator) -> R) -> R {
    ITERATORS.get(ticket(iterator)).map_or(otherwise, work)
}

/// Moves an iterator; does nothing if the pointer is no iterator.
#[inline]
fn go(iterator: *const leveldb_iterator_t, work: impl FnOnce(&HeldIterator)) {
    raw::quietly((), || with(iterator, (), work));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_destroy(iterator: *mut leveldb_iterator_t) {
    raw::quietly((), || ITERATORS.remove(ticket(iterator), HeldIterator::end));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_valid(iterator: *const leveldb_iterator_t) -> u8 {
    with(iterator, 0, |iterator| iterator.valid().into())
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_first(iterator: *mut leveldb_iterator_t) {
    go(iterator, |iterator| iterator.go(|cursor| cursor.first()));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_last(iterator: *mut leveldb_iterator_t) {
    go(iterator, |iterator| iterator.go(|cursor| cursor.last()));
}

/// # Safety
/// See the parent module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_seek(iterator: *mut leveldb_iterator_t, k: *const c_char, klen: usize) {
    // SAFETY: the header's contract.
    go(iterator, |iterator| iterator.seek(unsafe { raw::key(k, klen) }));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_next(iterator: *mut leveldb_iterator_t) {
    go(iterator, |iterator| iterator.go(|cursor| cursor.next()));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_prev(iterator: *mut leveldb_iterator_t) {
    go(iterator, |iterator| iterator.go(|cursor| cursor.prev()));
}

/// # Safety
/// `klen` is NULL or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_key(iterator: *const leveldb_iterator_t, klen: *mut usize) -> *const c_char {
    let (key, length) = with(iterator, NOWHERE, HeldIterator::key);
    // SAFETY: the header's contract.
    unsafe { raw::give(klen, length) };
    key
}

/// # Safety
/// `vlen` is NULL or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_value(iterator: *const leveldb_iterator_t, vlen: *mut usize) -> *const c_char {
    let (value, length) = with(iterator, NOWHERE, HeldIterator::value);
    // SAFETY: the header's contract.
    unsafe { raw::give(vlen, length) };
    value
}

/// # Safety
/// See the parent module.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_get_error(iterator: *const leveldb_iterator_t, errptr: *mut *mut c_char) {
    let dead = || Err(Failure::dead(ticket(iterator), "the iterator"));
    // SAFETY: the header's contract.
    unsafe { raw::answer(errptr, (), || with(iterator, None, HeldIterator::check).unwrap_or_else(dead)) }
}
