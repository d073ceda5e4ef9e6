//! The position of an index partition in its table.

use crate::header::HEADER_BYTES;

/// The position of an index partition in its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::sst) struct IndexRange {
    /// The number of its first block.
    pub(in crate::sst) first: usize,
    /// File offset of that block.
    pub(in crate::sst) offset: u64,
    /// The last separator of the previous partition; `None` for the first one.
    pub(in crate::sst) floor: Option<Vec<u8>>,
    /// True for the last partition.
    pub(in crate::sst) is_last: bool,
}

impl IndexRange {
    /// The range of a whole table.
    pub(in crate::sst) fn whole() -> IndexRange {
        IndexRange { first: 0, offset: HEADER_BYTES as u64, floor: None, is_last: true }
    }
}
