//! Question: do a thousand tasks with durable writes share fdatasyncs, and how much does a cached read cost a task?
//! Protocol: 1,000 tasks on a runtime with one thread per core, each with sequential synced writes through `AsyncDb`.
//!           For comparison, 64 threads and one thread make the same number of writes through `Db`. All run in turn,
//!           forwards and backwards, each on its own store. The log counts the fdatasyncs. Then the same cached keys
//!           are read by `Db::get` and by `AsyncDb::get`.
//! Passes:   at most one fdatasync per 20 writes of the tasks; at most the time per write of the 64 threads; at most
//!           200 ns more per read.

use crate::Outcome;
use crate::experiment::{self, Needs, Run};
use crate::gate::Gate;
use crate::rounds::{LEAST, alternate, alternate_many, shown};
use crate::workload::Random;
use clap::Args;
use std::time::Instant;
use waxseal::{AsyncColumnFamily, AsyncDb, ColumnFamily, Db, Durability, WriteOptions};

/// Arguments of `async`.
#[derive(Args, Debug)]
pub struct Line {
    #[command(flatten)]
    ask: experiment::Ask,
}

/// Number of writing tasks.
const TASKS: u64 = 1000;

/// Number of writing threads for comparison.
const THREADS: u64 = 64;

/// Writes of one side in a round, at scale 1.
const WRITES: u64 = 100 * TASKS;

/// Number of keys read.
const KEYS: u64 = 1000;

/// The writers of a side.
#[derive(Clone, Copy)]
enum Side {
    Tasks,
    Threads(u64),
}

const SIDES: [Side; 3] = [Side::Tasks, Side::Threads(THREADS), Side::Threads(1)];

/// Runs the experiment.
pub fn tasks(line: &Line) -> Outcome<u8> {
    let needs = Needs { id: "async", scales: (0.1, 0.02), disk: (2_000 << 20, 256 << 20) };
    experiment::conduct(&line.ask, &needs, |run| {
        let mut gates = writes(&run.within(0.7))?;
        gates.extend(reads(&run)?);
        Ok(gates)
    })
}

fn writes(run: &Run) -> Outcome<Vec<Gate>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let count = run.size(WRITES, TASKS);
    let stores: Vec<Db> =
        (0..SIDES.len()).map(|side| Ok(Db::open(run.fresh(&format!("writes{side}"))?)?)).collect::<Outcome<_>>()?;
    let mut round = 0;
    let [times, syncs] = alternate_many(run, SIDES.len(), 2 * LEAST, |side| {
        round += 1;
        let db = &stores[side];
        // One thread waits for the disk at each write, so a hundredth of the writes is enough.
        let count = if let Side::Threads(1) = SIDES[side] { (count / 100).max(20) } else { count };
        let before = db.metrics().wal.syncs;
        let start = Instant::now();
        let done = match SIDES[side] {
            Side::Tasks => by_tasks(&runtime, db, count, round)?,
            Side::Threads(threads) => by_threads(db, threads, count, round)?,
        };
        let nanos = start.elapsed().as_nanos() as f64;
        let syncs = db.metrics().wal.syncs - before;
        db.settle()?; // remaining work must not burden the next side
        Ok([nanos / done as f64, syncs as f64 / done as f64])
    })?;
    for (side, name) in ["1000 tasks", "64 threads", "1 thread"].into_iter().enumerate() {
        let rate = 1e9 / times.of(side).max(1.0);
        println!("{name}: {rate:.0} synced writes/s, {:.4} fdatasyncs each; {} rounds", syncs.of(side), times.count());
    }
    println!("tasks beside threads: time {} %", shown(times.percent(0, 1, 0.0)));
    stores.into_iter().try_for_each(|db| db.close())?;
    Ok(vec![
        run.at_most("shared", "fdatasyncs_per_write", "count", syncs.interval_of(0), 0.05),
        run.at_most("rate", "more_time", "%", times.percent(0, 1, 0.0), 0.0),
    ])
}

fn synced() -> WriteOptions {
    WriteOptions::new().durability(Durability::Sync)
}

/// Returns the next key and value of a writer.
fn row(random: &mut Random) -> (Vec<u8>, [u8; 100]) {
    (format!("{:016}", random.below(1 << 40)).into_bytes(), [random.below(256) as u8; 100])
}

fn by_tasks(runtime: &tokio::runtime::Runtime, db: &Db, count: u64, seed: u64) -> Outcome<u64> {
    let each = (count / TASKS).max(1);
    let write = |cf: AsyncColumnFamily, task: u64| async move {
        let mut random = Random::stream(seed, task);
        for _ in 0..each {
            let (key, value) = row(&mut random);
            cf.put_with(key, value, synced()).await?;
        }
        waxseal::Result::Ok(())
    };
    runtime.block_on(async {
        let db = AsyncDb::new(db.clone());
        let cf = db.column_family("default").await?;
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(write(cf.clone(), task))).collect();
        for task in tasks {
            task.await??;
        }
        Ok(each * TASKS)
    })
}

fn by_threads(db: &Db, threads: u64, count: u64, seed: u64) -> Outcome<u64> {
    let each = (count / threads).max(1);
    let cf = db.column_family("default")?;
    let write = |thread: u64| {
        let mut random = Random::stream(seed, thread);
        (0..each).try_for_each(|_| {
            let (key, value) = row(&mut random);
            cf.put_with(key, value, synced())
        })
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || write(thread))).collect();
        let joined = writers.into_iter().map(|writer| writer.join().map_err(|_| "a writer panicked".into()));
        joined.collect::<Outcome<Vec<_>>>()?.into_iter().collect::<waxseal::Result<()>>()?;
        Ok(each * threads)
    })
}

fn reads(run: &Run) -> Outcome<Vec<Gate>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let db = Db::open(run.fresh("reads")?)?;
    let cf = db.column_family("default")?;
    let keys: Vec<String> = (0..KEYS).map(|n| format!("{n:016}")).collect();
    keys.iter().try_for_each(|key| cf.put(key, [7; 100]))?;
    db.settle()?;
    let count = run.size(10_000_000, 10_000);
    let async_cf = runtime.block_on(AsyncDb::new(db.clone()).column_family("default"))?;
    let order = || {
        let mut random = Random::new(run.seed);
        (0..count).map(move |_| random.below(KEYS) as usize)
    };
    let times = alternate(run, 2, 2 * LEAST, |side| {
        let start = Instant::now();
        let found = match side {
            0 => found_by(order(), &keys, &cf)?,
            _ => runtime.block_on(found_in_task(order(), &keys, &async_cf))?,
        };
        assert_eq!(found, 100 * count, "a value is missing");
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    })?;
    println!(
        "a cached read: {:.0} ns by Db, {:.0} ns by AsyncDb; {} rounds of {count}",
        times.of(0),
        times.of(1),
        times.count()
    );
    db.close()?;
    Ok(vec![run.at_most("cached_read", "more", "ns", times.more(1, 0), 200.0)])
}

fn found_by(order: impl Iterator<Item = usize>, keys: &[String], cf: &ColumnFamily) -> Outcome<u64> {
    let mut found = 0;
    for at in order {
        found += cf.get(&keys[at])?.map_or(0, |value| value.len() as u64);
    }
    Ok(found)
}

async fn found_in_task(order: impl Iterator<Item = usize>, keys: &[String], cf: &AsyncColumnFamily) -> Outcome<u64> {
    let mut found = 0;
    for at in order {
        found += cf.get(&keys[at]).await?.map_or(0, |value| value.len() as u64);
    }
    Ok(found)
}
