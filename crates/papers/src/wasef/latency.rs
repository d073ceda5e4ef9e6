//! Question: how much longer do reads and updates take when everything is registered? (The paper's Figures 6 and 7.)
//! Protocol: the workload of `throughput`, one thread, every request timed. The verdict uses each side's mean without
//!           the slowest 1 %, measured in turn; histograms of all requests are printed. The clock's own time is
//!           subtracted from the percentages.
//! Passes:   everything registered, deferred: updates at most 5 % longer (the paper: 15 %), reads at most 1 % (the
//!           paper: 3 %). Nothing registered: updates at most 1.5 %. Sync and async are only printed.

use super::Run;
use super::load::{Load, RECORDS, Request, Side, VALUE_BYTES, requests, shape, values};
use super::store::Store;
use crate::content::{self, clock_nanos};
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::measure;
use waxseal_bench::rounds::{LEAST, Rounds, alternate_many, shown};
use waxseal_bench::workload::{Random, Values};
use waxseal_lsm::db::Metrics;
use waxseal_lsm::options::MIB;
use waxseal_registry::Mode;

const SIDES: [Side; 5] =
    [Side::Without, Side::Nothing, Side::All(Mode::Sync), Side::All(Mode::Async), Side::All(Mode::Deferred)];
const WITHOUT: usize = 0;
const NOTHING: usize = 1;
const DEFERRED: usize = 4;

/// Requests of the paper's figures.
const REQUESTS: u64 = 500_000;

/// Durations of all requests of a side: reads, updates.
type Histograms = [measure::Laps; 2];

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let load = Load::new(run.size(RECORDS, 2_000));
    let shape = shape(load.records * VALUE_BYTES as u64);
    let mut stores = Vec::new();
    let mut histograms: Vec<Histograms> = Vec::new();
    for (number, side) in SIDES.into_iter().enumerate() {
        stores.push(load.store(run, &format!("side{number}"), side, &shape)?);
        histograms.push(Histograms::default());
    }
    let count = requests(run, REQUESTS, 1_000);
    let driver = clock_nanos();
    println!(
        "{} records, {count} requests a round; the clock's own {driver:.0} ns are net of the percentages",
        load.records
    );
    let mut turn = 0;
    let [reads, updates] = alternate_many(run, SIDES.len(), 2 * LEAST, |side| {
        turn += 1;
        let script = load.script(&mut Random::stream(run.seed, turn / SIDES.len() as u64), count, 50);
        stores[side].db.settle()?;
        let times = play(&load, &stores[side], &script, &mut values(run.seed, turn), &mut histograms[side])?;
        stores[side].db.settle()?; // remaining work must not burden the next side
        Ok(times)
    })?;
    for (store, side) in stores.iter().zip(SIDES) {
        let Metrics { flushes, flushed_bytes, stalls, stall_nanos, compacted_written, .. } = store.db.metrics();
        let (flushed, merged) = (flushed_bytes / MIB as u64, compacted_written / MIB as u64);
        let waited = stall_nanos as f64 / 1e6;
        println!(
            "    {}: {flushes} flushes of {flushed} MiB, {merged} MiB merged; held back {stalls} times, {waited:.0} ms",
            side.name()
        );
    }
    told("reads", &reads, driver, &histograms, 0, "+3 %");
    told("updates", &updates, driver, &histograms, 1, "+15 %");
    Ok(vec![
        run.at_most("nothing.update", "more_time", "%", updates.percent(NOTHING, WITHOUT, driver), 1.5),
        run.at_most("deferred.update", "more_time", "%", updates.percent(DEFERRED, WITHOUT, driver), 5.0),
        run.at_most("deferred.read", "more_time", "%", reads.percent(DEFERRED, WITHOUT, driver), 1.0),
    ])
}

/// Nanoseconds of a read and of an update, each without the slowest 1 %.
pub(super) fn play(
    load: &Load,
    store: &Store,
    script: &[Request],
    values: &mut Values,
    all: &mut Histograms,
) -> Outcome<[f64; 2]> {
    let room = script.len();
    let mut laps = [content::Laps::with_room(room), content::Laps::with_room(room)];
    load.time_each(store, script, values, |request, time| {
        laps[usize::from(request.update)].push(time);
        all[usize::from(request.update)].record(time);
    })?;
    Ok(laps.each_mut().map(content::Laps::trimmed_mean))
}

fn told(what: &str, rounds: &Rounds, driver: f64, histograms: &[Histograms], kind: usize, paper: &str) {
    println!("{what}: the paper {paper} with everything registered; {} rounds", rounds.count());
    for (side, of) in SIDES.iter().enumerate() {
        let all = &histograms[side][kind];
        println!(
            "    {}: mean {:.0} ns; p50 {:.2} us, p99 {:.2}, p99.9 {:.2}; {} ns, {} %",
            of.name(),
            rounds.of(side),
            all.quantile_us(0.5),
            all.quantile_us(0.99),
            all.quantile_us(0.999),
            shown(rounds.more(side, WITHOUT)),
            shown(rounds.percent(side, WITHOUT, driver))
        );
    }
}
