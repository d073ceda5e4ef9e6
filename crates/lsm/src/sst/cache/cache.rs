//! The block cache: keeps blocks of open tables in memory, and large values (`large_values`).
//!
//! There is no hash table of blocks. Every open table has an array of slots, one per block. A reader loads its slot
//! without waiting and without writing to a counter shared between cores. The cache itself holds the budget and the
//! eviction order. The order is kept in queues under locks that only loads and evictions take: a small probation queue
//! (about a tenth of the bytes) for blocks seen once, and the main queue. A block that was read again moves to the main
//! queue, or stays in it.
//!
//! Admission: a full cache does not admit a block on its first request. The block is read into a spare buffer, used
//! once and released. A block requested again soon is admitted to the main queue. A block requested again later, but
//! within one cache turnover, is admitted with probability 1/4. Thus a scan does not displace the working set. If the
//! working set is much larger than the cache, reads do not pay for evicting blocks of equal worth.
//!
//! Budget: the bytes of all blocks in slots never exceed it. If nothing can be evicted, the loaded block is used once
//! and dropped. Blocks that a cursor still holds after their eviction are not counted. A cache may be part of an
//! overall memory budget (`within`): then charges for memtables, indexes, filters and job buffers reduce the room for
//! blocks.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use arc_swap::ArcSwapOption;

use super::buffer_pool::BufferPool;
use crate::env::work::lock;
use crate::prefetch::prefetch;
use crate::sst::block::block::Block;

/// Number of queue shards, so that concurrent loads rarely contend.
const SHARDS: usize = 16;

/// Maximum number of recently read blocks that one eviction skips; the next block is then evicted even if it was read.
/// Bounds the time of a load.
const MOST_CHANCES: usize = 64;

/// Allowance for a block's in-memory overhead: 1/4 of its bytes.
const SPARE_PART: usize = 4;

/// A block requested again within 1/4 of a cache turnover is always admitted.
const SOON_PART: usize = 4;

/// A block requested again later than that is admitted with probability 1/4.
const LATE_ONES: u32 = 4;

/// Multiplier that spreads clock values evenly (2^32 over the golden ratio), so that admission does not depend on
/// periodic access.
const SPREAD: u32 = 0x9E37_79B9;

/// Two requests within 1/16 of a cache turnover may belong to the same read.
const AT_ONCE_PART: usize = 16;

/// A block cache, shared by all tables of a store (or of several stores).
#[derive(Debug)]
pub struct Cache {
    budget: AtomicUsize,
    /// Maximum for blocks and charges together. With `usize::MAX`, charges are counted but take no room from blocks.
    total: usize,
    used: AtomicUsize,
    charged: AtomicUsize,
    blocks: AtomicUsize,
    shards: Vec<Mutex<CacheShard>>,
    loads: AtomicU64,
    evictions: AtomicU64,
    refused: AtomicU64,
    warmed: AtomicU64,
    clock: CacheClock,
    /// The shard to evict from next after a charge has grown.
    next_shard: AtomicUsize,
    /// State that cached objects of other kinds keep here, one value per type, while anything uses it.
    attached: Mutex<Vec<Weak<dyn Any + Send + Sync>>>,
    /// Buffers of evicted blocks, for reuse.
    pub(in crate::sst) spares: BufferPool,
}

/// Counts evictions and uncached reads, to measure how long ago a block was cached. Starts at 1: 0 in a slot means
/// never.
#[derive(Debug)]
struct CacheClock(AtomicU32);

impl CacheClock {
    /// Advances the clock; returns a time, which is never 0.
    fn tick(&self) -> u32 {
        self.0.fetch_add(1, Relaxed) | 1
    }

    /// Returns the number of ticks since `moment`; `None` if it is 0 (never).
    fn since(&self, moment: u32) -> Option<usize> {
        (moment != 0).then(|| self.0.load(Relaxed).wrapping_sub(moment) as usize)
    }
}

/// A cached object: a block or a large value.
pub(in crate::sst) trait CachedObject: Send + Sync + 'static {
    /// Its size in memory.
    fn memory(&self) -> usize;

    /// Clears its read mark, and returns whether it was set.
    fn cool(&self) -> bool;

    /// Called after its eviction: leaves its buffers for reuse if nothing else holds it.
    fn leave(self: Arc<Self>, spares: &BufferPool);

    /// Called when its table is closed: leaves its buffers for reuse, up to this size, if nothing else holds it.
    fn die(self: Arc<Self>, _: &BufferPool, _: usize) {}

    /// Wraps it in an `Arc`, reusing a spare allocation if possible.
    fn shared(self, spares: &BufferPool) -> Arc<Self>
    where
        Self: Sized;
}

impl CachedObject for Block {
    fn memory(&self) -> usize {
        Block::memory(self)
    }

    fn cool(&self) -> bool {
        Block::cool(self)
    }

    fn leave(mut self: Arc<Self>, spares: &BufferPool) {
        if let Some(block) = Arc::get_mut(&mut self) {
            spares.give(block.take_bytes());
            spares.give_shell(self);
        }
    }

    fn die(self: Arc<Self>, spares: &BufferPool, room: usize) {
        spares.inherit(self, room);
    }

    fn shared(self, spares: &BufferPool) -> Arc<Self> {
        spares.fill_shell(self)
    }
}

/// Slots of any object type, as the queues use them.
trait SlotArray: Send + Sync {
    /// Clears the read mark of the object in a slot.
    fn cool(&self, number: usize) -> bool;

    /// Empties a slot and records the clock time.
    fn evict(&self, number: usize, clock: &CacheClock) -> Option<Arc<dyn CachedObject>>;
}

/// Counters of a cache. Hits are not counted, since a counter shared by all readers would be contended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheMetrics {
    /// The budget in bytes.
    pub budget_bytes: u64,
    /// Bytes of cached blocks and large values, plus buffers that blocks of closed tables left for reuse.
    pub used_bytes: u64,
    /// Number of cached blocks and large values.
    pub blocks: u64,
    /// Blocks that reads loaded from a file. Reads by jobs and reads of damaged blocks are not counted.
    pub loads: u64,
    /// Blocks evicted to make room.
    pub evictions: u64,
    /// Loads that were used once and not cached: there was no room, it was their first request, or the reader does not
    /// fill the cache.
    pub refused: u64,
    /// Output blocks that jobs loaded in place of cached blocks of their input tables. Not counted as loads.
    pub warmed: u64,
    /// Bytes charged from outside: memtables, the ring, indexes and filters of open tables, job buffers.
    pub charged_bytes: u64,
}

/// Memory outside of the cache that counts towards its budget until this is dropped.
#[derive(Debug)]
pub struct Charge {
    cache: Arc<Cache>,
    bytes: AtomicUsize,
}

impl Charge {
    /// Creates a charge of `bytes`.
    pub fn new(cache: Arc<Cache>, bytes: usize) -> Charge {
        let charge = Charge { cache, bytes: AtomicUsize::new(0) };
        charge.set(bytes);
        charge
    }

    /// Sets the size of the charge. If it grows, blocks are evicted at once until the budget holds.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Relaxed);
        self.cache.charged.fetch_add(bytes.wrapping_sub(before), Relaxed);
        if bytes > before {
            self.cache.shrink();
        }
    }

    /// Adds to the charge.
    pub fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.cache.charged.fetch_add(bytes, Relaxed);
        self.cache.shrink();
    }

    /// Returns the size of the charge.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The cached blocks of one table, or the cached large values.
#[derive(Debug)]
pub(in crate::sst) struct CacheSlots<T: CachedObject = Block> {
    blocks: Box<[ArcSwapOption<T>]>,
    /// Clock time at which each block was last evicted, or read without being cached; 0: never.
    last: Box<[AtomicU32]>,
    cache: Arc<Cache>,
    /// Charge for the table's memory besides its blocks.
    pinned: OnceLock<Charge>,
}

/// An entry of a queue: one cached block.
struct QueueEntry {
    slots: Weak<dyn SlotArray>,
    number: u32,
    bytes: usize,
}

#[derive(Default)]
struct CacheShard {
    probation: VecDeque<QueueEntry>,
    probation_bytes: usize,
    main: VecDeque<QueueEntry>,
    /// Length of both queues after the last removal of closed tables' entries.
    swept: usize,
}

impl Cache {
    /// Creates a cache of `bytes`. With 0, no block is cached.
    pub fn new(bytes: usize) -> Cache {
        Cache::within(bytes, usize::MAX)
    }

    /// Creates a cache within an overall budget: blocks take what charges leave of `total`, and at most `bytes`.
    pub fn within(bytes: usize, total: usize) -> Cache {
        Cache {
            budget: AtomicUsize::new(bytes),
            total,
            used: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            loads: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            warmed: AtomicU64::new(0),
            clock: CacheClock(AtomicU32::new(1)),
            next_shard: AtomicUsize::new(0),
            attached: Mutex::default(),
            spares: BufferPool::within(bytes.min(total)),
        }
    }

    /// Changes the size. If it shrinks, blocks are evicted before the call returns. The buffers that the cache keeps for
    /// blocks, and the number of large values that it may hold, stay those of the size at its creation.
    pub fn resize(&self, bytes: usize) {
        self.budget.store(bytes, Relaxed);
        self.shrink();
    }

    /// Returns the cache's counters.
    pub fn metrics(&self) -> CacheMetrics {
        CacheMetrics {
            budget_bytes: self.budget.load(Relaxed) as u64,
            used_bytes: (self.used.load(Relaxed) + self.spares.legacy_bytes()) as u64,
            blocks: self.blocks.load(Relaxed) as u64,
            loads: self.loads.load(Relaxed),
            evictions: self.evictions.load(Relaxed),
            refused: self.refused.load(Relaxed),
            warmed: self.warmed.load(Relaxed),
            charged_bytes: self.charged() as u64,
        }
    }

    /// Returns true if charges reduce the room for blocks.
    pub fn bounds_charges(&self) -> bool {
        self.total != usize::MAX
    }

    /// Returns the charged bytes. Concurrent changes to a charge may subtract before they add, so the sum can be
    /// negative for a moment.
    fn charged(&self) -> usize {
        let charged = self.charged.load(Relaxed);
        if (charged as isize) < 0 { 0 } else { charged }
    }

    /// Caches a loaded block if there is room, or room can be made. Returns the block to use: another thread's if that
    /// was first.
    fn admit<T: CachedObject>(&self, slots: &Arc<CacheSlots<T>>, number: usize, block: Arc<T>) -> Arc<T> {
        self.loads.fetch_add(1, Relaxed);
        let Some(asked) = slots.last.get(number) else { return block };
        if !self.reserve(block.memory(), number % SHARDS) {
            self.refused.fetch_add(1, Relaxed);
            return block;
        }
        // Two requests of the same read do not count as a return.
        let since = self.clock.since(asked.load(Relaxed));
        let blocks = self.blocks.load(Relaxed);
        let returns = since.is_some_and(|since| blocks / AT_ONCE_PART < since && since <= blocks);
        self.place(slots, number, &block, returns).unwrap_or(block)
    }

    /// Caches a block that a job has read, without evicting any other. Returns false if there is no room.
    fn admit_unasked<T: CachedObject>(&self, slots: &Arc<CacheSlots<T>>, number: usize, block: &Arc<T>) -> bool {
        let has_room = number < slots.count() && self.reserve_unused(block.memory());
        if has_room && self.place(slots, number, block, true).is_none() {
            self.warmed.fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Puts a block whose room is reserved into its slot and into a queue: the main queue if `returns`. Returns another
    /// thread's block if that was first.
    fn place<T: CachedObject>(
        &self,
        slots: &Arc<CacheSlots<T>>,
        number: usize,
        block: &Arc<T>,
        returns: bool,
    ) -> Option<Arc<T>> {
        let bytes = block.memory();
        let before = slots.blocks[number].compare_and_swap(std::ptr::null(), Some(block.clone()));
        if let Some(first) = &*before {
            self.used.fetch_sub(bytes, Relaxed);
            return Some(first.clone());
        }
        self.blocks.fetch_add(1, Relaxed);
        let slots: Weak<CacheSlots<T>> = Arc::downgrade(slots);
        lock(&self.shards[number % SHARDS]).push(QueueEntry { slots, number: number as u32, bytes }, returns);
        None
    }

    /// Replaces a block that is still cached, if there is room. The new block takes over the old one's queue entry.
    fn exchange<T: CachedObject>(&self, slots: &CacheSlots<T>, number: usize, before: Arc<T>, block: Arc<T>) -> Arc<T> {
        self.loads.fetch_add(1, Relaxed);
        let bytes = block.memory();
        let Some(slot) = slots.blocks.get(number).filter(|_| self.reserve(bytes, number % SHARDS)) else {
            self.refused.fetch_add(1, Relaxed);
            return block;
        };
        let found = slot.compare_and_swap(&before, Some(block.clone()));
        let took = found.as_ref().is_some_and(|found| Arc::ptr_eq(found, &before));
        self.used.fetch_sub(if took { before.memory() } else { bytes }, Relaxed);
        drop(found);
        if took {
            before.leave(&self.spares);
        }
        if took { &self.evictions } else { &self.refused }.fetch_add(1, Relaxed);
        block
    }

    /// Returns the state of a type that all users of this cache share. Creates it if nothing uses it.
    pub(in crate::sst) fn shared<T: Any + Send + Sync>(&self, create: impl FnOnce() -> T) -> Arc<T> {
        let mut attached = lock(&self.attached);
        attached.retain(|state| state.strong_count() > 0);
        let known = attached.iter().find_map(|state| state.upgrade()?.downcast::<T>().ok());
        known.unwrap_or_else(|| {
            let created = Arc::new(create());
            let weak: Weak<T> = Arc::downgrade(&created);
            attached.push(weak);
            created
        })
    }

    /// Returns the maximum bytes for blocks, without charges.
    pub(in crate::sst) fn most(&self) -> usize {
        self.budget.load(Relaxed).min(self.total)
    }

    /// Reserves bytes of the budget, evicting blocks until they fit. Returns false if that is impossible.
    fn reserve(&self, bytes: usize, home: usize) -> bool {
        loop {
            let (used, room) = (self.used.load(Relaxed), self.room());
            if bytes > room {
                return false;
            }
            if used + bytes + self.spares.legacy_bytes() > room {
                if !self.spares.let_go() && !self.evict_one(home) {
                    return false;
                }
            } else if self.used.compare_exchange_weak(used, used + bytes, Relaxed, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Reserves free bytes of the budget, without evicting. Returns false if too few are free.
    fn reserve_unused(&self, bytes: usize) -> bool {
        loop {
            let (used, room) = (self.used.load(Relaxed), self.room());
            if used + bytes > room {
                return false;
            }
            if used + bytes + self.spares.legacy_bytes() > room {
                self.spares.let_go();
            } else if self.used.compare_exchange_weak(used, used + bytes, Relaxed, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Returns the bytes that blocks may currently take.
    fn room(&self) -> usize {
        let room = self.budget.load(Relaxed).min(self.total.saturating_sub(self.charged()));
        room.saturating_sub(self.spares.most())
    }

    /// Estimates the size in memory of a block of `bytes`.
    fn expected(&self, bytes: usize) -> usize {
        let mean = self.used.load(Relaxed) / self.blocks.load(Relaxed).max(1);
        (bytes + bytes / SPARE_PART).max(mean)
    }

    /// Returns true if a block last cached at `moment` and requested again is to be admitted: always within 1/4 of a
    /// cache turnover, and with probability 1/4 within a whole turnover. A repeatedly scanned range is thus cached
    /// after some rounds, and a range that is read only now and then displaces few other blocks.
    fn returns(&self, moment: u32) -> bool {
        let blocks = self.blocks.load(Relaxed);
        let is_one_of_few = moment.wrapping_mul(SPREAD) < u32::MAX / LATE_ONES;
        self.clock.since(moment).is_some_and(|since| since <= blocks / SOON_PART || (since <= blocks && is_one_of_few))
    }

    /// Frees all blocks, values and spare buffers, because the store is closed.
    pub(crate) fn release(&self) {
        for shard in &self.shards {
            let CacheShard { probation, main, .. } = std::mem::take(&mut *lock(shard));
            for QueueEntry { slots, number, .. } in probation.into_iter().chain(main) {
                if let Some(block) = slots.upgrade().and_then(|slots| slots.evict(number as usize, &self.clock)) {
                    self.used.fetch_sub(block.memory(), Relaxed);
                    self.blocks.fetch_sub(1, Relaxed);
                }
            }
        }
        self.spares.release();
    }

    /// Evicts the excess after a charge has grown.
    fn shrink(&self) {
        let is_too_much = || self.used.load(Relaxed) + self.spares.legacy_bytes() > self.room();
        while is_too_much() && (self.spares.let_go() || self.evict_one(self.next_shard.fetch_add(1, Relaxed) % SHARDS))
        {
        }
    }

    /// Evicts one block, from the home shard if that has one.
    fn evict_one(&self, home: usize) -> bool {
        for step in 0..SHARDS {
            let shard = &self.shards[(home + step) % SHARDS];
            let victim = lock(shard).evict(self.room() / 10 / SHARDS, &self.clock);
            // The block itself is freed here, outside of the lock.
            if let Some(EvictedObject { bytes, block, _slots }) = victim {
                self.used.fetch_sub(bytes, Relaxed);
                block.leave(&self.spares);
                self.blocks.fetch_sub(1, Relaxed);
                self.evictions.fetch_add(1, Relaxed);
                return true;
            }
        }
        false
    }
}

/// A block removed by an eviction; freed when dropped.
struct EvictedObject {
    bytes: usize,
    block: Arc<dyn CachedObject>,
    _slots: Arc<dyn SlotArray>,
}

impl CacheShard {
    fn push(&mut self, resident: QueueEntry, returns: bool) {
        if self.probation.len() + self.main.len() > 2 * self.swept + 256 {
            self.sweep();
        }
        if returns {
            self.main.push_back(resident);
        } else {
            self.probation_bytes += resident.bytes;
            self.probation.push_back(resident);
        }
    }

    /// Removes entries of closed tables, which have already returned their bytes to the budget.
    fn sweep(&mut self) {
        let open = |resident: &QueueEntry| resident.slots.strong_count() > 0;
        self.main.retain(open);
        self.probation.retain(open);
        self.probation_bytes = self.probation.iter().map(|resident| resident.bytes).sum();
        self.swept = self.probation.len() + self.main.len();
    }

    /// Removes the next block to evict; `None` if this shard is empty.
    fn evict(&mut self, probation_share: usize, clock: &CacheClock) -> Option<EvictedObject> {
        let mut chances = MOST_CHANCES;
        loop {
            let newcomers = self.probation_bytes > probation_share || self.main.is_empty();
            let next = if newcomers { self.probation.pop_front() } else { self.main.pop_front() };
            let resident = next.or_else(|| self.main.pop_front())?;
            if newcomers {
                self.probation_bytes = self.probation_bytes.saturating_sub(resident.bytes);
            }
            let Some(slots) = resident.slots.upgrade() else { continue };
            let number = resident.number as usize;
            let hot = slots.cool(number);
            if hot && chances > 0 {
                chances -= 1;
                self.main.push_back(resident);
                continue;
            }
            // Empty if the block was replaced by another, which has its own entry.
            let Some(block) = slots.evict(number, clock) else { continue };
            return Some(EvictedObject { bytes: block.memory(), block, _slots: slots });
        }
    }
}

impl std::fmt::Debug for CacheShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lengths = (self.probation.len(), self.main.len());
        f.debug_tuple("Shard").field(&lengths).finish()
    }
}

impl<T: CachedObject> SlotArray for CacheSlots<T> {
    fn cool(&self, number: usize) -> bool {
        self.blocks[number].load().as_ref().is_some_and(|block| block.cool())
    }

    fn evict(&self, number: usize, clock: &CacheClock) -> Option<Arc<dyn CachedObject>> {
        let block = self.blocks[number].swap(None)?;
        self.last[number].store(clock.tick(), Relaxed);
        Some(block)
    }
}

impl<T: CachedObject> CacheSlots<T> {
    /// Creates empty slots for a table of `count` blocks.
    pub(in crate::sst) fn new(count: usize, cache: Arc<Cache>) -> CacheSlots<T> {
        CacheSlots {
            blocks: (0..count).map(|_| ArcSwapOption::empty()).collect(),
            last: (0..count).map(|_| AtomicU32::new(0)).collect(),
            cache,
            pinned: OnceLock::new(),
        }
    }

    /// Charges the table's memory besides its blocks, once.
    pub(in crate::sst) fn pin(&self, bytes: usize) {
        self.pinned.get_or_init(|| Charge::new(self.cache.clone(), bytes));
    }

    /// Adds to that charge.
    pub(in crate::sst) fn pin_more(&self, bytes: usize) {
        if let Some(pinned) = self.pinned.get() {
            pinned.grow(bytes);
        }
    }

    /// Returns the slot of a block that the index names.
    #[inline]
    pub(in crate::sst) fn slot(&self, number: usize) -> &ArcSwapOption<T> {
        &self.blocks[number]
    }

    /// Prefetches the slot of a block.
    #[inline]
    pub(in crate::sst) fn prefetch(&self, number: usize) {
        if let Some(slot) = self.blocks.get(number) {
            prefetch(slot);
        }
    }

    /// Returns a buffer, with any content, for an object to be cached.
    pub(in crate::sst) fn buffer(&self, length: usize) -> Vec<u8> {
        self.cache.spares.take(length)
    }

    /// Returns true if a block that is about to be read would be cached: there is room, or it was requested recently.
    pub(in crate::sst) fn admits(&self, number: usize, bytes: usize) -> bool {
        let Some(asked) = self.last.get(number) else { return false };
        let cache = &self.cache;
        if self.has_room(bytes) || cache.returns(asked.load(Relaxed)) {
            return true;
        }
        asked.store(cache.clock.tick(), Relaxed);
        false
    }

    /// Returns true if a block of `bytes` fits without evicting another.
    pub(in crate::sst) fn has_room(&self, bytes: usize) -> bool {
        let cache = &self.cache;
        cache.used.load(Relaxed) + cache.expected(bytes) <= cache.room()
    }

    /// Counts a block that is used once and not cached.
    pub(in crate::sst) fn count_pass(&self) {
        self.cache.loads.fetch_add(1, Relaxed);
        self.cache.refused.fetch_add(1, Relaxed);
    }

    /// Wraps a block that is used once and not cached.
    pub(in crate::sst) fn pass(&self, block: T) -> Arc<T> {
        self.count_pass();
        block.shared(&self.cache.spares)
    }

    /// Returns the buffers of such a block for reuse.
    pub(in crate::sst) fn passed(&self, block: Arc<T>) {
        block.leave(&self.cache.spares);
    }

    /// Caches a loaded block if there is room; returns the block to use.
    pub(in crate::sst) fn keep(self: &Arc<Self>, number: usize, block: T) -> Arc<T> {
        self.put(number, block.shared(&self.cache.spares))
    }

    /// Caches a block that no reader requested, if it fits without evicting another; otherwise returns false.
    pub(in crate::sst) fn keep_unasked(self: &Arc<Self>, number: usize, block: T) -> bool {
        self.cache.admit_unasked(self, number, &block.shared(&self.cache.spares))
    }

    /// As `keep`, for a block that is already shared.
    pub(in crate::sst) fn put(self: &Arc<Self>, number: usize, block: Arc<T>) -> Arc<T> {
        self.cache.admit(self, number, block)
    }

    /// Replaces a block that is still cached, if there is room.
    pub(in crate::sst) fn put_instead(&self, number: usize, before: Arc<T>, block: Arc<T>) -> Arc<T> {
        self.cache.exchange(self, number, before, block)
    }

    /// Number of slots.
    pub(in crate::sst) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Removes a block from the cache. Existing references to it stay valid.
    pub(in crate::sst) fn take(&self, number: usize) -> Option<Arc<T>> {
        let block = self.blocks.get(number)?.swap(None)?;
        self.cache.used.fetch_sub(block.memory(), Relaxed);
        self.cache.blocks.fetch_sub(1, Relaxed);
        Some(block)
    }

    /// Returns the cache that the slots belong to.
    pub(in crate::sst) fn cache(&self) -> Arc<Cache> {
        self.cache.clone()
    }

    /// Size of the slot array in bytes.
    pub(in crate::sst) fn memory(&self) -> usize {
        self.blocks.len() * (size_of::<usize>() + size_of::<u32>())
    }
}

impl<T: CachedObject> CacheSlots<T> {
    /// Frees all blocks. A closed table returns its bytes here, and not when an eviction drops the last reference to
    /// its slots: that would scan them under a lock.
    pub(in crate::sst) fn empty(&self) {
        for slot in &self.blocks {
            // A load is cheaper than a swap, and most slots are empty.
            if slot.load().is_some()
                && let Some(block) = slot.swap(None)
            {
                let used = self.cache.used.fetch_sub(block.memory(), Relaxed).saturating_sub(block.memory());
                self.cache.blocks.fetch_sub(1, Relaxed);
                block.die(&self.cache.spares, self.cache.room().saturating_sub(used));
            }
        }
    }
}

impl<T: CachedObject> Drop for CacheSlots<T> {
    /// The queue entries then refer to dropped slots.
    fn drop(&mut self) {
        self.empty();
    }
}
