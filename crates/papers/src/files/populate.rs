//! Question: how long does it take to write all files, and how much space do they take?
//! Protocol: every layout is created and filled in turn, forwards and backwards, in an empty directory, with all dirty
//!           pages of the machine written before. Each file durable: 16 writers, each of which waits for its file
//!           (`fsync`, a synced commit). Durable at the end: one writer, and one sync behind the last file. Background
//!           work that follows is waited for and not counted. The first store of each layout is opened again and every
//!           file compared: by name, by directory, and in traversals.
//! Passes:   no wrong file; ours at least 3 times as fast as the file system when each file is durable, and level when
//!           durable at the end; ours at most 3 % larger than the contents.

use super::Run;
use super::layout::Name;
use super::sides::{Side, fill, wrong_by_name, wrong_by_range};
use super::tree::Tree;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::exactly;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::alternate;

/// Writers that wait for each file, and the one that waits for all.
const WAITING_WRITERS: u64 = 16;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let tree = run.tree();
    println!("{} files, {:.1} MB", tree.len(), tree.bytes() as f64 / 1e6);
    let mut wrong = 0;
    let mut space = vec![None; run.layouts.len()];
    let mut gates = Vec::new();
    let modes = [("durable_each", true, WAITING_WRITERS, 3.0, 0.6), ("durable_at_end", false, 1, 1.0, 1.0)];
    for (mode, durable, writers, threshold, share) in modes {
        let mut is_checked = vec![false; run.layouts.len()];
        let times = alternate(&run.within(share), run.layouts.len(), run.rounds(&tree), |number| {
            let side = Side::new(run, &tree, run.layouts[number], durable)?;
            let nanos = measure(&tree, &side, writers)?;
            if !std::mem::replace(&mut is_checked[number], true) {
                let layout = side.open()?;
                wrong += wrong_by_name(&tree, layout.as_ref())?;
                if writers == 1 {
                    wrong += wrong_by_range(&tree, layout.as_ref())?;
                }
                layout.close()?;
                space[number] = Some(side.disk_bytes());
            }
            side.remove()?;
            Ok(nanos)
        })?;
        run.print_rates(mode, &tree, &times);
        if let (Some(ours), Some(base)) = (run.side(Name::Ours), run.side(Name::Ext4)) {
            gates.push(run.at_least(mode, "speed_of_ext4", "x", times.speedup(ours, base), threshold));
        }
    }
    for (name, bytes) in run.layouts.iter().zip(&space) {
        if let Some(bytes) = bytes {
            println!("space: {} {:+.2} % of the contents", name.text(), more_space(&tree, *bytes));
        }
    }
    if let Some(bytes) = run.side(Name::Ours).and_then(|ours| space[ours]) {
        let more = exactly(more_space(&tree, bytes), u64::from(tree.len()));
        gates.push(run.at_most("space", "more_than_content", "%", Some(more), 3.0));
    }
    let checked = u64::from(tree.len()) * space.iter().flatten().count() as u64;
    gates.push(run.none("same_bytes", "wrong_files", wrong, checked, 1));
    Ok(gates)
}

/// Returns nanoseconds per file until all files are durable. The layout is settled and closed afterwards.
fn measure(tree: &Tree, side: &Side, writers: u64) -> Outcome<f64> {
    rustix::fs::sync();
    let layout = side.open()?;
    let start = Instant::now();
    fill(tree, layout.as_ref(), writers)?;
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(tree.len());
    layout.settle()?;
    layout.close()?;
    Ok(nanos)
}

fn more_space(tree: &Tree, bytes: u64) -> f64 {
    (bytes as f64 / tree.bytes() as f64 - 1.0) * 100.0
}
