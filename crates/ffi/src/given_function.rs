//! A function that a caller supplied under a name: a comparator, a merge operator, a compaction filter, a property.
//!
//! In:    the name, the function and its context, as the caller passes them. Out: a value that may be called on any
//!        thread.
//! Holds: the context is destroyed once the value is gone, or if it is refused.

use std::ffi::c_void;

use crate::callback::{Context, try_ask};
use crate::error::waxseal_error_t;
use crate::failure::{Failed, Failure, Result};
use crate::lent::Lent;
use crate::reentry::Caller;

/// A pointer to a function of C, which may be null.
pub(crate) trait NullableFunction {
    /// The function.
    type Function: Copy;

    /// Returns the function; `None` for a null pointer.
    fn function(self) -> Option<Self::Function>;
}

impl<F: Copy> NullableFunction for Option<F> {
    type Function = F;

    fn function(self) -> Option<F> {
        self
    }
}

/// A function of the caller with its name and its context. `P` is the pointer type of the header.
pub(crate) struct GivenFunction<P: NullableFunction> {
    name: String,
    function: P::Function,
    context: Context,
}

impl<P: NullableFunction> GivenFunction<P> {
    /// Validates what a caller passes; `what` names its kind. On an error the context is destroyed.
    pub(crate) fn new(what: &str, name: Lent<'_>, function: P, context: Context) -> Result<GivenFunction<P>> {
        let name = name.text(&format!("name of the {what}"))?.to_owned();
        let function = function.function();
        let function = function.ok_or_else(|| Failure::invalid(format!("the {what} is a null pointer")))?;
        Ok(GivenFunction { name, function, context })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the function and the pointer to its context.
    pub(crate) fn parts(&self) -> (P::Function, *mut c_void) {
        (self.function, self.context.get())
    }

    /// Calls the function, by `call` with its context and the place for its error. Fails with the reason that the
    /// function gives for a negative status.
    pub(crate) fn try_ask(
        &self,
        caller: &Caller,
        call: impl FnOnce(P::Function, *mut c_void, *mut *mut waxseal_error_t) -> i32,
    ) -> std::result::Result<i32, Failed> {
        let (function, context) = self.parts();
        try_ask(caller, |error| call(function, context, error))
    }
}
