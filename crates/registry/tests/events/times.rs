//! Events of what has an end: values with a time to live, sessions, families whose end is kept for a while.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::PendingWrite;
use waxseal_meta::builtin::Expiry;
use waxseal_meta::provider::EXPIRY;
use waxseal_registry::target::TargetPath;
use waxseal_registry::{Event, Field, Identity, Image, Mode, Operation, Options, Scope, StampVerb, Target, Values};

use crate::store::{ASYNC, Config, DEFERRED, SYNC, Store};

pub(crate) fn all() {
    [SYNC, DEFERRED, ASYNC].into_iter().for_each(seconds_to_live);
    [SYNC, DEFERRED].into_iter().for_each(what_was_over_is_absent);
    what_ends_later_is_kept();
    sessions();
    the_end_of_a_family();
}

const SECOND: u64 = 1_000_000;

fn store(config: Config) -> Store {
    Store::new(config, &SimFs::new(41)).unwrap()
}

fn later(store: &Store, seconds: f64) {
    store.wall.0.fetch_add((seconds * SECOND as f64) as u64, SeqCst);
}

/// Puts a value that lives for so many seconds.
fn put(store: &Store, key: &[u8], value: &[u8], seconds: Option<u64>) {
    let entry = seconds.map(|seconds| Expiry::at(store.wall.0.load(SeqCst) + seconds * SECOND));
    let entries: Vec<(u16, &[u8])> = entry.iter().map(|entry| (EXPIRY, &entry[..])).collect();
    let (family, kind) = (store.family("default").id(), Kind::Put);
    if key.len() % 2 == 1 {
        let mut pending = PendingWrite { family, kind, key, value, key_hash: None, entries: &entries };
        store
            .registrar
            .commit_one(&mut Batch::new(), &mut pending, None, Durability::Os, (None, StampVerb::Update))
            .unwrap();
    } else {
        let mut batch = Batch::new();
        batch.push_given(family, kind, key, value, &entries, store.db.companions()).unwrap();
        store.registrar.commit(&mut batch, Durability::Os, None, &[]).unwrap();
    }
    store.registrar.drain().unwrap();
}

fn events(store: &Store, key: &[u8]) -> Vec<Event> {
    store.registrar.query_all(&Target::key("default", key), None, None).unwrap()
}

fn watch(store: &Store, values: Values) {
    let mode = store.config.mode;
    let history = values == Values::OldNew && mode != Mode::Sync;
    let options = Options { scope: Scope::Subtree, mode, values, history, retention: None };
    let target = Target::family("default");
    store.registrar.register(&target, Some(Operation::ROW_UPDATE), Some(options), None).unwrap();
}

fn seconds_to_live(config: Config) {
    let mut store = store(config);
    watch(&store, Values::New);
    for key in [&b"k"[..], b"kk"] {
        put(&store, key, b"for ever", None);
        put(&store, key, b"a while", Some(10));
        put(&store, key, b"over", Some(0));
        let check = |store: &Store| {
            let told: Vec<Vec<Field>> =
                events(store, key).iter().map(|event| event.payload.fields().to_vec()).collect();
            let new = |value: &[u8]| Field::NewValue(Image::Value(value.to_vec()));
            let via = Field::Via(TargetPath::of(&Target::family("default")));
            let expected = [
                vec![new(b"for ever"), via.clone()],
                vec![Field::Ttl(10), new(b"a while"), via.clone()],
                vec![Field::Ttl(0), new(b"over"), via],
            ];
            assert_eq!(told, expected, "{config:?}");
        };
        check(&store);
        store.db.flush().unwrap();
        check(&store);
        store.restart().unwrap();
        check(&store);
    }
}

fn old_of(event: &Event) -> &Image {
    let old = event.payload.fields().iter().find_map(|field| match field {
        Field::OldValue(old) => Some(old),
        _ => None,
    });
    old.expect("no old value")
}

/// What nobody saw any more was not overwritten, wherever it stood and whether it was there still.
fn what_was_over_is_absent(config: Config) {
    for flushed in [false, true] {
        let store = store(config);
        watch(&store, Values::OldNew);
        put(&store, b"k", b"over soon", Some(1));
        if flushed {
            store.db.flush().unwrap();
        }
        later(&store, 2.0);
        put(&store, b"k", b"new", Some(5));
        later(&store, 2.0);
        put(&store, b"k", b"newer", None);
        let check = || {
            let events = events(&store, b"k");
            let old: Vec<&Image> = events.iter().map(old_of).collect();
            assert_eq!(old, [&Image::Absent, &Image::Absent, &Image::Value(b"new".to_vec())], "{config:?}");
        };
        check();
        later(&store, 9.0);
        check();
        store.db.settle().unwrap();
        check();
    }
}

/// What was seen when it was overwritten stays, though its time is over and its table is merged before that of the
/// newer version.
fn what_ends_later_is_kept() {
    let store = store(DEFERRED);
    put(&store, b"k", b"seen", Some(10));
    put(&store, b"a", b"value", None);
    put(&store, b"z", b"value", None);
    store.db.flush().unwrap();
    put(&store, b"other", b"value", None);
    store.db.flush().unwrap();
    watch(&store, Values::OldNew);
    put(&store, b"k", b"new", None);
    later(&store, 20.0);
    while store.db.step().unwrap() {}
    let family = store.family("default");
    assert!(store.db.tables(&family).unwrap().len() == 1, "they were not merged");
    assert_eq!(old_of(&events(&store, b"k")[0]), &Image::Value(b"seen".to_vec()));
    store.db.settle().unwrap();
    store.db.compact(&family, &(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)).unwrap();
    assert_eq!(old_of(&events(&store, b"k")[0]), &Image::Value(b"seen".to_vec()));
    // Nothing above it, and nobody who wants to know: it goes.
    store.registrar.unregister(&Target::family("default"), Some(Operation::ROW_UPDATE), None).unwrap();
    put(&store, b"gone", b"soon", Some(1));
    store.db.flush().unwrap();
    later(&store, 2.0);
    store.db.compact(&family, &(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded)).unwrap();
    assert!(
        !store.db.get_before(&family, b"gone", 1 << 40, waxseal_lsm::options::Verify::Always, &mut |_| {}).unwrap()
    );
}

/// Sessions begin and end in the log where somebody wants to know.
fn sessions() {
    let mut store = store(DEFERRED);
    let target = Target::Engine("session".to_owned());
    let open = |store: &Store, name: &str| store.registrar.session(Identity::named(name).authenticated("tls")).unwrap();
    store.registrar.close_session(&open(&store, "early")).unwrap();
    store.registrar.register(&target, Some(Operation::SESSION_OPEN), None, None).unwrap();
    let alice = open(&store, "alice");
    store.registrar.close_session(&alice).unwrap();
    store.registrar.register(&target, Some(Operation::SESSION_CLOSE), None, None).unwrap();
    store.registrar.close_session(&alice).unwrap();
    let told = |store: &Store| -> Vec<(Operation, String, Vec<Field>)> {
        let events = store.registrar.query_all(&target, None, None).unwrap();
        let of = |event: Event| (event.key.operation, event.key.client, event.payload.fields().to_vec());
        events.into_iter().map(of).collect()
    };
    let how = vec![Field::Authenticated("tls".to_owned())];
    let expected = [
        (Operation::SESSION_OPEN, "alice".to_owned(), how.clone()),
        (Operation::SESSION_CLOSE, "alice".to_owned(), how),
    ];
    assert_eq!(told(&store), expected);
    store.restart().unwrap();
    assert_eq!(told(&store), expected);
    let latest = store.registrar.query_latest(&target, None, None).unwrap().unwrap();
    assert_eq!(latest.key.operation, Operation::SESSION_CLOSE);
}

/// The event of a drop is kept as long as its registration says.
fn the_end_of_a_family() {
    let mut store = store(DEFERRED);
    let target = Target::family("kept");
    let retention = Some(Duration::from_secs(1));
    let options = Options { retention, ..Options::suited(&target, Some(Operation::TABLE_DROP)) };
    store.registrar.register(&target, Some(Operation::TABLE_DROP), Some(options), None).unwrap();
    store.put("kept", b"k", b"v").unwrap();
    store.registrar.drop_family("kept", None).unwrap();
    let found = |store: &Store| store.registrar.query_all(&target, None, None).unwrap().len();
    assert_eq!(found(&store), 1);
    store.restart().unwrap();
    assert_eq!(found(&store), 1);
    later(&store, 2.0);
    assert_eq!(found(&store), 0);
    store.db.settle().unwrap();
    let log = store.family("system_metadata.log");
    let bounds = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    store.db.compact(&log, &bounds).unwrap();
    let mut rows = store.db.cursor(&log, At::Latest, bounds).unwrap();
    rows.first().unwrap();
    while rows.valid() {
        assert!(!rows.key().windows(4).any(|part| part == b"kept"), "its row is there for ever");
        rows.next().unwrap();
    }
}
