//! A scan of five columns of fixed width into Arrow, from the cache.

use std::time::Instant;

use waxseal::Durability;
use waxseal_table::{ColumnType, Row, Schema, Table, Tables, Value};

use super::rows::open;
use crate::Outcome;
use crate::experiment::Run;
use crate::gate::Gate;
use crate::rounds::alternate;

/// Rows at scale 1.
const ROWS: u64 = 2_000_000;

const LEAST_PER_SECOND: f64 = 5e6;

/// Scans, from which the bounds of the speed come.
const SCANS: usize = 15;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let db = open(&run.fresh("scanned")?, Durability::Os)?;
    let count = run.size(ROWS, 20_000);
    let table = fixed(&db, count)?;
    db.settle()?;
    read(&table, count)?;
    let rounds = alternate(run, 1, SCANS, |_| {
        let start = Instant::now();
        read(&table, count)?;
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    })?;
    println!("scan into Arrow: {} scans of {count} rows, {:.1} ns a row", rounds.count(), rounds.of(0));
    let speed = rounds.ratio(|round| 1e9 / round[0]);
    Ok(vec![run.at_least("scan", "speed", "rows/s", speed, LEAST_PER_SECOND)])
}

fn fixed(db: &waxseal::Db, count: u64) -> Outcome<Table> {
    let schema = Schema::new()
        .partition_key("id", ColumnType::I64)
        .column("kind", ColumnType::I32)
        .column("owner", ColumnType::I64)
        .column("amount", ColumnType::F64)
        .column("at", ColumnType::Timestamp);
    let table = Tables::open(db)?.create("bench.fixed", schema)?;
    for number in 0..count.cast_signed() {
        let row = Row::new()
            .with("id", number)
            .with("kind", (number % 100) as i32)
            .with("owner", number.wrapping_mul(7919))
            .with("amount", number as f64 / 4.0)
            .with("at", Value::Timestamp(number));
        table.upsert(row)?;
    }
    Ok(table)
}

fn read(table: &Table, count: u64) -> Outcome<()> {
    let mut found = 0;
    for batch in table.scan_arrow()? {
        found += batch?.num_rows() as u64;
    }
    if found == count { Ok(()) } else { Err(format!("{found} rows of {count}").into()) }
}
