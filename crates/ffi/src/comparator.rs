//! Key orders that a caller supplies.
//!
//! Reads, writes, flushes and background compactions compare keys. These operations cannot continue without a result,
//! and must not continue with a wrong result. A comparator that fails once has therefore failed its store until the
//! store is reopened:
//!
//! - Keys with different bytes compare as *greater* from then on. A search therefore terminates, and a writer of sorted
//!   records finds them out of order, which the engine refuses to write.
//! - Every call on the store, whether it began before or after the failure, returns `WAXSEAL_CALLBACK` instead of its
//!   result.
//! - Acknowledged commits are in the log: the store is intact after a reopen.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};
use std::sync::{Arc, Mutex, PoisonError};

use face::{Comparator, Order, StoreId};

use crate::call::{answer, status_of};
use crate::callback::{Caller, Context, waxseal_destroy_fn};
use crate::error::{Failure, Result, WAXSEAL_CALLBACK, waxseal_error_t};
use crate::family_options::{set_order, waxseal_family_options_t};
use crate::lent::{Lent, lent, out};
use crate::options::{set_calling, waxseal_options_t};

/// A comparator returns this value if it cannot compare.
pub const WAXSEAL_COMPARE_FAILED: i32 = i32::MIN;

/// Compares two keys: negative if `a` sorts before `b`, 0 if they are equal, positive if `a` sorts after `b`. Both keys
/// are valid during the call only. The order must be total and must never change: the store is laid out by it. Keys
/// with the same bytes are equal, and the comparator is not called for them. Called on any thread, concurrently. It
/// must not call the store whose keys it compares.
///
/// `WAXSEAL_COMPARE_FAILED` means that it cannot compare. From then on every call on this store, the running one
/// included, returns `WAXSEAL_CALLBACK`. Acknowledged commits are present after the store is closed and reopened.
pub type waxseal_compare_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, a: *const u8, a_len: usize, b: *const u8, b_len: usize) -> i32>;

/// Maximum number of calls for one comparison. Each signal discards one result; then the comparator has failed.
const MOST_ATTEMPTS: usize = 16;

thread_local! {
    /// The comparison that runs on this thread is to be repeated.
    static AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// A comparator that a caller gave, for any stores.
pub(crate) struct Given {
    name: String,
    function: unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> i32,
    equal_means_same_bytes: bool,
    context: Context,
}

impl Given {
    /// Validates the caller's comparator. On an error the context is destroyed.
    fn new(
        name: Lent<'_>,
        function: waxseal_compare_fn,
        equal_means_same_bytes: bool,
        context: Context,
    ) -> Result<Arc<Given>> {
        let name = name.text("name of the comparator")?.to_owned();
        let function = function.ok_or_else(|| Failure::invalid("the comparator is a null pointer"))?;
        if name.is_empty() {
            return Err(Failure::invalid("a comparator needs a name: the store keeps it"));
        }
        Ok(Arc::new(Given { name, function, equal_means_same_bytes, context }))
    }

    /// Returns the order for one store.
    pub(crate) fn order_of(self: &Arc<Given>, caller: &Caller) -> Order {
        Order::custom(self.comparator_of(caller))
    }

    fn comparator_of(self: &Arc<Given>, caller: &Caller) -> Arc<dyn Comparator> {
        Arc::new(GivenOf { given: Arc::clone(self), caller: caller.clone(), has_failed: AtomicBool::new(false) })
    }
}

/// The comparator of one store.
struct GivenOf {
    given: Arc<Given>,
    caller: Caller,
    has_failed: AtomicBool,
}

impl Comparator for GivenOf {
    fn name(&self) -> &str {
        &self.given.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        if self.has_failed.load(Memory::Acquire) {
            return Ordering::Greater;
        }
        let said = self.ask(a, b);
        if said == WAXSEAL_COMPARE_FAILED {
            self.fail();
            return Ordering::Greater;
        }
        said.cmp(&0)
    }

    fn equal_means_same_bytes(&self) -> bool {
        self.given.equal_means_same_bytes
    }
}

impl GivenOf {
    /// What the function says, once it does not take that back.
    fn ask(&self, a: &[u8], b: &[u8]) -> i32 {
        let Given { function, context, .. } = &*self.given;
        let outer = AGAIN.replace(false); // of a comparator that called another store
        let mut attempts = (0..MOST_ATTEMPTS).map(|_| {
            // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
            let call = || unsafe { function(context.get(), a.as_ptr(), a.len(), b.as_ptr(), b.len()) };
            let said = self.caller.calls(call);
            (!AGAIN.replace(false)).then_some(said)
        });
        let said = attempts.find_map(|said| said).unwrap_or(WAXSEAL_COMPARE_FAILED);
        AGAIN.set(outer);
        said
    }

    /// Before the wrong answer is given, the store is known to have failed: who sees what came of it sees that, too.
    #[cold]
    fn fail(&self) {
        let mut failed = failed();
        self.caller.fail(&self.given.name);
        if let Some(store) = self.caller.store() {
            failed.push((store, self.id(), self.given.name.clone()));
            ANY.store(failed.len(), Memory::Release);
        }
        self.has_failed.store(true, Memory::Release);
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Drop for GivenOf {
    /// The store is gone, and another store may reuse its id.
    fn drop(&mut self) {
        if self.has_failed.load(Memory::Acquire) {
            let mut failed = failed();
            failed.retain(|(_, id, _)| *id != self.id());
            ANY.store(failed.len(), Memory::Release);
        }
    }
}

/// Stores whose comparator failed, the address of the comparator, and its name.
static FAILED: Mutex<Vec<(StoreId, usize, String)>> = Mutex::new(Vec::new());
/// The length of `FAILED`.
static ANY: AtomicUsize = AtomicUsize::new(0);

fn failed() -> std::sync::MutexGuard<'static, Vec<(StoreId, usize, String)>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
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
pub(crate) struct Watch<F: Fn() -> Option<StoreId>>(pub(crate) F);

impl<F: Fn() -> Option<StoreId>> Drop for Watch<F> {
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

/// Adds a key order for families of the stores opened with these options. The store records the order's name, UTF-8,
/// and finds the comparator by it. A store with a family in a custom order cannot be opened without that order's
/// comparator. If `equal_means_same_bytes` is false, keys with different bytes may be equal, and filters are off.
/// Unless `destroy` is null, it destroys `context` once the options and all these stores are gone, or if this call
/// fails.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is empty or not UTF-8, and for a null function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_options_add_comparator(
    options: *mut waxseal_options_t,
    name: *const u8,
    name_len: usize,
    compare: waxseal_compare_fn,
    equal_means_same_bytes: bool,
    context: *mut c_void,
    destroy: waxseal_destroy_fn,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, error) = unsafe { (lent(name, name_len), out(error)) };
    let context = Context::new(context, destroy);
    answer(error, || {
        let given = Given::new(name, compare, equal_means_same_bytes, context)?;
        set_calling(options, move |builder, caller| builder.comparator(given.comparator_of(caller)))
    })
}

/// Sets the key order, as of `waxseal_options_add_comparator`, of families created with these options. The options of a
/// later open of the store need the comparator too.
///
/// One thread at a time. Errors: as of `waxseal_options_add_comparator`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_family_options_set_comparator(
    options: *mut waxseal_family_options_t,
    name: *const u8,
    name_len: usize,
    compare: waxseal_compare_fn,
    equal_means_same_bytes: bool,
    context: *mut c_void,
    destroy: waxseal_destroy_fn,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (name, error) = unsafe { (lent(name, name_len), out(error)) };
    let context = Context::new(context, destroy);
    answer(error, || set_order(options, Given::new(name, compare, equal_means_same_bytes, context)?))
}

/// Takes back the answer of the comparison that runs on this thread: the store asks its comparator again about the same two keys. After 16
/// answers that were taken back the comparator has failed, as by `WAXSEAL_COMPARE_FAILED`.
///
/// For languages in which a function may be left without an answer, as by the handler of a signal, and returns any number then.
/// Thread-safe: it is for the calling thread, that of the comparison, before it returns, and without effect elsewhere. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_compare_again() -> i32 {
    status_of(|| {
        AGAIN.set(true);
        Ok(())
    })
}
