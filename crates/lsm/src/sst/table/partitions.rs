//! Loads index and filter. Those of a small table are in memory while the table is open. Those of a large one are
//! partitioned (`top`): a partition is loaded at the first access to a key or block of its range, and stays until the
//! table is closed.
//!
//! In:    a key, or the number of a block.
//! Out:   the partition that names the block, with the filter of its range.
//! Holds: a partition is used only if it matches the top level: its CRC, position, bounds, and the checksum over its
//!        blocks' CRCs. If it does not, it is read again. If that fails, a damaged index is rebuilt from the blocks of
//!        its range (`rebuild`), and a damaged filter is not used: it excludes no key. A block that is not found by the
//!        rebuild is listed with a CRC that never matches. Readers then treat it as any damaged block: the loss is
//!        limited to that range, every read of it reports it (law 9), and absence is verified as in any block (law 12).
//!        Memory may be corrupted after a search of the top level. A negative filter answer from a partition therefore
//!        counts, where verification is on, only if the partition itself confirms that the key is in its range. A
//!        "maybe" leads to a block, whose neighbors are verified.
//! Costs: for a partition in memory, one search among the ranges and one load. Otherwise one read of some tens of KB,
//!        charged to the cache and to the limit on open tables' memory. No lock: if two threads load a partition at
//!        once, both read it, and one copy is kept.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use super::table::Table;
use crate::error::{Error, Remedy, Result};
use crate::planted::{self, Bug};
use crate::sst::block::frame::{Handle, TRIES};
use crate::sst::index::filter::Filter;
use crate::sst::index::index::Index;
use crate::sst::index::partitions::{Cut, Guide, Part, PartSource};
use crate::sst::index::top_index::Span;

impl Table {
    /// Returns the partition for a key. For a key past the end of the table, this is the last one.
    #[inline]
    pub(in crate::sst) fn part_for(&self, key: &[u8]) -> Result<&Part> {
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
        let mut at = cut.top.find(key, &self.records.order);
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

    /// Returns the partition that names a block.
    #[inline]
    pub(in crate::sst) fn part_of(&self, block: usize) -> Result<&Part> {
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

    /// Returns the partition that names a block, for a job that scans the table once. A partition loaded here is not
    /// kept in memory.
    pub(in crate::sst) fn part_passing(&self, block: usize) -> Result<Passing<'_>> {
        if let Some(part) = self.guide.part_in_memory(block) {
            return Ok(Passing::Kept(part));
        }
        let Guide::Cut(cut) = &self.guide else { return Err(unnamed()) };
        let at = cut.top.range_of(block).ok_or_else(unnamed)?;
        self.read_part(&cut.top.spans()[at], false).map(|part| Passing::Own(Box::new(part)))
    }

    /// Loads all partitions of the index, so that later reads access only data blocks. `by_data`: partitions that the
    /// device cannot read are rebuilt from the data, as damaged ones are. Errors: otherwise `Io`.
    pub fn read_guide(&self, by_data: bool) -> Result<()> {
        let Guide::Cut(cut) = &self.guide else { return Ok(()) };
        for (slot, span) in cut.parts.iter().zip(cut.top.spans()) {
            if slot.get().is_none() {
                self.keep(slot, self.read_part(span, by_data)?);
            }
        }
        Ok(())
    }

    /// Returns the handle of a data block.
    pub(in crate::sst) fn handle(&self, block: usize) -> Result<Handle> {
        self.part_of(block)?.index.handle(block).copied().ok_or_else(unnamed)
    }

    /// Returns the offset of a block, as precisely as is known without a read.
    pub(in crate::sst) fn offset_of(&self, block: usize) -> u64 {
        let named = self.guide.part_in_memory(block).and_then(|part| part.index.handle(block));
        named.map_or_else(|| self.spans_offset(block), |handle| handle.offset)
    }

    fn spans_offset(&self, block: usize) -> u64 {
        match &self.guide {
            Guide::Cut(cut) => cut.top.range_of(block).map_or(0, |at| cut.top.spans()[at].range.offset),
            Guide::Whole(_) => 0,
        }
    }

    /// Returns the partition that names a block, checked for memory corruption. If it is corrupted, returns the spare,
    /// read again.
    pub(in crate::sst) fn trusted_part_of(&self, block: usize) -> Result<&Part> {
        let part = self.part_of(block)?;
        if self.guide.is_sound(&part.index, &self.records.order) {
            Ok(part)
        } else {
            self.part_of_in(self.spare_guide()?, block)
        }
    }

    /// As `trusted_part_of`, for the partition of a key.
    pub(in crate::sst) fn trusted_part_for(&self, key: &[u8]) -> Result<&Part> {
        let part = self.part_for(key)?;
        if self.guide.is_sound(&part.index, &self.records.order) {
            Ok(part)
        } else {
            self.part_for_in(self.spare_guide()?, key)
        }
    }

    /// Reads index and filter from the file again.
    fn spare_guide(&self) -> Result<&Guide> {
        if self.spare.get().is_none() {
            let parts = self.read_parts().map_err(|error| error.in_family(self.watch.family(), None))?;
            if self.spare.set(parts.guide).is_ok() {
                self.watch.healed(&self.name, 0, Remedy::ReadAgain);
            }
        }
        self.spare.get().ok_or_else(|| self.disagree(0))
    }

    /// Reads a partition and keeps it.
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

    /// Keeps a partition, unless another thread has stored it meanwhile.
    fn keep<'a>(&self, slot: &'a OnceLock<Arc<Part>>, part: Part) -> &'a Part {
        let part = Arc::new(part);
        let kept = slot.get_or_init(|| part.clone());
        if Arc::ptr_eq(kept, &part) {
            self.keeps(part.memory());
        }
        kept
    }

    /// Accounts for index and filter bytes added to memory.
    fn keeps(&self, bytes: usize) {
        self.slots.pin_more(bytes);
        self.loaded_bytes.fetch_add(bytes, Relaxed);
        self.watch.grew(bytes);
    }

    /// Reads a partition, retries if its check fails, and rebuilds it from the blocks of its range as a last resort.
    /// With `by_data`, also rebuilds it if the device cannot read it.
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
                None // without a filter, every key may be present
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

    /// Rebuilds a partition's index from the blocks of its range.
    fn index_anew(&self, from: &PartSource<'_>, span: &Span, error: Error) -> Result<Index> {
        let (index, is_it, refused) = self.damage.rebuild_index(from, span, self.dictionary.as_deref())?;
        refused.into_iter().for_each(|refused| drop(self.refused.set(refused)));
        match is_it {
            true => self.watch.healed(&self.name, span.index.offset, Remedy::Rebuilt),
            false => self.watch.damaged(&self.in_range(error, span)),
        }
        Ok(index)
    }

    /// Adds family and key range to an error of a partition.
    fn in_range(&self, error: Error, span: &Span) -> Error {
        let floor = span.range.floor.as_ref().unwrap_or(&self.properties.smallest);
        error.in_family(self.watch.family(), Some((&floor[..], &span.bound[..])))
    }

    /// Reads a partition without any repair, for verification.
    pub(in crate::sst) fn check_part(&self, span: &Span) -> Result<Part> {
        let (index, filter) = self.part_source().read(span);
        Ok(Part { index: index?, filter: filter? })
    }

    fn part_source(&self) -> PartSource<'_> {
        let filtered = self.has_own_filter;
        PartSource { name: &self.name, file: &*self.file, uid: self.expected.uid, order: &self.records.order, filtered }
    }
}

/// A partition for a one-time scan.
pub(in crate::sst) enum Passing<'a> {
    /// It is in memory anyway.
    Kept(&'a Part),
    /// It is owned by the caller.
    Own(Box<Part>),
}

fn unnamed() -> Error {
    Error::structural("a block that the index does not name")
}
