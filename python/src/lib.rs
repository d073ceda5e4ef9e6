//! The native half of Waxseal's Python package: the frequent calls.
//!
//! In: Python objects. Out: calls of the C library, the only part of the engine that this crate knows, and Python
//! objects. The package makes all other calls through ctypes, with the same library. Invariants:
//!
//! - **The GIL is released** around every call that may wait for a disk or for another thread.
//! - **Memory that Python can change is not borrowed** while the GIL is released: `bytes` are borrowed, other buffers
//!   are copied.
//! - **Rows that the library lends are read under the lock of their iterator**, so that no other thread moves or
//!   destroys it meanwhile.
//! - **A forked child calls nothing**, since it lacks the engine's threads and locks. Every call checks this first.
//!
//! This crate is a fence: the library's functions take pointers. Each `unsafe` block states why its pointers are valid.

#![allow(unsafe_code, reason = "the C library is called through pointers")]

mod arguments;
mod arrow;
mod batch;
mod batch_handle;
mod c;
mod interrupt;
mod order;
mod reader;
mod rows;
mod shared;
mod write;

use pyo3::prelude::*;

/// Frequent calls of the C library.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::arrow::stream_capsule;
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::interrupt::{interrupt_address, keep_interrupt, take_interrupt};
    #[pymodule_export]
    use crate::order::compare_address;
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::shared::{Store, forked};
    #[pymodule_export]
    use crate::write::Keyspace;
}
