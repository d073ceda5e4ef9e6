//! Question: how fast are reads in random order, of single files (the paper's Figure 5, with one client) and of whole
//!           directories, which the paper's second layout is made for?
//! Protocol: every layout holds the same files. A list of distinct files, or of all directories in random order, is made
//!           before the measurement, and every layout reads it in turn, forwards and backwards; a sum over the contents
//!           is compared. Warm: the list was read once before, and the stores stay open. Cold: before each measurement
//!           the layout is closed, the kernel's caches are dropped, and the layout is opened again; the time of opening
//!           is not counted.
//! Passes:   no wrong read; single files from ours at least level with the warm file system, and at least twice as fast
//!           as from the cold one. Directories are only printed.

use super::Run;
use super::caches::{self, Caches};
use super::layout::{Layout, Name, Reader};
use super::sides::Side;
use super::tree::Tree;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{Rounds, alternate};
use waxseal_bench::workload::{Random, touch};

/// Most files that a list names.
const FILES: u32 = 20_000;

/// A read, and the sum of the contents that it must return.
enum Request {
    File { path: String, sum: u64 },
    Directory { path: String, paths: Vec<String>, sum: u64 },
}

impl Request {
    /// Returns true if the layout returns the right contents.
    fn is_answered(&self, reader: &mut dyn Reader) -> Outcome<bool> {
        match self {
            Request::File { path, sum } => Ok(touch(&reader.read(path)?) == *sum),
            Request::Directory { path, paths, sum } => {
                let (mut files, mut found) = (0, 0u64);
                reader.read_directory(path, paths, &mut |_, content| {
                    files += 1;
                    found = found.wrapping_add(touch(content));
                })?;
                Ok(files == paths.len() && found == *sum)
            }
        }
    }

    fn files(&self) -> usize {
        match self {
            Request::File { .. } => 1,
            Request::Directory { paths, .. } => paths.len(),
        }
    }
}

/// Reads single files.
pub(super) fn by_file(run: &Run) -> Outcome<Vec<Gate>> {
    compare(run, files, |what, times| {
        let (ours, base) = (run.side(Name::Ours)?, run.side(Name::Ext4)?);
        let threshold = if what == "warm" { 1.0 } else { 2.0 };
        Some(run.at_least(what, "speed_of_ext4", "x", times.speedup(ours, base), threshold))
    })
}

/// Reads whole directories.
pub(super) fn by_directory(run: &Run) -> Outcome<Vec<Gate>> {
    compare(run, directories, |_, _| None)
}

/// Compares the layouts of a run, warm and cold.
fn compare(
    run: &Run,
    list: impl Fn(&Tree, &mut Random) -> Vec<Request>,
    judge: impl Fn(&str, &Rounds) -> Option<Gate>,
) -> Outcome<Vec<Gate>> {
    let is_cold = run.caches != Some(Caches::Warm);
    if is_cold {
        caches::drop_all()?; // fails before the layouts are filled
    }
    let tree = run.tree();
    let sides = Side::all(run, &tree)?;
    let requests = list(&tree, &mut Random::stream(run.seed, 2));
    println!("{} files, {:.1} MB, {} reads", tree.len(), tree.bytes() as f64 / 1e6, requests.len());
    let (mut wrong, mut reads) = (0, 0);
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
        print(run, "warm", &times);
        gates.extend(judge("warm", &times));
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
        print(run, "cold", &times);
        gates.extend(judge("cold", &times));
    }
    gates.push(run.none("same_bytes", "wrong_reads", wrong, reads, 1));
    Ok(gates)
}

/// Draws distinct files.
fn files(tree: &Tree, random: &mut Random) -> Vec<Request> {
    let drawn = drawn(tree.len(), FILES, random).into_iter();
    drawn.map(|file| Request::File { path: tree.path(file), sum: touch(tree.content(file)) }).collect()
}

/// Draws distinct directories until they hold enough files.
fn directories(tree: &Tree, random: &mut Random) -> Vec<Request> {
    let count = tree.directories().len() as u32;
    let mut files = 0;
    let mut list = Vec::new();
    for number in drawn(count, count, random) {
        let directory = &tree.directories()[number as usize];
        let sum = directory.files.clone().fold(0u64, |sum, file| sum.wrapping_add(touch(tree.content(file))));
        list.push(Request::Directory { path: directory.path.clone(), paths: tree.paths(directory), sum });
        files += directory.files.len();
        if files >= FILES as usize {
            break;
        }
    }
    list
}

/// Draws up to `most` distinct numbers below `bound`.
fn drawn(bound: u32, most: u32, random: &mut Random) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..bound).collect();
    let count = bound.min(most) as usize;
    for place in 0..count {
        let other = place + random.below((numbers.len() - place) as u64) as usize;
        numbers.swap(place, other);
    }
    numbers.truncate(count);
    numbers
}

/// Returns nanoseconds per file, and the number of wrong reads.
fn read(layout: &dyn Layout, requests: &[Request]) -> Outcome<(f64, u64)> {
    let files: usize = requests.iter().map(Request::files).sum();
    let mut reader = layout.reader()?;
    let mut wrong = 0;
    let start = Instant::now();
    for request in requests {
        wrong += u64::from(!request.is_answered(reader.as_mut())?);
    }
    Ok((start.elapsed().as_nanos() as f64 / files as f64, wrong))
}

/// Prints the times of all sides.
fn print(run: &Run, what: &str, times: &Rounds) {
    for (number, name) in run.layouts.iter().enumerate() {
        let micros = times.of(number) / 1e3;
        println!("{what}: {} {micros:.2} us a file, {:.0}/s; {} rounds", name.text(), 1e6 / micros, times.count());
    }
}
