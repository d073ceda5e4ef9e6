//! A tree of leaves in an arena: the newest records, in order, for one writer and any number of readers beside it.
//!
//! In:     records whose key (user key, seqno) is not there, one after the other.
//! Out:    the leaf in which a place lies; the one before, the one behind. Readers take no lock and never wait for the writer.
//! Costs:  an insert searches the inner nodes, appends the record's bytes and one slot. Leaves are sorted when they are divided, and
//!         when a cursor comes to them.
//!
//! ```text
//! divide   two leaves take over from a full one. First they are filled and linked, then the right one gets its word in the node above, then
//!          the word of the full one leads to the left one. For an inner node that is full two others take over, with both of them.
//! ```
//!
//! Nothing is ever taken away: a node that was divided stays as it was, whole, and whoever comes to it finds what was there up to
//! then. **Why a reader misses nothing**: its seqno was published after its records were in the tree. Every word that it loads is one that
//! stood there at that moment or later (a published seqno is stored with Release behind all of them), so each node that it comes to was part of the tree at
//! some moment since, and held all records of its range then. The range is the right one, unless the way there was divided
//! meanwhile: then it may lie too far to the left, never to the right (`node.rs`). So a reader looks at `turns` before and after.
//! If a division came between, or is under way, it compares with the leaf's upper end, and begins again if it lies beyond. That
//! happens once for each division that came between; while the writer stands still anywhere in one, the next try succeeds.
//! Links from leaf to leaf need no such look: the leaf that a link leads to begins where this one ends, whenever it was followed.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::arena::{Appender, Arena};
use super::growing::Pool;
use super::node::{Inner, Leaf, NONE, Range, child, word};
use super::sorted::Sorted;
use super::sync::{AtomicU32, AtomicU64, INNER, LEAF, Ordering::*, fence, look_again};
use crate::order::{Order, common_prefix, head};
use crate::planted::{self, Bug};
use crate::record::{Record, Seqno};

/// No tree has more floors: with half-full nodes, 2^32 leaves have seven.
const MOST_FLOORS: usize = 12;

/// Heads are made anew when so many more bytes turn out to be common to a new node's keys.
const WORTH_SKIPPING: usize = 2;

/// Records in internal order (I02).
#[derive(Debug)]
pub(super) struct Tree {
    order: Order,
    arena: Arc<Arena>,
    leaves: Pool<Leaf>,
    inners: Pool<Inner>,
    /// Floors above the leaves, and the node at the top; `EMPTY` before the first record.
    root: AtomicU64,
    first: AtomicU32,
    last: AtomicU32,
    /// Counted up when a division begins and when it ends: odd while one is under way.
    turns: AtomicU64,
    writer: Mutex<Writer>,
}

const EMPTY: u64 = u64::MAX;

/// What the writer alone knows.
#[derive(Debug)]
struct Writer {
    appender: Appender,
    leaves: u32,
    inners: u32,
    /// The leaf of the last record.
    finger: u32,
    /// The record before it was of the same leaf: the next one may be too.
    stays: bool,
}

/// A place to look for.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) key: &'a [u8],
    pub(super) seqno: Seqno,
}

/// The inner nodes from the top to a leaf, and the child taken in each.
struct Path {
    steps: [(u32, usize); MOST_FLOORS],
    floors: usize,
}

impl Tree {
    /// An empty tree, for about so many bytes.
    pub(super) fn new(order: Order, budget: usize) -> Tree {
        let (arena, appender) = Arena::new(budget);
        let log2 = (budget / (64 << 10)).max(2).ilog2().min(7);
        Tree {
            order,
            arena,
            leaves: Pool::new(log2),
            inners: Pool::new(log2.min(3)),
            root: AtomicU64::new(EMPTY),
            first: AtomicU32::new(NONE),
            last: AtomicU32::new(NONE),
            turns: AtomicU64::new(0),
            writer: Mutex::new(Writer { appender, leaves: 0, inners: 0, finger: NONE, stays: false }),
        }
    }

    /// Puts a record in its place and answers how many bytes of memory that took; none, and then nothing was changed, if there is no more
    /// room for places.
    pub(super) fn insert(&self, record: &Record<'_>) -> Option<usize> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &mut *writer;
        let probe = Probe { key: record.key, seqno: record.seqno };
        let (place, bytes) = writer.appender.append(record)?;
        if writer.stays
            && let Some(leaf) = self.leaves.get(writer.finger)
            && self.is_within(&probe, leaf.range())
            && leaf.append(self.head(probe.key, leaf.skip()), place)
        {
            return Some(bytes);
        }
        if self.root.load(Relaxed) == EMPTY {
            return self.plant(writer, probe, place).map(|more| bytes + more);
        }
        let (id, leaf, path) = self.way(&probe)?;
        writer.stays = writer.finger == id;
        writer.finger = id;
        if leaf.append(self.head(probe.key, leaf.skip()), place) {
            return Some(bytes);
        }
        self.divide(writer, leaf, &path, probe, place).map(|more| bytes + more)
    }

    /// The leaf in which a place lies.
    #[inline]
    pub(super) fn find(&self, probe: &Probe<'_>) -> Option<(u32, &Leaf)> {
        loop {
            let before = self.turns.load(Acquire);
            let (id, leaf) = self.descend(probe)?;
            fence(Acquire);
            if before.is_multiple_of(2) && self.turns.load(Relaxed) == before {
                return Some((id, leaf));
            }
            let high = leaf.high();
            if high == NONE || self.compare(probe, high) == Ordering::Less {
                return Some((id, leaf));
            }
            look_again();
        }
    }

    /// Shows the newest version of a key that is not above a seqno; false if there is none.
    #[inline]
    pub(super) fn get(&self, probe: &Probe<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> bool {
        let Some((_, leaf)) = self.find(probe) else { return false };
        let head = self.head(probe.key, leaf.skip());
        let mut newest = None;
        for (_, place) in leaf.slots(leaf.len()).filter(|(other, _)| *other == head) {
            self.take_newer(probe, place, &mut newest);
        }
        // Older versions of a key may lie behind the end of the leaf; the newest of them begins the next one.
        if newest.is_none() && leaf.high_head() == head && leaf.high() != NONE {
            self.take_newer(probe, leaf.high(), &mut newest);
        }
        let Some(record) = newest.and_then(|(_, place)| self.record(place)) else { return false };
        visit(&record);
        true
    }

    /// Notes a version of the probe's key, if a reader at its seqno sees it and it is newer than what was noted.
    #[inline]
    fn take_newer(&self, probe: &Probe<'_>, place: u32, newest: &mut Option<(Seqno, u32)>) {
        let Some((key, seqno)) = self.arena.placed(place) else { return };
        let passed_over = planted::active(Bug::NewestVersionInLeafPassedOver);
        let is_newer = seqno <= probe.seqno && newest.is_none_or(|(newest, _)| (newest < seqno) != passed_over);
        if is_newer && self.order.compare(key, probe.key).is_eq() {
            *newest = Some((seqno, place));
        }
    }

    /// The leaf at one end.
    pub(super) fn end(&self, is_last: bool) -> u32 {
        if is_last { self.last.load(Acquire) } else { self.first.load(Acquire) }
    }

    #[inline]
    pub(super) fn leaf(&self, id: u32) -> Option<&Leaf> {
        self.leaves.get(id)
    }

    #[inline]
    pub(super) fn record(&self, place: u32) -> Option<Record<'_>> {
        self.arena.record(place)
    }

    /// The head of a key behind its first bytes; 0 in an order that has no heads.
    #[inline]
    pub(super) fn head(&self, key: &[u8], skip: usize) -> u64 {
        if self.order.is_bytewise() { head(key, skip) } else { 0 }
    }

    /// How a probe stands to the record at a place.
    #[inline]
    pub(super) fn compare(&self, probe: &Probe<'_>, place: u32) -> Ordering {
        let (key, seqno) = self.arena.placed(place).unwrap_or_default();
        self.order.compare_internal((probe.key, probe.seqno), (key, seqno))
    }

    /// How the records at two places stand to each other.
    #[inline]
    pub(super) fn compare_places(&self, a: u32, b: u32) -> Ordering {
        let (key, seqno) = self.arena.placed(a).unwrap_or_default();
        self.compare(&Probe { key, seqno }, b)
    }

    fn is_within(&self, probe: &Probe<'_>, range: Range) -> bool {
        (range.low == NONE || self.compare(probe, range.low) != Ordering::Less)
            && (range.high == NONE || self.compare(probe, range.high) == Ordering::Less)
    }

    /// The child of an inner node in which a probe lies, as far as the reader can see. `floor` is the node's own, 1 above the leaves.
    #[inline]
    fn child(&self, node: &Inner, floor: u64, probe: &Probe<'_>) -> usize {
        let (skip, witness) = (node.skip(), node.witness());
        if witness != NONE {
            let (start, _) = self.arena.placed(witness).unwrap_or_default();
            match probe.key.get(..skip).unwrap_or(probe.key).cmp(start.get(..skip).unwrap_or(start)) {
                Ordering::Less => return 0,
                Ordering::Greater => return node.len().saturating_sub(1),
                Ordering::Equal => {}
            }
        }
        node.find(self.head(probe.key, skip), |child| match self.low(floor - 1, child) {
            NONE => Ordering::Less,
            low => self.compare(probe, low).reverse(),
        })
    }

    /// The first record of a node.
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
        let mut id = root as u32;
        for floor in (1..=root >> 32).rev() {
            let node = self.inners.get(id)?;
            id = child(node.word(self.child(node, floor, probe)));
        }
        Some((id, self.leaves.get(id)?))
    }
}

/// The writer's part.
impl Tree {
    /// The leaf in which a place lies, and the way there.
    fn way(&self, probe: &Probe<'_>) -> Option<(u32, &Leaf, Path)> {
        let root = self.root.load(Relaxed);
        let (mut id, mut path) = (root as u32, Path { steps: [(0, 0); MOST_FLOORS], floors: 0 });
        for floor in (1..=root >> 32).rev() {
            let node = self.inners.get(id)?;
            let at = self.child(node, floor, probe);
            *path.steps.get_mut(path.floors)? = (id, at);
            path.floors += 1;
            id = child(node.word(at));
        }
        Some((id, self.leaves.get(id)?, path))
    }

    /// The first leaf, with the first record.
    fn plant(&self, writer: &mut Writer, probe: Probe<'_>, place: u32) -> Option<usize> {
        let (id, leaf) = self.new_leaf(writer)?;
        leaf.set(Range { low: NONE, high: NONE, skip: 0 }, 0);
        leaf.append(self.head(probe.key, 0), place);
        self.first.store(id, Release);
        self.last.store(id, Release);
        self.root.store(u64::from(id), Release);
        Some(size_of::<Leaf>())
    }

    fn new_leaf(&self, writer: &mut Writer) -> Option<(u32, &Leaf)> {
        let leaf = self.leaves.make(writer.leaves)?;
        writer.leaves += 1;
        Some((writer.leaves - 1, leaf))
    }

    fn new_inner(&self, writer: &mut Writer) -> Option<(u32, &Inner)> {
        let node = self.inners.make(writer.inners)?;
        writer.inners += 1;
        Some((writer.inners - 1, node))
    }

    /// Two leaves take over from a full one, with one record more. Answers how much memory that took.
    fn divide(&self, writer: &mut Writer, full: &Leaf, path: &Path, probe: Probe<'_>, place: u32) -> Option<usize> {
        let inners = writer.inners;
        let (Range { low, high, skip }, prev, next) = (full.range(), full.prev.load(Relaxed), full.next.load(Relaxed));
        let mut all = Sorted::of(self, full);
        let rank = all.insert(self, self.head(probe.key, skip as usize), place);
        let cut = cut(rank, all.len(), prev == NONE, next == NONE);
        let middle = all.place(cut);
        let ((left_id, left), (right_id, right)) = (self.new_leaf(writer)?, self.new_leaf(writer)?);
        self.fill(left, Range { low, high: middle, skip }, &all, 0..cut);
        let from = if planted::active(Bug::DividedLeafLosesItsMiddle) { cut + 1 } else { cut };
        self.fill(right, Range { low: middle, high, skip }, &all, from..all.len());
        left.prev.store(prev, Relaxed);
        left.next.store(right_id, Relaxed);
        right.prev.store(left_id, Relaxed);
        right.next.store(next, Relaxed);
        let turn = self.turns.load(Relaxed);
        self.turns.store(turn + 1, Relaxed);
        fence(Release);
        match self.leaves.get(next) {
            Some(_) if planted::active(Bug::LeafLinkForgotten) => {}
            Some(next) => next.prev.store(right_id, Release),
            None => self.last.store(right_id, Release),
        }
        match self.leaves.get(prev) {
            Some(prev) => prev.next.store(left_id, Release),
            None => self.first.store(left_id, Release),
        }
        let done = self.install(writer, path, path.floors, (left_id, right_id), middle);
        self.turns.store(turn + 2, Release);
        writer.finger = if rank < cut { left_id } else { right_id };
        done?;
        Some(2 * size_of::<Leaf>() + (writer.inners - inners) as usize * size_of::<Inner>())
    }

    /// Fills a leaf that nobody has seen.
    fn fill(&self, leaf: &Leaf, range: Range, all: &Sorted, part: std::ops::Range<usize>) {
        let skip = self.skip(range);
        let anew = skip >= range.skip as usize + WORTH_SKIPPING;
        let range = if anew { Range { skip: skip as u32, ..range } } else { range };
        let head_of = |place| self.arena.placed(place).map_or(0, |(key, _)| self.head(key, range.skip as usize));
        let high_head = if range.high == NONE { 0 } else { head_of(range.high) };
        leaf.set(range, high_head);
        for at in part {
            let place = all.place(at);
            leaf.append(if anew { head_of(place) } else { all.head(at) }, place);
        }
    }

    /// How many bytes the keys of a range have in common, as far as its ends tell.
    fn skip(&self, range: Range) -> usize {
        match (self.arena.placed(range.low), self.arena.placed(range.high)) {
            (Some((low, _)), Some((high, _))) if self.order.is_bytewise() => common_prefix(low, high),
            _ => range.skip as usize,
        }
    }

    /// Shows two nodes in the place of the one that the path leads to, `floors` down from the top.
    fn install(
        &self,
        writer: &mut Writer,
        path: &Path,
        floors: usize,
        (left, right): (u32, u32),
        middle: u32,
    ) -> Option<()> {
        let below = (path.floors - floors) as u64;
        let Some((id, at)) = floors.checked_sub(1).map(|above| path.steps[above]) else {
            let (id, root) = self.new_inner(writer)?;
            self.fill_inner(root, Range { low: NONE, high: NONE, skip: 0 }, below, &[left, right]);
            self.root.store((below + 1) << 32 | u64::from(id), Release);
            return Some(());
        };
        let node = self.inners.get(id)?;
        if !node.is_full() && self.shares(node, middle) {
            let head = self.arena.placed(middle).map_or(0, |(key, _)| self.head(key, node.skip()));
            node.insert(at + 1, word(head, right));
            node.redirect(at, left);
            return Some(());
        }
        let mut children = [0; INNER + 1];
        let (count, before) = (node.len() + 1, 0..=at);
        for to in 0..count {
            children[to] = child(node.word(if before.contains(&to) { to } else { to - 1 }));
        }
        (children[at], children[at + 1]) = (left, right);
        let Range { low, high, skip } = node.range();
        if count <= INNER {
            // The new separator begins otherwise than those that are there: the same node once more, with other heads.
            let (id, anew) = self.new_inner(writer)?;
            self.fill_inner(anew, node.range(), below, &children[..count]);
            return self.replace(path, floors - 1, id);
        }
        // Where records come in ascending order all nodes but the last stay full.
        let cut = if at + 2 == count { count - 2 } else { count / 2 };
        let middle = self.low(below, children[cut]);
        let ((left_id, left), (right_id, right)) = (self.new_inner(writer)?, self.new_inner(writer)?);
        self.fill_inner(left, Range { low, high: middle, skip }, below, &children[..cut]);
        self.fill_inner(right, Range { low: middle, high, skip }, below, &children[cut..]);
        self.install(writer, path, floors - 1, (left_id, right_id), middle)
    }

    /// Shows a node in the place of the one that the path leads to; both hold the same range.
    fn replace(&self, path: &Path, floors: usize, id: u32) -> Option<()> {
        match floors.checked_sub(1).map(|above| path.steps[above]) {
            Some((above, at)) => self.inners.get(above)?.redirect(at, id),
            None => self.root.store((path.floors as u64) << 32 | u64::from(id), Release),
        }
        Some(())
    }

    /// Fills an inner node that nobody has seen.
    fn fill_inner(&self, node: &Inner, range: Range, below: u64, children: &[u32]) {
        let key_of = |at: usize| {
            let place = children.get(at).map_or(NONE, |child| self.low(below, *child));
            (place, self.arena.placed(place).map_or(&[][..], |(key, _)| key))
        };
        let is_open = range.low == NONE || range.high == NONE;
        let (skip, witness) = match children {
            [_, .., _] if is_open && self.order.is_bytewise() => {
                let ((witness, first), (_, last)) = (key_of(1), key_of(children.len() - 1));
                (common_prefix(first, last), witness)
            }
            _ if is_open => (0, NONE),
            _ => (self.skip(range), NONE),
        };
        let head_of = |at| if at == 0 { 0 } else { self.head(key_of(at).1, skip) };
        let words = children.iter().enumerate().map(|(at, child)| word(head_of(at), *child));
        node.fill(Range { skip: skip as u32, ..range }, witness, words);
    }

    /// True if a new separator begins as all others of a node do.
    fn shares(&self, node: &Inner, separator: u32) -> bool {
        let range = node.range();
        if range.low != NONE && range.high != NONE || !self.order.is_bytewise() {
            return true;
        }
        match (self.arena.placed(node.witness()), self.arena.placed(separator)) {
            (Some((witness, _)), Some((key, _))) => common_prefix(witness, key) >= node.skip(),
            _ => false,
        }
    }
}

/// Where a leaf that is full is cut, of so many records with the new one, which has this rank. Where records come in ascending or descending
/// order, nothing more will come into the one that is left behind: it stays full.
fn cut(rank: usize, records: usize, is_first: bool, is_last: bool) -> usize {
    match () {
        () if is_last && rank + 1 == records => rank,
        () if is_first && rank == 0 => 1,
        () => records / 2,
    }
}

const _: () = assert!(LEAF >= 2 && INNER >= 2);
