//! Unflushed records: each is found at every snapshot that sees it, and by a cursor in both directions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts, Snapshot};
use waxseal_lsm::env::SeededRandom;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::read::UserCursor;
use waxseal_lsm::record::Kind;

pub const ALL: [fn(); 1] = [newest_records];

/// The more expensive checks.
pub const QUEUES: [fn(); 1] = [|| queue(0)];

#[test]
fn the_newest_records_are_found_both_ways_and_at_every_moment() {
    ALL.iter().chain(&QUEUES).for_each(|check| check());
}

type Content = BTreeMap<Vec<u8>, u32>;

fn opened(sim: &SimFs) -> (Db, Family) {
    let parts =
        Parts { env: sim.env(sim.steps()), families: vec![("default".into(), CfOptions::default())], ..Parts::real() };
    let settings =
        Settings { segment_bytes: 64 * 1024, ring_bytes: 16 * 1024, drain_bytes: 4096, ..Settings::default() };
    let db = Db::open(Path::new("/store"), settings, parts).expect("the store");
    let family = db.family("default").expect("the default family");
    (db, family)
}

fn write(db: &Db, family: &Family, key: &[u8], value: Option<u32>) {
    let (kind, value) = (if value.is_some() { Kind::Put } else { Kind::Delete }, value.map(u32::to_le_bytes));
    let mut batch = Batch::new();
    let value = value.as_ref().map_or(&[][..], |value| value);
    batch.push(family.id(), kind, key, value, db.companions()).expect("pushed");
    db.commit(&mut batch, Durability::Os).expect("committed");
}

fn newest_records() {
    let sim = SimFs::new(7);
    let (db, family) = opened(&sim);
    let key = |n: u32| format!("{:08}", n.wrapping_mul(0x9E37_79B9) >> 16 & 0x3FF).into_bytes();
    let mut content = Content::new();
    let mut moments: Vec<(Snapshot, Content)> = Vec::new();
    for n in 0..3_000u32 {
        let (key, is_put) = (key(n), n % 5 != 3);
        write(&db, &family, &key, is_put.then_some(n));
        if is_put {
            content.insert(key, n)
        } else {
            content.remove(&key)
        };
        match n {
            // Older versions would be read from a table.
            600 => db.flush().expect("flushed"),
            _ if n % 500 == 499 => moments.push((db.snapshot().expect("a moment"), content.clone())),
            _ => {}
        }
    }
    holds(&db, &family, At::Latest, &content);
    moments.iter().for_each(|(moment, content)| holds(&db, &family, At::Snapshot(moment), content));
}

/// A queue: rows are added at one end and removed at the other, and some return at the front. It is read at the latest
/// commit, at old snapshots, and with cursors of the same age that continue while rows are added.
fn queue(seed: u64) {
    let sim = SimFs::new(seed);
    let (db, family) = opened(&sim);
    let all = || (Bound::Unbounded, Bound::Unbounded);
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
                write(&db, &family, &key(back), Some(n));
                content.insert(key(back), n);
            }
            1 if moments.len() < 6 => moments.push((db.snapshot().expect("a moment"), content.clone())),
            2 => drop(moments.pop()),
            3 if walks.len() < 4 => {
                let mut cursor = db.cursor(&family, At::Latest, all()).expect("a cursor");
                cursor.first().expect("read");
                walks.push((cursor, content.values().rev().copied().collect()));
            }
            4 if n % 7 == 0 => db.flush().expect("flushed"),
            5..24 => {
                write(&db, &family, &key(tail), Some(n));
                content.insert(key(tail), n);
                tail += 1;
            }
            24..44 => {
                // The head, or a row after it.
                let from =
                    if random.below(4) == 0 { key(random.below(u64::from(tail) + 1) as u32) } else { Vec::new() };
                if let Some(row) = content.range(from..).map(|(row, _)| row.clone()).next() {
                    write(&db, &family, &row, None);
                    content.remove(&row);
                    gone += 1;
                }
            }
            _ => {}
        }
        let found = |at, from: &[u8]| {
            let mut cursor = db.cursor(&family, at, all()).expect("a cursor");
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
    holds_rows(&db, &family, At::Latest, &content);
}

fn holds(db: &Db, family: &Family, at: At<'_>, content: &Content) {
    for n in 0..0x400 {
        let (key, mut found) = (format!("{n:08}").into_bytes(), None);
        db.get(family, &key, at, &mut |record| found = Some(record.value.to_vec())).expect("read");
        assert_eq!(found, content.get(&key).map(|n| n.to_le_bytes().to_vec()), "{}", key.escape_ascii());
    }
    holds_rows(db, family, at, content);
}

fn holds_rows(db: &Db, family: &Family, at: At<'_>, content: &Content) {
    let mut cursor = db.cursor(family, at, (Bound::Unbounded, Bound::Unbounded)).expect("a cursor");
    for forward in [true, false] {
        let mut met = Vec::new();
        if forward {
            cursor.first().expect("read")
        } else {
            cursor.last().expect("read")
        }
        while cursor.valid() {
            met.push((cursor.key().to_vec(), cursor.value().to_vec()));
            if forward { cursor.next().expect("read") } else { cursor.prev().expect("read") }
        }
        if !forward {
            met.reverse();
        }
        let all: Vec<_> = content.iter().map(|(key, n)| (key.clone(), n.to_le_bytes().to_vec())).collect();
        assert!(met == all, "forward: {forward}");
    }
}
