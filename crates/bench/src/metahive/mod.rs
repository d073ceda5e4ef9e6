//! `metahive`: the claims about seals, an experiment each, beside what the paper says of the same.
//!
//! Every experiment asks one question, says how it asks, and ends with lines `PASS|FAIL|INCONCLUSIVE id metric value unit
//! threshold`. Its file begins with: question, protocol, what passes. Sizes go by `--scale`, 1 being the paper's; without it an
//! experiment ends within five minutes and 4 GB of disk, with `--quick` within one minute.
//!
//! ```text
//! table1  space  adjacency  weak_xor  verdicts  launder  conserve  layout  ...     one file each
//!       \    |      |          |        |        /
//!     rounds       node        content             sides in turn | a store without a face | records and models
//! ```

mod ablate;
mod adjacency;
mod conserve;
mod content;
mod faults;
mod hetero;
mod launder;
mod layout;
mod node;
mod providers;
mod published;
mod repair;
mod rounds;
mod space;
mod table1;
mod verdicts;
mod weak_xor;

use crate::Outcome;
use crate::gate::{Gate, conclude};
use crate::measure::require_space;
use crate::stats::{Interval, Wanted};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `metahive`.
#[derive(Args, Debug)]
pub struct Line {
    /// Which experiment.
    experiment: Experiment,
    /// Ends within one minute; timings may be inconclusive.
    #[arg(long)]
    quick: bool,
    /// Size; 1 is the paper's [default: what ends within five minutes].
    #[arg(long)]
    scale: Option<f64>,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where stores are made [default: a directory below the system's temporary one].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the lines with their bounds to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// `faults`: keeps the counts of all runs in this file.
    #[arg(long)]
    state: Option<PathBuf>,
    /// `faults`: only cells whose name holds this, as in `TableData/Dropped`.
    #[arg(long)]
    cells: Option<String>,
    /// `table1`: one of the two regimes [default: both].
    #[arg(long)]
    regime: Option<Regime>,
    /// `hetero`: the program that `cargo xtask plain-node` builds.
    #[arg(long)]
    plain_node: Option<PathBuf>,
}

/// Which experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Experiment {
    /// What puts and gets cost with seals, in cache and in the paper's regime.
    Table1,
    /// Bytes a record on disk, and memory while many versions are compacted.
    Space,
    /// Every seal stands right behind its record, whatever the key.
    Adjacency,
    /// The paper's checksum beside ours, on records whose parts cancel.
    WeakXor,
    /// Every verdict, forced.
    Verdicts,
    /// Seals following their records beside seals in a column.
    Layout,
    /// Nothing that happens on the way through a compaction is sealed in.
    Launder,
    /// What is dropped or doubled on the way is refused.
    Conserve,
    /// Several providers beside one seal.
    Providers,
    /// Sealed and plain nodes together.
    Hetero,
    /// What was flipped on disk comes back.
    Repair,
    /// Every kind of fault at every site.
    Faults,
    /// From the literal paper to Waxseal, a step at a time.
    Ablate,
}

/// The two places in which the paper's table can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Regime {
    /// Everything in memory: nanoseconds.
    Cached,
    /// As slow as the paper's stores: synced puts, gets past every cache.
    Paper,
}

/// What an experiment is.
struct Case {
    id: &'static str,
    run: fn(&Run) -> Outcome<Vec<Gate>>,
    /// Scales without arguments and with `--quick`.
    scales: (f64, f64),
    /// Bytes of disk at scale 1, and in any case.
    disk: (u64, u64),
}

impl Experiment {
    fn case(self) -> Case {
        const MIB: u64 = 1 << 20;
        let case = |id, run, scales, disk| Case { id, run, scales, disk };
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

/// One run of an experiment.
struct Run {
    id: &'static str,
    scale: f64,
    seed: u64,
    dir: PathBuf,
    until: Instant,
    regime: Option<Regime>,
    plain_node: Option<PathBuf>,
    state: Option<PathBuf>,
    cells: Option<String>,
}

impl Run {
    /// A size that is `full` at scale 1, never below `least`.
    fn size(&self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(least)
    }

    /// True once no further round should begin.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// The time that is left.
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The same run with a share of the time that is left.
    fn within(&self, share: f64) -> Run {
        let left = self.left().mul_f64(share);
        let (dir, plain_node) = (self.dir.clone(), self.plain_node.clone());
        let (state, cells) = (self.state.clone(), self.cells.clone());
        Run { until: Instant::now() + left, dir, plain_node, state, cells, ..*self }
    }

    /// A line `table1.put more ns`: at most `threshold`, by the upper bound.
    fn at_most(
        &self,
        what: &str,
        metric: &str,
        unit: &'static str,
        interval: Option<Interval>,
        threshold: f64,
    ) -> Gate {
        let id = format!("{}.{what}", self.id);
        Gate::judged(&id, metric, unit, interval, Wanted::AtMost, threshold, self.seed, self.scale)
    }

    /// The same, at least.
    fn at_least(
        &self,
        what: &str,
        metric: &str,
        unit: &'static str,
        interval: Option<Interval>,
        threshold: f64,
    ) -> Gate {
        let id = format!("{}.{what}", self.id);
        Gate::judged(&id, metric, unit, interval, Wanted::AtLeast, threshold, self.seed, self.scale)
    }

    /// A count that must be zero in so many trials.
    fn none(&self, what: &str, metric: &str, count: u64, trials: u64, enough: u64) -> Gate {
        let id = format!("{}.{what}", self.id);
        let gate = Gate::none_allowed(&id, metric, count, trials as usize, enough as usize, self.seed);
        Gate { scale: self.scale, ..gate }
    }

    /// A share of so many trials, in percent, that is counted and not estimated.
    fn counted_share(&self, what: &str, metric: &str, count: u64, trials: u64, at_least: f64) -> Gate {
        let exact = (trials > 0).then(|| exactly(count as f64 * 100.0 / trials as f64, trials));
        self.at_least(what, metric, "%", exact, at_least)
    }

    /// A directory of this run that is empty.
    fn fresh(&self, name: &str) -> Outcome<PathBuf> {
        let dir = self.dir.join(name);
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

/// A number that was counted: its bounds are itself.
fn exactly(value: f64, n: u64) -> Interval {
    Interval { mean: value, low: value, high: value, n: n as usize }
}

/// Longest times, with room for the round that has begun.
const DEFAULT: Duration = Duration::from_secs(240);
const QUICK: Duration = Duration::from_secs(40);

/// The experiment.
pub fn metahive(line: &Line) -> Outcome<u8> {
    let case = line.experiment.case();
    let scale = line.scale.unwrap_or(if line.quick { case.scales.1 } else { case.scales.0 });
    if !(scale.is_finite() && scale > 0.0) {
        return Err("a scale is a number above 0".into());
    }
    let root = line.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = root.join(format!("waxseal-{}-{}", case.id, std::process::id()));
    require_space(&root, case.disk.1 + (case.disk.0 as f64 * scale) as u64)?;
    std::fs::create_dir_all(&dir)?;
    let _removed = Removed(&dir);
    let limit = match (line.scale, line.quick) {
        (Some(_), false) => Duration::from_secs(24 * 3600),
        (_, false) => DEFAULT,
        (_, true) => QUICK,
    };
    let until = Instant::now() + limit;
    let (regime, plain_node) = (line.regime, line.plain_node.clone());
    let (state, cells) = (line.state.clone(), line.cells.clone());
    let run = Run { id: case.id, scale, seed: line.seed, dir: dir.clone(), until, regime, plain_node, state, cells };
    println!("{}: scale {scale}, seed {}; {}", case.id, line.seed, machine());
    conclude(&(case.run)(&run)?, line.json.as_deref())
}

/// A directory that goes when this is dropped.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// On what this runs, and how busy it is.
fn machine() -> String {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = text("/proc/cpuinfo");
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches(['\t', ':', ' ']);
    let kernel = text("/proc/sys/kernel/osrelease");
    let load = text("/proc/loadavg");
    let load = load.split_whitespace().next().unwrap_or("?");
    format!("{cores} cores ({model}), Linux {}, load average {load}", kernel.trim())
}
