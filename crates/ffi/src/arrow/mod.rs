//! Scans and selects as Arrow streams: rows in columns, which Arrow consumers use without another copy.
//!
//! In:     a family or a snapshot of it, a range, the selected columns.
//! Out:    a `struct ArrowArrayStream` of batches with the columns `key`, `value`, `seqno` and `seal`.
//! Holds:  a batch has no pointers into the store: arrays outlive stream and store. Each struct is released once, by
//!         its owner, in any order.
//!
//! This module uses no Arrow library: the interface is three C structs and their rules. Source: The Arrow C data
//! interface, and the Arrow C stream interface (arrow.apache.org, format specifications).

mod abi;
mod buffer;
mod columns;
mod scan;
mod stream;
mod table_columns;
mod table_scan;

pub use abi::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub use scan::*;
pub(crate) use table_scan::stream_of;
