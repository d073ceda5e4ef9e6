//! Question: how does throughput change with no, 1 % or all keys registered? (The paper's Figure 5.)
//! Protocol: 8 B keys, 1 KB values, zipfian, half reads and half updates, 1, 2, 4 .. threads. One store per side,
//!           filled before its registrations; all sides get the same requests in turn, forwards and backwards. Every
//!           store is settled before it is measured, and flushes run during the requests, so that the cost of deferred
//!           rows is included. Processor time of the whole process until the store is flushed is also reported.
//! Passes:   nothing registered: at most 1.5 % more time per request than a store without a registry. Everything
//!           registered, deferred: at most 5 % (the paper: 9 % less throughput). 1 %, sync and async are only printed.
//!           Judged with as many threads as there are cores, and fewer.

use super::Run;
use super::load::{Load, RECORDS, Side, VALUE_BYTES, requests, shape};
use super::store::Store;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::measure::Counters;
use waxseal_bench::rounds::{LEAST, Rounds, alternate_many, shown};
use waxseal_bench::workload::Random;
use waxseal_registry::Mode;

const SIDES: [Side; 8] = [
    Side::Without,
    Side::Nothing,
    Side::Few(Mode::Sync),
    Side::Few(Mode::Async),
    Side::Few(Mode::Deferred),
    Side::All(Mode::Sync),
    Side::All(Mode::Async),
    Side::All(Mode::Deferred),
];
const WITHOUT: usize = 0;
const NOTHING: usize = 1;
const DEFERRED: usize = 7;

/// Requests of one point of the paper's figure.
const REQUESTS: u64 = 1_000_000;

/// Maximum number of threads of the paper's clients.
const MOST_THREADS: u64 = 400;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let load = Load::new(run.size(RECORDS, 2_000));
    let shape = shape(load.records * VALUE_BYTES as u64);
    let mut stores = Vec::new();
    for (number, side) in SIDES.into_iter().enumerate() {
        stores.push(load.store(run, &format!("side{number}"), side, &shape)?);
    }
    let count = requests(run, REQUESTS, 1_000);
    println!("{} records, {count} requests a point", load.records);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let levels = levels(cores, if run.scale >= 1.0 { MOST_THREADS } else { 2 * cores });
    let judged = levels.iter().filter(|threads| **threads <= cores).count();
    let mut gates = Vec::new();
    for (place, threads) in levels.iter().enumerate() {
        // Judged thread counts get twice the time of those that are only printed.
        let ahead = levels.len() - place + judged.saturating_sub(place);
        let is_judged = *threads <= cores;
        let share = if is_judged { 2.0 } else { 1.0 } / ahead as f64;
        let part = run.within(share.min(1.0));
        let mut turn = 0;
        let rounds = if is_judged { LEAST + 4 } else { 3 };
        let [walls, cpus] = alternate_many(&part, SIDES.len(), rounds, |side| {
            turn += 1;
            measure(&load, &stores[side], *threads, count, run.seed + turn / SIDES.len() as u64)
        })?;
        told(*threads, &walls, &cpus);
        if is_judged {
            for (what, side, threshold) in [("nothing", NOTHING, 1.5), ("deferred", DEFERRED, 5.0)] {
                let more = walls.percent(side, WITHOUT, 0.0);
                gates.push(run.at_most(&format!("{what}.threads{threads}"), "more_time", "%", more, threshold));
            }
        }
    }
    println!(
        "the paper: 9 % less throughput with everything registered (10 % more time a request), saturated at about 300 clients"
    );
    Ok(gates)
}

/// Returns 1, 2, 4 .. and the number of cores.
fn levels(cores: u64, most: u64) -> Vec<u64> {
    let mut levels: Vec<u64> =
        std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|threads| *threads <= most).collect();
    levels.extend([cores, most].into_iter().filter(|threads| *threads <= most));
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Returns wall-clock nanoseconds per request, and processor nanoseconds until everything is flushed.
fn measure(load: &Load, store: &Store, threads: u64, count: u64, seed: u64) -> Outcome<[f64; 2]> {
    store.db.settle()?;
    let each = (count / threads).max(1);
    let scripts: Vec<_> = (0..threads).map(|thread| load.script(&mut Random::stream(seed, thread), each, 50)).collect();
    let counters = Counters::start();
    let wall = load.play(store, &scripts, seed)?;
    store.db.flush()?;
    let (cpu, _) = counters.since();
    store.db.settle()?; // remaining work must not burden the next side
    Ok([wall, cpu.as_nanos() as f64 / (each * threads) as f64])
}

fn told(threads: u64, walls: &Rounds, cpus: &Rounds) {
    println!(
        "{threads} threads: {} {:.0} requests/s, {:.0} ns of processor each; {} rounds",
        SIDES[WITHOUT].name(),
        1e9 / walls.of(WITHOUT),
        cpus.of(WITHOUT),
        walls.count()
    );
    for (side, of) in SIDES.iter().enumerate().skip(1) {
        println!(
            "    {}: {:.0} requests/s; time {} %, {} ns; processor {} %",
            of.name(),
            1e9 / walls.of(side),
            shown(walls.percent(side, WITHOUT, 0.0)),
            shown(walls.more(side, WITHOUT)),
            shown(cpus.percent(side, WITHOUT, 0.0))
        );
    }
}
