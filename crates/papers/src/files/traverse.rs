//! Question: how fast is a traversal that reads all files, as a backup does, by one reader and by several at once? (The
//!           paper's Figure 6.)
//! Protocol: every layout holds the same files and is traversed in turn, forwards and backwards, in the order in which
//!           the layout has them: by one reader, and by 2, 4 and 8 readers, each of which reads one range. Number of
//!           files and a sum over all contents are compared. Warm and cold as in `requests`.
//! Passes:   no wrong traversal; cold, one reader of ours is at least as fast as the smaller of 5 times the file system
//!           and 0.9 of the archive.

use super::Run;
use super::caches::{self, Caches};
use super::layout::{Layout, Name, Part};
use super::sides::{Side, in_parallel};
use super::tree::Tree;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::alternate;
use waxseal_bench::workload::touch;

/// Numbers of readers.
const READERS: [u64; 4] = [1, 2, 4, 8];

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let is_cold = run.caches != Some(Caches::Warm);
    if is_cold {
        caches::drop_all()?; // fails before the layouts are filled
    }
    let tree = run.tree();
    let sides = Side::all(run, &tree)?;
    println!("{} files, {:.1} MB", tree.len(), tree.bytes() as f64 / 1e6);
    let whole = Whole::of(&tree);
    let (mut wrong, mut traversals) = (0, 0);
    let mut gates = Vec::new();
    let mut count = |is_right: bool| {
        wrong += u64::from(!is_right);
        traversals += 1;
    };
    if run.caches != Some(Caches::Cold) {
        let layouts: Vec<_> = sides.iter().map(Side::open).collect::<Outcome<_>>()?;
        let part = run.within(if is_cold { 0.4 } else { 1.0 });
        for (place, readers) in READERS.into_iter().enumerate() {
            let mut measure = |number: usize| {
                let (nanos, is_right) = traverse(&tree, layouts[number].as_ref(), &whole, readers)?;
                count(is_right);
                Ok(nanos)
            };
            if place == 0 {
                (0..sides.len()).try_for_each(|number| measure(number).map(drop))?;
            }
            let part = part.within(1.0 / (READERS.len() - place) as f64);
            let times = alternate(&part, sides.len(), run.rounds(&tree), measure)?;
            run.print_rates(&format!("warm, readers {readers}"), &tree, &times);
        }
        layouts.into_iter().try_for_each(|layout| layout.close())?;
    }
    if is_cold {
        for (place, readers) in READERS.into_iter().enumerate() {
            // The judged traversal gets half of the time.
            let share = if place == 0 { 0.5 } else { 1.0 / (READERS.len() - place) as f64 };
            let times = alternate(&run.within(share), sides.len(), run.rounds(&tree), |number| {
                caches::drop_all()?;
                let layout = sides[number].open()?;
                let (nanos, is_right) = traverse(&tree, layout.as_ref(), &whole, readers)?;
                count(is_right);
                layout.close()?;
                Ok(nanos)
            })?;
            run.print_rates(&format!("cold, readers {readers}"), &tree, &times);
            let sides = (run.side(Name::Ours), run.side(Name::Ext4), run.side(Name::Tar));
            if let (1, (Some(ours), Some(ext4), Some(tar))) = (readers, sides) {
                let ratio = times.ratio(|round| (round[ext4] / 5.0).max(round[tar] / 0.9) / round[ours]);
                gates.push(run.at_least("cold", "speed_of_limit", "x", ratio, 1.0));
            }
        }
    }
    gates.push(run.none("same_bytes", "wrong_traversals", wrong, traversals, 1));
    Ok(gates)
}

/// The number of files that a traversal has found, and a sum over their contents.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Whole {
    files: u64,
    sum: u64,
}

impl Whole {
    fn of(tree: &Tree) -> Whole {
        let mut whole = Whole::default();
        (0..tree.len()).for_each(|file| whole.add(tree.content(file)));
        whole
    }

    fn add(&mut self, content: &[u8]) {
        self.files += 1;
        self.sum = self.sum.wrapping_add(touch(content));
    }
}

/// Returns nanoseconds per file of a traversal, and whether it returned all files.
fn traverse(tree: &Tree, layout: &dyn Layout, whole: &Whole, readers: u64) -> Outcome<(f64, bool)> {
    let parts: Vec<Part<'_>> = (0..readers).map(|number| Part::new(tree, number, readers)).collect();
    let start = Instant::now();
    let found = in_parallel(readers, |number| {
        let mut found = Whole::default();
        layout.reader()?.traverse(&parts[number as usize], &mut |_, content| found.add(content))?;
        Ok(found)
    })?;
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(tree.len());
    let sum = found.iter().fold(0u64, |sum, part| sum.wrapping_add(part.sum));
    let all = Whole { files: found.iter().map(|part| part.files).sum(), sum };
    Ok((nanos, all == *whole))
}
