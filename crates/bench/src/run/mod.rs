//! `run`: runs steps in sequence on one store, and prints a line per step.
//!
//! In: a store directory (new or left by an earlier run) and a plan. Out: one `StepReport` per step. A step is driven
//! by `threads` threads that start together; its time ends when the last one ends. The time of every operation includes
//! generating a key and reading the clock; the `null` store measures that overhead.

mod drive;
mod hand;
mod mixed;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub use mixed::{Span, Window};
pub use step::Step;

use crate::Outcome;
use crate::engine::{self, Engine, Name, Rows, Settings, Start, View};
use crate::measure::{Counters, StepReport, disk_bytes, evict, peak_rss_bytes};
use crate::workload::{Keys, Random};
use state::Drive;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The store.
    pub engine: Name,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Records that the fills write; keys are drawn from this space.
    pub num: u64,
    /// Operations of the other steps; by default `num`, or `num / 1000` if each is synced.
    pub ops: Option<u64>,
    /// Number of driving threads.
    pub threads: u64,
    /// Length of keys.
    pub key_bytes: usize,
    /// Length of values.
    pub value_bytes: usize,
    /// Records per batch.
    pub batch: usize,
    /// The store's settings.
    pub settings: Settings,
    /// Seed of all random choices.
    pub seed: u64,
    /// Directory of the store.
    pub dir: PathBuf,
    /// Reads everything once before a step that only reads.
    pub warm: bool,
    /// Evicts the store's files from the page cache before it is opened.
    pub cold: bool,
    /// Ends like a killed process: without close, flush or sync.
    pub kill: bool,
    /// Duration and windows of `mixed`.
    pub span: Span,
    /// Output file for the windows of `mixed`, as JSON.
    pub windows: Option<PathBuf>,
}

/// Rows of a `seekrandom`.
const SEEK_ROWS: u64 = 10;

/// Opens the store, runs the steps, passes on a report after each, and closes the store.
pub fn run(plan: &Plan, report: &mut dyn FnMut(StepReport) -> Outcome<()>) -> Outcome<()> {
    let keys = Keys::new(plan.num, plan.key_bytes, plan.seed).ok_or("keys are too short for their number")?;
    if plan.threads == 0 || plan.batch == 0 {
        return Err("threads and batch are at least 1".into());
    }
    if plan.steps.iter().skip(1).any(|step| *step == Step::Open) {
        return Err("open is the first step or none".into());
    }
    if plan.cold {
        evict(&plan.dir)?;
    }
    let counters = Counters::start();
    let start = Instant::now();
    let store = engine::open(plan.engine, &plan.dir, &plan.settings)?;
    if plan.steps.first() == Some(&Step::Open) {
        let found = store.reader(View::Latest)?.get(keys.clone().written(0))?.is_some();
        let done = Done { ops: 1, found: found.into(), elapsed: start.elapsed(), ..Done::default() };
        report(done.told(plan, Step::Open, &counters))?;
    }
    for (place, step) in plan.steps.iter().enumerate().filter(|(_, step)| **step != Step::Open) {
        if plan.warm && step.only_reads() {
            warm(plan, store.as_ref(), &keys)?;
        }
        let drive = Drive {
            plan,
            store: store.as_ref(),
            keys: &keys,
            step: *step,
            place: place as u64,
            inserted: AtomicU64::new(0),
        };
        let counters = Counters::start();
        let (tally, elapsed) = drive.all()?;
        if let Some(path) = plan.windows.as_ref().filter(|_| *step == Step::Mixed) {
            std::fs::write(path, serde_json::to_vec_pretty(&mixed::told(&tally.windows, plan.span.window))?)?;
        }
        let laps = &tally.laps;
        let done = Done {
            ops: tally.ops,
            found: tally.found,
            elapsed,
            quantiles: [laps.quantile_us(0.5), laps.quantile_us(0.99), laps.quantile_us(0.999), laps.max_us()],
            own_wait: store.own_wait(),
        };
        report(done.told(plan, *step, &counters))?;
    }
    if plan.kill {
        // The store is not dropped either: a killed process runs no destructor.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    }
    store.close()
}

/// The results of a step before the report.
#[derive(Default)]
struct Done {
    ops: u64,
    found: u64,
    elapsed: Duration,
    quantiles: [f64; 4],
    own_wait: Option<Duration>,
}

impl Done {
    fn told(&self, plan: &Plan, step: Step, counters: &Counters) -> StepReport {
        let (cpu, written) = counters.since();
        let ops = self.ops.max(1) as f64;
        let elapsed_us = self.elapsed.as_secs_f64() * 1e6;
        let [p50_us, p99_us, p999_us, max_us] = if step == Step::Open { [elapsed_us; 4] } else { self.quantiles };
        StepReport {
            engine: plan.engine.text().into(),
            bench: step.text(),
            threads: plan.threads,
            ops: self.ops,
            ops_per_s: self.ops as f64 / self.elapsed.as_secs_f64().max(1e-9),
            p50_us,
            p99_us,
            p999_us,
            max_us,
            cpu_us_per_op: cpu.as_secs_f64() * 1e6 / ops,
            written_bytes: written,
            disk_bytes: disk_bytes(&plan.dir),
            peak_rss_bytes: peak_rss_bytes(),
            found: self.found,
            own_wait_us: self.own_wait.map(|wait| wait.as_secs_f64() * 1e6),
        }
    }
}

/// Scans all rows once, and reads half as many keys as the step will draw.
fn warm(plan: &Plan, store: &dyn Engine, keys: &Keys) -> Outcome<()> {
    let mut keys = keys.clone();
    let mut reader = store.reader(View::Fixed)?;
    let mut rows = Rows::wanted(u64::MAX);
    reader.scan(Start::First, &mut rows)?;
    let mut random = Random::stream(plan.seed, u64::MAX);
    for _ in 0..plan.num / 2 {
        black_box(reader.get(keys.written(random.below(plan.num)))?);
    }
    Ok(())
}
