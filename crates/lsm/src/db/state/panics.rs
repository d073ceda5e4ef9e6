//! Callbacks that panic. Comparators, record protectors, providers, sources and listeners belong to the application,
//! and each call of one may unwind.
//!
//! In a call: the panic propagates to the caller. Unwinding releases the call's locks, its plan's tables and the bytes
//!            of a half-written operation. If memory lags behind the disk (the log has a commit that the memtables
//!            lack, or the manifest an edit that the view lacks), the store halts first, so that no other thread
//!            continues from such a state.
//! In a lane: no caller would see the panic, and threads that wait for the lane would wait forever. It is caught in the
//!            lane's outermost function and the store halts: writes fail with `Halted` and the panic's message, reads
//!            continue, and closing returns.
//! After:     every acknowledged commit is in the log. Reopening starts from the state on disk.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::store_log::StoreLog;
use crate::db::notify::lanes::Lane;
use crate::error::{Error, ErrorKind, Result};
use crate::planted;

impl StoreLog {
    /// Performs a step of a lane; a panic halts the store.
    pub(in crate::db) fn catch_panic(&self, lane: Lane, step: impl FnOnce() -> Result<bool>) -> Result<bool> {
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
            let error = unwound(&format!("the lane {lane:?} was at work"), message_of(&*panic));
            std::mem::forget(panic); // dropping a payload would call the application's code again
            if let Some(log) = self.log() {
                log.wal().halt(error.clone());
            }
            self.lanes().fail(lane, &error);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.report_halt(&error))) {
                std::mem::forget(panic); // the listener panics too
            }
            Err(error)
        })
    }

    /// Halts the store while a panic unwinds. A report would be another callback, so the next writer gets the error
    /// instead.
    #[cold]
    pub(in crate::db) fn halt_unwound(&self, doing: &str) {
        planted!(PanickedCommitForgotten => return);
        if let Some(log) = self.log() {
            log.wal().halt(unwound(doing, ""));
        }
    }
}

fn unwound(doing: &str, message_of: &str) -> Error {
    let colon = if message_of.is_empty() { "" } else { ": " };
    Error::of(
        ErrorKind::Halted,
        format!("a callback (comparator, provider or listener) panicked while {doing}{colon}{message_of}"),
    )
}

/// Returns the message of a panic, if it is text.
fn message_of(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(owned).unwrap_or_default()
}
