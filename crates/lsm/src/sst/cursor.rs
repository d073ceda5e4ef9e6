//! A cursor over one table, in both directions.
//!
//! It holds the block it stands in and the whole key under it; a step within cached blocks copies the bytes by which the key
//! differs and allocates nothing. Keys share bytes with their restart's only, so any entry is reached from any other.

use std::sync::Arc;

use super::block::{Block, Place};
use super::entry::Entry;
use super::table::{Table, read_error};
use crate::cursor::Cursor;
use crate::env::read_exact;
use crate::error::{Error, Result};
use crate::options::KIB;
use crate::record::{Kind, Record, Seqno};
use crate::seam::Source;

/// What a cursor that fills no cache reads at once.
const CHUNK_BYTES: u64 = 256 * KIB as u64;

/// How far ahead the operating system is told to read during a scan.
const ADVISED_BYTES: u64 = 512 * KIB as u64;

/// Blocks read one after the other before a walk counts as a scan.
const SCAN_BLOCKS: u32 = 2;

/// See `Table::cursor`.
pub struct TableCursor {
    table: Arc<Table>,
    fill_cache: bool,
    /// The block the cursor stood in last, kept for a seek that stays near.
    block: Option<Arc<Block>>,
    number: usize,
    at: usize,
    /// The entry under the cursor; none: not valid.
    entry: Option<Entry>,
    key: Vec<u8>,
    /// Bytes that `key` shares with its restart.
    shared: usize,
    /// Blocks read from the file in a row.
    streak: u32,
    advised: u64,
    /// Bytes of the file read ahead, and their offset.
    chunk: Vec<u8>,
    chunk_at: u64,
}

impl TableCursor {
    pub(super) fn new(table: Arc<Table>, fill_cache: bool) -> TableCursor {
        TableCursor {
            table,
            fill_cache,
            block: None,
            number: 0,
            at: 0,
            entry: None,
            key: Vec::new(),
            shared: 0,
            streak: 0,
            advised: 0,
            chunk: Vec::new(),
            chunk_at: 0,
        }
    }

    /// Makes `number` the current block.
    fn enter(&mut self, number: usize) -> Result<()> {
        self.entry = None;
        if self.block.is_some() && self.number == number {
            return Ok(());
        }
        if let Some(block) = self.table.slots.slot(number).load_full() {
            if self.fill_cache {
                block.touch();
            }
            self.block = Some(block);
        } else {
            let follows = number == 0 || (self.block.is_some() && number == self.number + 1);
            self.streak = if follows { self.streak + 1 } else { 0 };
            self.block = None; // freed before the next one is read
            self.block = Some(self.fetch(number)?);
        }
        self.number = number;
        Ok(())
    }

    #[cold]
    fn fetch(&mut self, number: usize) -> Result<Arc<Block>> {
        if self.fill_cache {
            self.advise(number);
            return Ok(self.table.slots.keep(number, self.table.read_block(number, true)?));
        }
        if self.streak == 0 {
            return self.table.read_block(number, false).map(Arc::new);
        }
        self.fetch_chunked(number).map(Arc::new)
    }

    /// Tells the operating system what a scan will read next.
    fn advise(&mut self, number: usize) {
        let Some(handle) = self.table.index.handle(number) else { return };
        if self.streak >= SCAN_BLOCKS && handle.end() > self.advised {
            self.table.file.advise(handle.offset, ADVISED_BYTES, true);
            self.advised = handle.offset + ADVISED_BYTES;
        }
    }

    /// Takes the block from the bytes read ahead, after reading more of them if need be.
    fn fetch_chunked(&mut self, number: usize) -> Result<Block> {
        let table = &self.table;
        let Some(handle) = table.index.handle(number) else {
            return Err(Error::structural("a block that the index does not name"));
        };
        let held = self.chunk_at <= handle.offset && handle.end() <= self.chunk_at + self.chunk.len() as u64;
        if !held {
            let length = CHUNK_BYTES.min(table.index.data_end() - handle.offset).max(handle.bytes() as u64);
            self.chunk = Vec::new();
            self.chunk = read_exact(&*table.file, handle.offset, length as usize)
                .map_err(|error| read_error(&table.name, handle.offset, error))?;
            self.chunk_at = handle.offset;
        }
        let from = (handle.offset - self.chunk_at) as usize;
        table.load(self.chunk[from..from + handle.bytes()].to_vec(), handle, false)
    }

    /// Stands on an entry of the current block. `fresh`: the key held is of another block.
    #[inline]
    fn stand(&mut self, at: usize, fresh: bool) -> Result<()> {
        self.entry = None;
        let Some(block) = self.block.as_deref() else { return Ok(()) };
        let entry = block.entry(at).map_err(|error| self.table.at_block(error, self.number))?;
        // Of the key held, the bytes that both entries share with their common restart stay. A step to or from another restart's
        // entries goes over the restart itself, which shares nothing.
        let kept = if fresh { 0 } else { entry.shared.min(self.shared) };
        self.key.truncate(kept);
        if entry.shared > kept {
            let start = block.shared_key(at, &entry).map_err(|error| self.table.at_block(error, self.number))?;
            self.key.extend_from_slice(&start[kept..]);
        }
        self.key.extend_from_slice(block.suffix(&entry));
        (self.at, self.shared) = (at, entry.shared);
        self.entry = Some(entry);
        Ok(())
    }

    /// Stands at the start of a block, or nowhere behind the last one.
    fn stand_first(&mut self, number: usize) -> Result<()> {
        self.entry = None;
        if number >= self.table.index.len() {
            return Ok(());
        }
        self.enter(number)?;
        self.stand(0, true)
    }

    /// Stands at the end of the block before `number`, or nowhere before the first one.
    fn stand_last_before(&mut self, number: usize) -> Result<()> {
        self.entry = None;
        let Some(number) = number.checked_sub(1) else { return Ok(()) };
        self.enter(number)?;
        self.stand(self.block_len().saturating_sub(1), true)
    }

    /// Enters the block where (`key`, `seqno`) belongs and answers its place there, at most one behind the last entry.
    /// None: behind the last block.
    fn locate(&mut self, key: &[u8], seqno: Seqno) -> Result<Option<Place>> {
        self.entry = None;
        let mut number = self.table.index.find(key, &self.table.order);
        while number < self.table.index.len() {
            self.enter(number)?;
            let Some(block) = self.block.as_deref() else { break };
            let order = &self.table.order;
            let place = block.search(key, seqno, order).map_err(|error| self.table.at_block(error, number))?;
            // Versions of one key may go on in the next block.
            let spills = place.at == block.len()
                && number + 1 < self.table.index.len()
                && block.ends_with(key, order).map_err(|error| self.table.at_block(error, number))?;
            if !spills {
                return Ok(Some(place));
            }
            number += 1;
        }
        Ok(None)
    }

    /// True if a search has found its key at exactly this seqno.
    fn has_seqno(&self, place: &Place, seqno: Seqno) -> bool {
        match (self.block.as_deref(), &place.equal) {
            (Some(block), Some(entry)) => block.seqno(entry) == seqno,
            _ => false,
        }
    }

    fn block_len(&self) -> usize {
        self.block.as_deref().map_or(0, Block::len)
    }
}

impl Cursor for TableCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        match self.locate(key, seqno)? {
            None => Ok(()),
            Some(place) if place.at < self.block_len() => self.stand(place.at, true),
            Some(_) => self.stand_first(self.number + 1),
        }
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        match self.locate(key, seqno)? {
            None => self.last(),
            Some(place) if self.has_seqno(&place, seqno) => self.stand(place.at, true),
            Some(place) if place.at > 0 => self.stand(place.at - 1, true),
            Some(_) => self.stand_last_before(self.number),
        }
    }

    fn first(&mut self) -> Result<()> {
        self.stand_first(0)
    }

    fn last(&mut self) -> Result<()> {
        self.stand_last_before(self.table.index.len())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "next on a cursor that stands nowhere");
        if self.entry.is_none() {
            return Ok(());
        }
        if self.at + 1 < self.block_len() {
            return self.stand(self.at + 1, false);
        }
        self.stand_first(self.number + 1)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "prev on a cursor that stands nowhere");
        if self.entry.is_none() {
            return Ok(());
        }
        if self.at > 0 {
            return self.stand(self.at - 1, false);
        }
        self.stand_last_before(self.number)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.entry.is_some()
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => block.record(self.at, entry, &self.key),
            _ => {
                debug_assert!(false, "no record under a cursor that stands nowhere");
                Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] }
            }
        }
    }

    fn source(&self) -> Source<'_> {
        self.table.source(self.number)
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
