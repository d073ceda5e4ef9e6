//! A list on `crossbeam-skiplist`, without unsafe code of ours: the oracle for the tree in tests.
//!
//! A node holds the lead of its key (sixteen bytes and the length), its seqno, and one shared allocation with key,
//! value and companions. Keys up to sixteen bytes are found without following that pointer: one line of memory a node.
//!
//! `crossbeam-skiplist` 0.1.3 lets readers miss an entry while it is being replaced. No entry is replaced here: keys
//! are unique, and `get_or_insert` would keep an existing entry. Lookups allocate nothing: they compare against a
//! borrowed `SkiplistProbe`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use crossbeam_skiplist::SkipMap;

use crate::order::{Lead, Order};
use crate::record::{Kind, MAX_KEY_BYTES, Record, Seqno};

/// Records in internal order.
#[derive(Debug)]
pub(super) struct Skiplist {
    order: Order,
    nodes: SkipMap<Node, ()>,
}

/// One record in the list. A clone shares the bytes.
#[derive(Clone, Debug)]
pub(super) struct Node {
    lead: Lead,
    seqno: Seqno,
    /// Key, value and companions, back to back.
    bytes: Arc<[u8]>,
    order: Order,
    companion_len: u32,
    key_len: u16,
    kind: Kind,
}

impl Skiplist {
    pub(super) fn new(order: Order) -> Skiplist {
        Skiplist { order, nodes: SkipMap::new() }
    }

    /// Inserts a record.
    pub(super) fn insert(&self, record: &Record<'_>) {
        let node = Node::new(&self.order, record);
        let before = self.nodes.len();
        self.nodes.get_or_insert(node, ());
        debug_assert_eq!(self.nodes.len(), before + 1, "a key came twice, or two threads insert");
    }

    pub(super) fn get(&self, key: &[u8], seqno: Seqno, visit: &mut dyn FnMut(&Record<'_>)) -> bool {
        let probe = SkiplistProbe::new(&self.order, key, seqno);
        let Some(entry) = self.nodes.lower_bound(Bound::Included(&probe as &dyn Placed)) else { return false };
        let found = entry.key();
        if found.place().compare_key(&probe.place()) != Ordering::Equal {
            return false;
        }
        visit(&found.record());
        true
    }

    /// Appends up to `limit` nodes from `start` on, in order or backwards.
    pub(super) fn run(&self, start: Start<'_>, forward: bool, limit: usize, out: &mut Vec<Node>) {
        let mut entry = match (start, forward) {
            (Start::Edge, true) => self.nodes.front(),
            (Start::Edge, false) => self.nodes.back(),
            (Start::At(key, seqno), _) => {
                let probe = SkiplistProbe::new(&self.order, key, seqno);
                let bound = Bound::Included(&probe as &dyn Placed);
                if forward { self.nodes.lower_bound(bound) } else { self.nodes.upper_bound(bound) }
            }
        };
        while let Some(at) = &mut entry {
            out.push(at.key().clone());
            if out.len() == limit || !(if forward { at.move_next() } else { at.move_prev() }) {
                break;
            }
        }
    }
}

/// The start of a run of nodes.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// At the first or last node of the list.
    Edge,
    /// At this place, or at the next node in the direction.
    At(&'a [u8], Seqno),
}

impl Node {
    fn new(order: &Order, record: &Record<'_>) -> Node {
        debug_assert!(record.key.len() <= MAX_KEY_BYTES, "a batch refuses longer keys");
        Node {
            lead: order.lead(record.key),
            seqno: record.seqno,
            bytes: [record.key, record.value, record.companion].concat().into(),
            order: order.clone(),
            companion_len: record.companion.len() as u32,
            key_len: record.key.len() as u16,
            kind: record.kind,
        }
    }

    pub(super) fn record(&self) -> Record<'_> {
        let (key, rest) = self.bytes.split_at(self.key_len.into());
        let (value, companion) = rest.split_at(rest.len() - self.companion_len as usize);
        Record { key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}

/// A search key.
struct SkiplistProbe<'a>(NodeKey<'a>);

impl<'a> SkiplistProbe<'a> {
    fn new(order: &'a Order, key: &'a [u8], seqno: Seqno) -> SkiplistProbe<'a> {
        SkiplistProbe(NodeKey { lead: order.lead(key), seqno, key, order })
    }
}

/// The fields that decide the order.
#[derive(Clone, Copy)]
struct NodeKey<'a> {
    lead: Lead,
    seqno: Seqno,
    key: &'a [u8],
    order: &'a Order,
}

impl NodeKey<'_> {
    #[inline]
    fn compare_key(&self, other: &NodeKey<'_>) -> Ordering {
        self.lead.compare(&other.lead).unwrap_or_else(|| self.order.compare(self.key, other.key))
    }

    /// Internal order (I02).
    #[inline]
    fn compare(&self, other: &NodeKey<'_>) -> Ordering {
        self.compare_key(other).then_with(|| other.seqno.cmp(&self.seqno))
    }
}

/// A node of the list or a probe. `SkipMap` looks up by types that its key can be borrowed as, and a node cannot be
/// borrowed as a `SkiplistProbe` that borrows from elsewhere; both can be borrowed as this trait.
trait Placed {
    fn place(&self) -> NodeKey<'_>;
}

impl Placed for Node {
    #[inline]
    fn place(&self) -> NodeKey<'_> {
        // Creating the slice needs only its length; its bytes are read only if the leads are equal.
        NodeKey { lead: self.lead, seqno: self.seqno, key: &self.bytes[..self.key_len.into()], order: &self.order }
    }
}

impl Placed for SkiplistProbe<'_> {
    #[inline]
    fn place(&self) -> NodeKey<'_> {
        self.0
    }
}

impl<'a> Borrow<dyn Placed + 'a> for Node {
    fn borrow(&self) -> &(dyn Placed + 'a) {
        self
    }
}

impl Ord for dyn Placed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().compare(&other.place())
    }
}

impl PartialOrd for dyn Placed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Placed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for dyn Placed + '_ {}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().compare(&other.place())
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Node {}
