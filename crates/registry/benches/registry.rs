//! The cost of a watched write, and of one that is not watched.
//!
//! `cargo bench -p waxseal-registry` measures; under `cargo test` each step is done once. A name says operation, object
//! and condition.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use waxseal_lsm::checksum::hash;
use waxseal_lsm::env::ManualClock;
use waxseal_registry::clock::{EventClock, Time};
use waxseal_registry::event::Event;
use waxseal_registry::key::{LogKey, Query};
use waxseal_registry::matching::{Matching, RawFamilies, RegistrySnapshot, bit};
use waxseal_registry::operation::Operation;
use waxseal_registry::payload::Payload;
use waxseal_registry::registration::{Options, Registration, Scope};
use waxseal_registry::target::{NoTables, Target};

const UPDATE: Operation = Operation::ROW_UPDATE;

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

fn snapshot(registrations: Vec<Registration>) -> RegistrySnapshot {
    RegistrySnapshot::build(1, registrations, &RawFamilies(|name: &str| (name == "users").then_some(3)))
}

/// `count` keys registered one by one.
fn rows(count: u64) -> Vec<Registration> {
    (0..count).map(|n| Registration::new(Target::key("users", key(n)), Some(UPDATE))).collect()
}

fn masks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("registry_mask");
    for (name, registrations) in [("nothing_registered", Vec::new()), ("one_key_registered", rows(1))] {
        let matching = Matching::new(snapshot(registrations));
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(&matching).load().mask(black_box(3)) & bit(black_box(UPDATE)) != 0);
        });
    }
    group.finish();
}

/// Keys and hashes that lie in the processor's cache, as the key of a write does.
fn keys(first: u64) -> Vec<([u8; 16], u64)> {
    (first..first + 1024).map(|n| (key(n), hash(&key(n)))).collect()
}

fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("registry_match");
    for count in [1, 20_000, 1_000_000] {
        let few = if std::env::args().any(|argument| argument == "--bench") { count } else { count.min(100) };
        let snapshot = snapshot(rows(few));
        for (name, keys) in [("negative", keys(10_000_000)), ("positive", keys(0))] {
            let mut turn = 0;
            group.bench_function(format!("{name}_of_{count}_keys"), |bencher| {
                bencher.iter(|| {
                    turn = (turn + 1) & 1023;
                    let (key, hash) = &keys[turn];
                    black_box(&snapshot).row(3, key, *hash, UPDATE).is_some()
                });
            });
        }
    }
    let all = Options { scope: Scope::Subtree, ..Options::default() };
    let wide = snapshot(vec![Registration::new(Target::family("users"), None).with(all)]);
    let (key, hash) = (key(7), hash(&key(7)));
    group.bench_function("positive_of_all_keys", |bencher| {
        bencher.iter(|| black_box(&wide).row(3, black_box(&key), black_box(hash), UPDATE).is_some());
    });
    group.bench_function("any_target_by_path", |bencher| {
        let target = Target::key("users", key);
        bencher.iter(|| black_box(&wide).find(black_box(&target), UPDATE).is_some());
    });
    group.finish();
}

fn log(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("log");
    let clock = EventClock::new(Arc::new(ManualClock::default()));
    group.bench_function("read_the_clock", |bencher| bencher.iter(|| black_box(clock.now())));
    let event = Event {
        key: LogKey {
            target: Target::key("users", key(7)),
            operation: UPDATE,
            time: Time(1),
            client: "alice".to_owned(),
            seqno: 7,
        },
        payload: Payload::new(),
    };
    group.bench_function("encode_an_event", |bencher| bencher.iter(|| black_box(&event).encode()));
    let (row, value) = event.encode().expect("an event");
    group.bench_function("decode_an_event", |bencher| bencher.iter(|| Event::decode(black_box(&row), &value)));
    let plan = Query::of(event.key.target.clone()).plan().expect("a target");
    group.bench_function("step_of_a_plan", |bencher| bencher.iter(|| plan.step(black_box(&row))));
    group.bench_function("read_a_target", |bencher| bencher.iter(|| Target::parse(black_box("users.key"), &NoTables)));
    group.finish();
}

criterion_group!(benches, masks, matching, log);
criterion_main!(benches);
