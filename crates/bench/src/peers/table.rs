//! The rounds as Markdown tables: first the times of all stores, then their resource use.

use super::turns::{Bench, Round};
use crate::engine::Name;
use crate::measure::StepReport;
use crate::stats::median;
use std::fmt::Write;

/// The columns that a table shows of a report.
type Shown = (&'static str, fn(&StepReport) -> f64);

const TABLES: &[Shown] = &[
    ("Microseconds an operation (the driver's own inside)", StepReport::micros),
    ("Microseconds, 99.9 % at most", |report| report.p999_us),
    ("Microseconds, the worst", |report| report.max_us),
    ("Processor microseconds an operation, background work inside", |report| report.cpu_us_per_op),
    ("MB written to the disk", |report| report.written_bytes as f64 / 1e6),
    ("MB on disk after the step", |report| report.disk_bytes as f64 / 1e6),
    ("MB of memory at the peak", |report| report.peak_rss_bytes as f64 / 1e6),
];

/// Returns the tables of all rounds, with the median of the rounds in each field.
pub(super) fn markdown(bench: &Bench, rounds: &[Round]) -> String {
    let mut out = String::new();
    for table in TABLES {
        one(&mut out, table, &bench.engines, rounds);
    }
    out
}

/// Returns only the times.
pub(super) fn times(bench: &Bench, rounds: &[Round]) -> String {
    let mut out = String::new();
    one(&mut out, &TABLES[0], &bench.engines, rounds);
    out
}

fn one(out: &mut String, (title, value): &Shown, engines: &[Name], rounds: &[Round]) {
    let mut labels: Vec<&str> = Vec::new();
    for label in rounds.iter().flat_map(|round| &round.order) {
        if !labels.contains(&label.as_str()) {
            labels.push(label);
        }
    }
    let width = labels.iter().map(|label| label.len()).max().unwrap_or(0).max(4);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n{title}; median of the rounds:\n");
    let mut line = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| format!(" {cell:>14} |")).collect();
        let _ = writeln!(out, "| {first:<width$} |{}", cells.concat());
    };
    line("step", &mut engines.iter().map(|name| name.text().to_owned()));
    line(&"-".repeat(width), &mut engines.iter().map(|_| "-------------:".to_owned()));
    for label in labels {
        line(label, &mut engines.iter().map(|name| of(rounds, label, *name, *value)));
    }
}

fn of(rounds: &[Round], label: &str, name: Name, value: fn(&StepReport) -> f64) -> String {
    let found: Vec<f64> = rounds.iter().filter_map(|round| round.get(label, name).map(value)).collect();
    if found.is_empty() { String::new() } else { format!("{:.3}", median(&found)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stand_in_the_order_in_which_they_ran_and_what_is_missing_is_empty() {
        let mut round = Round::default();
        for (label, micros) in [("z.first", 2.0), ("a.second", 0.5)] {
            let report = StepReport { ops: 1, ops_per_s: 1e6 / micros, ..StepReport::default() };
            round.insert(label.into(), Name::Waxseal, report, 0);
        }
        let mut out = String::new();
        one(&mut out, &TABLES[0], &[Name::Waxseal, Name::Fjall], &[round]);
        let lines: Vec<&str> = out.lines().filter(|line| line.starts_with('|')).collect();
        assert!(lines[2].starts_with("| z.first") && lines[2].contains("2.000") && lines[3].starts_with("| a.second"));
        assert!(lines.iter().all(|line| line.matches('|').count() == 4), "{out}");
    }
}
