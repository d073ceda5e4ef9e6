//! The cache for large values: values share the budget and the eviction order of blocks.
//!
//! In:    a pointer, as a record holds it.
//! Out:   the cached value that was read for exactly that pointer, or none.
//! Holds: a value is found only by its entire pointer, so that a value of another file, offset, length or hash never
//!        matches. Values are returned unchecked; a read that verifies checks the value every time, as with blocks.
//!
//! Slots: one array for all blob files of a cache. Its length is the number of values of the smallest usual length that
//! fit into the budget, so it grows with neither files nor data. A pointer maps to a few slots. If all are taken, one
//! that was not read recently is replaced.
//!
//! Admission: a value is cached when it is read a second time, with fewer other values read in between than there are
//! slots. To fill memory that was never touched costs more than ten reads from the page cache save, so values read once
//! are not cached.
//!
//! Limit: a value larger than 1/512 of the budget is not cached. Small budgets cache values of up to 64 KiB if they
//! take at most 1/4.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::buffer_pool::BufferPool;
use super::cache::{Cache, CacheSlots, CachedObject, Charge};
use crate::checksum::mix;
use crate::options::{KIB, MIB};
use crate::planted;
use crate::pointer::Pointer;

/// Maximum share of the budget for one value: 512 KiB of the default budget. A larger value is read from the page cache
/// faster than memory for it is made available.
const SHARE: usize = 512;

/// With a small budget, values up to this size are cached if they take at most 1/4 of the budget.
const SMALL: usize = 64 * KIB;
const SMALL_SHARE: usize = 4;

/// Budget bytes per slot.
const SLOT_BYTES: usize = 4 * KIB;

/// Maximum number of slots, enough for 16 GiB of values of the smallest usual length.
const MOST_SLOTS: usize = 4 * MIB;

/// Number of consecutive slots that a pointer maps to.
const WAYS: usize = 8;

/// A cached value, uncompressed.
pub struct LargeValue {
    pointer: Pointer,
    /// The value, followed by other bytes of the same read.
    bytes: Vec<u8>,
    length: usize,
    is_hot: AtomicBool,
}

impl LargeValue {
    /// Creates a value from the first `length` of these bytes; from all of them if there are fewer.
    pub fn new(pointer: Pointer, bytes: Vec<u8>, length: usize) -> LargeValue {
        LargeValue { pointer, length: length.min(bytes.len()), bytes, is_hot: AtomicBool::new(false) }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl CachedObject for LargeValue {
    fn memory(&self) -> usize {
        self.bytes.capacity() + size_of::<LargeValue>() + 2 * size_of::<usize>()
    }

    fn cool(&self) -> bool {
        self.is_hot.swap(false, Relaxed)
    }

    fn leave(mut self: Arc<Self>, spares: &BufferPool) {
        if let Some(large) = Arc::get_mut(&mut self) {
            large.length = 0;
            spares.give(mem::take(&mut large.bytes));
        }
    }

    fn shared(self, _: &BufferPool) -> Arc<Self> {
        Arc::new(self)
    }
}

impl fmt::Debug for LargeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value of {} bytes", self.length)
    }
}

/// The large values of a cache.
#[derive(Debug)]
pub struct LargeValues {
    cache: Arc<Cache>,
    slots: OnceLock<Arc<CacheSlots<LargeValue>>>,
    traces: OnceLock<Arc<RecentReads>>,
}

/// For each slot, a fingerprint of the pointer that was last read there.
#[derive(Debug)]
pub(in crate::sst) struct RecentReads {
    last: Box<[AtomicU32]>,
    _room: Charge,
}

impl LargeValues {
    /// Returns the large values of a cache; all callers share them.
    pub fn of(cache: Arc<Cache>) -> LargeValues {
        LargeValues { cache, slots: OnceLock::new(), traces: OnceLock::new() }
    }

    /// Creates an empty charge to the same budget.
    pub fn charge(&self) -> Charge {
        Charge::new(self.cache.clone(), 0)
    }

    /// Returns true if a value of this length may be cached.
    pub fn keeps(&self, length: usize) -> bool {
        let budget = self.cache.most();
        length <= (budget / SHARE).max(SMALL.min(budget / SMALL_SHARE))
    }

    /// Returns true if a value that is being read should be cached: its length permits it, and it was read before.
    pub fn invites(&self, pointer: &Pointer) -> bool {
        if !self.keeps(pointer.raw_len as usize) {
            return false;
        }
        let last = &self.traces.get_or_init(|| self.shared_traces()).last;
        let name = name_of(pointer);
        let trace = name as u32 | 1;
        last.get(place_of(name, last.len())).is_some_and(|last| last.swap(trace, Relaxed) == trace)
    }

    /// Returns a buffer, with any content, for a value to be cached.
    pub fn buffer(&self, length: usize) -> Vec<u8> {
        self.cache.spares.take(length)
    }

    /// Returns the value of a pointer, if it is cached.
    #[inline]
    pub fn find(&self, pointer: &Pointer) -> Option<Arc<LargeValue>> {
        let slots = self.slots.get()?;
        ways(slots, pointer).find_map(|at| {
            let slot = slots.slot(at).load();
            let large = slot.as_ref().filter(|large| is_of(large, pointer))?;
            if !large.is_hot.load(Relaxed) {
                large.is_hot.store(true, Relaxed);
            }
            Some(Arc::clone(large))
        })
    }

    /// Caches a value if there is room and its pointer has no cached value; returns the value.
    pub fn keep(&self, large: LargeValue) -> Arc<LargeValue> {
        let slots = self.slots.get_or_init(|| self.shared());
        let (mut cold, mut first) = (None, None);
        for at in ways(slots, &large.pointer) {
            let slot = slots.slot(at).load_full();
            match slot {
                None => {
                    let large = Arc::new(large);
                    slots.put(at, large.clone());
                    return large;
                }
                // Keep this copy: another thread's value was not checked by this one.
                Some(same) if same.pointer == large.pointer => return Arc::new(large),
                Some(other) if cold.is_none() && !other.cool() => cold = Some((at, other)),
                Some(other) => {
                    first.get_or_insert((at, other));
                }
            }
        }
        match cold.or(first) {
            Some((at, other)) => slots.put_instead(at, other, Arc::new(large)),
            None => Arc::new(large),
        }
    }

    /// Removes a value that does not match its pointer.
    pub fn remove(&self, large: &Arc<LargeValue>) {
        let Some(slots) = self.slots.get() else { return };
        for at in ways(slots, &large.pointer) {
            if slots.slot(at).load().as_ref().is_some_and(|there| Arc::ptr_eq(there, large)) {
                drop(slots.take(at));
            }
        }
    }

    /// Flips bits of one byte of a cached value, for tests of corruption detection. Returns false if the value is not
    /// cached.
    #[doc(hidden)]
    pub fn damage(&self, pointer: &Pointer, byte: usize, mask: u8) -> bool {
        let Some(there) = self.find(pointer) else { return false };
        let mut bytes = there.value().to_vec();
        let Some(hit) = bytes.get_mut(byte) else { return false };
        *hit ^= mask;
        self.remove(&there);
        let length = bytes.len();
        self.keep(LargeValue::new(*pointer, bytes, length));
        true
    }

    fn shared(&self) -> Arc<CacheSlots<LargeValue>> {
        self.cache.shared(|| {
            let slots = CacheSlots::new(slots_of(&self.cache), self.cache.clone());
            slots.pin(slots.memory());
            slots
        })
    }

    fn shared_traces(&self) -> Arc<RecentReads> {
        self.cache.shared(|| {
            let last: Box<[AtomicU32]> = (0..slots_of(&self.cache)).map(|_| AtomicU32::new(0)).collect();
            let _room = Charge::new(self.cache.clone(), size_of_val(&*last));
            RecentReads { last, _room }
        })
    }
}

/// Returns whether this is the value of a pointer.
fn is_of(large: &LargeValue, pointer: &Pointer) -> bool {
    planted!(CachedValueOfAnotherPointer, true, large.pointer == *pointer)
}

/// Returns the slots in which the value of a pointer may be.
fn ways(slots: &CacheSlots<LargeValue>, pointer: &Pointer) -> impl Iterator<Item = usize> + use<> {
    let count = slots.count();
    let first = place_of(name_of(pointer), count);
    (first..first + WAYS).map(move |at| if at < count { at } else { at - count })
}

/// Returns the number of slots for large values of a cache with its budget.
fn slots_of(cache: &Cache) -> usize {
    (cache.most() / SLOT_BYTES).clamp(WAYS, MOST_SLOTS)
}

fn name_of(pointer: &Pointer) -> u64 {
    mix(pointer.offset ^ pointer.value_hash)
}

fn place_of(name: u64, count: usize) -> usize {
    ((u128::from(name) * count as u128) >> 64) as usize
}
