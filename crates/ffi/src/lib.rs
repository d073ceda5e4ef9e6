//! The C library: what `include/waxseal.h` declares, which is made from this source by `cargo xtask header`.
//!
//! In: handles, pointers with lengths, numbers. Out: a status, and what the pointers to outputs point to. What must hold for every
//! function:
//!
//! - **A status, always.** Whatever a caller passes for a handle (null, one that was ended, one of another kind, any number), the answer
//!   is a status. A panic is caught at the boundary (`call`) and is a status too.
//! - **Outputs are written last**, and only by a call that succeeded.
//! - **Nothing is kept of what was lent.** Bytes that a caller passes are copied before the call returns.
//! - **No lock is held while foreign code runs**, other than that of the one object that the call is about.
//!
//! # Handles
//!
//! A handle is a number that looks like a pointer: its kind, a place in a table, and how often that place was used before (`handle`).
//! C never follows it. So a handle that was ended is known to be, for good, and two threads that end the same one get one success.
//!
//! # Pointers
//!
//! This crate is a fence: its functions are `unsafe`, because bytes and outputs are reached through the caller's pointers. What the
//! header asks for is all that they rely on: a pointer with a length is readable for that length, a pointer to an output is null or
//! writable, and neither is touched by others during the call. Each function takes its pointers in one `unsafe` block, into the
//! types of `lent`; behind it everything is safe Rust.

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

// In the order of the header.

pub mod error;
pub mod handle;
pub mod lent;
pub mod version;

pub mod bytes;

pub mod comparator;
pub mod family_options;
pub mod options;
pub mod tuning;
pub mod write_options;

pub mod db;
pub mod interrupt;
pub mod metrics;

pub mod family;
pub mod range;

pub mod snapshot;

pub mod write;

pub mod batch;

pub mod get;

pub mod iter;

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
