//! Question: should seals be directly behind their records, or in a column behind the block's entries, outside the
//!           codec?
//! Protocol: two sealed stores with the same records, one of each layout, under every codec; verified gets, scans with
//!           the default policy and compactions, in turn; table bytes are counted.
//! Passes:   for each codec it selects a default: a layout whose seals take more than 9 B per record is excluded, then
//!           time decides. The default layout must not exceed the other one by more than 3 % of a get, or by one byte
//!           per record.

use super::content::{Flat, values};
use super::node::{Node, Shape};
use super::rounds::{LEAST, alternate, shown};
use super::{Run, codecs, exactly};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::stats::Interval;
use waxseal_bench::workload::Random;
use waxseal_lsm::env::work::Mode;
use waxseal_lsm::options::{CfOptions, Compression, SealLayout};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::Sealer;

/// Records at scale 1.
const FULL: u64 = 2_000_000;

/// Maximum bytes of a seal per record.
const MOST: f64 = 9.0;

const NAMES: [&str; 2] = ["following", "column"];

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let num = run.size(FULL, 2_000);
    let mut gates = Vec::new();
    for (name, codec) in codecs() {
        let default = usize::from(CfOptions::default().seals.is_column(codec));
        let other = 1 - default;
        let plain = node(run, num, codec, false, Arc::new(Plain))?.tables().0 as f64 / num as f64;
        let pair = [false, true].map(|column| node(run, num, codec, column, Arc::new(Sealer::new())));
        let [following, column] = pair;
        let pair = [following?, column?];
        let bytes = pair.each_ref().map(|node| node.tables().0 as f64 / num as f64);
        let gets = gets(run, num, &pair)?;
        let scans = alternate(run, 2, 2 * LEAST + 1, |side| scan(&pair[side]))?;
        let compactions = alternate(run, 2, LEAST, |side| compaction(run, num / 8 + 500, codec, side == 1))?;
        println!("{name}: {:.2} B a record following, {:.2} B in a column", bytes[0], bytes[1]);
        for (what, rounds) in [("get", &gets), ("scan", &scans), ("compaction", &compactions)] {
            println!(
                "{name} {what}: {:.1} ns following, {:.1} ns in a column: {} ns, {} %",
                rounds.of(0),
                rounds.of(1),
                shown(rounds.more(1, 0)),
                shown(rounds.percent(1, 0, 0.0))
            );
        }
        let get = gets.percent(1, 0, 0.0);
        let seals = bytes.map(|bytes| bytes - plain);
        println!("{name}: the default to pick is {}", NAMES[pick(get, scans.percent(1, 0, 0.0), seals)]);
        let (worse, extra) = (gets.percent(default, other, 0.0), bytes[default] - bytes[other]);
        let label = NAMES[default];
        gates.push(run.at_most(&format!("{name}.get"), &format!("{label}_over_{}", NAMES[other]), "%", worse, 3.0));
        let space = Some(exactly(extra, num));
        gates.push(run.at_most(
            &format!("{name}.space"),
            &format!("{label}_over_{}", NAMES[other]),
            "bytes",
            space,
            1.0,
        ));
    }
    Ok(gates)
}

/// Returns 0 for following, 1 for column: the one whose seals take at most 9 B per record, if the other one's take
/// more; otherwise by gets, then scans, if decided, then bytes; if nothing is decided, following.
fn pick(get: Option<Interval>, scan: Option<Interval>, seals: [f64; 2]) -> usize {
    match seals.map(|bytes| bytes <= MOST) {
        [true, false] => return 0,
        [false, true] => return 1,
        _ => {}
    }
    for interval in [get, scan].into_iter().flatten() {
        if interval.low > 1.0 {
            return 0;
        }
        if interval.high < -1.0 {
            return 1;
        }
    }
    usize::from(seals[1] < seals[0] - 1.0)
}

fn node(run: &Run, num: u64, codec: Compression, column: bool, protector: Arc<dyn Companions>) -> Outcome<Node> {
    let mut shape = Shape::real();
    shape.options.compression = codec;
    shape.options.seals = SealLayout::always(column);
    let mut node = Node::open(&run.fresh(NAMES[usize::from(column)])?, &shape, protector)?;
    let mut values = values(run.seed, 0);
    for key in Flat::all(num).iter() {
        node.put(key, values.value())?;
    }
    node.db.settle()?;
    node.compact()?;
    node.scan()?;
    Ok(node)
}

fn gets(run: &Run, num: u64, pair: &[Node; 2]) -> Outcome<super::rounds::Rounds> {
    let asked = run.size(1_000_000, 2_000).min(200_000);
    let mut random = Random::stream(run.seed, 9);
    let keys = Flat::even(num, &mut random, asked);
    for node in pair {
        get_all(node, &keys)?;
    }
    alternate(run, 2, 2 * LEAST + 1, |side| get_all(&pair[side], &keys).map(|time| time / asked as f64))
}

fn get_all(node: &Node, keys: &Flat) -> Outcome<f64> {
    let start = Instant::now();
    for key in keys.iter() {
        black_box(node.touch(key)?);
    }
    Ok(start.elapsed().as_nanos() as f64)
}

fn scan(node: &Node) -> Outcome<f64> {
    let start = Instant::now();
    let (rows, sum) = node.scan()?;
    black_box(sum);
    Ok(start.elapsed().as_nanos() as f64 / rows.max(1) as f64)
}

/// Nanoseconds per record of a compaction of two overlapping tables into a compressed level.
fn compaction(run: &Run, num: u64, codec: Compression, column: bool) -> Outcome<f64> {
    let mut shape = Shape::real();
    shape.env.work = Mode::Stepped;
    shape.options.compression = codec;
    shape.options.seals = SealLayout::always(column);
    let mut node = Node::open(&run.fresh("compaction")?, &shape, Arc::new(Sealer::new()))?;
    let mut values = values(run.seed, 0);
    for half in 0..2 {
        for (place, key) in Flat::all(num).iter().enumerate() {
            if place % 2 == half {
                node.put(key, values.value())?;
            }
        }
        node.db.flush()?;
    }
    let start = Instant::now();
    node.compact()?;
    Ok(start.elapsed().as_nanos() as f64 / num as f64)
}
