//! Events of mode async while what they tell of ends: they are in the log with all that they say.

use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Env, Fs, MemoryFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_lsm::seam::PendingWrite;
use waxseal_registry::{
    Event, Field, Image, Mode, Operation, Options, Paging, Query, Registrar, Scope, StampVerb, Target, Values,
};

use crate::store::{ASYNC, Store};
use crate::threads::open_in;

/// The old value of each event is kept with its row.
const KEPT: Options =
    Options { scope: Scope::Subtree, mode: Mode::Async, values: Values::OldNew, history: true, retention: None };

/// Puts a value into the family that there is, alone or as a batch.
fn put(db: &Db, registrar: &Registrar, key: &[u8], value: &[u8], alone: bool) -> Result<Seqno> {
    let Some(family) = db.family("users") else { return Ok(0) };
    let mut batch = Batch::new();
    if alone {
        let mut pending =
            PendingWrite { family: family.id(), kind: Kind::Put, key, value, key_hash: None, entries: &[] };
        return registrar.commit_one(&mut batch, &mut pending, None, Durability::Os, (None, StampVerb::Update));
    }
    batch.push(family.id(), Kind::Put, key, value, db.companions())?;
    registrar.commit(&mut batch, Durability::Os, None, &[])
}

/// Old and new value of an event; none for an old one that is not kept.
fn images(event: &Event) -> (Option<Image>, Image) {
    let find = |say: fn(&Field) -> Option<Image>| event.payload.fields().iter().find_map(say);
    let old = find(|field| if let Field::OldValue(image) = field { Some(image.clone()) } else { None });
    let new = find(|field| if let Field::NewValue(image) = field { Some(image.clone()) } else { None });
    (old, new.unwrap())
}

fn events(registrar: &Registrar) -> Vec<Event> {
    let query = Query { below: true, operation: Some(Operation::ROW_UPDATE), ..Query::of(Target::family("users")) };
    let mut events = registrar.log_query(&query, &Paging::ALL, At::Latest, None).unwrap().events;
    events.sort_by_key(|event| event.key.seqno);
    events
}

/// An event that waits while its family is dropped says what it overwrote.
pub(crate) fn dropped() {
    let mut store = Store::new(ASYNC, &SimFs::new(11)).unwrap();
    let target = Target::key("kept", *b"k");
    store.registrar.register(&target, None, Some(KEPT), None).unwrap();
    for value in [b"1", b"2"] {
        store.put("kept", b"k", value).unwrap();
    }
    assert_eq!(store.registrar.ring().waiting, 2);
    store.renew("kept").unwrap();
    store.registrar.drain().unwrap();
    let events = store.registrar.query_all(&target, None, None).unwrap();
    let old: Vec<_> = events.iter().map(|event| images(event).0).collect();
    assert_eq!(old, [Some(Image::Absent), Some(Image::Value(b"1".to_vec()))]);
}

/// The same where others write on: whatever got a place before the end is told with what it overwrote.
pub(crate) fn dropped_beside_writers() {
    let (db, registrar) = open_in(Arc::new(MemoryFs::default()), Env::real().clock);
    registrar.create_family("users", Default::default()).unwrap();
    registrar.register(&Target::family("users"), Some(Operation::ROW_UPDATE), Some(KEPT), None).unwrap();
    let (left, written) = (AtomicUsize::new(40), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (db, registrar, left, written) = (&db, &registrar, &left, &written);
            scope.spawn(move || {
                for n in 0u64.. {
                    if left.load(SeqCst) == 0 {
                        return;
                    }
                    let value = (writer << 32 | n).to_le_bytes();
                    match put(db, registrar, &writer.to_le_bytes(), &value, n % 2 == 0) {
                        Ok(seqno) => drop(written.fetch_add(usize::from(seqno > 0), SeqCst)),
                        Err(error) => assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}"), // it was dropped
                    }
                }
            });
        }
        while left.load(SeqCst) > 0 {
            let before = written.load(SeqCst);
            while written.load(SeqCst) < before + 20 {
                std::thread::yield_now();
            }
            registrar.drop_family("users", None).unwrap();
            registrar.create_family("users", Default::default()).unwrap();
            left.fetch_sub(1, SeqCst);
        }
    });
    registrar.drain().unwrap();
    let events = events(&registrar);
    assert_eq!(events.len(), written.load(SeqCst));
    for writer in 0..3u64 {
        let target = Target::key("users", writer.to_le_bytes());
        let mut before = Image::Absent;
        for event in events.iter().filter(|event| event.key.target == target) {
            let (old, new) = images(event);
            let old = old.unwrap_or_else(|| panic!("the old value went with the family: {event:?}"));
            // the first of a family is over nothing
            assert!(old == before || old == Image::Absent, "{event:?} over {before:?}");
            before = new;
        }
    }
    registrar.close().unwrap();
}

/// Whoever is in the middle of a commit when the store is closed is told of, or has not committed.
pub(crate) fn closed_beside_writers() {
    for _ in 0..40 {
        let fs: Arc<dyn Fs> = Arc::new(MemoryFs::default());
        let (db, registrar) = open_in(fs.clone(), Env::real().clock);
        registrar.create_family("users", Default::default()).unwrap();
        registrar.register(&Target::family("users"), Some(Operation::ROW_UPDATE), Some(KEPT), None).unwrap();
        let written = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..3u64 {
                let (db, registrar, written) = (&db, &registrar, &written);
                scope.spawn(move || {
                    for n in 0u64.. {
                        let key = (writer << 32 | n).to_le_bytes();
                        if put(db, registrar, &key, b"value", n % 2 == 0).is_err() {
                            return;
                        }
                        written.fetch_add(1, SeqCst);
                    }
                });
            }
            while written.load(SeqCst) < 30 {
                std::thread::yield_now();
            }
            registrar.close().unwrap();
            db.close().unwrap();
        });
        let (db, registrar) = open_in(fs, Env::real().clock);
        let mut rows = db.cursor(&db.family("users").unwrap(), At::Latest, (Unbounded, Unbounded)).unwrap();
        let mut told: BTreeSet<Target> = events(&registrar).into_iter().map(|event| event.key.target).collect();
        assert!(told.len() >= written.load(SeqCst));
        rows.first().unwrap();
        while rows.valid() {
            let target = Target::key("users", rows.key());
            assert!(told.remove(&target), "the event of a commit was lost: {target:?}");
            rows.next().unwrap();
        }
        assert!(told.is_empty(), "of commits that are not there: {told:?}");
        registrar.close().unwrap();
        db.close().unwrap();
    }
}
