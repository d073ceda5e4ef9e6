//! The metadata of a table file: header, footer, and all blocks that the footer names. This is everything except the
//! data blocks.
//!
//! In:    an open file, and its entry in the manifest.
//! Out:   the checked index, filter and properties. For a partitioned index, only its top level.
//! Costs: two reads, header and tail, for a table whose index and filter are small or partitioned; one more read per
//!        block outside of the tail. If the tail cannot be read in one piece, each block is read by itself, so that a
//!        bad page in the data does not affect the metadata.
//! Holds: every length is checked against the file's length before use (I10), and every block's CRC before its content
//!        is used.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use super::footer::{FOOTER_BYTES, TableFooter, digest, misplaced};
use super::properties::Properties;
use crate::checksum::{Role, Uid};
use crate::env::{File, read_exact};
use crate::error::{Damage, Error, ErrorKind, Result};
use crate::header::{CUT_INDEX, FileHeader, FileKind, HEADER_BYTES};
use crate::order::Order;
use crate::policy::FilterPolicy;
use crate::record::Seqno;
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{BlockHandle, StoredBlock, check_frame, read_error};
use crate::sst::index::filter::{self, BloomFilter};
use crate::sst::index::index::Index;
use crate::sst::index::partitions::{IndexPartition, PartitionedIndex, TableIndex};
use crate::sst::index::policy_filter::{self, PolicyFilter};
use crate::sst::index::top_index::{self, TopIndex};

/// Length of the tail that is read at once: footer, properties, and the index and filter of a small table.
const TAIL_BYTES: u64 = 16 * 1024;

/// The seqno of every record in a table file that is written to be ingested.
pub const WRITTEN_SEQNO: Seqno = 1;

/// The manifest's entry for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The file's uid.
    pub uid: Uid,
    /// Its length in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: u64,
    /// The common seqno of an ingested table's records; 0 for other tables.
    pub ingest_seqno: Seqno,
}

/// All of a table except its records.
pub(in crate::sst) struct TableMetadata {
    pub(in crate::sst) base: Seqno,
    pub(in crate::sst) properties: Properties,
    pub(in crate::sst) table_index: TableIndex,
    pub(in crate::sst) policy_filter: Option<PolicyFilter>,
    pub(in crate::sst) dictionary: Option<Arc<Dictionary>>,
}

impl TableMetadata {
    /// Returns true if the table has a dictionary but it cannot be read.
    pub(in crate::sst) fn lacks_dictionary(&self) -> bool {
        self.dictionary.as_ref().is_some_and(|dictionary| !dictionary.is_whole())
    }
}

/// The last bytes of a file, read at once and not yet checked.
pub(in crate::sst) struct TableTail {
    from: u64,
    bytes: Vec<u8>,
}

impl TableTail {
    /// Reads the tail. If that fails, the tail is empty.
    pub(in crate::sst) fn read(file: &dyn File, size: u64) -> TableTail {
        let from = size - size.min(TAIL_BYTES);
        if from > 0 {
            // The header is read next: let a disk fetch both in one pass.
            file.advise(0, HEADER_BYTES as u64, true);
        }
        TableTail { from, bytes: read_exact(file, from, (size - from) as usize).unwrap_or_default() }
    }

    /// Returns bytes of the file, from the tail or by a read.
    fn or_read(&self, file: &dyn File, offset: u64, length: usize) -> io::Result<Cow<'_, [u8]>> {
        let start = offset.checked_sub(self.from).and_then(|start| usize::try_from(start).ok());
        let held = start.and_then(|start| self.bytes.get(start..start.checked_add(length)?));
        held.map_or_else(|| read_exact(file, offset, length).map(Cow::Owned), |held| Ok(Cow::Borrowed(held)))
    }
}

/// Reads and checks header and footer.
pub(in crate::sst) fn read_ends(
    name: &str,
    file: &dyn File,
    size: u64,
    tail: &TableTail,
) -> Result<(FileHeader, TableFooter)> {
    let Some(footer_at) = size.checked_sub(FOOTER_BYTES as u64).filter(|at| *at >= HEADER_BYTES as u64) else {
        return Err(Error::structural("the file is too short for a table").in_file(name, 0));
    };
    let read = |offset, length| tail.or_read(file, offset, length).map_err(|error| read_error(name, offset, error));
    let header =
        FileHeader::decode(&read(0, HEADER_BYTES)?, FileKind::Table).map_err(|error| error.in_file(name, 0))?;
    let footer = TableFooter::decode(&read(footer_at, FOOTER_BYTES)?, &header.uid);
    Ok((header, footer.map_err(|error| error.in_file(name, footer_at))?))
}

/// Reads and checks the properties alone, whatever the order of the keys.
pub(in crate::sst) fn read_properties(name: &str, file: &dyn File) -> Result<Properties> {
    let size = file.len().map_err(|error| read_error(name, 0, error))?;
    let tail = TableTail::read(file, size);
    let (FileHeader { uid, .. }, footer) = read_ends(name, file, size, &tail)?;
    let blocks = MetadataReader { name, file, uid, end: size - FOOTER_BYTES as u64, tail: &tail };
    blocks.read(&footer.properties, Role::Properties, Properties::decode)
}

/// Reads and checks everything but the data blocks.
pub(in crate::sst) fn read_parts(
    name: &str,
    file: &dyn File,
    expected: Expected,
    order: &Order,
    policy: Option<&Arc<dyn FilterPolicy>>,
) -> Result<TableMetadata> {
    let size = file.len().map_err(|error| read_error(name, 0, error))?;
    if size != expected.size {
        let message = format!("the file has {size} bytes, not {}", expected.size);
        return Err(Error::corruption(Damage::default(), message).in_file(name, size.min(expected.size)));
    }
    let tail = TableTail::read(file, size);
    let (FileHeader { uid, incompatible, .. }, footer) = read_ends(name, file, size, &tail)?;
    let footer_at = size - FOOTER_BYTES as u64;
    if uid != expected.uid {
        return Err(misplaced("another file stands under this name").in_file(name, 0));
    }
    if footer.digest != expected.digest {
        return Err(misplaced("another state of the file than the manifest names").in_file(name, footer_at));
    }
    if !footer.range_deletes.is_absent() {
        return Err(Error::of(
            ErrorKind::FormatTooNew,
            format!("{name} has range deletes, which this version cannot read"),
        ));
    }
    let blocks = MetadataReader { name, file, uid, end: footer_at, tail: &tail };
    let mut properties = blocks.read(&footer.properties, Role::Properties, Properties::decode)?;
    let base = match expected.ingest_seqno {
        0 => footer.base_seqno,
        seqno => {
            let seqnos = [footer.base_seqno, properties.least_seqno, properties.greatest_seqno];
            if seqnos != [WRITTEN_SEQNO; 3] {
                return Err(Error::structural("the table was not written to be ingested").in_file(name, footer_at));
            }
            (properties.least_seqno, properties.greatest_seqno) = (seqno, seqno);
            seqno
        }
    };
    if properties.comparator != order.name() {
        let (kept, given) = (&properties.comparator, order.name());
        return Err(Error::invalid(format!("{name} is ordered by {kept:?}, the family was opened with {given:?}")));
    }
    let in_index = |what: &str| Error::structural(what).in_file(name, footer.index.offset);
    let mut policy_filter = None;
    if let (Some(kept), Some(policy)) = (properties.filter.as_deref(), policy)
        && kept == policy_filter::name_of(&**policy)
    {
        policy_filter =
            Some(blocks.read(&footer.filter, Role::Filter, |body| PolicyFilter::decode(body, policy.clone()))?);
    }
    let table_index = match incompatible & CUT_INDEX != 0 {
        false => TableIndex::Whole(blocks.read_whole(&footer, &properties, order)?),
        true => TableIndex::Partitioned(PartitionedIndex::new(blocks.read_top(&footer, order)?)),
    };
    if properties.data_blocks != table_index.blocks() as u64 {
        return Err(in_index("the index does not name the blocks that are there"));
    }
    let dictionary = match footer.side.is_absent() {
        true => None,
        false => Some(Arc::new(Dictionary::or_lost(blocks.read(&footer.side, Role::Side, Dictionary::of))?)),
    };
    let found = match &table_index {
        TableIndex::Whole(part) => {
            let sides = footer.sides().into_iter().filter(|handle| !handle.is_absent());
            digest(part.index.handles().iter().chain(sides).map(|handle| handle.crc))
        }
        TableIndex::Partitioned(cut) => digest_of_cut(&cut.top, &footer),
    };
    if found != footer.digest {
        return Err(Error::mismatch(footer.digest, found, "table digest").in_file(name, footer_at));
    }
    Ok(TableMetadata { base, properties, table_index, policy_filter, dictionary })
}

/// Computes the digest of a partitioned table.
fn digest_of_cut(top: &TopIndex, footer: &TableFooter) -> u64 {
    let parts = top.spans().iter().flat_map(|span| [&span.index, &span.filter]);
    let sides = [&footer.side].into_iter().chain(parts).chain([&footer.filter, &footer.properties, &footer.index]);
    let crcs = sides.filter(|handle| !handle.is_absent()).map(|handle| handle.crc);
    top_index::digest(top.spans().iter().map(|span| span.sum), crcs)
}

/// Reads the blocks of a file that are not data blocks.
struct MetadataReader<'a> {
    name: &'a str,
    file: &'a dyn File,
    uid: Uid,
    end: u64,
    tail: &'a TableTail,
}

impl MetadataReader<'_> {
    /// Reads index and filter of a table that is not partitioned.
    fn read_whole(&self, footer: &TableFooter, properties: &Properties, order: &Order) -> Result<IndexPartition> {
        let data_end = footer.sides().map(|handle| handle.offset).into_iter();
        let data_end = data_end.filter(|offset| *offset > 0).min().unwrap_or(self.end);
        let index = self.read(&footer.index, Role::Index, |body| Index::decode(body, order, data_end))?;
        if index.data_end() != data_end {
            let what = Error::structural("the index does not name the blocks that are there");
            return Err(what.in_file(self.name, footer.index.offset));
        }
        let mut filter = None;
        if properties.filter.as_deref() == Some(filter::NAME) {
            let own = self.read(&footer.filter, Role::Filter, BloomFilter::decode)?;
            filter = order.is_hashable().then_some(own);
        }
        Ok(IndexPartition { index, filter })
    }

    /// Reads the top level of a partitioned index. The partitions are between the data blocks and the rest.
    fn read_top(&self, footer: &TableFooter, order: &Order) -> Result<TopIndex> {
        let behind = (!footer.side.is_absent()).then(|| footer.side.end());
        let next = if footer.filter.is_absent() { footer.properties.offset } else { footer.filter.offset };
        let limit = next.min(self.end);
        let top = self.read(&footer.index, Role::Top, |body| TopIndex::decode(body, order, behind, limit))?;
        if top.parts_end() != next || !(footer.side.is_absent() || footer.side.offset == top.data_end()) {
            let what = Error::structural("the top of the index does not name the parts that are there");
            return Err(what.in_file(self.name, footer.index.offset));
        }
        Ok(top)
    }

    fn read<T>(&self, handle: &BlockHandle, role: Role, decode: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let decoded = handle.check_within(self.end).and_then(|()| {
            let block = self.tail.or_read(self.file, handle.offset, handle.bytes());
            let block = block.map_err(|error| read_error(self.name, handle.offset, error))?;
            let (stored, codec) = check_frame(&block, &self.uid, role, handle)?;
            decode(StoredBlock::split(stored, codec)?.body(handle.raw_len, &mut Vec::new(), None)?)
        });
        decoded.map_err(|error| error.in_file(self.name, handle.offset))
    }
}
