//! Commits that depend on the value of a key, with the attempts of one thread in between.

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{Condition, Db, Family, Precondition};
use waxseal_lsm::options::{Durability, Verify};
use waxseal_lsm::record::Kind;
use waxseal_testing::store::*;

fn batch(db: &Db, family: &Family, key: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.push(family.id(), Kind::Put, key, value, db.companions()).unwrap();
    batch
}

/// Puts a key; returns false if the commit would have had to wait.
fn put_at_once(db: &Db, family: &Family, key: &[u8], value: &[u8]) -> bool {
    let under = Precondition::epoch(db.epoch()).without_waiting();
    db.commit_if(&mut batch(db, family, key, value), Durability::Os, under).unwrap().is_some()
}

#[test]
fn after_three_rejections_other_commits_wait_for_the_fourth_attempt() {
    let (sim, dir) = sim(21);
    let db = open(&sim, &dir);
    let family = default(&db);
    let mut own = batch(&db, &family, b"key", b"own");
    let mut read = db.read_optimistic(&family, b"key", Verify::Always).unwrap();
    let mut attempt = |meanwhile: &dyn Fn()| {
        read.prepare().unwrap();
        let under = read.precondition().unwrap().expect("the key is unchanged");
        meanwhile();
        db.commit_if(&mut own, Durability::Os, under.in_epoch(db.epoch())).unwrap()
    };
    for n in 0..3u8 {
        assert_eq!(attempt(&|| assert!(put_at_once(&db, &family, b"other", &[n]))), None, "attempt {n}");
    }
    let seqno = attempt(&|| assert!(!put_at_once(&db, &family, b"other", b"late"), "it did not wait"));
    assert!(seqno.is_some());
    assert!(!put_at_once(&db, &family, b"other", b"late"), "the hold lasts as long as the read");
    drop(read);
    assert!(put_at_once(&db, &family, b"other", b"late"));
}

#[test]
fn a_hold_stops_no_commit_for_good() {
    let (sim, dir) = sim(22);
    let db = open(&sim, &dir);
    let family = default(&db);
    let mut own = batch(&db, &family, b"key", b"own");
    let mut read = db.read_optimistic(&family, b"key", Verify::Always).unwrap();
    // Another commit intervenes in every attempt: with a hold, it ends the hold. The only thread cannot wait.
    for n in 0..10u8 {
        read.prepare().unwrap();
        let under = read.precondition().unwrap().expect("the key is unchanged").in_epoch(db.epoch());
        put(&db, &family, b"other", &[n], Durability::Os).unwrap();
        assert_eq!(db.commit_if(&mut own, Durability::Os, under).unwrap(), None, "attempt {n}");
    }
    // A commit whose lock the holder may need passes, and so does a second holder, after the first.
    read.prepare().unwrap();
    let passing = Precondition::epoch(db.epoch()).passing_holds();
    assert!(db.commit_if(&mut batch(&db, &family, b"other", b"passing"), Durability::Os, passing).unwrap().is_some());
    let mut second = db.read_optimistic(&family, b"key", Verify::Always).unwrap();
    (0..4).for_each(|_| second.prepare().unwrap());
    let next = db.snapshot().unwrap().seqno() + 1;
    assert_eq!(db.commit_when(&mut own, Durability::Os, &mut second).unwrap(), Some(next));
    drop(second);
    // The key has changed: the first one decides again.
    assert_eq!(db.commit_when(&mut own, Durability::Os, &mut read).unwrap(), None);
    assert_eq!(read.value(), Some(&b"own"[..]));
    assert!(db.commit_when(&mut own, Durability::Os, &mut read).unwrap().is_some());
}

#[test]
fn a_read_is_stale_once_the_key_has_another_value() {
    let (sim, dir) = sim(23);
    let db = open(&sim, &dir);
    let family = default(&db);
    let mut own = batch(&db, &family, b"key", b"own");
    let attempt = |own: &mut Batch, meanwhile: &dyn Fn()| {
        let mut read = db.read_optimistic(&family, b"key", Verify::Always).unwrap();
        meanwhile();
        let committed = db.commit_when(own, Durability::Os, &mut read).unwrap().is_some();
        (committed, read.value().map(<[u8]>::to_vec))
    };
    let set = |value: &[u8]| {
        put(&db, &family, b"key", value, Durability::Os).unwrap();
    };
    let remove = || {
        delete(&db, &family, b"key").unwrap();
    };
    assert_eq!(attempt(&mut own, &|| set(b"1")), (false, Some(b"1".to_vec())));
    assert_eq!(attempt(&mut own, &remove), (false, None));
    // An absent key that was written and removed is as it was read, in memory and in a table.
    for place in [|_: &Db| {}, |db: &Db| db.settle().unwrap()] {
        let back = || {
            set(b"2");
            place(&db);
            remove();
            place(&db);
        };
        assert_eq!(attempt(&mut own, &back), (true, None));
        assert_eq!(attempt(&mut own, &remove), (false, None));
    }
    set(b"1");
    // The same value again, in memory and in a table.
    assert!(attempt(&mut own, &|| set(b"1")).0);
    set(b"1");
    let settle = || {
        set(b"2");
        set(b"1");
        db.settle().unwrap();
    };
    assert!(attempt(&mut own, &settle).0);
    assert_eq!(get(&db, &family, b"key", waxseal_lsm::db::At::Latest).unwrap(), Some(b"own".to_vec()));
}
