//! LevelDB's C API on Waxseal: a program written for `leveldb/c.h` relinks and runs.
//!
//! ```text
//! api/           the 68 functions, one file per section of the header: convert arguments and results
//! raw.rs         the caller's memory: bytes, texts, error pointers, `malloc`ed results
//! shelf.rs       handle tables: tickets that callers hold as pointers, and the lookup of objects
//! held.rs        the handle tables, one for each kind of object
//! store.rs       an open store, and its reads and writes
//! options.rs     the options that were set          open_plan.rs  their effect at open
//! batch.rs       collected writes                   iterator.rs   positions, with a sticky error
//! callback.rs    comparators and filter policies    property.rs   properties of a store
//! manage.rs      destroy, repair                    foreign.rs    databases of LevelDB itself
//! failure.rs     errors in LevelDB's form
//! ```
//!
//! Holds: no object pointer is ever dereferenced. It is a ticket (`shelf.rs`), so NULL, a closed store, a destroyed
//!        iterator or an object of another kind causes an error or nothing, but never a crash. Bytes and texts of the
//!        caller are read up to the given length and this library's limits. No panic crosses into C.
//!        Results are `malloc`ed and belong to the caller. An old text in `*errptr` is freed when it is replaced.
//! Threads: any number of threads may use a store, its snapshots and the option objects at once. An iterator and a
//!        write batch belong to one thread at a time; concurrent calls are serialized.
//!
//! Unlike LevelDB, a key has at most 65,535 bytes and a value 3 GiB less one; a longer one is an error and changes
//! nothing. The header documents the effect of each option. Files have Waxseal's format: a database of LevelDB is
//! refused.

mod api;
mod batch;
mod callback;
mod failure;
mod foreign;
mod held;
mod iterator;
mod manage;
mod open_plan;
mod options;
mod property;
mod raw;
mod shelf;
mod store;
