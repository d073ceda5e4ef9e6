//! Steps of the engine, one by one. So far those that every store can be asked for: a point get and a scan step.
//!
//! `cargo bench -p waxseal-bench --features peers` measures the peers beside; without the feature only the driver is left.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;
use waxseal_bench::engine::{self, Engine, Name, Rows, Settings, Start, View};
use waxseal_bench::workload::{Keys, Random, Values};

const RECORDS: u64 = 100_000;
const SETTINGS: Settings = Settings { cache_bytes: 256 << 20, memtable_bytes: 64 << 20, synced: false };

/// A settled store of `RECORDS` writes.
fn filled(name: Name, dir: &Path) -> Box<dyn Engine> {
    let store = engine::open(name, dir, &SETTINGS).expect("a store of this build opens");
    let mut keys = keys();
    let mut values = Values::new(100, 1, 1);
    for i in 0..RECORDS {
        store.put(keys.written(i), values.value(), false).expect("written");
    }
    store.settle().expect("settled");
    store
}

fn keys() -> Keys {
    Keys::new(RECORDS, 16, 0).expect("sixteen digits are enough")
}

fn point_get(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("point_get_cached");
    for name in Name::built() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = filled(name, dir.path());
        let mut reader = store.reader(View::Fixed).expect("a reader");
        let (mut keys, mut random) = (keys(), Random::new(1));
        group.bench_function(name.text(), |bencher| {
            bencher.iter(|| black_box(reader.get(keys.written(random.below(RECORDS))).expect("read")));
        });
    }
    group.finish();
}

/// A thousand rows an iteration: what opening a cursor costs is spread over them.
fn scan_step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan_1000_rows_cached");
    for name in Name::built().into_iter().filter(|name| *name != Name::Null) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = filled(name, dir.path());
        let mut reader = store.reader(View::Fixed).expect("a reader");
        group.bench_function(name.text(), |bencher| {
            bencher.iter_batched(
                || Rows::wanted(1_000),
                |mut rows| {
                    reader.scan(Start::First, &mut rows).expect("scanned");
                    assert_eq!(rows.seen(), 1_000, "the same work each time");
                    black_box(rows.touched())
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(steps, point_get, scan_step);
criterion_main!(steps);
