//! Which standard streams the process was started without (`>&-` in a shell).
//!
//! The Rust runtime opens `/dev/null` in place of each one before `main`. A verb would read an empty input then, and
//! lose its output without an error. So a function that runs before the runtime looks at the descriptors.

#![allow(unsafe_code, reason = "fence: one function that runs before `main`")]

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{BorrowedFd, RawFd};
use rustix::io::{Errno, fcntl_getfd};

use crate::failure::{Exit, Failure};

static INPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls each function in this section once, before `main`. This one needs nothing of the runtime.
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    INPUT_IS_CLOSED.store(is_closed(0), Ordering::Relaxed);
    OUTPUT_IS_CLOSED.store(is_closed(1), Ordering::Relaxed);
}

fn is_closed(descriptor: RawFd) -> bool {
    // SAFETY: no other thread runs yet that could close the descriptor meanwhile. One that is closed gets `EBADF`.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_getfd(borrowed) == Err(Errno::BADF)
}

/// Fails if the process was started without a standard output.
pub(crate) fn check_output() -> Result<(), Failure> {
    check(&OUTPUT_IS_CLOSED, "standard output is closed: redirect it to /dev/null to discard the result")
}

/// Fails if the process was started without a standard input.
pub(crate) fn check_input() -> Result<(), Failure> {
    check(&INPUT_IS_CLOSED, "standard input is closed: redirect it from /dev/null to read nothing")
}

fn check(is_closed: &AtomicBool, message: &str) -> Result<(), Failure> {
    match is_closed.load(Ordering::Relaxed) {
        true => Err(Failure::new(Exit::Io, message)),
        false => Ok(()),
    }
}
