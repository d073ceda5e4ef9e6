//! Rate limit and progress of a backup, its verification and its restore.

use std::fmt;
use std::ops::ControlFlow;

use crate::env::{Clock, Origin};
use crate::error::{Error, ErrorKind, Result};
use crate::interrupt;

/// Progress in bytes of the files of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes copied or checked so far, and bytes of files that needed no copy; at most `total`.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// Called about once per mebibyte, and at the end; `Break` ends the call with an `Interrupted` error.
pub type BackupWatch<'a> = &'a mut dyn FnMut(BackupProgress) -> ControlFlow<()>;

/// Options of a backup, its verification and its restore.
#[derive(Default)]
pub struct BackupOptions<'a> {
    /// Rate limit of the bytes that are copied or checked; `None` means unlimited.
    pub bytes_per_second: Option<u64>,
    /// Progress callback.
    pub progress: Option<BackupWatch<'a>>,
}

impl fmt::Debug for BackupOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupOptions").field("bytes_per_second", &self.bytes_per_second).finish_non_exhaustive()
    }
}

/// Longest sleep between two calls of the progress callback.
const NAP_NANOS: u64 = 50_000_000;

/// Counts the bytes of a call, reports them, and sleeps as the rate limit requires.
pub(super) struct Pace<'a, 'o> {
    options: &'a mut BackupOptions<'o>,
    clock: &'a dyn Clock,
    started: u64,
    /// Bytes that count for the rate limit.
    moved: u64,
    progress: BackupProgress,
    origin: Origin,
}

impl<'a, 'o> Pace<'a, 'o> {
    pub(super) fn new(options: &'a mut BackupOptions<'o>, clock: &'a dyn Clock, total: u64) -> Pace<'a, 'o> {
        let progress = BackupProgress { done: 0, total };
        Pace { options, clock, started: clock.monotonic_nanos(), moved: 0, progress, origin: Origin::here() }
    }

    /// Counts bytes that needed no work.
    pub(super) fn skipped(&mut self, bytes: u64) -> Result<()> {
        self.progress.done = self.progress.done.saturating_add(bytes).min(self.progress.total);
        self.report()
    }

    /// Counts bytes that were copied or checked. Errors: `Interrupted` if the callback or the caller's interrupt ends
    /// the call.
    pub(super) fn moved(&mut self, bytes: u64) -> Result<()> {
        self.moved += bytes;
        self.skipped(bytes)?;
        let Some(rate) = self.options.bytes_per_second.filter(|rate| *rate > 0) else { return Ok(()) };
        let due = u128::from(self.moved) * 1_000_000_000 / u128::from(rate);
        loop {
            let passed = u128::from(self.clock.monotonic_nanos().saturating_sub(self.started));
            match u64::try_from(due.saturating_sub(passed)).unwrap_or(u64::MAX) {
                0 => return Ok(()),
                left => self.clock.sleep_nanos(left.min(NAP_NANOS)),
            }
            self.report()?;
        }
    }

    /// Returns false in a forked child: the callback may fork.
    pub(super) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    fn report(&mut self) -> Result<()> {
        interrupt::check()?;
        match self.options.progress.as_mut().map(|watch| watch(self.progress)) {
            _ if !self.is_here() => Err(Error::invalid("forked: the call belongs to the parent process")),
            Some(ControlFlow::Break(())) => Err(Error::of(ErrorKind::Interrupted, "ended by the progress callback")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::ManualClock;

    #[test]
    fn the_rate_holds_and_a_break_ends_the_call() {
        let clock = ManualClock::default();
        let mut told = Vec::new();
        let mut watch = |progress: BackupProgress| {
            told.push(progress.done);
            if progress.done > 2_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut options = BackupOptions { bytes_per_second: Some(1_000), progress: Some(&mut watch) };
        let mut pace = Pace::new(&mut options, &clock, 10_000);
        pace.skipped(500).unwrap();
        assert_eq!(clock.monotonic_nanos(), 0, "files that need no copy cost no time");
        pace.moved(1_500).unwrap();
        assert_eq!(clock.monotonic_nanos(), 1_500_000_000);
        assert_eq!(*pace.moved(1).unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!((told[0], told[1], *told.last().unwrap()), (500, 2_000, 2_001));
    }
}
