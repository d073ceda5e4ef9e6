//! Records that no flush has taken up yet: each is found, at every moment that it was seen at, and along a cursor both ways, in either kind of memtable.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts, Snapshot};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::{CfOptions, Durability, MemtableKind, Settings};
use waxseal_lsm::record::Kind;

pub const ALL: [fn(); 2] = [|| newest_records(MemtableKind::Arena), || newest_records(MemtableKind::Skiplist)];

#[test]
fn the_newest_records_are_found_both_ways_and_at_every_moment() {
    ALL.iter().for_each(|check| check());
}

type Content = BTreeMap<Vec<u8>, u32>;

fn newest_records(kind: MemtableKind) {
    let sim = SimFs::new(7);
    let parts =
        Parts { env: sim.env(sim.steps()), families: vec![("default".into(), CfOptions::default())], ..Parts::real() };
    let settings = Settings {
        memtable: kind,
        segment_bytes: 64 * 1024,
        ring_bytes: 16 * 1024,
        drain_bytes: 4096,
        ..Settings::default()
    };
    let db = Db::open(Path::new("/store"), settings, parts).expect("the store");
    let family = db.family("default").expect("the default family");
    let key = |n: u32| format!("{:08}", n.wrapping_mul(0x9E37_79B9) >> 16 & 0x3FF).into_bytes();
    let mut content = Content::new();
    let mut moments: Vec<(Snapshot, Content)> = Vec::new();
    let mut batch = Batch::new();
    for n in 0..3_000u32 {
        batch.clear();
        let (key, is_put) = (key(n), n % 5 != 3);
        let (kind, value) = if is_put { (Kind::Put, n.to_le_bytes().to_vec()) } else { (Kind::Delete, Vec::new()) };
        batch.push(family.id(), kind, &key, &value, db.companions()).expect("pushed");
        db.commit(&mut batch, Durability::Os).expect("committed");
        if is_put {
            content.insert(key, n)
        } else {
            content.remove(&key)
        };
        match n {
            // What lies in a table is what older versions would be served from.
            600 => db.flush().expect("flushed"),
            _ if n % 500 == 499 => moments.push((db.snapshot().expect("a moment"), content.clone())),
            _ => {}
        }
    }
    holds(&db, &family, At::Latest, &content);
    moments.iter().for_each(|(moment, content)| holds(&db, &family, At::Snapshot(moment), content));
}

fn holds(db: &Db, family: &Family, at: At<'_>, content: &Content) {
    for n in 0..0x400 {
        let (key, mut found) = (format!("{n:08}").into_bytes(), None);
        db.get(family, &key, at, &mut |record| found = Some(record.value.to_vec())).expect("read");
        assert_eq!(found, content.get(&key).map(|n| n.to_le_bytes().to_vec()), "{}", key.escape_ascii());
    }
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
