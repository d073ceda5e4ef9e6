//! Clocks and counters, all from outside the store: the process's own, as the kernel keeps them.

use crate::Outcome;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// One step of one engine, as the contract prints it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepReport {
    /// Which store.
    pub engine: String,
    /// Which step.
    pub bench: String,
    /// How many threads drove it.
    pub threads: u64,
    /// Operations done: records written, keys asked for, rows passed.
    pub ops: u64,
    /// Operations a second, over all threads.
    pub ops_per_s: f64,
    /// Half of the operations took at most this long.
    pub p50_us: f64,
    /// 99 % took at most this long.
    pub p99_us: f64,
    /// 99.9 % took at most this long.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Processor time of the whole process, background work included.
    pub cpu_us_per_op: f64,
    /// Bytes that the process caused to be written to the disk.
    pub written_bytes: u64,
    /// Space that the store holds after the step.
    pub disk_bytes: u64,
    /// Most memory resident during the step.
    pub peak_rss_bytes: u64,
    /// Keys found; rows of a scan.
    pub found: u64,
    /// The longest that a write waited for the store itself since it was opened, of a store that counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_wait_us: Option<f64>,
}

impl StepReport {
    /// Wall-clock time an operation, all threads together.
    pub fn micros(&self) -> f64 {
        if self.ops == 0 || self.ops_per_s <= 0.0 { 0.0 } else { 1e6 / self.ops_per_s }
    }

    /// One line for a person.
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

/// How long operations took: one clock reading an operation, so the driver's own work between two operations is inside.
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
    /// Nothing measured yet; the clock runs.
    pub fn new() -> Laps {
        // An hour in nanoseconds is above anything a step waits for; longer saturates.
        let histogram =
            Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap_or_else(|_| unreachable!("constant bounds"));
        Laps { histogram, last: Instant::now() }
    }

    /// The clock starts again, nothing is recorded.
    #[inline]
    pub fn restart(&mut self) {
        self.last = Instant::now();
    }

    /// When the clock was read last.
    pub fn read_at(&self) -> Instant {
        self.last
    }

    /// One operation ended.
    #[inline]
    pub fn lap(&mut self) {
        self.laps(1);
    }

    /// `count` operations ended since the last reading; each is given the mean.
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

    /// One operation of a known length.
    pub fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(time.as_nanos() as u64);
    }

    /// Takes in what another thread measured.
    pub fn absorb(&mut self, other: &Laps) {
        // Both have the same bounds, so nothing can be out of range.
        let _ = self.histogram.add(&other.histogram);
    }

    /// The time below which `share` of the operations stayed, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        if self.histogram.is_empty() { 0.0 } else { self.histogram.value_at_quantile(share) as f64 / 1e3 }
    }

    /// How many operations were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The longest, in microseconds.
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
    /// Reads them, and lets the peak of memory start again from now.
    pub fn start() -> Counters {
        // "5" resets VmHWM; where it is refused the peak covers the whole process, which is only less precise.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        Counters { cpu: cpu_time(), written: written_bytes() }
    }

    /// Processor time and bytes written since.
    pub fn since(&self) -> (Duration, u64) {
        (cpu_time().saturating_sub(self.cpu), written_bytes().saturating_sub(self.written))
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

/// `write_bytes` of the kernel: pages dirtied and direct writes. On a file system without a disk it stays 0, and bytes handed to
/// `write` stand in.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    match field(&text, "write_bytes:") {
        0 => field(&text, "wchar:"),
        bytes => bytes,
    }
}

/// Most memory resident since the counters started.
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

/// Space that everything below a directory holds: blocks, not lengths, so a hole costs nothing and preallocation does.
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

/// Drives all files below a directory out of the page cache, so that the next reads come from the disk. What is dirty is written first.
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

/// Fails if the disk that holds `dir` has less than `need` bytes left.
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
