//! The nodes of a tree of leaves, as words that one thread writes and any number read beside it.
//!
//! A **leaf** holds a word for each of up to `LEAF` records: half a head of its key above, its place below. The first `sorted` of them stand in order; the
//! others in the order in which they came. It is only ever appended to: word, then count. A full one is never touched again; two new
//! ones take over from it, sorted. An **inner node** leads to nodes below, a word for each, sorted: half a head of its first key above, the child's number
//! below. A word is inserted by moving those behind it up by one, from the last on, so that at every moment each stands somewhere, one of
//! them twice. Behind the last all are `UNUSED`, above every word: a search asks nobody how many there are.
//!
//! ```text
//! half     four bytes of a key, as a number, behind the first `skip`
//! range    from the record `low` on, up to the record `high`, which is the next node's; neither ever changes
//! skip     how many bytes all keys of the range have in common. In an inner node with an open end: how many
//!          its separators have in common; what begins otherwise lies before them all, or behind
//! ```
//!
//! What a reader may do beside the writer: read slots below a count that it has loaded, of which the sorted ones may have become more; search
//! words, with this in mind: the half at a place only ever gives way to a smaller one, so whatever a binary search ends at was not above what it looked for,
//! and can only be too far to the left.

use std::cmp::Ordering::{self, Greater};

use super::sync::{AtomicU32, AtomicU64, INNER, LEAF, Ordering::*};
use crate::order::head;
use crate::planted::{self, Bug};
use crate::prefetch::{LINE, prefetch};

/// No record, no node: an open end.
pub(super) const NONE: u32 = u32::MAX;

/// Where a node's records lie in the order, and what they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The place of its first record; `NONE`: it begins before all.
    pub(super) low: u32,
    /// The place of the first record behind it; `NONE`: it ends behind all.
    pub(super) high: u32,
    /// How many bytes of its keys heads leave out.
    pub(super) skip: u32,
}

/// The range of a node, in words. Set before the node is shown to anybody.
#[derive(Debug, Default)]
struct Bounds {
    low: AtomicU32,
    high: AtomicU32,
    skip: AtomicU32,
}

impl Bounds {
    fn set(&self, range: Range) {
        self.low.store(range.low, Relaxed);
        self.high.store(range.high, Relaxed);
        self.skip.store(range.skip, Relaxed);
    }

    #[inline]
    fn range(&self) -> Range {
        Range { low: self.low.load(Relaxed), high: self.high.load(Relaxed), skip: self.skip.load(Relaxed) }
    }
}

/// Four bytes of a key behind its first `skip`, as a number that orders as they do; padded with zeros.
#[inline]
pub(super) fn half(key: &[u8], skip: usize) -> u32 {
    let rest = key.get(skip..).unwrap_or_default();
    match (rest.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(bytes), _) => u32::from_le_bytes(*bytes).swap_bytes(),
        // The last four bytes of the key, without those in front of the rest.
        (None, Some(bytes)) if !rest.is_empty() => u32::from_le_bytes(*bytes).swap_bytes() << (8 * (4 - rest.len())),
        _ => (head(key, skip) >> 32) as u32,
    }
}

/// A half and what it stands for: the place of a record, the number of a node.
#[inline]
pub(super) fn word(half: u32, of: u32) -> u64 {
    u64::from(half) << 32 | u64::from(of)
}

/// The half of a word.
#[inline]
pub(super) fn half_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// What a word stands for.
#[inline]
pub(super) fn of(word: u64) -> u32 {
    word as u32
}

/// How many of so many sorted words stand before a place, which has this half. `is_before` answers for one with the same half.
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

/// Words of a line of memory.
const WORDS_OF_A_LINE: usize = LINE / size_of::<u64>();

/// Records that lie together.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Leaf {
    count: AtomicU32,
    /// So many slots stand in order. More only while they are all.
    sorted: AtomicU32,
    bounds: Bounds,
    pub(super) next: AtomicU32,
    pub(super) prev: AtomicU32,
    /// Of the first key behind the range.
    high_half: AtomicU32,
    /// What a reader found of it (`deleted.rs`), as a word; 0: nothing.
    deleted: AtomicU64,
    slots: [AtomicU64; LEAF],
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf {
            count: AtomicU32::new(0),
            sorted: AtomicU32::new(0),
            bounds: Bounds::default(),
            next: AtomicU32::new(NONE),
            prev: AtomicU32::new(NONE),
            high_half: AtomicU32::new(0),
            deleted: AtomicU64::new(0),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Leaf {
    /// Fills a leaf that nobody has seen with words in order, at most as many as it has room for.
    pub(super) fn fill(&self, range: Range, high_half: u32, words: impl Iterator<Item = u64>) {
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
    pub(super) fn range(&self) -> Range {
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

    /// How many slots are there to be read.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.count.load(Acquire) as usize).min(LEAF)
    }

    /// How many of the first `len` are known to stand in order.
    #[inline]
    pub(super) fn sorted(&self, len: usize) -> usize {
        (self.sorted.load(Relaxed) as usize).min(len)
    }

    /// Fills the next slot and shows it; false if all are taken. `is_behind`: it is known to stand behind the one that came before it.
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

    /// The word of a slot that is there to be read.
    #[inline]
    pub(super) fn slot(&self, at: usize) -> u64 {
        self.slots[at].load(Relaxed)
    }

    /// Asks for its lines, before it is looked at.
    pub(super) fn ask_for(&self) {
        prefetch(self);
        self.slots.iter().skip(WORDS_OF_A_LINE / 2).step_by(WORDS_OF_A_LINE).for_each(prefetch);
    }

    /// The word that was left by whoever looked through it last.
    #[inline]
    pub(super) fn deleted(&self) -> u64 {
        self.deleted.load(Relaxed)
    }

    /// Leaves a word for those who come next. Any reader may.
    pub(super) fn tell_deleted(&self, word: u64) {
        self.deleted.store(word, Relaxed);
    }

    /// The words of the first `len` slots.
    #[inline]
    pub(super) fn slots(&self, len: usize) -> impl DoubleEndedIterator<Item = u64> {
        self.slots[..len.min(LEAF)].iter().map(|slot| slot.load(Relaxed))
    }
}

/// Behind the last word of an inner node: above all words, and none.
const UNUSED: u64 = u64::MAX;

/// Nodes below that lie together.
#[derive(Debug)]
#[repr(align(16))]
pub(super) struct Inner {
    count: AtomicU32,
    bounds: Bounds,
    /// A record whose key begins with what all separators here have in common, in a node with an open end; else `NONE`: whatever is looked for here
    /// begins so.
    witness: AtomicU32,
    /// The witness's first sixteen bytes.
    start: [AtomicU64; 2],
    words: [AtomicU64; INNER],
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            count: AtomicU32::new(0),
            bounds: Bounds::default(),
            witness: AtomicU32::new(NONE),
            start: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(UNUSED)),
        }
    }
}

impl Inner {
    /// Fills a node that nobody has seen. The first child begins where the node does, and its word is never compared. A witness is a record and its key.
    pub(super) fn fill(&self, range: Range, witness: Option<(u32, &[u8])>, words: impl Iterator<Item = u64>) {
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
    pub(super) fn range(&self) -> Range {
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

    /// True if a key begins as all separators do, as far as can be told without a look at the witness: the zeros that a short key is padded with lie
    /// before everything else that could stand there.
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

    /// The writer's: how many words there are.
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

    /// Puts a word in its place, in a node that is not full. All others stand somewhere at every moment.
    pub(super) fn insert(&self, at: usize, word: u64) {
        let count = self.len();
        debug_assert!(at <= count && count < INNER);
        for pair in self.words[at..=count].windows(2).rev() {
            pair[1].store(pair[0].load(Relaxed), Release);
        }
        self.words[at].store(word, Release);
        self.count.store(count as u32 + 1, Relaxed);
    }

    /// Leads a word to another child with the same first record.
    pub(super) fn redirect(&self, at: usize, child: u32) {
        self.words[at].store(word(half_of(self.words[at].load(Relaxed)), child), Release);
    }

    /// The last child.
    pub(super) fn last(&self) -> usize {
        self.last_below(UNUSED)
    }

    /// The last child that does not begin behind what is looked for. `compare` tells how the first record of a child stands to it, where halves
    /// do not.
    #[inline]
    pub(super) fn find(&self, half: u32, compare: impl Fn(u32) -> Ordering) -> usize {
        let at = self.last_below(word(half, 0));
        match self.words.get(at + 1).map(|next| next.load(Acquire)) {
            Some(_) if planted::active(Bug::SameHalvesNotCompared) => at,
            Some(next) if half_of(next) == half && next != UNUSED => self.find_among_same(at, half, &compare),
            _ => at,
        }
    }

    /// The last child whose word is below another; the first one, where there is none. Always the same steps, and no branch that could be
    /// guessed wrong.
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

    /// The same, where words behind `at` have the half of what is looked for. Most often it lies before them all: a key that there is already, written again, is
    /// the newest of it.
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
