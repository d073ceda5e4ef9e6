//! The native half of Waxseal's Python package: the calls that are made a million times a second.
//!
//! In: Python objects. Out: calls of the C library, which is all that this crate knows of the engine, and Python objects. Everything else
//! that the package can do is called through ctypes, in the same library. What must hold:
//!
//! - **The interpreter's lock is released** around every call that may wait for a disk or for another thread.
//! - **Nothing that Python can change is lent** while the lock is released: `bytes` are lent, other buffers are copied.
//! - **Rows that the library lends are read under the lock of their iterator**, so that nobody moves or ends it meanwhile.
//! - **After a fork the child calls nothing**: threads and locks of the engine stayed behind. Every call asks first.
//!
//! This crate is a fence: the library's functions take pointers. Each `unsafe` block says what holds for its pointers.

#![allow(unsafe_code, reason = "the C library is called through pointers")]

mod arguments;
mod arrow;
mod batch;
mod c;
mod interrupt;
mod reader;
mod rows;
mod shared;
mod write;

use pyo3::prelude::*;

/// Calls of the C library that are made a million times a second.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::arrow::stream_capsule;
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::interrupt::{interrupt_address, take_interrupt};
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::shared::{Store, forked};
    #[pymodule_export]
    use crate::write::Keyspace;
}
