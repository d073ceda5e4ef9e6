//! The paper's monitor: processor, memory and disk of the process in each interval.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use waxseal_bench::Outcome;

use super::plot::Points;

/// Measured values of one interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// End of the interval, in seconds from the start of the monitor.
    pub(super) at_s: f64,
    /// Processor time of the process; 100 is one core.
    pub(super) cpu_percent: f64,
    /// Resident memory of the process, in percent of the machine's.
    pub(super) memory_percent: f64,
    /// Bytes that the process read from the disk and wrote to it. Bytes from the page cache do not count.
    pub(super) read_mb_per_s: f64,
    pub(super) written_mb_per_s: f64,
    /// Share of the interval in which the disk had requests, of all processes. Absent without a disk of its own.
    pub(super) io_percent: Option<f64>,
}

/// A running monitor.
pub(super) struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
    started: Instant,
}

impl Monitor {
    /// Starts a monitor of this process and of the disk of a directory.
    pub(super) fn start(dir: &Path, interval: Duration) -> Outcome<Monitor> {
        let (stop, stopped) = channel();
        let device = std::fs::metadata(dir)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let disk = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        let started = Instant::now();
        let thread = thread::spawn(move || watch(started, interval, &disk, &stopped));
        Ok(Monitor { stop, thread, started })
    }

    /// Returns the seconds since the start.
    pub(super) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Stops the monitor. Returns the samples of all intervals, also of the last and shorter one.
    pub(super) fn stop(self) -> Outcome<Vec<Sample>> {
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| "the monitor failed".into())
    }
}

fn watch(started: Instant, interval: Duration, disk: &Path, stopped: &Receiver<()>) -> Vec<Sample> {
    let memory = field("/proc/meminfo", "MemTotal:").max(1.0);
    let (mut samples, mut before, mut last) = (Vec::new(), Counters::read(disk), started);
    loop {
        let is_over = !matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Timeout));
        let (now, counters) = (Instant::now(), Counters::read(disk));
        let seconds = (now - last).as_secs_f64().max(1e-6);
        let per_second = |of: fn(&Counters) -> f64| (of(&counters) - of(&before)) / seconds;
        samples.push(Sample {
            at_s: (now - started).as_secs_f64(),
            cpu_percent: per_second(|of| of.cpu_s) * 100.0,
            memory_percent: field("/proc/self/status", "VmRSS:") / memory * 100.0,
            read_mb_per_s: per_second(|of| of.read) / 1e6,
            written_mb_per_s: per_second(|of| of.written) / 1e6,
            io_percent: counters.busy_s.zip(before.busy_s).map(|(now, before)| (now - before) / seconds * 100.0),
        });
        if is_over {
            return samples;
        }
        (before, last) = (counters, now);
    }
}

/// Counters of the kernel.
struct Counters {
    cpu_s: f64,
    read: f64,
    written: f64,
    busy_s: Option<f64>,
}

impl Counters {
    fn read(disk: &Path) -> Counters {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let disk = std::fs::read_to_string(disk).ok();
        let busy = disk.and_then(|stat| stat.split_whitespace().nth(9)?.parse::<f64>().ok()); // milliseconds
        Counters {
            cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            read: field("/proc/self/io", "read_bytes:"),
            written: field("/proc/self/io", "write_bytes:"),
            busy_s: busy.map(|millis| millis / 1e3),
        }
    }
}

/// Returns the number behind a name in a file of `/proc`, or 0.
fn field(path: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// Returns a measured value over time.
pub(super) fn over_time(samples: &[Sample], value: impl Fn(&Sample) -> Option<f64>) -> Points {
    samples.iter().filter_map(|sample| Some((sample.at_s, value(sample)?))).collect()
}
