//! The cost of a commit in the registrar, and of a query of the log: on a whole store in memory.
//!
//! `cargo bench -p waxseal-registry` measures; under `cargo test` each step is done once. A name says operation, object
//! and condition.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::env::{Env, MemoryFs};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_registry::{Mode, Operation, Options, Paging, Query, Registrar, Scope, Setup, Target};

const FAMILY: &str = "default";
const UPDATE: Operation = Operation::ROW_UPDATE;
const KEYS: u64 = 10_000;

struct Store {
    db: Db,
    family: Family,
    registrar: Registrar,
    batch: Batch,
    at: u64,
}

impl Store {
    fn open() -> Store {
        let env = Env { fs: Arc::new(MemoryFs::default()), ..Env::real() };
        let prepared = Registrar::prepare(Setup::new(&env));
        let sealer = Arc::new(Sealer::new().emitting(prepared.emitter.clone()));
        let mut families = vec![(FAMILY.to_owned(), CfOptions::default())];
        families.extend(prepared.families.clone());
        let engine_log = Some(prepared.engine_log.clone());
        let parts = Parts { env, companions: sealer.clone(), families, engine_log, ..Parts::real() };
        let db = Db::open(Path::new("/store"), Settings::default(), parts).expect("opened");
        let family = db.family(FAMILY).expect("a family");
        let registrar = prepared.attach(db.clone(), sealer).expect("attached");
        Store { db, family, registrar, batch: Batch::new(), at: 0 }
    }

    fn watched(scope: Target, mode: Mode) -> Store {
        let store = Store::open();
        let options = Options { scope: Scope::Subtree, mode, ..Options::default() };
        store.registrar.register(&scope, Some(UPDATE), Some(options), None).expect("registered");
        store
    }

    fn next(&mut self) {
        self.at = (self.at + 7919) % KEYS;
        self.batch.clear();
        let key = key(self.at);
        self.batch.push(self.family.id(), Kind::Put, &key, &[7; 100], self.db.companions()).expect("pushed");
    }
}

fn key(n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let (mut rest, mut at) = (n, 16);
    while rest > 0 {
        at -= 1;
        key[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn commits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("registry");
    let mut store = Store::open();
    group.bench_function("commit_of_the_engine", |bencher| {
        bencher.iter(|| {
            store.next();
            store.db.commit(&mut store.batch, Durability::Os).expect("committed")
        });
    });
    let sides = [
        ("commit_nothing_registered", Store::open()),
        ("commit_another_key_registered", Store::watched(Target::key(FAMILY, *b"another"), Mode::Deferred)),
        ("commit_all_registered_deferred", Store::watched(Target::family(FAMILY), Mode::Deferred)),
        ("commit_all_registered_sync", Store::watched(Target::family(FAMILY), Mode::Sync)),
        ("commit_all_registered_async", Store::watched(Target::family(FAMILY), Mode::Async)),
    ];
    for (name, mut store) in sides {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                store.next();
                store.registrar.commit(&mut store.batch, Durability::Os, None, &[]).expect("committed")
            });
        });
    }
    group.bench_function("register_and_take_back", |bencher| {
        let store = Store::open();
        let target = Target::key(FAMILY, *b"one");
        bencher.iter(|| {
            store.registrar.register(&target, Some(UPDATE), None, None).expect("registered");
            store.registrar.unregister(&target, Some(UPDATE), None).expect("taken back")
        });
    });
    group.finish();
}

fn questions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("log_of_a_store");
    let rows = if std::env::args().any(|argument| argument == "--bench") { 200_000 } else { 2_000 };
    for (place, flushed) in [("in_memory", false), ("settled", true)] {
        let mut store = Store::watched(Target::family(FAMILY), Mode::Deferred);
        for _ in 0..rows {
            store.next();
            store.registrar.commit(&mut store.batch, Durability::Os, None, &[]).expect("committed");
        }
        if flushed {
            store.db.settle().expect("settled");
        }
        let targets: Vec<Target> = (0..1024).map(|n| Target::key(FAMILY, key(n * 7919 % KEYS))).collect();
        let mut turn = 0;
        group.bench_function(format!("latest_{place}"), |bencher| {
            bencher.iter(|| {
                turn = (turn + 1) & 1023;
                store.registrar.query_latest(black_box(&targets[turn]), Some(UPDATE), None).expect("asked")
            });
        });
        group.bench_function(format!("all_of_a_key_{place}"), |bencher| {
            bencher.iter(|| {
                turn = (turn + 1) & 1023;
                store.registrar.query_all(black_box(&targets[turn]), None, None).expect("asked").len()
            });
        });
        let below = Query { below: true, ..Query::of(Target::family(FAMILY)) };
        group.bench_function(format!("page_of_a_hundred_{place}"), |bencher| {
            bencher.iter(|| {
                let page = store.registrar.log_query(&below, &Paging::first(100), At::Latest, None);
                page.expect("asked").events.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, commits, questions);
criterion_main!(benches);
