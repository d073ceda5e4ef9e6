//! A network link of a given rate that several clients share: they wait until their bytes have passed.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Bytes that pass at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A link; without a rate it is unlimited.
pub(super) struct Link {
    rate: Option<f64>,
    /// The time at which all bytes so far have passed.
    free: Mutex<Instant>,
}

impl Link {
    /// Returns a link of this many bytes per second.
    pub(super) fn new(rate: Option<f64>) -> Link {
        Link { rate, free: Mutex::new(Instant::now()) }
    }

    /// Waits until these bytes have passed behind those of other clients.
    fn pass(&self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        let now = Instant::now();
        let passed = {
            let mut free = self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *free = passed(*free, now, Duration::from_secs_f64(bytes as f64 / rate));
            *free
        };
        std::thread::sleep(passed.saturating_duration_since(now));
    }

    /// Returns a source or sink whose bytes pass through the link.
    pub(super) fn through<T>(&self, inner: T) -> Through<'_, T> {
        Through { link: self, inner, bytes: 0 }
    }
}

/// Returns when bytes that take a time have passed a link that is free at a time. A sleep ends late, so a link that was
/// idle for a moment makes up for it.
fn passed(free: Instant, now: Instant, takes: Duration) -> Instant {
    const SLACK: Duration = Duration::from_millis(10);
    free.max(now.checked_sub(SLACK).unwrap_or(now)) + takes
}

/// A source or sink behind a link.
pub(super) struct Through<'a, T> {
    link: &'a Link,
    inner: T,
    /// Bytes that have passed.
    pub(super) bytes: u64,
}

impl<T: Read> Read for Through<'_, T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = out.len().min(PIECE_BYTES);
        let read = self.inner.read(&mut out[..length])?;
        self.link.pass(read);
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<T: Write> Write for Through<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(&bytes[..bytes.len().min(PIECE_BYTES)])?;
        self.link.pass(written);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_unchanged_and_are_counted() {
        let link = Link::new(Some(1e9));
        let bytes: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
        let mut source = link.through(bytes.as_slice());
        let mut sink = link.through(Vec::new());
        io::copy(&mut source, &mut sink).expect("copied");
        assert_eq!((source.bytes, sink.bytes, sink.inner == bytes), (200_000, 200_000, true));
    }

    #[test]
    fn a_slow_link_is_taken_in_turn() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let first = passed(start, start, second);
        assert_eq!(first, start + second);
        assert_eq!(passed(first, start, second), start + 2 * second, "behind the first");
        let late = start + 10 * second;
        assert_eq!(passed(first, late, second), late + second - Duration::from_millis(10), "idle time is lost");
    }
}
