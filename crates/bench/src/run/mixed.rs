//! The mixed load, which runs for a duration instead of a number of operations: half reads, 45 % updates, 5 % scans of
//! ten rows, zipfian.
//!
//! Every thread keeps one histogram per window; the threads' histograms of the same window are merged. A window in
//! which the load had already ended has no point. A stall longer than a window counts in the window in which it ended.

use super::SEEK_ROWS;
use super::hand::Hand;
use crate::Outcome;
use crate::engine::{Reader, Rows, Start};
use crate::measure::Laps;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The duration of `mixed`, and the length of its windows.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Total duration.
    pub all: Duration,
    /// Length of one window.
    pub window: Duration,
}

impl Default for Span {
    /// One minute, in windows of one second.
    fn default() -> Span {
        Span { all: Duration::from_secs(60), window: Duration::from_secs(1) }
    }
}

/// One window of the mixed load.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Seconds from the start of the load to the window's end.
    pub until_s: f64,
    /// Operations that ended in the window.
    pub ops: u64,
    /// Median duration of an operation.
    pub p50_us: f64,
    /// 99th percentile of the durations.
    pub p99_us: f64,
    /// 99.9th percentile of the durations.
    pub p999_us: f64,
    /// Longest duration.
    pub max_us: f64,
}

/// Converts the windows for the report.
pub(super) fn told(windows: &[Laps], window: Duration) -> Vec<Window> {
    let point = |(place, laps): (usize, &Laps)| Window {
        until_s: window.as_secs_f64() * (place + 1) as f64,
        ops: laps.count(),
        p50_us: laps.quantile_us(0.5),
        p99_us: laps.quantile_us(0.99),
        p999_us: laps.quantile_us(0.999),
        max_us: laps.max_us(),
    };
    windows.iter().enumerate().map(point).collect()
}

impl Hand<'_> {
    /// Runs one thread until the time is over.
    pub(super) fn mixed(&mut self, reader: &mut dyn Reader) -> Outcome<()> {
        let Span { all, window } = self.drive.plan.span;
        let start = Instant::now();
        let mut laps = Laps::new();
        let mut number = 0;
        loop {
            self.one_of_the_mix(reader)?;
            laps.lap();
            self.tally.laps.lap();
            self.tally.ops += 1;
            let elapsed = start.elapsed();
            let now = (elapsed.as_nanos() / window.as_nanos().max(1)) as usize;
            if now > number || elapsed >= all {
                self.tally.windows.push(std::mem::take(&mut laps));
                // Windows without a completed operation are included as empty ones.
                self.tally.windows.resize_with(now.max(number + 1).min(MOST_WINDOWS), Laps::new);
                number = now;
            }
            if elapsed >= all || number >= MOST_WINDOWS {
                return Ok(());
            }
        }
    }

    fn one_of_the_mix(&mut self, reader: &mut dyn Reader) -> Outcome<()> {
        let i = self.rank();
        match self.random.below(100) {
            0..50 => {
                let answer = reader.get(self.keys.written(i))?;
                self.count(answer);
                Ok(())
            }
            50..95 => self.update(reader, i),
            _ => {
                let mut rows = Rows::wanted(SEEK_ROWS);
                reader.scan(Start::Seek(self.keys.written(i)), &mut rows)?;
                self.tally.found += rows.seen();
                self.tally.touched = self.tally.touched.wrapping_add(rows.touched());
                Ok(())
            }
        }
    }
}

/// Limit on windows, because a histogram takes some hundred kilobytes.
const MOST_WINDOWS: usize = 1024;
