//! Question: what does a query of a log with ten million rows cost? (The paper's Figure 3 claims that a query for all
//!           operations of a target is as fast as one for a single operation.)
//! Protocol: a log of n rows, four operations of many targets, settled and in cache; measured at n/100, n/10 and n
//!           rows. `query_latest` of random targets, each timed; blocks are counted on the same store opened without a
//!           cache. Then all events of targets with a thousand events of four operations, and of targets with a
//!           thousand of one, in turn.
//! Passes:   the 99th percentile of `query_latest` at n is at most 20 us; it reads at most two blocks for each sorted
//!           run, and the runs grow logarithmically; its median grows at most threefold from n/100 to n (1.4 for the
//!           logarithm, and the processor's caches). All operations cost at most 1.1 times as much per row as one.

use super::Run;
use super::store::{FAMILY, LOG, Store};
use crate::node::{ALL, Shape};
use std::hint::black_box;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::exactly;
use waxseal_bench::gate::Gate;
use waxseal_bench::measure::Laps;
use waxseal_bench::rounds::{LEAST, alternate, shown};
use waxseal_bench::stats::{Interval, median_interval};
use waxseal_bench::workload::Random;
use waxseal_lsm::db::At;
use waxseal_lsm::options::MIB;
use waxseal_registry::{Field, Operation, Options, Payload, Scope, Target};

/// Rows of the log at scale 1.
const ROWS: u64 = 10_000_000;

const OPERATIONS: u64 = 4;

/// Events of an ordinary target.
const EACH: u64 = 16;

/// Events of a target whose events are all queried, and number of such targets of either kind.
const MANY: u64 = 1_000;
const WIDE: u64 = 16;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let rows = run.size(ROWS, 3 * 2 * WIDE * MANY).max(100);
    let shape = shape(rows, true);
    let dir = run.fresh("store")?;
    let store = Store::open(&dir, &shape)?;
    let operations = define(&store)?;
    let mut gates = Vec::new();
    let mut medians: Vec<Vec<f64>> = Vec::new();
    let mut p99 = None;
    // The targets with many events exist from the start; ordinary ones are added, and each query returns one event.
    let ordinary = rows - wide(&store, &operations)?;
    let (mut filled, mut target) = (0, 0);
    for size in [ordinary / 100, ordinary / 10, ordinary] {
        while filled < size {
            for event in 0..EACH {
                add(&store, &key(target), operations[(event % OPERATIONS) as usize], event)?;
            }
            target += 1;
            filled += EACH;
        }
        let of_size = latest(run, &store, target, &operations)?;
        println!(
            "query_latest at {filled} rows: p50 {} us, p99 {} us; {} rounds",
            told(median_interval(&of_size.0, run.seed)),
            told(median_interval(&of_size.1, run.seed)),
            of_size.0.len()
        );
        medians.push(of_size.0);
        p99 = median_interval(&of_size.1, run.seed);
    }
    gates.push(run.at_most("latest", "p99", "us", p99, 20.0));
    let first = medians.first().map(Vec::as_slice).unwrap_or_default();
    let last = medians.last().map(Vec::as_slice).unwrap_or_default();
    let growth: Vec<f64> = last.iter().zip(first).map(|(last, first)| last / first.max(1e-3)).collect();
    gates.push(run.at_most("latest", "growth_of_p50", "times", median_interval(&growth, run.seed), 3.0));
    gates.push(of_a_target(run, &store, &operations)?);
    store.close()?;
    gates.push(blocks(run, &Store::open(&dir, &self::shape(rows, false))?, target)?);
    Ok(gates)
}

fn shape(rows: u64, cached: bool) -> Shape {
    let mut shape = Shape::real();
    shape.settings.cache_bytes = if cached { (rows as usize * 256).clamp(64 * MIB, 8192 * MIB) } else { 0 };
    shape
}

fn told(interval: Option<Interval>) -> String {
    interval.map_or_else(|| "undecided".into(), |of| format!("{:.2} ({:.2} .. {:.2})", of.mean, of.low, of.high))
}

fn key(number: u64) -> Target {
    Target::key(FAMILY, format!("key{number:09}"))
}

/// Defines four operations, registered on everything below the family.
fn define(store: &Store) -> Outcome<Vec<Operation>> {
    let registrar = store.registrar()?;
    let options = Options { scope: Scope::Subtree, ..Options::default() };
    let mut operations = Vec::new();
    for number in 0..OPERATIONS {
        let operation = registrar.define(&format!("bench.query{number}"), None)?;
        registrar.register(&Target::family(FAMILY), Some(operation), Some(options), None)?;
        operations.push(operation);
    }
    operations.sort();
    Ok(operations)
}

fn add(store: &Store, target: &Target, operation: Operation, number: u64) -> Outcome<()> {
    store.registrar()?.log_add(target, operation, None, Payload::text(number.to_le_bytes()), None)?;
    Ok(())
}

/// Adds targets with many events: of all operations, and of one.
fn wide(store: &Store, operations: &[Operation]) -> Outcome<u64> {
    for number in 0..WIDE {
        for event in 0..MANY {
            add(store, &all_of(number), operations[(event % OPERATIONS) as usize], event)?;
            add(store, &one_of(number), operations[1], event)?;
        }
    }
    Ok(2 * WIDE * MANY)
}

fn all_of(number: u64) -> Target {
    Target::key(FAMILY, format!("all{number:03}"))
}

fn one_of(number: u64) -> Target {
    Target::key(FAMILY, format!("one{number:03}"))
}

/// Returns medians and 99th percentiles of rounds of queries, in microseconds.
fn latest(run: &Run, store: &Store, targets: u64, operations: &[Operation]) -> Outcome<(Vec<f64>, Vec<f64>)> {
    store.db.settle()?;
    warm(store)?;
    let registrar = store.registrar()?;
    let mut random = Random::stream(run.seed, targets);
    let (mut medians, mut highs) = (Vec::new(), Vec::new());
    for round in 0..2 * LEAST {
        if round >= LEAST && run.is_over() {
            break;
        }
        let mut laps = Laps::new();
        for _ in 0..2_000 {
            let target = key(random.below(targets));
            let number = random.below(OPERATIONS);
            let operation = operations[number as usize];
            let start = Instant::now();
            let event = registrar.query_latest(&target, Some(operation), None)?;
            laps.record(start.elapsed());
            // The latest event of its operation, by its payload.
            let last = Field::Text((EACH - OPERATIONS + number).to_le_bytes().to_vec());
            if event.is_none_or(|event| !event.payload.fields().contains(&last)) {
                return Err("an event that was added is not found".into());
            }
        }
        medians.push(laps.quantile_us(0.5));
        highs.push(laps.quantile_us(0.99));
    }
    Ok((medians, highs))
}

/// Reads every row of the log, so that its blocks are in the cache.
fn warm(store: &Store) -> Outcome<()> {
    let family = store.db.family(LOG).ok_or("a store without a log")?;
    let mut cursor = store.db.cursor(&family, At::Latest, ALL)?;
    cursor.first()?;
    while cursor.valid() {
        black_box(cursor.value());
        cursor.next()?;
    }
    Ok(())
}

/// Nanoseconds per row, for queries of all operations of a target and of one.
fn of_a_target(run: &Run, store: &Store, operations: &[Operation]) -> Outcome<Gate> {
    let registrar = store.registrar()?;
    let rounds = alternate(run, 2, 2 * LEAST, |side| {
        let start = Instant::now();
        let mut rows = 0;
        for number in 0..WIDE {
            let events = match side {
                0 => registrar.query_all(&one_of(number), Some(operations[1]), None)?,
                _ => registrar.query_all(&all_of(number), None, None)?,
            };
            rows += events.len() as u64;
        }
        if rows != WIDE * MANY {
            return Err(format!("{rows} events where {} were added", WIDE * MANY).into());
        }
        Ok(start.elapsed().as_nanos() as f64 / rows as f64)
    })?;
    println!(
        "events of a target, a row: of one operation {:.0} ns, of all {:.0} ns, {} %; the paper: as fast",
        rounds.of(0),
        rounds.of(1),
        shown(rounds.percent(1, 0, 0.0))
    );
    let ratio = rounds.percent(1, 0, 0.0).map(|more| Interval {
        mean: 1.0 + more.mean / 100.0,
        low: 1.0 + more.low / 100.0,
        high: 1.0 + more.high / 100.0,
        n: more.n,
    });
    Ok(run.at_most("all_operations", "beside_one", "times", ratio, 1.1))
}

/// Blocks that `query_latest` reads with an empty cache, and the number of sorted runs.
fn blocks(run: &Run, store: &Store, targets: u64) -> Outcome<Gate> {
    let registrar = store.registrar()?;
    let operation = registrar.operation("bench.query0")?;
    let metrics = store.db.metrics();
    let levels = metrics.families.iter().filter(|family| family.name == LOG).flat_map(|family| &family.levels);
    let runs: usize =
        levels.map(|level| if level.level == 0 { level.tables } else { usize::from(level.tables > 0) }).sum();
    let mut random = Random::stream(run.seed, 5);
    let read = || store.db.metrics().cache.loads; // includes blocks that did not fit into the cache
    let before = read();
    for _ in 0..1_000 {
        black_box(registrar.query_latest(&key(random.below(targets)), Some(operation), None)?);
    }
    let each = (read() - before) as f64 / 1_000.0;
    println!("blocks a query_latest: {each:.2}, in {runs} sorted runs");
    Ok(run.at_most("latest", "blocks", "blocks", Some(exactly(each, 1_000)), 2.0 * runs.max(1) as f64))
}
