//! Question: what does it cost to record where the ranges of a leaving node go? (The paper's Figure 12.)
//! Protocol: four nodes, each with T ranges of one table with hashed partitions, 8 B keys and 1 KB values, for T of 64
//!           (scaled) up to 16 times as many. A node leaves, in rounds with fresh stores. The time of the log of the
//!           moves is divided by the time of the whole decommission. Then the decommission is verified, and verified
//!           again after the tables of one new owner were deleted. At last a node leaves while a thread updates random
//!           rows.
//! Passes:   the share is at most 1.5 %, the paper's. The first verification finds nothing. The second one names ranges
//!           of the damaged node. Writes to a range wait for at most 100 ms.

use super::Run;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::exactly;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{LEAST, shown};
use waxseal_bench::stats::{median, median_interval};
use waxseal_bench::workload::{Random, Values};
use waxseal_placement::{Placement, Splits};
use waxseal_table::{ColumnType, Row, Schema};

const NODES: u32 = 4;

/// Rows at scale 1: 4 GB.
const ROWS: u64 = 4_000_000;

const VALUE_BYTES: usize = 1_000;

/// Fewest and most ranges of a node at scale 1.
const RANGES: [u64; 2] = [64, 1024];

/// The node that leaves, and one that stays.
const LEAVER: &str = "n4";
const DAMAGED: &str = "n1";

const TABLE: &str = "bench.rows";

/// The longest time for which writes to a range may wait, in milliseconds.
const PAUSE: f64 = 100.0;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let rows = run.size(ROWS, 2_000);
    let (mut gates, mut wrong, mut missed, mut trials) = (Vec::new(), 0, 0, 0);
    for (place, most) in RANGES.into_iter().enumerate() {
        let ranges = run.size(most, [4, 16][place]);
        let part = run.within(if place == 0 { 0.4 } else { 1.0 });
        let mut shares = Vec::new();
        while shares.len() < LEAST || !part.is_over() && shares.len() < 2 * LEAST {
            let dir = run.fresh("nodes")?;
            let seed = run.seed.wrapping_add(shares.len() as u64);
            let placement = filled(&dir, rows, ranges as u32, seed)?;
            let start = Instant::now();
            let done = placement.decommission(LEAVER)?;
            shares.push(done.logged_in.as_secs_f64() * 100.0 / start.elapsed().as_secs_f64());
            drop(placement);
            let (wrong_now, missed_now) = verify(&dir)?;
            (wrong, missed, trials) = (wrong + wrong_now, missed + missed_now, trials + 1);
        }
        let share = median_interval(&shares, run.seed);
        println!(
            "{ranges} ranges a node, {rows} rows: {} % of the time for the log, {} rounds",
            shown(share),
            shares.len()
        );
        gates.push(run.at_most(&format!("of_{ranges}"), "recording", "%", share, 1.5));
    }
    println!("the paper: 1.5 % (Figure 12)");
    gates.push(run.none("verify.whole", "problems", wrong, trials, 1));
    gates.push(run.none("verify.damaged", "ranges_not_named", missed, trials, 1));
    let ranges = run.size(RANGES[0], 4);
    let (pauses, updates, longest) = pauses(&run.fresh("nodes")?, rows, ranges as u32, run.seed)?;
    let longest_pause = pauses.iter().copied().fold(0.0, f64::max);
    println!(
        "{} moves beside {updates} updates: writes waited {:.2} ms (median), {longest_pause:.2} ms (longest); \
         longest update {:.2} ms",
        pauses.len(),
        median(&pauses),
        longest.as_secs_f64() * 1e3
    );
    gates.push(run.at_most("fence", "longest_pause", "ms", Some(exactly(longest_pause, pauses.len() as u64)), PAUSE));
    Ok(gates)
}

/// Fills four nodes.
fn filled(dir: &Path, rows: u64, ranges: u32, seed: u64) -> Outcome<Placement> {
    let placement = Placement::open(dir.join("placement"))?;
    for node in 1..=NODES {
        let id = format!("n{node}");
        placement.add(&id, dir.join(&id))?;
    }
    let schema = Schema::new().partition_key("id", ColumnType::U64).column("value", ColumnType::Bytes).hashed();
    let table = placement.create_table(TABLE, schema, &Splits::Even(NODES * ranges))?;
    let mut values = Values::new(VALUE_BYTES, seed, 0);
    for id in 0..rows {
        table.upsert(row(id, &mut values))?;
    }
    Ok(placement)
}

fn row(id: u64, values: &mut Values) -> Row {
    Row::new().with("id", id).with("value", values.value())
}

/// Lets a node leave while a thread updates rows. Returns the milliseconds that writes waited in each move, the number
/// of updates and the longest one.
fn pauses(dir: &Path, rows: u64, ranges: u32, seed: u64) -> Outcome<(Vec<f64>, u64, Duration)> {
    let placement = filled(dir, rows, ranges, seed)?;
    let (table, is_over) = (placement.table(TABLE)?, AtomicBool::new(false));
    let update = || -> Result<(u64, Duration), waxseal_placement::Error> {
        let (mut random, mut values) = (Random::new(seed), Values::new(VALUE_BYTES, seed, 1));
        let (mut updates, mut longest) = (0, Duration::ZERO);
        while !is_over.load(Ordering::Relaxed) {
            let row = row(random.below(rows), &mut values);
            let start = Instant::now();
            table.upsert(row)?;
            longest = longest.max(start.elapsed());
            updates += 1;
        }
        Ok((updates, longest))
    };
    let (done, updated) = std::thread::scope(|scope| {
        let updates = scope.spawn(update);
        let done = placement.decommission(LEAVER);
        is_over.store(true, Ordering::Relaxed);
        (done, updates.join().expect("the updates do not panic"))
    });
    let (updates, longest) = updated?;
    let pauses = done?.moves.into_iter().filter_map(|moved| moved.paused);
    Ok((pauses.map(|paused| paused.as_secs_f64() * 1e3).collect(), updates, longest))
}

/// Verifies the decommission. Returns the problems, and 1 if deleted tables of a new owner are not found.
fn verify(dir: &Path) -> Outcome<(u64, u64)> {
    let placement = Placement::open(dir.join("placement"))?;
    let problems = placement.verify_decommission(LEAVER)?.problems.len() as u64;
    drop(placement);
    let damaged = dir.join(DAMAGED);
    let db = Db::open(&damaged)?;
    db.flush()?;
    db.close()?;
    for entry in std::fs::read_dir(&damaged)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tbl") {
            std::fs::remove_file(path)?;
        }
    }
    let placement = Placement::open(dir.join("placement"))?;
    let moved = placement.moves()?.into_iter().filter(|moved| moved.destination == DAMAGED);
    let ranges: Vec<String> = moved.map(|moved| moved.span.to_string()).collect();
    let found = placement.verify_decommission(LEAVER)?.problems;
    let is_named = found.iter().any(|problem| ranges.iter().any(|range| problem.contains(range.as_str())));
    Ok((problems, u64::from(!is_named)))
}
