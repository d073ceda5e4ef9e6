//! Question: how fast are reads of single files in random order? (The paper's Figure 5, with one client.)
//! Protocol: every layout holds the same files. A list of distinct files is drawn before the measurement, and every
//!           layout reads it in turn, forwards and backwards; a sum over each content is compared. Warm: every list was
//!           read once before, and the stores stay open. Cold: before each measurement the layout is closed, the
//!           kernel's caches are dropped, and the layout is opened again; the time of opening is not counted.
//! Passes:   no wrong file; ours at least level with the warm file system, and at least twice as fast as the cold one.

use super::Run;
use super::caches::{self, Caches};
use super::layout::{Layout, Name};
use super::sides::Side;
use super::tree::Tree;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{Rounds, alternate};
use waxseal_bench::workload::{Random, touch};

/// Most reads of one measurement.
const READS: u32 = 20_000;

/// A file to read, and the sum of its content.
pub(super) struct Request {
    path: String,
    sum: u64,
}

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let is_cold = run.caches != Some(Caches::Warm);
    if is_cold {
        caches::drop_all()?; // fails before the layouts are filled
    }
    let tree = run.tree();
    let sides = Side::all(run, &tree)?;
    let requests = draw(&tree, run.seed);
    println!("{} files, {:.1} MB, {} reads", tree.len(), tree.bytes() as f64 / 1e6, requests.len());
    let mut wrong = 0;
    let mut reads = 0;
    let mut gates = Vec::new();
    if run.caches != Some(Caches::Cold) {
        let layouts: Vec<_> = sides.iter().map(Side::open).collect::<Outcome<_>>()?;
        let mut measure = |number: usize| {
            let (nanos, faults) = read(layouts[number].as_ref(), &requests)?;
            (wrong, reads) = (wrong + faults, reads + requests.len() as u64);
            Ok(nanos)
        };
        (0..sides.len()).try_for_each(|number| measure(number).map(drop))?;
        let times = alternate(&run.within(if is_cold { 0.4 } else { 1.0 }), sides.len(), run.rounds(&tree), measure)?;
        layouts.into_iter().try_for_each(|layout| layout.close())?;
        gates.extend(told(run, "warm", &times, 1.0));
    }
    if is_cold {
        let times = alternate(run, sides.len(), run.rounds(&tree), |number| {
            caches::drop_all()?;
            let layout = sides[number].open()?;
            let (nanos, faults) = read(layout.as_ref(), &requests)?;
            (wrong, reads) = (wrong + faults, reads + requests.len() as u64);
            layout.close()?;
            Ok(nanos)
        })?;
        gates.extend(told(run, "cold", &times, 2.0));
    }
    gates.push(run.none("same_bytes", "wrong_reads", wrong, reads, 1));
    Ok(gates)
}

/// Draws distinct files.
fn draw(tree: &Tree, seed: u64) -> Vec<Request> {
    let mut random = Random::stream(seed, 2);
    let mut files: Vec<u32> = (0..tree.len()).collect();
    let count = tree.len().min(READS) as usize;
    for place in 0..count {
        let other = place + random.below((files.len() - place) as u64) as usize;
        files.swap(place, other);
    }
    files.truncate(count);
    files.into_iter().map(|file| Request { path: tree.path(file), sum: touch(tree.content(file)) }).collect()
}

/// Returns nanoseconds per read, and the number of wrong contents.
fn read(layout: &dyn Layout, requests: &[Request]) -> Outcome<(f64, u64)> {
    let mut reader = layout.reader()?;
    let mut wrong = 0;
    let start = Instant::now();
    for request in requests {
        wrong += u64::from(touch(&reader.read(&request.path)?) != request.sum);
    }
    Ok((start.elapsed().as_nanos() as f64 / requests.len() as f64, wrong))
}

/// Prints the times of all sides; returns the gate of ours beside the file system.
fn told(run: &Run, what: &str, times: &Rounds, threshold: f64) -> Option<Gate> {
    for (number, name) in run.layouts.iter().enumerate() {
        let micros = times.of(number) / 1e3;
        println!("{what}: {} {micros:.2} us a read, {:.0}/s; {} rounds", name.text(), 1e6 / micros, times.count());
    }
    let (ours, base) = (run.side(Name::Ours)?, run.side(Name::Ext4)?);
    Some(run.at_least(what, "speed_of_ext4", "x", times.speedup(ours, base), threshold))
}
