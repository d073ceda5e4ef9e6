//! The boundary: every function runs through `caught`.
//!
//! In: the body of a call, as a closure. Out: its result, or a status. A panic is caught here: it becomes
//! `WAXSEAL_INTERNAL` with the panic's message, and the objects that the call had locked return `WAXSEAL_INTERNAL` from
//! then on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Failure, Result, WAXSEAL_NOT_FOUND, WAXSEAL_OK};
use crate::order_failure::unwound;

/// The result of a successful call, convertible to a status.
pub(crate) trait IntoStatus {
    fn status(self) -> i32;
}

impl IntoStatus for () {
    fn status(self) -> i32 {
        WAXSEAL_OK
    }
}

/// True means found, false means not found.
impl IntoStatus for bool {
    fn status(self) -> i32 {
        if self { WAXSEAL_OK } else { WAXSEAL_NOT_FOUND }
    }
}

/// A status, returned unchanged.
impl IntoStatus for i32 {
    fn status(self) -> i32 {
        self
    }
}

/// Runs a call; a panic becomes a failure.
#[inline]
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)))
}

/// Runs a call that has no error argument and returns only a status.
#[inline]
pub(crate) fn status_of<A: IntoStatus>(call: impl FnOnce() -> Result<A>) -> i32 {
    caught(call).map_or_else(|failure| failure.status(), IntoStatus::status)
}

/// Runs a call that returns a value; returns `otherwise` if it failed.
#[inline]
pub(crate) fn value_of<T>(otherwise: T, call: impl FnOnce() -> Result<T>) -> T {
    catch_unwind(AssertUnwindSafe(call)).ok().and_then(Result::ok).unwrap_or(otherwise)
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Failure {
    let answer_given = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "no reason given",
    };
    let failure = unwound().unwrap_or_else(|| Failure::internal(format!("a call panicked: {answer_given}")));
    // The panic's payload may panic again when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(move || drop(panic)));
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::WAXSEAL_INTERNAL;

    #[test]
    fn a_panic_is_a_status() {
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
