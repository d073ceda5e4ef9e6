//! Benchmarks of single engine steps, each without other work beside it.
//!
//! `cargo bench -p waxseal-bench` measures; `cargo test -p waxseal-bench --benches` does each step once, on little
//! data. With `--features peers` the point get and the scan stand beside the peers'. A name says operation, object and
//! condition.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use waxseal_bench::engine::{self, Engine, Name, Rows, Settings, Start, View};
use waxseal_bench::workload::{Keys, Random, Values};
use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::{Uid, hash};
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::env::{Env, Fs, MemoryFs, Open};
use waxseal_lsm::identity::StoreIdentity;
use waxseal_lsm::memtable::Memtable;
use waxseal_lsm::merge::MergeCursor;
use waxseal_lsm::options::{self, CfOptions, Compression, MIB};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record};
use waxseal_lsm::seam::Plain;
use waxseal_lsm::sst::{Cache, Checks, Expected, Table, Writer, WriterSettings};
use waxseal_lsm::wal::{Wal, Whole};

/// Records of a block of 4 KiB.
const BLOCK_RECORDS: u64 = 30;
const SETTINGS: Settings = Settings::new(256 << 20, 64 << 20);

/// Records of a store: enough to leave the processor's caches, or a few if nothing is measured.
fn records() -> u64 {
    let asked = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    if asked("--bench") && !asked("--test") { 100_000 } else { 1_000 }
}

fn keys() -> Keys {
    Keys::new(records(), 16, 0).expect("sixteen digits are enough")
}

fn record<'a>(key: &'a [u8], seqno: u64, value: &'a [u8]) -> Record<'a> {
    Record { key, seqno, kind: Kind::Put, value, companion: &[] }
}

/// A table of every `stride`th key in order from `first` on, in memory, with nothing cached yet.
fn table(count: u64, first: u64, stride: u64) -> Arc<Table> {
    let fs = MemoryFs::new();
    let file = fs.open(Path::new("/table"), Open::Create).expect("a file in memory");
    let options = CfOptions { compression: Compression::None, ..CfOptions::default() };
    let settings = WriterSettings::of(&options, 0, 1);
    let uid = Uid([1; 16]);
    let mut writer = Writer::new(file.clone(), uid, settings, Arc::new(Plain));
    let (mut keys, mut values) = (keys(), Values::new(100, 1, 1));
    for n in 0..count {
        writer.add(&record(keys.ordered(first + n * stride), 1 + n, values.value())).expect("in order");
    }
    let finished = writer.finish().expect("written");
    let expected = Expected { uid, size: finished.size, digest: finished.digest, ingest_seqno: 0 };
    let cache = Arc::new(Cache::new(256 * MIB));
    Table::open("table".into(), file, expected, Order::bytewise(), cache, Arc::new(Plain))
        .expect("a table just written")
}

fn block_seek(criterion: &mut Criterion) {
    let table = table(BLOCK_RECORDS, 0, 2);
    assert_eq!(table.blocks(), 1, "the seek is the block's alone");
    let mut cursor = table.cursor(true);
    let (mut keys, mut random) = (keys(), Random::new(1));
    criterion.bench_function("seek_in_one_cached_block_of_30_records", |bencher| {
        bencher.iter(|| {
            cursor.seek(keys.ordered(random.below(2 * BLOCK_RECORDS)), MAX_SEQNO).expect("searched");
            black_box(cursor.valid())
        });
    });
}

fn filter_probe(criterion: &mut Criterion) {
    let table = table(records(), 0, 1);
    let mut random = Random::new(1);
    let mut group = criterion.benchmark_group("filter_probe_of_a_table");
    group.bench_function("key_not_there", |bencher| {
        bencher.iter(|| black_box(table.may_contain(random.word())));
    });
    let (mut keys, mut random) = (keys(), Random::new(1));
    group.bench_function("key_there_hash_included", |bencher| {
        bencher.iter(|| black_box(table.may_contain(hash(keys.ordered(random.below(records()))))));
    });
    group.finish();
}

fn table_get(criterion: &mut Criterion) {
    let table = table(records(), 0, 1);
    let (mut keys, mut random) = (keys(), Random::new(1));
    criterion.bench_function("get_from_a_cached_table", |bencher| {
        bencher.iter(|| {
            let key = keys.ordered(random.below(records()));
            let mut last = 0;
            table.get(key, hash(key), MAX_SEQNO, Checks::NONE, &mut |record| last = record.value[99]).expect("read");
            last
        });
    });
}

fn memtable(criterion: &mut Criterion) {
    let (mut keys, mut values, mut random) = (keys(), Values::new(100, 1, 1), Random::new(1));
    let mut table = Arc::new(Memtable::new(Order::bytewise()));
    let mut seqno = 0;
    criterion.bench_function("insert_into_a_memtable_of_up_to_100000_records", |bencher| {
        bencher.iter(|| {
            if table.len() as u64 == records() {
                table = Arc::new(Memtable::new(Order::bytewise()));
            }
            seqno += 1;
            table.insert(&record(keys.written(random.word()), seqno, values.value()), 0).expect("room");
        });
    });
    let table = Arc::new(Memtable::new(Order::bytewise()));
    for n in 0..records() {
        table.insert(&record(keys.written(n), 1 + n, values.value()), 0).expect("room");
    }
    criterion.bench_function("get_from_a_memtable_of_100000_records", |bencher| {
        bencher.iter(|| {
            let mut last = 0;
            table.get(keys.written(random.below(records())), MAX_SEQNO, &mut |record| last = record.value[99]);
            last
        });
    });
    let mut cursor = table.cursor();
    criterion.bench_function("step_over_a_memtable_of_100000_records", |bencher| {
        bencher.iter(|| step(&mut cursor));
    });
}

/// One record on, and round again at the end.
fn step(cursor: &mut dyn Cursor) -> usize {
    if cursor.valid() {
        cursor.next().expect("stepped");
    } else {
        cursor.first().expect("found");
    }
    if cursor.valid() { cursor.record().value.len() } else { 0 }
}

/// A log in a temporary directory that stays short: it is drained when due, and its segments are reused. The upkeep
/// runs now and then, as in a store with threads, so that most iterations measure the append alone.
struct Appender {
    wal: Wal<()>,
    group: Vec<Whole<()>>,
    appended: u64,
}

impl Appender {
    fn new(dir: &Path, mapped: bool) -> Appender {
        let settings = options::Settings { wal_mapped: mapped, ..options::Settings::default() };
        let number = AtomicU64::new(1);
        let numbers = Arc::new(move || number.fetch_add(1, Ordering::Relaxed));
        let (wal, _) =
            Wal::create(&Env::real(), (dir, &StoreIdentity::default()), &settings, 0, 1, numbers).expect("a fresh log");
        Appender { wal, group: Vec::new(), appended: 0 }
    }

    fn append(&mut self, batch: &mut Batch) {
        let body = batch.seal();
        let ticket = self.wal.order(&body, ()).expect("ordered");
        self.wal.copy(&ticket, &body).expect("copied");
        self.wal.take_whole(&mut self.group);
        self.wal.acknowledge(ticket.end).expect("marked");
        self.group.clear();
        self.appended += 1;
        if self.appended.is_multiple_of(1024) {
            self.shorten();
        }
    }

    fn shorten(&self) {
        let wal = &self.wal;
        while wal.drain_due() && wal.drain().expect("drained") {}
        if wal.prepare_due() {
            wal.prepare().expect("prepared");
        }
        wal.sync_full().expect("synced");
        wal.sealed(&wal.seals_due());
        if let Some(retirable) = wal.retirable(wal.synced().offset) {
            wal.recycle(&retirable.segments);
        }
    }
}

fn log_append(criterion: &mut Criterion) {
    let mut batch = Batch::new();
    batch.push(0, Kind::Put, &[b'k'; 16], &[b'v'; 100], &Plain).expect("within the limits");
    let mut group = criterion.benchmark_group("append_to_the_log_a_batch_of_one_record_of_116_bytes");
    for (name, mapped) in [("mapped", true), ("plain", false)] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut appender = Appender::new(dir.path(), mapped);
        group.bench_function(name, |bencher| bencher.iter(|| appender.append(&mut batch)));
    }
    group.finish();
}

fn merge_step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge_step_over_cached_tables");
    for (name, sources) in [("two_in_turn", 2), ("four_in_turn", 4), ("eight_in_turn", 8)] {
        let tables = (0..sources).map(|first| table(records() / sources, first, sources));
        let cursors = tables.map(|table| Box::new(table.cursor(true)) as Box<dyn Cursor>).collect();
        let mut merged = MergeCursor::new(Order::bytewise(), cursors);
        group.bench_function(name, |bencher| bencher.iter(|| step(&mut merged)));
    }
    let near = table(records(), 0, 1);
    let far = table(1, records(), 1);
    let cursors: Vec<Box<dyn Cursor>> = vec![Box::new(far.cursor(true)), Box::new(near.cursor(true))];
    let mut merged = MergeCursor::new(Order::bytewise(), cursors);
    group.bench_function("two_of_which_one_wins_again", |bencher| bencher.iter(|| step(&mut merged)));
    group.finish();
}

/// A settled store of `records()` writes.
fn filled(name: Name, dir: &Path) -> Box<dyn Engine> {
    let store = engine::open(name, dir, &SETTINGS).expect("a store of this build opens");
    let (mut keys, mut values) = (keys(), Values::new(100, 1, 1));
    for i in 0..records() {
        store.put(keys.written(i), values.value(), false).expect("written");
    }
    store.settle().expect("settled");
    store
}

fn stores() -> impl Iterator<Item = Name> {
    Name::built().into_iter().filter(|name| *name != Name::Null)
}

fn point_get(criterion: &mut Criterion) {
    for name in Name::built() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = filled(name, dir.path());
        let mut reader = store.reader(View::Fixed).expect("a reader");
        let (mut keys, mut random) = (keys(), Random::new(1));
        criterion.bench_function(&format!("point_get_from_a_settled_cached_store/{}", name.text()), |bencher| {
            bencher.iter(|| black_box(reader.get(keys.written(random.below(records()))).expect("read")));
        });
        criterion.bench_function(&format!("point_get_of_a_missing_key/{}", name.text()), |bencher| {
            bencher.iter(|| black_box(reader.get(keys.missing(random.below(records()))).expect("read")));
        });
    }
}

/// A thousand rows an iteration: what opening a cursor costs is spread over them.
fn scan(criterion: &mut Criterion) {
    for (direction, start) in [("forward", Start::First), ("reverse", Start::Last)] {
        let mut group = criterion.benchmark_group(format!("scan_{direction}_over_500_cached_rows"));
        group.throughput(Throughput::Elements(500));
        for name in stores() {
            let dir = tempfile::tempdir().expect("a directory");
            let store = filled(name, dir.path());
            let mut reader = store.reader(View::Fixed).expect("a reader");
            group.bench_function(name.text(), |bencher| {
                bencher.iter_batched(
                    || Rows::wanted(500),
                    |mut rows| {
                        reader.scan(start, &mut rows).expect("scanned");
                        assert_eq!(rows.seen(), 500, "the same work each time");
                        black_box(rows.touched())
                    },
                    BatchSize::SmallInput,
                );
            });
        }
        group.finish();
    }
}

/// Flushes and compactions run beside it, as they must.
fn put(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("put_through_the_face_unsynced");
    for name in stores() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = engine::open(name, dir.path(), &SETTINGS).expect("a store of this build opens");
        let (mut keys, mut values, mut random) = (keys(), Values::new(100, 1, 1), Random::new(1));
        group.bench_function(name.text(), |bencher| {
            bencher.iter(|| store.put(keys.written(random.below(records())), values.value(), false).expect("written"));
        });
    }
    group.finish();
}

criterion_group!(steps, block_seek, filter_probe, table_get, memtable, log_append, merge_step, point_get, scan, put);
criterion_main!(steps);
