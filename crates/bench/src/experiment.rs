//! The common parts of experiments: size, seed, a temporary directory, a time limit, and the result lines.

use crate::Outcome;
use crate::gate::{Gate, conclude};
use crate::measure::require_space;
use crate::stats::{Interval, Wanted};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of every experiment.
#[derive(Args, Debug)]
pub struct Ask {
    /// Ends within one minute; timings may be inconclusive.
    #[arg(long)]
    quick: bool,
    /// Size; 1 is the paper's [default: the size that ends within five minutes].
    #[arg(long)]
    scale: Option<f64>,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the stores [default: below the system's temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the lines with their bounds to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Name and requirements of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Name in all output lines.
    pub id: &'static str,
    /// Scale without arguments, and scale with `--quick`.
    pub scales: (f64, f64),
    /// Bytes of disk at scale 1, and the minimum.
    pub disk: (u64, u64),
}

/// One run of an experiment.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name in all output lines.
    pub id: &'static str,
    /// Size; 1 is the paper's.
    pub scale: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Directory of the run, deleted at its end.
    pub dir: PathBuf,
    /// Time at which no further round begins.
    pub until: Instant,
}

/// Maximum durations, with room for a round in progress.
const DEFAULT: Duration = Duration::from_secs(240);
const QUICK: Duration = Duration::from_secs(40);

/// Runs an experiment in its own directory, prints its lines and returns the exit code. With an explicit scale there is
/// no time limit.
pub fn conduct(ask: &Ask, needs: &Needs, run: impl FnOnce(Run) -> Outcome<Vec<Gate>>) -> Outcome<u8> {
    let scale = ask.scale.unwrap_or(if ask.quick { needs.scales.1 } else { needs.scales.0 });
    if !(scale.is_finite() && scale > 0.0) {
        return Err("a scale is a number above 0".into());
    }
    let root = ask.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = root.join(format!("waxseal-{}-{}", needs.id, std::process::id()));
    require_space(&root, needs.disk.1 + (needs.disk.0 as f64 * scale) as u64)?;
    std::fs::create_dir_all(&dir)?;
    let _removed = Removed(&dir);
    let limit = match (ask.scale, ask.quick) {
        (Some(_), false) => Duration::from_secs(24 * 3600),
        (_, false) => DEFAULT,
        (_, true) => QUICK,
    };
    println!("{}: scale {scale}, seed {}; {}", needs.id, ask.seed, machine());
    let gates = run(Run { id: needs.id, scale, seed: ask.seed, dir: dir.clone(), until: Instant::now() + limit })?;
    conclude(&gates, ask.json.as_deref())
}

impl Run {
    /// Returns a size that is `full` at scale 1, and at least `least`.
    pub fn size(&self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(least)
    }

    /// Returns true once no further round should begin.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Returns the remaining time.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Returns this run with a share of the remaining time.
    pub fn within(&self, share: f64) -> Run {
        Run { until: Instant::now() + self.left().mul_f64(share), dir: self.dir.clone(), ..*self }
    }

    /// Makes a gate such as `table1.put more ns`: the upper bound is at most `threshold`.
    pub fn at_most(
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

    /// Makes a gate whose lower bound is at least `threshold`.
    pub fn at_least(
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

    /// Makes a gate for a count that must be zero in this number of trials.
    pub fn none(&self, what: &str, metric: &str, count: u64, trials: u64, enough: u64) -> Gate {
        let id = format!("{}.{what}", self.id);
        let gate = Gate::none_allowed(&id, metric, count, trials as usize, enough as usize, self.seed);
        Gate { scale: self.scale, ..gate }
    }

    /// Makes a gate for a counted (not estimated) share of trials, in percent.
    pub fn counted_share(&self, what: &str, metric: &str, count: u64, trials: u64, at_least: f64) -> Gate {
        let exact = (trials > 0).then(|| exactly(count as f64 * 100.0 / trials as f64, trials));
        self.at_least(what, metric, "%", exact, at_least)
    }

    /// Returns an empty directory of this run.
    pub fn fresh(&self, name: &str) -> Outcome<PathBuf> {
        let dir = self.dir.join(name);
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

/// Returns the interval of a counted number: both bounds equal it.
pub fn exactly(value: f64, n: u64) -> Interval {
    Interval { mean: value, low: value, high: value, n: n as usize }
}

/// A directory that is deleted on drop.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// Describes the machine and its load.
pub fn machine() -> String {
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
