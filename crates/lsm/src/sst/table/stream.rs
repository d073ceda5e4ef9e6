//! Forward scan of a table for jobs: compactions read their inputs through it.
//!
//! In:     an open table. Its file is read in large chunks, bypassing the cache, into reusable buffers.
//! Out:    a cursor whose forward steps decode each entry once, in place: no search structure is built, and nothing is
//!         allocated once the buffers have grown.
//! Holds:  a block's CRC is checked before its content is used, and every byte of its body is validated during the
//!         scan, as when it is loaded.
//! Damage: a block that fails its check, and the rest of the table, are read by the table's cursor, which can repair
//!         blocks. The cursor also performs all moves other than forward steps.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::cursor::TableCursor;
use super::partitions::PassingPartition;
use super::table::Table;
use crate::checksum::Role;
use crate::cursor::Cursor;
use crate::env::{read_into, try_resize};
use crate::error::Result;
use crate::options::KIB;
use crate::planted;
use crate::record::{Kind, Record, Seqno};
use crate::seam::RecordSource;
use crate::sst::block::frame::{BlockHandle, COMPANION_BYTES, StoredBlock, check_frame, companion_of, read_error};
use crate::sst::block::scan::{EntryScan, KeyBuffer, ScannedEntry};
use crate::sst::index::partitions::IndexPartition;

/// Bytes per read.
const CHUNK_BYTES: u64 = 256 * KIB as u64;

/// See `Table::stream`.
pub struct TableStream {
    table: Arc<Table>,
    /// The current index partition, if the table does not keep it in memory.
    part: Option<Box<IndexPartition>>,
    /// The current block.
    number: usize,
    scan: Option<EntryScan>,
    /// The current entry.
    here: Option<ScannedEntry>,
    keys: KeyBuffer,
    body: Vec<u8>,
    scratch: Vec<u8>,
    /// Buffer for the stored bytes of an ingested table's block.
    bound: Vec<u8>,
    /// The block's companions, if they are in a column, and the companion of the current entry.
    column: Option<Vec<u8>>,
    word: [u8; COMPANION_BYTES],
    /// Readahead buffer, and its offset in the file.
    chunk: Vec<u8>,
    chunk_at: u64,
    /// The cursor that has replaced the stream.
    cursor: Option<Box<TableCursor>>,
}

impl Table {
    /// Returns a forward cursor for a job: reads large chunks, bypassing the cache, and builds no search structure.
    /// Otherwise as `cursor(false)`.
    pub fn stream(self: &Arc<Self>) -> TableStream {
        TableStream::new(self.clone())
    }
}

impl TableStream {
    pub(in crate::sst) fn new(table: Arc<Table>) -> TableStream {
        TableStream {
            table,
            part: None,
            number: 0,
            scan: None,
            here: None,
            keys: KeyBuffer::default(),
            body: Vec::new(),
            scratch: Vec::new(),
            bound: Vec::new(),
            column: None,
            word: [0; COMPANION_BYTES],
            chunk: Vec::new(),
            chunk_at: 0,
            cursor: None,
        }
    }

    /// Moves to the first record of a block, or past the end.
    fn enter(&mut self, number: usize) -> Result<()> {
        (self.scan, self.here, self.cursor) = (None, None, None);
        self.number = number;
        let Some(handle) = self.handle(number)? else { return Ok(()) };
        match self.load(&handle) {
            Ok(()) => self.step(),
            Err(error) if error.is_corruption() => {
                let mut cursor = Box::new(self.table.cursor(false));
                cursor.move_to_start_of(number)?;
                self.cursor = Some(cursor);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the handle of a block; `None` past the last one.
    fn handle(&mut self, number: usize) -> Result<Option<BlockHandle>> {
        if number >= self.table.blocks() {
            return Ok(None);
        }
        let named = |part: &IndexPartition| part.index.handle(number).copied();
        if let Some(handle) = self.part.as_deref().and_then(named) {
            return Ok(Some(handle));
        }
        self.part = None; // freed before the next one is read
        match self.table.partition_passing(number)? {
            PassingPartition::Kept(part) => Ok(named(part)),
            PassingPartition::Own(part) => {
                let handle = named(&part);
                self.part = Some(part);
                Ok(handle)
            }
        }
    }

    /// Takes a block from the readahead buffer, refilling that if needed, and checks it.
    fn load(&mut self, handle: &BlockHandle) -> Result<()> {
        let from = self.read(handle)?;
        let TableStream { table, chunk, body, scratch, column, bound, .. } = self;
        let checked = check_frame(&chunk[from], &table.expected.uid, Role::Data, handle)?;
        let (stored, codec, handle) = table.bound(checked, handle, bound)?;
        let stored = StoredBlock::split(stored, codec)?;
        body.clear();
        body.extend_from_slice(stored.body(handle.raw_len, scratch, table.dictionary.as_deref())?);
        match (stored.column, &mut *column) {
            (Some(_words), Some(_column))
                if planted!(StreamKeepsTheColumnBefore, _words.len() == _column.len(), false) => {}
            (Some(words), Some(column)) => {
                column.clear();
                column.extend_from_slice(words);
            }
            (words, column) => *column = words.map(<[u8]>::to_vec),
        }
        self.scan = Some(EntryScan::new(&self.body, self.column.as_ref().map(Vec::len), &mut self.keys)?);
        Ok(())
    }

    /// Returns the block's range in the readahead buffer.
    fn read(&mut self, handle: &BlockHandle) -> Result<Range<usize>> {
        let held = self.chunk_at <= handle.offset && handle.end() <= self.chunk_at + self.chunk.len() as u64;
        if !held {
            let left = self.table.data_end().saturating_sub(handle.offset);
            let length = CHUNK_BYTES.min(left).max(handle.bytes() as u64) as usize;
            self.make_room(length).map_err(|error| read_error(&self.table.name, handle.offset, error))?;
            read_into(&*self.table.file, handle.offset, &mut self.chunk).map_err(|error| {
                self.chunk.clear();
                read_error(&self.table.name, handle.offset, error)
            })?;
            self.chunk_at = handle.offset;
        }
        let from = (handle.offset - self.chunk_at) as usize;
        Ok(from..from + handle.bytes())
    }

    /// Resizes the buffer. Frees the memory that one large record took. Returns `OutOfMemory` if the memory is not
    /// available.
    fn make_room(&mut self, length: usize) -> io::Result<()> {
        if self.chunk.capacity() > 2 * CHUNK_BYTES as usize && length <= CHUNK_BYTES as usize {
            (self.chunk, self.body, self.scratch) = (Vec::new(), Vec::new(), Vec::new());
        }
        try_resize(&mut self.chunk, length)
    }

    /// Steps to the next entry, or to the first entry of the next block.
    #[inline]
    fn step(&mut self) -> Result<()> {
        let Some(scan) = &mut self.scan else { return Ok(()) };
        match scan.next(&self.body, self.table.base, &self.table.records.order, &mut self.keys) {
            Ok(Some(step)) => {
                if let Some(word) =
                    self.column.as_ref().and_then(|column| column.get(step.index * 8..step.index * 8 + 8))
                {
                    self.word = companion_of(word);
                }
                self.here = Some(step);
                Ok(())
            }
            Ok(None) => self.enter(self.number + 1),
            Err(error) => {
                (self.scan, self.here) = (None, None);
                Err(error.in_file(&self.table.name, self.source().offset))
            }
        }
    }

    /// Replaces the stream by a cursor, and moves that.
    fn hand_over(&mut self, to: impl FnOnce(&mut TableCursor) -> Result<()>) -> Result<()> {
        let mut cursor = self.cursor.take().unwrap_or_else(|| Box::new(self.table.cursor(false)));
        (self.scan, self.here) = (None, None);
        to(&mut cursor)?;
        self.cursor = Some(cursor);
        Ok(())
    }
}

impl Cursor for TableStream {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let number = self.table.partition_for(key)?.index.find(key, &self.table.records.order);
        self.enter(number)?;
        let is_before = |record: &Record<'_>, table: &Table| {
            table.records.order.compare_internal((record.key, record.seqno), (key, seqno)).is_lt()
        };
        while self.valid() && is_before(&self.record(), &self.table) {
            self.next()?;
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.hand_over(|cursor| cursor.seek_for_prev(key, seqno))
    }

    fn first(&mut self) -> Result<()> {
        self.enter(0)
    }

    fn last(&mut self) -> Result<()> {
        self.hand_over(|cursor| cursor.last())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match &mut self.cursor {
            None => self.step(),
            Some(cursor) => cursor.next(),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match &mut self.cursor {
            Some(cursor) => cursor.prev(),
            None => {
                let (key, seqno) = (self.keys.last.clone(), self.record().seqno);
                self.hand_over(|cursor| {
                    cursor.seek(&key, seqno)?;
                    cursor.prev()
                })
            }
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.here.is_some() || self.cursor.as_ref().is_some_and(|cursor| cursor.valid())
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        match (&self.here, &self.cursor) {
            (Some(ScannedEntry { entry, seqno, companion, .. }), _) => {
                let value = &self.body[entry.value_at..entry.value_end];
                let companion = if self.column.is_some() { &self.word[..] } else { &self.body[companion.clone()] };
                Record { key: &self.keys.last, seqno: *seqno, kind: entry.kind, value, companion }
            }
            (None, Some(cursor)) => cursor.record(),
            (None, None) => Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] },
        }
    }

    #[inline]
    fn source(&self) -> RecordSource<'_> {
        match &self.cursor {
            None => {
                let own = self.part.as_ref().and_then(|part| part.index.handle(self.number));
                let source = self.table.source(self.number);
                RecordSource { offset: own.map_or(source.offset, |handle| handle.offset), ..source }
            }
            Some(cursor) => cursor.source(),
        }
    }
}

impl std::fmt::Debug for TableStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableStream")
            .field("table", &self.table.name)
            .field("block", &self.number)
            .finish_non_exhaustive()
    }
}
