//! Question: how many bytes does a seal cost, on disk under every codec, and in memory while many versions are
//!           compacted?
//! Protocol: the same records, 20 B keys and 100 B values, every key once, are written to a plain and a sealed store
//!           and compacted to one table (every second key first, so that every memtable overlaps the others); the bytes
//!           of the table files, divided by their records. A count, not a sample. Then one key with many versions, each
//!           kept alive by a snapshot, in two overlapping tables: the peak heap growth while they are compacted, sealed
//!           and plain, at two numbers of versions; the slope is the cost per version. Both include the paper's own
//!           store.
//! Passes:   at most 9 B more per record under every codec in the layout that is its default (the other one is
//!           printed), and at most 16 B of memory per version (the paper's map) more than plain; the paper's store is
//!           printed, not judged.
//! Gaps:     zstd in builds with the feature `zstd` only.

use super::content::{Flat, values};
use super::node::{Node, Shape};
use super::{Run, codecs, exactly};
use std::sync::Arc;
use std::time::Instant;
use waxseal_bench::gate::Gate;
use waxseal_bench::{Outcome, heap};
use waxseal_lab::paper::Paper;
use waxseal_lsm::db::Snapshot;
use waxseal_lsm::env::work::Mode;
use waxseal_lsm::options::{CfOptions, Compression, SealLayout};
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::Sealer;

/// Records, and versions of one key, at scale 1.
const FULL: u64 = 2_000_000;
const VERSIONS: u64 = 50_000;

/// Memory per version in the paper's compaction.
const PAPER_BYTES: f64 = 16.0;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let num = run.size(FULL, 2_000);
    let mut gates = Vec::new();
    gates.push(memory(run)?);
    for (name, codec) in codecs() {
        let (plain, plain_tables) = bytes(run, num, codec, Arc::new(Plain), false)?;
        let (paper, _) = bytes(run, num, codec, Arc::new(Paper::default()), false)?;
        println!(
            "{name} the paper's rows: {paper:.2} B a record, {:+.2} B, {:+.1} %",
            paper - plain,
            (paper / plain - 1.0) * 100.0
        );
        for (layout, column) in [("following", false), ("column", true)] {
            let (sealed, tables) = bytes(run, num, codec, Arc::new(Sealer::new()), column)?;
            let more = sealed - plain;
            println!(
                "{name} {layout}: plain {plain:.4} B a record in {plain_tables} tables, sealed {sealed:.4} in {tables}: {more:+.4} B, {:+.1} %",
                more / plain * 100.0
            );
            if CfOptions::default().seals.is_column(codec) == column {
                let what = format!("{name}.{layout}");
                gates.push(run.at_most(&what, "more_a_record", "bytes", Some(exactly(more, num)), 9.0));
            }
        }
    }
    Ok(gates)
}

/// Returns bytes of table files per record, and the number of files.
fn bytes(run: &Run, num: u64, codec: Compression, protector: Arc<dyn Companions>, column: bool) -> Outcome<(f64, u64)> {
    let mut shape = Shape::real();
    shape.options.compression = codec;
    shape.options.seals = SealLayout::always(column);
    // One table, so that all sides have equally many file ends, filter lines and partly filled blocks.
    (shape.options.table_bytes, shape.options.level_base_bytes) = (1 << 31, 1 << 31);
    let mut node = Node::open(&run.fresh("space")?, &shape, protector)?;
    let mut values = values(run.seed, 0);
    let keys = Flat::all(num);
    for half in 0..2 {
        for key in keys.iter().skip(half).step_by(2) {
            node.put(key, values.value())?;
        }
    }
    node.db.settle()?;
    node.compact()?;
    let (bytes, records) = node.tables();
    // The paper's store has a row for each.
    if records != num && records != 2 * num {
        return Err(format!("{records} records in tables, not {num}").into());
    }
    if node.table_files() != 1 {
        return Err(format!("{} tables, not one", node.table_files()).into());
    }
    Ok((bytes as f64 / num as f64, node.table_files()))
}

fn memory(run: &Run) -> Outcome<Gate> {
    let most = run.size(VERSIONS, 20_000);
    let few = most / 5;
    let start = Instant::now();
    let slope = |protector: fn() -> Arc<dyn Companions>| -> Outcome<(f64, f64)> {
        let low = peak_of_compaction(run, few, protector())?;
        let high = peak_of_compaction(run, most, protector())?;
        Ok(((high - low) / (most - few) as f64, high))
    };
    let plain = slope(|| Arc::new(Plain))?;
    let sealed = slope(|| Arc::new(Sealer::new()))?;
    let paper = slope(|| Arc::new(Paper::default()))?;
    println!(
        "compaction of {most} versions of one key, heap at its peak (the paper counts {PAPER_BYTES} B a version for its map), in {:.1} s:",
        start.elapsed().as_secs_f64()
    );
    for (name, (slope, peak)) in [("plain", plain), ("sealed", sealed), ("the paper's store", paper)] {
        println!("    {name}: {:.2} MB, {slope:.2} B a version", peak / 1e6);
    }
    let more = exactly(sealed.0 - plain.0, most);
    Ok(run.at_most("memory", "more_a_version", "bytes", Some(more), PAPER_BYTES))
}

/// Returns the peak heap growth while the versions of one key are compacted.
fn peak_of_compaction(run: &Run, versions: u64, protector: Arc<dyn Companions>) -> Outcome<f64> {
    let mut shape = Shape::real();
    // A single thread, so that the heap has no other users.
    shape.env.work = Mode::Stepped;
    // Cached blocks would count as growth, so the cache is off.
    shape.settings.cache_bytes = 0;
    let mut node = Node::open(&run.fresh("versions")?, &shape, protector)?;
    let mut values = values(run.seed, 1);
    let mut alive: Vec<Snapshot> = Vec::with_capacity(versions as usize);
    for half in 0..2 {
        for _ in 0..versions / 2 {
            node.put(b"one key of many versions", values.value())?;
            alive.push(node.db.snapshot()?);
        }
        if half == 0 {
            node.db.flush()?;
        }
    }
    node.db.flush()?;
    let (_, before) = node.tables();
    let (peak, outcome) = heap::peak(|| node.compact());
    outcome?;
    let (_, after) = node.tables();
    if before < versions / 2 * 2 || after < versions / 2 * 2 {
        return Err(format!("{before} versions before the compaction, {after} behind it").into());
    }
    Ok(peak as f64)
}
