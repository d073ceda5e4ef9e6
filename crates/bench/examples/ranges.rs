//! The cost of live range deletes to reads: `ranges ROUNDS DIR`.
//!
//! Two equal, settled stores in the cache. One of them then gets 10,000 range deletes of one record each, spread over all
//! keys, which stay live: nothing rewrites the tables. Turn by turn, in one process: random reads of records that no
//! range delete hides, and a scan of everything, in either store. First with the range deletes beside the memtable, then
//! with the flushed ones of the manifest. At last, 10,000 range deletes alternate with reads: the time of the last
//! quarter of them beside that of the first. A line each, for a store of a million records, where every hundredth record
//! is hidden, and one of 12.6 million.

#![expect(clippy::disallowed_methods, reason = "a clock and directories of its own")]

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use waxseal::{ColumnFamily, Compression, Db};
use waxseal_bench::Outcome;
use waxseal_bench::rounds::main_of;
use waxseal_bench::stats::median;
use waxseal_bench::workload::{Keys, Random, Values};

const SIZES: [u64; 2] = [1_000_000, 12_600_000];
const RANGES: u64 = 10_000;

/// Random reads of one turn.
const READS: u64 = 200_000;

fn main() -> ExitCode {
    main_of("ranges", compare)
}

fn compare(rounds: u64, dir: &Path) -> Outcome<String> {
    let mut lines = Vec::new();
    for records in SIZES {
        let stores = Stores::filled(records, &dir.join(records.to_string()))?;
        let _pause = stores.db.pause_background()?;
        stores.delete_ranges(&stores.with, |_| Ok(()))?;
        lines.push(format!("{records} records, beside the memtable: {}", stores.compared(rounds)?));
        stores.db.flush()?;
        lines.push(format!("{records} records, in the manifest: {}", stores.compared(rounds)?));
        lines.push(format!("{records} records, {}", stores.alternating()?));
    }
    Ok(lines.join("\n"))
}

/// Two stores of the same records.
struct Stores {
    records: u64,
    without: ColumnFamily,
    with: ColumnFamily,
    /// The store of `with`.
    db: Db,
}

impl Stores {
    fn filled(records: u64, dir: &Path) -> Outcome<Stores> {
        let filled = |name: &str| -> Outcome<(Db, ColumnFamily)> {
            let db = Db::builder(dir.join(name)).compression(Compression::None).cache_bytes(4 << 30).open()?;
            let family = db.column_family("default")?;
            let (mut keys, mut values) = (keys(records)?, Values::new(100, 1, 1));
            for i in 0..records {
                family.put(keys.ordered(i), values.value())?;
            }
            db.settle()?;
            scan(&family)?;
            Ok((db, family))
        };
        let (_, without) = filled("without")?;
        let (db, with) = filled("with")?;
        Ok(Stores { records, without, with, db })
    }

    /// Returns the distance between two range deletes.
    fn step(&self) -> u64 {
        self.records / RANGES
    }

    /// Deletes the ranges of a family, and calls `then` after each with its number.
    fn delete_ranges(&self, family: &ColumnFamily, mut then: impl FnMut(u64) -> Outcome<()>) -> Outcome<()> {
        let mut keys = keys(self.records)?;
        for i in 0..RANGES {
            let from = keys.ordered(i * self.step()).to_vec();
            family.delete_range(from.as_slice()..keys.ordered(i * self.step() + 1))?;
            then(i)?;
        }
        Ok(())
    }

    /// Compares both kinds of reads.
    fn compared(&self, rounds: u64) -> Outcome<String> {
        let mut ratios = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (kind, ratios) in ratios.iter_mut().enumerate() {
                let time = |family: &ColumnFamily| -> Outcome<f64> {
                    let start = Instant::now();
                    if kind == 0 {
                        self.read(family, round)?
                    } else {
                        scan(family)?
                    }
                    Ok(start.elapsed().as_secs_f64())
                };
                // Forwards and backwards, so that a drift of the machine hits both alike.
                let ratio = if round % 2 == 0 {
                    let base = time(&self.without)?;
                    time(&self.with)? / base
                } else {
                    let ours = time(&self.with)?;
                    ours / time(&self.without)?
                };
                ratios.push(ratio);
            }
        }
        let [reads, scans] = ratios.map(|samples| median(&samples));
        Ok(format!("random reads {reads:.3}, scans {scans:.3} (medians of {rounds} ratios, with to without)"))
    }

    fn read(&self, family: &ColumnFamily, round: u64) -> Outcome<()> {
        let (mut keys, mut random) = (keys(self.records)?, Random::stream(1, round));
        for _ in 0..READS {
            let i = random.below(RANGES) * self.step() + 1 + random.below(self.step() - 1);
            black_box(family.get(keys.ordered(i))?.ok_or("a record that no range delete hides is there")?);
        }
        Ok(())
    }

    fn alternating(&self) -> Outcome<String> {
        let mut keys = keys(self.records)?;
        let mut quarters = [0.0; 4];
        let mut start = Instant::now();
        self.delete_ranges(&self.without, |i| {
            black_box(self.without.get(keys.ordered(i * self.step() + 1))?.ok_or("the record after it is there")?);
            let end = Instant::now();
            quarters[(i * 4 / RANGES) as usize] += (end - start).as_secs_f64() * 1e6 * 4.0 / RANGES as f64;
            start = end;
            Ok(())
        })?;
        let [first, .., last] = quarters;
        Ok(format!("alternating: {first:.1} us a pair in the first quarter, {last:.1} us in the last"))
    }
}

fn keys(records: u64) -> Outcome<Keys> {
    Ok(Keys::new(records, 16, 0).ok_or("sixteen digits are enough")?)
}

fn scan(family: &ColumnFamily) -> Outcome<()> {
    let mut at = family.cursor();
    at.first()?;
    while at.valid() {
        black_box((at.key(), at.value()));
        at.next()?;
    }
    Ok(())
}
