//! Nanoseconds a row of a scan, by what it verifies: all policies on one store, by turns, in one process.
//!
//! `scans ROWS ROUNDS DIR [layers|memory|bounded|back]..`: fills ROWS records of 16 and 100 bytes and settles them into
//! tables, or leaves them in the memtable (`memory`), or writes a tenth, a hundredth and a thousandth of them again
//! above the settled ones (`layers`). `bounded` scans within bounds that span nearly all, `back` from the last record
//! to the first. Every round scans once under each policy, in an order that turns; the first round warms up and is not
//! counted. Prints the median of each policy, and the median of its differences to `Sampled(64)`.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use waxseal::{ColumnFamily, Compression, Db, Verify};
use waxseal_bench::workload::{Keys, Random, Values};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const POLICIES: [(&str, Verify); 3] =
    [("never", Verify::Never), ("sampled(64)", Verify::Sampled(64)), ("always", Verify::Always)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, rounds, dir, shapes @ ..] = &arguments[..] else {
        eprintln!("usage: scans ROWS ROUNDS DIR [layers|memory|bounded|back]..");
        return ExitCode::from(2);
    };
    let outcome = rows.parse().map_err(Into::into).and_then(|rows| run(rows, rounds.parse()?, dir, shapes));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scans: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(rows: u64, rounds: usize, dir: &str, shapes: &[String]) -> Outcome<()> {
    let is = |wanted: &str| shapes.iter().any(|shape| shape == wanted);
    let memtable = if is("memory") { 1 << 30 } else { 64 << 20 };
    let db = Db::builder(dir).compression(Compression::None).memtable_bytes(memtable).cache_bytes(1 << 30).open()?;
    let records = db.column_family("default")?;
    fill(&db, &records, rows, &is)?;
    let mut took = [const { Vec::new() }; POLICIES.len()];
    for round in 0..=rounds {
        for turn in 0..POLICIES.len() {
            let policy = (turn + round) % POLICIES.len();
            let family = records.with_verify(POLICIES[policy].1);
            let begun = Instant::now();
            let seen = scan(&family, is("bounded"), is("back"))?;
            let nanos = begun.elapsed().as_nanos() as f64 / seen as f64;
            if round > 0 {
                took[policy].push(nanos);
            }
        }
    }
    for ((name, _), nanos) in POLICIES.iter().zip(&took) {
        let more: Vec<f64> = nanos.iter().zip(&took[1]).map(|(own, sampled)| own - sampled).collect();
        println!("{name:12} {:7.1} ns a row, {:+6.1} to sampled(64)", median(nanos), median(&more));
    }
    Ok(())
}

fn fill(db: &Db, records: &ColumnFamily, rows: u64, is: &dyn Fn(&str) -> bool) -> Outcome<()> {
    let mut keys = Keys::new(rows, 16, 0).ok_or("sixteen digits are enough")?;
    let mut values = Values::new(100, 1, 1);
    for i in 0..rows {
        records.put(keys.ordered(i), values.value())?;
    }
    if is("memory") {
        return Ok(());
    }
    db.settle()?;
    if is("layers") {
        let mut random = Random::new(3);
        for share in [10, 100, 1000] {
            for _ in 0..rows / share {
                records.put(keys.ordered(random.below(rows)), values.value())?;
            }
            if share < 1000 {
                db.flush()?;
            }
        }
    }
    Ok(())
}

/// Reads every record's key and value, and answers how many there were.
fn scan(family: &ColumnFamily, is_bounded: bool, is_back: bool) -> Outcome<u64> {
    let mut at = if is_bounded { family.cursor_in(&b"\0"[..]..&b"\xff"[..]) } else { family.cursor() };
    if is_back {
        at.last()?;
    } else {
        at.first()?;
    }
    let mut seen = 0;
    while at.valid() {
        black_box((at.key(), at.value()));
        seen += 1;
        if is_back {
            at.prev()?;
        } else {
            at.next()?;
        }
    }
    Ok(seen)
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
