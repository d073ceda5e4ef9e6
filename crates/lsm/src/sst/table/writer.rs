//! The writer: turns records in internal order into a table file.
//!
//! Path:  records -> block body -> compression, CRC -> verifying pass over the same bytes -> large writes -> filter,
//!        properties, index, footer. The filter and index of a large table are partitioned (`partition_builder`),
//!        and its header is rewritten.
//! Holds: a record and its companions are never separated (I07). The CRC of a block is computed first; then its records
//!        are checked in the bytes that the CRC covers, decompressed again if necessary. Damage before the CRC is found
//!        by this check, damage after it by the CRC. The ledger (I11), the filter's hashes and the promised protection
//!        are computed in that pass, never from the input; a key is hashed once. The order of records is verified in
//!        that pass and nowhere earlier.
//! Crash: an unfinished file has no footer. No manifest names it, and it is deleted at open as an obsolete file (I04,
//!        I06). The writer never syncs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::footer::{TableFooter, digest};
use super::properties::{CompanionSummary, Properties};
use crate::checksum::{Role, Uid, hash_key};
use crate::env::File;
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::expiry::Expiries;
use crate::header::{CUT_INDEX, FileHeader, FileKind, HEADER_BYTES};
use crate::ledger::{Ledger, LedgerEntry};
use crate::options::{CfOptions, Compression, KIB, PART_BLOCKS};
use crate::order::Order;
use crate::planted;
use crate::pointer::{Pointer, value_bytes};
use crate::policy::FilterPolicy;
use crate::prefix_extractor::{PrefixExtractor, prefix_hash};
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, MAX_VALUE_BYTES, Record, Seqno, companion};
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::{Dictionary, Packer};
use crate::sst::block::entry::BlockBuilder;
use crate::sst::block::frame::{BlockHandle, StoredBlock, put_block, put_packed, word_of};
use crate::sst::block::scan::{KeyBuffer, scan_entries};
use crate::sst::index::filter::KeyHashes;
use crate::sst::index::index::IndexBuilder;
use crate::sst::index::partition_builder::{PartitionBuilder, PartitionEnd, PartitionRanges};
use crate::sst::index::policy_filter::PolicyFilterBuilder;
use crate::sst::index::top_index::{self, PartitionEntry};
use crate::sst::index::{filter, policy_filter};
use crate::table_property::{PropertyCollectors, TableProperty};

/// Finished blocks are buffered up to this many bytes, then written at once.
const WRITE_BYTES: usize = 512 * KIB;

/// The creator in the properties.
const CREATOR: &str = concat!("waxseal ", env!("CARGO_PKG_VERSION"));

/// Settings of a table writer.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// The order of keys.
    pub order: Order,
    /// The family's id.
    pub family: u32,
    /// Target size of a block before compression, in bytes. A larger record gets a block of its own.
    pub block_bytes: usize,
    /// Number of records between restart points, 1 to 255.
    pub restart_interval: usize,
    /// Filter bits per key; 0: no filter.
    pub filter_bits: usize,
    /// The prefixes that the engine's own filter knows besides whole keys.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// Builds the filter instead of the engine's own.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
    /// Compression of data blocks.
    pub compression: Compression,
    /// Base of the stored seqnos: not above any seqno of the table except 0.
    pub base_seqno: Seqno,
    /// Stores 8-byte companions as one uncompressed column per block, if every record of the block has exactly one.
    pub seal_column: bool,
    /// The time, in microseconds since 1970.
    pub created_micros: u64,
    /// The store that the table is written for; none: no store's.
    pub store: Option<Uid>,
    /// The properties to collect.
    pub properties: Vec<TableProperty>,
}

impl WriterSettings {
    /// Returns the settings of a family's table, without a creation time and a store.
    pub fn of(options: &CfOptions, family: u32, base_seqno: Seqno) -> WriterSettings {
        WriterSettings {
            order: options.order.clone(),
            family,
            block_bytes: options.block_bytes,
            restart_interval: options.restart_interval,
            filter_bits: options.filter_bits,
            prefix_extractor: options.prefix_extractor,
            filter_policy: options.filter_policy.clone(),
            compression: options.compression,
            base_seqno,
            seal_column: options.seals.is_column(options.compression),
            created_micros: 0,
            store: None,
            properties: options.table_properties.clone(),
        }
    }
}

/// A finished table, not yet synced or named in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Length of the file.
    pub size: u64,
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
    /// Least seqno.
    pub least_seqno: Seqno,
    /// Greatest seqno.
    pub greatest_seqno: Seqno,
    /// The digest, which the manifest stores too.
    pub digest: u64,
    /// Counts and sums of the records in the finished blocks.
    pub ledger: Ledger,
    /// Blob files referenced from the finished blocks: number of pointers, and total bytes of the referenced entries.
    pub values: BTreeMap<Uid, (u64, u64)>,
    /// Expiry times of records in the finished blocks; `None` if no record expires.
    pub expiry: Option<Expiries>,
}

/// Writes one table. Unusable after an error.
pub struct Writer {
    file: Arc<dyn File>,
    uid: Uid,
    settings: WriterSettings,
    packer: Packer,
    protector: Arc<dyn Companions>,
    creator: &'static str,
    /// Description of its companions; `is_strange` if this protector cannot check them.
    carried: CompanionSummary,
    is_strange: bool,
    /// Promised protection of the current block's records, run-length encoded.
    promises: Vec<(Protection, u32)>,
    /// Number of bytes already written to the file; `out` follows them.
    written: u64,
    out: Vec<u8>,
    block: BlockBuilder,
    /// Companions of the current block, if each is one word and a column is wanted.
    column: Option<Vec<u8>>,
    index: IndexBuilder,
    /// Possible partition ends of index and filter.
    cutter: PartitionBuilder,
    /// The previous block, whose separator is determined by the next key.
    pending: Option<BlockHandle>,
    crcs: Vec<u32>,
    /// The records that were added.
    added: Ledger,
    seen: AddedRecords,
    checked: VerifyingPass,
}

/// Facts about the added records.
#[derive(Debug, Default)]
struct AddedRecords {
    smallest: Vec<u8>,
    least_seqno: Seqno,
    greatest_seqno: Seqno,
    key_bytes: u64,
    value_bytes: u64,
}

/// The verifying pass: its results and its buffers.
struct VerifyingPass {
    ledger: Ledger,
    /// Hashes of the distinct keys, if needed for a filter.
    hashes: Option<KeyHashes>,
    /// The last prefix hashed for the current partition; empty if there is none.
    last_prefix: Vec<u8>,
    /// The keys, for a filter policy.
    policy_filter: Option<PolicyFilterBuilder>,
    collectors: PropertyCollectors,
    with_companion: u64,
    /// Number of records whose companion is more than one word.
    more_than_a_word: u64,
    validated: u64,
    adopted: u64,
    /// Per blob file: number of pointers, bytes of the entries.
    values: BTreeMap<Uid, (u64, u64)>,
    expiry: Option<Expiries>,
    /// Number of records whose key has a newer version directly before them.
    versions: u64,
    /// First key and seqno bounds of the blocks so far, as read back.
    first_key: Vec<u8>,
    least_seqno: Seqno,
    greatest_seqno: Seqno,
    /// The last record of the blocks so far.
    last_key: Vec<u8>,
    last_seqno: Seqno,
    keys: KeyBuffer,
    scratch: Vec<u8>,
}

impl Writer {
    /// Creates a writer to an empty file.
    pub fn new(file: Arc<dyn File>, uid: Uid, settings: WriterSettings, protector: Arc<dyn Companions>) -> Writer {
        let mut out = Vec::with_capacity(WRITE_BYTES + 2 * settings.block_bytes);
        let packer = Packer::new(settings.compression);
        out.extend_from_slice(&FileHeader::packed(FileKind::Table, uid, packer.uses_zstd()).encode());
        let policy_filter = settings.filter_policy.clone().map(PolicyFilterBuilder::new);
        let hashes = policy_filter.is_none() && settings.filter_bits > 0 && settings.order.is_hashable();
        let hashes = hashes.then(KeyHashes::default);
        Writer {
            file,
            uid,
            carried: CompanionSummary::of_protector(&*protector),
            is_strange: false,
            promises: Vec::new(),
            protector,
            packer,
            creator: CREATOR,
            written: 0,
            out,
            block: BlockBuilder::new(settings.restart_interval, settings.base_seqno),
            column: settings.seal_column.then(Vec::new),
            index: IndexBuilder::new(),
            cutter: PartitionBuilder::new(PART_BLOCKS),
            pending: None,
            crcs: Vec::new(),
            added: Ledger::default(),
            seen: AddedRecords::default(),
            checked: VerifyingPass {
                ledger: Ledger::default(),
                hashes,
                last_prefix: Vec::new(),
                policy_filter,
                collectors: PropertyCollectors::begin(&settings.properties),
                with_companion: 0,
                more_than_a_word: 0,
                validated: 0,
                adopted: 0,
                values: BTreeMap::new(),
                expiry: None,
                versions: 0,
                first_key: Vec::new(),
                least_seqno: MAX_SEQNO,
                greatest_seqno: 0,
                last_key: Vec::new(),
                last_seqno: MAX_SEQNO,
                keys: KeyBuffer::default(),
                scratch: Vec::new(),
            },
            settings,
        }
    }

    /// Sets another creator, so that golden files do not change with every version.
    #[must_use]
    pub fn created_by(mut self, creator: &'static str) -> Writer {
        self.creator = creator;
        self
    }

    /// Sets the description of companions that are copied, not made by the protector.
    #[must_use]
    pub fn carrying(mut self, carried: CompanionSummary) -> Writer {
        self.is_strange = carried.is_strange_to(&*self.protector);
        self.carried = carried;
        self
    }

    /// Compresses blocks with this dictionary, and stores it in the table. Call before the first record; zstd only.
    #[must_use]
    pub fn packing_with(mut self, dictionary: Option<Arc<Dictionary>>) -> Writer {
        self.packer = self.packer.with(dictionary);
        self
    }

    /// Partitions index and filter into ranges of `part_blocks` blocks, if there are more than twice as many. Call
    /// before the first record.
    #[must_use]
    pub fn cut_into(mut self, part_blocks: usize) -> Writer {
        self.cutter = PartitionBuilder::new(part_blocks);
        self
    }

    /// Adds a record, which must follow the previous one in internal order. The end of the block verifies that.
    pub fn add(&mut self, record: &Record<'_>) -> Result<()> {
        self.add_promised(record, Protection::Partial)
    }

    /// As `add`, with the protection that the record must have in the finished block.
    pub fn add_promised(&mut self, record: &Record<'_>, promise: Protection) -> Result<()> {
        self.check(record)?;
        let seal = if word_of(record.companion).is_some() { record.companion.len() } else { 0 };
        let grown = self.block.bytes_beside_seals() + BlockBuilder::grows_by(record) - seal;
        if self.block.count() > 0 && grown > self.settings.block_bytes {
            self.end_block()?;
        }
        if let Some(handle) = self.pending.take() {
            let separator = separator(&self.settings.order, &self.checked.last_key, record.key);
            self.index.add(&separator, &handle);
            let order = &self.settings.order;
            if self.cutter.is_due(&self.index) && order.compare(&self.checked.last_key, record.key) == Ordering::Less {
                let end = self.end_here(separator);
                self.cutter.end(end);
                self.checked.last_prefix.clear();
            }
        }
        if self.records() == 0 {
            self.seen.smallest = record.key.to_vec();
        }
        self.note(record);
        let promise = if self.is_strange { Protection::Foreign } else { promise };
        match self.promises.last_mut() {
            Some((same, records)) if *same == promise => *records += 1,
            _ => self.promises.push((promise, 1)),
        }
        self.put(record)
    }

    /// Ends the block if these records, which belong together, fit into one block but not into the rest of this one.
    pub fn keep_together<'a>(&mut self, records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        let bytes: usize = records.map(|record| BlockBuilder::grows_by(&record)).sum();
        let block = self.settings.block_bytes;
        let split = self.block.count() > 0 && bytes <= block && self.block.bytes() + bytes > block;
        if split { self.end_block() } else { Ok(()) }
    }

    /// Length of the file so far, including buffered bytes.
    pub fn file_bytes(&self) -> u64 {
        self.offset() + self.block.bytes() as u64 + self.column.as_ref().map_or(0, |column| column.len() as u64)
    }

    /// Number of records so far.
    pub fn records(&self) -> u64 {
        self.added.count()
    }

    /// Ends the last block and writes filter, properties, index and footer. Does not sync.
    pub fn finish(mut self) -> Result<Finished> {
        if self.records() == 0 {
            return Err(Error::invalid("a table without records"));
        }
        self.end_block()?;
        if let Some(handle) = self.pending.take() {
            // Use the largest key itself: a shorter separator above it shares no prefix and enlarges the index.
            self.index.add(&self.checked.last_key, &handle);
        }
        self.check_counts()?;
        let last = self.end_here(self.checked.last_key.clone());
        let side = match self.packer.dictionary().cloned() {
            Some(dictionary) => self.put_side(dictionary.to_bring(), Role::Side)?,
            None => BlockHandle::default(),
        };
        let data_blocks = self.index.count() as usize;
        let spans = self.put_parts(last)?;
        let filter = self.put_filter()?;
        let has_filter = !filter.is_absent() || spans.iter().any(|span| !span.filter.is_absent());
        let properties = self.properties(has_filter).encode();
        let properties = self.put_side(&properties, Role::Properties)?;
        let index = std::mem::replace(&mut self.index, IndexBuilder::new());
        let (index, digest) = match spans.is_empty() {
            true => (self.put_side(&index.finish(), Role::Index)?, digest(self.crcs.iter().copied())),
            false => {
                let top = self.put_side(&top_index::encode(&spans), Role::Top)?;
                self.record_cut()?;
                let sums = spans.iter().map(|span| span.sum);
                (top, top_index::digest(sums, self.crcs[data_blocks..].iter().copied()))
            }
        };
        let footer = TableFooter {
            index,
            filter,
            properties,
            side,
            base_seqno: self.settings.base_seqno,
            digest,
            ..TableFooter::default()
        };
        self.out.extend_from_slice(&footer.encode(&self.uid));
        self.write_out()?;
        Ok(Finished {
            size: self.written,
            smallest: self.checked.first_key,
            largest: self.checked.last_key,
            least_seqno: self.checked.least_seqno,
            greatest_seqno: self.checked.greatest_seqno,
            digest,
            ledger: self.checked.ledger,
            values: self.checked.values,
            expiry: self.checked.expiry,
        })
    }

    /// Rejects a record that exceeds the limits of a table.
    #[inline]
    fn check(&self, record: &Record<'_>) -> Result<()> {
        let within = record.key.len() <= MAX_KEY_BYTES
            && record.value.len() <= MAX_VALUE_BYTES
            && record.companion.len() <= companion::MAX_BYTES;
        if !within {
            return Err(Error::invalid("a record beyond the limits reaches a table"));
        }
        if record.seqno > MAX_SEQNO || (record.seqno != 0 && record.seqno < self.settings.base_seqno) {
            return Err(internal("a seqno outside of its table's reaches a table"));
        }
        Ok(())
    }

    fn note(&mut self, record: &Record<'_>) {
        let (first, seen) = (self.records() == 0, &mut self.seen);
        seen.least_seqno = if first { record.seqno } else { seen.least_seqno.min(record.seqno) };
        seen.greatest_seqno = seen.greatest_seqno.max(record.seqno);
        seen.key_bytes += record.key.len() as u64;
        seen.value_bytes += value_bytes(record);
        self.added.add(record.kind, 0);
    }

    /// Adds a record to the block, and its companion to the column or after it.
    fn put(&mut self, record: &Record<'_>) -> Result<()> {
        match (&mut self.column, word_of(record.companion)) {
            (Some(column), Some(word)) => {
                column.extend_from_slice(word);
                self.block.add(record, &[]);
            }
            (Some(_), None) => {
                self.leave_column()?;
                self.block.add(record, record.companion);
            }
            (None, _) => self.block.add(record, record.companion),
        }
        Ok(())
    }

    /// Handles a record without exactly one word: rewrites the current block with inline companions.
    fn leave_column(&mut self) -> Result<()> {
        let column = self.column.take().unwrap_or_default();
        if self.block.count() == 0 {
            return Ok(());
        }
        let WriterSettings { restart_interval, base_seqno, ref order, .. } = self.settings;
        let mut inline = BlockBuilder::new(restart_interval, base_seqno);
        scan_entries(self.block.finish(), Some(&column), base_seqno, order, &mut self.checked.keys, |_, record| {
            inline.add(record, record.companion);
            Ok(())
        })?;
        self.block = inline;
        Ok(())
    }

    fn offset(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    /// Frames the block, computes its CRC, then checks every record in the bytes that the CRC covers.
    pub(in crate::sst) fn end_block(&mut self) -> Result<()> {
        let (at, start) = (self.offset(), self.out.len());
        let body = self.block.finish();
        let seed = (&self.uid, Role::Data);
        let handle = put_packed(&mut self.out, body, self.column.as_deref(), &mut self.packer, seed, at)?;
        crate::inject::framed(&mut self.out[start..]);
        let packed_with = (&self.settings, self.packer.dictionary().map(|dictionary| &**dictionary));
        self.checked.pass(&self.out[start..], &handle, packed_with, &*self.protector, &self.promises)?;
        self.promises.clear();
        self.crcs.push(handle.crc);
        self.pending = Some(handle);
        self.block.clear();
        match &mut self.column {
            Some(column) => column.clear(),
            None => self.column = self.settings.seal_column.then(Vec::new),
        }
        if self.out.len() >= WRITE_BYTES { self.write_out() } else { Ok(()) }
    }

    /// Returns the end of a partition after the previous block.
    fn end_here(&self, bound: Vec<u8>) -> PartitionEnd {
        let hashes = self.checked.hashes.as_ref().map_or(0, KeyHashes::len);
        PartitionEnd { mark: self.index.mark(), hashes, offset: self.offset(), bound }
    }

    /// Writes the partitions of a large table: index and filter side by side. A policy's filter is not partitioned.
    fn put_parts(&mut self, last: PartitionEnd) -> Result<Vec<PartitionEntry>> {
        let ends = self.cutter.finish(last);
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let (hashes, crcs, count) = (self.checked.hashes.take(), self.crcs.clone(), ends.len());
        let (mut ranges, mut spans) = (PartitionRanges::new(&crcs), Vec::with_capacity(count));
        for (at, end) in ends.into_iter().enumerate() {
            let (mut span, (from, to), hashed) = ranges.next(end, at + 1 == count);
            span.index = self.put_side(&self.index.part(from, to), Role::Index)?;
            if let Some(hashes) = &hashes {
                let body = filter::build(hashes.range(hashed), self.settings.filter_bits);
                span.filter = self.put_side(&body, Role::Filter)?;
            }
            spans.push(span);
        }
        Ok(spans)
    }

    /// Sets the flag for a partitioned index in the header, which was written before this was known.
    fn record_cut(&mut self) -> Result<()> {
        let header = FileHeader::packed(FileKind::Table, self.uid, self.packer.uses_zstd());
        let header = FileHeader { incompatible: header.incompatible | CUT_INDEX, ..header }.encode();
        match self.written {
            0 => self.out[..HEADER_BYTES].copy_from_slice(&header),
            _ => self.file.write_at(&header, 0).during(|| "writing a table")?,
        }
        Ok(())
    }

    fn put_filter(&mut self) -> Result<BlockHandle> {
        let own = |hashes: KeyHashes| filter::build(hashes.range(0..hashes.len()), self.settings.filter_bits);
        let body = match self.checked.policy_filter.take() {
            Some(policy_filter) => policy_filter.finish(),
            None => self.checked.hashes.take().map(own),
        };
        body.map_or(Ok(BlockHandle::default()), |body| self.put_side(&body, Role::Filter))
    }

    /// Writes a block other than a data block, without compression.
    fn put_side(&mut self, body: &[u8], role: Role) -> Result<BlockHandle> {
        let at = self.offset();
        let handle = put_block(&mut self.out, body, None, Compression::None, (&self.uid, role), at)?;
        self.crcs.push(handle.crc);
        Ok(handle)
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_at(&self.out, self.written).during(|| "writing a table")?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Invariant I11 for one table: the finished blocks hold as many records of each kind as were added, with the same
    /// bounds. The manifest takes the bounds, and a read outside of them accesses no block. They were in memory while
    /// the table was written, so two copies must agree.
    fn check_counts(&self) -> Result<()> {
        let count =
            |ledger: &Ledger| [ledger.puts, ledger.deletes, ledger.others].map(|entry: LedgerEntry| entry.count);
        if count(&self.added) != count(&self.checked.ledger) {
            return Err(internal("a table holds other records than reached it"));
        }
        let (AddedRecords { smallest, least_seqno, greatest_seqno, .. }, checked) = (&self.seen, &self.checked);
        let came_in = (smallest, *least_seqno, *greatest_seqno);
        if came_in != (&checked.first_key, checked.least_seqno, checked.greatest_seqno) {
            return Err(internal("a table has other bounds than the records that reached it"));
        }
        Ok(())
    }

    /// Returns whether the protector can check records against their companions.
    fn judges(&self) -> bool {
        !self.is_strange && self.protector.protection() != Protection::None
    }

    fn properties(&mut self, has_filter: bool) -> Properties {
        let (seen, more) = (&self.seen, self.checked.more_than_a_word);
        let is_own = has_filter && self.settings.filter_policy.is_none();
        Properties {
            family: self.settings.family,
            comparator: self.settings.order.name().to_owned(),
            filter: has_filter.then(|| match &self.settings.filter_policy {
                Some(policy) => policy_filter::name_of(&**policy),
                None => filter::NAME.to_owned(),
            }),
            ledger: self.checked.ledger,
            smallest: self.checked.first_key.clone(),
            largest: self.checked.last_key.clone(),
            least_seqno: self.checked.least_seqno,
            greatest_seqno: self.checked.greatest_seqno,
            key_bytes: seen.key_bytes,
            value_bytes: seen.value_bytes,
            data_blocks: self.index.count().into(),
            protection: self.checked.protection(self.judges(), self.carried.complete),
            // If all companions are single words, there are no annotations to describe.
            providers: if more > 0 { self.carried.descriptors.clone() } else { Vec::new() },
            seal_algorithm: if self.checked.with_companion > 0 { self.carried.algorithm } else { 0 },
            adopted: self.checked.adopted,
            created_micros: self.settings.created_micros,
            creator: self.creator.to_owned(),
            versions: Some(self.checked.versions),
            beside: (more > 0).then_some(more),
            values: self.checked.values.iter().map(|(uid, (count, bytes))| (*uid, *count, *bytes)).collect(),
            store: self.settings.store,
            prefix_extractor: if is_own { self.settings.prefix_extractor } else { None },
            collected: std::mem::take(&mut self.checked.collectors).finish(),
            ..Properties::default()
        }
    }
}

impl VerifyingPass {
    /// Performs the verifying pass over one framed block.
    fn pass(
        &mut self,
        block: &[u8],
        handle: &BlockHandle,
        (settings, dictionary): (&WriterSettings, Option<&Dictionary>),
        protector: &dyn Companions,
        promises: &[(Protection, u32)],
    ) -> Result<()> {
        let (stored, behind) = block.split_at(handle.stored_len as usize);
        let stored = StoredBlock::split(stored, behind[0])?;
        // Both are put back unless the pass fails, which makes the writer unusable.
        let (mut keys, mut scratch) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.scratch));
        let body = stored.body(handle.raw_len, &mut scratch, dictionary)?;
        let (mut promises, mut promise, mut promised) = (promises.iter().copied(), Protection::default(), 0);
        let (order, mut is_first, mut last_seqno) = (&settings.order, true, 0);
        scan_entries(body, stored.column, settings.base_seqno, order, &mut keys, |_, record| {
            if promised == 0 {
                (promise, promised) = promises.next().unwrap_or((Protection::default(), u32::MAX));
                planted!(MissingSealAccepted => promise = promise.min(Protection::Partial));
            }
            promised -= 1;
            if std::mem::take(&mut is_first) {
                self.follows(record, order)?;
            }
            last_seqno = record.seqno;
            self.see(record, promise, protector, settings)
        })?;
        self.versions += keys.repeats;
        self.last_key.clear();
        self.last_key.extend_from_slice(&keys.last);
        (self.last_seqno, self.keys, self.scratch) = (last_seqno, keys, scratch);
        Ok(())
    }

    /// Checks that the first record of a block follows the last one of the previous block.
    fn follows(&mut self, record: &Record<'_>, order: &Order) -> Result<()> {
        if self.ledger.count() == 0 {
            self.first_key.extend_from_slice(record.key);
            return Ok(());
        }
        match order.compare(&self.last_key, record.key) {
            Ordering::Less => Ok(()),
            Ordering::Equal if self.last_seqno > record.seqno => {
                self.versions += 1;
                Ok(())
            }
            _ => Err(internal("records reach a table out of order")),
        }
    }

    /// Checks and counts one record.
    #[inline]
    fn see(
        &mut self,
        record: &Record<'_>,
        promise: Protection,
        protector: &dyn Companions,
        settings: &WriterSettings,
    ) -> Result<()> {
        let key_hash = hash_key(record.key);
        let check = protector.verify(record, key_hash, promise);
        if !matches!(check, Check::Validated | Check::Unverified) {
            return Err(not_served(record, check));
        }
        // A record that cannot be checked has no ledger term.
        self.least_seqno = self.least_seqno.min(record.seqno);
        self.greatest_seqno = self.greatest_seqno.max(record.seqno);
        self.ledger.add(record.kind, if promise == Protection::Foreign { 0 } else { protector.term(record) });
        self.validated += (check == Check::Validated) as u64;
        if !record.companion.is_empty() {
            self.with_companion += 1;
            if word_of(record.companion).is_none() {
                self.more_than_a_word += 1;
                self.expiry = Expiries::with(self.expiry, protector, record, check);
            }
            self.adopted += companion::is_adopted(record.companion) as u64;
        }
        if let Some(hashes) = &mut self.hashes {
            if let Some(extractor) = &settings.prefix_extractor
                && let Some(prefix) = extractor.prefix_of(record.key)
                && prefix != self.last_prefix
            {
                hashes.add(prefix_hash(prefix));
                self.last_prefix.clear();
                self.last_prefix.extend_from_slice(prefix);
            }
            hashes.add(key_hash);
        }
        if let Some(policy_filter) = &mut self.policy_filter {
            policy_filter.add(record.key, &settings.order);
        }
        if !self.collectors.is_empty() {
            self.collectors.add_record(record);
        }
        if record.kind == Kind::BlobPointer {
            let pointer = Pointer::decode(record.value)?;
            let (count, bytes) = self.values.entry(pointer.uid).or_default();
            *count += 1;
            *bytes += pointer.entry_bytes(record.key.len());
        }
        Ok(())
    }
}

impl VerifyingPass {
    /// Returns the table's promised protection. It is complete if every record matches its companion. If no protector
    /// can check them, it is complete if every record has a companion and all inputs promised complete protection.
    fn protection(&self, judged: bool, complete: bool) -> u8 {
        let records = self.ledger.count();
        let all = if judged { self.validated == records } else { complete && self.with_companion == records };
        match (self.with_companion, all) {
            (0, _) => Protection::None as u8,
            (_, true) => Protection::Complete as u8,
            (_, false) => Protection::Partial as u8,
        }
    }
}

/// Returns a record's ledger term, after checking it against its companion.
pub(crate) fn checked_term(protector: &dyn Companions, record: &Record<'_>, source: Protection) -> Result<u64> {
    let check = protector.verify(record, hash_key(record.key), source);
    match check {
        Check::Validated | Check::Unverified => Ok(protector.term(record)),
        Check::Corrupted | Check::CompanionDamaged | Check::Missing => Err(not_served(record, check)),
    }
}

/// Returns the error for a record that does not match its companion, or lacks a promised one.
#[cold]
pub(crate) fn not_served(record: &Record<'_>, check: Check) -> Error {
    let damage = Damage {
        verdict: if check == Check::Missing { Verdict::Missing } else { Verdict::Seal },
        key_range: Some((record.key.to_vec(), record.key.to_vec())),
        ..Damage::default()
    };
    let what = match check {
        Check::Missing => "a record lacks its companion, which was promised",
        _ => "a record does not match its companion",
    };
    Error::corruption(damage, what)
}

/// Returns a key that separates two blocks: the shortest that the order can find. Falls back to the last key itself,
/// for versions of one key on both sides, or a comparator that returns an invalid separator.
fn separator(order: &Order, last: &[u8], next: &[u8]) -> Vec<u8> {
    if order.compare(last, next) == Ordering::Less {
        let separator = order.separator(last, next);
        if separator.len() <= last.len().max(next.len())
            && order.compare(last, &separator) != Ordering::Greater
            && order.compare(&separator, next) == Ordering::Less
        {
            return separator;
        }
    }
    last.to_vec()
}

/// Returns the error for a violated invariant of the engine.
fn internal(message: &str) -> Error {
    Error::corruption(Damage { verdict: Verdict::Ledger, ..Damage::default() }, message)
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("uid", &self.uid).field("records", &self.records()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::env::{Open, SimFs};
    use crate::seam::Plain;
    use crate::sst::tests::settings;

    /// A bit flip in one of these bounds would hide records from reads, or move them to a wrong range.
    #[test]
    fn a_bound_that_memory_has_lost_reaches_no_manifest() {
        type Hit = fn(&mut Writer);
        let hits: [Hit; 5] = [
            |writer| writer.seen.smallest[0] ^= 1,
            |writer| writer.checked.first_key[0] ^= 1,
            |writer| writer.seen.greatest_seqno ^= 4,
            |writer| writer.checked.greatest_seqno ^= 1 << 30,
            |writer| writer.seen.least_seqno ^= 4,
        ];
        let write = |hit: Option<Hit>| {
            let env = SimFs::new(1).env(1);
            let file = env.fs.open(Path::new("/t"), Open::Create).unwrap();
            let mut writer = Writer::new(file, Uid([7; 16]), settings(), Arc::new(Plain));
            for n in 0..500u32 {
                let (key, seqno) = (format!("key{n:04}").into_bytes(), 9 + u64::from(n));
                let record = Record { key: &key, seqno, kind: Kind::Put, value: &[1; 40], companion: &[] };
                writer.add(&record).unwrap();
            }
            hit.into_iter().for_each(|hit| hit(&mut writer));
            writer.finish()
        };
        let whole = write(None).unwrap();
        assert_eq!((whole.least_seqno, whole.greatest_seqno, whole.smallest), (9, 508, b"key0000".to_vec()));
        for hit in hits {
            assert!(write(Some(hit)).unwrap_err().is_corruption());
        }
    }
}
