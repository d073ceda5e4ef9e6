//! Integrity maintenance: finding and repairing damage in a store.
//!
//! ```text
//! digest    count and sum of a snapshot, equal on every replica
//! verify    reads every byte, changes nothing
//! scrub     verifies rarely read data at a limited rate; resumes where it stopped
//! repair    repairs damage by the steps of docs/integrity.md; marks lost ranges where all fail
//! salvage   copies the readable records of a store, even one that does not open, into a new store
//! report    findings of all of these, for people and for programs
//! ```
//!
//! Decisions are pure functions (`plan`); calls to the engine carry them out (`waxseal_lsm::db`). A repair never uses
//! an older version of a record, and never chooses between two candidates.

mod carry;
mod digest;
mod losses;
mod options;
mod plan;
mod repair;
mod report;
mod salvage;
mod scrub;
mod spans;
mod table_queue;
mod values;
mod verify;

pub use digest::{Digest, digest};
pub use options::{
    Candidate, Corrupted, Decision, ErrorHandler, Progress, RepairOptions, RepairSource, SalvageOptions, ScrubOptions,
    VerifyOptions, Watch,
};
pub use report::{Finding, Outcome, Report, Rung, Step, Token, Visited};
pub use salvage::salvage;
pub use verify::verify_closed;

use waxseal_lsm::db::Db;
use waxseal_lsm::error::Result;

/// Verifies every table, block and record of an open store, its memtables, log and manifest, concurrently with readers
/// and writers. Errors: `Invalid` for an unknown family, `Closed`.
pub fn verify(db: &Db, options: VerifyOptions<'_>) -> Result<Report> {
    timed(db, || verify::verify(db, options))
}

/// Verifies the tables of a store at a limited rate, starting where the previous pass stopped. With `repair` set,
/// damage is repaired. Every lost range that is left is reported.
pub fn scrub(db: &Db, options: ScrubOptions<'_>) -> Result<Report> {
    timed(db, || with_lost_ranges(db, scrub::scrub(db, options)?))
}

/// Repairs every damaged table of a store; with `accept_loss` it also removes every lost range. Damage that cannot be
/// repaired is reported, and so is every lost range that is left. Errors: only if the store itself fails (`Io`,
/// `Halted`, `ReadOnly`, `Closed`).
pub fn repair(db: &Db, options: RepairOptions<'_>) -> Result<Report> {
    timed(db, || with_lost_ranges(db, repair::repair(db, options)?))
}

/// Adds the lost ranges of earlier passes, and those that the open made of damage in the log: the tables no longer have
/// their records, so a pass over the tables does not meet them.
fn with_lost_ranges(db: &Db, mut report: Report) -> Result<Report> {
    for family in db.families() {
        report.add_lost_ranges(&family, db.lost_ranges(&family));
    }
    Ok(report)
}

/// Runs a pass and adds its duration to the report.
fn timed(db: &Db, pass: impl FnOnce() -> Result<Report>) -> Result<Report> {
    let started = db.clock().monotonic_nanos();
    let report = pass()?;
    Ok(Report { nanos: db.clock().monotonic_nanos().saturating_sub(started), ..report })
}
