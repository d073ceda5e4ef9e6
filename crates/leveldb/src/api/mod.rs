//! The functions of `leveldb/c.h`, in the header's order. Each function converts its arguments, looks objects up by
//! their tickets, and calls the implementation. [`crate::raw::answer`] reports failures. The header documents the
//! functions.
//!
//! The header's contract makes them safe: a pointer to bytes is NULL or readable for its length, `*errptr` is NULL or
//! was `malloc`ed. Object pointers are never dereferenced, so they need no contract.

mod batch;
mod iterator;
mod objects;
mod options;
mod store;

/// Opaque types for callers' object pointers; such a pointer is a ticket.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        /// Has no values; pointers to it are tickets.
        #[expect(non_camel_case_types, reason = "C's name")]
        enum $name {}
    )* };
}

opaque! {
    leveldb_t leveldb_cache_t leveldb_comparator_t leveldb_env_t leveldb_filterpolicy_t leveldb_iterator_t leveldb_logger_t
    leveldb_options_t leveldb_readoptions_t leveldb_snapshot_t leveldb_writebatch_t leveldb_writeoptions_t
}

/// Returns the ticket in a pointer.
#[inline]
fn ticket<T>(pointer: *const T) -> usize {
    pointer.addr()
}

/// Converts a ticket to a pointer for C; 0 becomes NULL.
#[inline]
fn pointer<T>(ticket: usize) -> *mut T {
    std::ptr::without_provenance_mut(ticket)
}
