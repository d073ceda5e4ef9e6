//! The reader: one open table file.
//!
//! In:    a file and what the manifest says of it.
//! Out:   point reads and cursors. What leads to blocks is pinned at open, or range by range when it is asked (`guide`); data blocks go
//!        through the cache.
//! Holds: nothing is believed before its sum was checked, and no length before it was held against the file's (I10).
//!        Corruption names the file and the offset of the block that is hit; the rest of the table goes on.
//!
//! A point read: filter line -> group and head of the index -> slot of the block -> its heads -> one entry. A cached one
//! allocates nothing, takes no lock and writes nothing but a note that the block was read, and that only once.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::block::Block;
use super::cache::{Cache, Slots};
use super::cursor::TableCursor;
use super::dictionary::{self, Dictionary};
use super::ends::{Parts, Tail, read_ends, read_error, read_parts};
use super::filter::{self, Filter};
use super::format::{Handle, check};
use super::guide::{Guide, Part};
use super::heal::{TRIES, Unwatched, Watch, Wounds};
use super::index::Index;
use super::policed::Policed;
use super::properties::Properties;
use super::prove::{Checks, Wanted};
use super::stream::TableStream;
use super::walked::Walked;
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

/// Estimates of sizes look into a block that counts more bytes than this: values of 100 MB may be behind the pointers of one block.
const COARSE_BYTES: u64 = 64 * KIB as u64;

/// What the manifest says of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The file's own name.
    pub uid: Uid,
    /// Its length in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: u64,
}

/// One open table: what leads to its blocks, in memory, and its file. Shared by all readers.
pub struct Table {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) slots: Arc<Slots>,
    pub(super) order: Order,
    /// What leads to blocks: index and filter.
    pub(super) guide: Guide,
    /// The filter is the engine's own, and hashes speak for keys.
    pub(super) has_own_filter: bool,
    /// A filter that the engine did not make, with whoever did.
    policed: Option<Policed>,
    /// What blocks that are packed with zstd need.
    pub(super) dictionary: Option<Arc<Dictionary>>,
    pub(super) expected: Expected,
    pub(super) base: Seqno,
    pub(super) properties: Properties,
    pub(super) keeper: Arc<dyn Companions>,
    pub(super) protection: Protection,
    /// Records here can be judged: some have companions, and the keeper knows what they say.
    pub(super) is_judged: bool,
    /// Read again from the file, if the index in memory was hit.
    pub(super) spare: OnceLock<Guide>,
    /// Bytes of the parts that have come into memory since it was opened.
    pub(super) loaded_bytes: AtomicUsize,
    pub(super) wounds: Wounds,
    /// What the device did not give while the table, or a part of its index, was made anew.
    pub(super) refused: OnceLock<Error>,
    pub(super) watch: Arc<dyn Watch>,
}

/// What a table is put together of.
pub(super) struct Assembly {
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    pub(super) order: Order,
    pub(super) index: Index,
    pub(super) expected: Expected,
    pub(super) base: Seqno,
    pub(super) properties: Properties,
    pub(super) keeper: Arc<dyn Companions>,
    pub(super) cache: Arc<Cache>,
    pub(super) dictionary: Option<Arc<Dictionary>>,
    /// What the device did not give on the way.
    pub(super) refused: Option<Error>,
}

/// What is known of the read of a key before it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Approach {
    /// The filter says that no version of it is here.
    Denied,
    /// It is looked for in this block.
    At(usize),
    /// What leads there is not in memory.
    Unknown,
}

/// What one block says to a point read.
pub(super) enum Outcome {
    Found,
    Absent,
    /// The block ends with newer versions of the key; older ones may stand in the next.
    Further,
    /// What stands there does not agree with itself.
    Doubtful,
}

impl Outcome {
    /// What a block in memory says, which was whole when it came: where it is not as it should be, it was hit since then, and is to be read again.
    #[inline]
    pub(super) fn in_memory(looked: Result<Outcome>) -> Result<Outcome> {
        match looked {
            Err(error) if error.is_corruption() => Ok(Outcome::Doubtful),
            outcome => outcome,
        }
    }
}

impl Table {
    /// Opens a table: checks header, footer, identity and digest, loads index and filter. `name` is for errors, `keeper` checks what
    /// is read.
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

    /// The same, with someone who hears what readers come by, and with the policy of filters that others made. What does not pass is
    /// read again.
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
            // As with any block: what did not pass may be right when it is read again, past what the system holds of it.
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
            && let Some((dictionary, at)) = dictionary::corrected(&name, &*file, &parts, &order, &*keeper)
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

    /// The same table, opened anew, after `change` has gone over what leads to its blocks.
    pub(super) fn opened_anew(&self, change: impl FnOnce(&mut Guide) -> Result<()>) -> Result<Arc<Table>> {
        let mut parts = self.read_parts()?;
        change(&mut parts.guide)?;
        let (name, file, expected) = (self.name.clone(), self.file.clone(), self.expected);
        let seen_by = (self.keeper.clone(), self.watch.clone());
        Ok(Table::assembled(name, file, (expected, self.order.clone()), self.slots.cache(), seen_by, parts))
    }

    /// A table of parts that somebody else has found (`rebuild`). It has no filter.
    pub(super) fn assemble(assembly: Assembly) -> Arc<Table> {
        let Assembly { name, file, order, index, expected, base, properties, keeper, cache, dictionary, refused } =
            assembly;
        let guide = Guide::Whole(Part { index, filter: None });
        let parts = Parts { base, properties, guide, policed: None, dictionary };
        let table = Table::assembled(name, file, (expected, order), cache, (keeper, Arc::new(Unwatched)), parts);
        refused.into_iter().for_each(|refused| drop(table.refused.set(refused)));
        table
    }

    /// What the device did not give while the table, or a part of its index, was made anew: what was not found then may be there.
    pub fn refused(&self) -> Option<&Error> {
        self.refused.get()
    }

    /// Frees its blocks in the cache. Readers that hold a block keep it.
    pub(crate) fn release_blocks(&self) {
        self.slots.empty();
    }

    /// Who checks what is read here.
    pub fn keeper(&self) -> &Arc<dyn Companions> {
        &self.keeper
    }

    /// What the table promises of its companions, as far as its keeper can judge them.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Where the records of a block stand.
    pub(super) fn source(&self, block: usize) -> Source<'_> {
        Source { protection: self.protection, file: &self.name, offset: self.offset_of(block) }
    }

    /// What a file says of itself, for those who have no manifest (salvage, tools). Header and footer are checked.
    pub fn identify(name: &str, file: &dyn File) -> Result<Expected> {
        let size = file.len().map_err(|error| read_error(name, 0, error))?;
        let (header, footer) = read_ends(name, file, size, &Tail::read(file, size))?;
        Ok(Expected { uid: header.uid, size, digest: footer.digest })
    }

    /// The newest version of `key` not above `seqno`, handed to `visit`, at most once; false if there is none here.
    /// `key_hash` is `checksum::hash_key(key)`.
    ///
    /// What is to be checked and does not pass is read again past what memory holds of it, corrected, or taken from what is left
    /// of its block. Errors: `Corruption` if what would decide is lost.
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

    /// The same from a block on, as `prefetch_slot` has said it for this key.
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
    pub(super) fn wanted<'a>(
        &self,
        index: &'a Index,
        (key, key_hash): (&'a [u8], u64),
        seqno: Seqno,
        checks: Checks,
    ) -> Wanted<'a> {
        Wanted { key, key_hash, seqno, each: checks.each && self.is_judged, index, follows: false }
    }

    /// The same by an index that names the block.
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
        // No key stands in two ranges: behind the last block of this one there is nothing of it.
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

    /// False if no version of a key with this hash is here. A filter that is cut says nothing without the key.
    #[inline]
    pub fn may_contain(&self, key_hash: u64) -> bool {
        match &self.guide {
            Guide::Whole(part) => part.may_contain(key_hash),
            Guide::Cut(_) => true,
        }
    }

    /// True if a filter that others made says that no version of this key is here.
    #[inline]
    pub(super) fn is_denied(&self, key: &[u8]) -> bool {
        self.policed.as_ref().is_some_and(|policed| !policed.may_contain(key, &self.order))
    }

    /// Asks memory for what a look at the filter reads, before it is looked at.
    #[inline]
    pub fn prefetch_filter(&self, key: &[u8], key_hash: u64) {
        if let Some(part) = self.guide.part_in_memory_for(key, &self.order)
            && let Some(filter) = &part.filter
        {
            filter.prefetch(key_hash);
        }
    }

    /// Where a key is looked for; memory is asked for the slot of that block.
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

    /// Asks memory for what a search of a block reads first, if the block is in the cache.
    #[inline]
    pub fn prefetch_block(&self, number: usize) {
        if number < self.slots.count()
            && let Some(block) = &*self.slots.slot(number).load()
        {
            block.prefetch();
            prefetch_counters(block);
        }
    }

    /// Asks memory for the entries that a walk comes to first in a block, if it is in the cache.
    pub(super) fn prefetch_entries(&self, number: usize, forward: bool) {
        if number < self.slots.count()
            && let Some(block) = &*self.slots.slot(number).load()
        {
            let last = block.len() - 1;
            if forward { block.prefetch_up(0, last) } else { block.prefetch_down(last + 1, 0) }
        }
    }

    pub(super) fn read_parts(&self) -> Result<Parts> {
        let policy = self.policed.as_ref().map(Policed::policy);
        read_parts(&self.name, &*self.file, self.expected, &self.order, policy)
    }

    /// A cursor over the table, which answers an error where a block is damaged and cannot be made whole. Without `fill_cache`
    /// (compaction, backup) blocks in the cache are checked and used, others are read in large pieces and not kept.
    pub fn cursor(self: &Arc<Self>, fill_cache: bool) -> TableCursor {
        TableCursor::new(self.clone(), fill_cache)
    }

    /// A cursor for a job, which goes front to back once: blocks are read in large pieces past the cache and not made ready to be
    /// searched. Otherwise as `cursor(false)`.
    pub fn stream(self: &Arc<Self>) -> TableStream {
        TableStream::new(self.clone())
    }

    /// A cursor for a user: it checks what it passes as `reading` says, and where something is lost it shows a record of kind `Fence`
    /// (see `fence`) and goes on.
    #[inline]
    pub fn cursor_checked(self: &Arc<Self>, reading: impl Into<Reading>) -> TableCursor {
        TableCursor::checked(self.clone(), reading.into())
    }

    /// About how many bytes of the file stand before a key.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        let Ok(part) = self.part_for(key) else { return self.guide.data_end() };
        let number = part.index.find(key, &self.order);
        part.index.handle(number).map_or(part.index.data_end(), |handle| handle.offset)
    }

    /// Estimates how many of `total` bytes, which the table's records take in the order of their keys, belong to keys before `key`, or up to it
    /// with `and_key`. The start of its block stands for the key, unless the block's share is more than `COARSE_BYTES`: then the block is read.
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

    /// The separator of a data block: not below its last key, nor above the first of the next. For splitting work: where the index is
    /// cut that of the last block of its range, which is known without a read.
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

    /// Where the data blocks end.
    pub(super) fn data_end(&self) -> u64 {
        self.guide.data_end()
    }

    /// What the table says of itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// What the manifest says of it.
    pub fn expected(&self) -> &Expected {
        &self.expected
    }

    /// What its blocks are packed with, if it has one that can be read.
    pub fn dictionary(&self) -> Option<Arc<Dictionary>> {
        self.dictionary.clone().filter(|dictionary| dictionary.is_whole())
    }

    /// The name that errors use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file, for backups.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Bytes that index, filter and slots take in memory, outside of the cache, as long as the table is open. The parts of a cut index
    /// come on top when they are asked (`Watch::grew`).
    pub fn pinned_bytes(&self) -> usize {
        self.guide.memory()
            + self.slots.memory()
            + self.policed.as_ref().map_or(0, Policed::memory)
            + self.dictionary.as_ref().map_or(0, |dictionary| dictionary.memory())
    }

    /// How often a damaged filter line was met; such a line never hides a record.
    pub fn damaged_filter_lines(&self) -> u64 {
        self.guide.loaded().filter_map(|part| part.filter.as_ref()).map(Filter::damaged).sum()
    }

    /// Reads the whole file past the cache: sums, order, separators, filter, companions, counts. `progress` gets the bytes read
    /// since its last call; its error ends the walk. Answers the ledger of what is there.
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
    pub(super) fn look(
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
            // Equal keys may differ in their bytes: the record is the one that was stored.
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

    /// The key was not found at a place where the search ended.
    #[inline]
    fn missed(&self, block: &Block, (number, at): (usize, usize), wanted: &Wanted<'_>) -> Result<Outcome> {
        if at == block.len() && block.ends_with(wanted.key, &self.order)? {
            return Ok(if !wanted.each || self.goes_on(block, wanted) { Outcome::Further } else { Outcome::Doubtful });
        }
        let believed =
            !wanted.each || planted::active(Bug::AbsenceNotProved) || self.proves_absence(block, (number, at), wanted);
        Ok(if believed { Outcome::Absent } else { Outcome::Doubtful })
    }

    /// Reads a block from the file, past the cache.
    pub(super) fn read_block(&self, number: usize, searched: bool) -> Result<Block> {
        let handle = self.handle(number)?;
        check_room(handle.bytes()).map_err(|error| read_error(&self.name, handle.offset, error))?;
        // What is to be searched stays in memory: its bytes, or those that it is unpacked to.
        let mut buffer = match searched && !handle.is_packed() {
            true => self.slots.buffer(handle.bytes()),
            false => vec![0; handle.bytes()],
        };
        read_into(&*self.file, handle.offset, &mut buffer)
            .map_err(|error| read_error(&self.name, handle.offset, error))?;
        self.load(buffer, &handle, searched)
    }

    /// Checks a framed block and makes it ready.
    pub(super) fn load(&self, buffer: Vec<u8>, handle: &Handle, searched: bool) -> Result<Block> {
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

    /// Names the file and the block in an error.
    #[cold]
    pub(super) fn at_block(&self, error: Error, number: usize) -> Error {
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

/// What the companions of a table are worth to a keeper.
pub(super) fn promised(properties: &Properties, keeper: &dyn Companions) -> Protection {
    let known = properties.seal_algorithm == keeper.algorithm() || properties.seal_algorithm == 0;
    if known { Protection::from_byte(properties.protection) } else { Protection::Foreign }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.name).field("blocks", &self.blocks()).finish_non_exhaustive()
    }
}
