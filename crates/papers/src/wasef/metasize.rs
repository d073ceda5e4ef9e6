//! Question: do requests take longer as the log grows? (The paper's Figures 10 and 11.)
//! Protocol: stores with equal data whose logs have 0.08 %, 0.8 % and 8 % of its size, everything registered, deferred;
//!           the workload of `latency`. The verdict uses the median request of a round, for the largest log relative to
//!           the smallest.
//! Passes:   the median of reads and of updates grows by at most 3 %. The paper: "very small".

use super::Run;
use super::load::{Load, RECORDS, Request, Side, VALUE_BYTES, requests, shape, values};
use super::store::{LOG, Store};
use crate::content::{Laps, clock_nanos};
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{LEAST, alternate_many, shown};
use waxseal_bench::workload::{Random, Values};
use waxseal_registry::{Mode, Operation, Payload, Scope, Target};

/// Log size in percent of the data.
const SHARES: [f64; 3] = [0.08, 0.8, 8.0];

const REQUESTS: u64 = 500_000;

/// Payload length of a filling event.
const TEXT_BYTES: usize = 64;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let load = Load::new(run.size(RECORDS, 2_000));
    let data = load.records * (super::load::KEY_BYTES + VALUE_BYTES) as u64;
    let shape = shape(data);
    let mut stores = Vec::new();
    for (number, share) in SHARES.into_iter().enumerate() {
        let store = load.store(run, &format!("share{number}"), Side::All(Mode::Deferred), &shape)?;
        let rows = fill(&load, &store, (data as f64 * share / 100.0) as u64, run.seed)?;
        let (bytes, _) = store.tables(LOG);
        println!(
            "{share} %: {rows} events, {bytes} bytes of log over {data} of data: {:.3} %",
            bytes as f64 * 100.0 / data as f64
        );
        stores.push(store);
    }
    let count = requests(run, REQUESTS, 1_000);
    let mut turn = 0;
    let [reads, updates] = alternate_many(run, SHARES.len(), 2 * LEAST, |side| {
        turn += 1;
        let script = load.script(&mut Random::stream(run.seed, turn / SHARES.len() as u64), count, 50);
        stores[side].db.settle()?;
        let times = play(&load, &stores[side], &script, &mut values(run.seed, turn))?;
        stores[side].db.settle()?; // remaining work must not burden the next side
        Ok(times)
    })?;
    let driver = clock_nanos();
    let mut gates = Vec::new();
    for (what, rounds) in [("read", &reads), ("update", &updates)] {
        println!("{what}: median {:.0} ns with the smallest log; {} rounds", rounds.of(0), rounds.count());
        for (side, share) in SHARES.iter().enumerate().skip(1) {
            println!("    {share} %: {} ns, {} %", shown(rounds.more(side, 0)), shown(rounds.percent(side, 0, driver)));
        }
        let growth = rounds.percent(SHARES.len() - 1, 0, driver);
        gates.push(run.at_most(what, "more_at_p50", "%", growth, 3.0));
    }
    println!("the paper: from 0.08 % to 8 % of 12 GB latencies grow very little (Figures 10 and 11)");
    Ok(gates)
}

/// Adds events until the log's tables have this many bytes; returns the number of events.
fn fill(load: &Load, store: &Store, bytes: u64, seed: u64) -> Outcome<u64> {
    let registrar = store.registrar()?;
    let operation = registrar.define("bench.fill", None)?;
    let options = waxseal_registry::Options { scope: Scope::Subtree, ..Default::default() };
    registrar.register(&Target::family(super::store::FAMILY), Some(operation), Some(options), None)?;
    let mut keys = load.keys()?;
    let mut random = Random::stream(seed, 11);
    let mut rows = 0;
    let each = {
        let (key, value) = event(keys.ordered(0), operation).encode()?;
        (key.len() + value.len() + 16) as u64
    };
    while rows * each < bytes {
        let key = keys.ordered(random.below(load.records));
        registrar.log_add(&Target::key(super::store::FAMILY, key), operation, None, payload(), None)?;
        rows += 1;
    }
    store.db.settle()?;
    Ok(rows)
}

fn payload() -> Payload {
    Payload::text(vec![b'x'; TEXT_BYTES])
}

/// Creates one such event to find its length.
fn event(key: &[u8], operation: Operation) -> waxseal_registry::Event {
    let target = Target::key(super::store::FAMILY, key);
    let time = waxseal_registry::Time::FIRST;
    let key = waxseal_registry::key::LogKey { target, operation, time, client: "-".into(), seqno: 0 };
    waxseal_registry::Event { key, payload: payload() }
}

/// Returns nanoseconds of the median read and the median update.
fn play(load: &Load, store: &Store, script: &[Request], values: &mut Values) -> Outcome<[f64; 2]> {
    let mut laps = [Laps::with_room(script.len()), Laps::with_room(script.len())];
    load.time_each(store, script, values, |request, time| laps[usize::from(request.update)].push(time))?;
    Ok(laps.each_mut().map(Laps::median))
}
