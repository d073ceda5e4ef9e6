#![allow(unsafe_code, reason = "fence: functions of the caller, called as the header says")]
//! Comparators and filter policies supplied by the caller.
//!
//! As in LevelDB, they are called on the caller's threads and on flush and compaction threads, concurrently. The
//! caller's destructor runs after the last use: at `destroy`, or at the close of the last store that uses the object.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::sync::Arc;

use waxseal::{Comparator, FilterPolicy};

use crate::failure::Failure;
use crate::raw;

/// `int compare(void*, const char* a, size_t alen, const char* b, size_t blen)`
pub(crate) type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
/// `char* create_filter(void*, const char* const* keys, const size_t* lengths, int num_keys, size_t* filter_length)`
pub(crate) type CreateFilter =
    unsafe extern "C" fn(*mut c_void, *const *const c_char, *const usize, c_int, *mut usize) -> *mut c_char;
/// `unsigned char key_may_match(void*, const char* key, size_t length, const char* filter, size_t filter_length)`
pub(crate) type KeyMayMatch = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8;
/// `const char* name(void*)`
pub(crate) type NameFunction = unsafe extern "C" fn(*mut c_void) -> *const c_char;
/// `void destructor(void*)`
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);

/// A longer filter is treated as a bug of the policy and is not stored.
const MOST_FILTER_BYTES: usize = 64 << 20;

/// The `state` of the caller's functions, with its destructor.
struct CallerState {
    pointer: *mut c_void,
    destructor: Option<Destructor>,
}

// SAFETY: the header requires functions that any thread may call at any time, and the pointer is only passed to them.
unsafe impl Send for CallerState {}
// SAFETY: as above.
unsafe impl Sync for CallerState {}

impl Drop for CallerState {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the caller's function, called once, after the last use of the state.
            unsafe { destructor(self.pointer) }
        }
    }
}

impl CallerState {
    /// Calls `name` once and returns the name; `None` if the function is missing or returns NULL.
    fn name(&self, name: Option<NameFunction>) -> Option<String> {
        // SAFETY: the caller's function; it returns NULL or a zero-terminated text.
        let text = name.and_then(|name| unsafe { raw::text(name(self.pointer)) })?;
        // A name that is not UTF-8 is escaped, so that different names stay different.
        Some(std::str::from_utf8(text).map_or_else(|_| text.escape_ascii().to_string(), str::to_owned))
    }
}

/// A comparator supplied by the caller.
pub(crate) struct Ordered {
    state: CallerState,
    name: String,
    compare: Compare,
}

impl Ordered {
    /// Every function except the destructor is required.
    pub(crate) fn new(
        pointer: *mut c_void,
        destructor: Option<Destructor>,
        compare: Option<Compare>,
        name: Option<NameFunction>,
    ) -> Result<Arc<Ordered>, Failure> {
        let state = CallerState { pointer, destructor };
        let compare = compare.ok_or_else(|| Failure::invalid("a comparator without compare"))?;
        let name = state.name(name).ok_or_else(|| Failure::invalid("a comparator without a name"))?;
        Ok(Arc::new(Ordered { state, name, compare }))
    }
}

impl Comparator for Ordered {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (at, alen, bt, blen) = (a.as_ptr().cast(), a.len(), b.as_ptr().cast(), b.len());
        // SAFETY: the caller's function; the keys are readable for their lengths.
        unsafe { (self.compare)(self.state.pointer, at, alen, bt, blen) }.cmp(&0)
    }

    /// LevelDB's API cannot express it, so this is false.
    fn equal_means_same_bytes(&self) -> bool {
        false
    }
}

/// A filter policy supplied by the caller.
pub(crate) struct Filtering {
    state: CallerState,
    name: String,
    create: CreateFilter,
    may_match: KeyMayMatch,
}

impl Filtering {
    /// Every function except the destructor is required.
    pub(crate) fn new(
        pointer: *mut c_void,
        destructor: Option<Destructor>,
        create: Option<CreateFilter>,
        may_match: Option<KeyMayMatch>,
        name: Option<NameFunction>,
    ) -> Result<Arc<Filtering>, Failure> {
        let state = CallerState { pointer, destructor };
        let create = create.ok_or_else(|| Failure::invalid("a filter policy without create_filter"))?;
        let may_match = may_match.ok_or_else(|| Failure::invalid("a filter policy without key_may_match"))?;
        let name = state.name(name).ok_or_else(|| Failure::invalid("a filter policy without a name"))?;
        Ok(Arc::new(Filtering { state, name, create, may_match }))
    }
}

impl FilterPolicy for Filtering {
    fn name(&self) -> &str {
        &self.name
    }

    fn build(&self, keys: &[&[u8]]) -> Option<Vec<u8>> {
        let count = c_int::try_from(keys.len()).ok()?;
        let pointers: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut length = 0;
        // SAFETY: the caller's function. The arrays have `count` elements, and the keys are readable for their lengths.
        // The function returns NULL, or a `malloc`ed buffer of the returned length, which this library must free.
        unsafe {
            let made = (self.create)(self.state.pointer, pointers.as_ptr(), lengths.as_ptr(), count, &mut length);
            let filter =
                raw::handed(made, length).filter(|filter| filter.len() <= MOST_FILTER_BYTES).map(<[u8]>::to_vec);
            raw::free(made.cast());
            filter
        }
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        let (kt, klen, ft, flen) = (key.as_ptr().cast(), key.len(), filter.as_ptr().cast(), filter.len());
        // SAFETY: the caller's function; key and filter are readable for their lengths.
        unsafe { (self.may_match)(self.state.pointer, kt, klen, ft, flen) != 0 }
    }
}

impl fmt::Debug for Filtering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filtering({:?})", self.name)
    }
}
