//! Recycled memory of evicted blocks, for new blocks: byte buffers, and the `Block` allocations themselves.
//!
//! Why: allocators keep freed memory per arena. If one thread loads blocks and another evicts them, a cache grows to
//! twice its budget, and to more with as many threads as arenas. In a full cache, a block is therefore read into the
//! buffer of an evicted one. This also saves allocator calls and zeroing. A `Block` is larger than the sizes that
//! allocators cache, and is aligned to a cache line: allocating and freeing one takes a tenth of an uncached read.
//!
//! In:    the buffers of released blocks, and empty blocks (shells).
//! Out:   a buffer of the requested length, with any content, which the caller overwrites; or a shared block. Lengths
//!        are rounded up to a few size classes, so that a buffer, here or in the allocator, fits later requests.
//! Holds: few buffers and shells, in a small share of the budget that is reserved for them. In addition the **legacy**:
//!        memory of blocks of closed tables, in room that blocks do not take. Blocks of the replacing tables find it
//!        here, instead of leaving holes in the allocator's memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::env::work::lock;
use crate::env::{check_room, populate};
use crate::sst::block::block::Block;

/// Maximum number of buffers.
const COUNT: usize = 32;

/// Their maximum share of the budget.
const SHARE: usize = 128;

/// Size classes of buffers differ by about this fraction of their length.
const STEPS: usize = 32;

/// Maximum share of the budget for the legacy.
const LEGACY_SHARE: usize = 4;

/// Memory kept for future blocks.
#[derive(Debug)]
pub(in crate::sst) struct BufferPool {
    /// Memory of recently evicted blocks, in reserved room.
    latest: FreeList,
    /// Memory of blocks of closed tables, in room that blocks may reclaim.
    legacy: FreeList,
}

impl BufferPool {
    /// Creates the spares for a budget.
    pub(in crate::sst) fn within(budget: usize) -> BufferPool {
        BufferPool { latest: FreeList::within(budget / SHARE), legacy: FreeList::within(budget / LEGACY_SHARE) }
    }

    /// Maximum bytes, without the legacy.
    pub(in crate::sst) fn most(&self) -> usize {
        self.latest.most
    }

    /// Bytes of the legacy, which are freed when blocks need the room.
    pub(in crate::sst) fn legacy_bytes(&self) -> usize {
        self.legacy.bytes()
    }

    /// Keeps the memory of a block of a closed table, if nothing else holds the block and the legacy fits into `room`.
    pub(in crate::sst) fn inherit(&self, mut block: Arc<Block>, room: usize) {
        let Some(own) = Arc::get_mut(&mut block) else { return };
        if self.legacy.bytes() + own.memory() > room.min(self.legacy.most) {
            return;
        }
        self.legacy.put(own.take_bytes());
        self.legacy.put_shell(block);
    }

    /// Frees all memory kept here.
    pub(in crate::sst) fn release(&self) {
        [&self.latest, &self.legacy].into_iter().for_each(FreeList::clear);
    }

    /// Frees one piece of the legacy; returns false if there is none.
    pub(in crate::sst) fn let_go(&self) -> bool {
        let buffer = self.legacy.take(|each| each.len().checked_sub(1));
        let shell = self.legacy.take_shell();
        buffer.is_some() || shell.is_some()
    }

    /// Keeps a buffer, and frees the oldest ones beyond the limits. Thus sizes that are no longer read give way to
    /// those read now.
    pub(in crate::sst) fn give(&self, buffer: Vec<u8>) {
        let latest = &self.latest;
        if buffer.capacity() == 0 || buffer.capacity() > latest.most {
            return;
        }
        latest.put(buffer);
        while latest.take(|each| (each.len() > COUNT || latest.bytes() > latest.most).then_some(0)).is_some() {}
    }

    /// Keeps an unshared block whose bytes were taken.
    pub(in crate::sst) fn give_shell(&self, shell: Arc<Block>) {
        let latest = &self.latest;
        let shells = lock(&latest.shells).len();
        let has_room = (shells + 1) * size_of::<Block>() <= latest.most / 4;
        if shells < COUNT && has_room && latest.bytes() + size_of::<Block>() <= latest.most {
            latest.put_shell(shell);
        }
    }

    /// Moves a block into a recycled allocation, if there is one.
    pub(in crate::sst) fn fill_shell(&self, block: Block) -> Arc<Block> {
        let Some(mut shell) = self.latest.take_shell().or_else(|| self.legacy.take_shell()) else {
            return Arc::new(block);
        };
        match Arc::get_mut(&mut shell) {
            Some(place) => {
                *place = block;
                shell
            }
            None => Arc::new(block),
        }
    }

    /// Returns a buffer of this length with any content: a recycled one of exactly the rounded capacity, or a new one.
    /// Buffers of other capacities are not used: if longer ones were accepted or shorter ones grown, the longest would
    /// accumulate, and shorter ones would be idle in the allocator.
    pub(in crate::sst) fn take(&self, length: usize) -> Vec<u8> {
        let room = rounded(length);
        let of_room = |each: &VecDeque<Vec<u8>>| last_of(each, room);
        let Some(mut buffer) = self.latest.take(of_room).or_else(|| self.legacy.take(of_room)) else {
            // The caller has checked that there is memory for `length` bytes, not for the size class.
            let mut buffer = vec![0; if check_room(room).is_ok() { room } else { length }];
            populate(&mut buffer);
            buffer.truncate(length);
            return buffer;
        };
        buffer.resize(length, 0);
        buffer
    }
}

/// Buffers in order of arrival, and unshared empty blocks (shells).
#[derive(Debug)]
struct FreeList {
    /// Maximum bytes.
    most: usize,
    /// Current bytes.
    bytes: AtomicUsize,
    buffers: Mutex<VecDeque<Vec<u8>>>,
    shells: Mutex<Vec<Arc<Block>>>,
}

impl FreeList {
    fn within(most: usize) -> FreeList {
        FreeList { most, bytes: AtomicUsize::new(0), buffers: Mutex::default(), shells: Mutex::default() }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn clear(&self) {
        while self.take(|each| each.len().checked_sub(1)).is_some() {}
        while self.take_shell().is_some() {}
    }

    fn put(&self, buffer: Vec<u8>) {
        self.bytes.fetch_add(buffer.capacity(), Relaxed);
        lock(&self.buffers).push_back(buffer);
    }

    fn put_shell(&self, shell: Arc<Block>) {
        self.bytes.fetch_add(size_of::<Block>(), Relaxed);
        lock(&self.shells).push(shell);
    }

    /// Removes the chosen buffer, if any. The caller frees it outside of the lock.
    fn take(&self, choose: impl FnOnce(&VecDeque<Vec<u8>>) -> Option<usize>) -> Option<Vec<u8>> {
        if self.bytes() == 0 {
            return None;
        }
        let mut buffers = lock(&self.buffers);
        let buffer = choose(&buffers).and_then(|at| buffers.remove(at))?;
        self.bytes.fetch_sub(buffer.capacity(), Relaxed);
        Some(buffer)
    }

    fn take_shell(&self) -> Option<Arc<Block>> {
        if self.bytes() == 0 {
            return None;
        }
        let shell = lock(&self.shells).pop()?;
        self.bytes.fetch_sub(size_of::<Block>(), Relaxed);
        Some(shell)
    }
}

/// Returns the newest of the last few buffers with exactly this capacity.
fn last_of(each: &VecDeque<Vec<u8>>, room: usize) -> Option<usize> {
    let from = each.len().saturating_sub(COUNT);
    let at = each.range(from..).rposition(|buffer| buffer.capacity() == room)?;
    Some(from + at)
}

/// Rounds a length up to its size class, so that the memory freed by one block fits the next request.
fn rounded(length: usize) -> usize {
    length.next_multiple_of((length / STEPS + 1).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_in_the_room_that_it_had_and_counts_while_it_is_here() {
        let spares = BufferPool::within(SHARE * 20_000);
        assert_eq!((spares.take(100), spares.latest.bytes()), (vec![0; 100], 0));
        let rooms = [4000, 1000, 3000, 2000].map(rounded);
        rooms.iter().for_each(|room| spares.give(vec![7; *room]));
        let all: usize = rooms.iter().sum();
        assert_eq!(spares.latest.bytes(), all);
        let fits = spares.take(2999);
        assert_eq!((fits.len(), fits.capacity(), fits[0]), (2999, rounded(3000), 7));
        assert_eq!(spares.latest.bytes(), all - rounded(3000));
    }

    #[test]
    fn no_buffer_takes_what_is_longer_or_shorter_from_those_who_ask_for_that() {
        // Otherwise all buffers would soon have the longest length, and as much memory would be idle in the allocator.
        let spares = BufferPool::within(SHARE * 100_000);
        let lengths = [4300, 4600, 4350, 4590, 4100];
        let mut here: Vec<Vec<u8>> = lengths.iter().map(|length| spares.take(*length)).collect();
        for turn in 0..1000 {
            spares.give(here.remove(0));
            here.push(spares.take(lengths[turn * 7 % 5]));
            assert!(here.iter().all(|buffer| buffer.capacity() == rounded(buffer.len())));
        }
        let taken: usize = here.iter().map(Vec::capacity).sum();
        assert!(taken + spares.latest.bytes() <= 4 * 5 * 4608, "few of each are ever made");
    }

    #[test]
    fn lengths_that_are_about_the_same_take_the_same_room() {
        for length in 1..100_000usize {
            let room = rounded(length);
            assert!(length <= room && room <= length + length / 16, "{room} for {length}");
        }
        assert_eq!([3970, 4000, 4096, 4097].map(rounded), [4096, 4096, 4096, 4352]);
        let spares = BufferPool::within(SHARE * 10_000);
        assert_eq!((spares.take(4000).len(), spares.take(4000).capacity()), (4000, 4096));
    }

    #[test]
    fn where_there_are_too_many_or_too_much_the_oldest_go() {
        let spares = BufferPool::within(SHARE * 10_000);
        spares.give(Vec::new());
        (1..=COUNT).for_each(|length| spares.give(vec![1; length]));
        let all = COUNT * (COUNT + 1) / 2;
        assert_eq!(spares.latest.bytes(), all);
        spares.give(vec![1; 100]);
        assert_eq!(spares.latest.bytes(), all + 99);
        spares.give(vec![1; 10_000]);
        assert_eq!(spares.latest.bytes(), 10_000, "what is read now is of this length");
        spares.give(vec![1; 10_001]);
        spares.give(vec![1; 20]);
        assert_eq!(spares.latest.bytes(), 20);
    }

    #[test]
    fn a_small_budget_keeps_none() {
        let spares = BufferPool::within(SHARE * 8 - 1);
        spares.give(vec![1; 8]);
        assert_eq!(spares.latest.bytes(), 0);
    }
}
