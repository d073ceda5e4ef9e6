//! Orders of keys that a caller gives.
//!
//! An order is asked for in the middle of everything: by reads, by writes, by flushes and compactions in the background. None of these can
//! go on without an answer, and none may go on with a wrong one. So a comparator that fails once has failed its store for good:
//!
//! - every key that is not the same bytes is *greater* from then on. A search ends somewhere, and whoever puts records in order finds
//!   them out of order, which the engine refuses to write;
//! - whatever is asked of the store, from before the failure or after it, answers `WAXSEAL_CALLBACK` instead of what it found;
//! - what was acknowledged stands in the log: the store is whole when it is opened anew.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};
use std::sync::{Arc, Mutex, PoisonError};

use face::{Comparator, Order, StoreId};

use crate::call::answer;
use crate::callback::{Caller, Context, waxseal_destroy_fn};
use crate::error::{Failure, Result, WAXSEAL_CALLBACK, waxseal_error_t};
use crate::family_options::{set_order, waxseal_family_options_t};
use crate::lent::{Lent, lent, out};
use crate::options::{set_calling, waxseal_options_t};

/// What a comparator answers if it cannot compare.
pub const WAXSEAL_COMPARE_FAILED: i32 = i32::MIN;

/// Compares two keys: negative if `a` comes before `b`, 0 if they are equal, positive if `a` comes behind `b`. Both are lent for the call.
/// The order must be total and the same for all time: the store is laid out by it. It is not asked about keys of the same bytes, which are
/// equal. Called on any thread, and by several at once; it must not call the store whose keys it compares.
///
/// `WAXSEAL_COMPARE_FAILED`: it cannot compare. Every call to this store, the one that is going on among them, answers
/// `WAXSEAL_CALLBACK` from then on; what was acknowledged is there when it is closed and opened again.
pub type waxseal_compare_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, a: *const u8, a_len: usize, b: *const u8, b_len: usize) -> i32>;

/// A comparator that a caller gave, for any stores.
pub(crate) struct Given {
    name: String,
    function: unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> i32,
    equal_means_same_bytes: bool,
    context: Context,
}

impl Given {
    /// Takes what a caller gives. If that cannot be, the context is ended.
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

    /// The order for one store.
    pub(crate) fn order_of(self: &Arc<Given>, caller: &Caller) -> Order {
        Order::custom(self.comparator_of(caller))
    }

    fn comparator_of(self: &Arc<Given>, caller: &Caller) -> Arc<dyn Comparator> {
        Arc::new(GivenOf { given: Arc::clone(self), caller: caller.clone(), has_failed: AtomicBool::new(false) })
    }
}

/// The same for one store.
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
        let Given { function, context, .. } = &*self.given;
        // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
        let said = self.caller.calls(|| unsafe { function(context.get(), a.as_ptr(), a.len(), b.as_ptr(), b.len()) });
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
    /// The store is gone, and its number may become another's.
    fn drop(&mut self) {
        if self.has_failed.load(Memory::Acquire) {
            let mut failed = failed();
            failed.retain(|(_, id, _)| *id != self.id());
            ANY.store(failed.len(), Memory::Release);
        }
    }
}

/// Stores whose comparator failed, which one, and its name.
static FAILED: Mutex<Vec<(StoreId, usize, String)>> = Mutex::new(Vec::new());
/// How many they are.
static ANY: AtomicUsize = AtomicUsize::new(0);

fn failed() -> std::sync::MutexGuard<'static, Vec<(StoreId, usize, String)>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `WAXSEAL_CALLBACK` if the comparator of this store has failed.
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
    /// The failure of a store in whose object a call of this thread just panicked.
    static UNWOUND: Cell<Option<Failure>> = const { Cell::new(None) };
}

/// Watches a call over an object of a store. If it panics in a store whose comparator has failed, that is the reason: where a wrong order
/// leads to is no bug of the library.
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

/// Why the call of this thread that just panicked did so, if it is known.
pub(crate) fn unwound() -> Option<Failure> {
    UNWOUND.try_with(Cell::take).ok().flatten()
}

/// A store was opened: tells who calls for it, unless a comparator failed before.
pub(crate) fn opened(caller: &Caller, store: StoreId) -> Result<()> {
    let _failed = failed(); // nobody fails between the two
    caller.is(store);
    check_opening(caller)
}

/// `WAXSEAL_CALLBACK` if a comparator of a store that is being opened has failed.
pub(crate) fn check_opening(caller: &Caller) -> Result<()> {
    caller.failed().map_or(Ok(()), |name| Err(has_failed(name)))
}

fn has_failed(name: &str) -> Failure {
    let message = format!("the comparator {name:?} could not compare two keys; close the store and open it again");
    Failure::Call(WAXSEAL_CALLBACK, message.into())
}

/// An order that families of the stores have that are opened with these options, looked up by its name, UTF-8, which the store keeps. A store
/// with a family in another order than bytewise cannot be opened without it. `equal_means_same_bytes` false: keys of other bytes may be equal,
/// and filters are off. `destroy`, unless null, ends `context` once the options and all these stores are gone, or if this call fails.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is empty or no UTF-8, and for a null function.
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

/// The order of a family, as of `waxseal_options_add_comparator`, for families that are made with these options. When the store is opened
/// again, its options need it too.
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
