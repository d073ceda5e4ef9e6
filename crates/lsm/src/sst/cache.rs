//! The cache: which blocks of open tables stay in memory, and which large values (`large`).
//!
//! There is no hash table of blocks. Every open table has an array of slots, one per block; a reader loads its slot without waiting and
//! without touching a counter that another core writes. The cache itself holds a budget and, behind locks that only loading
//! and evicting take, the order in which blocks go: a small queue of those seen once, about a tenth, then the main queue.
//! A block that was read again since it came moves on to, or stays in, the main queue. A full cache keeps none that is asked for the first time in
//! long: it is read into memory that is at hand, looked at and let go. Asked for again soon it is kept, in the main queue; of those that come back
//! before as many others went or came so as are here, one in a few. So a scan leaves all alone, and where much more is read than fits no read pays for driving another block out that is worth as much.
//!
//! Budget: the bytes of all blocks in slots never exceed it. Where nothing can be evicted the loaded block is used once and
//! forgotten. Blocks that a cursor still holds after their eviction are not counted. A cache may stand within a budget for everything
//! (`within`): then what others charge to it, memtables and indexes and filters and the room of jobs, takes blocks their place.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use arc_swap::ArcSwapOption;

use super::block::Block;
use super::large::{Large, Traces};
use super::spare::Spares;
use crate::env::work::lock;
use crate::prefetch::prefetch;

/// Queues, so that threads that load at the same time rarely meet.
const SHARDS: usize = 16;

/// How many recently read blocks one eviction passes over before it takes the next one whatever it is: bounds the time of a load.
const MOST_CHANCES: usize = 64;

/// What a block may take above its bytes: this part of them.
const SPARE_PART: usize = 4;

/// What is asked for again before as much as this part of what is here has gone or come is kept for certain.
const SOON_PART: usize = 4;

/// Of what comes later than that one in so many is.
const LATE_ONES: u32 = 4;

/// Spreads moments, so that none is chosen for how many come between (2^32 over the golden ratio).
const SPREAD: u32 = 0x9E37_79B9;

/// Two looks as close as this part of what is here may be of one request.
const AT_ONCE_PART: usize = 16;

/// Memory for blocks, shared by all tables of a store (or of several).
#[derive(Debug)]
pub struct Cache {
    budget: usize,
    /// What blocks and charges together may take; `usize::MAX`: charges are counted and take no place.
    total: usize,
    used: AtomicUsize,
    charged: AtomicUsize,
    blocks: AtomicUsize,
    shards: Vec<Mutex<Shard>>,
    loads: AtomicU64,
    evictions: AtomicU64,
    refused: AtomicU64,
    warmed: AtomicU64,
    clock: Clock,
    /// The shard that gives way next where more was charged.
    turn: AtomicUsize,
    /// Large values, while somebody reads any.
    pub(super) large: Mutex<Weak<Slots<Large>>>,
    /// Who was read last of them.
    pub(super) traces: Mutex<Weak<Traces>>,
    /// What blocks that went have left behind.
    pub(super) spares: Spares,
}

/// Counts what went, and what was read and not kept, to tell how long ago a block was here. Starts at 1: 0 in a slot says never.
#[derive(Debug)]
struct Clock(AtomicU32);

impl Clock {
    /// Another moment.
    fn tick(&self) -> u32 {
        self.0.fetch_add(1, Relaxed) | 1
    }

    /// How many moments ago that was; none: never.
    fn since(&self, moment: u32) -> Option<usize> {
        (moment != 0).then(|| self.0.load(Relaxed).wrapping_sub(moment) as usize)
    }
}

/// What a slot holds.
pub(super) trait Kept: Send + Sync + 'static {
    /// Bytes in memory.
    fn memory(&self) -> usize;

    /// Takes back the note that it was read; answers whether there was one.
    fn cool(&self) -> bool;

    /// It went: what can be used again of it is left, if nobody holds it.
    fn leave(self: Arc<Self>, spares: &Spares);

    /// Its table died: what can be used again is left within so many bytes, if nobody holds it.
    fn die(self: Arc<Self>, _: &Spares, _: usize) {}

    /// It, shared.
    fn shared(self, spares: &Spares) -> Arc<Self>
    where
        Self: Sized;
}

impl Kept for Block {
    fn memory(&self) -> usize {
        Block::memory(self)
    }

    fn cool(&self) -> bool {
        Block::cool(self)
    }

    fn leave(mut self: Arc<Self>, spares: &Spares) {
        if let Some(block) = Arc::get_mut(&mut self) {
            spares.give(block.take_bytes());
            spares.give_shell(self);
        }
    }

    fn die(self: Arc<Self>, spares: &Spares, room: usize) {
        spares.inherit(self, room);
    }

    fn shared(self, spares: &Spares) -> Arc<Self> {
        spares.fill_shell(self)
    }
}

/// Slots of any kind, as the queues see them.
trait Row: Send + Sync {
    /// Takes back the note that what is in a slot was read.
    fn cool(&self, number: usize) -> bool;

    /// Empties a slot at this time.
    fn evict(&self, number: usize, clock: &Clock) -> Option<Arc<dyn Kept>>;
}

/// What a cache has done. Hits are not counted: they are too many to share a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheMetrics {
    /// The budget in bytes.
    pub budget_bytes: u64,
    /// Bytes of the blocks in memory, of large values, and of what blocks of tables that died have left for the next ones.
    pub used_bytes: u64,
    /// Blocks in memory, and large values.
    pub blocks: u64,
    /// Blocks that were read from a file for a read; the jobs' own reads and those of blocks that are damaged are not counted.
    pub loads: u64,
    /// Blocks that went to make room.
    pub evictions: u64,
    /// Those among the loads that were used once and not kept: there was no room, they were not asked for twice, or who read them fills no
    /// cache.
    pub refused: u64,
    /// Blocks that jobs have read in the place of those that were here of the tables that they merged; no loads.
    pub warmed: u64,
    /// Bytes that others have charged: memtables, the ring, indexes and filters of open tables, the room of jobs.
    pub charged_bytes: u64,
}

/// Bytes that stand outside of the cache and count in its budget, until this is dropped.
#[derive(Debug)]
pub struct Charge {
    cache: Arc<Cache>,
    bytes: AtomicUsize,
}

impl Charge {
    /// A charge of so many bytes.
    pub fn new(cache: Arc<Cache>, bytes: usize) -> Charge {
        let charge = Charge { cache, bytes: AtomicUsize::new(0) };
        charge.set(bytes);
        charge
    }

    /// It is so many bytes now. Blocks go at once where they stand in the way.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Relaxed);
        self.cache.charged.fetch_add(bytes.wrapping_sub(before), Relaxed);
        if bytes > before {
            self.cache.shrink();
        }
    }

    /// It is so many bytes more.
    pub fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.cache.charged.fetch_add(bytes, Relaxed);
        self.cache.shrink();
    }

    /// How many bytes it is.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The blocks of one table that are in memory, or the large values.
#[derive(Debug)]
pub(super) struct Slots<T: Kept = Block> {
    blocks: Box<[ArcSwapOption<T>]>,
    /// When each block went last, or was read and not kept, by the cache's clock; 0: never.
    last: Box<[AtomicU32]>,
    cache: Arc<Cache>,
    /// What the table keeps in memory beside its blocks.
    pinned: OnceLock<Charge>,
}

/// A block in a queue.
struct Resident {
    slots: Weak<dyn Row>,
    number: u32,
    bytes: usize,
}

#[derive(Default)]
struct Shard {
    probation: VecDeque<Resident>,
    probation_bytes: usize,
    main: VecDeque<Resident>,
    /// Length of both queues after blocks of closed tables were swept out.
    swept: usize,
}

impl Cache {
    /// A cache of so many bytes. 0: no block is kept.
    pub fn new(bytes: usize) -> Cache {
        Cache::within(bytes, usize::MAX)
    }

    /// The same within a budget for everything that is charged to it: blocks take what charges leave of that, and never more than `bytes`.
    pub fn within(bytes: usize, total: usize) -> Cache {
        Cache {
            budget: bytes,
            total,
            used: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            loads: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            warmed: AtomicU64::new(0),
            clock: Clock(AtomicU32::new(1)),
            turn: AtomicUsize::new(0),
            large: Mutex::default(),
            traces: Mutex::default(),
            spares: Spares::within(bytes.min(total)),
        }
    }

    /// What the cache has done so far.
    pub fn metrics(&self) -> CacheMetrics {
        CacheMetrics {
            budget_bytes: self.budget as u64,
            used_bytes: (self.used.load(Relaxed) + self.spares.legacy_bytes()) as u64,
            blocks: self.blocks.load(Relaxed) as u64,
            loads: self.loads.load(Relaxed),
            evictions: self.evictions.load(Relaxed),
            refused: self.refused.load(Relaxed),
            warmed: self.warmed.load(Relaxed),
            charged_bytes: self.charged() as u64,
        }
    }

    /// True if what others charge takes blocks their room.
    pub fn bounds_charges(&self) -> bool {
        self.total != usize::MAX
    }

    /// What others have charged. Two who change a charge at once may take away before they add.
    fn charged(&self) -> usize {
        let charged = self.charged.load(Relaxed);
        if (charged as isize) < 0 { 0 } else { charged }
    }

    /// Keeps a loaded block if there is or can be made room. Answers the block to use: another thread's, if that came first.
    fn admit<T: Kept>(&self, slots: &Arc<Slots<T>>, number: usize, block: Arc<T>) -> Arc<T> {
        self.loads.fetch_add(1, Relaxed);
        let Some(asked) = slots.last.get(number) else { return block };
        if !self.reserve(block.memory(), number % SHARDS) {
            self.refused.fetch_add(1, Relaxed);
            return block;
        }
        // Two looks of one request are none that returns.
        let since = self.clock.since(asked.load(Relaxed));
        let blocks = self.blocks.load(Relaxed);
        let returns = since.is_some_and(|since| blocks / AT_ONCE_PART < since && since <= blocks);
        self.place(slots, number, &block, returns).unwrap_or(block)
    }

    /// Keeps a block that a job has read, where that takes the place of none. False if there is no room.
    fn admit_unasked<T: Kept>(&self, slots: &Arc<Slots<T>>, number: usize, block: &Arc<T>) -> bool {
        let has_room = number < slots.count() && self.reserve_unused(block.memory());
        if has_room && self.place(slots, number, block, true).is_none() {
            self.warmed.fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Puts a block for which room was reserved in its slot and in a queue; `returns`: in the main one. Answers another thread's, if that came
    /// first.
    fn place<T: Kept>(&self, slots: &Arc<Slots<T>>, number: usize, block: &Arc<T>, returns: bool) -> Option<Arc<T>> {
        let bytes = block.memory();
        let before = slots.blocks[number].compare_and_swap(std::ptr::null(), Some(block.clone()));
        if let Some(first) = &*before {
            self.used.fetch_sub(bytes, Relaxed);
            return Some(first.clone());
        }
        self.blocks.fetch_add(1, Relaxed);
        let slots: Weak<Slots<T>> = Arc::downgrade(slots);
        lock(&self.shards[number % SHARDS]).push(Resident { slots, number: number as u32, bytes }, returns);
        None
    }

    /// Puts one in the place of another, if that is still there and there is room: it goes when the other would have gone.
    fn exchange<T: Kept>(&self, slots: &Slots<T>, number: usize, before: Arc<T>, block: Arc<T>) -> Arc<T> {
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

    /// What blocks may take at most, whatever else there is.
    pub(super) fn most(&self) -> usize {
        self.budget.min(self.total)
    }

    /// Takes bytes of the budget, evicting until they fit. False if they cannot.
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

    /// Takes bytes of the budget that no block has. False if there are not as many.
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

    /// What blocks may take now.
    fn room(&self) -> usize {
        let room = self.budget.min(self.total.saturating_sub(self.charged()));
        room.saturating_sub(self.spares.most())
    }

    /// What one more block is taken for that has so many bytes.
    fn expected(&self, bytes: usize) -> usize {
        let mean = self.used.load(Relaxed) / self.blocks.load(Relaxed).max(1);
        (bytes + bytes / SPARE_PART).max(mean)
    }

    /// True if one that was here at a moment, and is asked for again, is to be kept: there were no more since than there are blocks here. Of
    /// those that come late one in a few is taken, so that what comes round as a whole is here after some rounds, and what merely comes by
    /// costs few others their place.
    fn returns(&self, moment: u32) -> bool {
        let blocks = self.blocks.load(Relaxed);
        let is_one_of_few = moment.wrapping_mul(SPREAD) < u32::MAX / LATE_ONES;
        self.clock.since(moment).is_some_and(|since| since <= blocks / SOON_PART || (since <= blocks && is_one_of_few))
    }

    /// Frees all blocks, values and spare buffers: the store that it belongs to is closed.
    pub(crate) fn release(&self) {
        for shard in &self.shards {
            let Shard { probation, main, .. } = std::mem::take(&mut *lock(shard));
            for Resident { slots, number, .. } in probation.into_iter().chain(main) {
                if let Some(block) = slots.upgrade().and_then(|slots| slots.evict(number as usize, &self.clock)) {
                    self.used.fetch_sub(block.memory(), Relaxed);
                    self.blocks.fetch_sub(1, Relaxed);
                }
            }
        }
        self.spares.release();
    }

    /// Evicts what is too much since more was charged.
    fn shrink(&self) {
        let is_too_much = || self.used.load(Relaxed) + self.spares.legacy_bytes() > self.room();
        while is_too_much() && (self.spares.let_go() || self.evict_one(self.turn.fetch_add(1, Relaxed) % SHARDS)) {}
    }

    /// Evicts one block, from the home shard if it has one.
    fn evict_one(&self, home: usize) -> bool {
        for step in 0..SHARDS {
            let shard = &self.shards[(home + step) % SHARDS];
            let victim = lock(shard).evict(self.room() / 10 / SHARDS, &self.clock);
            // The block itself is freed here, outside of the lock.
            if let Some(Victim { bytes, block, _slots }) = victim {
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

/// What an eviction took out; freed when dropped.
struct Victim {
    bytes: usize,
    block: Arc<dyn Kept>,
    _slots: Arc<dyn Row>,
}

impl Shard {
    fn push(&mut self, resident: Resident, returns: bool) {
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

    /// Forgets blocks of tables that were closed; those gave their bytes back themselves.
    fn sweep(&mut self) {
        let open = |resident: &Resident| resident.slots.strong_count() > 0;
        self.main.retain(open);
        self.probation.retain(open);
        self.probation_bytes = self.probation.iter().map(|resident| resident.bytes).sum();
        self.swept = self.probation.len() + self.main.len();
    }

    /// Takes out the block that is to go; none if no block is here.
    fn evict(&mut self, probation_share: usize, clock: &Clock) -> Option<Victim> {
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
            // None if the block was taken out for another, whose own entry comes.
            let Some(block) = slots.evict(number, clock) else { continue };
            return Some(Victim { bytes: block.memory(), block, _slots: slots });
        }
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lengths = (self.probation.len(), self.main.len());
        f.debug_tuple("Shard").field(&lengths).finish()
    }
}

impl<T: Kept> Row for Slots<T> {
    fn cool(&self, number: usize) -> bool {
        self.blocks[number].load().as_ref().is_some_and(|block| block.cool())
    }

    fn evict(&self, number: usize, clock: &Clock) -> Option<Arc<dyn Kept>> {
        let block = self.blocks[number].swap(None)?;
        self.last[number].store(clock.tick(), Relaxed);
        Some(block)
    }
}

impl<T: Kept> Slots<T> {
    /// Empty slots for a table of so many blocks.
    pub(super) fn new(count: usize, cache: Arc<Cache>) -> Slots<T> {
        Slots {
            blocks: (0..count).map(|_| ArcSwapOption::empty()).collect(),
            last: (0..count).map(|_| AtomicU32::new(0)).collect(),
            cache,
            pinned: OnceLock::new(),
        }
    }

    /// Charges what the table keeps in memory beside its blocks, once.
    pub(super) fn pin(&self, bytes: usize) {
        self.pinned.get_or_init(|| Charge::new(self.cache.clone(), bytes));
    }

    /// Charges what has come on top since.
    pub(super) fn pin_more(&self, bytes: usize) {
        if let Some(pinned) = self.pinned.get() {
            pinned.grow(bytes);
        }
    }

    /// The slot of a block that the index names.
    #[inline]
    pub(super) fn slot(&self, number: usize) -> &ArcSwapOption<T> {
        &self.blocks[number]
    }

    /// Asks for the slot of a block.
    #[inline]
    pub(super) fn prefetch(&self, number: usize) {
        if let Some(slot) = self.blocks.get(number) {
            prefetch(slot);
        }
    }

    /// A buffer for what is to be kept, of whatever bytes.
    pub(super) fn buffer(&self, length: usize) -> Vec<u8> {
        self.cache.spares.take(length)
    }

    /// True if a block of so many bytes that is about to be read is to be kept: there is room, or it was asked for not long ago.
    pub(super) fn admits(&self, number: usize, bytes: usize) -> bool {
        let Some(asked) = self.last.get(number) else { return false };
        let cache = &self.cache;
        if self.has_room(bytes) || cache.returns(asked.load(Relaxed)) {
            return true;
        }
        asked.store(cache.clock.tick(), Relaxed);
        false
    }

    /// True if a block of so many bytes would take the place of none.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let cache = &self.cache;
        cache.used.load(Relaxed) + cache.expected(bytes) <= cache.room()
    }

    /// A block that is used once, and not kept.
    pub(super) fn pass(&self, block: T) -> Arc<T> {
        self.cache.loads.fetch_add(1, Relaxed);
        self.cache.refused.fetch_add(1, Relaxed);
        block.shared(&self.cache.spares)
    }

    /// What is left of it is used again.
    pub(super) fn passed(&self, block: Arc<T>) {
        block.leave(&self.cache.spares);
    }

    /// Keeps a loaded block if there is room; answers the block to use.
    pub(super) fn keep(self: &Arc<Self>, number: usize, block: T) -> Arc<T> {
        self.put(number, block.shared(&self.cache.spares))
    }

    /// Keeps a block that nobody has asked for if it takes the place of none; false if it would.
    pub(super) fn keep_unasked(self: &Arc<Self>, number: usize, block: T) -> bool {
        self.cache.admit_unasked(self, number, &block.shared(&self.cache.spares))
    }

    /// The same of one that is shared already.
    pub(super) fn put(self: &Arc<Self>, number: usize, block: Arc<T>) -> Arc<T> {
        self.cache.admit(self, number, block)
    }

    /// Keeps one in the place of another, if that is still there and there is room.
    pub(super) fn put_instead(&self, number: usize, before: Arc<T>, block: Arc<T>) -> Arc<T> {
        self.cache.exchange(self, number, before, block)
    }

    /// Number of slots.
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Takes a block out; whoever holds it keeps it.
    pub(super) fn take(&self, number: usize) -> Option<Arc<T>> {
        let block = self.blocks.get(number)?.swap(None)?;
        self.cache.used.fetch_sub(block.memory(), Relaxed);
        self.cache.blocks.fetch_sub(1, Relaxed);
        Some(block)
    }

    /// The cache that they are part of.
    pub(super) fn cache(&self) -> Arc<Cache> {
        self.cache.clone()
    }

    /// Bytes of the slots themselves.
    pub(super) fn memory(&self) -> usize {
        self.blocks.len() * (size_of::<usize>() + size_of::<u32>())
    }
}

impl<T: Kept> Slots<T> {
    /// Frees all blocks: a closed table gives its bytes back here, and not where an eviction lets go of the slots at last, which looks at them
    /// under a lock.
    pub(super) fn empty(&self) {
        for slot in &self.blocks {
            // A look is cheaper than a swap, and most are empty.
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

impl<T: Kept> Drop for Slots<T> {
    /// Its entries in the queues no longer lead anywhere.
    fn drop(&mut self) {
        self.empty();
    }
}
