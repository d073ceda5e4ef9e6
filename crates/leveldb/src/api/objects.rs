#![allow(unsafe_code, reason = "fence: C calls it")]
//! Comparators, filter policies, caches, environments, and functions without an object.

use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Arc;

use waxseal::Cache;
use waxseal::env::{Fs, RealFs};

use super::{leveldb_cache_t, leveldb_comparator_t, leveldb_env_t, leveldb_filterpolicy_t, pointer, ticket};
use crate::callback::{Compare, CreateFilter, Destructor, Filtering, KeyMayMatch, NameFunction, Ordered};
use crate::held::{CACHES, COMPARATORS, ENVIRONMENTS, HeldPolicy, POLICIES};
use crate::raw;
use crate::shelf::lock;

/// The version of LevelDB whose C API this library implements.
const VERSION: (c_int, c_int) = (1, 23);

/// Returns NULL only if memory is exhausted. If a function is missing, every open with the comparator fails.
#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Option<Compare>,
    name: Option<NameFunction>,
) -> *mut leveldb_comparator_t {
    raw::quietly(null_mut(), || {
        let made = Ordered::new(state, destructor, compare, name);
        pointer(COMPARATORS.put(|held| *lock(held) = Some(made)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_destroy(comparator: *mut leveldb_comparator_t) {
    raw::quietly((), || {
        COMPARATORS.remove(ticket(comparator), |held| {
            let taken = lock(held).take();
            drop(taken); // runs the caller's destructor after the unlock
        });
    });
}

/// Returns NULL only if memory is exhausted. If a function is missing, every open with the policy fails.
#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    create_filter: Option<CreateFilter>,
    key_may_match: Option<KeyMayMatch>,
    name: Option<NameFunction>,
) -> *mut leveldb_filterpolicy_t {
    raw::quietly(null_mut(), || {
        let made = Filtering::new(state, destructor, create_filter, key_may_match, name).map(HeldPolicy::Own);
        pointer(POLICIES.put(|held| *lock(held) = Some(made)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_destroy(policy: *mut leveldb_filterpolicy_t) {
    raw::quietly((), || {
        POLICIES.remove(ticket(policy), |held| {
            let taken = lock(held).take();
            drop(taken); // runs the caller's destructor after the unlock
        });
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut leveldb_filterpolicy_t {
    raw::quietly(null_mut(), || {
        let bloom = HeldPolicy::Bloom(bits_per_key.clamp(1, 32) as usize);
        pointer(POLICIES.put(|held| *lock(held) = Some(Ok(bloom))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(capacity: usize) -> *mut leveldb_cache_t {
    raw::quietly(null_mut(), || {
        let cache = Arc::new(Cache::new(capacity));
        pointer(CACHES.put(|held| *lock(held) = Some(cache)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_destroy(cache: *mut leveldb_cache_t) {
    raw::quietly((), || CACHES.remove(ticket(cache), |held| drop(lock(held).take())));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> *mut leveldb_env_t {
    raw::quietly(null_mut(), || pointer(ENVIRONMENTS.put(|_| ())))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_env_destroy(env: *mut leveldb_env_t) {
    raw::quietly((), || ENVIRONMENTS.remove(ticket(env), |_| ()));
}

/// Returns the directory that LevelDB's tests use, after trying to create it.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(env: *mut leveldb_env_t) -> *mut c_char {
    raw::quietly(null_mut(), || {
        if ENVIRONMENTS.get(ticket(env)).is_none() {
            return null_mut();
        }
        let wanted = std::env::var_os("TEST_TMPDIR").filter(|path| !path.is_empty());
        let path = wanted.map_or_else(|| PathBuf::from(format!("/tmp/leveldbtest-{}", raw::user())), PathBuf::from);
        let _ = RealFs.create_dir_all(&path); // a failure shows at the first use of the directory
        raw::malloced(OsStr::as_bytes(path.as_os_str()))
    })
}

/// # Safety
/// `ptr` is NULL or was returned by one of these functions for the caller to free.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_free(ptr: *mut c_void) {
    // SAFETY: the header's contract.
    unsafe { raw::free(ptr) }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    VERSION.0
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    VERSION.1
}
