//! Measures synced writers by the store's counters: `fdatasync`s per commit with many threads, and the slowdown of a
//! concurrent writer without sync. The counters are the log's own, which only our store offers.

use super::turns::Bench;
use crate::Outcome;
use crate::gate::Gate;
use crate::stats::{Interval, Wanted, interval};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use waxseal::{ColumnFamily, Db, Durability, WriteOptions};

/// Number of threads with durable writes.
const THREADS: u64 = 64;

/// Number of rounds; in each, the writer without sync runs once alone and once with the others.
const ROUNDS: u64 = 12;

/// Duration of each half of a round.
const HALF: Duration = Duration::from_millis(400);

/// Scales the duration down for small runs, which only test the driver.
fn half(scale: f64) -> Duration {
    HALF.mul_f64((scale * 10.0).clamp(0.1, 1.0))
}

/// The results of one round.
struct Found {
    syncs_per_commit: f64,
    syncs_per_group: f64,
    loss_percent: f64,
}

/// Returns the gates about synced groups.
pub(super) fn gates(bench: &Bench) -> Outcome<Vec<Gate>> {
    let dir = bench.dir.join("synced");
    let db = Db::open(&dir)?;
    let cf = db.column_family("default")?;
    let found: Vec<Found> =
        (0..ROUNDS).map(|number| round(&db, &cf, number, half(bench.scale()))).collect::<Outcome<_>>()?;
    db.close()?;
    std::fs::remove_dir_all(&dir)?;
    let of = |value: fn(&Found) -> f64| interval(&found.iter().map(value).collect::<Vec<f64>>(), bench.seed);
    let gate = |id: &str, metric: &str, unit, bounds: Option<Interval>, at| {
        Gate::judged(id, metric, unit, bounds, Wanted::AtMost, at, bench.seed, bench.scale())
    };
    Ok(vec![
        gate("synced.per_commit", "fdatasyncs_of_64_threads", "count", of(|one| one.syncs_per_commit), 1.0 / 16.0),
        gate("synced.per_group", "fdatasyncs_of_64_threads", "count", of(|one| one.syncs_per_group), 1.0),
        gate("synced.os_beside", "slower_than_alone", "%", of(|one| one.loss_percent), 10.0),
    ])
}

fn round(db: &Db, cf: &ColumnFamily, number: u64, half: Duration) -> Outcome<Found> {
    let writing = |beside: bool| -> Outcome<(u64, u64)> {
        let stop = AtomicBool::new(false);
        let commits = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..if beside { THREADS } else { 0 })
                .map(|thread| {
                    let (stop, commits) = (&stop, &commits);
                    scope.spawn(move || write_synced(cf, thread, stop, commits))
                })
                .collect();
            let done = write_lazily(cf, number, half);
            stop.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.join().map_err(|_| "a writer panicked")??;
            }
            Ok((done?, commits.load(Ordering::Relaxed)))
        })
    };
    // Forwards and backwards, so that drift of the machine affects both alike.
    let mut rates = [0.0; 2];
    let mut counted = (0.0, 0.0);
    for turn in 0..2 {
        let beside = (turn == 1) != (number % 2 == 1);
        let before = db.metrics().wal;
        let (lazily, commits) = writing(beside)?;
        rates[usize::from(beside)] = lazily as f64;
        if beside {
            let after = db.metrics().wal;
            let syncs = (after.syncs - before.syncs) as f64;
            counted = (syncs / commits.max(1) as f64, syncs / (after.groups - before.groups).max(1) as f64);
        }
    }
    let [alone, beside] = rates;
    Ok(Found {
        syncs_per_commit: counted.0,
        syncs_per_group: counted.1,
        loss_percent: (1.0 - beside / alone.max(1.0)) * 100.0,
    })
}

/// Runs a writer without sync; returns its number of writes.
fn write_lazily(cf: &ColumnFamily, number: u64, half: Duration) -> Outcome<u64> {
    let start = Instant::now();
    let mut done = 0;
    while start.elapsed() < half {
        cf.put(format!("lazy{:016}", done % 100_000), [number as u8; 100])?;
        done += 1;
    }
    Ok(done)
}

fn write_synced(cf: &ColumnFamily, thread: u64, stop: &AtomicBool, commits: &AtomicU64) -> Outcome<()> {
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        let options = WriteOptions::new().durability(Durability::Sync);
        cf.put_with(format!("{thread:04}{:012}", at % 1000), [thread as u8; 100], options)?;
        commits.fetch_add(1, Ordering::Relaxed);
        at += 1;
    }
    Ok(())
}
