//! Measures the rate that an `Os` writer loses beside 64 synced writers, and the log's part of the loss:
//! `beside ROUNDS DIR`.
//!
//! One process alternates between three cases: the writer alone, beside synced writers of its own store, and beside as
//! many synced writers of another store. Writers of the other store use the same cores and disk but another log, so the
//! loss beside them is not the log's. Prints one line: medians of the rounds, as shares of the writer's rate alone.

#![expect(clippy::disallowed_methods, reason = "a clock and directories of its own are what it measures with")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use waxseal::{ColumnFamily, Db, Durability};
use waxseal_bench::Outcome;
use waxseal_bench::rounds::main_of;
use waxseal_bench::stats::median;

const THREADS: usize = 64;
const TURN: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    main_of("beside", compare)
}

fn compare(rounds: u64, dir: &Path) -> Outcome<String> {
    std::fs::create_dir_all(dir)?;
    let [ours, theirs] = [Db::open(dir.join("ours"))?, Db::open(dir.join("theirs"))?];
    let [own, other] = [ours.column_family("default")?, theirs.column_family("default")?];
    let (mut beside_own, mut beside_other) = (Vec::new(), Vec::new());
    let (mut synced_own, mut synced_other) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut rates = [(0, 0); 3];
        // Forwards and backwards, so that a drift of the machine hits all alike.
        let turns = if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
        for turn in turns {
            rates[turn] = write(&own, [None, Some(&own), Some(&other)][turn])?;
        }
        let alone = rates[0].0.max(1) as f64;
        beside_own.push(rates[1].0 as f64 / alone);
        beside_other.push(rates[2].0 as f64 / alone);
        synced_own.push(rates[1].1 as f64);
        synced_other.push(rates[2].1 as f64);
    }
    let [own, other, synced_own, synced_other] =
        [beside_own, beside_other, synced_own, synced_other].map(|samples| median(&samples));
    Ok(format!(
        "beside {THREADS} synced writers of its own store {own:.3} of its rate alone, of another store {other:.3}; \
         synced commits a turn {synced_own} and {synced_other} (median of {rounds} rounds)"
    ))
}

/// Returns the number of writes of the writer in one round, and the number of synced writes beside it.
fn write(to: &ColumnFamily, beside: Option<&ColumnFamily>) -> Outcome<(u64, u64)> {
    let (stop, synced) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .filter_map(|thread| beside.map(|family| (thread, family)))
            .map(|(thread, family)| {
                let (stop, synced) = (&stop, &synced);
                scope.spawn(move || -> Outcome<()> {
                    for at in 0u64.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        family.put_with(format!("{thread:04}{at:012}"), [7; 100], Durability::Sync.into())?;
                        synced.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed() < TURN {
            to.put(format!("lazy{:012}", done % 100_000), [1; 100])?;
            done += 1;
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| "a writer panicked")??;
        }
        Ok((done, synced.load(Ordering::Relaxed)))
    })
}
