//! The reader: one open table file.
//!
//! In:    a file and its entry in the manifest.
//! Out:   point reads and cursors. Index and filter are pinned at open, or loaded partition by partition on demand
//!        (`partitions`); data blocks are read through the cache.
//! Holds: no bytes are used before their checksum is verified, and no length before it is checked against the file's
//!        (I10). A corruption error names the file and the offset of the damaged block; the rest of the table stays
//!        readable.
//!
//! Path of a point read: filter line -> group and head of the index -> slot of the block -> its heads -> one entry. A
//! cached read allocates nothing and takes no lock. It writes only the block's read mark, and that only once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::bad_blocks::BadBlocks;
use super::properties::Properties;
use super::tail::{Expected, TableMetadata, TableTail, read_ends, read_parts, read_properties};
use super::verify_read::{Checks, PointRead, RecordChecker};
use super::watch::TableListener;
use crate::checksum::{Role, hash_key};
use crate::env::{File, check_room, read_into};
use crate::error::{Error, IoContext, Result};
use crate::order::Order;
use crate::planted;
use crate::prefetch::prefetch_counters;
use crate::record::{Record, Seqno};
use crate::seam::{Companions, Protection, RecordSource};
use crate::sst::block::block::Block;
use crate::sst::block::codec::Dictionary;
use crate::sst::block::frame::{BlockHandle, check_frame, read_error};
use crate::sst::block::partial_block::{PartialAnswer, PartialBlock};
use crate::sst::cache::cache::{Cache, CacheSlots};
use crate::sst::index::filter;
use crate::sst::index::index::Index;
use crate::sst::index::partitions::{PartitionReader, TableIndex};
use crate::sst::index::policy_filter::PolicyFilter;
use crate::sst::index::top_index::PartitionEntry;

/// One open table: its index and filter in memory, and its file. Shared by all readers.
pub struct Table {
    pub(in crate::sst) name: String,
    pub(in crate::sst) file: Arc<dyn File>,
    pub(in crate::sst) slots: Arc<CacheSlots>,
    /// The order of its records, and their checks.
    pub(in crate::sst) records: RecordChecker,
    /// Index and filter.
    pub(in crate::sst) table_index: TableIndex,
    /// The filter is the engine's own, and equal keys have equal hashes.
    pub(in crate::sst) has_own_filter: bool,
    /// A filter made by a user's policy.
    pub(in crate::sst) policy_filter: Option<PolicyFilter>,
    /// The dictionary for zstd blocks.
    pub(in crate::sst) dictionary: Option<Arc<Dictionary>>,
    pub(in crate::sst) expected: Expected,
    pub(in crate::sst) base: Seqno,
    pub(in crate::sst) properties: Properties,
    /// Records can be checked: some have companions, and the protector knows their algorithm.
    pub(in crate::sst) is_checkable: bool,
    /// Index and filter read again from the file, after memory corruption in `table_index`.
    pub(in crate::sst) reread: OnceLock<TableIndex>,
    /// Bytes of index and filter partitions loaded since open.
    pub(in crate::sst) loaded_bytes: AtomicUsize,
    pub(in crate::sst) bad_blocks: BadBlocks,
    /// True once the index or the filter of a key range could not be read, and does not name or exclude all that it
    /// should.
    pub(in crate::sst) lacks_part: AtomicBool,
    pub(in crate::sst) damage: &'static dyn DamageHandler,
    /// A device error during a rebuild of the table or of an index partition.
    pub(in crate::sst) refused: OnceLock<Error>,
    pub(in crate::sst) watch: Arc<dyn TableListener>,
}

/// The protector, the receiver of notifications, and the damage handling of a table.
pub(in crate::sst) type Handlers = (Arc<dyn Companions>, Arc<dyn TableListener>, &'static dyn DamageHandler);

/// The result of a prefetch for a point read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Approach {
    /// The filter excludes the key.
    Denied,
    /// The key belongs in this block.
    At(usize),
    /// The index partition is not in memory.
    Unknown,
}

/// The result of a point read in one block.
pub(in crate::sst) enum ReadOutcome {
    Found,
    Absent,
    /// The block ends with newer versions of the key; older ones may follow in the next block.
    Further,
    /// The block contradicts itself.
    Doubtful,
}

impl ReadOutcome {
    /// Converts a corruption error in a cached block to `Doubtful`. The block was valid when it was loaded, so its
    /// memory is damaged, and the caller reads it from the file again.
    #[inline]
    pub(in crate::sst) fn in_memory(looked: Result<ReadOutcome>) -> Result<ReadOutcome> {
        match looked {
            Err(error) if error.is_corruption() => Ok(ReadOutcome::Doubtful),
            outcome => outcome,
        }
    }
}

/// Why a point read is repeated.
pub(in crate::sst) enum ReadDoubt {
    /// A search in this block contradicts its neighbors.
    Block(usize),
    /// The filter that denies the key belongs to another key range.
    Filter,
    /// The index places the key past its last block, and its checksum does not prove that.
    End,
}

/// A block for a reader.
pub(in crate::sst) enum LoadedBlock {
    /// The whole block.
    Whole(Arc<Block>),
    /// The readable part of a damaged block.
    Partial(Arc<PartialBlock>),
}

/// Handles the damage that reads of a table find. `damage` implements it and passes it to the table at open. Only cold
/// paths call it.
pub(in crate::sst) trait DamageHandler: Send + Sync {
    /// Repeats a point read.
    fn get(
        &self,
        table: &Table,
        wanted: &PointRead<'_>,
        doubt: ReadDoubt,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool>;

    /// Reads a damaged block again and repairs it, or salvages its readable part.
    fn repair_block(&self, table: &Table, number: usize) -> Result<LoadedBlock>;

    /// Rebuilds the index of a partition from the blocks of its range. Also returns whether it equals the lost one, and
    /// a device error.
    fn rebuild_index(
        &self,
        from: &PartitionReader<'_>,
        span: &PartitionEntry,
        dictionary: Option<&Dictionary>,
    ) -> Result<(Index, bool, Option<Error>)>;
}

impl Table {
    /// Creates a table from its metadata.
    pub(in crate::sst) fn assembled(
        name: String,
        file: Arc<dyn File>,
        (expected, order): (Expected, Order),
        cache: Arc<Cache>,
        (protector, watch, damage): Handlers,
        parts: TableMetadata,
    ) -> Arc<Table> {
        let TableMetadata { base, properties, table_index, policy_filter, dictionary } = parts;
        let slots = Arc::new(CacheSlots::new(table_index.blocks(), cache));
        let protection = promised(&properties, &*protector);
        let is_checkable = protector.protection() != Protection::None
            && matches!(protection, Protection::Partial | Protection::Complete);
        let has_own_filter = properties.filter.as_deref() == Some(filter::NAME) && order.is_hashable();
        let table = Table {
            name,
            file,
            slots,
            records: RecordChecker { order, protector, protection },
            table_index,
            has_own_filter,
            policy_filter,
            dictionary,
            expected,
            base,
            properties,
            is_checkable,
            reread: OnceLock::new(),
            loaded_bytes: AtomicUsize::new(0),
            bad_blocks: BadBlocks::default(),
            lacks_part: AtomicBool::new(false),
            damage,
            refused: OnceLock::new(),
            watch,
        };
        table.slots.pin(table.pinned_bytes());
        Arc::new(table)
    }

    /// Opens the same table again, and applies `change` to its index and filter.
    pub(in crate::sst) fn opened_anew(&self, change: impl FnOnce(&mut TableIndex) -> Result<()>) -> Result<Arc<Table>> {
        let mut parts = self.read_parts()?;
        change(&mut parts.table_index)?;
        let (name, file, expected) = (self.name.clone(), self.file.clone(), self.expected);
        let handlers = (self.records.protector.clone(), self.watch.clone(), self.damage);
        Ok(Table::assembled(name, file, (expected, self.records.order.clone()), self.slots.cache(), handlers, parts))
    }

    /// Returns a device error during a rebuild of the table or of an index partition. Blocks that were not found then
    /// may still exist.
    pub fn refused(&self) -> Option<&Error> {
        self.refused.get()
    }

    /// Frees its blocks in the cache. Blocks held by readers stay valid.
    pub(crate) fn release_blocks(&self) {
        self.slots.empty();
    }

    /// Forgets the bad blocks met so far, so that the next reads examine them anew. For a caller that found the whole
    /// file intact: the device answers again, or the bytes were put back. Returns true if a part of its index, a filter
    /// or its dictionary is missing in memory, so that it should be opened again.
    pub fn forget_damage(&self) -> bool {
        self.bad_blocks.clear();
        let lacks_dictionary = self.dictionary.as_ref().is_some_and(|dictionary| !dictionary.is_whole());
        lacks_dictionary || self.lacks_part.load(Relaxed)
    }

    /// Returns the protector that checks this table's records.
    pub fn protector(&self) -> &Arc<dyn Companions> {
        &self.records.protector
    }

    /// Returns the table's promised protection, as far as its protector can check it.
    pub fn protection(&self) -> Protection {
        self.records.protection
    }

    /// Returns the location of a block's records.
    pub(in crate::sst) fn source(&self, block: usize) -> RecordSource<'_> {
        RecordSource { protection: self.records.protection, file: &self.name, offset: self.offset_of(block) }
    }

    /// Reads a file's identity from its own header and footer, for callers without a manifest (salvage, tools). Both
    /// are checked.
    pub fn identify(name: &str, file: &dyn File) -> Result<Expected> {
        let size = file.len().map_err(|error| read_error(name, 0, error))?;
        let (header, footer) = read_ends(name, file, size, &TableTail::read(file, size))?;
        Ok(Expected { uid: header.uid, size, digest: footer.digest, ingest_seqno: 0 })
    }

    /// Returns the properties of a table file whose comparator is still unknown.
    pub fn properties_of(name: &str, file: &dyn File) -> Result<Properties> {
        read_properties(name, file)
    }

    /// The newest version of `key` not above `seqno`, handed to `visit`, at most once; false if there is none here.
    /// `key_hash` is `checksum::hash_key(key)`.
    ///
    /// A record that must be checked and fails is read again from the file, corrected, or salvaged from its block.
    /// Errors: `Corruption` if a record that would decide the result is lost.
    #[inline]
    pub fn get(
        &self,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let part = self.partition_for(key)?;
        if !part.may_contain(key_hash) {
            return match checks.each
                && self.is_checkable
                && !part.index.is_whole()
                && !part.index.holds(key, &self.records.order)
            {
                false => Ok(false),
                true => {
                    let wanted = self.wanted(&part.index, (key, key_hash), seqno, checks);
                    self.get_again(&wanted, ReadDoubt::Filter, visit)
                }
            };
        }
        let number = part.index.find(key, &self.records.order);
        self.get_in(&part.index, number, (key, key_hash), seqno, checks, visit)
    }

    /// As `get`, starting at the block that `prefetch_slot` returned for this key.
    #[inline]
    pub fn get_from(
        &self,
        number: usize,
        key: (&[u8], u64),
        seqno: Seqno,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let part = match number < self.blocks() {
            true => self.partition_of(number)?,
            false => self.partition_for(key.0)?,
        };
        self.get_in(&part.index, number, key, seqno, checks, visit)
    }

    #[inline]
    pub(in crate::sst) fn wanted<'a>(
        &self,
        index: &'a Index,
        (key, key_hash): (&'a [u8], u64),
        seqno: Seqno,
        checks: Checks,
    ) -> PointRead<'a> {
        PointRead { key, key_hash, seqno, each: checks.each && self.is_checkable, index, follows: false }
    }

    /// As `get_from`, with the index that names the block.
    #[inline(always)]
    fn get_in(
        &self,
        index: &Index,
        mut number: usize,
        key: (&[u8], u64),
        seqno: Seqno,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        if self.is_denied(key.0) {
            return Ok(false);
        }
        let mut wanted = self.wanted(index, key, seqno, checks);
        // No key is in two partitions: the search ends with the last block of this one.
        while number < index.end() {
            let cached = self.slots.slot(number).load();
            let outcome = match &*cached {
                Some(block) => {
                    block.touch();
                    planted!(CachedBlockNotVerified => wanted.each = false);
                    ReadOutcome::in_memory(self.search_block(block, number, &wanted, visit))
                }
                None => {
                    drop(cached);
                    self.read_and_search(number, &wanted, checks, visit)
                }
            };
            match outcome {
                Ok(ReadOutcome::Found) => return Ok(true),
                Ok(ReadOutcome::Absent) => return Ok(false),
                Ok(ReadOutcome::Further) => number += 1,
                Ok(_) if planted!(OlderVersionServedForDamaged, true, false) => return Ok(false),
                Ok(ReadOutcome::Doubtful) => return self.get_again(&wanted, ReadDoubt::Block(number), visit),
                // A file error: everything possible was tried.
                Err(error) => return Err(self.named(error, number)),
            }
            wanted.follows = true;
        }
        if wanted.each && !wanted.follows {
            return self.get_again(&wanted, ReadDoubt::End, visit);
        }
        Ok(false)
    }

    /// As `get`, but reads nothing from the file. Returns `None`, without calling `visit`, if a block or its index
    /// partition is not in memory, or if a contradiction needs a repair.
    pub fn get_resident(
        &self,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Option<bool> {
        let part = self.table_index.partition_in_memory_for(key, &self.records.order)?;
        let (index, each) = (&part.index, checks.each && self.is_checkable);
        if !part.may_contain(key_hash) {
            return (!each || index.is_whole() || index.holds(key, &self.records.order)).then_some(false);
        }
        let mut wanted = PointRead { key, key_hash, seqno, each, index, follows: false };
        let mut number = index.find(key, &self.records.order);
        while number < index.end() {
            let cached = self.slots.slot(number).load();
            let block = cached.as_ref()?;
            block.touch();
            match self.search_block(block, number, &wanted, visit) {
                Ok(ReadOutcome::Found) => return Some(true),
                Ok(ReadOutcome::Absent) => return Some(false),
                Ok(ReadOutcome::Further) => number += 1,
                Ok(ReadOutcome::Doubtful) | Err(_) => return None,
            }
            wanted.follows = true;
        }
        // A damaged index may place the key past the last block; `get` reads the index again to find out.
        (!wanted.each || wanted.follows).then_some(false)
    }

    /// Repeats a point read that a block, the filter or the index made doubtful.
    #[cold]
    #[inline(never)]
    pub(in crate::sst) fn get_again(
        &self,
        wanted: &PointRead<'_>,
        doubt: ReadDoubt,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        let PointRead { key, index, .. } = *wanted;
        if matches!(doubt, ReadDoubt::End) && index.proves(index.end(), key, false, &self.records.order) {
            return Ok(false);
        }
        self.watch.doubted();
        self.damage.get(self, wanted, doubt, visit)
    }

    /// Returns false if no version of a key with this hash is in the table. A partitioned filter cannot be queried
    /// without the key.
    #[inline]
    pub fn may_contain(&self, key_hash: u64) -> bool {
        match &self.table_index {
            TableIndex::Whole(part) => part.may_contain(key_hash),
            TableIndex::Partitioned(_) => true,
        }
    }

    /// Returns true if the policy's filter excludes this key.
    #[inline]
    pub(in crate::sst) fn is_denied(&self, key: &[u8]) -> bool {
        self.policy_filter.as_ref().is_some_and(|policy_filter| !policy_filter.may_contain(key, &self.records.order))
    }

    /// Prefetches the filter line of a key.
    #[inline]
    pub fn prefetch_filter(&self, key: &[u8], key_hash: u64) {
        if let Some(part) = self.table_index.partition_in_memory_for(key, &self.records.order)
            && let Some(filter) = &part.filter
        {
            filter.prefetch(key_hash);
        }
    }

    /// Finds the block of a key, and prefetches its slot.
    #[inline]
    pub fn prefetch_slot(&self, key: &[u8], key_hash: u64) -> Approach {
        let Some(part) = self.table_index.partition_in_memory_for(key, &self.records.order) else {
            return Approach::Unknown;
        };
        if !part.may_contain(key_hash) && (part.index.is_whole() || part.index.holds(key, &self.records.order)) {
            return Approach::Denied;
        }
        let number = part.index.find(key, &self.records.order);
        self.slots.prefetch(number);
        Approach::At(number)
    }

    /// Prefetches the lines that a search reads first, if the block is in the cache. Otherwise advises the operating
    /// system to read the block, so that it reads the blocks of several keys in parallel.
    #[inline]
    pub fn prefetch_block(&self, number: usize) {
        if !self.prefetch_cached(number)
            && let Some(part) = self.table_index.partition_in_memory(number)
            && let Some(handle) = part.index.handle(number)
        {
            self.file.advise(handle.offset, handle.bytes() as u64, true);
        }
    }

    /// Prefetches the lines that a search reads first. Returns false if the block is not in the cache.
    #[inline]
    pub(in crate::sst) fn prefetch_cached(&self, number: usize) -> bool {
        if number < self.slots.count()
            && let Some(block) = &*self.slots.slot(number).load()
        {
            block.prefetch();
            prefetch_counters(block);
            return true;
        }
        false
    }

    /// Prefetches the first entries of a walk through a block, if it is in the cache.
    pub(in crate::sst) fn prefetch_entries(&self, number: usize, forward: bool) {
        if number < self.slots.count()
            && let Some(block) = &*self.slots.slot(number).load()
        {
            let last = block.len() - 1;
            if forward { block.prefetch_up(0, last) } else { block.prefetch_down(last + 1, 0) }
        }
    }

    pub(in crate::sst) fn read_parts(&self) -> Result<TableMetadata> {
        let policy = self.policy_filter.as_ref().map(PolicyFilter::policy);
        read_parts(&self.name, &*self.file, self.expected, &self.records.order, policy)
    }

    /// Returns the approximate number of file bytes before a key.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        let Ok(part) = self.partition_for(key) else { return self.table_index.data_end() };
        let number = part.index.find(key, &self.records.order);
        part.index.handle(number).map_or(part.index.data_end(), |handle| handle.offset)
    }

    /// Returns the separator of a data block: at least its last key, at most the first key of the next block. For
    /// splitting work: if the index is partitioned, returns the bound of the block's partition, which is known without
    /// a read.
    pub fn separator(&self, block: usize) -> Option<Vec<u8>> {
        if block >= self.blocks() {
            return None;
        }
        match &self.table_index {
            TableIndex::Whole(part) => Some(part.index.separator(block)),
            TableIndex::Partitioned(cut) => cut.top.range_of(block).map(|at| cut.top.spans()[at].bound.clone()),
        }
    }

    /// Number of data blocks.
    #[inline]
    pub fn blocks(&self) -> usize {
        self.slots.count()
    }

    /// End of the data blocks.
    pub(in crate::sst) fn data_end(&self) -> u64 {
        self.table_index.data_end()
    }

    /// Returns the table's properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the manifest's entry.
    pub fn expected(&self) -> &Expected {
        &self.expected
    }

    /// Returns the dictionary of its blocks, unless it is missing or unreadable.
    pub fn dictionary(&self) -> Option<Arc<Dictionary>> {
        self.dictionary.clone().filter(|dictionary| dictionary.is_whole())
    }

    /// Returns the name used in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file, for backups.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Size of index, filter and slots, which stay in memory while the table is open. They are outside of the cache.
    /// Partitions of a partitioned index are added on demand (`TableListener::grew`).
    pub fn pinned_bytes(&self) -> usize {
        self.table_index.memory()
            + self.slots.memory()
            + self.policy_filter.as_ref().map_or(0, PolicyFilter::memory)
            + self.dictionary.as_ref().map_or(0, |dictionary| dictionary.memory())
    }

    #[inline]
    pub(in crate::sst) fn search_block(
        &self,
        block: &Block,
        number: usize,
        wanted: &PointRead<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        let place = block.search(wanted.key, wanted.seqno, &self.records.order)?;
        let Some(entry) = place.equal else {
            return self.missed(block, (number, place.at), wanted);
        };
        let mut stored = Vec::new();
        let (key, key_hash) = match self.records.order.is_hashable() {
            true => (wanted.key, wanted.key_hash),
            // Keys that compare equal may differ in their bytes: return the stored key.
            false => {
                block.key_into(place.at, &mut stored)?;
                (&stored[..], if wanted.each { hash_key(&stored) } else { 0 })
            }
        };
        let record = block.record(place.at, &entry, key);
        if wanted.each && !self.records.verify_hit(block, (number, place.at), (&record, key_hash), wanted) {
            return Ok(ReadOutcome::Doubtful);
        }
        visit(&record);
        Ok(ReadOutcome::Found)
    }

    /// Handles a search that did not find the key in a block.
    #[inline]
    fn missed(&self, block: &Block, (number, at): (usize, usize), wanted: &PointRead<'_>) -> Result<ReadOutcome> {
        if at == block.len() && block.ends_with(wanted.key, &self.records.order)? {
            return Ok(if !wanted.each || self.records.verify_continuation(block, wanted) {
                ReadOutcome::Further
            } else {
                ReadOutcome::Doubtful
            });
        }
        let believed =
            planted!(AbsenceNotProved, true, !wanted.each || self.records.verify_absence(block, (number, at), wanted));
        Ok(if believed { ReadOutcome::Absent } else { ReadOutcome::Doubtful })
    }

    /// Performs a point read in a block that is not in memory.
    #[inline(never)]
    pub(in crate::sst) fn read_and_search(
        &self,
        number: usize,
        wanted: &PointRead<'_>,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        let passing = checks.passing || !(checks.again || self.admits(number));
        if passing && wanted.each && !checks.loaded {
            return self.read_uncached(number, wanted, visit);
        }
        let fetched = self.fetch(number, Checks { passing, ..checks })?;
        self.search_loaded(fetched, number, wanted, visit)
    }

    /// Performs a point read in a block that was just loaded, and releases it afterwards.
    pub(in crate::sst) fn search_loaded(
        &self,
        fetched: LoadedBlock,
        number: usize,
        wanted: &PointRead<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        match fetched {
            LoadedBlock::Whole(block) => {
                let outcome = ReadOutcome::in_memory(self.search_block(&block, number, wanted, visit));
                self.slots.passed(block);
                outcome
            }
            LoadedBlock::Partial(partial) => self.search_partial(&partial, wanted, visit),
        }
    }

    /// Answers a point read from the readable part of a block.
    pub(in crate::sst) fn search_partial(
        &self,
        partial: &PartialBlock,
        wanted: &PointRead<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<ReadOutcome> {
        Ok(match partial.get(&self.records.order, wanted.key, wanted.seqno) {
            PartialAnswer::Found(kept) => {
                visit(&kept.record());
                ReadOutcome::Found
            }
            PartialAnswer::Lost(lost_range) => {
                self.watch.gap_met();
                return Err(lost_range.error().in_family(self.watch.family(), None));
            }
            PartialAnswer::Absent => ReadOutcome::Absent,
            PartialAnswer::Further => ReadOutcome::Further,
        })
    }

    /// Returns true if a block that is about to be read would be cached.
    pub(in crate::sst) fn admits(&self, number: usize) -> bool {
        let bytes = self.handle(number).map_or(0, |handle| handle.raw_len as usize);
        self.slots.admits(number, bytes + size_of::<Block>())
    }

    /// Loads a block that is not in memory, or its readable part.
    #[cold]
    pub(in crate::sst) fn fetch(&self, number: usize, checks: Checks) -> Result<LoadedBlock> {
        if let Some(partial) = self.bad_blocks.find(number) {
            return Ok(LoadedBlock::Partial(partial));
        }
        match self.read_block(number, true) {
            Ok(block) if !(checks.loaded && self.is_checkable) || self.serves_all(&block) => {
                Ok(LoadedBlock::Whole(if checks.passing {
                    self.slots.pass(block)
                } else {
                    self.slots.keep(number, block)
                }))
            }
            Err(error) if !error.is_corruption() => Err(error),
            _ => {
                self.watch.doubted();
                self.repair(number)
            }
        }
    }

    /// Replaces an untrusted block in memory by a repaired one, or by its readable part.
    #[cold]
    pub(in crate::sst) fn repair(&self, number: usize) -> Result<LoadedBlock> {
        match self.bad_blocks.find(number) {
            Some(partial) => Ok(LoadedBlock::Partial(partial)),
            None => self.damage.repair_block(self, number),
        }
    }

    /// Reads a block from the file, bypassing the cache.
    pub(in crate::sst) fn read_block(&self, number: usize, searched: bool) -> Result<Block> {
        let handle = self.handle(number)?;
        check_room(handle.bytes()).map_err(|error| read_error(&self.name, handle.offset, error))?;
        // A searchable block keeps its buffer: the stored bytes, or the decompressed ones.
        let mut buffer = match searched && !handle.is_packed() {
            true => self.slots.buffer(handle.bytes()),
            false => vec![0; handle.bytes()],
        };
        read_into(&*self.file, handle.offset, &mut buffer)
            .map_err(|error| read_error(&self.name, handle.offset, error))?;
        self.load(buffer, &handle, searched)
    }

    /// Checks a framed block and builds its search structure.
    pub(in crate::sst) fn load(&self, buffer: Vec<u8>, handle: &BlockHandle, searched: bool) -> Result<Block> {
        let (mut buffer, mut room) = (buffer, Vec::new());
        let checked = check_frame(&buffer, &self.expected.uid, Role::Data, handle);
        let bound = checked.and_then(|checked| self.bound(checked, handle, &mut room));
        let bound = bound.map(|(_, codec, handle)| (codec, handle));
        if !room.is_empty() {
            buffer = room;
        }
        bound
            .and_then(|(codec, handle)| {
                let handle = &handle;
                check_room(handle.raw_len as usize).during(|| format!("loading a block of {}", self.name))?;
                let base = (self.base, self.dictionary.as_deref());
                let room = |length| match searched {
                    true => self.slots.buffer(length),
                    false => Vec::with_capacity(length),
                };
                Block::load((buffer, room), codec, handle, base, &self.records.order, searched)
            })
            .map_err(|error| error.in_file(&self.name, handle.offset))
    }

    /// Returns true if every record of a block may be returned.
    pub(in crate::sst) fn serves_all(&self, block: &Block) -> bool {
        (0..block.len()).all(|at| self.records.is_whole(block, at, |_, _| true))
    }

    /// Adds file, block and family to an error.
    #[cold]
    pub(in crate::sst) fn named(&self, error: Error, number: usize) -> Error {
        let error = error.in_file(&self.name, self.offset_of(number));
        if self.watch.family().is_empty() { error } else { error.in_family(self.watch.family(), None) }
    }

    #[cold]
    pub(in crate::sst) fn disagree(&self, number: usize) -> Error {
        self.named(Error::structural("a block and its index do not agree on where a key is"), number)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.slots.empty();
        match *self.loaded_bytes.get_mut() {
            0 => {}
            bytes => self.watch.shrank(bytes),
        }
    }
}

/// Returns the protection of a table's companions if this protector knows their algorithm.
pub(in crate::sst) fn promised(properties: &Properties, protector: &dyn Companions) -> Protection {
    let known = properties.seal_algorithm == protector.algorithm() || properties.seal_algorithm == 0;
    if known { Protection::from_byte(properties.protection) } else { Protection::Foreign }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name).field("blocks", &self.blocks()).finish_non_exhaustive()
    }
}
