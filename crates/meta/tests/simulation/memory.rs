//! Unflushed records: each is found at every snapshot that sees it, and by a cursor in both directions.

use std::collections::BTreeMap;
use std::sync::Arc;

use waxseal_lsm::db::{At, Parts, Snapshot};
use waxseal_lsm::env::SeededRandom;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::{CfOptions, Settings};
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::seam::Plain;
use waxseal_testing::harness::{DIR, Store, parts};
use waxseal_testing::store::ALL as EVERYTHING;

pub const ALL: [fn(); 1] = [newest_records];

/// The more expensive checks.
pub const QUEUES: [fn(); 1] = [|| queue(0)];

#[test]
fn the_newest_records_are_found_both_ways_and_at_every_moment() {
    ALL.iter().chain(&QUEUES).for_each(|check| check());
}

type Content = BTreeMap<Vec<u8>, u32>;

fn opened(sim: &SimFs) -> Store {
    let settings =
        Settings { segment_bytes: 64 * 1024, ring_bytes: 16 * 1024, drain_bytes: 4096, ..Settings::default() };
    let parts = Parts { env: sim.env(sim.steps()), ..parts(Arc::new(Plain), CfOptions::default()) };
    Store::of(sim, DIR, settings, parts).expect("the store")
}

fn write(store: &Store, key: &[u8], value: Option<u32>) {
    match value {
        Some(value) => store.put(key, &value.to_le_bytes()),
        None => store.delete(key),
    }
}

fn newest_records() {
    let sim = SimFs::new(7);
    let store = opened(&sim);
    let key = |n: u32| format!("{:08}", n.wrapping_mul(0x9E37_79B9) >> 16 & 0x3FF).into_bytes();
    let mut content = Content::new();
    let mut moments: Vec<(Snapshot, Content)> = Vec::new();
    for n in 0..3_000u32 {
        let (key, is_put) = (key(n), n % 5 != 3);
        write(&store, &key, is_put.then_some(n));
        if is_put {
            content.insert(key, n)
        } else {
            content.remove(&key)
        };
        match n {
            // Older versions would be read from a table.
            600 => store.db.flush().expect("flushed"),
            _ if n % 500 == 499 => moments.push((store.db.snapshot().expect("a moment"), content.clone())),
            _ => {}
        }
    }
    holds(&store, At::Latest, &content);
    moments.iter().for_each(|(moment, content)| holds(&store, At::Snapshot(moment), content));
}

/// A queue: rows are added at one end and removed at the other, and some return at the front. It is read at the latest
/// commit, at old snapshots, and with cursors of the same age that continue while rows are added.
fn queue(seed: u64) {
    let sim = SimFs::new(seed);
    let store = opened(&sim);
    let key = |n: u32| format!("{n:08}").into_bytes();
    let random = SeededRandom::new(seed);
    let (mut content, mut tail, mut gone) = (Content::new(), 0u32, 0u32);
    let mut moments: Vec<(Snapshot, Content)> = Vec::new();
    let mut walks: Vec<(UserCursor, Vec<u32>)> = Vec::new();
    for n in 0..1_500u32 {
        match random.below(64) {
            0 => {
                // At the front again, or once more.
                let back = random.below(u64::from(tail) + 1) as u32;
                write(&store, &key(back), Some(n));
                content.insert(key(back), n);
            }
            1 if moments.len() < 6 => moments.push((store.db.snapshot().expect("a moment"), content.clone())),
            2 => drop(moments.pop()),
            3 if walks.len() < 4 => {
                let mut cursor = store.db.cursor(&store.family, At::Latest, EVERYTHING).expect("a cursor");
                cursor.first().expect("read");
                walks.push((cursor, content.values().rev().copied().collect()));
            }
            4 if n % 7 == 0 => store.db.flush().expect("flushed"),
            5..24 => {
                write(&store, &key(tail), Some(n));
                content.insert(key(tail), n);
                tail += 1;
            }
            24..44 => {
                // The head, or a row after it.
                let from =
                    if random.below(4) == 0 { key(random.below(u64::from(tail) + 1) as u32) } else { Vec::new() };
                if let Some(row) = content.range(from..).map(|(row, _)| row.clone()).next() {
                    write(&store, &row, None);
                    content.remove(&row);
                    gone += 1;
                }
            }
            _ => {}
        }
        let found = |at, from: &[u8]| {
            let mut cursor = store.db.cursor(&store.family, at, EVERYTHING).expect("a cursor");
            cursor.seek(from).expect("read");
            cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()))
        };
        let from = key(if random.below(2) == 0 { 0 } else { random.below(u64::from(tail) + 1) as u32 });
        let expected = |content: &Content| {
            content.range(from.clone()..).next().map(|(key, n)| (key.clone(), n.to_le_bytes().to_vec()))
        };
        assert_eq!(found(At::Latest, &from), expected(&content), "now, from {}", from.escape_ascii());
        for (moment, content) in &moments {
            assert_eq!(found(At::Snapshot(moment), &from), expected(content), "from {}", from.escape_ascii());
        }
        if !walks.is_empty() {
            let at = random.below(walks.len() as u64) as usize;
            let (cursor, left) = &mut walks[at];
            let next = left.pop();
            assert_eq!(cursor.valid().then(|| cursor.value().to_vec()), next.map(|n| n.to_le_bytes().to_vec()));
            match next {
                Some(_) => cursor.next().expect("read"),
                None => drop(walks.remove(at)),
            }
        }
    }
    assert!(gone > 300, "{gone} rows have gone");
    holds_rows(&store, At::Latest, &content);
}

fn holds(store: &Store, at: At<'_>, content: &Content) {
    for n in 0..0x400 {
        let key = format!("{n:08}").into_bytes();
        let expected = content.get(&key).map(|n| n.to_le_bytes().to_vec());
        assert_eq!(store.value(at, &key), expected, "{}", key.escape_ascii());
    }
    holds_rows(store, at, content);
}

fn holds_rows(store: &Store, at: At<'_>, content: &Content) {
    let found: Vec<_> = store.scan_at(at).into_iter().map(|record| (record.key, record.value)).collect();
    let all: Vec<_> = content.iter().map(|(key, n)| (key.clone(), n.to_le_bytes().to_vec())).collect();
    assert!(found == all);
}
