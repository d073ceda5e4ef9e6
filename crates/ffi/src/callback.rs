//! Calls out, into functions that the caller gave us.
//!
//! In:     a function, the `context` it wants to see again, and perhaps a function that ends that context.
//! Holds:  while one of them runs, the store that calls it is *busy* for that thread: whatever the function asks of this store answers
//!         `WAXSEAL_INVALID`, since the store may be in the middle of anything. Other stores, and what belongs to no store, may be used.
//!         A function that fails says so by its status, and why by an error that it makes; the call in which it ran answers
//!         `WAXSEAL_CALLBACK` with that reason.
//! Trust:  that a function does not unwind or jump out of itself, and that `context` may be used by whatever thread calls.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use face::{Error, Result, StoreId};

use crate::error::{Failure, taken_message, waxseal_error_t};

/// The store that calls functions of the caller. While it is being opened it has no handles, and nobody to protect it from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller(Arc<Calling>);

/// Calls a function that may run in the middle of any call: every store is busy for this thread meanwhile.
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
    /// This store.
    pub(crate) fn of(store: StoreId) -> Caller {
        let caller = Caller::default();
        caller.is(store);
        caller
    }

    /// The store was opened.
    pub(crate) fn is(&self, store: StoreId) {
        let _ = self.0.store.set(store); // once
    }

    /// The store, once it was opened.
    pub(crate) fn store(&self) -> Option<StoreId> {
        self.0.store.get().copied()
    }

    /// Notes that a comparator failed.
    pub(crate) fn fail(&self, comparator: &str) {
        let _ = self.0.failed.set(comparator.to_owned()); // the first one counts
    }

    /// The comparator that failed.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.0.failed.get().map(String::as_str)
    }

    /// Calls a function, with the store busy for this thread.
    pub(crate) fn calls<T>(&self, function: impl FnOnce() -> T) -> T {
        let _busy = self.0.store.get().map(|store| Busy::enter(Some(*store)));
        function()
    }
}

thread_local! {
    /// How many functions run on this thread, one called from inside the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The stores that called them.
    /// `None` stands for every store.
    static STORES: RefCell<Vec<Option<StoreId>>> = const { RefCell::new(Vec::new()) };
}

/// That a function runs; ends also when something unwinds.
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

/// True inside a function that a store called.
#[inline]
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// `Invalid` inside a function that this store called.
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

/// Ends a context; called once, after its last use, on whatever thread that was.
pub type waxseal_destroy_fn = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// What a function of the caller wants to see again.
pub(crate) struct Context {
    pointer: *mut c_void,
    destroy: waxseal_destroy_fn,
}

// SAFETY: the header asks of whoever hands in a context that it may be used by any thread.
unsafe impl Send for Context {}
// SAFETY: likewise, and by several at once.
unsafe impl Sync for Context {}

impl Context {
    /// One that `destroy`, if there is such a function, ends together with this.
    pub(crate) fn new(pointer: *mut c_void, destroy: waxseal_destroy_fn) -> Context {
        Context { pointer, destroy }
    }

    /// As it came.
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

/// A function of the caller failed, and this is why.
#[derive(Debug)]
struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Calls a function of the caller that answers a status, and may leave an error in the place that it is given. What it leaves is ended.
/// A negative status is an error, which `has_failed` knows again.
pub(crate) fn ask(caller: &Caller, name: &str, function: impl FnOnce(*mut *mut waxseal_error_t) -> i32) -> Result<i32> {
    let mut reason: *mut waxseal_error_t = std::ptr::null_mut();
    let status = caller.calls(|| function(&mut reason));
    let said = taken_message(reason);
    if status >= 0 {
        return Ok(status);
    }
    Err(failed(name, said.unwrap_or_else(|| format!("it answered {status} and no reason"))))
}

/// That a function of the caller failed, or did what it may not.
#[cold]
pub(crate) fn failed(name: &str, why: String) -> Error {
    failed_as(io::ErrorKind::Other, name, why)
}

/// The same, for whoever makes something of the kind.
#[cold]
pub(crate) fn failed_as(kind: io::ErrorKind, name: &str, why: String) -> Error {
    Error::io(name, io::Error::new(kind, Failed(why)))
}

/// True for an error that a function of the caller is the reason of.
pub(crate) fn has_failed(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<Failed>())
}
