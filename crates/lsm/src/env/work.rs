//! Background work: real threads at low priority, or steps taken by whoever drives the engine.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Who does background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The engine's own threads.
    Threads,
    /// Nobody, until the engine's `step` is called; calls that must wait take the steps themselves. One thread, from a seed.
    Stepped,
}

/// Waits a moment, where no signal can be waited for.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Starts a named thread. A `low` one yields the processor to the caller's threads (nice 5).
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn spawn(name: &str, low: bool, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if low {
            lower_priority();
        }
        run();
    })
}

/// Does something with each of several pieces, the first in this thread and each other beside it in one of its own at low
/// priority, and waits for all: what came of them, in their order. A piece whose thread cannot be had is done here, after the first. One
/// that panics does so here in the end, as it would have without the others.
pub fn side_by_side<P: Send, T: Send>(name: &str, pieces: Vec<P>, run: impl Fn(P) -> T + Sync) -> Vec<T> {
    let slots: Vec<_> = pieces.into_iter().map(|piece| (Mutex::new(Some(piece)), Mutex::new(None))).collect();
    let take = |at: usize| {
        // Whoever comes first takes the piece.
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
    // On Linux a "process" of setpriority is a thread; refusal only costs politeness.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5);
}

/// Something that threads wait for: state behind a lock, and a way to wake who waits. Change the state under the lock, then notify.
#[derive(Debug, Default)]
pub struct Signal<T> {
    state: Mutex<T>,
    changed: Bell,
}

impl<T> Signal<T> {
    /// A signal with its first state.
    pub const fn new(state: T) -> Signal<T> {
        Signal { state: Mutex::new(state), changed: Bell::new() }
    }

    /// The state; held briefly, never over I/O.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.state)
    }

    /// Waits for a change, or for the time to pass.
    pub fn wait<'a>(&'a self, guard: MutexGuard<'a, T>, at_most: Option<Duration>) -> MutexGuard<'a, T> {
        self.changed.wait(guard, at_most)
    }

    /// Wakes everyone who waits.
    pub fn notify_all(&self) {
        self.changed.wake_all();
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        self.changed.wake_one();
    }
}

/// Wakes those who wait for one change of a state behind a lock, where others wait for others. Waking costs a system call only
/// if somebody waits. Change the state under the lock, then wake.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Condvar,
    /// Counted up under the lock, so that who changes the state after a look sees who looked.
    waiting: AtomicUsize,
}

impl Bell {
    /// A bell that nobody waits for.
    pub const fn new() -> Bell {
        Bell { rung: Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    /// Waits for the bell, or for the time to pass; the lock is free meanwhile. One bell has one lock.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>, at_most: Option<Duration>) -> MutexGuard<'a, T> {
        if let Some(time) = at_most {
            return self.wait_at_most(guard, time).0;
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let guard = self.rung.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    /// Waits for the bell, at most for so long; true: the time passed.
    pub fn wait_at_most<'a, T>(&self, guard: MutexGuard<'a, T>, time: Duration) -> (MutexGuard<'a, T>, bool) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let (guard, ended) = self.rung.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        (guard, ended.timed_out())
    }

    /// How many wait for it now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Wakes everyone who waits for it.
    pub fn wake_all(&self) {
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.rung.notify_all();
        }
    }

    /// Wakes one who waits for it.
    pub fn wake_one(&self) {
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.rung.notify_one();
        }
    }
}

/// Does some work that calls what is not ours, a comparator say, and if that panics sees on the way out to what must not be left behind.
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

/// Locks a mutex whether or not a panic passed it: the engine never leaves a guarded value half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for whoever does not wait; none: somebody holds it.
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
