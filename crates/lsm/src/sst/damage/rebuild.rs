//! Table rebuild: opens a table whose footer, index, filter or properties are damaged, from its data blocks alone. See
//! docs/format.md, section 4.
//!
//! In:    a file, and facts about it from the manifest or from its own undamaged metadata.
//! Out:   a table without a filter that can be read normally. Each range between the found blocks becomes one more
//!        block whose CRC never matches, so that readers treat it as a damaged block.
//! Holds: only blocks that `block_search` finds are trusted. Nothing is written.

use std::ops::Range;
use std::sync::Arc;

use super::block_search::{BlockSearch, FoundBlock, WINDOW};
use super::open::DAMAGE;
use super::tolerant_file::TolerantFile;
use crate::checksum::{Role, Uid};
use crate::env::File;
use crate::error::{Error, Result};
use crate::header::{CUT_INDEX, FileHeader, FileKind, HEADER_BYTES, ZSTD_FRAMES};
use crate::ledger::Ledger;
use crate::order::Order;
use crate::record::{MAX_SEQNO, Seqno};
use crate::seam::{Companions, Protection};
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{
    BlockHandle, LEAST_BLOCK_BYTES, LOST, StoredBlock, TRAILER_BYTES, check_frame, read_error,
};
use crate::sst::cache::cache::Cache;
use crate::sst::index::index::{Index, IndexAssembler};
use crate::sst::index::partitions::{IndexPartition, PartitionReader, TableIndex};
use crate::sst::index::range::IndexRange;
use crate::sst::index::top_index::TopIndex;
use crate::sst::table::footer::{FOOTER_BYTES, TableFooter};
use crate::sst::table::properties::Properties;
use crate::sst::table::table::Table;
use crate::sst::table::tail::{Expected, TableMetadata};
use crate::sst::table::watch::NoWatch;

/// Information about a table from outside of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTable {
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
    /// The common seqno of an ingested table's records; 0 for other tables.
    pub ingest_seqno: Seqno,
    /// Length of its file in bytes. A longer file is examined up to there.
    pub size: Option<u64>,
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
    known: &KnownTable,
    order: &Order,
    cache: Arc<Cache>,
    protector: Arc<dyn Companions>,
) -> Result<Rebuilt> {
    // A file that was extended by accident may be longer than anybody can read: a hole has no blocks.
    let size = file.data_end().map_err(|error| read_error(name, 0, error))?.min(known.size.unwrap_or(u64::MAX));
    let given = TolerantFile::new(name, &*file);
    let mut ends = FoundMetadata::read(name, &given, size, known, order)?;
    let mut scan = BlockSearch { given: &given, uid: ends.uid, end: ends.data_end, order, dictionary: None };
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
                ends.find_base(&blocks, known, &scan, size, &*protector)?;
            }
            FoundBlocks { index, gaps: Vec::new() }
        }
        None => {
            let blocks = scan.blocks();
            let mut end = DataEnd { offset: scan.end, is_proven: true };
            if ends.base.is_none() || ends.may_be_cut {
                end = ends.find_data_end(&blocks, &scan);
            }
            if ends.base.is_none() {
                ends.find_base(&blocks, known, &scan, size, &*protector)?;
            }
            let own = ends.properties.as_ref().map(|properties| &properties.largest);
            let largest = known.keys.as_ref().map(|keys| &keys.1).or(own).map_or(&[][..], Vec::as_slice);
            FoundBlocks::of(&blocks, end, largest, order)?
        }
    };
    let damaged = std::mem::take(&mut ends.damaged);
    let base = if known.ingest_seqno == 0 { ends.base.unwrap_or(0) } else { known.ingest_seqno };
    let uid = ends.uid;
    let mut properties = ends.properties.unwrap_or_else(|| Properties {
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
        seal_algorithm: protector.algorithm(),
        // The number of longer companions is unknown too: assume the maximum.
        beside: Some(u64::MAX),
        ..Properties::default()
    });
    if known.ingest_seqno != 0 {
        (properties.least_seqno, properties.greatest_seqno) = (base, base);
    }
    let expected = Expected { uid, size, digest: 0, ingest_seqno: known.ingest_seqno };
    let refused = given.refused();
    let table_index = TableIndex::Whole(IndexPartition { index: found.index, filter: None });
    let parts = TableMetadata { base, properties, table_index, policy_filter: None, dictionary };
    let handlers = (protector, Arc::new(NoWatch) as Arc<_>, DAMAGE);
    let table = Table::assembled(name.to_owned(), file, (expected, order.clone()), cache, handlers, parts);
    refused.into_iter().for_each(|refused| drop(table.refused.set(refused)));
    Ok(Rebuilt { table, gaps: found.gaps, damaged })
}

/// The metadata of a file, as far as it is undamaged.
struct FoundMetadata {
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

impl FoundMetadata {
    fn read(
        name: &str,
        given: &TolerantFile<'_>,
        size: u64,
        known: &KnownTable,
        order: &Order,
    ) -> Result<FoundMetadata> {
        let mut damaged = Vec::new();
        let header = given.part(0, HEADER_BYTES as u64, size);
        let header = header.and_then(|bytes| FileHeader::decode(&bytes, FileKind::Table)).ok();
        if header.as_ref().is_none_or(|header| known.uid.is_some_and(|uid| uid != header.uid)) {
            damaged.push("header");
        }
        let Some(uid) = known.uid.or(header.map(|header| header.uid)) else {
            return Err(Error::structural("nothing says which file this is").in_file(name, 0));
        };
        let footer_at = size.saturating_sub(FOOTER_BYTES as u64);
        let footer = given.part(footer_at, FOOTER_BYTES as u64, size);
        let footer = footer.and_then(|bytes| TableFooter::decode(&bytes, &uid)).ok();
        let may_be_cut = header.is_none_or(|header| header.incompatible & CUT_INDEX != 0);
        let Some(footer) = footer else {
            damaged.push("footer");
            return Ok(FoundMetadata {
                uid,
                base: None,
                properties: None,
                index: None,
                dictionary: None,
                may_have_dictionary: crate::zstd::AVAILABLE
                    && header.is_none_or(|header| header.incompatible & ZSTD_FRAMES != 0),
                may_be_cut,
                data_end: size,
                damaged,
            });
        };
        let sides = footer.sides().map(|handle| handle.offset).into_iter();
        let mut data_end = sides.filter(|offset| *offset > 0).min().unwrap_or(footer_at).min(footer_at);
        let side = |handle: &BlockHandle, role: Role| -> Result<Vec<u8>> {
            handle.check_within(footer_at)?;
            let block = given.part(handle.offset, handle.bytes() as u64, size)?;
            let (stored, codec) = check_frame(&block, &uid, role, handle)?;
            Ok(StoredBlock::split(stored, codec)?.body(handle.raw_len, &mut Vec::new(), None)?.to_vec())
        };
        let properties = side(&footer.properties, Role::Properties).and_then(|body| Properties::decode(&body)).ok();
        let index = side(&footer.index, Role::Index).and_then(|body| Index::decode(&body, order, data_end)).ok();
        let mut index = index.filter(|index| index.data_end() == data_end);
        if index.is_none() && may_be_cut {
            let behind = (!footer.side.is_absent()).then(|| footer.side.end());
            let top = side(&footer.index, Role::Top).and_then(|body| TopIndex::decode(&body, order, behind, footer_at));
            if let Ok(top) = top {
                let from = PartitionReader { name, file: given.file, uid, order, filtered: false };
                (index, data_end) = (given.record_error(joined(&from, &top)), data_end.min(top.data_end()));
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
        Ok(FoundMetadata {
            uid,
            base,
            properties,
            index,
            dictionary,
            may_have_dictionary,
            may_be_cut,
            data_end,
            damaged,
        })
    }

    /// Searches for the dictionary, which follows the data at an unknown offset. Only its CRC and format identify it,
    /// and in a large file a CRC may match by chance. A wrong dictionary is detected when blocks do not decompress.
    fn find_dictionary(&mut self, scan: &BlockSearch<'_>) {
        scan.next(Role::Side, HEADER_BYTES as u64, &mut |_, bytes| {
            let dictionary = Dictionary::of(&bytes[..bytes.len() - TRAILER_BYTES]).ok();
            let dictionary = dictionary.filter(|dictionary| dictionary.is_trained());
            self.dictionary = dictionary.map(Arc::new);
            self.dictionary.is_some()
        });
    }

    /// Searches for the index, which ends where the footer begins.
    fn find_index(&mut self, scan: &BlockSearch<'_>) {
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
    fn find_data_end(&self, blocks: &[FoundBlock], scan: &BlockSearch<'_>) -> DataEnd {
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
        blocks: &[FoundBlock],
        known: &KnownTable,
        scan: &BlockSearch<'_>,
        size: u64,
        protector: &dyn Companions,
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
            _ => bases.find(|base| scan.speaks_for(blocks, *base, protector)),
        };
        self.base.map(drop).ok_or_else(unknown)
    }
}

/// The end of a table's data blocks.
#[derive(Clone, Copy, Debug)]
struct DataEnd {
    offset: u64,
    /// False if more blocks may have followed.
    is_proven: bool,
}

/// The data blocks of a table, including gaps.
struct FoundBlocks {
    index: Index,
    gaps: Vec<Range<u64>>,
}

impl FoundBlocks {
    /// Builds an index of the blocks found. A gap is listed as a block whose CRC never matches. `largest`: the table's
    /// last key, if known. If a table's last blocks may be missing, it ends with a gap, even if no byte of them is
    /// left: otherwise another gap would have to account for their records.
    fn of(blocks: &[FoundBlock], end: DataEnd, largest: &[u8], order: &Order) -> Result<FoundBlocks> {
        // Skip the writer's length check: the maximum key length within a gap is unknown.
        let mut index = IndexAssembler::new(IndexRange::whole(), order, (blocks.len(), 0));
        let mut gaps = Vec::new();
        let mut at = HEADER_BYTES as u64;
        let longest = blocks.iter().map(|block| block.handle.raw_len).max().unwrap_or(0);
        let mut gap = |index: &mut IndexAssembler<'_>, from: u64, to: u64, separator: &[u8]| {
            let stored_len = (to - from).saturating_sub(TRAILER_BYTES as u64).min(u32::MAX.into()) as u32;
            // The gap is most likely one block; its uncompressed length is unknown.
            let raw_len = stored_len.max(longest.saturating_mul(2).min(stored_len.saturating_mul(255)));
            gaps.push(from..to);
            index.add(separator, BlockHandle { offset: from, stored_len, raw_len, crc: LOST })
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
        Ok(FoundBlocks { index: index.finish()?, gaps })
    }
}

/// Joins the partitions of an index into one. Errors: a partition is damaged, or the device cannot read it.
fn joined(from: &PartitionReader<'_>, top: &TopIndex) -> Result<Index> {
    let mut all = IndexAssembler::new(IndexRange::whole(), from.order, (top.blocks(), 0));
    for span in top.spans() {
        let index = from.read(span).0?;
        for (number, handle) in (span.range.first..).zip(index.handles()) {
            all.add(&index.separator(number), *handle)?;
        }
    }
    all.finish()
}
