//! Single ways through registry and log, each with an end that is known.

use std::collections::BTreeSet;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db};
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::PendingWrite;
use waxseal_registry::target::TableName;
use waxseal_registry::{
    Authorizer, Event, Field, Identity, Image, Lies, Mode, Operation, Options, Paging, Payload, Query, Registrar, Ring,
    Scope, Session, Setup, StampVerb, Target, Time, Values, WhenFull,
};

use crate::store::{Config, DEFERRED, SYNC, Store, Write};

pub(crate) fn all() {
    refused();
    system_families();
    times_go_on();
    sessions_survive();
    old_values_in_one_batch();
    families_made_anew();
    explained();
    ranges_of_another_order();
    descended_from_many();
    retained();
    retained_beyond_its_family();
    before_the_log();
    rights();
    notes();
    waiting();
    each_kind_by_its_own_name();
}

fn store(config: Config) -> Store {
    Store::new(config, &SimFs::new(11)).unwrap()
}

fn update() -> Option<Operation> {
    Some(Operation::ROW_UPDATE)
}

fn invalid<T: std::fmt::Debug>(outcome: waxseal_lsm::error::Result<T>) {
    assert_eq!(*outcome.unwrap_err().kind(), ErrorKind::Invalid);
}

/// What cannot be is refused, and changes nothing.
fn refused() {
    let store = store(SYNC);
    let registrar = &store.registrar;
    let table = TableName::new("School", "Teacher");
    for target in [
        Target::family("nobody"),
        Target::key("nobody", *b"k"),
        Target::family("system_metadata.log"),
        Target::Keyspace("School".to_owned()),
        Target::Table(table.clone()),
        Target::row(table, vec![b"John".to_vec()], Vec::new()),
        Target::family(""),
    ] {
        invalid(registrar.register(&target, update(), None, None));
    }
    let family = Target::family("default");
    for own in ["system_metadata", "system_metadata.log", "cf:system_metadata\\.log"] {
        let target = registrar.target(own).unwrap();
        let refused = registrar.register(&target, update(), None, None).unwrap_err();
        assert!(refused.to_string().contains("the store's own"), "{refused}");
    }
    invalid(registrar.register(&family, Operation::from_number(0x9000), None, None));
    let late = Options { mode: Mode::Deferred, values: Values::OldNew, ..Options::default() };
    invalid(registrar.register(&family, update(), Some(late), None));
    invalid(registrar.log_add(&family, Operation::ROW_UPDATE, None, Payload::text("x"), None));
    let app = registrar.define("app.refused", None).unwrap();
    let refused = registrar.log_add(&family, app, None, Payload::text("x"), None).unwrap_err();
    assert!(refused.to_string().contains("app.refused of default"), "{refused}");
    invalid(registrar.operation("No.Such"));
    invalid(registrar.target("node:"));
    invalid(registrar.note(Operation::ROW_UPDATE, Payload::new()));
    invalid(registrar.session(Identity::named("")));
    let elsewhere = Paging { after: Some(b"\x02nothing".to_vec()), limit: 1 };
    invalid(registrar.log_query(&Query::of(family.clone()), &elsewhere, At::Latest, None));
    invalid(registrar.log_query(&Query::of(family.clone()), &Paging::first(0), At::Latest, None));
    assert!(registrar.registrations().is_empty());
    assert_eq!(store.db.epoch(), 0, "nothing ever was registered");
    // A row that is not there may be registered; one with a key that has no name may not be written then.
    registrar.register(&Target::key("default", *b"later"), update(), None, None).unwrap();
    registrar.register(&family, None, None, None).unwrap();
    let mut batch = Batch::new();
    batch.push(store.family("default").id(), Kind::Put, &[0; 40_000], b"v", store.db.companions()).unwrap();
    registrar.register(&family, update(), Some(Options { scope: Scope::Subtree, ..Options::default() }), None).unwrap();
    invalid(registrar.commit(&mut batch, Durability::Os, None, &[]));
}

/// Everybody reads them, and nobody writes them, whether or not something is registered.
fn system_families() {
    let mut store = store(SYNC);
    for _ in 0..2 {
        for name in ["registry", "log", "quarantine", "schema", "sessions"] {
            let family = store.family(&format!("system_metadata.{name}"));
            let mut batch = Batch::new();
            batch.push(family.id(), Kind::Put, b"k", b"v", store.db.companions()).unwrap();
            batch.push(store.family("default").id(), Kind::Put, b"k", b"v", store.db.companions()).unwrap();
            invalid(store.registrar.commit(&mut batch, Durability::Os, None, &[]));
            assert!(!store.db.get(&family, b"k", At::Latest, &mut |_| {}).unwrap());
            invalid(store.registrar.drop_family(family.name(), None));
            invalid(store.registrar.create_family(family.name(), Default::default()));
        }
        store.register(Target::Cluster, None, Values::None).unwrap();
    }
    let before = store.check_now().len();
    store.put("default", b"k", b"v").unwrap();
    assert_eq!(store.check_now().len(), before + 1, "events have no events");
}

/// Whatever the wall clock does, also while the store is closed.
fn times_go_on() {
    for config in [SYNC, DEFERRED] {
        let mut store = store(config);
        let app = store.registrar.define("app.said", None).unwrap();
        store.register(Target::Cluster, Some(app), Values::None).unwrap();
        store.register(Target::family("default"), update(), Values::None).unwrap();
        for (wall, crash) in [(900, false), (5_000_000, true), (3, false), (2, true), (1, true), (0, false)] {
            store.wall.0.store(wall, SeqCst);
            store.put("default", b"k", b"v").unwrap();
            store.add(Target::family("default"), app, "said").unwrap();
            store.wall.0.store(wall / 2, SeqCst);
            match crash {
                true => {
                    store.sim.reboot(Crash::Process);
                    store.reopen().unwrap();
                }
                false => store.restart().unwrap(),
            }
            store.check_now();
        }
        // Nothing watched is written any more, so that only the chronicle knows what time it was.
        store.unregister(&Target::family("default"), update()).unwrap();
        store.db.flush().unwrap();
        for n in 0..3u8 {
            store.put("default", b"k", &[n]).unwrap();
            store.sim.reboot(Crash::Process);
            store.reopen().unwrap();
        }
        let work = store.registrar.query_all(&Target::Engine("store".to_owned()), None, None).unwrap();
        assert!(work.is_sorted_by_key(|event| event.key.seqno) && work.len() >= 6, "{work:?}");
    }
}

/// Who wrote is known after a crash too.
fn sessions_survive() {
    let mut store = store(DEFERRED);
    store.register(Target::family("default"), update(), Values::None).unwrap();
    let write = |n: u8| Write { family: "default", key: vec![n], value: Some(vec![n]), verb: StampVerb::Update };
    store.write(&[write(1)], 1).unwrap();
    store.write(&[write(2)], 2).unwrap();
    let steps = store.sim.steps();
    store.sim.reboot(Crash::Process);
    store.reopen().unwrap();
    store.write(&[write(3)], 2).unwrap();
    store.check_now();
    store.db.flush().unwrap();
    store.check_now();
    assert!(store.sim.steps() > steps);
}

/// The second operation of a batch on a key finds the value of the first.
fn old_values_in_one_batch() {
    let mut store = store(SYNC);
    store.put("kept", b"k", b"0").unwrap();
    store.register(Target::family("kept"), None, Values::OldNew).unwrap();
    let write = |value: Option<&[u8]>| Write {
        family: "kept",
        key: b"k".to_vec(),
        value: value.map(<[u8]>::to_vec),
        verb: StampVerb::Update,
    };
    store.write(&[write(Some(b"1")), write(Some(b"2")), write(None), write(Some(b"3"))], 0).unwrap();
    store.check_now();
    let event = store.registrar.query_latest(&Target::key("kept", *b"k"), None, None).unwrap().unwrap();
    assert!(event.payload.fields().contains(&Field::OldValue(Image::Absent)));
}

/// What was registered of a family holds for the next of its name.
fn families_made_anew() {
    for config in [SYNC, DEFERRED] {
        let mut store = store(config);
        store.register(Target::family("kept"), None, Values::OldNew).unwrap();
        store.put("kept", b"k", b"1").unwrap();
        store.put("kept", b"k", b"2").unwrap();
        store.renew("kept").unwrap();
        store.put("kept", b"k", b"3").unwrap();
        let events = store.check_now();
        assert_eq!(events.len(), 4, "three writes and a drop");
        store.restart().unwrap();
        store.check_now();
    }
}

/// Value, verdict, who, when, where and how that came to be.
fn explained() {
    for config in [SYNC, DEFERRED] {
        let mut store = store(config);
        store.register(Target::family("default"), update(), Values::New).unwrap();
        for n in 0..4u8 {
            store.put("default", b"k", &[n]).unwrap();
            store.put("default", &[n], &[n; 50]).unwrap();
            store.db.flush().unwrap();
        }
        store.db.settle().unwrap();
        let family = store.family("default");
        let said = store.registrar.explain(&family, b"k", None).unwrap();
        assert_eq!((said.value, &said.verdict[..]), (Some(vec![3]), "validated"));
        assert_eq!((said.written.unwrap().0, said.events.len()), ("alice".to_owned(), 4));
        let Some(Lies::Table { uid, .. }) = said.lies else { panic!("it was flushed") };
        assert_eq!(store.registrar.lineage(uid, None).unwrap(), said.lineage);
        let done: Vec<Operation> = said.lineage.steps.iter().map(|step| step.event.key.operation).collect();
        assert_eq!(done[0], Operation::ENGINE_COMPACT);
        assert!(done.contains(&Operation::ENGINE_FLUSH), "{done:?}");
        store.put("default", b"k", b"in memory").unwrap();
        let said = store.registrar.explain(&family, b"k", None).unwrap();
        assert_eq!((said.lies, said.events.len()), (Some(Lies::Memory), 5));
        let absent = store.registrar.explain(&family, b"nothing", None).unwrap();
        assert_eq!((absent.value, &absent.verdict[..], absent.seqno), (None, "absent", None));
        let found = store.registrar.provenance(&family, b"k", None).unwrap();
        assert_eq!((found.watched_by.len(), found.events.len()), (1, 5));
        let bounds = (Included(vec![1]), Excluded(vec![3]));
        let page = store.registrar.query_range(&family, &bounds, &Paging::ALL, At::Latest, None).unwrap();
        assert_eq!(page.events.len(), 2);
    }
}

/// A range of a family is one of its own order, in memory and in the log, whole or in pages.
fn ranges_of_another_order() {
    let mut store = store(DEFERRED);
    store.register(Target::family("back"), update(), Values::New).unwrap();
    for n in [5, 1, 4, 2, 3, 3] {
        store.put("back", &[n], &[n]).unwrap();
        if n == 2 {
            store.db.flush().unwrap();
        }
    }
    let family = store.family("back");
    let key = |event: &Event| if let Target::Key { key, .. } = &event.key.target { key[0] } else { 0 };
    let find = |bounds: (Bound<u8>, Bound<u8>), limit: usize| {
        let bounds = (bounds.0.map(|key| vec![key]), bounds.1.map(|key| vec![key]));
        let (mut found, mut paging) = (Vec::new(), Paging::first(limit));
        loop {
            let page = store.registrar.query_range(&family, &bounds, &paging, At::Latest, None).unwrap();
            assert!(page.events.len() <= limit);
            found.extend(page.events.iter().map(key));
            paging.after = page.next;
            if paging.after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 100] {
        assert_eq!(find((Included(4), Excluded(2)), limit), [3, 3, 4]);
        assert_eq!(find((Excluded(4), Included(2)), limit), [2, 3, 3]);
        assert_eq!(find((Unbounded, Excluded(4)), limit), [5]);
        assert_eq!(find((Included(2), Unbounded), limit), [1, 2]);
        assert!(find((Included(2), Excluded(4)), limit).is_empty(), "backwards there is nothing between");
        assert_eq!(find((Unbounded, Unbounded), limit), [1, 2, 3, 3, 4, 5]);
    }
}

/// A file comes from all that the merges read that led to it, however many files they name, and whether lines or rows
/// tell of them.
fn descended_from_many() {
    let mut store = store(DEFERRED);
    for round in 0..4u8 {
        for n in 0..200u8 {
            store.put("default", &[n], &[round; 300]).unwrap();
        }
        store.db.flush().unwrap();
    }
    // Tables that one merge takes together.
    for n in 0..20u8 {
        store.put("default", &[n], &[n; 300]).unwrap();
        store.db.flush().unwrap();
    }
    store.db.settle().unwrap();
    let uids: Vec<_> =
        store.db.tables(&store.family("default")).unwrap().iter().map(|table| table.meta().uid).collect();
    for _ in 0..2 {
        let all = Query { below: true, ..Query::of(Target::Cluster) };
        let mut works = store.registrar.log_query(&all, &Paging::ALL, At::Latest, None).unwrap().events;
        works.retain(|event| matches!(event.key.target, Target::Engine(_)));
        let (mut names_many, mut flushes) = (false, 0);
        for uid in &uids {
            let (mut open, mut seen, mut wanted) = (vec![*uid], vec![*uid], BTreeSet::new());
            while let Some(uid) = open.pop() {
                let wrote = |work: &&Event| {
                    work.payload.fields().iter().any(|field| matches!(field, Field::Output(file) if file.uid == uid))
                };
                for work in works.iter().filter(wrote) {
                    wanted.insert((work.key.time, work.key.seqno));
                    for field in work.payload.fields() {
                        if let Field::Input(file) = field
                            && !seen.contains(&file.uid)
                        {
                            seen.push(file.uid);
                            open.push(file.uid);
                        }
                    }
                }
            }
            let lineage = store.registrar.lineage(*uid, None).unwrap();
            let found: BTreeSet<_> =
                lineage.steps.iter().map(|step| (step.event.key.time, step.event.key.seqno)).collect();
            assert_eq!(found, wanted, "{uid:?}");
            let files = |event: &Event| {
                event
                    .payload
                    .fields()
                    .iter()
                    .filter(|field| matches!(field, Field::Input(_) | Field::Output(_)))
                    .count()
            };
            names_many |= lineage.steps.iter().any(|step| files(&step.event) > 16);
            flushes += lineage.steps.iter().filter(|step| step.event.key.operation == Operation::ENGINE_FLUSH).count();
        }
        assert!(names_many && flushes >= 2 * uids.len(), "{names_many}, {flushes} flushes, {} files", uids.len());
        // The lines become rows.
        for n in 0..40u8 {
            store.put("kept", &[n], b"").unwrap();
            store.db.flush().unwrap();
        }
    }
}

/// Events whose time is over are not shown, whether they are rows or not.
fn retained() {
    for mode in [Mode::Sync, Mode::Deferred, Mode::Async] {
        let store = store(Config { mode, ..SYNC });
        let target = Target::key("default", *b"k");
        let retention = Some(std::time::Duration::from_secs(1));
        let options = Options { mode, retention, ..Options::default() };
        store.registrar.register(&target, None, Some(options), None).unwrap();
        let put = || {
            let mut batch = Batch::new();
            batch.push(store.family("default").id(), Kind::Put, b"k", b"v", store.db.companions()).unwrap();
            store.registrar.commit(&mut batch, Durability::Os, None, &[]).unwrap();
            store.registrar.drain().unwrap();
        };
        let events = || store.registrar.query_all(&target, None, None).unwrap().len();
        put();
        assert_eq!(events(), 1);
        for flushed in [false, true] {
            store.wall.0.fetch_add(600_000, SeqCst);
            put();
            if flushed {
                store.db.flush().unwrap();
            }
            store.wall.0.fetch_add(600_000, SeqCst);
            assert_eq!(events(), 1, "{mode:?}, flushed {flushed}");
        }
        store.wall.0.fetch_add(2_000_000, SeqCst);
        assert_eq!(events(), 0, "{mode:?}");
    }
}

/// Many events of mode async wait together and are written by several commits, each as it was. A write that is refused
/// leaves its room to others.
fn waiting() {
    let ring = Ring { events: 700, when_full: WhenFull::Backpressure };
    let mut store = store(Config { mode: Mode::Async, ring, ..SYNC });
    store.register(Target::family("default"), update(), Values::New).unwrap();
    let mut waiting = 0;
    for n in 0..650u32 {
        store.put("default", n.to_string().as_bytes(), &n.to_le_bytes()).unwrap();
        waiting += 1;
        if n % 100 == 0 {
            let family = store.family("default").id();
            let entries: [(u16, &[u8]); 1] = [(999, b"nobody's")];
            let (kind, key, value) = (Kind::Put, &b"refused"[..], &b""[..]);
            let mut pending = PendingWrite { family, kind, key, value, key_hash: None, entries: &entries };
            let how = (None, StampVerb::Update);
            invalid(store.registrar.commit_one(&mut Batch::new(), &mut pending, None, Durability::Os, how));
            let mut gone = PendingWrite { family: family + 1000, entries: &[], ..pending };
            invalid(store.registrar.commit_one(&mut Batch::new(), &mut gone, None, Durability::Os, how));
        }
        assert_eq!(store.registrar.ring().waiting, waiting);
    }
    store.registrar.drain().unwrap();
    assert_eq!(store.registrar.ring().waiting, 0);
    store.check_now();
}

/// An event that has a time to end keeps it when its family goes and its old value is written into its row.
fn retained_beyond_its_family() {
    let mut store = store(DEFERRED);
    let target = Target::key("kept", *b"k");
    let retention = Some(std::time::Duration::from_secs(1));
    let options =
        Options { mode: Mode::Deferred, values: Values::OldNew, history: true, retention, ..Options::default() };
    store.registrar.register(&target, None, Some(options), None).unwrap();
    for value in [b"1", b"2"] {
        store.put("kept", b"k", value).unwrap();
    }
    store.renew("kept").unwrap();
    let events = store.registrar.query_all(&target, None, None).unwrap();
    assert_eq!(events.len(), 2);
    assert!(events[1].payload.fields().contains(&Field::OldValue(Image::Value(b"1".to_vec()))));
    store.wall.0.fetch_add(2_000_000, SeqCst);
    assert!(store.registrar.query_all(&target, None, None).unwrap().is_empty());
}

/// A store that was made before there were registry and log opens for reading, and says that nothing happened.
fn before_the_log() {
    let sim = SimFs::new(5);
    let old = waxseal_lsm::db::Parts { env: sim.env(1), ..waxseal_lsm::db::Parts::real() };
    Db::open("/store".as_ref(), Default::default(), old).unwrap().close().unwrap();
    let env = sim.env(2);
    let prepared = Registrar::prepare(Setup::new(&env));
    let sealer = Arc::new(waxseal_meta::Sealer::new().emitting(prepared.emitter.clone()));
    let families = prepared.families.clone();
    let parts = waxseal_lsm::db::Parts { env, companions: sealer.clone(), families, ..waxseal_lsm::db::Parts::real() };
    let db = Db::open_read_only("/store".as_ref(), Default::default(), parts).unwrap();
    let registrar = prepared.attach(db, sealer).unwrap();
    let target = Target::family("default");
    assert!(registrar.query_all(&target, None, None).unwrap().is_empty());
    assert_eq!(registrar.query_latest(&target, None, None).unwrap(), None);
    let refused = registrar.register(&target, update(), None, None).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::ReadOnly);
}

/// Who may not, does not.
fn rights() {
    struct Only(&'static str);
    impl Authorizer for Only {
        fn can_register(&self, who: &Session, _: &Target, _: Option<Operation>) -> bool {
            who.name() == self.0
        }
        fn can_read_log(&self, who: &Session, target: &Target) -> bool {
            who.name() == self.0 && *target != Target::Cluster
        }
        fn can_delete_log(&self, who: &Session, _: &Target) -> bool {
            who.authenticated() == Some("password")
        }
    }
    let sim = SimFs::new(3);
    let env = sim.env(1);
    let prepared = Registrar::prepare(Setup { authorizer: Arc::new(Only("admin")), ..Setup::new(&env) });
    let sealer = Arc::new(waxseal_meta::Sealer::new().emitting(prepared.emitter.clone()));
    let parts = waxseal_lsm::db::Parts {
        env,
        companions: sealer.clone(),
        families: prepared.families.clone(),
        engine_log: Some(prepared.engine_log.clone()),
        ..waxseal_lsm::db::Parts::real()
    };
    let db = Db::open("/store".as_ref(), Default::default(), parts).unwrap();
    let registrar = prepared.attach(db, sealer).unwrap();
    let admin = registrar.session(Identity::named("admin")).unwrap();
    let sure = registrar.session(Identity::named("admin").authenticated("password")).unwrap();
    let target = Target::family("default");
    for who in [None, Some(&registrar.session(Identity::named("bob")).unwrap())] {
        invalid(registrar.register(&target, update(), None, who));
        invalid(registrar.query_all(&target, None, who));
        invalid(registrar.log_delete(&Query::of(target.clone()), who));
    }
    assert!(registrar.register(&target, update(), None, Some(&admin)).unwrap());
    invalid(registrar.unregister(&target, update(), None));
    registrar.query_all(&target, None, Some(&admin)).unwrap();
    invalid(registrar.log_query(&Query::of(Target::Cluster), &Paging::ALL, At::Latest, Some(&admin)));
    invalid(registrar.log_delete(&Query::of(target.clone()), Some(&admin)));
    assert_eq!(registrar.log_delete(&Query::of(target), Some(&sure)).unwrap(), 0);
}

/// What is done from above the engine is in the log, like what it does itself.
fn notes() {
    let mut store = store(SYNC);
    store.put("default", b"k", b"v").unwrap();
    let payload = Payload::new().with(Field::Verdict("all is well".to_owned()));
    store.registrar.note(Operation::ENGINE_SCRUB, payload.clone()).unwrap();
    let target = Target::Engine("integrity".to_owned());
    for _ in 0..2 {
        let found = store.registrar.query_latest(&target, Some(Operation::ENGINE_SCRUB), None).unwrap().unwrap();
        assert_eq!((found.payload, found.key.client.as_str()), (payload.clone(), "-"));
        assert!(found.key.time > Time::FIRST);
        for n in 0..40u8 {
            store.put("default", &[n], &[n; 9]).unwrap();
            store.db.flush().unwrap(); // lines become rows
        }
        store.restart().unwrap();
    }
    let rows = store.registrar.query_all(&Target::Engine("flush".to_owned()), None, None).unwrap();
    assert!(rows.len() >= 80, "{} flushes", rows.len());
}

/// A delete is logged as one though the caller called it as the put before it, and a put behind a delete as a put.
fn each_kind_by_its_own_name() {
    let store = store(DEFERRED);
    let options = Options { scope: Scope::Subtree, mode: Mode::Deferred, ..Options::default() };
    store.registrar.register(&Target::family("default"), None, Some(options), None).unwrap();
    let asked = [(Kind::Put, StampVerb::Update), (Kind::Put, StampVerb::Update), (Kind::Delete, StampVerb::Update)];
    for (kind, verb) in asked.into_iter().chain([(Kind::Put, StampVerb::Insert), (Kind::Delete, StampVerb::Insert)]) {
        let family = store.family("default").id();
        let mut pending = PendingWrite { family, kind, key: b"k", value: b"", key_hash: None, entries: &[] };
        store.registrar.commit_one(&mut Batch::new(), &mut pending, None, Durability::Os, (None, verb)).unwrap();
    }
    let mut events = store.registrar.query_all(&Target::key("default", *b"k"), None, None).unwrap();
    events.sort_by_key(|event| event.key.time);
    let told: Vec<Operation> = events.iter().map(|event| event.key.operation).collect();
    let (update, delete) = (Operation::ROW_UPDATE, Operation::ROW_DELETE);
    assert_eq!(told, [update, update, delete, Operation::ROW_INSERT, delete]);
}
