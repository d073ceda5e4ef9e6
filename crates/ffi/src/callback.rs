//! Calls of callbacks, functions that the caller supplied.
//!
//! In:     a function, the `context` that it receives, and optionally a function that destroys that context.
//! Holds:  while a callback runs, the store that calls it is *busy* for that thread: every call on this store returns
//!         `WAXSEAL_INVALID`, since the store may be in the middle of any operation. Other stores, and objects without
//!         a store, may be used. A callback reports failure by its status, and the reason by an error that it creates;
//!         the call in which it ran returns `WAXSEAL_CALLBACK` with that reason.
//! Trust:  that a callback does not unwind or `longjmp` out of itself, and that any thread may use `context`.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use face::{Error, Result, StoreId};

use crate::error::{Failure, taken_message, waxseal_error_t};

/// The store that calls callbacks. While the store is being opened, it has no handles, so reentry is impossible.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller(Arc<Calling>);

/// Runs a callback that may occur in the middle of any call: meanwhile every store is busy for this thread.
pub(crate) fn calls_from_any<T>(function: impl FnOnce() -> T) -> T {
    let _busy = Busy::enter(None);
    function()
}

#[derive(Debug, Default)]
struct Calling {
    store: OnceLock<StoreId>,
    /// The comparator that failed while the store was opened.
    failed: OnceLock<String>,
}

impl Caller {
    /// Returns a caller for this store.
    pub(crate) fn of(store: StoreId) -> Caller {
        let caller = Caller::default();
        caller.is(store);
        caller
    }

    /// Sets the store, once it is open.
    pub(crate) fn is(&self, store: StoreId) {
        let _ = self.0.store.set(store); // a second call has no effect
    }

    /// Returns the store, once it is open.
    pub(crate) fn store(&self) -> Option<StoreId> {
        self.0.store.get().copied()
    }

    /// Records that a comparator failed.
    pub(crate) fn fail(&self, comparator: &str) {
        let _ = self.0.failed.set(comparator.to_owned()); // the first failure is kept
    }

    /// Returns the comparator that failed.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.0.failed.get().map(String::as_str)
    }

    /// Runs a callback, with the store busy for this thread.
    pub(crate) fn calls<T>(&self, function: impl FnOnce() -> T) -> T {
        let _busy = self.0.store.get().map(|store| Busy::enter(Some(*store)));
        function()
    }
}

thread_local! {
    /// Number of callbacks that run on this thread, nested in each other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The stores that called them; `None` stands for every store.
    static STORES: RefCell<Vec<Option<StoreId>>> = const { RefCell::new(Vec::new()) };
}

/// Guard of a running callback; its drop also runs on unwinding.
struct Busy;

impl Busy {
    fn enter(store: Option<StoreId>) -> Busy {
        let _ = STORES.try_with(|stores| stores.borrow_mut().push(store)); // the thread may be ending
        DEPTH.set(DEPTH.get() + 1);
        Busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        let _ = STORES.try_with(|stores| stores.borrow_mut().pop());
    }
}

/// True inside a callback.
#[inline]
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Returns `Invalid` inside a callback of this store.
#[cold]
pub(crate) fn refuse_reentry(store: Option<StoreId>) -> crate::error::Result<()> {
    let is_busy = |store| {
        let is_it = |busy: &Option<StoreId>| busy.is_none_or(|busy| busy == store);
        STORES.try_with(|stores| stores.borrow().iter().any(is_it)).unwrap_or(false)
    };
    match store {
        Some(store) if is_busy(store) => Err(Failure::invalid(
            "the store was called from inside a function that it calls itself; call it when that has returned",
        )),
        _ => Ok(()),
    }
}

/// Destroys a context. Called once, after the last use of the context, on the thread that used it last.
pub type waxseal_destroy_fn = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// The context of a callback.
pub(crate) struct Context {
    pointer: *mut c_void,
    destroy: waxseal_destroy_fn,
}

// SAFETY: the header requires that any thread may use a context.
unsafe impl Send for Context {}
// SAFETY: likewise, and several threads at once.
unsafe impl Sync for Context {}

impl Context {
    /// Wraps a context, which `destroy`, if set, destroys when this value is dropped.
    pub(crate) fn new(pointer: *mut c_void, destroy: waxseal_destroy_fn) -> Context {
        Context { pointer, destroy }
    }

    /// Returns the caller's pointer.
    pub(crate) fn get(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy.take() {
            // SAFETY: the header promises one call, after the last use, and this is it.
            unsafe { destroy(self.pointer) }
        }
    }
}

/// A callback failed; holds the reason.
#[derive(Debug)]
struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Runs a callback that returns a status and may leave an error in the place that it receives. Destroys that error. A
/// negative status becomes an error that `has_failed` recognizes.
pub(crate) fn ask(caller: &Caller, name: &str, function: impl FnOnce(*mut *mut waxseal_error_t) -> i32) -> Result<i32> {
    let mut reason: *mut waxseal_error_t = std::ptr::null_mut();
    let status = caller.calls(|| function(&mut reason));
    let said = taken_message(reason);
    if status >= 0 {
        return Ok(status);
    }
    Err(failed(name, said.unwrap_or_else(|| format!("it answered {status} and no reason"))))
}

/// Returns the error of a callback that failed or broke its contract.
#[cold]
pub(crate) fn failed(name: &str, why: String) -> Error {
    failed_as(io::ErrorKind::Other, name, why)
}

/// As `failed`, with the kind of the I/O error.
#[cold]
pub(crate) fn failed_as(kind: io::ErrorKind, name: &str, why: String) -> Error {
    Error::io(name, io::Error::new(kind, Failed(why)))
}

/// True for an error that a callback caused.
pub(crate) fn has_failed(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<Failed>())
}
