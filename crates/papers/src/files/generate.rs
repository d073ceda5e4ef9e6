//! Question: does the set of files have the distribution of the paper's production system?
//! Protocol: the tree of the seed is generated twice; sizes and directories are counted.
//! Passes:   90 % of the files below 50 KB; the mean at most 3 % from 23 KB; the same files, contents and directories
//!           both times.

use super::Run;
use super::tree::{MEAN_BYTES, MOST_BELOW_BYTES};
use waxseal_bench::Outcome;
use waxseal_bench::experiment::exactly;
use waxseal_bench::gate::Gate;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let tree = run.tree();
    let files = u64::from(tree.len());
    let mut sizes = tree.sizes().to_vec();
    sizes.sort_unstable();
    let quantile = |percent: usize| sizes[(sizes.len() - 1) * percent / 100];
    println!("{files} files, {:.1} MB, {} directories", tree.bytes() as f64 / 1e6, tree.directories().len());
    println!(
        "sizes in bytes: least {}, 10 % {}, 50 % {}, 90 % {}, 99 % {}, most {}; mean {}",
        quantile(0),
        quantile(10),
        quantile(50),
        quantile(90),
        quantile(99),
        quantile(100),
        tree.bytes() / files
    );
    let mut lengths: Vec<usize> = tree.directories().iter().map(|directory| directory.files.len()).collect();
    lengths.sort_unstable();
    let length = |percent: usize| lengths[(lengths.len() - 1) * percent / 100];
    println!(
        "files in a directory: least {}, 50 % {}, 90 % {}, most {}",
        length(0),
        length(50),
        length(90),
        length(100)
    );

    let below = sizes.partition_point(|size| u64::from(*size) < MOST_BELOW_BYTES) as u64;
    let mean = tree.bytes() as f64 / files as f64;
    let off = (mean / MEAN_BYTES as f64 - 1.0).abs() * 100.0;
    let again = run.tree();
    let mut different = u64::from(again.directories() != tree.directories());
    different += (0..tree.len()).filter(|file| again.content(*file) != tree.content(*file)).count() as u64;
    Ok(vec![
        run.counted_share("below_50kb", "files", below, files, 90.0),
        run.at_most("mean", "off_23kb", "%", Some(exactly(off, files)), 3.0),
        run.none("repeated", "different_files", different, files, 1),
    ])
}
