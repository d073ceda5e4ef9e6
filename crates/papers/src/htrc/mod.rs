//! `htrc`: the corpus store of "Evaluation of Data Storage in HathiTrust Research Center Using Cassandra" (Ruan and
//! Plale), compared with `waxseal-corpus`. Each file begins with: question, protocol, what passes.
//!
//! ```text
//! schema    generate    concurrent    queries    workload
//!                  \        |   \        |    /    |
//!                   \       |    \      plot      monitor
//!                    collection                            volumes with the paper's counts
//! ```

mod collection;
mod concurrent;
mod generate;
mod monitor;
mod plot;
mod queries;
mod schema;
mod workload;

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::{self, Needs, Run};
use waxseal_bench::gate::Gate;

/// Arguments of `htrc`.
#[derive(Args, Debug)]
pub(crate) struct Line {
    /// The experiment.
    experiment: Experiment,
    /// `schema`: 1 to 3, `workload`: 1 to 5 [default: all].
    number: Option<u32>,
    #[command(flatten)]
    ask: experiment::Ask,
    /// `concurrent`, `queries` and `workload`: writes the figures as SVG files into this directory, which must exist.
    #[arg(long)]
    plots: Option<PathBuf>,
}

/// The experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Experiment {
    /// Figures 1 to 3: the paper's schemas, and the column that holds each of their names.
    Schema,
    /// The generated collection, and the paper's counts beside those of its queries.
    Generate,
    /// Figure 4: concurrent readers and writers of each schema.
    Concurrent,
    /// Figure 5: concurrent readers and writers of a larger collection.
    Larger,
    /// Figure 6: queries by date and genre, and whole volumes.
    Queries,
    /// Figures 7 to 11: the workloads 1 to 5 beside a monitor.
    Workload,
}

/// The type of an experiment's function.
type Conduct = fn(&Run, &Line) -> Outcome<Vec<Gate>>;

impl Experiment {
    fn case(self) -> (Needs, Conduct) {
        const MIB: u64 = 1 << 20;
        let case = |id, run: Conduct, scales, disk| (Needs { id, scales, disk }, run);
        match self {
            Experiment::Schema => case("schema", schema::run, (1.0, 1.0), (0, 0)),
            Experiment::Generate => case("generate", generate::run, (0.01, 0.0001), (120_000 * MIB, 128 * MIB)),
            Experiment::Concurrent => case("concurrent", concurrent::run, (0.001, 0.0001), (360_000 * MIB, 384 * MIB)),
            Experiment::Larger => case("larger", concurrent::larger, (0.001, 0.0001), (120_000 * MIB, 256 * MIB)),
            Experiment::Queries => case("queries", queries::run, (0.001, 0.0001), (360_000 * MIB, 384 * MIB)),
            Experiment::Workload => case("workload", workload::run, (0.002, 0.0001), (240_000 * MIB, 128 * MIB)),
        }
    }

    /// Returns the greatest number that the experiment takes.
    fn numbers(self) -> u32 {
        match self {
            Experiment::Schema => 3,
            Experiment::Workload => 5,
            _ => 0,
        }
    }
}

/// Runs the experiment. Errors: a number that the experiment does not have.
pub(crate) fn htrc(line: &Line) -> Outcome<u8> {
    let numbers = line.experiment.numbers();
    if let Some(number) = line.number.filter(|number| !(1..=numbers).contains(number)) {
        return Err(match numbers {
            0 => format!("{number} is too much: this experiment takes no number").into(),
            _ => format!("{number} is none of the numbers 1 to {numbers} of this experiment").into(),
        });
    }
    let (needs, conduct) = line.experiment.case();
    experiment::conduct(&line.ask, &needs, |run| conduct(&run, line))
}
