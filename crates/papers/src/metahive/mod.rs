//! `metahive`: one experiment for each claim about seals, compared with the paper's claim.
//!
//! Every experiment asks one question, describes its protocol, and ends with lines `PASS|FAIL|INCONCLUSIVE id metric
//! value unit threshold`. Its file begins with: question, protocol, what passes. `--scale` sets the size, 1 being the
//! paper's; without it an experiment ends within five minutes and 4 GB of disk, with `--quick` within one minute.
//!
//! ```text
//! table1  space  adjacency  weak_xor  verdicts  launder  conserve  layout  ...     one file each
//! ```

mod ablate;
mod adjacency;
mod claim;
mod conserve;
mod faults;
mod hetero;
mod launder;
mod layout;
mod providers;
mod published;
mod repair;
mod space;
mod table1;
mod verdicts;
mod weak_xor;

use crate::{content, node};
use clap::{Args, ValueEnum};
use std::ops::Deref;
use std::path::PathBuf;
use waxseal_bench::experiment::{self, exactly};
use waxseal_bench::gate::Gate;
use waxseal_bench::{Outcome, rounds};
use waxseal_lsm::options::Compression;

/// The codecs of this build.
fn codecs() -> Vec<(&'static str, Compression)> {
    let mut codecs = vec![("none", Compression::None), ("lz4", Compression::Lz4)];
    match cfg!(feature = "zstd") {
        true => codecs.push(("zstd", Compression::Zstd(3))),
        false => println!("zstd: not in this build"),
    }
    codecs
}

/// Arguments of `metahive`.
#[derive(Args, Debug)]
pub(crate) struct Line {
    /// The experiment.
    experiment: Experiment,
    #[command(flatten)]
    ask: experiment::Ask,
    /// `faults`: keeps the counts of all runs in this file.
    #[arg(long)]
    state: Option<PathBuf>,
    /// `faults`: only cells whose name contains this, as in `TableData/Dropped`.
    #[arg(long)]
    cells: Option<String>,
    /// `table1`: one of the two regimes [default: both].
    #[arg(long)]
    regime: Option<Regime>,
    /// `hetero`: the program that `cargo xtask plain-node` builds.
    #[arg(long)]
    plain_node: Option<PathBuf>,
}

/// The experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Experiment {
    /// Cost of puts and gets with seals, in cache and in the paper's regime.
    Table1,
    /// Bytes per record on disk, and memory during a compaction of many versions.
    Space,
    /// Every seal is directly behind its record, for any key.
    Adjacency,
    /// The paper's checksum compared with ours, on records whose parts cancel.
    WeakXor,
    /// Forces every verdict.
    Verdicts,
    /// Seals behind their records compared with seals in a column.
    Layout,
    /// Damage during a compaction never gets a valid seal.
    Launder,
    /// Dropped or duplicated records are rejected.
    Conserve,
    /// Several providers with one seal.
    Providers,
    /// Sealed and plain nodes together.
    Hetero,
    /// Repair of flipped bits on disk.
    Repair,
    /// Every kind of fault at every site.
    Faults,
    /// From the literal paper to Waxseal, step by step.
    Ablate,
}

/// The two regimes of the paper's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Regime {
    /// Everything in cache: differences of nanoseconds.
    Cached,
    /// As slow as the paper's stores: synced puts, and gets that bypass every cache.
    Paper,
}

/// The type of an experiment's function.
struct Case {
    needs: experiment::Needs,
    run: fn(&Run) -> Outcome<Vec<Gate>>,
}

impl Experiment {
    fn case(self) -> Case {
        const MIB: u64 = 1 << 20;
        let case = |id, run, scales, disk| Case { needs: experiment::Needs { id, scales, disk }, run };
        match self {
            Experiment::Table1 => case("table1", table1::run, (0.2, 0.05), (4_000 * MIB, 128 * MIB)),
            Experiment::Space => case("space", space::run, (0.25, 0.02), (3_000 * MIB, 64 * MIB)),
            Experiment::Adjacency => case("adjacency", adjacency::run, (0.5, 0.05), (0, MIB)),
            Experiment::WeakXor => case("weak-xor", weak_xor::run, (1.0, 1.0), (0, MIB)),
            Experiment::Verdicts => case("verdicts", verdicts::run, (1.0, 1.0), (0, MIB)),
            Experiment::Layout => case("layout", layout::run, (0.25, 0.02), (4_000 * MIB, 128 * MIB)),
            Experiment::Launder => case("launder", launder::run, (1.0, 0.2), (0, MIB)),
            Experiment::Conserve => case("conserve", conserve::run, (0.25, 0.05), (2_000 * MIB, 64 * MIB)),
            Experiment::Providers => case("providers", providers::run, (0.5, 0.05), (0, 256 * MIB)),
            Experiment::Repair => case("repair", repair::run, (0.25, 0.02), (0, 16 * MIB)),
            Experiment::Faults => case("faults", faults::run, (0.05, 0.005), (0, 16 * MIB)),
            Experiment::Ablate => case("ablate", ablate::run, (0.2, 0.01), (3_000 * MIB, 128 * MIB)),
            Experiment::Hetero => case("hetero", hetero::run, (0.5, 0.1), (0, 16 * MIB)),
        }
    }
}

/// One run of an experiment, with the options of individual experiments.
struct Run {
    run: experiment::Run,
    regime: Option<Regime>,
    plain_node: Option<PathBuf>,
    state: Option<PathBuf>,
    cells: Option<String>,
}

impl Run {
    /// Returns this run with a share of the remaining time.
    fn within(&self, share: f64) -> Run {
        let (regime, plain_node) = (self.regime, self.plain_node.clone());
        let (state, cells) = (self.state.clone(), self.cells.clone());
        Run { run: self.run.within(share), regime, plain_node, state, cells }
    }
}

impl Deref for Run {
    type Target = experiment::Run;
    fn deref(&self) -> &experiment::Run {
        &self.run
    }
}

/// Runs the experiment.
pub(crate) fn metahive(line: &Line) -> Outcome<u8> {
    let case = line.experiment.case();
    experiment::conduct(&line.ask, &case.needs, |run| {
        let (regime, plain_node) = (line.regime, line.plain_node.clone());
        let (state, cells) = (line.state.clone(), line.cells.clone());
        (case.run)(&Run { run, regime, plain_node, state, cells })
    })
}
