//! `files`: the experiments of the two papers that keep files in Cassandra, with the file store beside their layouts and
//! what readers use today.
//!
//! Every experiment asks one question, describes its protocol, and ends with lines `PASS|FAIL|INCONCLUSIVE id metric
//! value unit threshold`. Its file begins with: question, protocol, what passes. `--scale` sets the size, 1 being the
//! paper's (13 million files, 300 GB); the gates are set for 200,000 files, which is `--scale 0.0154`. The experiments of
//! the CassandraFS paper are in `cassandrafs`.
//!
//! ```text
//! large  many  paced                                          one experiment each
//! generate  populate  requests  traverse  clients  memory
//!     \        |        |       /            |        |
//!      \     sides, caches     /             |     cgroup      a memory limit
//!       \        |            /             /                  layouts filled with a tree; checks; dropped caches
//!       \        |            /
//!        ours  ext4  archive  keyed  sqlite     one layout each
//!         \      |      |       |     /
//!                  layout                   what a layout can do
//!                    |
//!                  tree                     paths, sizes and contents from a seed
//! ```

mod archive;
mod caches;
mod cassandrafs;
mod cgroup;
mod clients;
mod ext4;
mod generate;
mod keyed;
mod large;
mod layout;
mod many;
mod memory;
mod ours;
mod paced;
mod populate;
mod requests;
mod sides;
#[cfg(feature = "peers")]
mod sqlite;
mod traverse;
mod tree;

use cassandrafs::{chunks, figures, paper_layout, sizes};
use clap::{Args, ValueEnum};
use waxseal_bench::Outcome;
use waxseal_bench::experiment::{self, Needs};
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::Rounds;

/// Arguments of `files`.
#[derive(Args, Debug)]
pub(crate) struct Line {
    /// The experiment.
    experiment: Experiment,
    #[command(flatten)]
    ask: experiment::Ask,
    /// The layouts under comparison [default: all of this build].
    #[arg(long, value_delimiter = ',')]
    layouts: Vec<layout::Name>,
    /// `random`, `directories`, `traverse`, `many`: the state of the caches [default: both, which needs root].
    #[arg(long)]
    caches: Option<caches::Caches>,
    /// `memory`: set for the processes that it starts.
    #[arg(long, hide = true)]
    member: Option<memory::Member>,
}

/// The experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Experiment {
    /// The set of files has the paper's distribution.
    Generate,
    /// Time and space of writing all files.
    Populate,
    /// Reads of single files in random order.
    Random,
    /// Reads of whole directories in random order.
    Directories,
    /// Reads of all files, by one reader and in parallel ranges.
    Traverse,
    /// Reads by 1 to 64 clients, alone and beside a traversal.
    Clients,
    /// Reads beside a traversal at a given pace.
    Paced,
    /// Reads with less and more memory than files.
    Memory,
    /// A large file through the library and a mount, and small reads of it.
    Large,
    /// Opening, lists and walks of ten million small files.
    Many,
    /// The steps of the CassandraFS paper by 1 to 6 clients, through the library and HTTP.
    Cassandrafs,
    /// The literal layout of the CassandraFS paper beside ours.
    Literal,
    /// Chunk sizes of large files.
    Chunks,
    /// Sizes around the boundaries of chunks, byte by byte.
    Sizes,
}

/// The type of an experiment's function.
type Conduct = fn(&Run) -> Outcome<Vec<Gate>>;

/// One run of an experiment, with the options of individual experiments.
struct Run {
    run: experiment::Run,
    layouts: Vec<layout::Name>,
    caches: Option<caches::Caches>,
    member: Option<memory::Member>,
}

impl std::ops::Deref for Run {
    type Target = experiment::Run;
    fn deref(&self) -> &experiment::Run {
        &self.run
    }
}

impl Run {
    /// Returns the files of this run.
    fn tree(&self) -> tree::Tree {
        tree::Tree::new(self.seed, self.size(tree::FILES, 200), self.size(tree::DIRECTORIES, 8))
    }

    /// Returns the number of rounds of a comparison. The times of a tiny tree mean nothing, so it gets one.
    fn rounds(&self, tree: &tree::Tree) -> usize {
        if tree.len() < 500 { 1 } else { 5 }
    }

    /// Prints files and bytes per second of every layout, from nanoseconds per file.
    fn print_rates(&self, what: &str, tree: &tree::Tree, times: &Rounds) {
        let megabytes = tree.bytes() as f64 / 1e6 / f64::from(tree.len());
        for (number, name) in self.layouts.iter().enumerate() {
            let files = 1e9 / times.of(number);
            let rounds = times.count();
            println!("{what}: {} {files:.0} files/s, {:.1} MB/s; {rounds} rounds", name.text(), files * megabytes);
        }
    }

    /// Returns the number of a layout among those under comparison.
    fn side(&self, name: layout::Name) -> Option<usize> {
        self.layouts.iter().position(|layout| *layout == name)
    }
}

impl Experiment {
    fn case(self) -> (Needs, Conduct) {
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        /// Every layout is kept.
        const ALL: (u64, u64) = (2_400 * GIB, 256 * MIB);
        let case = |id, run: Conduct, scales, disk| (Needs { id, scales, disk }, run);
        match self {
            Experiment::Generate => case("generate", generate::run, (0.1, 0.001), (0, MIB)),
            Experiment::Populate => case("populate", populate::run, (0.0004, 0.00005), (600 * GIB, 256 * MIB)),
            Experiment::Random => case("random", requests::by_file, (0.0004, 0.00005), ALL),
            Experiment::Directories => case("directories", requests::by_directory, (0.0004, 0.00005), ALL),
            Experiment::Traverse => case("traverse", traverse::run, (0.0004, 0.00005), ALL),
            Experiment::Clients => case("clients", clients::run, (0.0004, 0.00005), ALL),
            Experiment::Paced => case("paced", paced::run, (0.0004, 0.00005), (600 * GIB, 256 * MIB)),
            Experiment::Large => case("large", large::run, (0.25, 0.02), (4 * GIB, 256 * MIB)),
            Experiment::Many => case("many", many::run, (0.02, 0.002), (8 * GIB, 256 * MIB)),
            Experiment::Memory => case("memory", memory::run, (0.0004, 0.00005), ALL),
            Experiment::Cassandrafs => case("cassandrafs", figures::run, (0.25, 0.02), (3 * GIB, 256 * MIB)),
            Experiment::Literal => case("literal", paper_layout::run, (0.25, 0.02), (4 * GIB, 512 * MIB)),
            Experiment::Chunks => case("chunks", chunks::run, (0.5, 0.05), (6 * GIB, 512 * MIB)),
            Experiment::Sizes => case("sizes", sizes::run, (1.0, 0.05), (6 * GIB, 256 * MIB)),
        }
    }

    /// Returns the machines of the paper whose claim this is about.
    fn paper(self) -> &'static str {
        match self {
            Experiment::Cassandrafs | Experiment::Literal | Experiment::Chunks | Experiment::Sizes => CASSANDRAFS,
            _ => FILE_SETS,
        }
    }
}

/// Runs the experiment.
pub(crate) fn files(line: &Line) -> Outcome<u8> {
    let (needs, conduct) = line.experiment.case();
    let layouts = match line.layouts.as_slice() {
        [] => layout::Name::built(),
        chosen => chosen.to_vec(),
    };
    experiment::conduct(&line.ask, &needs, |run| {
        println!("{}", line.experiment.paper());
        conduct(&Run { run, layouts, caches: line.caches, member: line.member.clone() })
    })
}

/// The machines of the papers' measurements.
const FILE_SETS: &str = "the paper: 13 million images, 300 GB; 12 machines (2 cores, 4 GB each) with Cassandra, three \
                         replicas; ReiserFS on a RAID-0 volume of a storage array";
const CASSANDRAFS: &str =
    "the paper: 8 PCs (2 to 4 cores, 2 to 6 GB), four with Cassandra 0.7; Ethernet of 100 Mbit and 1 Gbit";
