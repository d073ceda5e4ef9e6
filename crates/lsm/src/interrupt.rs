//! Interrupts: lets a caller end a long call on one of its threads.
//!
//! In:    one function per thread (`set`), which is called on that thread.
//! Out:   calls that may take longer than a tenth of a second call it regularly (`check`), and return `Interrupted`
//!        once it returns true. Finished work is kept. Unfinished work is undone as after any other error, and may be
//!        requested again.
//! Costs: one load of a thread-local flag on threads without such a function, including the engine's own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::env::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};

/// Minimum time between two calls of the function: 10 ms.
const LEAST_NANOS: u64 = 10_000_000;

thread_local! {
    static IS_SET: Cell<bool> = const { Cell::new(false) };
    static HOOK: RefCell<Option<Rc<InterruptHook>>> = const { RefCell::new(None) };
}

struct InterruptHook {
    asks: Box<dyn Fn() -> bool>,
    clock: SystemClock,
    next_nanos: Cell<u64>,
}

/// Sets the function that long calls of this thread use to ask whether they should end. `None` removes it.
///
/// The function must not call a store that is calling it.
pub fn set(asks: Option<Box<dyn Fn() -> bool>>) {
    IS_SET.set(asks.is_some());
    let hook = asks.map(|asks| Rc::new(InterruptHook { asks, clock: SystemClock::new(), next_nanos: Cell::new(0) }));
    HOOK.with(|place| place.replace(hook));
}

/// Returns true if this thread has an interrupt function.
#[inline]
pub fn is_set() -> bool {
    IS_SET.get()
}

/// Returns `Interrupted` if the thread's function returns true. Calls it at most once per 10 ms.
#[inline]
pub fn check() -> Result<()> {
    if is_set() && is_due() { ask() } else { Ok(()) }
}

/// As `check`, but always calls the function.
#[cold]
pub fn ask() -> Result<()> {
    let hook = HOOK.with(|place| place.borrow().clone());
    match hook.is_some_and(|hook| (hook.asks)()) {
        true => Err(Error::of(ErrorKind::Interrupted, "interrupted by the caller")),
        false => Ok(()),
    }
}

#[cold]
fn is_due() -> bool {
    let Some(hook) = HOOK.with(|place| place.borrow().clone()) else { return false };
    let now = hook.clock.monotonic_nanos();
    let is_due = now >= hook.next_nanos.get();
    if is_due {
        hook.next_nanos.set(now + LEAST_NANOS);
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_asked_while_it_has_a_function() {
        assert!(check().is_ok() && ask().is_ok());
        let stops = Rc::new(Cell::new(false));
        let asked = stops.clone();
        set(Some(Box::new(move || asked.get())));
        assert!(ask().is_ok());
        stops.set(true);
        assert_eq!(*ask().unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(std::thread::scope(|scope| scope.spawn(ask).join()).unwrap().is_ok(), "another thread asks nobody");
        set(None);
        assert!(check().is_ok() && ask().is_ok());
    }
}
