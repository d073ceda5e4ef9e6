//! Large values in memory: they stand in the budget of blocks, and go in the same order.
//!
//! In:    a pointer, as a record holds it. Out: the value that was read for that very pointer, or none.
//! Holds: a value is found only by the whole of its pointer, so that no other file, place, length or hash passes for it. It is given out as
//!        it lies in memory: whoever is asked to check, checks it at every read, as with blocks.
//! Slots: one array for all value files of a cache, as long as its budget may hold values of the least usual length: it grows with neither
//!        files nor data. A pointer has a few slots; where others stand in all of them, one that was not read lately makes way.
//! Door:  a value is kept when it is read a second time within as many others as there are slots: to bring one into memory that was never touched costs
//!        more than reading it out of the system's page cache saves in ten reads, so what is read once passes.
//! Limit: a value above a 512th of the budget is not kept; small budgets keep those up to 64 KiB that are no more than a quarter.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::cache::{Cache, Charge, Kept, Slots};
use super::spare::Spares;
use crate::checksum::mix;
use crate::env::work::lock;
use crate::options::{KIB, MIB};
use crate::planted::{self, Bug};
use crate::pointer::Pointer;

/// The part of a budget that one value may take: half a megabyte of the usual one. A whole one is read from the page cache in less time than its room takes.
const SHARE: usize = 512;

/// Small budgets keep values up to this, if they are no more than a part of it.
const SMALL: usize = 64 * KIB;
const SMALL_SHARE: usize = 4;

/// Bytes of the budget for which there is a slot.
const SLOT_BYTES: usize = 4 * KIB;

/// The most slots, enough for 16 GiB of values of the least usual length.
const MOST_SLOTS: usize = 4 * MIB;

/// Slots of a pointer, one behind the other.
const WAYS: usize = 8;

/// A value in memory, as it was put.
pub struct Large {
    pointer: Pointer,
    /// The value, and what else was read with it.
    bytes: Vec<u8>,
    length: usize,
    is_hot: AtomicBool,
}

impl Large {
    /// The first `length` of these bytes; all of them, if there are fewer.
    pub fn new(pointer: Pointer, bytes: Vec<u8>, length: usize) -> Large {
        Large { pointer, length: length.min(bytes.len()), bytes, is_hot: AtomicBool::new(false) }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Kept for Large {
    fn memory(&self) -> usize {
        self.bytes.capacity() + size_of::<Large>() + 2 * size_of::<usize>()
    }

    fn cool(&self) -> bool {
        self.is_hot.swap(false, Relaxed)
    }

    fn leave(mut self: Arc<Self>, spares: &Spares) {
        if let Some(large) = Arc::get_mut(&mut self) {
            large.length = 0;
            spares.give(mem::take(&mut large.bytes));
        }
    }

    fn shared(self, _: &Spares) -> Arc<Self> {
        Arc::new(self)
    }
}

impl fmt::Debug for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value of {} bytes", self.length)
    }
}

/// The large values of a cache.
#[derive(Debug)]
pub struct LargeValues {
    cache: Arc<Cache>,
    slots: OnceLock<Arc<Slots<Large>>>,
    traces: OnceLock<Arc<Traces>>,
}

/// For each slot a trace of who was read there last.
#[derive(Debug)]
pub(super) struct Traces {
    last: Box<[AtomicU32]>,
    _room: Charge,
}

impl LargeValues {
    /// Those of a cache, which all who ask for it share.
    pub fn of(cache: Arc<Cache>) -> LargeValues {
        LargeValues { cache, slots: OnceLock::new(), traces: OnceLock::new() }
    }

    /// Room that counts in the same budget, of no bytes yet.
    pub fn charge(&self) -> Charge {
        Charge::new(self.cache.clone(), 0)
    }

    /// True if a value of this length may be kept.
    pub fn keeps(&self, length: usize) -> bool {
        let budget = self.cache.most();
        length <= (budget / SHARE).max(SMALL.min(budget / SMALL_SHARE))
    }

    /// True if the value of a pointer is to be kept now that it is read: it may be, and was read before.
    pub fn invites(&self, pointer: &Pointer) -> bool {
        if !self.keeps(pointer.raw_len as usize) {
            return false;
        }
        let last = &self.traces.get_or_init(|| self.shared_traces()).last;
        let name = name_of(pointer);
        let trace = name as u32 | 1;
        last.get(place_of(name, last.len())).is_some_and(|last| last.swap(trace, Relaxed) == trace)
    }

    /// A buffer for a value that is to be kept, of whatever bytes.
    pub fn buffer(&self, length: usize) -> Vec<u8> {
        self.cache.spares.take(length)
    }

    /// The value of a pointer, if it is in memory.
    #[inline]
    pub fn find(&self, pointer: &Pointer) -> Option<Arc<Large>> {
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

    /// Keeps a value if there is room and none stands there for its pointer; answers it.
    pub fn keep(&self, large: Large) -> Arc<Large> {
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
                // What another thread has put there was not checked by this one.
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

    /// Takes out a value that is not what its pointer says.
    pub fn remove(&self, large: &Arc<Large>) {
        let Some(slots) = self.slots.get() else { return };
        for at in ways(slots, &large.pointer) {
            if slots.slot(at).load().as_ref().is_some_and(|there| Arc::ptr_eq(there, large)) {
                drop(slots.take(at));
            }
        }
    }

    /// Turns over bits of a byte of a value in memory, for tests of what finds it. False if it is not there.
    #[doc(hidden)]
    pub fn damage(&self, pointer: &Pointer, byte: usize, mask: u8) -> bool {
        let Some(there) = self.find(pointer) else { return false };
        let mut bytes = there.value().to_vec();
        let Some(hit) = bytes.get_mut(byte) else { return false };
        *hit ^= mask;
        self.remove(&there);
        let length = bytes.len();
        self.keep(Large::new(*pointer, bytes, length));
        true
    }

    fn shared(&self) -> Arc<Slots<Large>> {
        let mut known = lock(&self.cache.large);
        known.upgrade().unwrap_or_else(|| {
            let slots = Arc::new(Slots::new(slots_of(&self.cache), self.cache.clone()));
            *known = Arc::downgrade(&slots);
            slots.pin(slots.memory());
            slots
        })
    }

    fn shared_traces(&self) -> Arc<Traces> {
        let mut known = lock(&self.cache.traces);
        known.upgrade().unwrap_or_else(|| {
            let last: Box<[AtomicU32]> = (0..slots_of(&self.cache)).map(|_| AtomicU32::new(0)).collect();
            let _room = Charge::new(self.cache.clone(), size_of_val(&*last));
            let traces = Arc::new(Traces { last, _room });
            *known = Arc::downgrade(&traces);
            traces
        })
    }
}

/// Whether this is the value of a pointer.
fn is_of(large: &Large, pointer: &Pointer) -> bool {
    large.pointer == *pointer || planted::active(Bug::CachedValueOfAnotherPointer)
}

/// The slots where the value of a pointer may be.
fn ways(slots: &Slots<Large>, pointer: &Pointer) -> impl Iterator<Item = usize> + use<> {
    let count = slots.count();
    let first = place_of(name_of(pointer), count);
    (first..first + WAYS).map(move |at| if at < count { at } else { at - count })
}

/// How many slots a cache has for large values, whatever budget it was given.
fn slots_of(cache: &Cache) -> usize {
    (cache.most() / SLOT_BYTES).clamp(WAYS, MOST_SLOTS)
}

fn name_of(pointer: &Pointer) -> u64 {
    mix(pointer.offset ^ pointer.value_hash)
}

fn place_of(name: u64, count: usize) -> usize {
    ((u128::from(name) * count as u128) >> 64) as usize
}
