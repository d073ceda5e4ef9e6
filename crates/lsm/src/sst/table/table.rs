//! The reader: one open table file.
//!
//! In:    a file and its entry in the manifest.
//! Out:   point reads and cursors. Index and filter are pinned at open, or loaded partition by partition on demand
//!        (`guide`); data blocks are read through the cache.
//! Holds: no bytes are used before their checksum is verified, and no length before it is checked against the file's
//!        (I10). A corruption error names the file and the offset of the damaged block; the rest of the table stays
//!        readable.
//!
//! Path of a point read: filter line -> group and head of the index -> slot of the block -> its heads -> one entry. A
//! cached read allocates nothing and takes no lock. It writes only the block's read mark, and that only once.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::cursor::TableCursor;
use super::partitions::{Guide, Part};
use super::properties::Properties;
use super::stream::TableStream;
use super::tail::{Parts, Tail, read_ends, read_error, read_parts, read_properties};
use super::verify_read::{Checks, Wanted};
use super::verify_scan::Walked;
use crate::checksum::{Role, Uid, hash_key};
use crate::cursor::Cursor;
use crate::env::{File, check_room, read_into};
use crate::error::{Error, IoContext, Remedy, Result};
use crate::header::HEADER_BYTES;
use crate::ledger::Ledger;
use crate::options::{KIB, Reading, Verify};
use crate::order::Order;
use crate::planted::{self, Bug};
use crate::policy::FilterPolicy;
use crate::prefetch::prefetch_counters;
use crate::record::{MAX_SEQNO, Record, Seqno};
use crate::seam::{Companions, Protection, Source};
use crate::sst::block::block::Block;
use crate::sst::block::codec::{self, Dictionary};
use crate::sst::block::frame::{Handle, check};
use crate::sst::cache::cache::{Cache, Slots};
use crate::sst::damage::block_repair::{TRIES, Unwatched, Watch, Wounds};
use crate::sst::index::filter::{self, Filter};
use crate::sst::index::index::Index;
use crate::sst::index::policy_filter::Policed;

/// Size estimates read a block that represents more bytes than this: the pointers of one block may refer to values of
/// 100 MB.
const COARSE_BYTES: u64 = 64 * KIB as u64;

/// The manifest's entry for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The file's uid.
    pub uid: Uid,
    /// Its length in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: u64,
}

/// One open table: its index and filter in memory, and its file. Shared by all readers.
pub struct Table {
    pub(in crate::sst) name: String,
    pub(in crate::sst) file: Arc<dyn File>,
    pub(in crate::sst) slots: Arc<Slots>,
    pub(in crate::sst) order: Order,
    /// Index and filter.
    pub(in crate::sst) guide: Guide,
    /// The filter is the engine's own, and equal keys have equal hashes.
    pub(in crate::sst) has_own_filter: bool,
    /// A filter made by a user's policy.
    policed: Option<Policed>,
    /// The dictionary for zstd blocks.
    pub(in crate::sst) dictionary: Option<Arc<Dictionary>>,
    pub(in crate::sst) expected: Expected,
    pub(in crate::sst) base: Seqno,
    pub(in crate::sst) properties: Properties,
    pub(in crate::sst) keeper: Arc<dyn Companions>,
    pub(in crate::sst) protection: Protection,
    /// Records can be checked: some have companions, and the protector knows their algorithm.
    pub(in crate::sst) is_judged: bool,
    /// Index and filter read again from the file, after memory corruption in `guide`.
    pub(in crate::sst) spare: OnceLock<Guide>,
    /// Bytes of index and filter partitions loaded since open.
    pub(in crate::sst) loaded_bytes: AtomicUsize,
    pub(in crate::sst) wounds: Wounds,
    /// A device error during a rebuild of the table or of an index partition.
    pub(in crate::sst) refused: OnceLock<Error>,
    pub(in crate::sst) watch: Arc<dyn Watch>,
}

/// The parts from which a rebuilt table is constructed.
pub(in crate::sst) struct Assembly {
    pub(in crate::sst) name: String,
    pub(in crate::sst) file: Arc<dyn File>,
    pub(in crate::sst) order: Order,
    pub(in crate::sst) index: Index,
    pub(in crate::sst) expected: Expected,
    pub(in crate::sst) base: Seqno,
    pub(in crate::sst) properties: Properties,
    pub(in crate::sst) keeper: Arc<dyn Companions>,
    pub(in crate::sst) cache: Arc<Cache>,
    pub(in crate::sst) dictionary: Option<Arc<Dictionary>>,
    /// A device error during the rebuild.
    pub(in crate::sst) refused: Option<Error>,
}

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
pub(in crate::sst) enum Outcome {
    Found,
    Absent,
    /// The block ends with newer versions of the key; older ones may follow in the next block.
    Further,
    /// The block contradicts itself.
    Doubtful,
}

impl Outcome {
    /// Converts a corruption error in a cached block to `Doubtful`. The block was valid when it was loaded, so its
    /// memory is damaged, and the caller reads it from the file again.
    #[inline]
    pub(in crate::sst) fn in_memory(looked: Result<Outcome>) -> Result<Outcome> {
        match looked {
            Err(error) if error.is_corruption() => Ok(Outcome::Doubtful),
            outcome => outcome,
        }
    }
}

impl Table {
    /// Opens a table: checks header, footer, identity and digest, and loads index and filter. `name` is used in errors,
    /// and `keeper` checks records.
    pub fn open(
        name: String,
        file: Arc<dyn File>,
        expected: Expected,
        order: Order,
        cache: Arc<Cache>,
        keeper: Arc<dyn Companions>,
    ) -> Result<Arc<Table>> {
        Table::open_watched(name, file, (expected, order, None), cache, keeper, Arc::new(Unwatched))
    }

    /// As `open`, with a receiver of notifications and a filter policy. Metadata that fails its check is read again.
    pub fn open_watched(
        name: String,
        file: Arc<dyn File>,
        (expected, order, policy): (Expected, Order, Option<Arc<dyn FilterPolicy>>),
        cache: Arc<Cache>,
        keeper: Arc<dyn Companions>,
        watch: Arc<dyn Watch>,
    ) -> Result<Arc<Table>> {
        let read = || read_parts(&name, &*file, expected, &order, policy.as_ref());
        let mut parts = read();
        for _ in 0..TRIES {
            // As with data blocks, a reread that bypasses the page cache may succeed.
            if !parts.as_ref().map_or_else(Error::is_corruption, Parts::lacks_dictionary) {
                break;
            }
            file.advise(0, expected.size, false);
            parts = read();
            if parts.as_ref().is_ok_and(|parts| !parts.lacks_dictionary()) {
                watch.healed(&name, 0, Remedy::ReadAgain);
            }
        }
        let mut parts = parts?;
        if parts.lacks_dictionary()
            && let Some((dictionary, at)) = codec::corrected(&name, &*file, &parts, &order, &*keeper)
        {
            parts.dictionary = Some(Arc::new(dictionary));
            watch.healed(&name, at, Remedy::Corrected);
        }
        Ok(Table::assembled(name, file, (expected, order), cache, (keeper, watch), parts))
    }

    fn assembled(
        name: String,
        file: Arc<dyn File>,
        (expected, order): (Expected, Order),
        cache: Arc<Cache>,
        (keeper, watch): (Arc<dyn Companions>, Arc<dyn Watch>),
        parts: Parts,
    ) -> Arc<Table> {
        let Parts { base, properties, guide, policed, dictionary } = parts;
        let slots = Arc::new(Slots::new(guide.blocks(), cache));
        let protection = promised(&properties, &*keeper);
        let is_judged =
            keeper.protection() != Protection::None && matches!(protection, Protection::Partial | Protection::Complete);
        let has_own_filter = properties.filter.as_deref() == Some(filter::NAME) && order.is_hashable();
        let table = Table {
            name,
            file,
            slots,
            order,
            guide,
            has_own_filter,
            policed,
            dictionary,
            expected,
            base,
            properties,
            keeper,
            protection,
            is_judged,
            spare: OnceLock::new(),
            loaded_bytes: AtomicUsize::new(0),
            wounds: Wounds::default(),
            refused: OnceLock::new(),
            watch,
        };
        table.slots.pin(table.pinned_bytes());
        Arc::new(table)
    }

    /// Opens the same table again, and applies `change` to its index and filter.
    pub(in crate::sst) fn opened_anew(&self, change: impl FnOnce(&mut Guide) -> Result<()>) -> Result<Arc<Table>> {
        let mut parts = self.read_parts()?;
        change(&mut parts.guide)?;
        let (name, file, expected) = (self.name.clone(), self.file.clone(), self.expected);
        let seen_by = (self.keeper.clone(), self.watch.clone());
        Ok(Table::assembled(name, file, (expected, self.order.clone()), self.slots.cache(), seen_by, parts))
    }

    /// Creates a table from rebuilt parts (`rebuild`). It has no filter.
    pub(in crate::sst) fn assemble(assembly: Assembly) -> Arc<Table> {
        let Assembly { name, file, order, index, expected, base, properties, keeper, cache, dictionary, refused } =
            assembly;
        let guide = Guide::Whole(Part { index, filter: None });
        let parts = Parts { base, properties, guide, policed: None, dictionary };
        let table = Table::assembled(name, file, (expected, order), cache, (keeper, Arc::new(Unwatched)), parts);
        refused.into_iter().for_each(|refused| drop(table.refused.set(refused)));
        table
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
    /// file intact: the device answers again, or the bytes were put back.
    pub fn forget_damage(&self) {
        self.wounds.clear();
    }

    /// Returns the protector that checks this table's records.
    pub fn keeper(&self) -> &Arc<dyn Companions> {
        &self.keeper
    }

    /// Returns the table's promised protection, as far as its protector can check it.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Returns the location of a block's records.
    pub(in crate::sst) fn source(&self, block: usize) -> Source<'_> {
        Source { protection: self.protection, file: &self.name, offset: self.offset_of(block) }
    }

    /// Reads a file's identity from its own header and footer, for callers without a manifest (salvage, tools). Both
    /// are checked.
    pub fn identify(name: &str, file: &dyn File) -> Result<Expected> {
        let size = file.len().map_err(|error| read_error(name, 0, error))?;
        let (header, footer) = read_ends(name, file, size, &Tail::read(file, size))?;
        Ok(Expected { uid: header.uid, size, digest: footer.digest })
    }

    /// The properties of a file, for those who do not know the order of its keys yet.
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
        let part = self.part_for(key)?;
        if !part.may_contain(key_hash) {
            return match checks.each && self.is_judged && !part.index.is_whole() && !part.index.holds(key, &self.order)
            {
                false => Ok(false),
                true => self.get_misled(&self.wanted(&part.index, (key, key_hash), seqno, checks), visit),
            };
        }
        let number = part.index.find(key, &self.order);
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
            true => self.part_of(number)?,
            false => self.part_for(key.0)?,
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
    ) -> Wanted<'a> {
        Wanted { key, key_hash, seqno, each: checks.each && self.is_judged, index, follows: false }
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
                    wanted.each &= !planted::active(Bug::CachedBlockNotVerified);
                    Outcome::in_memory(self.look(block, number, &wanted, visit))
                }
                None => {
                    drop(cached);
                    self.look_up(number, &wanted, checks, visit)
                }
            };
            match outcome {
                Ok(Outcome::Found) => return Ok(true),
                Ok(Outcome::Absent) => return Ok(false),
                Ok(Outcome::Further) => number += 1,
                Ok(_) if planted::active(Bug::OlderVersionServedForDamaged) => return Ok(false),
                doubt => return self.get_healed(number, &wanted, doubt, visit),
            }
            wanted.follows = true;
        }
        if wanted.each && !wanted.follows {
            return self.get_beyond(&wanted, visit);
        }
        Ok(false)
    }

    /// Returns false if no version of a key with this hash is in the table. A partitioned filter cannot be queried
    /// without the key.
    #[inline]
    pub fn may_contain(&self, key_hash: u64) -> bool {
        match &self.guide {
            Guide::Whole(part) => part.may_contain(key_hash),
            Guide::Cut(_) => true,
        }
    }

    /// Returns true if the policy's filter excludes this key.
    #[inline]
    pub(in crate::sst) fn is_denied(&self, key: &[u8]) -> bool {
        self.policed.as_ref().is_some_and(|policed| !policed.may_contain(key, &self.order))
    }

    /// Prefetches the filter line of a key.
    #[inline]
    pub fn prefetch_filter(&self, key: &[u8], key_hash: u64) {
        if let Some(part) = self.guide.part_in_memory_for(key, &self.order)
            && let Some(filter) = &part.filter
        {
            filter.prefetch(key_hash);
        }
    }

    /// Finds the block of a key, and prefetches its slot.
    #[inline]
    pub fn prefetch_slot(&self, key: &[u8], key_hash: u64) -> Approach {
        let Some(part) = self.guide.part_in_memory_for(key, &self.order) else { return Approach::Unknown };
        if !part.may_contain(key_hash) && (part.index.is_whole() || part.index.holds(key, &self.order)) {
            return Approach::Denied;
        }
        let number = part.index.find(key, &self.order);
        self.slots.prefetch(number);
        Approach::At(number)
    }

    /// Prefetches the lines that a search reads first, if the block is in the cache.
    #[inline]
    pub fn prefetch_block(&self, number: usize) {
        if number < self.slots.count()
            && let Some(block) = &*self.slots.slot(number).load()
        {
            block.prefetch();
            prefetch_counters(block);
        }
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

    pub(in crate::sst) fn read_parts(&self) -> Result<Parts> {
        let policy = self.policed.as_ref().map(Policed::policy);
        read_parts(&self.name, &*self.file, self.expected, &self.order, policy)
    }

    /// Returns a cursor over the table that fails at a block that cannot be repaired. Without `fill_cache` (compaction,
    /// backup), cached blocks are checked and used; other blocks are read in large chunks and not cached.
    pub fn cursor(self: &Arc<Self>, fill_cache: bool) -> TableCursor {
        TableCursor::new(self.clone(), fill_cache)
    }

    /// Returns a forward cursor for a job: reads large chunks, bypassing the cache, and builds no search structure.
    /// Otherwise as `cursor(false)`.
    pub fn stream(self: &Arc<Self>) -> TableStream {
        TableStream::new(self.clone())
    }

    /// Returns a cursor for a user. It checks records as `reading` specifies. It returns a lost range as a record of
    /// kind `Fence` (see `fence`) and continues after it.
    #[inline]
    pub fn cursor_checked(self: &Arc<Self>, reading: impl Into<Reading>) -> TableCursor {
        TableCursor::checked(self.clone(), reading.into())
    }

    /// Returns the approximate number of file bytes before a key.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        let Ok(part) = self.part_for(key) else { return self.guide.data_end() };
        let number = part.index.find(key, &self.order);
        part.index.handle(number).map_or(part.index.data_end(), |handle| handle.offset)
    }

    /// Estimates how many of the `total` bytes of the table's records belong to keys before `key`, or up to `key` with
    /// `and_key`. Uses the start of the key's block, unless that block represents more than `COARSE_BYTES`: then it
    /// reads the block.
    pub fn approximate_bytes_before(self: &Arc<Self>, key: &[u8], and_key: bool, total: u64) -> Result<u64> {
        let index = &self.part_for(key)?.index;
        let number = index.find(key, &self.order);
        let Some(handle) = index.handle(number) else { return Ok(total) };
        let (begin, end) = (HEADER_BYTES as u64, self.data_end());
        let share =
            |bytes: u64| (u128::from(bytes) * u128::from(total) / u128::from(end.saturating_sub(begin).max(1))) as u64;
        let mut position = handle.offset.saturating_sub(begin);
        if share(handle.stored_len.into()) > COARSE_BYTES {
            let mut cursor = self.cursor_checked(Verify::Never);
            cursor.seek(key, if and_key { 0 } else { MAX_SEQNO })?;
            let stays_before = |(before, records): (usize, usize)| {
                let and_found = usize::from(and_key && self.order.compare(cursor.record().key, key).is_eq());
                u64::from(handle.stored_len) * (before + and_found) as u64 / records.max(1) as u64
            };
            position += cursor.share_before(number).map_or(handle.stored_len.into(), stays_before);
        }
        Ok(share(position).min(total))
    }

    /// Returns the separator of a data block: at least its last key, at most the first key of the next block. For
    /// splitting work: if the index is partitioned, returns the bound of the block's partition, which is known without
    /// a read.
    pub fn separator(&self, block: usize) -> Option<Vec<u8>> {
        if block >= self.blocks() {
            return None;
        }
        match &self.guide {
            Guide::Whole(part) => Some(part.index.separator(block)),
            Guide::Cut(cut) => cut.top.range_of(block).map(|at| cut.top.spans()[at].bound.clone()),
        }
    }

    /// Number of data blocks.
    #[inline]
    pub fn blocks(&self) -> usize {
        self.slots.count()
    }

    /// End of the data blocks.
    pub(in crate::sst) fn data_end(&self) -> u64 {
        self.guide.data_end()
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
    /// Partitions of a partitioned index are added on demand (`Watch::grew`).
    pub fn pinned_bytes(&self) -> usize {
        self.guide.memory()
            + self.slots.memory()
            + self.policed.as_ref().map_or(0, Policed::memory)
            + self.dictionary.as_ref().map_or(0, |dictionary| dictionary.memory())
    }

    /// Returns how often a damaged filter line was read; such a line never hides a record.
    pub fn damaged_filter_lines(&self) -> u64 {
        self.guide.loaded().filter_map(|part| part.filter.as_ref()).map(Filter::damaged).sum()
    }

    /// Reads the whole file, bypassing the cache, and checks CRCs, order, separators, filter, companions and counts.
    /// `progress` receives the number of bytes read since its last call; its error ends the scan. Returns the ledger of
    /// the records.
    pub fn verify(&self, keeper: &dyn Companions, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<Ledger> {
        let parts = self.read_parts()?;
        if parts.lacks_dictionary() {
            return Err(Error::structural("the dictionary is damaged").in_file(&self.name, parts.guide.data_end()));
        }
        let mut walked = Walked::new(self, keeper, parts.policed.as_ref());
        let mut walk = |part: &Part| -> Result<()> {
            for handle in part.index.handles() {
                let number = walked.blocks;
                walked
                    .block(handle, &part.index.separator(number), part.filter.as_ref())
                    .map_err(|error| error.in_file(&self.name, handle.offset))?;
                progress(handle.bytes() as u64)?;
            }
            Ok(())
        };
        match &parts.guide {
            Guide::Whole(part) => walk(part)?,
            Guide::Cut(cut) => cut.top.spans().iter().try_for_each(|span| walk(&self.check_part(span)?))?,
        }
        walked.closes(&parts.properties).map_err(|error| error.in_file(&self.name, 0))?;
        progress(self.expected.size.saturating_sub(parts.guide.data_end()))?;
        Ok(walked.ledger)
    }

    #[inline]
    pub(in crate::sst) fn look(
        &self,
        block: &Block,
        number: usize,
        wanted: &Wanted<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Outcome> {
        let place = block.search(wanted.key, wanted.seqno, &self.order)?;
        let Some(entry) = place.equal else {
            return self.missed(block, (number, place.at), wanted);
        };
        if self.order.is_hashable() {
            let record = block.record(place.at, &entry, wanted.key);
            if wanted.each && !self.believes(block, (number, place.at), &record, wanted) {
                return Ok(Outcome::Doubtful);
            }
            visit(&record);
        } else {
            // Keys that compare equal may differ in their bytes: return the stored key.
            let mut stored = Vec::new();
            block.key_into(place.at, &mut stored)?;
            let record = block.record(place.at, &entry, &stored);
            let stored = Wanted { key_hash: if wanted.each { hash_key(&stored) } else { 0 }, ..*wanted };
            if wanted.each && !self.believes(block, (number, place.at), &record, &stored) {
                return Ok(Outcome::Doubtful);
            }
            visit(&record);
        }
        Ok(Outcome::Found)
    }

    /// Handles a search that did not find the key in a block.
    #[inline]
    fn missed(&self, block: &Block, (number, at): (usize, usize), wanted: &Wanted<'_>) -> Result<Outcome> {
        if at == block.len() && block.ends_with(wanted.key, &self.order)? {
            return Ok(if !wanted.each || self.goes_on(block, wanted) { Outcome::Further } else { Outcome::Doubtful });
        }
        let believed =
            !wanted.each || planted::active(Bug::AbsenceNotProved) || self.proves_absence(block, (number, at), wanted);
        Ok(if believed { Outcome::Absent } else { Outcome::Doubtful })
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
    pub(in crate::sst) fn load(&self, buffer: Vec<u8>, handle: &Handle, searched: bool) -> Result<Block> {
        let codec = check(&buffer, &self.expected.uid, Role::Data, handle).map(|(_, codec)| codec);
        codec
            .and_then(|codec| {
                check_room(handle.raw_len as usize).during(|| format!("loading a block of {}", self.name))?;
                let base = (self.base, self.dictionary.as_deref());
                let room = |length| match searched {
                    true => self.slots.buffer(length),
                    false => Vec::with_capacity(length),
                };
                Block::load((buffer, room), codec, handle, base, &self.order, searched)
            })
            .map_err(|error| error.in_file(&self.name, handle.offset))
    }

    /// Adds the file and the block to an error.
    #[cold]
    pub(in crate::sst) fn at_block(&self, error: Error, number: usize) -> Error {
        error.in_file(&self.name, self.offset_of(number))
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
pub(in crate::sst) fn promised(properties: &Properties, keeper: &dyn Companions) -> Protection {
    let known = properties.seal_algorithm == keeper.algorithm() || properties.seal_algorithm == 0;
    if known { Protection::from_byte(properties.protection) } else { Protection::Foreign }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name).field("blocks", &self.blocks()).finish_non_exhaustive()
    }
}
