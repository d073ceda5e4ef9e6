//! The protocol of the memtable's leaves, in every order in which its loads and stores can take effect.
//!
//! The engine's own files are compiled here with loom's atomics and with nodes of two and four entries, so that a few
//! records split leaves and inner nodes. loom then runs writer and reader in all interleavings (with a bounded number
//! of preemptions), and returns every value that the memory model allows from each relaxed load.
//!
//! Invariant: a reader that has seen a published seqno finds every record up to it, by search, forward and backward
//! scans, each once and in order.

#![allow(dead_code, unused_imports, reason = "the engine's files, of which the model needs a part")]

use std::sync::Arc;

use waxseal_lsm::record::{Kind, Record};

// Imports of the engine's files.
mod order {
    pub(crate) use waxseal_lsm::order::*;
}
mod record {
    pub(crate) use waxseal_lsm::record::*;
}
use waxseal_lsm::planted;
mod prefetch {
    pub(crate) const LINE: usize = 64;

    pub(crate) fn prefetch<T: ?Sized>(_: &T) {}
}
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

    pub(super) const LEAF: usize = 2;
    pub(super) const INNER: usize = 4;

    pub(super) fn look_again() {
        loom::thread::yield_now();
    }
}
#[path = "../../src/memtable/deleted.rs"]
mod deleted;
#[path = "../../src/memtable/growing.rs"]
mod growing;
#[path = "../../src/memtable/node.rs"]
mod node;
#[path = "../../src/memtable/placed.rs"]
mod placed;
#[path = "../../src/memtable/sorted.rs"]
mod sorted;
#[path = "../../src/memtable/tree.rs"]
mod tree;
#[path = "../../src/memtable/walk.rs"]
mod walk;

/// Records in a list behind a lock, instead of the arena; this test does not examine their bytes.
mod arena {
    use std::sync::{Arc, Mutex, PoisonError};

    use waxseal_lsm::record::{Kind, Record, Seqno};

    #[derive(Debug, Default)]
    pub(super) struct Arena {
        keys: Mutex<Vec<(&'static [u8], Seqno, Kind)>>,
    }

    #[derive(Debug)]
    pub(super) struct Appender(Arc<Arena>);

    impl Arena {
        pub(super) fn new(_: usize) -> (Arc<Arena>, Appender) {
            let arena: Arc<Arena> = Arc::default();
            (arena.clone(), Appender(arena))
        }

        pub(super) fn placed(&self, place: u32) -> Option<(&[u8], Seqno)> {
            self.at(place).map(|(key, seqno, _)| (key, seqno))
        }

        fn at(&self, place: u32) -> Option<(&'static [u8], Seqno, Kind)> {
            self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(place as usize).copied()
        }

        pub(super) fn ask_for(&self, _: u32) {}

        pub(super) fn reach(&self) -> u64 {
            0
        }

        pub(super) fn record(&self, place: u32) -> Option<Record<'_>> {
            let (key, seqno, kind) = self.at(place)?;
            Some(Record { key, seqno, kind, value: &[], companion: &[] })
        }
    }

    impl Appender {
        pub(super) fn append(
            &mut self,
            record: &Record<'_>,
            _: impl FnOnce(&mut u8, &mut [u8]),
        ) -> Option<(u32, usize)> {
            let mut keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
            let known = super::KEYS.iter().find(|key| key.as_bytes() == record.key)?;
            keys.push((known.as_bytes(), record.seqno, record.kind));
            Some((keys.len() as u32 - 1, 0))
        }
    }
}

const KEYS: [&str; 14] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];

/// Runs writer and reader: `before` exists at the start, and `after` is inserted while a reader looks for all published
/// records.
fn model(before: &'static [&'static str], after: &'static [&'static str], read: fn(&tree::RecordTree, &[&str])) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 100_000;
    builder.check(move || {
        let tree = Arc::new(tree::RecordTree::new(order::Order::bytewise(), 0));
        let published = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let insert = |tree: &tree::RecordTree, key: &str, seqno: u64| {
            // `-a` is a tombstone of `a`.
            let (key, kind) = key.strip_prefix('-').map_or((key, Kind::Put), |key| (key, Kind::Delete));
            let record = Record { key: key.as_bytes(), seqno, kind, value: &[], companion: &[] };
            tree.insert(&record).unwrap();
        };
        for (key, seqno) in before.iter().zip(1..) {
            insert(&tree, key, seqno);
        }
        published.store(before.len() as u64, sync::Ordering::Release);
        let writer = {
            let (tree, published) = (tree.clone(), published.clone());
            loom::thread::spawn(move || {
                for (key, seqno) in after.iter().zip(before.len() as u64 + 1..) {
                    insert(&tree, key, seqno);
                    published.store(seqno, sync::Ordering::Release);
                }
            })
        };
        let seen = published.load(sync::Ordering::Acquire) as usize;
        let told: Vec<&str> = before.iter().chain(after).take(seen).copied().collect();
        read(&tree, &told);
        writer.join().unwrap();
        let all: Vec<&str> = before.iter().chain(after).copied().collect();
        read(&tree, &all);
    });
}

fn finds(tree: &tree::RecordTree, told: &[&str]) {
    for key in told.iter().rev().take(2).chain(told.first()) {
        find(tree, key);
    }
}

fn find(tree: &tree::RecordTree, key: &str) {
    let probe = placed::Probe { key: key.as_bytes(), seqno: 99 };
    assert!(tree.get(&probe, &mut |record| assert_eq!(record.key, key.as_bytes())), "{key} is lost");
}

fn walks(tree: &tree::RecordTree, told: &[&str], forward: bool) {
    let mut walk = walk::LeafWalk::new();
    let mut met: Vec<Vec<u8>> = Vec::new();
    walk.end(tree, !forward);
    while let Some(record) = walk.record(tree) {
        met.push(record.key.to_vec());
        if forward { walk.next(tree) } else { walk.prev(tree) }
    }
    if !forward {
        met.reverse();
    }
    assert!(met.is_sorted_by(|a, b| a < b), "{met:?}");
    assert!(told.iter().all(|key| met.iter().any(|met| met == key.as_bytes())), "{told:?} of {met:?}");
}

#[test]
fn a_search_beside_a_division_finds_what_was_published() {
    model(&["b", "d"], &["c"], finds);
}

/// The leaf of `a` and `c` is split below an inner node that stays. A reader that loaded the node before the split, and
/// its child's word after it, reaches the left half.
#[test]
fn a_search_that_a_division_leads_astray_looks_again() {
    model(&["a", "c", "e", "g", "i", "k"], &["b"], |tree, _| find(tree, "c"));
    model(&["a", "c", "e", "g", "i", "k"], &["f"], |tree, _| find(tree, "k"));
}

/// The inner node is full, and two new nodes replace it.
#[test]
fn a_search_beside_a_division_of_an_inner_node_finds_what_was_published() {
    model(&["a", "c", "e", "g", "i", "k", "l", "n"], &["b", "j"], |tree, _| {
        ["c", "k"].iter().for_each(|key| find(tree, key));
    });
}

#[test]
fn a_walk_beside_a_division_meets_what_was_published_forwards() {
    model(&["b", "d"], &["c", "a"], |tree, told| walks(tree, told, true));
}

#[test]
fn a_walk_beside_a_division_meets_what_was_published_backwards() {
    model(&["b", "d"], &["c", "a"], |tree, told| walks(tree, told, false));
}

/// Checks a reader at a published seqno: scans twice, and relies in the second scan on leaves verified by the first.
fn looks(tree: &tree::RecordTree, told: &[&str]) {
    let seqno = told.len() as u64;
    let mut expected: Vec<&str> = Vec::new();
    for step in told {
        expected.retain(|key| *key != step.trim_start_matches('-'));
        expected.extend((!step.starts_with('-')).then_some(*step));
    }
    expected.sort_unstable();
    for _ in 0..2 {
        let (mut walk, mut met, mut seen) = (walk::LeafWalk::new(), Vec::new(), Vec::new());
        walk.end(tree, false);
        while let Some(record) = walk.record(tree) {
            if record.seqno <= seqno && record.key != seen {
                seen = record.key.to_vec();
                match record.kind {
                    Kind::Put => met.push(String::from_utf8_lossy(record.key).into_owned()),
                    _ if walk.pass_deleted(tree, seqno, None, 2, Some(|_: &Record<'_>| true)).is_some() => {
                        seen = walk.record(tree).unwrap().key.to_vec();
                    }
                    _ => {}
                }
            }
            walk.next(tree);
        }
        assert_eq!(met, expected, "{told:?}");
    }
}

/// Leaves of two entries: `b` is deleted and reinserted while a reader with an older seqno scans past it.
#[test]
fn a_walk_past_deleted_keys_misses_nothing_that_comes_back() {
    model(&["a", "b", "-a", "-b"], &["b", "c"], looks);
    model(&["a", "b", "c", "-a"], &["-b", "a"], looks);
    // Leaves of `a`, of `b`, and of `c` and `d`: the newer `c` enters the leaf of `b` after the reader examined it, but
    // before the cursor is positioned there.
    model(&["-a", "d", "-b", "c"], &["c"], looks);
}
