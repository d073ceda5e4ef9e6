//! Configuration epochs with concurrent writers on real threads: every batch ordered after a change was built under the
//! new epoch, and every earlier one under the old. No batch is ordered after the drop of its family.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts, Precondition};
use waxseal_lsm::env::Env;
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::names::system_id;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::record::Kind;
use waxseal_testing::store::*;

const WRITERS: usize = 6;
const CHANGES: u32 = 200;

#[test]
fn every_write_is_made_under_the_rules_of_its_seqno() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path(), settings(), parts(Env::real())).unwrap();
    let (published, change, done) = (AtomicU32::new(0), Mutex::new(()), AtomicBool::new(false));
    let begun = Barrier::new(WRITERS + 1);
    let (mut changes, mut refused) = (Vec::new(), 0u64);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, published, change, done, begun) = (&db, &published, &change, &done, &begun);
                scope.spawn(move || {
                    begun.wait();
                    let (mut n, mut refused) = (0u64, 0u64);
                    while !done.load(Ordering::Relaxed) || n < 50 {
                        let (epoch, version) = (db.epoch(), published.load(Ordering::Acquire));
                        if epoch as u32 != version {
                            drop(change.lock().unwrap()); // the changing thread is about to publish them
                            continue;
                        }
                        let mut batch = Batch::new();
                        let key = format!("{writer} {n}").into_bytes();
                        batch.push(0, Kind::Put, &key, &version.to_le_bytes(), db.companions()).unwrap();
                        match db
                            .commit_observed(&mut batch, Durability::Os, Precondition::epoch(epoch), &mut |_| {})
                            .unwrap()
                        {
                            Some(_) => n += 1,
                            None => refused += 1,
                        }
                    }
                    refused
                })
            })
            .collect();
        begun.wait();
        for version in 1..=CHANGES {
            let _one_at_a_time = change.lock().unwrap();
            let mut batch = Batch::new();
            batch.push(0, Kind::Put, b"rules", &version.to_le_bytes(), db.companions()).unwrap();
            let publish = &mut |_| published.store(version, Ordering::Release);
            let last = Precondition::epoch(db.epoch()).last_of_epoch(version);
            changes.push(db.commit_observed(&mut batch, Durability::Os, last, publish).unwrap().unwrap());
            drop(_one_at_a_time);
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        refused += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>();
    });
    let mut cursor = db.cursor(&default(&db), At::Latest, (Bound::Unbounded, Bound::Unbounded)).unwrap();
    cursor.first().unwrap();
    let mut writes = 0;
    while cursor.valid() {
        let record = cursor.record();
        let version = u32::from_le_bytes(record.value.try_into().unwrap());
        let so_far = changes.partition_point(|seqno| *seqno <= record.seqno) as u32;
        assert_eq!(version, so_far, "{:?} at seqno {}", record.key, record.seqno);
        writes += 1;
        cursor.next().unwrap();
    }
    println!("{writes} writes, {CHANGES} changes of rules, {refused} batches handed back");
    assert!(writes > WRITERS * 50);
}

#[test]
fn nothing_is_ordered_behind_the_end_of_its_family() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path(), settings(), parts(Env::real())).unwrap();
    for round in 0..20 {
        let family = db.create_family("passing", options()).unwrap();
        let begun = Barrier::new(WRITERS + 1);
        let (mut end, mut acknowledged) = (0, 0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS as u64)
                .map(|writer| {
                    let (db, family, begun) = (&db, &family, &begun);
                    scope.spawn(move || {
                        let (mut seqnos, mut n) = (Vec::new(), 0u64);
                        begun.wait();
                        loop {
                            n += 1;
                            match put(db, family, &(writer << 32 | n).to_le_bytes(), b"v", Durability::Os) {
                                Ok(seqno) => seqnos.push(seqno),
                                Err(error) => {
                                    assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
                                    return seqnos;
                                }
                            }
                        }
                    })
                })
                .collect();
            begun.wait();
            (0..round * 10).for_each(|_| std::thread::yield_now());
            let mut note = |seqno| {
                end = seqno;
                Vec::new()
            };
            db.drop_family_with("passing", &mut note).unwrap();
            for writer in writers {
                let seqnos = writer.join().unwrap();
                assert!(seqnos.iter().all(|seqno| *seqno < end), "round {round}: {end} and {:?}", seqnos.last());
                acknowledged += seqnos.len();
            }
        });
        assert!(end > 0 && db.family("passing").is_none(), "round {round}, {acknowledged} writes");
    }
    db.close().unwrap();
}

#[test]
fn a_store_gets_system_families_when_it_is_opened_for_writing() {
    let (sim, dir) = sim(31);
    let db = open(&sim, &dir);
    put(&db, &default(&db), b"k", b"v", Durability::Os).unwrap();
    db.close().unwrap();
    let with = |key_ends_in_seqno: bool, system: u8| {
        let log = CfOptions { system: Some(system), key_ends_in_seqno, ..options() };
        let families = vec![
            ("system_metadata.log".to_owned(), log),
            ("late".to_owned(), options()),
            ("default".to_owned(), options()),
        ];
        Parts { families, ..parts(sim.env(sim.steps())) }
    };
    let reader = Db::open_read_only(&dir, settings(), with(true, 1)).unwrap();
    assert_eq!((reader.families().len(), reader.epoch()), (1, 0));
    drop(reader);
    let db = Db::open(&dir, settings(), with(true, 1)).unwrap();
    let ids: Vec<u32> = db.families().iter().map(|family| family.id()).collect();
    assert_eq!(ids, [0, 1, system_id(1)]);
    db.close().unwrap();
    // The options of an existing family cannot change; an open that does not name the family uses the stored ones.
    for wrong in [with(false, 1), with(true, 2)] {
        assert_eq!(*Db::open(&dir, settings(), wrong).unwrap_err().kind(), ErrorKind::Invalid);
    }
    let misnamed = |name: &str, system| {
        let families = vec![(name.to_owned(), CfOptions { system, ..options() })];
        Db::open(&dir, settings(), Parts { families, ..parts(sim.env(sim.steps())) }).unwrap_err()
    };
    for error in [misnamed("mine", Some(3)), misnamed("system_metadata.schema", None), misnamed("", None)] {
        assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
    }
    let db = open(&sim, &dir);
    let log = db.family("system_metadata.log").unwrap();
    assert_eq!((log.options().system, log.options().key_ends_in_seqno), (Some(1), true));
    assert_eq!(get(&db, &default(&db), b"k", At::Latest).unwrap().as_deref(), Some(&b"v"[..]));
}
