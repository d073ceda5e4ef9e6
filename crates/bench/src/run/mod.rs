//! `run`: one store, steps one after the other, a line a step.
//!
//! Coming in: a store directory (new or left by an earlier run) and a plan. Going out: one `StepReport` a step. A step is driven by
//! `threads` threads that start together; its time ends when the last one ends. Generating a key and reading the clock are inside
//! the time of every operation; the `null` store measures them.

mod drive;
mod hand;
mod mixed;
mod step;
#[cfg(test)]
mod tests;

pub use mixed::{Span, Window};
pub use step::Step;

use crate::Outcome;
use crate::engine::{self, Engine, Name, Rows, Settings, Start, View};
use crate::measure::{Counters, StepReport, disk_bytes, evict, peak_rss_bytes};
use crate::workload::{Keys, Random};
use drive::Drive;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which store.
    pub engine: Name,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Records that the fills write, and the space that keys are drawn from.
    pub num: u64,
    /// Operations of the other steps; by default `num`, and a thousandth of it where each is synced.
    pub ops: Option<u64>,
    /// Threads that drive.
    pub threads: u64,
    /// Length of keys.
    pub key_bytes: usize,
    /// Length of values.
    pub value_bytes: usize,
    /// Records a batch.
    pub batch: usize,
    /// What the store is given.
    pub settings: Settings,
    /// From which everything follows.
    pub seed: u64,
    /// Where the store is.
    pub dir: PathBuf,
    /// Reads everything once before a step that only reads.
    pub warm: bool,
    /// Drives the store's files out of the page cache before it is opened.
    pub cold: bool,
    /// Ends like a process that is killed: nothing is closed, flushed or synced.
    pub kill: bool,
    /// Of `mixed`.
    pub span: Span,
    /// Where the windows of `mixed` are written, JSON.
    pub windows: Option<PathBuf>,
}

/// Rows of a `seekrandom`.
const SEEK_ROWS: u64 = 10;

/// Opens the store, runs the steps, hands out a report after each, closes the store.
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
        // The store is not even dropped: whatever it would do on its way out, a killed process does not.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    }
    store.close()
}

/// What a step did, before it is told.
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

/// One pass over all rows, and reads of half the keys that the step will draw from.
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
