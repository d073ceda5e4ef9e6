//! The functions of `leveldb/c.h`, in its order. Each takes its arguments apart, looks objects up by their tickets, and calls what
//! does the work; what fails is reported by [`crate::raw::answer`]. Their pages are in the header.
//!
//! Safety of all of them is the header's: a pointer to bytes is NULL or good for its length, `*errptr` is NULL or was `malloc`ed.
//! Objects are not followed, so nothing is asked of them.

mod batch;
mod iterator;
mod objects;
mod options;
mod store;

/// What callers hold in the place of each kind of object: a ticket that looks like a pointer.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        /// Nobody makes one; pointers to it are tickets.
        #[expect(non_camel_case_types, reason = "C's name")]
        enum $name {}
    )* };
}

opaque! {
    leveldb_t leveldb_cache_t leveldb_comparator_t leveldb_env_t leveldb_filterpolicy_t leveldb_iterator_t leveldb_logger_t
    leveldb_options_t leveldb_readoptions_t leveldb_snapshot_t leveldb_writebatch_t leveldb_writeoptions_t
}

/// The ticket that a pointer is.
#[inline]
fn ticket<T>(pointer: *const T) -> usize {
    pointer.addr()
}

/// A ticket as C holds it; NULL for 0.
#[inline]
fn pointer<T>(ticket: usize) -> *mut T {
    std::ptr::without_provenance_mut(ticket)
}
