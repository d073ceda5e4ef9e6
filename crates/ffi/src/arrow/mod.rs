//! Scans as Arrow streams: rows in columns, handed to whoever speaks Arrow without copying them again.
//!
//! In:     a family or a snapshot of it, a range, the columns wanted.
//! Out:    a `struct ArrowArrayStream` of batches with the columns `key`, `value`, `seqno` and `seal`.
//! Holds:  nothing of a batch points into the store: arrays outlive stream and store. Each struct is released once,
//!         by whoever has it, in any order.
//!
//! There is no Arrow library in this: the interface is three C structs and their rules. Source: The Arrow C data interface, and the
//! Arrow C stream interface (arrow.apache.org, format specifications).

mod abi;
mod buffer;
mod columns;
mod scan;
mod stream;

pub use abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub use scan::*;
