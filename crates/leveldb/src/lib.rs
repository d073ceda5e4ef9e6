//! LevelDB's C API on Waxseal: a program written for `leveldb/c.h` relinks and runs.
//!
//! ```text
//! api/           the 68 functions, one file per section of the header: arguments in, answers out
//! raw.rs         the caller's memory: bytes, texts, error pointers, results that `free` takes
//! shelf.rs       tickets: what the callers' pointers are, and how things are found by them
//! held.rs        the shelves, one for each kind of object
//! store.rs       one open store, and how each read of it is done
//! options.rs     what was set, and what becomes of it at open
//! batch.rs       writes that were gathered          iterator.rs   positions, and the error that sticks to them
//! callback.rs    comparators and filter policies    property.rs   what a store tells of itself
//! manage.rs      destroy, repair                    foreign.rs    what LevelDB itself wrote
//! failure.rs     errors in LevelDB's words
//! ```
//!
//! Holds: no pointer that stands for an object is ever followed. It is a ticket (`shelf.rs`), so a null, a closed store, an
//!        iterator that was destroyed, or an object of another kind is an error, or nothing, but no crash. Bytes and texts of the
//!        caller are read as far as he says and our limits allow. No panic crosses into C.
//!        Results are `malloc`ed and go to the caller; what `*errptr` held is freed when it is replaced.
//! Threads: a store, snapshots and the option objects may be used by any number of threads at once. An iterator and a write batch
//!        are for one thread at a time; two that use one are put in line.
//!
//! Unlike LevelDB: a key has at most 65,535 bytes and a value 3 GiB less one; more is an error and changes nothing. The header says
//! what each option does here. Files are Waxseal's: what LevelDB wrote is refused.

mod api;
mod batch;
mod callback;
mod failure;
mod foreign;
mod held;
mod iterator;
mod manage;
mod options;
mod property;
mod raw;
mod shelf;
mod store;
