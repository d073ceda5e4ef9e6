//! A cursor over one table, in both directions.
//!
//! It holds its current block and the whole current key; a step within a cached block assembles one key and allocates
//! nothing. Keys share bytes only with their restart's key, so any entry can be reached from any other. A seek that
//! ends within the current block does not use the index.
//!
//! A user's cursor checks records in memory, as often as its policy says, and continues past damaged blocks. Readable
//! records are returned, and a lost range is returned as a record of kind `Fence`, positioned at the end of the range
//! that the cursor reaches first. A cursor that does not fill the cache serves jobs that need every record: it returns
//! an error at damage. It checks blocks that it takes from the cache, so that a bit flip in memory does not fail a job.

use std::sync::Arc;

use arc_swap::Guard;

use super::partial_cursor::PartialCursor;
use super::table::{LoadedBlock, Table};
use super::verify_read::{Checks, NeighborCheck};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::header::HEADER_BYTES;
use crate::options::{KIB, ReadSettings, Verify};
use crate::planted;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::sampler::first_sample;
use crate::seam::RecordSource;
use crate::sst::block::block::{Block, HeadPosition};
use crate::sst::block::entry::BlockEntry;
use crate::sst::block::key::WholeKey;
use crate::sst::index::index::Index;
use crate::sst::index::partitions::IndexPartition;

/// Size estimates read a block that represents more bytes than this: the pointers of one block may refer to values of
/// 100 MB.
const COARSE_BYTES: u64 = 64 * KIB as u64;

/// See `Table::cursor`.
pub struct TableCursor {
    pub(in crate::sst) table: Arc<Table>,
    pub(in crate::sst) fill_cache: bool,
    /// Gaps are returned as records, not as errors.
    pub(in crate::sst) shows_gaps: bool,
    /// The current block, kept for a seek that stays near.
    pub(in crate::sst) block: Option<Arc<Block>>,
    /// The block was read from the file: if it is not cached, its buffer is reused.
    pub(in crate::sst) is_passing: bool,
    pub(in crate::sst) number: usize,
    pub(in crate::sst) at: usize,
    /// The entry under the cursor. `None` if the cursor is not valid, or is in a damaged block.
    pub(in crate::sst) entry: Option<BlockEntry>,
    /// The key of that entry.
    pub(in crate::sst) key: WholeKey,
    /// Number of records until the next check; 0: no checks.
    pub(in crate::sst) left: u32,
    /// One in this many records is checked; 0: none.
    pub(in crate::sst) every: u32,
    /// The requested value of `every`. `every` is 0 for a table whose records have no companions to check.
    asked: u32,
    /// Checks for a block loaded from the file.
    pub(in crate::sst) loads: Checks,
    /// The table's index was corrupted in memory; the cursor uses the spare one.
    uses_reread_index: bool,
    /// The readable part of the current block, if that is damaged.
    pub(in crate::sst) partial: Option<PartialCursor>,
    /// Starting point of the next seek, if it was prefetched.
    pub(in crate::sst) prefetched: Option<PrefetchedSeek>,
    /// The block of that starting point, if its prefetch is still pending.
    pub(in crate::sst) prefetched_block: Option<Guard<Option<Arc<Block>>>>,
    /// The farthest block that was prefetched by this walk.
    pub(in crate::sst) prefetched_to: usize,
    /// Number of consecutive blocks read from the file: positive for forward walks, negative for backward ones.
    pub(in crate::sst) streak: i32,
    /// File offset up to which the operating system was advised to read in this direction.
    pub(in crate::sst) advised: u64,
    /// Readahead buffer, and its offset in the file.
    pub(in crate::sst) chunk: Vec<u8>,
    pub(in crate::sst) chunk_at: u64,
}

/// The starting point of the next seek of a key.
#[derive(Clone, Copy)]
pub(in crate::sst) struct PrefetchedSeek {
    /// The block that the index returned.
    pub(in crate::sst) number: usize,
    /// The position in that block, if the cursor holds it.
    pub(in crate::sst) within: Option<HeadPosition>,
}

/// The result of a search in a block.
#[derive(Clone, Copy)]
struct SeekPosition {
    at: usize,
    /// The entry at that position, if it is a version of the key.
    found: Option<BlockEntry>,
    /// Its seqno is the one that was sought.
    is_exact: bool,
    /// The block ends with versions of the key, which may continue in the next block.
    spills: bool,
}

/// The result of a repeated search.
enum RepeatedSearch {
    /// A position in the block.
    Found(SeekPosition),
    /// Search for the key in this block instead.
    In(usize),
}

/// The movement by which a cursor reaches its position.
#[derive(Clone, Copy)]
enum CursorMove<'a> {
    First,
    Last,
    /// From the entry at this position in the block to the following one (`Next`) or the preceding one (`Prev`).
    Next(usize),
    Prev(usize),
    Seek(&'a [u8], Seqno),
    SeekForPrev(&'a [u8], Seqno),
}

impl Table {
    /// Returns a cursor over the table that fails at a block that cannot be repaired. Without `fill_cache` (compaction,
    /// backup), cached blocks are checked and used; other blocks are read in large chunks and not cached.
    pub fn cursor(self: &Arc<Self>, fill_cache: bool) -> TableCursor {
        TableCursor::new(self.clone(), fill_cache)
    }

    /// Returns a cursor for a user. It checks records as `reading` specifies. It returns a lost range as a record of
    /// kind `Fence` (see `lost_range`) and continues after it.
    #[inline]
    pub fn cursor_checked(self: &Arc<Self>, reading: impl Into<ReadSettings>) -> TableCursor {
        TableCursor::checked(self.clone(), reading.into())
    }

    /// Estimates how many of the `total` bytes of the table's records belong to keys before `key`, or up to `key` with
    /// `and_key`. Uses the start of the key's block, unless that block represents more than `COARSE_BYTES`: then it
    /// reads the block.
    pub fn approximate_bytes_before(self: &Arc<Self>, key: &[u8], and_key: bool, total: u64) -> Result<u64> {
        let index = &self.partition_for(key)?.index;
        let number = index.find(key, &self.records.order);
        let Some(handle) = index.handle(number) else { return Ok(total) };
        let (begin, end) = (HEADER_BYTES as u64, self.data_end());
        let share =
            |bytes: u64| (u128::from(bytes) * u128::from(total) / u128::from(end.saturating_sub(begin).max(1))) as u64;
        let mut position = handle.offset.saturating_sub(begin);
        if share(handle.stored_len.into()) > COARSE_BYTES {
            let mut cursor = self.cursor_checked(Verify::Never);
            cursor.seek(key, if and_key { 0 } else { MAX_SEQNO })?;
            let stays_before = |(before, records): (usize, usize)| {
                let and_found = usize::from(and_key && self.records.order.compare(cursor.record().key, key).is_eq());
                u64::from(handle.stored_len) * (before + and_found) as u64 / records.max(1) as u64
            };
            position += cursor.share_before(number).map_or(handle.stored_len.into(), stays_before);
        }
        Ok(share(position).min(total))
    }
}

impl TableCursor {
    #[inline(always)]
    pub(in crate::sst) fn new(table: Arc<Table>, fill_cache: bool) -> TableCursor {
        TableCursor {
            table,
            fill_cache,
            shows_gaps: false,
            block: None,
            is_passing: false,
            number: 0,
            at: 0,
            entry: None,
            key: WholeKey::new(),
            left: 0,
            every: 0,
            asked: 0,
            loads: Checks::NONE,
            uses_reread_index: false,
            partial: None,
            prefetched: None,
            prefetched_block: None,
            prefetched_to: 0,
            streak: 0,
            advised: 0,
            chunk: Vec::new(),
            chunk_at: 0,
        }
    }

    /// Creates a user's cursor, which checks records and returns gaps.
    #[inline(always)]
    pub(in crate::sst) fn checked(table: Arc<Table>, reading: ReadSettings) -> TableCursor {
        let asked = match reading.verify {
            Verify::Never | Verify::OnFill => 0,
            Verify::Sampled(of) => of.max(1),
            Verify::Always => 1,
        };
        let every = if table.is_checkable { asked } else { 0 };
        let loaded = matches!(reading.verify, Verify::OnFill | Verify::Sampled(_));
        let loads = Checks { loaded, passing: !reading.fill_cache, ..Checks::NONE };
        let mut cursor = TableCursor::new(table, true);
        cursor.shows_gaps = true;
        (cursor.left, cursor.every, cursor.asked, cursor.loads) = (first_sample(every), every, asked, loads);
        cursor
    }

    /// Moves the cursor to another table, where it is not valid until the next seek. Keeps its checking policy and its
    /// buffers.
    pub(crate) fn moved_to(mut self: Box<Self>, table: &Arc<Table>) -> Box<TableCursor> {
        if !Arc::ptr_eq(&self.table, table) {
            let every = if table.is_checkable { self.asked } else { 0 };
            self.release_block();
            self.table = table.clone();
            if every != self.every {
                (self.left, self.every) = (first_sample(every), every); // otherwise it continues counting
            }
            (self.partial, self.entry, self.prefetched) = (None, None, None);
            (self.number, self.at, self.uses_reread_index) = (0, 0, false);
            (self.streak, self.advised, self.prefetched_to) = (0, 0, 0);
            (self.chunk, self.chunk_at) = (Vec::new(), 0);
        }
        self
    }

    /// Positions the cursor on an entry of the current block, unless the entry's check fails.
    #[inline]
    fn settle(&mut self, at: usize, arrival: CursorMove<'_>) -> Result<()> {
        let placed = self.place(at);
        self.arrive(placed, arrival)
    }

    /// Keeps the position, unless placing failed or the entry's check fails.
    #[inline]
    fn arrive(&mut self, stood: Result<()>, arrival: CursorMove<'_>) -> Result<()> {
        self.left = self.left.wrapping_sub(1);
        if stood.is_ok() && (self.left != 0 || self.is_right()) {
            return Ok(());
        }
        self.settle_after_repair(arrival, stood)
    }

    /// Positions the cursor on an entry of the current block, without a check.
    #[inline]
    pub(in crate::sst) fn place(&mut self, at: usize) -> Result<()> {
        match self.block.as_deref().and_then(|block| BlockEntry::short(block.bytes(), block.offset(at))) {
            Some(entry) => self.place_on(at, entry),
            None => self.place_longer(at),
        }
    }

    #[inline(never)]
    fn place_longer(&mut self, at: usize) -> Result<()> {
        self.entry = None;
        let Some(block) = self.block.as_deref() else { return Ok(()) };
        let entry = block.entry(at)?;
        self.place_on(at, entry)
    }

    #[inline(always)]
    fn place_on(&mut self, at: usize, entry: BlockEntry) -> Result<()> {
        self.entry = None;
        let Some(block) = self.block.as_deref() else { return Ok(()) };
        self.key.put(block, at, &entry)?;
        self.at = at;
        self.entry = Some(entry);
        Ok(())
    }

    /// Returns true if the record under the cursor passes its check.
    #[inline]
    pub(in crate::sst) fn is_right(&mut self) -> bool {
        self.left = self.every;
        let (Some(block), Some(entry)) = (self.block.as_deref(), &self.entry) else { return true };
        let record = block.record(self.at, entry, self.key.get());
        self.table.records.passes(&record) && block.ends_beside(self.at)
    }

    /// The block in memory is damaged: reads it from the file again, or takes its readable part.
    #[cold]
    #[inline(never)]
    fn settle_after_repair(&mut self, arrival: CursorMove<'_>, stood: Result<()>) -> Result<()> {
        self.entry = None;
        if self.left == 0 {
            self.left = self.every; // the record due for its check could not be read: continue with the next interval
        }
        let number = self.number;
        if let Err(error) = &stood
            && !error.is_corruption()
        {
            return stood;
        }
        self.table.watch.doubted();
        let old = self.block.take();
        match self.table.repair(number)? {
            LoadedBlock::Whole(block) => {
                self.hold(block);
                let last = self.block_len() - 1;
                match arrival {
                    CursorMove::First => self.place(0),
                    CursorMove::Last => self.place(last),
                    CursorMove::Next(from) => self.place((from + 1).min(last)),
                    CursorMove::Prev(from) => self.place(from.saturating_sub(1)),
                    // The damage may have misled the search.
                    CursorMove::Seek(key, seqno) => return self.seek_in(key, seqno, true),
                    CursorMove::SeekForPrev(key, seqno) => return self.seek_back_in(key, seqno, true),
                }
                .map_err(|error| self.table.named(error, number))
            }
            LoadedBlock::Partial(partial) if !self.shows_gaps => Err(self.lost(&partial, number)),
            LoadedBlock::Partial(partial) => {
                self.partial = Some(PartialCursor::new(partial));
                let from = |at: usize| {
                    let block = old.as_deref()?;
                    let mut key = Vec::new();
                    block.key_into(at, &mut key).ok()?;
                    Some((key, block.seqno(&block.entry(at).ok()?)))
                };
                match arrival {
                    CursorMove::First => self.move_to_item(0, true, None),
                    CursorMove::Last => self.move_to_item(usize::MAX, false, None),
                    CursorMove::Next(at) => match from(at) {
                        Some((key, seqno)) if seqno > 0 => self.seek_item(&key, seqno - 1),
                        Some((key, _)) => self.seek_item_after(&key),
                        None => self.move_to_item(0, true, None),
                    },
                    CursorMove::Prev(at) => match from(at) {
                        Some((key, seqno)) => self.seek_item_back(&key, (seqno + 1).min(MAX_SEQNO)),
                        None => self.move_to_item(usize::MAX, false, None),
                    },
                    CursorMove::Seek(key, seqno) => self.seek_item(key, seqno),
                    CursorMove::SeekForPrev(key, seqno) => self.seek_item_back(key, seqno),
                }
            }
        }
    }

    /// Moves to the start of a block, or past the end of the table.
    pub(in crate::sst) fn move_to_start_of(&mut self, number: usize) -> Result<()> {
        self.leave();
        if number >= self.table.blocks() {
            return Ok(());
        }
        self.enter(number)?;
        if self.partial.is_some() {
            return self.move_to_item(0, true, None);
        }
        self.prefetch_beyond(true);
        self.settle(0, CursorMove::First)
    }

    /// Moves to the end of the block before `number`, or before the start of the table.
    pub(in crate::sst) fn move_to_end_before(&mut self, number: usize) -> Result<()> {
        self.leave();
        let Some(number) = number.checked_sub(1) else { return Ok(()) };
        self.enter(number)?;
        if self.partial.is_some() {
            return self.move_to_item(usize::MAX, false, None);
        }
        self.prefetch_beyond(false);
        self.settle(self.block_len().saturating_sub(1), CursorMove::Last)
    }

    /// Makes the cursor not valid; keeps the block.
    pub(in crate::sst) fn leave(&mut self) {
        self.entry = None;
        planted!(AimOutlivesItsSeek, (), self.prefetched = None);
        if let Some(partial) = &mut self.partial {
            partial.leave();
        }
    }

    /// Returns the index for a key.
    #[inline]
    fn index_for(&self, key: &[u8]) -> Result<&Index> {
        let part =
            if self.uses_reread_index { self.table.trusted_partition_for(key) } else { self.table.partition_for(key) };
        part.map(|part| &part.index)
    }

    /// Returns the index that names a block.
    fn index_of(&self, number: usize) -> Result<&Index> {
        let part = if self.uses_reread_index {
            self.table.trusted_partition_of(number)
        } else {
            self.table.partition_of(number)
        };
        part.map(|part| &part.index)
    }

    /// Returns the index partition for a key, if it is in memory.
    #[inline]
    pub(in crate::sst) fn partition_in_memory_for(&self, key: &[u8]) -> Option<&IndexPartition> {
        let table_index = if self.uses_reread_index { self.table.reread.get()? } else { &self.table.table_index };
        table_index.partition_in_memory_for(key, &self.table.records.order)
    }

    /// Enters the block where (`key`, `seqno`) belongs, and returns the position there, which may be one past the last
    /// entry. Returns `None` past the last block, and if the block is damaged (it is entered then).
    #[inline]
    fn locate(&mut self, key: &[u8], seqno: Seqno, proof: Option<NeighborCheck>) -> Result<Option<SeekPosition>> {
        let prefetched = self.prefetched;
        self.leave();
        let mut number = match prefetched {
            Some(prefetched) => prefetched.number,
            None => {
                if proof.is_none()
                    && let Some(spot) = self.search_near(key, seqno)
                {
                    return Ok(Some(spot));
                }
                self.index_for(key)?.find(key, &self.table.records.order)
            }
        };
        if proof.is_some() && number >= self.table.blocks() && self.is_placed_past_end(number, key)? {
            number = self.find_in_reread_index(key)?.unwrap_or(number);
        }
        let mut heads =
            prefetched.filter(|prefetched| prefetched.number == number).and_then(|prefetched| prefetched.within);
        let mut follows = false;
        while number < self.table.blocks() {
            self.enter(number)?;
            if self.partial.is_some() {
                if !self.continues_after_items(key, seqno, number) {
                    return Ok(None);
                }
            } else {
                match self.search(number, (key, seqno), heads.take(), proof, follows) {
                    Ok(Some(spot)) if !spot.spills => return Ok(Some(spot)),
                    Ok(Some(_)) => {}
                    _ => match self.search_after_repair(number, key, seqno)? {
                        RepeatedSearch::Found(spot) if !spot.spills => return Ok(Some(spot)),
                        RepeatedSearch::Found(_) => {}
                        RepeatedSearch::In(other) => {
                            (number, follows) = (other, follows && other == number);
                            continue;
                        }
                    },
                }
            }
            (number, follows) = (number + 1, true);
        }
        self.partial = None;
        Ok(None)
    }

    /// Returns true if the index places the key past its last block, and its checksum does not prove that.
    #[inline]
    fn is_placed_past_end(&self, number: usize, key: &[u8]) -> Result<bool> {
        let index = self.index_for(key)?;
        Ok(number == index.end() && !index.proves(number, key, false, &self.table.records.order))
    }

    /// Searches the current block, if the key is certainly between its first and last key. The index is then not
    /// needed.
    #[inline]
    fn search_near(&self, key: &[u8], seqno: Seqno) -> Option<SeekPosition> {
        let block = self.block.as_deref().filter(|block| block.surrounds(key))?;
        let spot = self.search(self.number, (key, seqno), None, None, false).ok()??;
        // A result at an edge contradicts `surrounds`: the heads or the block are damaged.
        (spot.at > 0 && spot.at < block.len()).then_some(spot)
    }

    /// Searches the current block, starting at the position given by its heads if that is known. Also returns whether
    /// versions of the key may continue in the next block. `None`: the position contradicts its neighbors.
    #[inline]
    fn search(
        &self,
        number: usize,
        (key, seqno): (&[u8], Seqno),
        heads: Option<HeadPosition>,
        proof: Option<NeighborCheck>,
        follows: bool,
    ) -> Result<Option<SeekPosition>> {
        let Some(block) = self.block.as_deref() else { return Ok(None) };
        let order = &self.table.records.order;
        let place = match heads {
            Some(heads) => block.search_at(heads, key, seqno, order)?,
            None => block.search(key, seqno, order)?,
        };
        let spot = SeekPosition {
            at: place.at,
            found: place.equal,
            is_exact: place.equal.is_some_and(|entry| block.seqno(&entry) == seqno),
            spills: place.at == block.len() && number + 1 < self.table.blocks() && block.ends_with(key, order)?,
        };
        let is_proved = match proof {
            None => true,
            Some(side) => {
                let side = if side == NeighborCheck::Before { side } else { NeighborCheck::Both(spot.found.is_some()) };
                let index = self.index_of(number)?;
                self.table.records.verify_position(
                    block,
                    (number, spot.at),
                    (key, seqno),
                    (index, follows, spot.spills),
                    side,
                )
            }
        };
        Ok(is_proved.then_some(spot))
    }

    /// A search found a contradiction: determines what is damaged, and searches again.
    #[cold]
    #[inline(never)]
    fn search_after_repair(&mut self, number: usize, key: &[u8], seqno: Seqno) -> Result<RepeatedSearch> {
        self.table.watch.doubted();
        if let Some(other) = self.find_in_reread_index(key)? {
            return Ok(RepeatedSearch::In(other));
        }
        self.release_block();
        match self.table.repair(number)? {
            LoadedBlock::Whole(block) => {
                self.hold(block);
                let found = self.search(number, (key, seqno), None, None, false);
                match found.map_err(|error| self.table.named(error, number))? {
                    Some(spot) => Ok(RepeatedSearch::Found(spot)),
                    None => Ok(RepeatedSearch::In(number)),
                }
            }
            LoadedBlock::Partial(partial) if !self.shows_gaps => Err(self.lost(&partial, number)),
            LoadedBlock::Partial(partial) => {
                self.partial = Some(PartialCursor::new(partial));
                Ok(RepeatedSearch::In(number))
            }
        }
    }

    /// Finds the block of a key with an undamaged index, if the cursor's own is damaged.
    #[cold]
    fn find_in_reread_index(&mut self, key: &[u8]) -> Result<Option<usize>> {
        let trusted = &self.table.trusted_partition_for(key)?.index;
        if self.uses_reread_index || std::ptr::eq(trusted, &self.table.partition_for(key)?.index) {
            return Ok(None);
        }
        let number = trusted.find(key, &self.table.records.order);
        self.uses_reread_index = true;
        Ok(Some(number))
    }

    /// `sound`: the block was just repaired, so its records need no check.
    #[inline]
    fn seek_in(&mut self, key: &[u8], seqno: Seqno, sound: bool) -> Result<()> {
        let proof = (self.proves() && !sound).then_some(NeighborCheck::Before);
        match self.locate(key, seqno, proof)? {
            None if self.partial.is_some() => self.seek_item(key, seqno),
            None => Ok(()),
            Some(spot) if spot.at >= self.block_len() => self.move_to_start_of(self.number + 1),
            Some(spot) if sound => self.place_repaired(spot.at),
            Some(spot) => {
                let placed = match spot.found {
                    // The entry has exactly the key that was sought.
                    Some(entry) if self.table.records.order.is_bytewise() => {
                        self.key.set(key);
                        (self.at, self.entry) = (spot.at, Some(entry));
                        Ok(())
                    }
                    _ => self.place(spot.at),
                };
                self.arrive(placed, CursorMove::Seek(key, seqno))
            }
        }
    }

    /// As `seek_in`, backwards.
    #[inline]
    fn seek_back_in(&mut self, key: &[u8], seqno: Seqno, sound: bool) -> Result<()> {
        let proof = (self.proves() && !sound).then_some(NeighborCheck::Both(false));
        match self.locate(key, seqno, proof)? {
            None if self.partial.is_some() => self.seek_item_back(key, seqno),
            None => self.last(),
            Some(spot) => {
                let at = if spot.is_exact { Some(spot.at) } else { spot.at.checked_sub(1) };
                match at {
                    None => self.move_to_end_before(self.number),
                    Some(at) if sound => self.place_repaired(at),
                    Some(at) => self.settle(at, CursorMove::SeekForPrev(key, seqno)),
                }
            }
        }
    }

    /// Positions the cursor on an entry of a block that was just repaired.
    fn place_repaired(&mut self, at: usize) -> Result<()> {
        self.place(at).map_err(|error| self.table.named(error, self.number))
    }

    #[inline]
    fn block_len(&self) -> usize {
        self.block.as_deref().map_or(0, Block::len)
    }

    /// Moves to an item of a damaged block, clamped to the last one. `sought`: the position of a seek, if a gap
    /// contains it.
    fn move_to_item(&mut self, at: usize, forward: bool, sought: Option<(&[u8], Seqno)>) -> Result<()> {
        self.entry = None;
        let Some(partial) = &mut self.partial else { return Ok(()) };
        match partial.settle(at, forward, sought, &self.table.records.order) {
            Some(true) => self.table.watch.gap_met(),
            Some(false) => {}
            // Only an inconsistent comparator leaves neither a record nor a gap.
            None => return Err(self.table.named(Error::structural("nothing is left of a block"), self.number)),
        }
        Ok(())
    }

    /// Moves to the first item at or after a position, or into the next block if there is none.
    fn seek_item(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let Some(partial) = &self.partial else { return Ok(()) };
        match partial.find(key, seqno, &self.table.records.order) {
            Some(at) => self.move_to_item(at, true, Some((key, seqno))),
            None => self.move_to_start_of(self.number + 1),
        }
    }

    /// Moves to the first item after all versions of a key.
    fn seek_item_after(&mut self, key: &[u8]) -> Result<()> {
        self.seek_item(key, 0)?;
        while self.valid()
            && self.table.records.order.compare(self.record().key, key).is_eq()
            && self.record().kind != Kind::Fence
        {
            self.step_out(true)?;
        }
        Ok(())
    }

    /// Moves to the last item at or before a position, or into the previous block if there is none.
    fn seek_item_back(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let Some(partial) = &self.partial else { return Ok(()) };
        match partial.find_back(key, seqno, &self.table.records.order) {
            Some(at) => self.move_to_item(at, false, Some((key, seqno))),
            None => self.move_to_end_before(self.number),
        }
    }

    /// Returns true if the readable part of a block ends with a newer version of a key, so that older ones may follow
    /// in the next block.
    fn continues_after_items(&self, key: &[u8], seqno: Seqno, number: usize) -> bool {
        number + 1 < self.table.blocks()
            && self
                .partial
                .as_ref()
                .is_some_and(|partial| partial.ends_with_newer(key, seqno, &self.table.records.order))
    }

    /// Steps out of the block, or among the items of a damaged one.
    #[cold]
    #[inline(never)]
    fn step_out(&mut self, forward: bool) -> Result<()> {
        match &self.partial {
            Some(partial) if partial.is_valid() => match partial.next(forward) {
                Some(next) => self.move_to_item(next, forward, None),
                None if forward => self.move_to_start_of(self.number + 1),
                None => self.move_to_end_before(self.number),
            },
            _ if self.entry.is_none() => Ok(()),
            _ if forward => self.move_to_start_of(self.number + 1),
            _ => self.move_to_end_before(self.number),
        }
    }
}

impl Cursor for TableCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.seek_in(key, seqno, false)
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.seek_back_in(key, seqno, false)
    }

    fn first(&mut self) -> Result<()> {
        self.move_to_start_of(0)
    }

    fn last(&mut self) -> Result<()> {
        self.move_to_end_before(self.table.blocks())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "next on a cursor that stands nowhere");
        if self.entry.is_some() && self.at + 1 < self.block_len() {
            return self.settle(self.at + 1, CursorMove::Next(self.at));
        }
        self.step_out(true)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "prev on a cursor that stands nowhere");
        if self.entry.is_some() && self.at > 0 {
            return self.settle(self.at - 1, CursorMove::Prev(self.at));
        }
        self.step_out(false)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.entry.is_some() || self.partial.as_ref().is_some_and(PartialCursor::is_valid)
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => block.record(self.at, entry, self.key.get()),
            _ => {
                let record = self.partial.as_ref().and_then(PartialCursor::record);
                debug_assert!(record.is_some(), "no record under a cursor that stands nowhere");
                record.unwrap_or(Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] })
            }
        }
    }

    fn source(&self) -> RecordSource<'_> {
        self.table.source(self.number)
    }
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        self.release_block();
    }
}

impl std::fmt::Debug for TableCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCursor")
            .field("table", &self.table.name)
            .field("block", &self.number)
            .finish_non_exhaustive()
    }
}
