//! The tour's output: one line per step as it happens, or one JSON object at the end.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use waxseal::LevelMetrics;

use super::source::Sources;
use crate::failure::Failure;
use crate::levels;
use crate::output::Output;
use crate::text::{count, size};

/// Number of findings printed; the others are only counted.
const PRINTED_FINDINGS: u64 = 20;

/// The numbers of a tour.
#[derive(Default)]
pub(super) struct TourReport {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Special and unreadable entries, and files beyond the limit.
    pub(super) skipped: u64,
    /// Only the files beyond the limit.
    pub(super) beyond_limit: u64,
    pub(super) load_s: f64,
    /// Wrong answers in all checks except that of the killed writer.
    pub(super) mismatches: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
    /// Number of events that the log has for the changes.
    pub(super) events: u64,
    pub(super) snapshot_checked: u64,
    pub(super) checkpoint_records: u64,
    pub(super) killed_at_op: u64,
    pub(super) acknowledged: u64,
    /// Acknowledged writes of the killed writer that are missing.
    pub(super) lost: u64,
    /// Keys of the killed writer with a value other than the written one.
    pub(super) wrong: u64,
    pub(super) store_bytes: u64,
    pub(super) peak_rss_bytes: u64,
    pub(super) levels: Vec<LevelMetrics>,
    /// The store has seals.
    pub(super) sealed: bool,
    pub(super) flips: FlipResults,
    steps: u32,
}

/// The outcome of the flipped bits.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FlipResults {
    pub(super) injected: u64,
    /// Flips whose file was named by `verify`, or by the store itself before that.
    pub(super) detected: u64,
    /// Flips that `repair` corrected.
    pub(super) repaired: u64,
    /// Wrong answers without an error.
    pub(super) silent: u64,
}

impl TourReport {
    pub(super) fn is_ok(&self) -> bool {
        let all_logged = self.events == self.updated + self.deleted;
        self.mismatches == 0 && self.lost == 0 && self.wrong == 0 && self.flips.silent == 0 && all_logged
    }

    /// Prints the result of a step.
    pub(super) fn step(&mut self, name: &str, text: impl AsRef<str>, output: &mut Output) -> Result<(), Failure> {
        self.steps += 1;
        output.line(format!("  {:>2}  {name:<11} {}", self.steps, text.as_ref()))?;
        output.flush()
    }

    /// Prints one more line on the last step.
    pub(super) fn note(&self, text: impl AsRef<str>, output: &mut Output) -> Result<(), Failure> {
        output.line(format!("      {:<11} {}", "", text.as_ref()))
    }

    /// Counts a wrong answer, and prints the first ones.
    pub(super) fn mismatch(&mut self, what: &str, key: &[u8]) {
        self.mismatches += 1;
        if self.mismatches <= PRINTED_FINDINGS {
            eprintln!("waxseal: {what}: {}", crate::text::escape(key));
        }
    }

    /// Prints the costs and the verdict.
    pub(super) fn print(&self, elapsed: Duration, output: &mut Output) -> Result<(), Failure> {
        let ratio = self.store_bytes as f64 / self.bytes.max(1) as f64;
        output.line("\n  cost")?;
        output.line(format!("      time        {:.1} s in all", elapsed.as_secs_f64()))?;
        output.line(format!(
            "      disk        {} for {} of files ({ratio:.2} of it), log and reserved space included",
            size(self.store_bytes),
            size(self.bytes)
        ))?;
        output.line(format!("      memory      {} at the most", size(self.peak_rss_bytes)))?;
        output.line("\n  tree")?;
        for line in levels::table(&self.levels) {
            output.line(format!("      {line}"))?;
        }
        output.line(match self.is_ok() {
            true => "\n  OK: every answer was right, and nothing acknowledged was lost.".to_owned(),
            false => format!(
                "\n  FAILED: {} wrong answers, {} acknowledged writes lost, {} wrong after the kill, {} wrong on damaged tables.",
                count(self.mismatches),
                count(self.lost),
                count(self.wrong),
                count(self.flips.silent)
            ),
        })?;
        output.object(&json!({
            "ok": self.is_ok(),
            "files": self.files,
            "bytes": self.bytes,
            "skipped": self.skipped,
            "load_s": self.load_s,
            "mismatches": self.mismatches,
            "updated": self.updated,
            "deleted": self.deleted,
            "events": self.events,
            "snapshot_checked": self.snapshot_checked,
            "checkpoint_records": self.checkpoint_records,
            "killed_at_op": self.killed_at_op,
            "acknowledged": self.acknowledged,
            "lost": self.lost,
            "wrong": self.wrong,
            "store_bytes": self.store_bytes,
            "peak_rss_bytes": self.peak_rss_bytes,
            "levels": levels::levels_json(&self.levels),
            "sealed": self.sealed,
            "flips": {
                "injected": self.flips.injected,
                "detected": self.flips.detected,
                "repaired": self.flips.repaired,
                "silent": self.flips.silent,
            },
        }))?;
        output.flush()
    }
}

/// Prints the plan of the tour.
pub(super) fn opening(sources: &Sources, store: &Path, keep: bool, output: &mut Output) -> Result<(), Failure> {
    output.line("A tour of waxseal\n")?;
    for (at, tree) in sources.trees.iter().enumerate() {
        output.line(format!("  {:<9} {}", if at == 0 { "files" } else { "" }, tree.root.display()))?;
    }
    if sources.limit != u64::MAX {
        output.line(format!("  {:<9} at most {} of them", "", size(sources.limit)))?;
    }
    let end = if keep { "kept" } else { "removed at the end; --keep keeps it" };
    output.line(format!("  {:<9} {} ({end})\n", "store", store.display()))?;
    output.flush()
}
