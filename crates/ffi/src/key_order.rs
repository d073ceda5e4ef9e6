//! Key orders that a caller supplies, as the engine calls them.
//!
//! After a comparator has failed (`order_failure`), keys with different bytes compare as *greater*. A search therefore
//! terminates, and a writer of sorted records finds them out of order, which the engine refuses to write.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

use face::{Comparator, Order};

use crate::callback::Context;
use crate::failure::{Failure, Result};
use crate::given_function::GivenFunction;
use crate::lent::Lent;
use crate::order_failure::{forget, record};
use crate::reentry::Caller;

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
    given: GivenFunction<waxseal_compare_fn>,
    equal_means_same_bytes: bool,
}

impl Given {
    /// Validates the caller's comparator. On an error the context is destroyed.
    pub(crate) fn new(
        name: Lent<'_>,
        function: waxseal_compare_fn,
        equal_means_same_bytes: bool,
        context: Context,
    ) -> Result<Arc<Given>> {
        let given = GivenFunction::new("comparator", name, function, context)?;
        if given.name().is_empty() {
            return Err(Failure::invalid("a comparator needs a name: the store keeps it"));
        }
        Ok(Arc::new(Given { given, equal_means_same_bytes }))
    }

    /// Returns the order for one store.
    pub(crate) fn order_of(self: &Arc<Given>, caller: &Caller) -> Order {
        Order::custom(self.comparator_of(caller))
    }

    pub(crate) fn comparator_of(self: &Arc<Given>, caller: &Caller) -> Arc<dyn Comparator> {
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
        self.given.given.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        if self.has_failed.load(Memory::Acquire) {
            return Ordering::Greater;
        }
        let answer_given = self.ask(a, b);
        if answer_given == WAXSEAL_COMPARE_FAILED {
            self.fail();
            return Ordering::Greater;
        }
        answer_given.cmp(&0)
    }

    fn equal_means_same_bytes(&self) -> bool {
        self.given.equal_means_same_bytes
    }
}

impl GivenOf {
    /// Calls the function, and again while it takes its answer back.
    fn ask(&self, a: &[u8], b: &[u8]) -> i32 {
        let (function, context) = self.given.given.parts();
        let outer = AGAIN.replace(false); // of a comparator that called another store
        let mut attempts = (0..MOST_ATTEMPTS).map(|_| {
            // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
            let call = || unsafe { function(context, a.as_ptr(), a.len(), b.as_ptr(), b.len()) };
            let answer_given = self.caller.calls(call);
            (!AGAIN.replace(false)).then_some(answer_given)
        });
        let answer_given = attempts.find_map(|answer_given| answer_given).unwrap_or(WAXSEAL_COMPARE_FAILED);
        AGAIN.set(outer);
        answer_given
    }

    /// Records the failure before the wrong answer is returned: every call that the answer affects finds the record.
    #[cold]
    fn fail(&self) {
        record(&self.caller, self.id(), self.name());
        self.has_failed.store(true, Memory::Release);
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Drop for GivenOf {
    fn drop(&mut self) {
        if self.has_failed.load(Memory::Acquire) {
            forget(self.id());
        }
    }
}

/// Takes back the answer of the comparison that runs on this thread.
pub(crate) fn repeat_comparison() {
    AGAIN.set(true);
}
