//! Stores whose comparator has failed.
//!
//! Reads, writes, flushes and background compactions compare keys. These operations cannot continue without a result,
//! and must not continue with a wrong result. A comparator that fails once has therefore failed its store until the
//! store is reopened: every call on the store, whether it began before or after the failure, returns
//! `WAXSEAL_CALLBACK` instead of its result. Acknowledged commits are in the log: the store is intact after a reopen.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};
use std::sync::{Mutex, PoisonError};

use face::StoreId;

use crate::failure::{Failure, Result, WAXSEAL_CALLBACK};
use crate::reentry::Caller;

/// Stores whose comparator failed, the address of the comparator, and its name.
static FAILED: Mutex<Vec<(StoreId, usize, String)>> = Mutex::new(Vec::new());
/// The length of `FAILED`.
static ANY: AtomicUsize = AtomicUsize::new(0);

fn failed() -> std::sync::MutexGuard<'static, Vec<(StoreId, usize, String)>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that a comparator, known by its address, failed in the store that calls it.
pub(crate) fn record(caller: &Caller, comparator: usize, name: &str) {
    let mut failed = failed();
    caller.fail(name);
    if let Some(store) = caller.store() {
        failed.push((store, comparator, name.to_owned()));
        ANY.store(failed.len(), Memory::Release);
    }
}

/// Forgets a comparator whose store is gone: another store may reuse the store's id.
pub(crate) fn forget(comparator: usize) {
    let mut failed = failed();
    failed.retain(|(_, other, _)| *other != comparator);
    ANY.store(failed.len(), Memory::Release);
}

/// Returns `WAXSEAL_CALLBACK` if the comparator of this store has failed.
#[inline]
pub(crate) fn check(store: impl FnOnce() -> Option<StoreId>) -> Result<()> {
    if ANY.load(Memory::Acquire) == 0 { Ok(()) } else { store().map_or(Ok(()), check_store) }
}

#[cold]
fn check_store(store: StoreId) -> Result<()> {
    let failed = failed();
    let name = failed.iter().find(|(other, ..)| *other == store).map(|(.., name)| name);
    name.map_or(Ok(()), |name| Err(has_failed(name)))
}

thread_local! {
    /// The comparator failure of the store in whose object a call of this thread just panicked.
    static UNWOUND: Cell<Option<Failure>> = const { Cell::new(None) };
}

/// Guards a call on an object of a store. If the call panics in a store whose comparator has failed, the comparator is
/// the reason: the consequences of a wrong order are not a bug of the library.
pub(crate) struct OrderGuard<F: Fn() -> Option<StoreId>>(pub(crate) F);

impl<F: Fn() -> Option<StoreId>> Drop for OrderGuard<F> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Err(failure) = check(&self.0)
        {
            let _ = UNWOUND.try_with(|unwound| unwound.set(Some(failure))); // the thread may be ending
        }
    }
}

/// Returns the reason why this thread's call panicked, if it is known.
pub(crate) fn unwound() -> Option<Failure> {
    UNWOUND.try_with(Cell::take).ok().flatten()
}

/// Binds the caller to its opened store, unless a comparator failed before.
pub(crate) fn opened(caller: &Caller, store: StoreId) -> Result<()> {
    let _failed = failed(); // no comparator fails between `is` and the check
    caller.is(store);
    check_opening(caller)
}

/// Returns `WAXSEAL_CALLBACK` if a comparator failed while its store was being opened.
pub(crate) fn check_opening(caller: &Caller) -> Result<()> {
    caller.failed().map_or(Ok(()), |name| Err(has_failed(name)))
}

fn has_failed(name: &str) -> Failure {
    let message = format!("the comparator {name:?} could not compare two keys; close the store and open it again");
    Failure::Call(WAXSEAL_CALLBACK, message.into())
}
