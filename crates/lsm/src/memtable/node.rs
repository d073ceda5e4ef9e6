//! The nodes of a tree of leaves, as words that one thread writes while any number of threads read them.
//!
//! A **leaf** holds one word for each of up to `LEAF` records: half of its key's head in the upper 32 bits, its place
//! in the lower. The first `sorted` words are in order; the others are in insertion order. A leaf is append-only: first
//! the word is written, then the count. A full leaf is never changed again; two new, sorted leaves replace it. An
//! **inner node** holds one word per child, sorted: half of the head of the child's first key in the upper bits, the
//! child's number in the lower. To insert a word, the writer moves the later ones up by one, starting with the last, so
//! that every word is present at every moment, one of them twice. All slots after the last word are `UNUSED`, which
//! compares above every word: a search needs no count.
//!
//! ```text
//! half     four bytes of a key, as a number, after the first `skip` bytes
//! range    from the record `low` on, up to the record `high`, which belongs to the next node; neither ever changes
//! skip     the length of the common prefix of all keys of the range. An inner node with an open end uses the prefix of
//!          its separators; keys without this prefix sort before or after all separators
//! ```
//!
//! A reader may do the following beside the writer. It may read slots below a count that it has loaded; the number of
//! sorted ones may have grown. It may search words, because the half in a slot is only ever replaced by a smaller one.
//! So the slot at which a binary search ends was not above the search key, and can only be too far to the left.

use std::cmp::Ordering::{self, Greater};

use super::sync::{AtomicU32, AtomicU64, INNER, LEAF, Ordering::*};
use crate::order::head;
use crate::planted;
use crate::prefetch::{LINE, prefetch};

/// Marks the absence of a record or node: an open end.
pub(super) const NONE: u32 = u32::MAX;

/// The range of a node's records, and their common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRange {
    /// The place of its first record; `NONE` if the range is open below.
    pub(super) low: u32,
    /// The place of the first record after it; `NONE` if the range is open above.
    pub(super) high: u32,
    /// Number of leading key bytes that the heads omit.
    pub(super) skip: u32,
}

/// The range of a node, in words. Set before the node is published.
#[derive(Debug, Default)]
struct NodeBounds {
    low: AtomicU32,
    high: AtomicU32,
    skip: AtomicU32,
}

impl NodeBounds {
    fn set(&self, range: NodeRange) {
        self.low.store(range.low, Relaxed);
        self.high.store(range.high, Relaxed);
        self.skip.store(range.skip, Relaxed);
    }

    #[inline]
    fn range(&self) -> NodeRange {
        NodeRange { low: self.low.load(Relaxed), high: self.high.load(Relaxed), skip: self.skip.load(Relaxed) }
    }
}

/// Returns four bytes of a key after its first `skip`, zero-padded, as a number with the same order.
#[inline]
pub(super) fn half(key: &[u8], skip: usize) -> u32 {
    let rest = key.get(skip..).unwrap_or_default();
    match (rest.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(bytes), _) => u32::from_le_bytes(*bytes).swap_bytes(),
        // The last four bytes of the key, shifted to drop those before the rest.
        (None, Some(bytes)) if !rest.is_empty() => u32::from_le_bytes(*bytes).swap_bytes() << (8 * (4 - rest.len())),
        _ => (head(key, skip) >> 32) as u32,
    }
}

/// Combines a half with the place of a record or the number of a node.
#[inline]
pub(super) fn word(half: u32, of: u32) -> u64 {
    u64::from(half) << 32 | u64::from(of)
}

/// Returns the half of a word.
#[inline]
pub(super) fn half_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Returns the place or node number in a word.
#[inline]
pub(super) fn of(word: u64) -> u32 {
    word as u32
}

/// Returns how many of `len` sorted words precede a place with this half. `is_before` decides for words with the same
/// half.
#[inline]
pub(super) fn before(len: usize, word: impl Fn(usize) -> u64, half: u32, is_before: impl Fn(u32) -> bool) -> usize {
    let (mut from, mut left) = (0, len);
    while left > 0 {
        let (middle, at) = (left / 2, word(from + left / 2));
        let is_left = half_of(at) < half || half_of(at) == half && is_before(of(at));
        from += if is_left { middle + 1 } else { 0 };
        left = if is_left { left - middle - 1 } else { middle };
    }
    from
}

/// Number of words in a cache line.
const WORDS_OF_A_LINE: usize = LINE / size_of::<u64>();

/// A leaf: up to `LEAF` records.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Leaf {
    count: AtomicU32,
    /// Number of leading slots that are in order. It grows only while all slots are.
    sorted: AtomicU32,
    bounds: NodeBounds,
    pub(super) next: AtomicU32,
    pub(super) prev: AtomicU32,
    /// The half of the first key after the range.
    high_half: AtomicU32,
    /// The cached word of `deleted.rs`; 0 if there is none.
    deleted: AtomicU64,
    slots: [AtomicU64; LEAF],
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf {
            count: AtomicU32::new(0),
            sorted: AtomicU32::new(0),
            bounds: NodeBounds::default(),
            next: AtomicU32::new(NONE),
            prev: AtomicU32::new(NONE),
            high_half: AtomicU32::new(0),
            deleted: AtomicU64::new(0),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Leaf {
    /// Fills an unpublished leaf with sorted words, at most as many as it has room for.
    pub(super) fn fill(&self, range: NodeRange, high_half: u32, words: impl Iterator<Item = u64>) {
        self.bounds.set(range);
        self.high_half.store(high_half, Relaxed);
        let mut count = 0;
        for (slot, word) in self.slots.iter().zip(words) {
            slot.store(word, Relaxed);
            count += 1;
        }
        self.sorted.store(count, Relaxed);
        self.count.store(count, Release);
    }

    #[inline]
    pub(super) fn range(&self) -> NodeRange {
        self.bounds.range()
    }

    #[inline]
    pub(super) fn skip(&self) -> usize {
        self.bounds.skip.load(Relaxed) as usize
    }

    #[inline]
    pub(super) fn high(&self) -> u32 {
        self.bounds.high.load(Relaxed)
    }

    #[inline]
    pub(super) fn high_half(&self) -> u32 {
        self.high_half.load(Relaxed)
    }

    /// Returns the number of readable slots.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.count.load(Acquire) as usize).min(LEAF)
    }

    /// Returns how many of the first `len` slots are known to be in order.
    #[inline]
    pub(super) fn sorted(&self, len: usize) -> usize {
        (self.sorted.load(Relaxed) as usize).min(len)
    }

    /// Fills the next slot and publishes it. Returns false if the leaf is full. `is_behind`: the word is known to sort
    /// after the previously inserted one.
    #[inline]
    pub(super) fn append(&self, word: u64, is_behind: bool) -> bool {
        let count = self.count.load(Relaxed);
        let Some(slot) = self.slots.get(count as usize) else { return false };
        slot.store(word, Relaxed);
        self.count.store(count + 1, Release);
        if is_behind && self.sorted.load(Relaxed) == count {
            self.sorted.store(count + 1, Release);
        }
        true
    }

    /// Returns the word of a readable slot.
    #[inline]
    pub(super) fn slot(&self, at: usize) -> u64 {
        self.slots[at].load(Relaxed)
    }

    /// Prefetches the cache lines of the leaf.
    pub(super) fn ask_for(&self) {
        prefetch(self);
        self.slots.iter().skip(WORDS_OF_A_LINE / 2).step_by(WORDS_OF_A_LINE).for_each(prefetch);
    }

    /// Returns the cached word of the last scan.
    #[inline]
    pub(super) fn deleted(&self) -> u64 {
        self.deleted.load(Relaxed)
    }

    /// Caches a word for later readers. Any reader may call it.
    pub(super) fn publish_deleted(&self, word: u64) {
        self.deleted.store(word, Relaxed);
    }

    /// Returns the words of the first `len` slots.
    #[inline]
    pub(super) fn slots(&self, len: usize) -> impl DoubleEndedIterator<Item = u64> {
        self.slots[..len.min(LEAF)].iter().map(|slot| slot.load(Relaxed))
    }
}

/// Fills the slots after the last word of an inner node: above all words, and not a word.
const UNUSED: u64 = u64::MAX;

/// An inner node: up to `INNER` children.
#[derive(Debug)]
#[repr(align(16))]
pub(super) struct InnerNode {
    count: AtomicU32,
    bounds: NodeBounds,
    /// A record whose key has the common prefix of all separators here, in a node with an open end. `NONE` elsewhere:
    /// there every search key has that prefix.
    witness: AtomicU32,
    /// The witness's first sixteen bytes.
    start: [AtomicU64; 2],
    words: [AtomicU64; INNER],
}

impl Default for InnerNode {
    fn default() -> InnerNode {
        InnerNode {
            count: AtomicU32::new(0),
            bounds: NodeBounds::default(),
            witness: AtomicU32::new(NONE),
            start: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(UNUSED)),
        }
    }
}

impl InnerNode {
    /// Fills an unpublished node. The first child begins where the node does, and its word is never compared. A witness
    /// is a record and its key.
    pub(super) fn fill(&self, range: NodeRange, witness: Option<(u32, &[u8])>, words: impl Iterator<Item = u64>) {
        self.bounds.set(range);
        if let Some((place, key)) = witness {
            self.witness.store(place, Relaxed);
            self.start[0].store(head(key, 0), Relaxed);
            self.start[1].store(head(key, 8), Relaxed);
        }
        let mut count = 0;
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Relaxed);
            count += 1;
        }
        self.count.store(count, Release);
    }

    #[inline]
    pub(super) fn range(&self) -> NodeRange {
        self.bounds.range()
    }

    #[inline]
    pub(super) fn skip(&self) -> usize {
        self.bounds.skip.load(Relaxed) as usize
    }

    #[inline]
    pub(super) fn witness(&self) -> u32 {
        self.witness.load(Relaxed)
    }

    /// True if a key has the common prefix of all separators, as far as can be decided without reading the witness: the
    /// zeros that pad a short key sort before every other byte.
    #[inline]
    pub(super) fn begins(&self, key: &[u8], skip: usize) -> bool {
        let differ = |word: usize| head(key, 8 * word) ^ self.start[word].load(Relaxed);
        match skip {
            0 => true,
            1..=8 => differ(0) >> (64 - 8 * skip) == 0,
            9..=16 => differ(0) == 0 && differ(1) >> (128 - 8 * skip) == 0,
            _ => false,
        }
    }

    /// Returns the number of words. For the writer only.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.count.load(Relaxed) as usize).min(INNER)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == INNER
    }

    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        self.words[at].load(Acquire)
    }

    /// Inserts a word into a node that is not full. All other words are present at every moment.
    pub(super) fn insert(&self, at: usize, word: u64) {
        let count = self.len();
        debug_assert!(at <= count && count < INNER);
        for pair in self.words[at..=count].windows(2).rev() {
            pair[1].store(pair[0].load(Relaxed), Release);
        }
        self.words[at].store(word, Release);
        self.count.store(count as u32 + 1, Relaxed);
    }

    /// Redirects a word to another child with the same first record.
    pub(super) fn redirect(&self, at: usize, child: u32) {
        self.words[at].store(word(half_of(self.words[at].load(Relaxed)), child), Release);
    }

    /// Returns the index of the last child.
    pub(super) fn last(&self) -> usize {
        self.last_below(UNUSED)
    }

    /// Returns the last child that does not begin after the search key. `compare` compares the first record of a child
    /// with it if the halves are equal.
    #[inline]
    pub(super) fn find(&self, half: u32, compare: impl Fn(u32) -> Ordering) -> usize {
        let at = self.last_below(word(half, 0));
        match self.words.get(at + 1).map(|next| next.load(Acquire)) {
            Some(_) if planted!(SameHalvesNotCompared, true, false) => at,
            Some(next) if half_of(next) == half && next != UNUSED => self.find_among_same(at, half, &compare),
            _ => at,
        }
    }

    /// Returns the last child whose word is below another; the first child if there is none. The number of steps is
    /// constant, and no branch can be mispredicted.
    #[inline]
    fn last_below(&self, bar: u64) -> usize {
        const { assert!(INNER.is_power_of_two(), "half, and half again") };
        let (mut at, mut step) = (0, INNER / 2);
        while step > 0 {
            at += step * usize::from(self.words[(at + step) & (INNER - 1)].load(Acquire) < bar);
            step /= 2;
        }
        at
    }

    /// Finds the child if words after `at` have the same half as the search key. In the most frequent case, a further
    /// version of an existing key, the key sorts before all of them, because it is the newest version.
    #[inline(never)]
    fn find_among_same(&self, at: usize, half: u32, compare: &dyn Fn(u32) -> Ordering) -> usize {
        let is_behind = |word: u64| half_of(word) != half || word == UNUSED || compare(of(word)) == Greater;
        if is_behind(self.word(at + 1)) {
            return at;
        }
        let (mut from, mut left) = (at + 2, INNER - (at + 2));
        while left > 0 {
            let middle = left / 2;
            match is_behind(self.word(from + middle)) {
                true => left = middle,
                false => (from, left) = (from + middle + 1, left - middle - 1),
            }
        }
        from - 1
    }
}
