//! The boundary: every fallible function runs through `answer`.
//!
//! In: the body of a call, as a closure, and the place for its error. Out: a status. A panic is caught here: it becomes
//! `WAXSEAL_INTERNAL` with the panic's message, and the objects that the call had locked return `WAXSEAL_INTERNAL` from
//! then on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::comparator::unwound;
use crate::error::{Failure, Result, WAXSEAL_NOT_FOUND, WAXSEAL_OK, fail, waxseal_error_t};
use crate::lent::Out;

/// The result of a successful call, convertible to a status.
pub(crate) trait Answer {
    fn status(self) -> i32;
}

impl Answer for () {
    fn status(self) -> i32 {
        WAXSEAL_OK
    }
}

/// True means found, false means not found.
impl Answer for bool {
    fn status(self) -> i32 {
        if self { WAXSEAL_OK } else { WAXSEAL_NOT_FOUND }
    }
}

/// A status, returned unchanged.
impl Answer for i32 {
    fn status(self) -> i32 {
        self
    }
}

/// Runs a call. On failure its error is written to `error`, unless that is null.
#[inline]
pub(crate) fn answer<A: Answer>(error: Out<'_, *mut waxseal_error_t>, call: impl FnOnce() -> Result<A>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(answer)) => answer.status(),
        Ok(Err(failure)) => fail(error, &failure),
        Err(panic) => fail(error, &panicked(panic)),
    }
}

/// Runs a call that has no error argument and returns only a status.
#[inline]
pub(crate) fn status_of<A: Answer>(call: impl FnOnce() -> Result<A>) -> i32 {
    answer(Out::nowhere(), call)
}

/// Runs a call that returns a value; returns `otherwise` if it failed.
#[inline]
pub(crate) fn value_of<T>(otherwise: T, call: impl FnOnce() -> Result<T>) -> T {
    catch_unwind(AssertUnwindSafe(call)).ok().and_then(Result::ok).unwrap_or(otherwise)
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Failure {
    let said = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "no reason given",
    };
    let failure = unwound().unwrap_or_else(|| Failure::internal(format!("a call panicked: {said}")));
    // The panic's payload may panic again when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(move || drop(panic)));
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{WAXSEAL_INTERNAL, waxseal_error_code, waxseal_error_destroy};
    use crate::lent::out;

    #[test]
    fn a_panic_is_a_status_with_its_message() {
        let mut error = std::ptr::null_mut();
        // SAFETY: a place of ours.
        let place = unsafe { out(&mut error) };
        assert_eq!(answer(place, || -> Result<()> { panic!("so it goes") }), WAXSEAL_INTERNAL);
        assert_eq!(waxseal_error_code(error), WAXSEAL_INTERNAL);
        assert_eq!(waxseal_error_destroy(error), WAXSEAL_OK);
        assert_eq!(status_of(|| -> Result<()> { std::panic::panic_any(7) }), WAXSEAL_INTERNAL);
        assert!(value_of(true, || -> Result<bool> { panic!("so it goes") }));
    }

    /// A panic's payload may itself panic.
    #[test]
    fn a_panic_in_a_panic_is_caught() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(status_of(|| -> Result<()> { std::panic::panic_any(Bomb) }), WAXSEAL_INTERNAL);
    }
}
