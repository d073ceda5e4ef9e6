//! `wasef`: one experiment for each claim about registry and log, compared with the paper's claim.
//!
//! Every experiment asks one question, describes its protocol, and ends with lines `PASS|FAIL|INCONCLUSIVE id metric
//! value unit threshold`. Its file begins with: question, protocol, what passes. `--scale` sets the size, 1 being the
//! paper's; without it an experiment ends within five minutes and 4 GB of disk, with `--quick` within one minute.
//!
//! ```text
//! throughput  latency  metasize     sides in turn, with the paper's workload        ablate  query
//!        \       |       /                                                              |
//!         load                                                                          |
//! conformance  crash  linearize  lineage                    correctness, without timing  |
//!     |    \      |       |        /                                                    /
//!  callers  \     |       |       /                                                    /
//!                     store                              a store with or without a registry
//! ```

mod ablate;
mod arenas;
mod callers;
mod column_drop;
mod conformance;
mod crash;
mod decommission;
mod latency;
mod lineage;
mod linearize;
mod load;
mod metasize;
mod query;
mod store;
mod throughput;

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::{self, Needs};
use waxseal_bench::gate::Gate;

/// Arguments of `wasef`.
#[derive(Args, Debug)]
pub(crate) struct Line {
    /// The experiment.
    experiment: Experiment,
    #[command(flatten)]
    ask: experiment::Ask,
    /// `conformance`: the tool [default: `waxseal` beside this program].
    #[arg(long)]
    tool: Option<PathBuf>,
    /// `conformance`: an interpreter with the package [default: that of the tests, or `python3`].
    #[arg(long)]
    python: Option<PathBuf>,
}

/// The experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Experiment {
    /// Operations per second by number of threads, with nothing, 1 % and everything registered.
    Throughput,
    /// Latency of reads and updates.
    Latency,
    /// Latency as the log grows.
    Metasize,
    /// Every call of the paper, and calls that must be rejected.
    Conformance,
    /// Consistency of data and log after a kill at any I/O.
    Crash,
    /// The exact commits that a registration covers.
    Linearize,
    /// The event log accounts for the origin of every table file.
    Lineage,
    /// Time of a column drop that can be undone and is logged.
    ColumnDrop,
    /// Time for recording where the ranges of a leaving node go.
    Decommission,
    /// Cost of queries.
    Query,
    /// From the paper's choices to ours, step by step.
    Ablate,
}

/// The type of an experiment's function.
type Conduct = fn(&Run) -> Outcome<Vec<Gate>>;

/// One run of an experiment, with the options of individual experiments.
struct Run {
    run: experiment::Run,
    tool: Option<PathBuf>,
    python: Option<PathBuf>,
}

impl std::ops::Deref for Run {
    type Target = experiment::Run;
    fn deref(&self) -> &experiment::Run {
        &self.run
    }
}

impl Experiment {
    fn case(self) -> (Needs, Conduct) {
        const MIB: u64 = 1 << 20;
        let case = |id, run: Conduct, scales, disk| (Needs { id, scales, disk }, run);
        match self {
            Experiment::Throughput => case("throughput", throughput::run, (0.01, 0.001), (200_000 * MIB, 256 * MIB)),
            Experiment::Latency => case("latency", latency::run, (0.01, 0.001), (160_000 * MIB, 256 * MIB)),
            Experiment::Metasize => case("metasize", metasize::run, (0.01, 0.001), (100_000 * MIB, 256 * MIB)),
            Experiment::Conformance => case("conformance", conformance::run, (0.2, 0.02), (1_500 * MIB, 64 * MIB)),
            Experiment::Crash => case("crash", crash::run, (0.1, 0.01), (0, MIB)),
            Experiment::Linearize => case("linearize", linearize::run, (0.2, 0.02), (1_000 * MIB, 64 * MIB)),
            Experiment::Lineage => case("lineage", lineage::run, (0.2, 0.02), (0, MIB)),
            Experiment::ColumnDrop => case("column-drop", column_drop::run, (1.0, 0.1), (256 * MIB, 64 * MIB)),
            Experiment::Decommission => {
                case("decommission", decommission::run, (0.01, 0.001), (12_000 * MIB, 512 * MIB))
            }
            Experiment::Query => case("query", query::run, (0.1, 0.01), (8_000 * MIB, 64 * MIB)),
            Experiment::Ablate => case("ablate", ablate::run, (0.1, 0.01), (8_000 * MIB, 128 * MIB)),
        }
    }
}

/// Runs the experiment.
pub(crate) fn wasef(line: &Line) -> Outcome<u8> {
    arenas::make_room(line.experiment)?;
    let (needs, conduct) = line.experiment.case();
    experiment::conduct(&line.ask, &needs, |run| {
        println!("{PAPER}");
        conduct(&Run { run, tool: line.tool.clone(), python: line.python.clone() })
    })
}

/// The machine of the paper's measurements.
const PAPER: &str = "the paper: 6 EC2 m1.large (2 cores, 7.5 GB each), Cassandra 1.2, three replicas; YCSB with 8 B keys, 1 KB values, \
                     zipfian, half reads and half updates, 12 GB, from a machine of its own";
