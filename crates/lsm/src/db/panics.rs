//! Callbacks that panic. Comparators, keepers of companions, providers, sources and listeners are the caller's, and every call of one may unwind.
//!
//! In a call:  the panic goes on to the caller, whose code it was. What the call had taken is given back on the way: locks, tables of a
//!             plan, the bytes of half an operation. Where memory would stay behind what is on disk, it halts the store first: a commit that is
//!             in the log and not in its memtables, an edit that is in the manifest and not in the view. Nobody else may go on from there.
//! In a lane:  nobody would hear of it, and whoever waits for the lane would wait for ever. It is caught at the lane's edge and the store
//!             halts: writes answer `Halted` with what the panic said, reads go on, closing returns.
//! After:      what was acknowledged is in the log. Opening anew begins from what is on disk.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Inner;
use super::background::Lane;
use crate::error::{Error, ErrorKind, Result};
use crate::planted::{self, Bug};

impl Inner {
    /// Does a step of a lane. One that panics halts the store.
    pub(super) fn caught(&self, lane: Lane, step: impl FnOnce() -> Result<bool>) -> Result<bool> {
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
            let error = unwound(&format!("the lane {lane:?} was at work"), said(&*panic));
            std::mem::forget(panic); // to drop what somebody threw is one more call of theirs
            if let Some(log) = &self.log {
                log.wal().halt(error.clone());
            }
            self.background.fail(lane, &error);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.tell_halted(&error))) {
                std::mem::forget(panic); // the listener panics too
            }
            Err(error)
        })
    }

    /// Halts the store on the way out of a panic. Nobody is told now, for that would be one more callback; whoever writes next is.
    #[cold]
    pub(super) fn halt_unwound(&self, doing: &str) {
        if let Some(log) = &self.log
            && !planted::active(Bug::PanickedCommitForgotten)
        {
            log.wal().halt(unwound(doing, ""));
        }
    }
}

fn unwound(doing: &str, said: &str) -> Error {
    let colon = if said.is_empty() { "" } else { ": " };
    Error::of(
        ErrorKind::Halted,
        format!("a callback (comparator, provider or listener) panicked while {doing}{colon}{said}"),
    )
}

/// What a panic said, as far as it is text.
fn said(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(owned).unwrap_or_default()
}
