//! Table rebuild: opens a table whose footer, index, filter or properties are damaged, from its data blocks alone. See
//! docs/format.md, section 4.
//!
//! In:    a file, and facts about it from the manifest or from its own undamaged metadata.
//! Out:   a table without a filter that can be read normally. Each range between the found blocks becomes one more
//!        block whose CRC never matches, so that readers treat it as a damaged block. One partition of a partitioned
//!        index can be rebuilt the same way while the table is open (`rebuilt_part`), from the blocks of its range.
//! Holds: data blocks are contiguous, and the CRC of each is seeded with its offset. Other bytes pass with a
//!        probability of 2^-32 per byte, and they must also decompress and validate. Nothing is written.
//! Costs: one pass, with a few chunks of the file in memory. After damage, the scan looks for a matching pair of start
//!        and end: as CRCs are linear, the CRC of `a..b` matches if a word computed at `a` equals a word computed at
//!        `b`. Thus one hash lookup per byte finds the next whole block, whatever is before it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::tolerant_file::Given;
use crate::checksum::{Role, Uid, block_seed, crc, hash_key};
use crate::env::File;
use crate::error::{Error, Result};
use crate::header::{CUT_INDEX, FileKind, HEADER_BYTES, Header, ZSTD_FRAMES};
use crate::ledger::Ledger;
use crate::options::KIB;
use crate::order::Order;
use crate::record::{MAX_SEQNO, Seqno};
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{FOOTER_BYTES, Footer, Handle, LEAST_BLOCK_BYTES, LOST, Stored, TRAILER_BYTES, check};
use crate::sst::block::scan::{Keys, walk};
use crate::sst::cache::cache::Cache;
use crate::sst::index::index::{Filling, Index, Range as Place};
use crate::sst::index::top_index::{Span, Top, sum_of};
use crate::sst::table::partitions::PartSource;
use crate::sst::table::properties::Properties;
use crate::sst::table::table::{Assembly, Expected, Table};
use crate::sst::table::tail::read_error;

/// Maximum length of a block that is searched for at unknown offsets. The first block after a whole one may be longer.
const WINDOW: u64 = 1088 * KIB as u64;

/// Bytes per read.
const PIECE: u64 = 256 * KIB as u64;

/// Information about a table from outside of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The file's uid; `None`: use the one in its header.
    pub uid: Option<Uid>,
    /// The family's id.
    pub family: u32,
    /// Smallest and largest user key.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// Least and greatest seqno.
    pub seqnos: Option<(Seqno, Seqno)>,
    /// Counts and sums of its records.
    pub ledger: Option<Ledger>,
}

/// A table opened from its undamaged parts.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The table.
    pub table: Arc<Table>,
    /// Ranges of the data in which no block was found.
    pub gaps: Vec<Range<u64>>,
    /// Names of the other damaged parts.
    pub damaged: Vec<&'static str>,
}

/// Opens a table that `Table::open` rejects. Errors: `Corruption` if no block can be found, or the base of the seqnos
/// cannot be determined; `Io`.
pub fn rebuild(
    name: &str,
    file: Arc<dyn File>,
    known: &Known,
    order: &Order,
    cache: Arc<Cache>,
    keeper: Arc<dyn Companions>,
) -> Result<Rebuilt> {
    let size = file.len().map_err(|error| read_error(name, 0, error))?;
    let given = Given::new(name, &*file);
    let mut ends = Ends::read(name, &given, size, known, order)?;
    let mut scan = Scan { given: &given, uid: ends.uid, end: ends.data_end, order, dictionary: None };
    if ends.may_have_dictionary {
        ends.find_dictionary(&scan.within(size));
    }
    let dictionary = ends.dictionary.clone();
    scan.dictionary = dictionary.as_deref();
    if ends.base.is_none() {
        ends.find_index(&scan);
        scan.end = ends.data_end;
    }
    let found = match ends.index.take() {
        Some(index) => {
            if ends.base.is_none() {
                let blocks = scan.named(&index);
                ends.find_base(&blocks, known, &scan, size, &*keeper)?;
            }
            Found { index, gaps: Vec::new() }
        }
        None => {
            let blocks = scan.blocks();
            let mut end = DataEnd { offset: scan.end, is_proven: true };
            if ends.base.is_none() || ends.may_be_cut {
                end = ends.find_data_end(&blocks, &scan);
            }
            if ends.base.is_none() {
                ends.find_base(&blocks, known, &scan, size, &*keeper)?;
            }
            let own = ends.properties.as_ref().map(|properties| &properties.largest);
            let largest = known.keys.as_ref().map(|keys| &keys.1).or(own).map_or(&[][..], Vec::as_slice);
            Found::of(&blocks, end, largest, order)?
        }
    };
    let damaged = std::mem::take(&mut ends.damaged);
    let base = ends.base.unwrap_or(0);
    let uid = ends.uid;
    let properties = ends.properties.unwrap_or_else(|| Properties {
        family: known.family,
        comparator: order.name().to_owned(),
        ledger: known.ledger.unwrap_or_default(),
        smallest: known.keys.as_ref().map_or_else(Vec::new, |keys| keys.0.clone()),
        largest: known.keys.as_ref().map_or_else(Vec::new, |keys| keys.1.clone()),
        least_seqno: known.seqnos.map_or(base, |seqnos| seqnos.0),
        greatest_seqno: known.seqnos.map_or(MAX_SEQNO, |seqnos| seqnos.1),
        data_blocks: found.index.len() as u64,
        // The promised protection is unknown: only the ledger reveals a missing seal.
        protection: Protection::Partial as u8,
        seal_algorithm: keeper.algorithm(),
        // The number of longer companions is unknown too: assume the maximum.
        beside: Some(u64::MAX),
        ..Properties::default()
    });
    let expected = Expected { uid, size, digest: 0 };
    let (refused, index, order) = (given.refused(), found.index, order.clone());
    let name = name.to_owned();
    let table = Table::assemble(Assembly {
        name,
        file,
        order,
        index,
        expected,
        base,
        properties,
        keeper,
        cache,
        dictionary,
        refused,
    });
    Ok(Rebuilt { table, gaps: found.gaps, damaged })
}

/// The metadata of a file, as far as it is undamaged.
struct Ends {
    uid: Uid,
    base: Option<Seqno>,
    properties: Option<Properties>,
    index: Option<Index>,
    dictionary: Option<Arc<Dictionary>>,
    /// Neither the position nor the existence of the dictionary is known.
    may_have_dictionary: bool,
    /// The index may be partitioned, so that its partitions follow the data.
    may_be_cut: bool,
    /// Upper limit for the end of the data blocks.
    data_end: u64,
    damaged: Vec<&'static str>,
}

impl Ends {
    fn read(name: &str, given: &Given<'_>, size: u64, known: &Known, order: &Order) -> Result<Ends> {
        let mut damaged = Vec::new();
        let header = given.part(0, HEADER_BYTES as u64, size);
        let header = header.and_then(|bytes| Header::decode(&bytes, FileKind::Table)).ok();
        if header.as_ref().is_none_or(|header| known.uid.is_some_and(|uid| uid != header.uid)) {
            damaged.push("header");
        }
        let Some(uid) = known.uid.or(header.map(|header| header.uid)) else {
            return Err(Error::structural("nothing says which file this is").in_file(name, 0));
        };
        let footer_at = size.saturating_sub(FOOTER_BYTES as u64);
        let footer = given.part(footer_at, FOOTER_BYTES as u64, size);
        let footer = footer.and_then(|bytes| Footer::decode(&bytes, &uid)).ok();
        let may_be_cut = header.is_none_or(|header| header.incompatible & CUT_INDEX != 0);
        let Some(footer) = footer else {
            damaged.push("footer");
            return Ok(Ends {
                uid,
                base: None,
                properties: None,
                index: None,
                dictionary: None,
                may_have_dictionary: cfg!(feature = "zstd")
                    && header.is_none_or(|header| header.incompatible & ZSTD_FRAMES != 0),
                may_be_cut,
                data_end: size,
                damaged,
            });
        };
        let sides = footer.sides().map(|handle| handle.offset).into_iter();
        let mut data_end = sides.filter(|offset| *offset > 0).min().unwrap_or(footer_at).min(footer_at);
        let side = |handle: &Handle, role: Role| -> Result<Vec<u8>> {
            handle.check_within(footer_at)?;
            let block = given.part(handle.offset, handle.bytes() as u64, size)?;
            let (stored, codec) = check(&block, &uid, role, handle)?;
            Ok(Stored::split(stored, codec)?.body(handle.raw_len, &mut Vec::new(), None)?.to_vec())
        };
        let properties = side(&footer.properties, Role::Properties).and_then(|body| Properties::decode(&body)).ok();
        let index = side(&footer.index, Role::Index).and_then(|body| Index::decode(&body, order, data_end)).ok();
        let mut index = index.filter(|index| index.data_end() == data_end);
        if index.is_none() && may_be_cut {
            let behind = (!footer.side.is_absent()).then(|| footer.side.end());
            let top = side(&footer.index, Role::Top).and_then(|body| Top::decode(&body, order, behind, footer_at));
            if let Ok(top) = top {
                let from = PartSource { name, file: given.file, uid, order, filtered: false };
                (index, data_end) = (given.noted(joined(&from, &top)), data_end.min(top.data_end()));
            }
        }
        if properties.is_none() {
            damaged.push("properties");
        }
        if index.is_none() {
            damaged.push("index");
        }
        if !footer.filter.is_absent() && side(&footer.filter, Role::Filter).is_err() {
            damaged.push("filter");
        }
        let dictionary = (!footer.side.is_absent()).then(|| {
            let whole = side(&footer.side, Role::Side).and_then(|body| Dictionary::of(&body));
            Arc::new(whole.unwrap_or_else(|_| Dictionary::lost()))
        });
        if dictionary.as_ref().is_some_and(|dictionary| !dictionary.is_whole()) {
            damaged.push("dictionary");
        }
        let (base, may_have_dictionary) = (Some(footer.base_seqno), false);
        Ok(Ends { uid, base, properties, index, dictionary, may_have_dictionary, may_be_cut, data_end, damaged })
    }

    /// Searches for the dictionary, which follows the data at an unknown offset. Only its CRC and format identify it,
    /// and in a large file a CRC may match by chance. A wrong dictionary is detected when blocks do not decompress.
    fn find_dictionary(&mut self, scan: &Scan<'_>) {
        scan.next(Role::Side, HEADER_BYTES as u64, &mut |_, bytes| {
            let dictionary = Dictionary::of(&bytes[..bytes.len() - TRAILER_BYTES]).ok();
            let dictionary = dictionary.filter(|dictionary| dictionary.is_trained());
            self.dictionary = dictionary.map(Arc::new);
            self.dictionary.is_some()
        });
    }

    /// Searches for the index, which ends where the footer begins.
    fn find_index(&mut self, scan: &Scan<'_>) {
        let Some(end) = scan.end.checked_sub(FOOTER_BYTES as u64) else { return };
        let from = end.saturating_sub(WINDOW).max(HEADER_BYTES as u64);
        scan.within(end).begins_behind(Role::Index, from, &mut |at, bytes| {
            let body = &bytes[..bytes.len() - TRAILER_BYTES];
            self.index = Index::decode(body, scan.order, at).ok().filter(|_| at + bytes.len() as u64 == end);
            self.index.is_some()
        });
        if let Some(index) = &self.index {
            self.data_end = index.data_end();
            self.damaged.retain(|part| *part != "index");
        }
    }

    /// Returns the end of the data if no footer states it, or if the top level of a partitioned index is lost. Proof is
    /// a block of another role after the last block found, or the number of blocks in the properties. Without proof,
    /// all bytes up to the footer may have been data, and the file may have been truncated.
    fn find_data_end(&self, blocks: &[Block], scan: &Scan<'_>) -> DataEnd {
        let at = blocks.last().map_or(HEADER_BYTES as u64, |block| block.handle.end());
        let is_last = self.properties.as_ref().is_some_and(|properties| properties.data_blocks == blocks.len() as u64);
        let sides = [Role::Side, Role::Filter, Role::Properties, Role::Index];
        if is_last || sides.into_iter().any(|role| scan.begins_at(role, at, &mut |_, _| true).is_some()) {
            return DataEnd { offset: at, is_proven: true };
        }
        let footer_bytes = if self.base.is_none() { FOOTER_BYTES as u64 } else { 0 };
        DataEnd { offset: scan.end.saturating_sub(footer_bytes).max(at), is_proven: false }
    }

    /// Finds the base of the blocks' seqnos, by comparing the known bounds with those found. If they disagree (a
    /// bound's block is damaged), the companions decide.
    fn find_base(
        &mut self,
        blocks: &[Block],
        known: &Known,
        scan: &Scan<'_>,
        size: u64,
        keeper: &dyn Companions,
    ) -> Result<()> {
        if self.properties.is_none() && known.seqnos.is_none() {
            let from = blocks.last().map_or(HEADER_BYTES as u64, |block| block.handle.end());
            let accept = &mut |_: u64, bytes: &[u8]| {
                self.properties = Properties::decode(&bytes[..bytes.len() - TRAILER_BYTES]).ok();
                self.properties.is_some()
            };
            scan.within(size).next(Role::Properties, from, accept);
        }
        let own = self.properties.as_ref().map(|properties| (properties.least_seqno, properties.greatest_seqno));
        let unknown = || Error::structural("nothing says where the seqnos of the table begin");
        let seqs = blocks.iter().filter_map(|block| block.seqs);
        let Some((least, greatest)) = seqs.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            self.base = Some(0);
            return Ok(());
        };
        let (known_least, known_greatest) = known.seqnos.or(own).ok_or_else(unknown)?;
        let by_greatest = known_greatest.checked_sub(greatest);
        let by_least = known_least.checked_sub(least).filter(|_| known_least > 0);
        // Both bounds may have been in a lost block. Seqnos are usually relative to the least one.
        let mut bases = [by_least, by_greatest, Some(known_least)].into_iter().flatten();
        self.base = match (by_least, by_greatest) {
            (Some(a), Some(b)) if a == b => Some(a),
            _ => bases.find(|base| scan.speaks_for(blocks, *base, keeper)),
        };
        self.base.map(drop).ok_or_else(unknown)
    }
}

/// A data block that was found, and facts from its scan. Seqnos are relative.
struct Block {
    handle: Handle,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    /// Least and greatest nonzero seqno; `None` if all are zero.
    seqs: Option<(Seqno, Seqno)>,
}

/// The end of a table's data blocks.
#[derive(Clone, Copy, Debug)]
struct DataEnd {
    offset: u64,
    /// False if more blocks may have followed.
    is_proven: bool,
}

/// The data blocks of a table, including gaps.
struct Found {
    index: Index,
    gaps: Vec<Range<u64>>,
}

impl Found {
    /// Builds an index of the blocks found. A gap is listed as a block whose CRC never matches. `largest`: the table's
    /// last key, if known. If a table's last blocks may be missing, it ends with a gap, even if no byte of them is
    /// left: otherwise another gap would have to account for their records.
    fn of(blocks: &[Block], end: DataEnd, largest: &[u8], order: &Order) -> Result<Found> {
        // Skip the writer's length check: the maximum key length within a gap is unknown.
        let mut index = Filling::new(Place::whole(), order, (blocks.len(), 0));
        let mut gaps = Vec::new();
        let mut at = HEADER_BYTES as u64;
        let longest = blocks.iter().map(|block| block.handle.raw_len).max().unwrap_or(0);
        let mut gap = |index: &mut Filling<'_>, from: u64, to: u64, separator: &[u8]| {
            let stored_len = (to - from).saturating_sub(TRAILER_BYTES as u64).min(u32::MAX.into()) as u32;
            // The gap is most likely one block; its uncompressed length is unknown.
            let raw_len = stored_len.max(longest.saturating_mul(2).min(stored_len.saturating_mul(255)));
            gaps.push(from..to);
            index.add(separator, Handle { offset: from, stored_len, raw_len, crc: LOST })
        };
        for block in blocks {
            if block.handle.offset > at {
                gap(&mut index, at, block.handle.offset, &block.first_key)?;
            }
            index.add(&block.last_key, block.handle)?;
            at = block.handle.end();
        }
        let Some(last) = blocks.last() else {
            return Err(Error::structural("no block of the table can be found"));
        };
        let lacks_largest = order.compare(&last.last_key, largest).is_lt();
        if end.offset > at || !end.is_proven || lacks_largest {
            let to = end.offset.max(at + LEAST_BLOCK_BYTES);
            gap(&mut index, at, to, if lacks_largest { largest } else { &last.last_key })?;
        }
        Ok(Found { index: index.finish()?, gaps })
    }
}

/// Joins the partitions of an index into one. Errors: a partition is damaged, or the device cannot read it.
fn joined(from: &PartSource<'_>, top: &Top) -> Result<Index> {
    let mut all = Filling::new(Place::whole(), from.order, (top.blocks(), 0));
    for span in top.spans() {
        let index = from.read(span).0?;
        for (number, handle) in (span.range.first..).zip(index.handles()) {
            all.add(&index.separator(number), *handle)?;
        }
    }
    all.finish()
}

/// Rebuilds the index partition of a range from its blocks. The bytes between the blocks found are listed as the
/// missing blocks, with CRCs that never match, so that all other blocks keep their numbers. Returns true if the block
/// CRCs are those of the lost partition. Errors: `Io`.
pub(in crate::sst) fn rebuilt_part(
    from: &PartSource<'_>,
    span: &Span,
    dictionary: Option<&Dictionary>,
) -> Result<(Index, bool, Option<Error>)> {
    let given = Given::new(from.name, from.file);
    let scan = Scan { given: &given, uid: from.uid, end: span.end, order: from.order, dictionary };
    let mut blocks = scan.blocks_from(span.range.offset, span.range.floor.as_deref());
    blocks.retain(|block| from.order.compare(&block.last_key, &span.bound).is_le());
    let mut named = between(&blocks, span);
    let widest = (0..named.len()).filter(|at| named[*at].is_gap).max_by_key(|at| named[*at].handle.stored_len);
    match (span.blocks.checked_sub(named.len()), widest) {
        (Some(0), _) => {}
        (Some(missing), Some(gap)) => {
            let pieces = named[gap].shared_out(missing + 1);
            named.splice(gap..=gap, pieces);
        }
        // More blocks than the range had, or fewer without a gap: do not trust the blocks found.
        _ => named = Named::gap((span.range.offset, span.end), &span.bound).shared_out(span.blocks),
    }
    if let Some(last) = named.last_mut() {
        last.separator.clone_from(&span.bound);
    }
    let is_it =
        !named.iter().any(|named| named.is_gap) && sum_of(named.iter().map(|named| named.handle.crc)) == span.sum;
    let mut index = Filling::new(span.range.clone(), from.order, (named.len(), 0));
    for Named { separator, handle, .. } in &named {
        index.add(separator, *handle)?;
    }
    Ok((index.finish()?, is_it, given.refused()))
}

/// A block with its separator, or a gap.
struct Named {
    separator: Vec<u8>,
    handle: Handle,
    is_gap: bool,
}

impl Named {
    /// Creates a gap: a range in which no block was found.
    fn gap((from, to): (u64, u64), separator: &[u8]) -> Named {
        let stored_len = (to - from).saturating_sub(TRAILER_BYTES as u64).min(u32::MAX.into()) as u32;
        let handle = Handle { offset: from, stored_len, raw_len: stored_len, crc: LOST };
        Named { separator: separator.to_vec(), handle, is_gap: true }
    }

    /// Splits the gap into `count` blocks of equal length.
    fn shared_out(&self, count: usize) -> Vec<Named> {
        let each = self.handle.bytes() / count.max(1);
        let stored_len = each.saturating_sub(TRAILER_BYTES) as u32;
        let piece = |n: usize| {
            let offset = self.handle.offset + (n * each) as u64;
            let handle = Handle { offset, stored_len, raw_len: stored_len, crc: LOST };
            Named { separator: self.separator.clone(), handle, is_gap: true }
        };
        (0..count).map(piece).collect()
    }
}

/// Returns the blocks found in a range, with one gap for each range of bytes between them.
fn between(blocks: &[Block], span: &Span) -> Vec<Named> {
    let (mut named, mut at) = (Vec::with_capacity(span.blocks), span.range.offset);
    for block in blocks {
        if block.handle.offset > at {
            named.push(Named::gap((at, block.handle.offset), &block.first_key));
        }
        named.push(Named { separator: block.last_key.clone(), handle: block.handle, is_gap: false });
        at = block.handle.end();
    }
    if at < span.end {
        named.push(Named::gap((at, span.end), &span.bound));
    }
    named
}

/// The part of a file that is searched for blocks.
#[derive(Clone, Copy)]
struct Scan<'a> {
    given: &'a Given<'a>,
    uid: Uid,
    end: u64,
    order: &'a Order,
    /// The dictionary for zstd blocks.
    dictionary: Option<&'a Dictionary>,
}

impl Scan<'_> {
    /// The same search with another end.
    fn within(self, end: u64) -> Self {
        Scan { end, ..self }
    }

    /// Returns all data blocks that can be found.
    fn blocks(&self) -> Vec<Block> {
        self.blocks_from(HEADER_BYTES as u64, None)
    }

    /// Returns all blocks from an offset on whose keys are not less than `floor`.
    fn blocks_from(&self, mut from: u64, floor: Option<&[u8]>) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        loop {
            let mut found = None;
            let follows = |block: &Block| {
                let before = blocks.last().map(|before| &before.last_key[..]).or(floor);
                before.is_none_or(|before| self.order.compare(before, &block.first_key).is_le())
            };
            self.next(Role::Data, from, &mut |at, bytes| {
                found = self.look(at, bytes).filter(follows);
                found.is_some()
            });
            let Some(block) = found else { return blocks };
            from = block.handle.end();
            blocks.push(block);
        }
    }

    /// Returns the undamaged blocks that an index names.
    fn named(&self, index: &Index) -> Vec<Block> {
        let framed = |handle: &Handle| self.given.read(handle.offset, handle.bytes());
        index.handles().iter().filter_map(|handle| self.look(handle.offset, &framed(handle))).collect()
    }

    /// Calls `accept` with framed blocks of a role whose CRC matches, in file order, until it returns true.
    fn next(&self, role: Role, from: u64, accept: &mut dyn FnMut(u64, &[u8]) -> bool) -> Option<()> {
        self.begins_at(role, from, accept).or_else(|| self.begins_behind(role, from, accept))
    }

    /// Searches for a block that begins at `from`.
    fn begins_at(&self, role: Role, from: u64, accept: &mut dyn FnMut(u64, &[u8]) -> bool) -> Option<()> {
        let mut register = !block_seed(&self.uid, from, role);
        self.positions(from, self.end.min(from.saturating_add(WINDOW)), &mut |at, byte, next| {
            register = step(register, byte);
            !register == next && self.show(from, at + 5, accept)
        })
    }

    /// Searches for a block that begins after `from` and fits into the window, or begins at `from` and has any length.
    fn begins_behind(&self, role: Role, from: u64, accept: &mut dyn FnMut(u64, &[u8]) -> bool) -> Option<()> {
        let mut here = !block_seed(&self.uid, from, role);
        let (mut prefix, mut back) = (0u32, ONE);
        let mut starts = [HashMap::new(), HashMap::new()];
        self.positions(from, self.end, &mut |at, byte, next| {
            if starts[0].len() as u64 >= WINDOW {
                starts.swap(0, 1);
                starts[0].clear();
            }
            starts[0].insert(times(back, !block_seed(&self.uid, at, role) ^ prefix), at);
            (here, prefix) = (step(here, byte), step(prefix, byte));
            (0..8).for_each(|_| back = divided(back));
            if !here == next && self.show(from, at + 5, accept) {
                return true;
            }
            let wanted = times(back, !next ^ prefix);
            starts.iter().any(|starts| starts.get(&wanted).is_some_and(|start| self.show(*start, at + 5, accept)))
        })
    }

    /// Visits every byte with its offset and the next four bytes as a number, until `visit` returns true.
    fn positions(&self, from: u64, to: u64, visit: &mut dyn FnMut(u64, u8, u32) -> bool) -> Option<()> {
        let mut at = from;
        while at + 5 <= to {
            let piece = self.given.read(at, PIECE.min(to - at) as usize);
            for (offset, window) in (at..).zip(piece.windows(5)) {
                let [byte, a, b, c, d] = *window else { continue };
                if visit(offset, byte, u32::from_le_bytes([a, b, c, d])) {
                    return Some(());
                }
            }
            at += piece.len() as u64 - 4;
        }
        None
    }

    fn show(&self, from: u64, to: u64, accept: &mut dyn FnMut(u64, &[u8]) -> bool) -> bool {
        let length = to.saturating_sub(from);
        length >= TRAILER_BYTES as u64 && length <= u32::MAX.into() && {
            let bytes = self.given.read(from, length as usize);
            accept(from, &bytes)
        }
    }

    /// Decodes a framed data block; returns `None` if it does not decompress or validate.
    fn look(&self, at: u64, framed: &[u8]) -> Option<Block> {
        let (covered, own) = framed.split_last_chunk::<4>()?;
        let own = u32::from_le_bytes(*own);
        let (codec, stored) = covered.split_last()?;
        if own != crc(block_seed(&self.uid, at, Role::Data), &[covered]) {
            return None;
        }
        let parts = Stored::split(stored, *codec).ok()?;
        let mut scratch = Vec::new();
        let body = parts.body_of_any_length(&mut scratch, self.dictionary).ok()?;
        let (mut first_key, mut seqs) = (None, None::<(Seqno, Seqno)>);
        let mut keys = Keys::default();
        walk(body, parts.column, 1, self.order, &mut keys, |_, record| {
            first_key.get_or_insert_with(|| record.key.to_vec());
            if let Some(seq) = record.seqno.checked_sub(1) {
                seqs = Some(seqs.map_or((seq, seq), |(least, greatest)| (least.min(seq), greatest.max(seq))));
            }
            Ok(())
        })
        .ok()?;
        let handle =
            Handle { offset: at, stored_len: stored.len() as u32, raw_len: u32::try_from(body.len()).ok()?, crc: own };
        Some(Block { handle, first_key: first_key?, last_key: keys.last, seqs })
    }

    /// Returns whether the companions of some block match if seqnos are relative to `base`.
    fn speaks_for(&self, blocks: &[Block], base: Seqno, keeper: &dyn Companions) -> bool {
        blocks.iter().any(|block| {
            let bytes = self.given.read(block.handle.offset, block.handle.bytes());
            let (stored, behind) = bytes.split_at(block.handle.stored_len as usize);
            let Ok(parts) = Stored::split(stored, behind[0]) else { return false };
            let mut scratch = Vec::new();
            let Ok(body) = parts.body(block.handle.raw_len, &mut scratch, self.dictionary) else { return false };
            let mut fits = false;
            let _ = walk(body, parts.column, base, self.order, &mut Keys::default(), |_, record| {
                let check = keeper.verify(record, hash_key(record.key), Protection::Partial);
                fits |= record.seqno > 0 && check == Check::Validated;
                Ok(())
            });
            fits
        })
    }
}

/// The polynomial of zlib's CRC-32, reflected: x^32 modulo the polynomial.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// x^0.
const ONE: u32 = 1 << 31;

const STEPS: [u32; 256] = steps();

const fn steps() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            register = multiplied(register);
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

/// Advances the CRC register by one byte.
#[inline]
fn step(register: u32, byte: u8) -> u32 {
    STEPS[(register as u8 ^ byte) as usize] ^ (register >> 8)
}

/// Multiplies by x.
#[inline]
const fn multiplied(word: u32) -> u32 {
    (word >> 1) ^ (POLYNOMIAL & (word & 1).wrapping_neg())
}

/// Divides by x.
#[inline]
fn divided(word: u32) -> u32 {
    if word & ONE == 0 { word << 1 } else { (word ^ POLYNOMIAL) << 1 | 1 }
}

/// Multiplies two polynomials.
#[inline]
fn times(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..32).rev() {
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = multiplied(b);
    }
    product
}
