#![allow(unsafe_code, reason = "fence: C calls it")]
//! Options of stores, reads and writes. The header documents their meaning in this library.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use super::{
    leveldb_cache_t, leveldb_comparator_t, leveldb_env_t, leveldb_filterpolicy_t, leveldb_logger_t, leveldb_options_t,
    leveldb_readoptions_t, leveldb_snapshot_t, leveldb_writeoptions_t, pointer, ticket,
};
use crate::held::{HeldWriteOptions, OPTIONS, READ_OPTIONS, ReadOptions, WRITE_OPTIONS};
use crate::options::Options;
use crate::raw;
use crate::shelf::lock;

/// Changes options; does nothing if the pointer is no options object.
fn set(options: *mut leveldb_options_t, change: impl FnOnce(&mut Options)) {
    raw::quietly((), || {
        if let Some(held) = OPTIONS.get(ticket(options)) {
            change(&mut lock(held));
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_create() -> *mut leveldb_options_t {
    raw::quietly(null_mut(), || pointer(OPTIONS.put(|held| *lock(held) = Options::default())))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_destroy(options: *mut leveldb_options_t) {
    raw::quietly((), || OPTIONS.remove(ticket(options), |_| ()));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_comparator(options: *mut leveldb_options_t, comparator: *mut leveldb_comparator_t) {
    set(options, |options| options.comparator = ticket(comparator));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_filter_policy(options: *mut leveldb_options_t, policy: *mut leveldb_filterpolicy_t) {
    set(options, |options| options.filter_policy = ticket(policy));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_create_if_missing(options: *mut leveldb_options_t, is_set: u8) {
    set(options, |options| options.create_if_missing = is_set != 0);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_error_if_exists(options: *mut leveldb_options_t, is_set: u8) {
    set(options, |options| options.error_if_exists = is_set != 0);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_paranoid_checks(options: *mut leveldb_options_t, is_set: u8) {
    set(options, |options| options.paranoid_checks = is_set != 0);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_env(options: *mut leveldb_options_t, env: *mut leveldb_env_t) {
    set(options, |options| options.env = ticket(env));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_info_log(options: *mut leveldb_options_t, logger: *mut leveldb_logger_t) {
    set(options, |options| options.has_logger = !logger.is_null());
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_write_buffer_size(options: *mut leveldb_options_t, bytes: usize) {
    set(options, |options| options.write_buffer_bytes = Some(bytes));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_open_files(options: *mut leveldb_options_t, files: c_int) {
    set(options, |options| options.max_open_files = Some(files));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_cache(options: *mut leveldb_options_t, cache: *mut leveldb_cache_t) {
    set(options, |options| options.cache = ticket(cache));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_size(options: *mut leveldb_options_t, bytes: usize) {
    set(options, |options| options.block_bytes = Some(bytes));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_restart_interval(options: *mut leveldb_options_t, records: c_int) {
    set(options, |options| options.restart_interval = Some(records));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_file_size(options: *mut leveldb_options_t, bytes: usize) {
    set(options, |options| options.max_file_bytes = Some(bytes));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_compression(options: *mut leveldb_options_t, compression: c_int) {
    set(options, |options| options.compression = Some(compression));
}

/// Resets read options to their defaults: the shelf may reuse the place of destroyed options.
fn renew_read(held: &ReadOptions) {
    held.verify.store(false, Relaxed);
    held.passing.store(false, Relaxed);
    held.snapshot.store(0, Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_create() -> *mut leveldb_readoptions_t {
    raw::quietly(null_mut(), || pointer(READ_OPTIONS.put(renew_read)))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t) {
    raw::quietly((), || READ_OPTIONS.remove(ticket(options), |_| ()));
}

fn set_read(options: *mut leveldb_readoptions_t, change: impl FnOnce(&ReadOptions)) {
    if let Some(held) = READ_OPTIONS.get(ticket(options)) {
        change(held);
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_verify_checksums(options: *mut leveldb_readoptions_t, is_set: u8) {
    set_read(options, |held| held.verify.store(is_set != 0, Relaxed));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_fill_cache(options: *mut leveldb_readoptions_t, is_set: u8) {
    set_read(options, |held| held.passing.store(is_set == 0, Relaxed));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_snapshot(
    options: *mut leveldb_readoptions_t,
    snapshot: *const leveldb_snapshot_t,
) {
    set_read(options, |held| held.snapshot.store(ticket(snapshot), Relaxed));
}

fn set_sync(held: &HeldWriteOptions, is_set: bool) {
    held.sync.store(is_set, Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_create() -> *mut leveldb_writeoptions_t {
    raw::quietly(null_mut(), || pointer(WRITE_OPTIONS.put(|held| set_sync(held, false))))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t) {
    raw::quietly((), || WRITE_OPTIONS.remove(ticket(options), |_| ()));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_set_sync(options: *mut leveldb_writeoptions_t, is_set: u8) {
    if let Some(held) = WRITE_OPTIONS.get(ticket(options)) {
        set_sync(held, is_set != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held;

    /// A read's verification affects its result only in a store with memory corruption, so the test checks the
    /// decision.
    #[test]
    fn verify_checksums_asks_for_every_record() {
        let options = leveldb_readoptions_create();
        assert!(!held::how(ticket(options)).unwrap().verify);
        leveldb_readoptions_set_verify_checksums(options, 1);
        assert!(held::how(ticket(options)).unwrap().verify);
        leveldb_readoptions_set_verify_checksums(options, 0);
        assert!(!held::how(ticket(options)).unwrap().verify);
        leveldb_readoptions_destroy(options);
        assert!(held::how(ticket(options)).is_err());
    }
}
