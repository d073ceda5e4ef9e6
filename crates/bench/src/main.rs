//! The command line of the driver: parses arguments, prints lines, returns one exit code.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use waxseal_bench::engine::{File, Name, Settings};
use waxseal_bench::run::{Plan, Span, Step, run};
use waxseal_bench::{Outcome, flip, heap, histories, killloop, peers, tasks};

#[global_allocator]
static ALLOCATOR: heap::Watched = heap::Watched;

/// Compares Waxseal with its peers, and tests the effects of a flipped bit or a killed process.
#[derive(Parser)]
#[command(version, about)]
struct Line {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Runs steps on one store and prints a line per step.
    Run(RunLine),
    /// Compares all stores of this build in alternating rounds; prints ratios with confidence bounds, and gates.
    Peers(peers::Line),
    /// Flips one random bit of one file in a copy of a live store, opens it, reads everything.
    Flip(flip::Line),
    /// Kills a writing process repeatedly and checks that all acknowledged writes exist.
    Killloop(killloop::Line),
    /// Kills a process that runs transactions repeatedly and checks that each history is serializable.
    Histories(histories::Line),
    /// Measures a thousand tasks with durable writes, and the cost of a cached read in a task.
    Async(tasks::Line),
    /// Compares typed rows with the engine's records, and tables with SQLite.
    #[cfg(feature = "tables")]
    Tables(waxseal_bench::tables::Line),
    /// The child of `flip` that fills a store and copies it while it is open.
    #[command(hide = true)]
    FlipFill(flip::FillLine),
    /// The child of `flip` that opens a damaged copy.
    #[command(hide = true)]
    FlipCheck(flip::CheckLine),
    /// The child of `killloop` that writes until it is killed.
    #[command(hide = true)]
    KillloopWrite(killloop::WriteLine),
    /// The child of `histories` that runs transactions until it is killed.
    #[command(hide = true)]
    HistoriesRun(histories::RunLine),
}

#[derive(Args)]
struct RunLine {
    /// The store.
    #[arg(long)]
    engine: Name,
    /// Steps, in order, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    bench: Vec<Step>,
    /// Records that the fills write.
    #[arg(long, default_value_t = 1_000_000)]
    num: u64,
    /// Operations of the other steps [default: num; num / 1000 for fillsync].
    #[arg(long)]
    ops: Option<u64>,
    /// Number of driving threads.
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Length of keys in bytes.
    #[arg(long, default_value_t = 16)]
    key: usize,
    /// Length of values in bytes.
    #[arg(long, default_value_t = 100)]
    value: usize,
    /// Records per batch of `fillbatch`.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Block or page cache in MiB.
    #[arg(long, default_value_t = 256)]
    cache_mib: u64,
    /// Memtable in MiB.
    #[arg(long, default_value_t = 64)]
    memtable_mib: u64,
    /// Table size of the LSM trees [default: each store's own size].
    #[arg(long)]
    table_kib: Option<u64>,
    /// Size of the first level below level 0 of the LSM trees [default: each store's own size].
    #[arg(long)]
    level_kib: Option<u64>,
    /// Settings file for individual stores [default: peers.toml, built in].
    #[arg(long)]
    settings: Option<PathBuf>,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Directory of the store.
    #[arg(long)]
    dir: PathBuf,
    /// Reads everything once before each step that only reads.
    #[arg(long)]
    warm: bool,
    /// Evicts the store's files from the page cache before it is opened.
    #[arg(long)]
    cold: bool,
    /// Ends like a killed process: without close, flush or sync.
    #[arg(long)]
    kill: bool,
    /// Duration of `mixed` in seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Length of one point of `mixed` in seconds.
    #[arg(long, default_value_t = 1.0)]
    window_seconds: f64,
    /// Writes the points of `mixed` to this file.
    #[arg(long)]
    windows: Option<PathBuf>,
    /// Prints one JSON object per line.
    #[arg(long)]
    json: bool,
}

impl RunLine {
    fn plan(&self) -> Outcome<Plan> {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).map_err(|_| "a time is a number above 0");
        Ok(Plan {
            engine: self.engine,
            steps: self.bench.clone(),
            num: self.num,
            ops: self.ops,
            threads: self.threads,
            key_bytes: self.key,
            value_bytes: self.value,
            batch: self.batch,
            settings: Settings {
                table_bytes: self.table_kib.map(|size| size << 10),
                level_bytes: self.level_kib.map(|size| size << 10),
                transactional: self.bench.iter().any(|step| step.is_transactional()),
                merging: self.bench.iter().any(|step| step.is_merging()),
                feeding: self.bench.iter().any(|step| step.is_feeding()),
                collecting: self.bench.iter().any(|step| step.is_collecting()),
                filtering: self.bench.iter().any(|step| step.is_filtering()),
                prefix_bytes: self.bench.iter().any(|step| step.is_prefixed()).then(|| self.key.saturating_sub(1)),
                synced: self.bench.iter().all(|step| *step == Step::FillSync),
                own: File::read(self.settings.as_deref())?.own(),
                ..Settings::new(self.cache_mib << 20, self.memtable_mib << 20)
            },
            seed: self.seed,
            dir: self.dir.clone(),
            warm: self.warm,
            cold: self.cold,
            kill: self.kill,
            span: Span { all: seconds(self.seconds)?, window: seconds(self.window_seconds)? },
            windows: self.windows.clone(),
        })
    }
}

fn main() -> ExitCode {
    let done = match Line::parse().experiment {
        Experiment::Run(line) => steps(&line).map(|()| 0),
        Experiment::Peers(line) => peers::peers(&line),
        Experiment::Flip(line) => flip::flip(&line),
        Experiment::Killloop(line) => killloop::killloop(&line),
        Experiment::Histories(line) => histories::histories(&line),
        Experiment::Async(line) => tasks::tasks(&line),
        #[cfg(feature = "tables")]
        Experiment::Tables(line) => waxseal_bench::tables::tables(&line),
        Experiment::FlipFill(line) => flip::fill(&line).map(|()| 0),
        Experiment::FlipCheck(line) => flip::check(&line).map(|()| 0),
        Experiment::KillloopWrite(line) => killloop::write(&line).map(|()| 0),
        Experiment::HistoriesRun(line) => histories::run(&line).map(|()| 0),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            eprintln!("waxseal-bench: {fault}");
            ExitCode::from(4)
        }
    }
}

fn steps(line: &RunLine) -> Outcome<()> {
    run(&line.plan()?, &mut |report| {
        if line.json {
            println!("{}", serde_json::to_string(&report)?);
        } else {
            println!("{}", report.line());
        }
        Ok(())
    })
}
