//! The guide: what leads a reader to a block, index and filter. Of a small table all of it is in memory while the table is open. Of a
//! large one (`top`) the part of a range comes when a key or a block of that range is first asked for, and stays until the table is
//! closed.
//!
//! In:     a key, or the number of a block. Out: the part that names the block, with the filter of its range.
//! Holds:  a part is believed only if it is as the top says: its sum, its place, its bounds, and the word over the sums of its blocks. One
//!         that is not is read again; then its index is made anew from the blocks of its range (`rebuild`), and its filter denies nothing.
//!         What cannot be found among those blocks is named like a block that does not fit its sum: whoever reads there treats it as
//!         any damaged block, so that the loss is that range's alone, told by every read that meets it (law 9), and absence is proved
//!         as in any block (law 12).
//!         Memory may be hit behind a search of the top. A filter's "no" from a part counts, where it is to be believed, only if the
//!         part itself says that the key is in its range; a "maybe" leads to a block, whose neighbours are proved.
//! Costs:  a part that is in memory: one search among the ranges, one load. One that is not: one read of some tens of KB, which is charged
//!         to the cache and to the bound on what open tables take. No lock; two threads that come first at once both read, and one
//!         of the two parts is used.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use super::ends::read_error;
use super::filter::Filter;
use super::format::{Handle, check};
use super::heal::{PAGE_BYTES, TRIES};
use super::index::Index;
use super::rebuild::rebuilt_part;
use super::table::Table;
use super::top::{Span, Top, sum_of};
use crate::checksum::{Role, Uid};
use crate::env::{File, read_exact};
use crate::error::{Error, Remedy, Result};
use crate::order::Order;
use crate::planted::{self, Bug};

/// Index and filter of a range of keys.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) index: Index,
    pub(super) filter: Option<Filter>,
}

impl Part {
    /// False if no key of its range has this hash.
    #[inline]
    pub(super) fn may_contain(&self, key_hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(key_hash))
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        size_of::<Part>() + self.index.memory() + self.filter.as_ref().map_or(0, Filter::memory)
    }
}

/// What leads to the blocks of a table.
#[derive(Debug)]
pub(super) enum Guide {
    /// All of it.
    Whole(Part),
    /// A part for each range, those that were asked for.
    Cut(Cut),
}

/// The parts of a cut index, as far as they are in memory.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) top: Top,
    parts: Box<[OnceLock<Arc<Part>>]>,
}

impl Cut {
    pub(super) fn new(top: Top) -> Cut {
        let parts = top.spans().iter().map(|_| OnceLock::new()).collect();
        Cut { top, parts }
    }

    /// Puts a part in its place, for tests of what is hit in memory.
    pub(super) fn put(&mut self, at: usize, part: Part) {
        self.parts[at] = OnceLock::from(Arc::new(part));
    }

    /// The part of a range, if it is in memory.
    #[inline]
    fn loaded(&self, at: usize) -> Option<&Arc<Part>> {
        self.parts.get(at)?.get()
    }
}

impl Guide {
    /// Number of data blocks.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        match self {
            Guide::Whole(part) => part.index.len(),
            Guide::Cut(cut) => cut.top.blocks(),
        }
    }

    /// Where the data blocks end.
    pub(super) fn data_end(&self) -> u64 {
        match self {
            Guide::Whole(part) => part.index.data_end(),
            Guide::Cut(cut) => cut.top.data_end(),
        }
    }

    /// Bytes that are in memory as long as the table is open.
    pub(super) fn memory(&self) -> usize {
        match self {
            Guide::Whole(part) => part.memory(),
            Guide::Cut(cut) => cut.top.memory() + cut.parts.len() * size_of::<OnceLock<Arc<Part>>>(),
        }
    }

    /// The parts in memory.
    pub(super) fn loaded(&self) -> impl Iterator<Item = &Part> {
        let (whole, parts) = match self {
            Guide::Whole(part) => (Some(part), &[][..]),
            Guide::Cut(cut) => (None, &cut.parts[..]),
        };
        whole.into_iter().chain(parts.iter().filter_map(|part| part.get().map(|part| &**part)))
    }

    /// The ranges of a cut one.
    pub(super) fn spans(&self) -> &[Span] {
        match self {
            Guide::Whole(_) => &[],
            Guide::Cut(cut) => cut.top.spans(),
        }
    }

    /// The part that names a block, if it is in memory.
    pub(super) fn part_in_memory(&self, block: usize) -> Option<&Part> {
        match self {
            Guide::Whole(part) => Some(part),
            Guide::Cut(cut) => cut.loaded(cut.top.range_of(block)?).map(|part| &**part),
        }
    }

    /// The part that a key leads to, if it is in memory.
    #[inline]
    pub(super) fn part_in_memory_for(&self, key: &[u8], order: &Order) -> Option<&Part> {
        match self {
            Guide::Whole(part) => Some(part),
            Guide::Cut(cut) => cut.loaded(cut.top.find(key, order)).map(|part| &**part),
        }
    }

    /// False if memory was hit: the search that leads to a part, or the part.
    pub(super) fn is_sound(&self, index: &Index, order: &Order) -> bool {
        let leads = match self {
            Guide::Whole(_) => true,
            Guide::Cut(cut) => cut.top.is_sound(order),
        };
        leads && index.is_sound(order)
    }
}

impl Table {
    /// The part where a key is looked for. For a key behind the table the last one.
    #[inline]
    pub(super) fn part_for(&self, key: &[u8]) -> Result<&Part> {
        self.part_for_in(&self.guide, key)
    }

    #[inline]
    fn part_for_in<'a>(&self, guide: &'a Guide, key: &[u8]) -> Result<&'a Part> {
        match guide {
            Guide::Whole(part) => Ok(part),
            Guide::Cut(cut) => self.part_of_cut_for(cut, key),
        }
    }

    #[inline(never)]
    fn part_of_cut_for<'a>(&self, cut: &'a Cut, key: &[u8]) -> Result<&'a Part> {
        let mut at = cut.top.find(key, &self.order);
        if planted::active(Bug::PartOfItsNeighbour) && cut.top.spans()[at].bound == key {
            at = (at + 1).min(cut.top.spans().len() - 1);
        }
        self.loaded_or_read(cut, at)
    }

    #[inline]
    fn loaded_or_read<'a>(&self, cut: &'a Cut, at: usize) -> Result<&'a Part> {
        match cut.loaded(at) {
            Some(part) => Ok(part),
            None => self.load_part(cut, at),
        }
    }

    /// The part that names a block.
    #[inline]
    pub(super) fn part_of(&self, block: usize) -> Result<&Part> {
        self.part_of_in(&self.guide, block)
    }

    #[inline]
    fn part_of_in<'a>(&self, guide: &'a Guide, block: usize) -> Result<&'a Part> {
        match guide {
            Guide::Whole(part) => Ok(part),
            Guide::Cut(cut) => self.part_of_cut(cut, block),
        }
    }

    #[inline(never)]
    fn part_of_cut<'a>(&self, cut: &'a Cut, block: usize) -> Result<&'a Part> {
        self.loaded_or_read(cut, cut.top.range_of(block).ok_or_else(unnamed)?)
    }

    /// The part that names a block, for a job that goes over the table once: one that is not in memory is not kept there.
    pub(super) fn part_passing(&self, block: usize) -> Result<Passing<'_>> {
        if let Some(part) = self.guide.part_in_memory(block) {
            return Ok(Passing::Kept(part));
        }
        let Guide::Cut(cut) = &self.guide else { return Err(unnamed()) };
        let at = cut.top.range_of(block).ok_or_else(unnamed)?;
        self.read_part(&cut.top.spans()[at], false).map(|part| Passing::Own(Box::new(part)))
    }

    /// Reads every part of a cut index that is not in memory yet, and keeps it there: what comes after that needs nothing of the file but its
    /// blocks. `by_data`: what the device does not give of them is made anew, like what is damaged. Errors: else `Io`.
    pub fn read_guide(&self, by_data: bool) -> Result<()> {
        let Guide::Cut(cut) = &self.guide else { return Ok(()) };
        for (slot, span) in cut.parts.iter().zip(cut.top.spans()) {
            if slot.get().is_none() {
                self.keep(slot, self.read_part(span, by_data)?);
            }
        }
        Ok(())
    }

    /// The handle of a data block.
    pub(super) fn handle(&self, block: usize) -> Result<Handle> {
        self.part_of(block)?.index.handle(block).copied().ok_or_else(unnamed)
    }

    /// Where a block begins, as far as that is known without a read.
    pub(super) fn offset_of(&self, block: usize) -> u64 {
        let named = self.guide.part_in_memory(block).and_then(|part| part.index.handle(block));
        named.map_or_else(|| self.spans_offset(block), |handle| handle.offset)
    }

    fn spans_offset(&self, block: usize) -> u64 {
        match &self.guide {
            Guide::Cut(cut) => cut.top.range_of(block).map_or(0, |at| cut.top.spans()[at].range.offset),
            Guide::Whole(_) => 0,
        }
    }

    /// A part that is not to be told from one that was just read, and names a block; from the spare where memory was hit.
    pub(super) fn trusted_part_of(&self, block: usize) -> Result<&Part> {
        let part = self.part_of(block)?;
        if self.guide.is_sound(&part.index, &self.order) {
            Ok(part)
        } else {
            self.part_of_in(self.spare_guide()?, block)
        }
    }

    /// The same for the part that a key leads to.
    pub(super) fn trusted_part_for(&self, key: &[u8]) -> Result<&Part> {
        let part = self.part_for(key)?;
        if self.guide.is_sound(&part.index, &self.order) {
            Ok(part)
        } else {
            self.part_for_in(self.spare_guide()?, key)
        }
    }

    /// Index and filter read from the file again.
    fn spare_guide(&self) -> Result<&Guide> {
        if self.spare.get().is_none() {
            let parts = self.read_parts().map_err(|error| error.in_family(self.watch.family(), None))?;
            if self.spare.set(parts.guide).is_ok() {
                self.watch.healed(&self.name, 0, Remedy::ReadAgain);
            }
        }
        self.spare.get().ok_or_else(|| self.disagree(0))
    }

    /// Reads the part of a range and keeps it.
    #[cold]
    #[inline(never)]
    fn load_part<'a>(&self, cut: &'a Cut, at: usize) -> Result<&'a Part> {
        let (Some(slot), Some(span)) = (cut.parts.get(at), cut.top.spans().get(at)) else { return Err(unnamed()) };
        let mut part = self.read_part(span, false)?;
        if planted::active(Bug::FilterOfAnotherRange) {
            part.filter = self.read_part(&cut.top.spans()[(at + 1) % cut.parts.len()], false)?.filter;
        }
        Ok(self.keep(slot, part))
    }

    /// Keeps a part in its place, if none has come there meanwhile.
    fn keep<'a>(&self, slot: &'a OnceLock<Arc<Part>>, part: Part) -> &'a Part {
        let part = Arc::new(part);
        let kept = slot.get_or_init(|| part.clone());
        if Arc::ptr_eq(kept, &part) {
            self.keeps(part.memory());
        }
        kept
    }

    /// So many bytes of index and filter have come into memory.
    fn keeps(&self, bytes: usize) {
        self.slots.pin_more(bytes);
        self.loaded_bytes.fetch_add(bytes, Relaxed);
        self.watch.grew(bytes);
    }

    /// Reads the part of a range, again if it does not pass, and makes it anew from the blocks of the range if that does not help; with
    /// `by_data` also if the device does not give it.
    fn read_part(&self, span: &Span, by_data: bool) -> Result<Part> {
        let is_lost = |error: &Error| by_data || error.is_corruption();
        let from = self.part_source();
        let (mut index, mut filter) = from.read(span);
        for _ in 0..TRIES {
            let hit = |error: Option<&Error>| error.is_some_and(is_lost);
            if !hit(index.as_ref().err()) && !hit(filter.as_ref().err()) {
                break;
            }
            self.watch.doubted();
            from.forget(span);
            (index, filter) = from.read(span);
            if index.is_ok() && filter.is_ok() {
                self.watch.healed(&self.name, span.index.offset, Remedy::ReadAgain);
            }
        }
        for error in [index.as_ref().err(), filter.as_ref().err()].into_iter().flatten() {
            if by_data && !error.is_corruption() {
                drop(self.refused.set(error.clone()));
            }
        }
        let filter = match filter {
            Err(error) if is_lost(&error) => {
                self.watch.damaged(&self.in_range(error, span));
                None // every key may be there
            }
            filter => filter?,
        };
        match index {
            Err(error) if is_lost(&error) => {
                let index = self.index_anew(&from, span, error)?;
                let denies = planted::active(Bug::DamagedPartDenies);
                Ok(Part { index, filter: if denies { Some(Filter::of_nothing()) } else { filter } })
            }
            index => Ok(Part { index: index?, filter }),
        }
    }

    /// The part of the index that names the blocks of a range, from these blocks.
    fn index_anew(&self, from: &PartSource<'_>, span: &Span, error: Error) -> Result<Index> {
        let (index, is_it, refused) = rebuilt_part(from, span, self.dictionary.as_deref())?;
        refused.into_iter().for_each(|refused| drop(self.refused.set(refused)));
        match is_it {
            true => self.watch.healed(&self.name, span.index.offset, Remedy::Rebuilt),
            false => self.watch.damaged(&self.in_range(error, span)),
        }
        Ok(index)
    }

    /// Names family and keys in an error of a range.
    fn in_range(&self, error: Error, span: &Span) -> Error {
        let floor = span.range.floor.as_ref().unwrap_or(&self.properties.smallest);
        error.in_family(self.watch.family(), Some((&floor[..], &span.bound[..])))
    }

    /// What the file says of a range, without any remedy: for whoever verifies.
    pub(super) fn check_part(&self, span: &Span) -> Result<Part> {
        let (index, filter) = self.part_source().read(span);
        Ok(Part { index: index?, filter: filter? })
    }

    fn part_source(&self) -> PartSource<'_> {
        let filtered = self.has_own_filter;
        PartSource { name: &self.name, file: &*self.file, uid: self.expected.uid, order: &self.order, filtered }
    }
}

/// A part for one who passes.
pub(super) enum Passing<'a> {
    /// It is in memory anyway.
    Kept(&'a Part),
    /// It goes with whoever asked.
    Own(Box<Part>),
}

/// Where parts are read from.
pub(super) struct PartSource<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a dyn File,
    pub(super) uid: Uid,
    pub(super) order: &'a Order,
    /// Filters are asked: their keys are hashed as the table's order wants it.
    pub(super) filtered: bool,
}

impl PartSource<'_> {
    /// Both parts of a range, which stand side by side, in one read; or by themselves if that fails.
    pub(super) fn read(&self, span: &Span) -> (Result<Index>, Result<Option<Filter>>) {
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

    /// Lets the operating system forget what it holds of the parts of a range.
    fn forget(&self, span: &Span) {
        let from = span.index.offset / PAGE_BYTES * PAGE_BYTES;
        let end = if span.filter.is_absent() { span.index.end() } else { span.filter.end() };
        self.file.advise(from, end.next_multiple_of(PAGE_BYTES) - from, false);
    }
}

fn unnamed() -> Error {
    Error::structural("a block that the index does not name")
}
