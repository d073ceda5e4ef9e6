//! The index and filter of a table in memory, whole or in partitions, and reads of a partition from its file.

use std::sync::{Arc, OnceLock};

use super::filter::Filter;
use super::index::Index;
use super::top_index::{Span, Top, sum_of};
use crate::checksum::{Role, Uid};
use crate::env::{File, read_exact};
use crate::error::{Error, Result};
use crate::order::Order;
use crate::sst::block::frame::{Handle, check, drop_cached_pages, read_error};

/// Index and filter of one key range (a partition).
#[derive(Debug)]
pub(in crate::sst) struct Part {
    pub(in crate::sst) index: Index,
    pub(in crate::sst) filter: Option<Filter>,
}

impl Part {
    /// Returns false if no key of its range has this hash.
    #[inline]
    pub(in crate::sst) fn may_contain(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(key_hash))
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        size_of::<Part>() + self.index.memory() + self.filter.as_ref().map_or(0, Filter::memory)
    }
}

/// The index and filter of a table.
#[derive(Debug)]
pub(in crate::sst) enum Guide {
    /// Not partitioned.
    Whole(Part),
    /// Partitioned; partitions are loaded on demand.
    Cut(Cut),
}

/// A partitioned index, with the partitions loaded so far.
#[derive(Debug)]
pub(in crate::sst) struct Cut {
    pub(in crate::sst) top: Top,
    pub(in crate::sst) parts: Box<[OnceLock<Arc<Part>>]>,
}

impl Cut {
    pub(in crate::sst) fn new(top: Top) -> Cut {
        let parts = top.spans().iter().map(|_| OnceLock::new()).collect();
        Cut { top, parts }
    }

    /// Replaces a partition, for tests of memory corruption.
    pub(in crate::sst) fn put(&mut self, at: usize, part: Part) {
        self.parts[at] = OnceLock::from(Arc::new(part));
    }

    /// Returns a partition, if it is in memory.
    #[inline]
    pub(in crate::sst) fn loaded(&self, at: usize) -> Option<&Arc<Part>> {
        self.parts.get(at)?.get()
    }
}

impl Guide {
    /// Number of data blocks.
    #[inline]
    pub(in crate::sst) fn blocks(&self) -> usize {
        match self {
            Guide::Whole(part) => part.index.len(),
            Guide::Cut(cut) => cut.top.blocks(),
        }
    }

    /// End offset of the data blocks.
    pub(in crate::sst) fn data_end(&self) -> u64 {
        match self {
            Guide::Whole(part) => part.index.data_end(),
            Guide::Cut(cut) => cut.top.data_end(),
        }
    }

    /// Size of the memory held while the table is open.
    pub(in crate::sst) fn memory(&self) -> usize {
        match self {
            Guide::Whole(part) => part.memory(),
            Guide::Cut(cut) => cut.top.memory() + cut.parts.len() * size_of::<OnceLock<Arc<Part>>>(),
        }
    }

    /// Returns the partitions in memory.
    pub(in crate::sst) fn loaded(&self) -> impl Iterator<Item = &Part> {
        let (whole, parts) = match self {
            Guide::Whole(part) => (Some(part), &[][..]),
            Guide::Cut(cut) => (None, &cut.parts[..]),
        };
        whole.into_iter().chain(parts.iter().filter_map(|part| part.get().map(|part| &**part)))
    }

    /// Returns the key ranges of a partitioned index; empty otherwise.
    pub(in crate::sst) fn spans(&self) -> &[Span] {
        match self {
            Guide::Whole(_) => &[],
            Guide::Cut(cut) => cut.top.spans(),
        }
    }

    /// Returns the partition that names a block, if it is in memory.
    pub(in crate::sst) fn part_in_memory(&self, block: usize) -> Option<&Part> {
        match self {
            Guide::Whole(part) => Some(part),
            Guide::Cut(cut) => cut.loaded(cut.top.range_of(block)?).map(|part| &**part),
        }
    }

    /// Returns the partition for a key, if it is in memory.
    #[inline]
    pub(in crate::sst) fn part_in_memory_for(&self, key: &[u8], order: &Order) -> Option<&Part> {
        match self {
            Guide::Whole(part) => Some(part),
            Guide::Cut(cut) => cut.loaded(cut.top.find(key, order)).map(|part| &**part),
        }
    }

    /// Returns false if memory corruption is detected in the top level or the partition.
    pub(in crate::sst) fn is_sound(&self, index: &Index, order: &Order) -> bool {
        let leads = match self {
            Guide::Whole(_) => true,
            Guide::Cut(cut) => cut.top.is_sound(order),
        };
        leads && index.is_sound(order)
    }
}

/// Reads partitions from a file.
pub(in crate::sst) struct PartSource<'a> {
    pub(in crate::sst) name: &'a str,
    pub(in crate::sst) file: &'a dyn File,
    pub(in crate::sst) uid: Uid,
    pub(in crate::sst) order: &'a Order,
    /// Filters are used: their hashes match the table's order.
    pub(in crate::sst) filtered: bool,
}

impl PartSource<'_> {
    /// Reads both blocks of a partition, which are adjacent, in one read; or one by one if that fails.
    pub(in crate::sst) fn read(&self, span: &Span) -> (Result<Index>, Result<Option<Filter>>) {
        let wants_filter = self.filtered && !span.filter.is_absent();
        let together = match wants_filter {
            true => read_exact(self.file, span.index.offset, span.index.bytes() + span.filter.bytes()).ok(),
            false => None,
        };
        let framed = |handle: &Handle, from: usize| match &together {
            Some(bytes) => Ok(bytes[from..from + handle.bytes()].to_vec()),
            None => read_exact(self.file, handle.offset, handle.bytes())
                .map_err(|error| read_error(self.name, handle.offset, error)),
        };
        let index = framed(&span.index, 0).and_then(|block| self.index_of(&block, span));
        let filter = match wants_filter {
            true => framed(&span.filter, span.index.bytes()).and_then(|block| self.filter_of(&block, span)).map(Some),
            false => Ok(None),
        };
        let named = |error: Error, handle: &Handle| error.in_file(self.name, handle.offset);
        (index.map_err(|error| named(error, &span.index)), filter.map_err(|error| named(error, &span.filter)))
    }

    fn index_of(&self, block: &[u8], span: &Span) -> Result<Index> {
        let (body, _) = check(block, &self.uid, Role::Index, &span.index)?;
        let index = Index::decode_part(body, self.order, span.end, span.range.clone())?;
        let is_it = index.len() == span.blocks
            && index.data_end() == span.end
            && index.separator(index.end() - 1) == span.bound
            && sum_of(index.handles().iter().map(|handle| handle.crc)) == span.sum;
        if is_it {
            Ok(index)
        } else {
            Err(Error::structural("a part of an index does not name the blocks of its range"))
        }
    }

    fn filter_of(&self, block: &[u8], span: &Span) -> Result<Filter> {
        let (body, _) = check(block, &self.uid, Role::Filter, &span.filter)?;
        Filter::decode(body)
    }

    /// Drops the operating system's cached pages of a partition.
    pub(in crate::sst) fn forget(&self, span: &Span) {
        let end = if span.filter.is_absent() { span.index.end() } else { span.filter.end() };
        drop_cached_pages(self.file, span.index.offset, end);
    }
}
