//! The user's view: one value per key at a seqno, over records in internal order.

mod cursor;
mod deleted;
mod reader;
mod run;
mod saved;
#[cfg(test)]
mod tests;

pub use self::cursor::{CursorBounds, UserCursor};
pub use self::reader::BlobReader;
