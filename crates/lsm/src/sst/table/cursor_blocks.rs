//! Loads a cursor's blocks: from the cache, from the file, or from its readahead buffer.
//!
//! In:    the number of a block.
//! Out:   the block, or the readable part of a damaged block, as the current one; or an error. The cursor is then not
//!        valid.
//! Holds: a cursor that does not fill the cache serves jobs that need every record. It checks blocks that it takes from
//!        the cache, and reads the file in large chunks. A user's cursor advises the operating system of its next reads
//!        after it has read some blocks in sequence.

use std::sync::Arc;

use arc_swap::Guard;

use super::cursor::TableCursor;
use super::partial_cursor::PartialCursor;
use super::table::LoadedBlock;
use super::verify_read::Checks;
use crate::env::{read_exact, try_copy};
use crate::error::{Error, Result};
use crate::lost_range::LostRange;
use crate::options::KIB;
use crate::sst::block::block::Block;
use crate::sst::block::frame::read_error;
use crate::sst::block::partial_block::PartialBlock;

/// Read size of a cursor that does not fill the cache.
const CHUNK_BYTES: u64 = 256 * KIB as u64;

/// Readahead distance that a scan advises to the operating system.
const ADVISED_BYTES: u64 = 512 * KIB as u64;

/// Number of consecutive block reads after which a walk counts as a scan.
const SCAN_BLOCKS: i32 = 2;

impl TableCursor {
    /// Makes `number` the current block.
    pub(in crate::sst) fn enter(&mut self, number: usize) -> Result<()> {
        self.entry = None;
        if self.is_current_block(number) || self.use_cached(number) {
            return Ok(());
        }
        self.partial = None;
        if let Some(block) = self.table.slots.slot(number).load_full() {
            self.release_block();
            let block = self.trusted(number, block)?;
            self.hold(block);
        } else {
            self.streak = self.streak_to(number);
            // Release the old block before the next read, which reuses its buffer.
            self.release_block();
            match self.fetch(number)? {
                LoadedBlock::Whole(block) => {
                    self.hold(block);
                    self.is_passing = self.fill_cache;
                }
                LoadedBlock::Partial(partial) => self.partial = Some(PartialCursor::new(partial)),
            }
        }
        self.number = number;
        Ok(())
    }

    /// Returns true if this block, or its readable part, is the current one.
    #[inline]
    pub(in crate::sst) fn is_current_block(&self, number: usize) -> bool {
        self.number == number && (self.block.is_some() || self.partial.is_some())
    }

    /// Makes a cached block the current one. Only for users' cursors, which use cached blocks unchecked.
    #[inline]
    pub(in crate::sst) fn use_cached(&mut self, number: usize) -> bool {
        if !self.may_use_cached(number) {
            return false;
        }
        let slot = self.table.slots.slot(number).load();
        if let Some(block) = &*slot {
            // The next step writes to its reference counters: prefetch the lines that a search reads meanwhile.
            block.prefetch();
        }
        let Some(block) = Guard::into_inner(slot) else { return false };
        self.use_block(number, block);
        true
    }

    /// Returns true if the block exists, and the cursor may use a cached copy as it is.
    #[inline]
    pub(in crate::sst) fn may_use_cached(&self, number: usize) -> bool {
        self.fill_cache && number < self.table.blocks()
    }

    /// Makes a block from the cache the current one.
    #[inline]
    pub(in crate::sst) fn use_block(&mut self, number: usize, block: Arc<Block>) {
        block.touch();
        self.hold(block);
        (self.number, self.partial) = (number, None);
    }

    /// Returns the streak after another block is read.
    fn streak_to(&self, number: usize) -> i32 {
        let beside = self.block.is_some();
        match number {
            0 if self.streak >= 0 => self.streak.saturating_add(1),
            _ if beside && number == self.number + 1 => self.streak.max(0).saturating_add(1),
            _ if beside && number + 1 == self.number => self.streak.min(0).saturating_sub(1),
            _ => 0,
        }
    }

    /// Sets the current block. The caller sets `is_passing` afterwards if the block may be uncached.
    #[inline]
    pub(in crate::sst) fn hold(&mut self, block: Arc<Block>) {
        if self.is_passing {
            self.release_block();
        }
        self.block = Some(block);
        self.key.forget();
    }

    /// Releases the current block.
    #[inline]
    pub(in crate::sst) fn release_block(&mut self) {
        let block = self.block.take();
        if std::mem::take(&mut self.is_passing)
            && let Some(block) = block
        {
            self.table.slots.passed(block);
        }
    }

    #[cold]
    fn fetch(&mut self, number: usize) -> Result<LoadedBlock> {
        if self.fill_cache {
            self.advise(number);
            let passing = self.loads.passing || !self.table.admits(number);
            return match self.table.fetch(number, Checks { passing, ..self.loads })? {
                LoadedBlock::Partial(partial) if !self.shows_gaps => Err(self.lost(&partial, number)),
                fetched => Ok(fetched),
            };
        }
        let read = if self.streak <= 0 { self.table.read_block(number, false) } else { self.fetch_chunked(number) };
        let block = match read {
            Err(error) if error.is_corruption() => self.whole_again(number, error)?,
            read => Arc::new(read?),
        };
        Ok(LoadedBlock::Whole(block))
    }

    /// Repairs a block for a job that needs all of it.
    #[cold]
    fn whole_again(&self, number: usize, error: Error) -> Result<Arc<Block>> {
        match self.table.repair(number)? {
            LoadedBlock::Whole(block) => Ok(block),
            LoadedBlock::Partial(_) => Err(self.table.named(error, number)),
        }
    }

    /// Returns a cached block for a job, after checking all its records.
    fn trusted(&self, number: usize, block: Arc<Block>) -> Result<Arc<Block>> {
        if !self.table.is_checkable || self.table.serves_all(&block) {
            return Ok(block);
        }
        self.whole_again(number, Error::structural("a block that does not match its companions"))
    }

    /// Returns the error for a block that cannot be repaired.
    #[cold]
    pub(in crate::sst) fn lost(&self, partial: &PartialBlock, number: usize) -> Error {
        let whole = || Error::structural("a block is damaged");
        self.table.named(partial.first_gap().map_or_else(whole, LostRange::error), number)
    }

    /// Advises the operating system of the next reads of a scan.
    fn advise(&mut self, number: usize) {
        let Ok(handle) = self.table.handle(number) else { return };
        if self.streak == SCAN_BLOCKS || self.streak == -SCAN_BLOCKS {
            self.advised = handle.offset;
        }
        if self.streak >= SCAN_BLOCKS && handle.end() > self.advised {
            self.table.file.advise(handle.offset, ADVISED_BYTES, true);
            self.advised = handle.offset + ADVISED_BYTES;
        } else if self.streak <= -SCAN_BLOCKS && handle.offset <= self.advised {
            self.advised = handle.end().saturating_sub(ADVISED_BYTES);
            self.table.file.advise(self.advised, handle.end() - self.advised, true);
        }
    }

    /// Takes the block from the readahead buffer, refilling that if needed.
    fn fetch_chunked(&mut self, number: usize) -> Result<Block> {
        let table = &self.table;
        let handle = &table.handle(number)?;
        let held = self.chunk_at <= handle.offset && handle.end() <= self.chunk_at + self.chunk.len() as u64;
        if !held {
            let length = CHUNK_BYTES.min(table.data_end().saturating_sub(handle.offset)).max(handle.bytes() as u64);
            self.chunk = Vec::new();
            self.chunk = read_exact(&*table.file, handle.offset, length as usize)
                .map_err(|error| read_error(&table.name, handle.offset, error))?;
            self.chunk_at = handle.offset;
        }
        let from = (handle.offset - self.chunk_at) as usize;
        let block = try_copy(&self.chunk[from..from + handle.bytes()])
            .map_err(|error| read_error(&table.name, handle.offset, error))?;
        table.load(block, handle, false)
    }
}
