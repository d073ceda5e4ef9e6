//! Background work: real threads at low priority, or steps taken by the engine's caller.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The way in which background work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The engine's own threads.
    Threads,
    /// No thread, until the engine's `step` is called; calls that must wait take the steps themselves. One thread,
    /// deterministic from a seed.
    Stepped,
}

/// Sleeps briefly, for conditions that no signal announces.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Starts a named thread. With `low`, it yields the processor to the caller's threads (nice 5).
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn spawn(name: &str, low: bool, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if low {
            lower_priority();
        }
        run();
    })
}

/// Processes several pieces in parallel: the first in this thread, every other in a low-priority thread of its own.
/// Waits for all and returns the results in order. A piece whose thread cannot be started is processed here, after the
/// first. If a piece panics, this function panics at the end with the same payload.
pub fn side_by_side<P: Send, T: Send>(name: &str, pieces: Vec<P>, run: impl Fn(P) -> T + Sync) -> Vec<T> {
    let slots: Vec<_> = pieces.into_iter().map(|piece| (Mutex::new(Some(piece)), Mutex::new(None))).collect();
    let take = |at: usize| {
        // The first thread that gets here takes the piece.
        let Some((piece, done)) = slots.get(at) else { return };
        if let Some(piece) = lock(piece).take() {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(piece)));
            *lock(done) = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        for at in 1..slots.len() {
            let take = &take;
            let beside = move || {
                lower_priority();
                take(at);
            };
            let _ = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, beside);
        }
        take(0);
    });
    (1..slots.len()).for_each(take);
    let done = slots.into_iter().filter_map(|(_, done)| done.into_inner().unwrap_or_else(PoisonError::into_inner));
    done.map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

fn lower_priority() {
    // On Linux a "process" of setpriority is a thread; a failure only means normal priority.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5);
}

/// A condition that threads wait for: state behind a lock, and a way to wake the waiting threads. Change the state
/// under the lock, then notify.
#[derive(Debug, Default)]
pub struct Signal<T> {
    state: Mutex<T>,
    changed: Bell,
}

impl<T> Signal<T> {
    /// Creates a signal with its initial state.
    pub const fn new(state: T) -> Signal<T> {
        Signal { state: Mutex::new(state), changed: Bell::new() }
    }

    /// Locks the state; hold it briefly, never during I/O.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.state)
    }

    /// Waits for a change or for the timeout.
    pub fn wait<'a>(&'a self, guard: MutexGuard<'a, T>, at_most: Option<Duration>) -> MutexGuard<'a, T> {
        self.changed.wait(guard, at_most)
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.changed.wake_all();
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.changed.wake_one();
    }
}

/// Wakes the threads that wait for one particular change of a state behind a lock, when other threads wait for other
/// changes. Waking costs a system call only if a thread waits. Change the state under the lock, then wake.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Condvar,
    /// Incremented under the lock, so that a thread that changes the state later sees every thread that checked it
    /// before.
    waiting: AtomicUsize,
}

impl Bell {
    /// Creates a bell without waiting threads.
    pub const fn new() -> Bell {
        Bell { rung: Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    /// Waits for the bell or for the timeout; the lock is free meanwhile. A bell must always be used with the same
    /// lock.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>, at_most: Option<Duration>) -> MutexGuard<'a, T> {
        if let Some(time) = at_most {
            return self.wait_at_most(guard, time).0;
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let guard = self.rung.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    /// Waits for the bell, at most for `time`. Returns true if the time has passed.
    pub fn wait_at_most<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> (MutexGuard<'a, T>, bool) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let (guard, ended) = self.rung.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        (guard, ended.timed_out())
    }

    /// Returns the number of threads that wait for it.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Wakes all threads that wait for it.
    pub fn wake_all(&self) {
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.rung.notify_all();
        }
    }

    /// Wakes one thread that waits for it.
    pub fn wake_one(&self) {
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.rung.notify_one();
        }
    }
}

/// Runs work that calls foreign code, such as a comparator; if it panics, `undo` cleans up during unwinding.
#[inline(always)]
pub fn or_undo<T>(work: impl FnOnce() -> T, undo: impl FnOnce()) -> T {
    struct Undo<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Undo<F> {
        #[inline]
        fn drop(&mut self) {
            if let Some(undo) = self.0.take() {
                undo();
            }
        }
    }
    let mut armed = Undo(Some(undo));
    let outcome = work();
    armed.0 = None;
    outcome
}

/// Locks a mutex even if it is poisoned: the engine never leaves a guarded value partially changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex without waiting; `None` if it is held.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_a_panic_has_passed_is_taken_and_one_that_is_held_is_not() {
        let mutex = Mutex::new(1);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _held = mutex.lock().unwrap();
            panic!("in the midst of it");
        }));
        let held = try_lock(&mutex);
        assert_eq!(held.as_deref(), Some(&1));
        assert!(try_lock(&mutex).is_none());
    }

    #[test]
    fn each_piece_is_done_once_and_what_comes_of_it_stands_in_its_place() {
        let done = AtomicUsize::new(0);
        let doubled = side_by_side("test", (0..20).collect(), |piece: usize| {
            done.fetch_add(1, Ordering::Relaxed);
            piece * 2
        });
        assert_eq!(doubled, (0..20).map(|piece| piece * 2).collect::<Vec<_>>());
        assert_eq!(done.load(Ordering::Relaxed), 20);
        assert_eq!(side_by_side("test", Vec::<u8>::new(), |piece| piece), []);
    }

    #[test]
    fn a_piece_that_panics_does_so_in_the_end_and_with_its_own_words() {
        let done = AtomicUsize::new(0);
        let pieces = || {
            side_by_side("test", (0..8).collect(), |piece: usize| {
                done.fetch_add(1, Ordering::Relaxed);
                assert_ne!(piece, 5, "the fifth");
            })
        };
        let panic = catch_unwind(AssertUnwindSafe(pieces)).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("the fifth"));
        assert_eq!(done.load(Ordering::Relaxed), 8);
    }

    #[test]
    fn what_a_panic_would_leave_behind_is_undone() {
        let undone = AtomicUsize::new(0);
        let undo = || {
            undone.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(or_undo(|| 7, undo), 7);
        assert_eq!(undone.load(Ordering::Relaxed), 0);
        assert!(catch_unwind(AssertUnwindSafe(|| or_undo(|| panic!("no"), undo))).is_err());
        assert_eq!(undone.load(Ordering::Relaxed), 1);
    }
}
