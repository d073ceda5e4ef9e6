//! What blocks that went leave to blocks that come: their buffers, and their own memory.
//!
//! Why:   an allocator keeps what a thread gives back for threads of the same part of it. A cache whose blocks one thread loads and
//!        another one evicts so comes to twice its budget, with as many threads as there are parts to more. In a full cache a block is
//!        read into the buffer of one that made way, which also costs neither a call of the allocator nor zeros. A block itself is larger than what
//!        allocators keep at hand, and begins at a cache line: asking for one and giving it back are a tenth of a read that is not cached.
//! In:    the bytes of what nobody holds any longer, and blocks without any (shells). Out: a buffer of a length that is asked for, of any content: whoever
//!        asks fills it; a block, shared.
//! Holds: few buffers and shells, within a small part of the budget that is theirs alone. Beside them the **legacy**: what blocks of tables that died have
//!        left, in room that blocks do not take; the blocks that come in their place find it here, and not as holes in the allocator's memory.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::block::Block;
use crate::env::work::lock;

/// Buffers at most.
const COUNT: usize = 32;

/// The part of a budget that they may take.
const SHARE: usize = 128;

/// Lengths of buffers differ by about this part of them.
const STEPS: usize = 32;

/// A buffer fits if no more than this part of it stays empty.
const SLACK: usize = 8;

/// The part of a budget that the legacy may take.
const LEGACY_SHARE: usize = 4;

/// What a cache holds for the blocks that come next.
#[derive(Debug)]
pub(super) struct Spares {
    most: usize,
    bytes: AtomicUsize,
    each: Mutex<VecDeque<Vec<u8>>>,
    /// Blocks that nobody else holds, and that hold nothing.
    shells: Mutex<Vec<Arc<Block>>>,
    legacy: Legacy,
}

/// What blocks of tables that died have left.
#[derive(Debug, Default)]
struct Legacy {
    most: usize,
    bytes: AtomicUsize,
    buffers: Mutex<Vec<Vec<u8>>>,
    shells: Mutex<Vec<Arc<Block>>>,
}

impl Spares {
    /// Those of a budget.
    pub(super) fn within(budget: usize) -> Spares {
        Spares {
            most: budget / SHARE,
            bytes: AtomicUsize::new(0),
            each: Mutex::default(),
            shells: Mutex::default(),
            legacy: Legacy { most: budget / LEGACY_SHARE, ..Legacy::default() },
        }
    }

    /// Bytes of the legacy, which give way to blocks.
    pub(super) fn legacy_bytes(&self) -> usize {
        self.legacy.bytes.load(Relaxed)
    }

    /// Keeps what a block of a table that died leaves, if nobody holds it and there is room for so many bytes.
    pub(super) fn inherit(&self, mut block: Arc<Block>, room: usize) {
        let Some(own) = Arc::get_mut(&mut block) else { return };
        let (legacy, bytes) = (&self.legacy, own.memory());
        if legacy.bytes.load(Relaxed) + bytes > room.min(legacy.most) {
            return;
        }
        let buffer = own.take_bytes();
        legacy.bytes.fetch_add(buffer.capacity() + size_of::<Block>(), Relaxed);
        lock(&legacy.buffers).push(buffer);
        lock(&legacy.shells).push(block);
    }

    /// Lets go of a piece of the legacy; false if there is none.
    pub(super) fn let_go(&self) -> bool {
        let legacy = &self.legacy;
        let (buffer, shell) = (lock(&legacy.buffers).pop(), lock(&legacy.shells).pop());
        let bytes = buffer.as_ref().map_or(0, Vec::capacity) + shell.iter().len() * size_of::<Block>();
        legacy.bytes.fetch_sub(bytes, Relaxed);
        buffer.is_some() || shell.is_some()
    }

    /// Bytes that they may take.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Bytes that they take.
    fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Keeps a buffer; those that were given longest ago go for it. What a store read once, large or small, so makes way for what it reads now.
    pub(super) fn give(&self, buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() > self.most {
            return;
        }
        self.bytes.fetch_add(buffer.capacity(), Relaxed);
        lock(&self.each).push_back(buffer);
        while let Some(oldest) = self.too_many() {
            self.bytes.fetch_sub(oldest.capacity(), Relaxed);
        }
    }

    /// The oldest buffer, if there are too many or they are too large; freed outside of the lock.
    fn too_many(&self) -> Option<Vec<u8>> {
        let mut each = lock(&self.each);
        (each.len() > COUNT || self.bytes() > self.most).then(|| each.pop_front()).flatten()
    }

    /// Keeps a block that nobody else holds and whose bytes were taken.
    pub(super) fn give_shell(&self, shell: Arc<Block>) {
        let mut shells = lock(&self.shells);
        let has_room = (shells.len() + 1) * size_of::<Block>() <= self.most / 4;
        if shells.len() < COUNT && has_room && self.bytes() + size_of::<Block>() <= self.most {
            self.bytes.fetch_add(size_of::<Block>(), Relaxed);
            shells.push(shell);
        }
    }

    /// A block in the memory of one that went, if there is any.
    pub(super) fn fill_shell(&self, block: Block) -> Arc<Block> {
        let own = lock(&self.shells).pop().inspect(|_| {
            self.bytes.fetch_sub(size_of::<Block>(), Relaxed);
        });
        let Some(mut shell) = own.or_else(|| self.legacy.take_shell()) else { return Arc::new(block) };
        match Arc::get_mut(&mut shell) {
            Some(place) => {
                *place = block;
                shell
            }
            None => Arc::new(block),
        }
    }

    /// A buffer of so many bytes, whatever they are: one in which they fit closely, else the shortest that has room, or the longest that
    /// has nearly, made longer where it lies; a new one if none is of about this length.
    pub(super) fn take(&self, length: usize) -> Vec<u8> {
        let mut each = lock(&self.each);
        let whole = rounded(length);
        let close = whole..=whole + whole / SLACK;
        let at = each.iter().rposition(|buffer| close.contains(&buffer.capacity()));
        if at.is_none()
            && let Some(mut buffer) = self.legacy.take(&close)
        {
            buffer.resize(length, 0);
            return buffer;
        }
        let at = at.or_else(|| nearest(&each, length));
        let Some(mut buffer) = at.and_then(|at| each.remove(at)) else {
            drop(each);
            let mut buffer = vec![0; whole];
            buffer.truncate(length);
            return buffer;
        };
        self.bytes.fetch_sub(buffer.capacity(), Relaxed);
        drop(each);
        if buffer.capacity() > *close.end() {
            buffer.truncate(length);
            buffer.shrink_to(whole);
        }
        buffer.reserve_exact(whole.saturating_sub(buffer.len()));
        buffer.resize(length, 0);
        buffer
    }
}

impl Legacy {
    /// A buffer of such a length, if one is among those that came last.
    fn take(&self, close: &RangeInclusive<usize>) -> Option<Vec<u8>> {
        if self.bytes.load(Relaxed) == 0 {
            return None;
        }
        let mut buffers = lock(&self.buffers);
        let from = buffers.len().saturating_sub(COUNT);
        let at = buffers[from..].iter().rposition(|buffer| close.contains(&buffer.capacity()))?;
        let buffer = buffers.swap_remove(from + at);
        self.bytes.fetch_sub(buffer.capacity(), Relaxed);
        Some(buffer)
    }

    fn take_shell(&self) -> Option<Arc<Block>> {
        if self.bytes.load(Relaxed) == 0 {
            return None;
        }
        let shell = lock(&self.shells).pop()?;
        self.bytes.fetch_sub(size_of::<Block>(), Relaxed);
        Some(shell)
    }
}

/// A length with room up to the next of a few: what one block leaves to an allocator then is what another one asks for.
fn rounded(length: usize) -> usize {
    length.next_multiple_of((length / STEPS + 1).next_power_of_two())
}

/// The buffer that is best made to hold so many bytes, if one is of about that length.
fn nearest(each: &VecDeque<Vec<u8>>, length: usize) -> Option<usize> {
    let about = length / 2..=length.saturating_mul(2);
    let fitting = each.iter().enumerate().filter(|(_, buffer)| about.contains(&buffer.capacity()));
    let best = fitting.min_by_key(|(_, buffer)| (buffer.capacity() < length, buffer.capacity().abs_diff(length)));
    best.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_in_about_its_length_and_counts_while_it_is_here() {
        let spares = Spares::within(SHARE * 10_000);
        assert_eq!((spares.take(100), spares.bytes()), (vec![0; 100], 0));
        for length in [4000, 1000, 3000, 2000] {
            spares.give(vec![7; length]);
        }
        assert_eq!(spares.bytes(), 10_000);
        assert_eq!(
            (spares.take(8002).len(), spares.take(499).len(), spares.bytes()),
            (8002, 499, 10_000),
            "none is like it"
        );
        let shortest = spares.take(2800);
        assert_eq!((shortest.len(), shortest.capacity(), spares.bytes()), (2800, 3000, 7000));
        let longer = spares.take(7000);
        assert_eq!((longer.len(), longer.capacity(), spares.bytes()), (7000, rounded(7000), 3000));
        let shorter = spares.take(500);
        assert_eq!((shorter.len(), spares.bytes()), (500, 2000));
        assert!(shorter.capacity() <= 500 + 500 / SLACK);
    }

    #[test]
    fn lengths_that_are_about_the_same_take_the_same_room() {
        for length in 1..100_000usize {
            let room = rounded(length);
            assert!(length <= room && room <= length + length / 16, "{room} for {length}");
        }
        assert_eq!([3970, 4000, 4096, 4097].map(rounded), [4096, 4096, 4096, 4352]);
        let spares = Spares::within(SHARE * 10_000);
        assert_eq!((spares.take(4000).len(), spares.take(4000).capacity()), (4000, 4096));
    }

    #[test]
    fn where_there_are_too_many_or_too_much_the_oldest_go() {
        let spares = Spares::within(SHARE * 10_000);
        spares.give(Vec::new());
        (1..=COUNT).for_each(|length| spares.give(vec![1; length]));
        let all = COUNT * (COUNT + 1) / 2;
        assert_eq!(spares.bytes(), all);
        spares.give(vec![1; 100]);
        assert_eq!(spares.bytes(), all + 99);
        spares.give(vec![1; 10_000]);
        assert_eq!(spares.bytes(), 10_000, "what is read now is of this length");
        spares.give(vec![1; 10_001]);
        spares.give(vec![1; 20]);
        assert_eq!(spares.bytes(), 20);
    }

    #[test]
    fn a_small_budget_keeps_none() {
        let spares = Spares::within(SHARE * 8 - 1);
        spares.give(vec![1; 8]);
        assert_eq!(spares.bytes(), 0);
    }
}
