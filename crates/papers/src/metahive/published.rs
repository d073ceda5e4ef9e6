//! Compares the plain engine of this run with the published row, since a small overhead over a slow baseline proves
//! nothing.

use std::path::Path;
use waxseal_bench::Outcome;
use waxseal_bench::engine::{Name, Settings};
use waxseal_bench::run::{Plan, Span, Step, run};

/// Allowed deviation of the baseline from the published row.
const NEAR: f64 = 0.05;

/// Repeats the published steps on the plain engine and prints the comparison; never a gate, because machines differ.
pub(super) fn beside(dir: &Path, num: u64) -> Outcome<()> {
    let page = include_str!("../../../../docs/benchmarks.md");
    let plan = Plan {
        engine: Name::Plain,
        steps: vec![Step::FillRandom, Step::Settle, Step::ReadRandom],
        num,
        ops: Some(num),
        threads: 1,
        key_bytes: 16,
        value_bytes: 100,
        batch: 100,
        settings: Settings::new(256 << 20, 7 << 20),
        seed: 0,
        dir: dir.to_path_buf(),
        warm: true,
        cold: false,
        kill: false,
        span: Span::default(),
        windows: None,
    };
    run(&plan, &mut |report| {
        if let Some(row) = published(page, &report.bench) {
            let share = report.micros() / row - 1.0;
            let word = if share.abs() <= NEAR { "within 5 %" } else { "NOT within 5 %" };
            println!(
                "baseline {}: {:.3} us here at {num} records, {row:.2} us published at 200,000: {:+.0} %, {word}",
                report.bench,
                report.micros(),
                share * 100.0
            );
        }
        Ok(())
    })
}

/// Microseconds of our own column in the published quiet run with fjall.
fn published(page: &str, step: &str) -> Option<f64> {
    let (_, quiet) = page.split_once("## Level with fjall")?;
    let row = quiet.lines().find(|line| line.starts_with(&format!("| {step} |")))?;
    row.split('|').nth(2)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_rows_that_are_compared() {
        let page = include_str!("../../../../docs/benchmarks.md");
        for step in ["fillrandom", "readrandom"] {
            assert!(published(page, step).is_some_and(|micros| micros > 0.0), "{step}");
        }
    }
}
