//! Question: can any fault, anywhere, cause a wrong answer or a loss without a report?
//! Protocol: single faults in small stores on a simulated disk, cell by cell: a site (batch, log, ring, memtable,
//!           buffers, every part of a table at rest, cached blocks, index and filter in memory, seals, manifest), a
//!           target (key, value, kind, seqno, seal, lengths, payload, stamp, any byte; records dropped or duplicated;
//!           zeros, misdirected reads, stale bytes), and one, two, three bits or a burst. After each fault every key is
//!           read and everything scanned in both directions, again after a compaction, and again after a reopen; a
//!           model has the right answers. The same runs without a fault.
//! Passes:   no wrong answer and no unreported loss, except for faults in memory links, whose misses are counted; no
//!           panic; no possible cell remains empty; no false alarm without a fault. At scale 1 a thousand faults in
//!           every cell, over any number of runs: `--state FILE` keeps the counts.

use super::Run;
use std::collections::BTreeMap;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_lab::faults::{self, Cell, Outcome as Came, Site, Target, clean, inject};

/// Faults per cell at scale 1, and runs without a fault.
const FULL: u64 = 1_000;

/// A cell is skipped after this many seeds without anything to damage.
const MISSES: u64 = 20;

/// Counts by cell and outcome, as stored between runs: names to numbers.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let wanted = run.size(FULL, 1);
    let mut counts = match &run.state {
        Some(path) if path.exists() => serde_json::from_slice(&std::fs::read(path)?)?,
        _ => Counts::new(),
    };
    let _quiet = Quiet::new();
    let mut alarms = 0;
    let cleans = (wanted / 4).clamp(4, 200);
    for seed in 0..cleans {
        let told = clean(run.seed.wrapping_add(seed))?;
        if told.outcome != Came::Correct {
            alarms += 1;
            println!("a false alarm: {told:?}");
        }
    }
    let asked = |cell: &Cell| run.cells.as_ref().is_none_or(|part| name(*cell).contains(part.as_str()));
    let cells: Vec<Cell> = Cell::all().filter(|cell| cell.impossible().is_none() && asked(cell)).collect();
    let mut missed: BTreeMap<Cell, u64> = BTreeMap::new();
    let mut refusals = 0u64;
    // Round by round, so that a run that ends early has tested every cell.
    while !run.is_over() {
        let mut due = false;
        for cell in &cells {
            let done = total(&counts, *cell);
            let misses = missed.get(cell).copied().unwrap_or(0);
            if done >= wanted || (run.is_over() && done > 0) || misses > MISSES {
                continue;
            }
            due = true;
            let seed = run.seed.wrapping_mul(1 << 20).wrapping_add(done + misses);
            let told = match inject(*cell, seed) {
                Ok(Some(told)) => told,
                Ok(None) => continue,
                // The next seed may find something to damage. If none does, the cell stays empty, and its gate reports
                // that.
                Err(error) => {
                    if misses == MISSES {
                        println!("{error}");
                    }
                    missed.insert(*cell, misses + 1);
                    continue;
                }
            };
            refusals += u64::from(told.refused);
            if told.outcome.is_forbidden() && !cell.is_exempt() {
                println!("{cell:?}, seed {seed}: {:?}: {}", told.outcome, told.detail);
            }
            *counts.entry(name(*cell)).or_default().entry(format!("{:?}", told.outcome)).or_default() += 1;
        }
        if !due {
            break;
        }
    }
    if let Some(path) = &run.state {
        std::fs::write(path, serde_json::to_vec_pretty(&counts)?)?;
    }
    print(&counts);
    println!("stores that were refused until somebody dealt with them: {refusals}");
    Ok(gates(run, &cells, &counts, (alarms, cleans), wanted))
}

fn name(cell: Cell) -> String {
    format!("{:?}/{:?}/{:?}", cell.site, cell.target, cell.bits)
}

fn count(counts: &Counts, cell: Cell, came: Came) -> u64 {
    counts.get(&name(cell)).and_then(|cell| cell.get(&format!("{came:?}"))).copied().unwrap_or(0)
}

fn total(counts: &Counts, cell: Cell) -> u64 {
    counts.get(&name(cell)).map_or(0, |cell| cell.values().sum())
}

fn gates(run: &Run, cells: &[Cell], counts: &Counts, (alarms, cleans): (u64, u64), wanted: u64) -> Vec<Gate> {
    let sum = |exempt: bool, came: Came| {
        let those = cells.iter().filter(|cell| cell.is_exempt() == exempt);
        those.map(|cell| count(counts, *cell, came)).sum::<u64>()
    };
    let all: u64 = cells.iter().map(|cell| total(counts, *cell)).sum();
    let least = cells.iter().map(|cell| total(counts, *cell)).min().unwrap_or(0);
    let empty = cells.iter().filter(|cell| total(counts, **cell) == 0).count() as u64;
    println!(
        "links in memory, outside of what is promised: {} wrong, {} missing",
        sum(true, Came::SilentWrong),
        sum(true, Came::HiddenLoss)
    );
    println!("{all} faults, {} possible cells, {least} in the one with the fewest, {wanted} wanted", cells.len());
    // Too few faults in a cell decide nothing; one wrong answer does.
    let (trials, enough) = (least, wanted);
    vec![
        run.none("silent_wrong", "wrong_answers_nobody_was_told_of", sum(false, Came::SilentWrong), trials, enough),
        run.none("hidden_loss", "losses_nobody_was_told_of", sum(false, Came::HiddenLoss), trials, enough),
        run.none("panic", "panics", sum(false, Came::Panic) + sum(true, Came::Panic), trials, enough),
        run.none("empty", "possible_cells_without_a_fault", empty, cells.len() as u64, 1),
        run.none("false_alarms", "runs_without_a_fault_that_say_otherwise", alarms, cleans, cleans),
    ]
}

/// Prints the matrix: site by target, all bit counts together, with outcomes and the reasons for impossible cells.
fn print(counts: &Counts) {
    println!("site x target: correct / repaired / error / hidden loss / silent wrong / panic");
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for site in Site::ALL {
        for target in Target::ALL {
            let cells: Vec<Cell> = target.bits().iter().map(|bits| Cell { site, target, bits: *bits }).collect();
            if let Some(reason) = cells.first().and_then(|cell| cell.impossible()) {
                reasons.entry(reason).or_default().push(format!("{site:?} x {target:?}"));
                continue;
            }
            let numbers: Vec<String> = faults::Outcome::ALL
                .iter()
                .map(|came| cells.iter().map(|cell| count(counts, *cell, *came)).sum::<u64>().to_string())
                .collect();
            println!("    {:<16} {:<12} {}", format!("{site:?}"), format!("{target:?}"), numbers.join(" / "));
        }
    }
    println!("impossible:");
    for (reason, cells) in reasons {
        println!("    {reason}: {}", cells.join(", "));
    }
}

/// While this exists, panics are counted and not printed.
struct Quiet;

impl Quiet {
    fn new() -> Quiet {
        std::panic::set_hook(Box::new(|_| {}));
        Quiet
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = std::panic::take_hook();
    }
}
