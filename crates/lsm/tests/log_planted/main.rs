//! The log sweeps find every planted bug of the log. There is only one test, because a planted bug affects the whole
//! process.
#![cfg(feature = "planted")]

#[allow(dead_code, reason = "the other suite uses the rest")]
#[path = "../log/driver.rs"]
mod driver;

use std::panic::catch_unwind;

use driver::*;
use waxseal_lsm::planted::{Bug, plant};

#[test]
fn each_planted_bug_of_the_log_is_found() {
    let bugs = [
        Bug::AcknowledgeBeforeFsync,
        Bug::RecycledFrameReplayed,
        Bug::OlderSegmentNotSynced,
        Bug::SyncBeforeDrain,
        Bug::FsyncFailureForgotten,
        Bug::RingOverwritten,
        Bug::MarkBeforeFrame,
        Bug::AloneMarkedBeforeStored,
        Bug::AlonePassesOthers,
        Bug::BlocksNotReserved,
        Bug::TornTailNotReported,
        Bug::SegmentNotNamed,
        Bug::BehindLongerKept,
        Bug::SealedBeforeSync,
        Bug::RetiredBeforeDrained,
    ];
    for bug in bugs {
        plant(Some(bug));
        // A store to a page without a block kills the process; the simulated mapping panics instead.
        let found = catch_unwind(everything).unwrap_or_else(|_| Err("a panic".into()));
        plant(None);
        let fault = found.expect_err(&format!("{bug:?} passes"));
        println!("{bug:?}: {fault}");
    }
    everything().unwrap();
}

fn everything() -> Result<(), String> {
    for (name, script) in scripts() {
        for mapped in [true, false] {
            sweep(name, mapped, &script)?;
        }
    }
    sweep_over_segments_used_again()?;
    failed_sync(true)?;
    failed_sync(false)
}
