//! The C library: implements the functions that `include/waxseal.h` declares. `cargo xtask header` generates that
//! header from this source.
//!
//! In: handles, pointers with lengths, numbers. Out: a status, and the values written to the output pointers. Rules for
//! every function:
//!
//! - **Every call returns a status.** For any handle value (null, destroyed, of another kind, an arbitrary number) the
//!   call returns a status. A panic is caught at the boundary (`call`) and becomes a status too.
//! - **Outputs are written last**, and only by a call that succeeded.
//! - **Borrowed memory is not retained.** Bytes that a caller passes are copied before the call returns.
//! - **No lock is held while caller code runs**, except the lock of the one object that the call operates on.
//!
//! # Handles
//!
//! A handle is a number in the shape of a pointer. It encodes its kind, its slot in a table, and how often that slot
//! was used before (`handle`). C never dereferences it. The library therefore recognizes a destroyed handle forever,
//! and if two threads destroy one handle, exactly one of them succeeds.
//!
//! # Pointers
//!
//! This crate is a fence: its functions are `unsafe`, because they access bytes and outputs through the caller's
//! pointers. They rely on the header's requirements alone: a pointer with a length is readable for that length, an
//! output pointer is null or writable, and no other thread touches either during the call. Each function converts its
//! pointers in one `unsafe` block to the types of `lent`; the rest is safe Rust.

#![allow(unsafe_code, reason = "the C boundary: every function takes pointers of a caller that no compiler checks")]
#![allow(
    clippy::missing_safety_doc,
    reason = "what callers promise is the same everywhere, and stands above and in the header"
)]
#![allow(non_camel_case_types, reason = "C's names stand in the source as they stand in the header")]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles need pointers of 64 bits");

mod call;
pub mod callback;
mod declare;
mod order_failure;
mod reentry;

// In the order of the header.

pub mod failure;

pub mod error;
pub mod handle;
pub mod lent;
pub mod version;

pub mod bytes;

pub mod filter_function;
pub mod key_order;
pub mod merge_function;
pub mod property_function;

pub mod compaction_filter;
pub mod comparator;
pub mod family_options;
pub mod merge;
pub mod options;
pub mod table_property;
pub mod tuning;
pub mod write_options;

pub mod db;
pub mod interrupt;
mod json;
pub mod metrics;
pub mod pause;

pub mod family;
pub mod range;

pub mod snapshot;

pub mod update;
pub mod write;

pub mod ingest;

pub mod backup;
pub mod batch;
pub mod changes;

pub mod get;
mod given_function;

pub mod ends;

pub mod iter;
mod row_cursor;

pub mod transact;
pub mod transaction;

pub mod seal;

pub mod meta;

pub mod listener;

pub mod provider;

pub mod care;
pub mod care_options;
pub mod repair_source;
pub mod report;

pub mod exchange;

pub mod session;

pub mod authorizer;
pub mod registry;

pub mod events;
pub mod fields;
pub mod known;
pub mod log;
pub mod ring;
pub mod tables;

pub mod arrow;

pub mod files;

pub mod file;
pub mod file_list;
pub mod file_reads;
pub mod file_writer;

pub mod table;
pub mod table_catalogue;
pub mod table_indexes;
pub mod table_rows;
pub mod table_schema;
pub mod table_select;
pub mod table_transaction;
pub mod table_value;
pub mod table_write;

pub mod keyspaces;
pub mod purges;
