//! The nodes of a tree of leaves, as words that one thread writes and any number read beside it.
//!
//! A **leaf** holds the places of up to `LEAF` records and the head of each one's key, in the order in which they came. It is only
//! ever appended to: slot, then count. A full one is never touched again; two new ones take over from it, sorted. An **inner
//! node** leads to nodes below, a word for each, sorted: half a head above, the child's number below. A word is inserted by moving those behind it
//! up by one, from the last on, so that at every moment each stands somewhere, one of them twice.
//!
//! ```text
//! range    from the record `low` on, up to the record `high`, which is the next node's; neither ever changes
//! skip     how many bytes all keys of the range have in common; heads are taken behind them. In an inner node with an open end: how many
//!          its separators have in common; what begins otherwise lies before them all, or behind
//! ```
//!
//! What a reader may do beside the writer: read slots below a count that it has loaded; search words, with this in mind: a word at a place only ever gives
//! way to a smaller one, so whatever a binary search ends at was not above what it looked for, and can only be too far to the left.

use std::cmp::Ordering::{self, Greater};

use super::sync::{AtomicU32, AtomicU64, INNER, LEAF, Ordering::*};

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

/// Places of records that lie together.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Leaf {
    count: AtomicU32,
    bounds: Bounds,
    pub(super) next: AtomicU32,
    pub(super) prev: AtomicU32,
    /// The head of the first key behind the range.
    high_head: AtomicU64,
    heads: [AtomicU64; LEAF],
    places: [AtomicU32; LEAF],
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf {
            count: AtomicU32::new(0),
            bounds: Bounds::default(),
            next: AtomicU32::new(NONE),
            prev: AtomicU32::new(NONE),
            high_head: AtomicU64::new(0),
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            places: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl Leaf {
    /// Says what its range is. Before it is shown.
    pub(super) fn set(&self, range: Range, high_head: u64) {
        self.bounds.set(range);
        self.high_head.store(high_head, Relaxed);
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
    pub(super) fn high_head(&self) -> u64 {
        self.high_head.load(Relaxed)
    }

    /// How many slots are there to be read.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.count.load(Acquire) as usize).min(LEAF)
    }

    /// Fills the next slot and shows it; false if all are taken.
    #[inline]
    pub(super) fn append(&self, head: u64, place: u32) -> bool {
        let count = self.count.load(Relaxed);
        let (Some(to), Some(at)) = (self.heads.get(count as usize), self.places.get(count as usize)) else {
            return false;
        };
        to.store(head, Relaxed);
        at.store(place, Relaxed);
        self.count.store(count + 1, Release);
        true
    }

    /// Head and place of each of the first `len` slots.
    #[inline]
    pub(super) fn slots(&self, len: usize) -> impl Iterator<Item = (u64, u32)> {
        let len = len.min(LEAF);
        self.heads[..len].iter().zip(&self.places[..len]).map(|(head, place)| (head.load(Relaxed), place.load(Relaxed)))
    }
}

/// Nodes below that lie together.
#[derive(Debug)]
#[repr(align(16))]
pub(super) struct Inner {
    count: AtomicU32,
    bounds: Bounds,
    /// A record whose key begins with what all separators here have in common, in a node with an open end; else `NONE`: whatever is looked for here
    /// begins so.
    witness: AtomicU32,
    words: [AtomicU64; INNER],
}

impl Default for Inner {
    fn default() -> Inner {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Inner { count: AtomicU32::new(0), bounds: Bounds::default(), witness: AtomicU32::new(NONE), words }
    }
}

/// The word of a child: the upper half of its first key's head, and its number.
pub(super) fn word(head: u64, child: u32) -> u64 {
    head >> 32 << 32 | u64::from(child)
}

/// The child of a word.
pub(super) fn child(word: u64) -> u32 {
    word as u32
}

impl Inner {
    /// Fills a node that nobody has seen. The first child begins where the node does, so its head is 0: nothing that is looked for here
    /// is less.
    pub(super) fn fill(&self, range: Range, witness: u32, words: impl Iterator<Item = u64>) {
        self.bounds.set(range);
        self.witness.store(witness, Relaxed);
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

    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.count.load(Acquire) as usize).min(INNER)
    }

    pub(super) fn is_full(&self) -> bool {
        self.count.load(Relaxed) as usize >= INNER
    }

    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        self.words[at].load(Acquire)
    }

    /// Puts a word in its place, in a node that is not full. All others stand somewhere at every moment.
    pub(super) fn insert(&self, at: usize, word: u64) {
        let count = self.count.load(Relaxed) as usize;
        debug_assert!(at <= count && count < INNER);
        if at < count {
            self.words[count].store(self.words[count - 1].load(Relaxed), Release);
        } else {
            self.words[at].store(word, Release);
        }
        self.count.store(count as u32 + 1, Release);
        for to in (at + 1..count).rev() {
            self.words[to].store(self.words[to - 1].load(Relaxed), Release);
        }
        self.words[at].store(word, Release);
    }

    /// Leads a word to another child with the same first record.
    pub(super) fn redirect(&self, at: usize, child: u32) {
        self.words[at].store(word(self.words[at].load(Relaxed), child), Release);
    }

    /// The last child that does not begin behind what is looked for. `compare` tells how the first record of a child stands to it, where heads
    /// do not.
    #[inline]
    pub(super) fn find(&self, head: u64, compare: impl Fn(u32) -> Ordering) -> usize {
        let (half, count) = (head >> 32, self.len());
        let mut at = self.first_where(0, count, |word| word >> 32 >= half);
        if at < count && self.word(at) >> 32 == half {
            let is_behind = |word: u64| word >> 32 > half || compare(child(word)) == Greater;
            at = match at + 1 < count && self.word(at + 1) >> 32 == half {
                true => self.first_where(at, count, is_behind),
                false if is_behind(self.word(at)) => at,
                false => at + 1,
            };
        }
        at.saturating_sub(1)
    }

    /// The first place from which on words are so. Which half it goes on in is no branch that could be guessed wrong.
    #[inline]
    fn first_where(&self, mut from: usize, to: usize, is_behind: impl Fn(u64) -> bool) -> usize {
        let mut left = to - from;
        while left > 1 {
            let half = left / 2;
            from += if is_behind(self.word(from + half - 1)) { 0 } else { half };
            left -= half;
        }
        from + usize::from(left == 1 && !is_behind(self.word(from)))
    }
}
