//! Measures the time that the block cache saves for values of 20 kB: `large ROUNDS DIR`.
//!
//! Two families of one store hold the same values. One process alternates between reads of values that stay in the
//! cache and reads of values from their file (`with_fill_cache(false)`; the file is in the system's page cache), so
//! other work on the machine affects both alike. Prints one line each for the first reads, which leave no value in the
//! cache, the second, which leave values, and the later ones: medians of both cases, and the median of the rounds'
//! ratios. Callgrind toggles collection at the functions `through_the_cache` and `through_the_file`.

#![expect(clippy::disallowed_methods, reason = "a clock of its own is what it measures with")]

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use waxseal::{CfOptions, ColumnFamily, Compression, Db};
use waxseal_bench::Outcome;
use waxseal_bench::rounds::main_of;
use waxseal_bench::stats::median;
use waxseal_bench::workload::{Keys, Random, Values};

/// Values in a family, of so many bytes.
const RECORDS: u64 = 2_000;
const VALUE_BYTES: usize = 20_000;

/// Reads of one turn.
const TURN: u64 = 100;

fn main() -> ExitCode {
    main_of("large", compare)
}

fn plain() -> CfOptions {
    CfOptions { compression: Compression::None, ..CfOptions::default() }
}

fn compare(rounds: u64, dir: &Path) -> Outcome<String> {
    let db = Db::builder(dir).open()?;
    let kept = db.create_column_family("kept", plain())?;
    let passing = db.create_column_family("passing", plain())?;
    let mut keys = Keys::new(RECORDS, 16, 0).ok_or("sixteen digits are enough")?;
    let mut values = Values::new(VALUE_BYTES, 1, 1);
    for i in 0..RECORDS {
        let (key, value) = (keys.written(i), values.value());
        kept.put(key, value)?;
        passing.put(key, value)?;
    }
    db.settle()?;
    for family in [&kept, &passing] {
        let mut at = family.cursor();
        at.first()?;
        while at.valid() {
            black_box(at.value());
            at.next()?;
        }
    }
    let passing = passing.with_fill_cache(false);
    let mut once = || turns(RECORDS / TURN, &mut |n| n % RECORDS, &mut keys, (&kept, &passing));
    let (first, second) = (once()?, once()?);
    let mut random = Random::new(7);
    let then = turns(rounds, &mut |_| random.below(RECORDS), &mut keys, (&kept, &passing))?;
    std::mem::forget((db, kept, passing));
    Ok(format!("first:  {first}\nsecond: {second}\nthen:   {then}"))
}

/// Reads of both kinds, turn by turn: medians, and the median of the ratios.
fn turns(
    rounds: u64,
    next: &mut dyn FnMut(u64) -> u64,
    keys: &mut Keys,
    (kept, passing): (&ColumnFamily, &ColumnFamily),
) -> Outcome<String> {
    let (mut cached, mut read, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let asked: Vec<u64> = (0..TURN).map(|n| next(round * TURN + n)).collect();
        let mut turn = |of: fn(&ColumnFamily, &[u8]) -> waxseal::Result<()>, family: &ColumnFamily| -> Outcome<f64> {
            let start = Instant::now();
            for number in &asked {
                of(family, keys.written(*number))?;
            }
            Ok(start.elapsed().as_secs_f64() * 1e6 / TURN as f64)
        };
        // Forwards and backwards, so that a drift of the machine hits both alike.
        let (one, other) = if round % 2 == 0 {
            let one = turn(through_the_cache, kept)?;
            (one, turn(through_the_file, passing)?)
        } else {
            let other = turn(through_the_file, passing)?;
            (turn(through_the_cache, kept)?, other)
        };
        cached.push(one);
        read.push(other);
        ratios.push(one / other);
    }
    let [cached, read, ratio] = [cached, read, ratios].map(|samples| median(&samples));
    Ok(format!("kept {cached:.2} us, passing {read:.2} us, ratio {ratio:.3} (median of {rounds} rounds of {TURN})"))
}

#[inline(never)]
fn through_the_cache(family: &ColumnFamily, key: &[u8]) -> waxseal::Result<()> {
    black_box(family.get_with(key, |value| value.len())?);
    Ok(())
}

/// Another sum, so that the compiler does not make one function of both.
#[inline(never)]
fn through_the_file(family: &ColumnFamily, key: &[u8]) -> waxseal::Result<()> {
    black_box(family.get_with(key, |value| value.len() + 1)?);
    Ok(())
}
