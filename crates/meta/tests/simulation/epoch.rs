//! Configuration epochs: the conditions for ordering batches, keys that end in seqnos, write access to families, and
//! the rows of dropped families.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use waxseal_lsm::batch::{Batch, SystemPass, seqno_of_before};
use waxseal_lsm::db::{At, Db, Family, Parts, Precondition};
use waxseal_lsm::env::sim::{Crash, Fault, Loss, SimFs};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::names::system_id;
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_lsm::seam::Emitted;
use waxseal_testing::protector::{ROWS, TestProtector};

/// The system family of these stores.
const LOG: u32 = system_id(1);

/// Rows by key, with their values and seqnos.
type Found = Vec<(Vec<u8>, Vec<u8>, Seqno)>;

struct Store {
    sim: SimFs,
    protector: Arc<TestProtector>,
    memtable_bytes: usize,
    db: Option<Db>,
}

impl Store {
    fn new(seed: u64) -> Store {
        let mut store = Store { sim: SimFs::new(seed), protector: Arc::default(), memtable_bytes: 64 * 1024, db: None };
        store.open().unwrap();
        store
    }

    fn open(&mut self) -> Result<()> {
        let options = CfOptions { block_bytes: 256, level0_tables: 8, ..CfOptions::default() };
        let log = CfOptions { system: Some(1), key_ends_in_seqno: true, ..options.clone() };
        let families = vec![
            ("default".to_owned(), options.clone()),
            ("rows".to_owned(), options),
            ("system_metadata.log".to_owned(), log),
        ];
        let env = self.sim.env(self.sim.steps());
        let settings = Settings {
            memtable_bytes: self.memtable_bytes,
            segment_bytes: 64 * 1024,
            ring_bytes: 32 * 1024,
            drain_bytes: 8 * 1024,
            ..Settings::default()
        };
        let parts = Parts { env, families, companions: self.protector.clone(), ..Parts::real() };
        self.db = Some(Db::open(&PathBuf::from("/store"), settings, parts)?);
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn kill_and_open(&mut self, crash: Crash) {
        self.sim.crash_at(self.sim.steps());
        self.db = None;
        self.sim.reboot(crash);
        self.open().unwrap();
    }

    fn batch(&self, operations: &[(u32, Kind, &[u8])]) -> Batch {
        let mut batch = Batch::new();
        for (family, kind, key) in operations {
            batch.push(*family, *kind, key, b"v", self.db().companions()).unwrap();
        }
        batch
    }

    fn put(&self, family: u32, key: &[u8]) -> Result<Seqno> {
        self.db().commit(&mut self.batch(&[(family, Kind::Put, key)]), Durability::Os)
    }

    fn family(&self, id: u32) -> Option<Family> {
        self.db().families().into_iter().find(|family| family.id() == id)
    }

    fn rows(&self, id: u32) -> Found {
        rows(self.db(), &self.family(id).unwrap())
    }
}

fn rows(db: &Db, family: &Family) -> Found {
    let mut cursor = db.cursor(family, At::Latest, (Bound::Unbounded, Bound::Unbounded)).unwrap();
    let mut rows = Vec::new();
    cursor.first().unwrap();
    while cursor.valid() {
        let record = cursor.record();
        rows.push((record.key.to_vec(), record.value.to_vec(), record.seqno));
        cursor.next().unwrap();
    }
    rows
}

fn is_invalid<T: std::fmt::Debug>(outcome: Result<T>, what: &str) {
    assert_eq!(*outcome.unwrap_err().kind(), ErrorKind::Invalid, "{what}");
}

fn open_key(name: &[u8], before: u64) -> Vec<u8> {
    [name, &seqno_of_before(before)].concat()
}

/// A batch of another configuration epoch is rejected for retry, whichever thread changed the epoch. A batch that
/// changes the epoch is the last one of the old epoch.
pub fn batches_of_other_rules_are_handed_back() {
    let mut store = Store::new(21);
    let old = store.db().epoch();
    assert_eq!(old, 0);
    let mut ordered = Vec::new();
    let mut change = store.batch(&[(0, Kind::Put, b"change"), (0, Kind::Put, b"rules")]);
    let as_last = Precondition::epoch(old).last_of_epoch(7);
    let last = store.db().commit_observed(&mut change, Durability::Os, as_last, &mut |seqno| ordered.push(seqno));
    let last = last.unwrap().unwrap();
    assert_eq!((store.db().epoch(), ordered, last), (7, vec![last - 1], last));
    let mut batch = store.batch(&[(0, Kind::Put, b"a")]);
    let under = |store: &Store, batch: &mut Batch, epoch: u64| {
        let mut calls = 0;
        let outcome =
            store.db().commit_observed(batch, Durability::Os, Precondition::epoch(epoch), &mut |_| calls += 1).unwrap();
        assert_eq!(calls, outcome.is_some() as u32);
        outcome
    };
    assert_eq!(under(&store, &mut batch, old), None);
    assert_eq!(store.rows(0).len(), 2);
    assert_eq!(under(&store, &mut batch, 7), Some(last + 1));
    store.db().set_epoch(9).unwrap();
    assert_eq!((under(&store, &mut batch, 7), store.db().epoch()), (None, 9));
    // Dropping a family changes the upper half of the epoch only.
    store.db().create_family("passing", CfOptions::default()).unwrap();
    assert_eq!(store.db().epoch(), 9);
    store.db().drop_family("passing").unwrap();
    assert_eq!(under(&store, &mut batch, 9), None);
    assert_eq!(store.db().epoch(), 1 << 32 | 9);
    // Creating a family may change the epoch as well; the new epoch applies before the family is visible.
    let db = store.db();
    let mut told = None;
    let family = db.create_family_with("coming", CfOptions::default(), &mut |id| {
        assert!(db.family("coming").is_none() && db.epoch() == 1 << 32 | 9);
        told = Some(id);
        Some(11)
    });
    assert_eq!((Some(family.unwrap().id()), db.epoch()), (told, 1 << 32 | 11));
    assert_eq!(under(&store, &mut batch, 1 << 32 | 9), None);
    is_invalid(db.create_family_with("coming", CfOptions::default(), &mut |_| Some(13)), "it is there");
    assert_eq!(db.epoch(), 1 << 32 | 11);
    assert!(store.db().commit(&mut batch, Durability::Os).is_ok());
    let as_last = Precondition::epoch(store.db().epoch()).last_of_epoch(1);
    is_invalid(store.db().commit_if(&mut Batch::new(), Durability::Os, as_last), "an empty batch");
    store.kill_and_open(Crash::Process);
    assert_eq!(store.db().epoch(), 0);
}

/// A batch that names a seqno is ordered directly behind it, or not at all, on either path through the log.
pub fn conditional_batches_follow_their_seqno() {
    let store = Store::new(31);
    let db = store.db();
    let mut short = store.batch(&[(0, Kind::Put, b"a")]);
    let mut long = Batch::new();
    for key in [b"b", b"c", b"d"] {
        long.push(0, Kind::Put, key, &[7; 2000], db.companions()).unwrap();
    }
    for batch in [&mut short, &mut long] {
        let before = db.commit(&mut store.batch(&[(0, Kind::Put, b"e")]), Durability::Os).unwrap();
        let mut behind = |seqno| {
            let under = Precondition::epoch(db.epoch()).unchanged_since(seqno);
            db.commit_if(batch, Durability::Os, under).unwrap()
        };
        for other in [0, before - 1, before + 1, u64::MAX - 1] {
            assert_eq!(behind(other), None, "{other} is not {before}");
        }
        let last = behind(before).unwrap();
        assert_eq!((behind(before), db.snapshot().unwrap().seqno()), (None, last));
    }
}

/// A timed batch is rejected unless its timestamp is later than all before, on either path through the log.
pub fn times_rise_in_the_order_of_commits() {
    let mut store = Store::new(30);
    let last_time = |store: &Store| store.db().last_time().load(Relaxed);
    assert_eq!(last_time(&store), 0);
    let mut short = store.batch(&[(0, Kind::Put, b"a")]);
    let mut long = Batch::new();
    for key in [b"b", b"c", b"d"] {
        long.push(0, Kind::Put, key, &[7; 2000], store.db().companions()).unwrap();
    }
    let timed = |store: &Store, batch: &mut Batch, time: u64| {
        store.db().commit_if(batch, Durability::Os, Precondition::epoch(store.db().epoch()).at_time(time)).unwrap()
    };
    let first = timed(&store, &mut short, 5).unwrap();
    for batch in [&mut short, &mut long] {
        for late in [1, 4, 5] {
            assert_eq!(timed(&store, batch, late), None, "{late} behind 5");
        }
    }
    assert_eq!((store.db().snapshot().unwrap().seqno(), last_time(&store)), (first, 5));
    // Commits without a timestamp are ordered in between, and change no timestamp.
    assert_eq!(store.db().commit(&mut long, Durability::Os).unwrap(), first + 3);
    assert_eq!(timed(&store, &mut long, 6), Some(first + 6));
    assert_eq!(timed(&store, &mut short, 6), None);
    assert_eq!(timed(&store, &mut short, u64::MAX), Some(first + 7));
    assert_eq!((timed(&store, &mut short, u64::MAX), last_time(&store)), (None, u64::MAX));
    // Epochs and timestamps are both compared.
    store.kill_and_open(Crash::Process);
    assert_eq!(last_time(&store), 0);
    let old = store.db().epoch();
    store.db().bump_epoch().unwrap();
    assert_eq!(store.db().epoch(), old + (1 << 32));
    let mut short = store.batch(&[(0, Kind::Put, b"a")]);
    assert_eq!(store.db().commit_if(&mut short, Durability::Os, Precondition::epoch(old).at_time(9)).unwrap(), None);
    assert_eq!(last_time(&store), 0);
    assert!(timed(&store, &mut short, 9).is_some());
}

/// A key ends in the seqno of the operation that it names: in memory, after a replay, in tables, and in a flush
/// repeated from the log.
pub fn keys_end_in_the_seqno_they_name() {
    let mut store = Store::new(22);
    let mut expected: Vec<Vec<u8>> = Vec::new();
    let mut write = |store: &Store, name: &[u8]| {
        let mut batch = store.batch(&[(0, Kind::Put, name), (0, Kind::Put, b"between")]);
        batch.grant(SystemPass::for_layers_above());
        for (before, other) in [(2, &b"of the first"[..]), (0, b"its own"), (3, b"of the second")] {
            batch
                .push(LOG, Kind::Put, &open_key(&[name, other].concat(), before), b"", store.db().companions())
                .unwrap();
        }
        batch
            .push(LOG, Kind::Put, &[name, &77u64.swap_bytes().to_le_bytes()[..]].concat(), b"", store.db().companions())
            .unwrap();
        batch.push(LOG, Kind::Put, b"short", b"", store.db().companions()).unwrap();
        batch.push(0, Kind::Put, &open_key(b"a user's", 0), b"", store.db().companions()).unwrap();
        let first = store.db().commit(&mut batch, Durability::Os).unwrap() + 1 - batch.len() as u64;
        for (other, seqno) in [(&b"of the first"[..], first), (b"its own", first + 3), (b"of the second", first + 1)] {
            expected.push([name, other, &seqno.swap_bytes().to_le_bytes()[..]].concat());
        }
        expected.extend([[name, &77u64.swap_bytes().to_le_bytes()[..]].concat(), b"short".to_vec()]);
        expected.sort();
        expected.dedup();
        let keys: Vec<Vec<u8>> = store.rows(LOG).into_iter().map(|(key, ..)| key).collect();
        assert_eq!(keys, expected);
        assert!(store.rows(0).iter().any(|(key, ..)| *key == open_key(b"a user's", 0)));
        // Each key is found, and matches its companion.
        for key in &keys {
            assert!(store.db().get(&store.family(LOG).unwrap(), key, At::Latest, &mut |_| {}).unwrap());
        }
        keys
    };
    write(&store, b"one ");
    let keys = write(&store, b"two ");
    let check = |store: &Store, keys: &[Vec<u8>], when: &str| {
        let found: Vec<Vec<u8>> = store.rows(LOG).into_iter().map(|(key, ..)| key).collect();
        assert_eq!(found, keys, "{when}");
        let mut records = 0;
        store
            .db()
            .memory(&store.family(LOG).unwrap())
            .unwrap()
            .visit(&mut |_, check| {
                records += 1;
                assert!(check.serves(), "{when}");
                Ok(())
            })
            .unwrap();
        records
    };
    assert_eq!(check(&store, &keys, "in memory"), 10);
    let logged = store.db().read_log(&mut |family, _| family == LOG).unwrap();
    let logged: BTreeSet<Vec<u8>> = logged.into_iter().map(|(_, record)| record.key).collect();
    assert!(logged.iter().eq(&keys), "what is read of the log");
    store.kill_and_open(Crash::Process);
    check(&store, &keys, "after a replay");
    let keys = write(&store, b"three ");
    store.protector.failing.store(1, Relaxed);
    store.db().flush().unwrap();
    assert_eq!(check(&store, &keys, "flushed, once more from the log"), 0);
    store.db().compact(&store.family(LOG).unwrap(), &(Bound::Unbounded, Bound::Unbounded)).unwrap();
    check(&store, &keys, "compacted");
    // A key that names an operation outside its batch is rejected, and so is the batch.
    let mut batch = store.batch(&[(0, Kind::Put, b"x"), (LOG, Kind::Put, &open_key(b"", 2))]);
    batch.grant(SystemPass::for_layers_above());
    is_invalid(store.db().commit(&mut batch, Durability::Os), "a key of an operation in front of its batch");
    check(&store, &keys, "after a batch that was refused");
}

/// Any caller may read system families; only authorized callers may write them.
pub fn system_families_are_not_for_users() {
    let mut store = Store::new(23);
    let refused = |store: &Store| {
        let db = store.db();
        let log = store.family(LOG).unwrap();
        assert_eq!((log.name(), log.options().system), ("system_metadata.log", Some(1)));
        is_invalid(store.put(LOG, b"a user's"), "a write");
        is_invalid(db.drop_family("system_metadata.log"), "a drop");
        is_invalid(db.create_family("system_metadata.mine", CfOptions::default()), "a name");
        is_invalid(db.create_family("mine", CfOptions { system: Some(2), ..CfOptions::default() }), "a number");
        is_invalid(db.ingest(&log, &mut || Err(Error::closed())).map(drop), "records of others");
        assert_eq!(store.rows(LOG), []);
    };
    refused(&store);
    let mut batch = store.batch(&[(LOG, Kind::Put, b"k")]);
    batch.grant(SystemPass::for_layers_above());
    batch.clear();
    batch.push(LOG, Kind::Put, b"k", b"", store.db().companions()).unwrap();
    is_invalid(store.db().commit(&mut batch, Durability::Os), "a grant does not outlive its batch");
    // The ids of user families do not depend on system families, and a reopened store knows which families are the
    // system's.
    assert_eq!(store.db().create_family("next", CfOptions::default()).unwrap().id(), 2);
    store.kill_and_open(Crash::Process);
    refused(&store);
    assert_eq!(store.db().create_family("after", CfOptions::default()).unwrap().id(), 3);
}

/// A reader between the two halves of an edit sees every event, in memory or as a row.
#[cfg(feature = "planted")]
pub fn rows_are_shown_before_memtables_go() {
    let store = Store::new(24);
    store.protector.emits.store(true, Relaxed);
    for n in 0..20u8 {
        store.put(0, &[n]).unwrap();
    }
    let (db, looks) = (store.db().clone(), Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let counter = looks.clone();
    let look = move || {
        let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
        let family = db.family("default").unwrap();
        db.memory(&family)
            .unwrap()
            .visit(&mut |record, _| {
                seen.insert(record.key.to_vec());
                Ok(())
            })
            .unwrap();
        seen.extend(rows(&db, &db.family("rows").unwrap()).into_iter().map(|(_, key, _)| key));
        assert_eq!(seen.len(), 20);
        counter.fetch_add(1, Relaxed);
    };
    waxseal_lsm::inject::look(Some(Box::new(look)));
    let flushed = store.db().flush();
    waxseal_lsm::inject::look(None);
    flushed.unwrap();
    assert!(looks.load(Relaxed) > 0);
}

/// A dropped family leaves the rows of its last records, and one more, in the edit that drops it, whenever the machine
/// crashes.
pub fn rows_stay_when_their_family_goes() {
    let write = |store: &Store| -> Result<()> {
        let (family, other) = (ROWS + 1, 0);
        store.db().create_family("passing", CfOptions::default())?;
        for n in 0..4u8 {
            store.put(family, &[b'f', n])?;
        }
        store.db().flush()?;
        for n in 0..4u8 {
            store.put(family, &[b'm', n])?;
            store.put(other, &[n])?;
        }
        store.db().drop_family_with("passing", &mut |seqno| vec![Emitted::new(ROWS, seqno, b"it is gone", &[])])?;
        store.put(other, b"behind it").map(drop)
    };
    let check = |store: &Store, acknowledged: bool| {
        let keys: Vec<Vec<u8>> = store.rows(ROWS).into_iter().map(|(key, ..)| key).collect();
        let events = keys.iter().filter(|key| key.starts_with(b"row of")).count();
        let gone = keys.iter().any(|key| key == b"it is gone");
        match store.family(ROWS + 1) {
            Some(family) => assert!(!gone && rows(store.db(), &family).len() == events, "{events} rows of a family"),
            None => assert!(!gone || events == 8, "{events} rows of a family that is gone"),
        }
        assert!(!acknowledged || gone);
    };
    let new = || {
        let store = Store::new(25);
        store.protector.emits_of.store(ROWS + 1, Relaxed);
        store.protector.emits.store(true, Relaxed);
        store
    };
    let mut store = new();
    let from = store.sim.steps();
    write(&store).unwrap();
    check(&store, true);
    let steps: Vec<u64> = store.sim.changing_steps().into_iter().filter(|step| *step >= from).collect();
    store.kill_and_open(Crash::Process);
    check(&store, true);
    for step in steps {
        for crash in [Crash::Process, Crash::Machine(Loss::DurableOnly)] {
            let mut store = new();
            store.sim.crash_at(step);
            let _ = write(&store);
            store.db = None;
            store.sim.reboot(crash);
            store.open().unwrap();
            check(&store, false);
        }
    }

    // Here, too, damage in memory is repaired from the log.
    let store = new();
    store.db().create_family("passing", CfOptions::default()).unwrap();
    store.put(ROWS + 1, b"k").unwrap();
    store.protector.failing.store(1, Relaxed);
    store.db().drop_family("passing").unwrap();
    assert_eq!((store.rows(ROWS).len(), store.protector.failing.load(Relaxed)), (1, 0));
}

/// A failed drop leaves the family unchanged.
pub fn a_family_that_could_not_be_dropped_goes_on() {
    let mut store = Store::new(26);
    store.protector.emits_of.store(ROWS + 1, Relaxed);
    store.protector.emits.store(true, Relaxed);
    store.db().create_family("passing", CfOptions::default()).unwrap();
    store.put(ROWS + 1, b"before").unwrap();
    store.db().sync().unwrap();
    store.put(ROWS + 1, b"has blocks reserved").unwrap(); // which are requested again after a failed first attempt
    let mut failures = 0;
    for ahead in 0..40 {
        store.sim.fail_at(store.sim.steps() + ahead, Fault::Error(std::io::ErrorKind::StorageFull));
        let outcome = store.db().drop_family("passing");
        store.sim.clear_faults();
        if outcome.is_ok() {
            break;
        }
        failures += 1;
        if store.put(0, b"is it halted").is_err() {
            store.kill_and_open(Crash::Process);
            if store.family(ROWS + 1).is_none() {
                break; // the edit may have reached the disk
            }
        }
        store.put(ROWS + 1, format!("after {ahead}").as_bytes()).unwrap();
        assert!(store.rows(ROWS + 1).len() >= 2);
    }
    assert!(failures > 2, "{failures} failures");
    assert!(store.family(ROWS + 1).is_none());
    let rows = store.rows(ROWS);
    assert!(rows.iter().any(|(_, key, _)| key == b"before") && rows.len() > failures / 2, "{}", rows.len());
}

/// A flush looks up keys of other families: in their memtables, in their tables, and in tables just written by the same
/// recovery.
pub fn a_flush_looks_into_other_families() {
    for flushed in [false, true] {
        let store = Store::new(27);
        store.protector.emits.store(true, Relaxed);
        *store.protector.asks.lock().unwrap() = Some((ROWS, b"who".to_vec()));
        store.put(ROWS, b"who").unwrap();
        if flushed {
            store.db().flush().unwrap();
        }
        store.put(0, b"a").unwrap();
        store.db().flush().unwrap();
        assert_eq!(*store.protector.told.lock().unwrap(), [Some(b"v".to_vec())], "flushed {flushed}");
        assert_eq!(store.rows(ROWS).len(), 2);
        // Recovery with a flush during the replay.
        let mut store = Store::new(28);
        store.memtable_bytes = 4096;
        store.put(ROWS, b"who").unwrap();
        for n in 0..200u8 {
            store.put(ROWS, &[n; 40]).unwrap();
        }
        store.put(0, b"a").unwrap();
        store.protector.emits.store(true, Relaxed);
        *store.protector.asks.lock().unwrap() = Some((ROWS, b"who".to_vec()));
        store.kill_and_open(Crash::Process);
        assert_eq!(*store.protector.told.lock().unwrap(), [Some(b"v".to_vec())], "in a recovery");
    }
}

/// If the record protector cannot emit its rows, the flush fails and is retried.
pub fn a_flush_without_its_rows_is_no_flush() {
    let store = Store::new(29);
    store.protector.emits.store(true, Relaxed);
    store.put(0, b"a").unwrap();
    store.protector.refusing.store(true, Relaxed);
    is_invalid(store.db().flush(), "a flush without rows");
    is_invalid(store.db().drop_family("rows").and(store.db().flush()), "the next one");
    store.protector.refusing.store(false, Relaxed);
    store.db().flush().unwrap();
    assert_eq!(store.rows(0).len(), 1);
}

/// All tests of this file.
#[cfg(feature = "planted")]
pub const ALL: [fn(); 10] = [
    batches_of_other_rules_are_handed_back,
    conditional_batches_follow_their_seqno,
    times_rise_in_the_order_of_commits,
    keys_end_in_the_seqno_they_name,
    system_families_are_not_for_users,
    rows_are_shown_before_memtables_go,
    rows_stay_when_their_family_goes,
    a_family_that_could_not_be_dropped_goes_on,
    a_flush_looks_into_other_families,
    a_flush_without_its_rows_is_no_flush,
];

mod tests {
    #[test]
    fn batches_of_other_rules_are_handed_back() {
        super::batches_of_other_rules_are_handed_back();
    }
    #[test]
    fn conditional_batches_follow_their_seqno() {
        super::conditional_batches_follow_their_seqno();
    }
    #[test]
    fn times_rise_in_the_order_of_commits() {
        super::times_rise_in_the_order_of_commits();
    }
    #[test]
    fn keys_end_in_the_seqno_they_name() {
        super::keys_end_in_the_seqno_they_name();
    }
    #[test]
    fn system_families_are_not_for_users() {
        super::system_families_are_not_for_users();
    }
    #[test]
    fn rows_stay_when_their_family_goes() {
        super::rows_stay_when_their_family_goes();
    }
    #[test]
    fn a_family_that_could_not_be_dropped_goes_on() {
        super::a_family_that_could_not_be_dropped_goes_on();
    }
    #[test]
    fn a_flush_looks_into_other_families() {
        super::a_flush_looks_into_other_families();
    }
    #[test]
    fn a_flush_without_its_rows_is_no_flush() {
        super::a_flush_without_its_rows_is_no_flush();
    }
}
