//! A tree of leaves in an arena: the newest records, in order, for one writer and any number of concurrent readers.
//!
//! In:     records with new keys (user key, seqno), one at a time.
//! Out:    the leaf that contains a place, and its neighbors. Readers take no lock and never wait for the writer.
//! Costs:  an insert searches the inner nodes, and appends the record's bytes and one word. Words added to a leaf since
//!         it was filled are sorted and merged with its sorted part when the leaf is divided, and when a cursor enters
//!         it.
//!
//! ```text
//! divide   two leaves replace a full one. First they are filled and linked, then the right one gets its word in the
//!          parent, then the word of the full one is redirected to the left one. A full inner node is replaced by two
//!          others, which include both.
//! ```
//!
//! Nodes are never removed: a divided node stays unchanged, and a reader that reaches it finds its records up to that
//! moment. **Why a reader misses nothing**: its seqno was published after its records were in the tree. Every word that
//! it loads was present at that moment or later (a published seqno is stored with Release after all of them). So each
//! node that it reaches was part of the tree at some moment since, and held all records of its range then. The range is
//! the right one, unless a node on the path was divided meanwhile: then the leaf may be too far to the left, never to
//! the right (`node.rs`). So a reader loads `split_count` before and after the search. If a division happened in
//! between, or is in progress, the reader compares with the leaf's upper end, and restarts if its key lies beyond. Each
//! intervening division causes at most one restart; if the writer is descheduled in the middle of one, the next attempt
//! succeeds. Links between leaves need no such check: whenever a link is followed, the leaf that it leads to begins
//! where this one ends.

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use super::arena::{Appender, Arena};
use super::growing::Pool;
use super::node::{InnerNode, Leaf, NONE, NodeRange, before, half_of, of, word};
use super::placed::{PlacedRecords, Probe};
use super::sorted::SortedLeaf;
use super::sync::{AtomicBool, AtomicU32, AtomicU64, INNER, LEAF, Ordering::*, fence, look_again};
use crate::order::{Order, common_prefix};
use crate::planted;
use crate::record::{Record, Seqno};

/// Maximum number of levels: with half-full nodes, 2^32 leaves need seven.
const MOST_FLOORS: usize = 12;

/// Records in internal order (I02).
#[derive(Debug)]
pub(super) struct RecordTree {
    pub(super) records: PlacedRecords,
    leaves: Pool<Leaf>,
    inners: Pool<InnerNode>,
    /// Number of levels above the leaves, and the root node; `EMPTY` before the first record.
    root: AtomicU64,
    first: AtomicU32,
    last: AtomicU32,
    /// Incremented when a division begins and when it ends: odd while one is in progress.
    split_count: AtomicU64,
    /// Set by the first record with a lower seqno than an earlier record. While it is false, the newest version of a
    /// key is the one inserted last.
    shuffled: AtomicBool,
    writer: Mutex<TreeWriter>,
}

const EMPTY: u64 = u64::MAX;

/// State of the writer.
#[derive(Debug)]
struct TreeWriter {
    appender: Appender,
    made: NodeCounts,
    /// The leaf of the last record.
    finger: u32,
    /// True if the record before it went to the same leaf: the next one probably will too.
    stays: bool,
    /// The greatest seqno inserted.
    greatest: Seqno,
    /// The path of the last search.
    path: NodePath,
    /// Buffer in which a leaf is sorted for its division.
    all: SortedLeaf,
}

/// Numbers of nodes created.
#[derive(Clone, Copy, Debug)]
struct NodeCounts {
    leaves: u32,
    inners: u32,
}

/// The inner nodes from the root to a leaf, and the child taken in each.
#[derive(Clone, Copy, Debug)]
struct NodePath {
    steps: [(u32, u32); MOST_FLOORS],
    floors: usize,
}

/// Two nodes that replace one, and the place of the first record of the second.
struct SplitNodes {
    left: u32,
    right: u32,
    middle: u32,
}

impl RecordTree {
    /// Creates an empty tree for about `budget` bytes.
    pub(super) fn new(order: Order, budget: usize) -> RecordTree {
        let (arena, appender) = Arena::new(budget);
        let log2 = (budget / (64 << 10)).max(2).ilog2().min(7);
        RecordTree {
            records: PlacedRecords { order, arena },
            leaves: Pool::new(log2),
            inners: Pool::new(1),
            root: AtomicU64::new(EMPTY),
            first: AtomicU32::new(NONE),
            last: AtomicU32::new(NONE),
            split_count: AtomicU64::new(0),
            shuffled: AtomicBool::new(false),
            writer: Mutex::new(TreeWriter {
                appender,
                made: NodeCounts { leaves: 0, inners: 0 },
                finger: NONE,
                stays: false,
                greatest: 0,
                path: NodePath { steps: [(0, 0); MOST_FLOORS], floors: 0 },
                all: SortedLeaf::new(),
            }),
        }
    }

    /// Inserts a record and returns the memory used for it in bytes. If the places are exhausted, returns `None` and
    /// changes nothing.
    #[inline]
    pub(super) fn insert(&self, record: &Record<'_>) -> Option<usize> {
        self.insert_struck(record, |_, _| ())
    }

    /// Inserts a record whose header in the arena `strike` damages.
    pub(super) fn insert_struck(&self, record: &Record<'_>, strike: impl FnOnce(&mut u8, &mut [u8])) -> Option<usize> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &mut *writer;
        let probe = Probe { key: record.key, seqno: record.seqno };
        let (place, bytes) = writer.appender.append(record, strike)?;
        match record.seqno < writer.greatest {
            true => self.shuffled.store(true, Release), // before the record is published to readers
            false => writer.greatest = record.seqno,
        }
        // True if the record is known, without a search, to sort after all records of its leaf.
        let mut is_behind = false;
        if writer.stays
            && let Some(leaf) = self.leaves.get(writer.finger)
            && let Some(stands_behind) = self.stands_in(&probe, leaf)
        {
            is_behind = stands_behind;
            if leaf.append(word(self.records.half(probe.key, leaf.skip()), place), is_behind) {
                return Some(bytes);
            }
        }
        if self.root.load(Relaxed) == EMPTY {
            return self.plant(writer, probe, place).map(|more| bytes + more);
        }
        let (id, leaf) = self.way(&probe, &mut writer.path)?;
        writer.stays = writer.finger == id;
        writer.finger = id;
        let word = word(self.records.half(probe.key, leaf.skip()), place);
        if leaf.append(word, false) {
            return Some(bytes);
        }
        self.divide(writer, leaf, probe.key, word, is_behind).map(|more| bytes + more)
    }

    /// Returns whether a probe sorts after the record that was added to a leaf last; `None` if the probe belongs to
    /// another leaf.
    fn stands_in(&self, probe: &Probe<'_>, leaf: &Leaf) -> Option<bool> {
        let NodeRange { low, high, .. } = leaf.range();
        let last = of(leaf.slot(leaf.len().checked_sub(1)?));
        match self.records.compare(probe, last) {
            Ordering::Greater => (high == NONE || self.records.compare(probe, high).is_lt()).then_some(true),
            _ => (low == NONE || self.records.compare(probe, low).is_ge()).then_some(false),
        }
    }

    /// Returns the leaf that contains a place.
    #[inline]
    pub(super) fn find(&self, probe: &Probe<'_>) -> Option<(u32, &Leaf)> {
        loop {
            let before = self.split_count.load(Acquire);
            let (id, leaf) = self.descend(probe)?;
            fence(Acquire);
            if before.is_multiple_of(2) && self.split_count.load(Relaxed) == before {
                return Some((id, leaf));
            }
            let high = leaf.high();
            if high == NONE || self.records.compare(probe, high) == Ordering::Less {
                return Some((id, leaf));
            }
            look_again();
        }
    }

    /// Passes the newest version of a key at or below a seqno to `visit`. Returns false if there is none.
    #[inline]
    pub(super) fn get(&self, probe: &Probe<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> bool {
        let Some((_, leaf)) = self.find(probe) else { return false };
        let (half, len) = (self.records.half(probe.key, leaf.skip()), leaf.len());
        let sorted = leaf.sorted(len);
        let mut newest = None;
        // The version inserted last is the newest of its key, unless seqnos arrived out of order; and unsorted records
        // are newer than sorted ones.
        let is_shuffled = planted!(NewestVersionInLeafPassedOver, true, self.shuffled.load(Acquire));
        for at in (sorted..len).rev() {
            let word = leaf.slot(at);
            if half_of(word) == half {
                self.take_newer(probe, of(word), &mut newest);
                if newest.is_some() && !is_shuffled {
                    break;
                }
            }
        }
        if newest.is_none() || is_shuffled {
            let is_before = |place| self.records.compare(probe, place) == Ordering::Greater;
            let at = before(sorted, |at| leaf.slot(at), half, is_before);
            if at < sorted && half_of(leaf.slot(at)) == half {
                self.take_newer(probe, of(leaf.slot(at)), &mut newest);
            }
        }
        // Older versions of a key may lie after the end of the leaf; the newest of them is the first record of the next
        // one.
        if newest.is_none() && leaf.high_half() == half && leaf.high() != NONE {
            self.take_newer(probe, leaf.high(), &mut newest);
        }
        let Some(record) = newest.and_then(|(_, place)| self.records.record(place)) else { return false };
        visit(&record);
        true
    }

    /// Records a version of the probe's key, if it is visible at the probe's seqno and newer than the one recorded.
    #[inline]
    fn take_newer(&self, probe: &Probe<'_>, place: u32, newest: &mut Option<(Seqno, u32)>) {
        let Some((key, seqno)) = self.records.arena.placed(place) else { return };
        let passed_over = planted!(NewestVersionInLeafPassedOver, true, false);
        let is_newer = seqno <= probe.seqno && newest.is_none_or(|(newest, _)| (newest < seqno) != passed_over);
        if is_newer && self.records.order.compare(key, probe.key).is_eq() {
            *newest = Some((seqno, place));
        }
    }

    /// Returns the first or last leaf.
    pub(super) fn end(&self, is_last: bool) -> u32 {
        if is_last { self.last.load(Acquire) } else { self.first.load(Acquire) }
    }

    #[inline]
    pub(super) fn leaf(&self, id: u32) -> Option<&Leaf> {
        self.leaves.get(id)
    }

    /// `Arena::reach`.
    #[inline]
    pub(super) fn reach(&self) -> u64 {
        self.records.arena.reach()
    }

    /// Returns the child of an inner node that contains a probe, as far as the reader can see. `floor` is the node's
    /// own level, 1 above the leaves.
    #[inline]
    fn child(&self, node: &InnerNode, floor: u64, probe: &Probe<'_>) -> usize {
        let skip = node.skip();
        if node.witness() != NONE && !node.begins(probe.key, skip) {
            match self.beside(node, probe.key) {
                Ordering::Less => return 0,
                Ordering::Greater => return node.last(),
                Ordering::Equal => {}
            }
        }
        node.find(self.records.half(probe.key, skip), |child| match self.low(floor - 1, child) {
            NONE => Ordering::Less,
            low => self.records.compare(probe, low).reverse(),
        })
    }

    /// Compares a key with all keys that have the common prefix of a node's separators.
    #[inline(never)]
    fn beside(&self, node: &InnerNode, key: &[u8]) -> Ordering {
        let (skip, start) = (node.skip(), self.records.key(node.witness()));
        key.get(..skip).unwrap_or(key).cmp(start.get(..skip).unwrap_or(start))
    }

    /// Returns the first record of a node.
    fn low(&self, floor: u64, id: u32) -> u32 {
        match floor {
            0 => self.leaves.get(id).map_or(NONE, |leaf| leaf.range().low),
            _ => self.inners.get(id).map_or(NONE, |node| node.range().low),
        }
    }

    #[inline]
    fn descend(&self, probe: &Probe<'_>) -> Option<(u32, &Leaf)> {
        let root = self.root.load(Acquire);
        if root == EMPTY {
            return None;
        }
        let (mut id, mut floor) = (root as u32, root >> 32);
        while floor > 0 {
            let node = self.inners.get(id)?;
            id = of(node.word(self.child(node, floor, probe)));
            floor -= 1;
        }
        Some((id, self.leaves.get(id)?))
    }
}

/// The writer's methods.
impl RecordTree {
    /// Returns the leaf that contains a place, and records the path to it.
    #[inline(always)]
    fn way(&self, probe: &Probe<'_>, path: &mut NodePath) -> Option<(u32, &Leaf)> {
        let root = self.root.load(Relaxed);
        let (mut id, mut floors, mut floor) = (root as u32, 0, root >> 32);
        while floor > 0 {
            let node = self.inners.get(id)?;
            let at = self.child(node, floor, probe);
            *path.steps.get_mut(floors)? = (id, at as u32);
            floors += 1;
            floor -= 1;
            id = of(node.word(at));
        }
        path.floors = floors;
        Some((id, self.leaves.get(id)?))
    }

    /// Creates the first leaf, with the first record.
    fn plant(&self, writer: &mut TreeWriter, probe: Probe<'_>, place: u32) -> Option<usize> {
        let (id, leaf) = self.new_leaf(&mut writer.made)?;
        let words = [word(self.records.half(probe.key, 0), place)];
        leaf.fill(NodeRange { low: NONE, high: NONE, skip: 0 }, 0, words.into_iter());
        self.first.store(id, Release);
        self.last.store(id, Release);
        self.root.store(u64::from(id), Release);
        (writer.finger, writer.stays) = (id, true);
        Some(size_of::<Leaf>())
    }

    fn new_leaf(&self, made: &mut NodeCounts) -> Option<(u32, &Leaf)> {
        let leaf = self.leaves.make(made.leaves)?;
        made.leaves += 1;
        Some((made.leaves - 1, leaf))
    }

    fn new_inner(&self, made: &mut NodeCounts) -> Option<(u32, &InnerNode)> {
        let node = self.inners.make(made.inners)?;
        made.inners += 1;
        Some((made.inners - 1, node))
    }

    /// Divides a full leaf into two, with one more record; `is_behind` says whether that record is known to sort after
    /// the last inserted one. Returns the memory used in bytes.
    #[inline(never)]
    fn divide(&self, writer: &mut TreeWriter, full: &Leaf, key: &[u8], one: u64, is_behind: bool) -> Option<usize> {
        let TreeWriter { made, path, all, .. } = writer;
        let inners = made.inners;
        let (NodeRange { low, high, skip }, prev, next) =
            (full.range(), full.prev.load(Relaxed), full.next.load(Relaxed));
        let rank = all.set_with(&self.records, full, one, is_behind);
        let cut = self.cut(all, rank, key, (prev == NONE, next == NONE || is_behind));
        let middle = all.place(cut);
        let ((left_id, left), (right_id, right)) = (self.new_leaf(made)?, self.new_leaf(made)?);
        self.fill(left, NodeRange { low, high: middle, skip }, &all.words()[..cut]);
        let from = planted!(DividedLeafLosesItsMiddle, cut + 1, cut);
        self.fill(right, NodeRange { low: middle, high, skip }, &all.words()[from..]);
        left.prev.store(prev, Relaxed);
        left.next.store(right_id, Relaxed);
        right.prev.store(left_id, Relaxed);
        right.next.store(next, Relaxed);
        let splits = self.split_count.load(Relaxed);
        self.split_count.store(splits + 1, Relaxed);
        fence(Release);
        match self.leaves.get(next) {
            Some(_) if planted!(LeafLinkForgotten, true, false) => {}
            Some(next) => next.prev.store(right_id, Release),
            None => self.last.store(right_id, Release),
        }
        match self.leaves.get(prev) {
            Some(prev) => prev.next.store(left_id, Release),
            None => self.first.store(left_id, Release),
        }
        let done = self.install(made, path, path.floors, SplitNodes { left: left_id, right: right_id, middle });
        self.split_count.store(splits + 2, Release);
        let more_inners = (made.inners - inners) as usize;
        writer.finger = if rank < cut { left_id } else { right_id };
        done?;
        Some(2 * size_of::<Leaf>() + more_inners * size_of::<InnerNode>())
    }

    /// Returns the index at which a full leaf is divided, given its records with the new one, which has this rank and
    /// key. If records arrive in ascending or descending order, the left-behind leaf will receive no more records, so
    /// it stays full. If a key is rewritten many times, no record will come between its versions.
    fn cut(&self, all: &SortedLeaf, rank: usize, key: &[u8], (is_first, is_last): (bool, bool)) -> usize {
        let (records, middle) = (all.len(), all.len() / 2);
        let is_version = |at: usize| {
            half_of(all.words()[at]) == half_of(all.words()[rank])
                && self.records.order.compare(self.records.key(all.place(at)), key).is_eq()
        };
        match () {
            () if is_last && rank + 1 == records => rank,
            () if is_first && rank == 0 => 1,
            () if rank + middle < records && is_version(rank + middle) => rank + 1,
            () => middle,
        }
    }

    /// Fills an unpublished leaf.
    fn fill(&self, leaf: &Leaf, range: NodeRange, words: &[u64]) {
        let skip = self.skip(range).max(range.skip as usize);
        let is_anew = skip > range.skip as usize;
        let range = NodeRange { skip: skip as u32, ..range };
        let half_at = |place| self.records.half(self.records.key(place), skip);
        let high_half = if range.high == NONE { 0 } else { half_at(range.high) };
        match is_anew {
            true => leaf.fill(range, high_half, words.iter().map(|old| word(half_at(of(*old)), of(*old)))),
            false => leaf.fill(range, high_half, words.iter().copied()),
        }
    }

    /// Returns the length of the common prefix of a range's keys, as far as its ends show.
    fn skip(&self, range: NodeRange) -> usize {
        match (self.records.arena.placed(range.low), self.records.arena.placed(range.high)) {
            (Some((low, _)), Some((high, _))) if self.records.order.is_bytewise() => common_prefix(low, high),
            _ => range.skip as usize,
        }
    }

    /// Publishes two nodes in place of the node at `floors` levels below the root on the path.
    fn install(&self, made: &mut NodeCounts, path: &NodePath, floors: usize, halves: SplitNodes) -> Option<()> {
        let below = (path.floors - floors) as u64;
        let SplitNodes { left, right, middle } = halves;
        let Some((id, at)) = floors.checked_sub(1).map(|above| path.steps[above]) else {
            let (id, root) = self.new_inner(made)?;
            let words = [word(0, left), word(self.records.half(self.records.key(middle), 0), right)];
            self.fill_inner(root, NodeRange { low: NONE, high: NONE, skip: 0 }, below, &words);
            self.root.store((below + 1) << 32 | u64::from(id), Release);
            return Some(());
        };
        let (node, at) = (self.inners.get(id)?, at as usize);
        if !node.is_full() && self.shares(node, middle) {
            node.insert(at + 1, word(self.records.half(self.records.key(middle), node.skip()), right));
            node.redirect(at, left);
            return Some(());
        }
        let NodeRange { low, high, skip } = node.range();
        let (mut words, mut count) = ([0; INNER + 1], 0);
        for (to, from) in words.iter_mut().zip((0..=at).chain(at..node.len())) {
            *to = node.word(from);
            count += 1;
        }
        words[at] = word(half_of(words[at]), left);
        words[at + 1] = word(self.records.half(self.records.key(middle), skip as usize), right);
        if count <= INNER {
            // The new separator has another prefix than the existing ones: rebuild the same node with other heads.
            let (id, anew) = self.new_inner(made)?;
            self.fill_inner(anew, node.range(), below, &words[..count]);
            return self.replace(path, floors - 1, id);
        }
        // With records in ascending order, all nodes but the last stay full.
        let cut = if at + 2 == count { count - 2 } else { count / 2 };
        let middle = self.low(below, of(words[cut]));
        let ((left_id, left), (right_id, right)) = (self.new_inner(made)?, self.new_inner(made)?);
        self.fill_inner(left, NodeRange { low, high: middle, skip }, below, &words[..cut]);
        self.fill_inner(right, NodeRange { low: middle, high, skip }, below, &words[cut..]);
        self.install(made, path, floors - 1, SplitNodes { left: left_id, right: right_id, middle })
    }

    /// Publishes a node in place of the one that the path leads to; both have the same range.
    fn replace(&self, path: &NodePath, floors: usize, id: u32) -> Option<()> {
        match floors.checked_sub(1).map(|above| path.steps[above]) {
            Some((above, at)) => self.inners.get(above)?.redirect(at as usize, id),
            None => self.root.store((path.floors as u64) << 32 | u64::from(id), Release),
        }
        Some(())
    }

    /// Fills an unpublished inner node with words whose halves follow `range.skip` bytes. If the separators turn out to
    /// share more or fewer bytes, the halves are recomputed.
    fn fill_inner(&self, node: &InnerNode, range: NodeRange, below: u64, words: &[u64]) {
        let separator = |at: usize| {
            let place = words.get(at).map_or(NONE, |word| self.low(below, of(*word)));
            (place, self.records.key(place))
        };
        let is_open = range.low == NONE || range.high == NONE;
        let (skip, witness) = match words {
            [_, .., _] if is_open && self.records.order.is_bytewise() => {
                let (first, (_, last)) = (separator(1), separator(words.len() - 1));
                (common_prefix(first.1, last), Some(first))
            }
            _ if is_open => (0, None),
            _ => (self.skip(range), None),
        };
        let half_at = |at: usize| match at {
            0 => 0,
            _ if skip == range.skip as usize => half_of(words[at]),
            _ => self.records.half(separator(at).1, skip),
        };
        let words = words.iter().enumerate().map(|(at, old)| word(half_at(at), of(*old)));
        node.fill(NodeRange { skip: skip as u32, ..range }, witness, words);
    }

    /// True if a new separator has the common prefix of a node's separators.
    fn shares(&self, node: &InnerNode, separator: u32) -> bool {
        let range = node.range();
        if range.low != NONE && range.high != NONE || !self.records.order.is_bytewise() {
            return true;
        }
        match (self.records.arena.placed(node.witness()), self.records.arena.placed(separator)) {
            (Some((witness, _)), Some((key, _))) => common_prefix(witness, key) >= node.skip(),
            _ => false,
        }
    }
}

const _: () = assert!(LEAF >= 2 && INNER >= 2);
