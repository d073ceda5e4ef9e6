//! `peers`: runs the same steps on every store of this build, in alternating rounds.
//!
//! ```text
//! mod           the command line; runs, judges, prints
//! asked limits synced   ratios to peers | other limits | counters of synced writers
//! table plots   the results as tables and as plots
//! turns         rounds: groups in sequence, stores in turn, each in a child process
//! suites        the steps and their stores, as data
//! ```
//!
//! In: one settings file (`peers.toml`). Out: a table, one line per gate, and with `--out` all measurements. A ratio is
//! computed within a round, minus the cost of the `null` store in the same round; its bounds come from the rounds
//! (`stats`). An undecided gate is INCONCLUSIVE and never a pass.

mod asked;
mod limits;
mod plots;
mod suites;
mod synced;
mod table;
mod turns;

use crate::Outcome;
use crate::engine::{self, File, Name};
use crate::experiment::machine;
use crate::gate::{Gate, conclude};
use crate::measure::{StepReport, require_space};
use crate::probe::Probes;
use crate::run::Window;
use clap::{Args, ValueEnum};
use limits::Limits;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use suites::{RECORD, Row, Suite};
use turns::{Bench, Round};

/// Arguments of `peers`.
#[derive(Args, Debug)]
pub struct Line {
    /// A tenth of the records; ends within 15 minutes.
    #[arg(long)]
    quick: bool,
    /// Writes the gates with their bounds to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Writes all measurements, tables and plots to this directory.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Stores, separated by commas [default: all of this build].
    #[arg(long, value_delimiter = ',')]
    engines: Vec<Name>,
    /// The store that the gates judge.
    #[arg(long, default_value = "waxseal")]
    subject: Name,
    /// The set of gates.
    #[arg(long, default_value = "all")]
    gates: Set,
    /// Suites, separated by commas [default: all; core for the gates `level` and `tax`].
    #[arg(long, value_delimiter = ',')]
    suites: Vec<Suite>,
    /// The settings file [default: peers.toml, built in].
    #[arg(long)]
    settings: Option<PathBuf>,
    /// Number of rounds [default: from the settings].
    #[arg(long)]
    rounds: Option<u64>,
    /// Records that the fills write [default: from the settings].
    #[arg(long)]
    num: Option<u64>,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory for the stores [default: below the system's temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// The set of thresholds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Set {
    /// At least level with fjall.
    Level,
    /// The speeds that the design requires.
    Design,
    /// The allowed cost of seals, relative to the same engine without them.
    Tax,
    /// All thresholds.
    All,
}

impl Set {
    fn suites(self) -> &'static [Suite] {
        match self {
            Set::Level | Set::Tax => &[Suite::Core],
            Set::Design | Set::All => Suite::value_variants(),
        }
    }
}

/// With `--quick` no group starts after this time, and running ones are ended soon after.
const QUICK: Duration = Duration::from_secs(12 * 60 + 30);

/// Runs the experiment.
pub fn peers(line: &Line) -> Outcome<u8> {
    let bench = bench(line)?;
    let suites = if line.suites.is_empty() { line.gates.suites() } else { &line.suites };
    announce(&bench, suites);
    let rounds = bench.suites(suites, &mut |suite, rounds| {
        eprintln!("{suite:?}: a round of {} steps", rounds.last().map_or(0, |round| round.order.len()));
        // Results are written continuously, so that an interrupted run of hours keeps them.
        line.out.as_ref().map_or(Ok(()), |out| write_rounds(out, &bench, rounds, &[]))
    })?;
    println!("{}", table::times(&bench, &rounds));
    let gates = gates(line, &bench, &rounds, suites)?;
    if bench.dir.exists() {
        std::fs::remove_dir_all(&bench.dir)?;
    }
    if let Some(out) = &line.out {
        write_out(out, &bench, &rounds, &gates)?;
    }
    conclude(&gates, line.json.as_deref())
}

fn bench(line: &Line) -> Outcome<Bench> {
    let mut engines = if line.engines.is_empty() { Name::built() } else { line.engines.clone() };
    if !engines.contains(&Name::Null) {
        engines.push(Name::Null);
    }
    if let Some(missing) = engines.iter().find(|name| !name.is_built()) {
        return Err(engine::not_built(*missing));
    }
    let file = File::read(line.settings.as_deref())?;
    let sizes = file.sizes(line.quick).clone();
    let num = line.num.unwrap_or(sizes.records).max(1_000);
    let dir =
        line.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("waxseal-peers-{}", std::process::id())));
    // Three stores with up to four times the data each, and one of the largest separate stores at a time.
    let apart = [sizes.large_mib, sizes.load_mib, sizes.recover_mib].map(|mib| mib << 20);
    let grown = sizes.growth.iter().map(|num| num * RECORD);
    let largest = apart.into_iter().chain(grown).max().unwrap_or(0);
    require_space(&dir, (num * RECORD * 4 * 3 * engines.len() as u64).max(256 << 20).max(largest * 3))?;
    Ok(Bench {
        engines,
        subject: line.subject,
        rounds: line.rounds.unwrap_or(sizes.rounds),
        sizes,
        file,
        settings: line.settings.clone(),
        num,
        seed: line.seed,
        dir,
        until: line.quick.then(|| Instant::now() + QUICK),
    })
}

fn announce(bench: &Bench, suites: &[Suite]) {
    let versions: Vec<String> =
        bench.engines.iter().map(|name| format!("{} ({})", name.text(), name.version())).collect();
    println!("machine: {}", machine());
    println!("stores: {}", versions.join(", "));
    let shared = &bench.file.shared;
    println!(
        "settings: num {} (scale {}), keys {} B, values {} B, cache {} MiB, memtable {} MiB at scale 1, no compression, no fsync but in \
         fillsync, seed {}",
        bench.num,
        bench.scale(),
        shared.key_bytes,
        shared.value_bytes,
        shared.cache_mib,
        shared.memtable_mib,
        bench.seed
    );
    let text: Vec<String> = suites.iter().map(|suite| format!("{suite:?}").to_lowercase()).collect();
    println!("suites: {}", text.join(", "));
}

fn gates(line: &Line, bench: &Bench, rounds: &[Round], suites: &[Suite]) -> Outcome<Vec<Gate>> {
    let limits = Limits { bench, rounds };
    let groups = |suite: &Suite| suites::groups(*suite, &bench.file, &bench.sizes, bench.num);
    let rows: Vec<Row> = suites.iter().flat_map(groups).flat_map(|group| group.rows()).collect();
    let asked = asked::asked(&rows, &bench.sizes.growth);
    let exceeds = |label: &str| limits.exceeds_memory(label);
    let mut gates: Vec<Gate> =
        asked.iter().filter(|one| one.is_of(line.gates)).map(|one| one.judge(bench, rounds, exceeds)).collect();
    if matches!(line.gates, Set::Design | Set::All) {
        gates.extend(limits.all(suites));
        if suites.contains(&Suite::Core) && matches!(bench.subject, Name::Waxseal) {
            gates.extend(synced::gates(bench)?);
        }
    }
    if matches!(line.gates, Set::Tax | Set::All) && suites.contains(&Suite::Core) {
        gates.extend(limits.tax());
    }
    Ok(gates)
}

/// One step of one store in one round, as written to the file.
#[derive(Serialize)]
struct Told<'a> {
    round: usize,
    label: &'a str,
    #[serde(flatten)]
    report: &'a StepReport,
}

/// The content of the results file.
#[derive(Serialize)]
struct All<'a> {
    machine: String,
    versions: BTreeMap<&'a str, String>,
    settings: &'a File,
    records: u64,
    seed: u64,
    gates: &'a [Gate],
    probes: Vec<Probes>,
    windows: BTreeMap<&'a str, &'a [Window]>,
    steps: Vec<Told<'a>>,
}

impl<'a> All<'a> {
    fn of(bench: &'a Bench, rounds: &'a [Round], gates: &'a [Gate]) -> All<'a> {
        let mut steps = Vec::new();
        for (number, round) in rounds.iter().enumerate() {
            steps.extend(round.reports.iter().map(|((label, _), report)| Told { round: number, label, report }));
        }
        let windows = rounds.iter().flat_map(|round| &round.windows);
        All {
            machine: machine(),
            versions: bench.engines.iter().map(|name| (name.text(), name.version())).collect(),
            settings: &bench.file,
            records: bench.num,
            seed: bench.seed,
            gates,
            probes: rounds.iter().map(|round| round.probes).collect(),
            windows: windows.map(|(name, windows)| (name.text(), windows.as_slice())).collect(),
            steps,
        }
    }
}

/// Writes the measurements so far, and the gates once the run is complete.
fn write_rounds(out: &Path, bench: &Bench, rounds: &[Round], gates: &[Gate]) -> Outcome<()> {
    std::fs::create_dir_all(out)?;
    Ok(std::fs::write(out.join("rounds.json"), serde_json::to_vec_pretty(&All::of(bench, rounds, gates))?)?)
}

/// Writes measurements, tables, gates and plots for further analysis.
fn write_out(out: &Path, bench: &Bench, rounds: &[Round], gates: &[Gate]) -> Outcome<()> {
    write_rounds(out, bench, rounds, gates)?;
    let lines: Vec<String> = gates.iter().map(Gate::line).collect();
    let page = format!("{}\n```text\n{}\n```\n", table::markdown(bench, rounds), lines.join("\n"));
    std::fs::write(out.join("tables.md"), page)?;
    plots::draw(out, bench, rounds, gates)
}
