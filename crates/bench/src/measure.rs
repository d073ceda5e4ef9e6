//! Clocks and counters, all from outside the store: the kernel's counters of the process.

use crate::Outcome;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The report of one step on one store, with the fields that reports have by contract.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepReport {
    /// The store.
    pub engine: String,
    /// The step.
    pub bench: String,
    /// Number of driving threads.
    pub threads: u64,
    /// Operations done: records written, keys looked up, rows read.
    pub ops: u64,
    /// Operations per second, over all threads.
    pub ops_per_s: f64,
    /// Median duration of an operation in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the durations.
    pub p99_us: f64,
    /// 99.9th percentile of the durations.
    pub p999_us: f64,
    /// Longest duration.
    pub max_us: f64,
    /// Processor time of the whole process per operation, including background work.
    pub cpu_us_per_op: f64,
    /// Bytes that the process wrote to the disk.
    pub written_bytes: u64,
    /// Disk space of the store after the step.
    pub disk_bytes: u64,
    /// Peak resident memory during the step.
    pub peak_rss_bytes: u64,
    /// Keys found; rows of a scan.
    pub found: u64,
    /// The longest wait of a write for the store itself since the open, if the store counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_wait_us: Option<f64>,
}

impl StepReport {
    /// Returns wall-clock time per operation, over all threads.
    pub fn micros(&self) -> f64 {
        if self.ops == 0 || self.ops_per_s <= 0.0 { 0.0 } else { 1e6 / self.ops_per_s }
    }

    /// Formats the report as one line.
    pub fn line(&self) -> String {
        format!(
            "{:<14} {:<16} {:>2} thr {:>10} ops {:>11.0}/s {:>9.3} us  p50 {:>8.2} p99 {:>8.2} p999 {:>9.2} max {:>10.1} us  cpu {:>7.3} us/op  written {:>7.1} MB  disk {:>7.1} MB  rss {:>6.1} MB  found {}",
            self.engine,
            self.bench,
            self.threads,
            self.ops,
            self.ops_per_s,
            self.micros(),
            self.p50_us,
            self.p99_us,
            self.p999_us,
            self.max_us,
            self.cpu_us_per_op,
            self.written_bytes as f64 / 1e6,
            self.disk_bytes as f64 / 1e6,
            self.peak_rss_bytes as f64 / 1e6,
            self.found
        )
    }
}

/// Durations of operations. The clock is read once per operation, so the driver's work between two operations is
/// included.
#[derive(Debug)]
pub struct Laps {
    histogram: Histogram<u64>,
    last: Instant,
}

impl Default for Laps {
    fn default() -> Laps {
        Laps::new()
    }
}

impl Laps {
    /// Creates an empty histogram and starts the clock.
    pub fn new() -> Laps {
        // The bound of one hour exceeds any wait of a step; longer durations saturate.
        let histogram =
            Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap_or_else(|_| unreachable!("constant bounds"));
        Laps { histogram, last: Instant::now() }
    }

    /// Restarts the clock without recording.
    #[inline]
    pub fn restart(&mut self) {
        self.last = Instant::now();
    }

    /// Returns the time of the last clock reading.
    pub fn read_at(&self) -> Instant {
        self.last
    }

    /// Records the end of one operation.
    #[inline]
    pub fn lap(&mut self) {
        self.laps(1);
    }

    /// Records `count` operations since the last reading, each with their mean duration.
    #[inline]
    pub fn laps(&mut self, count: u64) {
        let now = Instant::now();
        let nanos = (now - self.last).as_nanos() as u64;
        self.last = now;
        if count == 1 {
            self.histogram.saturating_record(nanos);
        } else if count > 1 {
            self.histogram.saturating_record_n(nanos / count, count);
        }
    }

    /// Records one operation with a known duration.
    pub fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(time.as_nanos() as u64);
    }

    /// Merges another thread's measurements.
    pub fn absorb(&mut self, other: &Laps) {
        // Equal bounds: no value is out of range.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Returns the duration in microseconds that `share` of the operations did not exceed.
    pub fn quantile_us(&self, share: f64) -> f64 {
        if self.histogram.is_empty() { 0.0 } else { self.histogram.value_at_quantile(share) as f64 / 1e3 }
    }

    /// Returns the number of recorded operations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the longest duration in microseconds.
    pub fn max_us(&self) -> f64 {
        if self.histogram.is_empty() { 0.0 } else { self.histogram.max() as f64 / 1e3 }
    }
}

/// Counters of the process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    cpu: Duration,
    written: u64,
}

impl Counters {
    /// Reads the counters, and resets the peak memory.
    pub fn start() -> Counters {
        // "5" resets VmHWM. If that is denied, the peak covers the process's lifetime, which is only less precise.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        Counters { cpu: cpu_time(), written: written_bytes() }
    }

    /// Returns processor time and bytes written since then.
    pub fn since(&self) -> (Duration, u64) {
        (cpu_time().saturating_sub(self.cpu), written_bytes().saturating_sub(self.written))
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

/// The kernel's `write_bytes`: dirtied pages and direct writes. On a file system without a disk it stays 0; the bytes
/// passed to `write` replace it there.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    match field(&text, "write_bytes:") {
        0 => field(&text, "wchar:"),
        bytes => bytes,
    }
}

/// Returns the peak resident memory since the counters started.
pub fn peak_rss_bytes() -> u64 {
    field(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM:") * 1024
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Returns the disk space below a directory: allocated blocks, so holes are free and preallocation counts.
pub fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Evicts all files below a directory from the page cache, so that the next reads come from the disk. Dirty pages are
/// written first.
pub fn evict(dir: &Path) -> Outcome<()> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.metadata()?.is_dir() {
            evict(&entry.path())?;
            continue;
        }
        let file = std::fs::File::open(entry.path())?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Fails if the disk of `dir` has less than `need` bytes free.
pub fn require_space(dir: &Path, need: u64) -> Outcome<()> {
    std::fs::create_dir_all(dir)?;
    let space = rustix::fs::statvfs(dir)?;
    let left = space.f_bavail.saturating_mul(space.f_frsize);
    if left < need {
        return Err(
            format!("{} has {} MB left, this needs {} MB", dir.display(), left / 1_000_000, need / 1_000_000).into()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_the_first_number_behind_its_name() {
        let text = "rchar: 6976\nwchar: 12\nVmHWM:\t  2048 kB\n";
        assert_eq!(field(text, "wchar:"), 12);
        assert_eq!(field(text, "VmHWM:"), 2048);
        assert_eq!(field(text, "absent:"), 0);
    }

    #[test]
    fn laps_give_each_of_many_operations_the_mean() {
        let mut laps = Laps::new();
        laps.last -= Duration::from_millis(100);
        laps.laps(1000);
        let p50 = laps.quantile_us(0.5);
        assert!((100.0..130.0).contains(&p50), "{p50}");
        laps.last -= Duration::from_millis(50);
        laps.lap();
        assert!(laps.max_us() >= 50_000.0 && laps.quantile_us(0.5) < 130.0);
    }

    #[test]
    fn a_directory_holds_what_its_files_hold() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("below")).expect("created");
        std::fs::write(dir.path().join("below/file"), vec![1u8; 100_000]).expect("written");
        std::fs::File::create(dir.path().join("hole")).and_then(|file| file.set_len(1 << 30)).expect("a hole");
        let file = std::fs::File::open(dir.path().join("below/file")).expect("opened");
        file.sync_all().expect("synced");
        let bytes = disk_bytes(dir.path());
        assert!((100_000..1_000_000).contains(&bytes), "{bytes}");
    }
}
