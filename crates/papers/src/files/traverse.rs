//! Question: how fast is a traversal that reads all files, as a backup does? (The paper's Figure 6.)
//! Protocol: every layout holds the same files and is traversed by one reader, in turn, forwards and backwards, in the
//!           order in which the layout has them. Number of files and a sum over all contents are compared. Warm and cold
//!           as in `random`.
//! Passes:   no wrong traversal; cold, ours is at least as fast as the smaller of 5 times the file system and 0.9 of the
//!           archive.

use super::Run;
use super::caches::{self, Caches};
use super::layout::{Layout, Name, Part};
use super::sides::Side;
use super::tree::Tree;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{Rounds, alternate};
use waxseal_bench::workload::touch;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let is_cold = run.caches != Some(Caches::Warm);
    if is_cold {
        caches::drop_all()?; // fails before the layouts are filled
    }
    let tree = run.tree();
    let sides = Side::all(run, &tree)?;
    println!("{} files, {:.1} MB", tree.len(), tree.bytes() as f64 / 1e6);
    let expected = (0..tree.len()).fold(0u64, |sum, file| sum.wrapping_add(touch(tree.content(file))));
    let mut wrong = 0;
    let mut traversals = 0;
    let mut gates = Vec::new();
    if run.caches != Some(Caches::Cold) {
        let layouts: Vec<_> = sides.iter().map(Side::open).collect::<Outcome<_>>()?;
        let mut measure = |number: usize| {
            let (nanos, is_right) = traverse(&tree, layouts[number].as_ref(), expected)?;
            (wrong, traversals) = (wrong + u64::from(!is_right), traversals + 1);
            Ok(nanos)
        };
        (0..sides.len()).try_for_each(|number| measure(number).map(drop))?;
        let times = alternate(&run.within(if is_cold { 0.4 } else { 1.0 }), sides.len(), run.rounds(&tree), measure)?;
        layouts.into_iter().try_for_each(|layout| layout.close())?;
        told(run, "warm", &tree, &times);
    }
    if is_cold {
        let times = alternate(run, sides.len(), run.rounds(&tree), |number| {
            caches::drop_all()?;
            let layout = sides[number].open()?;
            let (nanos, is_right) = traverse(&tree, layout.as_ref(), expected)?;
            (wrong, traversals) = (wrong + u64::from(!is_right), traversals + 1);
            layout.close()?;
            Ok(nanos)
        })?;
        told(run, "cold", &tree, &times);
        if let (Some(ours), Some(ext4), Some(tar)) = (run.side(Name::Ours), run.side(Name::Ext4), run.side(Name::Tar)) {
            let ratio = times.ratio(|round| (round[ext4] / 5.0).max(round[tar] / 0.9) / round[ours]);
            gates.push(run.at_least("cold", "speed_of_limit", "x", ratio, 1.0));
        }
    }
    gates.push(run.none("same_bytes", "wrong_traversals", wrong, traversals, 1));
    Ok(gates)
}

/// Returns nanoseconds per file of a traversal by one reader, and whether it returned all files.
fn traverse(tree: &Tree, layout: &dyn Layout, expected: u64) -> Outcome<(f64, bool)> {
    let mut reader = layout.reader()?;
    let (mut files, mut sum) = (0, 0u64);
    let start = Instant::now();
    reader.traverse(&Part::new(tree, 0, 1), &mut |_, content| {
        files += 1;
        sum = sum.wrapping_add(touch(content));
    })?;
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(tree.len());
    Ok((nanos, files == tree.len() && sum == expected))
}

fn told(run: &Run, what: &str, tree: &Tree, times: &Rounds) {
    for (number, name) in run.layouts.iter().enumerate() {
        let nanos = times.of(number);
        println!(
            "{what}: {} {:.0} files/s, {:.1} MB/s; {} rounds",
            name.text(),
            1e9 / nanos,
            tree.bytes() as f64 / f64::from(tree.len()) * 1e3 / nanos,
            times.count()
        );
    }
}
