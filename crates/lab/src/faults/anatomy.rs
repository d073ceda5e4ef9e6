//! Finds the bytes of each key, value, seqno and seal in a table file. It follows docs/format.md, section 4, and shares
//! no parser with the engine, so that it is an independent check of the engine's files.
//!
//! In:     the bytes of a whole file.
//! Out:    spans. Compressed blocks have a span but no entries.
//! Holds:  a file that is not a table, or whose directory is damaged, is rejected; every length is checked before use
//!         (I10).

use std::ops::Range;

use waxseal_lsm::checksum::{Role, block_seed, crc, hash};
use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::header::{FileHeader, FileKind};
use waxseal_lsm::record::{Kind, Seqno, companion};

/// Length of the footer.
const FOOTER_BYTES: usize = 136;

/// Codec byte and CRC behind the stored bytes of a block.
const FRAME_BYTES: usize = 5;

/// The bit of the codec byte for blocks whose seals are in a column behind the body.
const COLUMN: u8 = 0x80;

/// The parts of one table file, as spans of its bytes.
#[derive(Clone, Debug)]
pub struct Anatomy {
    /// The data blocks, in order.
    pub blocks: Vec<Block>,
    /// The framed filter; empty if the table has none.
    pub filter: Range<usize>,
    /// The framed properties.
    pub properties: Range<usize>,
    /// The framed index.
    pub index: Range<usize>,
    /// The footer.
    pub footer: Range<usize>,
}

/// One data block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its stored bytes, without codec byte and CRC.
    pub stored: Range<usize>,
    /// Its codec byte.
    pub codec: u8,
    /// Length of its uncompressed body.
    pub raw_len: usize,
    /// Its entries; empty for a compressed block.
    pub entries: Vec<Entry>,
}

/// One record in an uncompressed block.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The kind byte.
    pub kind: usize,
    /// The three lengths.
    pub lengths: Range<usize>,
    /// The stored seqno, relative to the file's smallest one.
    pub seqno: Range<usize>,
    /// The stored part of the key.
    pub suffix: Range<usize>,
    /// The value.
    pub value: Range<usize>,
    /// The companions; with a column, the record's seal word.
    pub companions: Range<usize>,
    /// Kind and span of each companion; empty with a column.
    pub beside: Vec<(u8, Range<usize>)>,
    /// The record's kind.
    pub what: Kind,
    /// The whole key.
    pub key: Vec<u8>,
    /// The whole seqno.
    pub number: Seqno,
}

impl Entry {
    /// Returns the span of its seal word, if it has one.
    pub fn seal(&self) -> Option<Range<usize>> {
        match self.companions.len() {
            8 => Some(self.companions.clone()),
            9.. => Some(self.companions.start + 1..self.companions.start + 9),
            _ => None,
        }
    }

    /// Returns the span of a companion of this kind, kind byte included.
    pub fn beside(&self, kind: u8) -> Option<Range<usize>> {
        let (_, span) = self.beside.iter().find(|(of, _)| *of == kind)?;
        Some(span.clone())
    }
}

impl Block {
    /// Returns the span of the block with codec byte and CRC.
    pub fn framed(&self) -> Range<usize> {
        self.stored.start..self.stored.end + FRAME_BYTES
    }

    /// Returns true if its seals are in a column.
    pub fn has_column(&self) -> bool {
        self.codec & COLUMN != 0
    }

    /// Returns true if its body is compressed.
    pub fn is_packed(&self) -> bool {
        self.codec & !COLUMN != 0
    }
}

impl Anatomy {
    /// Reads the parts of a table file. Errors: `Corruption` if the bytes are not one.
    pub fn read(file: &[u8]) -> Result<Anatomy> {
        let footer_at =
            file.len().checked_sub(FOOTER_BYTES).ok_or_else(|| Error::structural("too short for a table"))?;
        let mut footer = Reader::starting_at(file, footer_at);
        let mut spans = Vec::new();
        for _ in 0..5 {
            spans.push(handle(&mut footer, footer_at)?);
        }
        footer.u32()?;
        let base = footer.u64()?;
        let [index, filter, properties] = [spans[0].clone(), spans[1].clone(), spans[2].clone()];
        if index.is_empty() || &file[file.len() - 8..] != b"WAXTABLE" {
            return Err(Error::structural("not a table"));
        }
        let blocks = blocks(file, &index, base)?;
        Ok(Anatomy { blocks, filter, properties, index, footer: footer_at..file.len() })
    }

    /// Iterates over the records of all uncompressed blocks, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.blocks.iter().flat_map(|block| &block.entries)
    }
}

/// Returns the framed span of a footer handle; empty for an empty handle.
fn handle(reader: &mut Reader<'_>, end: usize) -> Result<Range<usize>> {
    let (offset, stored, raw, crc) = (reader.u64()?, reader.u32()?, reader.u32()?, reader.u32()?);
    if (offset, stored, raw, crc) == (0, 0, 0, 0) {
        return Ok(0..0);
    }
    framed(offset, u64::from(stored), end)
}

fn framed(offset: u64, stored: u64, end: usize) -> Result<Range<usize>> {
    let stop = offset.checked_add(stored).and_then(|stop| stop.checked_add(FRAME_BYTES as u64));
    match stop {
        Some(stop) if stop <= end as u64 => Ok(offset as usize..stop as usize),
        _ => Err(Error::structural("a block outside of its file")),
    }
}

fn blocks(file: &[u8], index: &Range<usize>, base: Seqno) -> Result<Vec<Block>> {
    let body = &file[index.start..index.end - FRAME_BYTES];
    let mut reader = Reader::new(body);
    let count = reader.u32()?;
    let mut blocks = Vec::new();
    let mut offset = 64;
    for _ in 0..count {
        let (_, unshared) = (reader.varint()?, reader.varint()?);
        reader.bytes(usize::try_from(unshared).unwrap_or(usize::MAX))?;
        let (stored, raw) = (reader.varint()?, reader.varint()?);
        reader.u32()?;
        let span = framed(offset, stored, index.start)?;
        offset = span.end as u64;
        let codec = file[span.end - FRAME_BYTES];
        let stored = span.start..span.end - FRAME_BYTES;
        let mut block = Block { stored, codec, raw_len: raw as usize, entries: Vec::new() };
        if !block.is_packed() {
            block.entries = entries(file, &block, base)?;
        }
        blocks.push(block);
    }
    Ok(blocks)
}

fn entries(file: &[u8], block: &Block, base: Seqno) -> Result<Vec<Entry>> {
    let (body, column) = match block.has_column() {
        false => (block.stored.clone(), None),
        true => {
            let count_at = block.stored.end.saturating_sub(4);
            let words = Reader::starting_at(file, count_at).u32()? as usize * 8;
            let at = count_at.checked_sub(words).filter(|at| *at >= block.stored.start);
            let at = at.ok_or_else(|| Error::structural("a column that does not fit in its block"))?;
            (block.stored.start..at, Some(at))
        }
    };
    let tail_at = body.end.checked_sub(8).filter(|at| *at >= body.start);
    let tail_at = tail_at.ok_or_else(|| Error::structural("a body without an end"))?;
    let mut tail = Reader::starting_at(file, tail_at);
    let (count, interval) = (tail.u32()? as usize, tail.u8()? as usize);
    let restarts = count.div_ceil(interval.max(1)).checked_mul(4);
    let end = restarts.and_then(|bytes| tail_at.checked_sub(bytes)).filter(|end| *end >= body.start);
    let end = end.ok_or_else(|| Error::structural("restart points that do not fit in their block"))?;
    let mut reader = Reader::starting_at(&file[..end], body.start);
    let (mut entries, mut restart) = (Vec::new(), Vec::new());
    for number in 0..count {
        let kind = reader.position();
        let what = Kind::from_byte(reader.u8()?).ok_or_else(|| Error::structural("an entry of no known kind"))?;
        let lengths_at = reader.position();
        let [shared, unshared, value] = [reader.varint()?, reader.varint()?, reader.varint()?].map(|n| n as usize);
        let seqno_at = reader.position();
        let seq = reader.varint()?;
        let suffix_at = reader.position();
        let suffix = reader.bytes(unshared)?.to_vec();
        reader.bytes(value)?;
        let value_end = reader.position();
        let companions = match column {
            Some(at) => at + number * 8..at + number * 8 + 8,
            None => {
                companion::take(&mut reader)?;
                value_end..reader.position()
            }
        };
        if number % interval.max(1) == 0 {
            restart = suffix.clone();
        }
        let start = restart.get(..shared).ok_or_else(|| Error::structural("a key that shares more than there is"))?;
        entries.push(Entry {
            kind,
            lengths: lengths_at..seqno_at,
            seqno: seqno_at..suffix_at,
            suffix: suffix_at..suffix_at + unshared,
            value: suffix_at + unshared..value_end,
            beside: if column.is_some() { Vec::new() } else { spans(file, companions.clone()) },
            companions,
            what,
            key: [start, &suffix].concat(),
            number: if seq == 0 { 0 } else { base.wrapping_add(seq - 1) },
        });
    }
    match reader.is_empty() {
        true => Ok(entries),
        false => Err(Error::structural("bytes between the last entry and the restart points")),
    }
}

/// Returns kind and span of each companion of the record at the start of a span, up to the first invalid byte.
pub fn spans(bytes: &[u8], within: Range<usize>) -> Vec<(u8, Range<usize>)> {
    let Some(covered) = bytes.get(..within.end) else { return Vec::new() };
    let (mut spans, mut reader) = (Vec::new(), Reader::starting_at(covered, within.start));
    let one = |reader: &mut Reader<'_>| -> Result<Option<u8>> {
        let kind = reader.u8()?;
        let length = match kind {
            companion::WORD8 => 8,
            companion::WORD4 => 4,
            kind if companion::begins(kind) => reader.varint_len()?,
            _ => return Ok(None),
        };
        reader.bytes(length)?;
        Ok(Some(kind))
    };
    while !reader.is_empty() {
        let start = reader.position();
        let Ok(Some(kind)) = one(&mut reader) else { break };
        spans.push((kind, start..reader.position()));
    }
    spans
}

/// Makes every checksum of a damaged table file match its content: block CRCs, their copies in the index, the digest,
/// the footer's check. Then only the records' own checks can find the damage. The lengths of the file and of its blocks
/// must be unchanged.
pub fn mend(file: &mut [u8], anatomy: &Anatomy) -> Result<()> {
    let header = FileHeader::decode(file, FileKind::Table)?;
    let sum = |file: &mut [u8], span: &Range<usize>, role: Role| {
        let (covered, own) = (span.start..span.end - 4, span.end - 4..span.end);
        let found = crc(block_seed(&header.uid, span.start as u64, role), &[&file[covered]]);
        file[own].copy_from_slice(&found.to_le_bytes());
        found
    };
    let mut crcs: Vec<u32> = anatomy.blocks.iter().map(|block| sum(file, &block.framed(), Role::Data)).collect();
    let mut copies = index_copies(file, anatomy)?.into_iter();
    for crc in &crcs {
        let at = copies.next().ok_or_else(|| Error::structural("an index of fewer blocks than there are"))?;
        file[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    // The footer's handles are in the order index, filter, properties; the CRCs are taken in file order.
    let sides = [
        (&anatomy.filter, Role::Filter, 1),
        (&anatomy.properties, Role::Properties, 2),
        (&anatomy.index, Role::Index, 0),
    ];
    for (span, role, place) in sides.into_iter().filter(|(span, _, _)| !span.is_empty()) {
        let crc = sum(file, span, role);
        crcs.push(crc);
        let at = anatomy.footer.start + place * 20 + 16;
        file[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    let digest = hash(&crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect::<Vec<u8>>());
    let at = anatomy.footer.start;
    file[at + 112..at + 120].copy_from_slice(&digest.to_le_bytes());
    let check = hash(&[&file[at..at + 120], &header.uid.0].concat());
    file[at + 120..at + 128].copy_from_slice(&check.to_le_bytes());
    Ok(())
}

/// Returns the positions of the copies of the data blocks' CRCs in the index.
fn index_copies(file: &[u8], anatomy: &Anatomy) -> Result<Vec<usize>> {
    let mut reader = Reader::starting_at(&file[..anatomy.index.end - FRAME_BYTES], anatomy.index.start);
    let count = reader.u32()?;
    let mut copies = Vec::new();
    for _ in 0..count {
        let (_, unshared) = (reader.varint()?, reader.varint()?);
        reader.bytes(usize::try_from(unshared).unwrap_or(usize::MAX))?;
        let (_, _) = (reader.varint()?, reader.varint()?);
        copies.push(reader.position());
        reader.u32()?;
    }
    Ok(copies)
}
