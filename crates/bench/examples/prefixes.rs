//! Seeks of absent prefixes, with and without prefix filters: `prefixes ROUNDS DIR`.
//!
//! Two stores of the same records, which are cached, with eight overlapping tables in level 0. Keys have a prefix of eight
//! bytes, and every other prefix has no key. Turn by turn, in one process: the first row of a scan of an absent prefix,
//! and of a present one, in either store. Median nanoseconds.

#![expect(clippy::disallowed_methods, reason = "a clock and directories of its own")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use waxseal::{CfOptions, ColumnFamily, Compression, Db, PrefixExtractor};
use waxseal_bench::Outcome;
use waxseal_bench::rounds::main_of;
use waxseal_bench::stats::median;
use waxseal_bench::workload::{Random, Values};

const TABLES: u64 = 8;
const PREFIXES: u64 = 100_000;

/// Scans of one turn.
const SCANS: u64 = 100_000;

fn main() -> ExitCode {
    main_of("prefixes", compare)
}

fn compare(rounds: u64, dir: &Path) -> Outcome<String> {
    let without = filled(&dir.join("without"), None)?;
    let with = filled(&dir.join("with"), Some(PrefixExtractor::Fixed(8)))?;
    let mut lines = Vec::new();
    for (name, rest) in [("absent", 1), ("present", 0)] {
        let mut nanos = [Vec::new(), Vec::new()];
        for seed in 0..rounds {
            for (nanos, family) in nanos.iter_mut().zip([&without, &with]) {
                nanos.push(scans(family, seed, rest)?);
            }
        }
        let [without, with] = nanos.map(|nanos| median(&nanos));
        lines.push(format!("{name} prefixes: {without:.0} ns without, {with:.0} ns with prefix filters"));
    }
    Ok(lines.join("\n"))
}

fn filled(dir: &Path, prefix_extractor: Option<PrefixExtractor>) -> Outcome<ColumnFamily> {
    let db = Db::builder(dir).cache_bytes(4 << 30).memtable_bytes(1 << 30).open()?;
    let options =
        CfOptions { prefix_extractor, compression: Compression::None, level0_tables: 64, ..CfOptions::default() };
    let family = db.create_column_family("prefixes", options)?;
    let mut values = Values::new(100, 1, 1);
    for table in 0..TABLES {
        for n in 0..PREFIXES {
            family.put([prefix(2 * n), table.to_le_bytes()].concat(), values.value())?;
        }
        db.flush()?;
    }
    for row in family.iter() {
        row?;
    }
    Ok(family)
}

/// Returns a prefix whose order is that of the numbers.
fn prefix(n: u64) -> [u8; 8] {
    n.swap_bytes().to_le_bytes()
}

/// Returns the nanoseconds per scan of prefixes that are even numbers plus `rest`.
fn scans(family: &ColumnFamily, seed: u64, rest: u64) -> Outcome<f64> {
    let mut random = Random::new(seed);
    let begin = Instant::now();
    for _ in 0..SCANS {
        let is_present = family.prefix(prefix(2 * random.below(PREFIXES) + rest)).next().transpose()?.is_some();
        assert_eq!(is_present, rest == 0);
    }
    Ok(begin.elapsed().as_nanos() as f64 / SCANS as f64)
}
