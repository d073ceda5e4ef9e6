//! Stores that are busy with a callback.
//!
//! While a callback runs, the store that calls it is *busy* for that thread: every call on this store returns
//! `WAXSEAL_INVALID`, since the store may be in the middle of any operation. Other stores, and objects without a store,
//! may be used.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};

use face::StoreId;

use crate::failure::{Failure, Result};

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
pub(crate) fn refuse_reentry(store: Option<StoreId>) -> Result<()> {
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
