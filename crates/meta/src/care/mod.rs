//! Care: looking after a store that lies on devices which forget.
//!
//! ```text
//! digest    a count and a sum of what a snapshot sees, equal on every replica
//! verify    every byte looked at, nothing changed
//! scrub     the same, slowly, for data that nobody reads; goes on where it stopped
//! repair    what was found mended: the ladder of docs/integrity.md, and fences where it ends
//! salvage   what can still be read of a store that may not even open, into a new one
//! report    what all of them found, for people and for programs
//! ```
//!
//! Decisions are pure (`plan`), and the engine's calls carry them out (`waxseal_lsm::db`). Nothing is ever repaired from an older
//! version, and no two candidates make a repair.

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
mod turns;
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

/// Looks at every table, block and record of an open store, at its memtables and at what its log and manifest say, beside readers
/// and writers. Errors: `Invalid` for a family that is not there, `Closed`.
pub fn verify(db: &Db, options: VerifyOptions<'_>) -> Result<Report> {
    timed(db, || verify::verify(db, options))
}

/// Looks at the tables of a store at a pace, and goes on where the pass before stopped. With `repair` what is found is mended.
pub fn scrub(db: &Db, options: ScrubOptions<'_>) -> Result<Report> {
    timed(db, || scrub::scrub(db, options))
}

/// Mends every damaged table of a store, and with `accept_loss` lifts every fence. What cannot be mended is reported; an error
/// means that the store itself failed (`Io`, `Halted`, `ReadOnly`, `Closed`).
pub fn repair(db: &Db, options: RepairOptions<'_>) -> Result<Report> {
    timed(db, || repair::repair(db, options))
}

/// The report of a pass, with how long it took.
fn timed(db: &Db, pass: impl FnOnce() -> Result<Report>) -> Result<Report> {
    let started = db.clock().monotonic_nanos();
    let report = pass()?;
    Ok(Report { nanos: db.clock().monotonic_nanos().saturating_sub(started), ..report })
}
