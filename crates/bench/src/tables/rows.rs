//! The rows that are measured, and the stores that hold them.

use std::path::Path;
use std::time::{Duration, Instant};

use waxseal::{Db, Durability};
use waxseal_table::{ColumnType, Index, Row, Schema, Table, Tables, Value};

use crate::Outcome;
use crate::workload::{Random, Values, fmix64};

/// Arguments that are made before the clock starts.
pub(super) const CHUNK: usize = 1000;

/// Size of the cache, which holds all rows of a part at scale 1.
pub(super) const CACHE_BYTES: usize = 512 << 20;

/// A row: a key, three numbers and a text.
#[derive(Clone, Debug)]
pub(super) struct Payment {
    pub(super) id: i64,
    pub(super) owner: i64,
    pub(super) amount: f64,
    pub(super) micros: i64,
    pub(super) note: String,
}

impl Payment {
    pub(super) fn row(&self) -> Row {
        Row::new()
            .with("id", self.id)
            .with("owner", self.owner)
            .with("amount", self.amount)
            .with("at", Value::Timestamp(self.micros))
            .with("note", self.note.as_str())
    }
}

pub(super) fn schema() -> Schema {
    Schema::new()
        .partition_key("id", ColumnType::I64)
        .column("owner", ColumnType::I64)
        .column("amount", ColumnType::F64)
        .column("at", ColumnType::Timestamp)
        .column("note", ColumnType::Text)
}

pub(super) fn index() -> Index {
    Index::on("by_owner", ["owner"])
}

/// Returns payments with distinct ids in random order. Their owners are random numbers below `count`.
pub(super) fn payments(count: u64, seed: u64) -> Vec<Payment> {
    let (mut random, mut values) = (Random::new(seed), Values::new(80, seed, 0));
    let payment = |number: u64| Payment {
        id: (fmix64(number + seed) >> 1).cast_signed(),
        owner: random.below(count).cast_signed(),
        amount: number as f64 / 100.0,
        micros: 1_700_000_000_000_000 + number.cast_signed(),
        note: String::from_utf8_lossy(values.value()).into_owned(),
    };
    (0..count).map(payment).collect()
}

pub(super) fn open(dir: &Path, durability: Durability) -> Outcome<Db> {
    Ok(Db::builder(dir).cache_bytes(CACHE_BYTES).durability(durability).open()?)
}

/// Creates a table of payments.
pub(super) fn create(db: &Db, schema: Schema) -> Outcome<Table> {
    Ok(Tables::open(db)?.create("bench.payments", schema)?)
}

/// Creates a settled table of all payments.
pub(super) fn filled(db: &Db, schema: Schema, payments: &[Payment]) -> Outcome<Table> {
    let table = create(db, schema)?;
    payments.iter().try_for_each(|payment| table.upsert(payment.row()))?;
    db.settle()?;
    Ok(table)
}

/// Returns the nanoseconds of an operation. `make` prepares the arguments of a chunk of items, outside the time.
pub(super) fn timed<'a, T, A>(
    items: &'a [T],
    make: impl Fn(&'a T) -> A,
    mut each: impl FnMut(A) -> Outcome<()>,
) -> Outcome<f64> {
    let mut time = Duration::ZERO;
    for chunk in items.chunks(CHUNK) {
        let arguments: Vec<A> = chunk.iter().map(&make).collect();
        let start = Instant::now();
        arguments.into_iter().try_for_each(&mut each)?;
        time += start.elapsed();
    }
    Ok(time.as_nanos() as f64 / items.len().max(1) as f64)
}

/// Returns payments that are drawn at random.
pub(super) fn drawn(payments: &[Payment], count: u64, seed: u64) -> Vec<&Payment> {
    let mut random = Random::stream(seed, 1);
    (0..count).map(|_| &payments[random.below(payments.len() as u64) as usize]).collect()
}
